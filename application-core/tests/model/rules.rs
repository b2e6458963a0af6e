//! The bridge to the rules of domain-core.
//!
//! Invariant: no transition of a delivery, no relay decision and no change of the write admission
//! is made here; this translates the model's numbers and asks domain-core.

use crate::bounds::{Bounds, LEASE, MAXIMUM_ATTEMPTS, RETRY_DELAY};
use crate::state::{Row, Seen, small};
use domain_core::authority::{AdmissionEvent, WriteAdmission, WriteAdmissionState};
use domain_core::delivery::{Claim, DeliveryEvent, DeliveryState, Holder, PublicationWindow};
use domain_core::identity::{ClaimToken, LogicalDestinationId, ProducerGeneration, WorkerId};
use domain_core::instant::DatabaseInstant;
use domain_core::publication::{
    AttemptBudget, FailureClass, FailureStage, ProviderRecordReference, PublicationFailure,
    PublicationOutcome, PublicationReceipt, RelayDecision, RetryDisposition, RetryPolicy, decide,
};
use std::time::Duration;

const MICROS: i64 = 1_000_000;

/// The rules with the settings of one exploration.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    owner: WorkerId,
    policy: RetryPolicy,
    window: PublicationWindow,
    acknowledged: PublicationOutcome,
    refused: PublicationOutcome,
    nothing: PublicationOutcome,
}

impl Rules {
    /// Settings as the configuration compiler would pass them.
    pub(crate) fn new(bounds: &Bounds) -> Self {
        let delay = seconds(RETRY_DELAY);
        Self {
            owner: WorkerId::parse("relay-1").expect("worker"),
            policy: RetryPolicy::new(delay, delay, u32::from(MAXIMUM_ATTEMPTS)).expect("policy"),
            window: PublicationWindow::new(seconds(bounds.age), seconds(bounds.horizon))
                .expect("window"),
            acknowledged: PublicationOutcome::Acknowledged(PublicationReceipt {
                provider_id: "model.v1",
                destination: LogicalDestinationId::parse("model").expect("destination"),
                producer_generation: ProducerGeneration::parse("g1").expect("generation"),
                acknowledged_at: DatabaseInstant::from_epoch_micros(0),
                record_reference: ProviderRecordReference::parse("r").expect("reference"),
            }),
            refused: PublicationOutcome::Rejected(PublicationFailure {
                stage: FailureStage::BrokerAck,
                class: FailureClass::BrokerUnavailable,
                disposition: RetryDisposition::RetryWithinBudget,
            }),
            nothing: PublicationOutcome::Indeterminate(PublicationFailure {
                stage: FailureStage::Deadline,
                class: FailureClass::DeadlineExceeded,
                disposition: RetryDisposition::RetryWithinBudget,
            }),
        }
    }

    /// The outcome as the publish port reports it.
    pub(crate) fn outcome(&self, seen: Seen) -> &PublicationOutcome {
        match seen {
            Seen::Acknowledged => &self.acknowledged,
            Seen::Refused => &self.refused,
            Seen::Nothing => &self.nothing,
        }
    }

    /// A claim, a due retry's, or a reclaim.
    pub(crate) fn claimed(&self, row: Row, token: u8, now: u8) -> Option<Row> {
        let claim = Claim {
            token: claim_token(token),
            owner: self.owner.clone(),
            until: instant(now + LEASE),
        };
        self.next(
            row,
            &DeliveryEvent::Claimed {
                claim,
                now: instant(now),
            },
        )
    }

    /// The end of the budget in place of a claim.
    pub(crate) fn budget_spent(&self, row: Row, now: u8) -> Option<Row> {
        self.next(row, &DeliveryEvent::BudgetSpent { now: instant(now) })
    }

    /// A longer lease.
    pub(crate) fn renewed(&self, row: Row, token: u8, now: u8) -> Option<Row> {
        self.next(
            row,
            &DeliveryEvent::Renewed {
                holder: self.holder(token),
                until: instant(now + LEASE),
                now: instant(now),
            },
        )
    }

