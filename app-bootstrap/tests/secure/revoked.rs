//! A right that is taken while a backlog waits.
//!
//! Invariant: the relay stops claiming, no event is given up or loses its place, and every one is
//! recorded once the right is given back.

use crate::broker::{Broker, Door, USERS, password};
use crate::support::{KafkaScene, create_topic, eventually};
use crate::{log, rights};
use app_bootstrap::compose::{Compiled, Provider, RelaySystem, Store, contracts};
use app_bootstrap::config::{
    self, ActiveProfile, ExpectedState, KafkaSecurity, ProviderProfile, SecretReference,
};
use app_bootstrap::runtime::ReadinessReason;
use application_core::usecase::IntegrationEventAppender;
use domain_core::identity::EventId;
use domain_core::publication::FailureClass;
use outbound_messaging_kafka::{ProducerReadiness, read_back_topic};
use portfolio::execute::{EventIdSource, ExecuteCommand};
use portfolio::input::{CommandReader, InputLine};
use portfolio::store::{PortfolioDatabase as _, PostgresPortfolio};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use sqlx::Row as _;
use std::collections::BTreeSet;
use std::io::Cursor;
use std::sync::Arc;
use std::time::{Duration, Instant};

const USER: &str = "revoked-4af1";
const LIMIT: Duration = Duration::from_secs(90);

struct NoIds;

impl EventIdSource for NoIds {
    fn next_event_id(&self) -> EventId {
        panic!("every command brings its id")
    }
}

/// The scene's profile with the secure broker in place of the plain one. No listed tuple has this
/// channel yet, so it is put in behind the listing.
fn secured(scene: &KafkaScene) -> ActiveProfile {
    let broker = Broker::shared();
    let profile = config::load(&scene.profile).expect("profile");
    let ExpectedState::Active(mut active) = profile.state else {
        panic!("the profile is active");
    };
    let ProviderProfile::Kafka(kafka) = &mut active.provider else {
        panic!("the profile is a Kafka one");
    };
    let secret = |name: &str, content: &str| {
        let file = scene.folder.path().join(name);
        std::fs::write(&file, content).expect("secret");
        SecretReference::parse(&format!("secret://file{}", file.display())).expect("a reference")
    };
    kafka.bootstrap_servers = vec![broker.address(Door::Trusted).to_owned()];
    kafka.security = KafkaSecurity::SaslSslScramSha512 {
        username: secret("username", USER),
        password: secret("password", password(USER)),
        ca: secret("ca.pem", broker.authority_pem()),
    };
    *active
}

