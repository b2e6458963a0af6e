//! What the encoder refuses, with place and rule.
//!
//! Invariant: a refused draft has no bytes at all; no message quotes a payload value.

use crate::fixture::{
    Author, CONTRACT, DESTINATION, Item, Level, Sample, binding, codec, compile, contract,
    deployment, draft, key, rejected, sample, standard,
};
use application_core::ports::{EncodeError, EnvelopeCodec, RejectionRule};
use domain_core::identity::{AggregateId, AggregateIdentity, AggregateType, TenantId, TenantMode};
use domain_core::instant::OccurredAt;
use outbound_contract_json::JsonEnvelopeCodec;
use serde::ser::{SerializeMap, SerializeSeq, SerializeStruct};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Encodes a payload of another shape under the sample's contract.
fn refusal<T: Serialize + Send + Sync + 'static>(payload: T) -> (String, String) {
    let codec = codec(&[contract().with_type::<T>()]);
    let rejection = rejected(codec.encode(&draft(payload)).expect_err("must be refused"));
    assert_eq!(rejection.contract, key(CONTRACT, 1));
    (rejection.pointer, rejection.rule.to_string())
}

fn refused(change: impl FnOnce(&mut Sample)) -> (String, String) {
    let mut payload = sample();
    change(&mut payload);
    refusal(payload)
}

fn at(pointer: &str, rule: &str) -> (String, String) {
    (pointer.to_owned(), rule.to_owned())
}

#[test]
fn schema_rules_are_reported_with_pointer_and_bound() {
    assert_eq!(
        refused(|s| s.title = "x".repeat(81)),
        at("/title", "maxLength is 80")
    );
    assert_eq!(
        refused(|s| s.tags = vec![String::new(); 41]),
        at("/tags", "maxItems is 40")
    );
    assert_eq!(
        refused(|s| s.tags[1] = "x".repeat(17)),
        at("/tags/1", "maxLength is 16")
    );
    assert_eq!(
        refused(|s| s.author.team = "x".repeat(41)),
        at("/author/team", "maxLength is 40")
    );
    assert_eq!(
        refused(|s| s.items[0].label = "x".repeat(17)),
        at("/items/0/label", "maxLength is 16")
    );
}

#[test]
fn integers_keep_to_what_json_carries_exactly() {
    let range = "range of an integer is -9007199254740991 to 9007199254740991";
    for number in [i64::MAX, i64::MIN, 1 << 53, -(1 << 53)] {
        assert_eq!(refused(|s| s.count = number), at("/count", range));
        assert_eq!(
            refused(|s| s.items[0].amount = number),
            at("/items/0/amount", range)
        );
    }
}

#[test]
fn nul_has_no_place_in_a_string() {
    assert_eq!(
        refused(|s| s.author.name = "a\0b".to_owned()),
        at("/author/name", "U+0000 is not allowed")
    );
}

#[test]
fn only_declared_enum_values_are_written() {
    assert_eq!(
        refused(|s| s.level = Level::Absurd),
        at("/level", "the variant is not among the declared values")
    );
}

/// The sample's fields with one of another type.
#[derive(Serialize)]
struct With<C, L, A> {
    title: &'static str,
    note: char,
    count: C,
    done: bool,
    level: Level,
    tags: L,
    author: A,
    items: Vec<Item>,
}

fn author() -> Author {
    sample().author
}

fn with<C, L, A>(count: C, tags: L, author: A) -> With<C, L, A> {
    With {
        title: "t",
        note: 'é',
        count,
        done: true,
        level: Level::High,
        tags,
        author,
        items: Vec::new(),
    }
}

#[derive(Serialize)]
struct Unit;
#[derive(Serialize)]
struct Newtype<T>(T);
#[derive(Serialize)]
struct Pair(i64, i64);
#[derive(Serialize)]
enum Data {
    One(i64),
    Two(i64, i64),
    Named { value: i64 },
    Bare,
}

