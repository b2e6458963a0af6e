//! Who looks for work while there is none.
//!
//! Invariant: of all idle workers one alone asks the store, once a poll interval at most, so an
//! idle process costs one bounded query an interval however many workers it has. Whoever finds
//! work calls the next worker; a call that nobody waits for is kept for the next one who would.

use super::{ProcessClock, StopSignal};
use application_core::ports::MonotonicClockPort as _;
use domain_core::instant::MonotonicInstant;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard, Notify};

/// A worker that is not called looks for itself after this many poll intervals.
const PATIENCE: u32 = 50;

/// The longest pause after a search that found nothing. A store whose searches take longer rests by
/// itself, and says soon what is young.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// Shared by the workers of one process.
#[derive(Debug, Clone, Default)]
pub struct Scouts {
    post: Arc<Mutex<()>>,
    call: Arc<Notify>,
    hint: Arc<Notify>,
}

/// The right to look for work alone; given up when it is dropped.
#[derive(Debug)]
pub struct Watch<'s>(#[expect(dead_code, reason = "held for its drop")] MutexGuard<'s, ()>);

/// Why a wait ended.
#[derive(Debug)]
pub enum Woken<'s> {
    /// The process stops.
    Stopped,
    /// Another worker found work.
    Called,
    /// This worker is the one that looks now.
    OnWatch(Watch<'s>),
}

/// Says from elsewhere that there may be work: ends the pause of whoever is on watch. Best effort.
#[derive(Debug, Clone)]
pub struct WorkHint(Arc<Notify>);

impl WorkHint {
    /// There may be work.
    pub fn give(&self) {
        self.0.notify_one();
    }
}

impl Scouts {
    /// What a commit, or a notification of one, may tell.
    pub fn hint(&self) -> WorkHint {
        WorkHint(Arc::clone(&self.hint))
    }

    /// Calls one more worker.
    pub fn call(&self) {
        self.call.notify_one();
    }

    /// Calls every worker that rests.
    fn call_all(&self) {
        self.call.notify_waiters();
    }

    /// Waits after an idle turn: on watch for one interval or a hint, or until called.
    pub async fn wait<'s>(
        &'s self,
        watch: Option<Watch<'s>>,
        interval: Duration,
        stop: &mut StopSignal,
    ) -> Woken<'s> {
        let watch = match watch {
            Some(watch) => watch,
            None => {
                let bored = interval.saturating_mul(PATIENCE);
                tokio::select! {
                    biased;
                    stopped = stop.stopped_within(bored) => {
                        return if stopped { Woken::Stopped } else { Woken::Called };
                    }
                    () = self.call.notified() => return Woken::Called,
                    post = self.post.lock() => Watch(post),
                }
            }
        };
        tokio::select! {
            biased;
            stopped = stop.stopped_within(interval) => {
                if stopped { Woken::Stopped } else { Woken::OnWatch(watch) }
            }
            () = self.hint.notified() => Woken::OnWatch(watch),
            () = self.call.notified() => Woken::OnWatch(watch),
        }
    }
}

/// One worker's idle time.
#[derive(Debug)]
pub(super) struct Rest<'s> {
    scouts: &'s Scouts,
    watch: Option<Watch<'s>>,
    resting: bool,
    searching_since: Option<MonotonicInstant>,
}

impl<'s> Rest<'s> {
    /// A worker that has work.
    pub(super) fn new(scouts: &'s Scouts) -> Self {
        Self {
            scouts,
            watch: None,
            resting: false,
            searching_since: None,
        }
    }

    /// Whether this worker is the one that looks.
    pub(super) fn is_on_watch(&self) -> bool {
        self.watch.is_some()
    }

    /// A bounded look found no work and goes on.
    pub(super) fn search(&mut self) -> bool {
        self.searching_since
            .get_or_insert_with(|| ProcessClock.now());
        true
    }

