//! Which keywords a schema uses and where its references lead.
//!
//! Invariant: only keywords of the Draft 2020-12 vocabularies that contracts may use; every `$ref`
//! leads to a schema of the same document or of the envelope schema; following references ends
//! after a bounded number of steps. A misspelt keyword is refused here, since a validator would
//! take it for an annotation.

use super::error::SchemaError;
use crate::json::below;
use serde_json::Value;
use shared_contract::ENVELOPE_V1_SCHEMA_ID;
use std::collections::{BTreeMap, BTreeSet};

/// Steps, through subschemas and references together, from the root to the farthest schema.
const MAXIMUM_STEPS: usize = 64;
/// Schemas when every reference is replaced by what it leads to.
const MAXIMUM_EXPANDED: usize = 10_000;

/// What a keyword's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// Nothing that is a schema.
    NoSchema,
    /// A schema.
    Schema,
    /// An array of schemas.
    Array,
    /// An object of schemas by name.
    Map,
    /// A reference.
    Reference,
    /// Something that only the root may have.
    RootOnly,
}

fn holds(keyword: &str) -> Option<Holds> {
    Some(match keyword {
        "$schema" | "$id" => Holds::RootOnly,
        "$ref" => Holds::Reference,
        "$defs" | "properties" | "dependentSchemas" => Holds::Map,
        "allOf" | "anyOf" | "oneOf" => Holds::Array,
        "not"
        | "if"
        | "then"
        | "else"
        | "items"
        | "contains"
        | "propertyNames"
        | "additionalProperties"
        | "unevaluatedProperties"
        | "unevaluatedItems" => Holds::Schema,
        "$comment" | "title" | "description" | "examples" | "deprecated" | "type" | "enum"
        | "const" | "format" | "pattern" | "minLength" | "maxLength" | "minimum" | "maximum"
        | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" | "minItems" | "maxItems"
        | "uniqueItems" | "minContains" | "maxContains" | "minProperties" | "maxProperties"
        | "required" | "dependentRequired" => Holds::NoSchema,
        _ => return None,
    })
}

/// Checks keywords, references and steps.
pub(super) fn check(document: &Value) -> Result<(), SchemaError> {
    let mut schemas = Schemas::default();
    schemas.collect(document, String::new())?;
    schemas.resolve()?;
    let mut measured = BTreeMap::new();
    let mut open = BTreeSet::new();
    let size = schemas.measure("", 0, &mut open, &mut measured)?;
    if size.expanded > MAXIMUM_EXPANDED {
        return Err(SchemaError::Reference {
            pointer: String::new(),
            rule: format!("references expand to more than {MAXIMUM_EXPANDED} schemas"),
        });
    }
    Ok(())
}

/// The schema that a reference of `document` leads to.
pub(super) fn target<'v>(
    document: &'v Value,
    envelope: &'v Value,
    reference: &str,
) -> Option<(&'v Value, &'v Value)> {
    let (root, fragment) = match reference.split_once('#') {
        Some(("", fragment)) => (document, fragment),
        Some((ENVELOPE_V1_SCHEMA_ID, fragment)) => (envelope, fragment),
        None if reference == ENVELOPE_V1_SCHEMA_ID => (envelope, ""),
        _ => return None,
    };
    root.pointer(fragment).map(|schema| (schema, root))
}

#[derive(Debug, Clone, Copy)]
struct Size {
    steps: usize,
    expanded: usize,
}

/// One schema of the document.
#[derive(Default)]
struct Place {
    subschemas: Vec<String>,
    reference: Option<String>,
}

/// Every schema of the document, by JSON pointer.
#[derive(Default)]
struct Schemas(BTreeMap<String, Place>);

