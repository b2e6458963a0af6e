//! The rows of the fake store.
//!
//! Invariant: every change of a delivery's state is the answer of `DeliveryState::next`.

use crate::conformance::outbox::{ObservationRow, ObservationType};
use crate::event::{EventIdentities, StoredOutboxEvent, ValidatedIntegrationEvent};
use crate::ports::{
    AppendError, AppendPolicy, AppendReceipt, AttemptIdentity, DeliverySummary, EpochRecord,
    FenceScope, InboxDecision, LatePublicationObservation, OutboxCounts,
};
use domain_core::authority::{EpochState, WriteAdmission, WriteAdmissionState};
use domain_core::delivery::{DeliveryState, DeliveryStateName, DispatchAuthority};
use domain_core::hashing::{PartitionKey, Sha256Digest};
use domain_core::identity::{
    AggregateOrder, ConsumerId, DeliveryGeneration, DestinationBindingRevision, EventId,
    ProducerGeneration, PublicationEpoch, RowVersion, TenantScope, TransactionResourceId, WorkerId,
};
use domain_core::instant::{DatabaseInstant, OccurredAt};
use domain_core::publication::{
    AcceptanceCertainty, FailureClass, FailureStage, ProviderRecordReference, PublicationOutcome,
    RetryDisposition,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The CURRENT delivery of an event.
#[derive(Clone)]
pub(super) struct Delivery {
    pub(super) generation: DeliveryGeneration,
    /// Where the superseded generations stand, the first one first.
    pub(super) superseded: Vec<DeliveryStateName>,
    pub(super) state: DeliveryState,
    pub(super) claim_count: u32,
    pub(super) attempt_count: u32,
    pub(super) first_attempt_at: Option<DatabaseInstant>,
    pub(super) last_certainty: Option<AcceptanceCertainty>,
    pub(super) last_failure: Option<(FailureClass, FailureStage)>,
    pub(super) provider_generation: Option<ProducerGeneration>,
    pub(super) record_reference: Option<ProviderRecordReference>,
    pub(super) recorded_at: Option<DatabaseInstant>,
    /// When its automation ended.
    pub(super) ended_at: Option<DatabaseInstant>,
    pub(super) row_version: i64,
    pub(super) created_at: DatabaseInstant,
    pub(super) deadline: DatabaseInstant,
    /// The attempt that its claim admitted, while it is CLAIMED.
    pub(super) open_attempt: Option<AttemptIdentity>,
}

/// What an outcome says, apart from whose it is.
pub(super) struct Observed {
    pub(super) observation: ObservationType,
    pub(super) at: DatabaseInstant,
    pub(super) certainty: Option<AcceptanceCertainty>,
    pub(super) disposition: Option<RetryDisposition>,
    pub(super) failure: Option<(FailureClass, FailureStage)>,
    pub(super) reference: Option<String>,
}

impl Observed {
    pub(super) fn admitted(at: DatabaseInstant) -> Self {
        Self {
            observation: ObservationType::AttemptAdmitted,
            at,
            certainty: None,
            disposition: None,
            failure: None,
            reference: None,
        }
    }

    pub(super) fn outcome(at: DatabaseInstant, outcome: &PublicationOutcome) -> Self {
        Self {
            observation: ObservationType::OutcomeObserved,
            at,
            certainty: Some(outcome.certainty()),
            disposition: Some(outcome.disposition()),
            failure: outcome
                .failure()
                .map(|failure| (failure.class, failure.stage)),
            reference: outcome
                .receipt()
                .map(|receipt| receipt.record_reference.as_str().to_owned()),
        }
    }

    pub(super) fn abandoned(at: DatabaseInstant) -> Self {
        Self {
            observation: ObservationType::OutcomeObserved,
            at,
            certainty: Some(AcceptanceCertainty::Indeterminate),
            disposition: Some(RetryDisposition::RetryWithinBudget),
            failure: Some(ABANDONED),
            reference: None,
        }
    }
}

/// Class and stage of an attempt whose worker vanished.
pub(super) const ABANDONED: (FailureClass, FailureStage) =
    (FailureClass::AttemptAbandoned, FailureStage::Deadline);

/// Everything that is stored.
#[derive(Clone)]
pub(super) struct State {
    pub(super) now: DatabaseInstant,
    pub(super) policy: AppendPolicy,
    pub(super) resource: TransactionResourceId,
    pub(super) epochs: BTreeMap<PublicationEpoch, EpochRecord>,
    pub(super) admission: WriteAdmission,
    pub(super) fences: BTreeSet<FenceScope>,
    pub(super) legal_holds: BTreeSet<EventId>,
    /// The dispositions of each event; a compensation names its event.
    pub(super) dispositions: BTreeMap<EventId, Vec<Option<EventId>>>,
    /// What was done to fences, authority, admission and legal holds.
    pub(super) authority_audit: Vec<&'static str>,
    pub(super) business: BTreeSet<String>,
    pub(super) events: BTreeMap<EventId, Arc<StoredOutboxEvent>>,
    pub(super) deliveries: BTreeMap<EventId, Delivery>,
    pub(super) journal: BTreeMap<EventId, Vec<ObservationRow>>,
    /// Where the scan for claimable rows stands.
    pub(super) claimed_last: Option<(PartitionKey, AggregateOrder)>,
    inbox: BTreeMap<(ConsumerId, TenantScope, EventId), Sha256Digest>,
}

impl State {
    pub(super) fn new(policy: AppendPolicy) -> Self {
        static STORES: AtomicU64 = AtomicU64::new(0);
        let number = STORES.fetch_add(1, Ordering::Relaxed);
        let mut resource = Sha256Digest::of(&number.to_be_bytes()).to_hex();
        resource.truncate(32);
        Self {
            now: DatabaseInstant::from_epoch_micros(1_785_215_430_000_000),
            policy,
            resource: TransactionResourceId::parse(resource).expect("32 hexadecimal digits"),
            epochs: BTreeMap::from([(
                PublicationEpoch::FIRST,
                EpochRecord {
                    epoch: PublicationEpoch::FIRST,
                    authority: DispatchAuthority::PollingV2,
                    state: EpochState::Active,
                    row_version: RowVersion::FIRST,
                },
            )]),
            admission: WriteAdmission {
                state: WriteAdmissionState::Open,
                generation: 1,
            },
            fences: BTreeSet::new(),
            legal_holds: BTreeSet::new(),
            dispositions: BTreeMap::new(),
            authority_audit: Vec::new(),
            business: BTreeSet::new(),
            events: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            journal: BTreeMap::new(),
            claimed_last: None,
            inbox: BTreeMap::new(),
        }
    }

    pub(super) fn append(
        &mut self,
        event: &ValidatedIntegrationEvent,
    ) -> Result<AppendReceipt, AppendError> {
        let identities = event.identities();
        let event_id = identities.event_id.clone();
        let Some(EpochRecord {
            epoch, authority, ..
        }) = self.active_epoch().cloned()
        else {
            return Err(AppendError::NoActiveEpoch);
        };
        if self.events.contains_key(&event_id) {
            return Err(AppendError::DuplicateEvent { event_id });
        }
        // The partition key covers scope, destination and aggregate.
        let taken = self.events.values().any(|other| {
            other.partition_key == *event.partition_key()
                && other.identities.order == identities.order
        });
        if taken {
            return Err(AppendError::OrderTaken { event_id });
        }
        let refused = |source: crate::Cause| AppendError::Refused {
            event_id: event_id.clone(),
            source,
        };
        let mut identities = identities.clone();
        identities.occurred_at =
            OccurredAt::from_epoch_millis(identities.occurred_at.epoch_millis())
                .map_err(|error| refused(Box::new(error)))?;
        let stored = StoredOutboxEvent {
            identities,
            schemas: *event.schemas(),
            binding_revision: event.binding_revision().clone(),
            partition_key: event.partition_key().clone(),
            ordering_required: event.ordering_required(),
            trace: event.trace().cloned(),
            envelope: event.envelope().to_vec(),
            envelope_sha256: event.envelope_sha256(),
            publication_epoch: epoch,
            dispatch_authority: authority,
            transaction_resource: self.resource.clone(),
            created_at: self.now,
        };
        if authority == DispatchAuthority::PollingV2 {
            let deadline = self.now.plus(self.policy.initial_age(event));
            let delivery = Delivery::ready(DeliveryGeneration::FIRST, self.now, deadline);
            self.deliveries.insert(event_id.clone(), delivery);
        }
        self.events.insert(event_id, Arc::new(stored));
        Ok(AppendReceipt {
            epoch,
            authority,
            resource: self.resource.clone(),
        })
    }

    /// The ACTIVE epoch.
    pub(super) fn active_epoch(&self) -> Option<&EpochRecord> {
        self.epochs
            .values()
            .find(|epoch| epoch.state == EpochState::Active)
    }

    pub(super) fn receive(
        &mut self,
        consumer: &ConsumerId,
        event: &EventIdentities,
        document: Sha256Digest,
    ) -> InboxDecision {
        let key = (
            consumer.clone(),
            event.tenant_scope.clone(),
            event.event_id.clone(),
        );
        match self.inbox.get(&key) {
            None => {
                self.inbox.insert(key, document);
                InboxDecision::FirstSeen
            }
            Some(seen) if *seen == document => InboxDecision::Duplicate,
            Some(_) => InboxDecision::Collision,
        }
    }

    /// Adds to the attempt journal, unless the attempt has an observation of that type.
    pub(super) fn observe(
        &mut self,
        attempt: &AttemptIdentity,
        producer_generation: &ProducerGeneration,
        binding_revision: &DestinationBindingRevision,
        observed: Observed,
    ) -> bool {
        let rows = self.journal.entry(attempt.event_id.clone()).or_default();
        let there = rows.iter().any(|row| {
            row.attempt_id == attempt.attempt_id && row.observation == observed.observation
        });
        let of_generation = rows
            .iter()
            .filter(|row| row.generation == attempt.generation)
            .count();
        if !there {
            rows.push(ObservationRow {
                generation: attempt.generation,
                attempt_id: attempt.attempt_id.clone(),
                sequence: i64::try_from(of_generation).expect("a short journal") + 1,
                observation: observed.observation,
                claim_token_digest: attempt.claim_token.digest(),
                producer_generation: producer_generation.clone(),
                binding_revision: binding_revision.clone(),
                observed_at: observed.at,
                certainty: observed.certainty,
                disposition: observed.disposition,
                failure_class: observed.failure.map(|(class, _)| class),
                failure_stage: observed.failure.map(|(_, stage)| stage),
                record_reference: observed.reference,
            });
        }
        !there
    }

    /// Journals one late acknowledgement; `None` when its attempt was never admitted.
    pub(super) fn observe_late(&mut self, late: &LatePublicationObservation) -> Option<bool> {
        let attempt = &late.attempt;
        self.journal.get(&attempt.event_id)?.iter().find(|row| {
            row.observation == ObservationType::AttemptAdmitted
                && row.generation == attempt.generation
                && row.attempt_id == attempt.attempt_id
                && row.claim_token_digest == attempt.claim_token.digest()
        })?;
        let observed = Observed {
            observation: ObservationType::LateAckObserved,
            at: late.observed_at,
            certainty: Some(late.certainty),
            disposition: Some(late.disposition()),
            failure: None,
            reference: Some(late.record_reference.as_str().to_owned()),
        };
        Some(self.observe(
            attempt,
            &late.producer_generation,
            &late.binding_revision,
            observed,
        ))
    }

    pub(super) fn counts(&self) -> OutboxCounts {
        let mut counts = OutboxCounts {
            events: count(self.events.len()),
            without_delivery: count(self.events.len() - self.deliveries.len()),
            ..OutboxCounts::default()
        };
        for delivery in self.deliveries.values() {
            *counts.by_state.entry(delivery.state.name()).or_default() += 1;
            counts.retried += u64::from(delivery.attempt_count > 1);
        }
        counts
    }

    pub(super) fn summary(&self, event_id: &EventId) -> Option<DeliverySummary> {
        let delivery = self.deliveries.get(event_id)?;
        let event = self.events.get(event_id)?;
        Some(DeliverySummary {
            event_id: event_id.clone(),
            contract_id: event.identities.contract_id.clone(),
            envelope_sha256: event.envelope_sha256,
            generation: delivery.generation,
            state: delivery.state.name(),
            claim_count: delivery.claim_count,
            attempt_count: delivery.attempt_count,
            last_certainty: delivery.last_certainty,
            last_failure_class: delivery.last_failure.map(|(class, _)| class),
            record_reference: delivery
                .record_reference
                .as_ref()
                .map(|reference| reference.as_str().to_owned()),
        })
    }
}

impl Delivery {
    pub(super) fn ready(
        generation: DeliveryGeneration,
        created_at: DatabaseInstant,
        deadline: DatabaseInstant,
    ) -> Self {
        Self {
            generation,
            superseded: Vec::new(),
            state: DeliveryState::Ready,
            claim_count: 0,
            attempt_count: 0,
            first_attempt_at: None,
            last_certainty: None,
            last_failure: None,
            provider_generation: None,
            record_reference: None,
            recorded_at: None,
            ended_at: None,
            row_version: 1,
            created_at,
            deadline,
            open_attempt: None,
        }
    }

    /// Where one of the event's generations stands.
    pub(super) fn state_of(&self, generation: DeliveryGeneration) -> DeliveryStateName {
        self.superseded
            .iter()
            .zip(1..)
            .find(|(_, number)| *number == generation.value())
            .map_or(self.state.name(), |(state, _)| *state)
    }

    /// Who holds the row.
    pub(super) fn owner(&self) -> Option<&WorkerId> {
        match &self.state {
            DeliveryState::Claimed(claim) => Some(&claim.owner),
            _ => None,
        }
    }
}

pub(super) fn count(length: usize) -> u64 {
    u64::try_from(length).expect("a length fits 64 bits")
}
