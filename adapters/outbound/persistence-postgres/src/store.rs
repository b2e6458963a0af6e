//! One PostgreSQL store and the ports on it.
//!
//! Invariant: the connection URL is read once and kept nowhere that prints: no error, no `Debug`
//! and no log statement of the driver shows it.

use crate::append::PostgresOutbox;
use crate::authority::PostgresAuthority;
use crate::capacity::PostgresCapacity;
use crate::delivery::{Places, PostgresDeliveries};
use crate::disposition::PostgresDispositions;
use crate::errors::DatabaseFault;
use crate::fence::PostgresFences;
use crate::inbox::PostgresInbox;
use crate::migrate::{self, MigrationError};
use crate::query::PostgresQuery;
use crate::retention::PostgresRetention;
use crate::session::{Access, Sessions, WriteIsolation, pool_options};
use crate::settings::{PoolSettings, SettingsError};
use crate::transaction::PostgresTransactions;
use crate::window::PostgresWindows;
use application_core::ports::AppendPolicy;
use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgPool};
use std::sync::Arc;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL cannot be read. What it says is not repeated.
    #[error("the database URL is not a PostgreSQL connection URL")]
    Url,
    /// The URL has a parameter that is not known here. The driver would log it with its value, so
    /// it never sees it; nothing of it is repeated.
    #[error("the database URL has a parameter that is not known; known are {KNOWN_PARAMETERS:?}")]
    UnknownParameter,
    /// A bound makes no sense.
    #[error("the pool settings cannot be used")]
    Settings(#[source] SettingsError),
    /// The database cannot be reached or refused the login.
    #[error("the database cannot be reached")]
    Unavailable(#[source] DatabaseFault),
}

/// What a URL may say after its `?`.
const KNOWN_PARAMETERS: [&str; 9] = [
    "sslmode",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
];

fn parameters_are_known(url: &str) -> bool {
    let Some((_, parameters)) = url.split_once('?') else {
        return true;
    };
    parameters
        .split('&')
        .filter(|pair| !pair.is_empty())
        .all(|pair| {
            let name = pair.split('=').next().unwrap_or_default();
            // `options[name]` sets one server option.
            KNOWN_PARAMETERS.contains(&name) || name.starts_with("options[")
        })
}

/// A pool on one database, and what hands out the ports.
#[derive(Clone)]
pub struct PostgresStore {
    pub(crate) sessions: Arc<Sessions>,
    /// Where the scans of this process stand; every handle goes on where another stopped.
    places: Arc<Places>,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Opens a pool. The URL's `options` may set the search path; nothing else of them is needed.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(url: &str, settings: &PoolSettings) -> Result<Self, ConnectError> {
        settings.check().map_err(ConnectError::Settings)?;
        // The driver would take any scheme.
        if !["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
        {
            return Err(ConnectError::Url);
        }
        if !parameters_are_known(url) {
            return Err(ConnectError::UnknownParameter);
        }
        let options: PgConnectOptions = url.parse().map_err(|_| ConnectError::Url)?;
        let options = options
            .application_name(&settings.application_name)
            .disable_statement_logging();
        let pool = pool_options(settings)
            .connect_with(options)
            .await
            .map_err(|error| ConnectError::Unavailable(error.into()))?;
        Ok(Self {
            sessions: Sessions::new(pool, settings),
            places: Arc::default(),
        })
    }

    /// Takes a pool that a service has already; only the transaction limits of `settings` apply.
    ///
    /// # Errors
    /// [`ConnectError::Settings`].
    pub fn from_pool(pool: PgPool, settings: &PoolSettings) -> Result<Self, ConnectError> {
        settings.check().map_err(ConnectError::Settings)?;
        Ok(Self {
            sessions: Sessions::new(pool, settings),
            places: Arc::default(),
        })
    }

    /// Brings the schema up to date, in the first schema of the search path.
    ///
    /// # Errors
    /// [`MigrationError`].
    pub async fn migrate(&self) -> Result<(), MigrationError> {
        migrate::run(self.sessions.pool()).await
    }

    /// Write transactions for business code, READ COMMITTED.
    pub fn transactions(&self) -> PostgresTransactions {
        self.transactions_at(WriteIsolation::ReadCommitted)
    }

    /// Write transactions for business code at another level. The caller repeats them when the
    /// database asks for it.
    pub fn transactions_at(&self, isolation: WriteIsolation) -> PostgresTransactions {
        PostgresTransactions {
            sessions: Arc::clone(&self.sessions),
            access: Access::Business(isolation),
        }
    }

    /// Write transactions that a freeze of business writes does not hold back, READ COMMITTED: for
    /// the sentinel that proves the way to the broker while the store is frozen.
    pub fn ungated_transactions(&self) -> PostgresTransactions {
        PostgresTransactions {
            sessions: Arc::clone(&self.sessions),
            access: Access::RELAY,
        }
    }

    /// The window card's transactions.
    pub fn windows(&self) -> PostgresWindows {
        PostgresWindows::new(self.deliveries())
    }

    /// What operators do to deliveries.
    pub fn dispositions(&self) -> PostgresDispositions {
        PostgresDispositions {
            sessions: Arc::clone(&self.sessions),
        }
    }

    /// The publication epoch and the write admission.
    pub fn authority(&self) -> PostgresAuthority {
        PostgresAuthority {
            sessions: Arc::clone(&self.sessions),
        }
    }

    /// Claim fences.
    pub fn fences(&self) -> PostgresFences {
        PostgresFences {
            sessions: Arc::clone(&self.sessions),
        }
    }

    /// Removes what is resolved and old enough.
    pub fn retention(&self) -> PostgresRetention {
        PostgresRetention::new(Arc::clone(&self.sessions))
    }

    /// How full the outbox is.
    pub fn capacity(&self) -> PostgresCapacity {
        PostgresCapacity {
            sessions: Arc::clone(&self.sessions),
        }
    }

    /// The append port.
    pub fn outbox(&self, policy: AppendPolicy) -> PostgresOutbox {
        PostgresOutbox {
            sessions: Arc::clone(&self.sessions),
            policy,
        }
    }

    /// The relay's transactions and the late observations' journal.
    pub fn deliveries(&self) -> PostgresDeliveries {
        PostgresDeliveries::new(Arc::clone(&self.sessions), Arc::clone(&self.places))
    }

    /// Reads.
    pub fn query(&self) -> PostgresQuery {
        PostgresQuery {
            sessions: Arc::clone(&self.sessions),
        }
    }

    /// The inbox of any transaction on this store.
    pub fn inbox(&self) -> PostgresInbox {
        PostgresInbox
    }

    /// Closes the pool once its transactions have ended.
    pub async fn close(&self) {
        self.sessions.pool().close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_that_the_driver_would_log_never_reaches_it() {
        for known in [
            "postgres://u@h/d",
            "postgres://u@h/d?",
            "postgres://u@h/d?sslmode=disable&application_name=x",
            "postgres://u@h/d?options[search_path]=s",
        ] {
            assert!(parameters_are_known(known), "{known}");
        }
        for unknown in [
            "postgres://u@h/d?sslpassword=x",
            "postgres://u@h/d?sslmode=disable&x",
        ] {
            assert!(!parameters_are_known(unknown), "{unknown}");
        }
    }
}
