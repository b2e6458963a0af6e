//! One of the two stores, and what a worker and an operator beside it remember.
//!
//! Invariant: an operation that needs a lapse, a due retry or an age waits for it by the store's
//! own clock, so its answer does not rest on how fast the store is.

use super::super::control::{act, approval};
use super::super::fixture::{LONG, append_in, passed, producer, reference, request};
use super::super::{ControlHarness, WindowHarness};
use super::op::{Answer, Budget, Holding, Op, SLOTS, Seen, What};
use super::values::{
    MOMENT, budget_of, disposition, ended, fence, of_slot, record_of, revision, sendable, spec,
};
use crate::ports::{
    ActivationOutcome, AppendError, ClaimOutcome, ClaimRequest, ClaimedDelivery,
    DispositionCommand, DispositionConflict, DispositionOutcome, EpochActivation, FreshAttempt,
    KnownRecord, LateObservationId, LatePublicationObservation, PartitionShare, ReapRequest,
    RenewOutcome, RenewRequest, RetentionError, SpentDelivery, TransactionError, WindowRequest,
};
use domain_core::delivery::DispatchAuthority;
use domain_core::identity::{
    ClaimToken, DeliveryGeneration, PublicationAttemptId, PublicationEpoch, RowVersion, WorkerId,
};
use domain_core::publication::AcceptanceCertainty;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// One attempt that the store admitted.
pub(super) struct Attempt {
    /// Its number among those of its event, from 0.
    pub(super) number: usize,
    pub(super) claimed: ClaimedDelivery,
}

/// A store under way.
pub(super) struct Side<H> {
    pub(super) harness: H,
    attempts: BTreeMap<u8, Vec<Attempt>>,
    /// Identities used so far.
    used: u32,
}

impl<H: ControlHarness + WindowHarness> Side<H> {
    pub(super) fn new(harness: H) -> Self {
        Self {
            harness,
            attempts: BTreeMap::new(),
            used: 0,
        }
    }

    pub(super) fn attempts(&self, slot: u8) -> &[Attempt] {
        self.attempts.get(&slot).map_or(&[], Vec::as_slice)
    }

    /// Does one operation; what it answered.
    pub(super) async fn run(&mut self, op: Op) -> String {
        match op {
            Op::Append { slot, gated } => self.append(slot, gated).await,
            Op::Claim { slot, budget } => {
                let known = sendable([slot]);
                let request = budget_of(budget, self.fresh(known));
                match self.claim(&request).await {
                    Some(told) => told,
                    None => "nothing".to_owned(),
                }
            }
            Op::ClaimAll => self.claim_all().await,
            Op::Windows { size, budget } => self.windows(size, budget).await,
            Op::Renew { slot, holder } => match self.held(slot, holder) {
                None => "no attempt".to_owned(),
                Some(claimed) => match self.renew(&claimed, LONG).await {
                    RenewOutcome::Renewed(_) => "renewed".to_owned(),
                    RenewOutcome::Stale => "stale".to_owned(),
                },
            },
            Op::Lapse { slot } => match self.held(slot, Holding::Latest) {
                None => "no attempt".to_owned(),
                Some(claimed) => match self.renew(&claimed, MOMENT).await {
                    RenewOutcome::Renewed(until) => {
                        passed(&self.harness, until).await;
                        "lapsed".to_owned()
                    }
                    RenewOutcome::Stale => "stale".to_owned(),
                },
            },
            Op::Record {
                slot,
                holder,
                answer,
            } => match self.held(slot, holder) {
                None => "no attempt".to_owned(),
                Some(claimed) => {
                    let outcome = self
                        .harness
                        .deliveries()
                        .record_outcome(&record_of(&claimed, answer))
                        .await
                        .expect("an outcome");
                    self.retries_are_due(answer).await;
                    format!("{outcome:?}")
                }
            },
            Op::RecordAll { answer } => {
                let records: Vec<_> = (0..SLOTS)
                    .filter_map(|slot| self.held(slot, Holding::Latest))
                    .map(|claimed| record_of(&claimed, answer))
                    .collect();
                let outcomes = self
                    .harness
                    .windows()
                    .record_window(&records)
                    .await
                    .expect("outcomes");
                self.retries_are_due(answer).await;
                format!("{outcomes:?}")
            }
            Op::Late { slot, first } => self.late(slot, first).await,
            Op::Dispose { slot, what, seen } => self.dispose(slot, what, seen).await,
            other => self.govern(other).await,
        }
    }

