//! The tests of some packages out of the one build of the whole workspace.
//!
//! `cargo test -p X` would build X's dependencies again with fewer features. This builds what
//! the big lane builds, which is nothing new after it, and runs only the wanted binaries.
//!
//! Invariant: a named package without a test binary is an error, not an empty run.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// A built test binary and the folder it runs in.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TestBinary {
    /// The package it belongs to.
    pub(crate) package: String,
    /// The file.
    pub(crate) executable: PathBuf,
    /// The package's folder.
    pub(crate) folder: PathBuf,
}

/// Builds with `build` (a `cargo test --no-run` that prints JSON messages) and picks.
pub(crate) fn build(build: &mut Command, packages: &[String]) -> Result<Vec<TestBinary>> {
    let output = build
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("start cargo")?;
    if !output.status.success() {
        bail!("the tests do not build");
    }
    pick(&String::from_utf8_lossy(&output.stdout), packages)
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    package_id: Option<String>,
    executable: Option<PathBuf>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

fn pick(messages: &str, packages: &[String]) -> Result<Vec<TestBinary>> {
    let mut found = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line).context("parse a message of cargo")?;
        if message.reason != "compiler-artifact" || !message.profile.is_some_and(|p| p.test) {
            continue;
        }
        let (Some(executable), Some(manifest), Some(id)) = (
            message.executable,
            message.manifest_path,
            message.package_id,
        ) else {
            continue;
        };
        let Some(package) = packages.iter().find(|name| names(&id, name)) else {
            continue;
        };
        let folder = manifest
            .parent()
            .context("a manifest has no folder")?
            .to_path_buf();
        found.push(TestBinary {
            package: package.clone(),
            executable,
            folder,
        });
    }
    for package in packages {
        if !found.iter().any(|binary| binary.package == *package) {
            bail!("{package} has no tests");
        }
    }
    // Cargo reports in the order in which builds end, which differs from run to run.
    found.sort();
    Ok(found)
}

/// A package id ends in `/FOLDER#VERSION` when folder and name agree, else in `#NAME@VERSION`.
fn names(id: &str, package: &str) -> bool {
    let Some((path, fragment)) = id.rsplit_once('#') else {
        return false;
    };
    match fragment.split_once('@') {
        Some((name, _)) => name == package,
        None => path.rsplit('/').next() == Some(package),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = r#"
{"reason":"compiler-artifact","package_id":"path+file:///w/adapters/journal#outbound-journal@0.1.0","manifest_path":"/w/adapters/journal/Cargo.toml","executable":"/t/journal-1","profile":{"test":true}}
{"reason":"compiler-artifact","package_id":"path+file:///w/xtask#0.1.0","manifest_path":"/w/xtask/Cargo.toml","executable":"/t/xtask-1","profile":{"test":true}}
{"reason":"compiler-artifact","package_id":"path+file:///w/xtask#0.1.0","manifest_path":"/w/xtask/Cargo.toml","executable":"/t/xtask","profile":{"test":false}}
{"reason":"build-finished","success":true}
"#;

    #[test]
    fn only_test_binaries_of_the_named_packages_are_taken() {
        let found = pick(MESSAGES, &["outbound-journal".to_owned()]).unwrap();
        assert_eq!(
            found,
            [TestBinary {
                package: "outbound-journal".to_owned(),
                executable: "/t/journal-1".into(),
                folder: "/w/adapters/journal".into(),
            }]
        );
        assert_eq!(pick(MESSAGES, &["xtask".to_owned()]).unwrap().len(), 1);
    }

    #[test]
    fn a_package_without_tests_is_an_error() {
        let error = pick(MESSAGES, &["journal".to_owned()]).unwrap_err();
        assert!(
            error.to_string().contains("journal has no tests"),
            "{error}"
        );
    }
}
