//! The relay of either claim card killed with SIGKILL at each point between Tx B and Tx C, and after
//! Tx C, on PostgreSQL and Kafka.
//!
//! Invariant checked: nothing is lost, and a repeat carries the same event id and bytes.

use crate::support::{KafkaScene, Running, countersign, eventually};
use app_bootstrap::compose::{Store, contracts};
use app_bootstrap::config::{self, ExpectedState};
use application_core::usecase::IntegrationEventAppender;
use domain_core::identity::EventId;
use portfolio::execute::{EventIdSource, ExecuteCommand};
use portfolio::input::{CommandReader, InputLine};
use portfolio::store::{PortfolioDatabase as _, PostgresPortfolio};
use sqlx::Row as _;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::ops::RangeInclusive;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

struct NoIds;

impl EventIdSource for NoIds {
    fn next_event_id(&self) -> EventId {
        panic!("the sample's commands bring their ids")
    }
}

/// Commits the sample's events; nothing publishes them yet.
async fn commit_sample(scene: &KafkaScene) -> usize {
    let ExpectedState::Active(active) = config::load(&scene.profile).expect("profile").state else {
        panic!("the profile is active");
    };
    let compiled = contracts::compile_with(&active, &portfolio::contracts::contributions())
        .expect("contracts");
    let store = Store::open(&compiled).await.expect("store");
    let Store::Kafka(kafka) = &store else {
        panic!("the profile is a PostgreSQL one");
    };
    PostgresPortfolio
        .create_tables(&mut scene.connect().await)
        .await
        .expect("tables");
    let execute = ExecuteCommand::new(
        Arc::new(PostgresPortfolio),
        IntegrationEventAppender::new(compiled.codec.clone(), kafka.outbox.clone()),
        Arc::new(NoIds),
    );
    let mut committed = 0;
    for line in CommandReader::new(Cursor::new(portfolio::SAMPLE_INPUT)) {
        let InputLine::Command { command, .. } = line.expect("reads") else {
            panic!("the sample has no refused line");
        };
        execute
            .execute(kafka.transactions.as_ref(), *command)
            .await
            .expect("commits");
        committed += 1;
    }
    store.close().await;
    committed
}

fn serve(scene: &KafkaScene, failpoints: Option<&str>) -> Running {
    let mut command = countersign();
    if let Some(failpoints) = failpoints {
        command.env("FAILPOINTS", failpoints);
    }
    let log = std::fs::File::create(scene.folder.path().join("serve.log")).expect("log");
    let child = command
        .args(["serve", "--profile"])
        .arg(&scene.profile)
        .env("NO_COLOR", "1")
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("starts");
    Running(child)
}

fn log(scene: &KafkaScene) -> String {
    std::fs::read_to_string(scene.folder.path().join("serve.log")).unwrap_or_default()
}

async fn count(scene: &KafkaScene, sql: &'static str) -> i64 {
    sqlx::query(sql)
        .fetch_one(&mut scene.connect().await)
        .await
        .expect("counts")
        .get(0)
}

const CLAIMED: &str = "SELECT count(*) FROM outbox_delivery WHERE state = 'CLAIMED'";
const RECORDED: &str = "SELECT count(*) FROM outbox_delivery WHERE state = 'DELIVERY_RECORDED'";
const ABANDONED: &str = "SELECT count(*) FROM outbox_delivery_attempt_observation \
     WHERE observation_type = 'OUTCOME_OBSERVED' AND acceptance_certainty = 'INDETERMINATE' \
     AND failure_class = 'ATTEMPT_ABANDONED'";

/// Row versions of recorded deliveries by event id.
async fn recorded(scene: &KafkaScene) -> BTreeMap<String, i64> {
    sqlx::query(
        "SELECT event_id, row_version FROM outbox_delivery WHERE state = 'DELIVERY_RECORDED'",
    )
    .fetch_all(&mut scene.connect().await)
    .await
    .expect("deliveries")
    .iter()
    .map(|row| (row.get(0), row.get(1)))
    .collect()
}

/// Stored documents by event id.
async fn documents(scene: &KafkaScene) -> BTreeMap<String, Vec<u8>> {
    sqlx::query("SELECT event_id, envelope_bytes FROM outbox_event")
        .fetch_all(&mut scene.connect().await)
        .await
        .expect("events")
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect()
}

/// Records by event id; each must be the stored document, byte for byte.
async fn records(scene: &KafkaScene) -> BTreeMap<String, usize> {
    let documents = documents(scene).await;
    let mut seen = BTreeMap::new();
    for value in scene.records().await {
        let envelope: serde_json::Value = serde_json::from_slice(&value).expect("an envelope");
        let id = envelope["eventId"].as_str().expect("an id").to_owned();
        assert_eq!(documents.get(&id), Some(&value), "{id} has other bytes");
        *seen.entry(id).or_default() += 1;
    }
    seen
}

/// Where a kill happens, and what it may leave.
struct Point {
    failpoints: &'static str,
    /// Whether Tx C of some record may have been committed by then.
    recorded: bool,
    repeats: RangeInclusive<usize>,
}

/// After Tx B, before anything is sent.
const CLAIMED_ONLY: Point = Point {
    failpoints: "relay::before_publish=pause",
    recorded: false,
    repeats: 0..=0,
};
/// The client has the record, nobody waits for its acknowledgement any more.
const SENT: Point = Point {
    failpoints: "kafka::after_send=pause",
    recorded: false,
    repeats: 1..=SCOPES,
};
/// The broker acknowledged, and Tx C did not run.
const ACKNOWLEDGED: Point = Point {
    failpoints: "relay::after_publish=pause",
    recorded: false,
    repeats: 1..=SCOPES,
};
/// Tx C of one record was committed, and others are under way.
const ONE_RECORDED: Point = Point {
    failpoints: "relay::after_publish=sleep(1000)",
    recorded: true,
    repeats: 0..=SCOPES,
};

