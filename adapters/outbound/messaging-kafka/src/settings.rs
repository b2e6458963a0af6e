//! The producer's typed settings and the relations that must hold between them.
//!
//! Invariant: there is no way to hand a raw client property in, so acknowledgements, retries and
//! requests in flight cannot be weakened; every number is finite and every relation is checked
//! before anything is opened (requirement 004 §§16.6, 17.5, 21.4).

use crate::destination::KafkaDestinations;
use crate::properties::{Property, compile_properties};
use crate::record::KafkaRecord;
use crate::security::SecurityProfile;
use domain_core::identity::DestinationBindingRevision;
use std::sync::Arc;
use std::time::Duration;

/// What a cluster is called in references and audits: 1–32 bytes of `[a-z][a-z0-9-]*`. It is not
/// an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterAlias(String);

impl ClusterAlias {
    /// Accepts an alias.
    ///
    /// # Errors
    /// [`SettingsError::ClusterAlias`].
    pub fn parse(text: &str) -> Result<Self, SettingsError> {
        let legal = (1..=32).contains(&text.len())
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if legal {
            Ok(Self(text.to_owned()))
        } else {
            Err(SettingsError::ClusterAlias)
        }
    }

    /// The exact text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What an operator may set. Durations are whole milliseconds, sizes are bytes.
#[derive(Clone)]
pub struct ProducerSettings {
    /// What the cluster is called.
    pub cluster: ClusterAlias,
    /// First brokers to ask, as `host:port`.
    pub bootstrap_servers: Vec<String>,
    /// How they are spoken to.
    pub security: SecurityProfile,
    /// The longest wait for a permit.
    pub admission_timeout: Duration,
    /// The longest that one physical send may take, the client's own retries included.
    pub delivery_timeout: Duration,
    /// How long a broker may take for one request. The client itself waits
    /// [`ProducerConfiguration::CLIENT_MARGIN`] longer.
    pub request_timeout: Duration,
    /// The longest wait for room in the client's buffer.
    pub max_block_timeout: Duration,
    /// How long the client waits for a batch to fill.
    pub linger: Duration,
    /// The longest that one look at the topology may take.
    pub attestation_timeout: Duration,
    /// The longest that a generation is drained before it is closed.
    pub drain_timeout: Duration,
    /// The first wait before a stopped generation is made anew, or an absent broker looked for.
    pub recovery_minimum_delay: Duration,
    /// The longest such wait.
    pub recovery_maximum_delay: Duration,
    /// Bytes that the client may buffer.
    pub buffer_memory_bytes: u32,
    /// Bytes that one request may have.
    pub maximum_request_bytes: u32,
    /// Bytes that a batch of several records may have.
    pub batch_bytes: u32,
    /// Records that may be under way at once: the number of permits.
    pub maximum_admitted_records: u32,
    /// Records that the client may hold, those whose attempt is already decided included.
    pub maximum_buffered_records: u32,
    /// Late acknowledgements that wait for the attempt journal at most.
    pub maximum_late_observations: u32,
}

/// Why settings cannot work. No error shows an address or a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Not an alias.
    #[error("cluster-id has 1 to 32 characters of [a-z][a-z0-9-]*")]
    ClusterAlias,
    /// There is no broker to ask.
    #[error("bootstrap-servers is empty")]
    NoBootstrapServer,
    /// Not `host:port`.
    #[error("bootstrap-servers, entry {entry}: not `host:port` with a port of 1 to 65535")]
    BootstrapServer {
        /// Which entry, counted from 1.
        entry: usize,
    },
    /// A number outside its range.
    #[error("{setting} is {actual}; {minimum} to {maximum} is allowed")]
    OutOfRange {
        /// The setting.
        setting: &'static str,
        /// Its value, with its unit.
        actual: String,
        /// The least allowed.
        minimum: String,
        /// The greatest allowed.
        maximum: String,
    },
    /// A duration that the client would round.
    #[error("{setting} is not a whole number of milliseconds")]
    NotWholeMilliseconds {
        /// The setting.
        setting: &'static str,
    },
    /// Two settings contradict each other.
    #[error("{rule} does not hold: {left} and {right}")]
    Relation {
        /// The inequality, in the settings' names.
        rule: &'static str,
        /// The value of its left side.
        left: String,
        /// The value of its right side.
        right: String,
    },
    /// A destination's bounds contradict the producer's.
    #[error("binding revision {revision}: {rule} does not hold: {left} and {right}")]
    Destination {
        /// The binding.
        revision: DestinationBindingRevision,
        /// The inequality, in the settings' names.
        rule: &'static str,
        /// The value of its left side.
        left: u64,
        /// The value of its right side.
        right: u64,
    },
}

