//! Retention on real rows, and against everybody else who may hold them.
//!
//! Invariant: an event goes whole, or stays whole; nobody who comes at the same time fails for it
//! in another way than finding it gone.

use crate::claims::waits_for_a_lock;
use crate::harness::PostgresHarness;
use crate::operator::{
    act, applied, apply, command, compensate, conflict, hold_up_removals, lapsed, late,
    let_removals_go_on, number, refused_by, requeue, rows, skip,
};
use crate::sample::{acknowledged, append, claimed, event, event_id, request};
use crate::wait::Wait;
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::{
    ClaimOutcome, Disposition, DispositionConflict, DispositionOutcome, LateWriteReport,
    OutboxAttemptObservationPort as _, OutboxDeliveryPort as _, OutboxRetentionPort as _,
    ReapReport, ReapRequest, RecordOutcome, RetentionError,
};
use domain_core::delivery::{DeliveryStateName, DispatchAuthority};
use outbound_persistence_postgres::PostgresRetention;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Everything that is resolved is old enough.
const AT_ONCE: ReapRequest = ReapRequest {
    audit_retention: Duration::ZERO,
    replay_horizon: Duration::ZERO,
    limit: 100,
};

/// Batches until everything was looked at: what they removed.
async fn reap_all(retention: &PostgresRetention, request: &ReapRequest) -> u64 {
    let mut removed = 0;
    loop {
        let report = retention.reap(request).await.expect("reaped");
        removed += report.removed;
        if report.finished {
            return removed;
        }
    }
}

async fn reap(h: &PostgresHarness) -> u64 {
    reap_all(&h.store.retention(), &AT_ONCE).await
}

/// An event recorded as a relay records it.
async fn recorded(h: &PostgresHarness, id: &str, number: u32) {
    append(&h.store, &event(id, id, 1)).await;
    record_next(h, number).await;
}

async fn record_next(h: &PostgresHarness, number: u32) {
    let claim = claimed(&h.store, &request(number)).await;
    let recorded = h
        .store
        .deliveries()
        .record_outcome(&acknowledged(&claim))
        .await;
    assert!(matches!(recorded, Ok(RecordOutcome::Recorded(_))));
}

/// The four resolved states go with all that tells of them; the unresolved ones stay.
#[tokio::test]
async fn a_resolved_event_goes_with_everything_that_tells_of_it() {
    let h = PostgresHarness::fresh().await;
    recorded(&h, "recorded", 1).await;
    for state in DeliveryStateName::ALL {
        if matches!(
            state,
            DeliveryStateName::Claimed | DeliveryStateName::DeliveryRecorded
        ) {
            continue;
        }
        append(&h.store, &event(state.as_str(), state.as_str(), 1)).await;
        h.force_state(&event_id(state.as_str()), state).await;
    }
    applied(&h, "EXHAUSTED", Disposition::Hold).await;
    applied(&h, "HOLD", skip()).await;
    // recorded, SKIPPED, COMPENSATED, LEGACY_ACCEPTED_UNVERIFIED and the skipped HOLD.
    assert_eq!(reap(&h).await, 5);
    let left: Vec<String> = sqlx::query_scalar("SELECT event_id FROM outbox_event ORDER BY 1")
        .fetch_all(&h.pool)
        .await
        .expect("left");
    assert_eq!(
        left,
        [
            "EXHAUSTED",
            "LEGACY_RECORDED_UNVERIFIED",
            "READY",
            "RETRY_WAIT"
        ]
    );
    assert_eq!(rows(&h).await, [4, 4, 0, 1]);
    assert_eq!(reap(&h).await, 0);
}

/// Neither before the audit's retention, from the end, nor before the replay horizon, from the
/// event's creation.
#[tokio::test]
async fn a_resolved_event_stays_for_both_of_its_times() {
    let h = PostgresHarness::fresh().await;
    recorded(&h, "e1", 1).await;
    let retention = h.store.retention();
    for (audit_retention, replay_horizon) in [(HOUR, Duration::ZERO), (Duration::ZERO, HOUR)] {
        let early = ReapRequest {
            audit_retention,
            replay_horizon,
            ..AT_ONCE
        };
        assert_eq!(reap_all(&retention, &early).await, 0);
    }
    let none = ReapRequest {
        limit: 0,
        ..AT_ONCE
    };
    assert_eq!(reap_all(&retention, &none).await, 0);
    assert_eq!(rows(&h).await, [1, 1, 2, 0]);
    assert_eq!(reap(&h).await, 1);
    assert_eq!(rows(&h).await, [0, 0, 0, 0]);
}

