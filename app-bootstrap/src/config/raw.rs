//! The profile file as written: names of requirement 004 §21.1, every key known, nothing checked.
//!
//! Invariant: `deny_unknown_fields` everywhere; a field exists only if it does something.

use super::digest::settings_digest;
use super::{ConfigError, StartCode};
use domain_core::hashing::Sha256Digest;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// A profile has at most this many bytes.
const MAXIMUM_BYTES: u64 = 256 * 1024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawFile {
    pub(super) app: RawApp,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawApp {
    pub(super) messaging: RawMessaging,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawMessaging {
    pub(super) environment: String,
    pub(super) expected_state: String,
    /// Development only: a file that the local services write.
    pub(super) endpoints_file: Option<PathBuf>,
    /// Where a running process serves its descriptor.
    pub(super) descriptor_socket: Option<PathBuf>,
    pub(super) contracts: Option<RawContracts>,
    pub(super) publication: Option<RawPublication>,
    pub(super) outbox: Option<RawOutbox>,
    pub(super) store: Option<RawStore>,
    pub(super) journal: Option<RawJournal>,
    pub(super) kafka: Option<RawKafka>,
    #[serde(default)]
    pub(super) destinations: BTreeMap<String, RawDestination>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawContracts {
    pub(super) manifests: Vec<PathBuf>,
    pub(super) lock_file: PathBuf,
    #[serde(default)]
    pub(super) overrides: Vec<RawOverride>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawOverride {
    pub(super) contract_id: String,
    pub(super) payload_version: i64,
    pub(super) maximum_payload_bytes: Option<u32>,
    pub(super) maximum_envelope_bytes: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawPublication {
    pub(super) semantic_profile: String,
    pub(super) producer_profile: String,
    pub(super) serialization_profile: String,
    pub(super) topic_profile: String,
    pub(super) ordering_profile: String,
    pub(super) compression_profile: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawOutbox {
    pub(super) dispatch_mode: String,
    pub(super) polling_profile: String,
    pub(super) claim_profile: String,
    pub(super) transaction_resource_profile: String,
    pub(super) transaction_resource_id: Option<String>,
    pub(super) operator_control_profile: String,
    pub(super) claim_lease: String,
    pub(super) maximum_relay_attempts: i64,
    pub(super) maximum_automatic_publication_age: String,
    pub(super) retry_minimum_delay: String,
    pub(super) retry_maximum_delay: String,
    pub(super) poll_interval: String,
    #[serde(default)]
    pub(super) retry_overrides: Vec<RawRetryOverride>,
    /// The window claim card's bounds; the other cards have none.
    pub(super) window: Option<RawWindow>,
    pub(super) capacity: Option<RawCapacity>,
    pub(super) retention: Option<RawRetention>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawRetryOverride {
    pub(super) failure_class: String,
    pub(super) minimum_delay: String,
    pub(super) maximum_delay: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawWindow {
    pub(super) workers: i64,
    pub(super) records: i64,
    pub(super) enqueue_budget: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawCapacity {
    pub(super) maximum_unresolved: i64,
    pub(super) maximum_oldest_age: String,
    pub(super) maximum_growth_per_second: i64,
    pub(super) maximum_store_bytes: i64,
    pub(super) sample_interval: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawRetention {
    pub(super) audit_retention: String,
    pub(super) replay_horizon: String,
    pub(super) batch_events: i64,
    pub(super) interval: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawStore {
    pub(super) path: Option<PathBuf>,
    pub(super) url: Option<String>,
    pub(super) maximum_connections: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawJournal {
    pub(super) path: PathBuf,
    pub(super) security_profile: String,
    pub(super) admission_timeout: String,
    pub(super) publish_timeout: String,
    pub(super) application_attempt_budget: String,
    pub(super) maximum_admitted_records: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawKafka {
    pub(super) cluster_id: String,
    pub(super) security_profile: String,
    pub(super) bootstrap_servers: Option<Vec<String>>,
    pub(super) topic_allow_list: Vec<String>,
    pub(super) producer: RawKafkaProducer,
    /// References to what the security profile needs; the plaintext one needs nothing.
    pub(super) security: Option<RawKafkaSecurity>,
    /// Without it a generation is replaced on request and after a fault alone.
    pub(super) rotation: Option<RawRotation>,
}

/// Its `Debug` shows nothing: what stands here may be a secret that should not.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawKafkaSecurity {
    pub(super) username: String,
    pub(super) password: String,
    pub(super) ca: String,
}

impl std::fmt::Debug for RawKafkaSecurity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawKafkaSecurity").finish_non_exhaustive()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawRotation {
    pub(super) secret_poll_interval: String,
    pub(super) drain_timeout: String,
    pub(super) previous_material_limit: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawKafkaProducer {
    pub(super) admission_timeout: String,
    pub(super) application_attempt_budget: String,
    pub(super) maximum_admitted_records: i64,
    pub(super) delivery_timeout: String,
    pub(super) request_timeout: String,
    pub(super) max_block_timeout: String,
    pub(super) linger: String,
    pub(super) buffer_memory_bytes: i64,
    pub(super) maximum_request_bytes: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawDestination {
    pub(super) binding_revision: String,
    pub(super) topic: Option<String>,
    /// Whether the topic's name is shown by an alias.
    #[serde(default)]
    pub(super) sensitive: bool,
    pub(super) expected_partitions: Option<i64>,
    pub(super) minimum_replication_factor: Option<i64>,
    pub(super) minimum_in_sync_replicas: Option<i64>,
    pub(super) topic_maximum_bytes: Option<i64>,
    pub(super) maximum_record_bytes: i64,
    pub(super) maximum_envelope_bytes: i64,
    /// Revisions that stored events may still name: sent to, never appended to. They have none of
    /// their own.
    #[serde(default)]
    pub(super) earlier_revisions: Vec<RawDestination>,
}

/// What the local services wrote about themselves.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawEndpoints {
    pub(super) kafka: RawKafkaEndpoint,
    pub(super) database: RawDatabaseEndpoint,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawKafkaEndpoint {
    pub(super) bootstrap_servers: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawDatabaseEndpoint {
    pub(super) url: String,
}

/// Reads a profile, and the digest of its settings.
pub(super) fn read(path: &Path) -> Result<(RawFile, Sha256Digest), ConfigError> {
    let (raw, text) = read_toml(path, "write a profile, or name another with --profile")?;
    let digest = settings_digest(&text).map_err(|error| {
        let line = line_of(&text, &error);
        ConfigError::new(StartCode::Syntax, path, line, syntax_rule(&error))
    })?;
    Ok((raw, digest))
}

/// Reads the endpoints of local services.
pub(super) fn read_endpoints(path: &Path) -> Result<RawEndpoints, ConfigError> {
    read_toml(path, "start them with `cargo xtask services up`").map(|(endpoints, _)| endpoints)
}

fn read_toml<T: serde::de::DeserializeOwned>(
    path: &Path,
    hint: &str,
) -> Result<(T, String), ConfigError> {
    let refuse = |rule: String| ConfigError::new(StartCode::FileUnreadable, path, "(file)", rule);
    let unreadable =
        |error: std::io::Error| refuse(format!("cannot be read ({}); {hint}", error.kind()));
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(refuse(format!("is not a regular file; {hint}")));
    }
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAXIMUM_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| refuse(format!("is not readable text ({})", error.kind())))?;
    if text.len() as u64 > MAXIMUM_BYTES {
        return Err(refuse(format!(
            "is too long; at most {MAXIMUM_BYTES} bytes are allowed"
        )));
    }
    if text.trim().is_empty() {
        return Err(ConfigError::new(
            StartCode::Syntax,
            path,
            "(file)",
            "is blank; a profile states everything",
        ));
    }
    let deserializer = toml::Deserializer::parse(&text).map_err(|error| {
        let line = line_of(&text, &error);
        ConfigError::new(StartCode::Syntax, path, line, syntax_rule(&error))
    })?;
    let read = serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let key = match error.path().to_string() {
            dotted if dotted == "." => line_of(&text, error.inner()),
            dotted => format!("{dotted} ({})", line_of(&text, error.inner())),
        };
        ConfigError::new(code_of(error.inner()), path, key, value_rule(error.inner()))
    })?;
    Ok((read, text))
}

/// Serde's own three refusals; it has no other way to tell them.
fn code_of(error: &toml::de::Error) -> StartCode {
    let message = error.message();
    if message.starts_with("unknown field") {
        StartCode::UnknownKey
    } else if message.starts_with("missing field") {
        StartCode::KeyMissing
    } else {
        StartCode::ValueInvalid
    }
}

/// `line N`, from the error's byte span.
fn line_of(text: &str, error: &toml::de::Error) -> String {
    let offset = error.span().map_or(0, |span| span.start).min(text.len());
    format!(
        "line {}",
        text.as_bytes()[..offset]
            .iter()
            .filter(|b| **b == b'\n')
            .count()
            + 1
    )
}

/// The parser's own words, which quote no value.
fn syntax_rule(error: &toml::de::Error) -> String {
    error.message().to_owned()
}

/// Serde's words, without the value that a type error quotes: it could be a secret put under the
/// wrong key.
fn value_rule(error: &toml::de::Error) -> String {
    let message = error.message();
    match message.strip_prefix("invalid type: ") {
        Some(rest) => {
            let found = rest.split_whitespace().next().unwrap_or("another type");
            let expected = rest
                .rsplit_once(", expected ")
                .map_or("another type", |(_, e)| e);
            format!("has the type {found}; expected {expected}")
        }
        None => message.to_owned(),
    }
}
