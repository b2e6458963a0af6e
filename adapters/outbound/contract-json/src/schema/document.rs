//! One checked schema document.
//!
//! Invariant: a value of this type is pinned by its hash, absolute by its `$id`, of Draft 2020-12,
//! valid under the meta-schema, and made of known keywords alone.

use super::error::SchemaError;
use super::references;
use super::validator::{Judge, judge};
use crate::admission::{Admission, MAXIMUM_SCHEMA_BYTES};
use crate::json::{JsonRefusal, read_text, read_value};
use application_core::contract::SchemaResource;
use domain_core::hashing::Sha256Digest;
use serde_json::Value;
use shared_contract::{ENVELOPE_V1_SCHEMA, ENVELOPE_V1_SCHEMA_ID, ENVELOPE_V1_SCHEMA_SHA256};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A schema document that may be compiled.
pub(crate) struct SchemaDocument {
    value: Value,
}

impl SchemaDocument {
    /// Checks a payload schema against what its contract says about it.
    pub(crate) fn payload(bytes: &[u8], resource: &SchemaResource) -> Result<Self, SchemaError> {
        let document = Self::read(bytes, &resource.id, resource.sha256)?;
        if resource.id == ENVELOPE_V1_SCHEMA_ID {
            return Err(SchemaError::Id(
                "this is the envelope schema's own".to_owned(),
            ));
        }
        Ok(document)
    }

    /// The envelope schema that is compiled in.
    ///
    /// # Panics
    /// When the build's own schema breaks the rules for schemas; a test holds that it does not.
    pub(crate) fn envelope() -> Self {
        Self::read(
            ENVELOPE_V1_SCHEMA.as_bytes(),
            ENVELOPE_V1_SCHEMA_ID,
            envelope_schema_digest(),
        )
        .expect("the envelope schema is checked in and pinned")
    }

    /// The parsed document.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// Compiles the validator. `envelope` is what references may lead to.
    pub(crate) fn judge(&self, envelope: &SchemaDocument) -> Result<Judge, SchemaError> {
        judge(self.value(), envelope.value())
    }

    fn read(bytes: &[u8], id: &str, declared: Sha256Digest) -> Result<Self, SchemaError> {
        if bytes.len() > MAXIMUM_SCHEMA_BYTES {
            return Err(SchemaError::TooLarge {
                actual: bytes.len(),
                maximum: MAXIMUM_SCHEMA_BYTES,
            });
        }
        let actual = Sha256Digest::of(bytes);
        if actual != declared {
            return Err(SchemaError::Hash { declared, actual });
        }
        let value = read_text(bytes)
            .and_then(|text| read_value(text, &Admission::SCHEMA))
            .map_err(|JsonRefusal { offset, rule }| SchemaError::Json { offset, rule })?;
        if value.get("$schema").and_then(Value::as_str) != Some(DIALECT) {
            return Err(SchemaError::Dialect);
        }
        check_id(value.get("$id"), id)?;
        if let Err(error) = jsonschema::draft202012::meta::validate(&value) {
            return Err(SchemaError::MetaSchema {
                pointer: error.instance_path().as_str().to_owned(),
                keyword: error.kind().keyword().to_owned(),
            });
        }
        references::check(&value)?;
        Ok(Self { value })
    }
}

/// SHA-256 of the envelope schema.
pub(crate) fn envelope_schema_digest() -> Sha256Digest {
    Sha256Digest::from_hex(ENVELOPE_V1_SCHEMA_SHA256).expect("a valid constant")
}

fn check_id(actual: Option<&Value>, declared: &str) -> Result<(), SchemaError> {
    if actual.and_then(Value::as_str) != Some(declared) {
        return Err(SchemaError::Id(
            "is not the one that the contract names".to_owned(),
        ));
    }
    let absolute = jsonschema::uri::from_str(declared)
        .is_ok_and(|uri| uri.authority().is_some() && uri.fragment().is_none());
    let visible = declared.bytes().all(|byte| matches!(byte, 0x21..=0x7E));
    if absolute && visible && declared.len() <= 512 && declared.starts_with("https://") {
        Ok(())
    } else {
        Err(SchemaError::Id(
            "must be an absolute https URI of at most 512 bytes, without fragment".to_owned(),
        ))
    }
}
