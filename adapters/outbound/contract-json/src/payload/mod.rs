//! From a feature's record to the payload document.
//!
//! Invariant: the contract's field list decides what is written. A record that serializes
//! anything else, in any other order, is refused before its event exists (requirement 004 §9.8).

mod compound;
mod serializer;
mod shape;
mod writer;

pub(crate) use shape::{Member, Shape, compile_shape};
pub(crate) use writer::{Refusal, byte_bound, write_payload};

pub use shape::ShapeError;
