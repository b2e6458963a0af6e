//! Dispositions on real rows.
//!
//! Invariant: one row with one audit row, or a typed conflict and nothing.

use crate::claims::waits_for_a_lock;
use crate::harness::PostgresHarness;
use crate::operator::{
    applied, apply, approval, command, compensate, conflict, lapsed, late, number, refused_by,
    requeue, rows, skip,
};
use crate::sample::{acknowledged, append, claimed, event, event_id, nothing, request};
use crate::wait::until;
use application_core::conformance::outbox::{ObservationType, OutboxHarness as _};
use application_core::ports::{
    ClaimRequest, Disposition, DispositionConflict, DispositionError, DispositionOutcome,
    LateWriteReport, OutboxAttemptObservationPort as _, OutboxDeliveryPort as _, RecordOutcome,
};
use domain_core::delivery::{DeliveryStateName, DispatchAuthority};
use domain_core::identity::{DeliveryGeneration, RowVersion};
use domain_core::publication::{AcceptanceCertainty, FailureClass};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, Row as _};
use std::sync::Arc;
use std::time::Duration;

fn generation(number: i64) -> DeliveryGeneration {
    DeliveryGeneration::new(number).expect("generation")
}

/// An event forced into a state.
async fn in_state(h: &PostgresHarness, id: &str, aggregate: &str, state: DeliveryStateName) {
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

/// The new generation's deadline is min(its creation + maximum age, event creation + horizon).
#[tokio::test]
async fn a_requeue_deadline_is_the_earlier_of_age_and_horizon() {
    let h = PostgresHarness::fresh().await;
    for (id, aggregate, horizon) in [("age", "a", 3600), ("horizon", "b", 300)] {
        in_state(&h, id, aggregate, DeliveryStateName::Exhausted).await;
        let old = h.delivery(&event_id(id)).await.expect("delivery");
        let disposed = applied(&h, id, requeue(600, horizon)).await;
        assert_eq!(
            (disposed.generation, disposed.state, disposed.row_version),
            (generation(2), DeliveryStateName::Ready, RowVersion::FIRST)
        );
        let new = h.delivery(&event_id(id)).await.expect("delivery");
        assert!(new.created_at > old.created_at);
        assert_eq!((new.claim_count, new.attempt_count), (0, 0));
        if id == "horizon" {
            let last = old.created_at.plus(Duration::from_secs(300));
            assert_eq!(new.automatic_attempt_deadline, last);
        } else {
            // The clock goes on between the deadline and the row's own creation.
            let last = new.created_at.plus(Duration::from_secs(600)).epoch_micros();
            let deadline = new.automatic_attempt_deadline.epoch_micros();
            assert!((last - 1_000_000..=last).contains(&deadline), "{deadline}");
        }
    }
    let handed_over = number(
        &h.pool,
        "SELECT count(*) FROM outbox_delivery AS old JOIN outbox_delivery AS new \
         ON new.event_id = old.event_id \
            AND new.delivery_generation = old.superseded_by_generation \
            AND new.dispatch_profile_id = old.dispatch_profile_id \
         JOIN outbox_disposition_audit AS audit \
         ON audit.event_id = old.event_id AND audit.delivery_generation = 1 \
            AND audit.next_generation = 2 AND audit.to_state = 'READY' \
         WHERE old.authority_status = 'SUPERSEDED' AND old.state = 'EXHAUSTED'",
    )
    .await;
    assert_eq!(handed_over, 2);
}

/// After the event's horizon the same event is never sent again, whatever the maximum age.
#[tokio::test]
async fn no_requeue_after_the_horizon() {
    let h = PostgresHarness::fresh().await;
    in_state(&h, "e1", "a", DeliveryStateName::Hold).await;
    let created = h.delivery(&event_id("e1")).await.expect("row").created_at;
    let last = created.plus(Duration::from_secs(1));
    until("the horizon", async || {
        (h.database_now().await > last).then_some(())
    })
    .await;
    let late = command(&h, "e1", requeue(3600, 1)).await;
    assert_eq!(
        conflict(&h, &late).await,
        DispositionConflict::HorizonPassed(last)
    );
    assert_eq!(rows(&h).await, [1, 1, 0, 0]);
}

/// Eight requeues that saw the same row, all waiting for it: one generation, one audit row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requeues_open_one_generation() {
    const OPERATORS: usize = 8;
    let h = Arc::new(PostgresHarness::fresh().await);
    in_state(&h, "e1", "a", DeliveryStateName::Exhausted).await;
    let seen = command(&h, "e1", requeue(600, 3600)).await;
    let mut session = h.place.session().await;
    let mut holder = session.begin().await.expect("begin");
    holder
        .execute("SELECT 1 FROM outbox_delivery WHERE event_id = 'e1' FOR UPDATE")
        .await
        .expect("locked");
    let tasks: Vec<_> = (0..OPERATORS)
        .map(|_| {
            let (h, seen) = (Arc::clone(&h), seen.clone());
            tokio::spawn(async move { apply(&h, &seen).await })
        })
        .collect();
    waits_for_a_lock(&h, i64::try_from(OPERATORS).expect("few")).await;
    holder.rollback().await.expect("released");
    let mut done = 0;
    for task in tasks {
        match task.await.expect("joined").expect("answered") {
            DispositionOutcome::Applied(disposed) => {
                assert_eq!(disposed.generation, generation(2));
                done += 1;
            }
            DispositionOutcome::Conflict(conflict) => {
                assert_eq!(conflict, DispositionConflict::Generation(generation(2)))
            }
        }
    }
    assert_eq!(done, 1);
    assert_eq!(rows(&h).await, [1, 2, 0, 1]);
}

