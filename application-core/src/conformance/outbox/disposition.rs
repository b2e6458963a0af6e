//! What an operator may do to a delivery, and what a command needs.
//!
//! Invariant: one transition and one audit row, or neither (requirement 004 §§18.5–18.6, 19.4).

use super::control::{
    ControlHarness, apply, approval, command, current, refused, requeue, second, skip, standing,
};
use super::fixture::{
    LONG, SHORT, acknowledged_record, append, claimed, event, event_id, leased, nothing, passed,
    request,
};
use super::{DeliveryRow, ObservationType};
use crate::ports::{
    AttemptIdentity, Disposition, DispositionCommand, DispositionConflict, LateObservationId,
    LatePublicationObservation, RecordOutcome,
};
use domain_core::delivery::{DeliveryStateName, PublicationWindow};
use domain_core::identity::RowVersion;
use domain_core::publication::AcceptanceCertainty;
use std::time::Duration;

/// HOLD from READY, RETRY_WAIT and EXHAUSTED; the scope stays blocked.
pub async fn a_hold_pauses_what_is_open<H: ControlHarness>(h: H) {
    append(&h, [event("head", "a", 1), event("next", "a", 2)]).await;
    apply(&h, "head", Disposition::Hold).await;
    assert_eq!(current(&h, "head").await.state, DeliveryStateName::Hold);
    nothing(&h, &request(1)).await;
    standing(&h, "spent", DeliveryStateName::Exhausted).await;
    apply(&h, "spent", Disposition::Hold).await;
    assert_eq!(current(&h, "spent").await.state, DeliveryStateName::Hold);
    assert_eq!(h.audit_rows(&event_id("head")).await, 1);
}

/// SKIP and COMPENSATE from EXHAUSTED and HOLD release the scope.
pub async fn a_disposed_head_lets_its_successor_go<H: ControlHarness>(h: H) {
    append(&h, [event("head", "a", 1), event("next", "a", 2)]).await;
    h.force_state(&event_id("head"), DeliveryStateName::Exhausted)
        .await;
    nothing(&h, &request(1)).await;
    apply(&h, "head", skip()).await;
    assert_eq!(current(&h, "head").await.state, DeliveryStateName::Skipped);
    assert_eq!(
        claimed(&h, &request(2)).await.attempt.event_id,
        event_id("next")
    );
}

/// A compensation names an event that is there, and another one.
pub async fn a_compensation_needs_its_event<H: ControlHarness>(h: H) {
    standing(&h, "held", DeliveryStateName::Hold).await;
    append(&h, [event("instead", "b", 1)]).await;
    let by = |id: &str| Disposition::Compensate {
        approval: approval(),
        compensating_event: event_id(id),
    };
    for id in ["held", "nowhere"] {
        let wrong = command(&h, "held", by(id)).await;
        assert_eq!(
            refused(&h, &wrong).await,
            DispositionConflict::NoCompensation
        );
    }
    apply(&h, "held", by("instead")).await;
    assert_eq!(
        current(&h, "held").await.state,
        DeliveryStateName::Compensated
    );
}

/// Every state refuses what it has no transition for.
pub async fn a_state_refuses_what_it_does_not_have<H: ControlHarness>(h: H) {
    standing(&h, "ready", DeliveryStateName::Ready).await;
    for disposition in [skip(), requeue()] {
        let wrong = command(&h, "ready", disposition).await;
        assert_eq!(
            refused(&h, &wrong).await,
            DispositionConflict::State(DeliveryStateName::Ready)
        );
    }
    let accept = Disposition::AcceptLegacy {
        approval: approval(),
    };
    standing(&h, "held", DeliveryStateName::Hold).await;
    for disposition in [Disposition::Hold, accept.clone()] {
        let wrong = command(&h, "held", disposition).await;
        assert_eq!(
            refused(&h, &wrong).await,
            DispositionConflict::State(DeliveryStateName::Hold)
        );
    }
    standing(&h, "old", DeliveryStateName::LegacyRecordedUnverified).await;
    apply(&h, "old", accept).await;
    let old = current(&h, "old").await;
    assert_eq!(old.state, DeliveryStateName::LegacyAcceptedUnverified);
}

