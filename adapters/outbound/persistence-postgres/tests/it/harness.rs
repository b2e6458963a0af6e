//! The conformance suite's view of this store.
//!
//! Invariant: rows are read past the ports, and changed only where the harness's contract says so.

use crate::place::Place;
use crate::wait;
use application_core::Cause;
use application_core::conformance::outbox::{
    ControlHarness, DeliveryRow, ObservationRow, ObservationType, OutboxHarness, WindowHarness,
};
use application_core::ports::{
    AppendPolicy, ClaimFencePort, OutboxAttemptObservationPort, OutboxCapacityPort,
    OutboxDeliveryPort, OutboxDispositionPort, OutboxQueryPort, OutboxRetentionPort,
    OutboxWindowPort, PublicationAuthorityPort, TransactionResourcePort,
};
use domain_core::delivery::{DeliveryStateName, DispatchAuthority};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{
    DeliveryGeneration, DestinationBindingRevision, EventId, ProducerGeneration,
    PublicationAttemptId, WorkerId,
};
use domain_core::instant::DatabaseInstant;
use domain_core::publication::{AcceptanceCertainty, FailureClass, FailureStage, RetryDisposition};
use outbound_persistence_postgres::{
    PostgresInbox, PostgresOutbox, PostgresStore, PostgresTransactions, PostgresWriteTransaction,
};
use sqlx::postgres::{PgPool, PgRow};
use sqlx::{AssertSqlSafe, Executor as _, Row as _};
use std::sync::Arc;
use std::time::Duration;

/// A store in a schema of its own, with a business table beside it.
pub(crate) struct PostgresHarness {
    pub(crate) store: PostgresStore,
    /// Past the store.
    pub(crate) pool: PgPool,
    pub(crate) place: Place,
}

/// The policy that every test appends under.
pub(crate) fn policy() -> AppendPolicy {
    AppendPolicy::new(PostgresHarness::MAXIMUM_AGE, "test-profile.v1").expect("policy")
}

/// One timestamp column as epoch microseconds, under its own name.
fn micros(columns: &[&str]) -> String {
    columns
        .iter()
        .map(|column| {
            format!(", (extract(epoch FROM {column}) * 1000000)::bigint AS {column}_micros")
        })
        .collect()
}

fn at(row: &PgRow, column: &str) -> Option<DatabaseInstant> {
    let value: Option<i64> = row.get(format!("{column}_micros").as_str());
    value.map(DatabaseInstant::from_epoch_micros)
}

fn count(row: &PgRow, column: &str) -> u32 {
    let value: i32 = row.get(column);
    u32::try_from(value).expect("not negative")
}

fn name<T>(row: &PgRow, column: &str, from_name: fn(&str) -> Option<T>) -> Option<T> {
    let value: Option<String> = row.get(column);
    value.map(|value| from_name(&value).expect("a stable name"))
}

impl OutboxHarness for PostgresHarness {
    type Tx = PostgresWriteTransaction;
    type Transactions = PostgresTransactions;
    type Append = PostgresOutbox;
    type Inbox = PostgresInbox;

    const MAXIMUM_AGE: Duration = Duration::from_secs(2 * 3600);

    async fn fresh() -> Self {
        let place = Place::create().await;
        let store = place.store().await;
        let pool = place.pool().clone();
        pool.execute(r#"CREATE TABLE business (key text COLLATE "C" PRIMARY KEY)"#)
            .await
            .expect("business table");
        Self { store, pool, place }
    }

    fn transactions(&self) -> Arc<PostgresTransactions> {
        Arc::new(self.store.transactions())
    }

    fn outbox(&self) -> Arc<PostgresOutbox> {
        Arc::new(self.store.outbox(policy()))
    }

    fn inbox(&self) -> Arc<PostgresInbox> {
        Arc::new(self.store.inbox())
    }

    fn deliveries(&self) -> Arc<dyn OutboxDeliveryPort> {
        Arc::new(self.store.deliveries())
    }

    fn observations(&self) -> Arc<dyn OutboxAttemptObservationPort> {
        Arc::new(self.store.deliveries())
    }

    fn query(&self) -> Arc<dyn OutboxQueryPort> {
        Arc::new(self.store.query())
    }

    fn resources(&self) -> Vec<Arc<dyn TransactionResourcePort>> {
        vec![
            Arc::new(self.store.transactions()),
            Arc::new(self.store.outbox(policy())),
            Arc::new(self.store.deliveries()),
            Arc::new(self.store.clone()),
        ]
    }

    async fn insert_business_row<'t>(
        tx: &'t mut PostgresWriteTransaction,
        key: &'t str,
    ) -> Result<(), Cause> {
        sqlx::query("INSERT INTO business (key) VALUES ($1)")
            .bind(key)
            .execute(tx.as_mut())
            .await?;
        Ok(())
    }

