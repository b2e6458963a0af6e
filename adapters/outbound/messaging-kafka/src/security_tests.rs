//! Pins and credentials that work, and each that does not.
//!
//! Invariant: every refusal has its own value, and nothing shows a secret.

use super::*;
use rcgen::{CertificateParams, KeyPair};
use time::OffsetDateTime;

pub(crate) const NOW: i64 = 1_800_000_000;
pub(crate) const DAY: i64 = 86_400;

fn now() -> DatabaseInstant {
    DatabaseInstant::from_epoch_micros(NOW * 1_000_000)
}

/// A certificate that is valid from one second to another, relative to [`NOW`].
pub(crate) fn certificate(from: i64, until: i64) -> String {
    let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let instant = |offset| OffsetDateTime::from_unix_timestamp(NOW + offset).unwrap();
    parameters.not_before = instant(from);
    parameters.not_after = instant(until);
    let key = KeyPair::generate().unwrap();
    parameters.self_signed(&key).unwrap().pem()
}

pub(crate) fn parse(pem: &str) -> Result<PinnedAuthorities, AuthoritiesError> {
    PinnedAuthorities::parse(&SecretString::from(pem), now())
}

fn expiry(pem: &str) -> i64 {
    let micros = parse(pem).unwrap().earliest_expiry().epoch_micros();
    micros / 1_000_000 - NOW
}

#[test]
fn valid_authorities_give_their_number_and_the_earliest_expiry() {
    let (short, long) = (certificate(-DAY, DAY), certificate(-DAY, 9 * DAY));
    assert_eq!(expiry(&short), DAY);
    let both = format!("{long}{short}");
    assert_eq!(expiry(&both), DAY);
    assert_eq!(parse(&both).unwrap().count(), 2);
    // Its last second counts, and clocks may differ by a bound at its beginning.
    assert_eq!(expiry(&certificate(-DAY, 0)), 0);
    assert_eq!(expiry(&certificate(300, DAY)), DAY);
}

#[test]
fn text_around_certificates_and_other_line_widths_are_read_and_left_out() {
    let certificate = certificate(-DAY, DAY);
    let body: String = certificate
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .collect();
    let odd = format!(
        "subject=/CN=\0 an authority\r\n-----BEGIN CERTIFICATE-----\r\n{body}\r\n\
         -----END CERTIFICATE-----\r\nthe end"
    );
    let parsed = parse(&odd).unwrap();
    let kept = parsed.pem().expose_secret().replace('\r', "");
    assert_eq!(kept, certificate.replace('\r', ""));
}

#[test]
fn while_an_authority_is_replaced_one_valid_certificate_is_enough() {
    let over = certificate(-9 * DAY, -DAY);
    let to_come = certificate(DAY, 9 * DAY);
    let valid = certificate(-DAY, 2 * DAY);
    assert_eq!(expiry(&format!("{over}{to_come}{valid}")), 2 * DAY);
}

#[test]
fn each_unusable_pin_is_told_from_the_others() {
    let key = KeyPair::generate().unwrap().serialize_pem();
    let valid = certificate(-DAY, DAY);
    let unfinished = valid.replace("-----END CERTIFICATE-----", "");
    let broken = "-----BEGIN CERTIFICATE-----\nMIIB*\u{e9}\n-----END CERTIFICATE-----\n";
    for (pem, expected) in [
        ("", AuthoritiesError::NotPem),
        ("no certificate at all", AuthoritiesError::NotPem),
        (unfinished.as_str(), AuthoritiesError::NotPem),
        (key.as_str(), AuthoritiesError::NoCertificate),
        (&format!("{valid}{key}"), AuthoritiesError::Foreign),
        (broken, AuthoritiesError::Malformed { number: 1 }),
        (
            &format!("{valid}{broken}"),
            AuthoritiesError::Malformed { number: 2 },
        ),
    ] {
        assert_eq!(parse(pem).map(|_| ()), Err(expected), "{pem}");
    }
    let expired = parse(&certificate(-9 * DAY, -1)).map(|_| ()).unwrap_err();
    assert!(matches!(expired, AuthoritiesError::Expired { .. }));
    assert_eq!(
        expired.to_string(),
        "the certificate authorities expired at 2027-01-15T07:59:59Z"
    );
    let early = parse(&certificate(301, DAY)).map(|_| ()).unwrap_err();
    assert_eq!(
        early.to_string(),
        "the certificate authorities are not valid before 2027-01-15T08:05:01Z; 300s ahead is \
         allowed"
    );
}

#[test]
fn names_and_passwords_have_a_bound_and_no_control_characters() {
    let authorities = || parse(&certificate(-DAY, DAY)).unwrap();
    let build = |name: &str, password: &str| {
        ScramCredentials::new(name.into(), password.into(), authorities())
    };
    assert!(build("u", &"p".repeat(1_024)).is_ok());
    for (name, password, expected) in [
        ("", "hunter2", CredentialsError::Length { what: "username" }),
        ("user", "", CredentialsError::Length { what: "password" }),
        (
            "user",
            &"hunter2".repeat(200),
            CredentialsError::Length { what: "password" },
        ),
        (
            "user",
            "hunter2\n",
            CredentialsError::ControlCharacter { what: "password" },
        ),
        (
            "us\0er",
            "hunter2",
            CredentialsError::ControlCharacter { what: "username" },
        ),
    ] {
        let error = build(name, password).map(|_| ()).unwrap_err();
        assert_eq!(error, expected);
        assert!(!error.to_string().contains("hunter2"));
    }
}

#[test]
fn nothing_shows_a_secret() {
    let pem = certificate(-DAY, DAY);
    let credentials =
        ScramCredentials::new("a-user".into(), "hunter2".into(), parse(&pem).unwrap()).unwrap();
    let profile = SecurityProfile::SaslSslScramSha512(credentials);
    let shown = format!("{profile:?}");
    let body = pem.lines().nth(1).unwrap();
    for secret in ["a-user", "hunter2", body] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert_eq!(profile.card_id(), "kafka-sasl-ssl-scram-sha-512.v1");
    let expiry = profile.earliest_expiry().unwrap().epoch_micros();
    assert_eq!(expiry, (NOW + DAY) * 1_000_000);
}