/// A command about another generation or row version than the one that is there.
pub async fn what_the_operator_saw_is_compared<H: ControlHarness>(h: H) {
    standing(&h, "e1", DeliveryStateName::Exhausted).await;
    let right = command(&h, "e1", skip()).await;
    let generation = DispositionCommand {
        generation: second(),
        ..right.clone()
    };
    assert_eq!(
        refused(&h, &generation).await,
        DispositionConflict::Generation(right.generation)
    );
    let stale = DispositionCommand {
        row_version: RowVersion::new(right.row_version.value() + 1).expect("version"),
        ..right.clone()
    };
    assert_eq!(
        refused(&h, &stale).await,
        DispositionConflict::RowVersion(right.row_version)
    );
    let nowhere = DispositionCommand {
        event_id: event_id("nowhere"),
        ..right
    };
    let outcome = h.dispositions().apply(&nowhere).await.expect("answered");
    assert!(matches!(
        outcome,
        crate::ports::DispositionOutcome::Conflict(DispositionConflict::NoDelivery)
    ));
}

/// A live claim is its worker's; a lapsed one is closed INDETERMINATE and held, and what its worker
/// says later is journalled under its own attempt and changes nothing.
pub async fn a_hold_waits_for_a_live_claim_and_ends_a_lapsed_one<H: ControlHarness>(h: H) {
    append(&h, [event("live", "a", 1), event("lapsed", "b", 1)]).await;
    let live = claimed(&h, &leased(1, LONG)).await;
    let id = live.attempt.event_id.as_str();
    let hold = command(&h, id, Disposition::Hold).await;
    let conflict = refused(&h, &hold).await;
    assert_eq!(
        conflict,
        DispositionConflict::ClaimLive {
            until: live.claim_until
        }
    );
    let lapsed = claimed(&h, &leased(2, SHORT)).await;
    passed(&h, lapsed.claim_until).await;
    let id = lapsed.attempt.event_id.as_str();
    apply(&h, id, Disposition::Hold).await;
    assert_eq!(current(&h, id).await.state, DeliveryStateName::Hold);
    let stale = h
        .deliveries()
        .record_outcome(&acknowledged_record(&lapsed))
        .await;
    assert!(matches!(stale, Ok(RecordOutcome::Stale)), "{stale:?}");
    let late = LatePublicationObservation {
        id: LateObservationId(1),
        attempt: lapsed.attempt.clone(),
        producer_generation: super::fixture::producer(),
        binding_revision: lapsed.event.binding_revision.clone(),
        certainty: AcceptanceCertainty::Accepted,
        observed_at: lapsed.claim_until,
        record_reference: super::fixture::reference("conformance/0@1"),
    };
    let report = h
        .observations()
        .append_late_observations(&[late])
        .await
        .expect("late");
    assert_eq!((report.appended, report.orphaned), (1, 0));
    let journal: Vec<_> = h
        .journal(&lapsed.attempt.event_id)
        .await
        .into_iter()
        .map(|row| (row.observation, row.certainty))
        .collect();
    assert_eq!(
        journal,
        [
            (ObservationType::AttemptAdmitted, None),
            (
                ObservationType::OutcomeObserved,
                Some(AcceptanceCertainty::Indeterminate)
            ),
            (
                ObservationType::LateAckObserved,
                Some(AcceptanceCertainty::Accepted)
            ),
        ]
    );
    assert_eq!(current(&h, id).await.state, DeliveryStateName::Hold);
}

