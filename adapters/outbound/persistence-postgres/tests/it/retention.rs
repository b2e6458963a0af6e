//! Retention on real rows.
//!
//! Invariant: an event goes whole, when all of requirement 004 §19.6 holds, or stays whole.

use crate::harness::PostgresHarness;
use crate::operator::{act, applied, compensate, lapsed, number, refused_by, requeue, rows, skip};
use crate::sample::{acknowledged, append, claimed, event, event_id, request};
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::{
    Disposition, OutboxDeliveryPort as _, OutboxRetentionPort as _, ReapRequest, RecordOutcome,
    RetentionError,
};
use domain_core::delivery::{DeliveryStateName, DispatchAuthority};
use outbound_persistence_postgres::PostgresRetention;
use sqlx::{AssertSqlSafe, Executor as _};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Everything that is resolved is old enough.
pub(crate) const AT_ONCE: ReapRequest = ReapRequest {
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

pub(crate) async fn reap(h: &PostgresHarness) -> u64 {
    reap_all(&h.store.retention(), &AT_ONCE).await
}

/// An event recorded as a relay records it.
pub(crate) async fn recorded(h: &PostgresHarness, id: &str, number: u32) {
    append(&h.store, &event(id, id, 1)).await;
    record_next(h, number).await;
}

pub(crate) async fn record_next(h: &PostgresHarness, number: u32) {
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
