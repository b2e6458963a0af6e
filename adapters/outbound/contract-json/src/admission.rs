//! `json-codec-admission-v1`: the bounds that JSON Schema cannot express.
//!
//! Invariant: every reader of this crate is given one of these sets, so that no document costs
//! more than its bound, whatever it says (requirement 004 §§14.6–14.7).

/// Bounds on one JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// Nesting of objects and arrays; the document's own object is the first level.
    pub maximum_depth: usize,
    /// Members of one object.
    pub maximum_members: usize,
    /// Items of one array.
    pub maximum_items: usize,
    /// Bytes of UTF-8 of one string or member name, after its escapes are resolved.
    pub maximum_string_bytes: usize,
    /// Values in the whole document.
    pub maximum_values: usize,
}

impl Admission {
    /// For envelopes and their payloads. The document's bytes are bounded by its contract.
    pub const DOCUMENT: Self = Self {
        maximum_depth: 16,
        maximum_members: 256,
        maximum_items: 10_000,
        maximum_string_bytes: 262_144,
        maximum_values: 65_536,
    };
    /// For schema documents, which nest more and hold fewer values.
    pub const SCHEMA: Self = Self {
        maximum_depth: 48,
        maximum_members: 1024,
        maximum_items: 1024,
        maximum_string_bytes: 8192,
        maximum_values: 20_000,
    };
}

/// Bytes of one schema document.
pub const MAXIMUM_SCHEMA_BYTES: usize = 262_144;
