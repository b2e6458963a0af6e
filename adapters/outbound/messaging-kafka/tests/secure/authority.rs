//! Certificates of one test run.
//!
//! Invariant: every private key is made here and dies with the run.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use std::net::{IpAddr, Ipv4Addr};
use time::{Duration, OffsetDateTime};

/// An authority that signs brokers' certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub(crate) pem: String,
}

/// When a certificate is valid.
#[derive(Clone, Copy)]
pub(crate) enum Validity {
    Now,
    Over,
    ToCome,
}

impl Validity {
    fn period(self) -> (OffsetDateTime, OffsetDateTime) {
        let since = std::time::UNIX_EPOCH.elapsed().expect("after 1970");
        let seconds = i64::try_from(since.as_secs()).expect("a time of this age");
        let now = OffsetDateTime::from_unix_timestamp(seconds).expect("a time of this age");
        match self {
            Self::Now => (now - Duration::days(1), now + Duration::days(30)),
            Self::Over => (now - Duration::days(30), now - Duration::hours(1)),
            Self::ToCome => (now + Duration::hours(1), now + Duration::days(30)),
        }
    }
}

impl Authority {
    pub(crate) fn create(name: &str) -> Self {
        let mut parameters = CertificateParams::default();
        parameters
            .distinguished_name
            .push(DnType::CommonName, name.to_owned());
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        (parameters.not_before, parameters.not_after) = Validity::Now.period();
        let key = KeyPair::generate().expect("key");
        let pem = parameters.self_signed(&key).expect("certificate").pem();
        Self {
            issuer: Issuer::new(parameters, key),
            pem,
        }
    }

    /// A broker's key and certificate in one file of PEM.
    pub(crate) fn broker(&self, host: &str, validity: Validity) -> String {
        let mut parameters = CertificateParams::new(vec![host.to_owned()]).expect("a host name");
        if host == "localhost" {
            let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
            parameters
                .subject_alt_names
                .push(SanType::IpAddress(loopback));
        }
        parameters
            .distinguished_name
            .push(DnType::CommonName, "broker".to_owned());
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        (parameters.not_before, parameters.not_after) = validity.period();
        let key = KeyPair::generate().expect("key");
        let certificate = parameters
            .signed_by(&key, &self.issuer)
            .expect("certificate");
        format!("{}{}{}", key.serialize_pem(), certificate.pem(), self.pem)
    }
}
