//! What a rotation leaves in PostgreSQL of attempts that nobody answered: one that its worker records,
//! and one whose claim lapsed meanwhile.
//!
//! Invariant checked: both end `INDETERMINATE` and their scopes' heads are held; nothing is sent by the
//! next generation before, and every other scope goes on with it.

use crate::order::{active, append};
use crate::rotation::{RECORDED, count};
use crate::support::{KafkaScene, eventually};
use app_bootstrap::config::ProviderProfile;
use app_bootstrap::serve::Serving;
use application_core::ports::{OutboxMessagePublishPort, PublicationRequest};
use application_core::rotation::{RotationStep, RotationView};
use domain_core::publication::{
    FailureClass, FailureStage, PublicationFailure, PublicationOutcome, RetryDisposition,
};
use sqlx::Row as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

const LIMIT: Duration = Duration::from_secs(90);
/// The scene's lease is 13 s.
const LAPSED: Duration = Duration::from_secs(14);

/// Which events are not answered, and when their wait is given up.
struct Unanswered {
    inner: Arc<dyn OutboxMessagePublishPort>,
    given_up: watch::Receiver<bool>,
    waiting: Arc<Mutex<Vec<String>>>,
}

#[async_trait::async_trait]
impl OutboxMessagePublishPort for Unanswered {
    async fn publish(&self, request: &PublicationRequest) -> PublicationOutcome {
        let id = request.attempt.event_id.as_str().to_owned();
        let lapses = match id.as_str() {
            "scope0-1" => false,
            "scope1-1" => true,
            _ => return self.inner.publish(request).await,
        };
        self.waiting.lock().expect("lock").push(id);
        let mut given_up = self.given_up.clone();
        if lapses {
            // Only the time can end this.
            let _ = tokio::time::timeout(LAPSED, std::future::pending::<()>()).await;
        }
        given_up.wait_for(|now| *now).await.expect("told");
        PublicationOutcome::Indeterminate(PublicationFailure {
            stage: FailureStage::Shutdown,
            class: FailureClass::ClientClosed,
            disposition: RetryDisposition::RetryWithinBudget,
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unanswered_heads_are_held_and_others_go_on() {
    let scene = KafkaScene::create().await;
    let mut active = active(&scene);
    let ProviderProfile::Kafka(kafka) = &mut active.provider else {
        panic!("the profile is a Kafka one");
    };
    kafka.rotation.drain_timeout = Duration::from_millis(300);
    append(&active, 3, 2).await;
    let (give_up, given_up) = watch::channel(false);
    let waiting = Arc::<Mutex<Vec<String>>>::default();
    let noted = Arc::clone(&waiting);
    let serving = Serving::start(&active, |inner| {
        Arc::new(Unanswered {
            inner,
            given_up,
            waiting: noted,
        })
    })
    .await
    .expect("starts");
    let view = || serving.system().rotations().expect("a Kafka tuple");
    eventually("two wait and the third scope is done", LIMIT, async || {
        let two = waiting.lock().expect("lock").len() == 2;
        (two && count(&scene, RECORDED).await == 2).then_some(())
    })
    .await;
    assert!(serving.system().rotate());
    let reached = |view: &RotationView, step| view.steps.contains(&step);
    eventually("the drain's end", LIMIT, async || {
        reached(&view(), RotationStep::Recording).then_some(())
    })
    .await;
    give_up.send_replace(true);
    eventually(
        "the first is held by its worker's own Tx C",
        LIMIT,
        async || (state(&scene, "scope0-1").await == "HOLD").then_some(()),
    )
    .await;
    // The other's permit is out: the barrier is shut.
    assert_eq!(view().renewed, 0);
    append_more(&scene, &active).await;
    assert_eq!(count(&scene, RECORDED).await, 2);
    eventually("the rotation", LIMIT, async || {
        (view().renewed == 1).then_some(())
    })
    .await;
    assert_eq!(state(&scene, "scope1-1").await, "HOLD");
    eventually("the other scope goes on", LIMIT, async || {
        (count(&scene, RECORDED).await == 4).then_some(())
    })
    .await;
    for id in ["scope0-1", "scope1-1"] {
        assert_eq!(outcomes(&scene, id).await, ["INDETERMINATE"], "{id}");
    }
    // Successors wait behind their heads, and only the lapsed one needed a disposition.
    for id in ["scope0-2", "scope1-2"] {
        assert_eq!(state(&scene, id).await, "READY", "{id}");
    }
    let audited: Vec<String> = sqlx::query("SELECT event_id FROM outbox_disposition_audit")
        .fetch_all(&mut scene.connect().await)
        .await
        .expect("audit")
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(audited, ["scope1-1"]);
    assert_eq!(waiting.lock().expect("lock").len(), 2, "sent once each");
    serving.stop().await;
    scene.remove().await;
}

/// Another two events of a scope that has nothing open, while nothing is admitted.
async fn append_more(scene: &KafkaScene, active: &app_bootstrap::config::ActiveProfile) {
    crate::order::append_from(active, 2, 3..=4).await;
    assert_eq!(state(scene, "scope2-3").await, "READY");
}

async fn state(scene: &KafkaScene, id: &str) -> String {
    sqlx::query("SELECT state FROM outbox_delivery WHERE event_id = $1")
        .bind(id)
        .fetch_one(&mut scene.connect().await)
        .await
        .expect("a delivery")
        .get(0)
}

async fn outcomes(scene: &KafkaScene, id: &str) -> Vec<String> {
    sqlx::query(
        "SELECT acceptance_certainty FROM outbox_delivery_attempt_observation \
         WHERE event_id = $1 AND observation_type = 'OUTCOME_OBSERVED'",
    )
    .bind(id)
    .fetch_all(&mut scene.connect().await)
    .await
    .expect("observations")
    .iter()
    .map(|row| row.get(0))
    .collect()
}
