//! What cargo knows about this workspace's own packages.
//!
//! Invariant: only declared facts are read (`--no-deps`); nothing is resolved or built.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process::run_quietly;
use crate::workspace;

/// The part of `cargo metadata --format-version 1` that is used here.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Metadata {
    /// The members of the workspace.
    pub(crate) packages: Vec<Package>,
    /// The folder of the root `Cargo.toml`.
    pub(crate) workspace_root: PathBuf,
}

/// One member.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// The absolute path of its `Cargo.toml`.
    pub(crate) manifest_path: PathBuf,
    /// Everything it declares, of every kind and for every target.
    pub(crate) dependencies: Vec<Dependency>,
    /// Its features with what each one enables.
    pub(crate) features: BTreeMap<String, Vec<String>>,
}

/// One declared dependency.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dependency {
    /// The package it names.
    pub(crate) name: String,
    /// `None` for a normal one, else `dev` or `build`.
    pub(crate) kind: Option<String>,
    /// Whether a feature has to enable it.
    pub(crate) optional: bool,
    /// The folder of a path dependency.
    pub(crate) path: Option<PathBuf>,
}

impl Metadata {
    /// Asks cargo.
    pub(crate) fn load() -> Result<Self> {
        let json = run_quietly(
            Command::new(workspace::cargo())
                .args(["metadata", "--format-version", "1", "--no-deps"])
                .current_dir(workspace::root()),
            "cargo metadata",
        )?;
        serde_json::from_str(&json).context("parse cargo metadata")
    }
}
