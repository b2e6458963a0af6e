//! A fresh SQLite store for each case, and SQL of the tests' own to look behind the ports.

use application_core::Cause;
use application_core::conformance::outbox::{
    DeliveryRow, GuardedOutboxHarness, ObservationRow, ObservationType, OutboxHarness, Tampered,
    Tampering,
};
use application_core::ports::{
    OutboxAttemptObservationPort, OutboxDeliveryPort, OutboxQueryPort, TransactionResourcePort,
};
use domain_core::delivery::{DeliveryStateName, DispatchAuthority};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{DeliveryGeneration, EventId};
use domain_core::instant::DatabaseInstant;
use outbound_persistence_sqlite::{
    AppendPolicy, SqliteInbox, SqliteOutbox, SqliteStore, SqliteStoreOptions, SqliteTransactions,
    SqliteWriteTransaction,
};
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{ConnectOptions as _, Row as _, SqliteConnection};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A CURRENT generation that copies its event faithfully.
macro_rules! concat_generation {
    ($verb:literal, $generation:literal) => {
        concat!(
            $verb,
            " INTO outbox_delivery (event_id, delivery_generation, authority_status,
              dispatch_profile_id, destination_binding_revision, state, claim_count,
              publication_attempt_count, row_version, created_at, automatic_attempt_deadline,
              updated_at, partition_key_text, aggregate_sequence, aggregate_event_index,
              ordering_required, claim_partition)
              SELECT event_id, ",
            $generation,
            ", 'CURRENT', 'p', destination_binding_revision, 'READY', 0, 0, 1, created_at,
              created_at + 1, created_at, partition_key_text, aggregate_sequence,
              aggregate_event_index, ordering_required,
              16 * (instr('0123456789abcdef', substr(partition_key_text, 1, 1)) - 1)
                  + instr('0123456789abcdef', substr(partition_key_text, 2, 1)) - 1
              FROM outbox_event WHERE event_id = ?1"
        )
    };
}

/// One store in a directory of its own.
pub(crate) struct SqliteHarness {
    directory: TempDir,
    pub(crate) store: SqliteStore,
}

pub(crate) const POLICY_AGE: Duration = Duration::from_secs(2 * 3600);

