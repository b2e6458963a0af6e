//! What the secure profile gives a client, and what the running client says of it.
//!
//! Invariant: each property is compared, the hidden ones too, for both kinds of client; nothing of
//! a hidden value is in what is shown.

use super::*;
use crate::security::tests::{DAY, certificate, parse};
use crate::security::{ScramCredentials, SecurityProfile};
use crate::settings::tests::{compile, destination, settings};
use rdkafka::admin::AdminClient;
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, Producer as _};

/// The property as if another value were expected of the client.
pub(crate) fn expecting(property: &Property, value: &str) -> Property {
    let value = match &property.value {
        Value::Shown { given, .. } => Value::Shown {
            given: given.clone(),
            effective: value.to_owned(),
        },
        Value::Hidden(_) => Value::Hidden(value.into()),
    };
    Property {
        name: property.name,
        value,
    }
}

fn secure() -> (ProducerConfiguration, String) {
    let pem = certificate(-DAY, DAY);
    let credentials =
        ScramCredentials::new("a-user".into(), "hunter2".into(), parse(&pem).unwrap()).unwrap();
    let mut settings = settings();
    settings.security = SecurityProfile::SaslSslScramSha512(credentials);
    (compile(settings, destination()).unwrap(), pem)
}

const SECURITY: [(&str, Option<&str>); 7] = [
    ("security.protocol", Some("sasl_ssl")),
    ("enable.ssl.certificate.verification", Some("true")),
    ("ssl.endpoint.identification.algorithm", Some("https")),
    ("ssl.ca.pem", None),
    ("sasl.mechanism", Some("SCRAM-SHA-512")),
    ("sasl.username", None),
    ("sasl.password", None),
];

#[test]
fn the_secure_profile_is_written_out_and_shows_no_secret() {
    let (configuration, pem) = secure();
    for (name, shown) in SECURITY {
        let property = configuration
            .properties
            .iter()
            .find(|property| property.name == name)
            .expect(name);
        assert_eq!(property.shown(), shown, "{name}");
    }
    let shown = format!("{configuration:?}");
    let body = pem.lines().nth(1).unwrap();
    for secret in ["a-user", "hunter2", "secret-host", body] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

/// No broker is asked: a client reads its certificates and says what it uses when it is made.
#[test]
fn both_clients_use_each_value_and_a_different_one_is_noticed() {
    let (configuration, _) = secure();
    let producer: BaseProducer = configuration.client_config().create().unwrap();
    let admin: AdminClient<DefaultClientContext> = configuration.admin_config().create().unwrap();
    assert_eq!(configuration.assert_effective(producer.client()), Ok(()));
    assert_eq!(configuration.assert_effective_admin(admin.inner()), Ok(()));
    for (name, _) in SECURITY {
        let mut other = configuration.clone();
        let weakened: Vec<_> = other
            .properties
            .iter()
            .map(|property| match property.name == name {
                true => expecting(property, "plaintext"),
                false => property.clone(),
            })
            .collect();
        other.properties = weakened.into();
        let different = NotEffective { name };
        let found = other.assert_effective(producer.client());
        assert_eq!(found, Err(different.clone()), "{name}");
        let found = other.assert_effective_admin(admin.inner());
        assert_eq!(found, Err(different), "{name}");
    }
}
