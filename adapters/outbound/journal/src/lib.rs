//! Hash-chained, synced record journal; with feature broker also the embedded broker.
#![forbid(unsafe_code)]
