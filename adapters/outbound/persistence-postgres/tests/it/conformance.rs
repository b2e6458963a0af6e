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
application_core::outbox_control_suite!(
    #[tokio::test]
    PostgresHarness
);
application_core::outbox_window_suite!(
    #[tokio::test]
    PostgresHarness
);

/// The same cases, each claim and outcome through the window card's port.
mod through_window {
    use crate::harness::PostgresHarness;
    use application_core::conformance::outbox::ThroughWindow;

    type Windowed = ThroughWindow<PostgresHarness>;

    application_core::outbox_suite!(
        #[tokio::test]
        Windowed
    );
    application_core::outbox_control_suite!(
        #[tokio::test]
        Windowed
    );
}

/// Random operations, here and on the fake.
mod differential {
    use crate::harness::PostgresHarness;

    application_core::outbox_differential!(PostgresHarness, cases: 32, seed: 4, runtime: tokio::runtime::Runtime::new().expect("a runtime"));
}
