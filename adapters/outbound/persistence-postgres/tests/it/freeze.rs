//! The write admission against business writers that overlap.
//!
//! Invariant: once a freeze has returned FROZEN no business transaction commits until it is resumed,
//! and the relay goes on all the while.

use crate::authority::{act, audited};
use crate::claims::waits_for_a_lock;
use crate::harness::{PostgresHarness, policy};
use crate::sample::{acknowledged, append, claimed, event, event_id, request, try_append};
use crate::wait::{pause, until};
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::{
    AppendError, ClaimOutcome, FreezeOutcome, OutboxAppendPort as _, OutboxDeliveryPort as _,
    OutboxQueryPort as _, PublicationAuthorityPort as _, RecordOutcome, ResumeOutcome,
    TransactionError, TransactionPort as _,
};
use domain_core::authority::{WriteAdmission, WriteAdmissionState};
use domain_core::delivery::DeliveryStateName;
use outbound_persistence_postgres::{
    DatabaseFault, PoolSettings, PostgresStore, PostgresTransactions, WriteIsolation,
};
use sqlx::{Connection as _, Executor as _};
use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(15);
const LEVELS: [WriteIsolation; 3] = [
    WriteIsolation::ReadCommitted,
    WriteIsolation::RepeatableRead,
    WriteIsolation::Serializable,
];

type Written = Result<(), TransactionError<AppendError>>;

fn open(generation: i64) -> WriteAdmission {
    WriteAdmission {
        state: WriteAdmissionState::Open,
        generation,
    }
}

fn frozen(generation: i64) -> WriteAdmission {
    WriteAdmission {
        state: WriteAdmissionState::Frozen,
        generation,
    }
}

/// A store with a session for every writer.
async fn wide_store(h: &PostgresHarness) -> PostgresStore {
    let settings = PoolSettings {
        maximum_connections: 24,
        ..h.place.settings()
    };
    PostgresStore::connect(&h.place.url(), &settings)
        .await
        .expect("connected")
}

/// One business write with an append in it.
async fn write(store: &PostgresStore, transactions: &PostgresTransactions, id: &str) -> Written {
    let (outbox, sealed, key) = (store.outbox(policy()), event(id, id, 1), id.to_owned());
    transactions
        .in_write(move |tx| {
            Box::pin(async move {
                PostgresHarness::insert_business_row(tx, &key)
                    .await
                    .map_err(AppendError::Unavailable)?;
                outbox.append(tx, &sealed).await.map(drop)
            })
        })
        .await
}

/// A business write that has appended and stands still.
struct Parked {
    go_on: oneshot::Sender<()>,
    task: JoinHandle<Written>,
}

impl Parked {
    async fn inside(store: &PostgresStore, isolation: WriteIsolation, id: &str) -> Self {
        loop {
            let (appended, seen) = oneshot::channel();
            let (go_on, gate) = oneshot::channel();
            let transactions = store.transactions_at(isolation);
            let (outbox, sealed) = (store.outbox(policy()), event(id, id, 1));
            let task = tokio::spawn(async move {
                transactions
                    .in_write(move |tx| {
                        Box::pin(async move {
                            outbox.append(tx, &sealed).await?;
                            appended.send(()).expect("the test listens");
                            gate.await.expect("the test goes on");
                            Ok(())
                        })
                    })
                    .await
            });
            if seen.await.is_ok() {
                return Self { go_on, task };
            }
            let error = task.await.expect("joined").expect_err("it did not append");
            assert_eq!(sqlstate(&error).as_deref(), Some("40001"), "{error:?}");
        }
    }

    async fn end(self) -> Written {
        self.go_on.send(()).expect("the writer listens");
        self.task.await.expect("joined")
    }
}

