//! The lock of contract versions: adding to it, and proving that it only grew.
//!
//! Invariant: no call here writes a lock that changes or drops the hash of a version it had; the
//! file is replaced whole or not at all.

use outbound_contract_json::{
    CompileError, CompiledCatalog, ContractCompiler, ContractsLock, LockError, ManifestError,
    load_manifests,
};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Why the lock could not be extended or checked.
#[derive(Debug, thiserror::Error)]
pub enum ContractsLockError {
    /// The manifests cannot be used.
    #[error("the manifests in {} cannot be used", folder.display())]
    Manifests {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: ManifestError,
    },
    /// The manifests make no catalog.
    #[error("the contracts do not compile")]
    Contracts(#[source] CompileError),
    /// A file cannot be read or written.
    #[error("{} cannot be read or written", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A lock would change what it holds, or holds something else.
    #[error("{} does not hold", file.display())]
    Lock {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: LockError,
    },
}

/// Adds the folder's contract versions to the lock file, which may be missing. Tells how many
/// were added.
///
/// # Errors
/// [`ContractsLockError`]; the file is unchanged.
pub fn extend(folder: &Path, file: &Path) -> Result<usize, ContractsLockError> {
    let catalog = compile(folder)?;
    let old = match fs::metadata(file) {
        Ok(_) => read(file)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => ContractsLock::empty(),
        Err(source) => return Err(io(file)(source)),
    };
    let new = old
        .merge(catalog.catalog())
        .map_err(|source| ContractsLockError::Lock {
            file: file.to_owned(),
            source,
        })?;
    replace(file, &new.to_yaml()).map_err(io(file))?;
    Ok(new.iter().count() - old.iter().count())
}

/// Checks that the lock file holds the folder's contracts and, where an earlier lock is given,
/// that it only grew from it.
///
/// # Errors
/// [`ContractsLockError`] naming the version.
pub fn check(
    folder: &Path,
    file: &Path,
    previous: Option<&Path>,
) -> Result<(), ContractsLockError> {
    let refused = |source| ContractsLockError::Lock {
        file: file.to_owned(),
        source,
    };
    let lock = read(file)?;
    lock.check(compile(folder)?.catalog()).map_err(refused)?;
    match previous {
        Some(previous) => lock.check_grown_from(&read(previous)?).map_err(refused),
        None => Ok(()),
    }
}

fn compile(folder: &Path) -> Result<CompiledCatalog, ContractsLockError> {
    let manifests = load_manifests(folder).map_err(|source| ContractsLockError::Manifests {
        folder: folder.to_owned(),
        source,
    })?;
    ContractCompiler::new()
        .manifests(manifests)
        .compile()
        .map_err(ContractsLockError::Contracts)
}

fn read(file: &Path) -> Result<ContractsLock, ContractsLockError> {
    let bytes = fs::read(file).map_err(io(file))?;
    ContractsLock::from_yaml(&bytes).map_err(|source| ContractsLockError::Lock {
        file: file.to_owned(),
        source,
    })
}

fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = file.with_file_name(name);
    let mut out = fs::File::create(&new)?;
    out.write_all(text.as_bytes())?;
    out.sync_all()?;
    fs::rename(&new, file)
}

fn io(file: &Path) -> impl FnOnce(std::io::Error) -> ContractsLockError {
    let file = file.to_owned();
    move |source| ContractsLockError::File { file, source }
}
