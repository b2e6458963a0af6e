//! Every disposition against every state, by what the core's transition function says.
//!
//! Invariant: what is expected is asked of [`DeliveryState::next`] and
//! [`DeliveryState::requeueable`] alone (requirement 004 §18.6).

use super::control::{
    ControlHarness, apply, approval, command, current, refused, requeue, second, skip,
};
use super::fixture::{
    LONG, SHORT, acknowledged_record, append, claimed, event, event_id, leased, passed, request,
    retry_record,
};
use super::transitions::core_state;
use crate::ports::{Disposition, DispositionConflict, RecordOutcome};
use domain_core::authority::WriteAdmissionState;
use domain_core::delivery::{DeliveryEvent, DeliveryStateName};
use domain_core::instant::DatabaseInstant;
use std::time::Duration;

/// The dispositions, each with what the core calls it; a requeue has no transition of its own.
fn dispositions(compensating: &str) -> [(Disposition, Option<DeliveryEvent>); 5] {
    // A claim of the core's sample states has lapsed at 1.
    let now = DatabaseInstant::from_epoch_micros(1);
    [
        (
            Disposition::Hold,
            Some(DeliveryEvent::HeldByOperator { now }),
        ),
        (skip(), Some(DeliveryEvent::Skipped)),
        (
            Disposition::Compensate {
                approval: approval(),
                compensating_event: event_id(compensating),
            },
            Some(DeliveryEvent::Compensated),
        ),
        (
            Disposition::AcceptLegacy {
                approval: approval(),
            },
            Some(DeliveryEvent::LegacyAccepted),
        ),
        (requeue(), None),
    ]
}

/// Brings a fresh event into a state. A claim has lapsed.
async fn brought_to<H: ControlHarness>(h: &H, id: &str, number: u32, state: DeliveryStateName) {
    append(h, [event(id, id, 1)]).await;
    match state {
        DeliveryStateName::Ready => {}
        DeliveryStateName::Claimed => {
            let claim = claimed(h, &leased(number, SHORT)).await;
            assert_eq!(claim.attempt.event_id, event_id(id));
            passed(h, claim.claim_until).await;
        }
        DeliveryStateName::RetryWait => {
            let claim = claimed(h, &request(number)).await;
            assert_eq!(claim.attempt.event_id, event_id(id));
            let waiting = h
                .deliveries()
                .record_outcome(&retry_record(&claim, LONG))
                .await;
            assert!(
                matches!(waiting, Ok(RecordOutcome::Recorded(_))),
                "{waiting:?}"
            );
        }
        DeliveryStateName::DeliveryRecorded => {
            let claim = claimed(h, &request(number)).await;
            assert_eq!(claim.attempt.event_id, event_id(id));
            let recorded = h
                .deliveries()
                .record_outcome(&acknowledged_record(&claim))
                .await;
            assert!(
                matches!(recorded, Ok(RecordOutcome::Recorded(_))),
                "{recorded:?}"
            );
        }
        forced => h.force_state(&event_id(id), forced).await,
    }
}

