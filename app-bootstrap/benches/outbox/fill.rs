//! Events for a measurement, appended as a feature appends them.
//!
//! Invariant: every row is written by the shipped encoder and append, so the relay's check of each
//! record passes.

use crate::place::{Card, Database, Scene};
use app_bootstrap::compose::{Compiled, KafkaStore, Store};
use application_core::event::IntegrationEventDraft;
use application_core::ports::{TransactionError, TransactionPort as _};
use application_core::usecase::{AppendEventError, IntegrationEventAppender};
use domain_core::identity::{
    AggregateId, AggregateIdentity, AggregateOrder, AggregateSequence, AggregateType,
    CorrelationId, EventId, EventIndex,
};
use domain_core::instant::OccurredAt;
use outbound_persistence_postgres::PostgresOutbox;
use portfolio::contracts::WorkLogReserved;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Events of one transaction while a store is filled.
const BATCH: u32 = 50;
/// Writers that fill a store.
const WRITERS: u32 = 8;

/// A backlog: the events of all scopes in turns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) events: u32,
    pub(crate) scopes: u32,
    /// The sequence of each scope's first event.
    pub(crate) first_sequence: i64,
}

/// Event number `number` of a load. Its document has some 400 bytes.
pub(crate) fn draft(number: u32, load: Load) -> IntegrationEventDraft {
    let work_log_id = format!("bench-{:06}", number % load.scopes);
    // Scattered, as random ids are.
    let scattered = number.wrapping_mul(2_654_435_761);
    let sequence = load.first_sequence + i64::from(number / load.scopes);
    IntegrationEventDraft {
        event_id: EventId::parse(format!("bench-{scattered:08x}-{number:07}")).expect("an id"),
        aggregate: AggregateIdentity::new(
            AggregateType::parse("worklog").expect("a type"),
            AggregateId::parse(work_log_id.as_str()).expect("an id"),
        ),
        order: AggregateOrder::new(
            AggregateSequence::new(sequence).expect("a sequence"),
            EventIndex::new(0).expect("an index"),
        ),
        occurred_at: OccurredAt::from_epoch_millis(1_785_215_430_123).expect("an instant"),
        correlation_id: CorrelationId::parse("bench-correlation").expect("an id"),
        causation_id: None,
        tenant_id: None,
        trace: None,
        payload: Box::new(WorkLogReserved {
            work_log_id,
            title: "A measurement of the outbox".to_owned(),
            minutes: 45,
            tags: vec!["bench".to_owned(), "outbox".to_owned()],
        }),
    }
}

/// The PostgreSQL side of an open store.
pub(crate) fn postgres(store: &Store) -> &KafkaStore {
    match store {
        Store::Kafka(kafka) => kafka,
        Store::Embedded(_) => panic!("the profile is a PostgreSQL one"),
    }
}

pub(crate) fn appender(
    compiled: &Compiled,
    outbox: &Arc<PostgresOutbox>,
) -> IntegrationEventAppender<PostgresOutbox> {
    IntegrationEventAppender::new(compiled.codec.clone(), Arc::clone(outbox))
}

/// Appends a load, the smaller sequences first. Nobody is connected afterwards.
pub(crate) async fn fill(database: &Database, load: Load) {
    fill_from(database, load, 0).await;
}

/// Appends a load, its events numbered from `first` on.
pub(crate) async fn fill_from(database: &Database, load: Load, first: u32) {
    let end = first + load.events;
    let scene = Scene::on(database, Card::Window).await;
    let store = scene.open().await;
    let kafka = postgres(&store);
    let next = Arc::new(AtomicU32::new(first));
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let (next, appender) = (Arc::clone(&next), appender(&scene.compiled, &kafka.outbox));
        let transactions = Arc::clone(&kafka.transactions);
        writers.spawn(async move {
            loop {
                let first = next.fetch_add(BATCH, Ordering::SeqCst);
                if first >= end {
                    return;
                }
                let appender = appender.clone();
                let appended: Result<(), TransactionError<AppendEventError>> = transactions
                    .in_write(move |tx| {
                        Box::pin(async move {
                            for number in first..(first + BATCH).min(end) {
                                appender.append(tx, &draft(number, load)).await?;
                            }
                            Ok(())
                        })
                    })
                    .await;
                appended.expect("appended");
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.expect("a writer");
    }
    store.close().await;
    scene.remove().await;
}
