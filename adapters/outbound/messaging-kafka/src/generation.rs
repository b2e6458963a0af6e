//! One producer runtime, from creation to close.
//!
//! Invariant: its settings never change and it never comes back: what ends it is answered by a
//! new generation. It admits nothing before it was attested, and nothing after a fault of the
//! provider (requirement 004 §§16.7, 16.10).

use crate::admission::AdmissionGate;
use crate::attestation::{AttestationError, Look};
use crate::classify::{Phase, class_of, classify};
use crate::context::{DeliveryContext, Standing};
use crate::destination::KafkaDestination;
use crate::pending::{AttemptNote, AwaitedReport, PendingRecord, Waited};
use crate::record::{KafkaRecord, RecordSource, compile};
use crate::room::{ClientRoom, Reservation};
use crate::settings::ProducerConfiguration;
use crate::supervisor::ProducerHost;
use application_core::late_queue::LateObservationQueue;
use application_core::ports::{
    Admission, AdmissionRefusal, Admissions, AttemptIdentity, BestEffortMessage,
    MonotonicClockPort, PublicationRequest,
};
use domain_core::identity::ProducerGeneration;
use domain_core::instant::MonotonicInstant;
use domain_core::publication::{
    FailureClass, FailureStage, PublicationFailure, PublicationOutcome, RetryDisposition,
};
use rdkafka::config::FromClientConfigAndContext as _;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode as Code;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

mod ending;

type Client = ThreadedProducer<DeliveryContext>;

/// How long a wait for buffer room lasts before it is tried again. The client frees room shortly
/// after it reported, so a wake-up alone may come too early.
const ROOM_TICK: Duration = Duration::from_millis(10);

/// Why a generation could not be created. The client's texts show the values it was given, so
/// none of them is kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The client refused a value.
    #[error("the client refused the value of {property}")]
    Property {
        /// The client's name of the property.
        property: String,
    },
    /// The client was created, but does not use what it was given.
    #[error("the client does not use the value it was given for {property}")]
    NotEffective {
        /// The client's name of the property.
        property: &'static str,
    },
    /// The client could not be created.
    #[error("the client could not be created")]
    Client,
}

impl From<KafkaError> for CreateError {
    fn from(error: KafkaError) -> Self {
        match error {
            KafkaError::ClientConfig(_, _, property, _) => Self::Property { property },
            _ => Self::Client,
        }
    }
}

/// What a drain left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainReport {
    /// Records that the client could not say anything about in time.
    pub unresolved: usize,
    /// Permits that were still out: attempts whose outcome is not recorded yet.
    pub permits_out: usize,
}

/// What the generation at work holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerUsage {
    /// Permits that are out.
    pub permits: usize,
    /// Records that the client holds.
    pub records: usize,
    /// Their bytes: keys, values, headers and framing.
    pub bytes: usize,
    /// The most bytes that the client ever held at once.
    pub most_bytes: usize,
}

/// One producer runtime.
pub(crate) struct KafkaProducerGeneration {
    id: ProducerGeneration,
    configuration: ProducerConfiguration,
    clock: Arc<dyn MonotonicClockPort>,
    gate: Arc<AdmissionGate>,
    room: Arc<ClientRoom>,
    context: Arc<DeliveryContext>,
    late: Arc<LateObservationQueue>,
    /// Taken at close.
    client: Mutex<Option<Arc<Client>>>,
    closed: Arc<watch::Sender<bool>>,
}

impl KafkaProducerGeneration {
    /// Starts the client and compares what it uses with what it was given. Nothing is admitted
    /// yet.
    ///
    /// # Errors
    /// [`CreateError`].
    pub(crate) fn create(
        configuration: &ProducerConfiguration,
        host: &ProducerHost,
        late: Arc<LateObservationQueue>,
    ) -> Result<Arc<Self>, CreateError> {
        let id = (host.generation_ids)();
        let settings = &configuration.settings;
        let room = Arc::new(ClientRoom::new(configuration.client_bytes()));
        let gate = Arc::new(AdmissionGate::new(
            id.clone(),
            settings.maximum_admitted_records,
            Arc::clone(&room),
            configuration.largest_record_bytes(),
        ));
        let context = DeliveryContext::new(
            id.clone(),
            settings.cluster.clone(),
            Arc::clone(&host.wall_clock),
            Arc::clone(&gate),
        );
        let client = Client::from_config_and_context(&configuration.client_config(), context)?;
        configuration
            .assert_effective(client.client())
            .map_err(|different| CreateError::NotEffective {
                property: different.name,
            })?;
        Ok(Arc::new(Self {
            id,
            configuration: configuration.clone(),
            clock: Arc::clone(&host.clock),
            gate,
            room,
            context: Arc::clone(client.client().context()),
            late,
            client: Mutex::new(Some(Arc::new(client))),
            closed: Arc::new(watch::Sender::new(false)),
        }))
    }

