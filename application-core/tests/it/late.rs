//! The late drain: commit before acknowledgement, release on failure.

use crate::support::{Log, generation, identities, stored};
use application_core::ports::*;
use application_core::usecase::{LateDrain, RecordLateObservations};
use domain_core::identity::{ClaimToken, DeliveryGeneration, PublicationAttemptId};
use domain_core::instant::DatabaseInstant;
use domain_core::publication::ProviderRecordReference;
use mockall::{Sequence, mock, predicate::eq};
use std::sync::Arc;

mock! {
    Source {}
    impl LatePublicationObservationSource for Source {
        fn poll_bounded(&self, maximum: usize) -> Vec<LatePublicationObservation>;
        fn acknowledge_persisted(&self, id: LateObservationId);
        fn release_for_retry(&self, id: LateObservationId);
        fn dropped(&self) -> u64;
    }
}

mock! {
    Journal {}
    #[async_trait::async_trait]
    impl OutboxAttemptObservationPort for Journal {
        async fn append_late_observations(
            &self,
            observations: &[LatePublicationObservation],
        ) -> Result<LateWriteReport, LateWriteError>;
    }
}

fn observation(id: u64) -> LatePublicationObservation {
    LatePublicationObservation {
        id: LateObservationId(id),
        attempt: AttemptIdentity {
            event_id: identities().event_id,
            generation: DeliveryGeneration::FIRST,
            attempt_id: PublicationAttemptId::parse(format!("attempt-{id}")).expect("id"),
            claim_token: ClaimToken::from_random([1; 16]),
        },
        producer_generation: generation(),
        binding_revision: stored().binding_revision,
        certainty: domain_core::publication::AcceptanceCertainty::Accepted,
        observed_at: DatabaseInstant::from_epoch_micros(1),
        record_reference: ProviderRecordReference::parse("scripted:1").expect("reference"),
    }
}

#[tokio::test]
async fn the_source_is_told_only_after_the_commit() {
    let mut order = Sequence::new();
    let mut source = MockSource::new();
    let mut journal = MockJournal::new();
    source
        .expect_poll_bounded()
        .with(eq(10))
        .once()
        .in_sequence(&mut order)
        .returning(|_| vec![observation(1), observation(2)]);
    let report = LateWriteReport {
        appended: 1,
        duplicates: 1,
        orphaned: 0,
    };
    journal
        .expect_append_late_observations()
        .withf(|batch| batch.len() == 2)
        .once()
        .in_sequence(&mut order)
        .returning(move |_| Ok(report));
    for id in [1, 2] {
        source
            .expect_acknowledge_persisted()
            .with(eq(LateObservationId(id)))
            .once()
            .in_sequence(&mut order)
            .return_const(());
    }
    let drain = RecordLateObservations::new(Arc::new(source), Arc::new(journal), 10);
    assert_eq!(
        drain.execute().await.expect("drain"),
        LateDrain::Persisted(report)
    );
}

#[tokio::test]
async fn a_failed_or_unanswered_write_releases_the_whole_batch() {
    for unknown in [false, true] {
        let mut source = MockSource::new();
        let mut journal = MockJournal::new();
        source
            .expect_poll_bounded()
            .returning(|_| vec![observation(1), observation(2)]);
        source.expect_release_for_retry().times(2).return_const(());
        source.expect_acknowledge_persisted().never();
        journal
            .expect_append_late_observations()
            .returning(move |_| {
                Err(if unknown {
                    LateWriteError::OutcomeUnknown("cut".into())
                } else {
                    LateWriteError::Unavailable("down".into())
                })
            });
        let drain = RecordLateObservations::new(Arc::new(source), Arc::new(journal), 10);
        let error = drain.execute().await.expect_err("not written");
        assert_eq!(error.released, 2);
    }
}

#[tokio::test]
async fn an_empty_queue_opens_no_transaction() {
    let log = Log::default();
    let mut source = MockSource::new();
    source.expect_poll_bounded().returning(|_| Vec::new());
    let mut journal = MockJournal::new();
    journal.expect_append_late_observations().never();
    let drain = RecordLateObservations::new(Arc::new(source), Arc::new(journal), 10);
    assert_eq!(drain.execute().await.expect("drain"), LateDrain::Nothing);
    assert!(log.taken().is_empty());
}