impl Schemas {
    fn collect(&mut self, schema: &Value, pointer: String) -> Result<(), SchemaError> {
        let mut place = Place::default();
        if let Value::Object(keywords) = schema {
            for (keyword, value) in keywords {
                let at = below(&pointer, keyword);
                let refuse = |rule: &str| SchemaError::Keyword {
                    pointer: at.clone(),
                    rule: rule.to_owned(),
                };
                let subschemas: Vec<(String, &Value)> = match holds(keyword) {
                    None => {
                        return Err(refuse("the keyword is unknown or not allowed in contracts"));
                    }
                    Some(Holds::RootOnly) if !pointer.is_empty() => {
                        return Err(refuse("only the document's root may have it"));
                    }
                    Some(Holds::NoSchema | Holds::RootOnly) => Vec::new(),
                    Some(Holds::Reference) => {
                        place.reference = value.as_str().map(str::to_owned);
                        Vec::new()
                    }
                    Some(Holds::Schema) => vec![(at.clone(), value)],
                    Some(Holds::Array) => value
                        .as_array()
                        .into_iter()
                        .flatten()
                        .enumerate()
                        .map(|(index, value)| (format!("{at}/{index}"), value))
                        .collect(),
                    Some(Holds::Map) => value
                        .as_object()
                        .into_iter()
                        .flatten()
                        .map(|(name, value)| (below(&at, name), value))
                        .collect(),
                };
                for (pointer, value) in subschemas {
                    // Definitions count where they are referred to.
                    if keyword != "$defs" {
                        place.subschemas.push(pointer.clone());
                    }
                    self.collect(value, pointer)?;
                }
            }
        }
        self.0.insert(pointer, place);
        Ok(())
    }

    /// Turns references into pointers of this document; those into the envelope schema are
    /// checked and left out, since that document is known to be small and free of circles.
    fn resolve(&mut self) -> Result<(), SchemaError> {
        let known: BTreeSet<String> = self.0.keys().cloned().collect();
        for (pointer, place) in &mut self.0 {
            let Some(reference) = place.reference.take() else {
                continue;
            };
            let refuse = |rule: &str| SchemaError::Reference {
                pointer: format!("{pointer}/$ref"),
                rule: rule.to_owned(),
            };
            match reference.split_once('#') {
                Some(("", fragment)) if known.contains(fragment) => {
                    place.reference = Some(fragment.to_owned());
                }
                Some(("", _)) => return Err(refuse("leads to no schema of this document")),
                Some((ENVELOPE_V1_SCHEMA_ID, fragment)) => {
                    let definition = fragment.strip_prefix("/$defs/");
                    let exists = envelope_definitions()
                        .iter()
                        .any(|name| Some(name.as_str()) == definition);
                    if !exists {
                        return Err(refuse("leads to no definition of the envelope schema"));
                    }
                }
                _ => {
                    return Err(refuse(
                        "leads outside this document and the envelope schema's definitions",
                    ));
                }
            }
        }
        Ok(())
    }

    fn measure<'s>(
        &'s self,
        pointer: &'s str,
        steps_before: usize,
        open: &mut BTreeSet<&'s str>,
        measured: &mut BTreeMap<&'s str, Size>,
    ) -> Result<Size, SchemaError> {
        let refuse = |rule: String| SchemaError::Reference {
            pointer: pointer.to_owned(),
            rule,
        };
        let too_far = || refuse(format!("is more than {MAXIMUM_STEPS} steps from the root"));
        if let Some(size) = measured.get(pointer) {
            return if steps_before + size.steps > MAXIMUM_STEPS {
                Err(too_far())
            } else {
                Ok(*size)
            };
        }
        if steps_before > MAXIMUM_STEPS {
            return Err(too_far());
        }
        if !open.insert(pointer) {
            return Err(refuse(
                "refers to itself, directly or in a circle".to_owned(),
            ));
        }
        let mut size = Size {
            steps: 0,
            expanded: 1,
        };
        if let Some(place) = self.0.get(pointer) {
            for next in place.subschemas.iter().chain(&place.reference) {
                let part = self.measure(next, steps_before + 1, open, measured)?;
                size.steps = size.steps.max(part.steps + 1);
                size.expanded = size.expanded.saturating_add(part.expanded);
            }
        }
        open.remove(pointer);
        measured.insert(pointer, size);
        Ok(size)
    }
}

fn envelope_definitions() -> &'static [String] {
    static DEFINITIONS: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
    DEFINITIONS.get_or_init(|| {
        serde_json::from_str::<Value>(shared_contract::ENVELOPE_V1_SCHEMA)
            .ok()
            .and_then(|schema| schema.get("$defs")?.as_object().cloned())
            .map(|definitions| definitions.into_iter().map(|(name, _)| name).collect())
            .unwrap_or_default()
    })
}
