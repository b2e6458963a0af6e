//! `countersign demo`: the whole path on the sample feature, accounted for.
//!
//! Invariant: every figure of the summary is counted from the database, the broker or the read
//! model after the fact; nothing is counted because the demo did it.

mod account;
mod commit;
mod consume;
mod error;
mod flaky;
mod kafka_records;
mod progress;
mod publish;
mod report;

pub use error::DemoError;

use crate::compose::{Compiled, Provider, Store, contracts};
use crate::config::{ActiveProfile, ExpectedState, Profile, ProviderProfile};
use crate::serve::in_folder;
use account::Account;
use commit::{Committed, Feature};
use outbound_journal::Journal;
use portfolio::store::{PostgresPortfolio, SqlitePortfolio};
use progress::Progress;
use std::io::{BufRead, BufReader, Cursor, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// What the command line chose.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Commands to execute; the sample's own by default.
    pub input: Option<PathBuf>,
    /// Where the embedded tuple keeps its files; a temporary folder by default.
    pub data_dir: Option<PathBuf>,
    /// One JSON object on standard output in place of the summary for people.
    pub json: bool,
}

/// Runs the demo. The exit code is 0 only if everything that was committed is accounted for.
///
/// # Errors
/// [`DemoError`] when the demo could not be run to its end.
pub async fn run(profile: Profile, options: Options) -> Result<ExitCode, DemoError> {
    let ExpectedState::Active(active) = profile.state else {
        return Err(DemoError::Disabled);
    };
    let temporary = match (&options.data_dir, &active.provider) {
        (None, ProviderProfile::Journal(_)) => {
            Some(tempfile::tempdir().map_err(DemoError::Folder)?)
        }
        _ => None,
    };
    let folder = options
        .data_dir
        .clone()
        .or_else(|| temporary.as_ref().map(|folder| folder.path().to_owned()));
    let active = in_folder(*active, folder.as_deref())?;
    let input = open_input(&options)?;
    let account = run_in(active, input, &Progress::new(options.json)).await?;
    print(&account, options.json)?;
    Ok(if account.is_complete() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print(account: &Account, json: bool) -> Result<(), DemoError> {
    let text = if json {
        report::json(account)
    } else {
        report::text(account)
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(DemoError::Output)
}

fn open_input(options: &Options) -> Result<Box<dyn BufRead + Send>, DemoError> {
    match &options.input {
        None => Ok(Box::new(Cursor::new(portfolio::SAMPLE_INPUT))),
        Some(path) => {
            let file = std::fs::File::open(path).map_err(|source| DemoError::Input {
                path: path.clone(),
                source,
            })?;
            Ok(Box::new(BufReader::new(file)))
        }
    }
}

async fn run_in(
    active: ActiveProfile,
    input: Box<dyn BufRead + Send>,
    progress: &Progress,
) -> Result<Account, DemoError> {
    let compiled = contracts::compile_with(&active, &portfolio::contracts::contributions())?;
    let provider = Provider::prepare(&compiled)?;
    let store = Store::open(&compiled).await?;
    let provider = provider.open().await?;
    let account = match &store {
        Store::Embedded(embedded) => {
            let feature = Feature {
                transactions: embedded.transactions.clone(),
                outbox: embedded.outbox.clone(),
                inbox: embedded.inbox.clone(),
                database: std::sync::Arc::new(SqlitePortfolio),
            };
            steps(&compiled, &store, &provider, &feature, input, progress).await
        }
        Store::Kafka(kafka) => {
            let feature = Feature {
                transactions: kafka.transactions.clone(),
                outbox: kafka.outbox.clone(),
                inbox: kafka.inbox.clone(),
                database: std::sync::Arc::new(PostgresPortfolio),
            };
            steps(&compiled, &store, &provider, &feature, input, progress).await
        }
    };
    provider.close().await;
    store.close().await;
    account
}

/// Commit, publish, consume, account.
async fn steps<T, P, I, S, C>(
    compiled: &Compiled,
    store: &Store,
    provider: &Provider,
    feature: &Feature<T, P, I, S>,
    input: Box<dyn BufRead + Send>,
    progress: &Progress,
) -> Result<Account, DemoError>
where
    Feature<T, P, I, S>: commit::Commits<C> + consume::Consumes<C>,
{
    use commit::Commits as _;
    use consume::Consumes as _;
    let query = &store.relay_ports().query;
    feature.prepare().await?;
    let committed: Committed = feature
        .commit(compiled, query.as_ref(), input, progress)
        .await?;
    let stuck = publish::publish(
        compiled,
        store.relay_ports(),
        provider,
        committed.first_new.clone(),
        progress,
    )
    .await?;
    let (broker, applied) = match provider.journal() {
        Some(journal) => {
            let broker = feature.consume(compiled, journal, progress).await?;
            (broker, Some(feature.applied().await?))
        }
        None => (kafka_records::read_back(compiled, progress).await?, None),
    };
    account::account(query.as_ref(), broker, applied, committed, stuck, progress).await
}

/// The journal's end, for people.
fn journal_position(journal: &Journal) -> String {
    format!("journal sequence {}", journal.head().records())
}
