//! A producer on one topic, and events to send with it.
//!
//! Invariant: timeouts are short but satisfy every relation that the compiler checks.

use crate::topic::Topic;
use application_core::event::{EventIdentities, SchemaIdentity, StoredOutboxEvent, TraceContext};
use application_core::ports::{
    Admission, AttemptIdentity, MonotonicClockPort, OutboxMessagePublishPort as _,
    PublicationAdmissionPort as _, PublicationPermit, PublicationRequest, WallClockPort,
};
use domain_core::delivery::DispatchAuthority;
use domain_core::hashing::{PartitionKey, Sha256Digest};
use domain_core::identity::{
    AggregateId, AggregateIdentity, AggregateOrder, AggregateSequence, AggregateType, ClaimToken,
    ContractId, CorrelationId, DeliveryGeneration, DestinationBindingRevision, EventId, EventIndex,
    LogicalDestinationId, PayloadVersion, ProducerGeneration, PublicationAttemptId,
    PublicationEpoch, TenantScope, TransactionResourceId,
};
use domain_core::instant::{DatabaseInstant, MonotonicInstant, OccurredAt};
use domain_core::publication::PublicationOutcome;
use outbound_messaging_kafka::{
    ClusterAlias, KafkaDestination, KafkaDestinations, KafkaProducer, KafkaPublisher, MemoryBound,
    ProducerConfiguration, ProducerHost, ProducerReadiness, ProducerSettings, SecurityProfile,
    TopicAllowList, TopicName,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) const WALL_MICROS: i64 = 1_700_000_099_000_001;
pub(crate) const OCCURRED_MILLIS: i64 = 1_700_000_000_123;
pub(crate) const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

pub(crate) struct Clock(Instant);

impl MonotonicClockPort for Clock {
    fn now(&self) -> MonotonicInstant {
        MonotonicInstant::since_origin(self.0.elapsed())
    }
}

struct WallClock;

impl WallClockPort for WallClock {
    fn now(&self) -> DatabaseInstant {
        DatabaseInstant::from_epoch_micros(WALL_MICROS)
    }
}

pub(crate) fn settings(bootstrap: &str) -> ProducerSettings {
    ProducerSettings {
        cluster: ClusterAlias::parse("test").expect("valid"),
        bootstrap_servers: vec![bootstrap.to_owned()],
        security: SecurityProfile::LocalPlaintext,
        admission_timeout: Duration::from_millis(200),
        delivery_timeout: Duration::from_secs(20),
        request_timeout: Duration::from_secs(10),
        max_block_timeout: Duration::from_millis(300),
        linger: Duration::from_millis(0),
        attestation_timeout: Duration::from_secs(15),
        drain_timeout: Duration::from_secs(5),
        recovery_minimum_delay: Duration::from_millis(50),
        recovery_maximum_delay: Duration::from_millis(500),
        buffer_memory_bytes: 8 << 20,
        maximum_request_bytes: 2 << 20,
        batch_bytes: 64 << 10,
        maximum_admitted_records: 8,
        maximum_buffered_records: 64,
        maximum_late_observations: 16,
    }
}

pub(crate) fn destination(topic: &str, partitions: u32) -> KafkaDestination {
    KafkaDestination {
        destination: LogicalDestinationId::parse("test-events").expect("valid"),
        binding_revision: DestinationBindingRevision::parse("test-events-r1").expect("valid"),
        topic: TopicName::parse(topic).expect("valid"),
        expected_partitions: partitions,
        minimum_replication_factor: 1,
        minimum_in_sync_replicas: 1,
        maximum_record_bytes: 900_000,
        maximum_envelope_bytes: 800_000,
        topic_maximum_bytes: 1_000_000,
    }
}

pub(crate) struct Fixture {
    pub(crate) producer: Arc<KafkaProducer>,
    pub(crate) publisher: KafkaPublisher,
    configuration: ProducerConfiguration,
    pub(crate) clock: Arc<Clock>,
}

impl Fixture {
    /// A producer that opened nothing yet.
    pub(crate) fn build(settings: ProducerSettings, destination: KafkaDestination) -> Self {
        let allowed = TopicAllowList::parse(["test.*.v1"]).expect("valid");
        let destinations = KafkaDestinations::build(vec![destination], &allowed).expect("valid");
        let clock = Arc::new(Clock(Instant::now()));
        let next = AtomicU64::new(1);
        let host = ProducerHost {
            clock: Arc::clone(&clock) as Arc<dyn MonotonicClockPort>,
            wall_clock: Arc::new(WallClock),
            generation_ids: Arc::new(move || {
                let number = next.fetch_add(1, Ordering::Relaxed);
                ProducerGeneration::parse(format!("g-{number}")).expect("valid")
            }),
        };
        let configuration = settings.compile(destinations).expect("settings");
        let producer = Arc::new(KafkaProducer::new(configuration.clone(), host));
        Self {
            publisher: producer.publisher(),
            producer,
            configuration,
            clock,
        }
    }

