//! How long a generation may be published automatically.
//!
//! Invariant: the deadline is fixed when the generation is created and never outlives the event's
//! requeue horizon (requirement 004 §§18.9, 19.5).

use crate::instant::DatabaseInstant;
use std::time::Duration;

/// Why a window cannot work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// Nothing could ever be sent.
    #[error("{0} is zero")]
    Zero(&'static str),
    /// Longer than the store's clock arithmetic promises.
    #[error("{0} exceeds 3650 days")]
    TooLong(&'static str),
}

/// The two ages that bound automatic publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicationWindow {
    maximum_age: Duration,
    requeue_horizon: Duration,
}

impl PublicationWindow {
    /// No age or horizon is longer.
    pub const LONGEST: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

    /// Checks a profile's maximum automatic publication age alone.
    ///
    /// # Errors
    /// [`WindowError`] with the bound.
    pub fn check_maximum_age(maximum_age: Duration) -> Result<(), WindowError> {
        bounded("maximum automatic publication age", maximum_age)
    }

    /// Checks a contract's requeue horizon alone.
    ///
    /// # Errors
    /// [`WindowError`] with the bound.
    pub fn check_requeue_horizon(requeue_horizon: Duration) -> Result<(), WindowError> {
        bounded("same-event requeue horizon", requeue_horizon)
    }

    /// `maximum_age` is the profile's, `requeue_horizon` the contract's.
    ///
    /// # Errors
    /// [`WindowError`] with the bound.
    pub fn new(maximum_age: Duration, requeue_horizon: Duration) -> Result<Self, WindowError> {
        Self::check_maximum_age(maximum_age)?;
        Self::check_requeue_horizon(requeue_horizon)?;
        Ok(Self {
            maximum_age,
            requeue_horizon,
        })
    }

    /// The profile's maximum automatic publication age of one generation.
    pub fn maximum_age(&self) -> Duration {
        self.maximum_age
    }

    /// The contract's horizon, from the event's creation.
    pub fn requeue_horizon(&self) -> Duration {
        self.requeue_horizon
    }

    /// How long after the event's creation its first generation may be published.
    pub fn initial_age(&self) -> Duration {
        self.maximum_age.min(self.requeue_horizon)
    }

    /// The deadline of a generation created at `generation_created` for an event created at
    /// `event_created`; for the first generation the two are equal.
    pub fn deadline(
        &self,
        event_created: DatabaseInstant,
        generation_created: DatabaseInstant,
    ) -> DatabaseInstant {
        generation_created
            .plus(self.maximum_age)
            .min(self.requeue_deadline(event_created))
    }

    /// After this, the same event is never sent again.
    pub fn requeue_deadline(&self, event_created: DatabaseInstant) -> DatabaseInstant {
        event_created.plus(self.requeue_horizon)
    }
}

fn bounded(what: &'static str, duration: Duration) -> Result<(), WindowError> {
    if duration.is_zero() {
        Err(WindowError::Zero(what))
    } else if duration > PublicationWindow::LONGEST {
        Err(WindowError::TooLong(what))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(minutes: i64) -> DatabaseInstant {
        DatabaseInstant::from_epoch_micros(minutes * 60_000_000)
    }

    #[test]
    fn a_requeued_generation_gets_a_new_window_cut_at_the_horizon() {
        let window = PublicationWindow::new(15 * MINUTE, 60 * MINUTE).expect("window");
        assert_eq!(window.deadline(at(0), at(0)), at(15));
        assert_eq!(window.deadline(at(0), at(30)), at(45));
        assert_eq!(window.deadline(at(0), at(50)), at(60));
        assert_eq!(window.deadline(at(0), at(90)), at(60));
        assert_eq!(window.initial_age(), 15 * MINUTE);
    }

    #[test]
    fn zero_and_endless_windows_are_refused() {
        assert!(PublicationWindow::new(Duration::ZERO, MINUTE).is_err());
        assert!(PublicationWindow::new(MINUTE, Duration::ZERO).is_err());
        assert!(PublicationWindow::new(MINUTE, Duration::MAX).is_err());
    }
}
