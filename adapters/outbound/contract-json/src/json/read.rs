//! The strict reader.
//!
//! Invariant: member names are unique after their escapes are resolved, numbers are integers
//! within ±(2^53 − 1) in their one lexical form, no string holds U+0000, and every bound of the
//! [`Admission`] is checked before the value it bounds is kept. Syntax, escapes and surrogates are
//! checked by `serde_json`, over which this is a visitor.

use super::visit::{Split, Strict};
use crate::admission::Admission;
use serde::de::{self, DeserializeSeed};
use serde_json::{Map, Value};
use std::cell::{Cell, RefCell};

/// Why a text is not acceptable JSON. The rule never quotes the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonRefusal {
    /// Where reading stopped, in bytes.
    pub(crate) offset: usize,
    /// The broken rule, with its bound.
    pub(crate) rule: String,
}

/// An object whose one named member is left as it was written.
pub(crate) struct SplitDocument<'de> {
    /// The other members.
    pub(crate) members: Map<String, Value>,
    /// The exact bytes of the named member's value.
    pub(crate) raw: Option<&'de str>,
    /// The named member's value; `Null` when it was only to be checked.
    pub(crate) value: Value,
}

/// Whether checked values are also kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    Everything,
    Nothing,
}

/// The text of a document: UTF-8 without a byte order mark.
pub(crate) fn read_text(bytes: &[u8]) -> Result<&str, JsonRefusal> {
    let text = std::str::from_utf8(bytes).map_err(|error| JsonRefusal {
        offset: error.valid_up_to(),
        rule: "malformed UTF-8".to_owned(),
    })?;
    if text.starts_with('\u{feff}') {
        return Err(JsonRefusal {
            offset: 0,
            rule: "a byte order mark is not allowed".to_owned(),
        });
    }
    Ok(text)
}

/// Reads one whole value.
pub(crate) fn read_value(text: &str, admission: &Admission) -> Result<Value, JsonRefusal> {
    let reading = Reading::new(admission);
    reading.run(text, Strict::root(&reading, Keep::Everything))
}

/// Reads an object and sets one member apart. The member's value is checked like all others, and
/// kept where `kept` says so.
pub(crate) fn read_split<'de>(
    text: &'de str,
    member: &'static str,
    admission: &Admission,
    kept: Keep,
) -> Result<SplitDocument<'de>, JsonRefusal> {
    let reading = Reading::new(admission);
    let seed = Split {
        reading: &reading,
        member,
    };
    let (members, raw) = reading.run(text, seed)?;
    let Some(raw) = raw else {
        return Ok(SplitDocument {
            members,
            raw,
            value: Value::Null,
        });
    };
    let strict = Strict {
        reading: &reading,
        depth: 1,
        kept,
    };
    let value = reading.run(raw, strict).map_err(|refusal| JsonRefusal {
        // Both slices belong to one document, so the difference of their addresses is the place.
        offset: refusal.offset + (raw.as_ptr().addr() - text.as_ptr().addr()),
        rule: refusal.rule,
    })?;
    Ok(SplitDocument {
        members,
        raw: Some(raw),
        value,
    })
}

/// What one reading has seen so far.
pub(super) struct Reading<'a> {
    pub(super) admission: &'a Admission,
    values: Cell<usize>,
    refusal: RefCell<Option<String>>,
}

impl<'a> Reading<'a> {
    fn new(admission: &'a Admission) -> Self {
        Self {
            admission,
            values: Cell::new(0),
            refusal: RefCell::new(None),
        }
    }

    fn run<'de, S: DeserializeSeed<'de>>(
        &self,
        text: &'de str,
        seed: S,
    ) -> Result<S::Value, JsonRefusal> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        seed.deserialize(&mut deserializer)
            .and_then(|value| deserializer.end().map(|()| value))
            .map_err(|error| JsonRefusal {
                offset: offset(text, &error),
                rule: self.refusal.take().unwrap_or_else(|| without_place(&error)),
            })
    }

    pub(super) fn refuse<E: de::Error>(&self, rule: impl Into<String>) -> E {
        self.refusal.replace(Some(rule.into()));
        E::custom("refused")
    }

    pub(super) fn count<E: de::Error>(&self) -> Result<(), E> {
        let values = self.values.get() + 1;
        self.values.set(values);
        self.at_most(
            "values in the document",
            values,
            self.admission.maximum_values,
        )
    }

    pub(super) fn at_most<E: de::Error>(
        &self,
        what: &str,
        actual: usize,
        maximum: usize,
    ) -> Result<(), E> {
        if actual > maximum {
            Err(self.refuse(format!("{what}: at most {maximum} are allowed")))
        } else {
            Ok(())
        }
    }

    pub(super) fn string<E: de::Error>(&self, text: &str) -> Result<(), E> {
        self.at_most(
            "bytes of one string",
            text.len(),
            self.admission.maximum_string_bytes,
        )?;
        if text.contains('\0') {
            return Err(self.refuse("U+0000 is not allowed"));
        }
        Ok(())
    }
}

/// Byte offset of the line and column where `serde_json` stopped. Its columns count from one at
/// the byte it could not read; at the end, and after a value that was read and refused, they count
/// what was read.
fn offset(text: &str, error: &serde_json::Error) -> usize {
    let column = match error.classify() {
        serde_json::error::Category::Syntax => error.column().saturating_sub(1),
        _ => error.column(),
    };
    let line_start = text
        .bytes()
        .enumerate()
        .filter(|(_, byte)| *byte == b'\n')
        .map(|(index, _)| index + 1)
        .take(error.line().saturating_sub(1))
        .last()
        .unwrap_or(0);
    (line_start + column).min(text.len())
}

/// The message of a syntax error without its line and column.
fn without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    match message.find(" at line ") {
        Some(end) => message[..end].to_owned(),
        None => message,
    }
}
