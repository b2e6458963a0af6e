//! Texts that are not strict JSON.
//!
//! Invariant: the light path, which the relay takes before each send, is as strict about JSON and
//! the envelope as the full one.

use crate::fixture::{changed, contract, document, standard};
use application_core::ports::{DecodeError, EnvelopeCodec};
use domain_core::identity::TenantMode;
use outbound_contract_json::JsonEnvelopeCodec;

/// The rule of a JSON refusal; both paths must give it.
fn json_rule(bytes: &[u8]) -> (usize, String) {
    let codec = standard();
    let light = codec.read_identities(bytes).map(|_| ());
    let full = codec.decode(bytes).map(|_| ());
    assert_eq!(light, full, "{}", String::from_utf8_lossy(bytes));
    match full {
        Err(DecodeError::Json { offset, rule }) => (offset, rule),
        other => panic!("{}: {other:?}", String::from_utf8_lossy(bytes)),
    }
}

#[test]
fn the_unchanged_document_is_accepted_by_both_paths() {
    let codec = standard();
    let document = document();
    let decoded = codec.decode(document.as_bytes()).expect("decodes");
    assert_eq!(
        codec.read_identities(document.as_bytes()),
        Ok(decoded.identities)
    );
    let payload =
        &document[document.find("\"payload\":").expect("payload") + 10..document.len() - 1];
    assert_eq!(decoded.payload, payload.as_bytes());
}

#[test]
fn payload_bytes_are_the_source_bytes() {
    let spaced = changed(
        "\"payload\":{\"title\":\"A title\"",
        "\"payload\" :\n { \"title\" : \"\\u0041 title\"",
    );
    let decoded = standard().decode(spaced.as_bytes()).expect("decodes");
    assert!(
        decoded
            .payload
            .starts_with(b"{ \"title\" : \"\\u0041 title\"")
    );
}

#[test]
fn member_names_are_unique_after_unescaping() {
    for (from, to) in [
        ("\"eventId\":", "\"eventId\":\"a\",\"eventId\":"),
        ("\"eventId\":", "\"\\u0065ventId\":\"a\",\"eventId\":"),
        ("\"payload\":", "\"payload\":{},\"payload\":"),
        ("\"sequence\":17", "\"sequence\":17,\"sequence\":17"),
        ("\"title\":", "\"title\":\"a\",\"title\":"),
        ("\"title\":", "\"titl\\u0065\":\"a\",\"title\":"),
        ("\"team\":", "\"team\":\"a\",\"team\":"),
    ] {
        let (offset, rule) = json_rule(changed(from, to).as_bytes());
        assert_eq!(rule, "a member name is used twice");
        assert!(offset > 0);
    }
}

#[test]
fn encodings_other_than_plain_utf8_are_refused() {
    let document = document();
    let with = |bytes: &[u8]| {
        let (before, after) = document.split_once("A title").expect("title");
        [before.as_bytes(), bytes, after.as_bytes()].concat()
    };
    for (what, bytes) in [
        ("CESU-8", &b"\xED\xA0\xBD\xED\xBA\xB0"[..]),
        ("overlong slash", b"\xC0\xAF"),
        ("overlong NUL", b"\xC0\x80"),
        ("above U+10FFFF", b"\xF4\x90\x80\x80"),
        ("lone continuation", b"\x80"),
        ("cut sequence", b"\xE2\x82"),
    ] {
        let (offset, rule) = json_rule(&with(bytes));
        assert_eq!(rule, "malformed UTF-8", "{what}");
        assert_eq!(offset, document.find("A title").expect("title"), "{what}");
    }
    let marked = [b"\xEF\xBB\xBF", document.as_bytes()].concat();
    assert_eq!(
        json_rule(&marked),
        (0, "a byte order mark is not allowed".to_owned())
    );
    let utf16: Vec<u8> = document.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(json_rule(&utf16).0, 1);
    let utf16_marked: Vec<u8> = "\u{feff}{}"
        .encode_utf16()
        .flat_map(u16::to_be_bytes)
        .collect();
    assert_eq!(json_rule(&utf16_marked), (0, "malformed UTF-8".to_owned()));
}

#[test]
fn escapes_must_be_whole_characters() {
    for escape in [
        "\\ud83d",
        "\\ude80",
        "\\ud83dx",
        "\\ud83d\\ud83d",
        "\\u00",
        "\\x41",
        "\\u+123",
    ] {
        let text = changed("A title", escape);
        let (_, rule) = json_rule(text.as_bytes());
        assert!(!rule.is_empty() && !rule.contains("at line"), "{rule}");
    }
    for (from, to) in [
        ("A title", "a\\u0000b"),
        ("\"title\":", "\"titl\\u0000e\":"),
    ] {
        let (_, rule) = json_rule(changed(from, to).as_bytes());
        assert_eq!(rule, "U+0000 is not allowed");
    }
    let raw = changed("A title", "a\nb");
    assert!(json_rule(raw.as_bytes()).1.contains("control character"));
    let pair = changed("A title", "\\ud83d\\ude80");
    assert!(standard().decode(pair.as_bytes()).is_ok());
}

#[test]
fn nothing_may_follow_or_be_cut() {
    let document = document();
    for tail in ["\0", "x", "{}", ",", "]", "\u{feff}"] {
        let text = format!("{document}{tail}");
        assert_eq!(
            json_rule(text.as_bytes()),
            (document.len(), "trailing characters".to_owned())
        );
    }
    for white in [" ", "\n", "\t\r\n"] {
        let text = format!("{white}{document}{white}");
        assert!(standard().decode(text.as_bytes()).is_ok());
    }
    let codec = standard();
    for length in 0..document.len() {
        let cut = &document.as_bytes()[..length];
        assert!(codec.decode(cut).is_err(), "{length}");
        assert!(codec.read_identities(cut).is_err(), "{length}");
    }
}

