//! Records and lists.
//!
//! Invariant: a record's fields are written in the contract's order, each once, none left out.

use super::serializer::ValueSerializer;
use super::shape::{Member, Shape};
use super::writer::{PayloadWriter, Refused, Step, byte_bound};
use crate::admission::Admission;
use serde::Serialize;
use serde::ser::{
    SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant,
};

/// Writes the fields of one record.
pub(super) struct RecordSerializer<'w, 's> {
    writer: &'w mut PayloadWriter<'s>,
    members: &'s [Member],
    next: usize,
}

impl<'w, 's> RecordSerializer<'w, 's> {
    pub(super) fn new(writer: &'w mut PayloadWriter<'s>, members: &'s [Member]) -> Self {
        Self {
            writer,
            members,
            next: 0,
        }
    }

    fn unexpected(&mut self, name: &'static str) -> Refused {
        if !self.members.iter().any(|member| member.name == name) {
            return self
                .writer
                .refuse_field(name, "the field is not in the contract");
        }
        match self.members.get(self.next) {
            Some(expected) => self.writer.refuse_field(
                name,
                &format!(
                    "the field is out of order; the contract has `{}` here",
                    expected.name
                ),
            ),
            None => self.writer.refuse_field(name, "the field is written twice"),
        }
    }
}

impl SerializeStruct for RecordSerializer<'_, '_> {
    type Ok = ();
    type Error = Refused;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Refused> {
        let member = match self.members.get(self.next) {
            Some(member) if member.name == name => member,
            _ => return Err(self.unexpected(name)),
        };
        if self.next > 0 {
            self.writer.raw(",")?;
        }
        self.next += 1;
        self.writer.string(&member.name)?;
        self.writer.raw(":")?;
        self.writer.enter(Step::Field(&member.name));
        value.serialize(ValueSerializer {
            writer: &mut *self.writer,
            shape: &member.shape,
        })?;
        self.writer.leave();
        Ok(())
    }

    fn skip_field(&mut self, name: &'static str) -> Result<(), Refused> {
        Err(self.writer.refuse_field(name, "the field is skipped"))
    }

    fn end(self) -> Result<(), Refused> {
        match self.members.get(self.next) {
            Some(missing) => Err(self
                .writer
                .refuse_field(&missing.name, "required field is missing")),
            None => self.writer.raw("}"),
        }
    }
}

/// Writes the items of one list.
pub(super) struct ListSerializer<'w, 's> {
    writer: &'w mut PayloadWriter<'s>,
    item: &'s Shape,
    next: usize,
}

impl<'w, 's> ListSerializer<'w, 's> {
    pub(super) fn new(writer: &'w mut PayloadWriter<'s>, item: &'s Shape) -> Self {
        Self {
            writer,
            item,
            next: 0,
        }
    }
}

impl SerializeSeq for ListSerializer<'_, '_> {
    type Ok = ();
    type Error = Refused;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        let maximum = Admission::DOCUMENT.maximum_items;
        if self.next == maximum {
            return Err(self
                .writer
                .refuse_as(byte_bound("maximum items of one list", maximum)));
        }
        if self.next > 0 {
            self.writer.raw(",")?;
        }
        self.writer.enter(Step::Item(self.next));
        self.next += 1;
        value.serialize(ValueSerializer {
            writer: &mut *self.writer,
            shape: self.item,
        })?;
        self.writer.leave();
        Ok(())
    }

    fn end(self) -> Result<(), Refused> {
        self.writer.raw("]")
    }
}

/// A compound that no contract has a place for.
pub(super) enum Never {}

impl SerializeTuple for Never {
    type Ok = ();
    type Error = Refused;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), Refused> {
        match *self {}
    }

    fn end(self) -> Result<(), Refused> {
        match self {}
    }
}

impl SerializeTupleStruct for Never {
    type Ok = ();
    type Error = Refused;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), Refused> {
        match *self {}
    }

    fn end(self) -> Result<(), Refused> {
        match self {}
    }
}

impl SerializeTupleVariant for Never {
    type Ok = ();
    type Error = Refused;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), Refused> {
        match *self {}
    }

    fn end(self) -> Result<(), Refused> {
        match self {}
    }
}

impl SerializeMap for Never {
    type Ok = ();
    type Error = Refused;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), Refused> {
        match *self {}
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), Refused> {
        match *self {}
    }

    fn end(self) -> Result<(), Refused> {
        match self {}
    }
}

impl SerializeStructVariant for Never {
    type Ok = ();
    type Error = Refused;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        _: &'static str,
        _: &T,
    ) -> Result<(), Refused> {
        match *self {}
    }

    fn end(self) -> Result<(), Refused> {
        match self {}
    }
}
