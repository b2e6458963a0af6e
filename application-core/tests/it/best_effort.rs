//! Best effort: what is not sent, and that every outcome is told as it is.

use crate::support::{Clock, Codec, Log, failure, identities, receipt, stored};
use application_core::event::{
    EventIdentities, IntegrationEventDraft, ValidatedIntegrationEvent, ValidatedParts,
};
use application_core::ports::{
    BestEffortMessage, BestEffortObserver, BestEffortPublicationPort, BestEffortReport,
    DecodeError, DecodedEnvelope, EncodeError, EnvelopeCodec,
};
use application_core::usecase::{BestEffortError, PublishBestEffort};
use domain_core::identity::LogicalDestinationId;
use domain_core::instant::MonotonicInstant;
use domain_core::publication::{AcceptanceCertainty, PublicationOutcome, RetryDisposition};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Accepts whatever it is given.
struct Accepts;

impl EnvelopeCodec for Accepts {
    fn encode(&self, _: &IntegrationEventDraft) -> Result<ValidatedIntegrationEvent, EncodeError> {
        let event = stored();
        Ok(ValidatedIntegrationEvent::seal(ValidatedParts {
            identities: event.identities,
            schemas: event.schemas,
            binding_revision: event.binding_revision,
            ordering_required: false,
            requeue_horizon: Duration::from_secs(1),
            trace: None,
            envelope: event.envelope,
        }))
    }

    fn read_identities(&self, _: &[u8]) -> Result<EventIdentities, DecodeError> {
        panic!("nothing is read back")
    }

    fn decode(&self, _: &[u8]) -> Result<DecodedEnvelope, DecodeError> {
        panic!("nothing is read back")
    }
}

struct Broker {
    log: Log,
    outcome: PublicationOutcome,
    deadline: Mutex<Option<MonotonicInstant>>,
}

#[async_trait::async_trait]
impl BestEffortPublicationPort for Broker {
    async fn publish_best_effort(&self, message: &BestEffortMessage) -> PublicationOutcome {
        self.log.note("send");
        *self.deadline.lock().expect("lock") = Some(message.deadline);
        self.outcome.clone()
    }
}

struct Observer(Mutex<Vec<BestEffortReport>>);

impl BestEffortObserver for Observer {
    fn observe(&self, report: &BestEffortReport) {
        self.0.lock().expect("lock").push(report.clone());
    }
}

fn draft() -> IntegrationEventDraft {
    let identities = identities();
    IntegrationEventDraft {
        event_id: identities.event_id,
        aggregate: identities.aggregate,
        order: identities.order,
        occurred_at: identities.occurred_at,
        correlation_id: identities.correlation_id,
        causation_id: None,
        tenant_id: None,
        trace: None,
        payload: Box::new("a payload".to_owned()),
    }
}

struct Scene {
    broker: Arc<Broker>,
    observer: Arc<Observer>,
    publish: PublishBestEffort,
}

fn scene(codec: Arc<dyn EnvelopeCodec>, enabled: &[&str], outcome: PublicationOutcome) -> Scene {
    let broker = Arc::new(Broker {
        log: Log::default(),
        outcome,
        deadline: Mutex::default(),
    });
    let observer = Arc::new(Observer(Mutex::default()));
    let enabled = enabled
        .iter()
        .map(|one| LogicalDestinationId::parse(*one).expect("an id"))
        .collect();
    let publish = PublishBestEffort {
        codec,
        publisher: broker.clone(),
        enabled: Arc::new(enabled),
        observer: observer.clone(),
        clock: Arc::new(Clock::stepping(Duration::ZERO)),
        budget: Duration::from_secs(3),
    };
    Scene {
        broker,
        observer,
        publish,
    }
}

#[tokio::test]
async fn every_outcome_is_told_and_observed_as_it_is() {
    let failed = failure(RetryDisposition::RetryWithinBudget);
    for (outcome, certainty) in [
        (
            PublicationOutcome::Acknowledged(receipt()),
            AcceptanceCertainty::Accepted,
        ),
        (
            PublicationOutcome::AcknowledgedMismatch(receipt()),
            AcceptanceCertainty::AcceptedMismatch,
        ),
        (
            PublicationOutcome::Rejected(failed),
            AcceptanceCertainty::NotAccepted,
        ),
        (
            PublicationOutcome::Indeterminate(failed),
            AcceptanceCertainty::Indeterminate,
        ),
    ] {
        let scene = scene(Arc::new(Accepts), &["sample-events"], outcome.clone());
        let told = scene.publish.execute(&draft()).await.expect("attempted");
        assert_eq!(told, outcome);
        let observed = scene.observer.0.lock().expect("lock").clone();
        assert_eq!(observed.len(), 1);
        assert_eq!(observed[0].certainty, certainty);
        assert_eq!(observed[0].failure, outcome.failure());
        assert_eq!(observed[0].event_id, identities().event_id);
        // Once, whatever became of it, and within its budget.
        assert_eq!(scene.broker.log.taken(), ["send"]);
        let deadline = scene.publish.clock.now().plus(Duration::from_secs(3));
        assert_eq!(*scene.broker.deadline.lock().expect("lock"), Some(deadline));
    }
}

#[tokio::test]
async fn a_disabled_destination_fails_at_once() {
    for enabled in [&[][..], &["other-events"]] {
        let scene = scene(
            Arc::new(Accepts),
            enabled,
            PublicationOutcome::Acknowledged(receipt()),
        );
        let refused = scene.publish.execute(&draft()).await;
        let Err(error @ BestEffortError::Disabled(_)) = refused else {
            panic!("{refused:?}");
        };
        assert!(error.to_string().contains("sample-events"), "{error}");
        assert!(scene.broker.log.taken().is_empty());
        assert!(scene.observer.0.lock().expect("lock").is_empty());
    }
}

#[tokio::test]
async fn what_its_contract_refuses_is_not_sent() {
    let scene = scene(
        Arc::new(Codec),
        &["sample-events"],
        PublicationOutcome::Acknowledged(receipt()),
    );
    let refused = scene.publish.execute(&draft()).await;
    assert!(matches!(refused, Err(BestEffortError::Encode(_))));
    assert!(scene.broker.log.taken().is_empty());
}
