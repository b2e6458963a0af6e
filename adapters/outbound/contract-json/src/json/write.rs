//! The canonical writer.
//!
//! Invariant: only `"`, `\` and the control characters below U+0020 are escaped: `\b`, `\t`, `\n`,
//! `\f`, `\r` where JSON has a short form, `\u00xx` in lower case otherwise. Everything else,
//! `/`, U+007F and non-ASCII characters included, is written as it is. This is the form of RFC
//! 8785 §3.2.2.2. No byte is written past the limit.

/// Why nothing more was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteRefusal {
    /// The limit is reached.
    Full,
    /// A string holds U+0000.
    Nul,
}

/// A growing document that never outgrows its limit.
pub(crate) struct JsonWriter {
    bytes: Vec<u8>,
    limit: usize,
}

impl JsonWriter {
    /// An empty document of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
        }
    }

    /// Bytes written.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that the document may have.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Changes the limit for what follows.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The document.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes punctuation or another text that needs no escape.
    pub(crate) fn raw(&mut self, text: &str) -> Result<(), WriteRefusal> {
        if text.len() > self.limit.saturating_sub(self.bytes.len()) {
            return Err(WriteRefusal::Full);
        }
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// Writes a JSON string.
    pub(crate) fn string(&mut self, text: &str) -> Result<(), WriteRefusal> {
        if text.contains('\0') {
            return Err(WriteRefusal::Nul);
        }
        self.raw("\"")?;
        let mut start = 0;
        for (index, byte) in text.bytes().enumerate() {
            if let Some(escape) = escape(byte) {
                self.raw(&text[start..index])?;
                self.raw(&escape)?;
                start = index + 1;
            }
        }
        self.raw(&text[start..])?;
        self.raw("\"")
    }

    /// Writes an integer in decimal.
    pub(crate) fn integer(&mut self, number: i64) -> Result<(), WriteRefusal> {
        self.raw(&number.to_string())
    }
}

/// The escape of one byte, where it needs one.
fn escape(byte: u8) -> Option<std::borrow::Cow<'static, str>> {
    let short = match byte {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        0x08 => "\\b",
        b'\t' => "\\t",
        b'\n' => "\\n",
        0x0C => "\\f",
        b'\r' => "\\r",
        0x00..=0x1F => return Some(format!("\\u{byte:04x}").into()),
        _ => return None,
    };
    Some(short.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        let mut writer = JsonWriter::new(usize::MAX);
        writer.string(text).expect("fits");
        String::from_utf8(writer.into_bytes()).expect("UTF-8")
    }

    #[test]
    fn every_control_character_has_one_form() {
        let text: String = (1..=0x20).map(char::from).collect();
        assert_eq!(
            written(&text),
            concat!(
                r#""\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e\u000f"#,
                r#"\u0010\u0011\u0012\u0013\u0014\u0015\u0016\u0017\u0018\u0019\u001a\u001b"#,
                r#"\u001c\u001d\u001e\u001f ""#
            )
        );
        assert_eq!(
            written("\"\\/\u{7f}é\u{2028}🛰"),
            "\"\\\"\\\\/\u{7f}é\u{2028}🛰\""
        );
    }

    #[test]
    fn the_limit_is_never_passed() {
        let mut writer = JsonWriter::new(4);
        assert_eq!(writer.string("abc"), Err(WriteRefusal::Full));
        assert!(writer.len() <= 4);
        let mut writer = JsonWriter::new(5);
        assert_eq!(writer.string("abc"), Ok(()));
        assert_eq!(writer.raw(","), Err(WriteRefusal::Full));
        assert_eq!(JsonWriter::new(9).string("\0"), Err(WriteRefusal::Nul));
    }
}
