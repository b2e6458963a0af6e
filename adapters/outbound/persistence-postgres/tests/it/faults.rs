//! Killed sessions, aborted transactions, deadlocks, refused values.
//!
//! Invariant: each ends in a typed error or a repeated transaction; nothing is half there, and no
//! error shows a payload, a URL or a password.

use crate::claims::waits_for_a_lock;
use crate::harness::{PostgresHarness, policy};
use crate::sample::{acknowledged, append, claimed, event, event_id, parts, request, try_append};
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::event::ValidatedIntegrationEvent;
use application_core::ports::{
    AppendError, LateObservationId, LatePublicationObservation, OutboxAppendPort as _,
    OutboxAttemptObservationPort as _, OutboxDeliveryPort as _, OutboxQueryPort as _, RecordError,
    TransactionError, TransactionPort as _,
};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::ProducerGeneration;
use domain_core::instant::{DatabaseInstant, OccurredAt};
use domain_core::publication::ProviderRecordReference;
use outbound_persistence_postgres::{ConnectError, DatabaseFault, PoolSettings, PostgresStore};
use sqlx::{Connection as _, Executor as _};
use std::error::Error;
use std::time::Duration;

/// The adapter's own fault behind an error.
fn fault<'e>(error: &'e (dyn Error + 'static)) -> &'e DatabaseFault {
    let mut error = Some(error);
    while let Some(here) = error {
        if let Some(fault) = here.downcast_ref::<DatabaseFault>() {
            return fault;
        }
        error = here.source();
    }
    panic!("no database fault in the chain");
}

/// Everything that an error says, through its whole chain.
fn said(error: &(dyn Error + 'static)) -> String {
    let mut text = format!("{error:?}");
    let mut next = Some(error);
    while let Some(here) = next {
        text.push_str(&format!(" {here} {here:?}"));
        next = here.source();
    }
    text
}

/// A session killed in the middle of a business transaction takes everything with it.
#[tokio::test]
async fn a_killed_session_leaves_nothing_half_done() {
    let h = PostgresHarness::fresh().await;
    let (outbox, pool) = (h.store.outbox(policy()), h.pool.clone());
    let (first, second) = (event("e1", "a", 1), event("e2", "a", 2));
    let result = h
        .store
        .transactions()
        .in_write(move |tx| {
            Box::pin(async move {
                PostgresHarness::insert_business_row(tx, "lost")
                    .await
                    .expect("a business row");
                outbox.append(tx, &first).await?;
                let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
                    .fetch_one(tx.as_mut())
                    .await
                    .expect("backend");
                sqlx::query("SELECT pg_terminate_backend($1, 5000)")
                    .bind(backend)
                    .execute(&pool)
                    .await
                    .expect("killed");
                outbox.append(tx, &second).await
            })
        })
        .await;
    assert!(
        matches!(
            result,
            Err(TransactionError::Work(AppendError::Unavailable(_)))
        ),
        "{result:?}"
    );
    assert_eq!(h.business_rows().await, Vec::<String>::new());
    assert_eq!(h.store.query().counts().await.expect("counts").events, 0);
    append(&h.store, &event("e1", "a", 1)).await;
}

/// Idle sessions that a restart took away are replaced; no caller notices.
#[tokio::test]
async fn dead_idle_sessions_are_replaced() {
    let h = PostgresHarness::fresh().await;
    let url = h.place.url();
    let settings = PoolSettings {
        application_name: format!("{}_x", h.place.name()),
        maximum_connections: 4,
        ..h.place.settings()
    };
    let store = PostgresStore::connect(&url, &settings)
        .await
        .expect("connected");
    append(&store, &event("e1", "a", 1)).await;
    let killed: i64 = sqlx::query_scalar(
        "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity \
         WHERE application_name = $1",
    )
    .bind(&settings.application_name)
    .fetch_one(&h.pool)
    .await
    .expect("killed");
    assert!(killed >= 1, "no session was there to kill");
    append(&store, &event("e2", "a", 2)).await;
    let claim = claimed(&store, &request(1)).await;
    assert_eq!(claim.attempt.event_id.as_str(), "e1");
    store.close().await;
}

/// PostgreSQL answers COMMIT in an aborted transaction with a quiet ROLLBACK; the caller must not
/// hear that it was committed.
#[tokio::test]
async fn a_swallowed_sql_error_is_no_commit() {
    let h = PostgresHarness::fresh().await;
    let (outbox, sealed) = (h.store.outbox(policy()), event("e1", "a", 1));
    let result = h
        .store
        .transactions()
        .in_write(move |tx| {
            Box::pin(async move {
                outbox.append(tx, &sealed).await.expect("appended");
                PostgresHarness::insert_business_row(tx, "twice")
                    .await
                    .expect("a business row");
                PostgresHarness::insert_business_row(tx, "twice")
                    .await
                    .expect_err("the key is taken");
                Ok::<_, std::fmt::Error>(())
            })
        })
        .await;
    let Err(error @ TransactionError::Refused(_)) = result else {
        panic!("not refused: {result:?}");
    };
    assert!(matches!(
        fault(&error),
        DatabaseFault::Answered { sqlstate, .. } if sqlstate == "25P02"
    ));
    assert_eq!(h.business_rows().await, Vec::<String>::new());
    assert_eq!(h.store.query().counts().await.expect("counts").events, 0);
}

/// A deferred constraint speaks at COMMIT: refused, not unknown.
#[tokio::test]
async fn a_commit_that_the_server_refuses_is_refused() {
    let h = PostgresHarness::fresh().await;
    h.pool
        .execute(
            "CREATE TABLE child (key text REFERENCES business (key) \
             DEFERRABLE INITIALLY DEFERRED)",
        )
        .await
        .expect("a table");
    let result = h
        .store
        .transactions()
        .in_write(|tx| {
            Box::pin(async move {
                tx.as_mut()
                    .execute("INSERT INTO child VALUES ('nobody')")
                    .await
                    .expect("deferred");
                Ok::<_, std::fmt::Error>(())
            })
        })
        .await;
    let Err(error @ TransactionError::Refused(_)) = result else {
        panic!("not refused: {result:?}");
    };
    assert!(matches!(
        fault(&error),
        DatabaseFault::Answered { sqlstate, constraint: Some(constraint), .. }
            if sqlstate == "23503" && constraint == "child_key_fkey"
    ));
}

/// A lock that does not come in time is a typed error, and the claim stays what it was.
#[tokio::test]
async fn a_lock_timeout_records_nothing() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e1", "a", 1)).await;
    let claim = claimed(&h.store, &request(1)).await;
    let settings = PoolSettings {
        lock_timeout: Duration::from_millis(50),
        ..h.place.settings()
    };
    let store = PostgresStore::connect(&h.place.url(), &settings)
        .await
        .expect("connected");
    let mut session = h.place.session().await;
    let mut holder = session.begin().await.expect("begin");
    holder
        .execute("SELECT 1 FROM outbox_delivery FOR UPDATE")
        .await
        .expect("locked");
    let recorded = store
        .deliveries()
        .record_outcome(&acknowledged(&claim))
        .await;
    let Err(error @ RecordError::Unavailable(_)) = recorded else {
        panic!("not unavailable: {recorded:?}");
    };
    assert!(matches!(
        fault(&error),
        DatabaseFault::Answered { sqlstate, .. } if sqlstate == "55P03"
    ));
    holder.rollback().await.expect("released");
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::Claimed);
    assert_eq!(h.journal(&event_id("e1")).await.len(), 1);
}

