//! Integration tests of the SQLite store: the shared suite, and what is SQLite's own.
#![forbid(unsafe_code)]

mod abuse;
mod crash;
mod harness;
mod inbox;
mod limits;
mod migrations;
mod open;
mod plans;
mod processes;
mod tamper;
mod transitions;

mod conformance {
    use super::harness::SqliteHarness;
    application_core::outbox_suite!(
        #[tokio::test]
        SqliteHarness
    );
    application_core::outbox_guard_suite!(
        #[tokio::test]
        SqliteHarness
    );
    application_core::outbox_control_suite!(
        #[tokio::test]
        SqliteHarness
    );
    application_core::outbox_window_suite!(
        #[tokio::test]
        SqliteHarness
    );
}

/// The same cases, each claim and outcome through the window port.
mod through_window {
    use super::harness::SqliteHarness;
    use application_core::conformance::outbox::ThroughWindow;

    type Windowed = ThroughWindow<SqliteHarness>;

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
    use super::harness::SqliteHarness;
    application_core::outbox_differential!(SqliteHarness, cases: 40, seed: 4, runtime: tokio::runtime::Runtime::new().expect("a runtime"));
}
