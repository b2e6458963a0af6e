//! What the operators' cases share: their harness, an act, a command.
//!
//! Invariant: a command names what the case saw in the row, as an operator would.

use super::fixture::{append, event, event_id};
use super::{DeliveryRow, OutboxHarness};
use crate::ports::{
    ClaimFencePort, Disposed, Disposition, DispositionCommand, DispositionConflict,
    DispositionOutcome, OperatorAct, OutboxCapacityPort, OutboxDispositionPort,
    OutboxRetentionPort, PublicationAuthorityPort,
};
use domain_core::delivery::{DeliveryStateName, PublicationWindow};
use domain_core::identity::{
    ActReference, DeliveryGeneration, EventId, OperatorId, ReasonCode, ReasonText, RowVersion,
};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A store with its operators' and upkeep's ports.
pub trait ControlHarness: OutboxHarness {
    /// Dispositions.
    fn dispositions(&self) -> Arc<dyn OutboxDispositionPort>;
    /// Claim fences.
    fn fences(&self) -> Arc<dyn ClaimFencePort>;
    /// Epochs and write admission.
    fn authority(&self) -> Arc<dyn PublicationAuthorityPort>;
    /// Retention.
    fn retention(&self) -> Arc<dyn OutboxRetentionPort>;
    /// Capacity.
    fn capacity(&self) -> Arc<dyn OutboxCapacityPort>;
    /// Write transactions that a freeze does not hold back.
    fn ungated_transactions(&self) -> Arc<Self::Transactions>;
    /// Rows of the disposition audit of an event.
    fn audit_rows(&self, event: &EventId) -> impl Future<Output = u64> + Send;
    /// Rows of the authority audit.
    fn authority_audit_rows(&self) -> impl Future<Output = u64> + Send;
}

pub(super) fn act() -> OperatorAct {
    OperatorAct {
        operator: OperatorId::parse("operator-1").expect("operator"),
        reason_code: ReasonCode::parse("BROKER_LOSS").expect("code"),
        reason: ReasonText::parse("the broker lost a disk; see the incident").expect("reason"),
        reference: ActReference::parse("INC-1").expect("reference"),
    }
}

pub(super) fn approval() -> ActReference {
    ActReference::parse("CHG-2").expect("approval")
}

/// A window as long as a case can be.
pub(super) fn window() -> PublicationWindow {
    let hour = Duration::from_secs(3600);
    PublicationWindow::new(hour, 2 * hour).expect("window")
}

pub(super) fn skip() -> Disposition {
    Disposition::Skip {
        approval: approval(),
    }
}

pub(super) fn requeue() -> Disposition {
    Disposition::Requeue { window: window() }
}

/// The command of an operator who sees the row as it is now.
pub(super) async fn command<H: ControlHarness>(
    h: &H,
    id: &str,
    disposition: Disposition,
) -> DispositionCommand {
    let seen = current(h, id).await;
    DispositionCommand {
        event_id: event_id(id),
        generation: seen.generation,
        row_version: RowVersion::new(seen.row_version).expect("a row version"),
        disposition,
        act: act(),
    }
}

pub(super) async fn current<H: ControlHarness>(h: &H, id: &str) -> DeliveryRow {
    h.delivery(&event_id(id)).await.expect("a CURRENT delivery")
}

/// Applies what must be accepted.
pub(super) async fn apply<H: ControlHarness>(
    h: &H,
    id: &str,
    disposition: Disposition,
) -> Disposed {
    let command = command(h, id, disposition).await;
    match h.dispositions().apply(&command).await.expect("applied") {
        DispositionOutcome::Applied(disposed) => disposed,
        DispositionOutcome::Conflict(conflict) => panic!("{conflict:?}"),
    }
}

/// Applies what must be refused, and sees that nothing changed and nothing was audited.
pub(super) async fn refused<H: ControlHarness>(
    h: &H,
    command: &DispositionCommand,
) -> DispositionConflict {
    let id = command.event_id.as_str();
    let (before, audited) = (current(h, id).await, h.audit_rows(&command.event_id).await);
    let outcome = h.dispositions().apply(command).await.expect("answered");
    let after = current(h, id).await;
    assert_eq!(
        (before.state, before.generation),
        (after.state, after.generation)
    );
    assert_eq!(h.audit_rows(&command.event_id).await, audited);
    match outcome {
        DispositionOutcome::Conflict(conflict) => conflict,
        DispositionOutcome::Applied(disposed) => panic!("{disposed:?}"),
    }
}

/// An event whose CURRENT delivery is in a state without a claim.
pub(super) async fn standing<H: ControlHarness>(h: &H, id: &str, state: DeliveryStateName) {
    append(h, [event(id, id, 1)]).await;
    if state != DeliveryStateName::Ready {
        h.force_state(&event_id(id), state).await;
    }
}

/// The generation after the first.
pub(super) fn second() -> DeliveryGeneration {
    DeliveryGeneration::new(2).expect("generation")
}
