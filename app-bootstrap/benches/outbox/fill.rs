//! Events for a measurement, appended as a feature appends them.
//!
//! Invariant: every row is written by the shipped encoder and append, so the relay's check of each
//! record passes.

use crate::scene::Scene;
use app_bootstrap::compose::Store;
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

/// Event number `number`, in one of `scopes` scopes. Its document has some 400 bytes.
pub(crate) fn draft(number: u32, scopes: u32) -> IntegrationEventDraft {
    let work_log_id = format!("bench-{:06}", number % scopes);
    // Scattered, as random ids are.
    let scattered = number.wrapping_mul(2_654_435_761);
    IntegrationEventDraft {
        event_id: EventId::parse(format!("bench-{scattered:08x}-{number:07}")).expect("an id"),
        aggregate: AggregateIdentity::new(
            AggregateType::parse("worklog").expect("a type"),
            AggregateId::parse(work_log_id.as_str()).expect("an id"),
        ),
        order: AggregateOrder::new(
            AggregateSequence::new(i64::from(number / scopes) + 1).expect("a sequence"),
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

pub(crate) fn appender(scene: &Scene) -> IntegrationEventAppender<PostgresOutbox> {
    let Store::Kafka(kafka) = &scene.store else {
        panic!("the profile is a PostgreSQL one");
    };
    IntegrationEventAppender::new(scene.compiled.codec.clone(), Arc::clone(&kafka.outbox))
}

/// Appends `events` events in `scopes` scopes, the smaller sequences first.
pub(crate) async fn fill(scene: &Scene, events: u32, scopes: u32) {
    let Store::Kafka(kafka) = &scene.store else {
        panic!("the profile is a PostgreSQL one");
    };
    let next = Arc::new(AtomicU32::new(0));
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let (next, appender) = (Arc::clone(&next), appender(scene));
        let transactions = Arc::clone(&kafka.transactions);
        writers.spawn(async move {
            loop {
                let first = next.fetch_add(BATCH, Ordering::SeqCst);
                if first >= events {
                    return;
                }
                let appender = appender.clone();
                let appended: Result<(), TransactionError<AppendEventError>> = transactions
                    .in_write(move |tx| {
                        Box::pin(async move {
                            for number in first..(first + BATCH).min(events) {
                                appender.append(tx, &draft(number, scopes)).await?;
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
}
