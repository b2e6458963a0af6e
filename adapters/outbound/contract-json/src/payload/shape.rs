//! The tree that a contract's flat field list stands for.
//!
//! Invariant: a compiled shape is a record at its root, in canonical order, and no deeper or wider
//! than the codec admits; the writer walks it instead of the list.

use crate::admission::Admission;
use application_core::contract::{FieldKind, PayloadField};
use std::collections::BTreeSet;

/// What one place of a payload holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    String,
    Boolean,
    Integer,
    Enum(Vec<String>),
    Record(Vec<Member>),
    List(Box<Shape>),
}

/// One named field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) shape: Shape,
}

/// Why a field list is not a payload's canonical order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field `{path}`: {rule}")]
pub struct ShapeError {
    /// The field's path, as listed.
    pub path: String,
    /// The broken rule, with its bound.
    pub rule: String,
}

/// Levels that the payload's own fields may nest: the envelope is the first level, the payload
/// the second.
const MAXIMUM_DEPTH: usize = Admission::DOCUMENT.maximum_depth - 1;
const MAXIMUM_NAME_BYTES: usize = 64;
const MAXIMUM_ENUM_VALUES: usize = 256;

/// Builds the tree.
pub(crate) fn compile_shape(fields: &[PayloadField]) -> Result<Shape, ShapeError> {
    let mut rest = fields;
    let members = record("", &mut rest, 1)?;
    match rest.first() {
        Some(stray) => Err(refuse(
            &stray.path,
            "has no parent before it, or stands apart from the other fields of its parent",
        )),
        None => Ok(Shape::Record(members)),
    }
}

fn record(
    prefix: &str,
    rest: &mut &[PayloadField],
    depth: usize,
) -> Result<Vec<Member>, ShapeError> {
    let mut members: Vec<Member> = Vec::new();
    while let Some((field, following)) = rest.split_first() {
        let Some(name) = field.path.strip_prefix(prefix) else {
            break;
        };
        if name.contains(['.', '[']) {
            break;
        }
        if !is_name(name) {
            return Err(refuse(
                &field.path,
                &format!("a name has 1 to {MAXIMUM_NAME_BYTES} bytes of [A-Za-z][A-Za-z0-9_]*"),
            ));
        }
        if members.iter().any(|member| member.name == name) {
            return Err(refuse(&field.path, "is listed twice"));
        }
        if members.len() == Admission::DOCUMENT.maximum_members {
            return Err(refuse(
                &field.path,
                &format!("a record has at most {} fields", members.len()),
            ));
        }
        *rest = following;
        members.push(Member {
            name: name.to_owned(),
            shape: value(field, rest, depth)?,
        });
    }
    Ok(members)
}

fn value(
    field: &PayloadField,
    rest: &mut &[PayloadField],
    depth: usize,
) -> Result<Shape, ShapeError> {
    let deeper = depth + 1;
    if matches!(field.kind, FieldKind::Record | FieldKind::List) && deeper > MAXIMUM_DEPTH {
        return Err(refuse(
            &field.path,
            &format!("payloads nest at most {MAXIMUM_DEPTH} levels"),
        ));
    }
    match &field.kind {
        FieldKind::String => Ok(Shape::String),
        FieldKind::Boolean => Ok(Shape::Boolean),
        FieldKind::Integer => Ok(Shape::Integer),
        FieldKind::Enum(values) => enumeration(&field.path, values),
        FieldKind::Record => match record(&format!("{}.", field.path), rest, deeper)? {
            members if members.is_empty() => {
                Err(refuse(&field.path, "a record's fields follow it directly"))
            }
            members => Ok(Shape::Record(members)),
        },
        FieldKind::List => match rest.split_first() {
            Some((item, following)) if item.path == format!("{}[]", field.path) => {
                *rest = following;
                Ok(Shape::List(Box::new(value(item, rest, deeper)?)))
            }
            _ => Err(refuse(&field.path, "a list's items follow it as `[]`")),
        },
    }
}

