//! Business transactions that go on while faults happen.
//!
//! Invariant: each writer has scopes of its own, so a scope's sequence is the order of its commits;
//! what is counted as committed is exactly what `in_write` said was.

use crate::Choices;
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
use outbound_persistence_postgres::{PostgresOutbox, PostgresTransactions};
use portfolio::contracts::WorkLogReserved;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

const WRITERS: usize = 4;

/// What the writers were told.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Ids of committed events.
    pub(crate) committed: BTreeSet<String>,
    /// Ids whose transaction was rolled back after the append.
    pub(crate) rolled_back: BTreeSet<String>,
}

pub(crate) struct Writers {
    stop: watch::Sender<bool>,
    tasks: JoinSet<Written>,
}

impl Writers {
    /// Each of four writers commits one to four events every `pause`, in its share of `scopes`.
    pub(crate) fn start(scene: &Scene, scopes: usize, pause: Duration, choices: &Choices) -> Self {
        let Store::Kafka(kafka) = &scene.store else {
            panic!("the profile is a PostgreSQL one");
        };
        let stop = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        let mut choices = choices.clone();
        for writer in 0..WRITERS {
            let one = Writer {
                appender: IntegrationEventAppender::new(
                    scene.compiled.codec.clone(),
                    Arc::clone(&kafka.outbox),
                ),
                transactions: Arc::clone(&kafka.transactions),
                name: writer,
                next: vec![1; scopes.div_ceil(WRITERS)],
                written: Written::default(),
                choices: Choices(choices.next()),
            };
            tasks.spawn(one.run(pause, stop.subscribe()));
        }
        Self { stop, tasks }
    }

    /// Ends the writers and tells what they wrote.
    pub(crate) async fn stop(mut self) -> Written {
        self.stop.send_replace(true);
        let mut all = Written::default();
        while let Some(writer) = self.tasks.join_next().await {
            let written = writer.expect("a writer");
            all.committed.extend(written.committed);
            all.rolled_back.extend(written.rolled_back);
        }
        all
    }
}

struct Writer {
    appender: IntegrationEventAppender<PostgresOutbox>,
    transactions: Arc<PostgresTransactions>,
    name: usize,
    next: Vec<i64>,
    written: Written,
    choices: Choices,
}

impl Writer {
    async fn run(mut self, pause: Duration, mut stop: watch::Receiver<bool>) -> Written {
        let mut beat = tokio::time::interval(pause);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = stop.wait_for(|stopped| *stopped) => return self.written,
                _ = beat.tick() => {}
            }
            self.write().await;
        }
    }

    async fn write(&mut self) {
        let scope = self.choices.below(self.next.len());
        let events = 1 + i64::try_from(self.choices.below(4)).expect("few");
        let rolls_back = self.choices.below(16) == 0;
        let first = self.next[scope];
        let name = format!("w{}-{scope:05}", self.name);
        // A sequence that was rolled back is used again, under other ids.
        let attempt = if rolls_back { "r" } else { "c" };
        let salt = self.choices.next();
        let id = |sequence: i64| format!("{attempt}-{salt:016x}-{name}-{sequence}");
        let ids: Vec<String> = (first..first + events).map(id).collect();
        let drafts: Vec<_> = (first..)
            .zip(&ids)
            .map(|(s, id)| draft(id, &name, s))
            .collect();
        let appender = self.appender.clone();
        let outcome: Result<(), TransactionError<Refused>> = self
            .transactions
            .in_write(move |tx| {
                Box::pin(async move {
                    for draft in &drafts {
                        appender.append(tx, draft).await.map_err(Refused::Append)?;
                    }
                    if rolls_back {
                        return Err(Refused::OnPurpose);
                    }
                    Ok(())
                })
            })
            .await;
        match outcome {
            Ok(()) => {
                self.next[scope] += events;
                self.written.committed.extend(ids);
            }
            Err(TransactionError::Work(Refused::OnPurpose)) if rolls_back => {
                self.written.rolled_back.extend(ids);
            }
            Err(error) => panic!("no writer may fail: {error:?}"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("the append failed")]
    Append(#[source] AppendEventError),
    #[error("the business changed its mind")]
    OnPurpose,
}

fn draft(id: &str, scope: &str, sequence: i64) -> IntegrationEventDraft {
    IntegrationEventDraft {
        event_id: EventId::parse(id).expect("an id"),
        aggregate: AggregateIdentity::new(
            AggregateType::parse("worklog").expect("a type"),
            AggregateId::parse(scope).expect("an id"),
        ),
        order: AggregateOrder::new(
            AggregateSequence::new(sequence).expect("a sequence"),
            EventIndex::new(0).expect("an index"),
        ),
        occurred_at: OccurredAt::from_epoch_millis(1_785_215_430_123).expect("an instant"),
        correlation_id: CorrelationId::parse("fault-run").expect("an id"),
        causation_id: None,
        tenant_id: None,
        trace: None,
        payload: Box::new(WorkLogReserved {
            work_log_id: scope.to_owned(),
            title: "Written while something fails".to_owned(),
            minutes: 45,
            tags: vec!["fault".to_owned()],
        }),
    }
}
