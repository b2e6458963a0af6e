//! The `countersign` binary: reads the command line, hands over, turns errors into exit codes.
//!
//! Invariant: data goes to standard output, messages to standard error.
#![forbid(unsafe_code)]

mod cli;

use clap::Parser;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// How long the runtime may take to end.
const LAST_TASKS: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let _armed = app_bootstrap::failpoints::armed();
    let log = match cli::init_logging(&cli) {
        Ok(log) => log,
        Err(error) => return failed(&error),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let code = match runtime {
        Ok(runtime) => {
            let result = runtime.block_on(cli::run(cli));
            // What does not end now is a connection that does not answer.
            runtime.shutdown_timeout(LAST_TASKS);
            result.unwrap_or_else(|error| failed(error.as_ref()))
        }
        Err(error) => failed(&error),
    };
    log.flush();
    code
}

/// Says why, if anybody still reads.
fn failed(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    let _ = writeln!(
        std::io::stderr(),
        "countersign: {}",
        app_bootstrap::chain(error)
    );
    ExitCode::FAILURE
}
