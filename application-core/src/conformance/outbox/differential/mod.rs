//! Two stores side by side: the same operations, the same answers, the same rows.
//!
//! Invariant: what is compared names nothing that differs between two sound stores: no instant, no
//! token, and of several eligible heads not which one came first.
//!
//! The fake decides with the core's own functions, so a store that runs beside it without a
//! divergence has the same rules in its SQL. An implementing crate generates the sequences with its
//! own dependency, as [`outbox_differential!`](crate::outbox_differential) does.

mod op;
mod side;
mod values;
mod view;

pub use op::{Answer, Budget, Cover, Holding, Op, Seen, What};

use super::{ControlHarness, WindowHarness};
use side::Side;

/// Where two stores went different ways.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("after step {step}, {op:?}, the {what} differ:\n one: {one}\nother: {other}")]
pub struct Divergence {
    /// Which step, from 0.
    pub step: usize,
    /// What was done.
    pub op: Op,
    /// What differs: the answers, or some rows.
    pub what: String,
    /// What the first store says.
    pub one: String,
    /// What the second store says.
    pub other: String,
}

/// Runs the operations on a fresh store of each kind and compares answers and rows after every one
/// of them, all rows at the end; what each was answered.
///
/// # Errors
/// The first [`Divergence`].
///
/// # Panics
/// When a port has no answer at all.
pub async fn compare<A, B>(ops: &[Op]) -> Result<Vec<String>, Divergence>
where
    A: ControlHarness + WindowHarness,
    B: ControlHarness + WindowHarness,
{
    let mut one = Side::new(A::fresh().await);
    let mut other = Side::new(B::fresh().await);
    let mut answers = Vec::with_capacity(ops.len());
    for (step, op) in ops.iter().enumerate() {
        let divergence = |what: &str, one: &str, other: &str| Divergence {
            step,
            op: *op,
            what: what.to_owned(),
            one: one.to_owned(),
            other: other.to_owned(),
        };
        let (answered, right) = (one.run(*op).await, other.run(*op).await);
        if answered != right {
            return Err(divergence("answers", &answered, &right));
        }
        // Everything, unless one event alone was meant; then the others wait for the end.
        let slots: Vec<u8> = match op.slot() {
            Some(slot) if step + 1 < ops.len() => vec![slot],
            _ => (0..op::SLOTS).collect(),
        };
        let (left, right) = (one.view(&slots).await, other.view(&slots).await);
        for ((what, left), (_, right)) in left.iter().zip(&right) {
            if left != right {
                return Err(divergence(what, left, right));
            }
        }
        answers.push(answered);
    }
    Ok(answers)
}

/// The same, for a test.
///
/// # Panics
/// At the first divergence, with the whole sequence.
pub async fn run_differential<A, B>(ops: &[Op])
where
    A: ControlHarness + WindowHarness,
    B: ControlHarness + WindowHarness,
{
    if let Err(divergence) = compare::<A, B>(ops).await {
        panic!("{divergence}\nin {ops:#?}");
    }
}

/// A number that `COUNTERSIGN_DIFFERENTIAL_CASES` or `COUNTERSIGN_DIFFERENTIAL_SEED` gives for a
/// longer or another run, or else this one.
pub fn chosen(variable: &str, or: u64) -> u64 {
    std::env::var(variable)
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(or)
}

/// A test that runs random sequences of operations on the fake and on a harness, always the same
/// ones, and prints a failing sequence shrunk. The implementing crate has `proptest` among its
/// development dependencies and brings a runtime of its own, which has `block_on`.
#[macro_export]
macro_rules! outbox_differential {
    ($harness:ident, cases: $cases:expr, seed: $seed:expr, runtime: $runtime:expr) => {
        #[test]
        fn a_store_answers_as_the_fake_does() {
            use $crate::conformance::fake_store::FakeStore;
            use $crate::conformance::outbox::differential::{Op, chosen, run_differential};
            let runtime = $runtime;
            let seed = chosen("COUNTERSIGN_DIFFERENTIAL_SEED", $seed);
            let cases = chosen("COUNTERSIGN_DIFFERENTIAL_CASES", $cases);
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&seed.to_be_bytes());
            let mut runner = proptest::test_runner::TestRunner::new_with_rng(
                proptest::test_runner::Config {
                    cases: u32::try_from(cases).expect("a number of cases"),
                    max_shrink_iters: 400,
                    failure_persistence: None,
                    ..proptest::test_runner::Config::default()
                },
                proptest::test_runner::TestRng::from_seed(
                    proptest::test_runner::RngAlgorithm::ChaCha,
                    &bytes,
                ),
            );
            let words =
                proptest::collection::vec(proptest::arbitrary::any::<(u8, u8, u8)>(), 1..60);
            let outcome = runner.run(&words, |words| {
                let ops: Vec<Op> = words.into_iter().map(Op::decode).collect();
                runtime.block_on(run_differential::<FakeStore, $harness>(&ops));
                Ok(())
            });
            if let Err(failed) = outcome {
                panic!("seed {seed}: {failed}");
            }
        }
    };
}
