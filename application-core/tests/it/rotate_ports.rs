//! A producer and a store that the rotation's tests script.
//!
//! Invariant: the producer refuses what must never be asked of it, two generations at once first of all.

use crate::support::{Log, stored};
use application_core::ports::{
    AttemptIdentity, BacklogError, ClaimError, ClaimOutcome, ClaimRequest, ClaimedDelivery,
    DeliverySummary, Disposed, DispositionCommand, DispositionConflict, DispositionError,
    DispositionOutcome, DrainFact, FindAttemptError, KnownRecord, LifecycleError, OutboxCounts,
    OutboxDeliveryPort, OutboxDispositionPort, OutboxQueryPort, OutcomeRecord, PausedGeneration,
    ProducerLifecyclePort, ProducerMaterialPort, QueryError, RecordError, RecordOutcome,
    RecordedAttempt, RenewOutcome, RenewRequest, UnknownBacklog,
};
use application_core::rotation::Material;
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::*;
use domain_core::instant::DatabaseInstant;
use domain_core::publication::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The producer: what it is, and what is to fail, and how often.
#[derive(Default)]
pub(crate) struct Producer {
    pub(crate) log: Log,
    pub(crate) at_work: Mutex<Option<u32>>,
    pub(crate) retiring: Mutex<bool>,
    pub(crate) candidate: Mutex<Option<(u32, bool)>>,
    pub(crate) made: Mutex<u32>,
    pub(crate) permits_out: Mutex<usize>,
    pub(crate) fails: Mutex<Vec<(&'static str, usize)>>,
}

impl Producer {
    fn call(&self, name: &'static str) -> Result<(), LifecycleError> {
        self.log.note(name);
        let mut fails = self.fails.lock().expect("lock");
        if let Some(planted) = fails
            .iter_mut()
            .find(|(step, left)| *step == name && *left > 0)
        {
            planted.1 -= 1;
            return Err(LifecycleError::Failed {
                class: FailureClass::TlsFailed,
                source: "planted".into(),
            });
        }
        Ok(())
    }
}

pub(crate) fn id(number: u32) -> ProducerGeneration {
    ProducerGeneration::parse(format!("g-{number}")).expect("valid")
}

#[async_trait::async_trait]
impl ProducerMaterialPort for Producer {
    async fn resolve(&self) -> Result<(), LifecycleError> {
        self.call("resolve")
    }
}

#[async_trait::async_trait]
impl ProducerLifecyclePort for Producer {
    async fn pause(&self) -> Result<PausedGeneration, LifecycleError> {
        self.call("pause")?;
        let at_work = *self.at_work.lock().expect("lock");
        *self.retiring.lock().expect("lock") = at_work.is_some();
        Ok(PausedGeneration {
            generation: at_work.map(id),
            had_acknowledged: true,
        })
    }

    async fn drain(&self, _: Duration) -> Result<DrainFact, LifecycleError> {
        self.call("drain")?;
        Ok(DrainFact::default())
    }

    async fn abandon(&self, _: Duration) -> Result<DrainFact, LifecycleError> {
        self.call("abandon")?;
        let mut permits_out = self.permits_out.lock().expect("lock");
        let fact = DrainFact {
            unresolved: 0,
            permits_out: *permits_out,
        };
        *permits_out = permits_out.saturating_sub(1);
        Ok(fact)
    }

    async fn close(&self, _: Duration) -> Result<bool, LifecycleError> {
        self.call("close")?;
        *self.at_work.lock().expect("lock") = None;
        Ok(true)
    }

    async fn create(&self, material: Material) -> Result<ProducerGeneration, LifecycleError> {
        assert_eq!(*self.at_work.lock().expect("lock"), None, "two generations");
        self.call(match material {
            Material::New => "create",
            Material::Previous => "create previous",
        })?;
        let mut made = self.made.lock().expect("lock");
        *made += 1;
        *self.candidate.lock().expect("lock") = Some((*made, false));
        Ok(id(*made))
    }

    async fn attest(&self) -> Result<(), LifecycleError> {
        let mut candidate = self.candidate.lock().expect("lock");
        assert!(candidate.is_some(), "nothing to attest");
        if let Err(error) = self.call("attest") {
            *candidate = None;
            return Err(error);
        }
        candidate.as_mut().expect("valid").1 = true;
        Ok(())
    }

    async fn resume(&self) -> Result<ProducerGeneration, LifecycleError> {
        self.call("resume")?;
        assert_eq!(
            *self.permits_out.lock().expect("lock"),
            0,
            "a permit is out"
        );
        let (number, attested) = self.candidate.lock().expect("lock").take().expect("valid");
        assert!(attested, "not attested");
        *self.at_work.lock().expect("lock") = Some(number);
        *self.retiring.lock().expect("lock") = false;
        Ok(id(number))
    }
}

/// What became of the claim's lease.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lapse {
    /// It lasts.
    No,
    /// It lapses between look-up and record.
    Between,
    /// It lapsed, and nobody claimed since.
    Before,
    /// It lapsed, and another process claimed since.
    Taken,
}

