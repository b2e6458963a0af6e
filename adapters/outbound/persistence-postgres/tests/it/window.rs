//! The window card against other transactions and against bad rows.
//!
//! Invariant: a window takes what nobody holds, one head a scope; one record's trouble is its own.

use crate::harness::PostgresHarness;
use crate::plans::a_batch_goes_by_key;
use crate::sample::{acknowledged, append, event, event_id, parts, request};
use crate::wait::Wait;
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::event::ValidatedIntegrationEvent;
use application_core::ports::{
    ClaimOutcome, ClaimedDelivery, FreshAttempt, OutboxWindowPort as _, OutcomeRecord,
    PartitionShare, RecordOutcome, WindowClaim, WindowRequest,
};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::{ClaimToken, ProducerGeneration, PublicationAttemptId};
use domain_core::publication::{
    FailureClass, FailureStage, PublicationFailure, PublicationOutcome, RelayDecision,
    RetryDisposition,
};
use outbound_persistence_postgres::PostgresStore;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Numbers of attempts that no two windows share.
static ATTEMPTS: AtomicU32 = AtomicU32::new(1);

pub(crate) fn window(records: usize, share: PartitionShare) -> WindowRequest {
    let alone = request(0);
    let attempts = (0..records)
        .map(|_| {
            let number = ATTEMPTS.fetch_add(1, Ordering::Relaxed);
            let mut token = [0x3C; 16];
            token[..4].copy_from_slice(&number.to_be_bytes());
            FreshAttempt {
                token: ClaimToken::from_random(token),
                attempt_id: PublicationAttemptId::parse(format!("window-{number}"))
                    .expect("attempt"),
            }
        })
        .collect();
    WindowRequest {
        owner: alone.owner,
        attempts,
        producer_generation: ProducerGeneration::parse("producer-1").expect("generation"),
        lease: alone.lease,
        attempt_budget: alone.attempt_budget,
        maximum_attempts: alone.maximum_attempts,
        known: alone.known,
        share,
    }
}

pub(crate) async fn claim(store: &PostgresStore, request: &WindowRequest) -> WindowClaim {
    store.windows().claim_window(request).await.expect("window")
}

fn ids(claim: &WindowClaim) -> BTreeSet<String> {
    claim
        .claimed
        .iter()
        .map(|claimed| claimed.attempt.event_id.as_str().to_owned())
        .collect()
}

fn held(claimed: &ClaimedDelivery) -> OutcomeRecord {
    OutcomeRecord {
        outcome: PublicationOutcome::Indeterminate(PublicationFailure {
            stage: FailureStage::BrokerAck,
            class: FailureClass::BrokerUnavailable,
            disposition: RetryDisposition::OperatorHold,
        }),
        decision: RelayDecision::Hold,
        ..acknowledged(claimed)
    }
}

/// A window that begins inside its share is filled from the share's start, each row once, so that
/// scopes which are free again make full windows wherever the last one ended.
#[tokio::test]
async fn a_window_goes_on_from_the_start_of_its_share() {
    let h = PostgresHarness::fresh().await;
    for scope in 0..7 {
        for sequence in 0..12 {
            let id = format!("e-{scope}-{sequence:02}");
            append(&h.store, &event(&id, &format!("a{scope}"), sequence)).await;
        }
    }
    for sequence in 0..12 {
        let mut tolerant = parts(&format!("t-{sequence:02}"), "t", sequence);
        tolerant.ordering_required = false;
        append(&h.store, &ValidatedIntegrationEvent::seal(tolerant)).await;
    }
    let mut recorded = BTreeSet::new();
    for turn in 0..16 {
        let claimed = claim(&h.store, &window(5, PartitionShare::WHOLE)).await;
        assert_eq!(claimed.claimed.len(), 5, "turn {turn}");
        let records: Vec<_> = claimed.claimed.iter().map(acknowledged).collect();
        let outcomes = h.store.windows().record_window(&records).await;
        for outcome in outcomes.expect("recorded") {
            assert!(matches!(outcome, RecordOutcome::Recorded(_)), "{outcome:?}");
        }
        recorded.extend(ids(&claimed));
        assert_eq!(recorded.len(), 5 * (turn + 1), "no row twice");
    }
}