/// Writers that overlap each other for as long as they are let in.
struct Writers {
    stop: Arc<AtomicBool>,
    refused: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Writers {
    fn start(store: &PostgresStore, isolation: WriteIsolation, number: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let refused = Arc::new(AtomicU64::new(0));
        let tasks = (0..number)
            .map(|writer| {
                let (store, stop, refused) =
                    (store.clone(), Arc::clone(&stop), Arc::clone(&refused));
                tokio::spawn(async move {
                    let transactions = store.transactions_at(isolation);
                    let mut turn = 0_u32;
                    while !stop.load(Ordering::SeqCst) {
                        let id = format!("w{writer}-{turn}");
                        match write(&store, &transactions, &id).await {
                            Ok(()) => turn += 1,
                            Err(TransactionError::NotAdmitted(_)) => {
                                refused.fetch_add(1, Ordering::SeqCst);
                                pause().await;
                            }
                            // The database asks for another turn.
                            Err(error) if sqlstate(&error).as_deref() == Some("40001") => {}
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                })
            })
            .collect();
        Self {
            stop,
            refused,
            tasks,
        }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        for task in self.tasks {
            task.await.expect("a writer");
        }
    }
}

/// The SQLSTATE at the root of an error.
fn sqlstate(error: &TransactionError<AppendError>) -> Option<String> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(DatabaseFault::Answered { sqlstate, .. }) = error.downcast_ref() {
            return Some(sqlstate.clone());
        }
        source = error.source();
    }
    None
}

async fn events(h: &PostgresHarness) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM outbox_event")
        .fetch_one(&h.pool)
        .await
        .expect("events")
}

/// How FROZEN is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Freeze {
    Port,
    /// The planted bug: announced as it should be, then FROZEN without having held the row.
    WithoutForUpdate,
}

async fn freeze(h: Arc<PostgresHarness>, how: Freeze) -> FreezeOutcome {
    if how == Freeze::Port {
        return h
            .store
            .authority()
            .freeze(1, LONG, &act())
            .await
            .expect("freeze");
    }
    for change in [
        "state = 'FREEZING'",
        "state = 'FROZEN', generation = generation + 1",
    ] {
        let statement =
            format!("UPDATE write_admission SET {change}, row_version = row_version + 1");
        h.pool
            .execute(sqlx::AssertSqlSafe(statement))
            .await
            .expect("changed");
    }
    FreezeOutcome::Frozen(h.store.authority().write_admission().await.expect("read"))
}

/// Sixteen writers overlap, one of them parked inside its transaction, and a freeze comes. Tells how
/// many events were committed after the freeze had said FROZEN.
async fn committed_after_frozen(
    h: &Arc<PostgresHarness>,
    store: &PostgresStore,
    isolation: WriteIsolation,
    how: Freeze,
) -> i64 {
    let writers = Writers::start(store, isolation, 15);
    let parked = Parked::inside(store, isolation, "parked").await;
    until("writers that overlap", async || {
        (events(h).await > 30).then_some(())
    })
    .await;
    let freezing = tokio::spawn(freeze(Arc::clone(h), how));
    until("a refused writer", async || {
        (writers.refused.load(Ordering::SeqCst) > 15).then_some(())
    })
    .await;
    let (frozen_events, ended) = if how == Freeze::Port {
        // The parked writer holds it up, and nobody else: new ones are refused meanwhile.
        waits_for_a_lock(h, 1).await;
        assert!(!freezing.is_finished(), "the freeze did not wait");
        let refused = write(store, &store.transactions(), "refused").await;
        assert!(
            matches!(
                refused,
                Err(TransactionError::NotAdmitted(WriteAdmissionState::Freezing))
            ),
            "{refused:?}"
        );
        let ended = parked.end().await;
        let outcome = freezing.await.expect("joined");
        assert_eq!(outcome, FreezeOutcome::Frozen(frozen(2)));
        (events(h).await, ended)
    } else {
        let outcome = freezing.await.expect("joined");
        assert_eq!(outcome, FreezeOutcome::Frozen(frozen(2)));
        let frozen_events = events(h).await;
        (frozen_events, parked.end().await)
    };
    match ended {
        Ok(()) => {}
        // The database may ask for another turn at the commit as well.
        Err(error) if isolation == WriteIsolation::Serializable => {
            assert_eq!(sqlstate(&error).as_deref(), Some("40001"), "{error:?}");
        }
        Err(error) => panic!("{error:?}"),
    }
    let refused = write(store, &store.transactions_at(isolation), "refused").await;
    assert!(
        matches!(
            refused,
            Err(TransactionError::NotAdmitted(WriteAdmissionState::Frozen))
        ),
        "{refused:?}"
    );
    writers.end().await;
    events(h).await - frozen_events
}

