//! The checked-in envelope schema against the code that shares its rules.
//!
//! Invariant: what the decoder accepts, the schema accepts. Where the schema accepts more, the
//! rule is one that no schema expresses: bytes, normalization, the tenant mode.

use crate::fixture::{document, standard};
use application_core::ports::EnvelopeCodec;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{
    AggregateId, AggregateType, ContractId, CorrelationId, EventId, LogicalDestinationId, TenantId,
};
use outbound_contract_json::validation_options;
use serde_json::{Value, json};
use shared_contract::{ENVELOPE_V1_SCHEMA, ENVELOPE_V1_SCHEMA_SHA256};

fn schema() -> Value {
    serde_json::from_str(ENVELOPE_V1_SCHEMA).expect("JSON")
}

fn definition(name: &str) -> jsonschema::Validator {
    let mut schema = schema();
    schema["$id"] = "https://schemas.example/one-definition".into();
    let document = schema.as_object_mut().expect("an object");
    for keyword in ["type", "properties", "required", "unevaluatedProperties"] {
        document.remove(keyword);
    }
    document.insert("$ref".to_owned(), format!("#/$defs/{name}").into());
    validation_options().build(&schema).expect("compiles")
}

#[test]
fn the_document_is_pinned_and_valid_under_its_meta_schema() {
    let hash = Sha256Digest::of(ENVELOPE_V1_SCHEMA.as_bytes());
    assert_eq!(hash.to_hex(), ENVELOPE_V1_SCHEMA_SHA256);
    assert!(jsonschema::draft202012::meta::is_valid(&schema()));
    assert_eq!(schema()["unevaluatedProperties"], Value::Bool(false));
}

#[test]
fn the_schema_names_the_fields_in_no_other_number_than_the_code() {
    let validator = validation_options().build(&schema()).expect("compiles");
    let envelope: Value = serde_json::from_str(&document()).expect("JSON");
    assert!(validator.is_valid(&envelope));
    for member in envelope.as_object().expect("an object").keys() {
        let mut without = envelope.clone();
        without.as_object_mut().expect("an object").remove(member);
        assert!(!validator.is_valid(&without), "{member}");
        let mut null = envelope.clone();
        null[member] = Value::Null;
        assert!(!validator.is_valid(&null), "{member}");
    }
    for (member, value) in [
        ("topic", json!("x")),
        ("causationId", Value::Null),
        ("tenantId", Value::Null),
        ("tenantId", json!("System")),
        ("envelopeVersion", json!(2)),
        ("payload", json!([])),
    ] {
        let mut with = envelope.clone();
        with[member] = value;
        assert!(!validator.is_valid(&with), "{member}");
    }
    let mut nested = envelope.clone();
    nested["aggregate"]["version"] = 1.into();
    assert!(!validator.is_valid(&nested));
    for (member, value) in [("causationId", "cause-1"), ("tenantId", "systems")] {
        let mut with = envelope.clone();
        with[member] = value.into();
        assert!(validator.is_valid(&with), "{member}");
    }
}

/// Every text of the corpus is judged alike by the schema and by the identity's own grammar.
#[test]
fn identities_have_one_grammar() {
    let long = |length: usize| "a".repeat(length);
    let mut corpus: Vec<String> = [
        "",
        "a",
        "A",
        "0",
        "-",
        ".",
        "a.b",
        "a..b",
        "a.b.",
        ".a.b",
        "A.b",
        "a.1b",
        "a-b",
        "a_b",
        "a:b",
        "a b",
        "a\n",
        "\na",
        "é",
        "a\u{200b}",
        "system",
        "System",
        "SYSTEM",
        "systems",
        "1a",
        "a1-x.b2",
    ]
    .map(str::to_owned)
    .to_vec();
    corpus.extend([64, 65, 96, 97, 128, 129].map(long));
    corpus.extend([94, 95].map(|length| format!("a.{}", long(length))));
    type Parse = fn(&str) -> bool;
    let rules: [(&str, Parse); 6] = [
        ("eventId", |text| EventId::parse(text).is_ok()),
        ("contractId", |text| ContractId::parse(text).is_ok()),
        ("logicalDestination", |text| {
            LogicalDestinationId::parse(text).is_ok()
        }),
        ("correlationId", |text| CorrelationId::parse(text).is_ok()),
        ("tenantId", |text| TenantId::parse(text).is_ok()),
        ("aggregateId", |text| AggregateId::parse(text).is_ok()),
    ];
    for (name, parse) in rules {
        let validator = definition(name);
        for text in &corpus {
            assert_eq!(
                validator.is_valid(&json!(text)),
                parse(text),
                "{name}: {text:?}"
            );
        }
    }
    let aggregate = definition("aggregate");
    for text in &corpus {
        let value = json!({"type": text, "id": "1", "sequence": 0, "eventIndex": 0});
        assert_eq!(
            aggregate.is_valid(&value),
            AggregateType::parse(text.as_str()).is_ok(),
            "{text:?}"
        );
    }
}

/// Each code point alone, as an aggregate id.
#[test]
fn aggregate_ids_admit_the_same_characters() {
    let validator = definition("aggregateId");
    let mut normalized_away = 0;
    for character in '\0'..=char::MAX {
        let text = character.to_string();
        let schema = validator.is_valid(&Value::String(text.clone()));
        match AggregateId::parse(text.as_str()) {
            Ok(_) => assert!(schema, "{character:?}"),
            Err(domain_core::identity::IdentityError::NotNormalized { .. }) => normalized_away += 1,
            Err(_) => assert!(!schema, "{character:?}"),
        }
    }
    assert!(normalized_away > 1000);
    for (text, accepted) in [
        ("a b", true),
        ("a  b", false),
        (" a", false),
        ("a ", false),
        ("a\u{301}", true),
    ] {
        assert_eq!(validator.is_valid(&json!(text)), accepted, "{text:?}");
    }
}

#[test]
fn occurrence_times_have_one_form() {
    let validator = definition("occurredAt");
    let codec = standard();
    let document = document();
    for time in [
        "0001-01-01T00:00:00.000Z",
        "9999-12-31T23:59:59.999Z",
        "2024-02-29T12:00:00.000Z",
        "2023-02-29T12:00:00.000Z",
        "1900-02-29T12:00:00.000Z",
        "0000-01-01T00:00:00.000Z",
        "2023-04-31T12:00:00.000Z",
        "2023-00-10T12:00:00.000Z",
        "2023-01-10T24:00:00.000Z",
        "2023-01-10T23:60:00.000Z",
        "2016-12-31T23:59:60.000Z",
        "2023-01-10T12:00:00Z",
        "2023-01-10T12:00:00.00Z",
        "2023-01-10T12:00:00.000+00:00",
        "2023-01-10t12:00:00.000z",
        "2023-01-10T12:00:00,000Z",
    ] {
        let text = document.replace("2026-07-28T05:10:30.123Z", time);
        let accepted = codec.read_identities(text.as_bytes()).is_ok();
        assert_eq!(validator.is_valid(&json!(time)), accepted, "{time}");
    }
}
