//! Claim fences against claims, and the emergency hold that rests on them.
//!
//! Invariant: after a fence was raised nothing that it covers is claimed, and no claim that passed
//! the gate before is still uncommitted.

use crate::authority::{act, audited};
use crate::claims::waits_for_a_lock;
use crate::harness::PostgresHarness;
use crate::sample::{acknowledged, append, claimed, event, event_id, nothing, parts, request};
use crate::wait::{Wait, until};
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::event::ValidatedIntegrationEvent;
use application_core::ports::{
    ClaimFencePort as _, ClaimOutcome, ClaimRequest, ClaimedDelivery, Disposition,
    DispositionCommand, DispositionConflict, DispositionOutcome, FenceOutcome, FenceScope,
    FreshAttempt, OutboxDeliveryPort as _, OutboxDispositionPort as _, OutboxWindowPort as _,
    PartitionShare, RecordOutcome, WindowRequest,
};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::{DeliveryGeneration, LogicalDestinationId, RowVersion};
use sqlx::{Connection as _, Executor as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

async fn raise(h: &PostgresHarness, scope: &FenceScope) -> FenceOutcome {
    h.store.fences().raise(scope, &act()).await.expect("raised")
}

async fn lift(h: &PostgresHarness, scope: &FenceScope) -> FenceOutcome {
    h.store.fences().lift(scope, &act()).await.expect("lifted")
}

fn other_destination() -> LogicalDestinationId {
    LogicalDestinationId::parse("other-events").expect("destination")
}

/// An event of another destination.
fn elsewhere(id: &str, aggregate: &str) -> ValidatedIntegrationEvent {
    let mut parts = parts(id, aggregate, 1);
    parts.identities.destination = other_destination();
    ValidatedIntegrationEvent::seal(parts)
}

/// A request that can send to both destinations.
fn wide_request(number: u32) -> ClaimRequest {
    let narrow = request(number);
    let mut known = narrow.known.to_vec();
    let mut other = known[0].clone();
    other.destination = other_destination();
    known.push(other);
    ClaimRequest {
        known: Arc::from(known),
        ..narrow
    }
}

/// Claims and records until nothing is left, and says what went, sorted; attempts are numbered from
/// `first`.
async fn drained(h: &PostgresHarness, first: u32) -> Vec<String> {
    let deliveries = h.store.deliveries();
    let mut gone = Vec::new();
    for number in first.. {
        match deliveries
            .claim_next(&wide_request(number))
            .await
            .expect("claim")
        {
            ClaimOutcome::Claimed(claim) => {
                gone.push(claim.attempt.event_id.as_str().to_owned());
                let recorded = deliveries.record_outcome(&acknowledged(&claim)).await;
                assert!(matches!(recorded, Ok(RecordOutcome::Recorded(_))));
            }
            ClaimOutcome::Unfinished => {}
            ClaimOutcome::Nothing => break,
            other @ ClaimOutcome::BudgetSpent { .. } => panic!("{other:?}"),
        }
    }
    gone.sort();
    gone
}

/// How Tx B claims.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Card {
    PerRecord,
    Window,
}

/// One Tx B; `number` makes owner, token and attempt.
pub(crate) async fn take(h: &PostgresHarness, card: Card, number: u32) -> Vec<ClaimedDelivery> {
    let alone = request(number);
    match card {
        Card::PerRecord => match h
            .store
            .deliveries()
            .claim_next(&alone)
            .await
            .expect("claim")
        {
            ClaimOutcome::Claimed(claim) => vec![*claim],
            ClaimOutcome::Nothing | ClaimOutcome::Unfinished => Vec::new(),
            other @ ClaimOutcome::BudgetSpent { .. } => panic!("{other:?}"),
        },
        Card::Window => {
            let window = WindowRequest {
                owner: alone.owner,
                attempts: vec![FreshAttempt {
                    token: alone.token,
                    attempt_id: alone.attempt_id,
                }],
                producer_generation: alone.producer_generation,
                lease: alone.lease,
                attempt_budget: alone.attempt_budget,
                maximum_attempts: alone.maximum_attempts,
                known: alone.known,
                share: PartitionShare::WHOLE,
            };
            let claim = h.store.windows().claim_window(&window).await;
            claim.expect("window").claimed
        }
    }
}

