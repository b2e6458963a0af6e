//! Events that come late to their order.
//!
//! Invariant: a sequence that commits after a greater one was recorded is published after it, and
//! the two tell so by their sequences; nothing is lost, and nothing is recorded twice.

use crate::fence::{Card, take};
use crate::harness::{PostgresHarness, policy};
use crate::sample::{acknowledged, append, event, event_id};
use crate::wait::Wait;
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::{
    AppendError, AppendReceipt, ClaimedDelivery, OutboxAppendPort as _, OutboxDeliveryPort as _,
    OutboxQueryPort as _, RecordOutcome, TransactionError, TransactionPort as _,
};
use domain_core::delivery::DeliveryStateName;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

type Appended = JoinHandle<Result<AppendReceipt, TransactionError<AppendError>>>;

/// An append that stands still before its commit.
async fn parked(h: &PostgresHarness, id: &str, aggregate: &str, sequence: i64) -> Parked {
    let (outbox, sealed) = (h.store.outbox(policy()), event(id, aggregate, sequence));
    let (appended, seen) = oneshot::channel();
    let (go_on, gate) = oneshot::channel();
    let transactions = h.store.transactions();
    let task = tokio::spawn(async move {
        transactions
            .in_write(move |tx| {
                Box::pin(async move {
                    let receipt = outbox.append(tx, &sealed).await?;
                    appended.send(()).expect("the test listens");
                    gate.await.expect("the test goes on");
                    Ok(receipt)
                })
            })
            .await
    });
    seen.await.expect("appended");
    Parked { go_on, task }
}

struct Parked {
    go_on: oneshot::Sender<()>,
    task: Appended,
}

impl Parked {
    async fn commit(self) {
        self.go_on.send(()).expect("it stands still");
        self.task.await.expect("joined").expect("committed");
    }
}

async fn recorded(h: &PostgresHarness, claim: &ClaimedDelivery) {
    let deliveries = h.store.deliveries();
    assert!(matches!(
        deliveries.record_outcome(&acknowledged(claim)).await,
        Ok(RecordOutcome::Recorded(DeliveryStateName::DeliveryRecorded))
    ));
}

/// Claims and records until every delivery is recorded; what went, in order. Attempts are numbered
/// from `first`.
async fn drained(h: &PostgresHarness, card: Card, first: u32) -> Vec<String> {
    let mut gone = Vec::new();
    let wait = Wait::new("everything to go");
    for number in first.. {
        for claim in take(h, card, number).await {
            recorded(h, &claim).await;
            gone.push(claim.attempt.event_id.as_str().to_owned());
        }
        let counts = h.store.query().counts().await.expect("counts");
        let mut states = counts.by_state.iter().filter(|(_, count)| **count > 0);
        if states.all(|(state, _)| *state == DeliveryStateName::DeliveryRecorded) {
            break;
        }
        wait.again().await;
    }
    gone
}

/// Recorded pairs of one scope that went the other way round than their order says.
async fn regressions(h: &PostgresHarness) -> Vec<(String, String)> {
    sqlx::query_as(
        "SELECT earlier.event_id::text, later.event_id::text FROM outbox_delivery AS earlier \
         JOIN outbox_delivery AS later \
           ON later.partition_key_text = earlier.partition_key_text \
          AND (later.aggregate_sequence, later.aggregate_event_index) \
              > (earlier.aggregate_sequence, earlier.aggregate_event_index) \
          AND later.delivery_recorded_at < earlier.delivery_recorded_at ORDER BY 1, 2",
    )
    .fetch_all(&h.pool)
    .await
    .expect("the recorded order")
}

/// When the smaller sequence commits.
#[derive(Debug, Clone, Copy)]
enum Commits {
    WhileTheGreaterIsClaimed,
    AfterTheGreaterIsRecorded,
}

