//! Activations through the port against appends and claims, in both orders.
//!
//! Invariant: nothing commits under an epoch that was retired before it committed.

use crate::authority::{act, audited, change_epoch, stale_insert};
use crate::claims::waits_for_a_lock;
use crate::fence::{Card, take};
use crate::harness::{PostgresHarness, policy};
use crate::sample::{acknowledged, append, claimed, event, event_id, nothing, request, try_append};
use crate::wait::until;
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::{
    ActivationOutcome, AppendError, AppendReceipt, EpochActivation, EpochRecord,
    OutboxAppendPort as _, OutboxDeliveryPort as _, PublicationAuthorityPort as _, RecordOutcome,
    TransactionError, TransactionPort as _,
};
use domain_core::authority::EpochState;
use domain_core::delivery::{DeliveryStateName, DispatchAuthority};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{ActReference, PublicationEpoch, RowVersion};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(15);

fn epoch(number: i64) -> PublicationEpoch {
    PublicationEpoch::new(number).expect("epoch")
}

fn activation(of: &EpochRecord, expected: Option<i64>, wait: Duration) -> EpochActivation {
    EpochActivation {
        expected_active: expected.map(epoch),
        epoch: of.epoch,
        row_version: of.row_version,
        wait,
        approval: ActReference::parse("CHG-1").expect("approval"),
        act: act(),
    }
}

async fn prepared(h: &PostgresHarness, authority: DispatchAuthority) -> EpochRecord {
    h.store
        .authority()
        .prepare_epoch(authority, Some(Sha256Digest::of(b"settings")))
        .await
        .expect("prepared")
}

/// Activates in the background.
fn activating(
    h: &Arc<PostgresHarness>,
    activation: EpochActivation,
) -> JoinHandle<ActivationOutcome> {
    let authority = h.store.authority();
    tokio::spawn(async move {
        authority
            .activate_epoch(&activation)
            .await
            .expect("activation")
    })
}

/// An append that stands still before its commit.
async fn parked_append(
    h: &PostgresHarness,
    id: &str,
) -> (
    oneshot::Sender<()>,
    JoinHandle<Result<AppendReceipt, TransactionError<AppendError>>>,
) {
    let (outbox, sealed) = (h.store.outbox(policy()), event(id, id, 1));
    let (appended, seen) = oneshot::channel();
    let (go_on, gate) = oneshot::channel();
    let transactions = h.store.transactions();
    let task = tokio::spawn(async move {
        transactions
            .in_write(move |tx| {
                Box::pin(async move {
                    let receipt = outbox.append(tx, &sealed).await?;
                    appended.send(()).expect("the test listens");
                    gate.await.expect("the test goes on");
                    Ok(receipt)
                })
            })
            .await
    });
    seen.await.expect("appended");
    (go_on, task)
}

async fn active(h: &PostgresHarness) -> Option<EpochRecord> {
    h.store.authority().active_epoch().await.expect("read")
}

/// Prepared, activated once, and nothing else: every refusal leaves everything as it was.
#[tokio::test]
async fn an_activation_needs_what_its_operator_saw() {
    let h = PostgresHarness::fresh().await;
    let authority = h.store.authority();
    let (one, other) = tokio::join!(
        prepared(&h, DispatchAuthority::PollingV2),
        prepared(&h, DispatchAuthority::Cdc)
    );
    let mut numbers = [one.epoch.value(), other.epoch.value()];
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
    assert_eq!(
        (one.state, other.state),
        (EpochState::Prepared, EpochState::Prepared)
    );

    let wrong_version = EpochRecord {
        row_version: RowVersion::new(7).expect("version"),
        ..one.clone()
    };
    for (activation, expected) in [
        (
            activation(&one, None, LONG),
            ActivationOutcome::ActiveDiffers(Some(epoch(1))),
        ),
        (
            activation(&one, Some(3), LONG),
            ActivationOutcome::ActiveDiffers(Some(epoch(1))),
        ),
        (
            activation(&wrong_version, Some(1), LONG),
            ActivationOutcome::NotPrepared,
        ),
    ] {
        let outcome = authority.activate_epoch(&activation).await;
        assert_eq!(outcome.expect("activation"), expected);
        assert_eq!(active(&h).await.map(|found| found.epoch), Some(epoch(1)));
    }
    assert_eq!(audited(&h).await, [""; 0]);

    let activated = authority
        .activate_epoch(&activation(&one, Some(1), LONG))
        .await;
    assert_eq!(activated.expect("activation"), ActivationOutcome::Activated);
    let now_active = active(&h).await.expect("one is active");
    assert_eq!(
        (now_active.epoch, now_active.state),
        (one.epoch, EpochState::Active)
    );
    assert_eq!(now_active.authority, DispatchAuthority::PollingV2);
    // The first one is retired and stays so.
    let first = EpochRecord {
        epoch: epoch(1),
        row_version: RowVersion::new(2).expect("version"),
        ..one.clone()
    };
    let again = activation(&first, Some(one.epoch.value()), LONG);
    let refused = authority.activate_epoch(&again).await.expect("activation");
    assert_eq!(refused, ActivationOutcome::NotPrepared);
    let audit: (String, String, String, String, String, Option<String>) = sqlx::query_as(
        "SELECT subject, operator, reason_code, reason, reference, approval \
         FROM outbox_authority_audit",
    )
    .fetch_one(&h.pool)
    .await
    .expect("one row");
    assert_eq!(audit.0, format!("epoch {} after 1", one.epoch.value()));
    let by = act();
    assert_eq!(
        (
            audit.1.as_str(),
            audit.2.as_str(),
            audit.3.as_str(),
            audit.4.as_str()
        ),
        (
            by.operator.as_str(),
            by.reason_code.as_str(),
            by.reason.as_str(),
            by.reference.as_str()
        )
    );
    assert_eq!(audit.5.as_deref(), Some("CHG-1"));
}

