//! The order of start and stop, seen by what the composition reached and by what was sent meanwhile, on
//! PostgreSQL and Kafka.

use crate::rotation::{RECORDED, count, draft};
use crate::support::{KafkaScene, eventually};
use app_bootstrap::compose::{Milestone, Milestones, Store, contracts};
use app_bootstrap::config::{self, ActiveProfile, ExpectedState};
use app_bootstrap::runtime::{ProcessClock, ReadinessReason};
use app_bootstrap::serve::Serving;
use application_core::ports::{
    MonotonicClockPort as _, OutboxMessagePublishPort, PublicationRequest, TransactionError,
    TransactionPort as _,
};
use application_core::usecase::{AppendEventError, IntegrationEventAppender};
use domain_core::instant::MonotonicInstant;
use domain_core::publication::PublicationOutcome;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const CLAIMED: &str = "SELECT count(*) FROM outbox_delivery WHERE state = 'CLAIMED'";
const ATTEMPTS: &str = "SELECT count(*) FROM outbox_delivery_attempt_observation";

/// When each send began and ended.
#[derive(Default)]
struct Sends(Mutex<Vec<(MonotonicInstant, Option<MonotonicInstant>)>>);

struct Watched {
    inner: Arc<dyn OutboxMessagePublishPort>,
    sends: Arc<Sends>,
}

#[async_trait::async_trait]
impl OutboxMessagePublishPort for Watched {
    async fn publish(&self, request: &PublicationRequest) -> PublicationOutcome {
        let place = {
            let mut sends = self.sends.0.lock().expect("sends");
            sends.push((ProcessClock.now(), None));
            sends.len() - 1
        };
        let outcome = self.inner.publish(request).await;
        self.sends.0.lock().expect("sends")[place].1 = Some(ProcessClock.now());
        outcome
    }
}

pub(crate) fn active(scene: &KafkaScene) -> ActiveProfile {
    match config::load(&scene.profile).expect("profile").state {
        ExpectedState::Active(active) => *active,
        ExpectedState::Disabled => panic!("the profile is active"),
    }
}

/// The first events of so many scopes.
pub(crate) async fn append(active: &ActiveProfile, scopes: usize, events: i64) {
    for scope in 0..scopes {
        append_from(active, scope, 1..=events).await;
    }
}

/// Events of one scope.
pub(crate) async fn append_from(
    active: &ActiveProfile,
    scope: usize,
    sequences: RangeInclusive<i64>,
) {
    let compiled =
        contracts::compile_with(active, &portfolio::contracts::contributions()).expect("contracts");
    let store = Store::open(&compiled).await.expect("store");
    let Store::Kafka(kafka) = &store else {
        panic!("the profile is a PostgreSQL one");
    };
    let appender = IntegrationEventAppender::new(compiled.codec.clone(), kafka.outbox.clone());
    let written: Result<(), TransactionError<AppendEventError>> = kafka
        .transactions
        .in_write(move |tx| {
            Box::pin(async move {
                for sequence in sequences {
                    appender.append(tx, &draft(scope, sequence)).await?;
                }
                Ok(())
            })
        })
        .await;
    written.expect("commits");
    store.close().await;
}

fn names(milestones: &Milestones) -> Vec<Milestone> {
    let reached = milestones.reached();
    reached
        .into_iter()
        .map(|(milestone, _)| milestone)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn start_and_stop_follow_the_requirement() {
    let scene = KafkaScene::create().await;
    let active = active(&scene);
    append(&active, 40, 25).await;
    let sends = Arc::new(Sends::default());
    let watched = Arc::clone(&sends);
    let serving = Serving::start(&active, |inner| {
        Arc::new(Watched {
            inner,
            sends: watched,
        })
    })
    .await
    .expect("starts");
    let milestones = serving.milestones();
    let up = [
        Milestone::Compiled,
        Milestone::StoreOpened,
        Milestone::ProducerReady,
        Milestone::RelayStarted,
    ];
    assert_eq!(names(&milestones), up);
    let readiness = serving.system().readiness().clone();
    eventually("some are recorded", LIMIT, async || {
        (count(&scene, RECORDED).await > 50).then_some(())
    })
    .await;
    assert!(!readiness.reasons().contains(&ReadinessReason::Stopping));
    serving.stop().await;
    let down = [
        Milestone::ReadinessRemoved,
        Milestone::ClaimingStopped,
        Milestone::AttemptsEnded,
        Milestone::ProducerClosed,
        Milestone::LoopsEnded,
        Milestone::StoreClosed,
    ];
    assert_eq!(names(&milestones), [&up[..], &down[..]].concat());
    assert!(readiness.reasons().contains(&ReadinessReason::Stopping));

    let at = |wanted: Milestone| {
        let reached = milestones.reached();
        let found = reached.iter().find(|(milestone, _)| *milestone == wanted);
        found.expect("reached").1
    };
    let sends = sends.0.lock().expect("sends").clone();
    assert!(sends.len() > 50);
    for (began, ended) in &sends {
        assert!(
            *began >= at(Milestone::RelayStarted),
            "sent before the relay"
        );
        let ended = ended.expect("no send is cut off");
        assert!(
            ended <= at(Milestone::AttemptsEnded),
            "sent after the drain"
        );
    }
    // It was stopped under load, and left no claim and no attempt without its outcome.
    let recorded = count(&scene, RECORDED).await;
    assert!(recorded < 1_000, "everything was done before the stop");
    assert_eq!(count(&scene, CLAIMED).await, 0);
    assert_eq!(usize::try_from(recorded).expect("few"), sends.len());
    assert_eq!(count(&scene, ATTEMPTS).await, 2 * recorded);
    scene.remove().await;
}

/// A broker that is away does not keep the process from starting, and nothing is claimed for it.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_claimed_before_the_producer_is_ready() {
    let scene = KafkaScene::create().await;
    let mut away = active(&scene);
    append(&away, 3, 1).await;
    let present = {
        let config::ProviderProfile::Kafka(kafka) = &mut away.provider else {
            panic!("the profile is a Kafka one");
        };
        // A port that nobody listens on.
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = nobody.local_addr().expect("address").to_string();
        std::mem::replace(&mut kafka.bootstrap_servers, vec![address])
    };
    assert!(!present.is_empty());
    let serving = Serving::start(&away, |publisher| publisher)
        .await
        .expect("starts");
    let milestones = serving.milestones();
    assert_eq!(
        names(&milestones),
        [
            Milestone::Compiled,
            Milestone::StoreOpened,
            Milestone::ProducerNotReady,
            Milestone::RelayStarted,
        ]
    );
    eventually("the workers were refused", LIMIT, async || {
        let reasons = serving.system().readiness().reasons();
        reasons
            .contains(&ReadinessReason::ProviderNotReady)
            .then_some(())
    })
    .await;
    eventually("a rotation looks for the broker", LIMIT, async || {
        let view = serving.system().rotations()?;
        view.last_failure.map(|_| ())
    })
    .await;
    assert_eq!(count(&scene, ATTEMPTS).await, 0);
    serving.stop().await;
    assert_eq!(names(&milestones).last(), Some(&Milestone::StoreClosed));
    scene.remove().await;
}
