//! The store's own identity.
//!
//! Invariant: every port that leads to a store names the same random id, and every event carries
//! it (requirement 004 §12.4).

use super::fixture::{event, try_append};
use super::harness::OutboxHarness;

/// Business, append and relay side name one store, and the append copied its id.
pub async fn every_port_names_the_same_store<H: OutboxHarness>(h: H) {
    let receipt = try_append(&h, event("e1", "a", 1).seal())
        .await
        .expect("append");
    let ports = h.resources();
    assert!(ports.len() >= 2, "nothing to compare");
    for port in ports {
        assert_eq!(port.resource_id().await.expect("id"), receipt.resource);
    }
    assert_eq!(receipt.resource.as_str().len(), 32);
    let hex = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    assert!(receipt.resource.as_str().bytes().all(hex));
}

/// Two stores have two ids.
pub async fn two_stores_have_two_ids<H: OutboxHarness>(h: H) {
    let other = H::fresh().await;
    let (mine, theirs) = (h.resources().remove(0), other.resources().remove(0));
    assert_ne!(
        mine.resource_id().await.expect("id"),
        theirs.resource_id().await.expect("id")
    );
}
