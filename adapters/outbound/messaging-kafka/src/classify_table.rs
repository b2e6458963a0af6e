//! The whole table: every code that the client library names, in every phase.
//!
//! Invariant: the expectation is written out here by code and status, apart from the rules that
//! it holds to account; a code that is not listed is expected to prove nothing.

use super::*;
use crate::ffi::every_error_code;
use domain_core::publication::RetryDisposition::{NoRetry, RetryWithinBudget, StopProvider};

use MessageStatus::{NotPersisted, Persisted, PossiblyPersisted};

/// Codes with which the broker certainly has nothing, and what may be done next.
const REFUSED_AT_SEND: [(Code, RetryDisposition); 5] = [
    (Code::QueueFull, RetryWithinBudget),
    (Code::MessageSizeTooLarge, NoRetry),
    (Code::UnknownPartition, StopProvider),
    (Code::Fatal, StopProvider),
    (Code::TopicAuthorizationFailed, StopProvider),
];

const REFUSED_AT_DELIVERY: [(Code, RetryDisposition); 9] = [
    (Code::TopicAuthorizationFailed, StopProvider),
    (Code::ClusterAuthorizationFailed, StopProvider),
    (Code::MessageSizeTooLarge, NoRetry),
    (Code::MessageBatchTooLarge, NoRetry),
    (Code::InvalidRecord, NoRetry),
    (Code::InvalidTimestamp, NoRetry),
    (Code::InvalidRequiredAcks, StopProvider),
    (Code::PolicyViolation, StopProvider),
    (Code::UnsupportedForMessageFormat, StopProvider),
];

/// Codes that stop the provider, however certain the record's fate is.
const STOPPING: [Code; 31] = [
    Code::TopicAuthorizationFailed,
    Code::ClusterAuthorizationFailed,
    Code::GroupAuthorizationFailed,
    Code::TransactionalIdAuthorizationFailed,
    Code::DelegationTokenAuthorizationFailed,
    Code::Authentication,
    Code::SaslAuthenticationFailed,
    Code::UnsupportedSASLMechanism,
    Code::IllegalSASLState,
    Code::DelegationTokenExpired,
    Code::SSL,
    Code::UnknownTopicOrPartition,
    Code::UnknownTopic,
    Code::UnknownPartition,
    Code::PolicyViolation,
    Code::InvalidTopic,
    Code::InvalidRequiredAcks,
    Code::UnsupportedForMessageFormat,
    Code::InvalidConfig,
    Code::UnsupportedVersion,
    Code::UnsupportedFeature,
    Code::UnsupportedCompressionType,
    Code::Fatal,
    Code::Fenced,
    Code::ProducerFenced,
    Code::Inconsistent,
    Code::GaplessGuarantee,
    Code::OutOfOrderSequenceNumber,
    Code::InvalidProducerEpoch,
    Code::UnknownProducerId,
    Code::InvalidProducerIdMapping,
];

fn expected(code: Code, phase: Phase) -> (bool, RetryDisposition) {
    let list: &[_] = match phase {
        Phase::Send => &REFUSED_AT_SEND,
        Phase::Delivery(NotPersisted) => &REFUSED_AT_DELIVERY,
        Phase::Delivery(_) => &[],
    };
    if let Some((_, disposition)) = list.iter().find(|(listed, _)| *listed == code) {
        return (true, *disposition);
    }
    let stops = STOPPING.contains(&code)
        || matches!(code, Code::UnknownTopicId | Code::CriticalSystemResource);
    let disposition = if stops {
        StopProvider
    } else {
        RetryWithinBudget
    };
    (false, disposition)
}

#[test]
fn every_code_in_every_phase_is_as_the_table_says() {
    let codes = every_error_code();
    assert!(codes.len() > 150, "only {} codes", codes.len());
    let mut refused = 0;
    for code in codes {
        for phase in [
            Phase::Send,
            Phase::Delivery(NotPersisted),
            Phase::Delivery(PossiblyPersisted),
            Phase::Delivery(Persisted),
        ] {
            let outcome = classify(code, phase);
            let rejected = matches!(outcome, PublicationOutcome::Rejected(_));
            refused += usize::from(rejected);
            assert_eq!(
                (rejected, outcome.disposition()),
                expected(code, phase),
                "{code:?} {phase:?}"
            );
        }
    }
    assert_eq!(refused, REFUSED_AT_SEND.len() + REFUSED_AT_DELIVERY.len());
}

/// What the client calls NOT_PERSISTED although a broker may hold the record.
#[test]
fn a_status_alone_is_no_proof() {
    for code in [
        Code::Unknown,
        Code::NetworkException,
        Code::InvalidProducerEpoch,
        Code::UnknownProducerId,
        Code::KafkaStorageError,
        Code::UnknownTopicOrPartition,
        Code::NotLeaderForPartition,
        Code::LeaderNotAvailable,
        Code::NotEnoughReplicas,
        Code::InvalidMessage,
        Code::MessageTimedOut,
        Code::PurgeQueue,
        Code::NoError,
    ] {
        let outcome = classify(code, Phase::Delivery(NotPersisted));
        assert!(
            matches!(outcome, PublicationOutcome::Indeterminate(_)),
            "{code:?}"
        );
    }
}

#[test]
fn classes_and_stages_name_the_cause() {
    let of = |code, phase| {
        let failure = classify(code, phase).failure().expect("a failure");
        (failure.stage, failure.class)
    };
    for (code, phase, stage, class) in [
        (
            Code::QueueFull,
            Phase::Send,
            FailureStage::LocalAdmission,
            FailureClass::BufferExhausted,
        ),
        (
            Code::MessageSizeTooLarge,
            Phase::Send,
            FailureStage::Send,
            FailureClass::RecordTooLarge,
        ),
        (
            Code::MessageSizeTooLarge,
            Phase::Delivery(NotPersisted),
            FailureStage::BrokerAck,
            FailureClass::RecordTooLarge,
        ),
        (
            Code::UnknownTopicOrPartition,
            Phase::Delivery(NotPersisted),
            FailureStage::Metadata,
            FailureClass::DestinationMissing,
        ),
        (
            Code::PurgeInflight,
            Phase::Delivery(PossiblyPersisted),
            FailureStage::Shutdown,
            FailureClass::ClientClosed,
        ),
        (
            Code::MessageTimedOut,
            Phase::Delivery(PossiblyPersisted),
            FailureStage::BrokerAck,
            FailureClass::DeadlineExceeded,
        ),
        (
            Code::OutOfOrderSequenceNumber,
            Phase::Delivery(PossiblyPersisted),
            FailureStage::Provider,
            FailureClass::ProviderFatal,
        ),
        (
            Code::NotEnoughReplicasAfterAppend,
            Phase::Delivery(PossiblyPersisted),
            FailureStage::BrokerAck,
            FailureClass::BrokerUnavailable,
        ),
        (
            Code::SSL,
            Phase::Delivery(PossiblyPersisted),
            FailureStage::BrokerAck,
            FailureClass::TlsFailed,
        ),
    ] {
        assert_eq!(of(code, phase), (stage, class), "{code:?} {phase:?}");
    }
}
