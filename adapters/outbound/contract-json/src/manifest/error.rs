//! Why a manifest is not a contract.
//!
//! Invariant: every variant names the file.

use application_core::contract::DescriptorError;
use std::path::PathBuf;

/// Why a manifest, or the schema it names, is refused.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A file or folder that cannot be read.
    #[error("{} cannot be read", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A place in the folder that may not be used.
    #[error("{}: {rule}", path.display())]
    Place {
        /// The file or folder.
        path: PathBuf,
        /// The broken rule, with its bound.
        rule: String,
    },
    /// Not YAML of the manifest's shape: syntax, an unknown, missing or repeated key, a type.
    #[error("{origin}: {rule}")]
    Syntax {
        /// The manifest.
        origin: String,
        /// What the reader said, with line and column.
        rule: String,
    },
    /// A key whose value is not allowed.
    #[error("{origin}: `{key}`: {rule}")]
    Field {
        /// The manifest.
        origin: String,
        /// The key.
        key: String,
        /// The broken rule.
        rule: String,
    },
    /// A descriptor that contradicts itself.
    #[error("{origin} contradicts itself")]
    Descriptor {
        /// The manifest.
        origin: String,
        /// Why.
        #[source]
        source: DescriptorError,
    },
}

impl ManifestError {
    pub(crate) fn syntax(origin: &str, rule: String) -> Self {
        Self::Syntax {
            origin: origin.to_owned(),
            rule,
        }
    }
}
