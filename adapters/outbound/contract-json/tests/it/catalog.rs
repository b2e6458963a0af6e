//! Contracts, bindings and provider put together (requirement 004 §13.2).
//!
//! Invariant: each contradiction has its own error, with both sides and both numbers.

use crate::fixture::{
    CONTRACT, Contract, DESTINATION, Sample, binding, compile, contract, contract_of, deployment,
    key, provider,
};
use application_core::contract::{
    BindingSet, BindingSetError, CatalogError, OrderingRequirement, PayloadField,
};
use outbound_contract_json::{BindError, CompileError, ContractCompiler, ProviderBounds};

struct Other;

fn refused(contracts: &[Contract]) -> CompileError {
    contracts
        .iter()
        .fold(ContractCompiler::new(), |compiler, one| {
            compiler.contribution(one)
        })
        .compile()
        .map(|_| ())
        .expect_err("must be refused")
}

#[test]
fn duplicates_are_refused() {
    assert!(matches!(
        refused(&[contract(), contract()]),
        CompileError::Catalog(CatalogError::DuplicateContract(one)) if one == key(CONTRACT, 1)
    ));
    let second = contract_of("golden.sample.removed", 1, DESTINATION, "sample");
    assert!(matches!(
        refused(&[contract(), second.clone()]),
        CompileError::Catalog(CatalogError::DuplicatePayloadType { payload_type, .. })
            if payload_type.ends_with("Sample")
    ));
    let id = contract().descriptor.payload_schema.id;
    let mut schema = crate::fixture::schema(CONTRACT, 1);
    schema["title"] = "another document of the same id".into();
    let same_id = second
        .with_type::<Other>()
        .with(|d| d.payload_schema.id = id.clone())
        .with_schema(&schema);
    assert!(matches!(
        refused(&[contract(), same_id]),
        CompileError::Catalog(CatalogError::DuplicateSchema { id: shared, .. }) if shared == id
    ));
}

#[test]
fn bindings_are_unique_and_current() {
    let build = |bindings| BindingSet::build(bindings).map(|_| ());
    assert!(matches!(
        build(vec![binding(DESTINATION, "r1", true), binding("other-events", "r1", true)]),
        Err(BindingSetError::DuplicateRevision(revision)) if revision.as_str() == "r1"
    ));
    assert!(matches!(
        build(vec![
            binding(DESTINATION, "r1", true),
            binding(DESTINATION, "r2", true)
        ]),
        Err(BindingSetError::TwoCurrent { .. })
    ));
    assert!(matches!(
        build(vec![binding(DESTINATION, "r1", false)]),
        Err(BindingSetError::NoCurrent(destination)) if destination.as_str() == DESTINATION
    ));
}

#[test]
fn ordered_and_unordered_events_do_not_share_a_scope() {
    let unordered = contract_of("golden.sample.removed", 1, DESTINATION, "sample")
        .with_type::<Other>()
        .with(|d| d.ordering = OrderingRequirement::None);
    assert!(matches!(
        refused(&[contract(), unordered]),
        CompileError::Catalog(CatalogError::MixedOrdering { .. })
    ));
}

#[test]
fn a_descriptor_or_field_list_that_contradicts_itself_is_refused() {
    let refuse = |change: fn(&mut application_core::contract::ContractDescriptor)| {
        refused(&[contract().with(change)])
    };
    assert!(matches!(
        refuse(|d| d.serializer = "avro.v1".to_owned()),
        CompileError::Descriptor(error) if error.rule.contains("avro.v1")
    ));
    assert!(matches!(
        refuse(|d| d.maximum_payload_bytes = 8192),
        CompileError::Descriptor(error) if error.rule.contains("no room")
    ));
    assert!(matches!(
        refuse(|d| d.fields.push(PayloadField { path: "author.email".to_owned(), kind: d.fields[0].kind.clone() })),
        CompileError::Fields { contract, source } if contract == key(CONTRACT, 1) && source.path == "author.email"
    ));
}

