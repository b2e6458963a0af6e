//! The database's section.
//!
//! Invariant: a server's URL is a secret reference, never a literal.

use super::super::cards::Tuple;
use super::super::code::StartCode;
use super::super::error::ConfigError;
use super::super::profile::StoreProfile;
use super::super::raw::RawStore;
use super::super::secret::{SecretError, SecretReference};
use super::origin::Origin;

/// Refuses a literal before anything else is looked at, wherever the profile runs.
pub(super) fn refuse_literals(at: &Origin<'_>, raw: &RawStore) -> Result<(), ConfigError> {
    raw.url.as_deref().map_or(Ok(()), |url| {
        SecretReference::parse(url)
            .map(|_| ())
            .map_err(|error| literal(at, &error))
    })
}

fn literal(at: &Origin<'_>, error: &SecretError) -> ConfigError {
    at.refuse_as(StartCode::LiteralCredential, "store.url", error.to_string())
}

pub(super) fn compile(
    at: &Origin<'_>,
    tuple: Tuple,
    raw: RawStore,
    found_url: Option<String>,
) -> Result<StoreProfile, ConfigError> {
    match tuple {
        Tuple::Embedded => {
            for (key, present) in [
                ("store.url", raw.url.is_some()),
                (
                    "store.maximum-connections",
                    raw.maximum_connections.is_some(),
                ),
            ] {
                if present {
                    return Err(at.unused(key, "is not used by the embedded tuple"));
                }
            }
            let path = at.required("store.path", raw.path)?;
            Ok(StoreProfile::Sqlite {
                path: at.path(&path),
            })
        }
        Tuple::LocalKafka | Tuple::LocalKafkaWindow => {
            if raw.path.is_some() {
                return Err(at.unused("store.path", "is not used by a PostgreSQL tuple"));
            }
            let url = match (raw.url, found_url) {
                (Some(_), Some(_)) => {
                    return Err(at.refuse(
                        "store.url",
                        "is given here and in endpoints-file; give it once",
                    ));
                }
                (Some(url), None) | (None, Some(url)) => url,
                (None, None) => {
                    let rule = "is required";
                    return Err(at.refuse_as(StartCode::KeyMissing, "store.url", rule));
                }
            };
            let maximum_connections =
                at.required("store.maximum-connections", raw.maximum_connections)?;
            Ok(StoreProfile::Postgres {
                url: SecretReference::parse(&url).map_err(|error| literal(at, &error))?,
                maximum_connections: at.count(
                    "store.maximum-connections",
                    maximum_connections,
                    2,
                    500,
                )?,
            })
        }
    }
}
