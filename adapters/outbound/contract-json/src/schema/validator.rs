//! The compiled validator and the translation of its findings.
//!
//! Invariant: compiled once, offline, with `format` asserted and patterns on the linear-time
//! engine. A finding carries a place and a rule of the schema, never a value of the instance.

use super::error::SchemaError;
use crate::json::push_token;
use crate::payload::Refusal;
use application_core::ports::RejectionRule;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, Registry, ValidationError, Validator};
use serde_json::Value;
use shared_contract::ENVELOPE_V1_SCHEMA_ID;

/// Bytes that one compiled pattern may take.
const PATTERN_BYTES: usize = 1 << 20;

/// The options of every validator of this crate.
pub fn validation_options<'r>() -> jsonschema::ValidationOptions<'r> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .offline()
        .should_validate_formats(true)
        .should_ignore_unknown_formats(false)
        .with_pattern_options(
            PatternOptions::regex()
                .size_limit(PATTERN_BYTES)
                .dfa_size_limit(PATTERN_BYTES),
        )
}

/// A compiled schema.
pub(crate) struct Judge(Validator);

impl std::fmt::Debug for Judge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Judge")
    }
}

/// Compiles `schema`; `envelope` is the only other document that it can refer to.
pub(super) fn judge(schema: &Value, envelope: &Value) -> Result<Judge, SchemaError> {
    let registry = Registry::new()
        .retriever(Nowhere)
        .add(ENVELOPE_V1_SCHEMA_ID, envelope)
        .and_then(jsonschema::RegistryBuilder::prepare)
        .map_err(|_| SchemaError::Compile {
            pointer: String::new(),
            keyword: "$ref".to_owned(),
        })?;
    validation_options()
        .with_registry(&registry)
        .build(schema)
        .map(Judge)
        .map_err(|error| SchemaError::Compile {
            pointer: error.instance_path().as_str().to_owned(),
            keyword: error.kind().keyword().to_owned(),
        })
}

impl Judge {
    /// The first rule that the instance breaks.
    pub(crate) fn judge(&self, instance: &Value) -> Result<(), Refusal> {
        self.0.validate(instance).map_err(|error| finding(&error))
    }
}

/// Resolves nothing.
struct Nowhere;

impl jsonschema::Retrieve for Nowhere {
    fn retrieve(
        &self,
        _: &jsonschema::Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("no schema is fetched".into())
    }
}

fn finding(error: &ValidationError<'_>) -> Refusal {
    let mut pointer = error.instance_path().as_str().to_owned();
    let bound = |bound: String| RejectionRule::Bound {
        rule: error.kind().keyword().to_owned(),
        bound,
    };
    let shape = |rule: &str| RejectionRule::Shape(rule.to_owned());
    let rule = match error.kind() {
        ValidationErrorKind::Required { property } => {
            // The name comes from the schema.
            if let Some(name) = property.as_str() {
                push_token(&mut pointer, name);
            }
            shape("required field is missing")
        }
        ValidationErrorKind::AdditionalProperties { .. }
        | ValidationErrorKind::UnevaluatedProperties { .. } => {
            shape("a member is not allowed here")
        }
        ValidationErrorKind::Type { kind } => shape(&format!("must be of type {}", types(kind))),
        ValidationErrorKind::Enum { .. } => shape("must be one of the declared values"),
        ValidationErrorKind::Constant { .. } => shape("must be the declared constant"),
        ValidationErrorKind::UniqueItems => shape("items must be unique"),
        ValidationErrorKind::Pattern { pattern } => bound(pattern.clone()),
        ValidationErrorKind::Format { format } => bound(format.clone()),
        ValidationErrorKind::MaxLength { limit }
        | ValidationErrorKind::MinLength { limit }
        | ValidationErrorKind::MaxItems { limit }
        | ValidationErrorKind::MinItems { limit }
        | ValidationErrorKind::MaxProperties { limit }
        | ValidationErrorKind::MinProperties { limit } => bound(limit.to_string()),
        ValidationErrorKind::Maximum { limit }
        | ValidationErrorKind::Minimum { limit }
        | ValidationErrorKind::ExclusiveMaximum { limit }
        | ValidationErrorKind::ExclusiveMinimum { limit } => bound(limit.to_string()),
        other => shape(&format!(
            "the schema's `{}` is not satisfied",
            other.keyword()
        )),
    };
    Refusal { pointer, rule }
}

fn types(kind: &jsonschema::error::TypeKind) -> String {
    match kind {
        jsonschema::error::TypeKind::Single(one) => one.to_string(),
        jsonschema::error::TypeKind::Multiple(_) => "one of the declared ones".to_owned(),
    }
}
