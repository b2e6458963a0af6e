//! The relay over many ordering scopes at once: one Tx B for a window of records, one Tx C for the
//! outcomes that have arrived.
//!
//! Invariant: everything that holds for a record relayed alone holds for each record of a window
//! (requirement 004 §§18.3, 18.8, 19.2). A window is no barrier: records under way never keep the
//! worker from claiming others or from recording those that are done.

use super::RelaySettings;
use super::attempt::{Attempted, Attempting};
use crate::late_queue::LateObservationQueue;
use crate::ports::{
    AdmissionRefusal, Admissions, ClaimError, ClaimedDelivery, EntropyPort, EnvelopeCodec,
    FindAttemptError, FreshAttempt, MonotonicClockPort, OutboxDeliveryPort,
    OutboxMessagePublishPort, OutboxWindowPort, OutcomeRecord, PartitionShare,
    PublicationAdmissionPort, PublicationPermit, RecordError, RecordOutcome, RecordedAttempt,
    RelayReport, RelayReporter, SpentDelivery, TimerPort, WindowClaim, WindowRequest,
};
use domain_core::identity::{EventId, ProducerGeneration, PublicationAttemptId};
use domain_core::instant::MonotonicInstant;
use futures_util::future::{BoxFuture, Either, FutureExt as _, select};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// The first pause before Tx C is tried again; it doubles.
const RECORD_PAUSE: Duration = Duration::from_millis(50);
/// The longest such pause.
const LONGEST_RECORD_PAUSE: Duration = Duration::from_secs(1);

/// What a worker of the window card was configured with.
#[derive(Debug, Clone)]
pub struct WindowSettings {
    /// What it shares with the per-record card. The lease outlasts the window's enqueue time, the
    /// attempt budget, the wait for outcomes and a margin; the configuration compiler proved it.
    pub relay: RelaySettings,
    /// Records under way at once, at most.
    pub records: NonZeroU32,
    /// The scopes that the worker looks at, until it is told to look elsewhere.
    pub share: PartitionShare,
    /// The longest wait for an outcome while there is room for another claim.
    pub poll_interval: Duration,
}

/// The ports of a worker.
#[derive(Clone)]
pub struct WindowPorts {
    /// Permits.
    pub admission: Arc<dyn PublicationAdmissionPort>,
    /// Tx B and Tx C of a window.
    pub windows: Arc<dyn OutboxWindowPort>,
    /// The look-up after a lost commit reply.
    pub deliveries: Arc<dyn OutboxDeliveryPort>,
    /// The broker.
    pub publisher: Arc<dyn OutboxMessagePublishPort>,
    /// Reads identities back before a send.
    pub codec: Arc<dyn EnvelopeCodec>,
    /// The process's monotonic clock.
    pub clock: Arc<dyn MonotonicClockPort>,
    /// Pauses.
    pub timer: Arc<dyn TimerPort>,
    /// Tokens, attempt ids and jitter.
    pub entropy: Arc<dyn EntropyPort>,
    /// Told after each transition.
    pub reporter: Arc<dyn RelayReporter>,
    /// Takes acknowledgements whose claim lapsed before they were recorded.
    pub late: Arc<LateObservationQueue>,
}

/// What a turn found when it asked for more work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// Records were claimed, or there was no room to ask.
    Flowing,
    /// No eligible row so far; the next turn looks on from there.
    Searching,
    /// No eligible row.
    Dry,
    /// No permit; nothing was claimed.
    Refused(AdmissionRefusal),
}

/// What one turn did.
#[derive(Debug)]
pub struct WindowTurn {
    /// What it found when it asked for more work.
    pub supply: Supply,
    /// Rows that went to `EXHAUSTED` without a send.
    pub spent: Vec<SpentDelivery>,
    /// Outcomes that are persisted.
    pub persisted: u64,
    /// Claims that had lapsed before their outcome could be recorded.
    pub stale: Vec<(EventId, PublicationAttemptId)>,
    /// Records still under way.
    pub under_way: usize,
}

