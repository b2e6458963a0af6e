//! The example roles: enough for the work, and no more.
//!
//! Invariant: a refusal here is one of privilege (42501), before any trigger is asked.

use crate::authority::act;
use crate::place::Place;
use crate::sample::{acknowledged, append, claimed, event, event_id, request};
use application_core::ports::{
    ActivationOutcome, ClaimError, ClaimFencePort as _, EpochActivation, FenceOutcome, FenceScope,
    FreezeOutcome, OutboxDeliveryPort as _, OutboxQueryPort as _, PublicationAuthorityPort as _,
    ResumeOutcome, TransactionResourcePort as _,
};
use domain_core::delivery::DispatchAuthority;
use domain_core::identity::{ActReference, PublicationEpoch};
use outbound_persistence_postgres::PostgresStore;
use sqlx::{AssertSqlSafe, Executor as _};
use std::time::Duration;

const ROLES: [&str; 4] = ["append", "relay", "read", "authority"];

async fn denied(place: &Place, role: &str, statements: &[&str]) {
    for statement in statements {
        let mut tx = place.pool().begin().await.expect("begin");
        tx.execute(AssertSqlSafe(format!("SET LOCAL ROLE {role}")))
            .await
            .expect("role");
        let error = tx
            .execute(AssertSqlSafe(*statement))
            .await
            .expect_err(statement);
        let error = error.into_database_error().expect("the server's answer");
        assert_eq!(
            error.code().as_deref(),
            Some("42501"),
            "{role}: {statement}"
        );
        tx.rollback().await.expect("rolled back");
    }
}

/// Everything that an operator of the authority does.
pub(crate) async fn govern(store: &PostgresStore) {
    let (authority, fences) = (store.authority(), store.fences());
    let wait = Duration::from_secs(10);
    let frozen = authority.freeze(1, wait, &act()).await.expect("freeze");
    assert!(matches!(frozen, FreezeOutcome::Frozen(_)), "{frozen:?}");
    let open = authority.resume(2, &act()).await.expect("resume");
    assert!(matches!(open, ResumeOutcome::Open(_)), "{open:?}");
    let next = authority
        .prepare_epoch(DispatchAuthority::PollingV2, None)
        .await
        .expect("prepared");
    let activated = authority
        .activate_epoch(&EpochActivation {
            expected_active: Some(PublicationEpoch::FIRST),
            epoch: next.epoch,
            row_version: next.row_version,
            wait,
            approval: ActReference::parse("CHG-1").expect("approval"),
            act: act(),
        })
        .await;
    assert_eq!(activated.expect("activation"), ActivationOutcome::Activated);
    for scope in [FenceScope::Everything, FenceScope::Event(event_id("e1"))] {
        let changed = fences.raise(&scope, &act()).await.expect("raised");
        assert_eq!(changed, FenceOutcome::Changed);
        let changed = fences.lift(&scope, &act()).await.expect("lifted");
        assert_eq!(changed, FenceOutcome::Changed);
    }
}

/// Appender, relay, operator and reader work under their own role; what none of them needs is denied.
#[tokio::test]
async fn each_role_does_its_work_and_no_other() {
    let place = Place::create().await;
    let owner = place.store().await;
    let prefix = place.name();
    let role = |name: &str| format!("{prefix}_{name}");
    let grants = include_str!("../../sql/roles.sql").replace("countersign_", &format!("{prefix}_"));
    place
        .pool()
        .execute(AssertSqlSafe(grants))
        .await
        .expect("granted");
    for name in ROLES {
        let usage = format!("GRANT USAGE ON SCHEMA {prefix} TO {}", role(name));
        place
            .pool()
            .execute(AssertSqlSafe(usage))
            .await
            .expect("usage");
    }

    let appending = place
        .bare_store(&[&format!("role={}", role("append"))])
        .await;
    append(&appending, &event("e1", "a", 1)).await;
    appending.transactions().resource_id().await.expect("id");
    let refused = appending.deliveries().claim_next(&request(1)).await;
    assert!(
        matches!(refused, Err(ClaimError::Unavailable(_))),
        "{refused:?}"
    );
    let relaying = place
        .bare_store(&[&format!("role={}", role("relay"))])
        .await;
    let claim = claimed(&relaying, &request(2)).await;
    relaying
        .deliveries()
        .record_outcome(&acknowledged(&claim))
        .await
        .expect("recorded");
    let governing = place
        .bare_store(&[&format!("role={}", role("authority"))])
        .await;
    govern(&governing).await;
    let reading = place.bare_store(&[&format!("role={}", role("read"))]).await;
    assert_eq!(reading.query().counts().await.expect("counts").events, 1);
    let page = reading.query().deliveries_after(None, 10).await;
    assert_eq!(page.expect("page").len(), 1);

    let written = [
        "UPDATE outbox_event SET ordering_required = false",
        "DELETE FROM outbox_event",
        "TRUNCATE outbox_event",
        "UPDATE outbox_delivery_attempt_observation SET failure_class = 'X'",
        "DELETE FROM outbox_delivery_attempt_observation",
        "DELETE FROM outbox_delivery",
        "UPDATE outbox_authority_audit SET operator = 'x'",
        "DELETE FROM write_admission",
        "UPDATE transaction_resource SET resource_id = 'x'",
    ];
    for name in ROLES {
        denied(&place, &role(name), &written).await;
    }
    let governed = [
        "UPDATE outbox_publication_epoch SET state = 'RETIRED'",
        "UPDATE write_admission SET state = 'FREEZING'",
        "UPDATE outbox_claim_gate SET everything = true",
        "LOCK TABLE outbox_claim_gate IN EXCLUSIVE MODE",
        "LOCK TABLE outbox_publication_epoch IN EXCLUSIVE MODE",
    ];
    for name in ["append", "relay", "read"] {
        denied(&place, &role(name), &governed).await;
    }
    denied(
        &place,
        &role("authority"),
        &[
            "SELECT * FROM outbox_event",
            "SELECT * FROM outbox_delivery",
        ],
    )
    .await;
    denied(
        &place,
        &role("read"),
        &[
            "SELECT envelope_bytes FROM outbox_event",
            "SELECT claim_token FROM outbox_delivery",
        ],
    )
    .await;
    denied(
        &place,
        &role("append"),
        &["UPDATE outbox_delivery SET state = 'HOLD'"],
    )
    .await;

    for store in [appending, relaying, governing, reading, owner] {
        store.close().await;
    }
    // Those of operators and of retention have a test of their own.
    for name in ROLES.into_iter().chain(["operator", "maintenance"]) {
        let gone = format!("DROP OWNED BY {0}; DROP ROLE {0}", role(name));
        place
            .pool()
            .execute(AssertSqlSafe(gone))
            .await
            .expect("dropped");
    }
}
