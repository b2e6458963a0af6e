//! Integration tests of the composition root.

mod config;