/// Each kind withholds what it covers and nothing else, and what it withheld goes on once lifted.
#[tokio::test]
async fn each_kind_covers_its_own() {
    let one = event("a1", "a", 1);
    for (scope, gone) in [
        (FenceScope::Everything, &[][..]),
        (
            FenceScope::Destination(one.identities().destination.clone()),
            &["c1"],
        ),
        (
            FenceScope::Destination(other_destination()),
            &["a1", "a2", "b1"],
        ),
        (
            FenceScope::OrderingScope(one.partition_key().clone()),
            &["b1", "c1"],
        ),
        // A fenced head withholds its successors as well.
        (FenceScope::Event(event_id("a1")), &["b1", "c1"]),
        (FenceScope::Event(event_id("a2")), &["a1", "b1", "c1"]),
    ] {
        let h = PostgresHarness::fresh().await;
        append(&h.store, &one).await;
        append(&h.store, &event("a2", "a", 2)).await;
        append(&h.store, &event("b1", "b", 1)).await;
        append(&h.store, &elsewhere("c1", "c")).await;
        assert_eq!(raise(&h, &scope).await, FenceOutcome::Changed);
        assert_eq!(raise(&h, &scope).await, FenceOutcome::Unchanged);
        let standing = h.store.fences().standing().await.expect("read");
        assert_eq!(standing, std::slice::from_ref(&scope));
        assert_eq!(drained(&h, 1).await, gone, "{scope:?}");
        assert_eq!(lift(&h, &scope).await, FenceOutcome::Changed);
        assert_eq!(lift(&h, &scope).await, FenceOutcome::Unchanged);
        assert_eq!(drained(&h, 100).await.len() + gone.len(), 4, "{scope:?}");
        assert_eq!(audited(&h).await, ["FENCE_RAISED", "FENCE_LIFTED"]);
        let subject: String =
            sqlx::query_scalar("SELECT DISTINCT subject FROM outbox_authority_audit")
                .fetch_one(&h.pool)
                .await
                .expect("one subject");
        let expected = format!("{} {}", scope.kind(), scope.subject());
        assert_eq!(subject, expected.trim_end());
    }
}

/// Fences stand beside each other, and a store keeps a bounded number.
#[tokio::test]
async fn fences_are_bounded() {
    let h = PostgresHarness::fresh().await;
    h.pool
        .execute(
            "UPDATE outbox_claim_gate SET events = ARRAY(SELECT 'e' || n \
             FROM generate_series(1, 255) AS n), row_version = row_version + 1",
        )
        .await
        .expect("fences");
    let scope = FenceScope::Destination(other_destination());
    assert_eq!(raise(&h, &scope).await, FenceOutcome::Changed);
    let full = FenceOutcome::Full { maximum: 256 };
    assert_eq!(raise(&h, &FenceScope::Event(event_id("x"))).await, full);
    assert_eq!(
        raise(&h, &FenceScope::Everything).await,
        FenceOutcome::Changed
    );
    let standing = h.store.fences().standing().await.expect("read");
    assert_eq!(standing.len(), 257);
    assert!(standing.is_sorted());
    assert_eq!(lift(&h, &scope).await, FenceOutcome::Changed);
    let changed = raise(&h, &FenceScope::Event(event_id("x"))).await;
    assert_eq!(changed, FenceOutcome::Changed);
}

/// A claim came first: the fence is raised once its Tx B has committed.
async fn a_fence_waits_for_a_claim_of(card: Card) {
    let h = Arc::new(PostgresHarness::fresh().await);
    append(&h.store, &event("e1", "a", 1)).await;
    append(&h.store, &event("e2", "b", 1)).await;
    let mut session = h.place.session().await;
    let mut holder = session.begin().await.expect("begin");
    holder
        .execute("LOCK TABLE outbox_delivery_attempt_observation IN SHARE MODE")
        .await
        .expect("the claim stands still before its admission");
    let task = Arc::clone(&h);
    let claiming = tokio::spawn(async move { take(&task, card, 1).await });
    waits_for_a_lock(&h, 1).await;
    let task = Arc::clone(&h);
    let raising = tokio::spawn(async move { raise(&task, &FenceScope::Everything).await });
    waits_for_a_lock(&h, 2).await;
    assert!(!raising.is_finished(), "the fence did not wait");
    holder.rollback().await.expect("released");
    assert_eq!(claiming.await.expect("joined").len(), 1, "{card:?}");
    assert_eq!(raising.await.expect("joined"), FenceOutcome::Changed);
    nothing(&h.store, &request(2)).await;
}

#[tokio::test]
async fn a_fence_waits_for_a_claim() {
    for card in [Card::PerRecord, Card::Window] {
        a_fence_waits_for_a_claim_of(card).await;
    }
}

/// A fence came first: the claim waits for it and takes nothing that it covers.
async fn a_claim_waits_for_a_fence_of(card: Card) {
    let h = Arc::new(PostgresHarness::fresh().await);
    append(&h.store, &event("e1", "a", 1)).await;
    let mut session = h.place.session().await;
    let mut holder = session.begin().await.expect("begin");
    holder
        .execute("LOCK TABLE outbox_authority_audit IN SHARE MODE")
        .await
        .expect("the fence stands still before its commit");
    let task = Arc::clone(&h);
    let raising =
        tokio::spawn(async move { raise(&task, &FenceScope::Event(event_id("e1"))).await });
    waits_for_a_lock(&h, 1).await;
    let task = Arc::clone(&h);
    let claiming = tokio::spawn(async move { take(&task, card, 1).await });
    waits_for_a_lock(&h, 2).await;
    assert!(!claiming.is_finished());
    holder.rollback().await.expect("released");
    assert_eq!(raising.await.expect("joined"), FenceOutcome::Changed);
    let taken = claiming.await.expect("joined");
    assert!(taken.is_empty(), "{card:?}: {taken:?}");
    nothing(&h.store, &request(2)).await;
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!((row.state, row.claim_count), (DeliveryStateName::Ready, 0));
}

