//! Dispositions on real rows.
//!
//! Invariant: one row with one audit row, or a typed conflict and nothing.

use crate::claims::waits_for_a_lock;
use crate::harness::PostgresHarness;
use crate::operator::{
    applied, apply, approval, command, compensate, conflict, lapsed, late, number, refused_by,
    requeue, rows, skip,
};
use crate::sample::{acknowledged, append, claimed, event, event_id, request};
use crate::wait::until;
use application_core::conformance::outbox::{ObservationType, OutboxHarness as _};
use application_core::ports::{
    ClaimRequest, Disposition, DispositionConflict, DispositionOutcome, LateWriteReport,
    OutboxAttemptObservationPort as _, OutboxDeliveryPort as _, RecordOutcome,
};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::{DeliveryGeneration, RowVersion};
use domain_core::publication::{AcceptanceCertainty, FailureClass};
use sqlx::{Connection as _, Executor as _, Row as _};
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn generation(number: i64) -> DeliveryGeneration {
    DeliveryGeneration::new(number).expect("generation")
}

/// An event forced into a state.
pub(crate) async fn in_state(
    h: &PostgresHarness,
    id: &str,
    aggregate: &str,
    state: DeliveryStateName,
) {
    append(&h.store, &event(id, aggregate, 1)).await;
    h.force_state(&event_id(id), state).await;
}

/// The audit says who did what to which row, why, and what the event was; the database says when.
#[tokio::test]
async fn the_audit_names_the_row_the_act_and_the_event() {
    let h = PostgresHarness::fresh().await;
    in_state(&h, "e1", "a", DeliveryStateName::Exhausted).await;
    append(&h.store, &event("e2", "a", 2)).await;
    let before = h.database_now().await;
    let seen = command(&h, "e1", skip()).await;
    let disposed = applied(&h, "e1", skip()).await;
    assert_eq!(
        (disposed.generation, disposed.state, disposed.row_version),
        (
            generation(1),
            DeliveryStateName::Skipped,
            RowVersion::new(seen.row_version.value() + 1).expect("version")
        )
    );
    let audit = sqlx::query(
        "SELECT audit.*, \
             (extract(epoch FROM audit.recorded_at) * 1000000)::bigint AS at, \
             audit.envelope_sha256 = e.envelope_sha256 \
                 AND audit.payload_schema_hash = e.payload_schema_hash \
                 AND audit.partition_key_text = e.partition_key_text AS copied \
         FROM outbox_disposition_audit AS audit JOIN outbox_event AS e USING (event_id)",
    )
    .fetch_one(&h.pool)
    .await
    .expect("one audit row");
    let text = |column: &str| audit.get::<String, _>(column);
    assert_eq!(
        [
            text("event_id"),
            text("disposition"),
            text("from_state"),
            text("to_state"),
            text("operator"),
            text("reason_code"),
            text("reason"),
            text("reference"),
            text("approval"),
        ],
        [
            "e1",
            "SKIP_WITH_GAP",
            "EXHAUSTED",
            "SKIPPED",
            "ops-1",
            "BROKER_LOST",
            "the broker lost its disk",
            "INC-7",
            "CHG-1",
        ]
        .map(str::to_owned)
    );
    assert_eq!(audit.get::<i64, _>("delivery_generation"), 1);
    assert_eq!(audit.get::<Option<i64>, _>("next_generation"), None);
    assert_eq!(
        audit.get::<i64, _>("expected_row_version"),
        seen.row_version.value()
    );
    assert!(audit.get::<bool, _>("copied"));
    let at: i64 = audit.get("at");
    assert!((before.epoch_micros()..=h.database_now().await.epoch_micros()).contains(&at));
    // The scope goes on.
    let next = claimed(&h.store, &request(1)).await;
    assert_eq!(next.attempt.event_id.as_str(), "e2");
    for statement in [
        "UPDATE outbox_disposition_audit SET operator = 'other'",
        "DELETE FROM outbox_disposition_audit",
        "TRUNCATE outbox_disposition_audit",
    ] {
        assert_eq!(
            refused_by(&h.pool, statement).await,
            "outbox_disposition_insert_only"
        );
    }
}