#[test]
fn numbers_have_one_form() {
    let forms = "numbers are integers of 64 bits, without fraction, exponent or negative zero";
    let range = "integers lie between -9007199254740991 and 9007199254740991";
    for (number, rule) in [
        ("-0", forms),
        ("1.0", forms),
        ("1e2", forms),
        ("1E0", forms),
        ("0.5", forms),
        ("-0.0", forms),
        ("18446744073709551616", forms),
        ("100000000000000000000000000000", forms),
        ("9007199254740992", range),
        ("-9007199254740992", range),
        ("9007199254740993", range),
        ("18446744073709551615", range),
        ("-9223372036854775808", range),
        ("1e400", "number out of range"),
        ("01", "invalid number"),
        ("+1", "expected value"),
        ("1.", "invalid number"),
        ("NaN", "expected value"),
        ("-", "invalid number"),
    ] {
        for place in ["\"sequence\":17", "\"count\":1"] {
            let name = &place[..place.find(':').expect("colon")];
            let text = changed(place, &format!("{name}:{number}"));
            let (_, actual) = json_rule(text.as_bytes());
            assert_eq!(actual, rule, "{number}");
        }
    }
}

#[test]
fn sizes_are_bounded_before_they_cost() {
    let codec = standard();
    let maximum = contract().descriptor.maximum_envelope_bytes as usize;
    let padded = |length: usize| {
        let document = document();
        let pad = " ".repeat(length - document.len());
        format!("{document}{pad}")
    };
    assert!(codec.decode(padded(maximum).as_bytes()).is_ok());
    let too_large = DecodeError::TooLarge {
        actual: maximum + 1,
        maximum,
    };
    assert_eq!(
        codec.decode(padded(maximum + 1).as_bytes()).map(|_| ()),
        Err(too_large.clone())
    );
    assert_eq!(
        codec.read_identities(padded(maximum + 1).as_bytes()),
        Err(too_large)
    );
    let huge = vec![b'['; 1 << 24];
    assert!(matches!(
        codec.decode(&huge),
        Err(DecodeError::TooLarge { .. })
    ));
}

#[test]
fn depth_members_items_and_strings_are_bounded() {
    let nest = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let large = contract().with(|d| {
        d.maximum_payload_bytes = 1_000_000;
        d.maximum_envelope_bytes = 1_048_576;
    });
    let bindings = vec![{
        let mut binding = crate::fixture::binding(crate::fixture::DESTINATION, "r0", true);
        binding.maximum_envelope_bytes = 1_048_576;
        binding.maximum_record_bytes = 2_000_000;
        binding
    }];
    let mut deployment = crate::fixture::deployment(bindings);
    deployment.provider.maximum_envelope_bytes = 1_048_576;
    let bound = crate::fixture::compile(&[large])
        .bind(deployment)
        .expect("fits");
    let codec = JsonEnvelopeCodec::new(bound.into(), TenantMode::Disabled);
    let rule = |title: &str| {
        let text = changed("\"A title\"", title);
        let light = codec.read_identities(text.as_bytes()).map(|_| ());
        let full = codec.decode(text.as_bytes()).map(|_| ());
        match (light, full) {
            (Err(DecodeError::Json { rule, .. }), Err(DecodeError::Json { rule: again, .. })) => {
                assert_eq!(rule, again);
                rule
            }
            (_, Err(DecodeError::Payload(rejection))) => rejection.rule.to_string(),
            (_, other) => panic!("{other:?}"),
        }
    };
    // The envelope and its payload are two of the sixteen levels.
    assert_eq!(rule(&nest(14)), "must be of type string");
    assert_eq!(rule(&nest(15)), "levels of nesting: at most 16 are allowed");
    assert_eq!(
        rule(&nest(200)),
        "levels of nesting: at most 16 are allowed"
    );
    assert_eq!(
        rule(&nest(100_000)),
        "levels of nesting: at most 16 are allowed"
    );
    let members = |count: usize| {
        let members: Vec<_> = (0..count).map(|n| format!("\"{n:x}\":1")).collect();
        format!("{{{}}}", members.join(","))
    };
    assert_eq!(rule(&members(256)), "must be of type string");
    assert_eq!(
        rule(&members(257)),
        "members of one object: at most 256 are allowed"
    );
    assert_eq!(
        rule(&members(100_000)),
        "members of one object: at most 256 are allowed"
    );
    let items = |count: usize| format!("[{}1]", "1,".repeat(count - 1));
    assert_eq!(rule(&items(10_000)), "must be of type string");
    assert_eq!(
        rule(&items(10_001)),
        "items of one array: at most 10000 are allowed"
    );
    let lists = format!("[{}1]", format!("{},", items(9000)).repeat(8));
    assert_eq!(
        rule(&lists),
        "values in the document: at most 65536 are allowed"
    );
    let string = |length: usize| format!("\"{}\"", "x".repeat(length));
    assert_eq!(rule(&string(262_144)), "maxLength is 80");
    assert_eq!(
        rule(&string(262_145)),
        "bytes of one string: at most 262144 are allowed"
    );
}

#[test]
fn the_document_must_be_an_object() {
    let document = document();
    for text in [
        "null",
        "1",
        "true",
        "\"x\"",
        "[]",
        "1.5",
        &format!("[{document}]"),
    ] {
        let (_, rule) = json_rule(text.as_bytes());
        assert_eq!(rule, "the document is not a JSON object", "{text}");
    }
    assert!(json_rule(b"").1.contains("EOF"));
    assert!(json_rule(b"{").1.contains("EOF"));
}
