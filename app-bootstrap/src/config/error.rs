//! The one error of configuration.
//!
//! Invariant: it names the file, the key and the rule with its stable code, and repeats no
//! configured value that could be a secret.

use super::StartCode;
use std::path::{Path, PathBuf};

/// Why a profile cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {key}: {rule} [{code}]", file.display())]
pub struct ConfigError {
    /// The stable code.
    pub code: StartCode,
    /// The file.
    pub file: PathBuf,
    /// The key, dotted, or the line where no key is known.
    pub key: String,
    /// The broken rule, with its bound.
    pub rule: String,
}

impl ConfigError {
    /// Names code, file, key and rule.
    pub fn new(
        code: StartCode,
        file: &Path,
        key: impl Into<String>,
        rule: impl Into<String>,
    ) -> Self {
        Self {
            code,
            file: file.to_owned(),
            key: key.into(),
            rule: rule.into(),
        }
    }
}
