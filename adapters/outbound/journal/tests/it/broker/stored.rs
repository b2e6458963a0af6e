//! Stored events as a store would hand them to the relay.

use std::sync::Arc;
use std::time::Duration;

use application_core::event::{EventIdentities, SchemaIdentity, StoredOutboxEvent, TraceContext};
use application_core::ports::{AttemptIdentity, MonotonicClockPort, PublicationRequest};
use domain_core::delivery::DispatchAuthority;
use domain_core::hashing::{PartitionKey, Sha256Digest, envelope_sha256};
use domain_core::identity::{
    AggregateId, AggregateIdentity, AggregateOrder, AggregateSequence, AggregateType, ClaimToken,
    ContractId, CorrelationId, DeliveryGeneration, DestinationBindingRevision, EventId, EventIndex,
    LogicalDestinationId, PayloadVersion, PublicationAttemptId, PublicationEpoch, TenantScope,
    TransactionResourceId,
};
use domain_core::instant::{DatabaseInstant, OccurredAt};

pub(crate) const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

pub(crate) fn event(id: &str, envelope: Vec<u8>) -> StoredOutboxEvent {
    let aggregate = AggregateIdentity::new(
        AggregateType::parse("work-log").expect("valid"),
        AggregateId::parse("w-1").expect("valid"),
    );
    let destination = LogicalDestinationId::parse("portfolio-events").expect("valid");
    let tenant_scope = TenantScope::system();
    let schema = Sha256Digest::of(b"schema");
    StoredOutboxEvent {
        partition_key: PartitionKey::derive(&tenant_scope, &destination, &aggregate),
        identities: EventIdentities {
            event_id: EventId::parse(id).expect("valid"),
            contract_id: ContractId::parse("portfolio.work-log.recorded").expect("valid"),
            payload_version: PayloadVersion::new(1).expect("valid"),
            destination,
            tenant_scope,
            aggregate,
            order: AggregateOrder::new(
                AggregateSequence::new(1).expect("valid"),
                EventIndex::new(0).expect("valid"),
            ),
            occurred_at: OccurredAt::new(1_700_000_000, 123_000_000).expect("valid"),
            correlation_id: CorrelationId::parse("c-1").expect("valid"),
            causation_id: None,
        },
        schemas: SchemaIdentity {
            envelope_schema: schema,
            payload_schema: schema,
            schema_set: schema,
            catalog_revision: schema,
        },
        binding_revision: DestinationBindingRevision::parse("portfolio-events-r1").expect("valid"),
        ordering_required: true,
        trace: Some(TraceContext::parse(TRACEPARENT, Some("vendor=1")).expect("valid")),
        envelope_sha256: envelope_sha256(&envelope),
        envelope,
        publication_epoch: PublicationEpoch::FIRST,
        dispatch_authority: DispatchAuthority::PollingV2,
        transaction_resource: TransactionResourceId::parse("resource-1").expect("valid"),
        created_at: DatabaseInstant::from_epoch_micros(1),
    }
}

/// A request to send an event, with so much time left.
pub(crate) fn request(
    clock: &dyn MonotonicClockPort,
    event: StoredOutboxEvent,
    left: Duration,
) -> PublicationRequest {
    PublicationRequest {
        attempt: AttemptIdentity {
            event_id: event.identities.event_id.clone(),
            generation: DeliveryGeneration::FIRST,
            attempt_id: PublicationAttemptId::parse(format!("a-{}", event.identities.event_id))
                .expect("valid"),
            claim_token: ClaimToken::from_random([7; 16]),
        },
        event: Arc::new(event),
        deadline: clock.now().plus(left),
    }
}
