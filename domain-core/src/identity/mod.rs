//! Identities of events, contracts, destinations, aggregates and tenants.
//!
//! Invariant: a value of one of these types has passed its grammar; there are no setters, so it
//! stays that way. No error names the refused text, since a refused identity may hold anything.

mod aggregate;
mod contract;
mod destination;
mod event;
mod operator;
mod tenant;
mod text;
mod work;

pub use aggregate::{
    AggregateId, AggregateIdentity, AggregateOrder, AggregateSequence, AggregateType, EventIndex,
    MAXIMUM_SAFE_INTEGER,
};
pub use contract::{ContractId, PayloadVersion};
pub use destination::{DestinationBindingRevision, LogicalDestinationId};
pub use event::{CausationId, ConsumerId, CorrelationId, EventId};
pub use operator::{ActReference, OperatorId, ReasonCode, ReasonText};
pub use tenant::{SYSTEM_SCOPE, TenantId, TenantMode, TenantScope, TenantScopeError};
pub use text::IdentityError;
pub use work::{
    ClaimToken, DeliveryGeneration, ProducerGeneration, PublicationAttemptId, PublicationEpoch,
    RowVersion, TransactionResourceId, WorkerId,
};
