//! A serving process whose producer is replaced by SIGHUP while events are written, on PostgreSQL and
//! Kafka.
//!
//! Invariant checked: nothing is lost, nothing is held, and each scope is in order on the topic.

use crate::support::{KafkaScene, Running, countersign, eventually};
use app_bootstrap::compose::{Store, contracts};
use app_bootstrap::config::{self, ExpectedState};
use application_core::event::IntegrationEventDraft;
use application_core::ports::{TransactionError, TransactionPort as _};
use application_core::usecase::{AppendEventError, IntegrationEventAppender};
use domain_core::identity::{
    AggregateId, AggregateIdentity, AggregateOrder, AggregateSequence, AggregateType,
    CorrelationId, EventId, EventIndex,
};
use domain_core::instant::OccurredAt;
use portfolio::contracts::WorkLogReserved;
use sqlx::Row as _;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
const SCOPES: usize = 40;
const EVENTS: i64 = 25;
const ROTATIONS: i64 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn one_record_a_claim() {
    rotated_under_load(KafkaScene::create().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_a_claim() {
    rotated_under_load(KafkaScene::with_windows().await).await;
}

async fn rotated_under_load(scene: KafkaScene) {
    let ExpectedState::Active(active) = config::load(&scene.profile).expect("profile").state else {
        panic!("the profile is active");
    };
    let compiled = contracts::compile_with(&active, &portfolio::contracts::contributions())
        .expect("contracts");
    let store = Store::open(&compiled).await.expect("store");
    let Store::Kafka(kafka) = &store else {
        panic!("the profile is a PostgreSQL one");
    };
    let log_file = scene.folder.path().join("serve.log");
    let log = || std::fs::read_to_string(&log_file).unwrap_or_default();
    let child = countersign()
        .args(["serve", "--profile"])
        .arg(&scene.profile)
        .env("NO_COLOR", "1")
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log_file).expect("log"))
        .spawn()
        .expect("starts");
    let mut serving = Running(child);

    let appender = IntegrationEventAppender::new(compiled.codec.clone(), kafka.outbox.clone());
    let mut asked = 0;
    for sequence in 1..=EVENTS {
        for scope in 0..SCOPES {
            let appender = appender.clone();
            let draft = draft(scope, sequence);
            let written: Result<(), TransactionError<AppendEventError>> = kafka
                .transactions
                .in_write(move |tx| {
                    Box::pin(async move { appender.append(tx, &draft).await.map(|_| ()) })
                })
                .await;
            written.expect("commits");
        }
        // A rotation for every few events of each scope, with others under way.
        if sequence % 5 == 0 && asked < ROTATIONS {
            let recorded = sequence * i64::try_from(SCOPES).expect("few") / 4;
            eventually("some are recorded", LIMIT, async || {
                (count(&scene, RECORDED).await >= recorded).then_some(())
            })
            .await;
            asked += 1;
            let told = Command::new("kill")
                .args(["-HUP", &serving.0.id().to_string()])
                .status()
                .expect("kill");
            assert!(told.success());
            eventually("the rotation", LIMIT, async || {
                let done = log()
                    .matches("the producer generation was replaced")
                    .count();
                (done == usize::try_from(asked).expect("few")).then_some(())
            })
            .await;
        }
    }
    let all = i64::try_from(SCOPES).expect("few") * EVENTS;
    eventually("everything is recorded", LIMIT, async || {
        assert!(serving.0.try_wait().expect("child").is_none(), "{}", log());
        (count(&scene, RECORDED).await == all).then_some(())
    })
    .await;
    assert_eq!(count(&scene, HELD).await, 0);
    assert_eq!(count(&scene, GENERATIONS).await, ROTATIONS + 1, "{}", log());

    let mut seen: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for value in scene.records().await {
        let envelope: serde_json::Value = serde_json::from_slice(&value).expect("an envelope");
        let id = envelope["eventId"].as_str().expect("an id");
        let (scope, sequence) = id.rsplit_once('-').expect("an id of ours");
        seen.entry(scope.to_owned())
            .or_default()
            .push(sequence.parse().expect("a number"));
    }
    assert_eq!(seen.len(), SCOPES);
    for (scope, sequences) in seen {
        // Drained rotations: each event once, in order.
        assert_eq!(sequences, (1..=EVENTS).collect::<Vec<_>>(), "{scope}");
    }
    let told = Command::new("kill")
        .args(["-TERM", &serving.0.id().to_string()])
        .status()
        .expect("kill");
    assert!(told.success());
    eventually("an orderly end", LIMIT, async || {
        serving
            .0
            .try_wait()
            .expect("child")
            .map(|status| assert!(status.success(), "{}", log()))
    })
    .await;
    store.close().await;
    scene.remove().await;
}

pub(crate) const RECORDED: &str =
    "SELECT count(*) FROM outbox_delivery WHERE state = 'DELIVERY_RECORDED'";
const HELD: &str = "SELECT count(*) FROM outbox_delivery WHERE state IN ('HOLD', 'EXHAUSTED')";
const GENERATIONS: &str = "SELECT count(DISTINCT producer_generation) \
     FROM outbox_delivery_attempt_observation WHERE observation_type = 'ATTEMPT_ADMITTED'";

pub(crate) async fn count(scene: &KafkaScene, sql: &'static str) -> i64 {
    sqlx::query(sql)
        .fetch_one(&mut scene.connect().await)
        .await
        .expect("counts")
        .get(0)
}

pub(crate) fn draft(scope: usize, sequence: i64) -> IntegrationEventDraft {
    let name = format!("scope{scope}");
    IntegrationEventDraft {
        event_id: EventId::parse(format!("{name}-{sequence}")).expect("an id"),
        aggregate: AggregateIdentity::new(
            AggregateType::parse("worklog").expect("a type"),
            AggregateId::parse(name.as_str()).expect("an id"),
        ),
        order: AggregateOrder::new(
            AggregateSequence::new(sequence).expect("a sequence"),
            EventIndex::new(0).expect("an index"),
        ),
        occurred_at: OccurredAt::from_epoch_millis(1_785_215_430_123).expect("an instant"),
        correlation_id: CorrelationId::parse("rotation").expect("an id"),
        causation_id: None,
        tenant_id: None,
        trace: None,
        payload: Box::new(WorkLogReserved {
            work_log_id: name,
            title: "Written while the producer is replaced".to_owned(),
            minutes: 45,
            tags: vec!["rotation".to_owned()],
        }),
    }
}
