//! What the start-up compiler refuses in a payload schema (requirement 004 §§14.1, 14.5–14.7).
//!
//! Invariant: whatever could be fetched, could loop, could explode or says something else than
//! the contract stops the start.

use crate::fixture::{CONTRACT, codec, contract, draft, key, rejected, sample, schema};
use application_core::contract::FieldKind;
use application_core::ports::EnvelopeCodec;
use outbound_contract_json::{CompileError, ContractCompiler, SchemaError};
use serde_json::{Value, json};

fn compile(contract: &crate::fixture::Contract) -> Result<(), SchemaError> {
    match ContractCompiler::new().contribution(contract).compile() {
        Ok(_) => Ok(()),
        Err(CompileError::Schema { contract, source }) => {
            assert_eq!(contract, key(CONTRACT, 1));
            Err(source)
        }
        Err(other) => panic!("{other:?}"),
    }
}

fn with(change: impl FnOnce(&mut Value)) -> Result<(), SchemaError> {
    let mut document = schema(CONTRACT, 1);
    change(&mut document);
    compile(&contract().with_schema(&document))
}

fn set(pointer: &str, name: &str, value: Value) -> Result<(), SchemaError> {
    with(|document| document.pointer_mut(pointer).expect(pointer)[name] = value)
}

fn remove(pointer: &str, name: &str) -> Result<(), SchemaError> {
    with(|document| {
        let object = document.pointer_mut(pointer).and_then(Value::as_object_mut);
        object.expect(pointer).remove(name).expect(name);
    })
}

#[test]
fn hash_id_and_dialect_are_pinned() {
    let mut other = contract();
    other.schema.push(b' ');
    assert!(matches!(compile(&other), Err(SchemaError::Hash { .. })));
    assert!(matches!(
        set("", "$id", json!("https://schemas.example/other")),
        Err(SchemaError::Id(_))
    ));
    assert!(matches!(remove("", "$id"), Err(SchemaError::Id(_))));
    for id in [
        "v1.schema.json",
        "urn:x:y",
        "file:///v1.json",
        "https://a.example/x#frag",
        "https://a.example/a b",
        "http://a.example/x",
    ] {
        let mut document = schema(CONTRACT, 1);
        document["$id"] = id.into();
        let named = contract()
            .with(|d| d.payload_schema.id = id.to_owned())
            .with_schema(&document);
        assert!(matches!(compile(&named), Err(SchemaError::Id(_))), "{id}");
    }
    for dialect in [
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2020-12/schema#",
        "https://schemas.example/own-dialect",
    ] {
        assert!(
            matches!(
                set("", "$schema", json!(dialect)),
                Err(SchemaError::Dialect)
            ),
            "{dialect}"
        );
    }
    assert!(matches!(remove("", "$schema"), Err(SchemaError::Dialect)));
    let envelope = contract().with(|d| {
        d.payload_schema.id = shared_contract::ENVELOPE_V1_SCHEMA_ID.to_owned();
    });
    let mut document = schema(CONTRACT, 1);
    document["$id"] = shared_contract::ENVELOPE_V1_SCHEMA_ID.into();
    assert!(matches!(
        compile(&envelope.with_schema(&document)),
        Err(SchemaError::Id(_))
    ));
}

#[test]
fn the_document_is_strict_json_within_its_bounds() {
    let of = |text: String| {
        let mut one = contract();
        one.schema = text.into_bytes();
        one.descriptor.payload_schema.sha256 = domain_core::hashing::Sha256Digest::of(&one.schema);
        compile(&one)
    };
    let text = schema(CONTRACT, 1).to_string();
    let twice = text.replacen(
        "\"type\":\"object\"",
        "\"type\":\"object\",\"type\":\"object\"",
        1,
    );
    assert!(matches!(of(twice), Err(SchemaError::Json { rule, .. }) if rule.contains("twice")));
    assert!(matches!(
        of(format!("{text}{}", " ".repeat(262_144))),
        Err(SchemaError::TooLarge { .. })
    ));
    assert!(matches!(
        of(text.replacen("80", "80.5", 1)),
        Err(SchemaError::Json { .. })
    ));
    let deep = format!(
        "{}{}",
        "{\"not\":".repeat(60),
        "{}".to_owned() + &"}".repeat(60)
    );
    assert!(matches!(of(deep), Err(SchemaError::Json { rule, .. }) if rule.contains("nesting")));
    assert!(matches!(of("[]".to_owned()), Err(SchemaError::Dialect)));
}

