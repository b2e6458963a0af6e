//! The only writer of payload values.
//!
//! Invariant: each value is written only as what its contract declares at that place. Maps,
//! floats, bytes, tuples, nothing-values and variants with data have no place in any contract.

use super::compound::{ListSerializer, Never, RecordSerializer};
use super::shape::Shape;
use super::writer::{PayloadWriter, Refused, byte_bound};
use domain_core::identity::MAXIMUM_SAFE_INTEGER;
use serde::{Serialize, Serializer};

/// Serializes one value against the shape declared for it.
pub(super) struct ValueSerializer<'w, 's> {
    pub(super) writer: &'w mut PayloadWriter<'s>,
    pub(super) shape: &'s Shape,
}

impl ValueSerializer<'_, '_> {
    fn refuse<T>(self, given: &str) -> Result<T, Refused> {
        let declared = match self.shape {
            Shape::String => "a string",
            Shape::Boolean => "a boolean",
            Shape::Integer => "an integer",
            Shape::Enum(_) => "an enum",
            Shape::Record(_) => "a record",
            Shape::List(_) => "a list",
        };
        Err(self.writer.refuse(format!(
            "{given} is given where the contract declares {declared}"
        )))
    }

    fn integer(self, number: Option<i64>) -> Result<(), Refused> {
        if *self.shape != Shape::Integer {
            return self.refuse("an integer");
        }
        match number {
            Some(number) if number.unsigned_abs() <= MAXIMUM_SAFE_INTEGER.unsigned_abs() => {
                self.writer.count()?;
                self.writer.integer(number)
            }
            _ => Err(self.writer.refuse_as(byte_bound(
                "range of an integer",
                format!("-{MAXIMUM_SAFE_INTEGER} to {MAXIMUM_SAFE_INTEGER}"),
            ))),
        }
    }
}

impl<'w, 's> Serializer for ValueSerializer<'w, 's> {
    type Ok = ();
    type Error = Refused;
    type SerializeSeq = ListSerializer<'w, 's>;
    type SerializeTuple = Never;
    type SerializeTupleStruct = Never;
    type SerializeTupleVariant = Never;
    type SerializeMap = Never;
    type SerializeStruct = RecordSerializer<'w, 's>;
    type SerializeStructVariant = Never;

    fn serialize_bool(self, value: bool) -> Result<(), Refused> {
        if *self.shape != Shape::Boolean {
            return self.refuse("a boolean");
        }
        self.writer.count()?;
        self.writer.raw(if value { "true" } else { "false" })
    }

    fn serialize_i8(self, value: i8) -> Result<(), Refused> {
        self.integer(Some(value.into()))
    }

    fn serialize_i16(self, value: i16) -> Result<(), Refused> {
        self.integer(Some(value.into()))
    }

    fn serialize_i32(self, value: i32) -> Result<(), Refused> {
        self.integer(Some(value.into()))
    }

    fn serialize_i64(self, value: i64) -> Result<(), Refused> {
        self.integer(Some(value))
    }

    fn serialize_i128(self, value: i128) -> Result<(), Refused> {
        self.integer(i64::try_from(value).ok())
    }

    fn serialize_u8(self, value: u8) -> Result<(), Refused> {
        self.integer(Some(value.into()))
    }

    fn serialize_u16(self, value: u16) -> Result<(), Refused> {
        self.integer(Some(value.into()))
    }

    fn serialize_u32(self, value: u32) -> Result<(), Refused> {
        self.integer(Some(value.into()))
    }

    fn serialize_u64(self, value: u64) -> Result<(), Refused> {
        self.integer(i64::try_from(value).ok())
    }

    fn serialize_u128(self, value: u128) -> Result<(), Refused> {
        self.integer(i64::try_from(value).ok())
    }

    fn serialize_f32(self, _: f32) -> Result<(), Refused> {
        self.refuse("a floating-point number")
    }

    fn serialize_f64(self, _: f64) -> Result<(), Refused> {
        self.refuse("a floating-point number")
    }

    fn serialize_char(self, value: char) -> Result<(), Refused> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Refused> {
        if *self.shape != Shape::String {
            return self.refuse("a string");
        }
        self.writer.count()?;
        self.writer.string(value)
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<(), Refused> {
        self.refuse("a byte string")
    }

    fn serialize_none(self) -> Result<(), Refused> {
        self.refuse("nothing (every field is required, and null is not allowed)")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Refused> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Refused> {
        self.refuse("a unit")
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Refused> {
        self.refuse("a unit struct")
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Refused> {
        match self.shape {
            Shape::Enum(values) if values.iter().any(|value| value == variant) => {
                self.writer.count()?;
                self.writer.string(variant)
            }
            Shape::Enum(_) => Err(self
                .writer
                .refuse("the variant is not among the declared values")),
            _ => self.refuse("an enum"),
        }
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Refused> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Refused> {
        self.refuse("a variant with data")
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<ListSerializer<'w, 's>, Refused> {
        match self.shape {
            Shape::List(item) => {
                self.writer.count()?;
                self.writer.raw("[")?;
                Ok(ListSerializer::new(self.writer, item))
            }
            _ => self.refuse("a list"),
        }
    }

    fn serialize_tuple(self, _: usize) -> Result<Never, Refused> {
        self.refuse("a tuple or fixed-size array")
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Never, Refused> {
        self.refuse("a tuple struct")
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Never, Refused> {
        self.refuse("a variant with data")
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Never, Refused> {
        self.refuse("a map (or a record with a flattened field)")
    }

    fn serialize_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<RecordSerializer<'w, 's>, Refused> {
        match self.shape {
            Shape::Record(members) => {
                self.writer.count()?;
                self.writer.raw("{")?;
                Ok(RecordSerializer::new(self.writer, members))
            }
            _ => self.refuse("a record"),
        }
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Never, Refused> {
        self.refuse("a variant with data")
    }
}
