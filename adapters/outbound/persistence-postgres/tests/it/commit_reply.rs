//! Commits whose answer was lost.
//!
//! Invariant: the outcome is said to be unknown, whether the server committed or not, and the
//! look-up by token and attempt id tells which.

use crate::harness::{PostgresHarness, policy};
use crate::proxy::{Cut, Proxy};
use crate::sample::{acknowledged, append, claimed, event, event_id, nothing, request};
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::{
    AppendError, ClaimError, Disposition, DispositionError, LateObservationId,
    LatePublicationObservation, LateWriteError, OutboxAppendPort as _,
    OutboxAttemptObservationPort as _, OutboxDeliveryPort as _, OutboxDispositionPort as _,
    OutboxRetentionPort as _, RecordError, RecordOutcome, RecordedAttempt, RetentionError,
    TransactionError, TransactionPort as _,
};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::ProducerGeneration;
use domain_core::instant::DatabaseInstant;
use domain_core::publication::ProviderRecordReference;
use outbound_persistence_postgres::PostgresStore;

/// A second store on the same schema, behind a proxy.
pub(crate) async fn behind_proxy(h: &PostgresHarness) -> (PostgresStore, Proxy) {
    let server = crate::place::server();
    let proxy = Proxy::start((server.get_host().to_owned(), server.get_port())).await;
    let url = h.place.url().replacen(
        &format!(":{}/", server.get_port()),
        &format!(":{}/", proxy.port()),
        1,
    );
    let store = PostgresStore::connect(&url, &h.place.settings())
        .await
        .expect("connected through the proxy");
    (store, proxy)
}

/// A business transaction.
#[tokio::test]
async fn of_a_business_transaction() {
    let h = PostgresHarness::fresh().await;
    let (store, proxy) = behind_proxy(&h).await;
    for (number, cut) in (1..).zip([Cut::Before, Cut::After]) {
        let (outbox, sealed) = (
            store.outbox(policy()),
            event(&format!("e{number}"), "a", number),
        );
        proxy.arm(cut);
        let result = store
            .transactions()
            .in_write(move |tx| {
                Box::pin(async move {
                    PostgresHarness::insert_business_row(tx, "row")
                        .await
                        .expect("a business row");
                    outbox.append(tx, &sealed).await
                })
            })
            .await;
        assert!(proxy.has_cut());
        assert!(
            matches!(
                result,
                Err(TransactionError::<AppendError>::OutcomeUnknown(_))
            ),
            "{cut:?}: {result:?}"
        );
        let committed = cut == Cut::After;
        assert_eq!(h.business_rows().await.len(), usize::from(committed));
        let delivery = h.delivery(&event_id(&format!("e{number}"))).await;
        assert_eq!(delivery.is_some(), committed);
    }
}

/// A business transaction whose last statement is the caller's own, so that it is proven and
/// committed by one message.
#[tokio::test]
async fn of_a_business_transaction_that_is_proven_first() {
    let h = PostgresHarness::fresh().await;
    let (store, proxy) = behind_proxy(&h).await;
    for (cut, expected) in [(Cut::Before, 0), (Cut::After, 1)] {
        proxy.arm(cut);
        let result = store
            .transactions()
            .in_write(|tx| {
                Box::pin(async move {
                    PostgresHarness::insert_business_row(tx, "row")
                        .await
                        .expect("a business row");
                    Ok::<_, AppendError>(())
                })
            })
            .await;
        assert!(proxy.has_cut());
        assert!(
            matches!(result, Err(TransactionError::OutcomeUnknown(_))),
            "{cut:?}: {result:?}"
        );
        assert_eq!(h.business_rows().await.len(), expected);
    }
}

/// Tx B: the attempt is open or was never admitted.
#[tokio::test]
async fn of_a_claim() {
    let h = PostgresHarness::fresh().await;
    let (store, proxy) = behind_proxy(&h).await;
    append(&h.store, &event("e1", "a", 1)).await;
    for (number, cut) in (1..).zip([Cut::Before, Cut::After]) {
        let request = request(number);
        proxy.arm(cut);
        let result = store.deliveries().claim_next(&request).await;
        assert!(proxy.has_cut());
        assert!(
            matches!(result, Err(ClaimError::OutcomeUnknown(_))),
            "{cut:?}: {result:?}"
        );
        let found = store
            .deliveries()
            .find_attempt(&request.token, &request.attempt_id)
            .await
            .expect("looked up");
        match (cut, found) {
            (Cut::Before, RecordedAttempt::Unknown) => {}
            (Cut::After, RecordedAttempt::Open(claim)) => {
                assert_eq!((claim.claim_count, claim.attempt_count), (1, 1));
                let recorded = store
                    .deliveries()
                    .record_outcome(&acknowledged(&claim))
                    .await;
                assert!(matches!(recorded, Ok(RecordOutcome::Recorded(_))));
            }
            (cut, found) => panic!("{cut:?}: {found:?}"),
        }
    }
    nothing(&h.store, &request(9)).await;
}