    /// Which runtime this is.
    pub(crate) fn id(&self) -> &ProducerGeneration {
        &self.id
    }

    /// Looks at brokers and topics and, when they are as they should be, admits records.
    ///
    /// # Errors
    /// [`AttestationError`]; the generation stays shut.
    pub(crate) async fn attest(self: &Arc<Self>) -> Result<(), AttestationError> {
        let runtime = tokio::runtime::Handle::current();
        self.look(move |look, this, client| {
            let destinations = this.configuration.destinations();
            look.topology(client.client(), destinations)?;
            look.rights(client.client(), destinations)?;
            look.policies(&this.configuration, &runtime)?;
            look.permitted()
        })
        .await?;
        self.context.update(|standing| standing.attested = true);
        Ok(())
    }

    /// Asks for any sign of life, and admits records again when there is one.
    ///
    /// # Errors
    /// [`AttestationError`].
    pub(crate) async fn probe(self: &Arc<Self>) -> Result<(), AttestationError> {
        self.look(|look, this, client| {
            look.probe(client.client(), this.configuration.destinations())
        })
        .await?;
        self.context.update(|standing| standing.broker_away = false);
        Ok(())
    }

    async fn look(
        self: &Arc<Self>,
        what: impl FnOnce(&Look, &Self, &Client) -> Result<(), AttestationError> + Send + 'static,
    ) -> Result<(), AttestationError> {
        let within = self.configuration.settings.attestation_timeout;
        let this = Arc::clone(self);
        let standing = self.standing();
        let looked = tokio::task::spawn_blocking(move || {
            let look = Look::new(within, standing);
            let client = this.client().ok_or_else(|| gone(within))?;
            what(&look, &this, &client)
        })
        .await;
        // The runtime is going down; nothing was learnt.
        let looked = looked.unwrap_or_else(|_| Err(gone(within)));
        looked.map_err(|error| match error {
            AttestationError::Stopped { class } => AttestationError::Stopped {
                class: self.class_behind(class),
            },
            error => error,
        })
    }

    /// What made the client give itself up, where all that it reported is that it did: a lost right
    /// to be a producer, say.
    pub(crate) fn class_behind(&self, class: FailureClass) -> FailureClass {
        let fatal = || self.client()?.client().fatal_error();
        match class {
            FailureClass::ProviderFatal => match fatal().map(|(code, _)| class_of(code)) {
                None | Some(FailureClass::UnknownProviderFailure) => class,
                Some(behind) => behind,
            },
            class => class,
        }
    }

    /// The fault that ended it, if one did.
    pub(crate) fn stopped_by(&self) -> Option<FailureClass> {
        let stopped = self.context.standing().borrow().stopped;
        stopped.map(|class| self.class_behind(class))
    }

    /// Waits for a permit.
    pub(crate) async fn admit(&self) -> Admission {
        self.gate
            .admit(self.configuration.settings.admission_timeout)
            .await
    }

    /// Waits for a permit and takes as many more as are free, `most` in all.
    pub(crate) async fn admit_up_to(&self, most: NonZeroU32) -> Admissions {
        self.gate
            .admit_up_to(most, self.configuration.settings.admission_timeout)
            .await
    }

    /// The generation's standing, to be watched.
    pub(crate) fn standing(&self) -> watch::Receiver<Standing> {
        self.context.standing()
    }

    /// What it holds now.
    pub(crate) fn usage(&self) -> ProducerUsage {
        ProducerUsage {
            permits: self.gate.outstanding(),
            records: self.context.unresolved(),
            bytes: self.room.held(),
            most_bytes: self.room.most_held(),
        }
    }

    /// Whether it ever had a record acknowledged.
    pub(crate) fn has_acknowledged(&self) -> bool {
        self.context.has_acknowledged()
    }

    /// Sends one record and waits for its report until the deadline. What merely did not get
    /// through while the provider was at fault is the provider's fault too, and costs the record
    /// no attempt (requirement 004 §17.4); what is known of its acceptance stays the same.
    pub(crate) async fn publish(&self, request: &PublicationRequest) -> PublicationOutcome {
        let attempt = Some(request.attempt.clone());
        let outcome = self
            .deliver(request.event.as_ref().into(), attempt, request.deadline)
            .await;
        let stopped = self.context.standing().borrow().stopped.is_some();
        let blame = |failure: PublicationFailure| match failure.disposition {
            RetryDisposition::RetryWithinBudget if stopped => PublicationFailure {
                disposition: RetryDisposition::StopProvider,
                ..failure
            },
            _ => failure,
        };
        match outcome {
            PublicationOutcome::Rejected(failure) => PublicationOutcome::Rejected(blame(failure)),
            PublicationOutcome::Indeterminate(failure) => {
                PublicationOutcome::Indeterminate(blame(failure))
            }
            acknowledged => acknowledged,
        }
    }

