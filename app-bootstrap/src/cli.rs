//! The command line.
//!
//! Invariant: exit code 0 means done and accounted for, 1 a failure, 2 a wrong call.

use app_bootstrap::config::{self, ExpectedState, Profile};
use app_bootstrap::describe::{CompiledDescriptor, as_text, running_descriptor};
use app_bootstrap::runtime::LogLines;
use app_bootstrap::{compose, contracts_lock, serve};
use clap::{Args, Parser, Subcommand};
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// An event leaves the outbox only countersigned: by the broker's acknowledgement, or by an
/// accountable operator.
#[derive(Debug, Parser)]
#[command(name = "countersign", version)]
pub(crate) struct Cli {
    /// The profile file
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        default_value = "config/profiles/local-embedded.toml"
    )]
    profile: PathBuf,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the profile's relay until interrupted (the default)
    Serve(ServeArgs),
    /// Commit the sample's business data, publish its events, consume them, and account for each
    #[cfg(feature = "demo")]
    Demo(DemoArgs),
    /// Show what the profile compiles to and how the process that serves it stands
    Describe(DescribeArgs),
    /// Check configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Keep the lock of contract versions
    #[command(subcommand)]
    Contracts(ContractsCommand),
}

#[derive(Debug, Default, Args)]
struct ServeArgs {
    /// Keep the embedded store and journal in this folder instead of where the profile says
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[cfg(feature = "demo")]
#[derive(Debug, Args)]
struct DemoArgs {
    /// Commands to execute, one JSON object a line; the sample's own by default
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Leave countersign.db and events.journal in this folder; by default a temporary one
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct DescribeArgs {
    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
    /// Show the compiled part alone, without asking a running process
    #[arg(long)]
    offline: bool,
    /// The folder that `serve` was given
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Compile the profile and its contracts without opening anything
    Check,
}

#[derive(Debug, Subcommand)]
enum ContractsCommand {
    /// Add the manifests' versions to the lock; refuses to change one that is there
    Lock(LockArgs),
    /// Check that the lock holds the manifests and only grew
    Check {
        #[command(flatten)]
        files: LockArgs,
        /// An earlier lock that this one must have grown from
        #[arg(long, value_name = "FILE")]
        previous: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct LockArgs {
    /// The folder of manifests
    #[arg(long, value_name = "DIR", default_value = "config/messaging/contracts")]
    manifests: PathBuf,
    /// The lock file
    #[arg(
        long,
        value_name = "FILE",
        default_value = "config/messaging/contracts.lock"
    )]
    lock: PathBuf,
}

/// Logs go to standard error; `RUST_LOG` chooses what, warnings by default for the demo.
pub(crate) fn init_logging(cli: &Cli) -> std::io::Result<LogLines> {
    let default = match cli.command {
        None | Some(Command::Serve(_)) => "info",
        _ => "warn",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let lines = LogLines::start()?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(lines.clone())
        .init();
    Ok(lines)
}

/// One line on standard output.
fn say(text: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{text}")
}

pub(crate) async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let load = || config::load(&cli.profile);
    match cli.command.unwrap_or(Command::Serve(ServeArgs::default())) {
        Command::Serve(args) => serve::serve(load()?, args.data_dir).await?,
        #[cfg(feature = "demo")]
        Command::Demo(args) => {
            let options = app_bootstrap::demo::Options {
                input: args.input,
                data_dir: args.data_dir,
                json: args.json,
            };
            return Ok(app_bootstrap::demo::run(load()?, options).await?);
        }
        Command::Describe(args) => describe(load()?, &args).await?,
        Command::Config(ConfigCommand::Check) => config_check(&load()?)?,
        Command::Contracts(ContractsCommand::Lock(files)) => {
            let added = contracts_lock::extend(&files.manifests, &files.lock)?;
            say(&format!("{}: {added} added", files.lock.display()))?;
        }
        Command::Contracts(ContractsCommand::Check { files, previous }) => {
            contracts_lock::check(&files.manifests, &files.lock, previous.as_deref())?;
            say(&format!("{}: holds", files.lock.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn config_check(profile: &Profile) -> anyhow::Result<()> {
    let file = profile.file.display();
    match &profile.state {
        ExpectedState::Disabled => say(&format!("{file}: DISABLED"))?,
        ExpectedState::Active(active) => {
            let compiled = compose::contracts::compile(active)?;
            say(&format!("{file}: ACTIVE"))?;
            for card in active.tuple.cards() {
                say(&format!("  {} = {}", card.key, card.id))?;
            }
            let revision = compiled.catalog_revision().to_hex();
            say(&format!("  contract catalog {revision}"))?;
            let promotion = active.promotion.as_str();
            say(&format!("  tuple {} is {promotion}", active.tuple.id()))?;
        }
    }
    Ok(())
}

async fn describe(profile: Profile, args: &DescribeArgs) -> anyhow::Result<()> {
    let document = match profile.state {
        ExpectedState::Disabled => serde_json::json!({ "expectedState": "DISABLED" }),
        ExpectedState::Active(active) => {
            let active = serve::in_folder(*active, args.data_dir.as_deref())?;
            if args.offline {
                let compiled = compose::contracts::compile(&active)?;
                serde_json::to_value(CompiledDescriptor::of(&compiled)?)?
            } else {
                let read = running_descriptor(&active.descriptor_socket).await?;
                let document: serde_json::Value = serde_json::from_str(&read)?;
                if document["settingsDigest"] != active.settings_digest.to_hex() {
                    let file = profile.file.display();
                    writeln!(
                        std::io::stderr(),
                        "countersign: the running process has other settings than {file} now"
                    )?;
                }
                document
            }
        }
    };
    if args.json {
        say(&document.to_string())?;
    } else {
        write!(std::io::stdout(), "{}", as_text(&document))?;
    }
    Ok(())
}
