//! What a composed process is made of.
//!
//! Invariant: the same relay, late drain and readiness run over either tuple.

use super::compiled::Compiled;
use super::milestones::{Milestone, Milestones};
use super::provider::Provider;
use super::rotation;
use crate::config::OutboxProfile;
use crate::runtime::{
    Alarm, LogReporter, ProcessClock, ProcessEntropy, ProcessTimer, Readiness, ReadinessReason,
    RelayCard, RelayCounters, RelayWorkers, RotationRequest, Scouts, StopSignal, StopSwitch,
    apply_retention, drain_late_observations, watch_capacity, watch_unknown_backlog,
};
use application_core::attempt_ledger::{AttemptLedger, LedgeredDeliveries, LedgeredWindows};
use application_core::late_queue::LateObservationQueue;
use application_core::ports::{
    KnownRecord, OutboxAttemptObservationPort, OutboxCapacityPort, OutboxDeliveryPort,
    OutboxDispositionPort, OutboxMessagePublishPort, OutboxQueryPort, OutboxRetentionPort,
    OutboxWindowPort, PartitionShare,
};
use application_core::rotation::{RotationBoard, RotationView};
use application_core::usecase::{RelayOneRecord, RelaySettings, WindowPorts, WindowSettings};
use domain_core::identity::WorkerId;
use outbound_journal::Journal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Late observations that one transaction writes.
const LATE_BATCH: usize = 100;
/// Acknowledgements of lapsed claims kept at most.
const LAPSED_CAPACITY: usize = 10_000;
/// How often late observations are drained.
const LATE_INTERVAL: Duration = Duration::from_millis(500);
/// How often unknown rows are counted.
const BACKLOG_INTERVAL: Duration = Duration::from_secs(5);

/// The relay's side of a store.
#[derive(Clone)]
pub struct RelayPorts {
    /// Tx B and Tx C.
    pub deliveries: Arc<dyn OutboxDeliveryPort>,
    /// Late observations.
    pub observations: Arc<dyn OutboxAttemptObservationPort>,
    /// Reads.
    pub query: Arc<dyn OutboxQueryPort>,
    /// Tx B and Tx C of the window card.
    pub windows: Arc<dyn OutboxWindowPort>,
    /// How full the outbox is.
    pub capacity: Arc<dyn OutboxCapacityPort>,
    /// Removes what is resolved.
    pub retention: Arc<dyn OutboxRetentionPort>,
    /// Holds the head of a scope whose claim lapsed during a rotation.
    pub dispositions: Arc<dyn OutboxDispositionPort>,
}

impl RelayPorts {
    /// The same ports, every claim and outcome of the relay entered into the ledger.
    fn entered_into(self, ledger: &Arc<AttemptLedger>) -> Self {
        Self {
            deliveries: Arc::new(LedgeredDeliveries::new(self.deliveries, Arc::clone(ledger))),
            windows: Arc::new(LedgeredWindows::new(self.windows, Arc::clone(ledger))),
            ..self
        }
    }
}

/// The running relay of one process.
pub struct RelaySystem {
    stop: StopSwitch,
    stop_late: StopSwitch,
    workers: Option<RelayWorkers>,
    counters: Arc<RelayCounters>,
    background: Vec<JoinHandle<()>>,
    readiness: Readiness,
    alarm: Alarm,
    drain_limit: Duration,
    rotation: Option<(RotationRequest, RotationBoard)>,
    milestones: Milestones,
}