/// A live claim refuses every disposition, and says until when.
#[tokio::test]
async fn a_live_claim_is_not_overridden() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e1", "a", 1)).await;
    append(&h.store, &event("e2", "b", 1)).await;
    let claim = claimed(&h.store, &request(1)).await;
    let id = claim.attempt.event_id.as_str().to_owned();
    let other = if id == "e1" { "e2" } else { "e1" };
    for disposition in [
        Disposition::Hold,
        skip(),
        compensate(other),
        Disposition::AcceptLegacy {
            approval: approval(),
        },
        requeue(600, 3600),
    ] {
        let command = command(&h, &id, disposition).await;
        assert_eq!(
            conflict(&h, &command).await,
            DispositionConflict::ClaimLive {
                until: claim.claim_until
            }
        );
    }
    let recorded = h
        .store
        .deliveries()
        .record_outcome(&acknowledged(&claim))
        .await;
    assert!(matches!(recorded, Ok(RecordOutcome::Recorded(_))));
}

/// A lapsed claim is held with its attempt closed; the stale owner's acknowledgement records
/// nothing and is journalled late, under its own attempt.
#[tokio::test]
async fn a_hold_of_a_lapsed_claim_closes_its_attempt() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e1", "a", 1)).await;
    let stale = lapsed(&h, 1).await;
    applied(&h, "e1", Disposition::Hold).await;
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(
        (row.state, row.last_certainty, row.last_failure_class),
        (
            DeliveryStateName::Hold,
            Some(AcceptanceCertainty::Indeterminate),
            Some(FailureClass::AttemptAbandoned)
        )
    );
    let deliveries = h.store.deliveries();
    let recorded = deliveries.record_outcome(&acknowledged(&stale)).await;
    assert!(matches!(recorded, Ok(RecordOutcome::Stale)), "{recorded:?}");
    // And neither after the next generation is claimed by somebody else.
    applied(&h, "e1", requeue(600, 3600)).await;
    let next = claimed(&h.store, &request(2)).await;
    let recorded = deliveries.record_outcome(&acknowledged(&stale)).await;
    assert!(matches!(recorded, Ok(RecordOutcome::Stale)), "{recorded:?}");
    let report = deliveries.append_late_observations(&[late(&stale)]).await;
    assert_eq!(
        report.expect("journalled"),
        LateWriteReport {
            appended: 1,
            duplicates: 0,
            orphaned: 0
        }
    );
    let journal: Vec<_> = h
        .journal(&event_id("e1"))
        .await
        .into_iter()
        .map(|row| (row.generation, row.attempt_id, row.observation))
        .collect();
    assert_eq!(
        journal,
        [
            (&stale, ObservationType::AttemptAdmitted),
            (&stale, ObservationType::OutcomeObserved),
            (&stale, ObservationType::LateAckObserved),
            (&next, ObservationType::AttemptAdmitted),
        ]
        .map(|(claim, kind)| (
            claim.attempt.generation,
            claim.attempt.attempt_id.clone(),
            kind
        ))
    );
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::Claimed);
}

/// The lease is compared by the clock after the wait for the row, not by the transaction's.
#[tokio::test]
async fn a_claim_that_lapses_during_the_wait_is_held() {
    let h = Arc::new(PostgresHarness::fresh().await);
    append(&h.store, &event("e1", "a", 1)).await;
    let short = ClaimRequest {
        lease: Duration::from_millis(400),
        attempt_budget: Duration::from_millis(1),
        ..request(1)
    };
    let claim = claimed(&h.store, &short).await;
    let hold = command(&h, "e1", Disposition::Hold).await;
    let mut session = h.place.session().await;
    let mut holder = session.begin().await.expect("begin");
    holder
        .execute("SELECT 1 FROM outbox_delivery WHERE event_id = 'e1' FOR UPDATE")
        .await
        .expect("locked");
    let task = Arc::clone(&h);
    let holding = tokio::spawn(async move { apply(&task, &hold).await });
    waits_for_a_lock(&h, 1).await;
    assert!(h.database_now().await < claim.claim_until, "too slow");
    until("the lease to lapse", async || {
        (h.database_now().await > claim.claim_until).then_some(())
    })
    .await;
    holder.rollback().await.expect("released");
    let outcome = holding.await.expect("joined").expect("answered");
    assert!(
        matches!(outcome, DispositionOutcome::Applied(_)),
        "{outcome:?}"
    );
    assert_eq!(h.journal(&event_id("e1")).await.len(), 2);
}

