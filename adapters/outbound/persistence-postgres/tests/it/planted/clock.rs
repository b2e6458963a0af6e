//! The transaction's start in place of the clock.
//!
//! Invariant: a lease, a deadline and a due time are compared with the clock at the comparison, and
//! not with the moment at which a transaction that had to wait began.

use super::planted;
use super::statements::{
    CLAIM, CLAIM_WINDOW, Found, LOCK_HEAD, RECORD_OUTCOME, RECORD_WINDOW, Window, claim,
    claim_window, lock_head, record, record_window,
};
use super::version::retried;
use crate::claims::waits_for_a_lock;
use crate::fence::{Card, take};
use crate::harness::PostgresHarness;
use crate::sample::{acknowledged, append, claimed, event, event_id, request};
use crate::wait::until;
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::{ClaimRequest, ClaimedDelivery};
use domain_core::delivery::DeliveryStateName;
use domain_core::instant::DatabaseInstant;
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Postgres, Transaction};
use std::time::Duration;

/// Long enough for a transaction to begin within it, and to wait for its end.
const A_WHILE: Duration = Duration::from_secs(1);

/// Begins a transaction of READ COMMITTED, and says when.
async fn begun(session: &mut PgConnection) -> (Transaction<'_, Postgres>, DatabaseInstant) {
    let mut tx = session.begin().await.expect("begin");
    let at = sqlx::query_scalar("SELECT (extract(epoch FROM now()) * 1000000)::bigint")
        .fetch_one(&mut *tx)
        .await
        .expect("the start");
    (tx, DatabaseInstant::from_epoch_micros(at))
}

async fn passed(h: &PostgresHarness, moment: DatabaseInstant) {
    until("a moment to pass", async || {
        (h.database_now().await > moment).then_some(())
    })
    .await;
}

/// A claim of an event of its own.
async fn short_claim(h: &PostgresHarness, id: &str, number: u32) -> ClaimedDelivery {
    append(&h.store, &event(id, id, 1)).await;
    let short = ClaimRequest {
        lease: A_WHILE,
        attempt_budget: Duration::from_millis(1),
        ..request(number)
    };
    claimed(&h.store, &short).await
}

/// A transaction that began while a lease was live comes to its compare-and-set once it lapsed.
async fn moved_after_the_lease(
    h: &PostgresHarness,
    claim: &ClaimedDelivery,
    card: Card,
    text: &str,
) -> bool {
    let mut session = h.place.session().await;
    let (mut tx, began) = begun(&mut session).await;
    assert!(began < claim.claim_until, "the lease lapsed before");
    passed(h, claim.claim_until).await;
    let outcome = acknowledged(claim);
    let moved = match card {
        Card::PerRecord => record(&mut tx, text, &outcome).await,
        Card::Window => record_window(&mut tx, text, &outcome).await,
    };
    tx.commit().await.expect("committed");
    let state = h.delivery(&claim.attempt.event_id).await.expect("delivery");
    let recorded = state.state == DeliveryStateName::DeliveryRecorded;
    assert_eq!(moved == 1, recorded);
    recorded
}

/// Planted bug: the lease is compared with the transaction's start. The window's statement compares
/// it twice, and either one stands in for the other.
#[tokio::test]
async fn a_lease_compared_with_the_transactions_start_is_caught() {
    let locked = "WHERE locked.claim_until > clock_timestamp()";
    let moved = "AND d.claim_until > clock_timestamp()";
    let at_start = |text: &str| text.replace("clock_timestamp()", "now()");
    let first = planted(RECORD_WINDOW, locked, &at_start(locked));
    let second = planted(RECORD_WINDOW, moved, &at_start(moved));
    let both = planted(&first, moved, &at_start(moved));
    let alone = planted(RECORD_OUTCOME, moved, &at_start(moved));
    let h = PostgresHarness::fresh().await;
    let mut number = 0;
    for (card, text, caught) in [
        (Card::PerRecord, RECORD_OUTCOME, false),
        (Card::PerRecord, &alone, true),
        (Card::Window, RECORD_WINDOW, false),
        (Card::Window, &first, false),
        (Card::Window, &second, false),
        (Card::Window, &both, true),
    ] {
        number += 1;
        let claim = short_claim(&h, &format!("e{number}"), number).await;
        let wrong = moved_after_the_lease(&h, &claim, card, text).await;
        assert_eq!(wrong, caught, "{card:?} {number}");
    }
}

