//! The look-up after a lost commit reply.
//!
//! Invariant: the answer is read from the attempt journal and the row, never guessed.

use super::fixture::{
    LONG, SHORT, acknowledged_record, append, claimed, claimed_when_due, event, leased, passed,
    request, retry_record, stranger,
};
use super::harness::OutboxHarness;
use crate::ports::{AttemptIdentity, ClaimedDelivery, RecordedAttempt};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::ClaimToken;

async fn find<H: OutboxHarness>(h: &H, attempt: &AttemptIdentity) -> RecordedAttempt {
    h.deliveries()
        .find_attempt(&attempt.claim_token, &attempt.attempt_id)
        .await
        .expect("look-up")
}

async fn claim_one<H: OutboxHarness>(h: &H) -> ClaimedDelivery {
    append(h, [event("e1", "a", 1)]).await;
    claimed(h, &request(1)).await
}

/// An attempt that nobody admitted, and an admitted one under another token.
pub async fn an_attempt_nobody_admitted_is_unknown<H: OutboxHarness>(h: H) {
    let found = find(&h, &stranger("e1")).await;
    assert!(matches!(found, RecordedAttempt::Unknown), "{found:?}");
    let claim = claim_one(&h).await;
    let other = AttemptIdentity {
        claim_token: ClaimToken::from_random([9; 16]),
        ..claim.attempt.clone()
    };
    let found = find(&h, &other).await;
    assert!(matches!(found, RecordedAttempt::Unknown), "{found:?}");
    let other = AttemptIdentity {
        attempt_id: stranger("e1").attempt_id,
        ..claim.attempt
    };
    let found = find(&h, &other).await;
    assert!(matches!(found, RecordedAttempt::Unknown), "{found:?}");
}

/// A claim under way comes back as it was told the first time.
pub async fn a_claim_under_way_is_open<H: OutboxHarness>(h: H) {
    let claim = claim_one(&h).await;
    let RecordedAttempt::Open(found) = find(&h, &claim.attempt).await else {
        panic!("not open");
    };
    assert_eq!(found.attempt, claim.attempt);
    assert_eq!(found.owner, claim.owner);
    assert_eq!(found.claim_until, claim.claim_until);
    assert_eq!(
        (found.claim_count, found.attempt_count),
        (claim.claim_count, claim.attempt_count)
    );
    assert!(found.event.envelope == claim.event.envelope);
    assert_eq!(found.event.identities, claim.event.identities);
    assert_eq!(found.event.created_at, claim.event.created_at);
}

/// A recorded outcome is closed, with the state that the delivery stands in now.
pub async fn a_recorded_attempt_is_closed<H: OutboxHarness>(h: H) {
    let first = claim_one(&h).await;
    let retry = retry_record(&first, std::time::Duration::from_micros(1));
    h.deliveries().record_outcome(&retry).await.expect("retry");
    let found = find(&h, &first.attempt).await;
    assert!(
        matches!(found, RecordedAttempt::Closed(DeliveryStateName::RetryWait)),
        "{found:?}"
    );
    let second = claimed_when_due(&h, 10, LONG).await;
    h.deliveries()
        .record_outcome(&acknowledged_record(&second))
        .await
        .expect("record");
    for attempt in [&first.attempt, &second.attempt] {
        let found = find(&h, attempt).await;
        assert!(
            matches!(
                found,
                RecordedAttempt::Closed(DeliveryStateName::DeliveryRecorded)
            ),
            "{found:?}"
        );
    }
}

/// A reclaimed attempt is lost: its journalled outcome is the successor's, not its own.
pub async fn a_reclaimed_attempt_is_lost<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let lost = claimed(&h, &leased(1, SHORT)).await;
    let next = claimed_when_due(&h, 10, LONG).await;
    let found = find(&h, &lost.attempt).await;
    assert!(matches!(found, RecordedAttempt::Lost), "{found:?}");
    let found = find(&h, &next.attempt).await;
    assert!(matches!(found, RecordedAttempt::Open(_)), "{found:?}");
}

/// A lapsed claim holds nothing, even before anyone reclaimed it.
pub async fn a_lapsed_attempt_is_lost<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let lost = claimed(&h, &leased(1, SHORT)).await;
    passed(&h, lost.claim_until).await;
    let found = find(&h, &lost.attempt).await;
    assert!(matches!(found, RecordedAttempt::Lost), "{found:?}");
}