/// Settings that passed every check, with the full client configuration that follows from them.
#[derive(Clone)]
pub struct ProducerConfiguration {
    pub(crate) settings: ProducerSettings,
    pub(crate) destinations: Arc<KafkaDestinations>,
    pub(crate) properties: Arc<[Property]>,
}

impl ProducerConfiguration {
    /// How much longer than `request-timeout` the client waits for an answer. The broker enforces
    /// the one, the client the other, and the broker's refusal needs time to arrive.
    pub const CLIENT_MARGIN: Duration = Duration::from_secs(2);
    /// Bytes of a request beside its records, at most.
    pub const REQUEST_OVERHEAD: u32 = 1_024;
    /// Bytes of a batch beside its records, at most.
    pub const BATCH_OVERHEAD: u32 = 128;

    /// The least publish budget under which an attempt's fate is usually known at its end:
    /// `max-block-timeout + delivery-timeout`. With less, acknowledgements come late.
    pub fn publish_budget_floor(&self) -> Duration {
        self.settings.max_block_timeout + self.settings.delivery_timeout
    }

    /// Bytes that the client may hold, as the client itself counts them: whole KiB of
    /// `buffer-memory-bytes`.
    pub(crate) fn client_bytes(&self) -> u32 {
        self.settings.buffer_memory_bytes / 1_024 * 1_024
    }

    /// The most bytes that a record of any bound destination may have.
    pub(crate) fn largest_record_bytes(&self) -> u32 {
        let bound = self.destinations.iter().map(|one| one.maximum_record_bytes);
        bound.max().unwrap_or(0)
    }

    /// Where events go.
    pub fn destinations(&self) -> &KafkaDestinations {
        &self.destinations
    }

    /// Every client property with the value that the running client reports, addresses and
    /// secrets left out.
    pub fn properties(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.properties
            .iter()
            .filter_map(|property| Some((property.name, property.shown()?)))
    }

    /// How the brokers are spoken to.
    pub fn security(&self) -> &SecurityProfile {
        &self.settings.security
    }
}

impl std::fmt::Debug for ProducerConfiguration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.properties()).finish()
    }
}

impl std::fmt::Debug for ProducerSettings {
    /// Without the addresses.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProducerSettings")
            .field("cluster", &self.cluster)
            .field("security", &self.security.card_id())
            .finish_non_exhaustive()
    }
}

impl ProducerSettings {
    /// Checks every bound and relation and writes the client's configuration out in full.
    ///
    /// # Errors
    /// [`SettingsError`] naming the setting or the inequality.
    pub fn compile(
        self,
        destinations: KafkaDestinations,
    ) -> Result<ProducerConfiguration, SettingsError> {
        self.check_servers()?;
        self.check_ranges()?;
        self.check_relations()?;
        self.check_destinations(&destinations)?;
        Ok(ProducerConfiguration {
            properties: compile_properties(&self).into(),
            settings: self,
            destinations: Arc::new(destinations),
        })
    }

