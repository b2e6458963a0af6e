//! Same-store identity: business, append and relay must see one store.
//!
//! Invariant: a difference is refused before anything is claimed or appended (requirement 004
//! §12.4).

use application_core::ports::{ResourceError, TransactionResourcePort};
use domain_core::identity::TransactionResourceId;

/// Why the stores do not agree.
#[derive(Debug, thiserror::Error)]
pub enum ResourceMismatch {
    /// One of them could not be asked.
    #[error("the {role} store could not be identified")]
    Unreadable {
        /// Which one.
        role: &'static str,
        /// Why.
        #[source]
        source: ResourceError,
    },
    /// Two of them differ.
    #[error("the {role} store is {found}, but the business store is {expected}")]
    Different {
        /// Which one differs.
        role: &'static str,
        /// What it says.
        found: TransactionResourceId,
        /// What the business store says.
        expected: TransactionResourceId,
    },
    /// They agree, but the profile names another.
    #[error("the store is {found}, but the profile names {named} as transaction-resource-id")]
    NotTheNamedOne {
        /// What they say.
        found: TransactionResourceId,
        /// What the profile says.
        named: TransactionResourceId,
    },
}

/// Asks each role's own connections and compares.
///
/// # Errors
/// [`ResourceMismatch`] with both ids.
pub async fn agree(
    business: &dyn TransactionResourcePort,
    others: &[(&'static str, &dyn TransactionResourcePort)],
    named: Option<&TransactionResourceId>,
) -> Result<TransactionResourceId, ResourceMismatch> {
    let unreadable = |role| move |source| ResourceMismatch::Unreadable { role, source };
    let expected = business
        .resource_id()
        .await
        .map_err(unreadable("business"))?;
    for (role, port) in others {
        let found = port.resource_id().await.map_err(unreadable(role))?;
        if found != expected {
            return Err(ResourceMismatch::Different {
                role,
                found,
                expected,
            });
        }
    }
    match named {
        Some(named) if *named != expected => Err(ResourceMismatch::NotTheNamedOne {
            found: expected,
            named: named.clone(),
        }),
        _ => Ok(expected),
    }
}
