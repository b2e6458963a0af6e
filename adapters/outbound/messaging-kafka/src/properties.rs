//! The client's configuration, written out in full and read back.
//!
//! Invariant: every property that matters to a promise has an explicit value, even where the
//! library's default agrees today, and a generation is used only when the running client reports
//! exactly these values (requirement 004 §16.6).

use crate::ffi::effective_value;
use crate::settings::{ProducerConfiguration, ProducerSettings, SecurityProfile};
use rdkafka::client::{Client, ClientContext};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use std::time::Duration;

/// One property.
#[derive(Clone)]
pub(crate) struct Property {
    /// The client library's name for it.
    pub(crate) name: &'static str,
    /// The value given.
    pub(crate) given: String,
    /// The same value as the client reports it.
    pub(crate) effective: String,
    /// Whether the value is kept out of errors, logs and descriptors.
    pub(crate) sensitive: bool,
}

/// The running client does not use a value that it was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the client does not use the value it was given for {name}")]
pub(crate) struct NotEffective {
    pub(crate) name: &'static str,
}

fn plain(name: &'static str, value: impl ToString) -> Property {
    let value = value.to_string();
    Property {
        name,
        given: value.clone(),
        effective: value,
        sensitive: false,
    }
}

/// Every property of the producer.
pub(crate) fn compile_properties(settings: &ProducerSettings) -> Vec<Property> {
    let millis = |duration: Duration| duration.as_millis().to_string();
    let socket_timeout = settings.request_timeout + ProducerConfiguration::CLIENT_MARGIN;
    let SecurityProfile::LocalPlaintext = settings.security;
    vec![
        // Identity and transport.
        plain("client.id", "countersign"),
        Property {
            sensitive: true,
            ..plain("bootstrap.servers", settings.bootstrap_servers.join(","))
        },
        plain("security.protocol", "plaintext"),
        plain("socket.timeout.ms", millis(socket_timeout)),
        plain(
            "socket.connection.setup.timeout.ms",
            millis(socket_timeout.clamp(Duration::from_secs(1), Duration::from_secs(10))),
        ),
        plain("socket.keepalive.enable", true),
        plain("socket.nagle.disable", true),
        plain("reconnect.backoff.ms", 100),
        plain("reconnect.backoff.max.ms", 2_000),
        plain("enable.metrics.push", false),
        plain("statistics.interval.ms", 0),
        // Acknowledgement and order.
        plain("enable.idempotence", true),
        Property {
            effective: "-1".to_owned(),
            ..plain("acks", "all")
        },
        plain("max.in.flight.requests.per.connection", 5),
        plain("retries", i32::MAX),
        plain("retry.backoff.ms", 100),
        plain("retry.backoff.max.ms", 1_000),
        plain("enable.gapless.guarantee", false),
        plain("partitioner", "murmur2_random"),
        plain("delivery.report.only.error", false),
        // Time.
        plain("delivery.timeout.ms", millis(settings.delivery_timeout)),
        plain("request.timeout.ms", millis(settings.request_timeout)),
        plain("linger.ms", millis(settings.linger)),
        // Size and room.
        plain(
            "queue.buffering.max.messages",
            settings.maximum_buffered_records,
        ),
        plain(
            "queue.buffering.max.kbytes",
            settings.buffer_memory_bytes / 1_024,
        ),
        plain("message.max.bytes", settings.maximum_request_bytes),
        plain("batch.size", settings.batch_bytes),
        plain("batch.num.messages", 10_000),
        plain("compression.type", "none"),
        // Topics.
        plain("allow.auto.create.topics", false),
        plain(
            "topic.metadata.propagation.max.ms",
            millis(settings.delivery_timeout.min(Duration::from_secs(10))),
        ),
        plain("topic.metadata.refresh.interval.ms", 60_000),
        plain("metadata.max.age.ms", 180_000),
    ]
}

impl ProducerConfiguration {
    /// The configuration to create a client with.
    pub(crate) fn client_config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        for property in self.properties.iter() {
            config.set(property.name, &property.given);
        }
        config.set_log_level(RDKafkaLogLevel::Warning);
        config
    }

    /// The part of it that a short-lived administrative client uses.
    pub(crate) fn admin_config(&self) -> ClientConfig {
        const SHARED: [&str; 6] = [
            "client.id",
            "bootstrap.servers",
            "security.protocol",
            "socket.connection.setup.timeout.ms",
            "allow.auto.create.topics",
            "enable.metrics.push",
        ];
        let mut config = ClientConfig::new();
        for property in self.properties.iter() {
            if SHARED.contains(&property.name) {
                config.set(property.name, &property.given);
            }
        }
        config.set_log_level(RDKafkaLogLevel::Warning);
        config
    }

    /// Compares with what a running client uses.
    pub(crate) fn assert_effective<C: ClientContext>(
        &self,
        client: &Client<C>,
    ) -> Result<(), NotEffective> {
        let different = self.properties.iter().find(|property| {
            effective_value(client, property.name).as_deref() != Some(property.effective.as_str())
        });
        match different {
            Some(property) => Err(NotEffective {
                name: property.name,
            }),
            None => Ok(()),
        }
    }
}
