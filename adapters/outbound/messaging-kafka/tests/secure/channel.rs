//! Whose certificate is taken and whose is not.
//!
//! Invariant: a broker that cannot prove who it is gets no record and no password.

use crate::broker::{Broker, Door, now, password};
use crate::fixture::{Fixture, destination, event, settings};
use crate::log;
use crate::topic::Topic;
use application_core::ports::{Admission, AdmissionRefusal, PublicationAdmissionPort as _};
use domain_core::publication::{FailureClass, PublicationOutcome};
use outbound_messaging_kafka::{AttestationError, ProducerReadiness, StartError};
use std::time::{Duration, Instant};

pub(crate) const LIMIT: Duration = Duration::from_secs(30);
const PUBLISHER: &str = "publisher-4af1";

/// A producer of this user, through this listener, which opened nothing yet.
pub(crate) fn producer(user: &str, door: Door, topic: &Topic) -> Fixture {
    let broker = Broker::shared();
    let mut settings = settings(broker.address(door));
    settings.security = broker.security(user);
    Fixture::build(settings, destination(&topic.name, 1))
}

pub(crate) async fn topic_for(user: &str) -> Topic {
    let broker = Broker::shared();
    let topic = Topic::create_on(&broker.plain.to_string(), 1, &[]).await;
    broker.grant(user, &topic.name);
    topic
}

/// Starts it, however often it takes: a rule is known a moment after it was set.
pub(crate) async fn started(fixture: &Fixture) {
    let mut tick = tokio::time::interval(Duration::from_millis(50));
    let starting = tokio::time::timeout(LIMIT, async {
        while fixture.producer.start().await.is_err() {
            tick.tick().await;
        }
    });
    if starting.await.is_err() {
        panic!("{:?}", *fixture.producer.readiness().borrow());
    }
}

/// It does not start, for this reason, and nothing reaches the topic.
pub(crate) async fn refused(fixture: &Fixture, topic: &Topic, class: FailureClass) {
    let began = Instant::now();
    let error = fixture.producer.start().await.expect_err("must not start");
    assert_eq!(error.class(), class, "{error:?}");
    assert!(!error.is_transient());
    assert!(
        matches!(
            error,
            StartError::Attestation(AttestationError::Stopped { .. })
        ),
        "{error:?}"
    );
    // It is the refusal that ends the look, not its time.
    assert!(began.elapsed() < Duration::from_secs(10));
    let readiness = ProducerReadiness::Recovering(class);
    assert_eq!(*fixture.producer.readiness().borrow(), readiness);
    assert!(matches!(
        fixture.publisher.admit().await,
        Admission::Refused(AdmissionRefusal::ProviderNotReady)
    ));
    let outcome = fixture
        .publish(event("e-refused", "w", b"{}".to_vec()), LIMIT)
        .await;
    assert!(
        matches!(outcome, PublicationOutcome::Rejected(_)),
        "{outcome:?}"
    );
    assert!(topic.read_back(1, 0).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_under_the_pinned_authority_gets_the_record() {
    let topic = topic_for(PUBLISHER).await;
    let fixture = producer(PUBLISHER, Door::Trusted, &topic);
    started(&fixture).await;
    let outcome = fixture
        .publish(event("e-1", "w", b"{}".to_vec()), LIMIT)
        .await;
    assert!(outcome.receipt().is_some(), "{outcome:?}");
    assert_eq!(topic.read_back(1, 1).await.len(), 1);
    let expiry = fixture.producer.earliest_expiry();
    assert!(expiry > Some(now()), "{expiry:?}");
    fixture.producer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_cannot_prove_itself_gets_nothing() {
    let topic = topic_for(PUBLISHER).await;
    for door in [
        Door::Untrusted,
        Door::WrongHost,
        Door::Expired,
        Door::NotYet,
    ] {
        let fixture = producer(PUBLISHER, door, &topic);
        refused(&fixture, &topic, FailureClass::TlsFailed).await;
        fixture.producer.shut_down().await;
    }
    assert_eq!(log::count(password(PUBLISHER)), 0);
}