async fn a_smaller_sequence_commits(card: Card, commits: Commits) {
    let h = PostgresHarness::fresh().await;
    let smaller = parked(&h, "e1", "a", 1).await;
    append(&h.store, &event("e2", "a", 2)).await;
    append(&h.store, &event("e3", "a", 3)).await;
    let claims = take(&h, card, 1).await;
    let [claim] = &claims[..] else {
        panic!("one head: {claims:?}");
    };
    assert_eq!(claim.attempt.event_id.as_str(), "e2");
    match commits {
        Commits::WhileTheGreaterIsClaimed => {
            smaller.commit().await;
            // The smaller one is the head now, and does not wait for what it comes before; the
            // greater one's claim was sound when it was made, and is recorded.
            let claims = take(&h, card, 10).await;
            let [overtaking] = &claims[..] else {
                panic!("one head: {claims:?}");
            };
            assert_eq!(overtaking.attempt.event_id.as_str(), "e1");
            assert!(take(&h, card, 11).await.is_empty(), "{card:?}");
            recorded(&h, claim).await;
            recorded(&h, overtaking).await;
        }
        Commits::AfterTheGreaterIsRecorded => {
            recorded(&h, claim).await;
            smaller.commit().await;
        }
    }
    let rest = match commits {
        Commits::WhileTheGreaterIsClaimed => &["e3"][..],
        Commits::AfterTheGreaterIsRecorded => &["e1", "e3"],
    };
    assert_eq!(drained(&h, card, 2).await, rest, "{card:?} {commits:?}");
    let pair = ("e1".to_owned(), "e2".to_owned());
    assert_eq!(regressions(&h).await, [pair], "{card:?} {commits:?}");
    for id in ["e1", "e2", "e3"] {
        let row = h.delivery(&event_id(id)).await.expect("delivery");
        assert_eq!(row.state, DeliveryStateName::DeliveryRecorded);
        assert_eq!((row.claim_count, row.attempt_count), (1, 1), "{id}");
    }
}

#[tokio::test]
async fn a_smaller_sequence_that_commits_late_goes_late_and_is_told_by_it() {
    for card in [Card::PerRecord, Card::Window] {
        for commits in [
            Commits::WhileTheGreaterIsClaimed,
            Commits::AfterTheGreaterIsRecorded,
        ] {
            a_smaller_sequence_commits(card, commits).await;
        }
    }
}

/// A backfill below what was recorded, in a scope that the scan has left behind it: found, sent in
/// its own order, and before the scope's next greater one.
async fn a_backfill_is_found(card: Card) {
    const SCOPES: i64 = 40;
    let h = PostgresHarness::fresh().await;
    let scope = |number: i64| format!("a{number}");
    let mut keys: Vec<_> = (0..SCOPES)
        .map(|number| {
            let one = event("any", &scope(number), 1);
            (one.partition_key().as_str().to_owned(), scope(number))
        })
        .collect();
    keys.sort();
    for (_, aggregate) in &keys {
        append(&h.store, &event(&format!("{aggregate}-7"), aggregate, 7)).await;
    }
    // The first half goes, so the scan stands in the middle.
    let mut number = 0;
    let mut went = Vec::new();
    while went.len() < keys.len() / 2 {
        number += 1;
        for claim in take(&h, card, number).await {
            recorded(&h, &claim).await;
            went.push(claim.attempt.event_id.as_str().to_owned());
        }
    }
    let behind = &keys[0].1;
    assert!(went.contains(&format!("{behind}-7")), "{went:?}");
    append(&h.store, &event(&format!("{behind}-8"), behind, 8)).await;
    let backfill = parked(&h, &format!("{behind}-3"), behind, 3).await;
    append(&h.store, &event(&format!("{behind}-4"), behind, 4)).await;
    backfill.commit().await;
    let rest = drained(&h, card, number + 1).await;
    assert_eq!(rest.len(), keys.len() / 2 + 3, "{card:?}");
    let of_the_scope: Vec<_> = rest
        .iter()
        .filter(|id| id.starts_with(&format!("{behind}-")))
        .map(|id| id.rsplit('-').next().expect("a sequence"))
        .collect();
    assert_eq!(of_the_scope, ["3", "4", "8"], "{card:?}");
    assert_eq!(regressions(&h).await.len(), 2, "{card:?}");
}

#[tokio::test]
async fn a_backfill_below_the_mark_is_found() {
    for card in [Card::PerRecord, Card::Window] {
        a_backfill_is_found(card).await;
    }
}
