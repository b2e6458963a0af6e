//! The state of one payload being written.
//!
//! Invariant: the first refusal is kept here, since a serializer's errors lose their structure on
//! the way through type erasure; once there is one, nothing more counts.

use super::serializer::ValueSerializer;
use super::shape::Shape;
use crate::admission::Admission;
use crate::json::{JsonWriter, WriteRefusal, push_token};
use application_core::event::IntegrationPayload;
use application_core::ports::RejectionRule;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A place in the payload and the rule that was broken there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// JSON pointer into the payload.
    pub(crate) pointer: String,
    /// The broken rule.
    pub(crate) rule: RejectionRule,
}

impl Refusal {
    /// A refusal of the payload as a whole.
    pub(crate) fn of_the_whole(rule: RejectionRule) -> Self {
        Self {
            pointer: String::new(),
            rule,
        }
    }
}

/// A byte bound and its name.
pub(crate) fn byte_bound(rule: &str, bound: impl ToString) -> RejectionRule {
    RejectionRule::Bound {
        rule: rule.to_owned(),
        bound: bound.to_string(),
    }
}

/// Writes the payload where `json` stands. `json`'s limit is that of the whole document, of which
/// `reserved` bytes must remain; what exceeds it is the envelope's bound, what exceeds
/// `maximum_payload_bytes` the payload's.
pub(crate) fn write_payload(
    json: JsonWriter,
    reserved: usize,
    maximum_payload_bytes: u32,
    shape: &Shape,
    payload: &dyn IntegrationPayload,
) -> Result<JsonWriter, Refusal> {
    let document_limit = json.limit();
    let payload_end = json.len().saturating_add(maximum_payload_bytes as usize);
    let room_end = document_limit.saturating_sub(reserved);
    let bound = if payload_end <= room_end {
        byte_bound("maximum payload bytes", maximum_payload_bytes)
    } else {
        byte_bound("maximum envelope bytes", document_limit)
    };
    let mut writer = PayloadWriter {
        json,
        bound,
        path: Vec::new(),
        values: 0,
        refusal: None,
    };
    writer.json.set_limit(payload_end.min(room_end));
    let serializer = ValueSerializer {
        writer: &mut writer,
        shape,
    };
    // The type erasure panics when a hand-written record carries on after a refusal. What it left
    // in the writer is dropped, so nothing half-written is seen.
    let written = catch_unwind(AssertUnwindSafe(|| {
        erased_serde::serialize(payload, serializer)
    }));
    match (writer.refusal, written) {
        (Some(refusal), _) => Err(refusal),
        (None, Ok(Ok(()))) => {
            writer.json.set_limit(document_limit);
            Ok(writer.json)
        }
        // The message is the record's own and may quote a value.
        (None, Ok(Err(Refused))) => Err(Refusal::of_the_whole(RejectionRule::Shape(
            "the record's own serialization failed".to_owned(),
        ))),
        (None, Err(panic)) => resume_unwind(panic),
    }
}

/// One step of the path to the value being written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step<'s> {
    Field(&'s str),
    Item(usize),
}

/// The document, the place in it and the first refusal.
pub(super) struct PayloadWriter<'s> {
    json: JsonWriter,
    bound: RejectionRule,
    path: Vec<Step<'s>>,
    values: usize,
    refusal: Option<Refusal>,
}

/// The error that travels through `serde`; what it means is in the writer.
#[derive(Debug)]
pub(crate) struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the payload was refused")
    }
}

impl std::error::Error for Refused {}

impl serde::ser::Error for Refused {
    fn custom<T: std::fmt::Display>(_: T) -> Self {
        Self
    }
}

impl<'s> PayloadWriter<'s> {
    /// Steps into a field or item.
    pub(super) fn enter(&mut self, step: Step<'s>) {
        self.path.push(step);
    }

    /// Steps out again.
    pub(super) fn leave(&mut self) {
        self.path.pop();
    }

    /// Counts a value before it is written.
    pub(super) fn count(&mut self) -> Result<(), Refused> {
        self.values += 1;
        // One value of the document is the envelope's object, about a dozen are its members.
        if self.values + 16 > Admission::DOCUMENT.maximum_values {
            let bound = Admission::DOCUMENT.maximum_values - 16;
            return Err(self.refuse_as(byte_bound("maximum values of a payload", bound)));
        }
        Ok(())
    }

    pub(super) fn raw(&mut self, text: &str) -> Result<(), Refused> {
        let written = self.json.raw(text);
        self.written(written)
    }

    pub(super) fn integer(&mut self, number: i64) -> Result<(), Refused> {
        let written = self.json.integer(number);
        self.written(written)
    }

    pub(super) fn string(&mut self, text: &str) -> Result<(), Refused> {
        let maximum = Admission::DOCUMENT.maximum_string_bytes;
        if text.len() > maximum {
            return Err(self.refuse_as(byte_bound("maximum bytes of one string", maximum)));
        }
        let written = self.json.string(text);
        self.written(written)
    }

    /// Refuses the value at this place.
    pub(super) fn refuse(&mut self, rule: impl Into<String>) -> Refused {
        self.refuse_as(RejectionRule::Shape(rule.into()))
    }

    /// Refuses a field of the record at this place.
    pub(super) fn refuse_field(&mut self, name: &str, rule: &str) -> Refused {
        let mut pointer = self.pointer();
        push_token(&mut pointer, name);
        self.keep(Refusal {
            pointer,
            rule: RejectionRule::Shape(rule.to_owned()),
        })
    }

    pub(super) fn refuse_as(&mut self, rule: RejectionRule) -> Refused {
        let pointer = self.pointer();
        self.keep(Refusal { pointer, rule })
    }

    fn keep(&mut self, refusal: Refusal) -> Refused {
        self.refusal.get_or_insert(refusal);
        Refused
    }

    fn written(&mut self, written: Result<(), WriteRefusal>) -> Result<(), Refused> {
        match written {
            Ok(()) => Ok(()),
            Err(WriteRefusal::Full) => {
                let refusal = Refusal::of_the_whole(self.bound.clone());
                Err(self.keep(refusal))
            }
            Err(WriteRefusal::Nul) => Err(self.refuse("U+0000 is not allowed")),
        }
    }

    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.path {
            match step {
                Step::Field(name) => push_token(&mut pointer, name),
                Step::Item(index) => push_token(&mut pointer, &index.to_string()),
            }
        }
        pointer
    }
}