/// An attempt whose outcome nobody observed keeps its event.
#[tokio::test]
async fn an_open_attempt_keeps_its_event() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e1", "a", 1)).await;
    lapsed(&h, 1).await;
    h.force_state(&event_id("e1"), DeliveryStateName::Skipped)
        .await;
    assert_eq!(reap(&h).await, 0);
    assert_eq!(rows(&h).await, [1, 1, 1, 0]);
}

/// What a connector has to read is not ours to remove.
#[tokio::test]
async fn an_event_of_a_cdc_epoch_stays() {
    let h = PostgresHarness::fresh().await;
    h.activate_epoch(Some(DispatchAuthority::Cdc)).await;
    append(&h.store, &event("e1", "a", 1)).await;
    assert_eq!(reap(&h).await, 0);
    let raw = "SET LOCAL countersign.reaper = 'on'; DELETE FROM outbox_event";
    assert_eq!(refused_by(&h.pool, raw).await, "outbox_event_resolved");
}

/// A superseded generation and the audit of its hand-over go with the CURRENT one, not before.
#[tokio::test]
async fn generations_go_together() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e1", "a", 1)).await;
    lapsed(&h, 1).await;
    applied(&h, "e1", Disposition::Hold).await;
    applied(&h, "e1", requeue(600, 3600)).await;
    assert_eq!(reap(&h).await, 0);
    for table in [
        "outbox_delivery_attempt_observation",
        "outbox_disposition_audit",
        "outbox_delivery",
    ] {
        let raw = format!(
            "SET LOCAL countersign.reaper = 'on'; DELETE FROM {table} WHERE delivery_generation = 1"
        );
        let rule = refused_by(&h.pool, &raw).await;
        assert!(rule.ends_with("_resolved"), "{table}: {rule}");
    }
    assert_eq!(rows(&h).await, [1, 2, 2, 2]);
    record_next(&h, 2).await;
    assert_eq!(reap(&h).await, 1);
    assert_eq!(rows(&h).await, [0, 0, 0, 0]);
}

/// No foreign key cascades, and outside a batch every delete is refused, even of what is resolved.
#[tokio::test]
async fn nothing_cascades_and_nobody_deletes_by_the_way() {
    let h = PostgresHarness::fresh().await;
    recorded(&h, "e1", 1).await;
    let cascading = number(
        &h.pool,
        "SELECT count(*) FROM pg_constraint \
         WHERE contype = 'f' AND connamespace = current_schema()::regnamespace \
           AND (confdeltype <> 'a' OR confupdtype <> 'a')",
    )
    .await;
    assert_eq!(cascading, 0);
    for (table, rule) in [
        (
            "outbox_delivery_attempt_observation",
            "outbox_observation_insert_only",
        ),
        ("outbox_disposition_audit", "outbox_disposition_insert_only"),
        ("outbox_delivery", "outbox_delivery_kept"),
        ("outbox_event", "outbox_event_insert_only"),
    ] {
        let plain = format!("DELETE FROM {table}");
        assert_eq!(refused_by(&h.pool, &plain).await, rule);
        let truncating = format!("SET LOCAL countersign.reaper = 'on'; TRUNCATE {table} CASCADE");
        assert_eq!(refused_by(&h.pool, &truncating).await, rule);
    }
    // And even within one, parents go last.
    for (table, rule) in [
        ("outbox_event", "outbox_event_resolved"),
        ("outbox_delivery", "outbox_observation_delivery_fkey"),
    ] {
        let early = format!("SET LOCAL countersign.reaper = 'on'; DELETE FROM {table}");
        assert_eq!(refused_by(&h.pool, &early).await, rule);
    }
}