pub(crate) fn policy() -> AppendPolicy {
    AppendPolicy {
        maximum_automatic_publication_age: POLICY_AGE,
        dispatch_profile_id: "sqlite-single-writer-claim.v1".to_owned(),
    }
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

    async fn force_state(&self, event: &EventId, state: DeliveryStateName) {
        let mut connection = self.connect().await;
        let done = sqlx::query(
            "UPDATE outbox_delivery
             SET state = ?2, next_attempt_at = NULL, claim_token = NULL, claim_owner = NULL,
                 claim_until = NULL, row_version = row_version + 1
             WHERE event_id = ?1 AND authority_status = 'CURRENT'",
        )
        .bind(event.as_str())
        .bind(state.as_str())
        .execute(&mut connection)
        .await
        .expect("forced");
        assert_eq!(done.rows_affected(), 1);
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the suite polls a condition until a deadline; this is the pause between two looks"
    )]
    async fn pause(&self) {
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

impl GuardedOutboxHarness for SqliteHarness {
    async fn tamper(&self, tampering: Tampering, event: &EventId) -> Tampered {
        let mut tried = 0;
        for sql in statements(tampering) {
            tried += 1;
            // A statement that changes no row was no attempt.
            match self.raw(sql, event).await {
                Ok(0) => panic!("{tampering:?} met no row"),
                Ok(_) => return Tampered::Done,
                Err(error) => {
                    let code = error.as_database_error().and_then(|error| error.code());
                    let code: i32 = code.expect("refused by SQLite").parse().expect("code");
                    assert_eq!(code & 0xFF, 19, "refused, but by no constraint: {error}");
                }
            }
        }
        assert_ne!(tried, 0);
        Tampered::Refused
    }
}

/// Every way that SQLite offers; `REPLACE` deletes without a DELETE trigger.
fn statements(tampering: Tampering) -> &'static [&'static str] {
    match tampering {
        Tampering::ChangeEventMetadata => &[
            "UPDATE outbox_event SET correlation_id = 'other' WHERE event_id = ?1",
            "UPDATE OR REPLACE outbox_event SET event_id = 'e9' WHERE event_id = ?1",
            "REPLACE INTO outbox_event SELECT * FROM outbox_event WHERE event_id = ?1",
        ],
        Tampering::ChangeEnvelope => &[
            "UPDATE outbox_event SET envelope_bytes = CAST('{}' AS BLOB) WHERE event_id = ?1",
            "UPDATE outbox_event SET envelope_bytes = envelope_bytes WHERE event_id = ?1",
        ],
        Tampering::DeleteEvent => &["DELETE FROM outbox_event WHERE event_id = ?1"],
        Tampering::ChangeObservation => &[
            "UPDATE outbox_delivery_attempt_observation SET acceptance_certainty = 'NOT_ACCEPTED'
             WHERE event_id = ?1 AND observation_type = 'OUTCOME_OBSERVED'",
            "REPLACE INTO outbox_delivery_attempt_observation
             SELECT * FROM outbox_delivery_attempt_observation WHERE event_id = ?1",
        ],
        Tampering::DeleteObservations => {
            &["DELETE FROM outbox_delivery_attempt_observation WHERE event_id = ?1"]
        }
        Tampering::ChangePartitionKeyCopy => &[
            "UPDATE outbox_delivery SET row_version = row_version + 1, partition_key_text =
             (SELECT partition_key_text FROM outbox_event WHERE event_id <> ?1) WHERE event_id = ?1",
        ],
        Tampering::ChangeSequenceCopy => &[
            "UPDATE outbox_delivery SET row_version = row_version + 1, aggregate_sequence = 77
             WHERE event_id = ?1",
        ],
        Tampering::ChangeOrderingCopy => &[
            "UPDATE outbox_delivery SET row_version = row_version + 1, ordering_required = 0
             WHERE event_id = ?1",
        ],
        Tampering::ChangeDeadline => &[
            "UPDATE outbox_delivery SET row_version = row_version + 1,
             automatic_attempt_deadline = automatic_attempt_deadline + 1 WHERE event_id = ?1",
        ],
        Tampering::SecondCurrentGeneration => &[
            concat_generation!("INSERT", "2"),
            concat_generation!("REPLACE", "2"),
            concat_generation!("REPLACE", "1"),
        ],
        Tampering::RecordWithoutAcknowledgement => &[
            "UPDATE outbox_delivery SET state = 'DELIVERY_RECORDED', claim_token = NULL,
             claim_owner = NULL, claim_until = NULL, delivery_recorded_at = 1,
             provider_record_reference = 'r', row_version = row_version + 1 WHERE event_id = ?1",
            "UPDATE outbox_delivery SET state = 'DELIVERY_RECORDED', claim_token = NULL,
             claim_owner = NULL, claim_until = NULL, delivery_recorded_at = 1,
             last_outcome_certainty = 'INDETERMINATE', provider_record_reference = 'r',
             row_version = row_version + 1 WHERE event_id = ?1",
        ],
        Tampering::ChangeResourceId => &[
            "UPDATE transaction_resource SET resource_id = lower(hex(randomblob(16)))
             WHERE ?1 IS NOT NULL",
            "REPLACE INTO transaction_resource
             SELECT 1, lower(hex(randomblob(16))) WHERE ?1 IS NOT NULL",
            "DELETE FROM transaction_resource WHERE ?1 IS NOT NULL",
        ],
        Tampering::SecondResourceId => &[
            "INSERT INTO transaction_resource
             SELECT 2, lower(hex(randomblob(16))) WHERE ?1 IS NOT NULL",
        ],
        Tampering::SecondActiveEpoch => &[
            "INSERT INTO outbox_publication_epoch (epoch_id, authority, state, activated_at)
             SELECT 9, 'CDC', 'ACTIVE', 1 WHERE ?1 IS NOT NULL",
            "REPLACE INTO outbox_publication_epoch (epoch_id, authority, state, activated_at)
             SELECT 9, 'CDC', 'ACTIVE', 1 WHERE ?1 IS NOT NULL",
            "DELETE FROM outbox_publication_epoch WHERE ?1 IS NOT NULL",
        ],
        Tampering::DeliveryForCdcEvent => &[concat_generation!("INSERT", "1")],
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
