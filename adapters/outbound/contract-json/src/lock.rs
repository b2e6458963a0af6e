//! The contracts lock: every contract version that ever was, by hash.
//!
//! Invariant: it only grows. Versions may leave the catalog; their entries stay, and no entry ever
//! changes (requirement 004 §§11.3, 14.4). A newer format may hash what a descriptor states in
//! another form; payload schemas are compared across formats all the same.

use crate::manifest::{read_yaml, scalar};
use crate::schema::envelope_schema_digest;
use application_core::contract::{ContractCatalog, ContractKey};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{ContractId, PayloadVersion};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Forms of a lock file. They differ in how `descriptor-sha256` is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Format {
    /// `countersign.contracts-lock.v1`: an enumeration's values could read as the next field.
    V1,
    /// `countersign.contracts-lock.v2`: every list is counted.
    V2,
}

impl Format {
    const CURRENT: Self = Self::V2;

    fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "countersign.contracts-lock.v1",
            Self::V2 => "countersign.contracts-lock.v2",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::V1, Self::V2]
            .into_iter()
            .find(|format| format.as_str() == name)
    }
}

const HEADER: &str = "# Every contract version that ever was. Entries are added, never changed or \
                      dropped.\n";
/// Bytes of a lock file.
const MAXIMUM_BYTES: usize = 4 << 20;

/// The two hashes of one contract version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockedContract {
    /// SHA-256 of the payload schema document.
    pub payload_schema: Sha256Digest,
    /// The hash over everything the descriptor states.
    pub descriptor: Sha256Digest,
}

/// The whole lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractsLock {
    format: Format,
    envelope_schema: Sha256Digest,
    contracts: BTreeMap<ContractKey, LockedContract>,
}

/// Why a lock is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Not a lock file.
    #[error("the lock cannot be read: {0}")]
    Syntax(String),
    /// The lock is of an earlier format than what it is held against.
    #[error("the lock is of an earlier format; write it anew with the catalog that it locks")]
    EarlierFormat,
    /// The envelope schema is not the locked one.
    #[error(
        "the envelope schema of version 1 differs from the locked one; a new envelope is a new version"
    )]
    EnvelopeSchema,
    /// A version's schema is not the locked one.
    #[error(
        "contract {0}: the payload schema differs from the locked one; a new schema is a new version"
    )]
    SchemaChanged(ContractKey),
    /// A version's descriptor is not the locked one.
    #[error(
        "contract {0}: what the contract states differs from what is locked; a change is a new version"
    )]
    DescriptorChanged(ContractKey),
    /// A version that an earlier lock had is gone.
    #[error("contract {0} was locked before and is missing now; the lock only grows")]
    Dropped(ContractKey),
    /// A version of the catalog is not locked.
    #[error("contract {0} is not in the lock; add it before it is used")]
    NotLocked(ContractKey),
}

impl ContractsLock {
    /// A lock without contracts.
    pub fn empty() -> Self {
        Self {
            format: Format::CURRENT,
            envelope_schema: envelope_schema_digest(),
            contracts: BTreeMap::new(),
        }
    }

    /// Reads a lock file.
    ///
    /// # Errors
    /// [`LockError::Syntax`].
    pub fn from_yaml(bytes: &[u8]) -> Result<Self, LockError> {
        let raw: RawLock = read_yaml(bytes, MAXIMUM_BYTES).map_err(LockError::Syntax)?;
        let Some(format) = Format::from_name(&raw.format) else {
            let current = Format::CURRENT.as_str();
            return Err(LockError::Syntax(format!("`format` must be `{current}`")));
        };
        let hash = |text: &str| {
            Sha256Digest::from_hex(text).map_err(|error| LockError::Syntax(error.to_string()))
        };
        let identity =
            |error: domain_core::identity::IdentityError| LockError::Syntax(error.to_string());
        let mut contracts = BTreeMap::new();
        for one in raw.contracts {
            let key = ContractKey {
                contract_id: ContractId::parse(one.contract_id).map_err(identity)?,
                payload_version: PayloadVersion::new(one.payload_version).map_err(identity)?,
            };
            let ascending = contracts
                .last_key_value()
                .is_none_or(|(last, _)| *last < key);
            if !ascending {
                return Err(LockError::Syntax(format!(
                    "entries are sorted by contract and version, each once; {key} is out of place"
                )));
            }
            let locked = LockedContract {
                payload_schema: hash(&one.payload_schema_sha256)?,
                descriptor: hash(&one.descriptor_sha256)?,
            };
            contracts.insert(key, locked);
        }
        Ok(Self {
            format,
            envelope_schema: hash(&raw.envelope_schema_sha256)?,
            contracts,
        })
    }