/// A legal hold keeps an event whatever its age; both ends of it are audited.
#[tokio::test]
async fn a_legal_hold_keeps_its_event() {
    let h = PostgresHarness::fresh().await;
    recorded(&h, "e1", 1).await;
    let retention = h.store.retention();
    let held = event_id("e1");
    assert!(
        retention
            .place_legal_hold(&held, &act())
            .await
            .expect("placed")
    );
    assert!(
        !retention
            .place_legal_hold(&held, &act())
            .await
            .expect("there")
    );
    assert_eq!(reap(&h).await, 0);
    let raw = "SET LOCAL countersign.reaper = 'on'; \
               DELETE FROM outbox_delivery_attempt_observation";
    assert_eq!(
        refused_by(&h.pool, raw).await,
        "outbox_observation_resolved"
    );
    assert_eq!(
        refused_by(&h.pool, "UPDATE outbox_legal_hold SET reason = 'other'").await,
        "outbox_legal_hold_fixed"
    );
    assert!(
        retention
            .lift_legal_hold(&held, &act())
            .await
            .expect("lifted")
    );
    assert!(
        !retention
            .lift_legal_hold(&held, &act())
            .await
            .expect("gone")
    );
    let audited: Vec<(String, String)> = sqlx::query_as(
        "SELECT action, operator FROM outbox_authority_audit WHERE subject = 'e1' \
         ORDER BY audit_id",
    )
    .fetch_all(&h.pool)
    .await
    .expect("audited");
    assert_eq!(
        audited,
        ["LEGAL_HOLD_PLACED", "LEGAL_HOLD_LIFTED"].map(|action| (action.into(), "ops-1".into()))
    );
    assert_eq!(reap(&h).await, 1);
    let missing = retention.place_legal_hold(&held, &act()).await;
    assert!(
        matches!(missing, Err(RetentionError::NoEvent)),
        "{missing:?}"
    );
}

/// A hold that is being placed is not waited for, and its event stays; a batch that is under way
/// makes the hold wait, and then there is nothing to keep.
#[tokio::test]
async fn a_legal_hold_and_a_batch_at_the_same_time() {
    let h = Arc::new(PostgresHarness::fresh().await);
    recorded(&h, "first", 1).await;
    let mut session = h.place.session().await;
    let mut placing = session.begin().await.expect("begin");
    placing
        .execute(
            "INSERT INTO outbox_legal_hold (event_id, placed_by, reason_code, reason, reference) \
             VALUES ('first', 'ops', 'LAW', 'a case', 'CASE-1')",
        )
        .await
        .expect("placed");
    assert_eq!(reap(&h).await, 0);
    placing.commit().await.expect("committed");
    assert_eq!(reap(&h).await, 0);

    recorded(&h, "second", 2).await;
    hold_up_removals(&mut session).await;
    let task = Arc::clone(&h);
    let reaping = tokio::spawn(async move { reap(&task).await });
    waits_for_a_lock(&h, 1).await;
    let task = Arc::clone(&h);
    let placing = tokio::spawn(async move {
        let retention = task.store.retention();
        retention
            .place_legal_hold(&event_id("second"), &act())
            .await
    });
    waits_for_a_lock(&h, 2).await;
    let_removals_go_on(&mut session).await;
    assert_eq!(reaping.await.expect("joined"), 1);
    let placed = placing.await.expect("joined");
    assert!(matches!(placed, Err(RetentionError::NoEvent)), "{placed:?}");
    assert_eq!(rows(&h).await[0], 1);
}

/// What another event's audit names as its compensation stays as long as that audit.
#[tokio::test]
async fn a_compensating_event_stays_with_the_audit_that_names_it() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("a-lost", "a", 1)).await;
    append(&h.store, &event("b-instead", "b", 1)).await;
    h.force_state(&event_id("a-lost"), DeliveryStateName::Exhausted)
        .await;
    applied(&h, "a-lost", compensate("b-instead")).await;
    record_next(&h, 1).await;
    let retention = h.store.retention();
    let lost = event_id("a-lost");
    retention
        .place_legal_hold(&lost, &act())
        .await
        .expect("placed");
    assert_eq!(reap(&h).await, 0);
    retention
        .lift_legal_hold(&lost, &act())
        .await
        .expect("lifted");
    assert_eq!(reap(&h).await, 1);
    assert_eq!(reap(&h).await, 1);
    assert_eq!(rows(&h).await, [0, 0, 0, 0]);
}