/// A deadlock's victim is repeated, counted, and comes to its end.
#[tokio::test]
async fn a_deadlock_is_repeated_and_counted() {
    let h = PostgresHarness::fresh().await;
    let mut observations = Vec::new();
    for number in 1..=2_u32 {
        append(
            &h.store,
            &event(&format!("e{number}"), &format!("a{number}"), 1),
        )
        .await;
        let claim = claimed(&h.store, &request(number)).await;
        observations.push(LatePublicationObservation {
            id: LateObservationId(number.into()),
            attempt: claim.attempt,
            producer_generation: ProducerGeneration::parse("producer-1").expect("generation"),
            binding_revision: claim.event.binding_revision.clone(),
            certainty: domain_core::publication::AcceptanceCertainty::Accepted,
            observed_at: DatabaseInstant::from_epoch_micros(1),
            record_reference: ProviderRecordReference::parse("r").expect("reference"),
        });
    }
    // A session looks for a deadlock once in a wait, this long after it began: the other one closes
    // the circle before that and looks later, so the store's session is the victim.
    let store = h.place.bare_store(&["deadlock_timeout=2s"]).await;
    let mut session = h.place.session().await;
    session
        .execute("SET deadlock_timeout = '20s'")
        .await
        .expect("set");
    let mut holder = session.begin().await.expect("begin");
    holder
        .execute("SELECT 1 FROM outbox_delivery WHERE event_id = 'e2' FOR UPDATE")
        .await
        .expect("e2");
    let deliveries = store.deliveries();
    let writing = tokio::spawn({
        let deliveries = deliveries.clone();
        async move { deliveries.append_late_observations(&observations).await }
    });
    waits_for_a_lock(&h, 1).await;
    holder
        .execute("SELECT 1 FROM outbox_delivery WHERE event_id = 'e1' FOR UPDATE")
        .await
        .expect("the other one is the victim");
    assert!(deliveries.repeated_transactions() < 10);
    holder.commit().await.expect("committed");
    let report = writing.await.expect("joined").expect("written");
    assert_eq!(report.appended, 2);
    assert!(deliveries.repeated_transactions() >= 1);
    assert_eq!(h.journal(&event_id("e1")).await.len(), 2);
}

