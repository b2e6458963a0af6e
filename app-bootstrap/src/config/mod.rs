//! The profile file: raw shape, then one validated, typed profile.
//!
//! Invariant: an unknown key, a blank file, a duplicate key or a contradiction is refused with
//! file, key and rule before any resource opens; no error repeats a configured value that could be
//! a secret (requirement 004 §§21.1–21.4).

mod cards;
mod code;
mod compile;
mod digest;
mod error;
#[cfg(test)]
mod keys;
mod profile;
mod raw;
pub mod registry;
mod secret;
mod units;

pub use cards::{Card, Tuple};
pub use code::StartCode;
pub use error::ConfigError;
pub use profile::{
    ActiveProfile, CapacityProfile, ContractBounds, DestinationProfile, Environment, ExpectedState,
    JournalProfile, KafkaProfile, KafkaSecurity, OutboxProfile, Profile, ProviderProfile,
    RetentionProfile, RotationProfile, StoreProfile, TopicProfile, WindowProfile,
};
pub use secret::{SecretError, SecretReference};

use registry::Mode;
use std::path::Path;

/// Reads and compiles a profile file.
///
/// # Errors
/// [`ConfigError`] with file, key and rule.
pub fn load(path: &Path) -> Result<Profile, ConfigError> {
    load_as(path, Mode::Deployed)
}

/// The same for a harness that qualifies candidates: maturity and operator control are waived, and
/// what runs is never ready and never promoted. No configuration key and no command leads here.
///
/// # Errors
/// [`ConfigError`] with file, key and rule.
#[cfg(feature = "qualification")]
pub fn load_for_qualification(path: &Path) -> Result<Profile, ConfigError> {
    load_as(path, Mode::QualificationOnly)
}

fn load_as(path: &Path, mode: Mode) -> Result<Profile, ConfigError> {
    let (raw, settings) = raw::read(path)?;
    compile::compile(path, raw, mode, settings)
}
