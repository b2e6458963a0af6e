//! Strict JSON in, canonical JSON out.
//!
//! Invariant: what the writer writes, the reader accepts; the reader accepts nothing that two
//! readers could understand differently.

mod pointer;
mod read;
mod visit;
mod write;

pub(crate) use pointer::{below, push_token};
pub(crate) use read::{JsonRefusal, Keep, SplitDocument, read_split, read_text, read_value};
pub(crate) use write::{JsonWriter, WriteRefusal};