/// A request whose whole attempt fits before the row's deadline for a while yet.
async fn tight(h: &PostgresHarness, id: &str, number: u32) -> (ClaimRequest, DatabaseInstant) {
    append(&h.store, &event(id, id, 1)).await;
    let row = h.delivery(&event_id(id)).await.expect("delivery");
    let now = h.database_now().await;
    let left = row.automatic_attempt_deadline.epoch_micros() - now.epoch_micros();
    let left = Duration::from_micros(u64::try_from(left).expect("time is left"));
    let request = ClaimRequest {
        attempt_budget: left - A_WHILE,
        ..request(number)
    };
    (request, now.plus(A_WHILE))
}

/// Planted bug: the deadline is compared with the transaction's start, and an attempt that cannot
/// end before the deadline is admitted.
#[tokio::test]
async fn a_deadline_compared_with_the_transactions_start_is_caught() {
    let h = PostgresHarness::fresh().await;
    let fits = "clock_timestamp() + $7::bigint";
    let alone = planted(CLAIM, fits, "now() + $7::bigint");
    for (id, text, caught) in [("a1", CLAIM, false), ("a2", &alone, true)] {
        let (request, fits_until) = tight(&h, id, 1).await;
        let mut session = h.place.session().await;
        let (mut tx, began) = begun(&mut session).await;
        assert!(began < fits_until, "the attempt did not fit any more");
        let found = Found::fresh(id);
        assert!(lock_head(&mut tx, LOCK_HEAD, found).await.is_some());
        passed(&h, fits_until).await;
        let until = claim(&mut tx, text, found, &request).await;
        tx.commit().await.expect("committed");
        assert_eq!(until.is_some(), caught);
        assert_eq!(h.journal(&event_id(id)).await.len(), usize::from(caught));
    }
    let window = planted(CLAIM_WINDOW, "clock_timestamp() + $9", "now() + $9");
    for (id, text, expected) in [
        ("b1", CLAIM_WINDOW, Window::Spent),
        ("b2", &window, Window::Claimed),
    ] {
        let (request, fits_until) = tight(&h, id, 2).await;
        let mut session = h.place.session().await;
        let (mut tx, began) = begun(&mut session).await;
        assert!(began < fits_until, "the attempt did not fit any more");
        passed(&h, fits_until).await;
        let done = claim_window(&mut tx, text, Found::fresh(id), &request).await;
        tx.commit().await.expect("committed");
        assert_eq!(done, expected);
    }
}

/// Planted bug: what a locked row is judged by is the transaction's start, although the lock, here
/// the epoch's, was waited for.
#[tokio::test]
async fn a_judgement_by_the_transactions_start_is_caught() {
    let h = PostgresHarness::fresh().await;
    let now = "clock_timestamp()) * 1000000)::bigint AS now";
    let early = planted(LOCK_HEAD, now, "now()) * 1000000)::bigint AS now");
    for (id, text, caught) in [("a1", LOCK_HEAD, false), ("a2", &early, true)] {
        let (_, fits_until) = tight(&h, id, 1).await;
        let mut other = h.place.session().await;
        let mut holder = other.begin().await.expect("begin");
        sqlx::query("SELECT 1 FROM outbox_publication_epoch WHERE state = 'ACTIVE' FOR UPDATE")
            .execute(&mut *holder)
            .await
            .expect("the epoch is held");
        let mut session = h.place.session().await;
        let (mut tx, began) = begun(&mut session).await;
        assert!(began < fits_until);
        let locking = async { lock_head(&mut tx, text, Found::fresh(id)).await };
        let releasing = async {
            waits_for_a_lock(&h, 1).await;
            passed(&h, fits_until).await;
            holder.rollback().await.expect("released");
        };
        let (judged_at, ()) = tokio::join!(locking, releasing);
        let judged_at = DatabaseInstant::from_epoch_micros(judged_at.expect("locked"));
        assert_eq!(judged_at < fits_until, caught, "{judged_at:?}");
    }
}

