//! The scan, cut short.
//!
//! Invariant: a limit counts what may go and not what was looked at, and no place that a worker
//! remembers lies inside a scope.

use super::planted;
use super::statements::{Found, LOCK_HEAD, SCAN, Span, lock_head, scan};
use crate::harness::PostgresHarness;
use crate::sample::{acknowledged, append, claimed, event, event_id, parts, request};
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::event::{ValidatedIntegrationEvent, ValidatedParts};
use application_core::ports::{OutboxDeliveryPort as _, RecordOutcome};
use domain_core::delivery::DeliveryStateName;

/// Makes the event of a number.
type Seal = fn(usize) -> ValidatedIntegrationEvent;

/// An event that waits for nobody.
fn tolerant(id: &str) -> ValidatedIntegrationEvent {
    ValidatedIntegrationEvent::seal(ValidatedParts {
        ordering_required: false,
        ..parts(id, id, 1)
    })
}

/// Everything that a scan finds which goes on from where its bound ended it.
async fn found(h: &PostgresHarness, text: &str) -> Vec<String> {
    let mut session = h.place.session().await;
    let mut all = Vec::new();
    let mut after = "00".to_owned();
    loop {
        let span = Span {
            after: &after,
            limit: 4,
            looked_at: 8,
        };
        let (eligible, stopped) = scan(&mut session, text, span, &request(1)).await;
        all.extend(eligible);
        match stopped {
            Some(place) => after = place,
            None => return all,
        }
    }
}

/// Planted bug: the limit counts rows looked at. The one scope that may go stands last, behind more
/// blocked ones than the limit, and no scan ever comes to it.
#[tokio::test]
async fn a_limit_before_eligibility_is_caught() {
    const SCOPES: usize = 12;
    let heads = planted(
        SCAN,
        "WHERE head.looked < $8::bigint",
        "WHERE head.looked < $7::bigint",
    );
    let waiting = planted(
        SCAN,
        "LIMIT $8::bigint\n      ) AS d",
        "LIMIT $7::bigint\n      ) AS d",
    );
    let ordered: Seal = |number| event(&format!("e{number}"), &format!("a{number}"), 1);
    let free: Seal = |number| tolerant(&format!("e{number}"));
    for (seal, text) in [(ordered, heads), (free, waiting)] {
        let h = PostgresHarness::fresh().await;
        let mut events: Vec<_> = (0..SCOPES).map(seal).collect();
        events.sort_by_key(|one| one.partition_key().as_str().to_owned());
        let last = events.last().expect("twelve").identities().event_id.clone();
        for one in &events {
            append(&h.store, one).await;
            if one.identities().event_id != last {
                // Not claimable, yet in the scan's way on both of its ways.
                let waits = "UPDATE outbox_delivery SET state = 'RETRY_WAIT', \
                     row_version = row_version + 1, \
                     next_attempt_at = clock_timestamp() + interval '1 hour' WHERE event_id = $1";
                let mut tx = h.pool.begin().await.expect("begin");
                sqlx::query("SET LOCAL session_replication_role = replica")
                    .execute(&mut *tx)
                    .await
                    .expect("a superuser");
                sqlx::query(waits)
                    .bind(one.identities().event_id.as_str())
                    .execute(&mut *tx)
                    .await
                    .expect("it waits");
                tx.commit().await.expect("committed");
            }
        }
        assert_eq!(found(&h, SCAN).await, [last.as_str()]);
        assert_eq!(found(&h, &text).await, [""; 0]);
    }
}

/// Planted bug: a worker remembers where the open part of a scope began, and its scan takes that
/// for the truth. A smaller sequence that commits later is never found, and, since the gate still
/// asks for it, nothing behind it goes either.
#[tokio::test]
async fn a_mark_that_is_taken_for_the_truth_is_caught() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("second", "a", 2)).await;
    let claim = claimed(&h.store, &request(1)).await;
    let recorded = h
        .store
        .deliveries()
        .record_outcome(&acknowledged(&claim))
        .await;
    assert!(matches!(recorded, Ok(RecordOutcome::Recorded(_))));
    // From here on everything up to the second is known to be recorded, and wrongly so.
    let mark = "AND (d.partition_key_text, d.aggregate_sequence) > ($2::text, 2)";
    let marked = planted(SCAN, "AND d.partition_key_text > $2::text", mark);
    append(&h.store, &event("third", "a", 3)).await;
    append(&h.store, &event("first", "a", 1)).await;
    let key = event("first", "a", 1);
    let key = key.partition_key().as_str();
    let inside = Span {
        after: key,
        ..Span::WHOLE
    };
    let mut session = h.place.session().await;
    let (shipped, _) = scan(&mut session, SCAN, Span::WHOLE, &request(2)).await;
    assert_eq!(shipped, ["first"]);
    let (wrong, _) = scan(&mut session, &marked, inside, &request(2)).await;
    assert_eq!(wrong, ["third"]);
    let stuck = lock_head(&mut session, LOCK_HEAD, Found::fresh("third")).await;
    assert_eq!(stuck, None, "the gate let it pass");
    let first = h.delivery(&event_id("first")).await.expect("delivery");
    assert_eq!(first.state, DeliveryStateName::Ready);
    let claim = claimed(&h.store, &request(2)).await;
    assert_eq!(claim.attempt.event_id.as_str(), "first");
}
