//! Broker errors injected one by one through the client's mock cluster.
//!
//! Invariant: these show what the client makes of each code and status; what a broker promises is
//! shown on a real one. The mock cannot describe topics, so attestation is set by hand.

use super::*;
use crate::destination::{KafkaDestinations, TopicAllowList, TopicName};
use crate::pending::tests::attempt;
use crate::properties::tests::expecting;
use crate::record::golden;
use crate::security::SecurityProfile;
use crate::settings::{ClusterAlias, ProducerSettings};
use application_core::ports::WallClockPort;
use domain_core::identity::{DestinationBindingRevision, LogicalDestinationId};
use domain_core::instant::DatabaseInstant;
use domain_core::publication::AcceptanceCertainty;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr as Raw};
use std::time::Instant;

const LIMIT: Duration = Duration::from_secs(20);

struct Clock(Instant);

impl MonotonicClockPort for Clock {
    fn now(&self) -> MonotonicInstant {
        MonotonicInstant::since_origin(self.0.elapsed())
    }
}

struct WallClock(i64);

impl WallClockPort for WallClock {
    fn now(&self) -> DatabaseInstant {
        DatabaseInstant::from_epoch_micros(self.0)
    }
}

struct Mocked {
    cluster: MockCluster<'static, DefaultProducerContext>,
    generation: Arc<KafkaProducerGeneration>,
}

fn settings(bootstrap: String) -> ProducerSettings {
    ProducerSettings {
        cluster: ClusterAlias::parse("mock").unwrap(),
        bootstrap_servers: vec![bootstrap],
        security: SecurityProfile::LocalPlaintext,
        admission_timeout: Duration::from_millis(50),
        delivery_timeout: Duration::from_secs(4),
        request_timeout: Duration::from_secs(1),
        max_block_timeout: Duration::from_millis(50),
        linger: Duration::ZERO,
        attestation_timeout: Duration::from_secs(5),
        drain_timeout: Duration::from_secs(1),
        recovery_minimum_delay: Duration::from_millis(50),
        recovery_maximum_delay: Duration::from_millis(50),
        buffer_memory_bytes: 4 << 20,
        maximum_request_bytes: 1 << 20,
        batch_bytes: 64 << 10,
        maximum_admitted_records: 4,
        maximum_buffered_records: 4,
        maximum_late_observations: 4,
    }
}

impl Mocked {
    fn new() -> Self {
        Self::on(MockCluster::new(1).expect("mock cluster"))
    }

    fn on(cluster: MockCluster<'static, DefaultProducerContext>) -> Self {
        cluster.create_topic("mock", 1, 1).expect("topic");
        let destination = KafkaDestination {
            destination: LogicalDestinationId::parse("portfolio-domain-events").unwrap(),
            binding_revision: DestinationBindingRevision::parse("r1").unwrap(),
            topic: TopicName::parse("mock").unwrap(),
            expected_partitions: 1,
            minimum_replication_factor: 1,
            minimum_in_sync_replicas: 1,
            maximum_record_bytes: 500_000,
            maximum_envelope_bytes: 400_000,
            topic_maximum_bytes: 1_000_000,
        };
        let allowed = TopicAllowList::parse(["mock"]).unwrap();
        let configuration = settings(cluster.bootstrap_servers())
            .compile(KafkaDestinations::build(vec![destination], &allowed).unwrap())
            .unwrap();
        let host = ProducerHost {
            clock: Arc::new(Clock(Instant::now())),
            wall_clock: Arc::new(WallClock(1)),
            generation_ids: Arc::new(|| ProducerGeneration::parse("g-1").unwrap()),
        };
        let late = Arc::new(LateObservationQueue::new(4));
        let generation = KafkaProducerGeneration::create(&configuration, &host, late).unwrap();
        generation
            .context
            .update(|standing| standing.attested = true);
        Self {
            cluster,
            generation,
        }
    }

    fn request(&self) -> PublicationRequest {
        PublicationRequest {
            attempt: attempt(),
            event: Arc::new(golden::first_event()),
            deadline: self.generation.clock.now().plus(LIMIT),
        }
    }

    async fn publish(&self) -> PublicationOutcome {
        self.generation.publish(&self.request()).await
    }