/// One head of each scope, every event that waits for nobody, and no more than asked.
#[tokio::test]
async fn a_window_takes_one_head_a_scope_and_what_waits_for_nobody() {
    let h = PostgresHarness::fresh().await;
    for scope in 0..6 {
        for sequence in 0..3 {
            let id = format!("e-{scope}-{sequence}");
            append(&h.store, &event(&id, &format!("a{scope}"), sequence)).await;
        }
    }
    for sequence in 0..3 {
        let mut tolerant = parts(&format!("t-{sequence}"), "t", sequence);
        tolerant.ordering_required = false;
        append(&h.store, &ValidatedIntegrationEvent::seal(tolerant)).await;
    }
    let first = claim(&h.store, &window(4, PartitionShare::WHOLE)).await;
    assert_eq!(first.claimed.len(), 4);
    let mut all = ids(&first);
    // What is left, in as many windows as it takes.
    let wait = Wait::new("nine rows");
    while all.len() < 9 {
        all.extend(ids(
            &claim(&h.store, &window(4, PartitionShare::WHOLE)).await
        ));
        wait.again().await;
    }
    let heads = (0..6).map(|scope| format!("e-{scope}-0"));
    let tolerant = (0..3).map(|sequence| format!("t-{sequence}"));
    assert_eq!(all, heads.chain(tolerant).collect());
    assert_eq!(
        claim(&h.store, &window(4, PartitionShare::WHOLE))
            .await
            .claimed
            .len(),
        0
    );
}

