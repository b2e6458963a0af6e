//! What the window card's port shows beside the cases that also run through it one by one.
//!
//! Invariant: a window is many claims and many outcomes, and none of them knows of the others
//! (requirement 004 §§18.6–18.7).

use super::control::{ControlHarness, act};
use super::fixture::{
    EventSpec, LONG, SHORT, acknowledged_record, all, append, claimed, event, event_id, leased,
    nothing, passed, producer, request,
};
use super::{ObservationType, WindowHarness};
use crate::ports::{
    BudgetSpentReason, ClaimedDelivery, FenceScope, FreshAttempt, OutcomeRecord, PartitionShare,
    RecordOutcome, RenewOutcome, RenewRequest, SpentDelivery, WindowClaim, WindowRequest,
};
use domain_core::delivery::{DeliveryStateName, DispatchAuthority};
use domain_core::publication::AcceptanceCertainty;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A request for `size` records, under the identities that [`request`] gives from `first` on.
fn window(first: u32, size: u32) -> WindowRequest {
    let alone = request(first);
    WindowRequest {
        owner: alone.owner,
        attempts: (first..first + size)
            .map(|number| FreshAttempt {
                token: request(number).token,
                attempt_id: request(number).attempt_id,
            })
            .collect(),
        producer_generation: alone.producer_generation,
        lease: alone.lease,
        attempt_budget: alone.attempt_budget,
        maximum_attempts: alone.maximum_attempts,
        known: alone.known,
        share: PartitionShare::WHOLE,
    }
}

/// One window, checked: no more rows than attempts, each claim under an attempt of its own that was
/// asked for, and no two of one event.
async fn one<H: WindowHarness>(h: &H, request: &WindowRequest) -> WindowClaim {
    let claim = h.windows().claim_window(request).await.expect("a window");
    assert!(claim.claimed.len() <= request.attempts.len());
    let mut asked = request.attempts.clone();
    let mut events = BTreeSet::new();
    for claimed in &claim.claimed {
        let place = asked.iter().position(|fresh| {
            fresh.token == claimed.attempt.claim_token
                && fresh.attempt_id == claimed.attempt.attempt_id
        });
        asked.swap_remove(place.expect("an attempt of the request, used once"));
        assert_eq!(claimed.owner, request.owner);
        assert!(events.insert(claimed.attempt.event_id.clone()));
    }
    claim
}

/// Windows like this one, each under fresh attempts from `first` on, until one is at its end with
/// nothing.
async fn windows<H: WindowHarness>(
    h: &H,
    first: u32,
    size: u32,
    like: impl Fn(WindowRequest) -> WindowRequest,
) -> Vec<WindowClaim> {
    let mut taken = Vec::new();
    let mut next = first;
    loop {
        let claim = one(h, &like(window(next, size))).await;
        next += size;
        let is_empty = claim.claimed.is_empty() && claim.spent.is_empty();
        if is_empty && !claim.unfinished {
            return taken;
        }
        if !is_empty {
            taken.push(claim);
        }
    }
}

fn ids<'a>(claims: impl IntoIterator<Item = &'a WindowClaim>) -> Vec<String> {
    let mut ids: Vec<_> = claims
        .into_iter()
        .flat_map(|claim| &claim.claimed)
        .map(|claimed| claimed.attempt.event_id.as_str().to_owned())
        .collect();
    ids.sort();
    ids
}

/// One event in each of `count` scopes: `e1`, `e2` and so on.
pub(super) fn scopes(count: u32) -> impl Iterator<Item = EventSpec> {
    (1..=count).map(|number| event(&format!("e{number}"), &format!("scope-{number}"), 1))
}

/// Claims one event in each of `count` scopes by windows, in the order of their ids.
pub(super) async fn claimed_scopes<H: WindowHarness>(h: &H, count: u32) -> Vec<ClaimedDelivery> {
    append(h, scopes(count)).await;
    let mut claims: Vec<_> = windows(h, 1, count, |like| like)
        .await
        .into_iter()
        .flat_map(|claim| claim.claimed)
        .collect();
    claims.sort_by(|a, b| a.attempt.event_id.cmp(&b.attempt.event_id));
    assert_eq!(claims.len(), usize::try_from(count).expect("small"));
    claims
}

