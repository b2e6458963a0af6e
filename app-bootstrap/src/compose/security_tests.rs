//! Secrets as files: absent, blank, too long, of the wrong kind, over.
//!
//! Invariant: each is refused with its own value before anything opens, and none is shown.

use super::*;
use crate::config::SecretError;
use outbound_messaging_kafka::{AuthoritiesError, CredentialsError};
use std::path::Path;

const IN_2026: i64 = 1_780_000_000;

/// A certificate authority that is valid from 2026-01-01 to 2027-01-01.
fn authority() -> String {
    let mut parameters = rcgen::CertificateParams::default();
    parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2027, 1, 1);
    let key = rcgen::KeyPair::generate().expect("key");
    parameters.self_signed(&key).expect("certificate").pem()
}

fn reference(folder: &Path, name: &str) -> SecretReference {
    let path = folder.join(name);
    SecretReference::parse(&format!("secret://file{}", path.display())).expect("a reference")
}

/// What becomes of these three files; `None` is no file.
fn resolved(
    username: Option<&str>,
    password: Option<&str>,
    ca: Option<&str>,
    seconds: i64,
) -> Result<SecurityProfile, ComposeError> {
    let folder = tempfile::tempdir().expect("folder");
    for (name, content) in [("username", username), ("password", password), ("ca", ca)] {
        if let Some(content) = content {
            std::fs::write(folder.path().join(name), content).expect("write");
        }
    }
    let security = KafkaSecurity::SaslSslScramSha512 {
        username: reference(folder.path(), "username"),
        password: reference(folder.path(), "password"),
        ca: reference(folder.path(), "ca"),
    };
    let now = DatabaseInstant::from_epoch_micros(seconds * 1_000_000);
    resolve(&security, now)
}

#[test]
fn files_become_the_profile() {
    let ca = authority();
    let profile = resolved(Some("user\n"), Some("hunter2\n"), Some(&ca), IN_2026).expect("usable");
    assert_eq!(profile.card_id(), "kafka-sasl-ssl-scram-sha-512.v1");
    let expiry = profile.earliest_expiry().expect("one");
    assert_eq!(expiry.epoch_micros(), 1_798_761_600_000_000);
    assert!(!format!("{profile:?}").contains("hunter2"));
    let plain = resolve(&KafkaSecurity::LocalPlaintext, expiry).expect("no secret");
    assert!(matches!(plain, SecurityProfile::LocalPlaintext));
}

#[test]
fn an_absent_or_blank_secret_names_its_key() {
    let ca = authority();
    let ca = Some(ca.as_str());
    let user = Some("user");
    let password = Some("hunter2");
    for (result, expected) in [
        (resolved(None, password, ca, IN_2026), "username"),
        (resolved(user, None, ca, IN_2026), "password"),
        (resolved(user, Some("\n"), ca, IN_2026), "password"),
        (resolved(user, password, None, IN_2026), "ca"),
    ] {
        match result.map(|_| ()).expect_err(expected) {
            ComposeError::KafkaSecret { key, source } => {
                assert_eq!(key, expected);
                assert!(matches!(
                    source,
                    SecretError::Unreadable(_) | SecretError::NoText
                ));
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn what_the_producer_refuses_is_refused_here() {
    let ca = &authority();
    let two_lines = resolved(Some("user"), Some("hunter2\nmore"), Some(ca), IN_2026);
    let error = two_lines.map(|_| ()).expect_err("a line break");
    assert!(matches!(
        error,
        ComposeError::KafkaCredentials(CredentialsError::ControlCharacter { what: "password" })
    ));
    assert!(!crate::chain(&error).contains("hunter2"));
    let year = 366 * 86_400;
    for (ca, seconds, expected) in [
        (
            ca.as_str(),
            IN_2026 + year,
            "expired at 2027-01-01T00:00:00Z",
        ),
        (
            ca.as_str(),
            IN_2026 - year,
            "not valid before 2026-01-01T00:00:00Z",
        ),
        ("hunter2", IN_2026, "not in PEM"),
    ] {
        let error = resolved(Some("user"), Some("hunter2"), Some(ca), seconds)
            .map(|_| ())
            .expect_err(expected);
        assert!(matches!(
            error,
            ComposeError::KafkaAuthorities(
                AuthoritiesError::Expired { .. }
                    | AuthoritiesError::NotYetValid { .. }
                    | AuthoritiesError::NotPem
            )
        ));
        let said = crate::chain(&error);
        assert!(
            said.contains(expected) && !said.contains("hunter2"),
            "{said}"
        );
    }
}