/// A fault at the new row, or at the audit after it, takes the whole hand-over back.
#[tokio::test]
async fn a_hand_over_that_fails_midway_leaves_the_old_generation() {
    let h = PostgresHarness::fresh().await;
    in_state(&h, "e1", "a", DeliveryStateName::Exhausted).await;
    let seen = command(&h, "e1", requeue(600, 3600)).await;
    for (table, planted) in [
        ("outbox_delivery", "delivery_generation = 1"),
        ("outbox_disposition_audit", "next_generation IS NULL"),
    ] {
        h.pool
            .execute(AssertSqlSafe(format!(
                "ALTER TABLE {table} ADD CONSTRAINT planted CHECK ({planted})"
            )))
            .await
            .expect("planted");
        let failed = apply(&h, &seen).await;
        assert!(
            matches!(failed, Err(DispositionError::Unavailable(_))),
            "{failed:?}"
        );
        assert_eq!(rows(&h).await, [1, 1, 0, 0]);
        let row = h.delivery(&event_id("e1")).await.expect("CURRENT");
        assert_eq!(
            (row.generation, row.state, row.row_version),
            (
                generation(1),
                DeliveryStateName::Exhausted,
                seen.row_version.value()
            )
        );
        h.pool
            .execute(AssertSqlSafe(format!(
                "ALTER TABLE {table} DROP CONSTRAINT planted"
            )))
            .await
            .expect("dropped");
    }
    applied(&h, "e1", requeue(600, 3600)).await;
}

/// Once superseded, a generation is nobody's again; the event keeps one CURRENT generation.
#[tokio::test]
async fn a_superseded_generation_is_never_claimed_again() {
    let h = PostgresHarness::fresh().await;
    in_state(&h, "exhausted", "a", DeliveryStateName::Exhausted).await;
    in_state(&h, "held", "b", DeliveryStateName::Hold).await;
    for id in ["exhausted", "held"] {
        applied(&h, id, requeue(600, 3600)).await;
        let second = format!(
            "INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status, \
             dispatch_profile_id, state, automatic_attempt_deadline) \
             VALUES ('{id}', 3, 'CURRENT', 'p', 'READY', clock_timestamp())"
        );
        assert_eq!(
            refused_by(&h.pool, &second).await,
            "outbox_delivery_one_current"
        );
    }
    for number in [1, 2] {
        let claim = claimed(&h.store, &request(number)).await;
        assert_eq!(claim.attempt.generation, generation(2));
        let recorded = h
            .store
            .deliveries()
            .record_outcome(&acknowledged(&claim))
            .await;
        assert!(matches!(recorded, Ok(RecordOutcome::Recorded(_))));
    }
    nothing(&h.store, &request(3)).await;
    let revived = "UPDATE outbox_delivery SET authority_status = 'CURRENT', \
                   superseded_by_generation = NULL, row_version = row_version + 1 \
                   WHERE delivery_generation = 1";
    assert_eq!(
        refused_by(&h.pool, revived).await,
        "outbox_delivery_transition"
    );
    let claimed = "UPDATE outbox_delivery SET state = 'CLAIMED', claim_count = 1, \
                   claim_token = '\\x00000000000000000000000000000000', claim_owner = 'w', \
                   claim_until = clock_timestamp(), terminal_at = NULL, \
                   row_version = row_version + 1 WHERE delivery_generation = 1";
    assert_eq!(
        refused_by(&h.pool, claimed).await,
        "outbox_delivery_transition"
    );
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

/// A requeue needs an ACTIVE polling epoch, and one that waited for an activation sees what was
/// activated.
#[tokio::test]
async fn a_requeue_waits_for_an_activation_and_sees_it() {
    let h = Arc::new(PostgresHarness::fresh().await);
    in_state(&h, "e1", "a", DeliveryStateName::Exhausted).await;
    let seen = command(&h, "e1", requeue(600, 3600)).await;
    for authority in [None, Some(DispatchAuthority::Cdc)] {
        h.activate_epoch(authority).await;
        assert_eq!(
            conflict(&h, &seen).await,
            DispositionConflict::NoPollingEpoch
        );
    }
    h.activate_epoch(Some(DispatchAuthority::PollingV2)).await;
    let mut session = h.place.session().await;
    let mut changing = session.begin().await.expect("begin");
    changing
        .execute(
            "UPDATE outbox_publication_epoch SET state = 'RETIRED', \
                 row_version = row_version + 1 WHERE state = 'ACTIVE'; \
             INSERT INTO outbox_publication_epoch \
                 (epoch_id, authority, state, activated_at, activated_by) \
             VALUES (1000, 'POLLING_V2', 'ACTIVE', clock_timestamp(), 'test')",
        )
        .await
        .expect("changed");
    let task = Arc::clone(&h);
    let requeuing = tokio::spawn(async move { apply(&task, &seen).await });
    waits_for_a_lock(&h, 1).await;
    changing.commit().await.expect("committed");
    let outcome = requeuing.await.expect("joined").expect("answered");
    assert!(
        matches!(outcome, DispositionOutcome::Applied(_)),
        "{outcome:?}"
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
