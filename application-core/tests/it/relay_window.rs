//! The window relay against scripted ports: no barrier, permits, lost replies, the lease.

use crate::support::{Clock, Log, Reporter, generation, identities, receipt, stored};
use application_core::event::{
    EventIdentities, IntegrationEventDraft, StoredOutboxEvent, ValidatedIntegrationEvent,
};
use application_core::late_queue::LateObservationQueue;
use application_core::ports::{
    Admission, AdmissionRefusal, Admissions, AttemptIdentity, BacklogError, ClaimError,
    ClaimOutcome, ClaimRequest, ClaimedDelivery, DecodeError, DecodedEnvelope, EncodeError,
    EntropyPort, EnvelopeCodec, FindAttemptError, KnownRecord,
    LatePublicationObservationSource as _, OutboxDeliveryPort, OutboxMessagePublishPort,
    OutboxWindowPort, OutcomeRecord, PartitionShare, PermitGuard, PublicationAdmissionPort,
    PublicationPermit, PublicationRequest, RecordError, RecordOutcome, RecordedAttempt,
    RenewOutcome, RenewRequest, TimerPort, UnknownBacklog, WindowClaim, WindowRequest,
};
use application_core::usecase::{
    RelaySettings, RelayWindow, Supply, WindowError, WindowPorts, WindowSettings,
};
use domain_core::delivery::DeliveryStateName;
use domain_core::hashing::{PartitionKey, envelope_sha256};
use domain_core::identity::*;
use domain_core::instant::DatabaseInstant;
use domain_core::publication::{AcceptanceCertainty, PublicationOutcome, RetryPolicy};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An event of an aggregate of its own, whose document is its id.
fn event(id: &str) -> StoredOutboxEvent {
    let identities = of(id);
    let envelope = id.as_bytes().to_vec();
    StoredOutboxEvent {
        partition_key: PartitionKey::derive(
            &identities.tenant_scope,
            &identities.destination,
            &identities.aggregate,
        ),
        envelope_sha256: envelope_sha256(&envelope),
        identities,
        envelope,
        ..stored()
    }
}

fn of(id: &str) -> EventIdentities {
    EventIdentities {
        event_id: EventId::parse(id).expect("id"),
        ..identities()
    }
}

struct Documents;

impl EnvelopeCodec for Documents {
    fn encode(
        &self,
        draft: &IntegrationEventDraft,
    ) -> Result<ValidatedIntegrationEvent, EncodeError> {
        Err(EncodeError::UnknownPayloadType {
            payload_type: draft.payload.payload_type().name(),
        })
    }

    fn read_identities(&self, envelope: &[u8]) -> Result<EventIdentities, DecodeError> {
        Ok(of(std::str::from_utf8(envelope).expect("an id")))
    }

    fn decode(&self, _: &[u8]) -> Result<DecodedEnvelope, DecodeError> {
        panic!("a relay decodes nothing")
    }
}

/// Counts permits that are out.
#[derive(Clone)]
struct Permits {
    free: Arc<AtomicUsize>,
}

struct Guard(Arc<AtomicUsize>);

impl PermitGuard for Guard {}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait::async_trait]
impl PublicationAdmissionPort for Permits {
    async fn admit(&self) -> Admission {
        panic!("a window asks for several permits at once")
    }

    async fn admit_up_to(&self, most: NonZeroU32) -> Admissions {
        let granted = self.free.load(Ordering::SeqCst).min(most.get() as usize);
        if granted == 0 {
            return Admissions::Refused(AdmissionRefusal::Saturated);
        }
        self.free.fetch_sub(granted, Ordering::SeqCst);
        let permit =
            |_| PublicationPermit::new(generation(), Box::new(Guard(Arc::clone(&self.free))));
        Admissions::Granted((0..granted).map(permit).collect())
    }
}

/// A store with a queue of events, which loses replies when it is told to.
#[derive(Default)]
struct Store {
    queue: Mutex<VecDeque<StoredOutboxEvent>>,
    open: Mutex<BTreeMap<String, ClaimedDelivery>>,
    closed: Mutex<BTreeMap<String, DeliveryStateName>>,
    batches: Mutex<Vec<Vec<String>>>,
    lose_claims: AtomicUsize,
    lose_records: AtomicUsize,
    /// Every claim lapsed before its outcome came.
    lapsed: AtomicBool,
    refuse_records: AtomicUsize,
}

fn spend(counter: &AtomicUsize) -> bool {
    counter
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        })
        .is_ok()
}