impl RelaySystem {
    /// Starts relay workers, late drain and backlog watch. The provider is ready by now.
    /// `wrap` may put something around the publisher; the demo fails a record with it.
    pub fn start(
        compiled: &Compiled,
        ports: &RelayPorts,
        provider: &Provider,
        wrap: impl FnOnce(Arc<dyn OutboxMessagePublishPort>) -> Arc<dyn OutboxMessagePublishPort>,
    ) -> Self {
        let outbox = &compiled.profile.outbox;
        let known: Arc<[_]> = compiled.catalog.known_records().into();
        let publisher = crate::failpoints::around(wrap(provider.publisher()));
        let lapsed = Arc::new(LateObservationQueue::new(LAPSED_CAPACITY));
        let sending = Sending {
            publisher,
            lapsed: Arc::clone(&lapsed),
        };
        let ledger = Arc::new(AttemptLedger::new(LAPSED_CAPACITY + permits(outbox)));
        let replacing = rotation::compose(compiled, ports, provider, &ledger);
        let relay_ports = match &replacing {
            Some(_) => ports.clone().entered_into(&ledger),
            None => ports.clone(),
        };
        let card = relay_card(
            compiled,
            &relay_ports,
            provider,
            &sending,
            Arc::clone(&known),
        );
        let (stop, signal) = StopSwitch::new();
        let (stop_late, late_signal) = StopSwitch::new();
        let readiness = Readiness::default();
        let alarm = Alarm::default();
        let mut background = vec![
            tokio::spawn(alarm.clone().guard(drain_late_observations(
                Arc::clone(&ports.observations),
                vec![provider.late_observations(), lapsed],
                LATE_BATCH,
                readiness.clone(),
                LATE_INTERVAL,
                late_signal,
            ))),
            tokio::spawn(alarm.clone().guard(watch_unknown_backlog(
                Arc::clone(&ports.deliveries),
                known,
                readiness.clone(),
                BACKLOG_INTERVAL,
                signal.clone(),
            ))),
            tokio::spawn(
                alarm
                    .clone()
                    .guard(watch_journal(provider.journal().cloned(), signal.clone())),
            ),
        ];
        if let Some(profile) = outbox.capacity {
            let watch = watch_capacity(
                Arc::clone(&ports.capacity),
                profile,
                readiness.clone(),
                signal.clone(),
            );
            background.push(tokio::spawn(alarm.clone().guard(watch)));
        }
        if let Some(profile) = outbox.retention {
            let reaper = apply_retention(Arc::clone(&ports.retention), profile, signal.clone());
            background.push(tokio::spawn(alarm.clone().guard(reaper)));
        }
        let rotation = replacing.map(|replacing| {
            let shown = (replacing.request.clone(), replacing.board.clone());
            background.push(tokio::spawn(
                alarm.clone().guard(replacing.run(signal.clone())),
            ));
            shown
        });
        compiled.milestones.reach(Milestone::RelayStarted);
        let workers = RelayWorkers::start(card, &Scouts::default(), &readiness, &signal, &alarm);
        Self {
            counters: workers.counters(),
            workers: Some(workers),
            stop,
            stop_late,
            background,
            readiness,
            alarm,
            drain_limit: outbox.attempt_budget,
            rotation,
            milestones: compiled.milestones.clone(),
        }
    }

    /// Asks for another producer generation; tells whether this tuple has generations.
    pub fn rotate(&self) -> bool {
        if let Some((request, _)) = &self.rotation {
            request.ask();
        }
        self.rotation.is_some()
    }

    /// What is shown of rotations, where the tuple has them.
    pub fn rotations(&self) -> Option<RotationView> {
        self.rotation.as_ref().map(|(_, board)| board.view())
    }

    /// Why the relay cannot do its work, if it cannot.
    pub fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// Waits until a worker or another loop dies, which only a defect can cause.
    pub async fn died(&self) {
        self.alarm.raised().await;
    }

    /// Stops claiming and lets every attempt under way end within its budget (requirement 004
    /// §17.9, steps 1 to 4). Tells whether all ended in time; what did not keeps its claim until
    /// the lease lapses.
    pub async fn stop_claiming(&mut self) -> bool {
        self.readiness.set(ReadinessReason::Stopping, true);
        self.milestones.reach(Milestone::ReadinessRemoved);
        self.stop.stop();
        self.milestones.reach(Milestone::ClaimingStopped);
        let all_ended = match self.workers.take() {
            Some(workers) => workers.drained_within(self.drain_limit).await,
            None => true,
        };
        self.milestones.reach(match all_ended {
            true => Milestone::AttemptsEnded,
            false => Milestone::AttemptsLeft,
        });
        all_ended
    }

