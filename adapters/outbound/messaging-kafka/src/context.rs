//! Where the client's reports enter the adapter.
//!
//! Invariant: runs on the client's threads, so it moves memory and nothing else: no store, no
//! wait, no panic. What a report says about the provider takes effect even when nobody waits for
//! the record any more (requirement 004 §§15.2, 16.4, 16.7).

use crate::PROVIDER_ID;
use crate::admission::AdmissionGate;
use crate::classify::{MessageStatus, Phase, classify, provider_fault};
use crate::ffi::message_status;
use crate::pending::{AttemptNote, PendingRecord};
use crate::settings::ClusterAlias;
use application_core::ports::WallClockPort;
use domain_core::identity::ProducerGeneration;
use domain_core::publication::{
    FailureClass, FailureStage, ProviderRecordReference, PublicationFailure, PublicationOutcome,
    PublicationReceipt, RetryDisposition,
};
use rdkafka::Message as _;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;
use rdkafka::types::RDKafkaErrorCode as Code;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::{Notify, watch};

/// What is known about one generation's ability to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Standing {
    /// The brokers and topics were looked at and are as they should be.
    pub(crate) attested: bool,
    /// Why it must not send any more.
    pub(crate) stopped: Option<FailureClass>,
    /// No broker answers at present.
    pub(crate) broker_away: bool,
    /// It is on its way out.
    pub(crate) draining: bool,
}

impl Standing {
    fn admits(self) -> bool {
        self.attested && self.stopped.is_none() && !self.broker_away && !self.draining
    }
}

/// What the client said about one record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliveryReport<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) status: MessageStatus,
    pub(crate) error: Option<Code>,
}

/// The state that reports of one generation change.
pub(crate) struct DeliveryContext {
    generation: ProducerGeneration,
    cluster: ClusterAlias,
    wall_clock: Arc<dyn WallClockPort>,
    gate: Arc<AdmissionGate>,
    standing: watch::Sender<Standing>,
    unresolved: AtomicUsize,
    acknowledged: AtomicBool,
    room: Notify,
}

impl DeliveryContext {
    pub(crate) fn new(
        generation: ProducerGeneration,
        cluster: ClusterAlias,
        wall_clock: Arc<dyn WallClockPort>,
        gate: Arc<AdmissionGate>,
    ) -> Self {
        Self {
            generation,
            cluster,
            wall_clock,
            gate,
            standing: watch::Sender::default(),
            unresolved: AtomicUsize::new(0),
            acknowledged: AtomicBool::new(false),
            room: Notify::new(),
        }
    }

