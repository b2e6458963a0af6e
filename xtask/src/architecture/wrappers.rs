//! Holding the driver bans of `deny.toml` to the drivers of `modules.json`.
//!
//! Invariant: cargo-deny sees the resolved graph and `modules.json` the declared edges; both
//! know the same drivers with the same users.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::modules::Modules;

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    #[serde(default)]
    wrappers: BTreeSet<String>,
}

/// Drivers on which the two files differ.
pub(crate) fn check(modules: &Modules, deny: &toml::Table) -> Result<Vec<String>> {
    let bans: Vec<Ban> = deny
        .get("bans")
        .and_then(|bans| bans.get("deny"))
        .cloned()
        .context("deny.toml has no list bans.deny")?
        .try_into()
        .context("parse bans.deny of deny.toml")?;
    let banned: BTreeMap<&str, &BTreeSet<String>> = bans
        .iter()
        .map(|ban| (ban.name.as_str(), &ban.wrappers))
        .collect();
    let members: BTreeSet<&str> = modules
        .modules
        .iter()
        .map(|module| module.name.as_str())
        .collect();
    let mut found = Vec::new();
    for (driver, users) in &modules.drivers {
        let wanted: BTreeSet<&String> = users.normal.union(&users.dev).collect();
        let Some(wrappers) = banned.get(driver.as_str()) else {
            found.push(format!("deny.toml does not ban {driver}"));
            continue;
        };
        // Crates from elsewhere may wrap a driver too; modules.json knows only our own.
        let own: BTreeSet<&String> = wrappers
            .iter()
            .filter(|name| members.contains(name.as_str()))
            .collect();
        if own != wanted {
            found.push(format!(
                "deny.toml lets {own:?} use {driver}, modules.json {wanted:?}"
            ));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules() -> Modules {
        let module = |name: &str| {
            format!(
                r#"{{"name": "{name}", "path": "{name}", "depends-on": [], "dev-depends-on": []}}"#
            )
        };
        serde_json::from_str(&format!(
            r#"{{"modules": [{}, {}, {}], "unsafe-files": {{}},
                "drivers": {{"sqlx": {{"normal": ["a"], "dev": ["b"]}}}}}}"#,
            module("a"),
            module("b"),
            module("c"),
        ))
        .unwrap()
    }

    fn findings(deny: &str) -> Vec<String> {
        check(&modules(), &deny.parse().unwrap()).unwrap()
    }

    #[test]
    fn the_same_users_are_no_finding() {
        let deny =
            "[bans]\ndeny = [{ crate = \"sqlx\", wrappers = [\"b\", \"a\", \"sqlx-cli\"] }]\n";
        assert!(findings(deny).is_empty());
    }

    #[test]
    fn a_wrapper_too_many_and_a_missing_ban_are_found() {
        let deny = "[bans]\ndeny = [{ crate = \"sqlx\", wrappers = [\"a\", \"b\", \"c\"] }]\n";
        assert_eq!(findings(deny).len(), 1);
        assert_eq!(
            findings("[bans]\ndeny = []\n"),
            ["deny.toml does not ban sqlx"]
        );
    }
}
