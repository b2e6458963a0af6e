//! One line of JSON, read so that nothing of it is lost before it is checked.
//!
//! Invariant: repeated names, the order of names and the difference between a whole number and
//! any other survive reading; whatever a command does not ask for is refused, not ignored.

use super::Refusal;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// `null`.
    Null,
    /// `true` or `false`.
    Flag(bool),
    /// A whole number written without fraction and exponent that fits 64 bits.
    Integer(i64),
    /// Any other number.
    OtherNumber,
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// An object; names may repeat.
    Object(Vec<(String, Node)>),
}

impl Node {
    /// Reads exactly one value that fills the line.
    ///
    /// # Errors
    /// [`Refusal`] when the line is not JSON.
    pub(super) fn parse(line: &[u8]) -> Result<Self, Refusal> {
        let text = std::str::from_utf8(line).map_err(|error| {
            let rule = format!("not UTF-8 at byte {}", error.valid_up_to() + 1);
            Refusal::shape("", rule)
        })?;
        serde_json::from_str(text).map_err(|error| {
            // The message of a syntax error holds nothing of the line, unlike others.
            let rule = if error.is_eof() {
                "not JSON: the line ends too early".to_owned()
            } else {
                format!("not JSON at byte {}", error.column())
            };
            Refusal::shape("", rule)
        })
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Flag(_) => "true or false",
            Self::Integer(_) => "a whole number",
            Self::OtherNumber => "a number that is not whole or does not fit 64 bits",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

/// The fields of one object, taken one by one.
pub(super) struct Fields {
    pointer: String,
    entries: Vec<(String, Node)>,
}

impl Fields {
    /// Opens an object.
    ///
    /// # Errors
    /// [`Refusal`] when it is no object or a name repeats.
    pub(super) fn open(pointer: String, node: Node) -> Result<Self, Refusal> {
        let Node::Object(entries) = node else {
            return Err(unexpected(pointer, "an object", &node));
        };
        let fields = Self { pointer, entries };
        let mut names = std::collections::BTreeSet::new();
        match fields.entries.iter().find(|(name, _)| !names.insert(name)) {
            Some((name, _)) => Err(fields.unknown(name, "the name is repeated")),
            None => Ok(fields),
        }
    }

    /// Takes a field, if it is there.
    fn take(&mut self, name: &str) -> Option<Node> {
        let index = self.entries.iter().position(|(other, _)| other == name)?;
        Some(self.entries.remove(index).1)
    }

    fn required(&mut self, name: &str) -> Result<Node, Refusal> {
        self.take(name)
            .ok_or_else(|| Refusal::shape(self.at(name), "required field is missing"))
    }

    /// Takes a required text.
    pub(super) fn text(&mut self, name: &str) -> Result<String, Refusal> {
        match self.required(name)? {
            Node::Text(text) => Ok(text),
            other => Err(unexpected(self.at(name), "a text", &other)),
        }
    }

    /// Takes a text that may be left out, but not null.
    pub(super) fn optional_text(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        match self.take(name) {
            None => Ok(None),
            Some(Node::Text(text)) => Ok(Some(text)),
            Some(other) => Err(unexpected(self.at(name), "a text", &other)),
        }
    }

    /// Takes a required whole number.
    pub(super) fn integer(&mut self, name: &str) -> Result<i64, Refusal> {
        match self.required(name)? {
            Node::Integer(number) => Ok(number),
            other => Err(unexpected(self.at(name), "a whole number", &other)),
        }
    }

    /// Takes a required truth value.
    pub(super) fn flag(&mut self, name: &str) -> Result<bool, Refusal> {
        match self.required(name)? {
            Node::Flag(flag) => Ok(flag),
            other => Err(unexpected(self.at(name), "true or false", &other)),
        }
    }

    /// Takes a list of texts; a missing one is empty.
    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<String>, Refusal> {
        let items = match self.take(name) {
            None => return Ok(Vec::new()),
            Some(Node::List(items)) => items,
            Some(other) => return Err(unexpected(self.at(name), "a list of texts", &other)),
        };
        items
            .into_iter()
            .enumerate()
            .map(|(index, item)| match item {
                Node::Text(text) => Ok(text),
                other => Err(unexpected(
                    format!("{}/{index}", self.at(name)),
                    "a text",
                    &other,
                )),
            })
            .collect()
    }

    /// Takes a required object.
    pub(super) fn object(&mut self, name: &str) -> Result<Self, Refusal> {
        let node = self.required(name)?;
        Self::open(self.at(name), node)
    }

    /// Where a known field is.
    pub(super) fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.pointer)
    }

