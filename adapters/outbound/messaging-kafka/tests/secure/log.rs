//! Whatever this process logs, in full detail.
//!
//! Invariant: both logging facades are taken from the first case on, this library's and the one of
//! the client's wrapper, and nothing is filtered out.

use std::io::Write;
use std::sync::{Mutex, Once, PoisonError};
use tracing_subscriber::fmt::MakeWriter;

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

#[derive(Clone, Copy)]
struct Capture;

impl Write for Capture {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LINES
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Capture {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}

impl ::log::Log for Capture {
    fn enabled(&self, _: &::log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &::log::Record<'_>) {
        let line = format!("{} {}\n", record.target(), record.args());
        // Writing to memory does not fail.
        let _ = Capture.write_all(line.as_bytes());
    }

    fn flush(&self) {}
}

/// Takes every line from now on.
pub(crate) fn capture() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
            .with_writer(Capture)
            .init();
        ::log::set_logger(&Capture).expect("no other logger");
        ::log::set_max_level(::log::LevelFilter::Trace);
    });
}

/// How often a text was logged so far.
pub(crate) fn count(text: &str) -> usize {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines
        .windows(text.len())
        .filter(|window| *window == text.as_bytes())
        .count()
}
