//! The `countersign` binary: reads the command line, hands over, turns errors into exit codes.
//!
//! Invariant: data goes to standard output, messages to standard error.
#![forbid(unsafe_code)]

mod cli;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let _armed = app_bootstrap::failpoints::armed();
    cli::init_logging(&cli);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(cli::run(cli)),
        Err(error) => Err(anyhow::Error::new(error).context("the runtime could not start")),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("countersign: {}", app_bootstrap::chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}
