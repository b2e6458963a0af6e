//! Destinations and their binding revisions.
//!
//! Invariant: a topic is a static value of the deployment; the embedded journal has none.

use super::super::cards::Tuple;
use super::super::code::StartCode;
use super::super::error::ConfigError;
use super::super::profile::{DestinationProfile, TopicProfile};
use super::super::raw::RawDestination;
use super::origin::Origin;
use domain_core::identity::{DestinationBindingRevision, LogicalDestinationId};
use std::collections::BTreeMap;

pub(super) fn compile(
    at: &Origin<'_>,
    tuple: Tuple,
    raw: BTreeMap<String, RawDestination>,
) -> Result<Vec<DestinationProfile>, ConfigError> {
    if raw.is_empty() {
        let rule = "is empty while expected-state is ACTIVE";
        return Err(at.refuse_as(StartCode::DestinationsEmpty, "destinations", rule));
    }
    let mut profiles = Vec::new();
    for (name, current) in raw {
        let key = format!("destinations.{name}");
        let id = LogicalDestinationId::parse(name.as_str())
            .map_err(|error| at.refuse(&key, error.to_string()))?;
        profiles.push(binding(at, tuple, &key, &id, &current, true)?);
        for (index, earlier) in current.earlier_revisions.iter().enumerate() {
            let key = format!("{key}.earlier-revisions[{index}]");
            if !earlier.earlier_revisions.is_empty() {
                return Err(at.refuse(&key, "has earlier-revisions of its own; list them flat"));
            }
            profiles.push(binding(at, tuple, &key, &id, earlier, false)?);
        }
    }
    match shared_topic(&profiles) {
        None => Ok(profiles),
        Some((key, other)) => {
            let rule = format!("is the topic of destination {other} too");
            Err(at.refuse_as(StartCode::DuplicateId, &key, rule))
        }
    }
}

/// Two destinations that name one topic. Revisions of one destination may.
fn shared_topic(profiles: &[DestinationProfile]) -> Option<(String, &LogicalDestinationId)> {
    let topic = |profile: &DestinationProfile| profile.topic.as_ref().map(|one| one.name.clone());
    profiles.iter().enumerate().find_map(|(index, one)| {
        let shares = |other: &&DestinationProfile| {
            other.destination != one.destination
                && topic(other).is_some()
                && topic(other) == topic(one)
        };
        let other = profiles[..index].iter().find(shares)?;
        Some((
            format!("destinations.{}.topic", one.destination),
            &other.destination,
        ))
    })
}

fn binding(
    at: &Origin<'_>,
    tuple: Tuple,
    key: &str,
    destination: &LogicalDestinationId,
    raw: &RawDestination,
    current: bool,
) -> Result<DestinationProfile, ConfigError> {
    let sub = |name: &str| format!("{key}.{name}");
    let profile = DestinationProfile {
        destination: destination.clone(),
        revision: DestinationBindingRevision::parse(raw.binding_revision.as_str())
            .map_err(|error| at.refuse(&sub("binding-revision"), error.to_string()))?,
        current,
        topic: topic(at, tuple, &sub, raw)?,
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
        return Err(at.refuse_as(
            StartCode::BytesExceedBound,
            &sub("maximum-envelope-bytes"),
            format!(
                "is {}, which leaves no room for key and headers in maximum-record-bytes {}",
                profile.maximum_envelope_bytes, profile.maximum_record_bytes
            ),
        ));
    }
    Ok(profile)
}

/// The physical side: all of it or, for the journal, none.
fn topic(
    at: &Origin<'_>,
    tuple: Tuple,
    sub: &dyn Fn(&str) -> String,
    raw: &RawDestination,
) -> Result<Option<TopicProfile>, ConfigError> {
    let numbers = [
        ("expected-partitions", raw.expected_partitions, 10_000),
        (
            "minimum-replication-factor",
            raw.minimum_replication_factor,
            100,
        ),
        (
            "minimum-in-sync-replicas",
            raw.minimum_in_sync_replicas,
            100,
        ),
        ("topic-maximum-bytes", raw.topic_maximum_bytes, 104_857_600),
    ];
    if tuple == Tuple::Embedded {
        if raw.sensitive {
            let rule = "is about the topic's name, and the journal has no topics";
            return Err(at.unused(&sub("sensitive"), rule));
        }
        let mut given = numbers.iter().filter(|(_, value, _)| value.is_some());
        let name = given.next().map(|(name, _, _)| *name);
        return match raw.topic.as_ref().map(|_| "topic").or(name) {
            Some(name) => Err(at.unused(
                &sub(name),
                "is not used by the journal, which has no topics",
            )),
            None => Ok(None),
        };
    }
    let required = || "is required by the Kafka provider";
    let name = raw
        .topic
        .clone()
        .ok_or_else(|| at.refuse_as(StartCode::KeyMissing, &sub("topic"), required()))?;
    let [partitions, replicas, in_sync, bytes] = numbers.map(|(key, value, maximum)| {
        let value =
            value.ok_or_else(|| at.refuse_as(StartCode::KeyMissing, &sub(key), required()))?;
        at.count(&sub(key), value, 1, maximum)
    });
    Ok(Some(TopicProfile {
        name,
        sensitive: raw.sensitive,
        expected_partitions: partitions?,
        minimum_replication_factor: replicas?,
        minimum_in_sync_replicas: in_sync?,
        maximum_bytes: bytes?,
    }))
}
