//! The transition table in the database against the one in the core.
//!
//! Invariant: the guard's table is the core's, pair by pair; neither is derived from the other.

use crate::place::Place;
use crate::sample::{append, event};
use domain_core::delivery::{Claim, DeliveryEvent, DeliveryState, DeliveryStateName, Holder};
use domain_core::identity::{ClaimToken, WorkerId};
use domain_core::instant::DatabaseInstant;
use sqlx::{AssertSqlSafe, Executor as _};

/// A state of that name, in the core's types. Its claim is live at 0 and has lapsed at 1, so that
/// what only a lapsed claim allows can be asked for too.
fn core_state(name: DeliveryStateName) -> DeliveryState {
    let due = DatabaseInstant::from_epoch_micros(0);
    match name {
        DeliveryStateName::Ready => DeliveryState::Ready,
        DeliveryStateName::Claimed => DeliveryState::Claimed(Claim {
            token: ClaimToken::from_random([0; 16]),
            owner: WorkerId::parse("w").expect("worker"),
            until: DatabaseInstant::from_epoch_micros(1),
        }),
        DeliveryStateName::RetryWait => DeliveryState::RetryWait { due },
        DeliveryStateName::DeliveryRecorded => DeliveryState::DeliveryRecorded,
        DeliveryStateName::Exhausted => DeliveryState::Exhausted,
        DeliveryStateName::Hold => DeliveryState::Hold,
        DeliveryStateName::Skipped => DeliveryState::Skipped,
        DeliveryStateName::Compensated => DeliveryState::Compensated,
        DeliveryStateName::LegacyRecordedUnverified => DeliveryState::LegacyRecordedUnverified,
        DeliveryStateName::LegacyAcceptedUnverified => DeliveryState::LegacyAcceptedUnverified,
    }
}

/// Whether the core's transition function has any event that leads from one state to the other.
fn core_allows(from: DeliveryStateName, to: DeliveryStateName) -> bool {
    let holder = Holder {
        token: ClaimToken::from_random([0; 16]),
        owner: WorkerId::parse("w").expect("worker"),
    };
    // At 0 the claim is live, at 1 it has lapsed.
    [0, 1].into_iter().any(|now| {
        let now = DatabaseInstant::from_epoch_micros(now);
        let holder = || holder.clone();
        let claim = Claim {
            token: ClaimToken::from_random([1; 16]),
            owner: WorkerId::parse("x").expect("worker"),
            until: DatabaseInstant::from_epoch_micros(9),
        };
        [
            DeliveryEvent::Claimed { claim, now },
            DeliveryEvent::BudgetSpent { now },
            DeliveryEvent::Renewed {
                holder: holder(),
                until: now,
                now,
            },
            DeliveryEvent::Acknowledged {
                holder: holder(),
                now,
            },
            DeliveryEvent::RetryScheduled {
                holder: holder(),
                due: now,
                now,
            },
            DeliveryEvent::AttemptsEnded {
                holder: holder(),
                now,
            },
            DeliveryEvent::HeldByWorker {
                holder: holder(),
                now,
            },
            DeliveryEvent::HeldByOperator { now },
            DeliveryEvent::Skipped,
            DeliveryEvent::Compensated,
            DeliveryEvent::LegacyAccepted,
        ]
        .iter()
        .any(|event| core_state(from).next(event).map(|next| next.name()) == Ok(to))
    })
}

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
