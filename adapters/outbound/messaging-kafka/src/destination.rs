//! Where a logical destination leads: topics, static and owned by the operator.
//!
//! Invariant: a topic is a configured name that matches the allow-list, never interpolated from
//! an event; a send resolves the revision stored with the event, so a changed binding never
//! reroutes a backlog (requirement 004 §§13.4, 13.6).

use domain_core::hashing::CanonicalHasher;
use domain_core::identity::{DestinationBindingRevision, LogicalDestinationId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why a text is not a topic name or an allow-list pattern, or a destination contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    /// Outside what a broker accepts.
    #[error("a topic name has 1 to 249 characters of [A-Za-z0-9._-] and is not `.` or `..`")]
    TopicName,
    /// Not a usable pattern.
    #[error(
        "a topic pattern has at most one `*` among the characters [A-Za-z0-9._-], at least one \
         of which is given"
    )]
    Pattern,
    /// Outside the allow-list.
    #[error("topic {0} matches no pattern of the allow-list")]
    NotAllowed(TopicName),
    /// A number that must be positive is zero.
    #[error("{0} of a destination is zero; at least 1 is required")]
    Zero(&'static str),
}

fn is_topic_character(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

/// A topic: 1–249 bytes of `[A-Za-z0-9._-]`. One that is sensitive shows an alias, in errors and
/// logs too.
#[derive(Clone)]
pub struct TopicName {
    name: Arc<str>,
    alias: Option<Arc<str>>,
}

impl TopicName {
    /// Accepts a name that a broker accepts.
    ///
    /// # Errors
    /// [`DestinationError::TopicName`].
    pub fn parse(text: &str) -> Result<Self, DestinationError> {
        let legal = (1..=249).contains(&text.len())
            && text.bytes().all(is_topic_character)
            && !matches!(text, "." | "..");
        if legal {
            Ok(Self {
                name: text.into(),
                alias: None,
            })
        } else {
            Err(DestinationError::TopicName)
        }
    }

    /// The same topic, shown by an alias: sixteen hexadecimal digits of a hash of its name.
    #[must_use]
    pub fn sensitive(self) -> Self {
        let hash = CanonicalHasher::new("countersign.topic-alias.v1")
            .part(self.name.as_bytes())
            .finish()
            .to_hex();
        Self {
            alias: Some(format!("topic-{}", &hash[..16]).into()),
            ..self
        }
    }

    /// The exact name.
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

/// Equal names are one topic, however it is shown.
impl PartialEq for TopicName {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for TopicName {}

impl PartialOrd for TopicName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TopicName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.name.cmp(&other.name)
    }
}

impl std::hash::Hash for TopicName {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl std::fmt::Display for TopicName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.alias.as_deref().unwrap_or(&self.name))
    }
}

impl std::fmt::Debug for TopicName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TopicName({self})")
    }
}

/// The topic names that a deployment may bind: texts in which one `*` stands for one or more
/// characters, such as `portfolio.*.v1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicAllowList(Vec<(String, Option<String>)>);

