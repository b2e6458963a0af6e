//! Strict JSON that is not an envelope, or not one of its contract.
//!
//! Invariant: the envelope is closed, required and never null, and says what its contract says.

use crate::fixture::{
    CONTRACT, DESTINATION, changed, codec, contract, contract_of, document, key, payload_refusal,
    standard,
};
use application_core::ports::{DecodeError, EnvelopeCodec};
use domain_core::identity::TenantMode;
use outbound_contract_json::JsonEnvelopeCodec;

/// Place and rule of an envelope refusal; both paths must give it.
fn envelope_rule(text: &str) -> (String, String) {
    let codec = standard();
    let light = codec.read_identities(text.as_bytes()).map(|_| ());
    let full = codec.decode(text.as_bytes()).map(|_| ());
    assert_eq!(light, full, "{text}");
    match full {
        Err(DecodeError::Envelope { pointer, rule }) => (pointer, rule.to_string()),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn zero_width_names_are_unknown_names() {
    let text = changed("\"eventId\":", "\"\u{200b}\":1,\"eventId\":");
    assert_eq!(
        envelope_rule(&text),
        (String::new(), "a member is not allowed here".to_owned())
    );
    let text = changed("\"title\":", "\"\u{feff}title\":1,\"title\":");
    let error = standard()
        .decode(text.as_bytes())
        .expect_err("unknown member");
    assert_eq!(
        payload_refusal(error),
        (String::new(), "a member is not allowed here".to_owned())
    );
}

#[test]
fn envelope_members_are_closed_required_and_never_null() {
    let document = document();
    for (member, value) in [
        ("envelopeVersion", "1"),
        ("eventId", "\"019a0000-0000-7000-8000-000000000001\""),
        ("contractId", "\"golden.sample.recorded\""),
        ("payloadVersion", "1"),
        ("logicalDestination", "\"golden-sample-events\""),
        ("occurredAt", "\"2026-07-28T05:10:30.123Z\""),
        ("correlationId", "\"corr-1\""),
        ("contentType", "\"application/json\""),
    ] {
        let whole = format!("\"{member}\":{value},");
        let pointer = format!("/{member}");
        assert_eq!(
            envelope_rule(&changed(&whole, "")),
            (pointer.clone(), "required field is missing".to_owned())
        );
        let (at, rule) = envelope_rule(&changed(&whole, &format!("\"{member}\":null,")));
        assert_eq!(at, pointer);
        assert!(rule.ends_with("not null"), "{rule}");
        let (at, rule) = envelope_rule(&changed(&whole, &format!("\"{member}\":[],")));
        assert_eq!(at, pointer);
        assert!(rule.ends_with("not an array"), "{rule}");
    }
    for (member, pointer) in [
        ("sequence", "/aggregate/sequence"),
        ("eventIndex", "/aggregate/eventIndex"),
    ] {
        let value = if member == "sequence" { "17" } else { "0" };
        let text = changed(
            &format!("\"{member}\":{value}"),
            &format!("\"{member}\":null"),
        );
        assert_eq!(
            envelope_rule(&text),
            (
                pointer.to_owned(),
                "must be an integer, not null".to_owned()
            )
        );
    }
    for optional in ["causationId", "tenantId"] {
        let text = changed(
            "\"contentType\":",
            &format!("\"{optional}\":null,\"contentType\":"),
        );
        assert_eq!(
            envelope_rule(&text),
            (
                format!("/{optional}"),
                "must be a string, not null".to_owned()
            )
        );
    }
    let start = document.find("\"payload\":").expect("payload");
    let without = format!("{}}}", &document[..start - 1]);
    assert_eq!(
        envelope_rule(&without),
        (
            "/payload".to_owned(),
            "required field is missing".to_owned()
        )
    );
    for value in ["null", "[]", "\"{}\"", "1", "true"] {
        let text = format!("{}\"payload\":{value}}}", &document[..start]);
        assert_eq!(
            envelope_rule(&text),
            ("/payload".to_owned(), "must be an object".to_owned())
        );
    }
    for unknown in ["topic", "attempt", "schemaVersion"] {
        let text = changed("\"eventId\":", &format!("\"{unknown}\":1,\"eventId\":"));
        assert_eq!(envelope_rule(&text).1, "a member is not allowed here");
    }
    let text = changed("\"sequence\":17", "\"sequence\":17,\"version\":1");
    assert_eq!(
        envelope_rule(&text),
        (
            "/aggregate".to_owned(),
            "a member is not allowed here".to_owned()
        )
    );
    let text = changed(
        "{\"type\":\"sample\",\"id\":\"sample-42\",\"sequence\":17,\"eventIndex\":0}",
        "[\"sample\",\"sample-42\",17,0]",
    );
    assert_eq!(
        envelope_rule(&text),
        (
            "/aggregate".to_owned(),
            "must be an object, not an array".to_owned()
        )
    );
}

#[test]
fn envelope_values_keep_their_grammars() {
    for (from, to, pointer, rule) in [
        (
            "\"envelopeVersion\":1",
            "\"envelopeVersion\":2",
            "/envelopeVersion",
            "only envelope version 1 is known",
        ),
        (
            "application/json",
            "text/plain",
            "/contentType",
            "the content type is application/json",
        ),
        (
            "\"payloadVersion\":1",
            "\"payloadVersion\":0",
            "/payloadVersion",
            "range is 1 to 2147483647",
        ),
        (
            "\"payloadVersion\":1",
            "\"payloadVersion\":2147483648",
            "/payloadVersion",
            "range is 1 to 2147483647",
        ),
        (
            "\"sequence\":17",
            "\"sequence\":-1",
            "/aggregate/sequence",
            "range is 0 to 9007199254740991",
        ),
        (
            "\"eventIndex\":0",
            "\"eventIndex\":2147483648",
            "/aggregate/eventIndex",
            "range is 0 to 2147483647",
        ),
        ("corr-1", "", "/correlationId", "minimum bytes is 1"),
        (
            "corr-1",
            "a b",
            "/correlationId",
            "correlation id has a character outside [A-Za-z0-9][A-Za-z0-9._:-]* at byte 1",
        ),
        (
            "sample-42",
            "e\u{301}",
            "/aggregate/id",
            "aggregate id is not in Unicode normalization form C",
        ),
        (
            "sample-42",
            "a\u{200b}",
            "/aggregate/id",
            "aggregate id has a character outside visible characters (no control, format or white-space character) at byte 1",
        ),
        (
            "2026-07-28T05:10:30.123Z",
            "2026-07-28T05:10:30.123456Z",
            "/occurredAt",
            "must be a date and time of the form YYYY-MM-DDThh:mm:ss.sssZ, years 0001 to 9999",
        ),
        (
            "2026-07-28T05:10:30.123Z",
            "2026-02-30T05:10:30.123Z",
            "/occurredAt",
            "must be a date and time of the form YYYY-MM-DDThh:mm:ss.sssZ, years 0001 to 9999",
        ),
        (
            "\"contentType\":",
            "\"tenantId\":\"acme\",\"contentType\":",
            "/tenantId",
            "tenants are disabled, but the event names a tenant",
        ),
        (
            "\"contentType\":",
            "\"tenantId\":\"SYSTEM\",\"contentType\":",
            "/tenantId",
            "tenant id is the reserved word `system`",
        ),
    ] {
        assert_eq!(
            envelope_rule(&changed(from, to)),
            (pointer.to_owned(), rule.to_owned()),
            "{to}"
        );
    }
    for (from, length, pointer) in [
        ("019a0000-0000-7000-8000-000000000001", 96, "/eventId"),
        ("corr-1", 128, "/correlationId"),
        ("sample-42", 256, "/aggregate/id"),
    ] {
        assert!(
            standard()
                .decode(changed(from, &"x".repeat(length)).as_bytes())
                .is_ok()
        );
        assert_eq!(
            envelope_rule(&changed(from, &"x".repeat(length + 1))),
            (pointer.to_owned(), format!("maximum bytes is {length}"))
        );
    }
    // 255 characters, but more bytes than the bound: a schema's maxLength would not see it.
    assert_eq!(
        envelope_rule(&changed("sample-42", &"é".repeat(129))),
        (
            "/aggregate/id".to_owned(),
            "maximum bytes is 256".to_owned()
        )
    );
    let active = JsonEnvelopeCodec::new(standard().catalog().clone(), TenantMode::Active);
    assert!(matches!(
        active.decode(document().as_bytes()),
        Err(DecodeError::Envelope { pointer, .. }) if pointer == "/tenantId"
    ));
}

#[test]
fn contract_and_document_must_agree() {
    let codec = standard();
    let decode = |text: String| codec.decode(text.as_bytes()).map(|_| ());
    assert_eq!(
        decode(changed("golden.sample.recorded", "golden.sample.other")),
        Err(DecodeError::UnknownContract(key("golden.sample.other", 1)))
    );
    assert_eq!(
        decode(changed("\"payloadVersion\":1", "\"payloadVersion\":2")),
        Err(DecodeError::UnknownContract(key(
            "golden.sample.recorded",
            2
        )))
    );
    for (from, to, pointer) in [
        (
            "golden-sample-events",
            "golden-other-events",
            "/logicalDestination",
        ),
        (
            "\"type\":\"sample\"",
            "\"type\":\"poster\"",
            "/aggregate/type",
        ),
    ] {
        assert!(matches!(
            decode(changed(from, to)),
            Err(DecodeError::Envelope { pointer: at, .. }) if at == pointer
        ));
    }
    // The light path leaves both to whoever compares with the row.
    let other = changed("golden.sample.recorded", "golden.sample.other");
    assert!(codec.read_identities(other.as_bytes()).is_ok());
}

#[test]
fn payloads_are_judged_by_their_schema() {
    let codec = standard();
    let refusal = |from: &str, to: &str| {
        let text = changed(from, to);
        assert!(codec.read_identities(text.as_bytes()).is_ok(), "{text}");
        payload_refusal(codec.decode(text.as_bytes()).expect_err(&text))
    };
    for (from, to, pointer, rule) in [
        (
            "\"title\":\"A title\",",
            "",
            "/title",
            "required field is missing",
        ),
        (
            "\"title\":\"A title\"",
            "\"title\":null",
            "/title",
            "must be of type string",
        ),
        (
            "\"count\":1",
            "\"count\":\"1\"",
            "/count",
            "must be of type integer",
        ),
        (
            "\"done\":false",
            "\"done\":0",
            "/done",
            "must be of type boolean",
        ),
        (
            "\"level\":\"LOW\"",
            "\"level\":\"low\"",
            "/level",
            "must be one of the declared values",
        ),
        (
            "{\"name\":\"Ada\",\"team\":\"one\"}",
            "[\"Ada\",\"one\"]",
            "/author",
            "must be of type object",
        ),
        (
            "\"team\":\"one\"",
            "\"team\":\"one\",\"x\":1",
            "/author",
            "a member is not allowed here",
        ),
        (
            "\"label\":\"x\",",
            "",
            "/items/0/label",
            "required field is missing",
        ),
        (
            "\"note\":\"\"",
            "\"note\":\"\",\"more\":1",
            "",
            "a member is not allowed here",
        ),
    ] {
        assert_eq!(
            refusal(from, to),
            (pointer.to_owned(), rule.to_owned()),
            "{to}"
        );
    }
}

#[test]
fn payload_bytes_are_bounded_on_their_own() {
    let maximum = contract().descriptor.maximum_payload_bytes as usize;
    let text = changed(
        "\"payload\":{",
        &format!("\"payload\":{{{}", " ".repeat(maximum)),
    );
    let error = standard().decode(text.as_bytes()).expect_err("too large");
    assert_eq!(
        payload_refusal(error),
        (String::new(), "maximum payload bytes is 4096".to_owned())
    );
}

#[test]
fn each_contract_keeps_its_own_envelope_bound() {
    struct Other;
    let large = contract_of("golden.poster.recorded", 1, DESTINATION, "poster")
        .with_type::<Other>()
        .with(|d| d.maximum_envelope_bytes = 16_384);
    let codec = codec(&[contract(), large]);
    let maximum = contract().descriptor.maximum_envelope_bytes as usize;
    let padded = |text: String, length: usize| format!("{text}{}", " ".repeat(length - text.len()));
    assert!(codec.decode(padded(document(), maximum).as_bytes()).is_ok());
    assert_eq!(
        codec
            .decode(padded(document(), maximum + 1).as_bytes())
            .map(|_| ()),
        Err(DecodeError::TooLarge {
            actual: maximum + 1,
            maximum,
        })
    );
    let poster = document()
        .replace(CONTRACT, "golden.poster.recorded")
        .replace("\"type\":\"sample\"", "\"type\":\"poster\"");
    assert!(codec.decode(padded(poster, maximum + 1).as_bytes()).is_ok());
}

#[test]
fn errors_quote_no_value() {
    let secret = "s3cr3t-value";
    for text in [
        changed("corr-1", "s3cr3t-value!"),
        changed("\"level\":\"LOW\"", &format!("\"level\":\"{secret}\"")),
        changed("\"count\":1", &format!("\"count\":\"{secret}\"")),
        changed("\"title\":", &format!("\"{secret}\":1,\"title\":")),
        changed(
            "\"count\":1",
            &format!("\"count\":1.5,\"{secret}\":\"{secret}\""),
        ),
    ] {
        let error = standard().decode(text.as_bytes()).expect_err(&text);
        let said = format!("{error} {error:?}");
        assert!(!said.contains(secret), "{said}");
    }
}
