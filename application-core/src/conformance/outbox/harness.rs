//! What the suite needs from a store beside its ports.
//!
//! Invariant: a harness changes rows only where no port reaches yet, and each such method says
//! which later port will.

use crate::Cause;
use crate::ports::{
    InboxStorePort, OutboxAppendPort, OutboxAttemptObservationPort, OutboxDeliveryPort,
    OutboxQueryPort, TransactionPort, TransactionResourcePort, WriteTransaction,
};
use domain_core::delivery::{DeliveryStateName, DispatchAuthority};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{
    DeliveryGeneration, DestinationBindingRevision, EventId, ProducerGeneration,
    PublicationAttemptId, WorkerId,
};
use domain_core::instant::DatabaseInstant;
use domain_core::publication::{AcceptanceCertainty, FailureClass, FailureStage, RetryDisposition};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// One fresh, migrated store with one ACTIVE `POLLING_V2` epoch and an empty business table.
pub trait OutboxHarness: Send + Sync + Sized + 'static {
    /// The store's write transaction.
    type Tx: WriteTransaction + 'static;
    /// Runs write transactions.
    type Transactions: TransactionPort<Tx = Self::Tx> + 'static;
    /// Appends inside them.
    type Append: OutboxAppendPort<Self::Tx> + 'static;
    /// The inbox of the same store.
    type Inbox: InboxStorePort<Self::Tx> + 'static;

    /// The age that the append port was configured with; an hour at least, so that an event's
    /// requeue horizon is what a case shortens.
    const MAXIMUM_AGE: Duration;

    /// A store that no other case shares.
    fn fresh() -> impl Future<Output = Self> + Send;

    /// The business side's transactions.
    fn transactions(&self) -> Arc<Self::Transactions>;
    /// The append port.
    fn outbox(&self) -> Arc<Self::Append>;
    /// The inbox.
    fn inbox(&self) -> Arc<Self::Inbox>;
    /// Tx B and Tx C.
    fn deliveries(&self) -> Arc<dyn OutboxDeliveryPort>;
    /// The late observations' journal.
    fn observations(&self) -> Arc<dyn OutboxAttemptObservationPort>;
    /// Reads.
    fn query(&self) -> Arc<dyn OutboxQueryPort>;
    /// Every port that start-up compares: business, append and relay side, two at least.
    fn resources(&self) -> Vec<Arc<dyn TransactionResourcePort>>;

    /// Inserts one row with this key into the harness's business table.
    fn insert_business_row<'t>(
        tx: &'t mut Self::Tx,
        key: &'t str,
    ) -> impl Future<Output = Result<(), Cause>> + Send + 't;
    /// The committed keys of the business table, ascending.
    fn business_rows(&self) -> impl Future<Output = Vec<String>> + Send;

    /// The database clock.
    fn database_now(&self) -> impl Future<Output = DatabaseInstant> + Send;
    /// The CURRENT delivery of an event, as stored.
    fn delivery(&self, event: &EventId) -> impl Future<Output = Option<DeliveryRow>> + Send;
    /// The attempt journal of an event, by generation and observation sequence.
    fn journal(&self, event: &EventId) -> impl Future<Output = Vec<ObservationRow>> + Send;

    /// Retires the ACTIVE epoch and, unless `None`, activates a new one. Stands in for the
    /// publication authority port.
    fn activate_epoch(
        &self,
        authority: Option<DispatchAuthority>,
    ) -> impl Future<Output = ()> + Send;
    /// Puts the CURRENT delivery of an event into a state without a claim. Stands in for the
    /// disposition port.
    fn force_state(
        &self,
        event: &EventId,
        state: DeliveryStateName,
    ) -> impl Future<Output = ()> + Send;

    /// A few milliseconds of nothing, between two looks at a condition.
    fn pause(&self) -> impl Future<Output = ()> + Send;
}

/// A store whose tables SQL can reach past its ports.
pub trait GuardedOutboxHarness: OutboxHarness {
    /// Tries to break a rule with SQL of its own, on a row of this event, and says whether the
    /// database let it happen. A refused attempt MUST leave every row as it was.
    fn tamper(
        &self,
        tampering: Tampering,
        event: &EventId,
    ) -> impl Future<Output = Tampered> + Send;

    /// Damages a stored row of this event past every guard, as a broken disk or a superuser would.
    fn damage(&self, damage: Damage, event: &EventId) -> impl Future<Output = ()> + Send;
}

/// What a store cannot read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// `outbox_event.aggregate_id` becomes one zero-width space, which is no identity.
    AggregateId,
    /// The event's attempt journal is gone, although a claim says that an attempt was admitted.
    JournalLost,
}

