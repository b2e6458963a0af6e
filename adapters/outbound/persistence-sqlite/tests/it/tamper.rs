//! SQL that breaks a rule, past the ports, and damage past the guards.
//!
//! Invariant: an attempt says `Done` only if the database let it happen and a row changed.

use crate::harness::SqliteHarness;
use application_core::conformance::outbox::{Damage, GuardedOutboxHarness, Tampered, Tampering};
use domain_core::identity::EventId;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, SqliteConnection};

/// A CURRENT generation that copies its event faithfully.
macro_rules! concat_generation {
    ($verb:literal, $generation:literal) => {
        concat!(
            $verb,
            " INTO outbox_delivery (event_id, delivery_generation, authority_status,
              dispatch_profile_id, destination_binding_revision, state, claim_count,
              publication_attempt_count, row_version, created_at, automatic_attempt_deadline,
              updated_at, partition_key_text, aggregate_sequence, aggregate_event_index,
              ordering_required, claim_partition, logical_destination_id)
              SELECT event_id, ",
            $generation,
            ", 'CURRENT', 'p', destination_binding_revision, 'READY', 0, 0, 1, created_at,
              created_at + 1, created_at, partition_key_text, aggregate_sequence,
              aggregate_event_index, ordering_required,
              16 * (instr('0123456789abcdef', substr(partition_key_text, 1, 1)) - 1)
                  + instr('0123456789abcdef', substr(partition_key_text, 2, 1)) - 1,
              logical_destination_id
              FROM outbox_event WHERE event_id = ?1"
        )
    };
}

impl GuardedOutboxHarness for SqliteHarness {
    async fn tamper(&self, tampering: Tampering, event: &EventId) -> Tampered {
        let mut tried = 0;
        for sql in statements(tampering) {
            tried += 1;
            // A statement that changes no row was no attempt.
            match self.raw(sql, event).await {
                Ok(0) => panic!("{tampering:?} met no row"),
                Ok(_) => return Tampered::Done,
                Err(error) => {
                    let code = error.as_database_error().and_then(|error| error.code());
                    let code: i32 = code.expect("refused by SQLite").parse().expect("code");
                    assert_eq!(code & 0xFF, 19, "refused, but by no constraint: {error}");
                }
            }
        }
        assert_ne!(tried, 0);
        Tampered::Refused
    }

    async fn damage(&self, damage: Damage, event: &EventId) {
        let (guard, sql) = match damage {
            Damage::AggregateId => (
                "outbox_event_is_never_changed",
                "UPDATE outbox_event SET aggregate_id = char(0x200B) WHERE event_id = ?1",
            ),
            Damage::JournalLost => (
                "outbox_delivery_attempt_observation_is_never_deleted",
                "DELETE FROM outbox_delivery_attempt_observation WHERE event_id = ?1",
            ),
        };
        let mut connection = self.connect().await;
        let mut tx = connection.begin().await.expect("begin");
        let lifted = lift(&mut tx, guard).await;
        let done = sqlx::query(sql)
            .bind(event.as_str())
            .execute(&mut *tx)
            .await;
        assert_eq!(done.expect("damaged").rows_affected(), 1);
        restore(&mut tx, lifted).await;
        tx.commit().await.expect("committed");
    }
}

