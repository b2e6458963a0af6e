//! Records of the earlier system, whose table a fixture recreates from the columns that requirement
//! 004 §30.3 names.
//!
//! Invariant: what the earlier system called published has no acknowledgement here, and stands in
//! its scope's way until an operator has accepted it.

use crate::harness::PostgresHarness;
use crate::operator::{applied, approval, command, conflict, number, refused_by, requeue};
use crate::sample::{append, claimed, event, event_id, nothing, request};
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::{Disposition, DispositionConflict};
use domain_core::delivery::{DeliveryStateName, DispatchAuthority};
use sqlx::{AssertSqlSafe, Executor as _};

/// Each state of the earlier system, and where requirement 004 §30.4 maps it.
const MAPPED: [(&str, DeliveryStateName); 5] = [
    ("PENDING", DeliveryStateName::Ready),
    ("FAILED", DeliveryStateName::RetryWait),
    ("DEAD", DeliveryStateName::Exhausted),
    ("PUBLISHED", DeliveryStateName::LegacyRecordedUnverified),
    ("IN_FLIGHT", DeliveryStateName::Hold),
];

/// The earlier system's table, beside events that were appended under its authority.
async fn earlier_system() -> PostgresHarness {
    let h = PostgresHarness::fresh().await;
    h.activate_epoch(Some(DispatchAuthority::LegacyPolling))
        .await;
    h.pool
        .execute(
            "CREATE TABLE legacy_outbox_event ( \
                 idempotency_key text PRIMARY KEY, \
                 event_type      text NOT NULL, \
                 payload         text NOT NULL, \
                 status          text NOT NULL CHECK (status IN \
                     ('PENDING', 'IN_FLIGHT', 'PUBLISHED', 'FAILED', 'DEAD')), \
                 attempt_count   integer NOT NULL, \
                 next_attempt_at timestamptz, \
                 occurred_at     timestamptz NOT NULL)",
        )
        .await
        .expect("the earlier table");
    for (status, _) in MAPPED {
        append(&h.store, &event(status, status, 1)).await;
        h.pool
            .execute(AssertSqlSafe(format!(
                "INSERT INTO legacy_outbox_event \
                 SELECT event_id, contract_id, convert_from(envelope_bytes, 'UTF8'), '{status}', \
                     3, clock_timestamp() + interval '1 minute', created_at \
                 FROM outbox_event WHERE event_id = '{status}'"
            )))
            .await
            .expect("an earlier row");
    }
    h.activate_epoch(Some(DispatchAuthority::PollingV2)).await;
    h
}

/// The mapping; `published` is what becomes of a published row.
fn mapping(published: &str) -> String {
    format!(
        "INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status, \
             dispatch_profile_id, state, claim_count, publication_attempt_count, \
             first_attempt_at, next_attempt_at, last_outcome_certainty, terminal_at, \
             automatic_attempt_deadline, delivery_recorded_at, provider_generation, \
             provider_record_reference) \
         SELECT e.event_id, 1, 'CURRENT', 'legacy', mapped.state, 0, 0, NULL, \
             CASE mapped.state WHEN 'RETRY_WAIT' THEN old.next_attempt_at END, \
             CASE mapped.state WHEN 'HOLD' THEN 'INDETERMINATE' END, \
             CASE WHEN mapped.state NOT IN ('READY', 'RETRY_WAIT') THEN clock_timestamp() END, \
             clock_timestamp() + interval '1 hour', NULL, NULL, NULL \
         FROM legacy_outbox_event AS old \
         JOIN outbox_event AS e ON e.event_id = old.idempotency_key \
             AND convert_from(e.envelope_bytes, 'UTF8') = old.payload \
         CROSS JOIN LATERAL (SELECT CASE old.status WHEN 'PENDING' THEN 'READY' \
             WHEN 'FAILED' THEN 'RETRY_WAIT' WHEN 'DEAD' THEN 'EXHAUSTED' \
             WHEN 'PUBLISHED' THEN '{published}' WHEN 'IN_FLIGHT' THEN 'HOLD' END AS state) \
             AS mapped"
    )
}

#[tokio::test]
async fn a_published_legacy_row_becomes_recorded_unverified_and_nothing_more() {
    let h = earlier_system().await;
    // Neither as delivered, not even with made-up evidence, nor as resolved in another way.
    for wrong in [
        "DELIVERY_RECORDED",
        "LEGACY_ACCEPTED_UNVERIFIED",
        "SKIPPED",
        "COMPENSATED",
    ] {
        assert_eq!(
            refused_by(&h.pool, &mapping(wrong)).await,
            "outbox_delivery_begins",
            "{wrong}"
        );
    }
    for (state, recorded) in [
        ("DELIVERY_RECORDED", "clock_timestamp()"),
        ("LEGACY_RECORDED_UNVERIFIED", "NULL"),
    ] {
        let invented = format!(
            "INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status, \
             dispatch_profile_id, state, claim_count, publication_attempt_count, \
             first_attempt_at, terminal_at, automatic_attempt_deadline, delivery_recorded_at, \
             last_outcome_certainty, provider_generation, provider_record_reference) \
             VALUES ('PUBLISHED', 1, 'CURRENT', 'legacy', '{state}', 1, 1, clock_timestamp(), \
             clock_timestamp(), clock_timestamp(), {recorded}, 'ACCEPTED', 'g', 'topic/0@1')"
        );
        assert_eq!(
            refused_by(&h.pool, &invented).await,
            "outbox_delivery_begins",
            "{state}"
        );
    }
    h.pool
        .execute(AssertSqlSafe(mapping("LEGACY_RECORDED_UNVERIFIED")))
        .await
        .expect("mapped");
    for (status, state) in MAPPED {
        let row = h.delivery(&event_id(status)).await.expect("delivery");
        assert_eq!(row.state, state, "{status}");
        assert_eq!(row.delivery_recorded_at, None);
        assert_eq!(row.record_reference, None);
    }
    assert_eq!(
        number(
            &h.pool,
            "SELECT count(*) FROM outbox_delivery_attempt_observation"
        )
        .await,
        0
    );
}

/// A migrated record blocks its scope until it is accepted by an audited act, which is still no
/// acknowledgement; nothing of another authority is sent again.
#[tokio::test]
async fn an_unverified_record_blocks_until_it_is_accepted() {
    let h = earlier_system().await;
    h.pool
        .execute(AssertSqlSafe(mapping("LEGACY_RECORDED_UNVERIFIED")))
        .await
        .expect("mapped");
    append(&h.store, &event("next", "PUBLISHED", 2)).await;
    nothing(&h.store, &request(1)).await;
    let accept = Disposition::AcceptLegacy {
        approval: approval(),
    };
    let disposed = applied(&h, "PUBLISHED", accept).await;
    assert_eq!(disposed.state, DeliveryStateName::LegacyAcceptedUnverified);
    let row = h.delivery(&event_id("PUBLISHED")).await.expect("delivery");
    assert_eq!(
        (row.delivery_recorded_at, row.record_reference),
        (None, None)
    );
    let audited = number(
        &h.pool,
        "SELECT count(*) FROM outbox_disposition_audit \
         WHERE disposition = 'ACCEPT_LEGACY' AND approval = 'CHG-1'",
    )
    .await;
    assert_eq!(audited, 1);
    let claim = claimed(&h.store, &request(2)).await;
    assert_eq!(claim.attempt.event_id.as_str(), "next");
    let dead = command(&h, "DEAD", requeue(600, 3600)).await;
    assert_eq!(
        conflict(&h, &dead).await,
        DispositionConflict::NoPollingEpoch
    );
}