    /// What the relay makes of an outcome after `used` attempts, applied to the row.
    pub(crate) fn recorded(
        &self,
        row: Row,
        token: u8,
        seen: Seen,
        used: u8,
        now: u8,
    ) -> Option<Row> {
        let budget = AttemptBudget {
            used: u32::from(used),
        };
        let (holder, instant_now) = (self.holder(token), instant(now));
        let event = match decide(self.outcome(seen), budget, &self.policy, 0) {
            RelayDecision::Record => DeliveryEvent::Acknowledged {
                holder,
                now: instant_now,
            },
            RelayDecision::Retry { delay } => DeliveryEvent::RetryScheduled {
                holder,
                due: instant_now.plus(delay),
                now: instant_now,
            },
            RelayDecision::Exhaust => DeliveryEvent::AttemptsEnded {
                holder,
                now: instant_now,
            },
            RelayDecision::Hold => DeliveryEvent::HeldByWorker {
                holder,
                now: instant_now,
            },
        };
        self.next(row, &event)
    }

    /// An operator's hold.
    pub(crate) fn held(&self, row: Row, now: u8) -> Option<Row> {
        self.next(row, &DeliveryEvent::HeldByOperator { now: instant(now) })
    }

    /// An operator's release of the scope.
    pub(crate) fn skipped(&self, row: Row) -> Option<Row> {
        self.next(row, &DeliveryEvent::Skipped)
    }

    /// Whether a requeue may supersede the generation.
    pub(crate) fn requeueable(&self, row: Row) -> bool {
        self.state(row).requeueable().is_ok()
    }

    /// Whether later events of the scope may go ahead.
    pub(crate) fn releases(&self, row: Row) -> bool {
        self.state(row).name().releases_scope()
    }

    /// The deadline of a generation that is created at `now` for an event of second `created`.
    pub(crate) fn deadline(&self, created: u8, now: u8) -> u8 {
        whole(self.window.deadline(instant(created), instant(now)))
    }

    /// After this the event of second `created` is never sent again.
    pub(crate) fn requeue_deadline(&self, created: u8) -> u8 {
        whole(self.window.requeue_deadline(instant(created)))
    }

    /// The write admission after an event.
    pub(crate) fn admission(
        &self,
        (state, generation): (WriteAdmissionState, u8),
        event: AdmissionEvent,
    ) -> Option<(WriteAdmissionState, u8)> {
        let admission = WriteAdmission {
            state,
            generation: i64::from(generation),
        };
        let next = admission.next(event).ok()?;
        Some((
            next.state,
            u8::try_from(next.generation).expect("few changes"),
        ))
    }

    fn next(&self, row: Row, event: &DeliveryEvent) -> Option<Row> {
        self.state(row).next(event).ok().map(|next| shown(&next))
    }

    fn holder(&self, token: u8) -> Holder {
        Holder {
            token: claim_token(token),
            owner: self.owner.clone(),
        }
    }

    fn state(&self, row: Row) -> DeliveryState {
        match row {
            Row::Ready => DeliveryState::Ready,
            Row::Claimed { token, until } => DeliveryState::Claimed(Claim {
                token: claim_token(token),
                owner: self.owner.clone(),
                until: instant(until),
            }),
            Row::RetryWait { due } => DeliveryState::RetryWait { due: instant(due) },
            Row::Recorded => DeliveryState::DeliveryRecorded,
            Row::Exhausted => DeliveryState::Exhausted,
            Row::Hold => DeliveryState::Hold,
            Row::Skipped => DeliveryState::Skipped,
        }
    }
}

fn shown(state: &DeliveryState) -> Row {
    match state {
        DeliveryState::Ready => Row::Ready,
        DeliveryState::Claimed(claim) => Row::Claimed {
            token: claim.token.as_bytes()[0],
            until: whole(claim.until),
        },
        DeliveryState::RetryWait { due } => Row::RetryWait { due: whole(*due) },
        DeliveryState::DeliveryRecorded => Row::Recorded,
        DeliveryState::Exhausted => Row::Exhausted,
        DeliveryState::Hold => Row::Hold,
        DeliveryState::Skipped => Row::Skipped,
        DeliveryState::Compensated
        | DeliveryState::LegacyRecordedUnverified
        | DeliveryState::LegacyAcceptedUnverified => {
            unreachable!("no event of the model leads to {state:?}")
        }
    }
}

fn claim_token(token: u8) -> ClaimToken {
    ClaimToken::from_random([token; 16])
}

fn seconds(count: u8) -> Duration {
    Duration::from_secs(u64::from(count))
}

fn instant(second: u8) -> DatabaseInstant {
    DatabaseInstant::from_epoch_micros(i64::from(second) * MICROS)
}

fn whole(instant: DatabaseInstant) -> u8 {
    small(usize::try_from(instant.epoch_micros() / MICROS).expect("after the start"))
}