/// Each of the ten states, a lapsed claim among them, meets each of the five dispositions: it moves
/// as the core says, with one audit row, or stays as it was.
pub async fn each_state_meets_each_disposition<H: ControlHarness>(h: H) {
    append(&h, [event("instead", "instead", 1)]).await;
    let instead = claimed(&h, &request(1)).await;
    let mut number = 1;
    for state in DeliveryStateName::ALL {
        for (disposition, transition) in dispositions(instead.attempt.event_id.as_str()) {
            number += 1;
            let id = format!("{}.{}", state.as_str(), disposition.as_str());
            brought_to(&h, &id, number, state).await;
            let expected = match &transition {
                Some(transition) => core_state(state).next(transition).map(|next| next.name()),
                None => core_state(state)
                    .requeueable()
                    .map(|()| DeliveryStateName::Ready),
            };
            if let Ok(expected) = expected {
                let before = current(&h, &id).await;
                let disposed = apply(&h, &id, disposition).await;
                let after = current(&h, &id).await;
                assert_eq!((disposed.state, after.state), (expected, expected), "{id}");
                assert_eq!(disposed.generation, after.generation, "{id}");
                assert_eq!(disposed.row_version.value(), after.row_version, "{id}");
                match transition {
                    Some(_) => assert_eq!(after.row_version, before.row_version + 1, "{id}"),
                    None => assert_eq!(after.generation, second(), "{id}"),
                }
                assert_eq!(h.audit_rows(&event_id(&id)).await, 1, "{id}");
            } else {
                let before = current(&h, &id).await;
                let wrong = command(&h, &id, disposition).await;
                let conflict = refused(&h, &wrong).await;
                assert_eq!(conflict, DispositionConflict::State(state), "{id}");
                assert_eq!(current(&h, &id).await, before, "{id}");
                assert_eq!(h.audit_rows(&event_id(&id)).await, 0, "{id}");
            }
            out_of_the_way(&h, &id).await;
        }
    }
}

/// Ends what a later claim of the case could meet.
async fn out_of_the_way<H: ControlHarness>(h: &H, id: &str) {
    let state = current(h, id).await.state;
    if matches!(
        state,
        DeliveryStateName::Ready | DeliveryStateName::Claimed | DeliveryStateName::RetryWait
    ) {
        h.force_state(&event_id(id), DeliveryStateName::Hold).await;
    }
}

/// A live claim refuses every disposition with the instant to wait for.
pub async fn a_live_claim_refuses_every_disposition<H: ControlHarness>(h: H) {
    append(&h, [event("e1", "a", 1), event("instead", "b", 1)]).await;
    let fixed = claimed(&h, &leased(1, LONG)).await;
    let id = fixed.attempt.event_id.as_str();
    let other = if id == "e1" { "instead" } else { "e1" };
    for (disposition, _) in dispositions(other) {
        let wrong = command(&h, id, disposition).await;
        assert_eq!(
            refused(&h, &wrong).await,
            DispositionConflict::ClaimLive {
                until: fixed.claim_until
            }
        );
    }
}

/// The new deadline is the profile's age from now where the horizon is further away.
pub async fn a_requeue_counts_its_age_from_now<H: ControlHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    h.force_state(&event_id("e1"), DeliveryStateName::Exhausted)
        .await;
    let first = current(&h, "e1").await;
    passed(&h, first.created_at.plus(SHORT)).await;
    let age = Duration::from_secs(60);
    let window = domain_core::delivery::PublicationWindow::new(age, LONG).expect("window");
    let before = h.database_now().await;
    apply(&h, "e1", Disposition::Requeue { window }).await;
    let after = h.database_now().await;
    let next = current(&h, "e1").await;
    assert!(next.created_at >= before && next.created_at <= after);
    assert!(next.automatic_attempt_deadline >= before.plus(age));
    assert!(next.automatic_attempt_deadline <= after.plus(age));
}

/// What appends nothing is not gated: dispositions and retention work on a frozen store.
pub async fn operators_act_on_a_frozen_store<H: ControlHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let open = h.authority().write_admission().await.expect("admission");
    let wait = Duration::from_secs(5);
    h.authority()
        .freeze(open.generation, wait, &super::control::act())
        .await
        .expect("frozen");
    let now = h.authority().write_admission().await.expect("admission");
    assert_eq!(now.state, WriteAdmissionState::Frozen);
    apply(&h, "e1", Disposition::Hold).await;
    let requeued = apply(&h, "e1", requeue()).await;
    assert_eq!(requeued.generation, second());
    apply(&h, "e1", Disposition::Hold).await;
    apply(&h, "e1", skip()).await;
    assert_eq!(h.audit_rows(&event_id("e1")).await, 4);
}
