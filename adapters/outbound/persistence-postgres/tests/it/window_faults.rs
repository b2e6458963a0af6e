//! The window card under lost answers and late writers, and how destinations share it.
//!
//! Invariant: a window whose commit was not answered is looked up attempt by attempt; what another
//! writer journals meanwhile costs a turn and never an outcome; no destination starves another.

use crate::claims::waits_for_a_lock;
use crate::commit_reply::behind_proxy;
use crate::harness::PostgresHarness;
use crate::proxy::Cut;
use crate::sample::{acknowledged, append, claimed, event, event_id, nothing, parts, request};
use crate::wait::until;
use crate::window::{claim, window};
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::event::ValidatedIntegrationEvent;
use application_core::ports::{
    ClaimError, ClaimRequest, KnownRecord, OutboxDeliveryPort as _, OutboxWindowPort as _,
    PartitionShare, RecordError, RecordOutcome, RecordedAttempt, WindowRequest,
};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::{DestinationBindingRevision, LogicalDestinationId};
use sqlx::{Connection as _, Executor as _};
use std::sync::Arc;

const RECORDED: RecordOutcome = RecordOutcome::Recorded(DeliveryStateName::DeliveryRecorded);

/// Waits until the server has noticed that the sessions behind the proxy are gone, and let go of
/// what they had locked.
async fn let_go(h: &PostgresHarness) {
    until("a lost transaction to end", async || {
        let open: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity \
             WHERE application_name = $1 AND backend_xid IS NOT NULL",
        )
        .bind(h.place.name())
        .fetch_one(&h.pool)
        .await
        .expect("activity");
        (open == 0).then_some(())
    })
    .await;
}

/// Each attempt of the window is open or was never admitted, and the look-up tells which.
#[tokio::test]
async fn an_unanswered_window_is_looked_up_attempt_by_attempt() {
    let h = PostgresHarness::fresh().await;
    let (store, proxy) = behind_proxy(&h).await;
    for scope in ["a", "b", "c"] {
        append(&h.store, &event(&format!("e-{scope}"), scope, 1)).await;
    }
    for cut in [Cut::Before, Cut::After] {
        let window = window(3, PartitionShare::WHOLE);
        proxy.arm(cut);
        let result = store.windows().claim_window(&window).await;
        assert!(proxy.has_cut());
        assert!(
            matches!(result, Err(ClaimError::OutcomeUnknown(_))),
            "{cut:?}: {result:?}"
        );
        let_go(&h).await;
        let mut records = Vec::new();
        for attempt in &window.attempts {
            let found = store
                .deliveries()
                .find_attempt(&attempt.token, &attempt.attempt_id)
                .await
                .expect("looked up");
            match (cut, found) {
                (Cut::Before, RecordedAttempt::Unknown) => {}
                (Cut::After, RecordedAttempt::Open(claim)) => {
                    assert_eq!((claim.claim_count, claim.attempt_count), (1, 1));
                    records.push(acknowledged(&claim));
                }
                (cut, found) => panic!("{cut:?}: {found:?}"),
            }
        }
        if cut == Cut::After {
            assert_eq!(records.len(), 3);
            let recorded = store.windows().record_window(&records).await;
            assert_eq!(recorded.expect("recorded"), [RECORDED; 3]);
        }
    }
    nothing(&h.store, &request(9)).await;
}

/// Outcomes whose commit was not answered are there as a whole or not at all, and asking again is
/// safe.
#[tokio::test]
async fn unanswered_outcomes_are_looked_up_and_safe_to_repeat() {
    let h = PostgresHarness::fresh().await;
    let (store, proxy) = behind_proxy(&h).await;
    for scope in ["a", "b", "c"] {
        append(&h.store, &event(&format!("e-{scope}"), scope, 1)).await;
    }
    let claimed = claim(&store, &window(3, PartitionShare::WHOLE))
        .await
        .claimed;
    let records: Vec<_> = claimed.iter().map(acknowledged).collect();
    assert_eq!(records.len(), 3);
    for cut in [Cut::Before, Cut::After] {
        proxy.arm(cut);
        let result = store.windows().record_window(&records).await;
        assert!(proxy.has_cut());
        assert!(
            matches!(result, Err(RecordError::OutcomeUnknown(_))),
            "{cut:?}: {result:?}"
        );
        let_go(&h).await;
        for claim in &claimed {
            let found = store
                .deliveries()
                .find_attempt(&claim.attempt.claim_token, &claim.attempt.attempt_id)
                .await
                .expect("looked up");
            match (cut, found) {
                (Cut::Before, RecordedAttempt::Open(_))
                | (Cut::After, RecordedAttempt::Closed(DeliveryStateName::DeliveryRecorded)) => {}
                (cut, found) => panic!("{cut:?}: {found:?}"),
            }
        }
    }
    let again = store.windows().record_window(&records).await;
    assert_eq!(again.expect("answered"), [RecordOutcome::Stale; 3]);
    for claim in &claimed {
        assert_eq!(h.journal(&claim.attempt.event_id).await.len(), 2);
    }
}

