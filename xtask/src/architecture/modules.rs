//! `config/architecture/modules.json`: what is allowed, as data.
//!
//! Invariant: the file only narrows what `rule` allows; it cannot allow what the rule forbids.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::workspace;

/// The parsed file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Modules {
    /// Every crate of the workspace.
    pub(crate) modules: Vec<Module>,
    /// Driver crates with the only crates that may name them.
    pub(crate) drivers: BTreeMap<String, DriverUsers>,
    /// The one file of a crate that may contain `unsafe`, relative to the crate; a crate
    /// without an entry forbids it.
    pub(crate) unsafe_files: BTreeMap<String, String>,
}

/// One crate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Module {
    /// The package name.
    pub(crate) name: String,
    /// Its folder, relative to the workspace.
    pub(crate) path: String,
    /// Exactly the workspace crates it depends on: normal, build, optional and for any target.
    pub(crate) depends_on: BTreeSet<String>,
    /// Exactly the workspace crates that only its tests depend on.
    pub(crate) dev_depends_on: BTreeSet<String>,
    /// Edges of `depends_on` that exist only under a feature: crate to feature.
    #[serde(default)]
    pub(crate) feature_edges: BTreeMap<String, String>,
}

/// Who may depend on one driver.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DriverUsers {
    /// In the product.
    pub(crate) normal: BTreeSet<String>,
    /// In tests only.
    pub(crate) dev: BTreeSet<String>,
}

impl Modules {
    /// Reads the checked-in file.
    pub(crate) fn load() -> Result<Self> {
        let path = workspace::root().join("config/architecture/modules.json");
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("parse {}", path.display()))
    }
}
