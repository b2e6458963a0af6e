//! The schemas themselves, and the manifests that state the same contracts.

use crate::codec::{judge, validator};
use application_core::contract::IntegrationEventContractContribution;
use portfolio::contracts::{
    Audience, Author, CompletionStatus, Contract, MAXIMUM_PAYLOAD_BYTES, PosterPublished,
    WorkLogCompleted, WorkLogReserved,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A payload as the sample writes it, by contract.
fn payload(contract: Contract) -> Value {
    match contract {
        Contract::WorkLogReserved => serde_json::to_value(WorkLogReserved {
            work_log_id: "작업-7".to_owned(),
            title: "축제 안내판 교정".to_owned(),
            minutes: 45,
            tags: vec!["proof".to_owned()],
        }),
        Contract::WorkLogCompleted => serde_json::to_value(WorkLogCompleted {
            work_log_id: "작업-7".to_owned(),
            minutes_spent: 0,
            status: CompletionStatus::PartlyFinished,
            follow_up_needed: true,
        }),
        Contract::PosterPublished => serde_json::to_value(PosterPublished {
            poster_id: "poster-1".to_owned(),
            title: "Open day".to_owned(),
            edition: 1,
            audience: Audience::Partners,
            author: Author {
                name: "Zoë".to_owned(),
                team: "Atelier".to_owned(),
            },
            on_display_until: "2028-02-29".to_owned(),
        }),
    }
    .expect("serializes")
}

#[test]
fn the_meta_schema_accepts_every_schema() {
    for contract in Contract::ALL {
        let schema = serde_json::from_slice(contract.payload_schema()).expect("JSON");
        assert!(
            jsonschema::draft202012::meta::is_valid(&schema),
            "{contract:?}"
        );
    }
}

#[test]
fn a_schema_accepts_its_record_and_neither_less_nor_more() {
    for contract in Contract::ALL {
        let schema = validator(contract.payload_schema());
        let good = payload(contract);
        assert_eq!(judge(&schema, &good), None, "{contract:?}");
        let names: Vec<String> = good
            .as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect();
        for name in names {
            for broken in [None, Some(Value::Null), Some(json!({})), Some(json!(1.5))] {
                let mut payload = good.clone();
                let fields = payload.as_object_mut().expect("an object");
                match broken {
                    None => fields.remove(&name),
                    Some(value) => fields.insert(name.clone(), value),
                };
                assert!(judge(&schema, &payload).is_some(), "{contract:?} {name}");
            }
        }
        let mut more = good.clone();
        more["more"] = json!(1);
        assert!(judge(&schema, &more).is_some(), "{contract:?}");
    }
}

#[test]
fn bounds_hold_exactly() {
    let text = |characters: usize| json!("가".repeat(characters));
    for (contract, pointer, good, bad) in [
        (Contract::WorkLogReserved, "/title", text(80), text(81)),
        (Contract::WorkLogReserved, "/title", text(1), text(0)),
        (Contract::WorkLogReserved, "/workLogId", text(64), text(65)),
        (Contract::WorkLogReserved, "/minutes", json!(1), json!(0)),
        (
            Contract::WorkLogReserved,
            "/minutes",
            json!(1440),
            json!(1441),
        ),
        (
            Contract::WorkLogReserved,
            "/tags",
            json!([]),
            json!(["a", "a"]),
        ),
        (
            Contract::WorkLogReserved,
            "/tags",
            json!(["a", "b", "c", "d"]),
            json!(["a", "b", "c", "d", "e"]),
        ),
        (
            Contract::WorkLogReserved,
            "/tags/0",
            json!("a-1"),
            json!("A-1"),
        ),
        (
            Contract::WorkLogCompleted,
            "/minutesSpent",
            json!(0),
            json!(-1),
        ),
        (
            Contract::WorkLogCompleted,
            "/minutesSpent",
            json!(10080),
            json!(10081),
        ),
        (
            Contract::WorkLogCompleted,
            "/status",
            json!("finished"),
            json!("done"),
        ),
        (Contract::PosterPublished, "/posterId", text(64), text(65)),
        (
            Contract::PosterPublished,
            "/edition",
            json!(999),
            json!(1000),
        ),
        (
            Contract::PosterPublished,
            "/audience",
            json!("team"),
            json!("all"),
        ),
        (
            Contract::PosterPublished,
            "/author/name",
            text(40),
            text(41),
        ),
        (Contract::PosterPublished, "/author/team", text(40), text(0)),
        (
            Contract::PosterPublished,
            "/onDisplayUntil",
            json!("2026-02-28"),
            json!("2026-02-29"),
        ),
    ] {
        let schema = validator(contract.payload_schema());
        let mut payload = payload(contract);
        *payload.pointer_mut(pointer).expect(pointer) = good;
        assert_eq!(judge(&schema, &payload), None, "{pointer}");
        *payload.pointer_mut(pointer).expect(pointer) = bad;
        assert!(judge(&schema, &payload).is_some(), "{pointer}");
    }
}

#[test]
fn characters_and_bytes_are_two_bounds() {
    // 80 characters satisfy the schema; whether their bytes fit is for the byte bound to say.
    let mut wide = payload(Contract::WorkLogReserved);
    wide["title"] = json!("🛰".repeat(80));
    let schema = validator(Contract::WorkLogReserved.payload_schema());
    assert_eq!(judge(&schema, &wide), None);
    assert!(wide.to_string().len() > MAXIMUM_PAYLOAD_BYTES as usize);
    wide["title"] = json!("가".repeat(80));
    assert!(wide.to_string().len() <= MAXIMUM_PAYLOAD_BYTES as usize);
}

fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/messaging/contracts")
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_manifests_schemas_are_the_sample_s_byte_for_byte() {
    for contract in Contract::ALL {
        let name = contract.name();
        let copy = manifests().join(format!("schemas/{name}/v1.schema.json"));
        assert!(read(&copy) == contract.payload_schema(), "{name}");
    }
}

#[test]
fn each_manifest_pins_the_schema_that_the_sample_contributes() {
    for contract in Contract::ALL {
        let descriptor = contract.descriptor();
        let manifest = read(&manifests().join(format!("{}.v1.yaml", contract.name())));
        let manifest = String::from_utf8(manifest).expect("UTF-8");
        for stated in [
            contract.name().to_owned(),
            descriptor.payload_schema.id.clone(),
            descriptor.payload_schema.sha256.to_hex(),
            descriptor.aggregate_type.as_str().to_owned(),
        ] {
            assert!(manifest.contains(&stated), "{}: {stated}", contract.name());
        }
    }
}
