//! A storage that does what a test tells it, around the real file.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outbound_journal::{FileStorage, Journal, Limits, OpenError, Storage};

use crate::numbered;

type Write = dyn FnMut(&mut FileStorage, &[u8], u64) -> io::Result<usize> + Send;
type Sync = dyn FnMut(&mut FileStorage) -> io::Result<()> + Send;

/// How long a test waits for something that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Hooks {
    pub(crate) write: Box<Write>,
    pub(crate) sync_data: Box<Sync>,
    pub(crate) sync_all: Box<Sync>,
}

impl Default for Hooks {
    fn default() -> Hooks {
        Hooks {
            write: Box::new(|file, bytes, offset| file.write_at(bytes, offset)),
            sync_data: Box::new(|file| file.sync_data()),
            sync_all: Box::new(|file| file.sync_all()),
        }
    }
}

pub(crate) struct Hooked {
    file: FileStorage,
    hooks: Hooks,
}

impl Hooked {
    pub(crate) fn new(file: FileStorage, hooks: Hooks) -> Hooked {
        Hooked { file, hooks }
    }
}

impl Storage for Hooked {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        (self.hooks.write)(&mut self.file, bytes, offset)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        (self.hooks.sync_data)(&mut self.file)
    }

    fn sync_all(&mut self) -> io::Result<()> {
        (self.hooks.sync_all)(&mut self.file)
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        self.file.sync_directory()
    }
}

pub(crate) fn open(path: &Path, limits: Limits, hooks: Hooks) -> Result<Journal, OpenError> {
    Journal::open_with_storage(path, numbered::registry(), limits, |file| {
        Box::new(Hooked::new(file, hooks))
    })
}

/// Sizes of the writes seen, in order.
#[derive(Clone, Default)]
pub(crate) struct Writes(Arc<Mutex<Vec<usize>>>);

impl Writes {
    pub(crate) fn noted(&self) -> Box<Write> {
        let noted = self.clone();
        Box::new(move |file, bytes, offset| {
            noted.0.lock().expect("unpoisoned").push(bytes.len());
            file.write_at(bytes, offset)
        })
    }

    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.0.lock().expect("unpoisoned").clone()
    }
}

/// Holds the writer inside a sync, so that a test can fill the queue behind it.
pub(crate) struct Gate {
    entered: Receiver<()>,
    go: Sender<io::Result<()>>,
}

impl Gate {
    /// The gate and the sync that stops at it. Once the gate is gone, syncs pass.
    pub(crate) fn new() -> (Gate, Box<Sync>) {
        let (enter, entered) = channel();
        let (go, proceed) = channel::<io::Result<()>>();
        let sync = move |file: &mut FileStorage| {
            if enter.send(()).is_err() {
                return file.sync_data();
            }
            match proceed.recv_timeout(PATIENCE) {
                Ok(Ok(())) | Err(_) => file.sync_data(),
                Ok(Err(error)) => Err(error),
            }
        };
        (Gate { entered, go }, Box::new(sync))
    }

    /// Waits until the writer stands in a sync.
    pub(crate) fn await_sync(&self) {
        self.entered.recv_timeout(PATIENCE).expect("a sync begins");
    }

    /// Lets the sync run.
    pub(crate) fn pass(&self) {
        self.go.send(Ok(())).expect("the writer stands at the gate");
    }

    /// Lets the sync fail.
    pub(crate) fn fail(&self, error: io::Error) {
        self.go
            .send(Err(error))
            .expect("the writer stands at the gate");
    }
}
