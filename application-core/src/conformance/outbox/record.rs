//! Tx C: the outcome is journalled and the delivery moves, or neither.
//!
//! Invariant: a claim that is not the presented one, or that has lapsed, records nothing and
//! journals nothing (requirement 004 §18.6).

use super::fixture::{
    LONG, SHORT, acknowledged_record, append, claimed, event, event_id, failure, leased, nothing,
    outcome_of, passed, producer, receipt, request, retry_record,
};
use super::harness::{DeliveryRow, ObservationRow, ObservationType, OutboxHarness};
use crate::ports::{ClaimedDelivery, OutcomeRecord, RecordOutcome};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::{ClaimToken, DeliveryGeneration, PublicationAttemptId, WorkerId};
use domain_core::publication::{
    AcceptanceCertainty, FailureClass, FailureStage, PublicationOutcome, RelayDecision,
    RetryDisposition,
};

/// Appends and claims `e1`, records what `make` says, and checks what every outcome shares.
async fn record_one<H: OutboxHarness>(
    h: &H,
    make: impl FnOnce(&ClaimedDelivery) -> OutcomeRecord,
    expected: DeliveryStateName,
) -> (DeliveryRow, ObservationRow) {
    append(h, [event("e1", "a", 1)]).await;
    let claimed = claimed(h, &request(1)).await;
    let record = make(&claimed);
    let before = h.delivery(&event_id("e1")).await.expect("delivery");
    let began = h.database_now().await;
    let recorded = h.deliveries().record_outcome(&record).await;
    assert!(
        matches!(recorded, Ok(RecordOutcome::Recorded(state)) if state == expected),
        "{recorded:?}"
    );
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(row.state, expected);
    assert_eq!((&row.claim_owner, row.claim_until), (&None, None));
    assert_eq!((row.claim_count, row.attempt_count), (1, 1));
    assert!(row.row_version > before.row_version);
    assert_eq!(row.last_certainty, Some(record.outcome.certainty()));
    let journal = h.journal(&event_id("e1")).await;
    assert_eq!(journal.len(), 2);
    let observed = journal[1].clone();
    assert_eq!(observed.sequence, 2);
    assert_eq!(observed.observation, ObservationType::OutcomeObserved);
    assert_eq!(observed.attempt_id, record.attempt.attempt_id);
    assert_eq!(
        observed.claim_token_digest,
        record.attempt.claim_token.digest()
    );
    assert_eq!(observed.producer_generation, record.producer_generation);
    assert_eq!(observed.binding_revision, record.binding_revision);
    assert!((began..=h.database_now().await).contains(&observed.observed_at));
    assert_eq!(observed.certainty, Some(record.outcome.certainty()));
    assert_eq!(observed.disposition, Some(record.outcome.disposition()));
    assert_eq!(
        observed.failure_class,
        record.outcome.failure().map(|failure| failure.class)
    );
    assert_eq!(
        observed.failure_stage,
        record.outcome.failure().map(|failure| failure.stage)
    );
    (row, observed)
}

/// An acknowledgement becomes `DELIVERY_RECORDED`, with its reference.
pub async fn an_acknowledgement_is_recorded<H: OutboxHarness>(h: H) {
    let recorded = DeliveryStateName::DeliveryRecorded;
    let began = h.database_now().await;
    let (row, observed) = record_one(&h, acknowledged_record, recorded).await;
    assert_eq!(row.record_reference.as_deref(), Some("conformance/0@17"));
    assert_eq!(observed.record_reference, row.record_reference);
    assert_eq!(row.provider_generation, Some(producer()));
    assert!(row.delivery_recorded_at.expect("recorded at") >= began);
    assert_eq!(row.last_failure_class, None);
    nothing(&h, &request(2)).await;
}

/// A failure within its budget becomes `RETRY_WAIT`, due by the database clock.
pub async fn a_failure_within_its_budget_waits<H: OutboxHarness>(h: H) {
    let began = h.database_now().await;
    let make = |claimed: &ClaimedDelivery| retry_record(claimed, LONG);
    let (row, observed) = record_one(&h, make, DeliveryStateName::RetryWait).await;
    let due = row.next_attempt_at.expect("due");
    assert!((began.plus(LONG)..=h.database_now().await.plus(LONG)).contains(&due));
    assert_eq!(
        row.last_failure_class,
        Some(FailureClass::BrokerUnavailable)
    );
    assert_eq!(row.last_failure_stage, Some(FailureStage::Send));
    assert_eq!(row.delivery_recorded_at, None);
    assert_eq!(observed.record_reference, None);
}