/// Planted bug: a lease counted from the transaction's start, which may be over when it is granted;
/// the next worker takes the event while the first begins to send it.
#[tokio::test]
async fn a_lease_granted_from_the_transactions_start_is_caught() {
    let h = PostgresHarness::fresh().await;
    let lease = "clock_timestamp() + $6::bigint";
    let short = planted(CLAIM, lease, "now() + $6::bigint");
    for (number, text, caught) in [(1, CLAIM, false), (3, &short, true)] {
        let id = format!("e{number}");
        append(&h.store, &event(&id, &id, 1)).await;
        let mut session = h.place.session().await;
        let (mut tx, began) = begun(&mut session).await;
        let first = ClaimRequest {
            lease: 2 * A_WHILE,
            ..request(number)
        };
        let found = Found::fresh(&id);
        assert!(lock_head(&mut tx, LOCK_HEAD, found).await.is_some());
        passed(&h, began.plus(first.lease)).await;
        let granted = claim(&mut tx, text, found, &first).await.expect("claimed");
        tx.commit().await.expect("committed");
        let granted = DatabaseInstant::from_epoch_micros(granted);
        assert_eq!(granted < began.plus(2 * first.lease), caught);
        let taken = take(&h, Card::PerRecord, number + 1).await;
        assert_eq!(taken.len(), usize::from(caught));
    }
}

/// Planted bug: whether a retry is due is compared with the transaction's start, and a head that
/// came due while its transaction waited is passed over.
#[tokio::test]
async fn a_due_time_compared_with_the_transactions_start_is_caught() {
    let due = "d.next_attempt_at <= clock_timestamp()";
    let late = planted(CLAIM, due, "d.next_attempt_at <= now()");
    let window = planted(CLAIM_WINDOW, due, "d.next_attempt_at <= now()");
    let h = PostgresHarness::fresh().await;
    let mut number = 0;
    for (card, text, caught) in [
        (Card::PerRecord, CLAIM, false),
        (Card::PerRecord, &late, true),
        (Card::Window, CLAIM_WINDOW, false),
        (Card::Window, &window, true),
    ] {
        number += 2;
        let id = format!("e{number}");
        append(&h.store, &event(&id, &id, 1)).await;
        let first = claimed(&h.store, &request(number)).await;
        let retried = retried(&h, &first, A_WHILE).await;
        let mut session = h.place.session().await;
        let (mut tx, began) = begun(&mut session).await;
        let due = retried.next_attempt_at.expect("a retry");
        assert!(began < due, "the retry was due before");
        let found = Found {
            row_version: retried.row_version,
            ..Found::fresh(&id)
        };
        passed(&h, due).await;
        let next = request(number + 1);
        let taken = match card {
            Card::PerRecord => {
                assert!(lock_head(&mut tx, LOCK_HEAD, found).await.is_some());
                claim(&mut tx, text, found, &next).await.is_some()
            }
            Card::Window => claim_window(&mut tx, text, found, &next).await == Window::Claimed,
        };
        tx.commit().await.expect("committed");
        assert_eq!(taken, !caught, "{card:?} {number}");
    }
}

/// Planted bug: whether a claim has lapsed is compared with the transaction's start, and one that
/// lapsed while the transaction waited stays with the worker that is gone.
#[tokio::test]
async fn a_lapse_compared_with_the_transactions_start_is_caught() {
    let lapsed = "d.claim_until <= clock_timestamp()";
    let late = planted(CLAIM, lapsed, "d.claim_until <= now()");
    let h = PostgresHarness::fresh().await;
    for (number, text, caught) in [(1, CLAIM, false), (3, &late, true)] {
        let id = format!("e{number}");
        let gone = short_claim(&h, &id, number).await;
        let row = h.delivery(&event_id(&id)).await.expect("delivery");
        let mut session = h.place.session().await;
        let (mut tx, began) = begun(&mut session).await;
        assert!(began < gone.claim_until, "the claim lapsed before");
        passed(&h, gone.claim_until).await;
        let found = Found {
            row_version: row.row_version,
            lapsed: true,
            ..Found::fresh(&id)
        };
        assert!(lock_head(&mut tx, LOCK_HEAD, found).await.is_some());
        let until = claim(&mut tx, text, found, &request(number + 1)).await;
        tx.rollback().await.expect("ended");
        assert_eq!(until.is_none(), caught);
    }
}