    /// A started producer on a topic.
    pub(crate) async fn start(topic: &Topic, partitions: u32) -> Self {
        let fixture = Self::build(
            settings(&topic.bootstrap),
            destination(&topic.name, partitions),
        );
        fixture.producer.start().await.expect("start");
        fixture
    }

    /// Watches the brokers and replaces generations until it is shut down.
    pub(crate) fn supervised(&self) -> tokio::task::JoinHandle<()> {
        crate::replacing::supervised(self)
    }

    /// What the producer's part of this process may take.
    pub(crate) fn memory_bound(&self, largest_record_bytes: u32) -> MemoryBound {
        self.configuration.memory_bound(largest_record_bytes)
    }

    pub(crate) fn request(&self, event: StoredOutboxEvent, limit: Duration) -> PublicationRequest {
        PublicationRequest {
            attempt: attempt(&event),
            event: Arc::new(event),
            deadline: self.clock.now().plus(limit),
        }
    }

    /// Sends without a permit, as long as `limit`.
    pub(crate) async fn publish(
        &self,
        event: StoredOutboxEvent,
        limit: Duration,
    ) -> PublicationOutcome {
        let request = self.request(event, limit);
        self.publisher.publish(&request).await
    }

    pub(crate) async fn permit(&self) -> PublicationPermit {
        match self.publisher.admit().await {
            Admission::Granted(permit) => permit,
            Admission::Refused(refusal) => panic!("refused: {refusal:?}"),
        }
    }

    /// Waits until the producer says so.
    pub(crate) async fn readiness(&self, wanted: impl Fn(&ProducerReadiness) -> bool) {
        let mut readiness = self.producer.readiness();
        let waited = tokio::time::timeout(
            Duration::from_secs(40),
            readiness.wait_for(|now| wanted(now)),
        );
        if waited.await.is_err() {
            panic!("readiness stays {:?}", *self.producer.readiness().borrow());
        }
    }
}

fn attempt(event: &StoredOutboxEvent) -> AttemptIdentity {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    AttemptIdentity {
        event_id: event.identities.event_id.clone(),
        generation: DeliveryGeneration::FIRST,
        attempt_id: PublicationAttemptId::parse(format!("attempt-{number}")).expect("valid"),
        claim_token: ClaimToken::from_random([number.to_le_bytes()[0]; 16]),
    }
}

/// An event about one aggregate.
pub(crate) fn event(id: &str, aggregate_id: &str, envelope: Vec<u8>) -> StoredOutboxEvent {
    let tenant_scope = TenantScope::system();
    let destination = LogicalDestinationId::parse("test-events").expect("valid");
    let aggregate = AggregateIdentity::new(
        AggregateType::parse("worklog").expect("valid"),
        AggregateId::parse(aggregate_id).expect("valid"),
    );
    let zero = Sha256Digest::from_bytes([0; 32]);
    StoredOutboxEvent {
        partition_key: PartitionKey::derive(&tenant_scope, &destination, &aggregate),
        identities: EventIdentities {
            event_id: EventId::parse(id).expect("valid"),
            contract_id: ContractId::parse("portfolio.worklog.reserved").expect("valid"),
            payload_version: PayloadVersion::new(2).expect("valid"),
            destination,
            tenant_scope,
            aggregate,
            order: AggregateOrder::new(
                AggregateSequence::new(1).expect("valid"),
                EventIndex::new(0).expect("valid"),
            ),
            occurred_at: OccurredAt::from_epoch_millis(OCCURRED_MILLIS).expect("valid"),
            correlation_id: CorrelationId::parse("c-1").expect("valid"),
            causation_id: None,
        },
        schemas: SchemaIdentity {
            envelope_schema: zero,
            payload_schema: zero,
            schema_set: zero,
            catalog_revision: zero,
        },
        binding_revision: DestinationBindingRevision::parse("test-events-r1").expect("valid"),
        ordering_required: true,
        trace: Some(TraceContext::parse(PARENT, Some("vendor=1")).expect("valid")),
        envelope_sha256: Sha256Digest::of(&envelope),
        envelope,
        publication_epoch: PublicationEpoch::FIRST,
        dispatch_authority: DispatchAuthority::PollingV2,
        transaction_resource: TransactionResourceId::parse("t-1").expect("valid"),
        created_at: DatabaseInstant::from_epoch_micros(1),
    }
}

/// Waits for a condition, a bounded time.
pub(crate) async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            tick.tick().await;
            if let Some(found) = look() {
                return found;
            }
        }
    });
    waited.await.unwrap_or_else(|_| panic!("never: {what}"))
}
