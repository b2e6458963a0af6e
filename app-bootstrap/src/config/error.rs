//! The one error of configuration.
//!
//! Invariant: it names the file, the key and the rule, and repeats no configured value that could
//! be a secret.

use std::path::{Path, PathBuf};

/// Why a profile cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {key}: {rule}", file.display())]
pub struct ConfigError {
    /// The file.
    pub file: PathBuf,
    /// The key, dotted, or the line where no key is known.
    pub key: String,
    /// The broken rule, with its bound.
    pub rule: String,
}

impl ConfigError {
    /// Names file, key and rule.
    pub fn new(file: &Path, key: impl Into<String>, rule: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            key: key.into(),
            rule: rule.into(),
        }
    }
}
