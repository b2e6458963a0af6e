//! Where the workspace lies on this machine.
//!
//! Invariant: every path handed out is absolute, so that no command depends on the folder it
//! was called from.

use std::path::{Path, PathBuf};

/// The folder that holds the root `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// The cargo that started this process, or the one on `PATH`.
pub(crate) fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

/// Where tools that a check needs are installed to.
pub(crate) fn tools() -> PathBuf {
    root().join("target").join("tools")
}