/// Tx C: the attempt is closed or still open, and trying again is safe.
#[tokio::test]
async fn of_a_recorded_outcome() {
    let h = PostgresHarness::fresh().await;
    let (store, proxy) = behind_proxy(&h).await;
    append(&h.store, &event("e1", "a", 1)).await;
    let claim = claimed(&store, &request(1)).await;
    let record = acknowledged(&claim);
    for cut in [Cut::Before, Cut::After] {
        proxy.arm(cut);
        let result = store.deliveries().record_outcome(&record).await;
        assert!(proxy.has_cut());
        assert!(
            matches!(result, Err(RecordError::OutcomeUnknown(_))),
            "{cut:?}: {result:?}"
        );
        let found = store
            .deliveries()
            .find_attempt(&claim.attempt.claim_token, &claim.attempt.attempt_id)
            .await
            .expect("looked up");
        match (cut, found) {
            (Cut::Before, RecordedAttempt::Open(_))
            | (Cut::After, RecordedAttempt::Closed(DeliveryStateName::DeliveryRecorded)) => {}
            (cut, found) => panic!("{cut:?}: {found:?}"),
        }
    }
    let again = store.deliveries().record_outcome(&record).await;
    assert!(matches!(again, Ok(RecordOutcome::Stale)), "{again:?}");
    assert_eq!(h.journal(&event_id("e1")).await.len(), 2);
}

/// Late observations: writing them again is harmless.
#[tokio::test]
async fn of_late_observations() {
    let h = PostgresHarness::fresh().await;
    let (store, proxy) = behind_proxy(&h).await;
    append(&h.store, &event("e1", "a", 1)).await;
    let claim = claimed(&h.store, &request(1)).await;
    let observation = LatePublicationObservation {
        id: LateObservationId(1),
        attempt: claim.attempt,
        producer_generation: ProducerGeneration::parse("producer-1").expect("generation"),
        binding_revision: claim.event.binding_revision.clone(),
        certainty: domain_core::publication::AcceptanceCertainty::Accepted,
        observed_at: DatabaseInstant::from_epoch_micros(7),
        record_reference: ProviderRecordReference::parse("r").expect("reference"),
    };
    proxy.arm(Cut::After);
    let lost = store
        .deliveries()
        .append_late_observations(std::slice::from_ref(&observation))
        .await;
    assert!(
        matches!(lost, Err(LateWriteError::OutcomeUnknown(_))),
        "{lost:?}"
    );
    let again = store
        .deliveries()
        .append_late_observations(&[observation])
        .await
        .expect("written");
    assert_eq!((again.appended, again.duplicates), (0, 1));
}

/// A disposition: its row version tells whether it was applied.
#[tokio::test]
async fn of_a_disposition() {
    let h = PostgresHarness::fresh().await;
    let (store, proxy) = behind_proxy(&h).await;
    append(&h.store, &event("e1", "a", 1)).await;
    let seen = crate::operator::command(&h, "e1", Disposition::Hold).await;
    for (cut, expected) in [
        (Cut::Before, DeliveryStateName::Ready),
        (Cut::After, DeliveryStateName::Hold),
    ] {
        proxy.arm(cut);
        let result = store.dispositions().apply(&seen).await;
        assert!(proxy.has_cut());
        assert!(
            matches!(result, Err(DispositionError::OutcomeUnknown(_))),
            "{cut:?}: {result:?}"
        );
        let row = h.delivery(&event_id("e1")).await.expect("delivery");
        assert_eq!(row.state, expected);
        let applied = row.row_version != seen.row_version.value();
        assert_eq!(applied, cut == Cut::After);
    }
}

/// A batch of retention: doing it again is harmless.
#[tokio::test]
async fn of_a_removal() {
    let h = PostgresHarness::fresh().await;
    let (store, proxy) = behind_proxy(&h).await;
    append(&h.store, &event("e1", "a", 1)).await;
    h.force_state(&event_id("e1"), DeliveryStateName::Skipped)
        .await;
    let at_once = crate::retention::AT_ONCE;
    for (cut, left) in [(Cut::Before, 1), (Cut::After, 0)] {
        proxy.arm(cut);
        let result = store.retention().reap(&at_once).await;
        assert!(proxy.has_cut());
        assert!(
            matches!(result, Err(RetentionError::OutcomeUnknown(_))),
            "{cut:?}: {result:?}"
        );
        assert_eq!(crate::operator::rows(&h).await[0], left);
    }
    let again = store.retention().reap(&at_once).await.expect("reaped");
    assert_eq!((again.removed, again.finished), (0, true));
}
