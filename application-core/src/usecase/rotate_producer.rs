//! One producer generation replaced by another.
//!
//! Invariant: two generations never send at once. The next one is let in when the old one is closed,
//! every permit of it is back, and every attempt under it has a durable outcome; a store that cannot
//! tell keeps the barrier shut. What the old generation left unresolved is `INDETERMINATE`, and the
//! head of its ordering scope `HOLD` (requirement 004 §16.10).

use crate::attempt_ledger::{AttemptLedger, OpenAttempt};
use crate::ports::{
    Disposition, DispositionCommand, DispositionConflict, DispositionOutcome, LifecycleError,
    MonotonicClockPort, OperatorAct, OutboxDeliveryPort, OutboxDispositionPort, OutboxQueryPort,
    OutcomeRecord, PausedGeneration, ProducerLifecyclePort, ProducerMaterialPort, RecordOutcome,
    RecordedAttempt, TimerPort,
};
use crate::rotation::{
    Material, Rotation, RotationBoard, RotationCause, RotationEnd, RotationFact, RotationStep,
};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::RowVersion;
use domain_core::instant::MonotonicInstant;
use domain_core::publication::{
    AttemptBudget, FailureClass, FailureStage, PublicationFailure, PublicationOutcome,
    RelayDecision, RetryDisposition, RetryPolicy, decide,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long one look at a barrier that is shut waits for permits.
const BARRIER_LOOK: Duration = Duration::from_millis(500);

/// The ports of a rotation.
#[derive(Clone)]
pub struct RotationPorts {
    /// The generations.
    pub lifecycle: Arc<dyn ProducerLifecyclePort>,
    /// Secrets and settings.
    pub material: Arc<dyn ProducerMaterialPort>,
    /// Tx C and the look-up, without a ledger around them.
    pub deliveries: Arc<dyn OutboxDeliveryPort>,
    /// Holds the head of a scope whose claim lapsed.
    pub dispositions: Arc<dyn OutboxDispositionPort>,
    /// Tells whether a lapsed claim is still nobody else's.
    pub query: Arc<dyn OutboxQueryPort>,
    /// The process's monotonic clock.
    pub clock: Arc<dyn MonotonicClockPort>,
    /// Pauses.
    pub timer: Arc<dyn TimerPort>,
}

/// The bounds of a rotation.
#[derive(Debug, Clone)]
pub struct RotationSettings {
    /// How long attempts under way may end by themselves.
    pub drain_limit: Duration,
    /// How long what was given up may take to be recorded before the old generation is closed; the
    /// barrier asks for the rest.
    pub record_limit: Duration,
    /// How long one wait for the old client's end lasts.
    pub close_limit: Duration,
    /// How long after the first failure of new material a generation of the previous one may go on.
    pub previous_limit: Duration,
    /// The first wait before another try.
    pub minimum_delay: Duration,
    /// The longest such wait.
    pub maximum_delay: Duration,
    /// When what is not held may be sent again.
    pub retry: RetryPolicy,
    /// Who holds a scope whose claim lapsed, and why.
    pub act: OperatorAct,
}

#[derive(Default)]
struct Memory {
    delay: Option<Duration>,
    previous_until: Option<MonotonicInstant>,
}

/// Replaces producer generations, one at a time.
pub struct RotateProducer {
    ports: RotationPorts,
    settings: RotationSettings,
    ledger: Arc<AttemptLedger>,
    board: RotationBoard,
    memory: Mutex<Memory>,
}

impl RotateProducer {
    /// Over the ledger that the relay's transactions are entered into.
    pub fn new(
        ports: RotationPorts,
        settings: RotationSettings,
        ledger: Arc<AttemptLedger>,
    ) -> Self {
        Self {
            ports,
            settings,
            ledger,
            board: RotationBoard::default(),
            memory: Mutex::default(),
        }
    }

    /// What is shown of it.
    pub fn board(&self) -> RotationBoard {
        self.board.clone()
    }

    /// How long a generation of the previous material may still go on; `None` when the material at
    /// work is the newest.
    pub fn previous_left(&self) -> Option<Duration> {
        let until = self.memory().previous_until?;
        Some(self.ports.clock.now().until(until))
    }

    /// Runs one rotation to its end. It ends when a generation admits records, when only an operator
    /// may go on, or with the process; until then it tries. Nobody else may run one meanwhile.
    pub async fn execute(&self, cause: RotationCause) -> RotationEnd {
        self.board.change(|view| {
            view.cause = Some(cause);
            view.open_attempts = 0;
        });
        let mut rotation = Rotation::begin(cause);
        loop {
            self.board.stands(rotation.step);
            if let RotationStep::Done(end) = rotation.step {
                self.ended(end);
                return end;
            }
            let fact = self.take(rotation).await;
            match rotation.next(fact) {
                Ok(next) => rotation = next,
                // What has no other way out is taken again.
                Err(_) => self.ports.timer.pause(self.settings.minimum_delay).await,
            }
        }
    }

    async fn take(&self, rotation: Rotation) -> RotationFact {
        use RotationFact as Fact;
        let (lifecycle, settings) = (&self.ports.lifecycle, &self.settings);
        let done = match rotation.step {
            RotationStep::Pausing => lifecycle.pause().await.map(|paused| {
                self.weigh(rotation.cause, &paused);
                Fact::Paused
            }),
            RotationStep::Draining => {
                let drained = lifecycle.drain(settings.drain_limit).await;
                drained.map(|_| Fact::Drained)
            }
            RotationStep::Recording => self.record_unresolved().await,
            RotationStep::Closing => {
                let closed = lifecycle.close(settings.close_limit).await;
                closed.map(|closed| match closed {
                    true => Fact::Closed,
                    false => Fact::StillClosing,
                })
            }
            RotationStep::Waiting => {
                self.ports.timer.pause(self.next_delay()).await;
                Ok(Fact::WaitOver)
            }
            RotationStep::Resolving => self.ports.material.resolve().await.map(|()| Fact::Resolved),
            RotationStep::Creating(material) => {
                lifecycle.create(material).await.map(|_| Fact::Created)
            }
            RotationStep::Attesting(_) => lifecycle.attest().await.map(|()| Fact::Attested),
            RotationStep::Barrier(_) => self.barrier().await,
            RotationStep::Resuming(material) => self.resume(material).await,
            RotationStep::Done(_) => Ok(Fact::ProcessStops),
        };
        done.unwrap_or_else(|error| self.failed(rotation.step, &error))
    }

    /// Gives up what is still awaited, and records it.
    async fn record_unresolved(&self) -> Result<RotationFact, LifecycleError> {
        self.ledger.hold_unresolved();
        let left = self.ledger.open().len();
        self.board.change(|view| {
            view.open_attempts = left;
            view.abandoned += left as u64;
        });
        let fact = self
            .ports
            .lifecycle
            .abandon(self.settings.record_limit)
            .await?;
        if fact.permits_out == 0 {
            self.settle_open().await;
        }
        Ok(RotationFact::Recorded)
    }

    async fn barrier(&self) -> Result<RotationFact, LifecycleError> {
        let fact = self.ports.lifecycle.abandon(BARRIER_LOOK).await?;
        // A worker that still has a permit records its own attempt.
        if fact.permits_out == 0 && self.settle_open().await {
            return Ok(RotationFact::BarrierOpen);
        }
        self.ports.timer.pause(self.settings.minimum_delay).await;
        Ok(RotationFact::BarrierShut)
    }

    async fn resume(&self, material: Material) -> Result<RotationFact, LifecycleError> {
        let generation = self.ports.lifecycle.resume().await?;
        self.ledger.record_as_decided();
        if material == Material::New {
            self.memory().previous_until = None;
        }
        self.board
            .change(|view| view.generation = Some(generation.clone()));
        Ok(RotationFact::Resumed)
    }

    /// Asks the store about every attempt that is open, and ends what nobody ended. Tells whether none
    /// is left.
    async fn settle_open(&self) -> bool {
        for open in self.ledger.open() {
            if self.settle(&open).await {
                self.ledger.settle(&open.attempt.attempt_id);
            }
        }
        let left = self.ledger.open().len();
        self.board.change(|view| view.open_attempts = left);
        left == 0
    }

    /// Whether the attempt has a durable outcome now.
    async fn settle(&self, open: &OpenAttempt) -> bool {
        let attempt = &open.attempt;
        let found = self
            .ports
            .deliveries
            .find_attempt(&attempt.claim_token, &attempt.attempt_id)
            .await;
        match found {
            Ok(RecordedAttempt::Closed(_) | RecordedAttempt::Unknown) => true,
            Ok(RecordedAttempt::Lost) => self.settle_lapsed(open).await,
            Ok(RecordedAttempt::Open(_)) => {
                match self
                    .ports
                    .deliveries
                    .record_outcome(&self.given_up(open))
                    .await
                {
                    Ok(RecordOutcome::Recorded(_)) => true,
                    Ok(RecordOutcome::Stale) => self.settle_lapsed(open).await,
                    Err(_) => false,
                }
            }
            Err(_) => false,
        }
    }

    /// The lease lapsed. A scope that does not wait goes on with a claim, whose Tx B closes the attempt
    /// as `INDETERMINATE` before anything is sent; one that waits is held, unless another claim or an
    /// operator closed the attempt already.
    async fn settle_lapsed(&self, open: &OpenAttempt) -> bool {
        if !open.ordering_required {
            return true;
        }
        match self.ports.query.find_delivery(&open.attempt.event_id).await {
            Ok(Some(found)) => {
                let unchanged = found.state == DeliveryStateName::Claimed
                    && found.generation == open.attempt.generation
                    && found.attempt_count == open.attempt_count;
                !unchanged || self.hold_lapsed(open).await
            }
            Ok(None) => true,
            Err(_) => false,
        }
    }

    fn given_up(&self, open: &OpenAttempt) -> OutcomeRecord {
        let outcome = PublicationOutcome::Indeterminate(PublicationFailure {
            stage: FailureStage::Shutdown,
            class: FailureClass::ClientClosed,
            disposition: if open.ordering_required {
                RetryDisposition::OperatorHold
            } else {
                RetryDisposition::RetryWithinBudget
            },
        });
        let used = open.attempt_count;
        OutcomeRecord {
            attempt: open.attempt.clone(),
            owner: open.owner.clone(),
            producer_generation: open.producer_generation.clone(),
            binding_revision: open.binding_revision.clone(),
            decision: if open.ordering_required {
                RelayDecision::Hold
            } else {
                decide(&outcome, AttemptBudget { used }, &self.settings.retry, 0)
            },
            outcome,
        }
    }

    /// Holds a lapsed claim's delivery, which closes its attempt as `INDETERMINATE`.
    async fn hold_lapsed(&self, open: &OpenAttempt) -> bool {
        let mut command = DispositionCommand {
            event_id: open.attempt.event_id.clone(),
            generation: open.attempt.generation,
            row_version: RowVersion::FIRST,
            disposition: Disposition::Hold,
            act: self.settings.act.clone(),
        };
        // The first answer tells the row version; should the row move in between, the next look does
        // it again.
        for _ in 0..2 {
            match self.ports.dispositions.apply(&command).await {
                Ok(DispositionOutcome::Applied(_)) => return true,
                Ok(DispositionOutcome::Conflict(DispositionConflict::RowVersion(actual))) => {
                    command.row_version = actual;
                }
                // Somebody else's claim or act came first, and closed the attempt.
                Ok(DispositionOutcome::Conflict(_)) => return true,
                Err(_) => return false,
            }
        }
        false
    }

    fn failed(&self, step: RotationStep, error: &LifecycleError) -> RotationFact {
        let class = match error {
            LifecycleError::Misrouted => {
                self.board
                    .change(|view| view.last_failure = Some(FailureClass::DestinationMismatch));
                return RotationFact::Misrouted;
            }
            LifecycleError::ProcessStops => return RotationFact::ProcessStops,
            LifecycleError::Failed { class, .. } => *class,
        };
        self.board.change(|view| view.last_failure = Some(class));
        match step {
            RotationStep::Draining => RotationFact::Drained,
            RotationStep::Recording => RotationFact::Recorded,
            RotationStep::Closing => RotationFact::StillClosing,
            RotationStep::Barrier(_) => RotationFact::BarrierShut,
            _ => RotationFact::Failed {
                previous_allowed: self.previous_allowed(),
            },
        }
    }

    /// Whether the previous material may be used, from the first failure of the new one on.
    fn previous_allowed(&self) -> bool {
        let now = self.ports.clock.now();
        let mut memory = self.memory();
        let until = *memory
            .previous_until
            .get_or_insert_with(|| now.plus(self.settings.previous_limit));
        !now.until(until).is_zero()
    }

    /// A generation that worked earns the next one a prompt start; one that its first record stopped
    /// does not.
    fn weigh(&self, cause: RotationCause, paused: &PausedGeneration) {
        let sound = matches!(cause, RotationCause::Asked | RotationCause::SecretChanged);
        if paused.had_acknowledged || sound {
            self.memory().delay = None;
        }
    }

    fn next_delay(&self) -> Duration {
        let mut memory = self.memory();
        let delay = memory.delay.unwrap_or(self.settings.minimum_delay);
        memory.delay = Some((delay * 2).min(self.settings.maximum_delay));
        delay
    }

    fn ended(&self, end: RotationEnd) {
        self.board.change(|view| match end {
            RotationEnd::Renewed => view.renewed += 1,
            RotationEnd::FellBack => view.fell_back += 1,
            RotationEnd::Misrouted | RotationEnd::Stopped => {}
        });
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        // Every change is one step, so a panicking holder leaves nothing half done.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