/// One event, claimed or not.
pub(crate) struct Store {
    pub(crate) log: Log,
    pub(crate) claimed: Mutex<Option<ClaimedDelivery>>,
    pub(crate) recorded: Mutex<Vec<OutcomeRecord>>,
    pub(crate) lapse: Mutex<Lapse>,
    pub(crate) away: Mutex<usize>,
    pub(crate) held: Mutex<u32>,
}

impl Store {
    pub(crate) fn new(log: Log) -> Self {
        Self {
            log,
            claimed: Mutex::default(),
            recorded: Mutex::default(),
            lapse: Mutex::new(Lapse::No),
            away: Mutex::default(),
            held: Mutex::default(),
        }
    }

    fn is_away(&self) -> bool {
        let mut away = self.away.lock().expect("lock");
        let is = *away > 0;
        *away = away.saturating_sub(1);
        is
    }
}

#[async_trait::async_trait]
impl OutboxDeliveryPort for Store {
    async fn claim_next(&self, request: &ClaimRequest) -> Result<ClaimOutcome, ClaimError> {
        let mut event = stored();
        event.ordering_required = request.maximum_attempts == 1;
        let claimed = ClaimedDelivery {
            attempt: AttemptIdentity {
                event_id: event.identities.event_id.clone(),
                generation: DeliveryGeneration::FIRST,
                attempt_id: request.attempt_id.clone(),
                claim_token: request.token,
            },
            owner: request.owner.clone(),
            event: Arc::new(event),
            claim_until: DatabaseInstant::from_epoch_micros(1),
            claim_count: 1,
            attempt_count: 1,
        };
        *self.claimed.lock().expect("lock") = Some(claimed.clone());
        Ok(ClaimOutcome::Claimed(Box::new(claimed)))
    }

    async fn record_outcome(&self, record: &OutcomeRecord) -> Result<RecordOutcome, RecordError> {
        if self.is_away() {
            return Err(RecordError::Unavailable("away".into()));
        }
        if *self.lapse.lock().expect("lock") != Lapse::No {
            return Ok(RecordOutcome::Stale);
        }
        self.log.note("record");
        *self.claimed.lock().expect("lock") = None;
        self.recorded.lock().expect("lock").push(record.clone());
        Ok(RecordOutcome::Recorded(record.decision.state()))
    }

    async fn renew(&self, _: &RenewRequest) -> Result<RenewOutcome, RecordError> {
        panic!("nobody renews")
    }

    async fn find_attempt(
        &self,
        _: &ClaimToken,
        _: &PublicationAttemptId,
    ) -> Result<RecordedAttempt, FindAttemptError> {
        if self.is_away() {
            return Err(FindAttemptError::Unavailable("away".into()));
        }
        let lapse = *self.lapse.lock().expect("lock");
        Ok(match self.claimed.lock().expect("lock").clone() {
            Some(_) if matches!(lapse, Lapse::Before | Lapse::Taken) => RecordedAttempt::Lost,
            Some(claimed) => RecordedAttempt::Open(Box::new(claimed)),
            None => RecordedAttempt::Closed(DeliveryStateName::Hold),
        })
    }

    async fn count_unknown(&self, _: &[KnownRecord]) -> Result<UnknownBacklog, BacklogError> {
        panic!("nobody counts")
    }
}

#[async_trait::async_trait]
impl OutboxDispositionPort for Store {
    async fn apply(
        &self,
        command: &DispositionCommand,
    ) -> Result<DispositionOutcome, DispositionError> {
        if self.is_away() {
            return Err(DispositionError::Unavailable("away".into()));
        }
        let actual = RowVersion::new(7).expect("valid");
        if command.row_version != actual {
            let conflict = DispositionConflict::RowVersion(actual);
            return Ok(DispositionOutcome::Conflict(conflict));
        }
        self.log.note("hold");
        *self.held.lock().expect("lock") += 1;
        *self.claimed.lock().expect("lock") = None;
        Ok(DispositionOutcome::Applied(Disposed {
            generation: command.generation,
            state: DeliveryStateName::Hold,
            row_version: actual,
        }))
    }
}

#[async_trait::async_trait]
impl OutboxQueryPort for Store {
    async fn counts(&self) -> Result<OutboxCounts, QueryError> {
        panic!("nobody counts")
    }

    async fn find_delivery(&self, id: &EventId) -> Result<Option<DeliverySummary>, QueryError> {
        if self.is_away() {
            return Err(QueryError::Unavailable("away".into()));
        }
        let claimed = self.claimed.lock().expect("lock").clone();
        let taken = *self.lapse.lock().expect("lock") == Lapse::Taken;
        Ok(claimed.map(|claimed| DeliverySummary {
            event_id: id.clone(),
            contract_id: claimed.event.identities.contract_id.clone(),
            envelope_sha256: claimed.event.envelope_sha256,
            generation: claimed.attempt.generation,
            state: DeliveryStateName::Claimed,
            claim_count: 1,
            attempt_count: claimed.attempt_count + u32::from(taken),
            last_certainty: None,
            last_failure_class: None,
            record_reference: None,
        }))
    }

    async fn deliveries_after(
        &self,
        _: Option<&EventId>,
        _: u32,
    ) -> Result<Vec<DeliverySummary>, QueryError> {
        panic!("nobody lists")
    }
}