#[test]
fn the_meta_schema_is_applied_offline() {
    let error = set("/properties/title", "maxLength", json!("80")).expect_err("not a number");
    assert_eq!(
        error,
        SchemaError::MetaSchema {
            pointer: "/properties/title/maxLength".to_owned(),
            keyword: "type".to_owned()
        }
    );
    assert!(matches!(
        set("", "required", json!(["title", "title"])),
        Err(SchemaError::MetaSchema { .. })
    ));
}

#[test]
fn unknown_vocabularies_and_keywords_are_refused() {
    for (keyword, value) in [
        (
            "$vocabulary",
            json!({"https://schemas.example/vocab": true}),
        ),
        ("$dynamicRef", json!("#x")),
        ("$anchor", json!("x")),
        ("definitions", json!({})),
        ("maxLenght", json!(3)),
        ("patternProperties", json!({})),
        ("contentSchema", json!({})),
        ("default", json!(1)),
    ] {
        let error = set("", keyword, value).expect_err(keyword);
        assert!(
            matches!(&error, SchemaError::Keyword { pointer, .. } if *pointer == format!("/{keyword}")),
            "{error}"
        );
    }
    let nested = set(
        "/properties/title",
        "$id",
        json!("https://schemas.example/x"),
    )
    .expect_err("nested");
    assert!(
        matches!(nested, SchemaError::Keyword { pointer, .. } if pointer == "/properties/title/$id")
    );
    // A property may be named like a keyword.
    let mut document = schema(CONTRACT, 1);
    let note = document["properties"]
        .as_object_mut()
        .expect("object")
        .remove("note")
        .expect("note");
    document["properties"]["pattern"] = note;
    document["required"][1] = "pattern".into();
    let renamed = contract()
        .with(|d| d.fields[1].path = "pattern".to_owned())
        .with_schema(&document);
    assert_eq!(compile(&renamed), Ok(()));
}

#[test]
fn references_stay_inside() {
    for (reference, fragment) in [
        ("https://schemas.example/other.json", "outside"),
        ("other.json", "outside"),
        ("file:///etc/passwd", "outside"),
        ("https://json-schema.org/draft/2020-12/schema", "outside"),
        ("#/$defs/nobody", "no schema"),
        ("#/required", "no schema"),
        ("#author", "no schema"),
        ("#/$defs/auth%6Fr", "no schema"),
        (
            "https://countersign.dev/contracts/messaging/envelope/v1.schema.json",
            "outside",
        ),
        (
            "https://countersign.dev/contracts/messaging/envelope/v1.schema.json#/$defs/nobody",
            "no definition",
        ),
        (
            "https://countersign.dev/contracts/messaging/envelope/v1.schema.json#/properties/payload",
            "no definition",
        ),
    ] {
        let error = set("/properties/title", "$ref", json!(reference)).expect_err(reference);
        assert!(
            matches!(&error, SchemaError::Reference { pointer, rule } if pointer == "/properties/title/$ref" && rule.contains(fragment)),
            "{reference}: {error}"
        );
    }
}

