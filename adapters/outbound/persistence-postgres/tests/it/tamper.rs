//! SQL that breaks a rule, past the ports.
//!
//! Invariant: an attempt says `Done` only if the database committed it and a row changed.

use crate::harness::PostgresHarness;
use application_core::conformance::outbox::{Damage, GuardedOutboxHarness, Tampered, Tampering};
use domain_core::identity::EventId;
use sqlx::Executor as _;

impl GuardedOutboxHarness for PostgresHarness {
    async fn tamper(&self, tampering: Tampering, event: &EventId) -> Tampered {
        let statement = statement(tampering);
        let mut tx = self.pool.begin().await.expect("begin");
        let attempted = if statement.contains("$1") {
            sqlx::query(statement).bind(event.as_str())
        } else {
            sqlx::query(statement)
        }
        .execute(&mut *tx)
        .await;
        match attempted {
            Ok(changed) => {
                assert_ne!(changed.rows_affected(), 0, "{tampering:?} met no row");
                match tx.commit().await {
                    Ok(()) => Tampered::Done,
                    Err(_) => Tampered::Refused,
                }
            }
            Err(error) => {
                // Refused by a guard, not by a mistake in the statement.
                let error = error.into_database_error().expect("the server's answer");
                let sqlstate = error.code().expect("SQLSTATE").into_owned();
                assert!(sqlstate.starts_with("23"), "{tampering:?}: {sqlstate}");
                tx.rollback().await.expect("rolled back");
                Tampered::Refused
            }
        }
    }

    async fn damage(&self, damage: Damage, event: &EventId) {
        let mut tx = self.pool.begin().await.expect("begin");
        tx.execute("SET LOCAL session_replication_role = replica")
            .await
            .expect("a superuser");
        let done = sqlx::query(match damage {
            // The CHECKs let it through.
            Damage::AggregateId => {
                r"UPDATE outbox_event SET aggregate_id = U&'\200B' WHERE event_id = $1"
            }
            Damage::JournalLost => {
                "DELETE FROM outbox_delivery_attempt_observation WHERE event_id = $1"
            }
        })
        .bind(event.as_str())
        .execute(&mut *tx)
        .await;
        assert_eq!(done.expect("damaged").rows_affected(), 1);
        tx.commit().await.expect("committed");
    }
}

fn statement(tampering: Tampering) -> &'static str {
    match tampering {
        Tampering::ChangeEventMetadata => {
            "UPDATE outbox_event SET correlation_id = 'changed' WHERE event_id = $1"
        }
        Tampering::ChangeEnvelope => {
            r"UPDATE outbox_event SET envelope_bytes = '\x7b7d' WHERE event_id = $1"
        }
        Tampering::DeleteEvent => "DELETE FROM outbox_event WHERE event_id = $1",
        Tampering::ChangeObservation => {
            "UPDATE outbox_delivery_attempt_observation \
             SET acceptance_certainty = 'INDETERMINATE' WHERE event_id = $1"
        }
        Tampering::DeleteObservations => {
            "DELETE FROM outbox_delivery_attempt_observation WHERE event_id = $1"
        }
        Tampering::ChangePartitionKeyCopy => {
            "UPDATE outbox_delivery SET partition_key_text = repeat('0', 64), \
             row_version = row_version + 1 WHERE event_id = $1"
        }
        Tampering::ChangeSequenceCopy => {
            "UPDATE outbox_delivery SET aggregate_sequence = aggregate_sequence + 1, \
             row_version = row_version + 1 WHERE event_id = $1"
        }
        Tampering::ChangeOrderingCopy => {
            "UPDATE outbox_delivery SET ordering_required = NOT ordering_required, \
             row_version = row_version + 1 WHERE event_id = $1"
        }
        Tampering::ChangeDeadline => {
            "UPDATE outbox_delivery \
             SET automatic_attempt_deadline = automatic_attempt_deadline + interval '1 hour', \
             row_version = row_version + 1 WHERE event_id = $1"
        }
        Tampering::SecondCurrentGeneration => {
            "INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status, \
             dispatch_profile_id, state, automatic_attempt_deadline) \
             VALUES ($1, 2, 'CURRENT', 'tampered', 'READY', clock_timestamp())"
        }
        Tampering::RecordWithoutAcknowledgement => {
            "UPDATE outbox_delivery SET state = 'DELIVERY_RECORDED', \
             delivery_recorded_at = clock_timestamp(), terminal_at = clock_timestamp(), \
             claim_token = NULL, claim_owner = NULL, claim_until = NULL, \
             provider_generation = 'g', provider_record_reference = 'r', \
             row_version = row_version + 1 WHERE event_id = $1"
        }
        Tampering::ChangeResourceId => {
            "UPDATE transaction_resource SET resource_id = repeat('0', 32)"
        }
        Tampering::SecondResourceId => {
            "INSERT INTO transaction_resource (resource_id) VALUES (repeat('0', 32))"
        }
        Tampering::SecondActiveEpoch => {
            "INSERT INTO outbox_publication_epoch \
             (epoch_id, authority, state, activated_at, activated_by) \
             VALUES (1000, 'POLLING_V2', 'ACTIVE', clock_timestamp(), 'tampered')"
        }
        Tampering::DeliveryForCdcEvent => {
            "INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status, \
             dispatch_profile_id, destination_binding_revision, state, \
             automatic_attempt_deadline, partition_key_text, aggregate_sequence, \
             aggregate_event_index, ordering_required, claim_partition) \
             SELECT event_id, 1, 'CURRENT', 'tampered', destination_binding_revision, 'READY', \
             clock_timestamp(), partition_key_text, aggregate_sequence, aggregate_event_index, \
             ordering_required, get_byte(decode(left(partition_key_text, 2), 'hex'), 0) \
             FROM outbox_event WHERE event_id = $1"
        }
        Tampering::ChangeEpochAuthority => "UPDATE outbox_publication_epoch SET authority = 'CDC'",
        Tampering::SkipReady => {
            "UPDATE outbox_delivery SET state = 'SKIPPED', terminal_at = clock_timestamp(), \
             row_version = row_version + 1 WHERE event_id = $1"
        }
        Tampering::ReviveExhausted => {
            "UPDATE outbox_delivery SET state = 'READY', terminal_at = NULL, \
             row_version = row_version + 1 WHERE event_id = $1"
        }
        Tampering::SkipRowVersion => {
            "UPDATE outbox_delivery SET state = 'HOLD', terminal_at = clock_timestamp(), \
             row_version = row_version + 2 WHERE event_id = $1"
        }
    }
}