/// A failure for good becomes `EXHAUSTED`, and says what is known about acceptance.
pub async fn an_ended_budget_is_exhausted<H: OutboxHarness>(h: H) {
    let outcome = PublicationOutcome::Indeterminate(failure(RetryDisposition::RetryWithinBudget));
    let make = |claimed: &ClaimedDelivery| outcome_of(claimed, outcome, RelayDecision::Exhaust);
    let (row, _) = record_one(&h, make, DeliveryStateName::Exhausted).await;
    assert_eq!(row.last_certainty, Some(AcceptanceCertainty::Indeterminate));
    assert_eq!(
        (row.next_attempt_at, row.delivery_recorded_at),
        (None, None)
    );
    nothing(&h, &request(2)).await;
}

/// An earlier attempt that ended INDETERMINATE, by its own worker or abandoned, keeps an
/// exhausted generation open; the last attempt's own answer is in the journal.
pub async fn an_earlier_open_attempt_keeps_an_exhausted_row_open<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let first = claimed(&h, &request(1)).await;
    let open = PublicationOutcome::Indeterminate(failure(RetryDisposition::RetryWithinBudget));
    let delay = std::time::Duration::from_micros(1);
    let open = outcome_of(&first, open, RelayDecision::Retry { delay });
    h.deliveries().record_outcome(&open).await.expect("open");
    let again = super::fixture::claimed_when_due(&h, 10, LONG).await;
    exhausted_open(&h, &again).await;
    append(&h, [event("e2", "b", 1)]).await;
    claimed(&h, &leased(2000, SHORT)).await;
    let again = super::fixture::claimed_when_due(&h, 2001, LONG).await;
    exhausted_open(&h, &again).await;
}

/// Ends a claim with a rejection for good, and finds the row open about acceptance.
async fn exhausted_open<H: OutboxHarness>(h: &H, claim: &ClaimedDelivery) {
    let id = &claim.attempt.event_id;
    let rejected = PublicationOutcome::Rejected(failure(RetryDisposition::NoRetry));
    let record = outcome_of(claim, rejected, RelayDecision::Exhaust);
    h.deliveries().record_outcome(&record).await.expect("ended");
    let row = h.delivery(id).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::Exhausted);
    assert_eq!(row.last_certainty, Some(AcceptanceCertainty::Indeterminate));
    assert_eq!(
        row.last_failure_class,
        Some(FailureClass::BrokerUnavailable)
    );
    let last = h.journal(id).await.pop().expect("an outcome");
    assert_eq!(last.certainty, Some(AcceptanceCertainty::NotAccepted));
}

/// A misroute becomes `HOLD`: its reference is journalled, but nothing is recorded as delivered.
pub async fn a_misroute_is_held<H: OutboxHarness>(h: H) {
    let make = |claimed: &ClaimedDelivery| {
        let outcome = PublicationOutcome::AcknowledgedMismatch(receipt(claimed));
        outcome_of(claimed, outcome, RelayDecision::Hold)
    };
    let (row, observed) = record_one(&h, make, DeliveryStateName::Hold).await;
    assert_eq!(
        row.last_certainty,
        Some(AcceptanceCertainty::AcceptedMismatch)
    );
    assert_eq!(
        observed.record_reference.as_deref(),
        Some("conformance/0@17")
    );
    assert_eq!(
        (row.delivery_recorded_at, row.record_reference),
        (None, None)
    );
    nothing(&h, &request(2)).await;
}

/// Why an earlier attempt failed stays readable after a later success.
pub async fn the_last_failure_outlives_a_success<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let first = claimed(&h, &request(1)).await;
    let retry = retry_record(&first, std::time::Duration::from_micros(1));
    h.deliveries().record_outcome(&retry).await.expect("retry");
    let second = super::fixture::claimed_when_due(&h, 10, LONG).await;
    h.deliveries()
        .record_outcome(&acknowledged_record(&second))
        .await
        .expect("record");
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::DeliveryRecorded);
    assert_eq!(
        row.last_failure_class,
        Some(FailureClass::BrokerUnavailable)
    );
    assert_eq!(row.last_certainty, Some(AcceptanceCertainty::Accepted));
}

