//! Settings that work, and each relation broken once.
//!
//! Invariant: a refusal names the setting or the inequality, and nothing shows an address.

use super::*;
use crate::destination::{KafkaDestination, TopicAllowList, TopicName};
use domain_core::identity::LogicalDestinationId;

pub(crate) fn settings() -> ProducerSettings {
    ProducerSettings {
        cluster: ClusterAlias::parse("primary").unwrap(),
        bootstrap_servers: vec!["secret-host:9092".to_owned()],
        security: SecurityProfile::LocalPlaintext,
        admission_timeout: Duration::from_secs(1),
        delivery_timeout: Duration::from_secs(60),
        request_timeout: Duration::from_secs(35),
        max_block_timeout: Duration::from_secs(5),
        linger: Duration::from_millis(5),
        attestation_timeout: Duration::from_secs(10),
        drain_timeout: Duration::from_secs(10),
        recovery_minimum_delay: Duration::from_millis(250),
        recovery_maximum_delay: Duration::from_secs(30),
        buffer_memory_bytes: 32 << 20,
        maximum_request_bytes: 4 << 20,
        batch_bytes: 256 << 10,
        maximum_admitted_records: 16,
        maximum_buffered_records: 64,
        maximum_late_observations: 1_000,
    }
}

pub(crate) fn destination() -> KafkaDestination {
    KafkaDestination {
        destination: LogicalDestinationId::parse("d").unwrap(),
        binding_revision: DestinationBindingRevision::parse("d-r1").unwrap(),
        topic: TopicName::parse("t").unwrap(),
        expected_partitions: 12,
        minimum_replication_factor: 3,
        minimum_in_sync_replicas: 2,
        maximum_record_bytes: 1_000_000,
        maximum_envelope_bytes: 786_432,
        topic_maximum_bytes: 1_048_588,
    }
}

pub(crate) fn compile(
    settings: ProducerSettings,
    destination: KafkaDestination,
) -> Result<ProducerConfiguration, SettingsError> {
    let allowed = TopicAllowList::parse(["t"]).unwrap();
    settings.compile(KafkaDestinations::build(vec![destination], &allowed).unwrap())
}

#[test]
fn candidate_values_compile_and_show_no_address() {
    let configuration = compile(settings(), destination()).unwrap();
    assert_eq!(
        configuration.publish_budget_floor(),
        Duration::from_secs(65)
    );
    let shown = format!("{configuration:?} {:?}", settings());
    assert!(!shown.contains("secret-host"), "{shown}");
    assert_eq!(configuration.security().card_id(), "local-plaintext.v1");
    assert_eq!(configuration.security().earliest_expiry(), None);
    let value = |name: &str| {
        configuration
            .properties()
            .find(|(property, _)| *property == name)
            .map(|(_, value)| value.to_owned())
    };
    for (name, expected) in [
        ("enable.idempotence", "true"),
        ("acks", "-1"),
        ("retries", "2147483647"),
        ("max.in.flight.requests.per.connection", "5"),
        ("socket.timeout.ms", "37000"),
        ("request.timeout.ms", "35000"),
        ("delivery.timeout.ms", "60000"),
        ("queue.buffering.max.kbytes", "32768"),
        ("message.max.bytes", "4194304"),
        ("partitioner", "murmur2_random"),
        ("allow.auto.create.topics", "false"),
        ("compression.type", "none"),
    ] {
        assert_eq!(value(name).as_deref(), Some(expected), "{name}");
    }
    assert_eq!(value("bootstrap.servers"), None);
}

#[test]
fn each_relation_is_refused_by_its_inequality() {
    type Change = fn(&mut ProducerSettings, &mut KafkaDestination);
    let cases: [(&str, Change); 10] = [
        ("delivery-timeout >= request-timeout", |s, _| {
            s.delivery_timeout = Duration::from_secs(37);
        }),
        (
            "recovery-minimum-delay <= recovery-maximum-delay",
            |s, _| {
                s.recovery_maximum_delay = Duration::from_millis(249);
            },
        ),
        (
            "maximum-admitted-records <= maximum-buffered-records",
            |s, _| {
                s.maximum_admitted_records = 65;
            },
        ),
        ("batch-bytes + 1024 request overhead", |s, _| {
            s.maximum_request_bytes = 256 << 10;
        }),
        ("maximum-request-bytes <= buffer-memory-bytes", |s, _| {
            s.buffer_memory_bytes = 2 << 20;
        }),
        ("maximum-envelope-bytes + 1024", |_, d| {
            d.maximum_envelope_bytes = 1_000_000;
        }),
        ("maximum-record-bytes + 128 batch overhead", |_, d| {
            d.maximum_record_bytes = 1_048_588;
        }),
        ("maximum-record-bytes + 1024 request overhead", |s, _| {
            s.maximum_request_bytes = 1_000_000;
        }),
        (
            "batch-bytes + 128 batch overhead <= topic-maximum-bytes",
            |s, d| {
                d.maximum_envelope_bytes = 1_000;
                d.maximum_record_bytes = 10_000;
                d.topic_maximum_bytes = 100_000;
                s.batch_bytes = 100_000;
            },
        ),
        (
            "minimum-in-sync-replicas <= minimum-replication-factor",
            |_, d| {
                d.minimum_in_sync_replicas = 4;
            },
        ),
    ];
    for (rule, change) in cases {
        let (mut settings, mut destination) = (settings(), destination());
        change(&mut settings, &mut destination);
        let error = compile(settings, destination).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(rule), "{rule}: {error}");
    }
}

#[test]
fn servers_and_ranges_are_checked_without_showing_them() {
    for bad in [
        "host",
        "host:",
        ":9092",
        "host:0",
        "host:65536",
        "a,b:1",
        "ho st:1",
        "h:+1",
    ] {
        let mut settings = settings();
        settings.bootstrap_servers.push(bad.to_owned());
        assert_eq!(
            compile(settings, destination()).map(|_| ()),
            Err(SettingsError::BootstrapServer { entry: 2 }),
            "{bad}"
        );
    }
    let mut none = settings();
    none.bootstrap_servers.clear();
    assert_eq!(
        compile(none, destination()).map(|_| ()),
        Err(SettingsError::NoBootstrapServer)
    );
    let mut endless = settings();
    endless.delivery_timeout = Duration::from_secs(601);
    let error = compile(endless, destination()).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "delivery-timeout is 601s; 1s to 600s is allowed"
    );
    let mut fine = settings();
    fine.linger = Duration::from_micros(1_500);
    assert_eq!(
        compile(fine, destination()).map(|_| ()),
        Err(SettingsError::NotWholeMilliseconds { setting: "linger" })
    );
    for bad in ["", "A", "1a", "a_b", &"a".repeat(33)] {
        assert_eq!(ClusterAlias::parse(bad), Err(SettingsError::ClusterAlias));
    }
}