/// An append came first: the activation waits for it; the next append is under the new epoch, and
/// nobody's insert under the old one is taken any more.
#[tokio::test]
async fn an_activation_waits_for_an_append() {
    let h = Arc::new(PostgresHarness::fresh().await);
    let next = prepared(&h, DispatchAuthority::PollingV2).await;
    let (go_on, appending) = parked_append(&h, "e1").await;
    let changing = activating(&h, activation(&next, Some(1), LONG));
    waits_for_a_lock(&h, 1).await;
    assert!(!changing.is_finished(), "the activation did not wait");
    go_on.send(()).expect("the append listens");
    let receipt = appending.await.expect("joined").expect("committed");
    assert_eq!(receipt.epoch, epoch(1));
    assert_eq!(
        changing.await.expect("joined"),
        ActivationOutcome::Activated
    );
    let receipt = try_append(&h.store, &h.store.transactions(), &event("e2", "a", 2)).await;
    assert_eq!(receipt.expect("appended").epoch, epoch(2));
    let refused = h.pool.execute(AssertSqlSafe(stale_insert("e3", 3))).await;
    let error = refused
        .expect_err("stale")
        .into_database_error()
        .expect("database");
    assert_eq!(error.constraint(), Some("outbox_event_active_epoch"));
}

/// An activation came first: the append waits for it and goes on under the new epoch; another
/// writer's stale insert waits as well and is refused.
#[tokio::test]
async fn an_append_waits_for_an_activation() {
    let h = Arc::new(PostgresHarness::fresh().await);
    append(&h.store, &event("e1", "a", 1)).await;
    let next = prepared(&h, DispatchAuthority::PollingV2).await;
    let mut session = h.place.session().await;
    let mut holder = session.begin().await.expect("begin");
    holder
        .execute("LOCK TABLE outbox_authority_audit IN SHARE MODE")
        .await
        .expect("the activation stands still before its commit");
    let changing = activating(&h, activation(&next, Some(1), LONG));
    waits_for_a_lock(&h, 1).await;
    let task = Arc::clone(&h);
    let appending = tokio::spawn(async move {
        try_append(
            &task.store,
            &task.store.transactions(),
            &event("e2", "b", 1),
        )
        .await
    });
    let mut other = h.place.session().await;
    let inserting =
        tokio::spawn(async move { other.execute(AssertSqlSafe(stale_insert("e3", 3))).await });
    waits_for_a_lock(&h, 3).await;
    assert!(!appending.is_finished() && !inserting.is_finished());
    holder.rollback().await.expect("released");
    assert_eq!(
        changing.await.expect("joined"),
        ActivationOutcome::Activated
    );
    let receipt = appending.await.expect("joined").expect("appended");
    assert_eq!(receipt.epoch, epoch(2));
    let error = inserting.await.expect("joined").expect_err("stale");
    let error = error.into_database_error().expect("database");
    assert_eq!(error.constraint(), Some("outbox_event_active_epoch"));
}

/// An append that does not end: nothing changes, and the epoch can be activated later.
#[tokio::test]
async fn an_activation_that_waited_in_vain_changes_nothing() {
    let h = Arc::new(PostgresHarness::fresh().await);
    let next = prepared(&h, DispatchAuthority::Cdc).await;
    let (go_on, appending) = parked_append(&h, "e1").await;
    let authority = h.store.authority();
    let short = activation(&next, Some(1), Duration::from_millis(100));
    let outcome = authority.activate_epoch(&short).await.expect("activation");
    assert_eq!(outcome, ActivationOutcome::TimedOut);
    assert_eq!(active(&h).await.map(|found| found.epoch), Some(epoch(1)));
    assert_eq!(audited(&h).await, [""; 0]);
    go_on.send(()).expect("the append listens");
    appending.await.expect("joined").expect("committed");
    let outcome = authority.activate_epoch(&short).await.expect("activation");
    assert_eq!(outcome, ActivationOutcome::Activated);
}

