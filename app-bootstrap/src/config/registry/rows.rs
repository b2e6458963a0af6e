//! The rows as they are written, and reading them through their schemas.
//!
//! Invariant: a document that its schema refuses, that repeats a key or that has an unknown one is
//! never partly used.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How far a card is (requirement 004 §10.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Maturity {
    /// Listed, but nothing implements it.
    NotImplemented,
    /// Implemented; its evidence does not exist yet.
    ImplementedCandidate,
    /// Implemented, with evidence.
    ReleaseEligible,
}

impl Maturity {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotImplemented => "not-implemented",
            Self::ImplementedCandidate => "implemented-candidate",
            Self::ReleaseEligible => "release-eligible",
        }
    }
}

/// One capability card (requirement 004 §10.2).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CardRow {
    /// Its id, `name.vN`.
    pub card_id: String,
    /// The N of it.
    pub card_version: u32,
    /// The profile key below `app.messaging` that selects it.
    pub profile_key: String,
    /// The meanings that it helps to provide.
    pub semantic_contract_ids: Vec<String>,
    /// Who provides it.
    pub provider_id: String,
    /// The provider's version line; `workspace` for this build's own.
    pub provider_version: String,
    /// How far it is.
    pub maturity: Maturity,
    /// What it promises, as stable words.
    pub guarantees: Vec<String>,
    /// What it does not promise.
    pub explicit_non_guarantees: Vec<String>,
    /// The version of the outcome words, where it has outcomes.
    pub outcome_taxonomy_version: Option<u32>,
    /// The ordering card that it keeps.
    pub ordering_profile: Option<String>,
    /// What bounds its resources: numbers, or the settings that are the bound.
    pub resource_bounds: Vec<String>,
    /// What bounds automatic publication.
    pub automatic_publication_age: Option<String>,
    /// What bounds sending the same event again.
    pub same_event_requeue_horizon: Option<String>,
    /// `no-network`, `plaintext` or `sasl-ssl`, where it speaks to a broker.
    pub security_profile: Option<String>,
    /// What it knows about the broker's topology.
    pub topology_profile: Option<String>,
    /// How it begins and ends.
    pub lifecycle_profile: Option<String>,
    /// `none` or `authenticated`, where it is an operator control.
    pub operator_control_profile: Option<String>,
    /// The schema set that its evidence was made with; empty without evidence.
    pub schema_set_hash: String,
    /// The settings that its evidence was made with; empty without evidence.
    pub settings_digest: String,
    /// The evidence itself; empty without.
    pub evidence_fingerprint: String,
    /// What made the evidence.
    pub evidence_tasks: Vec<String>,
    /// Scenarios that evidence must cover.
    pub required_scenarios: Vec<String>,
    /// Pages for whoever operates it.
    pub runbook_ids: Vec<String>,
    /// The crate that answers for it.
    pub owner: String,
}

/// One exact tuple.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TupleRow {
    /// Its id.
    pub tuple_id: String,
    /// Every card, in the order of requirement 004 §10.4.
    pub cards: Vec<String>,
    /// Scenarios that the cards must pass together.
    pub interaction_scenarios: Vec<String>,
}

/// What a released configuration must select.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AssertionRow {
    /// The settings' digest, as the descriptor shows it.
    pub settings_digest: String,
    /// The tuple.
    pub tuple_id: String,
}

/// Why the registry cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Not the YAML or JSON that it should be.
    #[error("{file}: {rule}")]
    Document {
        /// Which document.
        file: &'static str,
        /// What is wrong.
        rule: String,
    },
    /// A card that no row has.
    #[error("card `{0}` is not in readiness-cards.yaml")]
    UnknownCard(String),
    /// A tuple that no row has.
    #[error("tuple `{0}` is not in profile-compatibility.yaml")]
    UnknownTuple(String),
    /// A card or tuple that two rows have.
    #[error("`{0}` is listed twice")]
    Repeated(String),
    /// A card whose version is not that of its id.
    #[error("the version of card `{0}` is not the one that its id ends in")]
    Version(String),
}

/// The three documents, as text.
pub(super) struct Documents<'t> {
    pub(super) cards: &'t str,
    pub(super) tuples: &'t str,
    pub(super) assertions: &'t str,
}

macro_rules! messaging {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../config/messaging/",
            $name
        ))
    };
}

impl Documents<'static> {
    pub(super) const EMBEDDED: Self = Self {
        cards: messaging!("readiness-cards.yaml"),
        tuples: messaging!("profile-compatibility.yaml"),
        assertions: messaging!("release-profile-assertions.yaml"),
    };
}

/// One of the three.
#[derive(Debug, Clone, Copy)]
pub(super) enum Document {
    Cards,
    Tuples,
    Assertions,
}

impl Document {
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Cards => (
                "readiness-cards.yaml",
                "cards",
                messaging!("readiness-cards.schema.json"),
            ),
            Self::Tuples => (
                "profile-compatibility.yaml",
                "tuples",
                messaging!("profile-compatibility.schema.json"),
            ),
            Self::Assertions => (
                "release-profile-assertions.yaml",
                "assertions",
                messaging!("release-profile-assertions.schema.json"),
            ),
        }
    }

    /// The rows, once the schema took the document.
    pub(super) fn read<T: DeserializeOwned>(self, text: &str) -> Result<Vec<T>, RegistryError> {
        let (file, key, schema) = self.names();
        let refuse = |rule: String| RegistryError::Document { file, rule };
        let schema: Value =
            serde_json::from_str(schema).map_err(|error| refuse(error.to_string()))?;
        let validator = jsonschema::draft202012::new(&schema)
            .map_err(|error| refuse(format!("its schema: {error}")))?;
        let options = serde_saphyr::options! {
            duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        };
        let mut document: Value = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| refuse(error.to_string()))?;
        if let Err(error) = validator.validate(&document) {
            return Err(refuse(format!("at {}: {error}", error.instance_path())));
        }
        let rows = document
            .get_mut(key)
            .map(Value::take)
            .unwrap_or(Value::Null);
        serde_json::from_value(rows).map_err(|error| refuse(error.to_string()))
    }
}
