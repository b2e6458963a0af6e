//! The profile file: raw shape, then one validated, typed profile.
//!
//! Invariant: an unknown key, a blank file, a duplicate key or a contradiction is refused with
//! file, key and rule before any resource opens; no error repeats a configured value that could be
//! a secret (requirement 004 §§21.1–21.4).

mod cards;
mod compile;
mod error;
mod profile;
mod raw;
mod secret;
mod units;

pub use cards::{Card, Tuple};
pub use error::ConfigError;
pub use profile::{
    ActiveProfile, CapacityProfile, ContractBounds, DestinationProfile, Environment, ExpectedState,
    JournalProfile, KafkaProfile, KafkaSecurity, OutboxProfile, Profile, ProviderProfile,
    RetentionProfile, RotationProfile, StoreProfile, TopicProfile, WindowProfile,
};
pub use secret::{SecretError, SecretReference};

use std::path::Path;

/// Reads and compiles a profile file.
///
/// # Errors
/// [`ConfigError`] with file, key and rule.
pub fn load(path: &Path) -> Result<Profile, ConfigError> {
    let raw = raw::read(path)?;
    compile::compile(path, raw)
}
