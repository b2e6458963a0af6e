//! Contracts, the closed catalog and the bindings of destinations.
//!
//! Invariant: a contract says what is sent and never where; a binding says where and never what
//! (requirement 004 §13.1).

mod binding;
mod catalog;
mod contribution;
mod descriptor;

pub use binding::{BindingSet, BindingSetError, DestinationBinding};
pub use catalog::{CatalogError, ContractCatalog, ContractKey};
pub use contribution::IntegrationEventContractContribution;
pub use descriptor::{
    ContractDescriptor, DescriptorError, FieldKind, OrderingRequirement, PartitionKeyPolicy,
    PayloadField, SchemaResource, Sensitivity, VersionMatrix,
};
