//! Reports planted where they enter the adapter: what they do to the attempt and the provider.
//!
//! Invariant: the one case that no broker can be brought to, an acknowledgement on another topic,
//! is planted here and nowhere else.

use super::*;
use crate::destination::TopicName;
use crate::pending::{AwaitedReport, tests::attempt};
use application_core::late_queue::LateObservationQueue;
use application_core::ports::{Admission, LatePublicationObservationSource as _};
use domain_core::identity::{DestinationBindingRevision, LogicalDestinationId};
use domain_core::instant::DatabaseInstant;
use domain_core::publication::AcceptanceCertainty;
use std::time::Duration;

struct WallClock(i64);

impl WallClockPort for WallClock {
    fn now(&self) -> DatabaseInstant {
        DatabaseInstant::from_epoch_micros(self.0)
    }
}

struct Planted {
    context: DeliveryContext,
    gate: Arc<AdmissionGate>,
    late: Arc<LateObservationQueue>,
}

impl Planted {
    fn new() -> Self {
        let generation = ProducerGeneration::parse("g-1").unwrap();
        let gate = Arc::new(AdmissionGate::new(
            generation.clone(),
            1,
            Arc::new(crate::room::ClientRoom::new(1)),
            1,
        ));
        let context = DeliveryContext::new(
            generation,
            ClusterAlias::parse("primary").unwrap(),
            Arc::new(WallClock(77)),
            Arc::clone(&gate),
        );
        context.update(|standing| standing.attested = true);
        Self {
            context,
            gate,
            late: Arc::new(LateObservationQueue::new(8)),
        }
    }

    fn pending(&self) -> (PendingRecord, AwaitedReport) {
        let note = AttemptNote {
            attempt: Some(attempt()),
            destination: LogicalDestinationId::parse("d").unwrap(),
            binding_revision: DestinationBindingRevision::parse("d-r1").unwrap(),
            topic: TopicName::parse("right").unwrap(),
            expected_partitions: 4,
            producer_generation: ProducerGeneration::parse("g-1").unwrap(),
        };
        PendingRecord::new(note, Arc::clone(&self.late))
    }

    async fn outcome(&self, report: DeliveryReport<'_>) -> PublicationOutcome {
        let (pending, awaited) = self.pending();
        self.context.conclude(report, pending);
        match awaited.within(Duration::ZERO, std::future::pending()).await {
            crate::pending::Waited::Reported(outcome) => outcome,
            other => panic!("not reported: {other:?}"),
        }
    }

    fn stopped(&self) -> Option<FailureClass> {
        self.context.standing().borrow().stopped
    }

    async fn admits(&self) -> bool {
        matches!(self.gate.admit(Duration::ZERO).await, Admission::Granted(_))
    }
}

fn acknowledged(topic: &str, offset: i64) -> DeliveryReport<'_> {
    DeliveryReport {
        topic,
        partition: 3,
        offset,
        status: MessageStatus::Persisted,
        error: None,
    }
}

fn failed(code: Code, status: MessageStatus) -> DeliveryReport<'static> {
    DeliveryReport {
        status,
        error: Some(code),
        ..acknowledged("right", -1001)
    }
}

#[tokio::test]
async fn an_acknowledgement_on_the_compiled_topic_names_its_place() {
    let planted = Planted::new();
    let outcome = planted.outcome(acknowledged("right", 17)).await;
    let PublicationOutcome::Acknowledged(receipt) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(
        receipt.record_reference.as_str(),
        "kafka:primary/right/3@17"
    );
    assert_eq!(receipt.acknowledged_at.epoch_micros(), 77);
    assert_eq!(receipt.producer_generation.as_str(), "g-1");
    assert!(planted.context.has_acknowledged() && planted.admits().await);
}

#[tokio::test]
async fn an_offset_is_advisory() {
    let planted = Planted::new();
    for unstated in [-1, -1001] {
        let outcome = planted.outcome(acknowledged("right", unstated)).await;
        let receipt = outcome.receipt().expect("acknowledged");
        assert_eq!(
            receipt.record_reference.as_str(),
            format!("kafka:primary/right/3@unstated({unstated})")
        );
    }
}

/// Partitions were added: the record is acknowledged, but keys have moved, so no further one is
/// sent until the topology is attested again.
#[tokio::test]
async fn a_partition_beyond_the_attested_ones_stops_the_provider() {
    let planted = Planted::new();
    let report = DeliveryReport {
        partition: 4,
        ..acknowledged("right", 1)
    };
    let outcome = planted.outcome(report).await;
    assert!(matches!(outcome, PublicationOutcome::Acknowledged(_)));
    assert_eq!(planted.stopped(), Some(FailureClass::TopicPolicyMismatch));
    assert!(!planted.admits().await);
}

