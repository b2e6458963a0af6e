//! Counting tests from what the test harness prints.
//!
//! Invariant: only whole `test result:` lines count, so a total is never more than what the
//! harness itself claims.

use std::ops::AddAssign;

/// Tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed.
    pub(crate) failed: u64,
    /// Tests that the harness ignored.
    pub(crate) ignored: u64,
}

impl Tally {
    /// One check that has no harness of its own.
    pub(crate) fn of_check(passed: bool) -> Self {
        Self {
            passed: u64::from(passed),
            failed: u64::from(!passed),
            ignored: 0,
        }
    }

    /// Adds a line of output if it is a result line.
    pub(crate) fn read_line(&mut self, line: &str) {
        if let Some(result) = parse(line) {
            *self += result;
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.ignored > 0 {
            write!(f, ", {} skipped", self.ignored)?;
        }
        Ok(())
    }
}

fn parse(line: &str) -> Option<Tally> {
    let counts = line
        .strip_prefix("test result: ok. ")
        .or_else(|| line.strip_prefix("test result: FAILED. "))?;
    let mut fields = counts.split("; ");
    let mut count = |name: &str| fields.next()?.strip_suffix(name)?.trim().parse().ok();
    Some(Tally {
        passed: count("passed")?,
        failed: count("failed")?,
        ignored: count("ignored")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_summed_and_nothing_else() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test a::test_result ... ok",
            "test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.10s",
            "note: test result: ok. 9 passed; 0 failed; 0 ignored",
        ] {
            tally.read_line(line);
        }
        assert_eq!(
            tally,
            Tally {
                passed: 6,
                failed: 1,
                ignored: 1
            }
        );
        assert_eq!(tally.to_string(), "6 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn a_check_counts_as_one() {
        assert_eq!(Tally::of_check(true).to_string(), "1 passed, 0 failed");
        assert_eq!(Tally::of_check(false).to_string(), "0 passed, 1 failed");
    }
}
