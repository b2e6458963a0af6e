//! The provider's section: where the broker is and how long it may take.
//!
//! Invariant: the publication's own timeouts add up to the budget that the relay is told. What only
//! the producer knows about its settings it checks itself, before anything opens.

use super::super::code::StartCode;
use super::super::error::ConfigError;
use super::super::profile::{
    Environment, JournalProfile, KafkaProfile, KafkaSecurity, ProviderProfile, RotationProfile,
};
use super::super::raw::{RawJournal, RawKafka, RawKafkaSecurity, RawRotation};
use super::super::secret::SecretReference;
use super::origin::Origin;
use outbound_messaging_kafka::SecurityProfile;
use std::time::Duration;

/// What the provider's section says about time and permits.
pub(super) struct Timing {
    pub(super) section: &'static str,
    pub(super) admission_timeout: Duration,
    pub(super) attempt_budget: Duration,
    pub(super) publish_budget: Duration,
    pub(super) maximum_admitted_records: u32,
}

pub(super) fn journal(
    at: &Origin<'_>,
    raw: RawJournal,
) -> Result<(ProviderProfile, Timing), ConfigError> {
    let timing = Timing {
        section: "journal",
        admission_timeout: at.duration("journal.admission-timeout", &raw.admission_timeout)?,
        attempt_budget: at.duration(
            "journal.application-attempt-budget",
            &raw.application_attempt_budget,
        )?,
        publish_budget: at.duration("journal.publish-timeout", &raw.publish_timeout)?,
        maximum_admitted_records: at.count(
            "journal.maximum-admitted-records",
            raw.maximum_admitted_records,
            1,
            64,
        )?,
    };
    let profile = JournalProfile {
        path: at.path(&raw.path),
    };
    Ok((ProviderProfile::Journal(profile), timing))
}

pub(super) fn kafka(
    at: &Origin<'_>,
    raw: RawKafka,
    found: Option<Vec<String>>,
) -> Result<(ProviderProfile, Timing), ConfigError> {
    let bootstrap_servers = match (raw.bootstrap_servers, found) {
        (Some(_), Some(_)) => {
            return Err(at.refuse(
                "kafka.bootstrap-servers",
                "is given here and in endpoints-file; give it once",
            ));
        }
        (Some(servers), None) | (None, Some(servers)) => servers,
        (None, None) => Vec::new(),
    };
    if bootstrap_servers.is_empty() {
        return Err(at.refuse_as(
            StartCode::BootstrapServersEmpty,
            "kafka.bootstrap-servers",
            "is empty while expected-state is ACTIVE",
        ));
    }
    let producer = raw.producer;
    let profile = KafkaProfile {
        security: kafka_security(at, &raw.security_profile, raw.security.as_ref())?,
        cluster_id: raw.cluster_id,
        bootstrap_servers,
        topic_allow_list: raw.topic_allow_list,
        delivery_timeout: at.duration(
            "kafka.producer.delivery-timeout",
            &producer.delivery_timeout,
        )?,
        request_timeout: at
            .duration("kafka.producer.request-timeout", &producer.request_timeout)?,
        max_block_timeout: at.duration(
            "kafka.producer.max-block-timeout",
            &producer.max_block_timeout,
        )?,
        linger: at.duration("kafka.producer.linger", &producer.linger)?,
        buffer_memory_bytes: at.count(
            "kafka.producer.buffer-memory-bytes",
            producer.buffer_memory_bytes,
            1_048_576,
            1_073_741_824,
        )?,
        maximum_request_bytes: at.count(
            "kafka.producer.maximum-request-bytes",
            producer.maximum_request_bytes,
            1_024,
            104_857_600,
        )?,
        rotation: rotation(at, raw.rotation.as_ref())?,
    };
    let timing = Timing {
        section: "kafka.producer",
        admission_timeout: at.duration(
            "kafka.producer.admission-timeout",
            &producer.admission_timeout,
        )?,
        attempt_budget: at.duration(
            "kafka.producer.application-attempt-budget",
            &producer.application_attempt_budget,
        )?,
        publish_budget: profile.max_block_timeout + profile.delivery_timeout,
        maximum_admitted_records: at.count(
            "kafka.producer.maximum-admitted-records",
            producer.maximum_admitted_records,
            1,
            100_000,
        )?,
    };
    Ok((ProviderProfile::Kafka(profile), timing))
}