pub(super) async fn state<H: WindowHarness>(h: &H, claim: &ClaimedDelivery) -> DeliveryStateName {
    let row = h.delivery(&claim.attempt.event_id).await;
    row.expect("delivery").state
}

pub(super) async fn record<H: WindowHarness>(
    h: &H,
    records: &[OutcomeRecord],
) -> Vec<RecordOutcome> {
    let outcomes = h.windows().record_window(records).await.expect("recorded");
    assert_eq!(outcomes.len(), records.len(), "each record has its answer");
    outcomes
}

/// The heads of many scopes in one window, each with its own counted and journalled attempt.
pub async fn a_window_claims_the_heads_of_many_scopes<H: WindowHarness>(h: H) {
    append(&h, scopes(8)).await;
    let before = h.database_now().await;
    let claim = one(&h, &window(1, 8)).await;
    assert_eq!(ids([&claim]).len(), 8);
    assert_eq!(claim.spent, []);
    for claimed in &claim.claimed {
        assert_eq!((claimed.claim_count, claimed.attempt_count), (1, 1));
        assert!(claimed.claim_until >= before.plus(LONG));
        let id = &claimed.attempt.event_id;
        let row = h.delivery(id).await.expect("delivery");
        assert_eq!(row.state, DeliveryStateName::Claimed);
        assert_eq!(row.claim_owner.as_ref(), Some(&claimed.owner));
        assert_eq!(row.claim_until, Some(claimed.claim_until));
        let journal = h.journal(id).await;
        assert_eq!(journal.len(), 1);
        assert_eq!(journal[0].observation, ObservationType::AttemptAdmitted);
        assert_eq!(journal[0].attempt_id, claimed.attempt.attempt_id);
        assert_eq!(
            journal[0].claim_token_digest,
            claimed.attempt.claim_token.digest()
        );
        assert_eq!(journal[0].producer_generation, producer());
    }
    nothing(&h, &request(100)).await;
}

/// At most one unacknowledged record of a scope, in order, however much room a window has.
pub async fn a_window_takes_one_row_of_a_scope<H: WindowHarness>(h: H) {
    for scope in ["a", "b"] {
        append(
            &h,
            (1..=4).map(|sequence| event(&format!("{scope}{sequence}"), scope, sequence)),
        )
        .await;
    }
    for sequence in 1..=4 {
        let taken = windows(&h, sequence * 1_000, 8, |like| like).await;
        assert_eq!(
            ids(&taken),
            [format!("a{sequence}"), format!("b{sequence}")]
        );
        let records: Vec<_> = taken
            .iter()
            .flat_map(|claim| &claim.claimed)
            .map(acknowledged_record)
            .collect();
        let recorded = RecordOutcome::Recorded(DeliveryStateName::DeliveryRecorded);
        assert_eq!(record(&h, &records).await, [recorded; 2]);
    }
}

/// Reorder-tolerant events of one aggregate wait for nobody, in a window either.
pub async fn a_window_takes_many_reorder_tolerant_events<H: WindowHarness>(h: H) {
    append(
        &h,
        (1..=6).map(|sequence| event(&format!("t{sequence}"), "a", sequence).reorder_tolerant()),
    )
    .await;
    let taken = windows(&h, 1, 10, |like| like).await;
    assert_eq!(ids(&taken), ["t1", "t2", "t3", "t4", "t5", "t6"]);
}

/// A window takes no more rows than permits are held; the next ones take the rest.
pub async fn a_window_takes_no_more_than_its_attempts<H: WindowHarness>(h: H) {
    append(&h, scopes(7)).await;
    let taken = windows(&h, 1, 3, |like| like).await;
    assert_eq!(ids(&taken).len(), 7);
    assert!(taken.iter().all(|claim| claim.claimed.len() <= 3));
    nothing(&h, &request(100)).await;
}

