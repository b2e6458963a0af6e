//! A password that is changed at the broker and in its file while the relay runs.
//!
//! Invariant: the broker refuses the old password from then on, so that a generation which becomes ready
//! was made of the new file; no event is given up, and no password is logged.

use crate::broker::{Broker, USERS};
use crate::log;
use crate::revoked::{commit, ids_on, in_state, recorded, secured};
use crate::support::{KafkaScene, create_topic};
use app_bootstrap::compose::{Provider, RelaySystem, Store, contracts};
use app_bootstrap::config::ProviderProfile;
use outbound_messaging_kafka::ProducerReadiness;
use std::time::Duration;

const USER: &str = "changing-4af1";
const CHANGED: &str = "rotated-password-4af1";
const LIMIT: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_password_in_its_file_makes_another_generation() {
    let broker = Broker::shared();
    let scene = KafkaScene::create().await;
    create_topic(&broker.plain.to_string(), &scene.topic).await;
    broker.grant(USER, &scene.topic);
    let mut active = secured(&scene, USER);
    let ProviderProfile::Kafka(kafka) = &mut active.provider else {
        panic!("the profile is a Kafka one");
    };
    kafka.rotation.secret_poll_interval = Some(Duration::from_millis(100));
    let compiled = contracts::compile_with(&active, &portfolio::contracts::contributions())
        .expect("contracts");
    let prepared = Provider::prepare(&compiled).expect("secrets");
    let store = Store::open(&compiled).await.expect("store");
    let provider = prepared.open().await.expect("provider");
    let Provider::Kafka { producer, .. } = &provider else {
        panic!("the profile is a Kafka one");
    };
    let mut readiness = producer.readiness();
    let before = readiness.borrow().clone();
    assert!(matches!(before, ProducerReadiness::Ready(_)), "{before:?}");
    let mut system = RelaySystem::start(&compiled, store.relay_ports(), &provider, |publisher| {
        publisher
    });
    commit(&scene, &compiled, &store, 0..20).await;
    assert_eq!(recorded(&scene, 20).await, 20);

    broker.set_password(USER, CHANGED).await;
    std::fs::write(scene.folder.path().join("password"), CHANGED).expect("secret");
    let replaced =
        readiness.wait_for(|now| matches!(now, ProducerReadiness::Ready(_)) && *now != before);
    let replaced = tokio::time::timeout(LIMIT, replaced).await;
    replaced.expect("another generation").expect("it lives");
    commit(&scene, &compiled, &store, 20..40).await;
    assert_eq!(recorded(&scene, 40).await, 40);
    assert_eq!(ids_on(&scene.topic).await.len(), 40);
    for given_up in ["EXHAUSTED", "HOLD"] {
        assert_eq!(in_state(&scene, given_up).await, 0, "{given_up}");
    }

    assert!(system.stop_claiming().await);
    provider.close().await;
    system.finish().await;
    store.close().await;
    for password in USERS
        .map(|(_, password)| password)
        .into_iter()
        .chain([CHANGED])
    {
        assert_eq!(log::count(password), 0, "a secret was logged");
    }
    scene.remove().await;
}
