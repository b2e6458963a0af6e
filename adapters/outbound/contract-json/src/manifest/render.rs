//! The manifest as it is checked in.
//!
//! Invariant: one text for one descriptor: fixed key order, plain scalars only where no YAML
//! reader could take them for anything but that text.

use super::error::ManifestError;
use super::horizon;
use application_core::contract::{ContractDescriptor, FieldKind};
use domain_core::identity::PayloadVersion;
use std::borrow::Cow;

pub(super) fn manifest(
    descriptor: &ContractDescriptor,
    schema_file: &str,
) -> Result<String, ManifestError> {
    // Destructured, so that a new field cannot be forgotten here.
    let ContractDescriptor {
        contract_id,
        payload_version,
        owner_module,
        destination,
        aggregate_type,
        payload_schema,
        serializer,
        ordering,
        partition_key,
        maximum_payload_bytes,
        maximum_envelope_bytes,
        sensitivity,
        versions,
        requeue_horizon,
        fields,
    } = descriptor;
    let horizon = horizon::render(*requeue_horizon).ok_or_else(|| ManifestError::Field {
        origin: descriptor.key().to_string(),
        key: "same-event-requeue-horizon".to_owned(),
        rule: horizon::RULE.to_owned(),
    })?;
    let mut lines = vec![
        entry("contract-id", contract_id.as_str()),
        format!("payload-version: {payload_version}"),
        entry("owner-module", owner_module),
        entry("logical-destination", destination.as_str()),
        entry("aggregate-type", aggregate_type.as_str()),
        "payload-schema:".to_owned(),
        entry("  file", schema_file),
        entry("  id", &payload_schema.id),
        format!("  sha256: \"{}\"", payload_schema.sha256.to_hex()),
        entry("serializer", serializer),
        entry("ordering", ordering.as_str()),
        entry("partition-key", partition_key.as_str()),
        format!("maximum-payload-bytes: {maximum_payload_bytes}"),
        format!("maximum-envelope-bytes: {maximum_envelope_bytes}"),
        entry("sensitivity", sensitivity.as_str()),
        "supported-versions:".to_owned(),
        format!("  producer: [{}]", numbers(&versions.producer)),
        format!("  consumer: [{}]", numbers(&versions.consumer)),
        entry("same-event-requeue-horizon", &horizon),
        "fields:".to_owned(),
    ];
    for field in fields {
        lines.push(entry("  - path", &field.path));
        lines.push(entry("    kind", field.kind.name()));
        if let FieldKind::Enum(values) = &field.kind {
            let values: Vec<_> = values.iter().map(|value| scalar(value)).collect();
            lines.push(format!("    values: [{}]", values.join(", ")));
        }
    }
    lines.push(String::new());
    Ok(lines.join("\n"))
}

/// A scalar that every YAML reader takes for exactly this text.
pub(crate) fn scalar(text: &str) -> Cow<'_, str> {
    let plain = text.len() <= 128
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
        && ![
            "true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf",
        ]
        .contains(&text.to_ascii_lowercase().as_str());
    if plain {
        return Cow::Borrowed(text);
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            ' '..='~' => quoted.push(character),
            _ => quoted.push_str(&format!("\\U{:08x}", u32::from(character))),
        }
    }
    quoted.push('"');
    Cow::Owned(quoted)
}

fn entry(key: &str, value: &str) -> String {
    format!("{key}: {}", scalar(value))
}

fn numbers(versions: &[PayloadVersion]) -> String {
    let texts: Vec<_> = versions.iter().map(ToString::to_string).collect();
    texts.join(", ")
}
