//! JSON envelope codec, schema validation and the contract catalog compiler.
#![forbid(unsafe_code)]
