//! Waiting for a condition, always with a deadline.
//!
//! Invariant: this is the only pause in xtask, and it never ends without either the condition
//! or an error that says what was waited for.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(50);

/// Looks at `condition` until it holds; an error of `condition` ends the wait at once.
pub(crate) fn until(
    what: &str,
    limit: Duration,
    mut condition: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        if condition()? {
            return Ok(());
        }
        if Instant::now() >= deadline {
            bail!("{what} did not happen within {} s", limit.as_secs());
        }
        pause();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the pause between two looks at a condition that has a deadline"
)]
fn pause() {
    std::thread::sleep(POLL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_never_holds_is_an_error_that_names_it() {
        let error = until("the moon", Duration::ZERO, || Ok(false)).unwrap_err();
        assert!(error.to_string().contains("the moon"), "{error}");
    }

    #[test]
    fn a_condition_is_looked_at_again() {
        let mut looks = 0;
        until("three looks", Duration::from_secs(5), || {
            looks += 1;
            Ok(looks == 3)
        })
        .unwrap();
        assert_eq!(looks, 3);
    }
}
