//! What crosses the process boundary: schemas, wire names, golden vectors.
//!
//! Invariant: a published document is immutable. `CHECKSUMS` pins every schema, and the golden
//! vectors under `golden/` are reproduced by the implementation and by an independent script
//! beside each of them; of documents that are no envelope, both refuse each one.
#![forbid(unsafe_code)]

pub mod header;

/// The JSON Schema (Draft 2020-12) of envelope version 1 (requirement 004 §14).
pub const ENVELOPE_V1_SCHEMA: &str = include_str!("../contracts/messaging/envelope/v1.schema.json");

/// SHA-256 of [`ENVELOPE_V1_SCHEMA`]: 64 lower-case hexadecimal characters.
pub const ENVELOPE_V1_SCHEMA_SHA256: &str =
    "891ca5ccddde90c395fad75cbd6f5d1f197e06bf9211c66b33bd1d44ae9f1006";

/// The `$id` of [`ENVELOPE_V1_SCHEMA`].
pub const ENVELOPE_V1_SCHEMA_ID: &str =
    "https://countersign.dev/contracts/messaging/envelope/v1.schema.json";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_manifest_names_the_constant() {
        let manifest = include_str!("../CHECKSUMS");
        let line =
            format!("{ENVELOPE_V1_SCHEMA_SHA256}  contracts/messaging/envelope/v1.schema.json\n");
        assert_eq!(manifest, line);
    }

    #[test]
    fn the_document_carries_its_own_id() {
        let id = format!("\"$id\": \"{ENVELOPE_V1_SCHEMA_ID}\"");
        assert_eq!(ENVELOPE_V1_SCHEMA.matches(&id).count(), 1);
    }
}
