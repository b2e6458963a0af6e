//! What can be seen of a store, without what differs between two sound ones.
//!
//! Invariant: instants are told by whether they are there, a deadline by its whole minutes, an
//! attempt by its number among those of its event.

use super::super::{ControlHarness, WindowHarness};
use super::side::{Attempt, Side};
use super::values::of_slot;
use crate::ports::RecordedAttempt;

impl<H: ControlHarness + WindowHarness> Side<H> {
    /// What can be seen of some events and of the store as a whole, under names.
    pub(super) async fn view(&self, slots: &[u8]) -> Vec<(String, String)> {
        let mut view = Vec::new();
        for &slot in slots {
            view.push((format!("delivery of {slot}"), self.delivery(slot).await));
            view.push((format!("journal of {slot}"), self.journal(slot).await));
            view.push((format!("attempts of {slot}"), self.looked_up(slot).await));
        }
        view.push(("store".to_owned(), self.store().await));
        view
    }

    async fn delivery(&self, slot: u8) -> String {
        let event = of_slot(slot);
        let audited = self.harness.audit_rows(&event).await;
        let Some(row) = self.harness.delivery(&event).await else {
            return format!("none, audited {audited} times");
        };
        let latest = self.attempts(slot).last();
        let owner = row
            .claim_owner
            .as_ref()
            .map(|owner| latest.is_some_and(|latest| latest.claimed.owner == *owner));
        let micros = row.automatic_attempt_deadline.epoch_micros() - row.created_at.epoch_micros();
        format!(
            "generation {} {} claims {} attempts {} first {} due {} owned {owner:?} until {} \
             certainty {:?} failure {:?} {:?} by {:?} at {:?} recorded {} version {} minutes {} \
             audited {audited} times",
            row.generation.value(),
            row.state.as_str(),
            row.claim_count,
            row.attempt_count,
            row.first_attempt_at.is_some(),
            row.next_attempt_at.is_some(),
            row.claim_until.is_some(),
            row.last_certainty,
            row.last_failure_class,
            row.last_failure_stage,
            row.provider_generation,
            row.record_reference,
            row.delivery_recorded_at.is_some(),
            row.row_version,
            (micros + 30_000_000) / 60_000_000,
        )
    }

    async fn journal(&self, slot: u8) -> String {
        let rows = self.harness.journal(&of_slot(slot)).await;
        let told = rows.into_iter().map(|row| {
            let named = |attempt: &&Attempt| attempt.claimed.attempt.attempt_id == row.attempt_id;
            let attempt = self.attempts(slot).iter().find(named);
            let token = attempt.is_some_and(|attempt| {
                attempt.claimed.attempt.claim_token.digest() == row.claim_token_digest
            });
            format!(
                "generation {} row {} attempt {:?} {:?} token {token} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
                row.generation.value(),
                row.sequence,
                attempt.map(|attempt| attempt.number),
                row.observation,
                row.producer_generation,
                row.binding_revision,
                row.certainty,
                row.disposition,
                row.failure_class,
                row.failure_stage,
                row.record_reference,
            )
        });
        told.collect::<Vec<_>>().join("\n       ")
    }

    /// What the store knows of the event's last attempts.
    async fn looked_up(&self, slot: u8) -> String {
        let mut told = Vec::new();
        for attempt in self.attempts(slot).iter().rev().take(2) {
            let identity = &attempt.claimed.attempt;
            let found = self
                .harness
                .deliveries()
                .find_attempt(&identity.claim_token, &identity.attempt_id)
                .await
                .expect("looked up");
            let found = match found {
                RecordedAttempt::Unknown => "unknown".to_owned(),
                RecordedAttempt::Open(claimed) => format!(
                    "open, same {}, claims {} attempts {}",
                    claimed.attempt == *identity && claimed.owner == attempt.claimed.owner,
                    claimed.claim_count,
                    claimed.attempt_count
                ),
                RecordedAttempt::Closed(state) => format!("closed, {}", state.as_str()),
                RecordedAttempt::Lost => "lost".to_owned(),
            };
            told.push(format!("{} {found}", attempt.number));
        }
        told.join(", ")
    }

    async fn store(&self) -> String {
        let h = &self.harness;
        let counts = h.query().counts().await.expect("counts");
        let unknown = h.deliveries().count_unknown(&[]).await.expect("backlog");
        let sample = h.capacity().sample(1_000).await.expect("sample");
        let mut fences = h.fences().standing().await.expect("fences");
        fences.sort();
        let epoch = h.authority().active_epoch().await.expect("epoch");
        let admission = h.authority().write_admission().await.expect("admission");
        let audited = h.authority_audit_rows().await;
        format!(
            "{counts:?} unknown {:?} unresolved {} oldest {} {fences:?} {epoch:?} {admission:?} \
             audited {audited} times",
            unknown.by_reason,
            sample.unresolved,
            sample.oldest.is_some(),
        )
    }
}
