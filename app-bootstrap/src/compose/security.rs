//! From references to what a Kafka client proves itself with.
//!
//! Invariant: secrets are read here, judged before anything opens, given to the producer's
//! configuration, and kept nowhere else (requirement 004 §§17.10, 21.7).

use super::error::ComposeError;
use crate::config::{KafkaSecurity, SecretReference};
use domain_core::instant::DatabaseInstant;
use outbound_messaging_kafka::{PinnedAuthorities, ScramCredentials, SecurityProfile};

/// Reads the profile's secrets. `now` judges the certificate authorities.
///
/// # Errors
/// [`ComposeError::KafkaSecret`], [`ComposeError::KafkaCredentials`],
/// [`ComposeError::KafkaAuthorities`].
pub(super) fn resolve(
    security: &KafkaSecurity,
    now: DatabaseInstant,
) -> Result<SecurityProfile, ComposeError> {
    let KafkaSecurity::SaslSslScramSha512 {
        username,
        password,
        ca,
    } = security
    else {
        return Ok(SecurityProfile::LocalPlaintext);
    };
    let read = |key, reference: &SecretReference| {
        reference
            .resolve()
            .map_err(|source| ComposeError::KafkaSecret { key, source })
    };
    let authorities =
        PinnedAuthorities::parse(&read("ca", ca)?, now).map_err(ComposeError::KafkaAuthorities)?;
    ScramCredentials::new(
        read("username", username)?,
        read("password", password)?,
        authorities,
    )
    .map(SecurityProfile::SaslSslScramSha512)
    .map_err(ComposeError::KafkaCredentials)
}

#[cfg(test)]
#[path = "security_tests.rs"]
mod tests;
