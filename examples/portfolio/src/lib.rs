//! Sample feature: work logs and posters with their own contracts.
#![forbid(unsafe_code)]
