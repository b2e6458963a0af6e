//! A folder of manifests and the schemas they name.
//!
//! Invariant: only regular files inside the folder are read, each within its bound; a schema file
//! is named relative to its manifest and cannot lead elsewhere, by name or by link.

use super::error::ManifestError;
use super::{MAXIMUM_MANIFEST_BYTES, Manifest};
use crate::admission::MAXIMUM_SCHEMA_BYTES;
use application_core::contract::ContractDescriptor;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// Manifests in one folder.
const MAXIMUM_MANIFESTS: usize = 512;
/// Entries of the folder, whatever they are.
const MAXIMUM_ENTRIES: usize = 4096;

/// A contract from a manifest with its exact schema document.
#[derive(Clone, PartialEq, Eq)]
pub struct ManifestContract {
    /// What the contract states.
    pub descriptor: ContractDescriptor,
    /// The exact schema document.
    pub schema: Vec<u8>,
}

impl std::fmt::Debug for ManifestContract {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManifestContract")
            .field("contract", &self.descriptor.key().to_string())
            .field("schema_bytes", &self.schema.len())
            .finish()
    }
}

/// Reads every `*.yaml` of the folder, in the order of their names, with the schemas they name.
/// Subfolders are not searched.
///
/// # Errors
/// [`ManifestError`] with the file and the rule.
pub fn load_manifests(folder: &Path) -> Result<Vec<ManifestContract>, ManifestError> {
    let folder = fs::canonicalize(folder).map_err(io(folder))?;
    manifest_files(&folder)?
        .iter()
        .map(|file| load(&folder, file))
        .collect()
}

/// Reads one manifest with the schema it names.
///
/// # Errors
/// [`ManifestError`] with the file and the rule.
pub fn load_manifest(file: &Path) -> Result<ManifestContract, ManifestError> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let folder = fs::canonicalize(folder).map_err(io(file))?;
    let name = file.file_name().unwrap_or_default();
    load(&folder, &folder.join(name))
}

fn load(folder: &Path, file: &Path) -> Result<ManifestContract, ManifestError> {
    let bytes = read_inside(folder, file, MAXIMUM_MANIFEST_BYTES)?;
    let manifest = Manifest::from_yaml(&bytes, &file.display().to_string())?;
    let relative = Path::new(&manifest.schema_file);
    let plain = relative
        .components()
        .all(|component| matches!(component, Component::Normal(_)));
    if !plain || manifest.schema_file.contains('\\') || manifest.schema_file.is_empty() {
        return Err(ManifestError::Field {
            origin: file.display().to_string(),
            key: "payload-schema.file".to_owned(),
            rule: "is a path below the manifest's folder, without `..`, root or backslash"
                .to_owned(),
        });
    }
    let schema = read_inside(folder, &folder.join(relative), MAXIMUM_SCHEMA_BYTES)?;
    Ok(ManifestContract {
        descriptor: manifest.descriptor,
        schema,
    })
}

fn manifest_files(folder: &Path) -> Result<Vec<PathBuf>, ManifestError> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).map_err(io(folder))?;
    for (count, entry) in entries.enumerate() {
        if count == MAXIMUM_ENTRIES {
            return Err(place(
                folder,
                format!("the folder has more than {MAXIMUM_ENTRIES} entries"),
            ));
        }
        let path = entry.map_err(io(folder))?.path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("yaml") => files.push(path),
            Some(other) if ["yml", "yaml"].contains(&other.to_ascii_lowercase().as_str()) => {
                return Err(place(&path, "a manifest's name ends in `.yaml`"));
            }
            _ => {}
        }
    }
    if files.len() > MAXIMUM_MANIFESTS {
        return Err(place(
            folder,
            format!("the folder has more than {MAXIMUM_MANIFESTS} manifests"),
        ));
    }
    files.sort();
    Ok(files)
}

/// Reads a regular file whose real place is inside the folder.
fn read_inside(folder: &Path, file: &Path, maximum: usize) -> Result<Vec<u8>, ManifestError> {
    let real = fs::canonicalize(file).map_err(io(file))?;
    if !real.starts_with(folder) {
        return Err(place(file, "leads outside the manifests' folder"));
    }
    // Asked before opening, since opening a FIFO would wait for a writer.
    if !fs::metadata(&real).map_err(io(file))?.is_file() {
        return Err(place(file, "is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(&real)
        .and_then(|open| open.take(maximum as u64 + 1).read_to_end(&mut bytes))
        .map_err(io(file))?;
    if bytes.len() > maximum {
        return Err(place(file, format!("has more than {maximum} bytes")));
    }
    Ok(bytes)
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> ManifestError {
    let path = path.to_owned();
    move |source| ManifestError::Io { path, source }
}

fn place(path: &Path, rule: impl Into<String>) -> ManifestError {
    ManifestError::Place {
        path: path.to_owned(),
        rule: rule.into(),
    }
}