fn enumeration(path: &str, values: &[String]) -> Result<Shape, ShapeError> {
    let distinct: BTreeSet<_> = values.iter().collect();
    let acceptable = |value: &String| {
        (1..=MAXIMUM_NAME_BYTES).contains(&value.len())
            && value.bytes().all(|b| b > b' ' && b < 127)
    };
    if values.is_empty() || values.len() > MAXIMUM_ENUM_VALUES || distinct.len() < values.len() {
        Err(refuse(
            path,
            &format!("an enum has 1 to {MAXIMUM_ENUM_VALUES} distinct values"),
        ))
    } else if !values.iter().all(acceptable) {
        Err(refuse(
            path,
            &format!("an enum value has 1 to {MAXIMUM_NAME_BYTES} visible US-ASCII characters"),
        ))
    } else {
        Ok(Shape::Enum(values.to_vec()))
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= MAXIMUM_NAME_BYTES
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn refuse(path: &str, rule: &str) -> ShapeError {
    ShapeError {
        path: path.to_owned(),
        rule: rule.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(list: &[(&str, FieldKind)]) -> Vec<PayloadField> {
        list.iter()
            .map(|(path, kind)| PayloadField {
                path: (*path).to_owned(),
                kind: kind.clone(),
            })
            .collect()
    }

    #[test]
    fn nested_fields_become_a_tree() {
        let list = fields(&[
            ("author", FieldKind::Record),
            ("author.name", FieldKind::String),
            ("items", FieldKind::List),
            ("items[]", FieldKind::Record),
            ("items[].title", FieldKind::String),
            ("items[].marks", FieldKind::List),
            ("items[].marks[]", FieldKind::List),
            ("items[].marks[][]", FieldKind::Integer),
            ("done", FieldKind::Boolean),
        ]);
        let member = |name: &str, shape| Member {
            name: name.to_owned(),
            shape,
        };
        let list_of = |shape| Shape::List(Box::new(shape));
        assert_eq!(
            compile_shape(&list),
            Ok(Shape::Record(vec![
                member("author", Shape::Record(vec![member("name", Shape::String)])),
                member(
                    "items",
                    list_of(Shape::Record(vec![
                        member("title", Shape::String),
                        member("marks", list_of(list_of(Shape::Integer))),
                    ]))
                ),
                member("done", Shape::Boolean),
            ]))
        );
    }

    #[test]
    fn lists_that_are_no_canonical_order_are_refused() {
        use FieldKind::{Enum, List, Record, String};
        let values = |values: &[&str]| Enum(values.iter().map(|v| (*v).to_owned()).collect());
        for (list, path) in [
            (vec![("a.b", String)], "a.b"),
            (vec![("a", Record)], "a"),
            (vec![("a", Record), ("b", String), ("a.c", String)], "a"),
            (
                vec![
                    ("a", Record),
                    ("a.b", String),
                    ("c", String),
                    ("a.d", String),
                ],
                "a.d",
            ),
            (vec![("a", List)], "a"),
            (vec![("a", List), ("b", String)], "a"),
            (vec![("a", String), ("a[]", String)], "a[]"),
            (vec![("1a", String)], "1a"),
            (vec![("a\u{200b}", String)], "a\u{200b}"),
            (vec![("", String)], ""),
            (vec![("a", values(&[]))], "a"),
            (vec![("a", values(&["X", "X"]))], "a"),
            (vec![("a", values(&["X\0"]))], "a"),
        ] {
            let refused = compile_shape(&fields(&list)).expect_err(path);
            assert_eq!(refused.path, path);
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |levels: usize| {
            let mut list = vec![("a".to_owned(), FieldKind::List)];
            for level in 1..=levels {
                let kind = if level == levels {
                    FieldKind::Integer
                } else {
                    FieldKind::List
                };
                list.push((format!("a{}", "[]".repeat(level)), kind));
            }
            compile_shape(
                &list
                    .into_iter()
                    .map(|(path, kind)| PayloadField { path, kind })
                    .collect::<Vec<_>>(),
            )
        };
        assert!(nested(MAXIMUM_DEPTH - 1).is_ok());
        assert!(nested(MAXIMUM_DEPTH).is_err());
    }
}
