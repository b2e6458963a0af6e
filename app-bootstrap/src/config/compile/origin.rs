//! Which file, and which key below `app.messaging`.
//!
//! Invariant: every refusal of the compiler is made here, so each names file and key.

use super::super::code::StartCode;
use super::super::error::ConfigError;
use super::super::units;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names keys relative to `app.messaging`.
pub(super) struct Origin<'f> {
    pub(super) file: &'f Path,
}

impl Origin<'_> {
    /// A value that breaks a rule of its own.
    pub(super) fn refuse(&self, key: &str, rule: impl Into<String>) -> ConfigError {
        self.refuse_as(StartCode::ValueInvalid, key, rule)
    }

    /// Any other contradiction.
    pub(super) fn refuse_as(
        &self,
        code: StartCode,
        key: &str,
        rule: impl Into<String>,
    ) -> ConfigError {
        ConfigError::new(code, self.file, format!("app.messaging.{key}"), rule)
    }

    /// A key that has no use beside the others that are given.
    pub(super) fn unused(&self, key: &str, rule: impl Into<String>) -> ConfigError {
        self.refuse_as(StartCode::KeyWithoutUse, key, rule)
    }

    pub(super) fn required<T>(&self, key: &str, value: Option<T>) -> Result<T, ConfigError> {
        value.ok_or_else(|| {
            let rule = "is required while expected-state is ACTIVE";
            self.refuse_as(StartCode::KeyMissing, key, rule)
        })
    }

    pub(super) fn duration(&self, key: &str, text: &str) -> Result<Duration, ConfigError> {
        units::duration(text).map_err(|rule| self.refuse(key, rule))
    }

    pub(super) fn count(
        &self,
        key: &str,
        value: i64,
        minimum: i64,
        maximum: i64,
    ) -> Result<u32, ConfigError> {
        units::count(value, minimum, maximum).map_err(|rule| self.refuse(key, rule))
    }

    /// Paths are relative to the profile's folder.
    pub(super) fn path(&self, path: &Path) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(path)
    }

    pub(super) fn at_least(
        &self,
        code: StartCode,
        key: &str,
        value: Duration,
        least: Duration,
        inequality: &str,
    ) -> Result<(), ConfigError> {
        if value >= least {
            Ok(())
        } else {
            Err(self.refuse_as(
                code,
                key,
                format!("is {value:?}, but {inequality} needs at least {least:?}"),
            ))
        }
    }
}