/// What the operator saw is not what is there.
#[tokio::test]
async fn what_changed_since_is_a_typed_conflict() {
    let h = PostgresHarness::fresh().await;
    in_state(&h, "e1", "a", DeliveryStateName::Exhausted).await;
    let seen = command(&h, "e1", Disposition::Hold).await;
    let mut unknown = seen.clone();
    unknown.event_id = event_id("unknown");
    assert_eq!(
        conflict(&h, &unknown).await,
        DispositionConflict::NoDelivery
    );
    let mut early = seen.clone();
    early.generation = generation(2);
    assert_eq!(
        conflict(&h, &early).await,
        DispositionConflict::Generation(generation(1))
    );
    let disposed = applied(&h, "e1", Disposition::Hold).await;
    assert_eq!(
        conflict(&h, &seen).await,
        DispositionConflict::RowVersion(disposed.row_version)
    );
    let again = command(&h, "e1", Disposition::Hold).await;
    assert_eq!(
        conflict(&h, &again).await,
        DispositionConflict::State(DeliveryStateName::Hold)
    );
    applied(&h, "e1", requeue(600, 3600)).await;
    assert_eq!(
        conflict(&h, &again).await,
        DispositionConflict::Generation(generation(2))
    );
    assert_eq!(rows(&h).await, [1, 2, 0, 2]);
}

/// A compensating event must be in this outbox, and another one.
#[tokio::test]
async fn a_compensation_refers_to_an_event_that_is_there() {
    let h = PostgresHarness::fresh().await;
    in_state(&h, "e1", "a", DeliveryStateName::Hold).await;
    for missing in ["e1", "nowhere"] {
        let command = command(&h, "e1", compensate(missing)).await;
        assert_eq!(
            conflict(&h, &command).await,
            DispositionConflict::NoCompensation
        );
    }
    append(&h.store, &event("e2", "a", 2)).await;
    let disposed = applied(&h, "e1", compensate("e2")).await;
    assert_eq!(disposed.state, DeliveryStateName::Compensated);
    let referring = number(
        &h.pool,
        "SELECT count(*) FROM outbox_disposition_audit WHERE compensating_event_id = 'e2'",
    )
    .await;
    assert_eq!(referring, 1);
}

/// Whoever releases a scope or supersedes a generation past the port is refused at the commit.
#[tokio::test]
async fn a_release_without_its_audit_is_refused() {
    let h = PostgresHarness::fresh().await;
    in_state(&h, "e1", "a", DeliveryStateName::Exhausted).await;
    for change in [
        "UPDATE outbox_delivery SET state = 'SKIPPED', row_version = row_version + 1",
        "UPDATE outbox_delivery SET state = 'COMPENSATED', row_version = row_version + 1",
        "UPDATE outbox_delivery SET authority_status = 'SUPERSEDED', \
         superseded_by_generation = 2, row_version = row_version + 1; \
         INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status, \
         dispatch_profile_id, state, automatic_attempt_deadline) \
         VALUES ('e1', 2, 'CURRENT', 'p', 'READY', clock_timestamp())",
    ] {
        assert_eq!(
            refused_by(&h.pool, change).await,
            "outbox_delivery_disposition_audited",
            "{change}"
        );
    }
    // An audit of another row version, or of another disposition, is none.
    applied(&h, "e1", Disposition::Hold).await;
    let skipped = "UPDATE outbox_delivery SET state = 'SKIPPED', row_version = row_version + 1";
    assert_eq!(
        refused_by(&h.pool, skipped).await,
        "outbox_delivery_disposition_audited"
    );
}

/// A freeze of business writes does not hold an operator back.
#[tokio::test]
async fn dispositions_go_on_while_business_writes_are_frozen() {
    let h = PostgresHarness::fresh().await;
    in_state(&h, "e1", "a", DeliveryStateName::Exhausted).await;
    h.pool
        .execute("UPDATE write_admission SET state = 'FREEZING', row_version = row_version + 1")
        .await
        .expect("announced");
    applied(&h, "e1", Disposition::Hold).await;
    applied(&h, "e1", requeue(600, 3600)).await;
    applied(&h, "e1", Disposition::Hold).await;
    applied(&h, "e1", skip()).await;
}
