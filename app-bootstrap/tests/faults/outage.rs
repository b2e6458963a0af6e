//! A broker that is away while writes go on, once for less and once for more than the maximum age.
//!
//! Invariants checked: below the age nothing is exhausted and memory stays flat; above it, what is
//! over its age is exhausted unsent and holds its scope until an audited requeue, after which the
//! scope goes on in its order.

use crate::account::{self, read};
use crate::broker::OwnBroker;
use crate::scene::{ATTEMPT_BUDGET, Scene};
use crate::server::Server;
use crate::support::eventually;
use crate::writers::Writers;
use crate::{Bounds, Choices, alone};
use sqlx::Row as _;
use std::collections::HashSet;
use std::time::{Duration, Instant};

const SCOPES: usize = 1_500;
/// A writer's pause; four of them commit about 200 events a second.
const PAUSE: Duration = Duration::from_millis(50);
/// The shortest outage that exhausts anything of the shorter age.
const SHORTEST: Duration = Duration::from_secs(15);
/// From the broker's return to the last record: a producer asks again within 30 seconds.
const DRAINED: Duration = Duration::from_secs(180);
/// By then the producer has noticed, and nothing is claimed any more: seconds.
const NOTICED: f64 = 12.0;
/// What a process may grow by during an outage, in KiB: its buffers are bounded, the backlog stays
/// in the database.
const GROWTH_KIB: u64 = 24 * 1_024;

const RECORDED: &str = "SELECT count(*) FROM outbox_delivery WHERE state = 'DELIVERY_RECORDED'";
/// Requeued generations among them.
const UNSENT: &str = "SELECT count(*) FROM outbox_delivery
     WHERE state = 'EXHAUSTED' AND publication_attempt_count = 0";
const EXHAUSTED: &str = "SELECT count(*) FROM outbox_delivery WHERE state = 'EXHAUSTED'";

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_costs_age_and_nothing_else() {
    let _alone = alone().await;
    let bounds = Bounds::of_environment();
    let outage = (bounds.faults / 4).max(SHORTEST);
    let mut choices = Choices(bounds.seed);
    let broker = OwnBroker::start().await;
    below_the_age(&broker, outage, &mut choices).await;
    // Old enough to be exhausted when the broker returns, young enough to be sent when it is there.
    above_the_age(&broker, outage, ATTEMPT_BUDGET + outage / 3, &mut choices).await;
}

fn serve(scene: &Scene) -> [Server; 2] {
    [
        Server::start(&scene.per_record, &scene.log("per-record"), None),
        Server::start(&scene.window, &scene.log("window"), None),
    ]
}

async fn some_recorded(scene: &Scene, servers: &mut [Server; 2], least: i64) {
    eventually("records before the outage", DRAINED, async || {
        servers.iter_mut().for_each(Server::must_run);
        (scene.count(RECORDED).await >= least).then_some(())
    })
    .await;
}

async fn all_recorded(scene: &Scene, servers: &mut [Server; 2], committed: usize) {
    let committed = i64::try_from(committed).expect("a count");
    eventually("everything is recorded", DRAINED, async || {
        servers.iter_mut().for_each(Server::must_run);
        (scene.count(RECORDED).await == committed).then_some(())
    })
    .await;
}

async fn below_the_age(broker: &OwnBroker, outage: Duration, choices: &mut Choices) {
    let scene = Scene::create(&broker.bootstrap, Duration::from_secs(24 * 60 * 60)).await;
    let mut servers = serve(&scene);
    let writers = Writers::start(&scene, SCOPES, PAUSE, choices);
    some_recorded(&scene, &mut servers, 500).await;
    broker.leave().await;
    let away = Away::begin(&scene).await;
    let memory = watch_memory(&mut servers, outage).await;
    let missed = away.missed(&scene).await;
    broker.come_back().await;
    let written = writers.stop().await;
    all_recorded(&scene, &mut servers, written.committed.len()).await;
    assert_eq!(
        scene
            .count("SELECT count(*) FROM fault_history WHERE new_state IN ('EXHAUSTED', 'HOLD')")
            .await,
        0,
        "nothing was given up"
    );
    let account = settled(&scene, servers, &written).await;
    println!(
        "outage of {outage:?} below the maximum age: {account}; {missed}; \
         resident KiB before, most, at the end: {memory:?}",
    );
    scene.remove().await;
}

