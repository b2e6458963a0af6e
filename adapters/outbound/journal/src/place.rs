//! Where a journal lies: opening the right kind of file and knowing it again.
//!
//! Invariant: only regular files on local file systems are opened, and what was opened is identified
//! by (device, inode), never by its name. Symbolic links are followed; what they lead to is judged.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::OpenError;

/// The identity of a file, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    pub(crate) fn of(metadata: &Metadata) -> FileIdentity {
        FileIdentity {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// A regular local file, opened, and where it lies.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) file: File,
    pub(crate) location: Location,
}

/// Where a file lies and which file it is.
#[derive(Debug)]
pub(crate) struct Location {
    /// Absolute and without symbolic links.
    pub(crate) path: PathBuf,
    pub(crate) identity: FileIdentity,
}

/// What to do with the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// Read and write; the file is made when it is not there.
    Write,
}

impl Place {
    /// Opens `path`, which must lead to a regular file on a local file system.
    pub(crate) fn open(path: &Path, access: Access) -> Result<Place, OpenError> {
        // Looked at before it is opened, since opening some devices has effects of its own, and
        // again through the descriptor, since names can change in between.
        let file = match std::fs::metadata(path) {
            Ok(metadata) => {
                require_regular(path, metadata.file_type())?;
                open_with(path, access, false)?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && access == Access::Write => {
                create(path)?
            }
            Err(source) => return Err(unopened(path, source)),
        };
        let metadata = file.metadata().map_err(|source| unopened(path, source))?;
        require_regular(path, metadata.file_type())?;
        require_local(path, &file)?;
        let path = path
            .canonicalize()
            .map_err(|source| unopened(path, source))?;
        let identity = FileIdentity::of(&metadata);
        Ok(Place {
            file,
            location: Location { path, identity },
        })
    }
}

impl Location {
    /// Opens the same file once more, for reading.
    pub(crate) fn reopen(&self) -> Result<File, OpenError> {
        let Place { file, location } = Place::open(&self.path, Access::Read)?;
        if location.identity != self.identity {
            let source = io::Error::new(io::ErrorKind::NotFound, "another file lies there now");
            return Err(unopened(&self.path, source));
        }
        Ok(file)
    }

    /// Opens the directory that holds the file.
    pub(crate) fn directory(&self) -> Result<File, OpenError> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        File::open(directory).map_err(|source| unopened(directory, source))
    }
}

fn create(path: &Path) -> Result<File, OpenError> {
    match open_with(path, Access::Write, true) {
        // Somebody else made it in the meantime; the lock will say who may write.
        Err(OpenError::Open { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
            open_with(path, Access::Write, false)
        }
        other => other,
    }
}

fn open_with(path: &Path, access: Access, create_new: bool) -> Result<File, OpenError> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(access == Access::Write)
        .create_new(create_new)
        .mode(0o600)
        // A FIFO put in the file's place between look and open must not block us.
        .custom_flags(NON_BLOCKING);
    options.open(path).map_err(|source| unopened(path, source))
}

const NON_BLOCKING: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;

fn unopened(path: &Path, source: io::Error) -> OpenError {
    OpenError::Open {
        path: path.to_owned(),
        source,
    }
}

fn require_regular(path: &Path, file_type: FileType) -> Result<(), OpenError> {
    if file_type.is_file() {
        return Ok(());
    }
    let found = if file_type.is_dir() {
        "a directory"
    } else if file_type.is_fifo() {
        "a FIFO"
    } else if file_type.is_char_device() || file_type.is_block_device() {
        "a device"
    } else if file_type.is_socket() {
        "a socket"
    } else {
        "something else"
    };
    Err(OpenError::NotARegularFile {
        path: path.to_owned(),
        found,
    })
}

#[cfg(target_os = "linux")]
fn require_local(path: &Path, file: &File) -> Result<(), OpenError> {
    let statistics =
        rustix::fs::fstatfs(file).map_err(|errno| unopened(path, io::Error::from(errno)))?;
    // The type is a signed or unsigned word, by architecture; the magic numbers are 32 bits.
    match remote_file_system(statistics.f_type as u32) {
        None => Ok(()),
        Some(file_system) => Err(OpenError::RemoteFileSystem {
            path: path.to_owned(),
            file_system,
        }),
    }
}

/// File systems are told apart on Linux alone; elsewhere the operator answers for the place.
#[cfg(not(target_os = "linux"))]
fn require_local(_path: &Path, _file: &File) -> Result<(), OpenError> {
    Ok(())
}

/// Magic numbers of statfs(2) whose locks and syncs are another machine's promise.
#[cfg(target_os = "linux")]
const fn remote_file_system(magic: u32) -> Option<&'static str> {
    match magic {
        0x0000_6969 => Some("nfs"),
        0x0000_517b => Some("smb"),
        0xff53_4d42 => Some("cifs"),
        0xfe53_4d42 => Some("smb2"),
        0x0102_1997 => Some("9p"),
        0x00c3_6400 => Some("ceph"),
        0x5346_414f | 0x6b41_4653 => Some("afs"),
        _ => None,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::remote_file_system;

    #[test]
    fn network_file_systems_are_told_from_local_ones() {
        assert_eq!(remote_file_system(0x6969), Some("nfs"));
        assert_eq!(remote_file_system(0xff53_4d42), Some("cifs"));
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630] {
            assert_eq!(remote_file_system(local), None, "{local:#x}");
        }
    }
}
