//! Events and requests of this crate's own tests.
//!
//! Invariant: every value is fixed by its arguments.

use crate::harness::policy;
use application_core::contract::ContractKey;
use application_core::event::{
    EventIdentities, SchemaIdentity, ValidatedIntegrationEvent, ValidatedParts,
};
use application_core::ports::{
    AppendError, AppendReceipt, ClaimOutcome, ClaimRequest, ClaimedDelivery, KnownRecord,
    OutboxAppendPort as _, OutboxDeliveryPort as _, OutcomeRecord, TransactionError,
    TransactionPort as _,
};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{
    AggregateId, AggregateIdentity, AggregateOrder, AggregateSequence, AggregateType, ClaimToken,
    ContractId, CorrelationId, DestinationBindingRevision, EventId, EventIndex,
    LogicalDestinationId, PayloadVersion, ProducerGeneration, PublicationAttemptId, TenantScope,
    WorkerId,
};
use domain_core::instant::{DatabaseInstant, OccurredAt};
use domain_core::publication::{
    ProviderRecordReference, PublicationOutcome, PublicationReceipt, RelayDecision,
};
use outbound_persistence_postgres::{PostgresStore, PostgresTransactions};
use std::sync::Arc;
use std::time::Duration;

/// What an event is made of; a test changes what it is about.
pub(crate) fn parts(id: &str, aggregate: &str, sequence: i64) -> ValidatedParts {
    ValidatedParts {
        identities: EventIdentities {
            event_id: event_id(id),
            contract_id: ContractId::parse("sample.record.kept").expect("contract"),
            payload_version: PayloadVersion::new(1).expect("version"),
            destination: LogicalDestinationId::parse("sample-events").expect("destination"),
            tenant_scope: TenantScope::system(),
            aggregate: AggregateIdentity::new(
                AggregateType::parse("sample").expect("type"),
                AggregateId::parse(aggregate).expect("aggregate"),
            ),
            order: AggregateOrder::new(
                AggregateSequence::new(sequence).expect("sequence"),
                EventIndex::new(0).expect("index"),
            ),
            occurred_at: OccurredAt::from_epoch_millis(1_785_215_430_123).expect("instant"),
            correlation_id: CorrelationId::parse("correlation").expect("correlation"),
            causation_id: None,
        },
        schemas: SchemaIdentity {
            envelope_schema: Sha256Digest::of(b"envelope"),
            payload_schema: Sha256Digest::of(b"payload"),
            schema_set: Sha256Digest::of(b"set"),
            catalog_revision: Sha256Digest::of(b"catalog"),
        },
        binding_revision: DestinationBindingRevision::parse("sample-events-r1").expect("binding"),
        ordering_required: true,
        requeue_horizon: Duration::from_secs(3600),
        trace: None,
        envelope: format!("{{\"eventId\":\"{id}\"}}").into_bytes(),
    }
}

/// An ordering-required event of an aggregate.
pub(crate) fn event(id: &str, aggregate: &str, sequence: i64) -> ValidatedIntegrationEvent {
    ValidatedIntegrationEvent::seal(parts(id, aggregate, sequence))
}

pub(crate) fn event_id(id: &str) -> EventId {
    EventId::parse(id).expect("event id")
}

/// A request that knows the sample's contract; `number` makes owner, token and attempt.
pub(crate) fn request(number: u32) -> ClaimRequest {
    let sample = parts("any", "any", 0);
    let mut token = [0x5A; 16];
    token[..4].copy_from_slice(&number.to_be_bytes());
    ClaimRequest {
        owner: WorkerId::parse(format!("worker-{number}")).expect("worker"),
        token: ClaimToken::from_random(token),
        attempt_id: PublicationAttemptId::parse(format!("attempt-{number}")).expect("attempt"),
        producer_generation: ProducerGeneration::parse("producer-1").expect("generation"),
        lease: Duration::from_secs(600),
        attempt_budget: Duration::from_secs(1),
        maximum_attempts: 5,
        known: Arc::from([KnownRecord {
            contract: ContractKey {
                contract_id: sample.identities.contract_id,
                payload_version: sample.identities.payload_version,
            },
            payload_schema: sample.schemas.payload_schema,
            destination: sample.identities.destination,
            binding_revision: sample.binding_revision,
        }]),
    }
}

/// Appends in a transaction of its own.
pub(crate) async fn try_append(
    store: &PostgresStore,
    transactions: &PostgresTransactions,
    event: &ValidatedIntegrationEvent,
) -> Result<AppendReceipt, TransactionError<AppendError>> {
    let outbox = store.outbox(policy());
    let event = event.clone();
    transactions
        .in_write(move |tx| Box::pin(async move { outbox.append(tx, &event).await }))
        .await
}

/// Appends what must be accepted.
pub(crate) async fn append(store: &PostgresStore, event: &ValidatedIntegrationEvent) {
    try_append(store, &store.transactions(), event)
        .await
        .expect("appended");
}

/// Tx B that must claim.
pub(crate) async fn claimed(store: &PostgresStore, request: &ClaimRequest) -> ClaimedDelivery {
    match store.deliveries().claim_next(request).await.expect("claim") {
        ClaimOutcome::Claimed(claimed) => *claimed,
        other => panic!("nothing was claimed: {other:?}"),
    }
}

/// Tx B that must find nothing.
pub(crate) async fn nothing(store: &PostgresStore, request: &ClaimRequest) {
    let deliveries = store.deliveries();
    loop {
        match deliveries.claim_next(request).await.expect("claim") {
            ClaimOutcome::Unfinished => {}
            ClaimOutcome::Nothing => return,
            other => panic!("something was claimed: {other:?}"),
        }
    }
}

/// Tx C's input for an acknowledged claim.
pub(crate) fn acknowledged(claimed: &ClaimedDelivery) -> OutcomeRecord {
    let producer = ProducerGeneration::parse("producer-1").expect("generation");
    OutcomeRecord {
        attempt: claimed.attempt.clone(),
        owner: claimed.owner.clone(),
        producer_generation: producer.clone(),
        binding_revision: claimed.event.binding_revision.clone(),
        outcome: PublicationOutcome::Acknowledged(PublicationReceipt {
            provider_id: "sample.v1",
            destination: claimed.event.identities.destination.clone(),
            producer_generation: producer,
            acknowledged_at: DatabaseInstant::from_epoch_micros(1_785_215_431_000_007),
            record_reference: ProviderRecordReference::parse("sample/0@1").expect("reference"),
        }),
        decision: RelayDecision::Record,
    }
}
