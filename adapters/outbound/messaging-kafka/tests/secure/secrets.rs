//! What a secret could slip into: errors, debug output, the properties that are shown, logs.
//!
//! Invariant: the search is for the secrets' very bytes, in all that this process logged so far,
//! and the log is shown to be one.

use crate::broker::{Broker, Door, USERS};
use crate::channel::{LIMIT, producer, started, topic_for};
use crate::fixture::{Fixture, destination, event, settings};
use crate::log;
use outbound_messaging_kafka::{KafkaDestinations, TopicAllowList};
use std::fmt::Write as _;

const PUBLISHER: &str = "publisher-4af1";
const WRONG: &str = "a-wrong-pa55word-c0de";

/// Everything that must not be seen.
fn secrets() -> Vec<String> {
    let pem = Broker::shared().authority_pem();
    let body = pem.lines().filter(|line| !line.starts_with("-----"));
    USERS
        .iter()
        .flat_map(|(name, password)| [*name, *password])
        .chain([WRONG])
        .chain(body)
        .map(str::to_owned)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_logged_or_shown() {
    let broker = Broker::shared();
    let topic = topic_for(PUBLISHER).await;
    let mut shown = String::new();
    let mut wrong = settings(broker.address(Door::Trusted));
    wrong.security = broker.security_with(PUBLISHER, WRONG);
    for fixture in [
        Fixture::build(wrong, destination(&topic.name, 1)),
        producer(PUBLISHER, Door::Untrusted, &topic),
        producer(PUBLISHER, Door::WrongHost, &topic),
    ] {
        let error = fixture.producer.start().await.expect_err("refused");
        // Writing into a String does not fail.
        let _ = write!(shown, "{error} {error:?} ");
        let _ = write!(shown, "{:?}", fixture.producer.readiness().borrow());
        fixture.producer.shut_down().await;
    }
    let fixture = producer(PUBLISHER, Door::Trusted, &topic);
    started(&fixture).await;
    let outcome = fixture
        .publish(event("e-1", "w", b"{}".to_vec()), LIMIT)
        .await;
    assert!(outcome.receipt().is_some());
    let _ = write!(shown, "{outcome:?}");
    fixture.producer.shut_down().await;

    let mut settings = settings(broker.address(Door::Trusted));
    settings.security = broker.security(PUBLISHER);
    let _ = write!(shown, "{settings:?} {:?}", settings.security);
    let allowed = TopicAllowList::parse(["test.*.v1"]).expect("valid");
    let bound = KafkaDestinations::build(vec![destination(&topic.name, 1)], &allowed);
    let compiled = settings.compile(bound.expect("valid")).expect("settings");
    let _ = write!(shown, "{compiled:?}");
    for (name, value) in compiled.properties() {
        let _ = write!(shown, "{name}={value} ");
    }
    assert!(shown.contains("SCRAM-SHA-512") && shown.contains("TlsFailed"));
    assert!(log::count("kafka client error") > 0, "nothing was logged");
    assert!(log::count("Authentication") > 0, "nothing was logged");
    for secret in secrets() {
        assert!(!shown.contains(&secret), "{shown}");
        assert_eq!(log::count(&secret), 0, "a secret was logged");
    }
    assert!(!shown.contains(broker.address(Door::Trusted)), "{shown}");
}
