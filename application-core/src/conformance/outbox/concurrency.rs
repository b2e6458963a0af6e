//! Many claimers at once.
//!
//! Invariant: a row is under one live claim, and a scope has one head, however many ask.

use super::fixture::{
    acknowledged_record, all, append, claim, event, request, retry_record, try_append, until,
};
use super::harness::OutboxHarness;
use crate::ports::{AppendError, ClaimOutcome, ClaimedDelivery, TransactionError};
use domain_core::delivery::DeliveryStateName;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

const CLAIMERS: u32 = 8;

/// Runs claimers until together they claimed `wanted` rows; each acts on what it claimed.
async fn claim_all<H: OutboxHarness>(
    h: &H,
    wanted: usize,
    act: impl AsyncFn(&ClaimedDelivery),
) -> Vec<ClaimedDelivery> {
    let claims = Mutex::new(Vec::new());
    let worker = async |worker: u32| {
        let mut number = worker * 100_000;
        until(h, "the claims", async || {
            number += 1;
            if let ClaimOutcome::Claimed(claimed) = claim(h, &request(number)).await {
                act(&claimed).await;
                claims.lock().expect("claims").push(*claimed);
            }
            (claims.lock().expect("claims").len() >= wanted).then_some(())
        })
        .await;
    };
    let workers = (1..=CLAIMERS)
        .map(|number| Box::pin(worker(number)) as Pin<Box<dyn Future<Output = ()> + '_>>)
        .collect();
    all(workers).await;
    claims.into_inner().expect("claims")
}

/// Concurrent claimers get different rows, and every row goes to one of them.
pub async fn concurrent_claimers_get_disjoint_rows<H: OutboxHarness>(h: H) {
    let total: usize = 40;
    append(
        &h,
        (0..total).map(|number| event(&format!("e{number}"), &format!("a{number}"), 1)),
    )
    .await;
    let claims = claim_all(&h, total, async |_| {}).await;
    assert_eq!(claims.len(), total);
    let events: BTreeSet<_> = claims.iter().map(|claim| &claim.attempt.event_id).collect();
    assert_eq!(events.len(), total);
    assert!(claims.iter().all(|claim| claim.claim_count == 1));
    let counts = h.query().counts().await.expect("counts");
    let claimed = counts.by_state.get(&DeliveryStateName::Claimed);
    assert_eq!(claimed, Some(&u64::try_from(total).expect("small")));
}

/// One scope gives one head at a time, in order, to whichever claimer comes first.
pub async fn one_scope_gives_one_head_at_a_time<H: OutboxHarness>(h: H) {
    let total: usize = 12;
    append(
        &h,
        (0..12).map(|sequence| event(&format!("e{sequence:02}"), "a", sequence)),
    )
    .await;
    let deliveries = h.deliveries();
    let open = Mutex::new(BTreeSet::new());
    let claims = claim_all(&h, total, async |claimed| {
        let id = claimed.attempt.event_id.clone();
        {
            let mut open = open.lock().expect("open");
            open.insert(id.clone());
            assert_eq!(open.len(), 1, "two heads at once: {open:?}");
        }
        h.pause().await;
        open.lock().expect("open").remove(&id);
        let record = acknowledged_record(claimed);
        deliveries.record_outcome(&record).await.expect("record");
    })
    .await;
    let order: Vec<_> = claims
        .iter()
        .map(|claim| claim.event.identities.order.sequence().value())
        .collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(order, sorted);
    assert_eq!(order.len(), total);
}

/// Claimers that also record retries lose no row and count every attempt.
pub async fn attempts_add_up_under_concurrency<H: OutboxHarness>(h: H) {
    append(
        &h,
        (0..10).map(|number| event(&format!("e{number}"), &format!("a{number}"), 1)),
    )
    .await;
    let deliveries = h.deliveries();
    claim_all(&h, 30, async |claimed| {
        let record = if claimed.attempt_count < 3 {
            retry_record(claimed, Duration::from_micros(1))
        } else {
            acknowledged_record(claimed)
        };
        deliveries.record_outcome(&record).await.expect("record");
    })
    .await;
    let page = h.query().deliveries_after(None, 100).await.expect("page");
    assert_eq!(page.len(), 10);
    for summary in page {
        assert_eq!(summary.state, DeliveryStateName::DeliveryRecorded);
        assert_eq!((summary.claim_count, summary.attempt_count), (3, 3));
        assert_eq!(h.journal(&summary.event_id).await.len(), 6);
    }
}

/// Of many appends of one id one wins, and the others are told why they lost.
pub async fn concurrent_appends_of_one_event_leave_one<H: OutboxHarness>(h: H) {
    let sealed = event("e1", "a", 1).seal();
    let mut appends: Vec<Pin<Box<dyn Future<Output = _> + '_>>> = Vec::new();
    for _ in 0..CLAIMERS {
        appends.push(Box::pin(try_append(&h, sealed.clone())));
    }
    let results = all(appends).await;
    let won = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(won, 1);
    for lost in results.iter().filter_map(|result| result.as_ref().err()) {
        assert!(
            matches!(
                lost,
                TransactionError::Work(AppendError::DuplicateEvent { .. })
            ),
            "{lost:?}"
        );
    }
    assert_eq!(h.query().counts().await.expect("counts").events, 1);
}