#[test]
fn shapes_without_a_place_are_refused() {
    let none: Vec<String> = Vec::new();
    for (given, count) in [
        (
            "a floating-point number",
            refusal(with(1.0_f64, none.clone(), author())),
        ),
        (
            "a floating-point number",
            refusal(with(1.0_f32, none.clone(), author())),
        ),
        ("a string", refusal(with("1", none.clone(), author()))),
        ("a string", refusal(with('1', none.clone(), author()))),
        ("a boolean", refusal(with(true, none.clone(), author()))),
        (
            "nothing (every field is required, and null is not allowed)",
            refusal(with(None::<i64>, none.clone(), author())),
        ),
        ("a unit", refusal(with((), none.clone(), author()))),
        ("a unit struct", refusal(with(Unit, none.clone(), author()))),
        (
            "a tuple or fixed-size array",
            refusal(with([1, 2], none.clone(), author())),
        ),
        (
            "a tuple struct",
            refusal(with(Pair(1, 2), none.clone(), author())),
        ),
        (
            "a variant with data",
            refusal(with(Data::One(1), none.clone(), author())),
        ),
        (
            "a variant with data",
            refusal(with(Data::Two(1, 2), none.clone(), author())),
        ),
        (
            "a variant with data",
            refusal(with(Data::Named { value: 1 }, none.clone(), author())),
        ),
        ("an enum", refusal(with(Data::Bare, none.clone(), author()))),
        ("a list", refusal(with(vec![1], none.clone(), author()))),
        ("a record", refusal(with(author(), none.clone(), author()))),
        (
            "a map (or a record with a flattened field)",
            refusal(with(BTreeMap::from([("a", 1)]), none.clone(), author())),
        ),
        ("a byte string", refusal(with(Bytes, none, author()))),
    ] {
        let rule = format!("{given} is given where the contract declares an integer");
        assert_eq!(count, ("/count".to_owned(), rule));
    }
    assert_eq!(
        refusal(with(1, ["a"; 2], author())).1,
        "a tuple or fixed-size array is given where the contract declares a list"
    );
    assert_eq!(
        refusal(with(1, vec![Some("a"), None], author())).0,
        "/tags/1"
    );
}

struct Bytes;

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(b"1")
    }
}

/// A list of unknown length.
struct Stream(usize);

impl Serialize for Stream {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for index in 0..self.0 {
            list.serialize_element(&index.to_string())?;
        }
        list.end()
    }
}

#[test]
fn accepted_shapes_are_written_plainly() {
    let payload = with(Newtype(Some(Newtype(7_u128))), Stream(2), Some(author()));
    let codec = codec(&[
        contract().with_type::<With<Newtype<Option<Newtype<u128>>>, Stream, Option<Author>>>()
    ]);
    let encoded = codec.encode(&draft(payload)).expect("encodes");
    let text = std::str::from_utf8(encoded.envelope()).expect("UTF-8");
    let payload = concat!(
        r#""payload":{"title":"t","note":"é","count":7,"done":true,"level":"HIGH","#,
        r#""tags":["0","1"],"author":{"name":"Ada","team":"one"},"items":[]}}"#
    );
    assert!(text.ends_with(payload), "{text}");
}

#[derive(Serialize)]
struct OutOfOrder {
    title: String,
    count: i64,
    note: String,
}
#[derive(Serialize)]
struct Unknown {
    title: String,
    colour: String,
}
#[derive(Serialize)]
struct Renamed {
    title: String,
    #[serde(rename = "remark")]
    note: String,
}
#[derive(Serialize)]
struct Missing {
    title: String,
}
#[derive(Serialize)]
struct Skipped {
    title: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    note: String,
}
#[derive(Serialize)]
struct Flattened {
    title: String,
    #[serde(flatten)]
    author: Author,
}