/// Appends that overlap without a gap do not keep an activation out, and each is under the epoch of
/// its moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activation_gets_its_turn_among_appends() {
    let h = Arc::new(PostgresHarness::fresh().await);
    let stop = Arc::new(AtomicBool::new(false));
    let appended = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (h, stop, appended) = (Arc::clone(&h), Arc::clone(&stop), Arc::clone(&appended));
            tokio::spawn(async move {
                for turn in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let id = format!("w{writer}-{turn}");
                    try_append(&h.store, &h.store.transactions(), &event(&id, &id, 1))
                        .await
                        .expect("appended");
                    appended.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let after = async |more: u64| {
        let from = appended.load(Ordering::SeqCst);
        until("appends", async || {
            (appended.load(Ordering::SeqCst) > from + more).then_some(())
        })
        .await;
    };
    for expected in 1..=3 {
        after(16).await;
        let next = prepared(&h, DispatchAuthority::PollingV2).await;
        let outcome = activating(&h, activation(&next, Some(expected), LONG)).await;
        assert_eq!(outcome.expect("joined"), ActivationOutcome::Activated);
    }
    after(16).await;
    stop.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.expect("a writer");
    }
    let late: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM outbox_event AS e \
         JOIN outbox_publication_epoch AS following ON following.epoch_id = e.publication_epoch + 1 \
         JOIN outbox_publication_epoch AS own ON own.epoch_id = e.publication_epoch \
         WHERE e.created_at > following.activated_at OR e.created_at < own.activated_at",
    )
    .fetch_one(&h.pool)
    .await
    .expect("compared");
    assert_eq!(late, 0);
    let epochs: i64 =
        sqlx::query_scalar("SELECT count(DISTINCT publication_epoch) FROM outbox_event")
            .fetch_one(&h.pool)
            .await
            .expect("epochs");
    assert_eq!(epochs, 4);
}

/// A claim came first: the activation waits for Tx B. Its outcome is recorded after the switch,
/// since an acknowledged record was sent; nothing more is claimed.
async fn an_activation_waits_for_a_claim_of(card: Card) {
    let h = Arc::new(PostgresHarness::fresh().await);
    append(&h.store, &event("e1", "a", 1)).await;
    append(&h.store, &event("e2", "b", 1)).await;
    let next = prepared(&h, DispatchAuthority::Cdc).await;
    let mut session = h.place.session().await;
    let mut holder = session.begin().await.expect("begin");
    holder
        .execute("LOCK TABLE outbox_delivery_attempt_observation IN SHARE MODE")
        .await
        .expect("the claim stands still before its admission");
    let task = Arc::clone(&h);
    let claiming = tokio::spawn(async move { take(&task, card, 1).await });
    waits_for_a_lock(&h, 1).await;
    let changing = activating(&h, activation(&next, Some(1), LONG));
    waits_for_a_lock(&h, 2).await;
    assert!(!changing.is_finished(), "the activation did not wait");
    holder.rollback().await.expect("released");
    let taken = claiming.await.expect("joined");
    let [claim] = &taken[..] else {
        panic!("one was to be claimed: {taken:?}");
    };
    assert_eq!(
        changing.await.expect("joined"),
        ActivationOutcome::Activated
    );
    nothing(&h.store, &request(2)).await;
    let recorded = h
        .store
        .deliveries()
        .record_outcome(&acknowledged(claim))
        .await;
    assert_eq!(
        recorded.expect("recorded"),
        RecordOutcome::Recorded(DeliveryStateName::DeliveryRecorded)
    );
    nothing(&h.store, &request(3)).await;
}

#[tokio::test]
async fn an_activation_waits_for_a_claim() {
    for card in [Card::PerRecord, Card::Window] {
        an_activation_waits_for_a_claim_of(card).await;
    }
}

