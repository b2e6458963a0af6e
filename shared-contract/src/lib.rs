//! What crosses the process boundary: schemas, wire shapes, golden vectors.
#![forbid(unsafe_code)]
