//! Acknowledged idempotent Kafka producer.
#![forbid(unsafe_code)]
