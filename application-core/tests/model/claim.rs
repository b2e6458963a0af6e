//! Tx B: scan, lock, gate, claim or the end of the budget.
//!
//! Invariant: what is claimed is what the locking query itself saw eligible.

use crate::bounds::{ATTEMPT, LEASE, MAXIMUM_ATTEMPTS};
use crate::bugs::Bug;
use crate::protocol::{Action, Protocol};
use crate::state::{Append, Attempt, Epoch, Order, Row, State, Task, Wire, small};
use domain_core::publication::AcceptanceCertainty;

impl Protocol {
    /// What the task may do about a claim.
    pub(crate) fn offer_claims(&self, state: &State, index: usize, actions: &mut Vec<Action>) {
        match state.tasks[index] {
            Task::Idle if state.epoch == Epoch::Polling => {
                for delivery in self.scan(state) {
                    actions.push(Action::Find(index, delivery));
                }
            }
            Task::Found { .. } => actions.push(Action::Lock(index)),
            Task::Locked { .. } => actions.push(Action::CommitClaim(index)),
            _ => {}
        }
    }

    /// The heads that a scan may yield; it takes no lock.
    pub(crate) fn scan(&self, state: &State) -> Vec<u8> {
        if self.has(Bug::LimitBeforeEligibility) {
            // One candidate is read, and judged afterwards.
            let mut first = self.open_in_order(state).into_iter().take(1);
            return first
                .next()
                .filter(|&delivery| self.claimable(state, delivery, state.clock))
                .into_iter()
                .collect();
        }
        if self.has(Bug::SkipLockedCandidates) {
            let free: Vec<_> = self
                .open_in_order(state)
                .into_iter()
                .filter(|&delivery| !state.locked(delivery))
                .collect();
            return self.first_of_each_scope(state, &free);
        }
        let from_mark = self.heads(state, true);
        if self.has(Bug::MarkIsTruth) {
            return from_mark;
        }
        // At regular times a pass goes without the mark, so either may come next.
        let mut found = self.heads(state, false);
        found.extend(from_mark);
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Whether a claim could take the delivery in a store that nobody else uses.
    pub(crate) fn eligible(&self, state: &State, delivery: u8) -> bool {
        state.epoch == Epoch::Polling
            && !state.locked(delivery)
            && self.claimable(state, delivery, state.clock)
            && !self.blocked(state, delivery, false)
    }

    /// Whether an earlier event of the scope, committed by now, is unresolved. With the mark as
    /// truth nothing before it is looked at.
    pub(crate) fn blocked(&self, state: &State, delivery: u8, from_mark: bool) -> bool {
        let event = *state.event_of(delivery);
        let mark = if from_mark {
            state.marks[usize::from(event.scope)]
        } else {
            0
        };
        state.deliveries.iter().any(|other| {
            let earlier = &state.events[usize::from(other.event)];
            other.current
                && earlier.scope == event.scope
                && (mark..event.sequence).contains(&earlier.sequence)
                && !self.rules.releases(other.row)
        })
    }

    /// Tx B begins: the epoch is read FOR SHARE, the head is found.
    pub(crate) fn find(&self, state: &mut State, task: usize, delivery: u8) {
        if self.bounds.marks {
            let event = *state.event_of(delivery);
            state.marks[usize::from(event.scope)] = event.sequence;
        }
        state.tasks[task] = if self.has(Bug::SkipLockedCandidates) {
            self.note_position(state, delivery);
            Task::Locked {
                delivery,
                now: state.clock,
            }
        } else {
            Task::Found { delivery }
        };
    }

    /// The row is locked by key with SKIP LOCKED and the whole predicate again.
    pub(crate) fn lock(&self, state: &mut State, task: usize) {
        let Task::Found { delivery } = state.tasks[task] else {
            return;
        };
        let stands = self.claimable(state, delivery, state.clock)
            && !self.blocked(state, delivery, self.has(Bug::MarkIsTruth));
        state.tasks[task] =
            if !state.locked(delivery) && (stands || self.has(Bug::LockWithoutPredicate)) {
                self.note_position(state, delivery);
                Task::Locked {
                    delivery,
                    now: state.clock,
                }
            } else {
                Task::Idle
            };
    }

    /// Tx B commits: the abandoned attempt is closed, then a claim with its admitted attempt, or
    /// EXHAUSTED when no whole attempt is left.
    pub(crate) fn commit_claim(&self, state: &mut State, task: usize) {
        let Task::Locked { delivery, now } = state.tasks[task] else {
            return;
        };
        let index = usize::from(delivery);
        let before = state.deliveries[index].clone();
        let attempt = small(state.attempts.len());
        let token = match before.row {
            Row::Claimed { token, .. } if self.has(Bug::ReclaimKeepsToken) => token,
            _ => attempt + 1,
        };
        let spent = before.used >= MAXIMUM_ATTEMPTS || now + ATTEMPT > before.deadline;
        let next = if spent {
            self.rules.budget_spent(before.row, now)
        } else {
            self.rules.claimed(before.row, token, now)
        };
        let Some(next) = next else {
            state.tasks[task] = Task::Idle;
            return;
        };
        self.close_abandoned(state, delivery);
        state.deliveries[index].row = next;
        if spent {
            let seen = before.certainty.unwrap_or(AcceptanceCertainty::NotAccepted);
            let seen = self.certainty_when_exhausted(state, delivery, seen);
            state.deliveries[index].certainty = Some(seen);
            state.tasks[task] = Task::Idle;
            return;
        }
        state.evidence.claimed_retired |= state.epoch != Epoch::Polling;
        let row = &mut state.deliveries[index];
        row.made += 1;
        row.used += u8::from(!self.has(Bug::CountAtOutcome));
        row.attempt = Some(attempt);
        state.attempts.push(Attempt {
            delivery,
            wire: Wire::Unsent,
            closed: 0,
            certainty: None,
            late: false,
        });
        if now + LEASE <= state.clock {
            // The transaction was stopped for longer than the lease that it took.
            let scope = state.event_of(delivery).scope;
            state.disturb(scope, Order::Repeats);
        }
        state.tasks[task] = Task::Holding { attempt, token };
    }

    /// An expired claim's attempt ends INDETERMINATE, whoever ends the claim.
    pub(crate) fn close_abandoned(&self, state: &mut State, delivery: u8) {
        let index = usize::from(delivery);
        let row = &mut state.deliveries[index];
        if let (Row::Claimed { .. }, Some(attempt)) = (row.row, row.attempt) {
            row.certainty = Some(AcceptanceCertainty::Indeterminate);
            let attempt = &mut state.attempts[usize::from(attempt)];
            attempt.closed += 1;
            attempt.certainty = Some(AcceptanceCertainty::Indeterminate);
        }
    }

    /// What an ended budget says, from the journal.
    pub(crate) fn certainty_when_exhausted(
        &self,
        state: &State,
        delivery: u8,
        seen: AcceptanceCertainty,
    ) -> AcceptanceCertainty {
        if self.has(Bug::ExhaustionForgetsDoubt) {
            return seen;
        }
        seen.when_exhausted(state.attempts.iter().any(|attempt| {
            attempt.delivery == delivery
                && attempt.certainty == Some(AcceptanceCertainty::Indeterminate)
        }))
    }

    fn note_position(&self, state: &mut State, delivery: u8) {
        state.evidence.claimed_behind |= self.blocked(state, delivery, false);
    }

    fn claimable(&self, state: &State, delivery: u8, now: u8) -> bool {
        let row = &state.deliveries[usize::from(delivery)];
        row.current && self.rules.claimed(row.row, 0, now).is_some()
    }

    /// The heads that may be claimed now, seen from the mark or from the beginning.
    fn heads(&self, state: &State, from_mark: bool) -> Vec<u8> {
        let open: Vec<_> = self
            .open_in_order(state)
            .into_iter()
            .filter(|&delivery| {
                let event = state.event_of(delivery);
                !from_mark || event.sequence >= state.marks[usize::from(event.scope)]
            })
            .collect();
        self.first_of_each_scope(state, &open)
    }

    fn first_of_each_scope(&self, state: &State, open: &[u8]) -> Vec<u8> {
        let mut seen = Vec::new();
        let mut heads = Vec::new();
        for &delivery in open {
            let scope = state.event_of(delivery).scope;
            if !seen.contains(&scope) {
                seen.push(scope);
                if self.claimable(state, delivery, state.clock) {
                    heads.push(delivery);
                }
            }
        }
        heads
    }

    /// CURRENT deliveries that do not release their scope, by scope and sequence.
    fn open_in_order(&self, state: &State) -> Vec<u8> {
        let mut open: Vec<_> = (0..state.deliveries.len())
            .map(small)
            .filter(|&delivery| {
                let row = &state.deliveries[usize::from(delivery)];
                row.current
                    && matches!(state.event_of(delivery).append, Append::Committed(_))
                    && !self.rules.releases(row.row)
            })
            .collect();
        open.sort_by_key(|&delivery| {
            let event = state.event_of(delivery);
            (event.scope, event.sequence)
        });
        open
    }
}