    /// Sends one message under a permit of its own. A late answer is nobody's.
    pub(crate) async fn publish_best_effort(
        &self,
        message: &BestEffortMessage,
    ) -> PublicationOutcome {
        let left = self.clock.now().until(message.deadline);
        let wait = left.min(self.configuration.settings.admission_timeout);
        let _permit = match self.gate.admit(wait).await {
            Admission::Granted(permit) => permit,
            Admission::Refused(AdmissionRefusal::Saturated) => {
                return classify(Code::QueueFull, Phase::Send);
            }
            Admission::Refused(_) => {
                let stopped = self.context.standing().borrow().stopped;
                return closed(stopped.unwrap_or(FailureClass::BrokerUnavailable));
            }
        };
        self.deliver(message.event.as_ref().into(), None, message.deadline)
            .await
    }

    async fn deliver(
        &self,
        event: RecordSource<'_>,
        attempt: Option<AttemptIdentity>,
        deadline: MonotonicInstant,
    ) -> PublicationOutcome {
        let destination = self
            .configuration
            .destinations()
            .resolve(&event.identities.destination, event.binding_revision);
        let Some(destination) = destination else {
            return not_sent(
                FailureStage::ContractCompile,
                FailureClass::DestinationMissing,
                RetryDisposition::StopProvider,
            );
        };
        let record = compile(event);
        if let Some(class) = refusal(&record, destination) {
            return not_sent(
                FailureStage::Serialization,
                class,
                RetryDisposition::NoRetry,
            );
        }
        let (pending, report) = PendingRecord::new(
            AttemptNote {
                attempt,
                destination: destination.destination.clone(),
                binding_revision: destination.binding_revision.clone(),
                topic: destination.topic.clone(),
                expected_partitions: destination.expected_partitions,
                producer_generation: self.id.clone(),
            },
            Arc::clone(&self.late),
        );
        if let Err(outcome) = self
            .send(record, destination, Box::new(pending), deadline)
            .await
        {
            return outcome;
        }
        fail::fail_point!("kafka::after_send");
        self.await_report(report, deadline).await
    }

    /// Hands the record over, waiting for room in the client a bounded time. The compiled record ends
    /// here: while its report is awaited, the client's copy is the only one.
    async fn send(
        &self,
        record: KafkaRecord,
        destination: &KafkaDestination,
        mut pending: Box<PendingRecord>,
        deadline: MonotonicInstant,
    ) -> Result<(), PublicationOutcome> {
        let began = self.clock.now();
        let patience = self.configuration.settings.max_block_timeout;
        let left = || {
            let now = self.clock.now();
            let until_deadline = now.until(deadline);
            (
                until_deadline.is_zero(),
                patience
                    .saturating_sub(began.until(now))
                    .min(until_deadline),
            )
        };
        pending.hold(self.reserve(&record, left().1).await?);
        loop {
            let (too_late, patience) = left();
            if too_late {
                return Err(not_sent(
                    FailureStage::Deadline,
                    FailureClass::DeadlineExceeded,
                    RetryDisposition::RetryWithinBudget,
                ));
            }
            // Before the try, so that room made in between is not missed.
            let room = self.context.room().notified();
            let client = self.usable_client()?;
            let (code, returned) = match self.hand_over(client, &record, destination, pending) {
                Ok(()) => return Ok(()),
                Err(refused) => refused,
            };
            if code != Code::QueueFull || patience.is_zero() {
                let outcome = classify(code, Phase::Send);
                if outcome.disposition() == RetryDisposition::StopProvider
                    && let Some(failure) = outcome.failure()
                {
                    self.context.stop(failure.class);
                }
                return Err(outcome);
            }
            pending = returned;
            // Woken or not, the next try decides.
            let _ = tokio::time::timeout(patience.min(ROOM_TICK), room).await;
        }
    }

    /// Waits for the record's bytes, at most `patience`; a generation that ends meanwhile ends the
    /// wait. Nothing was handed over when there is an outcome.
    async fn reserve(
        &self,
        record: &KafkaRecord,
        patience: Duration,
    ) -> Result<Reservation, PublicationOutcome> {
        let bytes = u32::try_from(record.wire_bytes()).unwrap_or(u32::MAX);
        let mut standing = self.context.standing();
        self.usable_client()?;
        let reserved = tokio::select! {
            biased;
            reserved = self.room.reserve(bytes) => reserved,
            _ = standing.wait_for(|standing| standing.ends()) => None,
            () = elapsed(patience) => return Err(classify(Code::QueueFull, Phase::Send)),
        };
        match reserved {
            Some(reserved) => Ok(reserved),
            None => Err(self
                .usable_client()
                .err()
                .unwrap_or_else(|| closed(FailureClass::ClientClosed))),
        }
    }

