//! The client's configuration, written out in full and read back.
//!
//! Invariant: every property that matters to a promise has an explicit value, even where the
//! library's default agrees today, and a generation is used only when the running client reports
//! exactly these values (requirement 004 §16.6).

use crate::ffi::effective_value;
use crate::security::SecurityProfile;
use crate::settings::{ProducerConfiguration, ProducerSettings};
use rdkafka::client::{Client, ClientContext};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use secrecy::{ExposeSecret as _, SecretString};
use std::time::Duration;

/// One property.
#[derive(Clone)]
pub(crate) struct Property {
    /// The client library's name for it.
    pub(crate) name: &'static str,
    value: Value,
}

#[derive(Clone)]
enum Value {
    /// What is given, and the same value as the client reports it.
    Shown { given: String, effective: String },
    /// An address or a secret: given and reported alike, and kept out of errors, logs and
    /// descriptors.
    Hidden(SecretString),
}

impl Property {
    /// The value that the client reports, unless it is to be kept out of sight.
    pub(crate) fn shown(&self) -> Option<&str> {
        match &self.value {
            Value::Shown { effective, .. } => Some(effective),
            Value::Hidden(_) => None,
        }
    }

    fn given(&self) -> &str {
        match &self.value {
            Value::Shown { given, .. } => given,
            Value::Hidden(secret) => secret.expose_secret(),
        }
    }

    fn is_used_by<C: ClientContext>(&self, client: &Client<C>) -> bool {
        // Wiped after the comparison, whatever it is.
        let used = effective_value(client, self.name).map(SecretString::from);
        let wanted = match &self.value {
            Value::Shown { effective, .. } => effective,
            Value::Hidden(secret) => secret.expose_secret(),
        };
        used.is_some_and(|used| used.expose_secret() == wanted)
    }
}

/// The running client does not use a value that it was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the client does not use the value it was given for {name}")]
pub(crate) struct NotEffective {
    pub(crate) name: &'static str,
}

fn plain(name: &'static str, value: impl ToString) -> Property {
    let value = value.to_string();
    reported_as(name, &value, &value)
}

fn reported_as(name: &'static str, given: &str, effective: &str) -> Property {
    Property {
        name,
        value: Value::Shown {
            given: given.to_owned(),
            effective: effective.to_owned(),
        },
    }
}

fn hidden(name: &'static str, value: SecretString) -> Property {
    Property {
        name,
        value: Value::Hidden(value),
    }
}

/// What the profile demands of the channel, every promise of it written out.
fn security(profile: &SecurityProfile) -> Vec<Property> {
    match profile {
        SecurityProfile::LocalPlaintext => vec![plain("security.protocol", "plaintext")],
        SecurityProfile::SaslSslScramSha512(credentials) => vec![
            plain("security.protocol", "sasl_ssl"),
            plain("enable.ssl.certificate.verification", true),
            plain("ssl.endpoint.identification.algorithm", "https"),
            // In place of the machine's own authorities, not beside them.
            hidden("ssl.ca.pem", credentials.authorities.pem().clone()),
            plain("sasl.mechanism", "SCRAM-SHA-512"),
            hidden("sasl.username", credentials.username.clone()),
            hidden("sasl.password", credentials.password.clone()),
        ],
    }
}

/// Every property of the producer.
pub(crate) fn compile_properties(settings: &ProducerSettings) -> Vec<Property> {
    let millis = |duration: Duration| duration.as_millis().to_string();
    let socket_timeout = settings.request_timeout + ProducerConfiguration::CLIENT_MARGIN;
    let mut properties = security(&settings.security);
    properties.extend([
        // Identity and transport.
        plain("client.id", "countersign"),
        hidden(
            "bootstrap.servers",
            settings.bootstrap_servers.join(",").into(),
        ),
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
        reported_as("acks", "all", "-1"),
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
    ]);
    properties
}

/// The properties that a short-lived administrative client has too: who speaks, to whom, and how
/// safely.
const SHARED: [&str; 12] = [
    "client.id",
    "bootstrap.servers",
    "security.protocol",
    "enable.ssl.certificate.verification",
    "ssl.endpoint.identification.algorithm",
    "ssl.ca.pem",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "socket.connection.setup.timeout.ms",
    "allow.auto.create.topics",
    "enable.metrics.push",
];

impl ProducerConfiguration {
    /// The configuration to create a client with.
    pub(crate) fn client_config(&self) -> ClientConfig {
        config(self.properties.iter())
    }

    /// Compares with what a running client uses.
    pub(crate) fn assert_effective<C: ClientContext>(
        &self,
        client: &Client<C>,
    ) -> Result<(), NotEffective> {
        compare(self.properties.iter(), client)
    }

    /// The part of it that a short-lived administrative client uses.
    pub(crate) fn admin_config(&self) -> ClientConfig {
        config(self.shared())
    }

    /// Compares with what a running administrative client uses.
    pub(crate) fn assert_effective_admin<C: ClientContext>(
        &self,
        client: &Client<C>,
    ) -> Result<(), NotEffective> {
        compare(self.shared(), client)
    }

    fn shared(&self) -> impl Iterator<Item = &Property> {
        self.properties
            .iter()
            .filter(|property| SHARED.contains(&property.name))
    }
}

fn config<'p>(properties: impl Iterator<Item = &'p Property>) -> ClientConfig {
    let mut config = ClientConfig::new();
    for property in properties {
        config.set(property.name, property.given());
    }
    config.set_log_level(RDKafkaLogLevel::Warning);
    config
}

fn compare<'p, C: ClientContext>(
    mut properties: impl Iterator<Item = &'p Property>,
    client: &Client<C>,
) -> Result<(), NotEffective> {
    match properties.find(|property| !property.is_used_by(client)) {
        Some(property) => Err(NotEffective {
            name: property.name,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "properties_tests.rs"]
pub(crate) mod tests;