#[test]
fn the_envelope_schemas_definitions_may_be_used() {
    let mut document = schema(CONTRACT, 1);
    document["properties"]["title"] = json!({
        "$ref": "https://countersign.dev/contracts/messaging/envelope/v1.schema.json#/$defs/eventId"
    });
    let codec = codec(&[contract().with_schema(&document)]);
    let mut payload = sample();
    payload.title = "an-id".to_owned();
    assert!(codec.encode(&draft(payload.clone())).is_ok());
    payload.title = "not an id".to_owned();
    let rejection = rejected(codec.encode(&draft(payload)).expect_err("refused"));
    assert_eq!(rejection.pointer, "/title");
    assert_eq!(
        rejection.rule.to_string(),
        "pattern is ^[A-Za-z0-9][A-Za-z0-9._:-]*$"
    );
}

#[test]
fn references_neither_circle_nor_explode() {
    let circle = |error: SchemaError| matches!(error, SchemaError::Reference { rule, .. } if rule.contains("itself"));
    assert!(circle(
        set("/$defs", "author", json!({"$ref": "#/$defs/author"})).expect_err("self")
    ));
    assert!(circle(
        set("/$defs/author/properties", "name", json!({"$ref": "#"})).expect_err("root")
    ));
    let two = with(|document| {
        document["$defs"]["a"] = json!({"anyOf": [{"$ref": "#/$defs/b"}]});
        document["$defs"]["b"] = json!({"not": {"$ref": "#/$defs/a"}});
        document["properties"]["title"]["$ref"] = "#/$defs/a".into();
    });
    assert!(circle(two.expect_err("two")));
    let doubling = with(|document| {
        document["$defs"]["d0"] = json!({"type": "string"});
        for level in 1..20 {
            let below = format!("#/$defs/d{}", level - 1);
            document["$defs"][format!("d{level}")] =
                json!({"allOf": [{"$ref": below}, {"$ref": below}]});
        }
        document["properties"]["title"]["$ref"] = "#/$defs/d19".into();
    });
    assert!(matches!(doubling, Err(SchemaError::Reference { rule, .. }) if rule.contains("10000")));
    let chain = with(|document| {
        document["$defs"]["c0"] = json!({"type": "string"});
        for level in 1..100 {
            document["$defs"][format!("c{level}")] =
                json!({"$ref": format!("#/$defs/c{}", level - 1)});
        }
        document["properties"]["title"]["$ref"] = "#/$defs/c99".into();
    });
    assert!(matches!(chain, Err(SchemaError::Reference { rule, .. }) if rule.contains("64 steps")));
}

#[test]
fn patterns_run_on_the_linear_engine_or_not_at_all() {
    for pattern in [
        "(?=a)a",
        "(?<!b)a",
        "(a)\\1",
        "^(?!x)",
        "a{1,100000}{1,100000}",
        "[",
    ] {
        let error = set("/properties/title", "pattern", json!(pattern)).expect_err(pattern);
        assert!(
            matches!(
                &error,
                SchemaError::Compile { .. } | SchemaError::MetaSchema { .. }
            ),
            "{pattern}: {error}"
        );
    }
    let mut document = schema(CONTRACT, 1);
    document["properties"]["title"] = json!({
        "type": "string", "minLength": 0, "maxLength": 100_000, "pattern": "^(a+)+$|^(a|aa)+$|(x+x+)+y"
    });
    let pathological = contract()
        .with(|d| {
            d.maximum_payload_bytes = 200_000;
            d.maximum_envelope_bytes = 210_000;
        })
        .with_schema(&document);
    let mut binding = crate::fixture::binding(crate::fixture::DESTINATION, "r0", true);
    binding.maximum_envelope_bytes = 210_000;
    binding.maximum_record_bytes = 300_000;
    let bound = crate::fixture::compile(&[pathological])
        .bind(crate::fixture::deployment(vec![binding]))
        .expect("fits");
    let codec = outbound_contract_json::JsonEnvelopeCodec::new(
        bound.into(),
        domain_core::identity::TenantMode::Disabled,
    );
    // A backtracking engine would need more steps for this than there are atoms; that the test
    // ends at all is the assertion, the answer is the proof that the pattern was tried.
    for subject in [format!("{}!", "a".repeat(99_999)), "x".repeat(100_000)] {
        let mut payload = sample();
        payload.title = subject;
        let rejection = rejected(codec.encode(&draft(payload)).expect_err("no match"));
        assert_eq!(rejection.pointer, "/title");
    }
}