    fn hand_over(
        &self,
        client: Arc<Client>,
        record: &KafkaRecord,
        destination: &KafkaDestination,
        pending: Box<PendingRecord>,
    ) -> Result<(), (Code, Box<PendingRecord>)> {
        let headers = record.headers.iter().fold(
            OwnedHeaders::new_with_capacity(record.headers.len()),
            |headers, header| {
                headers.insert(Header {
                    key: header.name,
                    value: Some(&header.value),
                })
            },
        );
        self.context.enter();
        let sent = client.send(
            BaseRecord::with_opaque_to(destination.topic.as_str(), pending)
                .key(record.key.as_slice())
                .payload(record.value.as_slice())
                .timestamp(record.timestamp_millis)
                .headers(headers),
        );
        let refused = sent.err().map(|(error, record)| {
            self.context.leave();
            let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
            (code, record.delivery_opaque)
        });
        end_off_thread(client);
        refused.map_or(Ok(()), Err)
    }

    async fn await_report(
        &self,
        report: AwaitedReport,
        deadline: MonotonicInstant,
    ) -> PublicationOutcome {
        let left = self.clock.now().until(deadline);
        let mut standing = self.context.standing();
        let abandoned = async {
            // The sender lives as long as the generation.
            let _ = standing.wait_for(|standing| standing.abandoned).await;
        };
        match report.within(left, abandoned).await {
            Waited::Reported(outcome) => outcome,
            Waited::TimeUp => undecided(FailureStage::Deadline, FailureClass::DeadlineExceeded),
            Waited::GivenUp => undecided(FailureStage::Shutdown, FailureClass::ClientClosed),
        }
    }

    /// The client, unless the generation was stopped or closed; then nothing is handed over, and
    /// the broker certainly has no record of this attempt.
    fn usable_client(&self) -> Result<Arc<Client>, PublicationOutcome> {
        let standing = *self.context.standing().borrow();
        match standing.stopped {
            Some(class) => Err(closed(class)),
            None if standing.abandoned => Err(closed(FailureClass::ClientClosed)),
            None => self
                .client()
                .ok_or_else(|| closed(FailureClass::ClientClosed)),
        }
    }

    fn client(&self) -> Option<Arc<Client>> {
        self.client
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn take_client(&self) -> Option<Arc<Client>> {
        self.client
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

impl Drop for KafkaProducerGeneration {
    fn drop(&mut self) {
        if let Some(client) = self.take_client() {
            end_off_thread(client);
        }
    }
}

/// Gives a use of the client back. Should it be the last one, the client ends on a thread of its
/// own, since that blocks for up to a second.
fn end_off_thread(client: Arc<Client>) {
    if let Some(last) = Arc::into_inner(client) {
        std::thread::spawn(move || drop(last));
    }
}

fn gone(within: Duration) -> AttestationError {
    AttestationError::BrokerUnreachable {
        within,
        source: KafkaError::Canceled.into(),
    }
}

/// Nothing was handed over, and nothing will be before the provider is repaired or replaced.
fn closed(class: FailureClass) -> PublicationOutcome {
    not_sent(
        FailureStage::LocalAdmission,
        class,
        RetryDisposition::StopProvider,
    )
}

/// The client has the record, and nothing is known of its fate.
fn undecided(stage: FailureStage, class: FailureClass) -> PublicationOutcome {
    PublicationOutcome::Indeterminate(PublicationFailure {
        stage,
        class,
        disposition: RetryDisposition::RetryWithinBudget,
    })
}

async fn elapsed(limit: Duration) {
    // Only the time can end this.
    let _ = tokio::time::timeout(limit, std::future::pending::<()>()).await;
}

fn not_sent(
    stage: FailureStage,
    class: FailureClass,
    disposition: RetryDisposition,
) -> PublicationOutcome {
    PublicationOutcome::Rejected(PublicationFailure {
        stage,
        class,
        disposition,
    })
}

/// Why a record can never be sent as it is.
fn refusal(record: &KafkaRecord, destination: &KafkaDestination) -> Option<FailureClass> {
    // The client reads a timestamp of zero as "now", and a broker refuses negative ones.
    if record.timestamp_millis < 1 {
        return Some(FailureClass::InvalidPayload);
    }
    let bound = usize::try_from(destination.maximum_record_bytes).unwrap_or(usize::MAX);
    (record.wire_bytes() > bound).then_some(FailureClass::RecordTooLarge)
}

#[cfg(test)]
#[path = "generation_mock_tests.rs"]
mod mock_tests;
