//! Commands and raw SQL that the tests of dispositions and retention share.
//!
//! Invariant: a command names what its author saw, read from the row itself.

use crate::harness::PostgresHarness;
use crate::sample::{claimed, event_id, request};
use crate::wait::until;
use application_core::conformance::outbox::{DeliveryRow, OutboxHarness as _};
use application_core::ports::{
    ClaimRequest, ClaimedDelivery, Disposed, Disposition, DispositionCommand, DispositionConflict,
    DispositionError, DispositionOutcome, LateObservationId, LatePublicationObservation,
    OperatorAct, OutboxDispositionPort as _,
};
use domain_core::delivery::PublicationWindow;
use domain_core::identity::{
    ActReference, OperatorId, ProducerGeneration, ReasonCode, ReasonText, RowVersion,
};
use domain_core::instant::DatabaseInstant;
use domain_core::publication::{AcceptanceCertainty, ProviderRecordReference};
use sqlx::postgres::{PgConnection, PgPool};
use sqlx::{AssertSqlSafe, Executor as _};
use std::time::Duration;

pub(crate) fn act() -> OperatorAct {
    OperatorAct {
        operator: OperatorId::parse("ops-1").expect("operator"),
        reason_code: ReasonCode::parse("BROKER_LOST").expect("code"),
        reason: ReasonText::parse("the broker lost its disk").expect("reason"),
        reference: ActReference::parse("INC-7").expect("reference"),
    }
}

pub(crate) fn skip() -> Disposition {
    Disposition::Skip {
        approval: approval(),
    }
}

pub(crate) fn compensate(event: &str) -> Disposition {
    Disposition::Compensate {
        approval: approval(),
        compensating_event: event_id(event),
    }
}

pub(crate) fn approval() -> ActReference {
    ActReference::parse("CHG-1").expect("approval")
}

/// A requeue with these ages in seconds.
pub(crate) fn requeue(maximum_age: u64, horizon: u64) -> Disposition {
    Disposition::Requeue {
        window: PublicationWindow::new(
            Duration::from_secs(maximum_age),
            Duration::from_secs(horizon),
        )
        .expect("window"),
    }
}

/// A command on the row as it is now.
pub(crate) async fn command(
    h: &PostgresHarness,
    event: &str,
    disposition: Disposition,
) -> DispositionCommand {
    let row = h.delivery(&event_id(event)).await.expect("delivery");
    command_on(event, &row, disposition)
}

/// A command on a row as it was seen.
pub(crate) fn command_on(
    event: &str,
    row: &DeliveryRow,
    disposition: Disposition,
) -> DispositionCommand {
    DispositionCommand {
        event_id: event_id(event),
        generation: row.generation,
        row_version: RowVersion::new(row.row_version).expect("version"),
        disposition,
        act: act(),
    }
}

pub(crate) async fn apply(
    h: &PostgresHarness,
    command: &DispositionCommand,
) -> Result<DispositionOutcome, DispositionError> {
    h.store.dispositions().apply(command).await
}

/// A disposition that must be applied.
pub(crate) async fn applied(
    h: &PostgresHarness,
    event: &str,
    disposition: Disposition,
) -> Disposed {
    let command = command(h, event, disposition).await;
    match apply(h, &command).await.expect("applied") {
        DispositionOutcome::Applied(disposed) => disposed,
        DispositionOutcome::Conflict(conflict) => panic!("{conflict:?}"),
    }
}

/// A disposition that must be refused.
pub(crate) async fn conflict(
    h: &PostgresHarness,
    command: &DispositionCommand,
) -> DispositionConflict {
    match apply(h, command).await.expect("answered") {
        DispositionOutcome::Conflict(conflict) => conflict,
        DispositionOutcome::Applied(disposed) => panic!("applied: {disposed:?}"),
    }
}

/// A claim whose lease has lapsed.
pub(crate) async fn lapsed(h: &PostgresHarness, number: u32) -> ClaimedDelivery {
    let short = ClaimRequest {
        lease: Duration::from_millis(80),
        attempt_budget: Duration::from_millis(1),
        ..request(number)
    };
    let claim = claimed(&h.store, &short).await;
    until("the lease to lapse", async || {
        (h.database_now().await > claim.claim_until).then_some(())
    })
    .await;
    claim
}

/// What a broker said too late of a claim's attempt.
pub(crate) fn late(claim: &ClaimedDelivery) -> LatePublicationObservation {
    LatePublicationObservation {
        id: LateObservationId(1),
        attempt: claim.attempt.clone(),
        producer_generation: ProducerGeneration::parse("producer-1").expect("generation"),
        binding_revision: claim.event.binding_revision.clone(),
        certainty: AcceptanceCertainty::Accepted,
        observed_at: DatabaseInstant::from_epoch_micros(1_785_215_431_000_007),
        record_reference: ProviderRecordReference::parse("sample/0@1").expect("reference"),
    }
}

pub(crate) async fn number(pool: &PgPool, query: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(query))
        .fetch_one(pool)
        .await
        .unwrap_or_else(|error| panic!("{query}: {error}"))
}

/// Rows of each table that an event leaves behind: events, deliveries, observations, audit.
pub(crate) async fn rows(h: &PostgresHarness) -> [i64; 4] {
    let mut counts = [0; 4];
    for (count, table) in counts.iter_mut().zip([
        "outbox_event",
        "outbox_delivery",
        "outbox_delivery_attempt_observation",
        "outbox_disposition_audit",
    ]) {
        *count = number(&h.pool, &format!("SELECT count(*) FROM {table}")).await;
    }
    counts
}

/// The rule that refuses these statements, the last of them at the commit at the latest.
pub(crate) async fn refused_by(pool: &PgPool, statements: &str) -> String {
    let mut tx = pool.begin().await.expect("begin");
    let refused = match tx.execute(AssertSqlSafe(statements)).await {
        Err(error) => error,
        Ok(_) => tx
            .execute("SET CONSTRAINTS ALL IMMEDIATE")
            .await
            .expect_err(statements),
    };
    let error = refused.into_database_error().expect("the server's answer");
    let sqlstate = error.code().expect("SQLSTATE").into_owned();
    assert!(sqlstate.starts_with("23"), "{sqlstate} for {statements}");
    error.constraint().unwrap_or_default().to_owned()
}

/// Makes the removal of events wait for [`BARRIER`], which `session` holds until it is told.
pub(crate) async fn hold_up_removals(session: &mut PgConnection) {
    session
        .execute(AssertSqlSafe(format!(
            "CREATE FUNCTION test_barrier() RETURNS trigger LANGUAGE plpgsql AS $$ \
             BEGIN PERFORM pg_advisory_xact_lock({key}); RETURN NULL; END $$; \
             CREATE TRIGGER test_barrier BEFORE DELETE ON outbox_event \
             FOR EACH STATEMENT EXECUTE FUNCTION test_barrier(); \
             SELECT pg_advisory_lock({key})",
            key = BARRIER
        )))
        .await
        .expect("held up");
}

/// Lets removals go on.
pub(crate) async fn let_removals_go_on(session: &mut PgConnection) {
    session
        .execute(AssertSqlSafe(format!(
            "SELECT pg_advisory_unlock({BARRIER})"
        )))
        .await
        .expect("let go");
}

/// One key for each test's schema, since the server is shared.
const BARRIER: &str = "hashtextextended(current_schema()::text, 7)";