#[tokio::test]
async fn a_claim_waits_for_a_fence() {
    for card in [Card::PerRecord, Card::Window] {
        a_claim_waits_for_a_fence_of(card).await;
    }
}

/// Workers whose claims overlap without a gap do not keep a fence out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_gets_its_turn_among_claims() {
    let h = Arc::new(PostgresHarness::fresh().await);
    for number in 0..200 {
        append(
            &h.store,
            &event(&format!("e{number}"), &format!("a{number}"), 1),
        )
        .await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let number = Arc::new(AtomicU32::new(1));
    let claims = Arc::new(AtomicU32::new(0));
    let workers: Vec<_> = (0..6)
        .map(|_| {
            let (store, stop) = (h.store.clone(), Arc::clone(&stop));
            let (number, claims) = (Arc::clone(&number), Arc::clone(&claims));
            tokio::spawn(async move {
                let deliveries = store.deliveries();
                while !stop.load(Ordering::SeqCst) {
                    let next = request(number.fetch_add(1, Ordering::SeqCst));
                    let outcome = deliveries.claim_next(&next).await.expect("claim");
                    if matches!(outcome, ClaimOutcome::Claimed(_)) {
                        claims.fetch_add(1, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    until("claims", async || {
        (claims.load(Ordering::SeqCst) > 12).then_some(())
    })
    .await;
    assert_eq!(
        raise(&h, &FenceScope::Everything).await,
        FenceOutcome::Changed
    );
    let count = async || -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM outbox_delivery WHERE state = 'CLAIMED'")
            .fetch_one(&h.pool)
            .await
            .expect("claimed")
    };
    let claimed_before = count().await;
    let asked = number.load(Ordering::SeqCst);
    until("more questions", async || {
        (number.load(Ordering::SeqCst) > asked + 24).then_some(())
    })
    .await;
    stop.store(true, Ordering::SeqCst);
    for worker in workers {
        worker.await.expect("a worker");
    }
    assert_eq!(count().await, claimed_before);
    assert!(
        claimed_before < 200,
        "the workers were done before the fence"
    );
}

/// The emergency hold: fence, wait until the live claim has lapsed, hold, lift. The stale worker's
/// outcome changes nothing, and a lapsed claim that is fenced is not reclaimed.
#[tokio::test]
async fn an_emergency_hold_waits_for_the_live_claim() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e1", "a", 1)).await;
    append(&h.store, &event("e2", "a", 2)).await;
    let short = ClaimRequest {
        lease: Duration::from_millis(300),
        ..request(1)
    };
    let claim = claimed(&h.store, &short).await;
    let fence = FenceScope::Event(event_id("e1"));
    assert_eq!(raise(&h, &fence).await, FenceOutcome::Changed);
    let seen = h.delivery(&event_id("e1")).await.expect("delivery");
    let hold = DispositionCommand {
        event_id: event_id("e1"),
        generation: DeliveryGeneration::FIRST,
        row_version: RowVersion::new(seen.row_version).expect("version"),
        disposition: Disposition::Hold,
        act: act(),
    };
    let dispositions = h.store.dispositions();
    let wait = Wait::new("the claim to lapse");
    let mut refused = 0;
    let held = loop {
        match dispositions.apply(&hold).await.expect("applied") {
            DispositionOutcome::Conflict(DispositionConflict::ClaimLive { until }) => {
                assert_eq!(until, claim.claim_until);
                refused += 1;
            }
            DispositionOutcome::Applied(held) => break held,
            other @ DispositionOutcome::Conflict(_) => panic!("{other:?}"),
        }
        nothing(&h.store, &request(2)).await;
        wait.again().await;
    };
    assert!(refused > 0, "the claim was not live");
    assert_eq!(held.state, DeliveryStateName::Hold);
    assert!(h.database_now().await >= claim.claim_until);
    let late = h
        .store
        .deliveries()
        .record_outcome(&acknowledged(&claim))
        .await;
    assert!(matches!(late, Ok(RecordOutcome::Stale)), "{late:?}");
    assert_eq!(lift(&h, &fence).await, FenceOutcome::Changed);
    // HOLD blocks the scope by itself.
    nothing(&h.store, &request(3)).await;
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!((row.state, row.claim_count), (DeliveryStateName::Hold, 1));
}
