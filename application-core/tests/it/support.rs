//! Values and scripted ports that the use-case tests share.

use application_core::event::{EventIdentities, SchemaIdentity, StoredOutboxEvent};
use application_core::event::{IntegrationEventDraft, ValidatedIntegrationEvent};
use application_core::ports::{
    Admission, AdmissionRefusal, Admissions, AttemptIdentity, ClaimError, ClaimOutcome,
    ClaimRequest, ClaimedDelivery, DecodeError, DecodedEnvelope, EncodeError, EntropyPort,
    EnvelopeCodec, FindAttemptError, KnownRecord, MonotonicClockPort, OutboxDeliveryPort,
    OutboxMessagePublishPort, OutcomeRecord, PermitGuard, PublicationAdmissionPort,
    PublicationPermit, PublicationRequest, RecordError, RecordOutcome, RecordedAttempt,
    RelayReport, RelayReporter, RenewOutcome, RenewRequest, ReportError, TimerPort, UnknownBacklog,
};
use domain_core::delivery::DispatchAuthority;
use domain_core::hashing::{PartitionKey, Sha256Digest, envelope_sha256};
use domain_core::identity::*;
use domain_core::instant::{DatabaseInstant, MonotonicInstant, OccurredAt};
use domain_core::publication::*;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.0.lock().expect("log").push(what.into());
    }

    pub(crate) fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("log"))
    }
}

pub(crate) fn identities() -> EventIdentities {
    EventIdentities {
        event_id: EventId::parse("event-1").expect("id"),
        contract_id: ContractId::parse("sample.thing.happened").expect("id"),
        payload_version: PayloadVersion::new(1).expect("version"),
        destination: LogicalDestinationId::parse("sample-events").expect("id"),
        tenant_scope: TenantScope::system(),
        aggregate: AggregateIdentity::new(
            AggregateType::parse("thing").expect("type"),
            AggregateId::parse("thing-1").expect("id"),
        ),
        order: AggregateOrder::new(
            AggregateSequence::new(1).expect("sequence"),
            EventIndex::new(0).expect("index"),
        ),
        occurred_at: OccurredAt::new(1, 0).expect("instant"),
        correlation_id: CorrelationId::parse("corr-1").expect("id"),
        causation_id: None,
    }
}

pub(crate) fn stored() -> StoredOutboxEvent {
    let identities = identities();
    let hash = Sha256Digest::of(b"schema");
    let envelope = b"{}".to_vec();
    StoredOutboxEvent {
        partition_key: PartitionKey::derive(
            &identities.tenant_scope,
            &identities.destination,
            &identities.aggregate,
        ),
        envelope_sha256: envelope_sha256(&envelope),
        identities,
        schemas: SchemaIdentity {
            envelope_schema: hash,
            payload_schema: hash,
            schema_set: hash,
            catalog_revision: hash,
        },
        binding_revision: DestinationBindingRevision::parse("sample-events-r1").expect("revision"),
        ordering_required: true,
        trace: None,
        envelope,
        publication_epoch: PublicationEpoch::FIRST,
        dispatch_authority: DispatchAuthority::PollingV2,
        transaction_resource: TransactionResourceId::parse("resource-1").expect("id"),
        created_at: DatabaseInstant::from_epoch_micros(1),
    }
}

pub(crate) fn claimed(request: &ClaimRequest, event: StoredOutboxEvent) -> ClaimedDelivery {
    ClaimedDelivery {
        attempt: AttemptIdentity {
            event_id: event.identities.event_id.clone(),
            generation: DeliveryGeneration::FIRST,
            attempt_id: request.attempt_id.clone(),
            claim_token: request.token,
        },
        owner: request.owner.clone(),
        event: Arc::new(event),
        claim_until: DatabaseInstant::from_epoch_micros(90_000_001),
        claim_count: 1,
        attempt_count: 1,
    }
}

pub(crate) fn receipt() -> PublicationReceipt {
    PublicationReceipt {
        provider_id: "scripted.v1",
        destination: identities().destination,
        producer_generation: generation(),
        acknowledged_at: DatabaseInstant::from_epoch_micros(2),
        record_reference: ProviderRecordReference::parse("scripted:1").expect("reference"),
    }
}

