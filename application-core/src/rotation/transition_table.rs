//! The whole table: every step and every fact, for every cause; and what no path may do.

use super::*;
use RotationFact as Fact;
use RotationStep as Step;

const CAUSES: [RotationCause; 4] = [
    RotationCause::Asked,
    RotationCause::SecretChanged,
    RotationCause::GenerationEnded(FailureClass::Unauthorized),
    RotationCause::NotStarted(FailureClass::BrokerUnavailable),
];

const NEW: Material = Material::New;
const PREVIOUS: Material = Material::Previous;

const STEPS: [Step; 18] = [
    Step::Pausing,
    Step::Draining,
    Step::Recording,
    Step::Closing,
    Step::Waiting,
    Step::Resolving,
    Step::Creating(NEW),
    Step::Creating(PREVIOUS),
    Step::Attesting(NEW),
    Step::Attesting(PREVIOUS),
    Step::Barrier(NEW),
    Step::Barrier(PREVIOUS),
    Step::Resuming(NEW),
    Step::Resuming(PREVIOUS),
    Step::Done(RotationEnd::Renewed),
    Step::Done(RotationEnd::FellBack),
    Step::Done(RotationEnd::Misrouted),
    Step::Done(RotationEnd::Stopped),
];

const FAILED: Fact = Fact::Failed {
    previous_allowed: false,
};
const FAILED_WITH_PREVIOUS: Fact = Fact::Failed {
    previous_allowed: true,
};

const FACTS: [Fact; 16] = [
    Fact::Paused,
    Fact::Drained,
    Fact::Recorded,
    Fact::Closed,
    Fact::StillClosing,
    Fact::WaitOver,
    Fact::Resolved,
    Fact::Created,
    Fact::Attested,
    FAILED,
    FAILED_WITH_PREVIOUS,
    Fact::BarrierOpen,
    Fact::BarrierShut,
    Fact::Resumed,
    Fact::Misrouted,
    Fact::ProcessStops,
];

/// Written out apart from the rules that it holds to account: what a step accepts, and what follows.
fn expected(cause: RotationCause, step: Step, fact: Fact) -> Option<Step> {
    let sound = matches!(cause, RotationCause::Asked | RotationCause::SecretChanged);
    let fallback = if sound {
        Step::Creating(PREVIOUS)
    } else {
        Step::Waiting
    };
    let after_close = if sound {
        Step::Resolving
    } else {
        Step::Waiting
    };
    let stopped = (Fact::ProcessStops, Step::Done(RotationEnd::Stopped));
    let misrouted = (Fact::Misrouted, Step::Done(RotationEnd::Misrouted));
    let failing = [(FAILED, Step::Waiting), (FAILED_WITH_PREVIOUS, fallback)];
    let failing_for_good = [
        (FAILED, Step::Waiting),
        (FAILED_WITH_PREVIOUS, Step::Waiting),
    ];
    let accepted: Vec<(Fact, Step)> = match step {
        Step::Pausing => vec![(Fact::Paused, Step::Draining), misrouted, stopped],
        Step::Draining => vec![(Fact::Drained, Step::Recording), misrouted, stopped],
        Step::Recording => vec![(Fact::Recorded, Step::Closing), misrouted, stopped],
        Step::Closing => vec![
            (Fact::Closed, after_close),
            (Fact::StillClosing, Step::Closing),
            misrouted,
            stopped,
        ],
        Step::Waiting => vec![(Fact::WaitOver, Step::Resolving), stopped],
        Step::Resolving => [(Fact::Resolved, Step::Creating(NEW)), stopped]
            .into_iter()
            .chain(failing)
            .collect(),
        Step::Creating(NEW) => [(Fact::Created, Step::Attesting(NEW)), stopped]
            .into_iter()
            .chain(failing)
            .collect(),
        Step::Creating(PREVIOUS) => [(Fact::Created, Step::Attesting(PREVIOUS)), stopped]
            .into_iter()
            .chain(failing_for_good)
            .collect(),
        Step::Attesting(NEW) => [(Fact::Attested, Step::Barrier(NEW)), stopped]
            .into_iter()
            .chain(failing)
            .collect(),
        Step::Attesting(PREVIOUS) => [(Fact::Attested, Step::Barrier(PREVIOUS)), stopped]
            .into_iter()
            .chain(failing_for_good)
            .collect(),
        Step::Barrier(material) => vec![
            (Fact::BarrierShut, Step::Barrier(material)),
            (Fact::BarrierOpen, Step::Resuming(material)),
            stopped,
        ],
        Step::Resuming(NEW) => [(Fact::Resumed, Step::Done(RotationEnd::Renewed)), stopped]
            .into_iter()
            .chain(failing)
            .collect(),
        Step::Resuming(PREVIOUS) => [(Fact::Resumed, Step::Done(RotationEnd::FellBack)), stopped]
            .into_iter()
            .chain(failing_for_good)
            .collect(),
        Step::Done(_) => vec![],
    };
    let found = accepted.into_iter().find(|(accepted, _)| *accepted == fact);
    found.map(|(_, next)| next)
}

