//! What leaves the outbox, what stays, and how full it is.
//!
//! Invariant: each condition of requirement 004 §19.6 alone keeps an event.

use super::control::{ControlHarness, act, apply, skip, standing};
use super::fixture::{
    LONG, acknowledged_record, append, claimed, event, event_id, passed, producer, reference,
    request,
};
use crate::ports::{
    Disposition, LateObservationId, LatePublicationObservation, ReapReport, ReapRequest,
    RetentionError,
};
use domain_core::delivery::DeliveryStateName;
use domain_core::publication::AcceptanceCertainty;
use std::time::Duration;

const AT_ONCE: Duration = Duration::from_millis(1);

fn old_enough() -> ReapRequest {
    ReapRequest {
        audit_retention: AT_ONCE,
        replay_horizon: AT_ONCE,
        limit: 100,
    }
}

/// Removes until a pass is over; how many went.
async fn reap<H: ControlHarness>(h: &H, request: &ReapRequest) -> u64 {
    let mut removed = 0;
    loop {
        let report: ReapReport = h.retention().reap(request).await.expect("reaped");
        removed += report.removed;
        if report.finished {
            return removed;
        }
    }
}

async fn recorded<H: ControlHarness>(h: &H, id: &str, number: u32) -> LatePublicationObservation {
    append(h, [event(id, id, 1)]).await;
    let claim = claimed(h, &request(number)).await;
    h.deliveries()
        .record_outcome(&acknowledged_record(&claim))
        .await
        .expect("recorded");
    passed(h, h.database_now().await.plus(2 * AT_ONCE)).await;
    LatePublicationObservation {
        id: LateObservationId(u64::from(number)),
        attempt: claim.attempt.clone(),
        producer_generation: producer(),
        binding_revision: claim.event.binding_revision.clone(),
        certainty: AcceptanceCertainty::Accepted,
        observed_at: claim.claim_until,
        record_reference: reference("conformance/0@2"),
    }
}

/// A recorded event of age goes, with all that tells of it; what is late for it is dropped and
/// fails nothing else.
pub async fn a_resolved_event_of_age_goes_whole<H: ControlHarness>(h: H) {
    let late = recorded(&h, "gone", 1).await;
    let kept = recorded(&h, "kept", 2).await;
    h.retention()
        .place_legal_hold(&event_id("kept"), &act())
        .await
        .expect("held");
    assert_eq!(reap(&h, &old_enough()).await, 1);
    assert!(h.delivery(&event_id("gone")).await.is_none());
    assert!(h.journal(&event_id("gone")).await.is_empty());
    assert_eq!(h.query().counts().await.expect("counts").events, 1);
    let report = h
        .observations()
        .append_late_observations(&[late, kept])
        .await
        .expect("late");
    assert_eq!((report.appended, report.orphaned), (1, 1));
    assert_eq!(reap(&h, &old_enough()).await, 0);
}

/// Young, unresolved, held or claimed events stay.
pub async fn each_condition_alone_keeps_an_event<H: ControlHarness>(h: H) {
    recorded(&h, "recorded", 1).await;
    for young in [
        ReapRequest {
            audit_retention: LONG,
            ..old_enough()
        },
        ReapRequest {
            replay_horizon: LONG,
            ..old_enough()
        },
    ] {
        assert_eq!(reap(&h, &young).await, 0, "{young:?}");
    }
    for state in [
        DeliveryStateName::Ready,
        DeliveryStateName::Exhausted,
        DeliveryStateName::Hold,
        DeliveryStateName::LegacyRecordedUnverified,
    ] {
        standing(&h, state.as_str(), state).await;
    }
    append(&h, [event("claimed", "c", 1)]).await;
    passed(&h, h.database_now().await.plus(2 * AT_ONCE)).await;
    assert_eq!(reap(&h, &old_enough()).await, 1);
    assert_eq!(h.query().counts().await.expect("counts").events, 5);
}

/// A legal hold is placed once and lifted once, on an event that is there.
pub async fn a_legal_hold_keeps_an_event_until_it_is_lifted<H: ControlHarness>(h: H) {
    recorded(&h, "e1", 1).await;
    let (id, retention) = (event_id("e1"), h.retention());
    assert!(retention.place_legal_hold(&id, &act()).await.expect("held"));
    assert!(!retention.place_legal_hold(&id, &act()).await.expect("held"));
    assert_eq!(reap(&h, &old_enough()).await, 0);
    assert!(
        retention
            .lift_legal_hold(&id, &act())
            .await
            .expect("lifted")
    );
    assert!(
        !retention
            .lift_legal_hold(&id, &act())
            .await
            .expect("lifted")
    );
    assert_eq!(reap(&h, &old_enough()).await, 1);
    assert_eq!(h.authority_audit_rows().await, 2);
}