    /// Writes the lock file. Equal locks give equal bytes.
    pub fn to_yaml(&self) -> String {
        let mut text = format!(
            "{HEADER}format: {}\nenvelope-schema-sha256: \"{}\"\n",
            self.format.as_str(),
            self.envelope_schema.to_hex()
        );
        text.push_str(if self.contracts.is_empty() {
            "contracts: []\n"
        } else {
            "contracts:\n"
        });
        for (key, locked) in &self.contracts {
            text.push_str(&format!(
                "  - contract-id: {}\n    payload-version: {}\n    payload-schema-sha256: \
                 \"{}\"\n    descriptor-sha256: \"{}\"\n",
                scalar(key.contract_id.as_str()),
                key.payload_version,
                locked.payload_schema.to_hex(),
                locked.descriptor.to_hex()
            ));
        }
        text
    }

    /// The locked versions, by contract and version.
    pub fn iter(&self) -> impl Iterator<Item = (&ContractKey, &LockedContract)> {
        self.contracts.iter()
    }

    /// This lock with the catalog's new versions added. A lock of an earlier format is brought to
    /// the current one, for which the catalog must have every version of it.
    ///
    /// # Errors
    /// [`LockError`] naming the version whose hash would change.
    pub fn merge(&self, catalog: &ContractCatalog) -> Result<Self, LockError> {
        let mut merged = self.clone();
        if self.format != Format::CURRENT {
            merged = Self {
                format: Format::CURRENT,
                contracts: entries(catalog).collect(),
                ..merged
            };
            merged.check_grown_from(self)?;
        }
        for (key, locked) in entries(catalog) {
            merged.contracts.entry(key).or_insert(locked);
        }
        merged.check(catalog)?;
        Ok(merged)
    }

    /// Whether the whole catalog is locked as it is: what start-up requires.
    ///
    /// # Errors
    /// [`LockError`] naming the first version that is not.
    pub fn check(&self, catalog: &ContractCatalog) -> Result<(), LockError> {
        if self.format != Format::CURRENT {
            return Err(LockError::EarlierFormat);
        }
        if self.envelope_schema != envelope_schema_digest() {
            return Err(LockError::EnvelopeSchema);
        }
        for (key, actual) in entries(catalog) {
            match self.contracts.get(&key) {
                None => return Err(LockError::NotLocked(key)),
                Some(locked) => unchanged(&key, *locked, actual)?,
            }
        }
        Ok(())
    }

    /// Whether this lock only grew from an earlier one: what continuous integration requires. From
    /// an earlier format on, descriptor hashes are not comparable and payload schemas alone are
    /// compared.
    ///
    /// # Errors
    /// [`LockError`] naming the first version that changed or is gone.
    pub fn check_grown_from(&self, previous: &Self) -> Result<(), LockError> {
        if self.format < previous.format {
            return Err(LockError::EarlierFormat);
        }
        if self.envelope_schema != previous.envelope_schema {
            return Err(LockError::EnvelopeSchema);
        }
        for (key, before) in &previous.contracts {
            match self.contracts.get(key) {
                None => return Err(LockError::Dropped(key.clone())),
                Some(now) if self.format == previous.format => unchanged(key, *before, *now)?,
                Some(now) => same_schema(key, *before, *now)?,
            }
        }
        Ok(())
    }
}

fn entries(catalog: &ContractCatalog) -> impl Iterator<Item = (ContractKey, LockedContract)> {
    catalog.iter().map(|descriptor| {
        let locked = LockedContract {
            payload_schema: descriptor.payload_schema.sha256,
            descriptor: descriptor.digest(),
        };
        (descriptor.key(), locked)
    })
}

fn unchanged(
    key: &ContractKey,
    locked: LockedContract,
    actual: LockedContract,
) -> Result<(), LockError> {
    same_schema(key, locked, actual)?;
    if locked.descriptor == actual.descriptor {
        Ok(())
    } else {
        Err(LockError::DescriptorChanged(key.clone()))
    }
}

fn same_schema(
    key: &ContractKey,
    locked: LockedContract,
    actual: LockedContract,
) -> Result<(), LockError> {
    if locked.payload_schema == actual.payload_schema {
        Ok(())
    } else {
        Err(LockError::SchemaChanged(key.clone()))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawLock {
    format: String,
    envelope_schema_sha256: String,
    contracts: Vec<RawContract>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawContract {
    contract_id: String,
    payload_version: i64,
    payload_schema_sha256: String,
    descriptor_sha256: String,
}