impl TopicAllowList {
    /// Reads patterns.
    ///
    /// # Errors
    /// [`DestinationError::Pattern`].
    pub fn parse<'a>(
        patterns: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, DestinationError> {
        patterns
            .into_iter()
            .map(|pattern| {
                let (head, tail) = match pattern.split_once('*') {
                    Some((head, tail)) => (head, Some(tail)),
                    None => (pattern, None),
                };
                let literal = [head, tail.unwrap_or_default()].concat();
                if literal.is_empty() || !literal.bytes().all(is_topic_character) {
                    return Err(DestinationError::Pattern);
                }
                Ok((head.to_owned(), tail.map(str::to_owned)))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether a topic matches one of the patterns.
    pub fn allows(&self, topic: &TopicName) -> bool {
        let name = topic.as_str();
        self.0.iter().any(|(head, tail)| match tail {
            None => name == head,
            Some(tail) => {
                name.len() > head.len() + tail.len()
                    && name.starts_with(head.as_str())
                    && name.ends_with(tail.as_str())
            }
        })
    }
}

/// One revision of one destination with its physical side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaDestination {
    /// The destination.
    pub destination: LogicalDestinationId,
    /// The revision that events were appended under.
    pub binding_revision: DestinationBindingRevision,
    /// The topic.
    pub topic: TopicName,
    /// Partitions that the topic has; keys would move with another number.
    pub expected_partitions: u32,
    /// Replicas that each partition has at least.
    pub minimum_replication_factor: u32,
    /// The least `min.insync.replicas` of the topic.
    pub minimum_in_sync_replicas: u32,
    /// Bytes that one record may have in all.
    pub maximum_record_bytes: u32,
    /// Bytes that one envelope may have.
    pub maximum_envelope_bytes: u32,
    /// The topic's `max.message.bytes`, which bounds a batch.
    pub topic_maximum_bytes: u32,
}

/// Why destinations do not make a set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DestinationSetError {
    /// One of them is not usable.
    #[error("destination {destination}, binding revision {revision}, is not usable")]
    Destination {
        /// The destination.
        destination: LogicalDestinationId,
        /// The revision.
        revision: DestinationBindingRevision,
        /// Why.
        #[source]
        source: DestinationError,
    },
    /// There is nothing to publish to.
    #[error("no destination is bound to a topic")]
    Empty,
    /// A revision id names two bindings.
    #[error("binding revision {0} is used twice")]
    DuplicateRevision(DestinationBindingRevision),
    /// Two destinations would share one topic.
    #[error("topic {topic} is bound to destination {first} and to destination {second}")]
    SharedTopic {
        /// The topic.
        topic: TopicName,
        /// One destination.
        first: LogicalDestinationId,
        /// Another one.
        second: LogicalDestinationId,
    },
}

/// All destinations of one process.
#[derive(Debug, Clone)]
pub struct KafkaDestinations {
    by_revision: BTreeMap<DestinationBindingRevision, KafkaDestination>,
}

impl KafkaDestinations {
    /// Checks names, uniqueness and the allow-list.
    ///
    /// # Errors
    /// [`DestinationSetError`] with the names.
    pub fn build(
        destinations: Vec<KafkaDestination>,
        allowed: &TopicAllowList,
    ) -> Result<Self, DestinationSetError> {
        let mut by_revision = BTreeMap::new();
        let mut by_topic: BTreeMap<TopicName, LogicalDestinationId> = BTreeMap::new();
        for destination in destinations {
            check(&destination, allowed).map_err(|source| DestinationSetError::Destination {
                destination: destination.destination.clone(),
                revision: destination.binding_revision.clone(),
                source,
            })?;
            let topic = destination.topic.clone();
            let name = destination.destination.clone();
            if let Some(first) = by_topic.insert(topic.clone(), name.clone())
                && first != name
            {
                return Err(DestinationSetError::SharedTopic {
                    topic,
                    first,
                    second: name,
                });
            }
            let revision = destination.binding_revision.clone();
            if by_revision.insert(revision.clone(), destination).is_some() {
                return Err(DestinationSetError::DuplicateRevision(revision));
            }
        }
        if by_revision.is_empty() {
            return Err(DestinationSetError::Empty);
        }
        Ok(Self { by_revision })
    }

    /// Where an event that was appended under this revision goes.
    pub fn resolve(
        &self,
        destination: &LogicalDestinationId,
        revision: &DestinationBindingRevision,
    ) -> Option<&KafkaDestination> {
        self.by_revision
            .get(revision)
            .filter(|found| found.destination == *destination)
    }