#[async_trait::async_trait]
impl OutboxWindowPort for Store {
    async fn claim_window(&self, request: &WindowRequest) -> Result<WindowClaim, ClaimError> {
        let mut claim = WindowClaim::default();
        for fresh in &request.attempts {
            let Some(event) = self.queue.lock().expect("queue").pop_front() else {
                break;
            };
            let claimed = ClaimedDelivery {
                attempt: AttemptIdentity {
                    event_id: event.identities.event_id.clone(),
                    generation: DeliveryGeneration::FIRST,
                    attempt_id: fresh.attempt_id.clone(),
                    claim_token: fresh.token,
                },
                owner: request.owner.clone(),
                event: Arc::new(event),
                claim_until: DatabaseInstant::from_epoch_micros(90_000_000),
                claim_count: 1,
                attempt_count: 1,
            };
            let id = fresh.attempt_id.as_str().to_owned();
            self.open.lock().expect("open").insert(id, claimed.clone());
            claim.claimed.push(claimed);
        }
        if spend(&self.lose_claims) {
            return Err(ClaimError::OutcomeUnknown("cut".into()));
        }
        Ok(claim)
    }

    async fn record_window(
        &self,
        records: &[OutcomeRecord],
    ) -> Result<Vec<RecordOutcome>, RecordError> {
        if spend(&self.refuse_records) {
            return Err(RecordError::Unavailable("down".into()));
        }
        let lapsed = self.lapsed.load(Ordering::SeqCst);
        let mut batch = Vec::new();
        let mut outcomes = Vec::new();
        for record in records {
            let id = record.attempt.attempt_id.as_str().to_owned();
            outcomes.push(match self.open.lock().expect("open").remove(&id) {
                Some(_) if !lapsed => {
                    let state = record.decision.state();
                    self.closed.lock().expect("closed").insert(id, state);
                    RecordOutcome::Recorded(state)
                }
                _ => RecordOutcome::Stale,
            });
            batch.push(record.attempt.event_id.as_str().to_owned());
        }
        self.batches.lock().expect("batches").push(batch);
        if spend(&self.lose_records) {
            return Err(RecordError::OutcomeUnknown("cut".into()));
        }
        Ok(outcomes)
    }
}

#[async_trait::async_trait]
impl OutboxDeliveryPort for Store {
    async fn claim_next(&self, _: &ClaimRequest) -> Result<ClaimOutcome, ClaimError> {
        panic!("a window relay claims windows")
    }

    async fn record_outcome(&self, _: &OutcomeRecord) -> Result<RecordOutcome, RecordError> {
        panic!("a window relay records windows")
    }

    async fn renew(&self, _: &RenewRequest) -> Result<RenewOutcome, RecordError> {
        panic!("no turn renews a lease")
    }

    async fn find_attempt(
        &self,
        token: &ClaimToken,
        attempt_id: &PublicationAttemptId,
    ) -> Result<RecordedAttempt, FindAttemptError> {
        if let Some(state) = self.closed.lock().expect("closed").get(attempt_id.as_str()) {
            return Ok(RecordedAttempt::Closed(*state));
        }
        Ok(
            match self.open.lock().expect("open").get(attempt_id.as_str()) {
                Some(claimed) => {
                    assert_eq!(claimed.attempt.claim_token, *token);
                    RecordedAttempt::Open(Box::new(claimed.clone()))
                }
                None => RecordedAttempt::Unknown,
            },
        )
    }

    async fn count_unknown(&self, _: &[KnownRecord]) -> Result<UnknownBacklog, BacklogError> {
        panic!("a turn never counts the backlog")
    }
}

/// A broker that never answers for some events, until it is told to.
#[derive(Default)]
struct Broker {
    slow: Mutex<BTreeSet<String>>,
    sent: Mutex<Vec<String>>,
    answer: tokio::sync::Notify,
    /// Each answer comes so many polls after the one before.
    apart: AtomicUsize,
}

#[async_trait::async_trait]
impl OutboxMessagePublishPort for Broker {
    async fn publish(&self, request: &PublicationRequest) -> PublicationOutcome {
        let id = request.attempt.event_id.as_str().to_owned();
        let sent = {
            let mut sent = self.sent.lock().expect("sent");
            sent.push(id.clone());
            sent.len()
        };
        for _ in 0..sent * self.apart.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        if self.slow.lock().expect("slow").contains(&id) {
            self.answer.notified().await;
        }
        PublicationOutcome::Acknowledged(receipt())
    }
}

#[derive(Default)]
struct Entropy(AtomicUsize);

impl EntropyPort for Entropy {
    fn claim_token(&self) -> ClaimToken {
        let number = self.0.fetch_add(1, Ordering::SeqCst);
        ClaimToken::from_random([u8::try_from(number % 251).expect("a byte"); 16])
    }

    fn attempt_id(&self) -> PublicationAttemptId {
        let number = self.0.fetch_add(1, Ordering::SeqCst);
        PublicationAttemptId::parse(format!("attempt-{number}")).expect("id")
    }

    fn jitter(&self) -> u64 {
        0
    }
}

/// A pause that is over after many polls.
struct LongPause;