async fn above_the_age(
    broker: &OwnBroker,
    outage: Duration,
    maximum_age: Duration,
    choices: &mut Choices,
) {
    let scene = Scene::create(&broker.bootstrap, maximum_age).await;
    let mut servers = serve(&scene);
    let writers = Writers::start(&scene, SCOPES, PAUSE, choices);
    some_recorded(&scene, &mut servers, 500).await;
    broker.leave().await;
    let away = Away::begin(&scene).await;
    watch_memory(&mut servers, outage).await;
    let missed = away.missed(&scene).await;
    let written = writers.stop().await;
    broker.come_back().await;
    let (unsent, tried) = settled_heads(&scene, &mut servers).await;
    assert!(unsent > 0, "the outage was above the age of nothing");
    blocked(&scene).await;
    let committed = written.committed.len();
    let requeued = requeue_until_recorded(&scene, &mut servers, committed, outage).await;
    let account = settled(&scene, servers, &written).await;
    assert_eq!(u64::try_from(account.requeued), Ok(requeued));
    let unsent_in_all = scene.count(UNSENT).await;
    println!(
        "outage of {outage:?} above the maximum age of {maximum_age:?}: {account}; {missed}; \
         first exhausted: {unsent} unsent, {tried} tried before; {unsent_in_all} exhausted unsent in all",
    );
    scene.remove().await;
}

/// What the database said when the broker went away.
struct Away {
    recorded: i64,
    committed: i64,
    attempts: i64,
}

/// What happened while it was away.
#[derive(Debug)]
struct Missed {
    events: i64,
    attempts: i64,
    /// From the broker's going to the last attempt, in seconds.
    last_attempt: f64,
}

impl std::fmt::Display for Missed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "while away {} events and {} attempts, the last after {:.1} s",
            self.events, self.attempts, self.last_attempt
        )
    }
}

impl Away {
    const COMMITTED: &str = "SELECT count(*) FROM outbox_event";
    const ATTEMPTS: &str = "SELECT count(*) FROM outbox_delivery_attempt_observation \
         WHERE observation_type = 'ATTEMPT_ADMITTED'";

    async fn begin(scene: &Scene) -> Self {
        sqlx::raw_sql("CREATE TABLE fault_away AS SELECT clock_timestamp() AS since")
            .execute(&mut scene.connect().await)
            .await
            .expect("the time");
        Self {
            recorded: scene.count(RECORDED).await,
            committed: scene.count(Self::COMMITTED).await,
            attempts: scene.count(Self::ATTEMPTS).await,
        }
    }

    /// The outage was one if nearly nothing was recorded while events went on being committed.
    async fn missed(self, scene: &Scene) -> Missed {
        let events = scene.count(Self::COMMITTED).await - self.committed;
        let recorded = scene.count(RECORDED).await - self.recorded;
        assert!(events > 100, "writes went on: {events}");
        // What had been acknowledged already may still be recorded.
        assert!(recorded * 10 < events, "{recorded} of {events} recorded");
        let last_attempt = sqlx::query(
            "SELECT coalesce(extract(epoch FROM max(o.observed_at - a.since))::float8, 0)
               FROM outbox_delivery_attempt_observation AS o, fault_away AS a
              WHERE o.observation_type = 'ATTEMPT_ADMITTED' AND o.observed_at > a.since",
        )
        .fetch_one(&mut scene.connect().await)
        .await
        .expect("the last attempt")
        .get(0);
        assert!(
            last_attempt < NOTICED,
            "attempts went on for {last_attempt} s without a broker"
        );
        Missed {
            events,
            attempts: scene.count(Self::ATTEMPTS).await - self.attempts,
            last_attempt,
        }
    }
}

/// Resident memory before, at its most and at the end of an outage, for each process.
async fn watch_memory(servers: &mut [Server; 2], outage: Duration) -> [[u64; 3]; 2] {
    let before = servers.each_mut().map(Server::resident);
    let mut seen = before.map(|now| [now, now, now]);
    let until = Instant::now() + outage;
    let mut beat = tokio::time::interval(Duration::from_millis(500));
    while Instant::now() < until {
        beat.tick().await;
        for (server, seen) in servers.iter_mut().zip(&mut seen) {
            let now = server.resident();
            *seen = [seen[0], seen[1].max(now), now];
        }
    }
    for [before, most, _] in seen {
        assert!(
            most <= before + GROWTH_KIB,
            "{before} KiB grew to {most} KiB while the broker was away"
        );
    }
    seen
}

