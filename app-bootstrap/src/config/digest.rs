//! One digest over a profile's settings, for whoever compares two processes.
//!
//! Invariant: secrets, references to them, addresses, paths and sensitive topics are left out, so
//! the digest is the same on every machine and nothing of them can be guessed from it
//! (requirement 004 §21.8).

use domain_core::hashing::{CanonicalHasher, Sha256Digest};
use std::collections::BTreeMap;

/// Keys whose values are places: they differ between machines that run the same settings.
pub(super) const PLACES: [&str; 11] = [
    "endpoints-file",
    "manifests",
    "lock-file",
    "path",
    "url",
    "bootstrap-servers",
    "descriptor-socket",
    "transaction-resource-id",
    "username",
    "password",
    "ca",
];

/// Digests the settings of a profile's text. Key order, layout and comments do not matter.
pub(super) fn settings_digest(text: &str) -> Result<Sha256Digest, toml::de::Error> {
    let table: toml::Table = text.parse()?;
    let mut settings = BTreeMap::new();
    collect("", &toml::Value::Table(table), &mut settings);
    let hasher = settings.iter().fold(
        CanonicalHasher::new("countersign.settings.v1"),
        |hasher, (key, value)| hasher.part(key.as_bytes()).part(value.as_bytes()),
    );
    Ok(hasher.finish())
}

fn collect(key: &str, value: &toml::Value, settings: &mut BTreeMap<String, String>) {
    match value {
        toml::Value::Table(table) => {
            let sensitive = table.get("sensitive").and_then(toml::Value::as_bool) == Some(true);
            for (name, value) in table {
                let left_out = PLACES.contains(&name.as_str()) || (sensitive && name == "topic");
                if !left_out {
                    collect(&format!("{key}.{name}"), value, settings);
                }
            }
        }
        toml::Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                collect(&format!("{key}[{index}]"), value, settings);
            }
        }
        toml::Value::String(text) if text.starts_with("secret://") => {}
        // TOML's own notation, so that `1` and `"1"` differ.
        other => {
            settings.insert(key.to_owned(), other.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> Sha256Digest {
        settings_digest(text).expect("TOML")
    }

    #[test]
    fn settings_count_and_their_layout_does_not() {
        let one = digest("[a]\nx = 1\ny = \"s\"\n");
        assert_eq!(one, digest("# note\n[a]\ny = \"s\"\nx = 1\n"));
        assert_ne!(one, digest("[a]\nx = \"1\"\ny = \"s\"\n"));
        assert_ne!(one, digest("[a]\nx = 1\ny = \"s\"\nz = 2\n"));
    }

    #[test]
    fn places_secrets_and_sensitive_topics_do_not_count() {
        let one = digest("[a]\nbootstrap-servers = [\"h:1\"]\nurl = \"secret://file/a\"\n");
        assert_eq!(one, digest("[a]\nbootstrap-servers = [\"other:2\"]\n"));
        assert_eq!(one, digest("[a]\npassword = \"secret://file/b\"\n"));
        let topic = |name: &str, sensitive: bool| {
            digest(&format!(
                "[d]\ntopic = \"{name}\"\nsensitive = {sensitive}\n"
            ))
        };
        assert_eq!(topic("a", true), topic("b", true));
        assert_ne!(topic("a", false), topic("b", false));
    }
}