#[test]
fn formats_are_asserted_and_known() {
    let mut document = schema(CONTRACT, 1);
    document["properties"]["title"]["format"] = "date".into();
    let codec = codec(&[contract().with_schema(&document)]);
    let mut payload = sample();
    payload.title = "2024-02-29".to_owned();
    assert!(codec.encode(&draft(payload.clone())).is_ok());
    payload.title = "2023-02-29".to_owned();
    let rejection = rejected(codec.encode(&draft(payload)).expect_err("no such day"));
    assert_eq!(rejection.rule.to_string(), "format is date");
    let unknown = set("/properties/title", "format", json!("colour"));
    assert!(
        matches!(unknown, Err(SchemaError::Compile { .. })),
        "{unknown:?}"
    );
}

#[test]
fn schema_and_field_list_say_the_same() {
    let disagrees = |result: Result<(), SchemaError>, field: &str, rule: &str| match result {
        Err(SchemaError::Disagrees {
            field: at,
            rule: said,
        }) => {
            assert_eq!(at, field, "{said}");
            assert!(said.contains(rule), "{said}");
        }
        other => panic!("{field} {rule}: {other:?}"),
    };
    disagrees(remove("", "additionalProperties"), "", "closed");
    disagrees(set("", "additionalProperties", json!(true)), "", "closed");
    disagrees(
        set("", "additionalProperties", json!({"type": "string"})),
        "",
        "closed",
    );
    disagrees(
        remove("/$defs/author", "additionalProperties"),
        "author",
        "closed",
    );
    disagrees(
        remove("/properties/items/items", "unevaluatedProperties"),
        "items[]",
        "closed",
    );
    disagrees(
        set("/properties", "more", json!({"type": "boolean"})),
        "",
        "`more`",
    );
    disagrees(remove("/properties", "note"), "", "`note`");
    disagrees(
        set("", "required", json!(["title"])),
        "",
        "require every field",
    );
    disagrees(
        set("/$defs/author", "required", json!(["name"])),
        "author",
        "`team`",
    );
    disagrees(
        set("/properties/title", "type", json!(["string", "null"])),
        "title",
        "`string`",
    );
    disagrees(
        set("/properties/count", "type", json!("number")),
        "count",
        "`integer`",
    );
    disagrees(
        set("/properties/done", "type", json!("string")),
        "done",
        "`boolean`",
    );
    disagrees(remove("/properties/level", "enum"), "level", "enum");
    disagrees(
        set("/properties/level", "enum", json!(["HIGH", "LOW"])),
        "level",
        "enum",
    );
    disagrees(
        set("/properties/level", "enum", json!(["LOW", "HIGH", "ODD"])),
        "level",
        "enum",
    );
    disagrees(
        remove("/properties/title", "maxLength"),
        "title",
        "maxLength",
    );
    disagrees(
        remove("/properties/title", "minLength"),
        "title",
        "minLength",
    );
    disagrees(remove("/properties/count", "maximum"), "count", "maximum");
    disagrees(remove("/properties/tags", "maxItems"), "tags", "maxItems");
    disagrees(remove("/properties/tags", "items"), "tags", "items");
    disagrees(
        set(
            "/properties/items/items/properties/label",
            "type",
            json!("integer"),
        ),
        "items[].label",
        "`string`",
    );
    let other_kind = contract().with(|d| d.fields[3].kind = FieldKind::Integer);
    disagrees(compile(&other_kind), "done", "`integer`");
}