/// What a guard must refuse. `Change…` is an UPDATE to another valid value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tampering {
    /// UPDATE of `outbox_event.correlation_id`.
    ChangeEventMetadata,
    /// UPDATE of `outbox_event.envelope_bytes`.
    ChangeEnvelope,
    /// DELETE of the `outbox_event` row.
    DeleteEvent,
    /// UPDATE of `acceptance_certainty` in the attempt journal.
    ChangeObservation,
    /// DELETE of the event's rows in the attempt journal.
    DeleteObservations,
    /// UPDATE of `outbox_delivery.partition_key_text`.
    ChangePartitionKeyCopy,
    /// UPDATE of `outbox_delivery.aggregate_sequence`.
    ChangeSequenceCopy,
    /// UPDATE of `outbox_delivery.ordering_required`.
    ChangeOrderingCopy,
    /// UPDATE of `outbox_delivery.automatic_attempt_deadline`.
    ChangeDeadline,
    /// INSERT of a further CURRENT generation.
    SecondCurrentGeneration,
    /// UPDATE to `DELIVERY_RECORDED` without an accepted outcome.
    RecordWithoutAcknowledgement,
    /// UPDATE of the one-row resource table.
    ChangeResourceId,
    /// INSERT of a second row into the resource table.
    SecondResourceId,
    /// INSERT of a second ACTIVE epoch.
    SecondActiveEpoch,
    /// INSERT of a delivery, matching in every copy, for an event of a CDC epoch.
    DeliveryForCdcEvent,
    /// UPDATE of `outbox_publication_epoch.authority`.
    ChangeEpochAuthority,
    /// UPDATE from `READY` to `SKIPPED`.
    SkipReady,
    /// UPDATE from `EXHAUSTED` to `READY`.
    ReviveExhausted,
    /// UPDATE that counts `row_version` up by two.
    SkipRowVersion,
}

/// What the database did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tampered {
    /// It refused.
    Refused,
    /// It let it happen.
    Done,
}

/// One row of `outbox_delivery`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRow {
    /// `delivery_generation`
    pub generation: DeliveryGeneration,
    /// `state`
    pub state: DeliveryStateName,
    /// `claim_count`
    pub claim_count: u32,
    /// `publication_attempt_count`
    pub attempt_count: u32,
    /// `first_attempt_at`
    pub first_attempt_at: Option<DatabaseInstant>,
    /// `next_attempt_at`
    pub next_attempt_at: Option<DatabaseInstant>,
    /// `claim_owner`
    pub claim_owner: Option<WorkerId>,
    /// `claim_until`
    pub claim_until: Option<DatabaseInstant>,
    /// `last_outcome_certainty`
    pub last_certainty: Option<AcceptanceCertainty>,
    /// `last_failure_class`
    pub last_failure_class: Option<FailureClass>,
    /// `last_failure_stage`
    pub last_failure_stage: Option<FailureStage>,
    /// `provider_generation`
    pub provider_generation: Option<ProducerGeneration>,
    /// `provider_record_reference`
    pub record_reference: Option<String>,
    /// `delivery_recorded_at`
    pub delivery_recorded_at: Option<DatabaseInstant>,
    /// `row_version`
    pub row_version: i64,
    /// `created_at`
    pub created_at: DatabaseInstant,
    /// `automatic_attempt_deadline`
    pub automatic_attempt_deadline: DatabaseInstant,
}

/// What a row of the attempt journal says (requirement 004 §18.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservationType {
    /// `ATTEMPT_ADMITTED`
    AttemptAdmitted,
    /// `OUTCOME_OBSERVED`
    OutcomeObserved,
    /// `LATE_ACK_OBSERVED`
    LateAckObserved,
}

impl ObservationType {
    /// The value of a stable name, if it is one.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "ATTEMPT_ADMITTED" => Some(Self::AttemptAdmitted),
            "OUTCOME_OBSERVED" => Some(Self::OutcomeObserved),
            "LATE_ACK_OBSERVED" => Some(Self::LateAckObserved),
            _ => None,
        }
    }
}

/// One row of `outbox_delivery_attempt_observation`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservationRow {
    /// `delivery_generation`
    pub generation: DeliveryGeneration,
    /// `publication_attempt_id`
    pub attempt_id: PublicationAttemptId,
    /// `observation_sequence`
    pub sequence: i64,
    /// `observation_type`
    pub observation: ObservationType,
    /// `claim_token_digest`
    pub claim_token_digest: Sha256Digest,
    /// `producer_generation`
    pub producer_generation: ProducerGeneration,
    /// `destination_binding_revision`
    pub binding_revision: DestinationBindingRevision,
    /// `observed_at`
    pub observed_at: DatabaseInstant,
    /// `acceptance_certainty`
    pub certainty: Option<AcceptanceCertainty>,
    /// `retry_disposition`
    pub disposition: Option<RetryDisposition>,
    /// `failure_class`
    pub failure_class: Option<FailureClass>,
    /// `failure_stage`
    pub failure_stage: Option<FailureStage>,
    /// `provider_record_reference`
    pub record_reference: Option<String>,
}
