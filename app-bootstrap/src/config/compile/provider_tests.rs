//! The example profile's channel, and each way to weaken it.
//!
//! Invariant: a refusal names the key and shows no value.

use super::super::super::raw;
use super::*;
use std::path::{Path, PathBuf};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/profiles/example-kafka-sasl-ssl.toml")
}

/// The example's Kafka section after one replacement.
fn section(replace: &str, with: &str) -> RawKafka {
    let text = std::fs::read_to_string(example()).expect("profile");
    assert!(text.contains(replace), "{replace}");
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("profile.toml");
    std::fs::write(&file, text.replacen(replace, with, 1)).expect("write");
    let raw = raw::read(&file).expect("a profile");
    raw.0.app.messaging.kafka.expect("a section")
}

fn compiled(raw: RawKafka) -> Result<KafkaProfile, ConfigError> {
    let file = example();
    match kafka(&Origin { file: &file }, raw, None)?.0 {
        ProviderProfile::Kafka(profile) => Ok(profile),
        other => panic!("{other:?}"),
    }
}

fn in_production(raw: &RawKafka) -> Result<(), ConfigError> {
    let file = example();
    refuse_open_channel(&Origin { file: &file }, Environment::Production, Some(raw))
}

const SECTION: &str = "[app.messaging.kafka.security]";
const CARD: &str = "kafka-sasl-ssl-scram-sha-512.v1";

#[test]
fn the_example_has_references_alone_and_suits_production() {
    let raw = section("", "");
    assert_eq!(in_production(&raw), Ok(()));
    let profile = compiled(raw).expect("compiles");
    let reference = |name: &str| {
        SecretReference::parse(&format!("secret://file/etc/countersign/kafka.{name}"))
            .expect("a reference")
    };
    assert_eq!(
        profile.security,
        KafkaSecurity::SaslSslScramSha512 {
            username: reference("username"),
            password: reference("password"),
            ca: reference("ca.pem"),
        }
    );
}

#[test]
fn a_secret_that_is_written_out_is_refused_and_not_repeated() {
    for (key, reference) in [
        ("username", "secret://file/etc/countersign/kafka.username"),
        ("password", "secret://file/etc/countersign/kafka.password"),
        ("ca", "secret://file/etc/countersign/kafka.ca.pem"),
    ] {
        for literal in ["hunter2", "secret://filehunter2", "secret://env/hunter2"] {
            let raw = section(reference, literal);
            assert!(!format!("{raw:?}").contains("hunter2"));
            let error = in_production(&raw).expect_err(literal);
            assert_eq!(compiled(raw).map(|_| ()), Err(error.clone()));
            assert_eq!(error.key, format!("app.messaging.kafka.security.{key}"));
            assert!(error.rule.contains("is not a secret reference"), "{error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}

#[test]
fn each_profile_has_what_it_needs_and_nothing_else() {
    let refused = |raw: RawKafka, key: &str, rule: &str| {
        let error = compiled(raw).map(|_| ()).expect_err(rule);
        assert_eq!(error.key, format!("app.messaging.{key}"));
        assert!(error.rule.contains(rule), "{error}");
    };
    let mut without = section("", "");
    without.security = None;
    refused(without, "kafka.security", "is required by");
    let plain = section(CARD, "local-plaintext.v1");
    refused(plain, "kafka.security", "has no place beside");
    let unknown = section(CARD, "kafka-sasl-ssl-trust-all.v1");
    refused(unknown, "kafka.security-profile", "is no known card id");
    let mut plain = section(CARD, "local-plaintext.v1");
    plain.security = None;
    let profile = compiled(plain).expect("compiles");
    assert_eq!(profile.security, KafkaSecurity::LocalPlaintext);
}

#[test]
fn production_refuses_plaintext_and_development_does_not() {
    let mut plain = section(CARD, "local-plaintext.v1");
    plain.security = None;
    let error = in_production(&plain).expect_err("plaintext");
    assert_eq!(error.key, "app.messaging.kafka.security-profile");
    assert!(error.rule.contains("production refuses it"), "{error}");
    let file = example();
    let at = Origin { file: &file };
    assert_eq!(
        refuse_open_channel(&at, Environment::Development, Some(&plain)),
        Ok(())
    );
}

#[test]
fn trust_is_not_to_be_weakened_by_a_key() {
    for key in ["verify-hostname = false", "trust-all = true"] {
        let text = std::fs::read_to_string(example()).expect("profile");
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join("profile.toml");
        std::fs::write(&file, text.replace(SECTION, &format!("{SECTION}\n{key}"))).expect("write");
        let error = raw::read(&file).map(|_| ()).expect_err(key);
        assert!(error.rule.contains("unknown field"), "{error}");
    }
}
