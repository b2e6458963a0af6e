//! What an append costs the business transaction.
//!
//! Invariant: the same writers run the same business insert, with and without one event, in turns.

use crate::fill::{appender, draft};
use crate::report::Report;
use crate::scene::Scene;
use app_bootstrap::compose::Store;
use application_core::ports::{TransactionError, TransactionPort as _};
use application_core::usecase::AppendEventError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) async fn measure(scene: &Scene, writers: u32, seconds: u64, report: &mut Report) {
    let mut connection = scene.connect().await;
    sqlx::raw_sql("CREATE TABLE bench_business (id bigserial PRIMARY KEY, note text)")
        .execute(&mut connection)
        .await
        .expect("a table");
    let half = Duration::from_secs(seconds) / 2;
    let numbers = Arc::new(AtomicU32::new(0));
    let (mut bare, mut with_event) = (0, 0);
    for _ in 0..2 {
        bare += transactions(scene, writers, half, false, &numbers).await;
        with_event += transactions(scene, writers, half, true, &numbers).await;
    }
    let per_second = |count: u32| f64::from(count) / (2.0 * half.as_secs_f64());
    report.value(
        format!("business_{writers}"),
        per_second(bare),
        "transactions/s",
    );
    report.ratio(
        format!("append_overhead_{writers}"),
        per_second(with_event),
        "business",
        per_second(bare),
    );
}

async fn transactions(
    scene: &Scene,
    writers: u32,
    time: Duration,
    with_event: bool,
    numbers: &Arc<AtomicU32>,
) -> u32 {
    let Store::Kafka(kafka) = &scene.store else {
        panic!("the profile is a PostgreSQL one");
    };
    let until = Instant::now() + time;
    let done = Arc::new(AtomicU32::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..writers {
        let (appender, transactions) = (appender(scene), Arc::clone(&kafka.transactions));
        let (done, numbers) = (Arc::clone(&done), Arc::clone(numbers));
        tasks.spawn(async move {
            while Instant::now() < until {
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
                                appender.append(tx, &draft(number, u32::MAX)).await?;
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
