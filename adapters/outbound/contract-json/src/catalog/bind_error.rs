//! Why a deployment cannot run a catalog.
//!
//! Invariant: an error about bounds names the contract, both numbers and what they belong to.

use application_core::contract::{CatalogError, ContractKey};
use domain_core::identity::{DestinationBindingRevision, LogicalDestinationId};

/// Why contracts, bindings, provider and overrides do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// The contract's destination has no binding that is current for appends.
    #[error("contract {contract}: destination {destination} has no current binding")]
    UnboundDestination {
        /// The contract version.
        contract: ContractKey,
        /// Its destination.
        destination: LogicalDestinationId,
    },
    /// A binding that no contract uses.
    #[error("destination {0} is bound, but no contract goes there")]
    IdleDestination(LogicalDestinationId),
    /// The contract's envelopes may be larger than the provider takes.
    #[error(
        "contract {contract} allows envelopes of {contract_bytes} bytes, but provider {provider} \
         takes at most {provider_bytes}: {reason}"
    )]
    ExceedsProvider {
        /// The contract version.
        contract: ContractKey,
        /// What the contract allows after overrides.
        contract_bytes: u32,
        /// The provider's card id.
        provider: String,
        /// What the provider takes.
        provider_bytes: u32,
        /// Why it takes no more.
        reason: String,
    },
    /// The contract's envelopes may be larger than the destination takes.
    #[error(
        "contract {contract} allows envelopes of {contract_bytes} bytes, but binding {revision} \
         of its destination takes at most {destination_bytes}"
    )]
    ExceedsDestination {
        /// The contract version.
        contract: ContractKey,
        /// What the contract allows after overrides.
        contract_bytes: u32,
        /// The current binding.
        revision: DestinationBindingRevision,
        /// What the binding allows.
        destination_bytes: u32,
    },
    /// The binding promises more than the provider takes.
    #[error(
        "binding {revision} allows envelopes of {destination_bytes} bytes, but provider \
         {provider} takes at most {provider_bytes}: {reason}"
    )]
    DestinationExceedsProvider {
        /// The binding.
        revision: DestinationBindingRevision,
        /// What the binding allows.
        destination_bytes: u32,
        /// The provider's card id.
        provider: String,
        /// What the provider takes.
        provider_bytes: u32,
        /// Why it takes no more.
        reason: String,
    },
    /// A record of the binding has no room for key and envelope.
    #[error(
        "binding {revision} allows records of {record_bytes} bytes, which do not hold a key of \
         64 bytes and an envelope of {envelope_bytes}"
    )]
    RecordTooSmall {
        /// The binding.
        revision: DestinationBindingRevision,
        /// What a record may have in all.
        record_bytes: u32,
        /// What the envelope alone may have.
        envelope_bytes: u32,
    },
    /// An override of a contract that the catalog does not have.
    #[error("an override names contract {0}, which is not in the catalog")]
    OverrideOfUnknown(ContractKey),
    /// Two overrides of one contract.
    #[error("contract {0} is overridden twice")]
    OverrideTwice(ContractKey),
    /// An override that allows more bytes than the contract.
    #[error(
        "contract {contract}: the override of {bound} from {declared} to {configured} would relax \
         it; configuration can only tighten"
    )]
    RelaxesBound {
        /// The contract version.
        contract: ContractKey,
        /// The bound's name.
        bound: &'static str,
        /// What the contract says.
        declared: u32,
        /// What the configuration says.
        configured: u32,
    },
    /// An override that drops a required order.
    #[error("contract {contract} requires aggregate order; configuration cannot drop it")]
    RelaxesOrdering {
        /// The contract version.
        contract: ContractKey,
    },
    /// Contracts and overrides together contradict themselves.
    #[error("the overrides contradict the contracts")]
    Contradiction(#[source] CatalogError),
}