#[test]
fn every_contract_has_a_current_binding_and_every_binding_a_contract() {
    let bind = |bindings| {
        compile(&[contract()])
            .bind(deployment(bindings))
            .map(|_| ())
            .expect_err("must be refused")
    };
    assert_eq!(
        bind(vec![]),
        BindError::UnboundDestination {
            contract: key(CONTRACT, 1),
            destination: contract().descriptor.destination,
        }
    );
    let other = binding("other-events", "r2", true);
    assert_eq!(
        bind(vec![binding(DESTINATION, "r1", true), other.clone()]),
        BindError::IdleDestination(other.destination)
    );
}

#[test]
fn contract_bytes_fit_the_destination_and_the_provider() {
    let bind = |destination_bytes: u32, record_bytes: u32, provider: ProviderBounds| {
        let mut binding = binding(DESTINATION, "r1", true);
        binding.maximum_envelope_bytes = destination_bytes;
        binding.maximum_record_bytes = record_bytes;
        let mut deployment = deployment(vec![binding]);
        deployment.provider = provider;
        compile(&[contract()]).bind(deployment).map(|_| ())
    };
    let bytes = contract().descriptor.maximum_envelope_bytes;
    assert_eq!(bytes, 8192);
    assert_eq!(
        bind(
            8192,
            8256,
            ProviderBounds {
                maximum_envelope_bytes: 8192,
                ..provider()
            }
        ),
        Ok(())
    );
    let error = bind(8191, 65_536, provider()).expect_err("destination too small");
    assert_eq!(
        error.to_string(),
        "contract golden.sample.recorded version 1 allows envelopes of 8192 bytes, but binding r1 \
         of its destination takes at most 8191"
    );
    let small = ProviderBounds {
        maximum_envelope_bytes: 9000,
        ..provider()
    };
    let error = bind(9001, 65_536, small).expect_err("provider too small");
    assert!(matches!(
        error,
        BindError::DestinationExceedsProvider {
            destination_bytes: 9001,
            provider_bytes: 9000,
            ..
        }
    ));
    let error = bind(8192, 8255, provider()).expect_err("record too small");
    assert!(matches!(
        error,
        BindError::RecordTooSmall {
            record_bytes: 8255,
            envelope_bytes: 8192,
            ..
        }
    ));
}

#[test]
fn the_journal_names_itself_and_its_bound() {
    let mut deployment = deployment(vec![binding(DESTINATION, "r1", true)]);
    deployment.provider = ProviderBounds {
        card: "journal-acknowledged.v1".to_owned(),
        maximum_envelope_bytes: 810,
        earliest_epoch_millis: None,
        reason: "a journal record holds at most 1,024 bytes in all".to_owned(),
    };
    let error = compile(&[contract()])
        .bind(deployment)
        .map(|_| ())
        .expect_err("too large");
    assert_eq!(
        error.to_string(),
        "contract golden.sample.recorded version 1 allows envelopes of 8192 bytes, but provider \
         journal-acknowledged.v1 takes at most 810: a journal record holds at most 1,024 bytes in \
         all"
    );
}

#[test]
fn known_records_cover_every_revision_of_the_destination() {
    let bindings = vec![
        binding(DESTINATION, "r1", false),
        binding(DESTINATION, "r2", true),
    ];
    let bound = compile(&[contract()])
        .bind(deployment(bindings))
        .expect("fits");
    let known: Vec<_> = bound
        .known_records()
        .into_iter()
        .map(|record| {
            assert_eq!(record.contract, key(CONTRACT, 1));
            assert_eq!(
                record.payload_schema,
                contract().descriptor.payload_schema.sha256
            );
            record.binding_revision.as_str().to_owned()
        })
        .collect();
    assert_eq!(known, ["r1", "r2"]);
}

#[test]
fn catalog_and_schema_hashes_do_not_depend_on_the_order() {
    let second =
        contract_of("golden.poster.recorded", 1, DESTINATION, "poster").with_type::<Other>();
    let one = compile(&[contract(), second.clone()]);
    let other = compile(&[second, contract()]);
    assert_eq!(one.catalog().revision(), other.catalog().revision());
    assert_eq!(one.catalog().schema_set(), other.catalog().schema_set());
    let changed = compile(&[contract().with(|d| d.maximum_payload_bytes -= 1)]);
    let same = compile(&[contract().with_type::<Sample>()]);
    assert_ne!(changed.catalog().revision(), same.catalog().revision());
    assert_eq!(changed.catalog().schema_set(), same.catalog().schema_set());
}
