//! The fake store's side of the relay.
//!
//! Invariant: the domain's transition function says what happens; this module only finds the row
//! and journals beside it.

use super::FakeStore;
use super::state::{ABANDONED, Delivery, Observed, State};
use crate::conformance::outbox::ObservationType;
use crate::event::StoredOutboxEvent;
use crate::ports::{
    AttemptIdentity, BacklogError, BudgetSpentReason, ClaimError, ClaimOutcome, ClaimRequest,
    ClaimedDelivery, FindAttemptError, KnownRecord, LatePublicationObservation, LateWriteError,
    LateWriteReport, OutboxAttemptObservationPort, OutboxDeliveryPort, OutcomeRecord,
    PartitionShare, RecordError, RecordOutcome, RecordedAttempt, RenewOutcome, RenewRequest,
    UnknownBacklog, UnknownReason,
};
use domain_core::delivery::{Claim, DeliveryEvent, DeliveryState, DispatchAuthority, Holder};
use domain_core::identity::{ClaimToken, DeliveryGeneration, EventId, PublicationAttemptId};
use domain_core::publication::{
    AcceptanceCertainty, FailureClass, PublicationOutcome, RelayDecision,
};
use std::sync::Arc;

/// A record was asked for what its outcome does not say.
#[derive(Debug, thiserror::Error)]
#[error("only an acknowledgement on the compiled destination records a delivery")]
struct NotAcknowledged;

#[async_trait::async_trait]
impl OutboxDeliveryPort for FakeStore {
    async fn claim_next(&self, request: &ClaimRequest) -> Result<ClaimOutcome, ClaimError> {
        let mut tx = self.begin().await;
        let outcome = tx.state.claim_next(request)?;
        self.commit(tx);
        Ok(outcome)
    }

    async fn record_outcome(&self, record: &OutcomeRecord) -> Result<RecordOutcome, RecordError> {
        let mut tx = self.begin().await;
        let outcome = tx.state.record(record)?;
        self.commit(tx);
        Ok(outcome)
    }

    async fn renew(&self, request: &RenewRequest) -> Result<RenewOutcome, RecordError> {
        let mut tx = self.begin().await;
        let outcome = tx.state.renew(request);
        self.commit(tx);
        Ok(outcome)
    }

    async fn find_attempt(
        &self,
        token: &ClaimToken,
        attempt_id: &PublicationAttemptId,
    ) -> Result<RecordedAttempt, FindAttemptError> {
        let tx = self.begin().await;
        Ok(tx.state.find_attempt(token, attempt_id))
    }

    async fn count_unknown(&self, known: &[KnownRecord]) -> Result<UnknownBacklog, BacklogError> {
        let state = self.state();
        let mut backlog = UnknownBacklog::default();
        for (event_id, delivery) in &state.deliveries {
            if !delivery.state.name().releases_scope()
                && let Some(reason) = unknown(&state.events[event_id], known)
            {
                *backlog.by_reason.entry(reason).or_default() += 1;
            }
        }
        Ok(backlog)
    }
}

#[async_trait::async_trait]
impl OutboxAttemptObservationPort for FakeStore {
    async fn append_late_observations(
        &self,
        observations: &[LatePublicationObservation],
    ) -> Result<LateWriteReport, LateWriteError> {
        let mut tx = self.begin().await;
        let mut report = LateWriteReport::default();
        for observation in observations {
            match tx.state.observe_late(observation) {
                Some(true) => report.appended += 1,
                Some(false) => report.duplicates += 1,
                None => report.orphaned += 1,
            }
        }
        self.commit(tx);
        Ok(report)
    }
}

