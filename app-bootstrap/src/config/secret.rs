//! References to secrets; a profile never holds one itself.
//!
//! Invariant: the only scheme is `secret://file/<absolute path>`; a literal is refused, what a
//! reference leads to is a [`SecretString`], and no error repeats either (requirement 004 §21.7).

use secrecy::SecretString;
use std::path::PathBuf;

/// A secret file has at most this many bytes.
const MAXIMUM_BYTES: u64 = 16 * 1024;

/// Why a secret could not be resolved.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Not a reference at all, or of an unknown scheme.
    #[error("is not a secret reference; write secret://file/<absolute path>")]
    NotAReference,
    /// The file cannot be read.
    #[error("the secret's file cannot be read ({0})")]
    Unreadable(std::io::ErrorKind),
    /// The file is empty, too long or not text.
    #[error("the secret's file holds no text of 1 to {MAXIMUM_BYTES} bytes")]
    NoText,
}

/// Where a secret is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretReference {
    path: PathBuf,
}

impl SecretReference {
    /// Reads `secret://file/<absolute path>`.
    ///
    /// # Errors
    /// [`SecretError::NotAReference`].
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let path = text
            .strip_prefix("secret://file")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute() && path.file_name().is_some())
            .ok_or(SecretError::NotAReference)?;
        Ok(Self { path })
    }

    /// Reads the secret, without a trailing line break.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn resolve(&self) -> Result<SecretString, SecretError> {
        let unreadable = |error: std::io::Error| SecretError::Unreadable(error.kind());
        let metadata = std::fs::metadata(&self.path).map_err(unreadable)?;
        if !metadata.is_file() || metadata.len() > MAXIMUM_BYTES {
            return Err(SecretError::NoText);
        }
        let text = std::fs::read_to_string(&self.path).map_err(unreadable)?;
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            return Err(SecretError::NoText);
        }
        Ok(SecretString::from(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_file_references_pass() {
        assert!(SecretReference::parse("secret://file/etc/countersign/url").is_ok());
        for bad in [
            "",
            "postgres://user:hunter2@db/x",
            "secret://fileetc",
            "secret://file/",
            "secret://env/X",
            "secret://file",
        ] {
            let error = SecretReference::parse(bad).expect_err(bad);
            assert!(!error.to_string().contains("hunter2"));
        }
    }
}