    fn check_servers(&self) -> Result<(), SettingsError> {
        if self.bootstrap_servers.is_empty() {
            return Err(SettingsError::NoBootstrapServer);
        }
        let wrong = self.bootstrap_servers.iter().position(|server| {
            let Some((host, port)) = server.rsplit_once(':') else {
                return true;
            };
            let host_is_plain = host.bytes().all(|b| {
                b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'[' | b']' | b':')
            });
            let port_is_plain = port.bytes().all(|byte| byte.is_ascii_digit())
                && port.parse::<u16>().is_ok_and(|number| number > 0);
            host.is_empty() || host.len() > 253 || !host_is_plain || !port_is_plain
        });
        match wrong {
            Some(index) => Err(SettingsError::BootstrapServer { entry: index + 1 }),
            None => Ok(()),
        }
    }

    fn check_ranges(&self) -> Result<(), SettingsError> {
        const MINUTE: u64 = 60_000;
        for (setting, actual, minimum, maximum) in [
            ("admission-timeout", self.admission_timeout, 1, MINUTE),
            (
                "delivery-timeout",
                self.delivery_timeout,
                1_000,
                10 * MINUTE,
            ),
            ("request-timeout", self.request_timeout, 100, 2 * MINUTE),
            ("max-block-timeout", self.max_block_timeout, 1, MINUTE),
            ("linger", self.linger, 0, 1_000),
            ("attestation-timeout", self.attestation_timeout, 100, MINUTE),
            ("drain-timeout", self.drain_timeout, 100, 10 * MINUTE),
            (
                "recovery-minimum-delay",
                self.recovery_minimum_delay,
                10,
                MINUTE,
            ),
            (
                "recovery-maximum-delay",
                self.recovery_maximum_delay,
                10,
                10 * MINUTE,
            ),
        ] {
            let (minimum, maximum) = (
                Duration::from_millis(minimum),
                Duration::from_millis(maximum),
            );
            if actual.subsec_nanos() % 1_000_000 != 0 {
                return Err(SettingsError::NotWholeMilliseconds { setting });
            }
            if !(minimum..=maximum).contains(&actual) {
                return Err(SettingsError::OutOfRange {
                    setting,
                    actual: format!("{actual:?}"),
                    minimum: format!("{minimum:?}"),
                    maximum: format!("{maximum:?}"),
                });
            }
        }
        for (setting, actual, minimum, maximum) in [
            (
                "buffer-memory-bytes",
                self.buffer_memory_bytes,
                65_536,
                1 << 30,
            ),
            (
                "maximum-request-bytes",
                self.maximum_request_bytes,
                4_096,
                64 << 20,
            ),
            ("batch-bytes", self.batch_bytes, 1_024, 16 << 20),
            (
                "maximum-admitted-records",
                self.maximum_admitted_records,
                1,
                100_000,
            ),
            (
                "maximum-buffered-records",
                self.maximum_buffered_records,
                1,
                1_000_000,
            ),
            (
                "maximum-late-observations",
                self.maximum_late_observations,
                1,
                1_000_000,
            ),
        ] {
            if !(minimum..=maximum).contains(&actual) {
                return Err(SettingsError::OutOfRange {
                    setting,
                    actual: actual.to_string(),
                    minimum: minimum.to_string(),
                    maximum: maximum.to_string(),
                });
            }
        }
        Ok(())
    }

    fn check_relations(&self) -> Result<(), SettingsError> {
        let in_time = self.request_timeout + ProducerConfiguration::CLIENT_MARGIN + self.linger;
        if self.delivery_timeout < in_time {
            return Err(SettingsError::Relation {
                rule: "delivery-timeout >= request-timeout + 2s client margin + linger",
                left: format!("{:?}", self.delivery_timeout),
                right: format!("{in_time:?}"),
            });
        }
        if self.recovery_minimum_delay > self.recovery_maximum_delay {
            return Err(SettingsError::Relation {
                rule: "recovery-minimum-delay <= recovery-maximum-delay",
                left: format!("{:?}", self.recovery_minimum_delay),
                right: format!("{:?}", self.recovery_maximum_delay),
            });
        }
        for (rule, small, great) in [
            (
                "maximum-admitted-records <= maximum-buffered-records",
                self.maximum_admitted_records,
                self.maximum_buffered_records,
            ),
            (
                "batch-bytes + 1024 request overhead <= maximum-request-bytes",
                self.batch_bytes + ProducerConfiguration::REQUEST_OVERHEAD,
                self.maximum_request_bytes,
            ),
            (
                "maximum-request-bytes <= buffer-memory-bytes",
                self.maximum_request_bytes,
                self.buffer_memory_bytes,
            ),
        ] {
            if small > great {
                return Err(SettingsError::Relation {
                    rule,
                    left: small.to_string(),
                    right: great.to_string(),
                });
            }
        }
        Ok(())
    }

    /// The size chain: envelope, record, batch, topic, request.
    fn check_destinations(&self, destinations: &KafkaDestinations) -> Result<(), SettingsError> {
        let sum = |bytes: u32, overhead: u32| u64::from(bytes) + u64::from(overhead);
        for destination in destinations.iter() {
            for (rule, left, right) in [
                (
                    "maximum-envelope-bytes + 1024 key, header and framing bytes <= \
                     maximum-record-bytes",
                    sum(
                        destination.maximum_envelope_bytes,
                        KafkaRecord::MAXIMUM_OVERHEAD,
                    ),
                    destination.maximum_record_bytes,
                ),
                (
                    "maximum-record-bytes + 128 batch overhead <= topic-maximum-bytes",
                    sum(
                        destination.maximum_record_bytes,
                        ProducerConfiguration::BATCH_OVERHEAD,
                    ),
                    destination.topic_maximum_bytes,
                ),
                (
                    "maximum-record-bytes + 1024 request overhead <= maximum-request-bytes",
                    sum(
                        destination.maximum_record_bytes,
                        ProducerConfiguration::REQUEST_OVERHEAD,
                    ),
                    self.maximum_request_bytes,
                ),
                // A larger batch of small records would be refused as a whole, and each of its
                // records with it.
                (
                    "batch-bytes + 128 batch overhead <= topic-maximum-bytes",
                    sum(self.batch_bytes, ProducerConfiguration::BATCH_OVERHEAD),
                    destination.topic_maximum_bytes,
                ),
                (
                    "minimum-in-sync-replicas <= minimum-replication-factor",
                    u64::from(destination.minimum_in_sync_replicas),
                    destination.minimum_replication_factor,
                ),
            ] {
                if left > u64::from(right) {
                    return Err(SettingsError::Destination {
                        revision: destination.binding_revision.clone(),
                        rule,
                        left,
                        right: right.into(),
                    });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
pub(crate) mod tests;