/// Eight workers whose shares overlap on purpose: no row twice, each scope in its order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn overlapping_workers_claim_disjoint_rows_in_order() {
    const SCOPES: i64 = 40;
    const EACH: i64 = 5;
    let h = PostgresHarness::fresh().await;
    for sequence in 0..EACH {
        for scope in 0..SCOPES {
            let id = format!("e-{scope}-{sequence}");
            append(&h.store, &event(&id, &format!("a{scope}"), sequence)).await;
        }
    }
    let total = usize::try_from(SCOPES * EACH).expect("small");
    let done = Arc::new(Mutex::new(Vec::new()));
    let workers: Vec<_> = (0..8)
        .map(|index| {
            let (store, done) = (h.store.clone(), Arc::clone(&done));
            let share = match index % 3 {
                0 => PartitionShare::WHOLE,
                1 => PartitionShare::of(0, 2).expect("share"),
                _ => PartitionShare::of(1, 2).expect("share"),
            };
            tokio::spawn(async move {
                let wait = Wait::new("all rows");
                while done.lock().expect("done").len() < total {
                    let claim = claim(&store, &window(7, share)).await;
                    if claim.claimed.is_empty() {
                        wait.again().await;
                        continue;
                    }
                    // Noted before they are recorded, while the claims still hold their scopes.
                    done.lock()
                        .expect("done")
                        .extend(claim.claimed.iter().map(|claimed| {
                            let event = claimed.event.identities.clone();
                            (event.aggregate, event.order)
                        }));
                    let records: Vec<_> = claim.claimed.iter().map(acknowledged).collect();
                    let recorded = store
                        .windows()
                        .record_window(&records)
                        .await
                        .expect("recorded");
                    assert!(recorded.iter().all(|one| {
                        *one == RecordOutcome::Recorded(DeliveryStateName::DeliveryRecorded)
                    }));
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("a worker");
    }
    let done = done.lock().expect("done");
    assert_eq!(done.iter().collect::<BTreeSet<_>>().len(), total);
    assert_eq!(done.len(), total);
    let mut by_scope: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (aggregate, order) in done.iter() {
        by_scope.entry(aggregate).or_default().push(*order);
    }
    for (aggregate, orders) in by_scope {
        assert!(orders.is_sorted(), "{aggregate:?}: {orders:?}");
    }
}

/// A head that another transaction holds is skipped with its scope; the others go on.
#[tokio::test]
async fn a_locked_head_skips_its_scope_alone() {
    let h = PostgresHarness::fresh().await;
    for (id, scope, sequence) in [
        ("a1", "a", 1),
        ("a2", "a", 2),
        ("b1", "b", 1),
        ("c1", "c", 1),
    ] {
        append(&h.store, &event(id, scope, sequence)).await;
    }
    let mut session = h.place.session().await;
    let mut holder = session.begin().await.expect("begun");
    holder
        .execute("SELECT 1 FROM outbox_delivery WHERE event_id = 'a1' FOR UPDATE")
        .await
        .expect("locked");
    let claim = claim(&h.store, &window(9, PartitionShare::WHOLE)).await;
    assert_eq!(
        ids(&claim),
        BTreeSet::from(["b1".to_owned(), "c1".to_owned()])
    );
}

/// Answers come in the order asked; a stale record, one of a row that is gone from under it, and a
/// refused value touch no other.
#[tokio::test]
async fn each_records_trouble_is_its_own() {
    let h = PostgresHarness::fresh().await;
    for scope in ["a", "b", "c", "d", "e"] {
        append(&h.store, &event(&format!("e-{scope}"), scope, 1)).await;
    }
    let claim = claim(&h.store, &window(9, PartitionShare::WHOLE)).await;
    assert_eq!(claim.claimed.len(), 5);
    let by_id = |id: &str| {
        claim
            .claimed
            .iter()
            .find(|claimed| claimed.attempt.event_id == event_id(id))
            .expect("claimed")
    };
    let mut foreign = acknowledged(by_id("e-b"));
    foreign.attempt.claim_token = ClaimToken::from_random([9; 16]);
    let mut missing = acknowledged(by_id("e-a"));
    missing.attempt.event_id = event_id("e-nowhere");
    // The database refuses a delivery that is recorded without an acknowledgement.
    let mut refused = held(by_id("e-c"));
    refused.decision = RelayDecision::Record;
    let records = [
        acknowledged(by_id("e-d")),
        foreign,
        refused,
        missing,
        acknowledged(by_id("e-a")),
        held(by_id("e-e")),
    ];
    let recorded = h
        .store
        .windows()
        .record_window(&records)
        .await
        .expect("recorded");
    let (acknowledged, hold) = (
        RecordOutcome::Recorded(DeliveryStateName::DeliveryRecorded),
        RecordOutcome::Recorded(DeliveryStateName::Hold),
    );
    assert_eq!(
        recorded,
        [
            acknowledged,
            RecordOutcome::Stale,
            hold,
            RecordOutcome::Stale,
            acknowledged,
            hold
        ]
    );
    let counts = h.query().counts().await.expect("counts").by_state;
    assert_eq!(
        counts,
        BTreeMap::from([
            (DeliveryStateName::Claimed, 1),
            (DeliveryStateName::DeliveryRecorded, 2),
            (DeliveryStateName::Hold, 2),
        ])
    );
}

/// A lapsed claim, whose record may have ended its process, is reclaimed alone; its neighbours are
/// not claimed with it and spend no attempt.
#[tokio::test]
async fn a_lapsed_claim_is_reclaimed_in_a_window_of_its_own() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("poison", "p", 1)).await;
    let short = WindowRequest {
        lease: Duration::from_millis(20),
        ..window(1, PartitionShare::WHOLE)
    };
    let first = claim(&h.store, &short).await;
    assert_eq!(first.claimed.len(), 1);
    for scope in 0..20 {
        append(
            &h.store,
            &event(&format!("n-{scope}"), &format!("n{scope}"), 1),
        )
        .await;
    }
    let mut seen = BTreeSet::new();
    let wait = Wait::new("every row");
    while seen.len() < 21 {
        let claim = claim(&h.store, &window(30, PartitionShare::WHOLE)).await;
        let taken = ids(&claim);
        if taken.contains("poison") {
            assert_eq!(taken.len(), 1, "{taken:?}");
            assert_eq!(claim.claimed[0].attempt_count, 2);
        } else {
            assert!(
                claim
                    .claimed
                    .iter()
                    .all(|claimed| claimed.attempt_count == 1)
            );
        }
        seen.extend(taken);
        wait.again().await;
    }
}

/// A batch of rows whose budget has ended and rows that have time left.
#[tokio::test]
async fn a_window_ends_spent_budgets_beside_its_claims() {
    let h = PostgresHarness::fresh().await;
    for scope in 0..6 {
        let mut sample = parts(&format!("e-{scope}"), &format!("a{scope}"), 1);
        if scope % 2 == 0 {
            sample.requeue_horizon = Duration::from_millis(500);
        }
        append(&h.store, &ValidatedIntegrationEvent::seal(sample)).await;
    }
    // An attempt takes a second, which no odd row's horizon leaves.
    let claim = claim(&h.store, &window(9, PartitionShare::WHOLE)).await;
    let spent: BTreeSet<_> = claim
        .spent
        .iter()
        .map(|spent| spent.event_id.as_str().to_owned())
        .collect();
    let of = |scopes: [i32; 3]| {
        scopes
            .map(|scope| format!("e-{scope}"))
            .into_iter()
            .collect()
    };
    assert_eq!(spent, of([0, 2, 4]));
    assert_eq!(ids(&claim), of([1, 3, 5]));
    let row = h.delivery(&event_id("e-0")).await.expect("row");
    assert_eq!(
        (row.state, row.attempt_count),
        (DeliveryStateName::Exhausted, 0)
    );
}

/// 100,000 scopes that cannot go, sorted before the one that can, with a million events waiting
/// behind their heads: each look takes in a bounded number of heads and goes on where the last one
/// stopped, so as many looks as that makes find it, no more and no fewer, each followed by a glance at
/// what is young; an event that commits meanwhile is found by that.
#[tokio::test]
async fn one_ready_scope_behind_a_hundred_thousand_blocked_ones() {
    const BLOCKED: u32 = 100_000;
    const BEHIND: u32 = 10;
    // Heads that one look takes in.
    const LOOKED_AT: u32 = 4_096;
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e-seed", "seed", 1)).await;
    let mut session = h.place.session().await;
    session
        .execute(AssertSqlSafe(format!(
            "SET session_replication_role = replica; SET statement_timeout = 0; \
             INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status, \
                 dispatch_profile_id, destination_binding_revision, state, claim_count, \
                 publication_attempt_count, first_attempt_at, next_attempt_at, terminal_at, \
                 automatic_attempt_deadline, partition_key_text, aggregate_sequence, \
                 aggregate_event_index, ordering_required, claim_partition, claim_lane) \
             SELECT 'b-' || scope || '-' || place, 1, 'CURRENT', 'p', \
                 d.destination_binding_revision, \
                 CASE WHEN place > 0 THEN 'READY' WHEN scope % 2 = 0 THEN 'EXHAUSTED' \
                     ELSE 'RETRY_WAIT' END, \
                 1, 1, clock_timestamp(), \
                 CASE WHEN place = 0 AND scope % 2 = 1 \
                     THEN clock_timestamp() + interval '1 day' END, \
                 CASE WHEN place = 0 AND scope % 2 = 0 THEN clock_timestamp() END, \
                 clock_timestamp() + interval '1 day', \
                 '00' || substr(encode(sha256(scope::text::bytea), 'hex'), 3), place, 0, true, 0, \
                 d.claim_lane \
             FROM outbox_delivery AS d, generate_series(1, {BLOCKED}) AS scope, \
                 generate_series(0, {BEHIND}) AS place \
             WHERE d.event_id = 'e-seed'; \
             UPDATE outbox_delivery SET partition_key_text = repeat('f', 64) \
             WHERE event_id = 'e-seed'; \
             UPDATE outbox_event SET partition_key_text = repeat('f', 64) \
             WHERE event_id = 'e-seed'; \
             SET session_replication_role = origin"
        )))
        .await
        .expect("filled");
    a_batch_goes_by_key(&mut session).await;
    session
        .execute("ANALYZE outbox_delivery")
        .await
        .expect("analyzed");
    a_batch_goes_by_key(&mut session).await;
    // A handle remembers where it stands; each card has one of its own.
    let other = h.place.store().await;
    let numbers = std::cell::Cell::new(77);
    let number = || {
        numbers.set(numbers.get() + 1);
        numbers.get()
    };
    for card in ["per record", "window"] {
        let next = async || match card {
            "per record" => match h.deliveries().claim_next(&request(number())).await {
                Ok(ClaimOutcome::Claimed(claimed)) => Some(claimed.attempt.event_id),
                Ok(ClaimOutcome::Unfinished) => None,
                other => panic!("{card}: {other:?}"),
            },
            _ => {
                let claim = claim(&other, &window(100, PartitionShare::WHOLE)).await;
                assert!(claim.unfinished || !claim.claimed.is_empty(), "{card}");
                let first = claim.claimed.into_iter().next();
                first.map(|claimed| claimed.attempt.event_id)
            }
        };
        let mut looks = 1;
        let found = loop {
            match next().await {
                Some(found) => break found,
                None => looks += 1,
            }
            assert!(looks <= BLOCKED, "{card}: not found");
        };
        let searches = (BLOCKED + 1).div_ceil(LOOKED_AT);
        assert_eq!(
            (found.as_str(), looks),
            ("e-seed", 2 * searches - 1),
            "{card}"
        );

        for _ in 0..6 {
            assert_eq!(next().await, None, "{card}");
        }
        let young = format!("e-young-{}", card.len());
        append(&h.store, &event(&young, &young, 1)).await;
        let soon = [next().await, next().await];
        assert!(
            soon.iter().flatten().any(|found| found.as_str() == young),
            "{card}: {soon:?}"
        );
        session
            .execute(
                "SET session_replication_role = replica; \
                 UPDATE outbox_delivery SET state = 'READY', claim_token = NULL, \
                     claim_owner = NULL, claim_until = NULL WHERE event_id = 'e-seed'; \
                 SET session_replication_role = origin",
            )
            .await
            .expect("ready again");
    }
}