/// A compensation that is about to name an event keeps it; one that comes while the event goes
/// finds none.
#[tokio::test]
async fn a_compensation_and_a_batch_at_the_same_time() {
    let h = Arc::new(PostgresHarness::fresh().await);
    append(&h.store, &event("lost", "a", 1)).await;
    h.force_state(&event_id("lost"), DeliveryStateName::Exhausted)
        .await;
    recorded(&h, "instead", 1).await;
    let mut session = h.place.session().await;
    hold_up_removals(&mut session).await;
    let task = Arc::clone(&h);
    let reaping = tokio::spawn(async move { reap(&task).await });
    waits_for_a_lock(&h, 1).await;
    let task = Arc::clone(&h);
    let seen = command(&h, "lost", compensate("instead")).await;
    let compensating = tokio::spawn(async move { apply(&task, &seen).await });
    waits_for_a_lock(&h, 2).await;
    let_removals_go_on(&mut session).await;
    assert_eq!(reaping.await.expect("joined"), 1);
    let outcome = compensating.await.expect("joined").expect("answered");
    assert_eq!(
        outcome,
        DispositionOutcome::Conflict(DispositionConflict::NoCompensation)
    );
    assert_eq!(rows(&h).await, [1, 1, 0, 0]);
}

/// A requeue that waits for its row keeps the event; so does the one that came first. A
/// disposition that comes while the event goes finds no delivery.
#[tokio::test]
async fn a_requeue_and_a_batch_at_the_same_time() {
    let h = Arc::new(PostgresHarness::fresh().await);
    append(&h.store, &event("e1", "a", 1)).await;
    h.force_state(&event_id("e1"), DeliveryStateName::Exhausted)
        .await;
    let seen = command(&h, "e1", requeue(600, 3600)).await;
    let mut session = h.place.session().await;
    let mut holder = session.begin().await.expect("begin");
    holder
        .execute("SELECT 1 FROM outbox_delivery WHERE event_id = 'e1' FOR UPDATE")
        .await
        .expect("locked");
    let task = Arc::clone(&h);
    let requeuing = tokio::spawn(async move { apply(&task, &seen).await });
    waits_for_a_lock(&h, 1).await;
    assert_eq!(reap(&h).await, 0);
    holder.rollback().await.expect("released");
    let outcome = requeuing.await.expect("joined").expect("answered");
    assert!(matches!(outcome, DispositionOutcome::Applied(_)));
    assert_eq!(reap(&h).await, 0);
    assert_eq!(rows(&h).await, [1, 2, 0, 1]);

    applied(&h, "e1", Disposition::Hold).await;
    applied(&h, "e1", skip()).await;
    let seen = command(&h, "e1", requeue(600, 3600)).await;
    hold_up_removals(&mut session).await;
    let task = Arc::clone(&h);
    let reaping = tokio::spawn(async move { reap(&task).await });
    waits_for_a_lock(&h, 1).await;
    let task = Arc::clone(&h);
    let late = tokio::spawn(async move { conflict(&task, &seen).await });
    waits_for_a_lock(&h, 2).await;
    let_removals_go_on(&mut session).await;
    assert_eq!(reaping.await.expect("joined"), 1);
    assert_eq!(late.await.expect("joined"), DispositionConflict::NoDelivery);
    assert_eq!(rows(&h).await, [0, 0, 0, 0]);
}

