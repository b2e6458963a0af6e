//! Too few replicas to acknowledge anything.
//!
//! Invariant: while one replica of three is left, nothing is acknowledged, nothing that the last
//! one took counts as refused, and the same producer goes on when the others are back.

use crate::account::Account;
use crate::cluster::{CONTROLLER, Cluster};
use std::time::Duration;

/// Shorter than the replicas are away.
const IMPATIENT: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn below_the_minimum_nothing_is_acknowledged_until_replicas_are_back() {
    let (cluster, _turn) = Cluster::exclusive().await;
    let topic = cluster.topic(&[&[2, 3, CONTROLLER]]).await;
    let account = Account::open(cluster, topic, 1, IMPATIENT).await;
    account.send("before", 100).end().await;
    assert_eq!(account.counts("before").acknowledged, 100);

    cluster.kill(2);
    cluster.kill(3);
    // No replica may lead that might miss something, so the last one to follow leads or none does.
    cluster
        .until(&account.topic, "one replica is left", |partitions| {
            partitions.iter().all(|partition| partition.in_sync <= 1)
        })
        .await;
    account.send("below", 100).end().await;
    let below = account.counts("below");
    assert_eq!(below.acknowledged, 0, "{below:?}");

    cluster.resume(2);
    cluster.resume(3);
    cluster.in_sync(&account.topic).await;
    account.send("again", 100).end().await;
    assert_eq!(account.counts("again").acknowledged, 100);
    println!("{below:?} below");
    account.close(cluster).await;
}

/// The leader stores what its followers never confirm, says so, and then refuses what the client
/// tries again: the refusal says nothing about the first try.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_leader_took_before_its_followers_were_lost_is_not_refused() {
    let (cluster, _turn) = Cluster::exclusive().await;
    let topic = cluster.topic(&[&[CONTROLLER, 2, 3]]).await;
    let account = Account::open(cluster, topic, 1, IMPATIENT).await;
    account.send("before", 100).end().await;
    assert_eq!(account.counts("before").acknowledged, 100);

    cluster.freeze(2);
    cluster.freeze(3);
    let sending = account.send("below", 100);
    sending.end().await;
    let below = account.counts("below");
    assert_eq!(below.acknowledged, 0, "{below:?}");
    cluster.thaw(2);
    cluster.thaw(3);
    cluster.in_sync(&account.topic).await;
    account.send("again", 100).end().await;
    assert_eq!(account.counts("again").acknowledged, 100);
    println!("{below:?} below");
    account.close(cluster).await;
}
