//! The relay killed with SIGKILL at each point between Tx B and Tx C, on PostgreSQL and Kafka.
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

/// Kills at `point` once `reached`, starts again, and holds the end against the invariants.
async fn killed_at(
    failpoints: &str,
    reached: impl AsyncFn(&KafkaScene) -> bool,
    repeats: std::ops::RangeInclusive<usize>,
) {
    let scene = KafkaScene::create().await;
    let committed = commit_sample(&scene).await;
    let mut first = serve(&scene, Some(failpoints));
    eventually(failpoints, LIMIT, async || {
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
    assert_eq!(count(&scene, RECORDED).await, 0, "nothing was recorded yet");

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
    assert!(repeats.contains(&repeated), "{repeated} repeats");

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

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_claim_and_send() {
    killed_at(
        "relay::before_publish=pause",
        async |scene| count(scene, CLAIMED).await >= 1,
        0..=0,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_send_and_acknowledgement() {
    killed_at(
        "kafka::after_send=pause",
        async |scene| !records(scene).await.is_empty(),
        1..=4,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_acknowledgement_and_record() {
    killed_at(
        "relay::after_publish=pause",
        async |scene| log(scene).contains("reached relay::after_publish"),
        1..=4,
    )
    .await;
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
