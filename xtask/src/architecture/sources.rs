//! What cargo cannot see: names in code, module headings, `unsafe`, file names.
//!
//! Invariant: product code is judged without its tests, and every rule looks at every file it
//! is about; a file is never passed over because it could not be read.

use std::path::Path;

use anyhow::{Context, Result};

use super::code::{has_word, without_comments_and_literals, without_test_modules};
use super::modules::Modules;
use crate::workspace;

/// One Rust file.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// The crate it belongs to.
    pub(crate) module: String,
    /// Relative to the crate, with forward slashes.
    pub(crate) path: String,
    /// Its content.
    pub(crate) text: String,
}

/// Crates whose product code must not name these.
const FORBIDDEN_NAMES: [(&str, &[&str]); 2] = [
    (
        "domain-core",
        &[
            "async",
            "await",
            "axum",
            "rdkafka",
            "serde_json",
            "sqlx",
            "tokio",
            "tracing",
        ],
    ),
    (
        "application-core",
        &[
            "async_nats",
            "axum",
            "rdkafka",
            "serde_json",
            "sqlx",
            "tokio",
            "tracing",
        ],
    ),
];

const EMPTY_NAMES: [&str; 4] = ["utils", "helpers", "common", "misc"];

/// A file is one idea; one that is longer holds more than one.
const MOST_LINES: usize = 600;

/// Every Rust file of the listed crates.
pub(crate) fn load(modules: &Modules) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    for module in &modules.modules {
        let root = workspace::root().join(&module.path);
        for part in ["src", "tests", "examples", "benches", "build.rs"] {
            collect(&module.name, &root, &root.join(part), &mut files)?;
        }
    }
    Ok(files)
}

fn collect(module: &str, root: &Path, at: &Path, files: &mut Vec<SourceFile>) -> Result<()> {
    if at.is_dir() {
        let mut entries = std::fs::read_dir(at)
            .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
            .with_context(|| format!("list {}", at.display()))?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            collect(module, root, &entry.path(), files)?;
        }
    } else if at.extension().is_some_and(|extension| extension == "rs") && at.is_file() {
        files.push(SourceFile {
            module: module.to_owned(),
            path: at
                .strip_prefix(root)
                .unwrap_or(at)
                .to_string_lossy()
                .into_owned(),
            text: std::fs::read_to_string(at).with_context(|| format!("read {}", at.display()))?,
        });
    }
    Ok(())
}

/// Everything that a rule forbids; empty when all is well.
pub(crate) fn check(modules: &Modules, files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let code = without_comments_and_literals(&file.text);
        check_heading(file, &mut found);
        check_name(file, &mut found);
        check_forbidden_names(file, &code, &mut found);
        check_unsafe(modules, file, &code, &mut found);
    }
    for (module, path) in &modules.unsafe_files {
        let holds_unsafe = files.iter().any(|file| {
            file.module == *module
                && file.path == *path
                && has_word(&without_comments_and_literals(&file.text), "unsafe")
        });
        if !holds_unsafe {
            found.push(format!(
                "{module}/{path} is listed in unsafe-files but has no unsafe code"
            ));
        }
    }
    found
}

/// Whether a `Cargo.toml` turns a panic into an abort, which would skip every unwinding guard.
pub(crate) fn aborts_on_panic(manifest: &toml::Table) -> bool {
    let Some(profiles) = manifest.get("profile").and_then(toml::Value::as_table) else {
        return false;
    };
    profiles
        .values()
        .any(|profile| profile.get("panic").and_then(toml::Value::as_str) == Some("abort"))
}

/// Whether a member takes its lints from the workspace, which is where `unsafe` is denied.
pub(crate) fn shares_lints(manifest: &toml::Table) -> bool {
    let lints = manifest
        .get("lints")
        .and_then(|lints| lints.get("workspace"));
    lints.and_then(toml::Value::as_bool) == Some(true)
}

fn check_heading(file: &SourceFile, found: &mut Vec<String>) {
    if !file.text.starts_with("//!") {
        found.push(format!(
            "{}/{} does not open with //!",
            file.module, file.path
        ));
    }
    let lines = file.text.lines().count();
    if lines > MOST_LINES {
        found.push(format!(
            "{}/{} has {lines} lines; split it below {MOST_LINES}",
            file.module, file.path
        ));
    }
}

fn check_name(file: &SourceFile, found: &mut Vec<String>) {
    let stem = file.path.strip_suffix(".rs").unwrap_or(&file.path);
    if let Some(name) = stem.split('/').find(|part| EMPTY_NAMES.contains(part)) {
        found.push(format!(
            "{}/{}: {name} names nothing",
            file.module, file.path
        ));
    }
}

fn check_forbidden_names(file: &SourceFile, code: &str, found: &mut Vec<String>) {
    if !is_product(&file.path) {
        return;
    }
    let Some((_, names)) = FORBIDDEN_NAMES
        .iter()
        .find(|(module, _)| *module == file.module)
    else {
        return;
    };
    let product = without_test_modules(code);
    for (number, line) in product.lines().enumerate() {
        for name in names.iter().filter(|name| has_word(line, name)) {
            found.push(format!(
                "{}/{}:{} names {name}",
                file.module,
                file.path,
                number + 1
            ));
        }
    }
}

/// Files below `src` that are not tests in files of their own.
fn is_product(path: &str) -> bool {
    let Some(inner) = path.strip_prefix("src/") else {
        return path == "build.rs";
    };
    let stem = inner.strip_suffix(".rs").unwrap_or(inner);
    !stem
        .split('/')
        .any(|part| part == "tests" || part.ends_with("_tests"))
}

fn check_unsafe(modules: &Modules, file: &SourceFile, code: &str, found: &mut Vec<String>) {
    const FORBID: &str = "#![forbid(unsafe_code)]";
    let exception = modules.unsafe_files.get(&file.module);
    if is_root(&file.path) && exception.is_none() && !code.lines().any(|line| line.trim() == FORBID)
    {
        found.push(format!("{}/{} lacks {FORBID}", file.module, file.path));
    }
    if has_word(code, "unsafe") && exception != Some(&file.path) {
        found.push(format!(
            "{}/{} contains unsafe code",
            file.module, file.path
        ));
    }
}

fn is_root(path: &str) -> bool {
    let binary = path
        .strip_prefix("src/bin/")
        .is_some_and(|rest| !rest.contains('/'));
    binary || matches!(path, "src/lib.rs" | "src/main.rs")
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
