//! What an append costs the business transaction that it is part of.
//!
//! Invariant: two statements more, the admission's in the message that begins, the append's own in
//! one round trip; nothing else, wherever the append stands in the transaction.

use crate::harness::{PostgresHarness, policy};
use crate::place::server;
use crate::proxy::{Proxy, Sent};
use crate::sample::event;
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::{AppendError, OutboxAppendPort as _, TransactionPort as _};
use outbound_persistence_postgres::{PoolSettings, PostgresStore, PostgresTransactions};

/// Which of a transaction's two statements come, and in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    BusinessAlone,
    AppendLast,
    AppendFirst,
}

/// What was sent for one transaction, up to its commit.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    round_trips: usize,
    statements: usize,
}

async fn transaction(
    store: &PostgresStore,
    transactions: &PostgresTransactions,
    shape: Shape,
    id: &str,
) {
    let (outbox, sealed, key) = (store.outbox(policy()), event(id, id, 1), id.to_owned());
    transactions
        .in_write(move |tx| {
            Box::pin(async move {
                if shape == Shape::AppendFirst {
                    outbox.append(tx, &sealed).await?;
                }
                PostgresHarness::insert_business_row(tx, &key)
                    .await
                    .map_err(AppendError::Unavailable)?;
                if shape == Shape::AppendLast {
                    outbox.append(tx, &sealed).await?;
                }
                Ok::<_, AppendError>(())
            })
        })
        .await
        .expect("committed");
}

/// Counts a transaction's messages, from the one that begins it to the one that commits it. The
/// transaction's own settings are no statements of anybody's work.
fn cost(sent: &[Sent]) -> Cost {
    let begins = sent
        .iter()
        .position(|sent| matches!(sent, Sent::Query(text) if text.contains("BEGIN")))
        .expect("a begin");
    let commits = sent
        .iter()
        .position(|sent| match sent {
            Sent::Query(text) => text == "COMMIT" || text.contains("COMMIT AND CHAIN"),
            Sent::Execute | Sent::Sync => false,
        })
        .expect("a commit");
    let mut cost = Cost {
        round_trips: 0,
        statements: 0,
    };
    for sent in &sent[begins..=commits] {
        match sent {
            Sent::Query(text) => {
                cost.round_trips += 1;
                cost.statements += text.split(';').filter(|one| is_work(one)).count();
            }
            Sent::Execute => cost.statements += 1,
            Sent::Sync => cost.round_trips += 1,
        }
    }
    cost
}

fn is_work(statement: &str) -> bool {
    let statement = statement.trim();
    !statement.is_empty() && !statement.starts_with("SET ")
}

/// Beside the same transaction through the same port without admission and append.
#[tokio::test]
async fn an_append_costs_two_statements_and_one_round_trip() {
    let h = PostgresHarness::fresh().await;
    let proxy = Proxy::start((server().get_host().to_owned(), server().get_port())).await;
    let url = h.place.url().replacen(
        &format!(":{}/", server().get_port()),
        &format!(":{}/", proxy.port()),
        1,
    );
    // One session, so that its statements are prepared once.
    let settings = PoolSettings {
        maximum_connections: 1,
        ..h.place.settings()
    };
    let store = PostgresStore::connect(&url, &settings)
        .await
        .expect("connected");
    let mut costs = Vec::new();
    for shape in [Shape::BusinessAlone, Shape::AppendLast, Shape::AppendFirst] {
        let transactions = match shape {
            Shape::BusinessAlone => store.ungated_transactions(),
            Shape::AppendLast | Shape::AppendFirst => store.transactions(),
        };
        let id = |turn: u32| format!("{shape:?}-{turn}");
        transaction(&store, &transactions, shape, &id(0)).await;
        // The second time everything is prepared. The session is given back with a message of its
        // own, which may come after the transaction has returned.
        proxy.sent();
        transaction(&store, &transactions, shape, &id(1)).await;
        costs.push(cost(&proxy.sent()));
    }
    let [alone, last, first] = &costs[..] else {
        panic!("three shapes");
    };
    // Begin, the business row, proof and commit in one.
    let expected = Cost {
        round_trips: 3,
        statements: 4,
    };
    assert_eq!(*alone, expected);
    for with_append in [last, first] {
        assert_eq!(with_append.round_trips, alone.round_trips + 1);
        assert!(
            with_append.statements <= alone.statements + 2,
            "{with_append:?}"
        );
    }
}