#[tokio::test]
async fn another_topic_is_a_misroute_that_shuts_the_generation() {
    let planted = Planted::new();
    let outcome = planted.outcome(acknowledged("wrong", 1)).await;
    let PublicationOutcome::AcknowledgedMismatch(receipt) = &outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(receipt.record_reference.as_str(), "kafka:primary/wrong/3@1");
    assert_eq!(outcome.disposition(), RetryDisposition::OperatorHold);
    assert_eq!(planted.stopped(), Some(FailureClass::DestinationMismatch));
    assert!(!planted.admits().await);
}

#[tokio::test]
async fn a_misroute_that_nobody_waits_for_shuts_it_too_and_is_observed() {
    let planted = Planted::new();
    planted.context.stop(FailureClass::Unauthorized);
    let (pending, awaited) = planted.pending();
    drop(awaited);
    let long = "w".repeat(200);
    planted.context.conclude(acknowledged(&long, 5), pending);
    assert_eq!(planted.stopped(), Some(FailureClass::DestinationMismatch));
    let observed = planted.late.poll_bounded(9);
    assert_eq!(observed.len(), 1);
    assert_eq!(
        observed[0].record_reference.as_str(),
        format!("kafka:primary/{}~/3@5", "w".repeat(120))
    );
    assert_eq!(observed[0].certainty, AcceptanceCertainty::AcceptedMismatch);
    planted.context.stop(FailureClass::ProviderFatal);
    assert_eq!(planted.stopped(), Some(FailureClass::DestinationMismatch));
}

#[tokio::test]
async fn no_error_without_the_persisted_status_is_no_acknowledgement() {
    let planted = Planted::new();
    for status in [
        MessageStatus::NotPersisted,
        MessageStatus::PossiblyPersisted,
    ] {
        let report = DeliveryReport {
            status,
            ..acknowledged("right", 1)
        };
        let outcome = planted.outcome(report).await;
        assert!(
            matches!(outcome, PublicationOutcome::Indeterminate(_)),
            "{outcome:?}"
        );
    }
    assert!(!planted.context.has_acknowledged());
}

#[tokio::test]
async fn a_refusal_of_the_provider_shuts_the_generation_and_the_first_reason_stays() {
    let planted = Planted::new();
    let refused = failed(Code::TopicAuthorizationFailed, MessageStatus::NotPersisted);
    let outcome = planted.outcome(refused).await;
    assert_eq!(outcome.disposition(), RetryDisposition::StopProvider);
    let fenced = failed(
        Code::OutOfOrderSequenceNumber,
        MessageStatus::PossiblyPersisted,
    );
    planted.outcome(fenced).await;
    assert_eq!(planted.stopped(), Some(FailureClass::Unauthorized));
    assert!(!planted.admits().await);
}

#[tokio::test]
async fn a_refusal_of_the_record_leaves_the_generation_alone() {
    let planted = Planted::new();
    let too_large = failed(Code::MessageSizeTooLarge, MessageStatus::NotPersisted);
    let outcome = planted.outcome(too_large).await;
    assert_eq!(outcome.disposition(), RetryDisposition::NoRetry);
    assert_eq!(planted.stopped(), None);
    assert!(planted.admits().await);
}

#[tokio::test]
async fn absent_brokers_shut_the_gate_until_one_acknowledges() {
    let planted = Planted::new();
    for _ in 0..2 {
        planted
            .context
            .error(KafkaError::Global(Code::AllBrokersDown), "");
    }
    assert!(!planted.admits().await);
    planted.outcome(acknowledged("right", 1)).await;
    assert!(planted.admits().await);
    planted.context.error(KafkaError::Global(Code::Fatal), "");
    assert_eq!(planted.stopped(), Some(FailureClass::ProviderFatal));
    planted.outcome(acknowledged("right", 2)).await;
    assert!(!planted.admits().await);
}

/// The client gives a handshake that was cut off the code of one that was refused.
#[test]
fn a_handshake_that_was_cut_off_is_no_refusal() {
    let planted = Planted::new();
    let report = |code, reason: &str| planted.context.error(KafkaError::Global(code), reason);
    report(
        Code::SSL,
        "sasl_ssl://h:1/1: SSL handshake failed: error:0A000126:SSL routines::unexpected eof while \
         reading (after 2ms in state SSL_HANDSHAKE)",
    );
    report(
        Code::Authentication,
        "sasl_ssl://h:1/1: SASL SCRAM-SHA-512 mechanism handshake failed: Local: Broker transport \
         failure: broker's supported mechanisms:  (after 1ms in state AUTH_HANDSHAKE)",
    );
    assert_eq!(planted.stopped(), None);
    report(
        Code::SSL,
        "sasl_ssl://h:1/1: SSL handshake failed: error:0A000086:SSL routines::certificate verify \
         failed: broker certificate could not be verified",
    );
    assert_eq!(planted.stopped(), Some(FailureClass::TlsFailed));
    let planted = Planted::new();
    planted.context.error(
        KafkaError::Global(Code::Authentication),
        "sasl_ssl://h:1/1: SASL authentication error: Authentication failed during authentication \
         due to invalid credentials with SASL mechanism SCRAM-SHA-512",
    );
    assert_eq!(planted.stopped(), Some(FailureClass::AuthenticationFailed));
}
