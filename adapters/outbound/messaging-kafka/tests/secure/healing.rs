//! Rights, a password and a certificate that go away while many records wait, and come back.
//!
//! Invariant: the provider is stopped, no record is given up or loses an attempt, and publishing
//! goes on by itself.

use crate::authority::Validity;
use crate::broker::{Broker, Door, USERS, password};
use crate::channel::{LIMIT, producer, started, topic_for};
use crate::fixture::{Fixture, destination, eventually, settings};
use crate::load::{Load, brisk};
use crate::log;
use crate::proxy::Answers;
use crate::rights::{self, Operation, PRODUCER};
use crate::topic::Topic;
use application_core::ports::{Admission, AdmissionRefusal, PublicationAdmissionPort as _};
use domain_core::publication::FailureClass;
use outbound_messaging_kafka::ProducerReadiness;
use std::sync::Arc;
use std::time::Duration;

const RECORDS: usize = 1_000;
const AT_FIRST: usize = 100;

async fn begin(user: &str, door: Door, topic: &Topic) -> Load {
    let broker = Broker::shared();
    let mut settings = brisk(settings(broker.address(door)));
    settings.security = broker.security(user);
    let fixture = Arc::new(Fixture::build(settings, destination(&topic.name, 1)));
    started(&fixture).await;
    let load = Load::begin(fixture, RECORDS, AT_FIRST);
    load.first_ones().await;
    load
}

fn has_stopped(load: &Load, class: FailureClass) -> bool {
    let now = load.fixture.producer.readiness().borrow().clone();
    now == ProducerReadiness::Recovering(class) || now == ProducerReadiness::AwaitingPermits(class)
}

/// Waits until whoever comes anew is refused for this reason: the broker takes a moment to know
/// what was changed.
async fn refuses(user: &str, door: Door, topic: &Topic, class: FailureClass) {
    let asked = tokio::time::timeout(LIMIT, async {
        loop {
            let newcomer = producer(user, door, topic);
            let started = newcomer.producer.start().await;
            newcomer.producer.shut_down().await;
            if started.is_err_and(|error| error.class() == class) {
                return;
            }
        }
    });
    asked.await.expect("the change takes effect");
}

/// Cuts every connection while records are under way, until the producer meets what has changed.
async fn cut_off(load: &Load, door: Door, class: FailureClass) {
    let proxy = Broker::shared().proxy(door);
    proxy.set(Answers::Hold);
    load.release();
    eventually("records wait for their answers", || {
        (load.under_way() > 0 && proxy.held_bytes() > 0).then_some(())
    })
    .await;
    proxy.cut();
    proxy.set(Answers::Pass);
    let mut tick = tokio::time::interval(Duration::from_secs(3));
    let cutting = tokio::time::timeout(Duration::from_secs(30), async {
        while !has_stopped(load, class) {
            tick.tick().await;
            proxy.cut();
        }
    });
    if cutting.await.is_err() {
        panic!("{:?}", *load.fixture.producer.readiness().borrow());
    }
}

/// Over several turns of recovery it says that it is stopped for this reason, admits nothing, and
/// nothing more is acknowledged.
async fn stays_stopped(load: &Load, class: FailureClass) {
    let before = load.acknowledged();
    let mut tick = tokio::time::interval(Duration::from_millis(500));
    for _ in 0..6 {
        tick.tick().await;
        assert!(matches!(
            load.fixture.publisher.admit().await,
            Admission::Refused(AdmissionRefusal::ProviderNotReady)
        ));
        assert!(has_stopped(load, class));
    }
    assert_eq!(load.acknowledged(), before);
    assert!(before < RECORDS);
}

/// One that comes while the fault is there does not start, and begins by itself once it is mended.
async fn newcomer(user: &str, door: Door, topic: &Topic, class: FailureClass) -> Newcomer {
    let fixture = producer(user, door, topic);
    let error = fixture.producer.start().await.expect_err("refused");
    assert_eq!(error.class(), class);
    let stopped = ProducerReadiness::Recovering(class);
    assert_eq!(*fixture.producer.readiness().borrow(), stopped);
    Newcomer {
        supervised: fixture.supervised(),
        fixture,
    }
}

struct Newcomer {
    fixture: Fixture,
    supervised: tokio::task::JoinHandle<()>,
}

impl Newcomer {
    async fn goes_on(self) {
        self.fixture
            .readiness(|now| matches!(now, ProducerReadiness::Ready(_)))
            .await;
        self.fixture.permit().await;
        self.fixture.producer.shut_down().await;
        self.supervised.await.expect("without a panic");
    }
}

async fn end(load: Load, topic: &Topic, supervised: tokio::task::JoinHandle<()>) {
    let fixture = Arc::clone(&load.fixture);
    load.end(topic).await;
    fixture.producer.shut_down().await;
    supervised.await.expect("without a panic");
    for (_, password) in USERS {
        assert_eq!(log::count(password), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_taken_and_given_back() {
    const USER: &str = "revoked-4af1";
    let broker = Broker::shared();
    // With all rights on a topic gone, and with the right to write alone.
    for taken in [&PRODUCER[..], &[Operation::Write]] {
        let topic = topic_for(USER).await;
        let load = begin(USER, Door::Trusted, &topic).await;
        let supervised = load.fixture.supervised();
        rights::revoke(broker.plain, USER, &topic.name, taken);
        load.release();
        eventually("the right is missed", || {
            has_stopped(&load, FailureClass::Unauthorized).then_some(())
        })
        .await;
        stays_stopped(&load, FailureClass::Unauthorized).await;
        rights::grant(broker.plain, USER, &topic.name, taken);
        end(load, &topic, supervised).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_changed_and_changed_back() {
    const USER: &str = "changing-4af1";
    let broker = Broker::shared();
    let topic = topic_for(USER).await;
    let load = begin(USER, Door::Cut, &topic).await;
    let supervised = load.fixture.supervised();
    broker.set_password(USER, "another-password").await;
    refuses(USER, Door::Cut, &topic, FailureClass::AuthenticationFailed).await;
    cut_off(&load, Door::Cut, FailureClass::AuthenticationFailed).await;
    stays_stopped(&load, FailureClass::AuthenticationFailed).await;
    let newcomer = newcomer(USER, Door::Cut, &topic, FailureClass::AuthenticationFailed).await;
    broker.set_password(USER, password(USER)).await;
    newcomer.goes_on().await;
    end(load, &topic, supervised).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_is_over_and_is_renewed() {
    const USER: &str = "publisher-4af1";
    let broker = Broker::shared();
    let topic = topic_for(USER).await;
    let load = begin(USER, Door::Renewed, &topic).await;
    let supervised = load.fixture.supervised();
    broker.renew("over", Validity::Over).await;
    refuses(USER, Door::Renewed, &topic, FailureClass::TlsFailed).await;
    cut_off(&load, Door::Renewed, FailureClass::TlsFailed).await;
    stays_stopped(&load, FailureClass::TlsFailed).await;
    let newcomer = newcomer(USER, Door::Renewed, &topic, FailureClass::TlsFailed).await;
    broker.renew("renewed", Validity::Now).await;
    newcomer.goes_on().await;
    end(load, &topic, supervised).await;
}
