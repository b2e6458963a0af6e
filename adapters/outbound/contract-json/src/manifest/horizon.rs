//! Durations in manifests: `90s`, `15m`, `12h`, `7d`.
//!
//! Invariant: whole seconds, one unit, no sign, no leading zero; the writer takes the largest unit
//! that divides the duration.

use std::time::Duration;

pub(crate) const RULE: &str = "is a whole number and a unit, s, m, h or d, such as `7d`";

const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)];

pub(crate) fn parse(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let (_, seconds) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    let digits = &text[..text.len() - unit.len_utf8()];
    let canonical = !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && !digits.starts_with('0');
    if !canonical {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(seconds).map(Duration::from_secs)
}

pub(crate) fn render(duration: Duration) -> Option<String> {
    let seconds = duration.as_secs();
    if seconds == 0 || duration.subsec_nanos() != 0 {
        return None;
    }
    let (unit, size) = UNITS
        .into_iter()
        .find(|(_, size)| seconds.is_multiple_of(*size))?;
    Some(format!("{}{unit}", seconds / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_agree() {
        for (text, seconds) in [
            ("1s", 1),
            ("90s", 90),
            ("15m", 900),
            ("12h", 43_200),
            ("7d", 604_800),
        ] {
            assert_eq!(parse(text), Some(Duration::from_secs(seconds)));
            assert_eq!(render(Duration::from_secs(seconds)).as_deref(), Some(text));
        }
        assert_eq!(parse("168h"), parse("7d"));
        for bad in [
            "",
            "7",
            "d",
            "0d",
            "07d",
            "-1d",
            "1.5d",
            "7 d",
            "7w",
            "7D",
            "999999999999999999d",
            "7é",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert_eq!(render(Duration::from_millis(1500)), None);
        assert_eq!(render(Duration::ZERO), None);
    }
}
