//! Profiles: the checked-in ones compile, and each broken one names file, key and rule.

use app_bootstrap::config::{self, ConfigError, Environment, ExpectedState, Tuple};
use domain_core::publication::FailureClass;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn profiles() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/profiles")
}

fn embedded() -> String {
    std::fs::read_to_string(profiles().join("local-embedded.toml")).expect("profile")
}

fn load_text(text: &str) -> Result<config::Profile, ConfigError> {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("profile.toml");
    std::fs::write(&file, text).expect("write");
    config::load(&file)
}

/// The embedded profile with one text replaced is refused at `key` for `rule`.
fn refused(replace: &str, with: &str, key: &str, rule: &str) {
    let text = embedded();
    assert!(text.contains(replace), "{replace} is not in the profile");
    let error = load_text(&text.replacen(replace, with, 1)).expect_err(with);
    assert!(error.file.ends_with("profile.toml"));
    assert!(error.key.contains(key), "key {} for {with}", error.key);
    assert!(error.rule.contains(rule), "rule {} for {with}", error.rule);
}

#[test]
fn the_embedded_profile_is_the_embedded_tuple() {
    let profile = config::load(&profiles().join("local-embedded.toml")).expect("compiles");
    assert_eq!(profile.environment, Environment::Development);
    let ExpectedState::Active(active) = profile.state else {
        panic!("the profile is active");
    };
    assert_eq!(active.tuple, Tuple::Embedded);
    assert_eq!(active.manifests.len(), 3);
    assert_eq!(active.destinations.len(), 1);
}

#[test]
fn a_disabled_profile_has_nothing_in_it() {
    let profile = config::load(&profiles().join("disabled.toml")).expect("compiles");
    assert!(matches!(profile.state, ExpectedState::Disabled));
    let text = embedded().replacen("\"ACTIVE\"", "\"DISABLED\"", 1);
    let error = load_text(&text).expect_err("active parts");
    assert_eq!(error.key, "app.messaging.contracts");
    assert!(error.rule.contains("DISABLED"));
}

#[test]
fn blank_missing_and_huge_files_fail_closed() {
    for blank in ["", "  \n\t\n"] {
        assert!(load_text(blank).expect_err("blank").rule.contains("blank"));
    }
    let comment = load_text("# only a comment\n").expect_err("comment");
    assert!(comment.rule.contains("missing field `app`"), "{comment}");
    let missing = config::load(Path::new("/nonexistent/profile.toml")).expect_err("missing");
    assert!(missing.rule.contains("cannot be read"));
    let huge = load_text(&"#".repeat(300_000)).expect_err("huge");
    assert!(huge.rule.contains("at most 262144"));
    for endless in ["/dev/zero", "/dev/tty", "/proc"] {
        let error = config::load(Path::new(endless)).expect_err(endless);
        assert!(error.rule.contains("not a regular file") || error.rule.contains("cannot be"));
    }
}

#[test]
fn unknown_and_duplicate_keys_are_named() {
    refused(
        "poll-interval = ",
        "acks = \"all\"\npoll-interval = ",
        "app.messaging.outbox",
        "unknown field `acks`",
    );
    refused(
        "claim-lease = \"30s\"",
        "claim-lease = \"30s\"\nclaim-lease = \"60s\"",
        "line",
        "duplicate key",
    );
    refused(
        "expected-state",
        "expected_state",
        "app.messaging",
        "unknown field",
    );
}

#[test]
fn enumerations_have_no_default() {
    refused(
        "environment = \"development\"\n",
        "",
        "app.messaging",
        "missing field `environment`",
    );
    refused(
        "\"development\"",
        "\"staging\"",
        "environment",
        "`production` or `development`",
    );
    refused(
        "\"ACTIVE\"",
        "\"active\"",
        "expected-state",
        "`ACTIVE` or `DISABLED`",
    );
    refused(
        "\"polling\"",
        "\"cdc\"",
        "outbox.dispatch-mode",
        "no other mode exists",
    );
}

#[test]
fn production_refuses_a_tuple_that_is_not_promoted() {
    refused(
        "\"development\"",
        "\"production\"",
        "environment",
        "release-eligible",
    );
}

