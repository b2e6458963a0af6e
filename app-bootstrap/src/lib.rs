//! Composition root and the countersign binary.
#![forbid(unsafe_code)]
