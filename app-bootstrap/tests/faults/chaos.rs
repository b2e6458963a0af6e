//! Four processes on two claim cards, killed and stopped at random, under writers and an old snapshot.
//!
//! Invariant checked: every committed event is recorded and on the topic, in its scope's order when
//! only the first record of each is looked at; no stale token changed a row.

use crate::account::{self, Account};
use crate::scene::{RECORD_LEASE, Scene, WINDOW_LEASE};
use crate::server::Server;
use crate::support::{environment, eventually};
use crate::writers::Writers;
use crate::{Bounds, Choices, alone};
use sqlx::{Connection as _, PgConnection, Row as _};
use std::time::{Duration, Instant};

const SCOPES: usize = 400;
/// A writer's pause; four of them commit about 100 events a second.
const PAUSE: Duration = Duration::from_millis(100);
/// From the end of the faults to the last record, leases of the last kills included.
const DRAINED: Duration = Duration::from_secs(240);

/// Now and then the process lingers between acknowledgement and record, so that faults find claims.
const LINGER: &str = "relay::after_publish=4%sleep(150)";

struct Slot {
    server: Server,
    lease: Duration,
    stopped_until: Option<(Instant, Instant)>,
}

#[derive(Debug, Default)]
struct Faults {
    kills: u32,
    kills_with_claims: u32,
    /// Each of a process that had claims.
    stops: u32,
    /// Kills of a process in the middle of its stop.
    killed_stopped: u32,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_accounted_for_after_kills_and_stops() {
    let _alone = alone().await;
    let bounds = Bounds::of_environment();
    let mut choices = Choices(bounds.seed);
    let bootstrap = environment("COUNTERSIGN_TEST_KAFKA_BOOTSTRAP");
    let scene = Scene::create(&bootstrap, Duration::from_secs(15 * 60)).await;
    let mut snapshot = OldSnapshot::hold(&scene).await;
    let mut slots: Vec<Slot> = (0..4)
        .map(|number| {
            let (profile, lease) = if number % 2 == 0 {
                (&scene.per_record, RECORD_LEASE)
            } else {
                (&scene.window, WINDOW_LEASE)
            };
            Slot {
                server: Server::start(
                    profile,
                    &scene.log(&format!("serve-{number}")),
                    Some(LINGER),
                ),
                lease,
                stopped_until: None,
            }
        })
        .collect();
    let writers = Writers::start(&scene, SCOPES, PAUSE, &choices);
    let faults = inject(&scene, &mut slots, bounds.faults, &mut choices).await;
    let written = writers.stop().await;
    let requeued = drained(&scene, &mut slots, written.committed.len()).await;
    for slot in slots {
        slot.server.terminate().await;
    }
    snapshot.still_held(&scene).await;
    let account = account::settle(&scene, &written).await;
    let left = LeftClaims::of(&scene).await;
    println!(
        "chaos, seed {}: {account}; {} kills ({} with claims), {} stops with claims, {} kills of \
         stopped processes; {} rolled back; claims taken over from {} processes that ended and {} \
         that went on",
        bounds.seed,
        faults.kills,
        faults.kills_with_claims,
        faults.stops,
        faults.killed_stopped,
        written.rolled_back.len(),
        left.ended,
        left.stopped,
    );
    proved(&account, &faults, &left, requeued);
    scene.remove().await;
}

/// Every kind of fault happened and mattered.
fn proved(account: &Account, faults: &Faults, left: &LeftClaims, requeued: u64) {
    assert!(
        faults.kills_with_claims >= 1 && faults.stops >= 1,
        "{faults:?}"
    );
    assert!(account.reclaims >= 1, "no claim was ever left behind");
    assert!(left.ended >= 1 && left.stopped >= 1, "{left:?}");
    assert!(
        account.attempts >= account.recorded + account.reclaims,
        "{account}"
    );
    assert_eq!(u64::try_from(account.requeued), Ok(requeued));
}

/// Faults one after the other until the time is over; at the end none is stopped for good.
async fn inject(
    scene: &Scene,
    slots: &mut [Slot],
    time: Duration,
    choices: &mut Choices,
) -> Faults {
    let until = Instant::now() + time;
    let mut faults = Faults::default();
    let mut beat = tokio::time::interval(Duration::from_millis(250));
    let mut next = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        beat.tick().await;
        let now = Instant::now();
        for slot in slots.iter_mut() {
            match slot.stopped_until {
                None => slot.server.must_run(),
                Some((since, over)) if over <= now => {
                    assert!(now - since > slot.lease, "stopped for less than a lease");
                    slot.server.go_on().await;
                    slot.stopped_until = None;
                }
                Some(_) => {}
            }
        }
        if now < next {
            continue;
        }
        next = now + choices.between(Duration::from_millis(1_000), Duration::from_millis(4_000));
        let victim = choices.below(slots.len());
        let stops = slots.iter().filter(|slot| slot.stopped_until.is_some());
        // One is always left that neither is stopped nor was just killed.
        let may_stop = stops.count() < 2;
        let slot = &mut slots[victim];
        match slot.stopped_until {
            // At once, wherever it is, in its start perhaps.
            None if faults.kills > 0 && choices.below(4) == 0 => {
                slot.server.kill_and_restart();
                faults.kills += 1;
            }
            None if slot.server.has_started() => {
                if !stop_with_claims(scene, &mut slot.server).await {
                    continue;
                }
                // The first one is a stop, so that a short run has one that lasts.
                if faults.stops == 0 || may_stop && choices.below(3) == 0 {
                    let since = Instant::now();
                    let more = choices.between(Duration::from_secs(1), Duration::from_secs(4));
                    slot.stopped_until = Some((since, since + slot.lease + more));
                    faults.stops += 1;
                } else {
                    slot.server.kill_and_restart();
                    faults.kills += 1;
                    faults.kills_with_claims += 1;
                }
            }
            None => {}
            Some(_) if faults.stops > 1 && choices.below(4) == 0 => {
                slot.stopped_until = None;
                slot.server.kill_and_restart();
                faults.killed_stopped += 1;
            }
            Some(_) => {}
        }
    }
    // Whoever is still stopped gets its whole time, so that its lease lapses.
    for slot in slots.iter_mut() {
        if let Some((_, over)) = slot.stopped_until.take() {
            tokio::time::timeout_at(over.into(), std::future::pending::<()>())
                .await
                .expect_err("a pause");
            slot.server.go_on().await;
        }
    }
    faults
}