/// Claims and records whatever is open; attempts are numbered from `first`.
async fn drain(h: &PostgresHarness, store: &PostgresStore, first: u32) -> u32 {
    let deliveries = store.deliveries();
    let mut recorded = 0;
    for number in first.. {
        match deliveries
            .claim_next(&request(number))
            .await
            .expect("claim")
        {
            ClaimOutcome::Claimed(claim) => {
                let record = acknowledged(&claim);
                let outcome = deliveries.record_outcome(&record).await.expect("recorded");
                let expected = RecordOutcome::Recorded(DeliveryStateName::DeliveryRecorded);
                assert_eq!(outcome, expected);
                recorded += 1;
            }
            ClaimOutcome::Unfinished => {}
            ClaimOutcome::Nothing => break,
            other @ ClaimOutcome::BudgetSpent { .. } => panic!("{other:?}"),
        }
    }
    let counts = h.store.query().counts().await.expect("counts");
    let open = counts.by_state.get(&DeliveryStateName::Ready);
    assert_eq!(open.copied().unwrap_or(0), 0, "{counts:?}");
    recorded
}

async fn from_freeze_to_reopening(isolation: WriteIsolation) {
    let h = Arc::new(PostgresHarness::fresh().await);
    let store = wide_store(&h).await;
    let after = committed_after_frozen(&h, &store, isolation, Freeze::Port).await;
    assert_eq!(after, 0, "{isolation:?}");
    // The relay is not gated, so the backlog drains.
    let backlog = events(&h).await;
    assert_eq!(i64::from(drain(&h, &store, 1).await), backlog);
    // The sentinel proves the way to the broker while business writes stay out.
    try_append(
        &store,
        &store.ungated_transactions(),
        &event("sentinel", "sentinel", 1),
    )
    .await
    .expect("the sentinel is appended");
    assert_eq!(drain(&h, &store, 1_000_000).await, 1);
    let sentinel = h.delivery(&event_id("sentinel")).await.expect("delivery");
    assert_eq!(sentinel.state, DeliveryStateName::DeliveryRecorded);
    // Reopening takes the generation that the operator saw.
    let authority = store.authority();
    let conflict = authority.resume(1, &act()).await.expect("resume");
    assert_eq!(conflict, ResumeOutcome::Conflict(frozen(2)));
    let resumed = authority.resume(2, &act()).await.expect("resume");
    assert_eq!(resumed, ResumeOutcome::Open(open(3)));
    write(&store, &store.transactions_at(isolation), "again")
        .await
        .expect("business writes go on");
    assert_eq!(audited(&h).await, ["FREEZE_ANNOUNCED", "FROZEN", "RESUMED"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_read_committed_writers_are_frozen_and_let_in_again() {
    from_freeze_to_reopening(WriteIsolation::ReadCommitted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_repeatable_read_writers_are_frozen_and_let_in_again() {
    from_freeze_to_reopening(WriteIsolation::RepeatableRead).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_serializable_writers_are_frozen_and_let_in_again() {
    from_freeze_to_reopening(WriteIsolation::Serializable).await;
}

/// Planted bug: without FOR UPDATE, a writer commits into a store that was said to be frozen, and
/// the history above shows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_freeze_without_for_update_is_caught() {
    let h = Arc::new(PostgresHarness::fresh().await);
    let store = wide_store(&h).await;
    let (level, how) = (WriteIsolation::ReadCommitted, Freeze::WithoutForUpdate);
    let after = committed_after_frozen(&h, &store, level, how).await;
    assert!(after >= 1, "the planted bug was not seen");
}

/// A writer that does not end: business writes go on under the next generation.
#[tokio::test]
async fn a_freeze_that_waited_in_vain_reopens() {
    let h = PostgresHarness::fresh().await;
    let authority = h.store.authority();
    let parked = Parked::inside(&h.store, WriteIsolation::ReadCommitted, "parked").await;
    let short = Duration::from_millis(100);
    let outcome = authority.freeze(1, short, &act()).await.expect("freeze");
    assert_eq!(outcome, FreezeOutcome::TimedOut(open(2)));
    append(&h.store, &event("e1", "a", 1)).await;
    parked.end().await.expect("committed");
    let outcome = authority.freeze(1, LONG, &act()).await.expect("freeze");
    assert_eq!(outcome, FreezeOutcome::Conflict(open(2)));
    let outcome = authority.freeze(2, LONG, &act()).await.expect("freeze");
    assert_eq!(outcome, FreezeOutcome::Frozen(frozen(3)));
    let outcome = authority.freeze(3, LONG, &act()).await.expect("freeze");
    assert_eq!(outcome, FreezeOutcome::Conflict(frozen(3)));
    assert_eq!(
        audited(&h).await,
        [
            "FREEZE_ANNOUNCED",
            "FREEZE_TIMED_OUT",
            "FREEZE_ANNOUNCED",
            "FROZEN"
        ]
    );
}

/// A process that stopped between the two transactions leaves FREEZING, which an operator ends;
/// also while the second transaction waits.
#[tokio::test]
async fn a_freeze_that_was_cut_off_is_thawed() {
    let h = Arc::new(PostgresHarness::fresh().await);
    let authority = h.store.authority();
    h.pool
        .execute("UPDATE write_admission SET state = 'FREEZING', row_version = row_version + 1")
        .await
        .expect("announced");
    let refused = write(&h.store, &h.store.transactions(), "refused").await;
    assert!(
        matches!(
            refused,
            Err(TransactionError::NotAdmitted(WriteAdmissionState::Freezing))
        ),
        "{refused:?}"
    );
    let freezing = WriteAdmission {
        state: WriteAdmissionState::Freezing,
        generation: 1,
    };
    let conflict = authority.resume(1, &act()).await.expect("resume");
    assert_eq!(conflict, ResumeOutcome::Conflict(freezing));
    let conflict = authority.thaw(9, &act()).await.expect("thaw");
    assert_eq!(conflict, ResumeOutcome::Conflict(freezing));
    let thawed = authority.thaw(1, &act()).await.expect("thaw");
    assert_eq!(thawed, ResumeOutcome::Open(open(2)));

    let parked = Parked::inside(&h.store, WriteIsolation::ReadCommitted, "parked").await;
    let task = h.store.authority();
    let waiting = tokio::spawn(async move { task.freeze(2, LONG, &act()).await });
    waits_for_a_lock(&h, 1).await;
    let thawed = authority.thaw(2, &act()).await.expect("thaw");
    assert_eq!(thawed, ResumeOutcome::Open(open(3)));
    parked.end().await.expect("committed");
    let outcome = waiting.await.expect("joined").expect("freeze");
    assert_eq!(outcome, FreezeOutcome::Conflict(open(3)));
}

/// The only session of a pool serves the next caller after it was refused.
#[tokio::test]
async fn a_refused_writer_leaves_its_session_usable() {
    let h = PostgresHarness::fresh().await;
    let settings = PoolSettings {
        maximum_connections: 1,
        ..h.place.settings()
    };
    let store = PostgresStore::connect(&h.place.url(), &settings)
        .await
        .expect("connected");
    store
        .authority()
        .freeze(1, LONG, &act())
        .await
        .expect("frozen");
    for (number, level) in (1..).zip(LEVELS) {
        let refused = write(&store, &store.transactions_at(level), "refused").await;
        assert!(
            matches!(
                refused,
                Err(TransactionError::NotAdmitted(WriteAdmissionState::Frozen))
            ),
            "{refused:?}"
        );
        let sealed = event(&format!("e{number}"), "a", number);
        try_append(&store, &store.ungated_transactions(), &sealed)
            .await
            .expect("the session is not in an aborted transaction");
    }
    let resumed = store.authority().resume(2, &act()).await.expect("resumed");
    assert_eq!(resumed, ResumeOutcome::Open(open(3)));
    for level in LEVELS {
        let id = format!("{level:?}");
        write(&store, &store.transactions_at(level), &id)
            .await
            .expect("written at its own level");
    }
}

/// A writer that had to wait for the admission's row and finds it changed: READ COMMITTED reads it
/// again and is refused; a snapshot cannot, and asks for another turn.
#[tokio::test]
async fn a_writer_that_waited_sees_what_changed() {
    for level in LEVELS {
        let h = Arc::new(PostgresHarness::fresh().await);
        let mut session = h.place.session().await;
        let mut holder = session.begin().await.expect("begin");
        holder
            .execute("SELECT 1 FROM write_admission FOR UPDATE")
            .await
            .expect("locked");
        let task = Arc::clone(&h);
        let writing = tokio::spawn(async move {
            write(&task.store, &task.store.transactions_at(level), "late").await
        });
        waits_for_a_lock(&h, 1).await;
        holder
            .execute("UPDATE write_admission SET state = 'FREEZING', row_version = row_version + 1")
            .await
            .expect("announced");
        holder.commit().await.expect("committed");
        let written = writing.await.expect("joined").expect_err("not written");
        if level == WriteIsolation::ReadCommitted {
            assert!(
                matches!(
                    written,
                    TransactionError::NotAdmitted(WriteAdmissionState::Freezing)
                ),
                "{written:?}"
            );
        } else {
            assert!(matches!(written, TransactionError::Begin(_)), "{written:?}");
            assert_eq!(sqlstate(&written).as_deref(), Some("40001"));
        }
        assert_eq!(events(&h).await, 0);
    }
}

/// Each business transaction keeps the level that it was asked for, whatever the session's default,
/// although it asks for admission first.
#[tokio::test]
async fn the_level_is_the_one_asked_for() {
    let h = PostgresHarness::fresh().await;
    for defaults in [
        &["default_transaction_read_only=on"][..],
        &[
            "default_transaction_read_only=on",
            "default_transaction_isolation=serializable",
        ],
    ] {
        let store = h.place.bare_store(defaults).await;
        for (level, expected) in
            LEVELS
                .into_iter()
                .zip(["read committed", "repeatable read", "serializable"])
        {
            let shown: (String, String) = store
                .transactions_at(level)
                .in_write(|tx| {
                    Box::pin(async move {
                        let shown = sqlx::query_as(
                            "SELECT current_setting('transaction_isolation'), \
                             current_setting('transaction_read_only')",
                        )
                        .fetch_one(tx.as_mut())
                        .await
                        .expect("settings");
                        Ok::<_, std::fmt::Error>(shown)
                    })
                })
                .await
                .expect("committed");
            assert_eq!(
                shown,
                (expected.to_owned(), "off".to_owned()),
                "{defaults:?}"
            );
        }
    }
}

/// A caller that is dropped inside its transaction does not hold up a freeze.
#[tokio::test]
async fn a_dropped_writer_holds_up_nothing() {
    let h = PostgresHarness::fresh().await;
    let parked = Parked::inside(&h.store, WriteIsolation::ReadCommitted, "parked").await;
    parked.task.abort();
    let outcome = h
        .store
        .authority()
        .freeze(1, LONG, &act())
        .await
        .expect("freeze");
    assert_eq!(outcome, FreezeOutcome::Frozen(frozen(2)));
    assert_eq!(events(&h).await, 0);
}

/// What was claimed before a freeze is recorded after it.
#[tokio::test]
async fn an_outcome_is_recorded_in_a_frozen_store() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e1", "a", 1)).await;
    let claim = claimed(&h.store, &request(1)).await;
    h.store
        .authority()
        .freeze(1, LONG, &act())
        .await
        .expect("frozen");
    let recorded = h
        .store
        .deliveries()
        .record_outcome(&acknowledged(&claim))
        .await;
    assert!(matches!(recorded, Ok(RecordOutcome::Recorded(_))));
}
