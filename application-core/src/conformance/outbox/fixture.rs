//! Events, requests and small drivers that the cases share.
//!
//! Invariant: every value is fixed by its arguments, so two stores see the same case; only the
//! database clock differs.

use super::harness::OutboxHarness;
use crate::contract::ContractKey;
use crate::event::{
    EventIdentities, IntegrationEventDraft, SchemaIdentity, TraceContext,
    ValidatedIntegrationEvent, ValidatedParts,
};
use crate::ports::{
    AppendError, AppendReceipt, AttemptIdentity, ClaimOutcome, ClaimRequest, ClaimedDelivery,
    KnownRecord, OutboxAppendPort, OutcomeRecord, TransactionError, TransactionPort,
};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{
    AggregateId, AggregateIdentity, AggregateOrder, AggregateSequence, AggregateType, CausationId,
    ClaimToken, ContractId, CorrelationId, DestinationBindingRevision, EventId, EventIndex,
    LogicalDestinationId, PayloadVersion, ProducerGeneration, PublicationAttemptId, TenantId,
    TenantScope, WorkerId,
};
use domain_core::instant::{DatabaseInstant, OccurredAt};
use domain_core::publication::{
    FailureClass, FailureStage, ProviderRecordReference, PublicationFailure, PublicationOutcome,
    PublicationReceipt, RelayDecision, RetryDisposition,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// A lease that no case outlives.
pub(super) const LONG: Duration = Duration::from_secs(3600);
/// A lease or delay that a case waits for.
pub(super) const SHORT: Duration = Duration::from_millis(60);
/// What a condition gets before the case fails.
const PATIENCE: Duration = Duration::from_secs(20);

const CONTRACT: &str = "conformance.record.kept";
const DESTINATION: &str = "conformance-events";
const BINDING: &str = "conformance-events-r1";
const PRODUCER: &str = "producer-1";

/// An event under construction. The defaults are those of [`event`].
#[derive(Clone)]
pub(super) struct EventSpec(ValidatedParts);

/// An ordering-required event of aggregate `aggregate` at `(sequence, 0)`, without tenant, trace
/// or causation.
pub(super) fn event(id: &str, aggregate: &str, sequence: i64) -> EventSpec {
    EventSpec(ValidatedParts {
        identities: EventIdentities {
            event_id: event_id(id),
            contract_id: ContractId::parse(CONTRACT).expect("contract id"),
            payload_version: PayloadVersion::new(1).expect("version"),
            destination: LogicalDestinationId::parse(DESTINATION).expect("destination"),
            tenant_scope: TenantScope::system(),
            aggregate: AggregateIdentity::new(
                AggregateType::parse("sample").expect("aggregate type"),
                AggregateId::parse(aggregate).expect("aggregate id"),
            ),
            order: order(sequence, 0),
            occurred_at: OccurredAt::from_epoch_millis(1_785_215_430_123).expect("instant"),
            correlation_id: CorrelationId::parse("correlation-1").expect("correlation id"),
            causation_id: None,
        },
        schemas: SchemaIdentity {
            envelope_schema: Sha256Digest::of(b"envelope schema"),
            payload_schema: Sha256Digest::of(b"payload schema"),
            schema_set: Sha256Digest::of(b"schema set"),
            catalog_revision: Sha256Digest::of(b"catalog"),
        },
        binding_revision: binding(BINDING),
        ordering_required: true,
        requeue_horizon: LONG,
        trace: None,
        envelope: format!("{{\"eventId\":\"{id}\"}}").into_bytes(),
    })
}

impl EventSpec {
    pub(super) fn index(mut self, index: i64) -> Self {
        let sequence = self.0.identities.order.sequence().value();
        self.0.identities.order = order(sequence, index);
        self
    }

    pub(super) fn tenant(mut self, tenant: &str) -> Self {
        let tenant = TenantId::parse(tenant).expect("tenant");
        self.0.identities.tenant_scope = TenantScope::of(&tenant);
        self
    }

    pub(super) fn destination(mut self, destination: &str) -> Self {
        self.0.identities.destination =
            LogicalDestinationId::parse(destination).expect("destination");
        self
    }

    pub(super) fn occurred_at(mut self, occurred_at: OccurredAt) -> Self {
        self.0.identities.occurred_at = occurred_at;
        self
    }

    pub(super) fn contract(mut self, contract: &str, version: i64) -> Self {
        self.0.identities.contract_id = ContractId::parse(contract).expect("contract id");
        self.0.identities.payload_version = PayloadVersion::new(version).expect("version");
        self
    }

    pub(super) fn causation(mut self, causation: &str) -> Self {
        self.0.identities.causation_id = Some(CausationId::parse(causation).expect("causation"));
        self
    }

    pub(super) fn payload_schema(mut self, document: &[u8]) -> Self {
        self.0.schemas.payload_schema = Sha256Digest::of(document);
        self
    }

    pub(super) fn binding(mut self, revision: &str) -> Self {
        self.0.binding_revision = binding(revision);
        self
    }

    pub(super) fn reorder_tolerant(mut self) -> Self {
        self.0.ordering_required = false;
        self
    }

    pub(super) fn horizon(mut self, horizon: Duration) -> Self {
        self.0.requeue_horizon = horizon;
        self
    }

    pub(super) fn trace(mut self, parent: &str, state: Option<&str>) -> Self {
        self.0.trace = Some(TraceContext::parse(parent, state).expect("trace"));
        self
    }

    pub(super) fn envelope(mut self, envelope: Vec<u8>) -> Self {
        self.0.envelope = envelope;
        self
    }

    pub(super) fn seal(self) -> ValidatedIntegrationEvent {
        ValidatedIntegrationEvent::seal(self.0)
    }
}

pub(super) fn event_id(id: &str) -> EventId {
    EventId::parse(id).expect("event id")
}

pub(super) fn order(sequence: i64, index: i64) -> AggregateOrder {
    AggregateOrder::new(
        AggregateSequence::new(sequence).expect("sequence"),
        EventIndex::new(index).expect("index"),
    )
}

pub(super) fn binding(revision: &str) -> DestinationBindingRevision {
    DestinationBindingRevision::parse(revision).expect("binding revision")
}

pub(super) fn producer() -> ProducerGeneration {
    ProducerGeneration::parse(PRODUCER).expect("producer generation")
}

/// What a process that knows the events of [`event`] can send.
pub(super) fn known() -> KnownRecord {
    let sample = event("any", "any", 0).0;
    KnownRecord {
        contract: ContractKey {
            contract_id: sample.identities.contract_id,
            payload_version: sample.identities.payload_version,
        },
        payload_schema: sample.schemas.payload_schema,
        destination: sample.identities.destination,
        binding_revision: sample.binding_revision,
    }
}

/// A request with a long lease, a small attempt budget and five attempts. `number` makes owner,
/// token and attempt id.
pub(super) fn request(number: u32) -> ClaimRequest {
    let mut token = [0xA5; 16];
    token[..4].copy_from_slice(&number.to_be_bytes());
    ClaimRequest {
        owner: WorkerId::parse(format!("worker-{number}")).expect("worker id"),
        token: ClaimToken::from_random(token),
        attempt_id: PublicationAttemptId::parse(format!("attempt-{number}")).expect("attempt id"),
        producer_generation: producer(),
        lease: LONG,
        attempt_budget: Duration::from_millis(1),
        maximum_attempts: 5,
        known: Arc::from([known()]),
    }
}

/// The same request with another lease.
pub(super) fn leased(number: u32, lease: Duration) -> ClaimRequest {
    ClaimRequest {
        lease,
        ..request(number)
    }
}

/// Appends one event in a transaction of its own.
pub(super) async fn try_append<H: OutboxHarness>(
    h: &H,
    event: ValidatedIntegrationEvent,
) -> Result<AppendReceipt, TransactionError<AppendError>> {
    append_in(&*h.transactions(), h.outbox(), event).await
}

/// Appends one event in a transaction that this port begins.
pub(super) async fn append_in<T, A>(
    transactions: &T,
    outbox: Arc<A>,
    event: ValidatedIntegrationEvent,
) -> Result<AppendReceipt, TransactionError<AppendError>>
where
    T: TransactionPort,
    T::Tx: 'static,
    A: OutboxAppendPort<T::Tx> + 'static,
{
    transactions
        .in_write(move |tx| Box::pin(async move { outbox.append(tx, &event).await }))
        .await
}

/// Appends events that must be accepted, in order, each in a transaction of its own.
pub(super) async fn append<H: OutboxHarness>(
    h: &H,
    events: impl IntoIterator<Item = EventSpec>,
) -> Vec<ValidatedIntegrationEvent> {
    let mut sealed = Vec::new();
    for spec in events {
        let event = spec.seal();
        try_append(h, event.clone()).await.expect("append");
        sealed.push(event);
    }
    sealed
}

/// Tx B that must succeed, asked again until the scan is at its end.
pub(super) async fn claim<H: OutboxHarness>(h: &H, request: &ClaimRequest) -> ClaimOutcome {
    loop {
        match h.deliveries().claim_next(request).await.expect("claim") {
            ClaimOutcome::Unfinished => {}
            outcome => return outcome,
        }
    }
}

/// Tx B that must claim.
pub(super) async fn claimed<H: OutboxHarness>(h: &H, request: &ClaimRequest) -> ClaimedDelivery {
    match claim(h, request).await {
        ClaimOutcome::Claimed(claimed) => *claimed,
        other => panic!("nothing was claimed: {other:?}"),
    }
}

/// Tx B that must find nothing eligible.
pub(super) async fn nothing<H: OutboxHarness>(h: &H, request: &ClaimRequest) {
    match claim(h, request).await {
        ClaimOutcome::Nothing => {}
        other => panic!("something was eligible: {other:?}"),
    }
}

/// Claims with fresh requests numbered from `first` until one finds a row.
pub(super) async fn claimed_when_due<H: OutboxHarness>(
    h: &H,
    first: u32,
    lease: Duration,
) -> ClaimedDelivery {
    let mut number = first;
    until(h, "a claim", async || {
        number += 1;
        match claim(h, &leased(number, lease)).await {
            ClaimOutcome::Claimed(claimed) => Some(*claimed),
            ClaimOutcome::Nothing => None,
            other => panic!("unexpected: {other:?}"),
        }
    })
    .await
}

/// Waits until the database clock has passed an instant.
pub(super) async fn passed<H: OutboxHarness>(h: &H, instant: DatabaseInstant) {
    until(h, "the database clock", async || {
        (h.database_now().await > instant).then_some(())
    })
    .await;
}

/// Polls a condition until it holds, and fails the case after a deadline.
pub(super) async fn until<H: OutboxHarness, T>(
    h: &H,
    what: &str,
    mut condition: impl AsyncFnMut() -> Option<T>,
) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(began.elapsed() < PATIENCE, "waited too long for {what}");
        h.pause().await;
    }
}