#[async_trait::async_trait]
impl TimerPort for LongPause {
    async fn pause(&self, _: Duration) {
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
    }
}

struct Scene {
    relay: RelayWindow,
    late: Arc<LateObservationQueue>,
    store: Arc<Store>,
    broker: Arc<Broker>,
    permits: Permits,
    log: Log,
}

impl Scene {
    /// Four records under way at once, `step` between two readings of the clock.
    fn new(events: &[&str], step: Duration) -> Self {
        let clock = Arc::new(Clock::stepping(step));
        Self::with_timer(events, Arc::clone(&clock), clock)
    }

    fn with_timer(events: &[&str], clock: Arc<Clock>, timer: Arc<dyn TimerPort>) -> Self {
        let store = Arc::new(Store::default());
        store
            .queue
            .lock()
            .expect("queue")
            .extend(events.iter().map(|id| event(id)));
        let broker = Arc::new(Broker::default());
        let permits = Permits {
            free: Arc::new(AtomicUsize::new(4)),
        };
        let log = Log::default();
        let late = Arc::new(LateObservationQueue::new(8));
        let ports = WindowPorts {
            admission: Arc::new(permits.clone()),
            windows: store.clone(),
            deliveries: store.clone(),
            publisher: broker.clone(),
            codec: Arc::new(Documents),
            clock,
            timer,
            entropy: Arc::new(Entropy::default()),
            reporter: Arc::new(Reporter {
                log: log.clone(),
                fails: false,
            }),
            late: late.clone(),
        };
        let settings = WindowSettings {
            relay: RelaySettings {
                owner: WorkerId::parse("worker-1").expect("worker"),
                lease: Duration::from_secs(90),
                attempt_budget: Duration::from_secs(60),
                publish_budget: Duration::from_secs(50),
                retry: RetryPolicy::new(Duration::from_secs(1), Duration::from_secs(60), 5)
                    .expect("policy"),
                known: Arc::from([]),
            },
            records: NonZeroU32::new(4).expect("four"),
            share: PartitionShare::WHOLE,
            poll_interval: Duration::from_millis(20),
        };
        Self {
            relay: RelayWindow::new(ports, settings),
            late,
            store,
            broker,
            permits,
            log,
        }
    }

    fn states(&self) -> Vec<DeliveryStateName> {
        self.store
            .closed
            .lock()
            .expect("closed")
            .values()
            .copied()
            .collect()
    }

    fn free(&self) -> usize {
        self.permits.free.load(Ordering::SeqCst)
    }
}

const STEP: Duration = Duration::from_millis(1);

#[tokio::test]
async fn a_window_is_claimed_sent_and_recorded_together() {
    let mut scene = Scene::new(&["e1", "e2", "e3"], STEP);
    let turn = scene.relay.turn().await.expect("turn");
    assert_eq!(
        (turn.supply, turn.persisted, turn.under_way),
        (Supply::Flowing, 3, 0)
    );
    assert_eq!(scene.states(), [DeliveryStateName::DeliveryRecorded; 3]);
    assert_eq!(scene.store.batches.lock().expect("batches").len(), 1);
    assert_eq!(scene.log.taken(), ["report DELIVERY_RECORDED"; 3]);
    assert_eq!(scene.free(), 4);
    let idle = scene.relay.turn().await.expect("turn");
    assert_eq!((idle.supply, idle.persisted), (Supply::Dry, 0));
}

/// Answers that come one after another within a poll interval are one transaction.
#[tokio::test]
async fn outcomes_are_gathered_for_one_poll_interval() {
    let clock = Arc::new(Clock::stepping(STEP));
    let mut scene = Scene::with_timer(&["e1", "e2", "e3", "e4"], clock, Arc::new(LongPause));
    scene.broker.apart.store(3, Ordering::SeqCst);
    let turn = scene.relay.turn().await.expect("turn");
    assert_eq!((turn.persisted, turn.under_way), (4, 0));
    assert_eq!(scene.store.batches.lock().expect("batches").len(), 1);
}

/// One that does not come within it is waited for no longer.
#[tokio::test]
async fn a_slow_answer_delays_the_others_by_one_poll_interval_at_most() {
    let clock = Arc::new(Clock::stepping(STEP));
    let mut scene = Scene::with_timer(&["slow", "e1"], clock, Arc::new(LongPause));
    let slow = "slow".to_owned();
    scene.broker.slow.lock().expect("slow").insert(slow);
    let turn = scene.relay.turn().await.expect("turn");
    assert_eq!((turn.persisted, turn.under_way), (1, 1));
}

