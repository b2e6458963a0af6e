//! A database, a topic and the profiles of both claim cards on them, for one fault run.
//!
//! Invariant: the profiles are the checked-in ones but for endpoints, topic and budgets, and a
//! trigger keeps every change of a delivery, so that the account does not rest on the journal alone.

use crate::support::{admin, create_topic, environment, in_database, root, unique};
use app_bootstrap::compose::{Compiled, Store, contracts};
use app_bootstrap::config::{self, ExpectedState};
use application_core::ports::{
    Disposition, DispositionCommand, DispositionOutcome, OperatorAct, OutboxDispositionPort as _,
};
use domain_core::delivery::PublicationWindow;
use domain_core::identity::{
    ActReference, DeliveryGeneration, EventId, OperatorId, ReasonCode, ReasonText, RowVersion,
};
use outbound_persistence_postgres::{PoolSettings, PostgresStore};
use rdkafka::admin::AdminOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The lease of the card with one record a claim.
pub(crate) const RECORD_LEASE: Duration = Duration::from_secs(11);
/// The lease of the window card.
pub(crate) const WINDOW_LEASE: Duration = Duration::from_secs(14);
/// What an attempt must have left of its age before it is sent.
pub(crate) const ATTEMPT_BUDGET: Duration = Duration::from_secs(6);
/// Attempts of one generation.
pub(crate) const ATTEMPTS: i64 = 10;

/// The contract's horizon of a requeue, as its manifest says.
const HORIZON: Duration = Duration::from_secs(7 * 24 * 60 * 60);

const HISTORY: &str = "
    CREATE TABLE fault_history (
        number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        -- As the tables spell it, or no index would serve a comparison.
        event_id    varchar(96) COLLATE \"C\" NOT NULL,
        generation  bigint NOT NULL,
        old_version bigint NOT NULL,
        new_version bigint NOT NULL,
        old_state   text NOT NULL,
        new_state   text NOT NULL,
        old_status  text NOT NULL,
        new_status  text NOT NULL,
        old_digest  bytea,
        new_digest  bytea,
        old_owner   text,
        new_owner   text,
        old_until   timestamptz,
        -- Which process wrote it; none for an operator.
        incarnation integer
            DEFAULT nullif(current_setting('faults.incarnation', true), '')::integer,
        changed_at  timestamptz NOT NULL DEFAULT clock_timestamp()
    );
    CREATE INDEX ON fault_history (event_id, generation, new_version);
    CREATE FUNCTION fault_history_keep() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO fault_history (
            event_id, generation, old_version, new_version, old_state, new_state, old_status,
            new_status, old_digest, new_digest, old_owner, new_owner, old_until
        ) VALUES (
            NEW.event_id, NEW.delivery_generation, OLD.row_version, NEW.row_version, OLD.state,
            NEW.state, OLD.authority_status, NEW.authority_status, sha256(OLD.claim_token),
            sha256(NEW.claim_token), OLD.claim_owner, NEW.claim_owner, OLD.claim_until
        );
        RETURN NEW;
    END
    $$;
    CREATE TRIGGER zz_fault_history BEFORE UPDATE ON outbox_delivery
        FOR EACH ROW EXECUTE FUNCTION fault_history_keep();
";

pub(crate) struct Scene {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) per_record: PathBuf,
    pub(crate) window: PathBuf,
    pub(crate) topic: String,
    pub(crate) bootstrap: String,
    pub(crate) compiled: Compiled,
    pub(crate) store: Store,
    operators: PostgresStore,
    maximum_age: Duration,
    url: String,
    server: String,
    database: String,
}

impl Scene {
    pub(crate) async fn create(bootstrap: &str, maximum_age: Duration) -> Self {
        let server = environment("COUNTERSIGN_TEST_POSTGRES_URL");
        let name = unique();
        let topic = format!("portfolio.faults-{name}");
        let database = format!("faults_{}", name.replace('-', "_"));
        let mut connection = PgConnection::connect(&server).await.expect("PostgreSQL");
        sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {database}")))
            .execute(&mut connection)
            .await
            .expect("database");
        create_topic(bootstrap, &topic).await;
        let url = in_database(&server, &database);
        let folder = tempfile::tempdir().expect("folder");
        let write = |card| write_profile(card, folder.path(), &topic, bootstrap, &url, maximum_age);
        let (per_record, window) = (write("local-kafka.toml"), write("local-kafka-window.toml"));
        let ExpectedState::Active(active) = config::load(&window).expect("profile").state else {
            panic!("the profile is active");
        };
        let compiled = contracts::compile_with(&active, &portfolio::contracts::contributions())
            .expect("contracts");
        let store = Store::open(&compiled).await.expect("store");
        let operators = PostgresStore::connect(&url, &operator_pool())
            .await
            .expect("PostgreSQL");
        let this = Self {
            folder,
            per_record,
            window,
            topic,
            bootstrap: bootstrap.to_owned(),
            compiled,
            store,
            operators,
            maximum_age,
            url,
            server,
            database,
        };
        sqlx::raw_sql(HISTORY)
            .execute(&mut this.connect().await)
            .await
            .expect("the history");
        this
    }

