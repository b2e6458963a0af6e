//! The row version, left out of a compare-and-set.
//!
//! Invariant: an operator changes the row that was looked at, and no later one in the same state.

use super::planted;
use super::statements::{Found, LOCK_HEAD, lock_head};
use crate::harness::PostgresHarness;
use crate::operator::act;
use crate::sample::{acknowledged, append, claimed, event, event_id, request};
use crate::wait::until;
use application_core::conformance::outbox::{DeliveryRow, OutboxHarness as _};
use application_core::ports::{
    ClaimedDelivery, OutboxDeliveryPort as _, OutcomeRecord, RecordOutcome,
};
use domain_core::delivery::DeliveryStateName;
use domain_core::publication::{
    FailureClass, FailureStage, PublicationFailure, PublicationOutcome, RelayDecision,
    RetryDisposition,
};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use std::time::Duration;

const DISPOSE: &str = include_str!("../../../src/sql/dispose.sql");

/// The claim ends in doubt and waits for a retry; its row then.
pub(super) async fn retried(
    h: &PostgresHarness,
    claim: &ClaimedDelivery,
    delay: Duration,
) -> DeliveryRow {
    let record = OutcomeRecord {
        outcome: PublicationOutcome::Indeterminate(PublicationFailure {
            stage: FailureStage::BrokerAck,
            class: FailureClass::BrokerUnavailable,
            disposition: RetryDisposition::RetryWithinBudget,
        }),
        decision: RelayDecision::Retry { delay },
        ..acknowledged(claim)
    };
    let recorded = h.store.deliveries().record_outcome(&record).await;
    assert!(matches!(
        recorded,
        Ok(RecordOutcome::Recorded(DeliveryStateName::RetryWait))
    ));
    let event = &claim.attempt.event_id;
    h.delivery(event).await.expect("delivery")
}

/// `dispose.sql` as it holds a row that its operator saw waiting for a retry.
async fn hold(h: &PostgresHarness, text: &str, row_version: i64) -> bool {
    let act = act();
    sqlx::query(AssertSqlSafe(text.to_owned()))
        .bind("e1")
        .bind(1_i64)
        .bind(row_version)
        .bind("RETRY_WAIT")
        .bind("HOLD")
        .bind(false)
        .bind("DEADLINE")
        .bind("HOLD")
        .bind(act.operator.as_str())
        .bind(act.reason_code.as_str())
        .bind(act.reason.as_str())
        .bind(act.reference.as_str())
        .bind(None::<&str>)
        .bind(None::<&str>)
        .fetch_optional(&h.pool)
        .await
        .expect("dispose.sql")
        .is_some()
}

/// A row that waited for a retry, and waits for one again after an attempt that nobody knows the
/// end of: the version that was seen first, and the one now.
async fn there_and_back(h: &PostgresHarness) -> (i64, i64) {
    append(&h.store, &event("e1", "a", 1)).await;
    let mut seen = Vec::new();
    for number in 1..=2 {
        let claim = claimed(&h.store, &request(number)).await;
        let row = retried(h, &claim, Duration::from_micros(1)).await;
        seen.push(row.row_version);
        let due = row.next_attempt_at.expect("a retry");
        until("the retry to be due", async || {
            (h.database_now().await > due).then_some(())
        })
        .await;
    }
    assert!(seen[0] < seen[1]);
    (seen[0], seen[1])
}

/// Planted bug: no row version in an operator's compare-and-set. The row is in the state that was
/// seen, and yet is not the row that was seen.
#[tokio::test]
async fn an_operators_cas_without_the_row_version_is_caught() {
    let version = "AND d.row_version = $3::bigint";
    let without = planted(DISPOSE, version, "");
    for (text, caught) in [(DISPOSE, false), (&without, true)] {
        let h = PostgresHarness::fresh().await;
        let (seen, _) = there_and_back(&h).await;
        assert_eq!(hold(&h, text, seen).await, caught);
        let row = h.delivery(&event_id("e1")).await.expect("delivery");
        assert_eq!(row.state == DeliveryStateName::Hold, caught);
    }
}

/// Planted bug: no row version where a found row is locked. The row was attempted since, so what
/// was decided upon when it was found no longer holds.
#[tokio::test]
async fn a_lock_without_the_row_version_is_caught() {
    let version = "AND d.row_version = $3::bigint";
    let without = planted(LOCK_HEAD, version, "AND $3::bigint > 0");
    for (text, caught) in [(LOCK_HEAD, false), (&without, true)] {
        let h = PostgresHarness::fresh().await;
        let (seen, now) = there_and_back(&h).await;
        let mut session = h.place.session().await;
        let mut tx = session.begin().await.expect("begin");
        let found = |row_version| Found {
            row_version,
            ..Found::fresh("e1")
        };
        assert!(lock_head(&mut tx, text, found(now)).await.is_some());
        let old = lock_head(&mut tx, text, found(seen)).await;
        assert_eq!(old.is_some(), caught);
        tx.execute("ROLLBACK").await.expect("ended");
    }
}