#[test]
fn every_card_is_named_and_makes_a_listed_tuple() {
    refused(
        "\"journal-acknowledged.v1\"",
        "\"journal-acknowledged.v2\"",
        "publication.producer-profile",
        "known are journal-acknowledged.v1, kafka-rdkafka-acknowledged-idempotent.v1",
    );
    for (key, id) in [
        (
            "publication.semantic-profile",
            "messaging-outbox-publish.v1",
        ),
        (
            "publication.serialization-profile",
            "json-schema-envelope.v1",
        ),
        ("publication.topic-profile", "local-journal-file.v1"),
        (
            "publication.ordering-profile",
            "per-key-normal-path-sequence-detectable.v1",
        ),
        ("outbox.polling-profile", "sqlite-polling-outbox.v1"),
        ("outbox.claim-profile", "sqlite-single-writer-claim.v1"),
        (
            "outbox.transaction-resource-profile",
            "same-sqlite-transaction-resource.v1",
        ),
        (
            "outbox.operator-control-profile",
            "operator-control-none-development.v1",
        ),
        ("journal.security-profile", "no-network.v1"),
    ] {
        refused(
            &format!("\"{id}\""),
            "\"other.v1\"",
            key,
            "makes no listed tuple",
        );
    }
    refused(
        "[app.messaging.outbox]",
        "compression-profile = \"kafka-compression-none.v1\"\n[app.messaging.outbox]",
        "publication.compression-profile",
        "has no place",
    );
}

#[test]
fn contradictory_durations_name_the_inequality() {
    refused(
        "\"30s\"",
        "\"24s\"",
        "outbox.claim-lease",
        "claim-lease >= application-attempt-budget",
    );
    refused(
        "\"20s\"",
        "\"12s\"",
        "journal.application-attempt-budget",
        "application-attempt-budget >= admission-timeout",
    );
    refused(
        "\"15m\"",
        "\"19s\"",
        "outbox.maximum-automatic-publication-age",
        "maximum-automatic-publication-age >= application-attempt-budget",
    );
    refused(
        "\"100ms\"\nretry",
        "\"11s\"\nretry",
        "outbox.retry",
        "exceeds the maximum",
    );
}

/// The window card's profile with one replacement, refused at a key with a rule.
fn window_refused(from: &str, to: &str, key: &str, rule: &str) {
    let text = std::fs::read_to_string(profiles().join("local-kafka-window.toml"))
        .expect("profile")
        .replacen(
            "endpoints-file = \"../../target/services/endpoints.toml\"\n",
            "",
            1,
        )
        .replacen(
            "[app.messaging.kafka]\n",
            "[app.messaging.kafka]\nbootstrap-servers = [\"127.0.0.1:9\"]\n",
            1,
        )
        .replacen(
            "[app.messaging.store]\n",
            "[app.messaging.store]\nurl = \"secret://file/nowhere\"\n",
            1,
        );
    assert!(text.contains(from), "{from} is not in the profile");
    let error = load_text(&text.replacen(from, to, 1))
        .expect_err("refused")
        .to_string();
    assert!(error.contains(key) && error.contains(rule), "{error}");
}

#[test]
fn the_rotations_bounds_are_named() {
    for (from, to, key) in [
        (
            "secret-poll-interval = \"10s\"",
            "secret-poll-interval = \"10ms\"",
            "100ms",
        ),
        ("drain-timeout = \"10s\"", "drain-timeout = \"11m\"", "600s"),
        (
            "previous-material-limit = \"5m\"",
            "previous-material-limit = \"25h\"",
            "86400s",
        ),
    ] {
        let setting = from.split_once(' ').expect("a key").0;
        window_refused(from, to, &format!("kafka.rotation.{setting}"), key);
    }
    window_refused(
        "[app.messaging.kafka.rotation]",
        "[app.messaging.kafka.rotations]",
        "rotations",
        "unknown field",
    );
}