    /// The outcome of a record whose every produce request is answered with this code.
    async fn injected(error: Raw) -> (PublicationOutcome, Option<FailureClass>) {
        let mocked = Self::new();
        let first = mocked.publish().await;
        assert!(first.receipt().is_some(), "{first:?}");
        mocked
            .cluster
            .request_errors(RDKafkaApiKey::Produce, &[error; 200]);
        let outcome = mocked.publish().await;
        let stopped = mocked.generation.standing().borrow().stopped;
        mocked.generation.close().await;
        (outcome, stopped)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_running_client_uses_every_value_it_was_given() {
    let mocked = Mocked::new();
    let client = mocked.generation.client().unwrap();
    let configuration = &mocked.generation.configuration;
    assert_eq!(configuration.assert_effective(client.client()), Ok(()));
    let mut other = configuration.clone();
    let weakened: Vec<_> = other
        .properties
        .iter()
        .cloned()
        .map(|property| match property.name {
            "acks" => expecting(&property, "1"),
            _ => property,
        })
        .collect();
    other.properties = weakened.into();
    let different = other.assert_effective(client.client()).unwrap_err();
    assert_eq!(different.name, "acks");
    drop(client);
    mocked.generation.close().await;
}

/// Without the right to be a producer at all the client gives itself up and purges what it was
/// given: that is no fault of the records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_gave_itself_up_stops_the_provider_and_costs_no_attempt() {
    let cluster = MockCluster::new(1).expect("mock cluster");
    let error = Raw::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
    cluster.request_errors(RDKafkaApiKey::InitProducerId, &[error; 20]);
    let mocked = Mocked::on(cluster);
    let outcome = mocked.publish().await;
    assert_eq!(outcome.disposition(), RetryDisposition::StopProvider);
    let stopped = mocked.generation.standing().borrow().stopped;
    assert_eq!(stopped, Some(FailureClass::Unauthorized));
    // A refusal to take a record over says only that the client is dead.
    let behind = |class| mocked.generation.class_behind(class);
    let unauthorized = FailureClass::Unauthorized;
    assert_eq!(behind(FailureClass::ProviderFatal), unauthorized);
    assert_eq!(behind(FailureClass::TlsFailed), FailureClass::TlsFailed);
    mocked.generation.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_of_the_record_are_final_and_leave_the_producer_alone() {
    for (error, class) in [
        (
            Raw::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
            FailureClass::RecordTooLarge,
        ),
        (
            Raw::RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE,
            FailureClass::RecordTooLarge,
        ),
        (
            Raw::RD_KAFKA_RESP_ERR_INVALID_RECORD,
            FailureClass::InvalidPayload,
        ),
        (
            Raw::RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP,
            FailureClass::InvalidPayload,
        ),
    ] {
        let (outcome, stopped) = Mocked::injected(error).await;
        let expected = PublicationOutcome::Rejected(PublicationFailure {
            stage: FailureStage::BrokerAck,
            class,
            disposition: RetryDisposition::NoRetry,
        });
        assert_eq!((outcome, stopped), (expected, None), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_of_the_provider_stop_it_and_are_certain() {
    for (error, class) in [
        (
            Raw::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
            FailureClass::Unauthorized,
        ),
        (
            Raw::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED,
            FailureClass::Unauthorized,
        ),
        (
            Raw::RD_KAFKA_RESP_ERR_POLICY_VIOLATION,
            FailureClass::TopicPolicyMismatch,
        ),
        (
            Raw::RD_KAFKA_RESP_ERR_INVALID_REQUIRED_ACKS,
            FailureClass::TopicPolicyMismatch,
        ),
        (
            Raw::RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT,
            FailureClass::TopicPolicyMismatch,
        ),
    ] {
        let (outcome, stopped) = Mocked::injected(error).await;
        let expected = PublicationOutcome::Rejected(PublicationFailure {
            stage: FailureStage::BrokerAck,
            class,
            disposition: RetryDisposition::StopProvider,
        });
        assert_eq!((outcome, stopped), (expected, Some(class)), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_proves_nothing_stays_indeterminate() {
    use RetryDisposition::{RetryWithinBudget, StopProvider};
    for (error, disposition) in [
        (Raw::RD_KAFKA_RESP_ERR_UNKNOWN, RetryWithinBudget),
        (Raw::RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION, RetryWithinBudget),
        (Raw::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, RetryWithinBudget),
        (
            Raw::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            RetryWithinBudget,
        ),
        (Raw::RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION, StopProvider),
        (Raw::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, StopProvider),
        (
            Raw::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
            StopProvider,
        ),
    ] {
        let (outcome, stopped) = Mocked::injected(error).await;
        let PublicationOutcome::Indeterminate(failure) = outcome else {
            panic!("{error:?}: {outcome:?}");
        };
        assert_eq!(failure.disposition, disposition, "{error:?}");
        assert_eq!(stopped.is_some(), disposition == StopProvider, "{error:?}");
    }
}

/// The client tries these again by itself until its time is up, and then speaks of the time alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_the_client_retries_end_with_its_own_timeout() {
    for error in [
        Raw::RD_KAFKA_RESP_ERR_INVALID_MSG,
        Raw::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
    ] {
        let (outcome, stopped) = Mocked::injected(error).await;
        let failure = outcome.failure().expect("a failure");
        assert_eq!(failure.class, FailureClass::DeadlineExceeded, "{error:?}");
        assert_eq!(
            (failure.disposition, stopped),
            (RetryDisposition::RetryWithinBudget, None),
            "{error:?}"
        );
    }
}

/// A stopped generation refuses without asking the client, and says whose fault it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_generation_hands_nothing_over() {
    let mocked = Mocked::new();
    mocked.generation.context.stop(FailureClass::Unauthorized);
    let expected = PublicationOutcome::Rejected(PublicationFailure {
        stage: FailureStage::LocalAdmission,
        class: FailureClass::Unauthorized,
        disposition: RetryDisposition::StopProvider,
    });
    assert_eq!(mocked.publish().await, expected);
    assert_eq!(mocked.generation.context.unresolved(), 0);
    mocked.generation.close().await;
}

/// Nothing was handed to a closed client, so the broker certainly has no record of the attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_client_is_a_certain_refusal() {
    let mocked = Mocked::new();
    mocked.generation.close().await;
    let outcome = mocked.publish().await;
    let expected = PublicationOutcome::Rejected(PublicationFailure {
        stage: FailureStage::LocalAdmission,
        class: FailureClass::ClientClosed,
        disposition: RetryDisposition::StopProvider,
    });
    assert_eq!(outcome, expected);
    assert_eq!(outcome.certainty(), AcceptanceCertainty::NotAccepted);
    assert_eq!(mocked.generation.context.unresolved(), 0);
}

/// The client is closed while a record waits for room in its buffer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_closed_during_the_wait_for_room_is_a_certain_refusal() {
    let mut mocked = Mocked::new();
    let generation = Arc::get_mut(&mut mocked.generation).expect("the only owner");
    generation.configuration.settings.max_block_timeout = LIMIT;
    mocked
        .cluster
        .broker_round_trip_time(1, Duration::from_secs(3))
        .unwrap();
    let mut sending = tokio::task::JoinSet::new();
    // Four fill the buffer and the fifth waits.
    for _ in 0..5 {
        let (generation, request) = (Arc::clone(&mocked.generation), mocked.request());
        sending.spawn(async move { generation.publish(&request).await });
    }
    let full = async {
        while mocked.generation.context.unresolved() < 4 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, full)
        .await
        .expect("a full buffer");
    mocked.generation.close().await;
    let outcomes = sending.join_all().await;
    let refused = outcomes
        .iter()
        .filter(|outcome| {
            outcome.certainty() == AcceptanceCertainty::NotAccepted
                && outcome.disposition() == RetryDisposition::StopProvider
                && outcome.failure().is_some_and(|failure| {
                    failure.stage == FailureStage::LocalAdmission
                        && failure.class == FailureClass::ClientClosed
                })
        })
        .count();
    assert_eq!(refused, 1, "{outcomes:?}");
}

/// The named place between hand-over and report.
#[cfg(feature = "failpoints")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fail_point_lies_between_hand_over_and_report() {
    let scenario = fail::FailScenario::setup();
    let mocked = Mocked::new();
    mocked
        .cluster
        .broker_round_trip_time(1, Duration::from_millis(300))
        .unwrap();
    let seen = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let watched = (Arc::clone(&seen), Arc::clone(&mocked.generation.context));
    fail::cfg_callback("kafka::after_send", move || {
        watched
            .0
            .store(watched.1.unresolved(), std::sync::atomic::Ordering::SeqCst);
    })
    .unwrap();
    let outcome = mocked.publish().await;
    assert!(outcome.receipt().is_some(), "{outcome:?}");
    assert_eq!(seen.load(std::sync::atomic::Ordering::SeqCst), 1);
    mocked.generation.close().await;
    scenario.teardown();
}
