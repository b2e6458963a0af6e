//! The fake passes the suite that every store passes.

use super::FakeStore;

crate::outbox_suite!(
    #[tokio::test]
    FakeStore
);

crate::outbox_control_suite!(
    #[tokio::test]
    FakeStore
);

crate::outbox_window_suite!(
    #[tokio::test]
    FakeStore
);

/// The same cases, each claim and outcome through the window card's port.
mod through_window {
    use super::FakeStore;
    use crate::conformance::outbox::ThroughWindow;

    type Windowed = ThroughWindow<FakeStore>;

    crate::outbox_suite!(
        #[tokio::test]
        Windowed
    );
}