#[test]
fn field_names_and_order_are_the_contracts() {
    let (title, text) = ("t".to_owned(), String::new);
    assert_eq!(
        refusal(OutOfOrder {
            title: title.clone(),
            count: 1,
            note: text()
        }),
        at(
            "/count",
            "the field is out of order; the contract has `note` here"
        )
    );
    assert_eq!(
        refusal(Unknown {
            title: title.clone(),
            colour: text()
        }),
        at("/colour", "the field is not in the contract")
    );
    assert_eq!(
        refusal(Renamed {
            title: title.clone(),
            note: text()
        }),
        at("/remark", "the field is not in the contract")
    );
    assert_eq!(
        refusal(Missing {
            title: title.clone()
        }),
        at("/note", "required field is missing")
    );
    assert_eq!(
        refusal(Skipped {
            title: title.clone(),
            note: text()
        }),
        at("/note", "the field is skipped")
    );
    assert_eq!(
        refusal(Flattened {
            title,
            author: author()
        }),
        at(
            "",
            "a map (or a record with a flattened field) is given where the contract declares a record"
        )
    );
    assert_eq!(
        refusal(vec![1]),
        at("", "a list is given where the contract declares a record")
    );
}

/// Writes a field twice, swallows the refusal and claims success.
struct Swallowing;

impl Serialize for Swallowing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut record = serializer.serialize_struct("Swallowing", 1)?;
        record.serialize_field("title", "t")?;
        drop(record.serialize_field("title", "t"));
        record.end()
    }
}

/// Fails by itself, quoting a value.
struct Failing;

impl Serialize for Failing {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("secret-value"))
    }
}

/// Serializes a map through the low-level interface.
struct Mapped;

impl Serialize for Mapped {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("title", "t")?;
        map.end()
    }
}

#[test]
fn hand_written_serialization_is_judged_the_same() {
    assert_eq!(refusal(Swallowing).0, "/title");
    assert_eq!(
        refusal(Failing),
        at("", "the record's own serialization failed")
    );
    assert!(refusal(Mapped).1.starts_with("a map"));
}

#[test]
fn byte_bounds_are_exact() {
    let bytes_of_payload = |title: usize| {
        let mut payload = sample();
        payload.title = "é".repeat(title);
        payload
    };
    let payload_length = |payload: &Sample| serde_json::to_vec(payload).expect("JSON").len();
    let exact = u32::try_from(payload_length(&bytes_of_payload(40))).expect("small");
    let bounded = contract().with(|d| d.maximum_payload_bytes = exact);
    let codec = codec(&[bounded]);
    assert!(codec.encode(&draft(bytes_of_payload(40))).is_ok());
    let rejection = rejected(
        codec
            .encode(&draft(bytes_of_payload(41)))
            .expect_err("too large"),
    );
    assert_eq!(
        (rejection.pointer.as_str(), rejection.rule),
        (
            "",
            RejectionRule::Bound {
                rule: "maximum payload bytes".to_owned(),
                bound: exact.to_string()
            }
        )
    );
}

#[test]
fn envelope_bounds_are_exact() {
    let length = u32::try_from(crate::fixture::document().len()).expect("small");
    let bounded = |bound: u32| {
        contract().with(|d| {
            d.maximum_payload_bytes = 170;
            d.maximum_envelope_bytes = bound;
        })
    };
    assert!(codec(&[bounded(length)]).encode(&draft(sample())).is_ok());
    for bound in [length - 1, length - 100, 300, 171] {
        let error = codec(&[bounded(bound)])
            .encode(&draft(sample()))
            .expect_err("too large");
        let rejection = rejected(error);
        assert_eq!(
            rejection.rule.to_string(),
            format!("maximum envelope bytes is {bound}")
        );
        assert_eq!(rejection.pointer, "");
    }
}

#[test]
fn an_endless_record_stops_at_its_bound() {
    let endless = with(1, Stream(usize::MAX), author());
    assert_eq!(refusal(endless), at("", "maximum payload bytes is 4096"));
}