    /// Journals what came late, the acknowledgements of the producer's own drain included, and
    /// ends the loops. The store must still be open, the producer closed or idle.
    pub async fn finish(self) {
        self.stop_late.stop();
        for task in self.background {
            // A task that panicked was logged by the panic hook; there is nothing left to do.
            let _ = task.await;
        }
        self.milestones.reach(Milestone::LoopsEnded);
        tracing::info!(
            persisted = self.counters.persisted.load(Ordering::Relaxed),
            stale = self.counters.stale.load(Ordering::Relaxed),
            failed = self.counters.failed.load(Ordering::Relaxed),
            "relay stopped"
        );
    }
}

fn permits(outbox: &OutboxProfile) -> usize {
    usize::try_from(outbox.maximum_admitted_records).unwrap_or(usize::MAX / 2)
}

/// Where records go, and acknowledgements whose claim lapsed in the meantime.
struct Sending {
    publisher: Arc<dyn OutboxMessagePublishPort>,
    lapsed: Arc<LateObservationQueue>,
}

/// The workers of the tuple's claim card.
fn relay_card(
    compiled: &Compiled,
    ports: &RelayPorts,
    provider: &Provider,
    sending: &Sending,
    known: Arc<[KnownRecord]>,
) -> RelayCard {
    let outbox = &compiled.profile.outbox;
    let settings = RelaySettings {
        owner: worker_id(),
        lease: outbox.claim_lease,
        attempt_budget: outbox.attempt_budget,
        publish_budget: outbox.publish_budget,
        retry: outbox.retry.clone(),
        known,
    };
    match outbox.window {
        None => RelayCard::PerRecord {
            relay: Box::new(RelayOneRecord {
                admission: provider.admission(),
                deliveries: Arc::clone(&ports.deliveries),
                publisher: Arc::clone(&sending.publisher),
                codec: Arc::clone(&compiled.codec),
                clock: Arc::new(ProcessClock),
                timer: Arc::new(ProcessTimer),
                entropy: Arc::new(ProcessEntropy),
                reporter: Arc::new(LogReporter),
                late: Arc::clone(&sending.lapsed),
                settings,
            }),
            workers: outbox.maximum_admitted_records,
            poll_interval: outbox.poll_interval,
        },
        Some(window) => RelayCard::Window {
            ports: Box::new(WindowPorts {
                admission: provider.admission(),
                windows: Arc::clone(&ports.windows),
                deliveries: Arc::clone(&ports.deliveries),
                publisher: Arc::clone(&sending.publisher),
                codec: Arc::clone(&compiled.codec),
                clock: Arc::new(ProcessClock),
                timer: Arc::new(ProcessTimer),
                entropy: Arc::new(ProcessEntropy),
                reporter: Arc::new(LogReporter),
                late: Arc::clone(&sending.lapsed),
            }),
            settings: Box::new(WindowSettings {
                relay: settings,
                records: window.records,
                share: PartitionShare::WHOLE,
                poll_interval: outbox.poll_interval,
            }),
            workers: window.workers,
        },
    }
}

/// Says once why the journal takes no further record, which no attempt's outcome can.
async fn watch_journal(journal: Option<Arc<Journal>>, mut stop: StopSignal) {
    let Some(journal) = journal else {
        return;
    };
    loop {
        if let Some(failure) = journal.failure() {
            let cause = crate::chain(failure.as_ref());
            tracing::error!(cause, "the journal takes no further record in this process");
            return;
        }
        if stop.stopped_within(BACKLOG_INTERVAL).await {
            return;
        }
    }
}

/// Names this process among the workers of a store.
fn worker_id() -> WorkerId {
    let name = format!("countersign-{}", uuid::Uuid::now_v7());
    WorkerId::parse(name).expect("a UUID's text is within the grammar")
}