pub(crate) fn failure(disposition: RetryDisposition) -> PublicationFailure {
    PublicationFailure {
        stage: FailureStage::BrokerAck,
        class: FailureClass::BrokerUnavailable,
        disposition,
    }
}

pub(crate) fn generation() -> ProducerGeneration {
    ProducerGeneration::parse("gen-1").expect("generation")
}

/// Hands out permits and notes when they come back.
pub(crate) struct Permits {
    pub(crate) log: Log,
    pub(crate) refusal: Option<AdmissionRefusal>,
}

struct Guard(Log);

impl PermitGuard for Guard {}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.note("permit back");
    }
}

#[async_trait::async_trait]
impl PublicationAdmissionPort for Permits {
    async fn admit(&self) -> Admission {
        match self.refusal {
            Some(refusal) => Admission::Refused(refusal),
            None => {
                self.log.note("permit");
                let guard = Box::new(Guard(self.log.clone()));
                Admission::Granted(PublicationPermit::new(generation(), guard))
            }
        }
    }

    async fn admit_up_to(&self, _most: NonZeroU32) -> Admissions {
        match self.admit().await {
            Admission::Granted(permit) => Admissions::Granted(vec![permit]),
            Admission::Refused(refusal) => Admissions::Refused(refusal),
        }
    }
}

/// One scripted answer of the store.
pub(crate) enum Answer {
    Claim,
    ClaimOf(Box<StoredOutboxEvent>),
    Nothing,
    ClaimUnknown,
    ClaimUnavailable,
    Recorded,
    Stale,
    RecordUnknown,
    RecordUnavailable,
    FoundOpen,
    FoundClosed,
    FoundLost,
    FoundNothing,
    LookUpFails,
}

/// A store that answers from a script and keeps what it was asked to record.
pub(crate) struct Store {
    pub(crate) log: Log,
    pub(crate) script: Mutex<VecDeque<Answer>>,
    pub(crate) records: Mutex<Vec<OutcomeRecord>>,
    last_claim: Mutex<Option<ClaimRequest>>,
}

impl Store {
    pub(crate) fn new(log: Log, script: Vec<Answer>) -> Self {
        Self {
            log,
            script: Mutex::new(script.into()),
            records: Mutex::default(),
            last_claim: Mutex::default(),
        }
    }

    fn answer(&self) -> Answer {
        let next = self.script.lock().expect("script").pop_front();
        next.expect("the script has an answer left")
    }
}

#[async_trait::async_trait]
impl OutboxDeliveryPort for Store {
    async fn claim_next(&self, request: &ClaimRequest) -> Result<ClaimOutcome, ClaimError> {
        self.log.note("claim");
        *self.last_claim.lock().expect("claim") = Some(request.clone());
        match self.answer() {
            Answer::Claim => Ok(ClaimOutcome::Claimed(Box::new(claimed(request, stored())))),
            Answer::ClaimOf(event) => Ok(ClaimOutcome::Claimed(Box::new(claimed(request, *event)))),
            Answer::Nothing => Ok(ClaimOutcome::Nothing),
            Answer::ClaimUnknown => Err(ClaimError::OutcomeUnknown("cut".into())),
            Answer::ClaimUnavailable => Err(ClaimError::Unavailable("down".into())),
            _ => panic!("the script expected another call than claim"),
        }
    }

    async fn record_outcome(&self, record: &OutcomeRecord) -> Result<RecordOutcome, RecordError> {
        self.log.note("record");
        self.records.lock().expect("records").push(record.clone());
        match self.answer() {
            Answer::Recorded => Ok(RecordOutcome::Recorded(record.decision.state())),
            Answer::Stale => Ok(RecordOutcome::Stale),
            Answer::RecordUnknown => Err(RecordError::OutcomeUnknown("cut".into())),
            Answer::RecordUnavailable => Err(RecordError::Unavailable("down".into())),
            _ => panic!("the script expected another call than record"),
        }
    }