/// Tx C's input for a claim.
pub(super) fn outcome_of(
    claimed: &ClaimedDelivery,
    outcome: PublicationOutcome,
    decision: RelayDecision,
) -> OutcomeRecord {
    OutcomeRecord {
        attempt: claimed.attempt.clone(),
        owner: claimed.owner.clone(),
        producer_generation: producer(),
        binding_revision: claimed.event.binding_revision.clone(),
        outcome,
        decision,
    }
}

/// The outcome of a claim whose record the broker acknowledged.
pub(super) fn acknowledged_record(claimed: &ClaimedDelivery) -> OutcomeRecord {
    let outcome = PublicationOutcome::Acknowledged(receipt(claimed));
    outcome_of(claimed, outcome, RelayDecision::Record)
}

/// The outcome of a claim whose record was rejected, with a retry asked for.
pub(super) fn retry_record(claimed: &ClaimedDelivery, delay: Duration) -> OutcomeRecord {
    let outcome = PublicationOutcome::Rejected(failure(RetryDisposition::RetryWithinBudget));
    outcome_of(claimed, outcome, RelayDecision::Retry { delay })
}

pub(super) fn receipt(claimed: &ClaimedDelivery) -> PublicationReceipt {
    PublicationReceipt {
        provider_id: "conformance.v1",
        destination: claimed.event.identities.destination.clone(),
        producer_generation: producer(),
        acknowledged_at: DatabaseInstant::from_epoch_micros(1_785_215_431_000_000),
        record_reference: reference("conformance/0@17"),
    }
}

