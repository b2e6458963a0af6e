//! What a feature hands over: which fact happened to which aggregate, and a typed payload.
//!
//! Invariant: a draft names no topic, header or retry policy, and its contract follows from the
//! exact type of its payload, so the two cannot disagree (requirement 004 §§9.8, 12.2).

use super::TraceContext;
use domain_core::identity::{
    AggregateIdentity, AggregateOrder, CausationId, CorrelationId, EventId, TenantId,
};
use domain_core::instant::OccurredAt;
use std::any::{Any, TypeId};

/// A feature's immutable payload record. Every `'static` type with a derived `serde::Serialize`
/// qualifies; whether it is registered is decided by exact type, and whether its shape is
/// accepted by the contract's encoder.
pub trait IntegrationPayload: erased_serde::Serialize + Any + Send + Sync {
    /// The exact type, by which the closed catalog is looked up.
    fn payload_type(&self) -> PayloadType;
}

impl<T: serde::Serialize + Any + Send + Sync> IntegrationPayload for T {
    fn payload_type(&self) -> PayloadType {
        PayloadType::of::<T>()
    }
}

/// One exact Rust type. Equality is that of the `TypeId`; the name is for messages alone.
#[derive(Debug, Clone, Copy)]
pub struct PayloadType {
    id: TypeId,
    name: &'static str,
}

impl PayloadType {
    /// The token of `T`.
    pub fn of<T: Any>() -> Self {
        Self {
            id: TypeId::of::<T>(),
            name: std::any::type_name::<T>(),
        }
    }

    /// The type's identity.
    pub fn id(&self) -> TypeId {
        self.id
    }

    /// The type's name, for messages.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl PartialEq for PayloadType {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for PayloadType {}

/// An integration event before validation.
pub struct IntegrationEventDraft {
    /// Canonical identity; made once, never computed again.
    pub event_id: EventId,
    /// What the event is about.
    pub aggregate: AggregateIdentity,
    /// Its place in the aggregate's total order.
    pub order: AggregateOrder,
    /// When it happened, by the domain's clock.
    pub occurred_at: OccurredAt,
    /// The workflow it belongs to.
    pub correlation_id: CorrelationId,
    /// What caused it, where something did.
    pub causation_id: Option<CausationId>,
    /// Whose it is, where tenants are active.
    pub tenant_id: Option<TenantId>,
    /// The trace it was created in.
    pub trace: Option<TraceContext>,
    /// The feature's record.
    pub payload: Box<dyn IntegrationPayload>,
}

impl std::fmt::Debug for IntegrationEventDraft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IntegrationEventDraft")
            .field("event_id", &self.event_id)
            .field("payload_type", &self.payload.payload_type().name())
            .finish_non_exhaustive()
    }
}