async fn commit(scene: &KafkaScene, compiled: &Compiled, store: &Store, events: usize) {
    let Store::Kafka(kafka) = store else {
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
    for line in CommandReader::new(Cursor::new(lines(events))) {
        let InputLine::Command { command, .. } = line.expect("reads") else {
            panic!("no line is refused");
        };
        execute
            .execute(kafka.transactions.as_ref(), *command)
            .await
            .expect("commits");
    }
}

/// One command a line, each about a work log of its own.
fn lines(events: usize) -> String {
    let line = |number| {
        format!(
            "{{\"kind\":\"reserve-work-log\",\"eventId\":\"backlog-{number}\",\
             \"workLogId\":\"worklog-{number}\",\"title\":\"a title\",\"minutes\":90,\
             \"tags\":[\"t\"],\"occurredAt\":\"2026-07-28T05:10:30.123Z\",\
             \"correlationId\":\"c-{number}\"}}\n"
        )
    };
    (0..events).map(line).collect()
}

/// Deliveries by state.
async fn in_state(scene: &KafkaScene, state: &str) -> usize {
    let count: i64 = sqlx::query("SELECT count(*) FROM outbox_delivery WHERE state = $1")
        .bind(state)
        .fetch_one(&mut scene.connect().await)
        .await
        .expect("counts")
        .get(0);
    usize::try_from(count).expect("a count")
}

async fn recorded(scene: &KafkaScene, least: usize) -> usize {
    eventually("records", LIMIT, async || {
        let recorded = in_state(scene, "DELIVERY_RECORDED").await;
        (recorded >= least).then_some(recorded)
    })
    .await
}

async fn ids_on(topic: &str) -> BTreeSet<String> {
    let servers = vec![Broker::shared().plain.to_string()];
    let topic = topic.to_owned();
    let read = move || {
        let mut ids = BTreeSet::new();
        read_back_topic(&servers, &topic, LIMIT, |record| {
            ids.insert(record.id.expect("an id").to_owned());
        })
        .expect("the topic");
        ids
    };
    tokio::task::spawn_blocking(read).await.expect("reader")
}

/// Takes every right and waits until the broker knows it.
async fn revoke(topic: &str) {
    let broker = Broker::shared();
    rights::revoke(broker.plain, USER, topic, &rights::PRODUCER);
    let consumer: BaseConsumer = broker.client(USER).create().expect("client");
    let topic = topic.to_owned();
    let look = move || {
        let until = Instant::now() + LIMIT;
        while Instant::now() < until {
            let metadata = consumer
                .fetch_metadata(Some(&topic), Duration::from_secs(20))
                .expect("an answer");
            if metadata.topics()[0].error().is_some() {
                return true;
            }
        }
        false
    };
    assert!(tokio::task::spawn_blocking(look).await.expect("a look"));
}

/// Waits until claims that were on their way when the producer stopped have ended, and no other
/// follows over several turns of recovery and of every retry; tells how many are recorded then.
async fn quiet(scene: &KafkaScene) -> usize {
    const TURNS: u32 = 4;
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    let mut recorded = None;
    let mut turns = 0;
    let waiting = tokio::time::timeout(LIMIT, async {
        while turns < TURNS {
            tick.tick().await;
            for given_up in ["EXHAUSTED", "HOLD"] {
                assert_eq!(in_state(scene, given_up).await, 0, "{given_up}");
            }
            let claimed = in_state(scene, "CLAIMED").await;
            let now = in_state(scene, "DELIVERY_RECORDED").await;
            let as_before = claimed == 0 && recorded.replace(now) == Some(now);
            turns = if as_before { turns + 1 } else { 0 };
        }
    });
    waiting.await.expect("claiming stops");
    recorded.expect("a look")
}

/// `at_first` events are recorded before the right is taken; with none, the relay begins after it.
async fn stops_and_goes_on(scene: KafkaScene, events: usize, at_first: usize) {
    let broker = Broker::shared();
    create_topic(&broker.plain.to_string(), &scene.topic).await;
    broker.grant(USER, &scene.topic);
    let active = secured(&scene);
    let compiled = contracts::compile_with(&active, &portfolio::contracts::contributions())
        .expect("contracts");
    let prepared = Provider::prepare(&compiled).expect("secrets");
    let store = Store::open(&compiled).await.expect("store");
    commit(&scene, &compiled, &store, events).await;
    let provider = prepared.open().await.expect("provider");
    let Provider::Kafka { producer, .. } = &provider else {
        panic!("the profile is a Kafka one");
    };
    let mut producer_readiness = producer.readiness();
    if at_first == 0 {
        revoke(&scene.topic).await;
    }
    let mut system = RelaySystem::start(&compiled, store.relay_ports(), &provider, |publisher| {
        publisher
    });
    if at_first > 0 {
        recorded(&scene, at_first).await;
        revoke(&scene.topic).await;
    }
    let stopped = ProducerReadiness::Recovering(FailureClass::Unauthorized);
    let waited = tokio::time::timeout(LIMIT, producer_readiness.wait_for(|now| *now == stopped));
    waited.await.expect("it stops").expect("it lives");
    eventually("the relay says so", LIMIT, async || {
        let reasons = system.readiness().reasons();
        reasons
            .contains(&ReadinessReason::ProviderNotReady)
            .then_some(())
    })
    .await;
    let before = quiet(&scene).await;
    assert!(before < events, "nothing waited");

    rights::grant(broker.plain, USER, &scene.topic, &rights::PRODUCER);
    assert_eq!(recorded(&scene, events).await, events);
    assert_eq!(ids_on(&scene.topic).await.len(), events);
    println!("{before} of {events} were recorded before the right was missed");
    assert!(system.stop_claiming().await);
    provider.close().await;
    system.finish().await;
    store.close().await;
    for (_, password) in USERS {
        assert_eq!(log::count(password), 0, "a secret was logged");
    }
    scene.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_right_exhausts_nothing_record_by_record() {
    stops_and_goes_on(KafkaScene::create().await, 200, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_right_exhausts_nothing_through_windows() {
    stops_and_goes_on(KafkaScene::with_windows().await, 1_000, 0).await;
}