/// No attempt, no claim.
pub async fn a_window_without_attempts_claims_nothing<H: WindowHarness>(h: H) {
    append(&h, scopes(2)).await;
    let claim = one(&h, &window(1, 0)).await;
    assert_eq!((claim.claimed.len(), claim.spent.len()), (0, 0));
    let counts = h.query().counts().await.expect("counts");
    assert_eq!(counts.by_state.get(&DeliveryStateName::Ready), Some(&2));
}

/// A row whose deadline has passed goes to EXHAUSTED beside the claims, unsent.
pub async fn a_window_ends_spent_budgets_beside_its_claims<H: WindowHarness>(h: H) {
    append(&h, scopes(2)).await;
    append(&h, [event("old", "c", 1).horizon(Duration::from_micros(1))]).await;
    let deadline = h.delivery(&event_id("old")).await.expect("delivery");
    passed(&h, deadline.automatic_attempt_deadline).await;
    let taken = windows(&h, 1, 5, |like| like).await;
    assert_eq!(ids(&taken), ["e1", "e2"]);
    let spent: Vec<_> = taken.iter().flat_map(|claim| &claim.spent).collect();
    assert_eq!(
        spent,
        [&SpentDelivery {
            event_id: event_id("old"),
            generation: deadline.generation,
            reason: BudgetSpentReason::Deadline,
        }]
    );
    let row = h.delivery(&event_id("old")).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::Exhausted);
    assert_eq!((row.claim_count, row.attempt_count), (0, 0));
    assert_eq!(h.journal(&event_id("old")).await, []);
}

/// A record that may have killed its process has a window of its own.
pub async fn a_lapsed_claim_has_a_window_of_its_own<H: WindowHarness>(h: H) {
    append(&h, scopes(5)).await;
    let first = claimed(&h, &leased(1, SHORT)).await;
    let second = claimed(&h, &leased(2, SHORT)).await;
    passed(&h, first.claim_until.max(second.claim_until)).await;
    let taken = windows(&h, 10, 6, |like| like).await;
    assert_eq!(ids(&taken), ["e1", "e2", "e3", "e4", "e5"]);
    for claim in &taken {
        let reclaimed = claim.claimed.iter().any(|one| one.attempt_count > 1);
        let size = claim.claimed.len() + claim.spent.len();
        assert!(!reclaimed || size == 1, "{claim:?}");
    }
    for lost in [first, second] {
        let journal = h.journal(&lost.attempt.event_id).await;
        assert_eq!(journal.len(), 3);
        assert_eq!(
            (journal[1].attempt_id.clone(), journal[1].certainty),
            (
                lost.attempt.attempt_id,
                Some(AcceptanceCertainty::Indeterminate)
            )
        );
    }
}

/// A lapsed claim that used its last attempt ends, with its attempt closed.
pub async fn used_attempts_end_a_lapsed_claim_of_a_window<H: WindowHarness>(h: H) {
    append(&h, scopes(3)).await;
    let lost = claimed(&h, &leased(1, SHORT)).await;
    passed(&h, lost.claim_until).await;
    let taken = windows(&h, 10, 4, |like| WindowRequest {
        maximum_attempts: 1,
        ..like
    })
    .await;
    assert_eq!(ids(&taken).len(), 2);
    let spent: Vec<_> = taken.iter().flat_map(|claim| &claim.spent).collect();
    assert_eq!(
        spent,
        [&SpentDelivery {
            event_id: lost.attempt.event_id.clone(),
            generation: lost.attempt.generation,
            reason: BudgetSpentReason::Attempts,
        }]
    );
    assert_eq!(state(&h, &lost).await, DeliveryStateName::Exhausted);
    assert_eq!(h.journal(&lost.attempt.event_id).await.len(), 2);
}

