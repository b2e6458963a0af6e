//! Where the workspace lies on this machine.
//!
//! Invariant: every path handed out is absolute, so that no command depends on the folder it
//! was called from.

use std::path::{Path, PathBuf};

/// The folder that holds the root `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    // What cargo says at run time comes first: a build that two checkouts share remembers the
    // folder of only one of them.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map(PathBuf::from)
        .filter(|folder| folder.join("services.lock.toml").is_file())
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    manifest
        .parent()
        .map_or_else(PathBuf::new, Path::to_path_buf)
}

/// The cargo that started this process, or the one on `PATH`.
pub(crate) fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

/// Where tools that a check needs are installed to.
pub(crate) fn tools() -> PathBuf {
    root().join("target").join("tools")
}