    pub(crate) async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("PostgreSQL")
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query(sql)
            .fetch_one(&mut self.connect().await)
            .await
            .expect("counts")
            .get(0)
    }

    /// Live claims of one process.
    pub(crate) async fn claims_of(&self, incarnation: i32) -> i64 {
        sqlx::query(
            "SELECT count(*) FROM outbox_delivery AS d JOIN fault_history AS h
                 ON h.event_id = d.event_id AND h.generation = d.delivery_generation
                AND h.new_version = d.row_version
              WHERE d.claimable AND d.state = 'CLAIMED' AND d.claim_until > clock_timestamp()
                AND h.incarnation = $1",
        )
        .bind(incarnation)
        .fetch_one(&mut self.connect().await)
        .await
        .expect("claims")
        .get(0)
    }

    /// Gives every EXHAUSTED delivery a new generation, as an operator does; tells how many.
    pub(crate) async fn requeue_exhausted(&self) -> u64 {
        let exhausted = sqlx::query(
            "SELECT event_id, delivery_generation, row_version FROM outbox_delivery \
             WHERE authority_status = 'CURRENT' AND state = 'EXHAUSTED' \
             ORDER BY partition_key_text, aggregate_sequence",
        )
        .fetch_all(&mut self.connect().await)
        .await
        .expect("exhausted deliveries");
        let port = self.operators.dispositions();
        let mut requeued = 0;
        for row in exhausted {
            let command = DispositionCommand {
                event_id: EventId::parse(row.get::<String, _>(0)).expect("an id"),
                generation: DeliveryGeneration::new(row.get(1)).expect("a generation"),
                row_version: RowVersion::new(row.get(2)).expect("a version"),
                disposition: Disposition::Requeue {
                    window: PublicationWindow::new(self.maximum_age, HORIZON).expect("a window"),
                },
                act: OperatorAct {
                    operator: OperatorId::parse("fault-run").expect("an operator"),
                    reason_code: ReasonCode::parse("OUTAGE_OVER").expect("a code"),
                    reason: ReasonText::parse("the fault is over").expect("a text"),
                    reference: ActReference::parse("fault-run").expect("a reference"),
                },
            };
            let outcome = port.apply(&command).await.expect("applied");
            assert!(
                matches!(outcome, DispositionOutcome::Applied(_)),
                "{outcome:?}"
            );
            requeued += 1;
        }
        requeued
    }

    pub(crate) async fn remove(self) {
        self.operators.close().await;
        self.store.close().await;
        let mut connection = PgConnection::connect(&self.server)
            .await
            .expect("PostgreSQL");
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.database);
        sqlx::query(AssertSqlSafe(drop))
            .execute(&mut connection)
            .await
            .expect("dropped");
        admin(&self.bootstrap)
            .delete_topics(&[&self.topic], &AdminOptions::new())
            .await
            .expect("deleted");
    }
}

fn operator_pool() -> PoolSettings {
    PoolSettings {
        application_name: "fault-run".to_owned(),
        maximum_connections: 2,
        acquire_timeout: Duration::from_secs(10),
        statement_timeout: Duration::from_secs(30),
        lock_timeout: Duration::from_secs(10),
        idle_in_transaction_timeout: Duration::from_secs(60),
    }
}

fn write_profile(
    checked_in: &str,
    folder: &Path,
    topic: &str,
    bootstrap: &str,
    url: &str,
    maximum_age: Duration,
) -> PathBuf {
    let secret = folder.join("postgres.url");
    std::fs::write(&secret, url).expect("secret");
    let endpoints = folder.join("endpoints.toml");
    let text = format!(
        "[kafka]\nbootstrap-servers = [\"{bootstrap}\"]\n[database]\nurl = \"secret://file{}\"\n",
        secret.display()
    );
    std::fs::write(&endpoints, text).expect("endpoints");
    let messaging = root()
        .join("config/messaging")
        .canonicalize()
        .expect("config");
    let file = root().join("config/profiles").join(checked_in);
    let mut text = std::fs::read_to_string(file).expect("profile");
    let mut replace = |from: &str, to: String| {
        assert!(text.contains(from), "{from} is not in {checked_in}");
        text = text.replace(from, &to);
    };
    replace(
        "../../target/services/endpoints.toml",
        endpoints.display().to_string(),
    );
    replace("../messaging/", format!("{}/", messaging.display()));
    replace("portfolio.domain-events.v1", topic.to_owned());
    let seconds = |key: &str, span: Duration| format!("{key} = \"{}s\"", span.as_secs());
    if checked_in.contains("window") {
        replace(
            "claim-lease = \"95s\"",
            seconds("claim-lease", WINDOW_LEASE),
        );
        replace(
            "enqueue-budget = \"10s\"",
            "enqueue-budget = \"1s\"".to_owned(),
        );
    } else {
        replace(
            "claim-lease = \"90s\"",
            seconds("claim-lease", RECORD_LEASE),
        );
    }
    replace(
        "maximum-automatic-publication-age = \"15m\"",
        seconds("maximum-automatic-publication-age", maximum_age),
    );
    replace(
        "application-attempt-budget = \"68s\"",
        seconds("application-attempt-budget", ATTEMPT_BUDGET),
    );
    for (from, to) in [
        (
            "maximum-relay-attempts = 5",
            format!("maximum-relay-attempts = {ATTEMPTS}"),
        ),
        (
            "retry-maximum-delay = \"30s\"",
            "retry-maximum-delay = \"2s\"".to_owned(),
        ),
        (
            "admission-timeout = \"1s\"",
            "admission-timeout = \"500ms\"".to_owned(),
        ),
        (
            "delivery-timeout = \"60s\"",
            "delivery-timeout = \"3s\"".to_owned(),
        ),
        (
            "request-timeout = \"35s\"",
            "request-timeout = \"900ms\"".to_owned(),
        ),
        (
            "max-block-timeout = \"5s\"",
            "max-block-timeout = \"500ms\"".to_owned(),
        ),
    ] {
        replace(from, to);
    }
    let profile = folder.join(checked_in);
    std::fs::write(&profile, text).expect("profile");
    profile
}
