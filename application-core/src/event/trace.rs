//! W3C trace context, validated before it is stored.
//!
//! Invariant: a stored `traceparent` has 55 US-ASCII bytes and a stored `tracestate` at most 512
//! printable ones; what comes in otherwise is refused, not forwarded (requirement 004 §14.3; W3C
//! Trace Context §§3.2–3.3).

/// Why a trace context is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TraceContextError {
    /// Not `00-<32 hex>-<16 hex>-<2 hex>` with nonzero ids.
    #[error("traceparent is not a version-00 W3C trace parent of 55 bytes")]
    Parent,
    /// Too long or not printable.
    #[error("tracestate is empty, longer than 512 bytes or not printable US-ASCII")]
    State,
}

/// A validated `traceparent` and, with it, an optional `tracestate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    parent: String,
    state: Option<String>,
}

impl TraceContext {
    /// Bytes of a `traceparent`.
    pub const PARENT_BYTES: usize = 55;

    /// Accepts header values.
    ///
    /// # Errors
    /// [`TraceContextError`] with the rule.
    pub fn parse(parent: &str, state: Option<&str>) -> Result<Self, TraceContextError> {
        if !is_trace_parent(parent) {
            return Err(TraceContextError::Parent);
        }
        let printable = |text: &str| {
            (1..=512).contains(&text.len()) && text.bytes().all(|b| matches!(b, 0x20..=0x7E))
        };
        if state.is_some_and(|text| !printable(text)) {
            return Err(TraceContextError::State);
        }
        Ok(Self {
            parent: parent.to_owned(),
            state: state.map(str::to_owned),
        })
    }

    /// The `traceparent` value.
    pub fn parent(&self) -> &str {
        &self.parent
    }

    /// The `tracestate` value.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

fn is_trace_parent(text: &str) -> bool {
    let hex = |part: &str, length: usize| {
        part.len() == length
            && part
                .bytes()
                .all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
    };
    let nonzero = |part: &str| part.bytes().any(|byte| byte != b'0');
    let mut parts = text.split('-');
    matches!(
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next()),
        (Some("00"), Some(trace), Some(span), Some(flags), None)
            if hex(trace, 32) && nonzero(trace) && hex(span, 16) && nonzero(span) && hex(flags, 2)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn only_version_00_parents_with_nonzero_ids_pass() {
        assert_eq!(PARENT.len(), TraceContext::PARENT_BYTES);
        assert!(TraceContext::parse(PARENT, Some("vendor=1")).is_ok());
        for bad in [
            "",
            &PARENT[1..],
            &PARENT.to_uppercase(),
            &PARENT.replacen("00", "01", 1),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            &format!("{PARENT}-x"),
        ] {
            assert_eq!(
                TraceContext::parse(bad, None),
                Err(TraceContextError::Parent),
                "{bad}"
            );
        }
        for bad in ["", "a\r\nb", &"x".repeat(513)] {
            assert_eq!(
                TraceContext::parse(PARENT, Some(bad)),
                Err(TraceContextError::State)
            );
        }
    }
}
