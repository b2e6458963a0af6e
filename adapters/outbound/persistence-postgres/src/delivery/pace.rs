//! When a search looks on, and when it only glances at what is young.
//!
//! Invariant: a store whose whole share fits one look is never glanced at. A longer search glances
//! after each look that found nothing, and rests for as long as it took, within a bound, with glances
//! alone; so what came in is found soon however many scopes are blocked, and the search is half the
//! work at most.

use std::time::{Duration, Instant};

/// The longest rest of a search.
const LONGEST_REST: Duration = Duration::from_millis(500);

/// What the next look takes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Everything, from where the search stands.
    Search,
    /// The youngest rows; the search goes on after it.
    Glance,
    /// The youngest rows; the search ended a short while ago.
    GlanceAtRest,
}

/// How the search of one share goes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// When the search began that has found nothing yet.
    began: Option<Instant>,
    /// Whether the last look was one of that search.
    looked: bool,
    rests_until: Option<Instant>,
}

impl Pace {
    /// Decides the next look.
    pub(super) fn next(&mut self, now: Instant) -> Next {
        if self.rests_until.is_some_and(|until| now < until) {
            return Next::GlanceAtRest;
        }
        self.rests_until = None;
        if std::mem::take(&mut self.looked) {
            Next::Glance
        } else {
            Next::Search
        }
    }

    /// Something was found: there is work, and no search.
    pub(super) fn found(&mut self) {
        *self = Self::default();
    }

    /// A look of the search found nothing; tells how long the search rests now that it is finished.
    pub(super) fn nothing(&mut self, finished: bool, now: Instant) -> Option<Instant> {
        let began = *self.began.get_or_insert(now);
        if !finished {
            self.looked = true;
            return None;
        }
        let took = now.saturating_duration_since(began);
        *self = Self::default();
        if !took.is_zero() {
            self.rest(now + took.min(LONGEST_REST));
        }
        self.rests_until
    }

    /// Rests until then, unless it rests for longer.
    pub(super) fn rest(&mut self, until: Instant) {
        self.rests_until = self.rests_until.max(Some(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(40);

    #[test]
    fn a_share_that_fits_one_look_is_never_glanced_at() {
        let now = Instant::now();
        let mut pace = Pace::default();
        for _ in 0..3 {
            assert_eq!(pace.next(now), Next::Search);
            assert_eq!(pace.nothing(true, now), None);
        }
    }

    #[test]
    fn a_long_search_glances_between_looks_and_rests_as_long_as_it_took() {
        let mut now = Instant::now();
        let mut pace = Pace::default();
        for _ in 0..3 {
            assert_eq!(pace.next(now), Next::Search);
            assert_eq!(pace.nothing(false, now), None);
            assert_eq!(pace.next(now), Next::Glance);
            now += STEP;
        }
        assert_eq!(pace.next(now), Next::Search);
        assert_eq!(pace.nothing(true, now), Some(now + 3 * STEP));
        assert_eq!(pace.next(now), Next::GlanceAtRest);
        assert_eq!(pace.next(now + 2 * STEP), Next::GlanceAtRest);
        assert_eq!(pace.next(now + 3 * STEP), Next::Search);
    }

    #[test]
    fn a_rest_is_bounded_and_ends_with_work() {
        let now = Instant::now();
        let mut pace = Pace::default();
        pace.nothing(false, now);
        let end = now + 100 * LONGEST_REST;
        assert_eq!(pace.nothing(true, end), Some(end + LONGEST_REST));
        pace.found();
        assert_eq!(pace.next(end), Next::Search);
    }
}
