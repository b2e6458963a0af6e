//! The whole transition table: every state, live and lapsed, against every event.

use super::*;

const NOW: DatabaseInstant = DatabaseInstant::from_epoch_micros(1_000);
const BEFORE: DatabaseInstant = DatabaseInstant::from_epoch_micros(999);
const AFTER: DatabaseInstant = DatabaseInstant::from_epoch_micros(1_001);

fn holder(byte: u8) -> Holder {
    Holder {
        token: ClaimToken::from_random([byte; 16]),
        owner: WorkerId::parse("w1").expect("worker"),
    }
}

fn claim(byte: u8, until: DatabaseInstant) -> Claim {
    let Holder { token, owner } = holder(byte);
    Claim {
        token,
        owner,
        until,
    }
}

fn states() -> Vec<(&'static str, DeliveryState)> {
    vec![
        ("ready", DeliveryState::Ready),
        ("live", DeliveryState::Claimed(claim(1, AFTER))),
        ("lapsed", DeliveryState::Claimed(claim(1, NOW))),
        ("due", DeliveryState::RetryWait { due: NOW }),
        ("waiting", DeliveryState::RetryWait { due: AFTER }),
        ("recorded", DeliveryState::DeliveryRecorded),
        ("exhausted", DeliveryState::Exhausted),
        ("hold", DeliveryState::Hold),
        ("skipped", DeliveryState::Skipped),
        ("compensated", DeliveryState::Compensated),
        ("legacy", DeliveryState::LegacyRecordedUnverified),
        ("accepted", DeliveryState::LegacyAcceptedUnverified),
    ]
}

/// Each row: the event, and what each state above becomes; `.` is a refusal.
fn table() -> Vec<(DeliveryEvent, [&'static str; 12])> {
    let now = NOW;
    let by = |byte| holder(byte);
    vec![
        (
            DeliveryEvent::Claimed {
                claim: claim(2, AFTER),
                now,
            },
            [
                "CLAIMED", ".", "CLAIMED", "CLAIMED", ".", ".", ".", ".", ".", ".", ".", ".",
            ],
        ),
        (
            DeliveryEvent::BudgetSpent { now },
            [
                "EXHAUSTED",
                ".",
                "EXHAUSTED",
                "EXHAUSTED",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
            ],
        ),
        (
            DeliveryEvent::Renewed {
                holder: by(1),
                until: AFTER,
                now,
            },
            [
                ".", "CLAIMED", ".", ".", ".", ".", ".", ".", ".", ".", ".", ".",
            ],
        ),
        (
            DeliveryEvent::Acknowledged { holder: by(1), now },
            [
                ".",
                "DELIVERY_RECORDED",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
            ],
        ),
        (
            DeliveryEvent::RetryScheduled {
                holder: by(1),
                due: AFTER,
                now,
            },
            [
                ".",
                "RETRY_WAIT",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
            ],
        ),
        (
            DeliveryEvent::AttemptsEnded { holder: by(1), now },
            [
                ".",
                "EXHAUSTED",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
            ],
        ),
        (
            DeliveryEvent::HeldByWorker { holder: by(1), now },
            [
                ".", "HOLD", ".", ".", ".", ".", ".", ".", ".", ".", ".", ".",
            ],
        ),
        (
            DeliveryEvent::HeldByOperator { now },
            [
                "HOLD", ".", "HOLD", "HOLD", "HOLD", ".", "HOLD", ".", ".", ".", ".", ".",
            ],
        ),
        (
            DeliveryEvent::Skipped,
            [
                ".", ".", ".", ".", ".", ".", "SKIPPED", "SKIPPED", ".", ".", ".", ".",
            ],
        ),
        (
            DeliveryEvent::Compensated,
            [
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                "COMPENSATED",
                "COMPENSATED",
                ".",
                ".",
                ".",
                ".",
            ],
        ),
        (
            DeliveryEvent::LegacyAccepted,
            [
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                ".",
                "LEGACY_ACCEPTED_UNVERIFIED",
                ".",
            ],
        ),
    ]
}

#[test]
fn the_table_is_total_and_exact() {
    for (event, row) in table() {
        for ((label, state), expected) in states().into_iter().zip(row) {
            let found = match state.next(&event) {
                Ok(next) => next.name().as_str(),
                Err(_) => ".",
            };
            assert_eq!(found, expected, "{} on {label}", event.name());
        }
    }
}

#[test]
fn a_foreign_token_or_worker_never_ends_a_claim() {
    let live = DeliveryState::Claimed(claim(1, AFTER));
    let stranger = Holder {
        owner: WorkerId::parse("w2").expect("worker"),
        ..holder(1)
    };
    for holder in [holder(2), stranger] {
        for event in [
            DeliveryEvent::Acknowledged {
                holder: holder.clone(),
                now: NOW,
            },
            DeliveryEvent::RetryScheduled {
                holder: holder.clone(),
                due: AFTER,
                now: NOW,
            },
            DeliveryEvent::AttemptsEnded {
                holder: holder.clone(),
                now: NOW,
            },
            DeliveryEvent::HeldByWorker {
                holder: holder.clone(),
                now: NOW,
            },
            DeliveryEvent::Renewed {
                holder: holder.clone(),
                until: AFTER,
                now: NOW,
            },
        ] {
            assert_eq!(
                live.next(&event).map_err(|error| error.refusal),
                Err(TransitionRefusal::NotHolder)
            );
        }
    }
}

#[test]
fn a_lapsed_claim_records_nothing_even_before_a_reclaim() {
    for until in [BEFORE, NOW] {
        let lapsed = DeliveryState::Claimed(claim(1, until));
        let event = DeliveryEvent::Acknowledged {
            holder: holder(1),
            now: NOW,
        };
        let error = lapsed.next(&event).expect_err("lapsed");
        assert_eq!(error.refusal, TransitionRefusal::ClaimLapsed);
        assert_eq!(error.to_string(), "acknowledge does not apply to CLAIMED");
    }
}

#[test]
fn refusals_say_why() {
    let refusal = |state: DeliveryState, event: &DeliveryEvent| {
        state.next(event).map_err(|error| error.refusal)
    };
    let claimed = DeliveryEvent::Claimed {
        claim: claim(2, AFTER),
        now: NOW,
    };
    assert_eq!(
        refusal(DeliveryState::RetryWait { due: AFTER }, &claimed),
        Err(TransitionRefusal::NotDue)
    );
    assert_eq!(
        refusal(DeliveryState::Claimed(claim(1, AFTER)), &claimed),
        Err(TransitionRefusal::ClaimLive)
    );
}

#[test]
fn a_requeue_supersedes_what_an_operator_may_dispose_of() {
    for (label, state) in states() {
        assert_eq!(
            state.requeueable().is_ok(),
            matches!(label, "exhausted" | "hold"),
            "{label}"
        );
    }
}