pub(super) fn reference(text: &str) -> ProviderRecordReference {
    ProviderRecordReference::parse(text).expect("record reference")
}

pub(super) fn failure(disposition: RetryDisposition) -> PublicationFailure {
    PublicationFailure {
        stage: FailureStage::Send,
        class: FailureClass::BrokerUnavailable,
        disposition,
    }
}

/// Everything an event of [`event`] says, as a feature would draft it.
pub(super) fn draft(id: &str) -> IntegrationEventDraft {
    let identities = event(id, "a", 1).0.identities;
    IntegrationEventDraft {
        event_id: identities.event_id,
        aggregate: identities.aggregate,
        order: identities.order,
        occurred_at: identities.occurred_at,
        correlation_id: identities.correlation_id,
        causation_id: None,
        tenant_id: None,
        trace: None,
        payload: Box::new("no registered payload".to_owned()),
    }
}

/// The identity of an attempt that no row knows.
pub(super) fn stranger(event: &str) -> AttemptIdentity {
    AttemptIdentity {
        event_id: event_id(event),
        generation: domain_core::identity::DeliveryGeneration::FIRST,
        attempt_id: PublicationAttemptId::parse("attempt-of-nobody").expect("attempt id"),
        claim_token: ClaimToken::from_random([0xEE; 16]),
    }
}

/// Polls all futures until all are done. Their turns interleave at every wait.
pub(super) async fn all<T>(futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let mut running: Vec<_> = futures.into_iter().map(Some).collect();
    let mut done: Vec<Option<T>> = running.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (slot, result) in running.iter_mut().zip(&mut done) {
            if let Some(future) = slot
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                *result = Some(value);
                *slot = None;
            }
        }
        if running.iter().all(Option::is_none) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}
