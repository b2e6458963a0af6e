//! Versions side by side: N and N−1, retired and future ones (requirement 004 §14.4).
//!
//! Invariant: the newest version's matrix says what may be appended; every version it tells
//! consumers to read is read.

use crate::fixture::{
    CONTRACT, Contract, DESTINATION, Sample, codec, contract_of, draft, key, sample, version,
};
use application_core::ports::{DecodeError, EncodeError, EnvelopeCodec};
use outbound_contract_json::{CompileError, ContractCompiler};
use serde::Serialize;

/// The payload of version 2: the same record as another type.
#[derive(Serialize)]
#[serde(transparent)]
struct Second(Sample);

fn first() -> Contract {
    contract_of(CONTRACT, 1, DESTINATION, "sample")
}

fn second(producer: &[i64], consumer: &[i64]) -> Contract {
    contract_of(CONTRACT, 2, DESTINATION, "sample")
        .with_type::<Second>()
        .with(|d| {
            d.versions.producer = producer.iter().map(|v| version(*v)).collect();
            d.versions.consumer = consumer.iter().map(|v| version(*v)).collect();
        })
}

#[test]
fn consumers_read_the_new_version_before_producers_write_it() {
    let before = codec(&[first()]);
    let overlap = codec(&[first(), second(&[1, 2], &[1, 2])]);
    let after = codec(&[first(), second(&[2], &[1, 2])]);
    let old = before.encode(&draft(sample())).expect("version 1");
    let new = after.encode(&draft(Second(sample()))).expect("version 2");
    for reader in [&overlap, &after] {
        for event in [&old, &new] {
            let decoded = reader
                .decode(event.envelope())
                .expect("both versions are read");
            assert_eq!(
                decoded.identities.payload_version,
                event.identities().payload_version
            );
        }
    }
    assert!(overlap.encode(&draft(sample())).is_ok());
    assert!(overlap.encode(&draft(Second(sample()))).is_ok());
    // A reader that is one version behind refuses by name; the document stays well-formed for it.
    assert_eq!(
        before.decode(new.envelope()).map(|_| ()),
        Err(DecodeError::UnknownContract(key(CONTRACT, 2)))
    );
    assert!(before.read_identities(new.envelope()).is_ok());
}

#[test]
fn a_retired_version_is_read_but_not_appended() {
    let codec = codec(&[first(), second(&[2], &[1, 2])]);
    assert!(matches!(
        codec.encode(&draft(sample())),
        Err(EncodeError::VersionRetired { contract }) if contract == key(CONTRACT, 1)
    ));
    let known: Vec<_> = codec
        .catalog()
        .known_records()
        .into_iter()
        .map(|record| record.contract)
        .collect();
    assert_eq!(known, [key(CONTRACT, 1), key(CONTRACT, 2)]);
}

#[test]
fn the_catalog_holds_exactly_the_versions_that_are_read() {
    let compile = |contracts: &[Contract]| {
        contracts
            .iter()
            .fold(ContractCompiler::new(), |compiler, one| {
                compiler.contribution(one)
            })
            .compile()
            .map(|_| ())
    };
    let missing = compile(&[second(&[2], &[1, 2])]).expect_err("version 1 is missing");
    assert!(
        matches!(missing, CompileError::ConsumerVersions { version: one, .. } if one == version(1))
    );
    let unlisted = compile(&[first(), second(&[2], &[2])]).expect_err("version 1 is unlisted");
    assert!(matches!(
        unlisted,
        CompileError::ConsumerVersions { version: one, newest, .. }
            if one == version(1) && newest == version(2)
    ));
    assert!(compile(&[second(&[2], &[2])]).is_ok());
}
