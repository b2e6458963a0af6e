//! A fresh SQLite store for each case, and SQL of the tests' own to look behind the ports.

use crate::tamper::{lift, restore};
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
use domain_core::identity::{DeliveryGeneration, EventId};
use domain_core::instant::DatabaseInstant;
use outbound_persistence_sqlite::{
    SqliteInbox, SqliteOutbox, SqliteStore, SqliteStoreOptions, SqliteTransactions,
    SqliteWriteTransaction,
};
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{ConnectOptions as _, Connection as _, Row as _, SqliteConnection};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// One store in a directory of its own.
pub(crate) struct SqliteHarness {
    directory: TempDir,
    pub(crate) store: SqliteStore,
}

pub(crate) const POLICY_AGE: Duration = Duration::from_secs(2 * 3600);

pub(crate) fn policy() -> AppendPolicy {
    AppendPolicy::new(POLICY_AGE, "sqlite-single-writer-claim.v1").expect("policy")
}

impl SqliteHarness {
    pub(crate) async fn open(options: SqliteStoreOptions) -> Self {
        let directory = TempDir::new().expect("directory");
        let path = directory.path().join("outbox.db");
        let store = SqliteStore::open(&path, options).await.expect("open");
        let harness = Self { directory, store };
        let mut connection = harness.connect().await;
        sqlx::query("CREATE TABLE business (key TEXT NOT NULL PRIMARY KEY) STRICT")
            .execute(&mut connection)
            .await
            .expect("business table");
        harness
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("outbox.db")
    }

    /// A connection of the tests' own, as any tool would open it.
    pub(crate) async fn connect(&self) -> SqliteConnection {
        SqliteConnectOptions::new()
            .filename(self.path())
            .busy_timeout(Duration::from_secs(10))
            .connect()
            .await
            .expect("connection")
    }

    /// Runs SQL of the tests' own; the rows it changed, or its refusal.
    pub(crate) async fn raw(&self, sql: &'static str, event: &EventId) -> Result<u64, sqlx::Error> {
        let mut connection = self.connect().await;
        let done = sqlx::query(sql)
            .bind(event.as_str())
            .execute(&mut connection)
            .await?;
        Ok(done.rows_affected())
    }
}

fn parsed<T: FromStr<Err: std::fmt::Debug>>(row: &SqliteRow, column: &str) -> T {
    row.get::<&str, _>(column).parse().expect("stored text")
}

fn optional<T: FromStr<Err: std::fmt::Debug>>(row: &SqliteRow, column: &str) -> Option<T> {
    let text: Option<&str> = row.get(column);
    text.map(|text| text.parse().expect("stored text"))
}

fn named<T>(row: &SqliteRow, column: &str, from_name: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let text: Option<&str> = row.get(column);
    text.map(|text| from_name(text).expect("stable name"))
}

fn instant(row: &SqliteRow, column: &str) -> Option<DatabaseInstant> {
    row.get::<Option<i64>, _>(column)
        .map(DatabaseInstant::from_epoch_micros)
}

fn counter(row: &SqliteRow, column: &str) -> u32 {
    row.get(column)
}

impl OutboxHarness for SqliteHarness {
    type Tx = SqliteWriteTransaction;
    type Transactions = SqliteTransactions;
    type Append = SqliteOutbox;
    type Inbox = SqliteInbox;

    const MAXIMUM_AGE: Duration = POLICY_AGE;

    async fn fresh() -> Self {
        Self::open(SqliteStoreOptions::default()).await
    }

    fn transactions(&self) -> Arc<SqliteTransactions> {
        Arc::new(self.store.transactions())
    }

    fn outbox(&self) -> Arc<SqliteOutbox> {
        Arc::new(self.store.outbox(policy()))
    }