    /// The operations of authority and upkeep.
    async fn govern(&mut self, op: Op) -> String {
        let (authority, act, wait) = (self.harness.authority(), act(), Duration::from_secs(10));
        let admission = authority.write_admission().await.expect("admission");
        let generation = |right: bool| admission.generation + i64::from(!right);
        match op {
            Op::Fence { cover, raise } => {
                let (scope, fences) = (fence(cover), self.harness.fences());
                let outcome = if raise {
                    fences.raise(&scope, &act).await
                } else {
                    fences.lift(&scope, &act).await
                };
                format!("{:?}", outcome.expect("a fence"))
            }
            Op::Epoch { authority, right } => self.switch(authority, right).await,
            Op::Freeze { right } => {
                let frozen = authority.freeze(generation(right), wait, &act).await;
                format!("{:?}", frozen.expect("an admission"))
            }
            Op::Resume { right } => {
                let resumed = authority.resume(generation(right), &act).await;
                format!("{:?}", resumed.expect("an admission"))
            }
            Op::Thaw { right } => {
                let thawed = authority.thaw(generation(right), &act).await;
                format!("{:?}", thawed.expect("an admission"))
            }
            Op::LegalHold { slot, place } => {
                let (event, retention) = (of_slot(slot), self.harness.retention());
                let held = if place {
                    retention.place_legal_hold(&event, &act).await
                } else {
                    retention.lift_legal_hold(&event, &act).await
                };
                match held {
                    Ok(changed) => format!("changed {changed}"),
                    Err(RetentionError::NoEvent) => "no event".to_owned(),
                    Err(other) => panic!("{other:?}"),
                }
            }
            Op::Reap { aged } => self.reap(aged).await,
            other => panic!("{other:?} is a worker's or an operator's"),
        }
    }

    async fn append(&self, slot: u8, gated: bool) -> String {
        let transactions = if gated {
            self.harness.transactions()
        } else {
            self.harness.ungated_transactions()
        };
        let sealed = spec(slot).seal();
        match append_in(&*transactions, self.harness.outbox(), sealed).await {
            Ok(receipt) => format!("epoch {} {:?}", receipt.epoch.value(), receipt.authority),
            Err(TransactionError::NotAdmitted(state)) => format!("not admitted: {state:?}"),
            Err(TransactionError::Work(AppendError::DuplicateEvent { .. })) => "again".to_owned(),
            Err(TransactionError::Work(AppendError::NoActiveEpoch)) => "no epoch".to_owned(),
            Err(other) => panic!("{other:?}"),
        }
    }

    /// A request under identities that nobody used.
    fn fresh(&mut self, known: Arc<[KnownRecord]>) -> ClaimRequest {
        self.used += 1;
        ClaimRequest {
            known,
            ..request(self.used)
        }
    }

    /// One claim; what came of it, if anything.
    async fn claim(&mut self, request: &ClaimRequest) -> Option<String> {
        loop {
            let claim = self.harness.deliveries().claim_next(request).await;
            return match claim.expect("a claim") {
                ClaimOutcome::Unfinished => continue,
                ClaimOutcome::Nothing => None,
                ClaimOutcome::Claimed(claimed) => Some(self.took(*claimed)),
                ClaimOutcome::BudgetSpent {
                    event_id,
                    generation,
                    reason,
                } => Some(ended(&SpentDelivery {
                    event_id,
                    generation,
                    reason,
                })),
            };
        }
    }

    async fn claim_all(&mut self) -> String {
        let mut told = Vec::new();
        loop {
            let request = self.fresh(sendable(0..SLOTS));
            match self.claim(&request).await {
                Some(one) => told.push(one),
                None => break,
            }
        }
        told.sort();
        told.join(", ")
    }

    async fn windows(&mut self, size: u8, budget: Budget) -> String {
        let mut told = Vec::new();
        loop {
            let alone = budget_of(budget, self.fresh(sendable(0..SLOTS)));
            let attempts = (0..size)
                .map(|_| {
                    let fresh = self.fresh(Arc::from([]));
                    FreshAttempt {
                        token: fresh.token,
                        attempt_id: fresh.attempt_id,
                    }
                })
                .collect();
            let window = WindowRequest {
                owner: alone.owner,
                attempts,
                producer_generation: alone.producer_generation,
                lease: alone.lease,
                attempt_budget: alone.attempt_budget,
                maximum_attempts: alone.maximum_attempts,
                known: alone.known,
                share: PartitionShare::WHOLE,
            };
            let windows = self.harness.windows();
            let claim = windows.claim_window(&window).await.expect("a window");
            assert!(claim.claimed.len() <= usize::from(size), "{claim:?}");
            let is_empty = claim.claimed.is_empty() && claim.spent.is_empty();
            told.extend(claim.spent.iter().map(ended));
            told.extend(claim.claimed.into_iter().map(|claimed| self.took(claimed)));
            if is_empty && !claim.unfinished {
                break;
            }
        }
        told.sort();
        told.join(", ")
    }

    /// Remembers a claim.
    fn took(&mut self, claimed: ClaimedDelivery) -> String {
        let told = format!(
            "{} generation {} claims {} attempts {}",
            claimed.attempt.event_id,
            claimed.attempt.generation.value(),
            claimed.claim_count,
            claimed.attempt_count
        );
        let slot = (0..SLOTS)
            .find(|slot| of_slot(*slot) == claimed.attempt.event_id)
            .expect("an event of the sequence");
        let attempts = self.attempts.entry(slot).or_default();
        attempts.push(Attempt {
            number: attempts.len(),
            claimed,
        });
        told
    }

