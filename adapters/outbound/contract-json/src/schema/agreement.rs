//! Whether a schema and a contract's field list say the same.
//!
//! Invariant: at every record the schema is closed and requires exactly the listed fields; kinds
//! and enum values are equal; every string, list and integer has its bounds (requirement 004
//! §§14.5–14.6). A schema may say more, never something else.

use super::error::SchemaError;
use super::references::target;
use crate::payload::{Member, Shape};
use serde_json::Value;
use std::collections::BTreeSet;

/// Compares a payload schema with the shape of its contract.
pub(crate) fn agree(schema: &Value, envelope: &Value, shape: &Shape) -> Result<(), SchemaError> {
    let place = Place {
        path: String::new(),
        schema,
        root: schema,
        envelope,
    };
    place.follow()?.holds(shape)
}

/// One schema and the field it describes.
struct Place<'v> {
    path: String,
    schema: &'v Value,
    root: &'v Value,
    envelope: &'v Value,
}

impl<'v> Place<'v> {
    fn at(&self, path: String, schema: &'v Value) -> Self {
        Self {
            path,
            schema,
            ..*self
        }
    }

    /// Where the references lead. References were checked to be free of circles.
    fn follow(mut self) -> Result<Self, SchemaError> {
        while let Some(reference) = self.schema.get("$ref").and_then(Value::as_str) {
            let (schema, root) = target(self.root, self.envelope, reference)
                .ok_or_else(|| self.refuse("the reference leads nowhere"))?;
            self.schema = schema;
            self.root = root;
        }
        Ok(self)
    }

    fn refuse(&self, rule: impl Into<String>) -> SchemaError {
        SchemaError::Disagrees {
            field: self.path.clone(),
            rule: rule.into(),
        }
    }

    fn holds(&self, shape: &Shape) -> Result<(), SchemaError> {
        match shape {
            Shape::String => {
                self.is_of("string")?;
                self.has(&["minLength", "maxLength"])
            }
            Shape::Boolean => self.is_of("boolean"),
            Shape::Integer => {
                self.is_of("integer")?;
                self.has(&["minimum", "maximum"])
            }
            Shape::Enum(values) => self.lists(values),
            Shape::Record(members) => self.record(members),
            Shape::List(item) => {
                self.is_of("array")?;
                self.has(&["items", "maxItems"])?;
                let path = format!("{}[]", self.path);
                self.at(path, &self.schema["items"]).follow()?.holds(item)
            }
        }
    }

    fn is_of(&self, kind: &str) -> Result<(), SchemaError> {
        if self.schema.get("type").and_then(Value::as_str) == Some(kind) {
            Ok(())
        } else {
            Err(self.refuse(format!("the schema's `type` must be `{kind}`")))
        }
    }

    fn has(&self, keywords: &[&str]) -> Result<(), SchemaError> {
        match keywords
            .iter()
            .find(|keyword| self.schema.get(keyword).is_none())
        {
            Some(keyword) => Err(self.refuse(format!("the schema must state `{keyword}`"))),
            None => Ok(()),
        }
    }

    fn lists(&self, values: &[String]) -> Result<(), SchemaError> {
        self.is_of("string")?;
        let stated: Option<Vec<&str>> = self
            .schema
            .get("enum")
            .and_then(Value::as_array)
            .and_then(|stated| stated.iter().map(Value::as_str).collect());
        let declared: Vec<&str> = values.iter().map(String::as_str).collect();
        if stated.as_deref() == Some(declared.as_slice()) {
            Ok(())
        } else {
            Err(self.refuse("the schema's `enum` must list the contract's values in their order"))
        }
    }

    fn record(&self, members: &[Member]) -> Result<(), SchemaError> {
        self.is_of("object")?;
        let closed = ["additionalProperties", "unevaluatedProperties"]
            .iter()
            .any(|keyword| self.schema.get(keyword) == Some(&Value::Bool(false)));
        if !closed {
            return Err(self.refuse(
                "the schema must be closed (`additionalProperties` or `unevaluatedProperties`: \
                 false)",
            ));
        }
        let declared: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
        let properties = self.schema.get("properties").and_then(Value::as_object);
        let stated: BTreeSet<&str> = properties
            .into_iter()
            .flat_map(serde_json::Map::keys)
            .map(String::as_str)
            .collect();
        if let Some(name) = stated.symmetric_difference(&declared).next() {
            return Err(self.refuse(format!(
                "`{name}` is in the schema's `properties` or in the contract's fields, not in both"
            )));
        }
        let required: BTreeSet<&str> = self
            .schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if let Some(name) = required.symmetric_difference(&declared).next() {
            return Err(self.refuse(format!(
                "the schema must require every field and no other; `{name}` differs"
            )));
        }
        for member in members {
            let path = if self.path.is_empty() {
                member.name.clone()
            } else {
                format!("{}.{}", self.path, member.name)
            };
            self.at(path, &self.schema["properties"][&member.name])
                .follow()?
                .holds(&member.shape)?;
        }
        Ok(())
    }
}
