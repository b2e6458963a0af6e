//! Whether a backlog is still within its deployment's quota.
//!
//! Invariant: the verdict is a pure function of two samples and the quota, and names every bound
//! that is passed (requirement 004 §19.8).

use crate::instant::DatabaseInstant;
use std::time::Duration;

/// What a deployment allows. Every bound is inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BacklogQuota {
    /// Unresolved deliveries.
    pub unresolved: u64,
    /// The age of the oldest unresolved delivery.
    pub oldest_age: Duration,
    /// Unresolved deliveries that are added each second, seen over two samples.
    pub growth_per_second: u64,
    /// Bytes that the whole store may take.
    pub store_bytes: u64,
}

/// What a store said of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BacklogSample {
    /// When, by the store's clock.
    pub at: DatabaseInstant,
    /// Unresolved deliveries; a store MAY stop counting a little above the quota.
    pub unresolved: u64,
    /// The creation of the oldest unresolved delivery.
    pub oldest: Option<DatabaseInstant>,
    /// Bytes that the whole store takes.
    pub store_bytes: u64,
}

/// A bound that is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapacityBreach {
    /// Too many unresolved deliveries.
    Unresolved,
    /// The oldest is too old.
    OldestAge,
    /// They grow too fast.
    Growth,
    /// The store is too large.
    StoreBytes,
}

impl CapacityBreach {
    /// Every bound.
    pub const ALL: [Self; 4] = [
        Self::Unresolved,
        Self::OldestAge,
        Self::Growth,
        Self::StoreBytes,
    ];

    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unresolved => "unresolved",
            Self::OldestAge => "oldest-age",
            Self::Growth => "growth",
            Self::StoreBytes => "store-bytes",
        }
    }
}

/// Every bound that `now` passes; growth is judged when an earlier sample is given.
pub fn breaches(
    quota: &BacklogQuota,
    now: &BacklogSample,
    earlier: Option<&BacklogSample>,
) -> Vec<CapacityBreach> {
    let age = now.oldest.map_or(Duration::ZERO, |oldest| {
        Duration::from_micros(
            u64::try_from(now.at.epoch_micros().saturating_sub(oldest.epoch_micros())).unwrap_or(0),
        )
    });
    let growth = earlier.map_or(0, |earlier| growth_per_second(earlier, now));
    [
        (
            now.unresolved > quota.unresolved,
            CapacityBreach::Unresolved,
        ),
        (age > quota.oldest_age, CapacityBreach::OldestAge),
        (growth > quota.growth_per_second, CapacityBreach::Growth),
        (
            now.store_bytes > quota.store_bytes,
            CapacityBreach::StoreBytes,
        ),
    ]
    .into_iter()
    .filter_map(|(passed, breach)| passed.then_some(breach))
    .collect()
}

/// Whole deliveries a second, rounded down; zero while the backlog shrinks or no time has passed.
fn growth_per_second(earlier: &BacklogSample, now: &BacklogSample) -> u64 {
    let added = u128::from(now.unresolved.saturating_sub(earlier.unresolved));
    let micros = now
        .at
        .epoch_micros()
        .saturating_sub(earlier.at.epoch_micros());
    match u128::try_from(micros) {
        Ok(micros) if micros > 0 => u64::try_from(added * 1_000_000 / micros).unwrap_or(u64::MAX),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: BacklogQuota = BacklogQuota {
        unresolved: 100,
        oldest_age: Duration::from_secs(60),
        growth_per_second: 10,
        store_bytes: 1_000,
    };

    fn sample(
        second: i64,
        unresolved: u64,
        oldest: Option<i64>,
        store_bytes: u64,
    ) -> BacklogSample {
        let at = |second: i64| DatabaseInstant::from_epoch_micros(second * 1_000_000);
        BacklogSample {
            at: at(second),
            unresolved,
            oldest: oldest.map(at),
            store_bytes,
        }
    }

    #[test]
    fn each_bound_is_inclusive_and_named_when_passed() {
        let within = sample(100, 100, Some(40), 1_000);
        assert_eq!(breaches(&QUOTA, &within, Some(&sample(90, 0, None, 0))), []);
        let beyond = sample(100, 101, Some(39), 1_001);
        assert_eq!(
            breaches(&QUOTA, &beyond, Some(&sample(99, 90, None, 0))),
            [
                CapacityBreach::Unresolved,
                CapacityBreach::OldestAge,
                CapacityBreach::Growth,
                CapacityBreach::StoreBytes
            ]
        );
    }

    #[test]
    fn growth_needs_time_and_an_earlier_sample() {
        let now = sample(10, 90, None, 0);
        assert_eq!(breaches(&QUOTA, &now, None), []);
        assert_eq!(breaches(&QUOTA, &now, Some(&sample(10, 0, None, 0))), []);
        assert_eq!(breaches(&QUOTA, &now, Some(&sample(11, 0, None, 0))), []);
    }
}
