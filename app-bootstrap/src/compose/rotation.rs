//! The rotation of one process's producer, composed.
//!
//! Invariant: no policy lives here. The application's use case decides, the producer's adapter acts,
//! and this joins them with the profile's bounds and secrets (requirement 004 §16.1).

use super::compiled::Compiled;
use super::provider::{Provider, RECOVERY_MAXIMUM_DELAY, RECOVERY_MINIMUM_DELAY};
use super::system::RelayPorts;
use crate::config::ProviderProfile;
use crate::runtime::{
    ProcessClock, ProcessTimer, RotationLoop, RotationRequest, SecretWatch, StopSignal,
};
use application_core::attempt_ledger::AttemptLedger;
use application_core::ports::OperatorAct;
use application_core::rotation::RotationBoard;
use application_core::usecase::{RotateProducer, RotationPorts, RotationSettings};
use domain_core::identity::{ActReference, OperatorId, ReasonCode, ReasonText};
use outbound_messaging_kafka::KafkaProducer;
use std::sync::Arc;
use std::time::Duration;

/// What recording given-up attempts may take before the old generation is closed; the barrier asks
/// for the rest.
const RECORD_LIMIT: Duration = Duration::from_secs(5);
/// One wait for the old client's end.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// A rotation that is ready to run.
pub(super) struct Replacing {
    pub(super) request: RotationRequest,
    pub(super) board: RotationBoard,
    looped: RotationLoop,
    producer: Arc<KafkaProducer>,
}

/// Joins the ports; `None` for a provider without generations.
pub(super) fn compose(
    compiled: &Compiled,
    ports: &RelayPorts,
    provider: &Provider,
    ledger: &Arc<AttemptLedger>,
) -> Option<Replacing> {
    let ProviderProfile::Kafka(kafka) = &compiled.profile.provider else {
        return None;
    };
    let (producer, not_started) = provider.rotating()?;
    let rotation = kafka.rotation;
    let rotate = Arc::new(RotateProducer::new(
        RotationPorts {
            lifecycle: producer.clone(),
            material: producer.clone(),
            deliveries: Arc::clone(&ports.deliveries),
            dispositions: Arc::clone(&ports.dispositions),
            query: Arc::clone(&ports.query),
            clock: Arc::new(ProcessClock),
            timer: Arc::new(ProcessTimer),
        },
        RotationSettings {
            drain_limit: rotation.drain_timeout,
            record_limit: RECORD_LIMIT,
            close_limit: CLOSE_LIMIT,
            previous_limit: rotation.previous_material_limit,
            minimum_delay: RECOVERY_MINIMUM_DELAY,
            maximum_delay: RECOVERY_MAXIMUM_DELAY,
            retry: compiled.profile.outbox.retry.clone(),
            act: act(),
        },
        Arc::clone(ledger),
    ));
    let request = RotationRequest::default();
    let secrets = rotation
        .secret_poll_interval
        .and_then(|interval| SecretWatch::start(kafka.secret_references(), interval));
    Some(Replacing {
        request: request.clone(),
        board: rotate.board(),
        looped: RotationLoop {
            rotate,
            request,
            secrets,
            not_started,
            retry_after: RECOVERY_MAXIMUM_DELAY,
        },
        producer: Arc::clone(producer),
    })
}

impl Replacing {
    /// Replaces generations until stopped.
    pub(super) async fn run(self, stop: StopSignal) {
        let producer = self.producer;
        let ended = || {
            let producer = Arc::clone(&producer);
            async move { producer.ended().await }
        };
        self.looped.run(ended, stop).await;
    }
}

/// What the audit says of a head that a rotation held.
fn act() -> OperatorAct {
    OperatorAct {
        operator: OperatorId::parse("producer-rotation").expect("within the grammar"),
        reason_code: ReasonCode::parse("PRODUCER_ROTATION").expect("within the grammar"),
        reason: ReasonText::parse(
            "its attempt was unresolved when its producer generation was replaced",
        )
        .expect("within the bounds"),
        reference: ActReference::parse("producer-rotation").expect("within the grammar"),
    }
}