    async fn renew(&self, _request: &RenewRequest) -> Result<RenewOutcome, RecordError> {
        panic!("no turn renews a lease")
    }

    async fn find_attempt(
        &self,
        token: &ClaimToken,
        attempt_id: &PublicationAttemptId,
    ) -> Result<RecordedAttempt, FindAttemptError> {
        self.log.note("look up");
        let request = self.last_claim.lock().expect("claim").clone();
        let request = request.expect("a claim came before");
        assert_eq!((&request.token, &request.attempt_id), (token, attempt_id));
        match self.answer() {
            Answer::FoundOpen => Ok(RecordedAttempt::Open(Box::new(claimed(&request, stored())))),
            Answer::FoundClosed => Ok(RecordedAttempt::Closed(
                domain_core::delivery::DeliveryStateName::DeliveryRecorded,
            )),
            Answer::FoundLost => Ok(RecordedAttempt::Lost),
            Answer::FoundNothing => Ok(RecordedAttempt::Unknown),
            Answer::LookUpFails => Err(FindAttemptError::Unavailable("down".into())),
            _ => panic!("the script expected another call than look up"),
        }
    }

    async fn count_unknown(
        &self,
        _: &[KnownRecord],
    ) -> Result<UnknownBacklog, application_core::ports::BacklogError> {
        panic!("a turn never counts the backlog")
    }
}

/// A broker with one answer.
pub(crate) struct Broker {
    pub(crate) log: Log,
    pub(crate) outcome: PublicationOutcome,
}

#[async_trait::async_trait]
impl OutboxMessagePublishPort for Broker {
    async fn publish(&self, request: &PublicationRequest) -> PublicationOutcome {
        self.log
            .note(format!("publish {}", request.attempt.event_id));
        self.outcome.clone()
    }
}

/// A codec whose only document says what [`identities`] says.
pub(crate) struct Codec;

impl EnvelopeCodec for Codec {
    fn encode(
        &self,
        draft: &IntegrationEventDraft,
    ) -> Result<ValidatedIntegrationEvent, EncodeError> {
        Err(EncodeError::UnknownPayloadType {
            payload_type: draft.payload.payload_type().name(),
        })
    }

    fn read_identities(&self, _: &[u8]) -> Result<EventIdentities, DecodeError> {
        Ok(identities())
    }

    fn decode(&self, envelope: &[u8]) -> Result<DecodedEnvelope, DecodeError> {
        Ok(DecodedEnvelope {
            identities: identities(),
            payload: envelope.to_vec(),
        })
    }
}

/// Every reading is this much later than the one before, and every pause moves it on.
pub(crate) struct Clock {
    step: Duration,
    now: Mutex<Duration>,
}

impl Clock {
    pub(crate) fn stepping(step: Duration) -> Self {
        Self {
            step,
            now: Mutex::new(Duration::ZERO),
        }
    }
}

#[async_trait::async_trait]
impl TimerPort for Clock {
    async fn pause(&self, duration: Duration) {
        *self.now.lock().expect("clock") += duration;
    }
}

impl MonotonicClockPort for Clock {
    fn now(&self) -> MonotonicInstant {
        let mut now = self.now.lock().expect("clock");
        *now += self.step;
        MonotonicInstant::since_origin(*now)
    }
}

pub(crate) struct Entropy;

impl EntropyPort for Entropy {
    fn claim_token(&self) -> ClaimToken {
        ClaimToken::from_random([7; 16])
    }

    fn attempt_id(&self) -> PublicationAttemptId {
        PublicationAttemptId::parse("attempt-1").expect("id")
    }

    fn jitter(&self) -> u64 {
        0
    }
}

pub(crate) struct Reporter {
    pub(crate) log: Log,
    pub(crate) fails: bool,
}

impl RelayReporter for Reporter {
    fn report(&self, report: &RelayReport) -> Result<(), ReportError> {
        self.log.note(format!("report {}", report.state.as_str()));
        if self.fails { Err(ReportError) } else { Ok(()) }
    }
}
