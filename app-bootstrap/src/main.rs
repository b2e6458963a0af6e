//! The countersign binary.
#![forbid(unsafe_code)]

fn main() {}
