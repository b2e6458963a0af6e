//! Claim fences.
//!
//! Invariant: what is fenced is not claimed by anybody, and what is claimed already goes on to its
//! end (requirement 004 §18.6).

use super::control::{ControlHarness, act};
use super::fixture::{
    LONG, acknowledged_record, append, claim, claimed, event, event_id, nothing, request,
};
use crate::ports::{
    ClaimOutcome, FenceOutcome, FenceScope, RecordOutcome, RenewOutcome, RenewRequest,
};
use domain_core::identity::LogicalDestinationId;
use std::collections::BTreeSet;

/// The ids that can be claimed now; they stay claimed.
async fn claimable<H: ControlHarness>(h: &H, number: &mut u32) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    loop {
        *number += 1;
        match claim(h, &request(*number)).await {
            ClaimOutcome::Claimed(claimed) => {
                ids.insert(claimed.attempt.event_id.as_str().to_owned());
            }
            ClaimOutcome::Nothing => return ids,
            other => panic!("{other:?}"),
        }
    }
}

/// While it stands, each kind of fence keeps back what it names and only that.
pub async fn each_kind_keeps_back_what_it_names<H: ControlHarness>(h: H) {
    let here = event("any", "any", 1)
        .seal()
        .identities()
        .destination
        .clone();
    let elsewhere = LogicalDestinationId::parse("another-destination").expect("destination");
    let mut number = 0;
    for (round, free) in (1..).zip([vec![], vec![], vec!["b"], vec!["b"], vec!["a", "b"]]) {
        let ids = ["a", "b"].map(|name| format!("{name}{round}"));
        append(&h, ids.iter().map(|id| event(id, id, 1))).await;
        let fence = match round {
            1 => FenceScope::Everything,
            2 => FenceScope::Destination(here.clone()),
            3 => {
                FenceScope::OrderingScope(event(&ids[0], &ids[0], 1).seal().partition_key().clone())
            }
            4 => FenceScope::Event(event_id(&ids[0])),
            _ => FenceScope::Destination(elsewhere.clone()),
        };
        h.fences().raise(&fence, &act()).await.expect("raised");
        let expected: BTreeSet<_> = free.iter().map(|name| format!("{name}{round}")).collect();
        assert_eq!(claimable(&h, &mut number).await, expected, "{fence:?}");
        h.fences().lift(&fence, &act()).await.expect("lifted");
        let rest: BTreeSet<_> = BTreeSet::from(ids).difference(&expected).cloned().collect();
        assert_eq!(claimable(&h, &mut number).await, rest, "{fence:?}");
    }
}
/// A fence stands once, and is lifted once.
pub async fn a_fence_stands_until_it_is_lifted<H: ControlHarness>(h: H) {
    append(&h, [event("a1", "a", 1), event("b1", "b", 1)]).await;
    let scope_of_a = event("a1", "a", 1).seal().partition_key().clone();
    let elsewhere = LogicalDestinationId::parse("another-destination").expect("destination");
    let here = event("a1", "a", 1).seal().identities().destination.clone();
    for scope in [
        FenceScope::Everything,
        FenceScope::Destination(here),
        FenceScope::OrderingScope(scope_of_a),
        FenceScope::Event(event_id("a1")),
        FenceScope::Destination(elsewhere),
    ] {
        let fences = h.fences();
        let raised = fences.raise(&scope, &act()).await.expect("raised");
        assert_eq!(raised, FenceOutcome::Changed, "{scope:?}");
        let again = fences.raise(&scope, &act()).await.expect("raised");
        assert_eq!(again, FenceOutcome::Unchanged, "{scope:?}");
        assert_eq!(
            fences.standing().await.expect("standing"),
            std::slice::from_ref(&scope)
        );
        if matches!(scope, FenceScope::Everything) {
            nothing(&h, &request(1)).await;
        }
        assert_eq!(
            fences.lift(&scope, &act()).await.expect("lifted"),
            FenceOutcome::Changed
        );
        assert_eq!(
            fences.lift(&scope, &act()).await.expect("lifted"),
            FenceOutcome::Unchanged
        );
    }
    assert_eq!(h.authority_audit_rows().await, 10);
    let fences = h.fences();
    fences
        .raise(&FenceScope::Event(event_id("a1")), &act())
        .await
        .expect("raised");
    let claim = claimed(&h, &request(2)).await;
    assert_eq!(claim.attempt.event_id, event_id("b1"));
    nothing(&h, &request(3)).await;
    fences
        .lift(&FenceScope::Event(event_id("a1")), &act())
        .await
        .expect("lifted");
    assert_eq!(
        claimed(&h, &request(4)).await.attempt.event_id,
        event_id("a1")
    );
}

/// What a fence finds claimed ends by its outcome or lapse; only a new claim is refused.
pub async fn a_fenced_claim_goes_on_to_its_end<H: ControlHarness>(h: H) {
    append(&h, [event("a1", "a", 1), event("a2", "a", 2)]).await;
    let claim = claimed(&h, &request(1)).await;
    h.fences()
        .raise(&FenceScope::Everything, &act())
        .await
        .expect("raised");
    let renewed = h
        .deliveries()
        .renew(&RenewRequest {
            attempt: claim.attempt.clone(),
            owner: claim.owner.clone(),
            lease: LONG,
        })
        .await;
    assert!(
        matches!(renewed, Ok(RenewOutcome::Renewed(_))),
        "{renewed:?}"
    );
    let recorded = h
        .deliveries()
        .record_outcome(&acknowledged_record(&claim))
        .await;
    assert!(
        matches!(recorded, Ok(RecordOutcome::Recorded(_))),
        "{recorded:?}"
    );
    nothing(&h, &request(2)).await;
}

/// Lifting one fence leaves the others, and a fenced head keeps its scope.
pub async fn fences_stand_beside_each_other<H: ControlHarness>(h: H) {
    append(
        &h,
        [
            event("a1", "a", 1),
            event("a2", "a", 2),
            event("b1", "b", 1),
        ],
    )
    .await;
    let of_event = FenceScope::Event(event_id("a1"));
    let of_scope = FenceScope::OrderingScope(event("a1", "a", 1).seal().partition_key().clone());
    let fences = h.fences();
    for fence in [&of_event, &of_scope, &FenceScope::Everything] {
        fences.raise(fence, &act()).await.expect("raised");
    }
    let standing: BTreeSet<_> = fences
        .standing()
        .await
        .expect("standing")
        .into_iter()
        .collect();
    let expected = [of_event.clone(), of_scope.clone(), FenceScope::Everything];
    assert_eq!(standing, expected.into());
    nothing(&h, &request(1)).await;
    fences
        .lift(&FenceScope::Everything, &act())
        .await
        .expect("lifted");
    let claim = claimed(&h, &request(2)).await;
    assert_eq!(claim.attempt.event_id, event_id("b1"));
    nothing(&h, &request(3)).await;
    fences.lift(&of_scope, &act()).await.expect("lifted");
    nothing(&h, &request(4)).await;
    fences.lift(&of_event, &act()).await.expect("lifted");
    let claim = claimed(&h, &request(5)).await;
    assert_eq!(claim.attempt.event_id, event_id("a1"));
}
