//! Selecting the one tuple that the profile spells out.
//!
//! Invariant: every card is named and every card matches; nothing is inferred (requirement 004
//! §10.3).

use super::super::cards::Tuple;
use super::super::code::StartCode;
use super::super::error::ConfigError;
use super::super::profile::Environment;
use super::super::raw::{RawJournal, RawKafka, RawOutbox, RawPublication};
use super::super::registry::{Mode, Promotion, Registry};
use super::origin::Origin;
use std::collections::BTreeSet;

/// Finds the tuple by its producer card and insists on every other card.
pub(super) fn select(
    at: &Origin<'_>,
    publication: &RawPublication,
    outbox: &RawOutbox,
    journal: Option<&RawJournal>,
    kafka: Option<&RawKafka>,
) -> Result<Tuple, ConfigError> {
    if outbox.dispatch_mode != "polling" {
        let rule = "is `polling`; no other mode exists";
        return Err(at.refuse_as(StartCode::DispatchModeUnknown, "outbox.dispatch-mode", rule));
    }
    let tuple =
        Tuple::of_cards(&publication.producer_profile, &outbox.claim_profile).ok_or_else(|| {
            let known: BTreeSet<_> = Tuple::ALL
                .iter()
                .filter_map(|tuple| tuple.card("publication.producer-profile"))
                .collect();
            let known: Vec<_> = known.into_iter().collect();
            at.refuse_as(
                StartCode::ProviderUnknown,
                "publication.producer-profile",
                format!("is no known card id; known are {}", known.join(", ")),
            )
        })?;
    let registry = registry(at)?;
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
            (Some(expected), Some(value)) => {
                return Err(not_listed(at, registry, key, value, &|| {
                    format!(
                        "makes no listed tuple with {}; the listed one has {expected}",
                        publication.producer_profile
                    )
                }));
            }
            (Some(expected), None) => {
                let rule = format!("is missing; the tuple has {expected}");
                return Err(at.refuse_as(StartCode::CardUnknown, key, rule));
            }
            (None, Some(_)) => {
                return Err(at.unused(
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

/// Whether the registry lets the selected tuple run where it is asked for.
pub(super) fn admit(
    at: &Origin<'_>,
    mode: Mode,
    environment: Environment,
    tuple: Tuple,
) -> Result<Promotion, ConfigError> {
    let registry = registry(at)?;
    let row = registry.tuple(tuple.id()).map_err(|error| {
        let key = "publication.producer-profile";
        at.refuse_as(StartCode::TupleNotListed, key, error.to_string())
    })?;
    registry
        .admit(mode, environment, row)
        .map_err(|refusal| at.refuse_as(refusal.code, &refusal.key, refusal.rule))
}

fn registry(at: &Origin<'_>) -> Result<&'static Registry, ConfigError> {
    Registry::embedded().map_err(|error| {
        let key = "publication.semantic-profile";
        at.refuse_as(StartCode::RegistryInvalid, key, error.to_string())
    })
}

/// A card that nobody knows, a known claim card, or another known card, out of its place.
fn not_listed(
    at: &Origin<'_>,
    registry: &Registry,
    key: &str,
    value: &str,
    rule: &dyn Fn() -> String,
) -> ConfigError {
    let rule = rule();
    match registry.card(value) {
        Err(error) if looks_like_a_card(value) => {
            at.refuse_as(StartCode::CardUnknown, key, format!("{error}; it {rule}"))
        }
        Err(_) => at.refuse_as(
            StartCode::CardUnknown,
            key,
            format!("is no card id; it {rule}"),
        ),
        Ok(_) if key == "outbox.claim-profile" => {
            at.refuse_as(StartCode::ClaimCardNotListed, key, rule)
        }
        Ok(_) => at.refuse_as(StartCode::TupleNotListed, key, rule),
    }
}

/// Whether a value may be repeated in an error: what is no card id could be a secret.
fn looks_like_a_card(value: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    value.len() <= 96
        && value.rsplit_once(".v").is_some_and(|(name, version)| {
            !name.is_empty() && name.bytes().all(plain) && version.parse::<u32>().is_ok()
        })
}
