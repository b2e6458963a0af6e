//! How a feature registers a contract from code.
//!
//! Invariant: a contribution gives a type token, a descriptor and the exact schema document. It
//! never gives a serializer, so the encoder stays the only writer of payloads (requirement 004
//! §9.8).

use super::ContractDescriptor;
use crate::event::PayloadType;

/// One contract version contributed by a feature.
pub trait IntegrationEventContractContribution: Send + Sync {
    /// Everything the contract states about itself.
    fn descriptor(&self) -> ContractDescriptor;

    /// The exact type whose values are this contract's payloads.
    fn payload_type(&self) -> PayloadType;

    /// The exact schema document that the descriptor's hash names.
    fn payload_schema(&self) -> &[u8];
}