/// What this process cannot send keeps its state and its scope, beside what it can.
pub async fn a_window_passes_over_what_it_does_not_know<H: WindowHarness>(h: H) {
    append(
        &h,
        [
            event("unknown", "a", 1).contract("conformance.other.kept", 1),
            event("behind", "a", 2),
            event("fine", "b", 1),
        ],
    )
    .await;
    let before = h.delivery(&event_id("unknown")).await;
    let taken = windows(&h, 1, 5, |like| like).await;
    assert_eq!(ids(&taken), ["fine"]);
    assert_eq!(h.delivery(&event_id("unknown")).await, before);
    let none = windows(&h, 100, 5, |like| WindowRequest {
        known: Arc::from([]),
        ..like
    })
    .await;
    assert_eq!(ids(&none), <[String; 0]>::default());
}

/// Workers whose shares are forced to overlap, and workers with shares of their own, claim every
/// head once between them.
pub async fn concurrent_windows_are_disjoint<H: WindowHarness>(h: H) {
    for (round, divided) in [false, true].into_iter().enumerate() {
        let names = |number| format!("r{round}-{number:02}");
        append(
            &h,
            (0..40).map(|number| event(&names(number), &names(number), 1)),
        )
        .await;
        let round = u32::try_from(round).expect("small") + 1;
        let worker = |index: u32| {
            let share = if divided {
                PartitionShare::of(index, 4).expect("a share")
            } else {
                PartitionShare::WHOLE
            };
            windows(&h, round * 100_000 + index * 10_000, 7, move |like| {
                WindowRequest { share, ..like }
            })
        };
        let workers = (0..4)
            .map(|index| Box::pin(worker(index)) as Pin<Box<dyn Future<Output = _> + '_>>)
            .collect();
        let mut claims: Vec<WindowClaim> = all(workers).await.into_iter().flatten().collect();
        // A head that was locked at one worker's look may have been left by all.
        claims.extend(windows(&h, round * 100_000 + 90_000, 7, |like| like).await);
        let expected: Vec<_> = (0..40).map(names).collect();
        assert_eq!(ids(&claims), expected);
    }
}

/// Without an ACTIVE polling epoch, and under a fence, a window claims nothing.
pub async fn epochs_and_fences_hold_windows_back<H: WindowHarness + ControlHarness>(h: H) {
    append(&h, scopes(3)).await;
    let fence = FenceScope::Event(event_id("e2"));
    h.fences().raise(&fence, &act()).await.expect("raised");
    h.fences()
        .raise(&FenceScope::Everything, &act())
        .await
        .expect("raised");
    assert!(windows(&h, 1, 4, |like| like).await.is_empty());
    h.fences()
        .lift(&FenceScope::Everything, &act())
        .await
        .expect("lifted");
    h.activate_epoch(Some(DispatchAuthority::Cdc)).await;
    assert!(windows(&h, 100, 4, |like| like).await.is_empty());
    h.activate_epoch(Some(DispatchAuthority::PollingV2)).await;
    assert_eq!(ids(&windows(&h, 200, 4, |like| like).await), ["e1", "e3"]);
    h.fences().lift(&fence, &act()).await.expect("lifted");
    assert_eq!(ids(&windows(&h, 300, 4, |like| like).await), ["e2"]);
}

/// A record claimed in a window is renewed and recorded alone like any other.
pub async fn a_windows_claim_is_renewed_and_recorded_alone<H: WindowHarness>(h: H) {
    let claims = claimed_scopes(&h, 2).await;
    let renewed = h
        .deliveries()
        .renew(&RenewRequest {
            attempt: claims[0].attempt.clone(),
            owner: claims[0].owner.clone(),
            lease: 2 * LONG,
        })
        .await;
    let Ok(RenewOutcome::Renewed(until)) = renewed else {
        panic!("{renewed:?}");
    };
    assert!(until > claims[0].claim_until);
    let alone = h
        .deliveries()
        .record_outcome(&acknowledged_record(&claims[0]))
        .await;
    assert!(
        matches!(
            alone,
            Ok(RecordOutcome::Recorded(DeliveryStateName::DeliveryRecorded))
        ),
        "{alone:?}"
    );
    assert_eq!(state(&h, &claims[1]).await, DeliveryStateName::Claimed);
}