#[tokio::test]
async fn a_record_without_an_answer_keeps_nothing_else_from_going_on() {
    let events = ["slow", "e1", "e2", "e3", "e4", "e5", "e6"];
    let mut scene = Scene::new(&events, STEP);
    scene
        .broker
        .slow
        .lock()
        .expect("slow")
        .insert("slow".into());
    let mut persisted = 0;
    for _ in 0..8 {
        persisted += scene.relay.turn().await.expect("turn").persisted;
    }
    assert_eq!(
        (persisted, scene.relay.under_way(), scene.free()),
        (6, 1, 3)
    );
    scene.broker.answer.notify_one();
    let last = scene.relay.finish_turn().await.expect("turn");
    assert_eq!((last.persisted, last.under_way, scene.free()), (1, 0, 4));
}

#[tokio::test]
async fn no_more_is_claimed_than_permits_are_held() {
    let mut scene = Scene::new(&["e1", "e2", "e3", "e4", "e5", "e6"], STEP);
    scene.permits.free.store(2, Ordering::SeqCst);
    let turn = scene.relay.turn().await.expect("turn");
    assert_eq!(turn.persisted, 2);
    scene.permits.free.store(0, Ordering::SeqCst);
    let refused = scene.relay.turn().await.expect("turn");
    assert_eq!(refused.supply, Supply::Refused(AdmissionRefusal::Saturated));
    assert_eq!(scene.store.queue.lock().expect("queue").len(), 4);
}

#[tokio::test]
async fn a_lost_claim_reply_is_looked_up_before_anything_is_sent() {
    let mut scene = Scene::new(&["e1", "e2"], STEP);
    scene.store.lose_claims.store(1, Ordering::SeqCst);
    let turn = scene.relay.turn().await.expect("turn");
    assert_eq!(turn.persisted, 2);
    assert_eq!(scene.broker.sent.lock().expect("sent").len(), 2);
}

#[tokio::test]
async fn what_was_acknowledged_to_a_lapsed_claim_is_left_to_the_journal() {
    let mut scene = Scene::new(&["e1", "e2"], STEP);
    scene.store.lapsed.store(true, Ordering::SeqCst);
    let turn = scene.relay.turn().await.expect("turn");
    assert_eq!((turn.persisted, turn.stale.len()), (0, 2));
    let left: Vec<_> = scene.late.poll_bounded(8);
    let attempts: Vec<_> = left.iter().map(|one| &one.attempt.attempt_id).collect();
    let stale: Vec<_> = turn.stale.iter().map(|(_, attempt)| attempt).collect();
    assert_eq!(attempts, stale);
    assert!(
        left.iter()
            .all(|one| one.certainty == AcceptanceCertainty::Accepted)
    );
}

#[tokio::test]
async fn a_lost_outcome_reply_is_looked_up_before_it_is_recorded_again() {
    let mut scene = Scene::new(&["e1", "e2"], STEP);
    scene.store.lose_records.store(1, Ordering::SeqCst);
    let turn = scene.relay.turn().await.expect("turn");
    assert_eq!((turn.persisted, turn.stale.len()), (2, 0));
    assert_eq!(scene.store.batches.lock().expect("batches").len(), 1);
}

#[tokio::test]
async fn outcomes_are_tried_again_until_the_leases_lapse() {
    let mut scene = Scene::new(&["e1"], STEP);
    scene.store.refuse_records.store(3, Ordering::SeqCst);
    let turn = scene.relay.turn().await.expect("turn");
    assert_eq!(turn.persisted, 1);
    let mut scene = Scene::new(&["e1"], STEP);
    scene
        .store
        .refuse_records
        .store(usize::MAX, Ordering::SeqCst);
    let error = scene.relay.turn().await.expect_err("the lease lapses");
    assert!(
        matches!(error, WindowError::Record { records: 1, .. }),
        "{error:?}"
    );
    assert_eq!(scene.free(), 4);
}

#[tokio::test]
async fn a_record_whose_lease_is_too_short_by_now_is_not_sent() {
    // Each reading of the clock is 31 s after the one before; an attempt may take 60 of 90.
    let mut scene = Scene::new(&["e1"], Duration::from_secs(31));
    let turn = scene.relay.turn().await.expect("turn");
    assert_eq!(turn.persisted, 1);
    assert_eq!(scene.broker.sent.lock().expect("sent").len(), 0);
    assert_eq!(scene.states(), [DeliveryStateName::RetryWait]);
}

#[tokio::test]
async fn a_row_that_contradicts_its_document_is_held_unsent() {
    let mut scene = Scene::new(&["e1", "e2"], STEP);
    scene.store.queue.lock().expect("queue")[0].envelope = b"e9".to_vec();
    let turn = scene.relay.turn().await.expect("turn");
    assert_eq!(turn.persisted, 2);
    assert_eq!(*scene.broker.sent.lock().expect("sent"), ["e2"]);
    let mut states = scene.states();
    states.sort();
    assert_eq!(
        states,
        [DeliveryStateName::DeliveryRecorded, DeliveryStateName::Hold]
    );
}