/// Waits until nothing moves any more: every scope is drained or behind an exhausted head. Tells how
/// many of those were never sent, and how many had been under way when the broker went.
async fn settled_heads(scene: &Scene, servers: &mut [Server; 2]) -> (i64, i64) {
    const MOVES: &str = "SELECT count(*) FROM outbox_delivery AS d
         WHERE d.claimable AND NOT EXISTS (
             SELECT 1 FROM outbox_delivery AS head
              WHERE head.partition_key_text = d.partition_key_text AND head.state = 'EXHAUSTED'
                AND head.aggregate_sequence < d.aggregate_sequence
         )";
    eventually("every scope is drained or blocked", DRAINED, async || {
        servers.iter_mut().for_each(Server::must_run);
        (scene.count(MOVES).await == 0).then_some(())
    })
    .await;
    let row = sqlx::query(
        "SELECT count(*) FILTER (WHERE d.publication_attempt_count = 0),
                count(*) FILTER (WHERE d.publication_attempt_count > 0),
                count(*) FILTER (WHERE d.publication_attempt_count = 0 AND EXISTS (
                    SELECT 1 FROM outbox_delivery_attempt_observation AS o
                     WHERE o.event_id = d.event_id
                       AND o.delivery_generation = d.delivery_generation
                )),
                count(*) FILTER (WHERE d.automatic_attempt_deadline > d.terminal_at
                    + make_interval(secs => $1))
           FROM outbox_delivery AS d WHERE d.state = 'EXHAUSTED'",
    )
    .bind(ATTEMPT_BUDGET.as_secs_f64())
    .fetch_one(&mut scene.connect().await)
    .await
    .expect("exhausted deliveries");
    assert_eq!(row.get::<i64, _>(2), 0, "unsent, and yet in the journal");
    assert_eq!(
        row.get::<i64, _>(3),
        0,
        "exhausted with a whole attempt left"
    );
    (row.get(0), row.get(1))
}

/// Nothing behind an exhausted head was claimed or is on the topic; neither is what was never sent.
async fn blocked(scene: &Scene) {
    let rows = sqlx::query(
        "SELECT d.event_id, d.claim_count FROM outbox_delivery AS d
          WHERE d.state = 'EXHAUSTED' AND d.publication_attempt_count = 0
         UNION ALL
         SELECT d.event_id, d.claim_count FROM outbox_delivery AS d
           JOIN outbox_delivery AS head
             ON head.partition_key_text = d.partition_key_text AND head.state = 'EXHAUSTED'
            AND head.aggregate_sequence < d.aggregate_sequence",
    )
    .fetch_all(&mut scene.connect().await)
    .await
    .expect("successors");
    let heads = scene.count(EXHAUSTED).await;
    let mut unsent = HashSet::new();
    for row in rows {
        let id: String = row.get(0);
        assert_eq!(row.get::<i32, _>(1), 0, "{id} was claimed");
        unsent.insert(id);
    }
    assert!(
        i64::try_from(unsent.len()).expect("a count") > heads,
        "no successor waits behind {heads} heads"
    );
    for record in read(scene).await {
        assert!(!unsent.contains(&record.id), "{} was sent", record.id);
    }
}

/// Requeues heads as they are exhausted, the next of a scope when it becomes its head. Each is an act
/// of its own, so this may take several times as long as the outage.
async fn requeue_until_recorded(
    scene: &Scene,
    servers: &mut [Server; 2],
    committed: usize,
    outage: Duration,
) -> u64 {
    let limit = DRAINED + 12 * outage;
    let committed = i64::try_from(committed).expect("a count");
    let mut requeued = 0;
    eventually("everything is recorded", limit, async || {
        servers.iter_mut().for_each(Server::must_run);
        requeued += scene.requeue_exhausted().await;
        (scene.count(RECORDED).await == committed).then_some(())
    })
    .await;
    requeued
}

async fn settled(
    scene: &Scene,
    servers: [Server; 2],
    written: &crate::writers::Written,
) -> account::Account {
    for server in servers {
        server.terminate().await;
    }
    account::settle(scene, written).await
}