    /// Ends the object.
    ///
    /// # Errors
    /// [`Refusal`] when a field was not asked for.
    pub(super) fn close(self) -> Result<(), Refusal> {
        match self.entries.first() {
            Some((name, _)) => Err(self.unknown(name, "unknown field")),
            None => Ok(()),
        }
    }

    /// Points at a name from the line only where it is short and cannot steer a terminal.
    fn unknown(&self, name: &str, rule: &str) -> Refusal {
        let presentable = name.len() <= 64 && !name.chars().any(char::is_control);
        let pointer = if presentable {
            self.at(&name.replace('~', "~0").replace('/', "~1"))
        } else {
            self.pointer.clone()
        };
        Refusal::shape(pointer, rule)
    }
}

fn unexpected(pointer: String, wanted: &str, found: &Node) -> Refusal {
    Refusal::shape(
        pointer,
        format!("{wanted} is required, not {}", found.kind()),
    )
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Node, E> {
        Ok(Node::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(i64::try_from(number).map_or(Node::OtherNumber, Node::Integer))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::OtherNumber)
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Node, E> {
        Ok(Node::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut object = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            object.push(entry);
        }
        Ok(Node::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> Result<Fields, Refusal> {
        Fields::open(String::new(), Node::parse(line.as_bytes())?)
    }

    #[test]
    fn whole_numbers_are_kept_apart_from_others() {
        for (text, expected) in [
            ("0", Node::Integer(0)),
            ("9223372036854775807", Node::Integer(i64::MAX)),
            ("9223372036854775808", Node::OtherNumber),
            ("1.0", Node::OtherNumber),
            ("1e2", Node::OtherNumber),
            ("-0", Node::OtherNumber),
        ] {
            assert_eq!(Node::parse(text.as_bytes()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_json_is_refused_without_its_text() {
        for bad in [
            "{",
            "{\"a\":1,}",
            "{'a':1}",
            "[1] x",
            "1e400",
            "\"\\ud800\"",
            "\u{feff}{}",
            &"[".repeat(200),
        ] {
            let refusal = Node::parse(bad.as_bytes()).expect_err(bad);
            assert_eq!(refusal.pointer, "");
            assert!(refusal.rule.to_string().starts_with("not JSON"), "{bad}");
        }
        let refusal = Node::parse(b"\"\xff\"").unwrap_err();
        assert_eq!(refusal.rule.to_string(), "not UTF-8 at byte 2");
    }

    #[test]
    fn repeated_names_are_seen_however_they_are_written() {
        let refused = fields(r#"{"a/b":1,"\u0061/b":2}"#).err().unwrap();
        assert_eq!(refused.pointer, "/a~1b");
        assert_eq!(refused.rule.to_string(), "the name is repeated");
        let refused = fields("[]").err().unwrap();
        assert_eq!(
            refused.rule.to_string(),
            "an object is required, not a list"
        );
    }

    #[test]
    fn a_name_that_could_steer_a_terminal_is_not_repeated() {
        let open = fields(r#"{"\u001b[2J":1}"#).unwrap();
        assert_eq!(open.close().unwrap_err().pointer, "");
        let open = fields(r#"{"extra":1}"#).unwrap();
        assert_eq!(open.close().unwrap_err().pointer, "/extra");
    }

    #[test]
    fn null_is_neither_missing_nor_a_value() {
        let mut open = fields(r#"{"a":null,"b":[1]}"#).unwrap();
        let refused = open.optional_text("a").unwrap_err();
        assert_eq!(refused.rule.to_string(), "a text is required, not null");
        let refused = open.texts("b").unwrap_err();
        assert_eq!(refused.pointer, "/b/0");
        assert_eq!(open.optional_text("c"), Ok(None));
        assert_eq!(open.text("c").unwrap_err().pointer, "/c");
    }
}
