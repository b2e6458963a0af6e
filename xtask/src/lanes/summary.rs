//! The table at the end of a run.
//!
//! Invariant: the last line is the plain total, and it counts a failed lane as a failure even
//! if no test of it got as far as failing.

use std::fmt::Write as _;

use super::runner::LaneResult;
use super::tally::Tally;

/// The table, and whether every lane passed.
pub(crate) fn table(results: &[LaneResult]) -> (String, bool) {
    let width = results
        .iter()
        .map(|lane| lane.name.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = String::from("\n=== summary\n");
    let mut total = Tally::default();
    for lane in results {
        let verdict = if lane.passed { "ok" } else { "FAILED" };
        total += lane.tally;
        // Writing into a String does not fail.
        let _ = writeln!(
            text,
            "{:width$}  {verdict:6}  {:>5} s  {}",
            lane.name,
            lane.took.as_secs(),
            lane.tally
        );
    }
    let _ = write!(text, "{total}");
    (
        text,
        !results.is_empty() && results.iter().all(|lane| lane.passed),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn lane(name: &str, passed: bool, tally: Tally) -> LaneResult {
        LaneResult {
            name: name.to_owned(),
            passed,
            tally,
            took: Duration::from_secs(2),
        }
    }

    #[test]
    fn the_last_line_is_the_sum() {
        let (text, passed) = table(&[
            lane(
                "tests",
                true,
                Tally {
                    passed: 5,
                    failed: 0,
                    ignored: 0,
                },
            ),
            lane(
                "docs",
                false,
                Tally {
                    passed: 1,
                    failed: 2,
                    ignored: 0,
                },
            ),
        ]);
        assert!(!passed);
        assert_eq!(text.lines().last(), Some("6 passed, 2 failed"));
        assert!(text.contains("docs   FAILED"), "{text}");
    }

    #[test]
    fn a_run_without_lanes_has_not_passed() {
        assert!(!table(&[]).1);
    }
}
