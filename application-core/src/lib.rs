//! Ports and use cases; knows no driver, framework or runtime.
#![forbid(unsafe_code)]