/// A requeue opens the next generation, the old one is never claimed again, and order is restored.
pub async fn a_requeue_hands_the_authority_over<H: ControlHarness>(h: H) {
    append(&h, [event("head", "a", 1), event("next", "a", 2)]).await;
    let first = claimed(&h, &leased(1, SHORT)).await;
    passed(&h, first.claim_until).await;
    apply(&h, "head", Disposition::Hold).await;
    let disposed = apply(&h, "head", requeue()).await;
    assert_eq!(
        (disposed.generation, disposed.state),
        (second(), DeliveryStateName::Ready)
    );
    let row = current(&h, "head").await;
    assert_eq!(
        (row.generation, row.claim_count, row.attempt_count),
        (second(), 0, 0)
    );
    assert!(row.automatic_attempt_deadline <= row.created_at.plus(Duration::from_secs(3600)));
    let stale = h
        .deliveries()
        .record_outcome(&acknowledged_record(&first))
        .await;
    assert!(matches!(stale, Ok(RecordOutcome::Stale)), "{stale:?}");
    for (number, id) in [(2, "head"), (3, "next")] {
        let claim = claimed(&h, &request(number)).await;
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
    nothing(&h, &request(4)).await;
    assert_eq!(h.audit_rows(&event_id("head")).await, 2);
}

/// The new deadline is cut at the event's horizon, and after the horizon there is no requeue.
pub async fn a_requeue_ends_at_the_horizon<H: ControlHarness>(h: H) {
    standing(&h, "e1", DeliveryStateName::Exhausted).await;
    let created = current(&h, "e1").await.created_at;
    let horizon = |horizon| Disposition::Requeue {
        window: PublicationWindow::new(Duration::from_secs(3600), horizon).expect("window"),
    };
    let short = Duration::from_millis(1);
    passed(&h, created.plus(short)).await;
    let late = command(&h, "e1", horizon(short)).await;
    assert_eq!(
        refused(&h, &late).await,
        DispositionConflict::HorizonPassed(created.plus(short))
    );
    let minutes = Duration::from_secs(600);
    apply(&h, "e1", horizon(minutes)).await;
    assert_eq!(
        current(&h, "e1").await.automatic_attempt_deadline,
        created.plus(minutes)
    );
}

/// Without an ACTIVE polling epoch nobody would send the new generation.
pub async fn a_requeue_needs_a_polling_epoch<H: ControlHarness>(h: H) {
    standing(&h, "e1", DeliveryStateName::Exhausted).await;
    h.activate_epoch(None).await;
    let wrong = command(&h, "e1", requeue()).await;
    assert_eq!(
        refused(&h, &wrong).await,
        DispositionConflict::NoPollingEpoch
    );
}

/// Of two operators who saw the same row, one acts.
pub async fn of_two_operators_one_acts<H: ControlHarness>(h: H) {
    standing(&h, "e1", DeliveryStateName::Exhausted).await;
    let seen = command(&h, "e1", requeue()).await;
    let port = h.dispositions();
    let (one, two) = (port.apply(&seen), port.apply(&seen));
    let outcomes = super::fixture::all(vec![Box::pin(one), Box::pin(two)]).await;
    let applied = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Ok(crate::ports::DispositionOutcome::Applied(_))))
        .count();
    assert_eq!(applied, 1, "{outcomes:?}");
    let row: DeliveryRow = current(&h, "e1").await;
    assert_eq!(row.generation, second());
    assert_eq!(h.audit_rows(&event_id("e1")).await, 1);
}

/// A renewed claim is the same attempt with a new end; a lapsed or foreign one is not renewed.
pub async fn a_claim_is_renewed_by_its_own_token_alone<H: ControlHarness>(h: H) {
    use crate::ports::{RenewOutcome, RenewRequest};
    append(&h, [event("e1", "a", 1)]).await;
    let claim = claimed(&h, &leased(1, Duration::from_secs(60))).await;
    let renew = |attempt: AttemptIdentity, lease| RenewRequest {
        attempt,
        owner: claim.owner.clone(),
        lease,
    };
    let renewed = h
        .deliveries()
        .renew(&renew(claim.attempt.clone(), LONG))
        .await;
    let Ok(RenewOutcome::Renewed(until)) = renewed else {
        panic!("{renewed:?}");
    };
    assert!(until > claim.claim_until);
    assert_eq!(h.journal(&event_id("e1")).await.len(), 1);
    let mut foreign = claim.attempt.clone();
    foreign.claim_token = request(2).token;
    let stale = h.deliveries().renew(&renew(foreign, LONG)).await;
    assert!(matches!(stale, Ok(RenewOutcome::Stale)), "{stale:?}");
    let short = h
        .deliveries()
        .renew(&renew(claim.attempt.clone(), SHORT))
        .await;
    let Ok(RenewOutcome::Renewed(until)) = short else {
        panic!("{short:?}");
    };
    passed(&h, until).await;
    let lapsed = h
        .deliveries()
        .renew(&renew(claim.attempt.clone(), LONG))
        .await;
    assert!(matches!(lapsed, Ok(RenewOutcome::Stale)), "{lapsed:?}");
}