/// Records what must be stale and shows that nothing changed.
async fn stale<H: OutboxHarness>(h: &H, record: &OutcomeRecord) {
    let id = event_id("e1");
    let (row, journal) = (h.delivery(&id).await, h.journal(&id).await);
    let recorded = h.deliveries().record_outcome(record).await;
    assert!(matches!(recorded, Ok(RecordOutcome::Stale)), "{recorded:?}");
    assert_eq!(h.delivery(&id).await, row);
    assert_eq!(h.journal(&id).await, journal);
}

/// Token, owner, attempt, event and generation must each be the claim's own.
pub async fn only_the_claims_own_identity_records<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1), event("e2", "b", 1)]).await;
    let claim = claimed(&h, &request(1)).await;
    assert_eq!(claim.attempt.event_id.as_str(), "e1");
    let record = acknowledged_record(&claim);
    let mut other = record.clone();
    other.attempt.claim_token = ClaimToken::from_random([1; 16]);
    stale(&h, &other).await;
    let mut other = record.clone();
    other.owner = WorkerId::parse("somebody-else").expect("worker id");
    stale(&h, &other).await;
    let mut other = record.clone();
    other.attempt.attempt_id = PublicationAttemptId::parse("another").expect("attempt id");
    stale(&h, &other).await;
    let mut other = record.clone();
    other.attempt.event_id = event_id("e2");
    stale(&h, &other).await;
    let mut other = record.clone();
    other.attempt.event_id = event_id("nobody");
    stale(&h, &other).await;
    let mut other = record.clone();
    other.attempt.generation = DeliveryGeneration::new(2).expect("generation");
    stale(&h, &other).await;
    let recorded = h.deliveries().record_outcome(&record).await;
    assert!(matches!(recorded, Ok(RecordOutcome::Recorded(_))));
}

/// An outcome is recorded once.
pub async fn a_second_outcome_is_stale<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let claim = claimed(&h, &request(1)).await;
    let record = acknowledged_record(&claim);
    h.deliveries().record_outcome(&record).await.expect("first");
    stale(&h, &record).await;
    stale(&h, &retry_record(&claim, LONG)).await;
}

/// A lapsed claim records nothing, even before anyone reclaimed it.
pub async fn a_lapsed_claim_records_nothing<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let claim = claimed(&h, &leased(1, SHORT)).await;
    passed(&h, claim.claim_until).await;
    stale(&h, &acknowledged_record(&claim)).await;
    stale(&h, &retry_record(&claim, LONG)).await;
    let held = PublicationOutcome::AcknowledgedMismatch(receipt(&claim));
    stale(&h, &outcome_of(&claim, held, RelayDecision::Hold)).await;
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::Claimed);
}

/// Only an acknowledgement on the compiled destination becomes `DELIVERY_RECORDED`, whatever the
/// caller asks for: the record is refused as it is or, in a window, held.
pub async fn only_an_acknowledgement_becomes_a_recorded_delivery<H: OutboxHarness>(h: H) {
    append(
        &h,
        ["e1", "e2", "e3"].map(|id| event(id, &format!("scope-of-{id}"), 1)),
    )
    .await;
    for number in 1..=3 {
        let claim = claimed(&h, &request(number)).await;
        let outcome = match number {
            1 => PublicationOutcome::Rejected(failure(RetryDisposition::NoRetry)),
            2 => PublicationOutcome::Indeterminate(failure(RetryDisposition::NoRetry)),
            _ => PublicationOutcome::AcknowledgedMismatch(receipt(&claim)),
        };
        let record = outcome_of(&claim, outcome, RelayDecision::Record);
        let recorded = h.deliveries().record_outcome(&record).await;
        let row = h.delivery(&claim.attempt.event_id).await.expect("delivery");
        let journalled = h.journal(&claim.attempt.event_id).await.len();
        match recorded {
            Err(_) => assert_eq!((row.state, journalled), (DeliveryStateName::Claimed, 1)),
            Ok(RecordOutcome::Recorded(DeliveryStateName::Hold)) => {
                assert_eq!((row.state, journalled), (DeliveryStateName::Hold, 2));
            }
            Ok(other) => panic!("{other:?}"),
        }
    }
}
