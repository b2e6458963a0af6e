//! Contracts as files: one YAML manifest a contract version, with its schema beside it.
//!
//! Invariant: a manifest and a contribution state the same things, every field of requirement 004
//! §13.1, and what [`Manifest::to_yaml`] writes is what a repository checks in, byte for byte.

mod error;
mod horizon;
mod load;
mod raw;
mod render;

pub use error::ManifestError;
pub use load::{ManifestContract, load_manifest, load_manifests};

pub(crate) use raw::read_yaml;
pub(crate) use render::scalar;

use application_core::contract::{
    ContractDescriptor, FieldKind, OrderingRequirement, PartitionKeyPolicy, PayloadField,
    SchemaResource, Sensitivity, VersionMatrix,
};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{
    AggregateType, ContractId, IdentityError, LogicalDestinationId, PayloadVersion,
};
use raw::{RawField, RawManifest};

/// Bytes of one manifest.
pub(crate) const MAXIMUM_MANIFEST_BYTES: usize = 65_536;

/// One manifest: a descriptor and the file that holds its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// What the contract states.
    pub descriptor: ContractDescriptor,
    /// The schema file, relative to the manifest's own folder.
    pub schema_file: String,
}

impl Manifest {
    /// Reads one manifest. `origin` names it in errors.
    ///
    /// # Errors
    /// [`ManifestError`] with origin, key and rule.
    pub fn from_yaml(bytes: &[u8], origin: &str) -> Result<Self, ManifestError> {
        let raw: RawManifest = read_yaml(bytes, MAXIMUM_MANIFEST_BYTES)
            .map_err(|rule| ManifestError::syntax(origin, rule))?;
        let manifest = raw.validate(origin)?;
        manifest
            .descriptor
            .check()
            .map_err(|source| ManifestError::Descriptor {
                origin: origin.to_owned(),
                source,
            })?;
        Ok(manifest)
    }

    /// Writes the manifest of a descriptor. Equal descriptors give equal bytes.
    ///
    /// # Errors
    /// [`ManifestError::Field`] when the requeue horizon is not a whole number of seconds.
    pub fn to_yaml(
        descriptor: &ContractDescriptor,
        schema_file: &str,
    ) -> Result<String, ManifestError> {
        render::manifest(descriptor, schema_file)
    }
}

impl RawManifest {
    fn validate(self, origin: &str) -> Result<Manifest, ManifestError> {
        let field = |key: &str, rule: String| ManifestError::Field {
            origin: origin.to_owned(),
            key: key.to_owned(),
            rule,
        };
        let identity =
            |key: &'static str| move |error: IdentityError| field(key, error.to_string());
        let versions = |key: &'static str, numbers: Vec<i64>| {
            numbers
                .into_iter()
                .map(|number| PayloadVersion::new(number).map_err(identity(key)))
                .collect::<Result<Vec<_>, _>>()
        };
        let sha256 = Sha256Digest::from_hex(&self.payload_schema.sha256)
            .map_err(|error| field("payload-schema.sha256", error.to_string()))?;
        let requeue_horizon = horizon::parse(&self.same_event_requeue_horizon)
            .ok_or_else(|| field("same-event-requeue-horizon", horizon::RULE.to_owned()))?;
        let fields = self
            .fields
            .into_iter()
            .map(|raw| payload_field(raw).map_err(|rule| field("fields", rule)))
            .collect::<Result<_, _>>()?;
        let descriptor = ContractDescriptor {
            contract_id: ContractId::parse(self.contract_id).map_err(identity("contract-id"))?,
            payload_version: PayloadVersion::new(self.payload_version)
                .map_err(identity("payload-version"))?,
            owner_module: self.owner_module,
            destination: LogicalDestinationId::parse(self.logical_destination)
                .map_err(identity("logical-destination"))?,
            aggregate_type: AggregateType::parse(self.aggregate_type)
                .map_err(identity("aggregate-type"))?,
            payload_schema: SchemaResource {
                id: self.payload_schema.id,
                sha256,
            },
            serializer: self.serializer,
            ordering: [
                OrderingRequirement::AggregateSequence,
                OrderingRequirement::None,
            ]
            .into_iter()
            .find(|ordering| ordering.as_str() == self.ordering)
            .ok_or_else(|| field("ordering", "is `aggregate-sequence` or `none`".to_owned()))?,
            partition_key: Some(PartitionKeyPolicy::AggregateScope)
                .filter(|policy| policy.as_str() == self.partition_key)
                .ok_or_else(|| field("partition-key", "is `aggregate-scope.v1`".to_owned()))?,
            maximum_payload_bytes: self.maximum_payload_bytes,
            maximum_envelope_bytes: self.maximum_envelope_bytes,
            sensitivity: [
                Sensitivity::Public,
                Sensitivity::Internal,
                Sensitivity::Confidential,
                Sensitivity::Restricted,
            ]
            .into_iter()
            .find(|sensitivity| sensitivity.as_str() == self.sensitivity)
            .ok_or_else(|| {
                field(
                    "sensitivity",
                    "is `public`, `internal`, `confidential` or `restricted`".to_owned(),
                )
            })?,
            versions: VersionMatrix {
                producer: versions(
                    "supported-versions.producer",
                    self.supported_versions.producer,
                )?,
                consumer: versions(
                    "supported-versions.consumer",
                    self.supported_versions.consumer,
                )?,
            },
            requeue_horizon,
            fields,
        };
        Ok(Manifest {
            descriptor,
            schema_file: self.payload_schema.file,
        })
    }
}

fn payload_field(raw: RawField) -> Result<PayloadField, String> {
    let kind = match (raw.kind.as_str(), raw.values) {
        ("enum", Some(values)) => FieldKind::Enum(values),
        ("enum", None) => return Err(format!("`{}`: an enum lists its values", raw.path)),
        (_, Some(_)) => return Err(format!("`{}`: only an enum has values", raw.path)),
        ("string", None) => FieldKind::String,
        ("boolean", None) => FieldKind::Boolean,
        ("integer", None) => FieldKind::Integer,
        ("record", None) => FieldKind::Record,
        ("list", None) => FieldKind::List,
        (_, None) => {
            return Err(format!(
                "`{}`: kind is `string`, `boolean`, `integer`, `enum`, `record` or `list`",
                raw.path
            ));
        }
    };
    Ok(PayloadField {
        path: raw.path,
        kind,
    })
}