/// Stops a process again and again until it is caught with a claim that stays; gives up after some
/// tries.
async fn stop_with_claims(scene: &Scene, server: &mut Server) -> bool {
    const TRIES: u32 = 40;
    let mut pause = tokio::time::interval(Duration::from_millis(25));
    for _ in 0..TRIES {
        pause.tick().await;
        server.stop().await;
        // What its last statement does may still arrive; a claim that stays is one left behind.
        if scene.claims_of(server.incarnation()).await > 0 {
            pause.tick().await;
            if scene.claims_of(server.incarnation()).await > 0 {
                return true;
            }
        }
        server.go_on().await;
    }
    false
}

/// Waits until everything is recorded; an operator requeues what faults exhausted.
async fn drained(scene: &Scene, slots: &mut [Slot], committed: usize) -> u64 {
    const RECORDED: &str = "SELECT count(*) FROM outbox_delivery WHERE state = 'DELIVERY_RECORDED'";
    let mut requeued = 0;
    eventually("everything is recorded", DRAINED, async || {
        for slot in slots.iter_mut() {
            slot.server.must_run();
        }
        requeued += scene.requeue_exhausted().await;
        let recorded = usize::try_from(scene.count(RECORDED).await).expect("a count");
        assert!(recorded <= committed, "more recorded than committed");
        (recorded == committed).then_some(())
    })
    .await;
    requeued
}

/// Workers whose claims another one had to take over: those that never claimed again, and those that
/// did, which is what a stopped process does.
#[derive(Debug)]
struct LeftClaims {
    ended: i64,
    stopped: i64,
}

impl LeftClaims {
    async fn of(scene: &Scene) -> Self {
        let row = sqlx::query(
            "WITH lost AS (
                 SELECT old_owner AS owner, min(changed_at) AS at
                   FROM fault_history
                  WHERE old_state = 'CLAIMED' AND new_state = 'CLAIMED'
                    AND old_digest <> new_digest
                  GROUP BY old_owner
             ), again AS (
                 SELECT lost.owner, EXISTS (
                     SELECT 1 FROM fault_history AS h
                      WHERE h.new_owner = lost.owner AND h.changed_at > lost.at
                 ) AS claims_again
                   FROM lost
             )
             SELECT count(*) FILTER (WHERE NOT claims_again),
                    count(*) FILTER (WHERE claims_again)
               FROM again",
        )
        .fetch_one(&mut scene.connect().await)
        .await
        .expect("owners");
        Self {
            ended: row.get(0),
            stopped: row.get(1),
        }
    }
}

/// A REPEATABLE READ transaction that stays open, with a snapshot from before the first event.
struct OldSnapshot {
    connection: PgConnection,
    pid: i32,
    horizon: String,
}

impl OldSnapshot {
    const HORIZON: &str =
        "SELECT backend_xmin::text FROM pg_stat_activity WHERE pid = pg_backend_pid()";

    async fn hold(scene: &Scene) -> Self {
        let mut connection = scene.connect().await;
        sqlx::query("BEGIN ISOLATION LEVEL REPEATABLE READ")
            .execute(&mut connection)
            .await
            .expect("begins");
        let horizon = sqlx::query(Self::HORIZON)
            .fetch_one(&mut connection)
            .await
            .expect("a snapshot")
            .get(0);
        let pid = sqlx::query("SELECT pg_backend_pid()")
            .fetch_one(&mut connection)
            .await
            .expect("a backend")
            .get(0);
        let mut this = Self {
            connection,
            pid,
            horizon,
        };
        assert_eq!(this.events_seen().await, 0);
        this
    }

    async fn events_seen(&mut self) -> i64 {
        sqlx::query("SELECT count(*) FROM outbox_event")
            .fetch_one(&mut self.connection)
            .await
            .expect("events")
            .get(0)
    }

    /// It held the horizon from before the first event until now.
    async fn still_held(&mut self, scene: &Scene) {
        assert_eq!(self.events_seen().await, 0, "the snapshot moved");
        let horizon: Option<String> =
            sqlx::query("SELECT backend_xmin::text FROM pg_stat_activity WHERE pid = $1")
                .bind(self.pid)
                .fetch_one(&mut scene.connect().await)
                .await
                .expect("the backend")
                .get(0);
        assert_eq!(horizon.as_deref(), Some(self.horizon.as_str()));
        self.connection.ping().await.expect("the connection");
    }
}
