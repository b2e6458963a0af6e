//! The attempts of this process that have no durable outcome yet.
//!
//! Invariant: an attempt is entered when its claim is known and leaves when the store is known to hold
//! its end; a Tx C that was given up keeps it here. So whoever replaces a producer generation can tell
//! what is still open (requirement 004 §16.10).

use crate::ports::{
    AttemptIdentity, BacklogError, ClaimError, ClaimOutcome, ClaimRequest, ClaimedDelivery,
    FindAttemptError, KnownRecord, OutboxDeliveryPort, OutboxWindowPort, OutcomeRecord,
    RecordError, RecordOutcome, RecordedAttempt, RenewOutcome, RenewRequest, UnknownBacklog,
    WindowClaim, WindowRequest,
};
use domain_core::identity::{
    ClaimToken, DestinationBindingRevision, EventId, ProducerGeneration, PublicationAttemptId,
    WorkerId,
};
use domain_core::publication::{
    PublicationFailure, PublicationOutcome, RelayDecision, RetryDisposition,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// One attempt without a durable outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAttempt {
    /// Which attempt.
    pub attempt: AttemptIdentity,
    /// Who holds the claim.
    pub owner: WorkerId,
    /// The producer runtime that was to send it.
    pub producer_generation: ProducerGeneration,
    /// The binding revision.
    pub binding_revision: DestinationBindingRevision,
    /// Whether its scope waits for it.
    pub ordering_required: bool,
    /// Attempts of its delivery generation, this one included.
    pub attempt_count: u32,
}

#[derive(Default)]
struct State {
    /// By the order in which they were entered.
    open: BTreeMap<u64, OpenAttempt>,
    by_attempt: HashMap<PublicationAttemptId, u64>,
    by_event: HashMap<EventId, u64>,
    /// Claims without an answer, and the runtime that was to send them.
    unanswered: BTreeMap<PublicationAttemptId, ProducerGeneration>,
    entered: u64,
    forgotten: u64,
    holding: bool,
    held: u64,
}

impl State {
    fn remove(&mut self, place: u64) {
        if let Some(gone) = self.open.remove(&place) {
            self.by_attempt.remove(&gone.attempt.attempt_id);
            self.by_event.remove(&gone.attempt.event_id);
        }
    }

    fn of_attempt(&self, attempt_id: &PublicationAttemptId) -> Option<&OpenAttempt> {
        self.open.get(self.by_attempt.get(attempt_id)?)
    }
}

/// The ledger. Under way are at most as many attempts as there are permits; beside them it keeps claims
/// whose Tx C was given up, until their event is claimed again here or a rotation looks them up.
pub struct AttemptLedger {
    capacity: usize,
    state: Mutex<State>,
}