/// The same outcome twice in one batch: the first is recorded, the second is stale.
#[tokio::test]
async fn an_outcome_given_twice_is_recorded_once() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e1", "a", 1)).await;
    let claimed = claim(&h.store, &window(1, PartitionShare::WHOLE)).await;
    let record = acknowledged(&claimed.claimed[0]);
    let recorded = h
        .store
        .windows()
        .record_window(&[record.clone(), record])
        .await;
    assert_eq!(
        recorded.expect("recorded"),
        [RECORDED, RecordOutcome::Stale]
    );
    assert_eq!(h.journal(&event_id("e1")).await.len(), 2);
}

/// While outcomes wait for a row, its holder journals a late observation under the number that they
/// would have taken, or renews the claim. Both are recorded all the same.
#[tokio::test]
async fn outcomes_that_waited_for_another_writer_are_recorded() {
    let h = PostgresHarness::fresh().await;
    let mut session = h.place.session().await;
    let writes = [
        "INSERT INTO outbox_delivery_attempt_observation (event_id, delivery_generation, \
             publication_attempt_id, observation_sequence, observation_type, \
             claim_token_digest, producer_generation, destination_binding_revision, \
             acceptance_certainty, retry_disposition, provider_record_reference) \
         SELECT event_id, 1, 'earlier', 2, 'LATE_ACK_OBSERVED', sha256('earlier'), 'g', 'b', \
             'ACCEPTED', 'NO_RETRY', 'r' FROM outbox_delivery WHERE state = 'CLAIMED'",
        "UPDATE outbox_delivery SET claim_until = claim_until + interval '1 second', \
             row_version = row_version + 1 WHERE state = 'CLAIMED'",
    ];
    for (number, write) in (1..).zip(writes) {
        for scope in ["a", "b"] {
            append(
                &h.store,
                &event(&format!("e-{scope}-{number}"), scope, number),
            )
            .await;
        }
        let claimed = claim(&h.store, &window(2, PartitionShare::WHOLE))
            .await
            .claimed;
        let records: Vec<_> = claimed.iter().map(acknowledged).collect();
        assert_eq!(records.len(), 2);
        let mut holder = session.begin().await.expect("begun");
        holder
            .execute("SELECT 1 FROM outbox_delivery WHERE state = 'CLAIMED' FOR UPDATE")
            .await
            .expect("locked");
        let store = h.store.clone();
        let recording = tokio::spawn(async move { store.windows().record_window(&records).await });
        waits_for_a_lock(&h, 1).await;
        holder.execute(write).await.expect("written");
        holder.commit().await.expect("committed");
        let recorded = recording.await.expect("joined").expect("recorded");
        assert_eq!(recorded, [RECORDED; 2]);
    }
}

/// Events of one busy destination and of one that has few, none of them in a lane of its own turn.
async fn two_destinations(h: &PostgresHarness) -> Arc<[KnownRecord]> {
    let few = |id: &str| {
        let mut few = parts(id, id, 1);
        few.identities.destination = LogicalDestinationId::parse("few-events").expect("id");
        few.binding_revision = DestinationBindingRevision::parse("few-events-r1").expect("id");
        few
    };
    for number in 0..60 {
        append(
            &h.store,
            &event(&format!("busy-{number}"), &format!("s{number}"), 1),
        )
        .await;
    }
    for number in 0..20 {
        let sealed = ValidatedIntegrationEvent::seal(few(&format!("few-{number}")));
        append(&h.store, &sealed).await;
    }
    let busy = request(0).known[0].clone();
    let few = few("any");
    Arc::from([
        KnownRecord {
            destination: few.identities.destination,
            binding_revision: few.binding_revision,
            ..busy.clone()
        },
        busy,
    ])
}

/// Each destination has its slice of each window, whatever the window's size; what one leaves goes
/// to the other.
#[tokio::test]
async fn destinations_share_each_window() {
    let h = PostgresHarness::fresh().await;
    let known = two_destinations(&h).await;
    let count = |events: &[String]| events.iter().filter(|id| id.starts_with("few")).count();
    let mut alone = Vec::new();
    for number in 1..=8 {
        let request = ClaimRequest {
            known: Arc::clone(&known),
            ..request(number)
        };
        let claimed = claimed(&h.store, &request).await;
        alone.push(claimed.attempt.event_id.as_str().to_owned());
    }
    assert_eq!(count(&alone), 4, "{alone:?}");
    for (records, of_few) in [(1, 0), (1, 1), (10, 5), (40, 10), (18, 0)] {
        let request = WindowRequest {
            known: Arc::clone(&known),
            ..window(records, PartitionShare::WHOLE)
        };
        let claim = claim(&h.store, &request).await;
        let ids: Vec<String> = claim
            .claimed
            .iter()
            .map(|claimed| claimed.attempt.event_id.as_str().to_owned())
            .collect();
        if records == 1 {
            alone.extend(ids);
        } else {
            assert_eq!((ids.len(), count(&ids)), (records, of_few), "{ids:?}");
        }
    }
    assert_eq!(count(&alone), 5, "{alone:?}");
}