    async fn business_rows(&self) -> Vec<String> {
        sqlx::query_scalar("SELECT key FROM business ORDER BY key")
            .fetch_all(&self.pool)
            .await
            .expect("business rows")
    }

    async fn database_now(&self) -> DatabaseInstant {
        let now =
            sqlx::query_scalar("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
                .fetch_one(&self.pool)
                .await
                .expect("the clock");
        DatabaseInstant::from_epoch_micros(now)
    }

    async fn delivery(&self, event: &EventId) -> Option<DeliveryRow> {
        let instants = micros(&[
            "first_attempt_at",
            "next_attempt_at",
            "claim_until",
            "delivery_recorded_at",
            "created_at",
            "automatic_attempt_deadline",
        ]);
        let row = sqlx::query(AssertSqlSafe(format!(
            "SELECT *{instants} FROM outbox_delivery \
             WHERE event_id = $1 AND authority_status = 'CURRENT'"
        )))
        .bind(event.as_str())
        .fetch_optional(&self.pool)
        .await
        .expect("delivery")?;
        let owner: Option<String> = row.get("claim_owner");
        let provider: Option<String> = row.get("provider_generation");
        Some(DeliveryRow {
            generation: DeliveryGeneration::new(row.get("delivery_generation")).expect("positive"),
            state: name(&row, "state", DeliveryStateName::from_name).expect("state"),
            claim_count: count(&row, "claim_count"),
            attempt_count: count(&row, "publication_attempt_count"),
            first_attempt_at: at(&row, "first_attempt_at"),
            next_attempt_at: at(&row, "next_attempt_at"),
            claim_owner: owner.map(|owner| WorkerId::parse(owner).expect("worker")),
            claim_until: at(&row, "claim_until"),
            last_certainty: name(
                &row,
                "last_outcome_certainty",
                AcceptanceCertainty::from_name,
            ),
            last_failure_class: name(&row, "last_failure_class", FailureClass::from_name),
            last_failure_stage: name(&row, "last_failure_stage", FailureStage::from_name),
            provider_generation: provider
                .map(|provider| ProducerGeneration::parse(provider).expect("generation")),
            record_reference: row.get("provider_record_reference"),
            delivery_recorded_at: at(&row, "delivery_recorded_at"),
            row_version: row.get("row_version"),
            created_at: at(&row, "created_at").expect("created"),
            automatic_attempt_deadline: at(&row, "automatic_attempt_deadline").expect("deadline"),
        })
    }

    async fn journal(&self, event: &EventId) -> Vec<ObservationRow> {
        let rows = sqlx::query(AssertSqlSafe(format!(
            "SELECT *{} FROM outbox_delivery_attempt_observation WHERE event_id = $1 \
             ORDER BY delivery_generation, observation_sequence",
            micros(&["observed_at"])
        )))
        .bind(event.as_str())
        .fetch_all(&self.pool)
        .await
        .expect("journal");
        rows.iter().map(observation).collect()
    }

    async fn activate_epoch(&self, authority: Option<DispatchAuthority>) {
        let mut tx = self.pool.begin().await.expect("begin");
        tx.execute("UPDATE outbox_publication_epoch SET state = 'RETIRED' WHERE state = 'ACTIVE'")
            .await
            .expect("retired");
        if let Some(authority) = authority {
            sqlx::query(
                "INSERT INTO outbox_publication_epoch \
                 (epoch_id, authority, state, activated_at, activated_by, approved_by) \
                 SELECT max(epoch_id) + 1, $1, 'ACTIVE', clock_timestamp(), 'test', 'test' \
                 FROM outbox_publication_epoch",
            )
            .bind(authority.as_str())
            .execute(&mut *tx)
            .await
            .expect("activated");
        }
        tx.commit().await.expect("committed");
    }

    /// Past the transition guard, which knows only the transitions of the protocol.
    async fn force_state(&self, event: &EventId, state: DeliveryStateName) {
        let mut tx = self.pool.begin().await.expect("begin");
        tx.execute("SET LOCAL session_replication_role = replica")
            .await
            .expect("a superuser");
        let open = matches!(
            state,
            DeliveryStateName::Ready | DeliveryStateName::RetryWait
        );
        let recorded = state == DeliveryStateName::DeliveryRecorded;
        let forced = sqlx::query(
            "UPDATE outbox_delivery SET state = $2, row_version = row_version + 1, \
             claim_token = NULL, claim_owner = NULL, claim_until = NULL, \
             claim_count = CASE WHEN $4 THEN greatest(claim_count, 1) ELSE claim_count END, \
             publication_attempt_count = CASE WHEN $4 \
                 THEN greatest(publication_attempt_count, 1) ELSE publication_attempt_count END, \
             first_attempt_at = CASE WHEN $4 \
                 THEN coalesce(first_attempt_at, clock_timestamp()) ELSE first_attempt_at END, \
             next_attempt_at = CASE WHEN $2 = 'RETRY_WAIT' THEN clock_timestamp() END, \
             terminal_at = CASE WHEN NOT $3 THEN clock_timestamp() END, \
             delivery_recorded_at = CASE WHEN $4 THEN clock_timestamp() END, \
             last_outcome_certainty = CASE WHEN $4 THEN 'ACCEPTED' \
                 ELSE last_outcome_certainty END, \
             provider_generation = CASE WHEN $4 THEN 'forced' ELSE provider_generation END, \
             provider_record_reference = CASE WHEN $4 THEN 'forced' \
                 ELSE provider_record_reference END \
             WHERE event_id = $1 AND authority_status = 'CURRENT'",
        )
        .bind(event.as_str())
        .bind(state.as_str())
        .bind(open)
        .bind(recorded)
        .execute(&mut *tx)
        .await
        .expect("forced");
        assert_eq!(forced.rows_affected(), 1);
        tx.commit().await.expect("committed");
    }

    async fn pause(&self) {
        wait::pause().await;
    }
}

fn observation(row: &PgRow) -> ObservationRow {
    let text = |column: &str| -> String { row.get(column) };
    let kind = name(row, "observation_type", ObservationType::from_name);
    ObservationRow {
        generation: DeliveryGeneration::new(row.get("delivery_generation")).expect("positive"),
        attempt_id: PublicationAttemptId::parse(text("publication_attempt_id")).expect("attempt"),
        sequence: row.get("observation_sequence"),
        observation: kind.expect("type"),
        claim_token_digest: Sha256Digest::from_slice(row.get("claim_token_digest"))
            .expect("digest"),
        producer_generation: ProducerGeneration::parse(text("producer_generation"))
            .expect("generation"),
        binding_revision: DestinationBindingRevision::parse(text("destination_binding_revision"))
            .expect("binding"),
        observed_at: at(row, "observed_at").expect("observed"),
        certainty: name(row, "acceptance_certainty", AcceptanceCertainty::from_name),
        disposition: name(row, "retry_disposition", RetryDisposition::from_name),
        failure_class: name(row, "failure_class", FailureClass::from_name),
        failure_stage: name(row, "failure_stage", FailureStage::from_name),
        record_reference: row.get("provider_record_reference"),
    }
}

impl WindowHarness for PostgresHarness {
    fn windows(&self) -> Arc<dyn OutboxWindowPort> {
        Arc::new(self.store.windows())
    }
}

impl ControlHarness for PostgresHarness {
    fn dispositions(&self) -> Arc<dyn OutboxDispositionPort> {
        Arc::new(self.store.dispositions())
    }

    fn fences(&self) -> Arc<dyn ClaimFencePort> {
        Arc::new(self.store.fences())
    }

    fn authority(&self) -> Arc<dyn PublicationAuthorityPort> {
        Arc::new(self.store.authority())
    }

    fn retention(&self) -> Arc<dyn OutboxRetentionPort> {
        Arc::new(self.store.retention())
    }

    fn capacity(&self) -> Arc<dyn OutboxCapacityPort> {
        Arc::new(self.store.capacity())
    }

    fn ungated_transactions(&self) -> Arc<Self::Transactions> {
        Arc::new(self.store.ungated_transactions())
    }

    async fn audit_rows(&self, event: &EventId) -> u64 {
        let audited: i64 =
            sqlx::query_scalar("SELECT count(*) FROM outbox_disposition_audit WHERE event_id = $1")
                .bind(event.as_str())
                .fetch_one(&self.pool)
                .await
                .expect("audit");
        u64::try_from(audited).expect("a count")
    }

    async fn authority_audit_rows(&self) -> u64 {
        let audited: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox_authority_audit")
            .fetch_one(&self.pool)
            .await
            .expect("audit");
        u64::try_from(audited).expect("a count")
    }
}