/// What production refuses of a channel whatever the tuple is: one without transport security, and
/// secrets that are written out (requirement 004 §§21.3, 22.2).
pub(super) fn refuse_open_channel(
    at: &Origin<'_>,
    environment: Environment,
    kafka: Option<&RawKafka>,
) -> Result<(), ConfigError> {
    let Some(kafka) = kafka.filter(|_| environment == Environment::Production) else {
        return Ok(());
    };
    match kafka_security(at, &kafka.security_profile, kafka.security.as_ref())? {
        KafkaSecurity::LocalPlaintext => Err(at.refuse_as(
            StartCode::ProductionPlaintext,
            "kafka.security-profile",
            format!(
                "is {}, which has no transport security; production refuses it",
                SecurityProfile::LOCAL_PLAINTEXT
            ),
        )),
        KafkaSecurity::SaslSslScramSha512 { .. } => Ok(()),
    }
}

/// Each profile with exactly the references that it needs.
fn kafka_security(
    at: &Origin<'_>,
    card: &str,
    raw: Option<&RawKafkaSecurity>,
) -> Result<KafkaSecurity, ConfigError> {
    match (card, raw) {
        (SecurityProfile::LOCAL_PLAINTEXT, None) => Ok(KafkaSecurity::LocalPlaintext),
        (SecurityProfile::LOCAL_PLAINTEXT, Some(_)) => Err(at.refuse_as(
            StartCode::KeyWithoutUse,
            "kafka.security",
            format!("has no place beside {card}, which has no identity"),
        )),
        (SecurityProfile::SASL_SSL_SCRAM_SHA_512, None) => {
            let rule = format!("is required by {card}");
            Err(at.refuse_as(StartCode::KeyMissing, "kafka.security", rule))
        }
        (SecurityProfile::SASL_SSL_SCRAM_SHA_512, Some(raw)) => {
            let reference = |key: &str, text: &str| {
                SecretReference::parse(text).map_err(|error| {
                    let key = format!("kafka.security.{key}");
                    at.refuse_as(StartCode::LiteralCredential, &key, error.to_string())
                })
            };
            Ok(KafkaSecurity::SaslSslScramSha512 {
                username: reference("username", &raw.username)?,
                password: reference("password", &raw.password)?,
                ca: reference("ca", &raw.ca)?,
            })
        }
        _ => Err(at.refuse_as(
            StartCode::CardUnknown,
            "kafka.security-profile",
            format!(
                "is no known card id; known are {}, {}",
                SecurityProfile::LOCAL_PLAINTEXT,
                SecurityProfile::SASL_SSL_SCRAM_SHA_512
            ),
        )),
    }
}

fn rotation(at: &Origin<'_>, raw: Option<&RawRotation>) -> Result<RotationProfile, ConfigError> {
    let Some(raw) = raw else {
        return Ok(RotationProfile::UNSTATED);
    };
    let bounded = |key: &'static str, text: &str, minimum: u64, maximum: u64| {
        let key = format!("kafka.rotation.{key}");
        let given = at.duration(&key, text)?;
        let allowed = Duration::from_millis(minimum)..=Duration::from_millis(maximum);
        if !allowed.contains(&given) {
            return Err(at.refuse(
                &key,
                format!(
                    "is {given:?}; {:?} to {:?} is allowed",
                    allowed.start(),
                    allowed.end()
                ),
            ));
        }
        Ok(given)
    };
    const MINUTE: u64 = 60_000;
    Ok(RotationProfile {
        secret_poll_interval: Some(bounded(
            "secret-poll-interval",
            &raw.secret_poll_interval,
            100,
            60 * MINUTE,
        )?),
        drain_timeout: bounded("drain-timeout", &raw.drain_timeout, 100, 10 * MINUTE)?,
        previous_material_limit: bounded(
            "previous-material-limit",
            &raw.previous_material_limit,
            1,
            24 * 60 * MINUTE,
        )?,
    })
}

#[cfg(test)]
#[path = "provider_tests.rs"]
mod tests;
