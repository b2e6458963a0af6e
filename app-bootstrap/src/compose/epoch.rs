//! The store's ACTIVE epoch against what the profile expects.
//!
//! Invariant: a polling profile starts only on a store whose ACTIVE epoch is published by polling
//! (requirement 004 §§21.3, 27.1).

use super::error::ComposeError;
use application_core::ports::PublicationAuthorityPort;
use domain_core::delivery::DispatchAuthority;

/// Refuses any other epoch, and none.
pub(super) async fn polled(authority: &dyn PublicationAuthorityPort) -> Result<(), ComposeError> {
    let active = authority
        .active_epoch()
        .await
        .map_err(ComposeError::Epoch)?;
    let found = match active {
        Some(record) if record.authority == DispatchAuthority::PollingV2 => return Ok(()),
        Some(record) => format!("{} of {}", record.epoch.value(), record.authority.as_str()),
        None => "missing".to_owned(),
    };
    Err(ComposeError::EpochAuthority { found })
}