    /// Every destination, by revision.
    pub fn iter(&self) -> impl Iterator<Item = &KafkaDestination> {
        self.by_revision.values()
    }
}

fn check(destination: &KafkaDestination, allowed: &TopicAllowList) -> Result<(), DestinationError> {
    for (what, number) in [
        ("expected-partitions", destination.expected_partitions),
        (
            "minimum-replication-factor",
            destination.minimum_replication_factor,
        ),
        (
            "minimum-in-sync-replicas",
            destination.minimum_in_sync_replicas,
        ),
    ] {
        if number == 0 {
            return Err(DestinationError::Zero(what));
        }
    }
    if allowed.allows(&destination.topic) {
        Ok(())
    } else {
        Err(DestinationError::NotAllowed(destination.topic.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(name: &str, revision: &str, topic: &str) -> KafkaDestination {
        KafkaDestination {
            destination: LogicalDestinationId::parse(name).unwrap(),
            binding_revision: DestinationBindingRevision::parse(revision).unwrap(),
            topic: TopicName::parse(topic).unwrap(),
            expected_partitions: 3,
            minimum_replication_factor: 1,
            minimum_in_sync_replicas: 1,
            maximum_record_bytes: 100_000,
            maximum_envelope_bytes: 90_000,
            topic_maximum_bytes: 1_000_000,
        }
    }

    fn allowed() -> TopicAllowList {
        TopicAllowList::parse(["portfolio.*.v1", "exact"]).unwrap()
    }

    #[test]
    fn a_sensitive_topic_is_the_same_topic_under_an_alias() {
        let plain = TopicName::parse("portfolio.salaries.v1").unwrap();
        let sensitive = plain.clone().sensitive();
        assert_eq!(plain, sensitive);
        assert_eq!(sensitive.as_str(), "portfolio.salaries.v1");
        let error = DestinationError::NotAllowed(sensitive.clone());
        for shown in [
            sensitive.to_string(),
            format!("{sensitive:?}"),
            error.to_string(),
            format!("{error:?}"),
        ] {
            assert!(
                !shown.contains("salaries") && shown.contains("topic-"),
                "{shown}"
            );
        }
        let other = TopicName::parse("portfolio.other.v1").unwrap().sensitive();
        assert_ne!(sensitive.to_string(), other.to_string());
    }

    #[test]
    fn topic_names_are_those_a_broker_accepts() {
        for good in ["a", "portfolio.domain-events_v1", &"x".repeat(249)] {
            assert!(TopicName::parse(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a b", "a/b", "é", "a\0", &"x".repeat(250)] {
            assert_eq!(TopicName::parse(bad), Err(DestinationError::TopicName));
        }
    }

    #[test]
    fn a_star_stands_for_at_least_one_character() {
        let allowed = allowed();
        let allows = |name: &str| allowed.allows(&TopicName::parse(name).unwrap());
        assert!(allows("portfolio.a.v1") && allows("exact"));
        assert!(!allows("portfolio..v1") && !allows("portfolio.v1"));
        assert!(!allows("exact1") && !allows("other"));
        for bad in ["", "*", "a*b*", "a b"] {
            assert_eq!(TopicAllowList::parse([bad]), Err(DestinationError::Pattern));
        }
    }

    #[test]
    fn a_send_resolves_the_stored_revision() {
        let set = KafkaDestinations::build(
            vec![
                destination("d", "d-r1", "portfolio.d.v1"),
                destination("d", "d-r2", "exact"),
            ],
            &allowed(),
        )
        .unwrap();
        let id = |text| LogicalDestinationId::parse(text).unwrap();
        let revision = |text| DestinationBindingRevision::parse(text).unwrap();
        let topic = |d, r| set.resolve(&id(d), &revision(r)).map(|d| d.topic.as_str());
        assert_eq!(topic("d", "d-r1"), Some("portfolio.d.v1"));
        assert_eq!(topic("d", "d-r2"), Some("exact"));
        assert_eq!(topic("d", "d-r3"), None);
        assert_eq!(topic("e", "d-r1"), None);
    }

    #[test]
    fn a_set_refuses_duplicates_strangers_and_nothing() {
        let build = |list| KafkaDestinations::build(list, &allowed()).map(|_| ());
        assert_eq!(build(vec![]), Err(DestinationSetError::Empty));
        assert!(matches!(
            build(vec![
                destination("d", "r1", "exact"),
                destination("d", "r1", "portfolio.d.v1"),
            ]),
            Err(DestinationSetError::DuplicateRevision(_))
        ));
        assert!(matches!(
            build(vec![
                destination("d", "r1", "exact"),
                destination("e", "r2", "exact"),
            ]),
            Err(DestinationSetError::SharedTopic { .. })
        ));
        assert!(matches!(
            build(vec![destination("d", "r1", "elsewhere")]),
            Err(DestinationSetError::Destination {
                source: DestinationError::NotAllowed(_),
                ..
            })
        ));
        let mut none = destination("d", "r1", "exact");
        none.expected_partitions = 0;
        assert!(matches!(
            build(vec![none]),
            Err(DestinationSetError::Destination {
                source: DestinationError::Zero("expected-partitions"),
                ..
            })
        ));
    }
}
