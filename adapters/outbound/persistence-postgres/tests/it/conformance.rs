//! The suite that every store passes.

use crate::harness::PostgresHarness;

application_core::outbox_suite!(
    #[tokio::test]
    PostgresHarness
);
application_core::outbox_guard_suite!(
    #[tokio::test]
    PostgresHarness
);
