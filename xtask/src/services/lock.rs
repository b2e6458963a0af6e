//! The pinned artifacts of the native services (`xtask/services.lock.toml`).
//!
//! Invariant: nothing is unpacked or executed before its SHA-256 equals the pinned one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// The parsed lock file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServicesLock {
    /// The PostgreSQL package.
    pub(crate) postgres: PostgresLock,
    /// The Kafka jars.
    pub(crate) kafka: JarsLock,
    /// The jars of the Debezium plug-in for PostgreSQL.
    pub(crate) debezium: JarsLock,
}

/// One npm package that holds the PostgreSQL binaries.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PostgresLock {
    /// What the server calls itself, for people.
    pub(crate) version: String,
    /// Name and version as npm takes them.
    pub(crate) package: String,
    /// The file name that `npm pack` gives it.
    pub(crate) file: String,
    /// Hex SHA-256 of that file.
    pub(crate) sha256: String,
}

/// A folder of jars, as Maven resolves it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JarsLock {
    /// What the program calls itself, for people.
    pub(crate) version: String,
    /// The Maven plug-in that copies the jars, as `group:artifact:version`.
    pub(crate) resolver: String,
    /// What is asked for, as `group:artifact:version`.
    pub(crate) roots: Vec<String>,
    /// Beginnings of the names of resolved files that are left out.
    #[serde(default)]
    pub(crate) left_out: Vec<String>,
    /// Everything else that this must resolve to: file name to hex SHA-256.
    pub(crate) jars: BTreeMap<String, String>,
}

impl ServicesLock {
    /// The lock file of this build.
    pub(crate) fn load() -> Result<Self> {
        toml::from_str(include_str!("../../services.lock.toml"))
            .context("read xtask/services.lock.toml")
    }
}

/// Compares one file with its pinned hash.
pub(crate) fn verify_file(path: &Path, expected: &str) -> Result<()> {
    let found = sha256_of(path)?;
    if found != expected {
        bail!(
            "checksum mismatch: {} has sha256 {found}, but xtask/services.lock.toml pins \
             {expected}; delete the file to download it again, and do not change the pin \
             unless you know why the artifact changed",
            path.display()
        );
    }
    Ok(())
}

/// Compares a folder with the pinned files, both ways: a class path takes every jar it sees.
pub(crate) fn verify_folder(folder: &Path, expected: &BTreeMap<String, String>) -> Result<()> {
    for (name, hash) in expected {
        let path = folder.join(name);
        if !path.is_file() {
            bail!(
                "{} is missing; xtask/services.lock.toml pins it",
                path.display()
            );
        }
        verify_file(&path, hash)?;
    }
    for entry in std::fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let name = entry.context("list jars")?.file_name();
        let name = name.to_string_lossy();
        if !expected.contains_key(name.as_ref()) {
            bail!(
                "{} holds {name}, which xtask/services.lock.toml does not pin",
                folder.display()
            );
        }
    }
    Ok(())
}

fn sha256_of(path: &Path) -> Result<String> {
    let mut file = std::fs::File::open(path).with_context(|| format!("open {}", path.display()))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file
            .read(&mut buffer)
            .with_context(|| format!("read {}", path.display()))?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
    }
    let mut hex = String::with_capacity(64);
    for byte in hash.finalize() {
        write!(hex, "{byte:02x}").context("format a hash")?;
    }
    Ok(hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of the three bytes `abc`, FIPS 180-2 appendix B.1.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn the_lock_file_is_well_formed() {
        let lock = ServicesLock::load().unwrap();
        assert!(lock.kafka.jars.len() > 50);
        for hash in lock.kafka.jars.values().chain([&lock.postgres.sha256]) {
            assert_eq!(hash.len(), 64);
            assert!(hash.bytes().all(|b| b.is_ascii_hexdigit()), "{hash}");
        }
    }

    #[test]
    fn another_content_is_refused_and_both_hashes_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jar");
        std::fs::write(&path, b"abc").unwrap();
        verify_file(&path, ABC).unwrap();
        std::fs::write(&path, b"abd").unwrap();
        let error = verify_file(&path, ABC).unwrap_err().to_string();
        assert!(error.contains("checksum mismatch"), "{error}");
        assert!(error.contains(ABC), "{error}");
    }

    #[test]
    fn a_missing_and_an_unpinned_jar_are_both_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pinned = BTreeMap::from([("a.jar".to_owned(), ABC.to_owned())]);
        let error = verify_folder(folder.path(), &pinned).unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
        std::fs::write(folder.path().join("a.jar"), b"abc").unwrap();
        verify_folder(folder.path(), &pinned).unwrap();
        std::fs::write(folder.path().join("b.jar"), b"abc").unwrap();
        let error = verify_folder(folder.path(), &pinned).unwrap_err();
        assert!(error.to_string().contains("b.jar"), "{error}");
    }
}
