//! The corpus of documents that are no envelope, refused by the shipped code.
//!
//! Invariant: the file is the authority. Each document is refused at the file's place by the file's
//! rule, and on both paths, whatever contract it would belong to.

use crate::fixture::{document, standard};
use crate::golden::vectors;
use application_core::ports::{DecodeError, EnvelopeCodec};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Invalid {
    name: String,
    #[serde(default)]
    document: Option<String>,
    /// Standard alphabet with padding, where the document is not UTF-8.
    #[serde(default)]
    document_base64: Option<String>,
    pointer_or_offset: Place,
    /// A part of the rule's text.
    rule: String,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Place {
    /// JSON pointer, of a document that is strict JSON.
    Pointer(String),
    /// Bytes before the place where reading stopped, of one that is not.
    Offset(usize),
}

impl Invalid {
    fn bytes(&self) -> Vec<u8> {
        match (&self.document, &self.document_base64) {
            (Some(text), None) => text.clone().into_bytes(),
            (None, Some(text)) => from_base64(text),
            _ => panic!("{}: one document", self.name),
        }
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut held) = (0_u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let value = ALPHABET.iter().position(|one| *one == digit);
        bits = (bits << 6) | u32::try_from(value.expect("a digit")).expect("six bits");
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held).to_le_bytes()[0]);
        }
    }
    bytes
}

#[test]
fn every_invalid_document_is_refused_at_its_place() {
    let cases = vectors::<Invalid>("envelope-invalid.json");
    assert!(cases.len() >= 20, "{}", cases.len());
    for case in cases {
        let bytes = case.bytes();
        assert_ne!(bytes, document().as_bytes(), "{}", case.name);
        let full = standard().decode(&bytes).map(|_| ());
        let light = standard().read_identities(&bytes).map(|_| ());
        assert_eq!(light, full, "{}", case.name);
        let (place, rule) = match full {
            Err(DecodeError::Json { offset, rule }) => (Place::Offset(offset), rule),
            Err(DecodeError::Envelope { pointer, rule }) => {
                (Place::Pointer(pointer), rule.to_string())
            }
            other => panic!("{}: {other:?}", case.name),
        };
        assert_eq!(place, case.pointer_or_offset, "{}: {rule}", case.name);
        assert!(
            !case.rule.is_empty() && rule.contains(&case.rule),
            "{}: {rule}",
            case.name
        );
    }
}
