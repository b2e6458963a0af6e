//! The contracts lock: every contract version that ever was, by hash.
//!
//! Invariant: it only grows. Versions may leave the catalog; their entries stay, and no entry ever
//! changes (requirement 004 §§11.3, 14.4).

use crate::manifest::{read_yaml, scalar};
use crate::schema::envelope_schema_digest;
use application_core::contract::{ContractCatalog, ContractKey};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{ContractId, PayloadVersion};
use serde::Deserialize;
use std::collections::BTreeMap;

const FORMAT: &str = "countersign.contracts-lock.v1";
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
    envelope_schema: Sha256Digest,
    contracts: BTreeMap<ContractKey, LockedContract>,
}

/// Why a lock is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Not a lock file.
    #[error("the lock cannot be read: {0}")]
    Syntax(String),
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
        if raw.format != FORMAT {
            return Err(LockError::Syntax(format!("`format` must be `{FORMAT}`")));
        }
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
            envelope_schema: hash(&raw.envelope_schema_sha256)?,
            contracts,
        })
    }

    /// Writes the lock file. Equal locks give equal bytes.
    pub fn to_yaml(&self) -> String {
        let mut text = format!(
            "{HEADER}format: {FORMAT}\nenvelope-schema-sha256: \"{}\"\n",
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

    /// This lock with the catalog's new versions added.
    ///
    /// # Errors
    /// [`LockError`] naming the version whose hash would change.
    pub fn merge(&self, catalog: &ContractCatalog) -> Result<Self, LockError> {
        let mut merged = self.clone();
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

    /// Whether this lock only grew from an earlier one: what continuous integration requires.
    ///
    /// # Errors
    /// [`LockError`] naming the first version that changed or is gone.
    pub fn check_grown_from(&self, previous: &Self) -> Result<(), LockError> {
        if self.envelope_schema != previous.envelope_schema {
            return Err(LockError::EnvelopeSchema);
        }
        for (key, before) in &previous.contracts {
            match self.contracts.get(key) {
                None => return Err(LockError::Dropped(key.clone())),
                Some(now) => unchanged(key, *before, *now)?,
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
    if locked.payload_schema != actual.payload_schema {
        Err(LockError::SchemaChanged(key.clone()))
    } else if locked.descriptor != actual.descriptor {
        Err(LockError::DescriptorChanged(key.clone()))
    } else {
        Ok(())
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
