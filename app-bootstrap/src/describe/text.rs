//! A descriptor as lines for people.
//!
//! Invariant: everything that the document says is shown, one value or list element a line.

use serde_json::Value;
use std::fmt::Write as _;

/// Shows a JSON document.
pub fn as_text(document: &Value) -> String {
    let mut text = String::new();
    show(&mut text, 0, document);
    text
}

fn show(text: &mut String, depth: usize, value: &Value) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match one_line(value) {
                    Some(line) => {
                        let _ = writeln!(text, "{indent}{name}: {line}");
                    }
                    None => {
                        let _ = writeln!(text, "{indent}{name}:");
                        show(text, depth + 1, value);
                    }
                }
            }
        }
        Value::Array(values) => {
            for value in values {
                let line = match value {
                    Value::Object(members) => members
                        .iter()
                        .map(|(name, value)| {
                            format!("{name} {}", one_line(value).unwrap_or_default())
                        })
                        .collect::<Vec<_>>()
                        .join(", "),
                    other => one_line(other).unwrap_or_default(),
                };
                let _ = writeln!(text, "{indent}- {line}");
            }
        }
        other => {
            let _ = writeln!(text, "{indent}{}", one_line(other).unwrap_or_default());
        }
    }
}

/// A value that needs no lines of its own.
fn one_line(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("(none)".to_owned()),
        Value::String(text) if text.is_empty() => Some("(none)".to_owned()),
        Value::String(text) => Some(text.clone()),
        Value::Array(values) if values.is_empty() => Some("(none)".to_owned()),
        Value::Object(_) | Value::Array(_) => None,
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_line() {
        let document = serde_json::json!({
            "state": "READY", "epoch": 1, "none": null, "list": ["a", "b"], "empty": [],
            "cards": [{"id": "x", "far": true}], "inner": {"deep": {"er": 2}},
        });
        let text = as_text(&document);
        for line in [
            "state: READY",
            "epoch: 1",
            "none: (none)",
            "list:\n  - a\n  - b",
            "empty: (none)",
            "inner:\n  deep:\n    er: 2",
        ] {
            assert!(text.contains(line), "{line} is not in:\n{text}");
        }
        assert!(text.contains("id x") && text.contains("far true"), "{text}");
    }
}