/// The first reason why a process that knows only `known` cannot send the event.
fn unknown(event: &StoredOutboxEvent, known: &[KnownRecord]) -> Option<UnknownReason> {
    let contract = |record: &&KnownRecord| {
        record.contract.contract_id == event.identities.contract_id
            && record.contract.payload_version == event.identities.payload_version
    };
    let schema = |record: &&KnownRecord| record.payload_schema == event.schemas.payload_schema;
    let binding = |record: &&KnownRecord| {
        record.destination == event.identities.destination
            && record.binding_revision == event.binding_revision
    };
    let mut of_contract = known.iter().filter(contract).peekable();
    if of_contract.peek().is_none() {
        return Some(UnknownReason::ContractVersion);
    }
    let mut of_schema = of_contract.filter(schema).peekable();
    if of_schema.peek().is_none() {
        return Some(UnknownReason::SchemaHash);
    }
    let sendable = of_schema.any(|record| binding(&record));
    (!sendable).then_some(UnknownReason::BindingRevision)
}

impl State {
    /// The next claimable row behind the one claimed last, scope by scope, and then from the first
    /// again.
    pub(super) fn candidate(
        &self,
        request: &ClaimRequest,
        share: PartitionShare,
    ) -> Option<EventId> {
        if !self.polls() {
            return None;
        }
        self.deliveries
            .iter()
            .filter(|(event_id, delivery)| {
                let event = &self.events[*event_id];
                let claimable = DeliveryEvent::Claimed {
                    claim: self.claim_of(request),
                    now: self.now,
                };
                delivery.state.next(&claimable).is_ok()
                    && (share.first()..=share.last())
                        .contains(&event.partition_key.digest().as_bytes()[0])
                    && unknown(event, &request.known).is_none()
                    && !self.is_fenced(event)
                    && !(event.ordering_required && self.is_blocked(event))
            })
            .map(|(event_id, _)| {
                let event = &self.events[event_id];
                let place = (event.partition_key.clone(), event.identities.order);
                let passed = self.claimed_last.as_ref().is_some_and(|last| {
                    place <= *last || (event.ordering_required && place.0 == last.0)
                });
                (passed, place, event_id)
            })
            .min()
            .map(|(_, _, event_id)| event_id.clone())
    }

    fn claim_of(&self, request: &ClaimRequest) -> Claim {
        Claim {
            token: request.token,
            owner: request.owner.clone(),
            until: self.now.plus(request.lease),
        }
    }

    /// Whether a polling epoch is ACTIVE.
    pub(super) fn polls(&self) -> bool {
        self.active_epoch()
            .is_some_and(|epoch| epoch.authority == DispatchAuthority::PollingV2)
    }

    /// Whether a smaller event of the scope is unresolved.
    fn is_blocked(&self, event: &StoredOutboxEvent) -> bool {
        self.deliveries.iter().any(|(other_id, other)| {
            let earlier = &self.events[other_id];
            earlier.partition_key == event.partition_key
                && earlier.identities.order < event.identities.order
                && !other.state.name().releases_scope()
        })
    }