/// Two batches never wait for each other, and none removes what the other one holds.
#[tokio::test]
async fn a_second_batch_takes_what_the_first_does_not_hold() {
    let h = Arc::new(PostgresHarness::fresh().await);
    for (number, id) in (1..).zip(["e1", "e2", "e3", "e4"]) {
        recorded(&h, id, number).await;
    }
    let mut session = h.place.session().await;
    hold_up_removals(&mut session).await;
    let task = Arc::clone(&h);
    let two = ReapRequest {
        limit: 2,
        ..AT_ONCE
    };
    let first = tokio::spawn(async move { task.store.retention().reap(&two).await });
    waits_for_a_lock(&h, 1).await;
    let task = Arc::clone(&h);
    let second = tokio::spawn(async move { task.store.retention().reap(&AT_ONCE).await });
    // It too comes as far as the removal of its events.
    waits_for_a_lock(&h, 2).await;
    let third = h.store.retention().reap(&AT_ONCE).await.expect("reaped");
    assert_eq!(
        third,
        ReapReport {
            removed: 0,
            finished: true
        }
    );
    let_removals_go_on(&mut session).await;
    let first = first.await.expect("joined").expect("reaped");
    let second = second.await.expect("joined").expect("reaped");
    assert_eq!((first.removed, second.removed), (2, 2));
    assert!(!first.finished && second.finished);
    assert_eq!(rows(&h).await, [0, 0, 0, 0]);
}

/// A late acknowledgement that is being written keeps its event for now; one that comes while the
/// event goes, or after, is counted and dropped, and spoils no other.
#[tokio::test]
async fn a_late_acknowledgement_and_a_batch_at_the_same_time() {
    let h = Arc::new(PostgresHarness::fresh().await);
    append(&h.store, &event("gone", "a", 1)).await;
    let gone = lapsed(&h, 1).await;
    applied(&h, "gone", Disposition::Hold).await;
    applied(&h, "gone", requeue(600, 3600)).await;
    record_next(&h, 2).await;
    append(&h.store, &event("there", "b", 1)).await;
    let there = lapsed(&h, 3).await;

    // The old generation's row is what a late writer holds.
    let mut session = h.place.session().await;
    let mut writing = session.begin().await.expect("begin");
    writing
        .execute(
            "SELECT 1 FROM outbox_delivery WHERE event_id = 'gone' AND delivery_generation = 1 \
             FOR NO KEY UPDATE",
        )
        .await
        .expect("locked");
    assert_eq!(reap(&h).await, 0);
    writing.rollback().await.expect("released");

    hold_up_removals(&mut session).await;
    let task = Arc::clone(&h);
    let reaping = tokio::spawn(async move { reap(&task).await });
    waits_for_a_lock(&h, 1).await;
    let task = Arc::clone(&h);
    let both = [late(&gone), late(&there)];
    let writing = tokio::spawn(async move {
        let deliveries = task.store.deliveries();
        deliveries.append_late_observations(&both).await
    });
    waits_for_a_lock(&h, 2).await;
    let_removals_go_on(&mut session).await;
    assert_eq!(reaping.await.expect("joined"), 1);
    assert_eq!(
        writing.await.expect("joined").expect("written"),
        LateWriteReport {
            appended: 1,
            duplicates: 0,
            orphaned: 1
        }
    );
    let deliveries = h.store.deliveries();
    let after = deliveries
        .append_late_observations(&[late(&there), late(&gone)])
        .await;
    assert_eq!(
        after.expect("written"),
        LateWriteReport {
            appended: 0,
            duplicates: 1,
            orphaned: 1
        }
    );
}

/// One batch removes no more than it is asked to, and goes on where it stopped.
#[tokio::test]
async fn batches_are_bounded_and_go_on() {
    let h = PostgresHarness::fresh().await;
    for number in 1..=7 {
        recorded(&h, &format!("e{number}"), number).await;
    }
    let three = ReapRequest {
        limit: 3,
        ..AT_ONCE
    };
    let retention = h.store.retention();
    let mut reports = Vec::new();
    for _ in 0..3 {
        let report = retention.reap(&three).await.expect("reaped");
        reports.push((report.removed, report.finished));
    }
    assert_eq!(reports, [(3, false), (3, false), (1, true)]);
    assert_eq!(rows(&h).await, [0, 0, 0, 0]);
}