#[test]
fn occurrence_years_are_bounded() {
    let codec = standard();
    for seconds in [
        -62_135_596_801,
        253_402_300_800,
        i64::from(i32::MIN) * 1_000_000,
    ] {
        let mut draft = draft(sample());
        draft.occurred_at = OccurredAt::new(seconds, 0).expect("instant");
        let rejection = rejected(codec.encode(&draft).expect_err("out of range"));
        assert_eq!(
            rejection.rule.to_string(),
            "range of years of the envelope's occurredAt is 0001 to 9999"
        );
    }
}

/// Of the sample's shape, but another type.
#[derive(Serialize)]
struct Twin {
    title: String,
}

#[test]
fn contracts_are_found_by_exact_type() {
    let codec = standard();
    let unknown = |error: EncodeError| match error {
        EncodeError::UnknownPayloadType { payload_type } => payload_type.to_owned(),
        other => panic!("expected an unknown type, got {other:?}"),
    };
    let encode = |draft| unknown(codec.encode(&draft).expect_err("unknown type"));
    assert!(encode(draft(Newtype(sample()))).contains("Newtype"));
    assert!(encode(draft(Box::new(sample()))).contains("Box"));
    assert!(encode(draft(Some(sample()))).contains("Option"));
    assert!(
        encode(draft(Twin {
            title: String::new()
        }))
        .contains("Twin")
    );
}

#[test]
fn aggregate_type_and_tenant_must_fit() {
    let codec = standard();
    let mut other = draft(sample());
    other.aggregate = AggregateIdentity::new(
        AggregateType::parse("poster").expect("aggregate type"),
        AggregateId::parse("1").expect("aggregate id"),
    );
    assert!(matches!(
        codec.encode(&other),
        Err(EncodeError::AggregateType { contract, expected, actual })
            if contract == key(CONTRACT, 1) && expected == "sample" && actual == "poster"
    ));
    let mut tenanted = draft(sample());
    tenanted.tenant_id = Some(TenantId::parse("acme").expect("tenant"));
    assert!(matches!(
        codec.encode(&tenanted),
        Err(EncodeError::Tenant { .. })
    ));
    let active = JsonEnvelopeCodec::new(codec.catalog().clone(), TenantMode::Active);
    assert!(matches!(
        active.encode(&draft(sample())),
        Err(EncodeError::Tenant { .. })
    ));
    let encoded = active.encode(&tenanted).expect("encodes");
    assert_eq!(encoded.identities().tenant_scope.as_str(), "acme");
}

#[test]
fn the_sealed_event_says_what_it_was_validated_against() {
    let codec = standard();
    let encoded = codec.encode(&draft(sample())).expect("encodes");
    let catalog = codec.catalog().catalog();
    let schemas = encoded.schemas();
    assert_eq!(schemas.catalog_revision, catalog.revision());
    assert_eq!(schemas.schema_set, catalog.schema_set());
    assert_eq!(
        schemas.payload_schema,
        contract().descriptor.payload_schema.sha256
    );
    assert_eq!(
        schemas.envelope_schema.to_hex(),
        shared_contract::ENVELOPE_V1_SCHEMA_SHA256
    );
    assert_eq!(encoded.binding_revision().as_str(), "r0");
    assert!(encoded.ordering_required());
}

#[test]
fn what_the_provider_cannot_stamp_is_refused_before_it_is_stored() {
    let mut deployment = deployment(vec![binding(DESTINATION, "r1", true)]);
    deployment.provider.earliest_epoch_millis = Some(1);
    let catalog = compile(&[contract()]).bind(deployment).expect("binds");
    let codec = JsonEnvelopeCodec::new(Arc::new(catalog), TenantMode::Disabled);
    let at = |seconds, nanos| {
        let mut draft = draft(sample());
        draft.occurred_at = OccurredAt::new(seconds, nanos).expect("instant");
        draft
    };
    assert!(codec.encode(&at(0, 1_000_000)).is_ok());
    for early in [at(0, 999_999), at(0, 0), at(-1, 0)] {
        let rejection = rejected(codec.encode(&early).expect_err("too early"));
        assert_eq!(
            rejection.rule.to_string(),
            "earliest occurredAt in epoch milliseconds that the provider carries is 1"
        );
    }
}
