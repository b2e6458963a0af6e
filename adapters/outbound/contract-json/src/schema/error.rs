//! Why a schema document is not a contract's schema.
//!
//! Invariant: every variant says what is wrong and, within the document, where.

use domain_core::hashing::Sha256Digest;

/// Why a schema document is refused at start-up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// More bytes than a schema document may have.
    #[error("the document has {actual} bytes; at most {maximum} are allowed")]
    TooLarge {
        /// Bytes given.
        actual: usize,
        /// Bytes allowed.
        maximum: usize,
    },
    /// The document is not the one that the contract pins.
    #[error("the document's SHA-256 is {actual:?}, but the contract pins {declared:?}")]
    Hash {
        /// What the contract says.
        declared: Sha256Digest,
        /// What the document has.
        actual: Sha256Digest,
    },
    /// Not strict JSON.
    #[error("the document is not acceptable JSON at byte {offset}: {rule}")]
    Json {
        /// Byte offset.
        offset: usize,
        /// The broken rule.
        rule: String,
    },
    /// `$id` is not the one that the contract names, or not an absolute URI without fragment.
    #[error("`$id`: {0}")]
    Id(String),
    /// Another dialect than Draft 2020-12.
    #[error("`$schema` must be https://json-schema.org/draft/2020-12/schema")]
    Dialect,
    /// The document does not satisfy the meta-schema.
    #[error("the meta-schema refuses {} ({keyword})", place(pointer))]
    MetaSchema {
        /// JSON pointer into the document.
        pointer: String,
        /// The meta-schema's keyword.
        keyword: String,
    },
    /// A keyword that contracts may not use, or not in this way.
    #[error("{}: {rule}", place(pointer))]
    Keyword {
        /// JSON pointer into the document.
        pointer: String,
        /// The broken rule.
        rule: String,
    },
    /// A `$ref` that leads nowhere, outside, or in a circle.
    #[error("{}: {rule}", place(pointer))]
    Reference {
        /// JSON pointer into the document.
        pointer: String,
        /// The broken rule.
        rule: String,
    },
    /// The schema and the contract's field list say different things.
    #[error("field `{field}`: {rule}")]
    Disagrees {
        /// The field's path in the contract.
        field: String,
        /// What differs.
        rule: String,
    },
    /// The validator cannot be built; a pattern that needs more than linear time is one cause.
    #[error("{} cannot be compiled ({keyword})", place(pointer))]
    Compile {
        /// JSON pointer into the document.
        pointer: String,
        /// The keyword.
        keyword: String,
    },
}

fn place(pointer: &str) -> &str {
    if pointer.is_empty() {
        "the document's root"
    } else {
        pointer
    }
}