/// Why a turn has no result. Rows are left as they were, or claimed until their lease lapses.
#[derive(Debug, thiserror::Error)]
pub enum WindowError {
    /// Tx B failed. Records under way go on with the next turn.
    #[error("the relay could not claim a window")]
    Claim(#[source] ClaimError),
    /// Tx B was not answered, and the look-up failed too.
    #[error("the relay does not know what it claimed")]
    ClaimUnknown(#[source] FindAttemptError),
    /// Tx C failed until the leases lapsed; the records may be sent again.
    #[error("the relay could not record {records} outcomes")]
    Record {
        /// How many.
        records: usize,
        /// Why.
        #[source]
        source: RecordError,
    },
    /// Tx C was not answered, and the look-up failed until the leases lapsed.
    #[error("the relay does not know whether it recorded {records} outcomes")]
    RecordUnknown {
        /// How many.
        records: usize,
        /// Why.
        #[source]
        source: FindAttemptError,
    },
}

/// One record under way, with its permit and the end of its lease.
struct Done {
    attempted: Attempted,
    permit: PublicationPermit,
    lapses: MonotonicInstant,
}

/// One worker of the window card.
pub struct RelayWindow {
    store: StoreSide,
    under_way: FuturesUnordered<BoxFuture<'static, Done>>,
    /// Whether the last wait brought no outcome: the room that is left is used, however small.
    stalled: bool,
}

impl RelayWindow {
    /// A worker with nothing under way.
    pub fn new(ports: WindowPorts, settings: WindowSettings) -> Self {
        Self {
            store: StoreSide {
                ports,
                share: settings.share,
                settings: Arc::new(settings),
            },
            under_way: FuturesUnordered::new(),
            stalled: false,
        }
    }

    /// Records under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Looks at other scopes from the next claim on. Shares may overlap those of other workers.
    pub fn look_at(&mut self, share: PartitionShare) {
        self.store.share = share;
    }

    /// One turn: claims what there is room for, waits for outcomes, records them.
    ///
    /// # Errors
    /// [`WindowError`]; the next turn may be taken after a pause.
    pub async fn turn(&mut self) -> Result<WindowTurn, WindowError> {
        let (supply, spent) = self.supply().await?;
        self.settle(supply, spent).await
    }

    /// One turn that claims nothing more; for an orderly stop, until nothing is under way.
    ///
    /// # Errors
    /// [`WindowError`].
    pub async fn finish_turn(&mut self) -> Result<WindowTurn, WindowError> {
        self.settle(Supply::Flowing, Vec::new()).await
    }

    async fn settle(
        &mut self,
        supply: Supply,
        spent: Vec<SpentDelivery>,
    ) -> Result<WindowTurn, WindowError> {
        let done = self.outcomes().await;
        let (persisted, stale) = if done.is_empty() {
            (0, Vec::new())
        } else {
            self.store.record(&done).await?
        };
        Ok(WindowTurn {
            supply,
            spent,
            persisted,
            stale,
            under_way: self.under_way.len(),
        })
    }

    /// Tx B, when at least three quarters of the window are free or what is under way does not end.
    async fn supply(&mut self) -> Result<(Supply, Vec<SpentDelivery>), WindowError> {
        let records = self.store.settings.records.get();
        let free = records.saturating_sub(u32::try_from(self.under_way.len()).unwrap_or(u32::MAX));
        let worth_it = |free: &NonZeroU32| self.stalled || free.get() >= records - records / 4;
        let Some(most) = NonZeroU32::new(free).filter(worth_it) else {
            return Ok((Supply::Flowing, Vec::new()));
        };
        let permits = match self.store.ports.admission.admit_up_to(most).await {
            Admissions::Granted(permits) => permits,
            // Other workers hold them; what is under way here goes on.
            Admissions::Refused(AdmissionRefusal::Saturated) if !self.under_way.is_empty() => {
                return Ok((Supply::Flowing, Vec::new()));
            }
            Admissions::Refused(refusal) => return Ok((Supply::Refused(refusal), Vec::new())),
        };
        let Some(generation) = permits.first().map(|permit| permit.generation().clone()) else {
            return Ok((Supply::Refused(AdmissionRefusal::Saturated), Vec::new()));
        };
        let claim_began = self.store.ports.clock.now();
        let claim = self.store.claim(permits.len(), generation).await?;
        let supply = match (
            claim.claimed.is_empty() && claim.spent.is_empty(),
            claim.unfinished,
        ) {
            (false, _) => Supply::Flowing,
            (true, true) => Supply::Searching,
            (true, false) => Supply::Dry,
        };
        for (claimed, permit) in claim.claimed.into_iter().zip(permits) {
            self.start(claimed, permit, claim_began);
        }
        Ok((supply, claim.spent))
    }

    fn start(
        &mut self,
        claimed: ClaimedDelivery,
        permit: PublicationPermit,
        claim_began: MonotonicInstant,
    ) {
        let attempting = Attempting {
            publisher: Arc::clone(&self.store.ports.publisher),
            codec: Arc::clone(&self.store.ports.codec),
            clock: Arc::clone(&self.store.ports.clock),
        };
        let settings = Arc::clone(&self.store.settings);
        self.under_way.push(
            async move {
                let relay = &settings.relay;
                let lapses = claim_began.plus(relay.lease);
                let attempted = attempting.attempt(relay, claimed, claim_began).await;
                Done {
                    attempted,
                    permit,
                    lapses,
                }
            }
            .boxed(),
        );
    }

    /// Waits for the first outcome, one poll interval at most, and gathers for another, so that one
    /// transaction records many; what is under way for longer waits for nobody.
    async fn outcomes(&mut self) -> Vec<Done> {
        self.stalled = false;
        let mut done = Vec::new();
        for wanted in [1, usize::MAX] {
            let interval = self.store.settings.poll_interval;
            let mut pause = self.store.ports.timer.pause(interval);
            while done.len() < wanted && !self.under_way.is_empty() {
                match select(self.under_way.next(), pause).await {
                    Either::Left((next, rest)) => {
                        done.extend(next);
                        pause = rest;
                    }
                    Either::Right(_) => break,
                }
            }
            if done.is_empty() {
                self.stalled = !self.under_way.is_empty();
                break;
            }
        }
        // What came with the end of the pause.
        while let Some(Some(next)) = self.under_way.next().now_or_never() {
            done.push(next);
        }
        done
    }
}

/// What a worker asks of the store; it holds no record under way.
struct StoreSide {
    ports: WindowPorts,
    settings: Arc<WindowSettings>,
    share: PartitionShare,
}

impl StoreSide {
    /// Tx B, each attempt looked up when its answer was lost.
    async fn claim(
        &self,
        permits: usize,
        producer_generation: ProducerGeneration,
    ) -> Result<WindowClaim, WindowError> {
        let relay = &self.settings.relay;
        let request = WindowRequest {
            owner: relay.owner.clone(),
            attempts: (0..permits)
                .map(|_| FreshAttempt {
                    token: self.ports.entropy.claim_token(),
                    attempt_id: self.ports.entropy.attempt_id(),
                })
                .collect(),
            producer_generation,
            lease: relay.lease,
            attempt_budget: relay.attempt_budget,
            maximum_attempts: relay.retry.maximum_attempts(),
            known: Arc::clone(&relay.known),
            share: self.share,
        };
        match self.ports.windows.claim_window(&request).await {
            Ok(claim) => Ok(claim),
            Err(ClaimError::OutcomeUnknown(_)) => {
                let mut claim = WindowClaim::default();
                for attempt in &request.attempts {
                    let found = self
                        .ports
                        .deliveries
                        .find_attempt(&attempt.token, &attempt.attempt_id)
                        .await
                        .map_err(WindowError::ClaimUnknown)?;
                    match found {
                        RecordedAttempt::Open(claimed) => claim.claimed.push(*claimed),
                        // A commit that was on its way may still happen; its leases will lapse.
                        RecordedAttempt::Unknown
                        | RecordedAttempt::Closed(_)
                        | RecordedAttempt::Lost => {}
                    }
                }
                Ok(claim)
            }
            Err(error) => Err(WindowError::Claim(error)),
        }
    }

    /// Tx C for everything that is done, tried until the first of the leases lapses.
    async fn record(
        &self,
        done: &[Done],
    ) -> Result<(u64, Vec<(EventId, PublicationAttemptId)>), WindowError> {
        let records: Vec<OutcomeRecord> = done
            .iter()
            .map(|one| {
                one.attempted.record(
                    &self.settings.relay,
                    one.permit.generation().clone(),
                    self.ports.entropy.jitter(),
                )
            })
            .collect();
        let lapses = done.iter().map(|one| one.lapses).min();
        let outcomes = self
            .persist(&records, lapses.unwrap_or_else(|| self.ports.clock.now()))
            .await?;
        let mut persisted = 0;
        let mut stale = Vec::new();
        for (one, outcome) in done.iter().zip(outcomes) {
            match outcome {
                RecordOutcome::Recorded(state) => {
                    persisted += 1;
                    let report: RelayReport = one.attempted.report(state);
                    // A report that is not taken changes nothing.
                    let _ = self.ports.reporter.report(&report);
                }
                RecordOutcome::Stale => {
                    one.attempted
                        .leave_late(one.permit.generation(), &self.ports.late);
                    let attempt = &one.attempted.claimed.attempt;
                    stale.push((attempt.event_id.clone(), attempt.attempt_id.clone()));
                }
            }
        }
        Ok((persisted, stale))
    }

    async fn persist(
        &self,
        records: &[OutcomeRecord],
        lapses: MonotonicInstant,
    ) -> Result<Vec<RecordOutcome>, WindowError> {
        let mut settled: Vec<Option<RecordOutcome>> = vec![None; records.len()];
        let mut unanswered = false;
        let mut pause = RECORD_PAUSE;
        loop {
            let trouble = match self
                .try_record(records, &mut settled, &mut unanswered)
                .await
            {
                Ok(()) => return Ok(settled.into_iter().flatten().collect()),
                Err(trouble) => trouble,
            };
            if self.ports.clock.now().plus(pause) >= lapses {
                return Err(trouble);
            }
            self.ports.timer.pause(pause).await;
            pause = (pause * 2).min(LONGEST_RECORD_PAUSE);
        }
    }

    /// One try for what is not settled yet. After an unanswered commit the store is asked first:
    /// what it does not know as closed is recorded again.
    async fn try_record(
        &self,
        records: &[OutcomeRecord],
        settled: &mut [Option<RecordOutcome>],
        unanswered: &mut bool,
    ) -> Result<(), WindowError> {
        if *unanswered {
            self.look_up(records, settled).await?;
        }
        let (open, places): (Vec<OutcomeRecord>, Vec<usize>) = records
            .iter()
            .enumerate()
            .filter(|(place, _)| settled[*place].is_none())
            .map(|(place, record)| (record.clone(), place))
            .unzip();
        if open.is_empty() {
            return Ok(());
        }
        match self.ports.windows.record_window(&open).await {
            Ok(outcomes) => {
                for (place, outcome) in places.into_iter().zip(outcomes) {
                    // After an unanswered commit, stale may only mean that it did happen.
                    settled[place] = match outcome {
                        RecordOutcome::Stale if *unanswered => self
                            .closed(&records[place], records.len())
                            .await?
                            .or(Some(RecordOutcome::Stale)),
                        outcome => Some(outcome),
                    };
                }
                Ok(())
            }
            Err(source) => {
                *unanswered |= matches!(source, RecordError::OutcomeUnknown(_));
                Err(WindowError::Record {
                    records: open.len(),
                    source,
                })
            }
        }
    }

    async fn look_up(
        &self,
        records: &[OutcomeRecord],
        settled: &mut [Option<RecordOutcome>],
    ) -> Result<(), WindowError> {
        for (record, outcome) in records.iter().zip(settled) {
            if outcome.is_none() {
                *outcome = self.closed(record, records.len()).await?;
            }
        }
        Ok(())
    }

    /// What became of an attempt, unless it is still open.
    async fn closed(
        &self,
        record: &OutcomeRecord,
        records: usize,
    ) -> Result<Option<RecordOutcome>, WindowError> {
        let attempt = &record.attempt;
        let found = self
            .ports
            .deliveries
            .find_attempt(&attempt.claim_token, &attempt.attempt_id)
            .await
            .map_err(|source| WindowError::RecordUnknown { records, source })?;
        Ok(match found {
            RecordedAttempt::Closed(state) => Some(RecordOutcome::Recorded(state)),
            RecordedAttempt::Lost | RecordedAttempt::Unknown => Some(RecordOutcome::Stale),
            RecordedAttempt::Open(_) => None,
        })
    }
}
