//! The account of a sound run, with one thing falsified at a time.
//!
//! Invariant checked: each rule of the account is broken by what it is there for.

use crate::account::{self, broken_rules};
use crate::scene::Scene;
use crate::server::Server;
use crate::support::{environment, eventually};
use crate::writers::Writers;
use crate::{Bounds, Choices, alone};
use sqlx::Connection as _;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

/// The rule, and what breaks it once, whatever guards the tables have.
const PLANTED: [(&str, &str); 9] = [
    (
        "attempts follow one another, each admitted and closed once under one token",
        "DELETE FROM outbox_delivery_attempt_observation WHERE ctid = (
             SELECT ctid FROM outbox_delivery_attempt_observation
              WHERE observation_type = 'OUTCOME_OBSERVED' LIMIT 1
         )",
    ),
    (
        "a late observation belongs to an attempt that was admitted before, under the same token",
        "INSERT INTO outbox_delivery_attempt_observation (
             event_id, delivery_generation, publication_attempt_id, observation_sequence,
             observation_type, claim_token_digest, producer_generation,
             destination_binding_revision, acceptance_certainty, retry_disposition,
             provider_record_reference
         ) SELECT event_id, delivery_generation, publication_attempt_id, 99, 'LATE_ACK_OBSERVED',
                  sha256('other'), producer_generation, destination_binding_revision, 'ACCEPTED',
                  'NO_RETRY', 'r'
             FROM outbox_delivery_attempt_observation
            WHERE observation_type = 'ATTEMPT_ADMITTED' LIMIT 1",
    ),
    (
        "attempts are counted as they were admitted",
        "UPDATE outbox_delivery
            SET claim_count = claim_count + 1,
                publication_attempt_count = publication_attempt_count + 1",
    ),
    (
        "what is recorded was accepted in its last attempt, under its reference",
        "UPDATE outbox_delivery SET provider_record_reference = 'kafka:local/t/0@0'",
    ),
    (
        "a recorded row was written once for each claim and once for each worker's outcome",
        "UPDATE outbox_delivery SET row_version = row_version + 1",
    ),
    (
        "a lapsed token changed nothing",
        "UPDATE fault_history SET old_until = changed_at - interval '2 seconds'
          WHERE old_state = 'CLAIMED'",
    ),
    (
        "a live claim is not taken from its owner",
        "UPDATE fault_history SET new_state = 'CLAIMED', new_digest = sha256('other')
          WHERE old_state = 'CLAIMED'",
    ),
    (
        "no change of a row is missing or doubled",
        "DELETE FROM fault_history WHERE ctid = (SELECT ctid FROM fault_history LIMIT 1)",
    ),
    (
        "each change of a claimed row is journalled under the token that the row had",
        "UPDATE fault_history SET old_digest = sha256('other') WHERE old_state = 'CLAIMED'",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_rule_of_the_account_is_broken_by_what_it_is_for() {
    let _alone = alone().await;
    let bootstrap = environment("COUNTERSIGN_TEST_KAFKA_BOOTSTRAP");
    let scene = Scene::create(&bootstrap, Duration::from_secs(900)).await;
    let mut server = Server::start(&scene.window, &scene.log("serve"), None);
    let choices = Choices(Bounds::of_environment().seed);
    let writers = Writers::start(&scene, 8, Duration::from_millis(20), &choices);
    eventually("some events", LIMIT, async || {
        (scene.count("SELECT count(*) FROM outbox_event").await >= 20).then_some(())
    })
    .await;
    let written = writers.stop().await;
    eventually("everything is recorded", LIMIT, async || {
        server.must_run();
        let open = scene
            .count("SELECT count(*) FROM outbox_delivery WHERE state <> 'DELIVERY_RECORDED'")
            .await;
        (open == 0).then_some(())
    })
    .await;
    server.terminate().await;
    account::settle(&scene, &written).await;

    let mut connection = scene.connect().await;
    for (rule, falsify) in PLANTED {
        let mut transaction = connection.begin().await.expect("begins");
        // No trigger of the tables fires.
        sqlx::raw_sql("SET LOCAL session_replication_role = replica")
            .execute(&mut *transaction)
            .await
            .expect("the role");
        let falsified = sqlx::query(falsify)
            .execute(&mut *transaction)
            .await
            .expect(rule);
        assert!(falsified.rows_affected() > 0, "{rule}");
        let broken = broken_rules(&mut transaction).await;
        assert!(broken.contains(&rule), "{rule}: {broken:?}");
        transaction.rollback().await.expect("rolled back");
    }
    assert_eq!(broken_rules(&mut connection).await, [""; 0]);
    scene.remove().await;
}
