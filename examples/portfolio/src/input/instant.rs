//! Reading `YYYY-MM-DDThh:mm:ss[.fraction]Z`.
//!
//! Invariant: only UTC and only real days between the years 1 and 9999 are read, so that every
//! store and the envelope write the same instant back.

use domain_core::instant::OccurredAt;

/// The rule that an instant's text must keep.
pub(super) const RULE: &str =
    "an instant is YYYY-MM-DDThh:mm:ss[.fraction of 1 to 9 digits]Z in UTC";

/// Reads an instant, or `None` when the text breaks [`RULE`].
pub(super) fn parse(text: &str) -> Option<OccurredAt> {
    let text = text.strip_suffix('Z')?.as_bytes();
    if text.len() < 19 {
        return None;
    }
    let (whole, fraction) = text.split_at(19);
    for (place, separator) in [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')] {
        if whole[place] != separator {
            return None;
        }
    }
    let number = |from: usize, to: usize| digits(&whole[from..to]);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let valid = year >= 1
        && (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !valid {
        return None;
    }
    let days = days_since_epoch(year, month, day);
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    OccurredAt::new(seconds, nanos(fraction)?).ok()
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |number, digit| {
        digit
            .is_ascii_digit()
            .then(|| number * 10 + i64::from(digit - b'0'))
    })
}

fn nanos(fraction: &[u8]) -> Option<u32> {
    if fraction.is_empty() {
        return Some(0);
    }
    let figures = fraction.strip_prefix(b".")?;
    if !(1..=9).contains(&figures.len()) {
        return None;
    }
    let scale = 10_i64.pow(9 - u32::try_from(figures.len()).ok()?);
    u32::try_from(digits(figures)? * scale).ok()
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01, by counting leap days up to the year before.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let days_before_year = before * 365 + before / 4 - before / 100 + before / 400;
    let days_in_year: i64 = (1..month).map(|month| days_in_month(year, month)).sum();
    // 719,162 days lie between 0001-01-01 and 1970-01-01.
    days_before_year + days_in_year + day - 1 - 719_162
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants() {
        for (text, seconds, nanos) in [
            ("1970-01-01T00:00:00Z", 0, 0),
            ("2026-07-28T05:10:30.123Z", 1_785_215_430, 123_000_000),
            ("1969-12-31T23:59:59.999999999Z", -1, 999_999_999),
            ("2000-02-29T12:00:00Z", 951_825_600, 0),
            ("0001-01-01T00:00:00Z", -62_135_596_800, 0),
            ("9999-12-31T23:59:59Z", 253_402_300_799, 0),
        ] {
            let instant = parse(text).expect(text);
            assert_eq!(
                (instant.seconds(), instant.nanos()),
                (seconds, nanos),
                "{text}"
            );
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for bad in [
            "",
            "Z",
            "2026-07-28",
            "2026-07-28T05:10:30",
            "2026-07-28T05:10:30+00:00",
            "2026-07-28T05:10:30.Z",
            "2026-07-28T05:10:30.1234567890Z",
            "2026-07-28 05:10:30Z",
            "2026-02-29T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-07-28T24:00:00Z",
            "2026-07-28T23:59:60Z",
            "0000-01-01T00:00:00Z",
            "+026-07-28T05:10:30Z",
            "２０２６-07-28T05:10:30Z",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