    /// A claim of an event, as somebody with that identity would name it.
    fn held(&self, slot: u8, holder: Holding) -> Option<ClaimedDelivery> {
        let (last, earlier) = self.attempts(slot).split_last()?;
        let mut claimed = last.claimed.clone();
        match holder {
            Holding::Latest => {}
            Holding::Earlier => claimed = earlier.last()?.claimed.clone(),
            Holding::OtherToken => {
                claimed.attempt.claim_token = ClaimToken::from_random([0xEE; 16]);
            }
            Holding::OtherOwner => claimed.owner = WorkerId::parse("nobody").expect("worker id"),
            Holding::OtherAttempt => {
                claimed.attempt.attempt_id =
                    PublicationAttemptId::parse("attempt-of-nobody").expect("attempt id");
            }
        }
        Some(claimed)
    }

    async fn renew(&self, claimed: &ClaimedDelivery, lease: Duration) -> RenewOutcome {
        let renew = RenewRequest {
            attempt: claimed.attempt.clone(),
            owner: claimed.owner.clone(),
            lease,
        };
        let renewed = self.harness.deliveries().renew(&renew).await;
        renewed.expect("a renewal")
    }

    /// Waits until a retry that was asked for soon is due.
    async fn retries_are_due(&self, answer: Answer) {
        if matches!(answer, Answer::RetrySoon | Answer::OpenRetry) {
            let now = self.harness.database_now().await;
            passed(&self.harness, now.plus(MOMENT)).await;
        }
    }

    async fn late(&mut self, slot: u8, first: bool) -> String {
        let attempts = self.attempts(slot);
        let attempt = if first {
            attempts.first()
        } else {
            attempts.last()
        };
        let Some(attempt) = attempt else {
            return "no attempt".to_owned();
        };
        let observation = LatePublicationObservation {
            id: LateObservationId(u64::from(self.used)),
            attempt: attempt.claimed.attempt.clone(),
            producer_generation: producer(),
            binding_revision: revision(slot),
            certainty: AcceptanceCertainty::Accepted,
            observed_at: attempt.claimed.claim_until,
            record_reference: reference("conformance/0@3"),
        };
        let report = self
            .harness
            .observations()
            .append_late_observations(&[observation])
            .await;
        format!("{:?}", report.expect("a report"))
    }

    async fn dispose(&self, slot: u8, what: What, seen: Seen) -> String {
        let event_id = of_slot(slot);
        let row = self.harness.delivery(&event_id).await;
        if let (Some(row), What::RequeueTooLate) = (&row, what) {
            passed(&self.harness, row.created_at.plus(MOMENT)).await;
        }
        let (generation, version) =
            row.map_or((1, 1), |row| (row.generation.value(), row.row_version));
        let command = DispositionCommand {
            event_id,
            generation: DeliveryGeneration::new(generation + i64::from(seen == Seen::Generation))
                .expect("generation"),
            row_version: RowVersion::new(version + i64::from(seen == Seen::RowVersion))
                .expect("row version"),
            disposition: disposition(slot, what),
            act: act(),
        };
        let outcome = self.harness.dispositions().apply(&command).await;
        match outcome.expect("a disposition") {
            DispositionOutcome::Conflict(DispositionConflict::ClaimLive { .. }) => {
                "the claim is live".to_owned()
            }
            DispositionOutcome::Conflict(DispositionConflict::HorizonPassed(_)) => {
                "the horizon has passed".to_owned()
            }
            other => format!("{other:?}"),
        }
    }

    async fn switch(&self, to: DispatchAuthority, right: bool) -> String {
        let authority = self.harness.authority();
        let active = authority.active_epoch().await.expect("epoch");
        let prepared = authority.prepare_epoch(to, None).await.expect("prepared");
        let expected = if right {
            active.map(|active| active.epoch)
        } else {
            Some(PublicationEpoch::new(1_000).expect("epoch"))
        };
        let activation = EpochActivation {
            expected_active: expected,
            epoch: prepared.epoch,
            row_version: prepared.row_version,
            wait: Duration::from_secs(10),
            approval: approval(),
            act: act(),
        };
        let outcome: ActivationOutcome = authority
            .activate_epoch(&activation)
            .await
            .expect("an activation");
        format!("{prepared:?} {outcome:?}")
    }

    async fn reap(&self, aged: bool) -> String {
        let request = ReapRequest {
            audit_retention: if aged { MOMENT } else { LONG },
            replay_horizon: MOMENT,
            limit: 3,
        };
        let now = self.harness.database_now().await;
        passed(&self.harness, now.plus(2 * MOMENT)).await;
        let mut removed = 0;
        loop {
            // What another's audit names goes after that other.
            let report = self.harness.retention().reap(&request).await;
            let report = report.expect("a report");
            removed += report.removed;
            if report.removed == 0 && report.finished {
                return format!("removed {removed}");
            }
        }
    }
}
