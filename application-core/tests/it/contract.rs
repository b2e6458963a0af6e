//! Catalog and bindings: uniqueness, mixed ordering, and digests that cover every field.

use application_core::contract::*;
use application_core::event::PayloadType;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::*;
use std::time::Duration;

fn version(number: i64) -> PayloadVersion {
    PayloadVersion::new(number).expect("version")
}

fn descriptor(contract: &str) -> ContractDescriptor {
    ContractDescriptor {
        contract_id: ContractId::parse(contract).expect("id"),
        payload_version: version(1),
        owner_module: "sample".into(),
        destination: LogicalDestinationId::parse("sample-events").expect("id"),
        aggregate_type: AggregateType::parse("thing").expect("type"),
        payload_schema: SchemaResource {
            id: format!("https://example.invalid/{contract}/v1"),
            sha256: Sha256Digest::of(contract.as_bytes()),
        },
        serializer: ContractDescriptor::SERIALIZER.into(),
        ordering: OrderingRequirement::AggregateSequence,
        partition_key: PartitionKeyPolicy::AggregateScope,
        maximum_payload_bytes: 300,
        maximum_envelope_bytes: 800,
        sensitivity: Sensitivity::Internal,
        versions: VersionMatrix {
            producer: vec![version(1)],
            consumer: vec![version(1)],
        },
        requeue_horizon: Duration::from_secs(60),
        fields: vec![PayloadField {
            path: "title".into(),
            kind: FieldKind::Enum(vec!["A".into(), "B".into()]),
        }],
    }
}

fn build(
    contracts: Vec<(ContractDescriptor, Option<PayloadType>)>,
) -> Result<ContractCatalog, CatalogError> {
    ContractCatalog::build(contracts, Sha256Digest::of(b"envelope"))
}

#[test]
fn each_version_schema_and_type_is_registered_once() {
    let one = || descriptor("sample.one.done");
    let two = || descriptor("sample.two.done");
    assert!(matches!(
        build(vec![(one(), None), (one(), None)]),
        Err(CatalogError::DuplicateContract(key)) if key.to_string() == "sample.one.done version 1"
    ));
    let mut same_schema = two();
    same_schema.payload_schema.id = one().payload_schema.id;
    assert!(matches!(
        build(vec![(one(), None), (same_schema, None)]),
        Err(CatalogError::DuplicateSchema { .. })
    ));
    let token = Some(PayloadType::of::<u32>());
    assert!(matches!(
        build(vec![(one(), token), (two(), token)]),
        Err(CatalogError::DuplicatePayloadType {
            payload_type: "u32",
            ..
        })
    ));
}

