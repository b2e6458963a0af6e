//! Faults at real processes on PostgreSQL and Kafka: `serve` killed and stopped at random while
//! writers go on, and a broker that is away.
//!
//! Invariant: what is claimed at the end is read from evidence (database rows, the attempt journal,
//! a history kept by a trigger, the topic), and a fault that did not take effect fails its test.

mod account;
mod broker;
mod chaos;
mod outage;
mod planted;
mod scene;
mod server;
mod writers;

#[expect(
    dead_code,
    reason = "what the other tests share; these need a part of it"
)]
#[path = "../it/support.rs"]
mod support;

use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};

/// One fault run at a time: each loads the machine, and one measures memory.
async fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    ALONE.lock().await
}

/// How long processes are killed and stopped, and the seed of every choice. An outage lasts a
/// quarter of it.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    faults: Duration,
    seed: u64,
}

impl Bounds {
    /// From the environment that `cargo xtask faults` sets; short without it.
    fn of_environment() -> Self {
        let number = |name: &str, otherwise: u64| {
            std::env::var(name).map_or(otherwise, |text| {
                text.parse()
                    .unwrap_or_else(|_| panic!("{name} is no number"))
            })
        };
        Self {
            faults: Duration::from_secs(number("COUNTERSIGN_FAULT_SECONDS", 30)),
            seed: number("COUNTERSIGN_FAULT_SEED", 1),
        }
    }
}

/// Reproducible choices (splitmix64).
#[derive(Debug, Clone)]
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..bound`.
    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("a small bound");
        usize::try_from(self.next() % bound).expect("a small number")
    }

    /// A span between two.
    fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let spread = u64::try_from((most - least).as_millis()).expect("a short span");
        least + Duration::from_millis(self.next() % (spread + 1))
    }
}
