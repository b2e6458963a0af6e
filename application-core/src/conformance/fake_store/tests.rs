//! The fake passes the suite that every store passes.

use super::FakeStore;

crate::outbox_suite!(
    #[tokio::test]
    FakeStore
);
