//! A process that is killed in the middle of its transaction.
//!
//! The child is this very test, told by an environment variable to append and then wait inside its
//! transaction or after it; it is killed with SIGKILL once it says that it wrote.

use crate::harness::{SqliteHarness, policy};
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::event::{
    EventIdentities, SchemaIdentity, ValidatedIntegrationEvent, ValidatedParts,
};
use application_core::ports::{
    OutboxAppendPort as _, OutboxCounts, OutboxQueryPort as _, TransactionPort as _,
};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{
    AggregateIdentity, AggregateOrder, AggregateSequence, EventIndex, PayloadVersion, TenantScope,
};
use domain_core::instant::OccurredAt;
use outbound_persistence_sqlite::{SqliteStore, SqliteStoreOptions, SqliteWriteTransaction};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const STORE: &str = "COUNTERSIGN_SQLITE_CRASH_STORE";

fn event() -> ValidatedIntegrationEvent {
    ValidatedIntegrationEvent::seal(ValidatedParts {
        identities: EventIdentities {
            event_id: "e1".parse().expect("event id"),
            contract_id: "a.b".parse().expect("contract"),
            payload_version: PayloadVersion::new(1).expect("version"),
            destination: "d".parse().expect("destination"),
            tenant_scope: TenantScope::system(),
            aggregate: AggregateIdentity::new("a".parse().expect("type"), "1".parse().expect("id")),
            order: AggregateOrder::new(
                AggregateSequence::new(1).expect("sequence"),
                EventIndex::new(0).expect("index"),
            ),
            occurred_at: OccurredAt::from_epoch_millis(0).expect("instant"),
            correlation_id: "c".parse().expect("correlation"),
            causation_id: None,
        },
        schemas: SchemaIdentity {
            envelope_schema: Sha256Digest::of(b"1"),
            payload_schema: Sha256Digest::of(b"2"),
            schema_set: Sha256Digest::of(b"3"),
            catalog_revision: Sha256Digest::of(b"4"),
        },
        binding_revision: "r1".parse().expect("revision"),
        ordering_required: true,
        requeue_horizon: Duration::from_secs(60),
        trace: None,
        envelope: b"{}".to_vec(),
    })
}

async fn business_row_and_event(
    tx: &mut SqliteWriteTransaction,
    store: &SqliteStore,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO business VALUES ('with the event')")
        .execute(tx.as_mut())
        .await?;
    store
        .outbox(policy())
        .append(tx, &event())
        .await
        .expect("append");
    Ok(())
}

/// What a killed process was doing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    BeforeCommit,
    AfterCommit,
}

/// The child's part: write, say so, and wait for the kill.
async fn child(path: &str, when: When) {
    let store = SqliteStore::open(path, SqliteStoreOptions::default())
        .await
        .expect("open");
    let inside = store.clone();
    let result = store
        .transactions()
        .in_write(move |tx| {
            Box::pin(async move {
                business_row_and_event(tx, &inside).await?;
                if when == When::BeforeCommit {
                    say_and_wait().await;
                }
                Ok::<_, sqlx::Error>(())
            })
        })
        .await;
    result.expect("committed");
    say_and_wait().await;
}

async fn say_and_wait() {
    let mut out = std::io::stdout();
    writeln!(out, "written").expect("stdout");
    out.flush().expect("stdout");
    std::future::pending::<()>().await;
}

/// Starts the child, which is the same test under the environment variable, waits for its word and
/// kills it.
fn killed(path: &Path, test: &str) {
    let mut child = Command::new(std::env::current_exe().expect("test binary"))
        .args(["--exact", test, "--nocapture"])
        .env(STORE, path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("child");
    let said = BufReader::new(child.stdout.take().expect("stdout"))
        .lines()
        .map_while(Result::ok)
        .any(|line| line.contains("written"));
    assert!(said, "the child never wrote");
    child.kill().expect("SIGKILL");
    let status = child.wait().expect("child");
    assert!(!status.success());
}

/// What is there after the kill; `None` in the child.
async fn after_the_kill(test: &str, when: When) -> Option<(Vec<String>, OutboxCounts)> {
    if let Ok(path) = std::env::var(STORE) {
        child(&path, when).await;
        return None;
    }
    let harness = SqliteHarness::fresh().await;
    harness.store.close().await;
    killed(&harness.path(), test);
    let store = SqliteStore::open(harness.path(), SqliteStoreOptions::default())
        .await
        .expect("reopened");
    let rows = sqlx::query_scalar("SELECT key FROM business")
        .fetch_all(store.read_pool())
        .await
        .expect("rows");
    Some((rows, store.query().counts().await.expect("counts")))
}

#[tokio::test]
async fn a_kill_between_append_and_commit_leaves_neither_row() {
    let test = "crash::a_kill_between_append_and_commit_leaves_neither_row";
    let Some((rows, counts)) = after_the_kill(test, When::BeforeCommit).await else {
        return;
    };
    assert_eq!(rows, Vec::<String>::new());
    assert_eq!(counts, OutboxCounts::default());
}

#[tokio::test]
async fn a_kill_after_the_commit_keeps_both_rows() {
    let test = "crash::a_kill_after_the_commit_keeps_both_rows";
    let Some((rows, counts)) = after_the_kill(test, When::AfterCommit).await else {
        return;
    };
    assert_eq!(rows, ["with the event"]);
    assert_eq!((counts.events, counts.without_delivery), (1, 0));
    assert_eq!(counts.by_state.values().sum::<u64>(), 1);
}