    fn inbox(&self) -> Arc<SqliteInbox> {
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
            Arc::new(self.store.inbox()),
            Arc::new(self.store.query()),
        ]
    }

    async fn insert_business_row<'t>(
        tx: &'t mut SqliteWriteTransaction,
        key: &'t str,
    ) -> Result<(), Cause> {
        sqlx::query("INSERT INTO business (key) VALUES (?1)")
            .bind(key)
            .execute(tx.as_mut())
            .await?;
        Ok(())
    }

    async fn business_rows(&self) -> Vec<String> {
        sqlx::query_scalar("SELECT key FROM business ORDER BY key")
            .fetch_all(self.store.read_pool())
            .await
            .expect("business rows")
    }

    async fn database_now(&self) -> DatabaseInstant {
        let now = sqlx::query_scalar("SELECT now FROM database_clock")
            .fetch_one(self.store.read_pool())
            .await;
        DatabaseInstant::from_epoch_micros(now.expect("clock"))
    }

    async fn delivery(&self, event: &EventId) -> Option<DeliveryRow> {
        let row = sqlx::query(
            "SELECT * FROM outbox_delivery WHERE event_id = ?1 AND authority_status = 'CURRENT'",
        )
        .bind(event.as_str())
        .fetch_optional(self.store.read_pool())
        .await
        .expect("delivery")?;
        Some(DeliveryRow {
            generation: DeliveryGeneration::new(row.get("delivery_generation")).expect("number"),
            state: named(&row, "state", DeliveryStateName::from_name).expect("state"),
            claim_count: counter(&row, "claim_count"),
            attempt_count: counter(&row, "publication_attempt_count"),
            first_attempt_at: instant(&row, "first_attempt_at"),
            next_attempt_at: instant(&row, "next_attempt_at"),
            claim_owner: optional(&row, "claim_owner"),
            claim_until: instant(&row, "claim_until"),
            last_certainty: named(&row, "last_outcome_certainty", FromName::from_name),
            last_failure_class: named(&row, "last_failure_class", FromName::from_name),
            last_failure_stage: named(&row, "last_failure_stage", FromName::from_name),
            provider_generation: optional(&row, "provider_generation"),
            record_reference: row.get("provider_record_reference"),
            delivery_recorded_at: instant(&row, "delivery_recorded_at"),
            row_version: row.get("row_version"),
            created_at: instant(&row, "created_at").expect("created_at"),
            automatic_attempt_deadline: instant(&row, "automatic_attempt_deadline")
                .expect("deadline"),
        })
    }

    async fn journal(&self, event: &EventId) -> Vec<ObservationRow> {
        sqlx::query(
            "SELECT * FROM outbox_delivery_attempt_observation WHERE event_id = ?1
             ORDER BY delivery_generation, observation_sequence",
        )
        .bind(event.as_str())
        .fetch_all(self.store.read_pool())
        .await
        .expect("journal")
        .iter()
        .map(|row| ObservationRow {
            generation: DeliveryGeneration::new(row.get("delivery_generation")).expect("number"),
            attempt_id: parsed(row, "publication_attempt_id"),
            sequence: row.get("observation_sequence"),
            observation: named(row, "observation_type", ObservationType::from_name).expect("type"),
            claim_token_digest: Sha256Digest::from_slice(row.get("claim_token_digest"))
                .expect("digest"),
            producer_generation: parsed(row, "producer_generation"),
            binding_revision: parsed(row, "destination_binding_revision"),
            observed_at: instant(row, "observed_at").expect("observed_at"),
            certainty: named(row, "acceptance_certainty", FromName::from_name),
            disposition: named(row, "retry_disposition", FromName::from_name),
            failure_class: named(row, "failure_class", FromName::from_name),
            failure_stage: named(row, "failure_stage", FromName::from_name),
            record_reference: row.get("provider_record_reference"),
        })
        .collect()
    }

    async fn activate_epoch(&self, authority: Option<DispatchAuthority>) {
        let mut connection = self.connect().await;
        sqlx::query(
            "UPDATE outbox_publication_epoch SET state = 'RETIRED', row_version = row_version + 1
             WHERE state = 'ACTIVE'",
        )
        .execute(&mut connection)
        .await
        .expect("retired");
        if let Some(authority) = authority {
            sqlx::query(
                "INSERT INTO outbox_publication_epoch (epoch_id, authority, state, activated_at)
                 SELECT (SELECT max(epoch_id) + 1 FROM outbox_publication_epoch), ?1, 'ACTIVE', now
                 FROM database_clock",
            )
            .bind(authority.as_str())
            .execute(&mut connection)
            .await
            .expect("activated");
        }
    }

    /// Past the transition guard, which knows only the transitions of the protocol.
    async fn force_state(&self, event: &EventId, state: DeliveryStateName) {
        let mut connection = self.connect().await;
        let mut connection = connection.begin().await.expect("begin");
        let guard = lift(&mut connection, "outbox_delivery_transition").await;
        let audit = lift(&mut connection, "outbox_delivery_disposition_is_audited").await;
        let done = sqlx::query(
            "UPDATE outbox_delivery
             SET state = ?2, next_attempt_at = NULL, claim_token = NULL, claim_owner = NULL,
                 claim_until = NULL, row_version = row_version + 1
             WHERE event_id = ?1 AND authority_status = 'CURRENT'",
        )
        .bind(event.as_str())
        .bind(state.as_str())
        .execute(&mut *connection)
        .await
        .expect("forced");
        assert_eq!(done.rows_affected(), 1);
        restore(&mut connection, guard).await;
        restore(&mut connection, audit).await;
        connection.commit().await.expect("committed");
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the suite polls a condition until a deadline; this is the pause between two looks"
    )]
    async fn pause(&self) {
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// The stable names of the outcome's enums.
trait FromName: Sized {
    fn from_name(name: &str) -> Option<Self>;
}

macro_rules! from_name {
    ($($named:ident),+) => {
        $(
            impl FromName for domain_core::publication::$named {
                fn from_name(name: &str) -> Option<Self> {
                    Self::from_name(name)
                }
            }
        )+
    };
}
from_name!(
    AcceptanceCertainty,
    RetryDisposition,
    FailureClass,
    FailureStage
);

impl WindowHarness for SqliteHarness {
    fn windows(&self) -> Arc<dyn OutboxWindowPort> {
        Arc::new(self.store.windows())
    }
}

impl ControlHarness for SqliteHarness {
    fn dispositions(&self) -> Arc<dyn OutboxDispositionPort> {
        Arc::new(self.store.control())
    }

    fn fences(&self) -> Arc<dyn ClaimFencePort> {
        Arc::new(self.store.control())
    }

    fn authority(&self) -> Arc<dyn PublicationAuthorityPort> {
        Arc::new(self.store.control())
    }

    fn retention(&self) -> Arc<dyn OutboxRetentionPort> {
        Arc::new(self.store.control())
    }

    fn capacity(&self) -> Arc<dyn OutboxCapacityPort> {
        Arc::new(self.store.control())
    }

    fn ungated_transactions(&self) -> Arc<Self::Transactions> {
        Arc::new(self.store.ungated_transactions())
    }

    async fn audit_rows(&self, event: &EventId) -> u64 {
        let audited: i64 =
            sqlx::query_scalar("SELECT count(*) FROM outbox_disposition_audit WHERE event_id = ?1")
                .bind(event.as_str())
                .fetch_one(self.store.read_pool())
                .await
                .expect("audit");
        u64::try_from(audited).expect("a count")
    }

    async fn authority_audit_rows(&self) -> u64 {
        let audited: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox_authority_audit")
            .fetch_one(self.store.read_pool())
            .await
            .expect("audit");
        u64::try_from(audited).expect("a count")
    }
}
