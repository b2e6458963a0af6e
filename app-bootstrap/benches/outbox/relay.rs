//! The product's own process over one scene.
//!
//! Invariant: it is `countersign serve`, so memory, threads and connections are the relay's alone; it
//! never outlives its measurement.

use crate::place::{self, Scene};
use std::fs::File;
use std::process::{Child, Command, Stdio};

/// A running relay.
pub(crate) struct Relay {
    process: Child,
    log: std::path::PathBuf,
}

impl Relay {
    /// Starts it. It logs warnings only: a line for each record would be measured too.
    pub(crate) fn start(scene: &Scene) -> Self {
        let log = scene.file("relay.log");
        let output = File::create(&log).expect("a log");
        let process = Command::new(env!("CARGO_BIN_EXE_countersign"))
            .arg("serve")
            .arg("--profile")
            .arg(&scene.profile)
            .env("RUST_LOG", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .expect("the relay starts");
        Self { process, log }
    }

    /// Panics with what it said, if it ended.
    pub(crate) fn check(&mut self) {
        if let Some(status) = self.process.try_wait().expect("the relay is asked") {
            let said = std::fs::read_to_string(&self.log).unwrap_or_default();
            panic!("the relay ended with {status}: {said}");
        }
    }

    /// Its greatest resident memory so far.
    pub(crate) fn resident_mib(&self) -> f64 {
        place::resident_mib(self.process.id())
    }

    /// Ends it and gives back what it warned of.
    pub(crate) fn end(mut self) -> String {
        self.stop();
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn stop(&mut self) {
        // What is under way keeps its claim; nobody looks at it any more.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop();
    }
}
