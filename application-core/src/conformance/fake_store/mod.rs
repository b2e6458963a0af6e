//! An outbox store in memory, for tests of the use cases and as the suite's own reference.
//!
//! It decides with [`DeliveryState::next`](domain_core::delivery::DeliveryState::next) and
//! [`AppendPolicy`](crate::ports::AppendPolicy) alone, so the suite that it passes says what the
//! core says. Its clock moves only when it is told to.
//!
//! Invariant: one writer at a time; a write transaction works on a copy that replaces the store's
//! state at the commit, or is dropped.

mod authority;
mod disposition;
mod fence;
mod harness;
mod lock;
mod relay;
mod state;
mod transaction;
mod upkeep;
mod window;

#[cfg(test)]
mod planted_tests;
#[cfg(test)]
mod tests;

pub use transaction::{FakeInbox, FakeOutbox, FakeTransactions, FakeWriteTransaction};

use crate::ports::AppendPolicy;
use domain_core::instant::DatabaseInstant;
use lock::WriteLock;
use state::State;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Clones share one store.
#[derive(Clone)]
pub struct FakeStore {
    state: Arc<Mutex<State>>,
    writer: WriteLock,
}

impl FakeStore {
    /// An empty store with one ACTIVE `POLLING_V2` epoch, whose first deliveries may be published
    /// for `maximum_age`.
    ///
    /// # Panics
    /// When no [`AppendPolicy`] takes that age.
    pub fn new(maximum_age: Duration) -> Self {
        let policy = AppendPolicy::new(maximum_age, "fake-store").expect("an age");
        Self {
            state: Arc::new(Mutex::new(State::new(policy))),
            writer: WriteLock::default(),
        }
    }

    /// The store's clock.
    pub fn now(&self) -> DatabaseInstant {
        self.state().now
    }

    /// Moves the store's clock.
    pub fn advance(&self, by: Duration) {
        let mut state = self.state();
        state.now = state.now.plus(by);
    }

    /// The business side's transactions.
    pub fn transactions(&self) -> FakeTransactions {
        FakeTransactions {
            store: self.clone(),
            gated: true,
        }
    }

    /// Write transactions that a freeze does not stop.
    pub fn ungated_transactions(&self) -> FakeTransactions {
        FakeTransactions {
            store: self.clone(),
            gated: false,
        }
    }

    /// The append port.
    pub fn outbox(&self) -> FakeOutbox {
        FakeOutbox(self.clone())
    }

    /// The inbox.
    pub fn inbox(&self) -> FakeInbox {
        FakeInbox(self.clone())
    }

    /// The committed state. It is replaced as a whole, so a panic elsewhere leaves it whole.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
