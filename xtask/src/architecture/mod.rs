//! The architecture test: the workspace against `config/architecture/modules.json`.
//!
//! The checks are pure functions over parsed input, so that the tests can plant what must be
//! found. `edges` compares with cargo, `sources` reads what cargo cannot see, `rule` is the
//! dependency rule, and the wrappers of `deny.toml` are held to the same list of drivers.
//!
//! Invariant: `cargo xtask architecture` and the test see the same findings.

mod code;
mod edges;
mod modules;
mod rule;
mod sources;
mod wrappers;

use anyhow::{Context, Result};

use crate::metadata::Metadata;
use crate::workspace;
use modules::Modules;

/// Everything that is wrong with the workspace; empty when all is well.
pub(crate) fn findings() -> Result<Vec<String>> {
    let modules = Modules::load()?;
    let metadata = Metadata::load()?;
    let mut found = edges::check(&modules, &metadata);
    found.extend(sources::check(&modules, &sources::load(&modules)?));
    found.extend(wrappers::check(&modules, &read_toml("deny.toml")?)?);
    for module in &modules.modules {
        let manifest = format!("{}/Cargo.toml", module.path);
        let parsed = read_toml(&manifest)?;
        if sources::aborts_on_panic(&parsed) {
            found.push(format!("{manifest} aborts on panic"));
        }
        if !sources::shares_lints(&parsed) {
            found.push(format!("{manifest} does not take the workspace's lints"));
        }
    }
    if sources::aborts_on_panic(&read_toml("Cargo.toml")?) {
        found.push("Cargo.toml aborts on panic".to_owned());
    }
    Ok(found)
}

/// Prints the findings; `false` when there are any.
pub(crate) fn report() -> Result<bool> {
    let found = findings()?;
    for finding in &found {
        println!("{finding}");
    }
    println!("architecture: {} findings", found.len());
    Ok(found.is_empty())
}

fn read_toml(path: &str) -> Result<toml::Table> {
    std::fs::read_to_string(workspace::root().join(path))
        .with_context(|| format!("read {path}"))?
        .parse()
        .with_context(|| format!("parse {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Dependency;

    #[test]
    fn the_workspace_is_as_listed() {
        let found = findings().unwrap();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn an_edge_planted_into_the_real_workspace_is_found() {
        let modules = Modules::load().unwrap();
        let mut metadata = Metadata::load().unwrap();
        let before = edges::check(&modules, &metadata);
        let domain = metadata
            .packages
            .iter_mut()
            .find(|package| package.name == "domain-core")
            .unwrap();
        domain.dependencies.push(Dependency {
            name: "application-core".to_owned(),
            kind: None,
            optional: true,
            path: None,
        });
        let after = edges::check(&modules, &metadata);
        assert_eq!(after.len(), before.len() + 1);
        let planted = "domain-core -> application-core is not listed in depends-on".to_owned();
        assert!(after.contains(&planted), "{after:?}");
    }

    #[test]
    fn a_stale_entry_planted_into_the_real_list_is_found() {
        let mut modules = Modules::load().unwrap();
        let metadata = Metadata::load().unwrap();
        let before = edges::check(&modules, &metadata);
        let journal = modules
            .modules
            .iter_mut()
            .find(|module| module.name == "portfolio")
            .unwrap();
        journal.dev_depends_on.insert("outbound-journal".to_owned());
        let after = edges::check(&modules, &metadata);
        assert_eq!(after.len(), before.len() + 1);
        let stale = "portfolio -> outbound-journal is listed in dev-depends-on but not there";
        assert!(after.contains(&stale.to_owned()), "{after:?}");
    }
}