/// Many events that may not go yet stand before the one that may: a batch looks at so many and no
/// more, and the next one goes on behind them.
#[tokio::test]
async fn what_may_not_go_is_passed_by_and_by() {
    const BEFORE: i64 = 9_000;
    let h = PostgresHarness::fresh().await;
    recorded(&h, "z-last", 1).await;
    let mut session = h.place.session().await;
    session
        .execute(AssertSqlSafe(format!(
            "SET session_replication_role = replica; \
             INSERT INTO outbox_event \
             SELECT 'a-' || lpad(n::text, 8, '0'), envelope_version, contract_id, \
                 payload_version, logical_destination_id, destination_binding_revision, \
                 aggregate_type, 'many', n, 0, partition_key_text, occurred_at, created_at, \
                 tenant_scope, correlation_id, causation_id, traceparent, tracestate, \
                 content_type, envelope_bytes, envelope_sha256, envelope_schema_hash, \
                 payload_schema_hash, schema_set_hash, contract_catalog_revision, \
                 publication_epoch, dispatch_authority, transaction_resource_id, \
                 ordering_required \
             FROM outbox_event, generate_series(1, {BEFORE}) AS n"
        )))
        .await
        .expect("filled");
    let retention = h.store.retention();
    let mut reports = Vec::new();
    for _ in 0..2 {
        let report = retention.reap(&AT_ONCE).await.expect("reaped");
        reports.push((report.removed, report.finished));
    }
    assert_eq!(reports, [(0, false), (1, true)]);
    assert_eq!(rows(&h).await, [BEFORE, 0, 0, 0]);
}

/// Workers claim and record, an operator requeues, and two reapers remove all the time: every event
/// is recorded by one claim, none is lost on the way, and then all is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn removals_under_claims_and_requeues() {
    const EVENTS: u64 = 60;
    const STUCK: u64 = 20;
    let h = Arc::new(PostgresHarness::fresh().await);
    let mut stuck = Vec::new();
    for number in 0..STUCK {
        let id = format!("stuck-{number}");
        append(&h.store, &event(&id, &id, 1)).await;
        h.force_state(&event_id(&id), DeliveryStateName::Exhausted)
            .await;
        stuck.push(id);
    }
    let done = Arc::new(AtomicBool::new(false));
    let (recorded, removed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let attempts = Arc::new(AtomicU64::new(1));
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let (h, done) = (Arc::clone(&h), Arc::clone(&done));
        let (recorded, attempts) = (Arc::clone(&recorded), Arc::clone(&attempts));
        tasks.push(tokio::spawn(async move {
            let deliveries = h.store.deliveries();
            let wait = Wait::new("all events");
            while !done.load(Ordering::Relaxed) {
                let number = attempts.fetch_add(1, Ordering::Relaxed);
                let request = request(u32::try_from(number).expect("small"));
                match deliveries.claim_next(&request).await.expect("claim") {
                    ClaimOutcome::Claimed(claim) => {
                        let outcome = deliveries.record_outcome(&acknowledged(&claim)).await;
                        assert!(
                            matches!(outcome, Ok(RecordOutcome::Recorded(_))),
                            "{outcome:?}"
                        );
                        recorded.fetch_add(1, Ordering::Relaxed);
                    }
                    _ => wait.again().await,
                }
            }
        }));
    }
    for _ in 0..2 {
        let (h, done, removed) = (Arc::clone(&h), Arc::clone(&done), Arc::clone(&removed));
        tasks.push(tokio::spawn(async move {
            let retention = h.store.retention();
            while !done.load(Ordering::Relaxed) {
                let report = retention.reap(&AT_ONCE).await.expect("reaped");
                removed.fetch_add(report.removed, Ordering::Relaxed);
            }
        }));
    }
    for number in 0..EVENTS {
        let id = format!("e{number}");
        let sequence = i64::try_from(number).expect("small");
        append(&h.store, &event(&id, &format!("a{}", number % 7), sequence)).await;
        if let Some(stuck) = stuck.pop() {
            applied(&h, &stuck, requeue(600, 3600)).await;
        }
    }
    assert!(stuck.is_empty());
    let wait = Wait::new("every event to be removed");
    while rows(&h).await != [0, 0, 0, 0] {
        wait.again().await;
    }
    done.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("no task failed");
    }
    assert_eq!(recorded.load(Ordering::Relaxed), EVENTS + STUCK);
    assert_eq!(removed.load(Ordering::Relaxed), EVENTS + STUCK);
}