    /// The generation's standing, to be watched.
    pub(crate) fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Changes the standing, and the gate with it, in one step.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Standing)) {
        self.standing.send_if_modified(|standing| {
            let before = *standing;
            change(standing);
            if *standing != before {
                self.gate.set_open(standing.admits());
            }
            *standing != before
        });
    }

    /// Ends the generation. The first reason stays, but a misroute outweighs every other.
    pub(crate) fn stop(&self, class: FailureClass) {
        self.update(|standing| {
            if standing.stopped.is_none() || class == FailureClass::DestinationMismatch {
                standing.stopped = Some(class);
            }
        });
    }

    /// A record is about to be handed to the client.
    pub(crate) fn enter(&self) {
        self.unresolved.fetch_add(1, Ordering::AcqRel);
    }

    /// The client is done with a record, or never took it.
    pub(crate) fn leave(&self) {
        self.unresolved.fetch_sub(1, Ordering::AcqRel);
        self.room.notify_waiters();
    }

    /// Records that the client has not reported on.
    pub(crate) fn unresolved(&self) -> usize {
        self.unresolved.load(Ordering::Acquire)
    }

    /// Whether this generation has had any record acknowledged.
    pub(crate) fn has_acknowledged(&self) -> bool {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Woken when the client may have room again.
    pub(crate) fn room(&self) -> &Notify {
        &self.room
    }

    /// Turns a report into the outcome, draws the consequences for the provider, and ends the
    /// attempt or leaves a late observation.
    pub(crate) fn conclude(&self, report: DeliveryReport<'_>, pending: PendingRecord) {
        let outcome = self.outcome(report, &pending.note);
        match &outcome {
            PublicationOutcome::Acknowledged(_) => {
                self.acknowledged.store(true, Ordering::Release);
                self.update(|standing| standing.broker_away = false);
                // Partitions were added since the topology was attested, so keys have moved.
                let beyond = u32::try_from(report.partition)
                    .is_ok_and(|partition| partition >= pending.note.expected_partitions);
                if beyond {
                    self.stop(FailureClass::TopicPolicyMismatch);
                }
            }
            PublicationOutcome::AcknowledgedMismatch(_) => {
                self.stop(FailureClass::DestinationMismatch);
            }
            PublicationOutcome::Rejected(failure) | PublicationOutcome::Indeterminate(failure) => {
                if failure.disposition == RetryDisposition::StopProvider {
                    self.stop(failure.class);
                }
            }
        }
        pending.report(outcome);
    }

    fn outcome(&self, report: DeliveryReport<'_>, note: &AttemptNote) -> PublicationOutcome {
        if let Some(code) = report.error {
            return classify(code, Phase::Delivery(report.status));
        }
        let Some(record_reference) = self.reference(report) else {
            return unexplained();
        };
        // Without an error the status of an acknowledged producer is "persisted"; anything else
        // is no acknowledgement.
        if report.status != MessageStatus::Persisted {
            return unexplained();
        }
        let receipt = PublicationReceipt {
            provider_id: PROVIDER_ID,
            destination: note.destination.clone(),
            producer_generation: self.generation.clone(),
            acknowledged_at: self.wall_clock.now(),
            record_reference,
        };
        if report.topic == note.topic.as_str() {
            PublicationOutcome::Acknowledged(receipt)
        } else {
            PublicationOutcome::AcknowledgedMismatch(receipt)
        }
    }

    /// `kafka:<cluster>/<topic>/<partition>@<offset>`. A negative offset means that the broker
    /// has the record but did not say where (a duplicate or an implied acknowledgement).
    fn reference(&self, report: DeliveryReport<'_>) -> Option<ProviderRecordReference> {
        const TOPIC_BYTES: usize = 120;
        let cluster = self.cluster.as_str();
        let (topic, cut) = match report.topic.get(..TOPIC_BYTES) {
            Some(head) if report.topic.len() > TOPIC_BYTES => (head, "~"),
            _ => (report.topic, ""),
        };
        let partition = report.partition;
        let offset = match report.offset {
            known @ 0.. => known.to_string(),
            unstated => format!("unstated({unstated})"),
        };
        ProviderRecordReference::parse(format!("kafka:{cluster}/{topic}{cut}/{partition}@{offset}"))
            .ok()
    }
}

fn unexplained() -> PublicationOutcome {
    PublicationOutcome::Indeterminate(PublicationFailure {
        stage: FailureStage::Provider,
        class: FailureClass::UnknownProviderFailure,
        disposition: RetryDisposition::RetryWithinBudget,
    })
}

/// What an error of the whole client is about.
///
/// The client gives the code of a refused handshake also to one that was cut off. Its reason tells
/// the two apart; a reason that is not known counts as a refusal, which the next generation cures.
fn cause(code: Code, reason: &str) -> Code {
    const CUT_OFF: [&str; 3] = [
        // In the middle of a TLS handshake.
        "unexpected eof",
        // While the SASL mechanism was agreed on.
        "Local: Broker transport failure",
        "Local: Timed out",
    ];
    match code {
        Code::SSL | Code::Authentication if CUT_OFF.iter().any(|text| reason.contains(text)) => {
            Code::BrokerTransportFailure
        }
        code => code,
    }
}

impl ClientContext for DeliveryContext {
    /// The line itself names addresses, so it is not kept.
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, _line: &str) {
        tracing::debug!(generation = %self.generation, facility, "kafka client");
    }

    /// Called twice for one error, so every consequence is idempotent.
    fn error(&self, error: KafkaError, reason: &str) {
        let Some(code) = error.rdkafka_error_code() else {
            return;
        };
        let code = cause(code, reason);
        tracing::debug!(generation = %self.generation, ?code, "kafka client error");
        match provider_fault(code) {
            // Of a client that gave itself up the code behind that is reported.
            Some(class) => self.stop(class),
            None if code == Code::AllBrokersDown => {
                self.update(|standing| standing.broker_away = true);
            }
            None => {}
        }
    }
}

impl ProducerContext for DeliveryContext {
    type DeliveryOpaque = Box<PendingRecord>;

    fn delivery(&self, result: &DeliveryResult<'_>, pending: Box<PendingRecord>) {
        let (message, error) = match result {
            Ok(message) => (message, None),
            Err((error, message)) => (
                message,
                Some(error.rdkafka_error_code().unwrap_or(Code::Unknown)),
            ),
        };
        let report = DeliveryReport {
            topic: message.topic(),
            partition: message.partition(),
            offset: message.offset(),
            status: message_status(message),
            error,
        };
        self.conclude(report, *pending);
        self.leave();
    }
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