/// An activation came first: the claim waits for it and takes nothing.
async fn a_claim_waits_for_an_activation_of(card: Card) {
    let h = Arc::new(PostgresHarness::fresh().await);
    append(&h.store, &event("e1", "a", 1)).await;
    let next = prepared(&h, DispatchAuthority::Cdc).await;
    let mut session = h.place.session().await;
    let mut holder = session.begin().await.expect("begin");
    holder
        .execute("LOCK TABLE outbox_authority_audit IN SHARE MODE")
        .await
        .expect("the activation stands still before its commit");
    let changing = activating(&h, activation(&next, Some(1), LONG));
    waits_for_a_lock(&h, 1).await;
    let task = Arc::clone(&h);
    let claiming = tokio::spawn(async move { take(&task, card, 1).await });
    waits_for_a_lock(&h, 2).await;
    assert!(!claiming.is_finished());
    holder.rollback().await.expect("released");
    assert_eq!(
        changing.await.expect("joined"),
        ActivationOutcome::Activated
    );
    let taken = claiming.await.expect("joined");
    assert!(taken.is_empty(), "{card:?}: {taken:?}");
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!((row.state, row.claim_count), (DeliveryStateName::Ready, 0));
    // Back under polling, the older event is claimed: it is of that authority.
    let back = prepared(&h, DispatchAuthority::PollingV2).await;
    let outcome = h
        .store
        .authority()
        .activate_epoch(&activation(&back, Some(2), LONG))
        .await;
    assert_eq!(outcome.expect("activation"), ActivationOutcome::Activated);
    claimed(&h.store, &request(2)).await;
}

#[tokio::test]
async fn a_claim_waits_for_an_activation() {
    for card in [Card::PerRecord, Card::Window] {
        a_claim_waits_for_an_activation_of(card).await;
    }
}

/// How an append reads the epoch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cte {
    /// The insert takes its epoch from the locked row.
    Consumed,
    /// The planted bug: the locking CTE stands there, and the insert reads the epoch past it.
    Unreferenced,
}

/// An append in raw SQL stands still before its commit, and the epoch is changed. Tells whether the
/// append committed under an epoch that had been retired before.
async fn commits_under_a_retired_epoch(h: &PostgresHarness, cte: Cte) -> bool {
    let source = match cte {
        Cte::Consumed => "FROM outbox_event AS e CROSS JOIN epoch",
        Cte::Unreferenced => {
            "FROM outbox_event AS e CROSS JOIN (SELECT epoch_id FROM outbox_publication_epoch \
             WHERE state = 'ACTIVE') AS epoch"
        }
    };
    let statement = format!(
        "WITH epoch AS (SELECT epoch_id FROM outbox_publication_epoch \
         WHERE state = 'ACTIVE' FOR SHARE) \
         INSERT INTO outbox_event SELECT (jsonb_populate_record(e, jsonb_build_object( \
         'event_id', 'raw', 'aggregate_sequence', 2, 'publication_epoch', epoch.epoch_id))).* \
         {source}; \
         INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status, \
         dispatch_profile_id, state, automatic_attempt_deadline) \
         VALUES ('raw', 1, 'CURRENT', 'p', 'READY', clock_timestamp() + interval '1 hour')"
    );
    let mut session = h.place.session().await;
    let mut appending = session.begin().await.expect("begin");
    appending
        .execute(AssertSqlSafe(statement))
        .await
        .expect("inserted");
    let mut other = h.place.session().await;
    let changing = tokio::spawn(async move {
        let mut tx = other.begin().await.expect("begin");
        change_epoch(&mut tx).await;
        tx.commit().await.expect("committed");
    });
    let waited = until("the change to end or to wait", async || {
        if changing.is_finished() {
            return Some(false);
        }
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity \
             WHERE application_name = $1 AND wait_event_type = 'Lock'",
        )
        .bind(h.place.name())
        .fetch_one(&h.pool)
        .await
        .expect("activity");
        (waiting > 0).then_some(true)
    })
    .await;
    let retired_before: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM outbox_publication_epoch \
         WHERE epoch_id = 1 AND state = 'RETIRED')",
    )
    .fetch_one(&h.pool)
    .await
    .expect("epoch");
    assert_eq!(retired_before, !waited);
    appending.commit().await.expect("committed");
    changing.await.expect("joined");
    let under: i64 =
        sqlx::query_scalar("SELECT publication_epoch FROM outbox_event WHERE event_id = 'raw'")
            .fetch_one(&h.pool)
            .await
            .expect("the event");
    retired_before && under == 1
}

/// Planted bug: a locking CTE that nothing references locks nothing. The history shows it where the
/// table's own guard is off, and the guard stands in for the lock where it is on.
#[tokio::test]
async fn an_append_through_an_unreferenced_cte_is_caught() {
    for (cte, guarded, caught) in [
        (Cte::Consumed, false, false),
        (Cte::Unreferenced, false, true),
        (Cte::Unreferenced, true, false),
    ] {
        let h = PostgresHarness::fresh().await;
        append(&h.store, &event("e1", "a", 1)).await;
        if !guarded {
            h.pool
                .execute("ALTER TABLE outbox_event DISABLE TRIGGER outbox_event_created_at")
                .await
                .expect("the guard is off");
        }
        assert_eq!(commits_under_a_retired_epoch(&h, cte).await, caught);
    }
}
