//! Log lines on standard error, written by a thread of their own.
//!
//! Invariant: nobody who logs ever waits for, or fails with, whoever reads the log. Lines that find
//! the queue full, or a reader gone, are lost.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait for the reader at most.
const CAPACITY: usize = 4096;
/// How long the end of the process waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// Takes lines from anywhere.
#[derive(Clone)]
pub struct LogLines {
    queue: SyncSender<Message>,
}

impl LogLines {
    /// Starts the writing thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start() -> io::Result<Self> {
        let (queue, lines) = sync_channel(CAPACITY);
        std::thread::Builder::new()
            .name("countersign-log".to_owned())
            .spawn(move || write_all(&lines))?;
        Ok(Self { queue })
    }

    /// Waits, a bounded time, until what was logged before is written.
    pub fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.queue.try_send(Message::Flush(done)).is_ok() {
            // Whether it was written or not, the process ends now.
            let _ = written.recv_timeout(LAST_LINES);
        }
    }
}

fn write_all(lines: &Receiver<Message>) {
    for message in lines {
        match message {
            Message::Line(line) => {
                // A reader that is gone costs the line and nothing else.
                let _ = io::stderr().write_all(&line);
            }
            // The one who asked may have given up.
            Message::Flush(done) => drop(done.try_send(())),
        }
    }
}

impl<'a> MakeWriter<'a> for LogLines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line {
            bytes: Vec::new(),
            lines: self.clone(),
        }
    }
}

/// One line; it is queued when it is dropped.
pub struct Line {
    bytes: Vec<u8>,
    lines: LogLines,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let line = Message::Line(std::mem::take(&mut self.bytes));
        // A full queue costs the line and nothing else.
        let _ = self.lines.queue.try_send(line);
    }
}