#[test]
fn every_fact_in_every_step_is_as_the_table_says() {
    let mut accepted = 0;
    for cause in CAUSES {
        for step in STEPS {
            for fact in FACTS {
                let next = Rotation { cause, step }.next(fact);
                let expected = expected(cause, step, fact);
                accepted += usize::from(expected.is_some());
                match (next, expected) {
                    (Ok(next), Some(expected)) => {
                        assert_eq!(
                            next,
                            Rotation {
                                cause,
                                step: expected
                            },
                            "{step:?} {fact:?}"
                        );
                    }
                    (Err(refused), None) => assert_eq!(refused, IllegalRotation { step, fact }),
                    (next, expected) => panic!("{step:?} {fact:?}: {next:?}, not {expected:?}"),
                }
            }
        }
    }
    assert!(accepted > 150, "only {accepted} transitions");
}

/// Every step that can be reached, with the facts on the way to it.
fn paths(cause: RotationCause) -> Vec<(Step, Vec<Fact>)> {
    let mut found = vec![(Step::Pausing, Vec::new())];
    let mut next = 0;
    while let Some((step, path)) = found.get(next).cloned() {
        next += 1;
        // A path that loops shows nothing new.
        if path.len() > 24 {
            continue;
        }
        for fact in FACTS {
            let Ok(after) = (Rotation { cause, step }).next(fact) else {
                continue;
            };
            let mut longer = path.clone();
            longer.push(fact);
            let known = found
                .iter()
                .any(|(step, path)| *step == after.step && path.len() <= longer.len());
            if !known {
                found.push((after.step, longer));
            }
        }
    }
    found
}

/// No way leads to a new generation at work past the close of the old one or past the barrier.
#[test]
fn nothing_resumes_without_close_and_barrier() {
    for cause in CAUSES {
        for (step, path) in paths(cause) {
            let at = |wanted: Fact| path.iter().position(|fact| *fact == wanted);
            if matches!(step, Step::Creating(_) | Step::Resuming(_)) {
                assert!(at(Fact::Closed).is_some(), "{cause:?} {step:?} {path:?}");
            }
            if matches!(
                step,
                Step::Done(RotationEnd::Renewed | RotationEnd::FellBack)
            ) {
                let open = at(Fact::BarrierOpen).expect("past the barrier");
                assert!(at(Fact::Closed).expect("closed") < open, "{path:?}");
                assert!(at(Fact::Drained) < at(Fact::Closed), "{path:?}");
                assert!(at(Fact::Attested).expect("attested") < open, "{path:?}");
            }
        }
    }
}

/// From every step a rotation can still end with a generation at work, or has ended.
#[test]
fn no_step_is_a_dead_end() {
    for cause in CAUSES {
        for (step, _) in paths(cause) {
            let happy = [
                Fact::Paused,
                Fact::Drained,
                Fact::Recorded,
                Fact::Closed,
                Fact::WaitOver,
                Fact::Resolved,
                Fact::Created,
                Fact::Attested,
                Fact::BarrierOpen,
                Fact::Resumed,
            ];
            let mut rotation = Rotation { cause, step };
            for fact in happy {
                rotation = rotation.next(fact).unwrap_or(rotation);
            }
            assert!(matches!(rotation.step, Step::Done(_)), "{step:?}");
        }
    }
}

/// A generation that a fault ended is never made again of the same material.
#[test]
fn the_previous_material_is_for_a_sound_generation_alone() {
    for cause in CAUSES {
        let falls_back = paths(cause)
            .iter()
            .any(|(step, _)| matches!(step, Step::Creating(PREVIOUS)));
        let sound = matches!(cause, RotationCause::Asked | RotationCause::SecretChanged);
        assert_eq!(falls_back, sound, "{cause:?}");
    }
}