    /// The same where each worker has a share of its own: whoever is on watch gives its post up and
    /// calls the others, so that a store full of what cannot go is searched by all of them.
    pub(super) fn search_together(&mut self) -> bool {
        if self.is_on_watch() {
            // Before the post is free: who waits is to come, not to take it.
            self.scouts.call_all();
            self.watch = None;
        }
        self.search()
    }

    /// There was no work. A store that is full of what cannot go is searched at half speed: the
    /// pause is as long as the search was, within a bound. Tells whether the worker goes on, which
    /// it does until the process stops.
    pub(super) async fn take(&mut self, interval: Duration, stop: &mut StopSignal) -> bool {
        self.resting = true;
        let searched = self
            .searching_since
            .take()
            .map_or(Duration::ZERO, |since| since.until(ProcessClock.now()));
        let pause = interval.max(searched.min(LONGEST_REST));
        match self.scouts.wait(self.watch.take(), pause, stop).await {
            Woken::Stopped => return false,
            Woken::Called => {}
            Woken::OnWatch(watch) => self.watch = Some(watch),
        }
        true
    }

    /// There is work: the post is free, and whoever rested before calls one more worker.
    pub(super) fn end(&mut self) -> bool {
        self.watch = None;
        self.searching_since = None;
        if std::mem::take(&mut self.resting) {
            self.scouts.call();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::StopSwitch;
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(5);

    #[tokio::test]
    async fn one_of_two_idle_workers_is_on_watch() {
        let (_switch, stop) = StopSwitch::new();
        let scouts = Scouts::default();
        let first = scouts.wait(None, INTERVAL, &mut stop.clone()).await;
        assert!(matches!(first, Woken::OnWatch(_)), "{first:?}");
        // The second finds the post taken and waits until it is called.
        let mut signal = stop.clone();
        let second = scouts.wait(None, Duration::from_secs(60), &mut signal);
        tokio::pin!(second);
        assert!(
            tokio::time::timeout(4 * INTERVAL, &mut second)
                .await
                .is_err()
        );
        scouts.call();
        assert!(matches!(second.await, Woken::Called));
    }

    #[tokio::test]
    async fn a_search_together_calls_all_and_leaves_the_post() {
        let (_switch, stop) = StopSwitch::new();
        let scouts = Scouts::default();
        let mut finder = Rest::new(&scouts);
        assert!(finder.take(INTERVAL, &mut stop.clone()).await);
        assert!(finder.is_on_watch());
        let long = Duration::from_secs(60);
        let (mut first, mut second) = (stop.clone(), stop.clone());
        let first = scouts.wait(None, long, &mut first);
        let second = scouts.wait(None, long, &mut second);
        tokio::pin!(first, second);
        for waiting in [&mut first, &mut second] {
            assert!(tokio::time::timeout(INTERVAL, waiting).await.is_err());
        }
        assert!(finder.search_together());
        assert!(!finder.is_on_watch());
        assert!(matches!(first.await, Woken::Called));
        assert!(matches!(second.await, Woken::Called));
        // Its next rest finds the post free.
        assert!(finder.take(INTERVAL, &mut stop.clone()).await);
        assert!(finder.is_on_watch());
    }

    #[tokio::test]
    async fn a_hint_ends_the_watchs_pause_and_a_stop_ends_every_wait() {
        let (switch, stop) = StopSwitch::new();
        let scouts = Scouts::default();
        scouts.hint().give();
        let hinted = scouts
            .wait(None, Duration::from_secs(60), &mut stop.clone())
            .await;
        assert!(matches!(hinted, Woken::OnWatch(_)), "{hinted:?}");
        switch.stop();
        let Woken::OnWatch(watch) = hinted else {
            panic!("on watch");
        };
        for watch in [Some(watch), None] {
            let stopped = scouts
                .wait(watch, Duration::from_secs(60), &mut stop.clone())
                .await;
            assert!(matches!(stopped, Woken::Stopped), "{stopped:?}");
        }
    }
}
