//! Leaders that are lost while records are under way.
//!
//! Invariant: a leader counts as lost when the brokers themselves name another one, and records
//! were under way then.

use crate::account::{Account, Counts};
use crate::cluster::Cluster;
use std::time::Duration;

/// Longer than brokers take to name another leader.
const PATIENT: Duration = Duration::from_secs(30);

const ALL_IN_TURN: [&[i32]; 6] = [
    &[2, 3, 1],
    &[3, 2, 1],
    &[2, 1, 3],
    &[3, 1, 2],
    &[2, 3, 1],
    &[3, 2, 1],
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_is_killed_under_load() {
    let (cluster, _turn) = Cluster::exclusive().await;
    let topic = cluster.topic(&[&[2, 3, 1]]).await;
    let account = Account::open(cluster, topic, 1, PATIENT).await;
    let sending = account.send("e", 5_000);
    sending.progress(500).await;
    cluster.kill(2);
    assert!(sending.done() < 5_000, "nothing was under way");
    cluster.led_by_others(&account.topic, 2).await;
    sending.end().await;
    cluster.resume(2);
    let counts = account.close(cluster).await;
    assert!(counts.acknowledged > 500, "{counts:?}");
    assert_eq!(
        counts.acknowledged + counts.rejected + counts.indeterminate,
        5_000
    );
}

fn records() -> usize {
    const NAME: &str = "COUNTERSIGN_TEST_CLUSTER_RECORDS";
    std::env::var(NAME).map_or(20_000, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{NAME} is no count: {text}"))
    })
}

/// Each leader hangs for longer than the brokers bear and comes back as a follower. Every move has a
/// part of the records, so that some are under way at each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_move_again_and_again_under_load() {
    let (cluster, _turn) = Cluster::exclusive().await;
    let topic = cluster.topic(&ALL_IN_TURN).await;
    let account = Account::open(cluster, topic, 6, PATIENT).await;
    let records = records();
    let moves = (records / 10_000).clamp(4, 40);
    let part = records / moves;
    for (turn, broker) in (0..moves).zip([2, 3].into_iter().cycle()) {
        let prefix = format!("e{turn:02}");
        let sending = account.send(&prefix, part);
        sending.progress(part / 4).await;
        cluster.freeze(broker);
        assert!(sending.done() < part, "nothing was under way");
        cluster.led_by_others(&account.topic, broker).await;
        cluster.thaw(broker);
        sending.end().await;
        cluster.in_sync(&account.topic).await;
    }
    let counts = account.close(cluster).await;
    let Counts {
        acknowledged,
        rejected,
        indeterminate,
    } = counts;
    assert_eq!(acknowledged + rejected + indeterminate, moves * part);
    assert!(acknowledged > moves * part / 2, "{counts:?}");
}
