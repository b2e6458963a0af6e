//! The compiled part: what follows from profile, contracts and registry alone.
//!
//! Invariant: made without opening anything, and the same for every process of one profile and one
//! build.

use crate::compose::{Compiled, topic_name};
use crate::config::registry::{Maturity, Promotion, Registry, RegistryError};
use crate::config::{DestinationProfile, Environment, ProviderProfile};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The compiled part of a descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompiledDescriptor {
    /// `ACTIVE`, or `QUALIFICATION_ONLY` in a harness.
    pub expected_state: &'static str,
    /// `production` or `development`.
    pub environment: &'static str,
    /// `promoted` or `not promoted`.
    pub promotion: &'static str,
    /// The exact tuple.
    pub tuple_id: &'static str,
    /// Its cards.
    pub cards: Vec<DescribedCard>,
    /// This build and the client library that it links, by name.
    pub versions: BTreeMap<&'static str, String>,
    /// SHA-256 over everything that the contracts state.
    pub contract_catalog_hash: String,
    /// SHA-256 over every schema.
    pub schema_set_hash: String,
    /// Destinations and their binding revisions.
    pub destinations: Vec<DescribedDestination>,
    /// SHA-256 over every setting but secrets, addresses, paths and sensitive topics.
    pub settings_digest: String,
    /// The evidence that all cards share; empty without.
    pub evidence_fingerprint: String,
    /// `none`, or `recorded` when every card has evidence.
    pub evidence_status: &'static str,
    /// What is not promised.
    pub explicit_non_guarantees: Vec<String>,
    /// Pages for whoever operates it.
    pub runbook_ids: Vec<String>,
}

/// One card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribedCard {
    /// The profile key that selects it.
    pub key: String,
    /// Its id.
    pub card_id: String,
    /// How far it is.
    pub maturity: Maturity,
    /// Who provides it.
    pub provider_id: String,
    /// The provider's version line.
    pub provider_version: String,
    /// Its evidence; empty without.
    pub evidence_fingerprint: String,
}

/// One binding revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribedDestination {
    /// The destination.
    pub destination_id: String,
    /// The revision.
    pub binding_revision: String,
    /// Whether appends take it.
    pub current: bool,
    /// The topic, or its alias where it is sensitive; nothing where the provider has none.
    pub topic: Option<String>,
}

impl CompiledDescriptor {
    /// Describes a compiled profile.
    ///
    /// # Errors
    /// [`RegistryError`]; only a defect of the build has one.
    pub fn of(compiled: &Compiled) -> Result<Self, RegistryError> {
        let profile = &compiled.profile;
        let registry = Registry::embedded()?;
        let rows = profile
            .tuple
            .cards()
            .iter()
            .map(|card| registry.card(card.id))
            .collect::<Result<Vec<_>, _>>()?;
        let distinct = |texts: &dyn Fn(usize) -> Vec<String>| -> Vec<String> {
            let all: BTreeSet<_> = (0..rows.len()).flat_map(texts).collect();
            all.into_iter().collect()
        };
        let evident = rows.iter().all(|row| !row.evidence_fingerprint.is_empty());
        let shared: BTreeSet<_> = rows.iter().map(|row| &row.evidence_fingerprint).collect();
        let mut versions = BTreeMap::from([("countersign", env!("CARGO_PKG_VERSION").to_owned())]);
        if let ProviderProfile::Kafka(_) = profile.provider {
            versions.insert("librdkafka", outbound_messaging_kafka::client_version());
        }
        Ok(Self {
            expected_state: match profile.promotion {
                Promotion::QualificationOnly => "QUALIFICATION_ONLY",
                Promotion::Promoted | Promotion::NotPromoted => "ACTIVE",
            },
            environment: match profile.environment {
                Environment::Production => "production",
                Environment::Development => "development",
            },
            promotion: profile.promotion.as_str(),
            tuple_id: profile.tuple.id(),
            cards: rows
                .iter()
                .map(|row| DescribedCard {
                    key: row.profile_key.clone(),
                    card_id: row.card_id.clone(),
                    maturity: row.maturity,
                    provider_id: row.provider_id.clone(),
                    provider_version: row.provider_version.clone(),
                    evidence_fingerprint: row.evidence_fingerprint.clone(),
                })
                .collect(),
            versions,
            contract_catalog_hash: compiled.catalog_revision().to_hex(),
            schema_set_hash: compiled.catalog.catalog().schema_set().to_hex(),
            destinations: profile.destinations.iter().map(destination).collect(),
            settings_digest: profile.settings_digest.to_hex(),
            evidence_fingerprint: match (evident, shared.first()) {
                (true, Some(one)) if shared.len() == 1 => (*one).clone(),
                _ => String::new(),
            },
            evidence_status: if evident { "recorded" } else { "none" },
            explicit_non_guarantees: distinct(&|row| rows[row].explicit_non_guarantees.clone()),
            runbook_ids: distinct(&|row| rows[row].runbook_ids.clone()),
        })
    }
}

fn destination(profile: &DestinationProfile) -> DescribedDestination {
    DescribedDestination {
        destination_id: profile.destination.to_string(),
        binding_revision: profile.revision.to_string(),
        current: profile.current,
        // The producer took the name before; what it refuses does not come here.
        topic: profile
            .topic
            .as_ref()
            .and_then(|topic| topic_name(topic).ok())
            .map(|name| name.to_string()),
    }
}
