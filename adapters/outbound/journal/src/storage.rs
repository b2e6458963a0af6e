//! What the writer asks of the disk: one positioned write and one sync a batch.
//!
//! Invariant: every call is one attempt. Nothing in this crate repeats a failed or short one, since
//! after it nobody knows what the disk holds.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

/// The writing side of one journal file. Tests put an implementation that fails around
/// [`FileStorage`].
pub trait Storage: Send {
    /// Writes at a byte offset, once. Returns how many bytes were taken; the writer treats fewer
    /// than given as a failure, as a full disk reports itself that way first.
    ///
    /// # Errors
    /// MUST report any failure; whether bytes reached the file is then unknown.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Returns once everything written, and the size needed to read it back, is on the disk.
    ///
    /// # Errors
    /// MUST report any failure; what the disk holds is then unknown.
    fn sync_data(&mut self) -> io::Result<()>;

    /// Like [`Storage::sync_data`] for the file with all its metadata. Called at open.
    ///
    /// # Errors
    /// As for [`Storage::sync_data`].
    fn sync_all(&mut self) -> io::Result<()>;

    /// Makes the file's name durable. Called at open.
    ///
    /// # Errors
    /// As for [`Storage::sync_data`].
    fn sync_directory(&mut self) -> io::Result<()>;
}

/// The file itself.
#[derive(Debug)]
pub struct FileStorage {
    file: Arc<File>,
    directory: File,
}

impl FileStorage {
    pub(crate) fn new(file: Arc<File>, directory: File) -> FileStorage {
        FileStorage { file, directory }
    }
}

impl Storage for FileStorage {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        // A file without a name would be gone with this process, acknowledged records and all.
        if self.file.metadata()?.nlink() == 0 {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the journal's file was removed while it was open",
            ));
        }
        FileExt::write_at(&*self.file, bytes, offset)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        self.directory.sync_all()
    }
}