/// The scopes of the sample; each has one record under way at most.
const SCOPES: usize = 5;

/// Kills at `point` once `reached`, starts again, and holds the end against the invariants.
async fn killed_at(scene: KafkaScene, point: Point, reached: impl AsyncFn(&KafkaScene) -> bool) {
    let committed = commit_sample(&scene).await;
    let mut first = serve(&scene, Some(point.failpoints));
    eventually(point.failpoints, LIMIT, async || {
        assert!(
            first.0.try_wait().expect("child").is_none(),
            "{}",
            log(&scene)
        );
        reached(&scene).await.then_some(())
    })
    .await;
    first.0.kill().expect("SIGKILL");
    first.0.wait().expect("reaped");
    assert!(count(&scene, CLAIMED).await >= 1, "the kill left a claim");
    let before = recorded(&scene).await;
    assert_eq!(!before.is_empty(), point.recorded, "{before:?}");

    let mut second = serve(&scene, None);
    eventually("everything is recorded", LIMIT, async || {
        assert!(
            second.0.try_wait().expect("child").is_none(),
            "{}",
            log(&scene)
        );
        let recorded = count(&scene, RECORDED).await;
        (usize::try_from(recorded).expect("a count") == committed).then_some(())
    })
    .await;
    assert!(
        count(&scene, ABANDONED).await >= 1,
        "the attempt was closed"
    );
    let records = records(&scene).await;
    assert_eq!(
        records.len(),
        committed,
        "an event is missing at the broker"
    );
    let repeated: usize = records.values().map(|count| count - 1).sum();
    assert!(point.repeats.contains(&repeated), "{repeated} repeats");
    let after = recorded(&scene).await;
    for (id, version) in &before {
        assert_eq!(after.get(id), Some(version), "{id} was written again");
        assert_eq!(records.get(id), Some(&1), "{id} was sent again");
    }

    let pid = second.0.id().to_string();
    let stopped = std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status();
    assert!(stopped.expect("kill").success());
    let status = eventually("an orderly stop", LIMIT, async || {
        second.0.try_wait().expect("child")
    });
    assert!(status.await.success(), "{}", log(&scene));
    scene.remove().await;
}

async fn has_claim(scene: &KafkaScene) -> bool {
    count(scene, CLAIMED).await >= 1
}

async fn has_record(scene: &KafkaScene) -> bool {
    !records(scene).await.is_empty()
}

async fn has_acknowledgement(scene: &KafkaScene) -> bool {
    log(scene).contains("reached relay::after_publish")
}

async fn has_recorded(scene: &KafkaScene) -> bool {
    count(scene, RECORDED).await >= 1 && has_claim(scene).await
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_claim_and_send() {
    killed_at(KafkaScene::create().await, CLAIMED_ONLY, has_claim).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_send_and_acknowledgement() {
    killed_at(KafkaScene::create().await, SENT, has_record).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_acknowledgement_and_record() {
    killed_at(
        KafkaScene::create().await,
        ACKNOWLEDGED,
        has_acknowledgement,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_a_record() {
    killed_at(KafkaScene::create().await, ONE_RECORDED, has_recorded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_killed_between_claim_and_send() {
    killed_at(KafkaScene::with_windows().await, CLAIMED_ONLY, has_claim).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_killed_between_send_and_acknowledgement() {
    killed_at(KafkaScene::with_windows().await, SENT, has_record).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_killed_between_acknowledgement_and_record() {
    killed_at(
        KafkaScene::with_windows().await,
        ACKNOWLEDGED,
        has_acknowledgement,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_killed_after_a_record() {
    killed_at(KafkaScene::with_windows().await, ONE_RECORDED, has_recorded).await;
}

/// A defect in a worker ends the process; it never lives on without its relay.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_worker_ends_the_process_with_an_error() {
    let scene = KafkaScene::create().await;
    commit_sample(&scene).await;
    let mut child = serve(&scene, Some("relay::before_publish=1*panic(planted)"));
    let status = eventually("the process ends", LIMIT, async || {
        child.0.try_wait().expect("child")
    })
    .await;
    assert_eq!(status.code(), Some(1), "{}", log(&scene));
    assert!(
        log(&scene).contains("a part of the relay died"),
        "{}",
        log(&scene)
    );
    scene.remove().await;
}

/// Whoever read the log is gone: the relay goes on, and an orderly stop still works.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_nobody_reads_stops_nothing() {
    let scene = KafkaScene::create().await;
    let committed = commit_sample(&scene).await;
    let child = countersign()
        .args(["serve", "--profile"])
        .arg(&scene.profile)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut child = Running(child);
    drop(child.0.stderr.take());
    eventually("everything is recorded", LIMIT, async || {
        assert!(
            child.0.try_wait().expect("child").is_none(),
            "it ended early"
        );
        let recorded = count(&scene, RECORDED).await;
        (usize::try_from(recorded).expect("a count") == committed).then_some(())
    })
    .await;
    let pid = child.0.id().to_string();
    let stopped = std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status();
    assert!(stopped.expect("kill").success());
    let status = eventually("an orderly stop", LIMIT, async || {
        child.0.try_wait().expect("child")
    });
    assert!(status.await.success());
    scene.remove().await;
}
