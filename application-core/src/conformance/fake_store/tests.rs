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
    crate::outbox_control_suite!(
        #[tokio::test]
        Windowed
    );
}

/// The same cases, each claim and outcome entered into a ledger.
mod through_ledger {
    use super::FakeStore;
    use crate::conformance::outbox::{ThroughLedger, ThroughWindow};

    type Ledgered = ThroughLedger<FakeStore>;

    crate::outbox_suite!(
        #[tokio::test]
        Ledgered
    );
    crate::outbox_window_suite!(
        #[tokio::test]
        Ledgered
    );

    mod windowed {
        use super::{Ledgered, ThroughWindow};

        type Windowed = ThroughWindow<Ledgered>;

        crate::outbox_suite!(
            #[tokio::test]
            Windowed
        );
    }
}

/// The fake under windows of one, beside itself.
mod differential {
    use super::FakeStore;
    use crate::conformance::outbox::ThroughWindow;
    use crate::conformance::outbox::differential::{Op, compare};
    use proptest::strategy::{Strategy as _, ValueTree as _};
    use std::collections::BTreeMap;

    type Windowed = ThroughWindow<FakeStore>;

    crate::outbox_differential!(Windowed, cases: 200, seed: 4, runtime: tokio::runtime::Runtime::new().expect("a runtime"));

    /// The sequences reach what they are for; a generator that stays among refusals shows nothing.
    #[tokio::test]
    async fn the_sequences_reach_every_corner() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let words = proptest::collection::vec(proptest::arbitrary::any::<(u8, u8, u8)>(), 40..60);
        let corners = [
            "again",
            "not admitted: Frozen",
            "Cdc",
            "claims 2 attempts 2",
            "generation 2 claims 1",
            "spent: deadline",
            "spent: attempts",
            "renewed",
            "lapsed",
            "stale",
            "Recorded(DeliveryRecorded)",
            "Recorded(RetryWait)",
            "Recorded(Exhausted)",
            "Recorded(Hold)",
            "Stale",
            "appended: 1",
            "duplicates: 1",
            "orphaned: 1",
            "state: Hold",
            "state: Skipped",
            "state: Compensated",
            "state: Ready",
            "Conflict(NoDelivery)",
            "Conflict(Generation",
            "Conflict(RowVersion",
            "Conflict(State",
            "Conflict(NoCompensation)",
            "Conflict(NoPollingEpoch)",
            "the claim is live",
            "the horizon has passed",
            "Changed",
            "Unchanged",
            "Activated",
            "ActiveDiffers",
            "Frozen(",
            "Open(",
            "changed true",
            "no event",
            "removed 1",
            "removed 2",
        ];
        let mut reached = BTreeMap::from(corners.map(|corner| (corner, 0)));
        for _ in 0..300 {
            let sequence = words.new_tree(&mut runner).expect("a sequence").current();
            let ops: Vec<Op> = sequence.into_iter().map(Op::decode).collect();
            let answers = compare::<FakeStore, FakeStore>(&ops).await;
            for answer in answers.expect("one fake is like another") {
                for (corner, times) in &mut reached {
                    *times += u32::from(answer.contains(corner));
                }
            }
        }
        let missed: Vec<_> = reached.iter().filter(|(_, times)| **times == 0).collect();
        assert!(missed.is_empty(), "{missed:?} of {reached:?}");
    }
}
