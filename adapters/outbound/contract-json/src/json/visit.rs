//! The visitors behind the strict reader.
//!
//! Invariant: every value, name and nesting passes the reading's checks before it is kept; a value
//! that is only checked passes the same ones.

use super::read::{Keep, Reading};
use domain_core::identity::MAXIMUM_SAFE_INTEGER;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

/// One value, at one level of nesting.
#[derive(Clone, Copy)]
pub(super) struct Strict<'r> {
    pub(super) reading: &'r Reading<'r>,
    /// Objects and arrays around the value.
    pub(super) depth: usize,
    pub(super) kept: Keep,
}

impl<'r> Strict<'r> {
    /// A document's outermost value.
    pub(super) fn root(reading: &'r Reading<'r>, kept: Keep) -> Self {
        Self {
            reading,
            depth: 0,
            kept,
        }
    }

    fn deeper<E: de::Error>(&self) -> Result<Self, E> {
        let depth = self.depth + 1;
        self.reading.at_most(
            "levels of nesting",
            depth,
            self.reading.admission.maximum_depth,
        )?;
        Ok(Self { depth, ..*self })
    }

    fn keep(&self, value: impl FnOnce() -> Value) -> Value {
        match self.kept {
            Keep::Everything => value(),
            Keep::Nothing => Value::Null,
        }
    }

    fn integer<E: de::Error>(&self, number: Option<i64>) -> Result<Value, E> {
        match number {
            Some(number) if number.unsigned_abs() <= MAXIMUM_SAFE_INTEGER.unsigned_abs() => {
                Ok(self.keep(|| number.into()))
            }
            _ => Err(self.reading.refuse(format!(
                "integers lie between -{MAXIMUM_SAFE_INTEGER} and {MAXIMUM_SAFE_INTEGER}"
            ))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.reading.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(self.keep(|| value.into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        self.integer(Some(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        self.integer(i64::try_from(value).ok())
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Value, E> {
        Err(self
            .reading
            .refuse("numbers are integers of 64 bits, without fraction, exponent or negative zero"))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        self.reading.string(text)?;
        Ok(self.keep(|| text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let item = self.deeper()?;
        let mut list = Vec::new();
        let mut count = 0;
        while let Some(value) = items.next_element_seed(item)? {
            count += 1;
            self.reading.at_most(
                "items of one array",
                count,
                self.reading.admission.maximum_items,
            )?;
            if self.kept == Keep::Everything {
                list.push(value);
            }
        }
        Ok(self.keep(|| Value::Array(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let member = self.deeper()?;
        let mut names = Names::new(self.reading);
        let mut object = Map::new();
        while let Some(name) = names.next(&mut members)? {
            let value = members.next_value_seed(member)?;
            if self.kept == Keep::Everything {
                object.insert(name.into_owned(), value);
            }
        }
        Ok(self.keep(|| Value::Object(object)))
    }
}

/// The member names of one object.
struct Names<'r, 'de> {
    reading: &'r Reading<'r>,
    seen: BTreeSet<Cow<'de, str>>,
}

impl<'r, 'de> Names<'r, 'de> {
    fn new(reading: &'r Reading<'r>) -> Self {
        Self {
            reading,
            seen: BTreeSet::new(),
        }
    }

    fn next<A: MapAccess<'de>>(
        &mut self,
        members: &mut A,
    ) -> Result<Option<Cow<'de, str>>, A::Error> {
        let Some(name) = members.next_key_seed(Name(self.reading))? else {
            return Ok(None);
        };
        self.reading.at_most(
            "members of one object",
            self.seen.len() + 1,
            self.reading.admission.maximum_members,
        )?;
        if !self.seen.insert(name.clone()) {
            return Err(self.reading.refuse("a member name is used twice"));
        }
        Ok(Some(name))
    }
}

/// One member name.
struct Name<'r>(&'r Reading<'r>);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name<'_> {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        self.0.string(text)?;
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        self.0.string(text)?;
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// The outermost object, one member of which is only cut out.
pub(super) struct Split<'r> {
    pub(super) reading: &'r Reading<'r>,
    pub(super) member: &'static str,
}

impl<'de> DeserializeSeed<'de> for Split<'_> {
    type Value = (Map<String, Value>, Option<&'de str>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.reading.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Split<'_> {
    type Value = (Map<String, Value>, Option<&'de str>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Err(self.not_an_object())
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self::Value, E> {
        Err(self.not_an_object())
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Self::Value, E> {
        Err(self.not_an_object())
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Self::Value, E> {
        Err(self.not_an_object())
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Self::Value, E> {
        Err(self.not_an_object())
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Self::Value, E> {
        Err(self.not_an_object())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
        Err(self.not_an_object())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let member = Strict::root(self.reading, Keep::Everything).deeper()?;
        let mut names = Names::new(self.reading);
        let mut object = Map::new();
        let mut raw = None;
        while let Some(name) = names.next(&mut members)? {
            if name == self.member {
                raw = Some(members.next_value::<&'de RawValue>()?.get());
            } else {
                let value = members.next_value_seed(member)?;
                object.insert(name.into_owned(), value);
            }
        }
        Ok((object, raw))
    }
}

impl Split<'_> {
    fn not_an_object<E: de::Error>(&self) -> E {
        self.reading.refuse("the document is not a JSON object")
    }
}
