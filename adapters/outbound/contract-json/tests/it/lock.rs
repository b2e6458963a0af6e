//! The contracts lock only grows.
//!
//! Invariant: a changed or dropped hash is refused by name, at merge, in CI and at start-up.

use crate::fixture::{CONTRACT, Contract, DESTINATION, compile, contract, contract_of, key};
use application_core::contract::ContractCatalog;
use outbound_contract_json::{ContractsLock, LockError};

struct Other;

fn catalog(contracts: &[Contract]) -> ContractCatalog {
    compile(contracts).catalog().clone()
}

fn second() -> Contract {
    contract_of("golden.poster.recorded", 1, DESTINATION, "poster").with_type::<Other>()
}

fn locked(contracts: &[Contract]) -> ContractsLock {
    ContractsLock::empty()
        .merge(&catalog(contracts))
        .expect("merges")
}

#[test]
fn the_file_is_sorted_and_reads_back() {
    let lock = locked(&[contract(), second()]);
    let text = lock.to_yaml();
    assert_eq!(
        ContractsLock::from_yaml(text.as_bytes()).as_ref(),
        Ok(&lock)
    );
    assert_eq!(locked(&[second(), contract()]).to_yaml(), text);
    let names: Vec<_> = lock.iter().map(|(key, _)| key.to_string()).collect();
    assert_eq!(
        names,
        [
            "golden.poster.recorded version 1",
            "golden.sample.recorded version 1"
        ]
    );
    let empty = ContractsLock::empty();
    assert_eq!(
        ContractsLock::from_yaml(empty.to_yaml().as_bytes()),
        Ok(empty)
    );
}

#[test]
fn merging_adds_and_never_changes() {
    let lock = locked(&[contract()]);
    let grown = lock
        .merge(&catalog(&[contract(), second()]))
        .expect("grows");
    assert_eq!(grown.iter().count(), 2);
    assert_eq!(grown.check_grown_from(&lock), Ok(()));
    let mut schema = crate::fixture::schema(CONTRACT, 1);
    schema["properties"]["title"]["maxLength"] = 81.into();
    assert_eq!(
        lock.merge(&catalog(&[contract().with_schema(&schema)])),
        Err(LockError::SchemaChanged(key(CONTRACT, 1)))
    );
    assert_eq!(
        lock.merge(&catalog(&[
            contract().with(|d| d.maximum_payload_bytes -= 1)
        ])),
        Err(LockError::DescriptorChanged(key(CONTRACT, 1)))
    );
    // A version that left the catalog stays locked.
    let kept = grown.merge(&catalog(&[second()])).expect("keeps");
    assert_eq!(kept, grown);
}

#[test]
fn continuous_integration_sees_what_changed_or_is_gone() {
    let before = locked(&[contract(), second()]);
    assert_eq!(
        locked(&[second()]).check_grown_from(&before),
        Err(LockError::Dropped(key(CONTRACT, 1)))
    );
    let changed = locked(&[
        contract().with(|d| d.owner_module = "other".to_owned()),
        second(),
    ]);
    assert_eq!(
        changed.check_grown_from(&before),
        Err(LockError::DescriptorChanged(key(CONTRACT, 1)))
    );
    let hash = shared_contract::ENVELOPE_V1_SCHEMA_SHA256;
    let other_envelope = before.to_yaml().replace(hash, &"0".repeat(64));
    let other_envelope = ContractsLock::from_yaml(other_envelope.as_bytes()).expect("reads");
    assert_eq!(
        other_envelope.check_grown_from(&before),
        Err(LockError::EnvelopeSchema)
    );
    assert_eq!(
        other_envelope.check(&catalog(&[second()])),
        Err(LockError::EnvelopeSchema)
    );
}

/// The earlier format hashed descriptors in another form: across the two, payload schemas alone are
/// compared, and a lock is brought forward only with every version at hand.
#[test]
fn a_lock_of_the_earlier_format_is_brought_forward() {
    let now = locked(&[contract(), second()]);
    let text = now.to_yaml().replace("lock.v2", "lock.v1");
    let hashes: Vec<_> = now.iter().map(|(_, one)| one.descriptor.to_hex()).collect();
    let text = hashes
        .iter()
        .fold(text, |text, hash| text.replace(hash, &"1".repeat(64)));
    let before = ContractsLock::from_yaml(text.as_bytes()).expect("reads");
    assert_ne!(before, now);
    assert_eq!(now.check_grown_from(&before), Ok(()));
    let both = catalog(&[contract(), second()]);
    assert_eq!(before.merge(&both), Ok(now.clone()));
    assert_eq!(before.check(&both), Err(LockError::EarlierFormat));
    assert_eq!(before.check_grown_from(&now), Err(LockError::EarlierFormat));
    assert_eq!(
        before.merge(&catalog(&[second()])),
        Err(LockError::Dropped(key(CONTRACT, 1)))
    );
    assert_eq!(
        locked(&[second()]).check_grown_from(&before),
        Err(LockError::Dropped(key(CONTRACT, 1)))
    );
    let mut schema = crate::fixture::schema(CONTRACT, 1);
    schema["properties"]["title"]["maxLength"] = 81.into();
    let changed = [contract().with_schema(&schema), second()];
    assert_eq!(
        locked(&changed).check_grown_from(&before),
        Err(LockError::SchemaChanged(key(CONTRACT, 1)))
    );
    assert_eq!(
        before.merge(&catalog(&changed)),
        Err(LockError::SchemaChanged(key(CONTRACT, 1)))
    );
}

#[test]
fn start_up_takes_only_what_is_locked() {
    let lock = locked(&[contract()]);
    assert_eq!(lock.check(&catalog(&[contract()])), Ok(()));
    assert_eq!(
        lock.check(&catalog(&[contract(), second()])),
        Err(LockError::NotLocked(key("golden.poster.recorded", 1)))
    );
    assert_eq!(
        lock.check(&catalog(&[
            contract().with(|d| d.maximum_envelope_bytes -= 1)
        ])),
        Err(LockError::DescriptorChanged(key(CONTRACT, 1)))
    );
    assert_eq!(
        locked(&[contract(), second()]).check(&catalog(&[contract()])),
        Ok(())
    );
}

#[test]
fn a_file_that_is_no_lock_is_refused() {
    let text = locked(&[contract(), second()]).to_yaml();
    let entry = text.find("  - contract-id: golden.sample").expect("entry");
    let duplicated = format!("{text}{}", &text[entry..]);
    for (what, file) in [
        ("blank", String::new()),
        ("comment", "# nothing\n".to_owned()),
        ("duplicate entry", duplicated),
        ("unknown key", format!("{text}more: 1\n")),
        (
            "repeated key",
            format!("{text}format: countersign.contracts-lock.v2\n"),
        ),
        ("other format", text.replace("lock.v2", "lock.v3")),
        ("short hash", text.replacen("sha256: \"", "sha256: \"0", 2)),
        ("version zero", text.replace("version: 1", "version: 0")),
        ("second document", format!("{text}---\n{text}")),
    ] {
        assert!(
            matches!(
                ContractsLock::from_yaml(file.as_bytes()),
                Err(LockError::Syntax(_))
            ),
            "{what}"
        );
    }
}