#[test]
fn lookup_is_by_exact_type() {
    struct Wrapper(#[expect(dead_code, reason = "only its type matters")] u32);
    let catalog = build(vec![(
        descriptor("sample.one.done"),
        Some(PayloadType::of::<u32>()),
    )])
    .expect("catalog");
    assert!(catalog.find_by_type(PayloadType::of::<u32>()).is_some());
    assert!(catalog.find_by_type(PayloadType::of::<i32>()).is_none());
    assert!(catalog.find_by_type(PayloadType::of::<Wrapper>()).is_none());
}

#[test]
fn ordered_and_unordered_contracts_do_not_share_a_scope() {
    let mut unordered = descriptor("sample.two.done");
    unordered.ordering = OrderingRequirement::None;
    let error = build(vec![
        (unordered.clone(), None),
        (descriptor("sample.one.done"), None),
    ])
    .expect_err("mixed");
    assert!(
        error
            .to_string()
            .contains("sample.one.done version 1 requires order")
    );
    unordered.aggregate_type = AggregateType::parse("other").expect("type");
    assert!(
        build(vec![
            (unordered, None),
            (descriptor("sample.one.done"), None)
        ])
        .is_ok()
    );
}

/// Changing any one field changes the descriptor's digest and the catalog's revision.
#[test]
fn the_digest_covers_every_field() {
    let original = descriptor("sample.one.done");
    let changes: Vec<fn(&mut ContractDescriptor)> = vec![
        |d| d.contract_id = ContractId::parse("sample.other.done").expect("id"),
        |d| d.payload_version = version(2),
        |d| d.owner_module = "other".into(),
        |d| d.destination = LogicalDestinationId::parse("other-events").expect("id"),
        |d| d.aggregate_type = AggregateType::parse("other").expect("type"),
        |d| d.payload_schema.id = "https://example.invalid/other".into(),
        |d| d.payload_schema.sha256 = Sha256Digest::of(b"other"),
        |d| d.serializer = "other.v1".into(),
        |d| d.ordering = OrderingRequirement::None,
        |d| d.maximum_payload_bytes += 1,
        |d| d.maximum_envelope_bytes += 1,
        |d| d.sensitivity = Sensitivity::Public,
        |d| d.versions.producer = vec![version(1), version(2)],
        |d| d.versions.consumer = vec![version(1), version(2)],
        |d| d.requeue_horizon += Duration::from_micros(1),
        |d| d.fields[0].path = "name".into(),
        |d| d.fields[0].kind = FieldKind::String,
        |d| d.fields[0].kind = FieldKind::Enum(vec!["AB".into()]),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut changed = original.clone();
        change(&mut changed);
        assert_ne!(changed.digest(), original.digest(), "change {index}");
    }
    assert_eq!(original.clone().digest(), original.digest());
    // Neighbours do not run together: the same words, once as values and once as a field.
    let field = |path: &str, kind| PayloadField {
        path: path.into(),
        kind,
    };
    let values = |names: &[&str]| FieldKind::Enum(names.iter().map(|n| (*n).into()).collect());
    let mut one = original.clone();
    one.fields = vec![field("a", values(&["X", "b", "string"]))];
    let mut two = original;
    two.fields = vec![field("a", values(&["X"])), field("b", FieldKind::String)];
    assert_ne!(one.digest(), two.digest());
}

#[test]
fn the_revision_does_not_depend_on_the_order_of_registration() {
    let (one, two) = (descriptor("sample.one.done"), descriptor("sample.two.done"));
    let forward = build(vec![(one.clone(), None), (two.clone(), None)]).expect("catalog");
    let backward = build(vec![(two, None), (one.clone(), None)]).expect("catalog");
    assert_eq!(forward.revision(), backward.revision());
    assert_eq!(forward.schema_set(), backward.schema_set());
    let alone = build(vec![(one, None)]).expect("catalog");
    assert_ne!(alone.revision(), forward.revision());
}

#[test]
fn a_descriptor_that_contradicts_itself_names_the_bound() {
    type Change = fn(&mut ContractDescriptor);
    let changes: Vec<(Change, &str)> = vec![
        (
            |d| d.serializer = "x".into(),
            "only `json-schema-envelope.v1` exists",
        ),
        (|d| d.owner_module.clear(), "1 to 96 bytes"),
        (|d| d.maximum_payload_bytes = 0, "zero"),
        (|d| d.maximum_envelope_bytes = 1_048_577, "at most 1048576"),
        (|d| d.maximum_envelope_bytes = 300, "leaves no room"),
        (|d| d.requeue_horizon = Duration::ZERO, "horizon is zero"),
        (
            |d| d.requeue_horizon = Duration::from_secs(3650 * 86_400) + Duration::from_nanos(1),
            "horizon exceeds 3650 days",
        ),
        (|d| d.versions.producer.clear(), "strictly ascending"),
        (|d| d.versions.producer = vec![version(2)], "need not read"),
        (|d| d.fields.clear(), "no field"),
        (|d| d.fields.push(d.fields[0].clone()), "listed twice"),
    ];
    for (change, rule) in changes {
        let mut changed = descriptor("sample.one.done");
        change(&mut changed);
        let error = changed.check().expect_err(rule);
        assert!(error.rule.contains(rule), "{error}");
    }
}

fn binding(destination: &str, revision: &str, current: bool) -> DestinationBinding {
    DestinationBinding {
        destination: LogicalDestinationId::parse(destination).expect("id"),
        revision: DestinationBindingRevision::parse(revision).expect("revision"),
        maximum_record_bytes: 1024,
        maximum_envelope_bytes: 800,
        current,
    }
}

#[test]
fn each_destination_has_exactly_one_current_revision() {
    let set = BindingSet::build(vec![
        binding("a", "a-r1", false),
        binding("a", "a-r2", true),
    ])
    .expect("bindings");
    let a = LogicalDestinationId::parse("a").expect("id");
    assert_eq!(set.current(&a).map(|b| b.revision.as_str()), Some("a-r2"));
    assert_eq!(set.of(&a).count(), 2);
    assert_eq!(
        BindingSet::build(vec![binding("a", "a-r1", false)]).map(|_| ()),
        Err(BindingSetError::NoCurrent(a))
    );
    assert!(matches!(
        BindingSet::build(vec![binding("a", "a-r1", true), binding("a", "a-r2", true)]),
        Err(BindingSetError::TwoCurrent { .. })
    ));
    assert!(matches!(
        BindingSet::build(vec![binding("a", "r1", true), binding("b", "r1", true)]),
        Err(BindingSetError::DuplicateRevision(_))
    ));
}