#[test]
fn the_window_cards_inequalities_are_named() {
    window_refused(
        "claim-lease = \"95s\"",
        "claim-lease = \"84s\"",
        "outbox.claim-lease",
        "claim-lease >= window.enqueue-budget + application-attempt-budget",
    );
    window_refused(
        "maximum-admitted-records = 4000",
        "maximum-admitted-records = 3999",
        "kafka.producer.maximum-admitted-records",
        "window.workers * window.records is 4000",
    );
    window_refused("workers = 4", "workers = 0", "outbox.window.workers", "");
    window_refused(
        "records = 1000",
        "records = 10001",
        "outbox.window.records",
        "",
    );
    window_refused(
        "[app.messaging.outbox.window]",
        "[app.messaging.outbox.windows]",
        "windows",
        "unknown field",
    );
    window_refused(
        "postgresql-scope-window-claim.v1",
        "postgresql-per-record-jit-claim.v1",
        "outbox.window",
        "window claim card alone",
    );
    window_refused(
        "maximum-unresolved = 1000000",
        "maximum-unresolved = 0",
        "outbox.capacity.maximum-unresolved",
        "1 to",
    );
    window_refused(
        "audit-retention = \"30d\"",
        "audit-retention = \"0s\"",
        "outbox.retention.audit-retention",
        "zero",
    );
}

#[test]
fn a_retry_override_names_a_class_once() {
    let over = |class: &str, minimum: &str| {
        format!(
            "[[app.messaging.outbox.retry-overrides]]\nfailure-class = \"{class}\"\n\
             minimum-delay = \"{minimum}\"\nmaximum-delay = \"10s\"\n\n[app.messaging.store]"
        )
    };
    let once = over("BROKER_UNAVAILABLE", "1s");
    let text = embedded().replacen("[app.messaging.store]", &once, 1);
    let ExpectedState::Active(active) = load_text(&text).expect("compiles").state else {
        panic!("the profile is active");
    };
    let after = |class| active.outbox.retry.delay(Some(class), 1, 0);
    assert_eq!(
        after(FailureClass::BrokerUnavailable),
        Duration::from_secs(1)
    );
    assert!(after(FailureClass::DeadlineExceeded) < Duration::from_secs(1));
    let key = "retry-overrides";
    refused(
        "[app.messaging.store]",
        &over("NO_SUCH_CLASS", "1s"),
        key,
        "is no failure class",
    );
    refused(
        "[app.messaging.store]",
        &over("BROKER_UNAVAILABLE", "11s"),
        key,
        "exceeds the maximum",
    );
    let twice = format!("{}\n{}", once.replace("[app.messaging.store]", ""), once);
    refused("[app.messaging.store]", &twice, key, "is given twice");
}

#[test]
fn zero_negative_and_overflowing_values_name_their_bound() {
    for bad in [
        "\"0s\"",
        "\"-1s\"",
        "\"99999999999999999999s\"",
        "\"30\"",
        "\"4000d\"",
    ] {
        refused("\"30s\"", bad, "outbox.claim-lease", "");
    }
    refused("\"30s\"", "30", "outbox.claim-lease", "expected a string");
    for bad in ["0", "-1", "1001", "9223372036854775807"] {
        refused(
            "maximum-relay-attempts = 5",
            &format!("maximum-relay-attempts = {bad}"),
            "outbox.maximum-relay-attempts",
            "1 to 1000 is allowed",
        );
    }
    refused(
        "maximum-record-bytes = 1024",
        "maximum-record-bytes = 800",
        "destinations.portfolio-domain-events.maximum-envelope-bytes",
        "leaves no room",
    );
}

#[test]
fn a_secret_under_the_wrong_key_is_not_repeated() {
    for text in [
        embedded().replacen(
            "maximum-relay-attempts = 5",
            "maximum-relay-attempts = \"hunter2\"",
            1,
        ),
        embedded().replacen("\"30s\"", "\"hunter2\"", 1),
        std::fs::read_to_string(profiles().join("local-kafka.toml"))
            .expect("profile")
            .replacen(
                "endpoints-file = \"../../target/services/endpoints.toml\"\n",
                "",
                1,
            )
            .replacen(
                "security-profile = \"local-plaintext.v1\"",
                "security-profile = \"local-plaintext.v1\"\nbootstrap-servers = [\"h:1\"]",
                1,
            )
            .replacen(
                "maximum-connections = 10",
                "maximum-connections = 10\nurl = \"postgres://u:hunter2@db/x\"",
                1,
            ),
    ] {
        let error = load_text(&text).expect_err("refused");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}

#[test]
fn the_local_kafka_profile_says_how_to_start_its_services() {
    let text = std::fs::read_to_string(profiles().join("local-kafka.toml")).expect("profile");
    let error = load_text(&text).expect_err("no services here");
    assert!(
        error.to_string().contains("cargo xtask services up"),
        "{error}"
    );
}
