//! What an append costs the business transaction.
//!
//! Invariant: the same writers run the same business insert, with and without one event, in turns, so
//! that whatever else the machine does meets both. What an append sends is counted by a test of the
//! PostgreSQL store, not here.

use crate::fill::{Load, appender, draft};
use crate::place::{Card, Database, Scene};
use crate::report::Report;
use application_core::ports::{AppendPolicy, TransactionError, TransactionPort as _};
use application_core::usecase::AppendEventError;
use outbound_persistence_postgres::{PoolSettings, PostgresStore};
use sqlx::{PgConnection, Row as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Turns of each kind.
const TURNS: u32 = 3;

/// Every event in a scope of its own.
const SCATTERED: Load = Load {
    events: u32::MAX,
    scopes: u32::MAX,
    first_sequence: 1,
};

struct Writers {
    store: PostgresStore,
    scene: Scene,
    numbers: Arc<AtomicU32>,
}

/// Business transactions a second with and without an event, and what the events cost beside time.
pub(crate) async fn measure(writers: u32, time: Duration, report: &mut Report) {
    let database = Database::create(&format!("append_{writers}")).await;
    let scene = Scene::on(&database, Card::Window).await;
    let mut watch = database.connect().await;
    sqlx::raw_sql("CREATE TABLE bench_business (id bigserial PRIMARY KEY, note text)")
        .execute(&mut watch)
        .await
        .expect("a table");
    let store = connect(&database.url(), writers).await;
    let all = Writers {
        store,
        scene,
        numbers: Arc::default(),
    };
    let (mut bare, mut with_event, mut members) = (0, 0, 0.0);
    for _ in 0..TURNS {
        bare += all.run(writers, time, false).await;
        let before = multixact_members(&mut watch).await;
        with_event += all.run(writers, time, true).await;
        members += multixact_members(&mut watch).await - before;
    }
    let per_second = |count: u32| f64::from(count) / (f64::from(TURNS) * time.as_secs_f64());
    report.value(
        format!("business_{writers}"),
        per_second(bare),
        "transactions/s",
    );
    report.value(
        format!("business_with_event_{writers}"),
        per_second(with_event),
        "transactions/s",
    );
    let millis = |count: u32| 1_000.0 * f64::from(writers) / per_second(count);
    for name in names(writers) {
        report.ratio(
            name,
            millis(with_event),
            "ms a transaction",
            "the same without an event",
            millis(bare),
        );
    }
    report.value(
        format!("append_multixact_members_{writers}"),
        members / f64::from(with_event),
        "an append",
    );
    all.store.close().await;
    all.scene.remove().await;
    drop(watch);
    database.remove().await;
}

/// The middle number of writers also stands for the whole.
fn names(writers: u32) -> Vec<String> {
    let mut names = vec![format!("append_overhead_{writers}")];
    if writers == 16 {
        names.push("append_overhead".to_owned());
    }
    names
}

async fn connect(url: &str, connections: u32) -> PostgresStore {
    let limit = Duration::from_secs(30);
    let settings = PoolSettings {
        application_name: "bench".to_owned(),
        maximum_connections: connections.max(2),
        acquire_timeout: limit,
        statement_timeout: limit,
        lock_timeout: limit,
        idle_in_transaction_timeout: limit,
    };
    PostgresStore::connect(url, &settings)
        .await
        .expect("a store")
}

/// Members that the server has ever put into multixacts; a checkpoint notes them.
async fn multixact_members(watch: &mut PgConnection) -> f64 {
    sqlx::raw_sql("CHECKPOINT")
        .execute(&mut *watch)
        .await
        .expect("a checkpoint");
    sqlx::query(
        "SELECT next_multi_offset::text::bigint::float8 AS members FROM pg_control_checkpoint()",
    )
    .fetch_one(watch)
    .await
    .expect("members")
    .get("members")
}

impl Writers {
    async fn run(&self, writers: u32, time: Duration, with_event: bool) -> u32 {
        let began = Instant::now();
        let done = Arc::new(AtomicU32::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        let profile = &self.scene.compiled.profile.outbox;
        let policy = AppendPolicy::new(
            profile.maximum_automatic_publication_age,
            profile.polling_card,
        )
        .expect("the profile's policy");
        let outbox = Arc::new(self.store.outbox(policy));
        for _ in 0..writers {
            let appender = appender(&self.scene.compiled, &outbox);
            let transactions = self.store.transactions();
            let (done, numbers) = (Arc::clone(&done), Arc::clone(&self.numbers));
            tasks.spawn(async move {
                loop {
                    if began.elapsed() >= time {
                        return;
                    }
                    let appender = appender.clone();
                    let number = numbers.fetch_add(1, Ordering::SeqCst);
                    let committed: Result<(), TransactionError<AppendEventError>> = transactions
                        .in_write(move |tx| {
                            Box::pin(async move {
                                sqlx::query("INSERT INTO bench_business (note) VALUES ($1)")
                                    .bind("a business row")
                                    .execute(tx.as_mut())
                                    .await
                                    .expect("a business row");
                                if with_event {
                                    appender.append(tx, &draft(number, SCATTERED)).await?;
                                }
                                Ok(())
                            })
                        })
                        .await;
                    committed.expect("committed");
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.expect("a writer");
        }
        done.load(Ordering::SeqCst)
    }
}