/// Every way that SQLite offers; `REPLACE` deletes without a DELETE trigger.
fn statements(tampering: Tampering) -> &'static [&'static str] {
    match tampering {
        Tampering::ChangeEventMetadata => &[
            "UPDATE outbox_event SET correlation_id = 'other' WHERE event_id = ?1",
            "UPDATE OR REPLACE outbox_event SET event_id = 'e9' WHERE event_id = ?1",
            "REPLACE INTO outbox_event SELECT * FROM outbox_event WHERE event_id = ?1",
        ],
        Tampering::ChangeEnvelope => &[
            "UPDATE outbox_event SET envelope_bytes = CAST('{}' AS BLOB) WHERE event_id = ?1",
            "UPDATE outbox_event SET envelope_bytes = envelope_bytes WHERE event_id = ?1",
        ],
        Tampering::DeleteEvent => &["DELETE FROM outbox_event WHERE event_id = ?1"],
        Tampering::ChangeObservation => &[
            "UPDATE outbox_delivery_attempt_observation SET acceptance_certainty = 'NOT_ACCEPTED'
             WHERE event_id = ?1 AND observation_type = 'OUTCOME_OBSERVED'",
            "REPLACE INTO outbox_delivery_attempt_observation
             SELECT * FROM outbox_delivery_attempt_observation WHERE event_id = ?1",
        ],
        Tampering::DeleteObservations => {
            &["DELETE FROM outbox_delivery_attempt_observation WHERE event_id = ?1"]
        }
        Tampering::ChangePartitionKeyCopy => &[
            "UPDATE outbox_delivery SET row_version = row_version + 1, partition_key_text =
             (SELECT partition_key_text FROM outbox_event WHERE event_id <> ?1) WHERE event_id = ?1",
        ],
        Tampering::ChangeSequenceCopy => &[
            "UPDATE outbox_delivery SET row_version = row_version + 1, aggregate_sequence = 77
             WHERE event_id = ?1",
        ],
        Tampering::ChangeOrderingCopy => &[
            "UPDATE outbox_delivery SET row_version = row_version + 1, ordering_required = 0
             WHERE event_id = ?1",
        ],
        Tampering::ChangeDeadline => &[
            "UPDATE outbox_delivery SET row_version = row_version + 1,
             automatic_attempt_deadline = automatic_attempt_deadline + 1 WHERE event_id = ?1",
        ],
        Tampering::SecondCurrentGeneration => &[
            concat_generation!("INSERT", "2"),
            concat_generation!("REPLACE", "2"),
            concat_generation!("REPLACE", "1"),
        ],
        Tampering::RecordWithoutAcknowledgement => &[
            "UPDATE outbox_delivery SET state = 'DELIVERY_RECORDED', claim_token = NULL,
             claim_owner = NULL, claim_until = NULL, delivery_recorded_at = 1,
             provider_record_reference = 'r', row_version = row_version + 1 WHERE event_id = ?1",
            "UPDATE outbox_delivery SET state = 'DELIVERY_RECORDED', claim_token = NULL,
             claim_owner = NULL, claim_until = NULL, delivery_recorded_at = 1,
             last_outcome_certainty = 'INDETERMINATE', provider_record_reference = 'r',
             row_version = row_version + 1 WHERE event_id = ?1",
        ],
        Tampering::ChangeResourceId => &[
            "UPDATE transaction_resource SET resource_id = lower(hex(randomblob(16)))
             WHERE ?1 IS NOT NULL",
            "REPLACE INTO transaction_resource
             SELECT 1, lower(hex(randomblob(16))) WHERE ?1 IS NOT NULL",
            "DELETE FROM transaction_resource WHERE ?1 IS NOT NULL",
        ],
        Tampering::SecondResourceId => &[
            "INSERT INTO transaction_resource
             SELECT 2, lower(hex(randomblob(16))) WHERE ?1 IS NOT NULL",
        ],
        Tampering::SecondActiveEpoch => &[
            "INSERT INTO outbox_publication_epoch (epoch_id, authority, state, activated_at)
             SELECT 9, 'CDC', 'ACTIVE', 1 WHERE ?1 IS NOT NULL",
            "REPLACE INTO outbox_publication_epoch (epoch_id, authority, state, activated_at)
             SELECT 9, 'CDC', 'ACTIVE', 1 WHERE ?1 IS NOT NULL",
            "DELETE FROM outbox_publication_epoch WHERE ?1 IS NOT NULL",
        ],
        Tampering::DeliveryForCdcEvent => &[concat_generation!("INSERT", "1")],
        Tampering::ChangeEpochAuthority => &[
            "UPDATE outbox_publication_epoch SET authority = 'CDC' WHERE ?1 IS NOT NULL",
            "UPDATE outbox_publication_epoch SET epoch_id = 9 WHERE ?1 IS NOT NULL",
        ],
        Tampering::SkipReady => &[
            "UPDATE outbox_delivery SET state = 'SKIPPED', row_version = row_version + 1
             WHERE event_id = ?1",
        ],
        Tampering::ReviveExhausted => &[
            "UPDATE outbox_delivery SET state = 'READY', row_version = row_version + 1
             WHERE event_id = ?1",
            "UPDATE outbox_delivery SET state = 'DELIVERY_RECORDED', delivery_recorded_at = 1,
             last_outcome_certainty = 'ACCEPTED', provider_record_reference = 'r',
             row_version = row_version + 1 WHERE event_id = ?1",
        ],
        Tampering::SkipRowVersion => &[
            "UPDATE outbox_delivery SET state = 'HOLD', row_version = row_version + 2
             WHERE event_id = ?1",
            "UPDATE outbox_delivery SET state = 'HOLD' WHERE event_id = ?1",
        ],
    }
}

/// Takes a trigger away and tells how it was made.
pub(crate) async fn lift(connection: &mut SqliteConnection, trigger: &str) -> String {
    let made: String = sqlx::query_scalar("SELECT sql FROM sqlite_schema WHERE name = ?1")
        .bind(trigger)
        .fetch_one(&mut *connection)
        .await
        .expect("the trigger");
    connection
        .execute(AssertSqlSafe(format!("DROP TRIGGER {trigger}")))
        .await
        .expect("lifted");
    made
}

pub(crate) async fn restore(connection: &mut SqliteConnection, made: String) {
    connection
        .execute(AssertSqlSafe(made))
        .await
        .expect("restored");
}
