//! Durations and counts as people write them.
//!
//! Invariant: zero, negative, fractional and overflowing values are refused with the bound.

use std::time::Duration;

/// Ten years; nothing here is meant to last longer.
const LONGEST: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

/// Reads `500ms`, `90s`, `15m`, `2h` or `7d`.
///
/// # Errors
/// The rule that was broken.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err("is a whole number with ms, s, m, h or d, such as `90s`".to_owned()),
    };
    let count: u64 = digits
        .parse()
        .map_err(|_| "is a whole number with ms, s, m, h or d, such as `90s`".to_owned())?;
    let duration = count
        .checked_mul(milliseconds)
        .map(Duration::from_millis)
        .filter(|duration| *duration <= LONGEST)
        .ok_or_else(|| "exceeds 3650d".to_owned())?;
    if duration.is_zero() {
        return Err("is zero; at least 1ms is required".to_owned());
    }
    Ok(duration)
}

/// Reads a count within bounds.
///
/// # Errors
/// The rule that was broken.
pub(super) fn count(value: i64, minimum: i64, maximum: i64) -> Result<u32, String> {
    u32::try_from(value)
        .ok()
        .filter(|_| (minimum..=maximum).contains(&value))
        .ok_or_else(|| format!("is {value}; {minimum} to {maximum} is allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_and_a_bound() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("7d"), Ok(Duration::from_secs(604_800)));
        for bad in [
            "",
            "5",
            "s",
            "-5s",
            "1.5s",
            "5 s",
            "0s",
            "0ms",
            "3651d",
            "5S",
            "+5s",
            "18446744073709551615d",
            "99999999999999999999s",
        ] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn counts_name_their_bounds() {
        assert_eq!(count(5, 1, 10), Ok(5));
        for bad in [0, -1, 11, i64::MIN, i64::MAX] {
            assert_eq!(
                count(bad, 1, 10),
                Err(format!("is {bad}; 1 to 10 is allowed"))
            );
        }
    }
}
