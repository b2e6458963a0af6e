//! The provider's section: where the broker is and how long it may take.
//!
//! Invariant: the publication's own timeouts add up to the budget that the relay is told.

use super::super::error::ConfigError;
use super::super::profile::{JournalProfile, KafkaProfile, ProviderProfile};
use super::super::raw::{RawJournal, RawKafka};
use super::origin::Origin;
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
    if bootstrap_servers.is_empty() || bootstrap_servers.iter().any(|s| !is_host_port(s)) {
        return Err(at.refuse(
            "kafka.bootstrap-servers",
            "is a non-empty list of host:port",
        ));
    }
    let producer = raw.producer;
    let profile = KafkaProfile {
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
    };
    if !(1..=64).contains(&profile.cluster_id.len()) {
        return Err(at.refuse("kafka.cluster-id", "has 1 to 64 bytes"));
    }
    at.at_least(
        "kafka.producer.delivery-timeout",
        profile.delivery_timeout,
        profile.request_timeout + profile.linger,
        "delivery-timeout >= request-timeout + linger",
    )?;
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
            64,
        )?,
    };
    Ok((ProviderProfile::Kafka(profile), timing))
}

fn is_host_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty()
            && host
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b',')
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}
