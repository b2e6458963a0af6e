//! The transition table in the database against the one in the core.
//!
//! Invariant: the guard's table is the core's, pair by pair; neither is derived from the other.

use crate::place::Place;
use crate::sample::{append, event};
use application_core::conformance::outbox::core_allows;
use domain_core::delivery::DeliveryStateName;
use sqlx::{AssertSqlSafe, Executor as _};

/// The columns that a row of a state has.
fn columns(state: DeliveryStateName) -> String {
    let when = |wanted: DeliveryStateName, value: &str| {
        if state == wanted { value } else { "NULL" }.to_owned()
    };
    let open = matches!(
        state,
        DeliveryStateName::Ready | DeliveryStateName::Claimed | DeliveryStateName::RetryWait
    );
    format!(
        "state = '{}', claim_count = 1, publication_attempt_count = 1, \
         first_attempt_at = clock_timestamp(), claim_token = {}, claim_owner = {}, \
         claim_until = {}, next_attempt_at = {}, delivery_recorded_at = {}, terminal_at = {}, \
         last_outcome_certainty = 'ACCEPTED', provider_generation = 'g', \
         provider_record_reference = 'r', row_version = row_version + 1",
        state.as_str(),
        when(
            DeliveryStateName::Claimed,
            r"'\x00000000000000000000000000000000'"
        ),
        when(DeliveryStateName::Claimed, "'w'"),
        when(DeliveryStateName::Claimed, "clock_timestamp()"),
        when(DeliveryStateName::RetryWait, "clock_timestamp()"),
        when(DeliveryStateName::DeliveryRecorded, "clock_timestamp()"),
        if open { "NULL" } else { "clock_timestamp()" },
    )
}

/// The guard in the database and the core's function allow the same transitions, all hundred.
#[tokio::test]
async fn the_database_has_the_cores_transition_table() {
    let place = Place::create().await;
    let store = place.store().await;
    append(&store, &event("e1", "a", 1)).await;
    for from in DeliveryStateName::ALL {
        for to in DeliveryStateName::ALL {
            let mut tx = place.pool().begin().await.expect("begin");
            tx.execute(AssertSqlSafe(format!(
                "SET LOCAL session_replication_role = replica; UPDATE outbox_delivery SET {}; \
                 SET LOCAL session_replication_role = origin",
                columns(from)
            )))
            .await
            .unwrap_or_else(|error| panic!("{from:?}: {error}"));
            let moved = tx
                .execute(AssertSqlSafe(format!(
                    "UPDATE outbox_delivery SET {}",
                    columns(to)
                )))
                .await;
            if let Err(error) = &moved {
                let error = error.as_database_error().expect("the server's answer");
                assert_eq!(error.constraint(), Some("outbox_delivery_transition"));
            }
            assert_eq!(moved.is_ok(), core_allows(from, to), "{from:?} to {to:?}");
            tx.rollback().await.expect("rolled back");
        }
    }
}
