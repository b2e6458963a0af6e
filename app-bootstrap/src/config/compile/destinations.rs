//! Destinations and their binding revisions.
//!
//! Invariant: a topic is a static value of the deployment; the embedded journal has none.

use super::super::cards::Tuple;
use super::super::error::ConfigError;
use super::super::profile::DestinationProfile;
use super::super::raw::{RawDestination, RawEarlierRevision};
use super::origin::Origin;
use domain_core::identity::{DestinationBindingRevision, LogicalDestinationId};
use std::collections::BTreeMap;

pub(super) fn compile(
    at: &Origin<'_>,
    tuple: Tuple,
    raw: BTreeMap<String, RawDestination>,
) -> Result<Vec<DestinationProfile>, ConfigError> {
    if raw.is_empty() {
        return Err(at.refuse("destinations", "is empty while expected-state is ACTIVE"));
    }
    let mut profiles = Vec::new();
    for (name, destination) in raw {
        let key = format!("destinations.{name}");
        let id = LogicalDestinationId::parse(name.as_str())
            .map_err(|error| at.refuse(&key, error.to_string()))?;
        let current = RawEarlierRevision {
            binding_revision: destination.binding_revision,
            topic: destination.topic,
            expected_partitions: destination.expected_partitions,
            maximum_record_bytes: destination.maximum_record_bytes,
            maximum_envelope_bytes: destination.maximum_envelope_bytes,
        };
        profiles.push(binding(at, tuple, &key, &id, &current, true)?);
        for (index, earlier) in destination.earlier_revisions.iter().enumerate() {
            let key = format!("{key}.earlier-revisions[{index}]");
            profiles.push(binding(at, tuple, &key, &id, earlier, false)?);
        }
    }
    Ok(profiles)
}

fn binding(
    at: &Origin<'_>,
    tuple: Tuple,
    key: &str,
    destination: &LogicalDestinationId,
    raw: &RawEarlierRevision,
    current: bool,
) -> Result<DestinationProfile, ConfigError> {
    let sub = |name: &str| format!("{key}.{name}");
    let has_topics = tuple == Tuple::LocalKafka;
    for (name, present) in [
        ("topic", raw.topic.is_some()),
        ("expected-partitions", raw.expected_partitions.is_some()),
    ] {
        if present != has_topics {
            let rule = if has_topics {
                "is required by the provider"
            } else {
                "is not used by the embedded journal, which has no topics"
            };
            return Err(at.refuse(&sub(name), rule));
        }
    }
    let profile = DestinationProfile {
        destination: destination.clone(),
        revision: DestinationBindingRevision::parse(raw.binding_revision.as_str())
            .map_err(|error| at.refuse(&sub("binding-revision"), error.to_string()))?,
        current,
        topic: raw.topic.clone(),
        expected_partitions: raw
            .expected_partitions
            .map(|count| at.count(&sub("expected-partitions"), count, 1, 10_000))
            .transpose()?,
        maximum_record_bytes: at.count(
            &sub("maximum-record-bytes"),
            raw.maximum_record_bytes,
            1,
            104_857_600,
        )?,
        maximum_envelope_bytes: at.count(
            &sub("maximum-envelope-bytes"),
            raw.maximum_envelope_bytes,
            1,
            1_048_576,
        )?,
    };
    if profile.maximum_envelope_bytes >= profile.maximum_record_bytes {
        return Err(at.refuse(
            &sub("maximum-envelope-bytes"),
            format!(
                "is {}, which leaves no room for key and headers in maximum-record-bytes {}",
                profile.maximum_envelope_bytes, profile.maximum_record_bytes
            ),
        ));
    }
    Ok(profile)
}