impl AttemptLedger {
    /// Keeps so many attempts at most, the oldest of which is forgotten first.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            state: Mutex::default(),
        }
    }

    /// Attempts that were forgotten because there were too many, in all.
    pub fn forgotten(&self) -> u64 {
        self.lock().forgotten
    }

    /// The attempts that are open.
    pub fn open(&self) -> Vec<OpenAttempt> {
        self.lock().open.values().cloned().collect()
    }

    /// From now on an `INDETERMINATE` outcome of an ordering-required event is recorded as `HOLD`: the
    /// generation that sent it ends, and only an operator may send it again.
    pub fn hold_unresolved(&self) {
        self.lock().holding = true;
    }

    /// Outcomes are recorded as they are decided again.
    pub fn record_as_decided(&self) {
        self.lock().holding = false;
    }

    fn is_holding(&self) -> bool {
        self.lock().holding
    }

    /// Outcomes that were turned into `HOLD`, in all.
    pub fn held(&self) -> u64 {
        self.lock().held
    }

    /// The store is known to hold the attempt's end.
    pub fn settle(&self, attempt_id: &PublicationAttemptId) {
        let mut state = self.lock();
        if let Some(place) = state.by_attempt.get(attempt_id).copied() {
            state.remove(place);
        }
    }

    fn enter(&self, claimed: &ClaimedDelivery, producer_generation: &ProducerGeneration) {
        self.put(OpenAttempt {
            attempt: claimed.attempt.clone(),
            owner: claimed.owner.clone(),
            producer_generation: producer_generation.clone(),
            binding_revision: claimed.event.binding_revision.clone(),
            ordering_required: claimed.event.ordering_required,
            attempt_count: claimed.attempt_count,
        });
    }

    fn put(&self, open: OpenAttempt) {
        let mut state = self.lock();
        if state.by_attempt.contains_key(&open.attempt.attempt_id) {
            return;
        }
        // A claim closes what an earlier claim of the same event left open, in its own Tx B.
        if let Some(earlier) = state.by_event.get(&open.attempt.event_id).copied() {
            state.remove(earlier);
        }
        while state.open.len() >= self.capacity
            && let Some(oldest) = state.open.keys().next().copied()
        {
            state.remove(oldest);
            state.forgotten += 1;
        }
        state.entered += 1;
        let place = state.entered;
        state
            .by_attempt
            .insert(open.attempt.attempt_id.clone(), place);
        state.by_event.insert(open.attempt.event_id.clone(), place);
        state.open.insert(place, open);
    }

    /// A claim was not answered; what a look-up finds of it belongs to this runtime.
    fn ask(&self, attempt_id: &PublicationAttemptId, producer_generation: &ProducerGeneration) {
        let mut state = self.lock();
        if state.unanswered.len() >= self.capacity {
            state.unanswered.pop_first();
        }
        state
            .unanswered
            .insert(attempt_id.clone(), producer_generation.clone());
    }

    fn found(&self, attempt_id: &PublicationAttemptId, found: &RecordedAttempt) {
        let asked = self.lock().unanswered.remove(attempt_id);
        match (found, asked) {
            (RecordedAttempt::Open(claimed), Some(generation)) => self.enter(claimed, &generation),
            // Lost may be a claim that lapsed without anybody having ended it.
            (RecordedAttempt::Open(_), None) | (RecordedAttempt::Lost, _) => {}
            (RecordedAttempt::Closed(_) | RecordedAttempt::Unknown, _) => self.settle(attempt_id),
        }
    }

    /// The record as it is to be stored now.
    fn as_held(&self, record: &OutcomeRecord) -> Option<OutcomeRecord> {
        let PublicationOutcome::Indeterminate(failure) = record.outcome else {
            return None;
        };
        let mut state = self.lock();
        let waits = state
            .of_attempt(&record.attempt.attempt_id)
            .is_some_and(|open| open.ordering_required);
        if !state.holding || !waits {
            return None;
        }
        state.held += 1;
        Some(OutcomeRecord {
            outcome: PublicationOutcome::Indeterminate(PublicationFailure {
                disposition: RetryDisposition::OperatorHold,
                ..failure
            }),
            decision: RelayDecision::Hold,
            ..record.clone()
        })
    }

    fn recorded(&self, record: &OutcomeRecord, outcome: RecordOutcome) {
        // Stale leaves it to a look-up: the claim may have lapsed without anybody having ended it.
        if matches!(outcome, RecordOutcome::Recorded(_)) {
            self.settle(&record.attempt.attempt_id);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Every change is one step, so a panicking holder leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The relay's transactions, entered into a ledger.
pub struct LedgeredDeliveries {
    inner: Arc<dyn OutboxDeliveryPort>,
    ledger: Arc<AttemptLedger>,
}

impl LedgeredDeliveries {
    /// Enters what goes through `inner`.
    pub fn new(inner: Arc<dyn OutboxDeliveryPort>, ledger: Arc<AttemptLedger>) -> Self {
        Self { inner, ledger }
    }
}

#[async_trait::async_trait]
impl OutboxDeliveryPort for LedgeredDeliveries {
    async fn claim_next(&self, request: &ClaimRequest) -> Result<ClaimOutcome, ClaimError> {
        let outcome = self.inner.claim_next(request).await;
        if matches!(outcome, Err(ClaimError::OutcomeUnknown(_))) {
            self.ledger
                .ask(&request.attempt_id, &request.producer_generation);
        }
        let outcome = outcome?;
        if let ClaimOutcome::Claimed(claimed) = &outcome {
            self.ledger.enter(claimed, &request.producer_generation);
        }
        Ok(outcome)
    }

    async fn record_outcome(&self, record: &OutcomeRecord) -> Result<RecordOutcome, RecordError> {
        let held = self.ledger.as_held(record);
        let outcome = self
            .inner
            .record_outcome(held.as_ref().unwrap_or(record))
            .await?;
        self.ledger.recorded(record, outcome);
        Ok(outcome)
    }

    async fn renew(&self, request: &RenewRequest) -> Result<RenewOutcome, RecordError> {
        self.inner.renew(request).await
    }

    async fn find_attempt(
        &self,
        token: &ClaimToken,
        attempt_id: &PublicationAttemptId,
    ) -> Result<RecordedAttempt, FindAttemptError> {
        let found = self.inner.find_attempt(token, attempt_id).await?;
        self.ledger.found(attempt_id, &found);
        Ok(found)
    }

    async fn count_unknown(&self, known: &[KnownRecord]) -> Result<UnknownBacklog, BacklogError> {
        self.inner.count_unknown(known).await
    }
}

/// The window card's transactions, entered into a ledger.
pub struct LedgeredWindows {
    inner: Arc<dyn OutboxWindowPort>,
    ledger: Arc<AttemptLedger>,
}

impl LedgeredWindows {
    /// Enters what goes through `inner`.
    pub fn new(inner: Arc<dyn OutboxWindowPort>, ledger: Arc<AttemptLedger>) -> Self {
        Self { inner, ledger }
    }
}

#[async_trait::async_trait]
impl OutboxWindowPort for LedgeredWindows {
    async fn claim_window(&self, request: &WindowRequest) -> Result<WindowClaim, ClaimError> {
        let claim = self.inner.claim_window(request).await;
        if matches!(claim, Err(ClaimError::OutcomeUnknown(_))) {
            for attempt in &request.attempts {
                self.ledger
                    .ask(&attempt.attempt_id, &request.producer_generation);
            }
        }
        let claim = claim?;
        for claimed in &claim.claimed {
            self.ledger.enter(claimed, &request.producer_generation);
        }
        Ok(claim)
    }

    async fn record_window(
        &self,
        records: &[OutcomeRecord],
    ) -> Result<Vec<RecordOutcome>, RecordError> {
        // The usual case copies nothing.
        let outcomes = if self.ledger.is_holding() {
            let held: Vec<OutcomeRecord> = records
                .iter()
                .map(|record| {
                    let held = self.ledger.as_held(record);
                    held.unwrap_or_else(|| record.clone())
                })
                .collect();
            self.inner.record_window(&held).await?
        } else {
            self.inner.record_window(records).await?
        };
        for (record, outcome) in records.iter().zip(&outcomes) {
            self.ledger.recorded(record, *outcome);
        }
        Ok(outcomes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_core::identity::{DeliveryGeneration, EventId};

    fn open(number: u32) -> OpenAttempt {
        OpenAttempt {
            attempt: AttemptIdentity {
                event_id: EventId::parse(format!("e-{number}")).unwrap(),
                generation: DeliveryGeneration::FIRST,
                attempt_id: PublicationAttemptId::parse(format!("a-{number}")).unwrap(),
                claim_token: ClaimToken::from_random([1; 16]),
            },
            owner: WorkerId::parse("w").unwrap(),
            producer_generation: ProducerGeneration::parse("g").unwrap(),
            binding_revision: DestinationBindingRevision::parse("r").unwrap(),
            ordering_required: true,
            attempt_count: 1,
        }
    }

    #[test]
    fn the_oldest_is_forgotten_when_there_are_too_many() {
        let ledger = AttemptLedger::new(2);
        for number in 0..3 {
            ledger.put(open(number));
        }
        let left: Vec<_> = ledger
            .open()
            .iter()
            .map(|open| open.attempt.event_id.as_str().to_owned())
            .collect();
        assert_eq!(left, ["e-1", "e-2"]);
        assert_eq!(ledger.forgotten(), 1);
        ledger.settle(&open(1).attempt.attempt_id);
        ledger.settle(&open(0).attempt.attempt_id);
        assert_eq!(ledger.open(), [open(2)]);
    }
}
