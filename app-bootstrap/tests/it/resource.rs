//! Same-store identity: three stores that are one, and the ways in which they are not.

use app_bootstrap::compose::{ResourceMismatch, agree};
use application_core::ports::TransactionResourcePort;
use domain_core::identity::TransactionResourceId;
use outbound_persistence_sqlite::{SqliteStore, SqliteStoreOptions};

async fn store(folder: &tempfile::TempDir, name: &str) -> SqliteStore {
    SqliteStore::open(folder.path().join(name), SqliteStoreOptions::default())
        .await
        .expect("opens")
}

#[tokio::test]
async fn business_append_and_relay_must_see_one_store() {
    let folder = tempfile::tempdir().expect("folder");
    let (one, other) = (store(&folder, "a.db").await, store(&folder, "b.db").await);
    let business = one.transactions();
    let (same, different) = (one.deliveries(), other.deliveries());
    let id = agree(&business, &[("relay", &same)], None)
        .await
        .expect("one");
    let error = agree(&business, &[("append", &same), ("relay", &different)], None)
        .await
        .expect_err("two stores");
    match error {
        ResourceMismatch::Different {
            role,
            found,
            expected,
        } => {
            assert_eq!(role, "relay");
            assert_eq!(expected, id);
            assert_ne!(found, id);
        }
        other => panic!("expected a difference, not {other}"),
    }
}

#[tokio::test]
async fn the_store_must_be_the_one_that_the_profile_names() {
    let folder = tempfile::tempdir().expect("folder");
    let one = store(&folder, "a.db").await;
    let business = one.transactions();
    let id = business.resource_id().await.expect("id");
    agree(&business, &[], Some(&id))
        .await
        .expect("the named one");
    let named = TransactionResourceId::parse("another").expect("id");
    assert!(matches!(
        agree(&business, &[], Some(&named)).await,
        Err(ResourceMismatch::NotTheNamedOne { .. })
    ));
}

#[tokio::test]
async fn the_id_survives_reopening() {
    let folder = tempfile::tempdir().expect("folder");
    let first = store(&folder, "a.db").await;
    let id = first.transactions().resource_id().await.expect("id");
    first.close().await;
    let again = store(&folder, "a.db").await;
    assert_eq!(again.transactions().resource_id().await.expect("id"), id);
}