    fn claim_next(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome, ClaimError> {
        self.claim_within(request, PartitionShare::WHOLE)
    }

    pub(super) fn claim_within(
        &mut self,
        request: &ClaimRequest,
        share: PartitionShare,
    ) -> Result<ClaimOutcome, ClaimError> {
        let Some(event_id) = self.candidate(request, share) else {
            return Ok(ClaimOutcome::Nothing);
        };
        let event = &self.events[&event_id];
        self.claimed_last = Some((event.partition_key.clone(), event.identities.order));
        let mut delivery = self.deliveries[&event_id].clone();
        let lapsed = matches!(delivery.state, DeliveryState::Claimed(_));
        if let Some(open) = delivery.open_attempt.take() {
            self.close_abandoned(&open);
            delivery.last_certainty = Some(AcceptanceCertainty::Indeterminate);
            delivery.last_failure = Some(ABANDONED);
        }
        delivery.row_version += 1;
        let spent = if self.now.plus(request.attempt_budget) > delivery.deadline {
            Some(BudgetSpentReason::Deadline)
        } else if lapsed && delivery.attempt_count >= request.maximum_attempts {
            Some(BudgetSpentReason::Attempts)
        } else {
            None
        };
        let event = match spent {
            Some(_) => DeliveryEvent::BudgetSpent { now: self.now },
            None => DeliveryEvent::Claimed {
                claim: self.claim_of(request),
                now: self.now,
            },
        };
        delivery.state = delivery
            .state
            .next(&event)
            .map_err(|illegal| ClaimError::Unavailable(Box::new(illegal)))?;
        let outcome = match spent {
            Some(reason) => {
                delivery.ended_at = Some(self.now);
                if self.had_indeterminate(&event_id, delivery.generation) {
                    delivery.last_certainty = Some(AcceptanceCertainty::Indeterminate);
                }
                delivery.last_failure = Some(reason.failure());
                ClaimOutcome::BudgetSpent {
                    event_id: event_id.clone(),
                    generation: delivery.generation,
                    reason,
                }
            }
            None => ClaimOutcome::Claimed(Box::new(self.admit(request, &event_id, &mut delivery))),
        };
        self.deliveries.insert(event_id, delivery);
        Ok(outcome)
    }

    /// Counts and journals the attempt of a fresh claim.
    fn admit(
        &mut self,
        request: &ClaimRequest,
        event_id: &EventId,
        delivery: &mut Delivery,
    ) -> ClaimedDelivery {
        let attempt = AttemptIdentity {
            event_id: event_id.clone(),
            generation: delivery.generation,
            attempt_id: request.attempt_id.clone(),
            claim_token: request.token,
        };
        delivery.claim_count += 1;
        delivery.attempt_count += 1;
        delivery.first_attempt_at.get_or_insert(self.now);
        delivery.open_attempt = Some(attempt.clone());
        let event = Arc::clone(&self.events[event_id]);
        self.observe(
            &attempt,
            &request.producer_generation,
            &event.binding_revision,
            Observed::admitted(self.now),
        );
        ClaimedDelivery {
            attempt,
            owner: request.owner.clone(),
            event,
            claim_until: self.now.plus(request.lease),
            claim_count: delivery.claim_count,
            attempt_count: delivery.attempt_count,
        }
    }

    pub(super) fn close_abandoned(&mut self, open: &AttemptIdentity) {
        let admitted = self.journal[&open.event_id]
            .iter()
            .find(|row| {
                row.attempt_id == open.attempt_id
                    && row.observation == ObservationType::AttemptAdmitted
            })
            .cloned();
        if let Some(admitted) = admitted {
            self.observe(
                open,
                &admitted.producer_generation,
                &admitted.binding_revision,
                Observed::abandoned(self.now),
            );
        }
    }

    /// Whether an attempt of the generation ended INDETERMINATE.
    fn had_indeterminate(&self, event_id: &EventId, generation: DeliveryGeneration) -> bool {
        self.journal.get(event_id).is_some_and(|rows| {
            rows.iter().any(|row| {
                row.generation == generation
                    && row.observation == ObservationType::OutcomeObserved
                    && row.certainty == Some(AcceptanceCertainty::Indeterminate)
            })
        })
    }

    pub(super) fn record(&mut self, record: &OutcomeRecord) -> Result<RecordOutcome, RecordError> {
        let now = self.now;
        let had_indeterminate =
            self.had_indeterminate(&record.attempt.event_id, record.attempt.generation);
        let holder = Holder {
            token: record.attempt.claim_token,
            owner: record.owner.clone(),
        };
        let event = match record.decision {
            RelayDecision::Record => DeliveryEvent::Acknowledged { holder, now },
            RelayDecision::Retry { delay } => DeliveryEvent::RetryScheduled {
                holder,
                due: now.plus(delay),
                now,
            },
            RelayDecision::Exhaust => DeliveryEvent::AttemptsEnded { holder, now },
            RelayDecision::Hold => DeliveryEvent::HeldByWorker { holder, now },
        };
        let Some(delivery) = self.deliveries.get_mut(&record.attempt.event_id) else {
            return Ok(RecordOutcome::Stale);
        };
        if delivery.open_attempt.as_ref() != Some(&record.attempt) {
            return Ok(RecordOutcome::Stale);
        }
        let Ok(next) = delivery.state.next(&event) else {
            return Ok(RecordOutcome::Stale);
        };
        let acknowledged = matches!(record.outcome, PublicationOutcome::Acknowledged(_));
        if next == DeliveryState::DeliveryRecorded && !acknowledged {
            return Err(RecordError::Unavailable(Box::new(NotAcknowledged)));
        }
        delivery.state = next;
        delivery.open_attempt = None;
        delivery.row_version += 1;
        if !matches!(delivery.state, DeliveryState::RetryWait { .. }) {
            delivery.ended_at = Some(now);
        }
        let exhausted = delivery.state == DeliveryState::Exhausted;
        let certainty = record.outcome.certainty();
        delivery.last_certainty = Some(certainty.when_exhausted(exhausted && had_indeterminate));
        if let Some(failure) = record.outcome.failure() {
            delivery.last_failure = Some((failure.class, failure.stage));
        }
        delivery.provider_generation = Some(record.producer_generation.clone());
        if delivery.state == DeliveryState::DeliveryRecorded {
            delivery.recorded_at = Some(now);
            delivery.record_reference = record
                .outcome
                .receipt()
                .map(|receipt| receipt.record_reference.clone());
        }
        let name = delivery.state.name();
        self.observe(
            &record.attempt,
            &record.producer_generation,
            &record.binding_revision,
            Observed::outcome(now, &record.outcome),
        );
        Ok(RecordOutcome::Recorded(name))
    }

    fn renew(&mut self, request: &RenewRequest) -> RenewOutcome {
        let now = self.now;
        let until = now.plus(request.lease);
        let Some(delivery) = self.deliveries.get_mut(&request.attempt.event_id) else {
            return RenewOutcome::Stale;
        };
        let renewed = delivery.state.next(&DeliveryEvent::Renewed {
            holder: Holder {
                token: request.attempt.claim_token,
                owner: request.owner.clone(),
            },
            until,
            now,
        });
        match renewed {
            Ok(state) if delivery.open_attempt.as_ref() == Some(&request.attempt) => {
                delivery.state = state;
                delivery.row_version += 1;
                RenewOutcome::Renewed(until)
            }
            _ => RenewOutcome::Stale,
        }
    }

    fn find_attempt(
        &self,
        token: &ClaimToken,
        attempt_id: &PublicationAttemptId,
    ) -> RecordedAttempt {
        let rows = self.journal.iter().find(|(_, rows)| {
            rows.iter().any(|row| {
                row.observation == ObservationType::AttemptAdmitted
                    && row.attempt_id == *attempt_id
                    && row.claim_token_digest == token.digest()
            })
        });
        let Some((event_id, rows)) = rows else {
            return RecordedAttempt::Unknown;
        };
        let delivery = &self.deliveries[event_id];
        let generation = rows
            .iter()
            .find(|row| row.attempt_id == *attempt_id)
            .map_or(delivery.generation, |row| row.generation);
        let outcome = rows.iter().find(|row| {
            row.attempt_id == *attempt_id && row.observation == ObservationType::OutcomeObserved
        });
        if let Some(outcome) = outcome {
            return if outcome.failure_class == Some(FailureClass::AttemptAbandoned) {
                RecordedAttempt::Lost
            } else {
                RecordedAttempt::Closed(delivery.state_of(generation))
            };
        }
        match (&delivery.state, &delivery.open_attempt) {
            (DeliveryState::Claimed(claim), Some(attempt))
                if claim.token == *token && claim.until > self.now =>
            {
                RecordedAttempt::Open(Box::new(ClaimedDelivery {
                    attempt: attempt.clone(),
                    owner: claim.owner.clone(),
                    event: Arc::clone(&self.events[event_id]),
                    claim_until: claim.until,
                    claim_count: delivery.claim_count,
                    attempt_count: delivery.attempt_count,
                }))
            }
            _ => RecordedAttempt::Lost,
        }
    }
}
