//! `occurredAt`: the one text form of an occurrence time.
//!
//! Invariant: `YYYY-MM-DDThh:mm:ss.sssZ`, 24 characters, years 0001 to 9999, finer parts cut
//! towards the past (requirement 004 §14.2).

use domain_core::instant::OccurredAt;
use time::{Date, Month, OffsetDateTime, Time};

/// The years that the form can express.
pub(crate) const YEARS: &str = "0001 to 9999";

/// The text form, or nothing when the year is outside [`YEARS`].
pub(crate) fn render(occurred_at: OccurredAt) -> Option<String> {
    let moment = OffsetDateTime::from_unix_timestamp(occurred_at.seconds()).ok()?;
    if !(1..=9999).contains(&moment.year()) {
        return None;
    }
    Some(format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        moment.year(),
        u8::from(moment.month()),
        moment.day(),
        moment.hour(),
        moment.minute(),
        moment.second(),
        occurred_at.nanos() / 1_000_000
    ))
}

/// Reads exactly what [`render`] writes.
pub(crate) fn parse(text: &str) -> Option<OccurredAt> {
    let bytes: &[u8; 24] = text.as_bytes().try_into().ok()?;
    for (place, mark) in [
        (4, b'-'),
        (7, b'-'),
        (10, b'T'),
        (13, b':'),
        (16, b':'),
        (19, b'.'),
        (23, b'Z'),
    ] {
        if bytes[place] != mark {
            return None;
        }
    }
    let number = |from: usize, to: usize| {
        bytes[from..to].iter().try_fold(0_u16, |number, byte| {
            byte.is_ascii_digit()
                .then(|| number * 10 + u16::from(byte - b'0'))
        })
    };
    let small = |from: usize| number(from, from + 2).and_then(|number| u8::try_from(number).ok());
    let year = number(0, 4).filter(|year| *year >= 1)?;
    let month = Month::try_from(small(5)?).ok()?;
    let date = Date::from_calendar_date(i32::from(year), month, small(8)?).ok()?;
    let time = Time::from_hms(small(11)?, small(14)?, small(17)?).ok()?;
    let moment = OffsetDateTime::new_utc(date, time);
    let nanos = u32::from(number(20, 23)?) * 1_000_000;
    OccurredAt::new(moment.unix_timestamp(), nanos).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, nanos: u32) -> Option<String> {
        render(OccurredAt::new(seconds, nanos).expect("in range"))
    }

    #[test]
    fn finer_parts_are_cut_and_years_are_bounded() {
        assert_eq!(at(0, 0).as_deref(), Some("1970-01-01T00:00:00.000Z"));
        assert_eq!(
            at(-1, 999_999_999).as_deref(),
            Some("1969-12-31T23:59:59.999Z")
        );
        assert_eq!(
            at(0, 123_999_999).as_deref(),
            Some("1970-01-01T00:00:00.123Z")
        );
        assert_eq!(
            at(-62_135_596_800, 0).as_deref(),
            Some("0001-01-01T00:00:00.000Z")
        );
        assert_eq!(at(-62_135_596_801, 0), None);
        assert_eq!(
            at(253_402_300_799, 999_999_999).as_deref(),
            Some("9999-12-31T23:59:59.999Z")
        );
        assert_eq!(at(253_402_300_800, 0), None);
        assert_eq!(at(i64::from(i32::MAX) * 1_000_000, 0), None);
    }

    #[test]
    fn only_the_written_form_is_read() {
        for good in [
            "0001-01-01T00:00:00.000Z",
            "2024-02-29T23:59:59.999Z",
            "9999-12-31T23:59:59.999Z",
        ] {
            assert_eq!(parse(good).and_then(render).as_deref(), Some(good));
        }
        for bad in [
            "",
            "2023-02-29T00:00:00.000Z",
            "0000-01-01T00:00:00.000Z",
            "2023-13-01T00:00:00.000Z",
            "2023-01-01T24:00:00.000Z",
            "2023-01-01T23:59:60.000Z",
            "2023-01-01T00:00:00Z",
            "2023-01-01T00:00:00.0000Z",
            "2023-01-01t00:00:00.000z",
            "2023-01-01T00:00:00.000+00:00",
            "2023-01-01 00:00:00.000Z",
            "+023-01-01T00:00:00.000Z",
            "２023-01-01T00:00:00.0Z",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
