//! Selecting the one tuple that the profile spells out.
//!
//! Invariant: every card is named and every card matches; nothing is inferred (requirement 004
//! §10.3).

use super::super::cards::Tuple;
use super::super::error::ConfigError;
use super::super::raw::{RawJournal, RawKafka, RawOutbox, RawPublication};
use super::origin::Origin;

/// Finds the tuple by its producer card and insists on every other card.
pub(super) fn select(
    at: &Origin<'_>,
    publication: &RawPublication,
    outbox: &RawOutbox,
    journal: Option<&RawJournal>,
    kafka: Option<&RawKafka>,
) -> Result<Tuple, ConfigError> {
    if outbox.dispatch_mode != "polling" {
        return Err(at.refuse("outbox.dispatch-mode", "is `polling`; no other mode exists"));
    }
    let tuple =
        Tuple::of_cards(&publication.producer_profile, &outbox.claim_profile).ok_or_else(|| {
            let known: Vec<_> = Tuple::ALL
                .iter()
                .filter_map(|tuple| tuple.card("publication.producer-profile"))
                .collect();
            at.refuse(
                "publication.producer-profile",
                format!("is no known card id; known are {}", known.join(", ")),
            )
        })?;
    let given = [
        (
            "publication.semantic-profile",
            Some(publication.semantic_profile.as_str()),
        ),
        (
            "publication.producer-profile",
            Some(publication.producer_profile.as_str()),
        ),
        (
            "publication.serialization-profile",
            Some(publication.serialization_profile.as_str()),
        ),
        (
            "publication.topic-profile",
            Some(publication.topic_profile.as_str()),
        ),
        (
            "publication.ordering-profile",
            Some(publication.ordering_profile.as_str()),
        ),
        (
            "publication.compression-profile",
            publication.compression_profile.as_deref(),
        ),
        (
            "outbox.polling-profile",
            Some(outbox.polling_profile.as_str()),
        ),
        ("outbox.claim-profile", Some(outbox.claim_profile.as_str())),
        (
            "outbox.transaction-resource-profile",
            Some(outbox.transaction_resource_profile.as_str()),
        ),
        (
            "outbox.operator-control-profile",
            Some(outbox.operator_control_profile.as_str()),
        ),
        (
            "journal.security-profile",
            journal.map(|journal| journal.security_profile.as_str()),
        ),
        (
            "kafka.security-profile",
            kafka.map(|kafka| kafka.security_profile.as_str()),
        ),
    ];
    for (key, value) in given {
        match (tuple.card(key), value) {
            (Some(expected), Some(value)) if expected == value => {}
            (None, None) => {}
            (Some(expected), Some(_)) => {
                return Err(at.refuse(
                    key,
                    format!(
                        "makes no listed tuple with {}; the listed one has {expected}",
                        publication.producer_profile
                    ),
                ));
            }
            (Some(expected), None) => {
                return Err(at.refuse(key, format!("is missing; the tuple has {expected}")));
            }
            (None, Some(_)) => {
                return Err(at.refuse(
                    key,
                    format!(
                        "has no place in a tuple with {}",
                        publication.producer_profile
                    ),
                ));
            }
        }
    }
    Ok(tuple)
}