/// A value that the database refuses: typed, with the SQLSTATE, and without any of the content.
#[tokio::test]
async fn a_refused_value_shows_no_content() {
    let h = PostgresHarness::fresh().await;
    let mut refused = parts("e1", "a", 1);
    refused.envelope = b"{\"secret\":\"hunter2\"}".to_vec();
    // Beyond what the column can hold, although the core's type can.
    refused.identities.occurred_at = OccurredAt::new(31_556_889_864_403_199, 0).expect("instant");
    let refused = ValidatedIntegrationEvent::seal(refused);
    let result = try_append(&h.store, &h.store.transactions(), &refused).await;
    let Err(error) = result else {
        panic!("accepted");
    };
    assert!(
        matches!(&error, TransactionError::Work(AppendError::Refused { event_id, .. })
            if event_id.as_str() == "e1"),
        "{error:?}"
    );
    assert!(matches!(
        fault(&error),
        DatabaseFault::Answered { sqlstate, .. } if sqlstate.starts_with("22")
    ));
    let said = said(&error);
    assert!(
        !said.contains("hunter2") && !said.contains("secret"),
        "{said}"
    );
}

/// Wrong URLs, refused logins and unreachable servers are told apart, and none shows the URL.
#[tokio::test]
async fn a_failed_connection_shows_no_url() {
    let h = PostgresHarness::fresh().await;
    let settings = PoolSettings {
        acquire_timeout: Duration::from_millis(500),
        ..h.place.settings()
    };
    for (url, expected) in [
        ("mysql://root:hunter2@localhost/x", "url"),
        ("not a url with hunter2", "url"),
        (
            "postgres://u@127.0.0.1:1/x?sslpassword=hunter2",
            "parameter",
        ),
        ("postgres://u:hunter2@127.0.0.1:1/x", "unavailable"),
    ] {
        let error = PostgresStore::connect(url, &settings)
            .await
            .expect_err("refused");
        let kind = match &error {
            ConnectError::Url => "url",
            ConnectError::UnknownParameter => "parameter",
            ConnectError::Settings(_) => "settings",
            ConnectError::Unavailable(_) => "unavailable",
        };
        assert_eq!(kind, expected, "{error:?}");
        let said = said(&error);
        assert!(!said.contains("hunter2"), "{said}");
    }
    assert_eq!(format!("{:?}", h.store), "PostgresStore { .. }");
}