/// A superseded generation and its audit stay as long as the CURRENT one is unresolved, and go with
/// it.
pub async fn superseded_generations_go_with_the_current_one<H: ControlHarness>(h: H) {
    standing(&h, "e1", DeliveryStateName::Exhausted).await;
    apply(&h, "e1", super::control::requeue()).await;
    passed(&h, h.database_now().await.plus(2 * AT_ONCE)).await;
    assert_eq!(reap(&h, &old_enough()).await, 0);
    apply(&h, "e1", Disposition::Hold).await;
    apply(&h, "e1", skip()).await;
    passed(&h, h.database_now().await.plus(2 * AT_ONCE)).await;
    assert_eq!(reap(&h, &old_enough()).await, 1);
    assert_eq!(h.audit_rows(&event_id("e1")).await, 0);
}

/// A hold on an event that is not there, or not there any more, holds nothing.
pub async fn a_legal_hold_needs_its_event<H: ControlHarness>(h: H) {
    recorded(&h, "gone", 1).await;
    assert_eq!(reap(&h, &old_enough()).await, 1);
    for id in ["gone", "nowhere"] {
        let placed = h.retention().place_legal_hold(&event_id(id), &act()).await;
        assert!(matches!(placed, Err(RetentionError::NoEvent)), "{placed:?}");
        let lifted = h.retention().lift_legal_hold(&event_id(id), &act()).await;
        assert!(matches!(lifted, Ok(false)), "{lifted:?}");
    }
    assert_eq!(h.authority_audit_rows().await, 0);
}

/// The event that took another's place is kept as long as the audit row that names it.
pub async fn a_compensating_event_stays_with_its_audit<H: ControlHarness>(h: H) {
    recorded(&h, "instead", 1).await;
    standing(&h, "replaced", DeliveryStateName::Hold).await;
    let by = Disposition::Compensate {
        approval: super::control::approval(),
        compensating_event: event_id("instead"),
    };
    apply(&h, "replaced", by).await;
    h.retention()
        .place_legal_hold(&event_id("replaced"), &act())
        .await
        .expect("held");
    passed(&h, h.database_now().await.plus(2 * AT_ONCE)).await;
    assert_eq!(reap(&h, &old_enough()).await, 0);
    h.retention()
        .lift_legal_hold(&event_id("replaced"), &act())
        .await
        .expect("lifted");
    let mut removed = 0;
    for _ in 0..3 {
        removed += reap(&h, &old_enough()).await;
    }
    assert_eq!(removed, 2);
    assert_eq!(h.query().counts().await.expect("counts").events, 0);
}

/// Each state that releases its scope lets its event go.
pub async fn every_resolved_state_goes<H: ControlHarness>(h: H) {
    recorded(&h, "recorded", 1).await;
    standing(&h, "skipped", DeliveryStateName::Hold).await;
    apply(&h, "skipped", skip()).await;
    standing(&h, "old", DeliveryStateName::LegacyRecordedUnverified).await;
    let accept = Disposition::AcceptLegacy {
        approval: super::control::approval(),
    };
    apply(&h, "old", accept).await;
    passed(&h, h.database_now().await.plus(2 * AT_ONCE)).await;
    assert_eq!(reap(&h, &old_enough()).await, 3);
    assert_eq!(reap(&h, &old_enough()).await, 0);
}

/// A batch is bounded, and the next one goes on.
pub async fn a_batch_is_bounded<H: ControlHarness>(h: H) {
    for number in 1..=5 {
        recorded(&h, &format!("e{number}"), number).await;
    }
    let two = ReapRequest {
        limit: 2,
        ..old_enough()
    };
    let first = h.retention().reap(&two).await.expect("reaped");
    assert!(first.removed <= 2, "{first:?}");
    assert_eq!(first.removed + reap(&h, &two).await, 5);
}

/// The count, the oldest and the size of what is unresolved.
pub async fn a_sample_counts_what_is_unresolved<H: ControlHarness>(h: H) {
    let empty = h.capacity().sample(10).await.expect("sample");
    assert_eq!((empty.unresolved, empty.oldest), (0, None));
    append(&h, (1..=4).map(|n| event(&format!("e{n}"), "a", n))).await;
    let created = h.delivery(&event_id("e1")).await.expect("row").created_at;
    let four = h.capacity().sample(10).await.expect("sample");
    assert_eq!((four.unresolved, four.oldest), (4, Some(created)));
    assert!(four.store_bytes > 0 && four.at >= created);
    // Enough is enough.
    let some = h.capacity().sample(2).await.expect("sample");
    assert!((3..=4).contains(&some.unresolved), "{some:?}");
    let claim = claimed(&h, &request(1)).await;
    h.deliveries()
        .record_outcome(&acknowledged_record(&claim))
        .await
        .expect("recorded");
    assert_eq!(h.capacity().sample(10).await.expect("sample").unresolved, 3);
}
