//! The manifest as YAML spells it.
//!
//! Invariant: unknown, missing and repeated keys are refused, merge keys and aliases have no
//! place, and reading is bounded in bytes, depth and nodes.

use serde::Deserialize;
use serde::de::DeserializeOwned;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct RawManifest {
    pub(super) contract_id: String,
    pub(super) payload_version: i64,
    pub(super) owner_module: String,
    pub(super) logical_destination: String,
    pub(super) aggregate_type: String,
    pub(super) payload_schema: RawSchema,
    pub(super) serializer: String,
    pub(super) ordering: String,
    pub(super) partition_key: String,
    pub(super) maximum_payload_bytes: u32,
    pub(super) maximum_envelope_bytes: u32,
    pub(super) sensitivity: String,
    pub(super) supported_versions: RawVersions,
    pub(super) same_event_requeue_horizon: String,
    pub(super) fields: Vec<RawField>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct RawSchema {
    pub(super) file: String,
    pub(super) id: String,
    pub(super) sha256: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct RawVersions {
    pub(super) producer: Vec<i64>,
    pub(super) consumer: Vec<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct RawField {
    pub(super) path: String,
    pub(super) kind: String,
    #[serde(default)]
    pub(super) values: Option<Vec<String>>,
}

/// Reads one bounded YAML document. The error is the reader's, with line and column.
pub(crate) fn read_yaml<T: DeserializeOwned>(bytes: &[u8], maximum: usize) -> Result<T, String> {
    if bytes.len() > maximum {
        return Err(format!(
            "the file has {} bytes; at most {maximum} are allowed",
            bytes.len()
        ));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("malformed UTF-8 at byte {}", error.valid_up_to()))?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_depth: 8,
            max_nodes: 20_000,
            max_events: 60_000,
            max_aliases: 0,
            max_anchors: 0,
            max_merge_keys: 0,
        },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}
