//! Noticing that the content of a referenced secret changed.
//!
//! Invariant: only digests are kept. A content counts as changed when two looks in a row find the same
//! new one, so that a file is not read in the middle of being written (requirement 004 §§16.10, 21.7).

use crate::config::SecretReference;
use domain_core::hashing::Sha256Digest;
use secrecy::ExposeSecret as _;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior};

/// Secrets that are looked at again and again.
pub(crate) struct SecretWatch {
    references: Vec<SecretReference>,
    interval: Interval,
    known: Vec<Option<Sha256Digest>>,
    seen: Option<Vec<Option<Sha256Digest>>>,
}

impl SecretWatch {
    /// Looks at the secrets now, and then once an interval. `None` without any secret: then there is
    /// no timer either.
    pub(crate) fn start(references: Vec<SecretReference>, interval: Duration) -> Option<Self> {
        if references.is_empty() {
            return None;
        }
        let mut interval = tokio::time::interval(interval);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Some(Self {
            known: look(&references),
            references,
            interval,
            seen: None,
        })
    }

    /// Waits for another content. A secret that cannot be read is no other content: its file may be
    /// in the middle of being replaced. Dropped, it goes on where it was.
    pub(crate) async fn changed(&mut self) {
        loop {
            self.interval.tick().await;
            let now = look(&self.references);
            if now == self.known || now.iter().any(Option::is_none) {
                self.seen = None;
                continue;
            }
            if self.seen.as_ref() == Some(&now) {
                self.known = now;
                self.seen = None;
                return;
            }
            self.seen = Some(now);
        }
    }
}

fn look(references: &[SecretReference]) -> Vec<Option<Sha256Digest>> {
    let digest = |reference: &SecretReference| {
        let secret = reference.resolve().ok()?;
        Some(Sha256Digest::of(secret.expose_secret().as_bytes()))
    };
    references.iter().map(digest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(5);

    async fn quiet(watch: &mut SecretWatch) -> bool {
        tokio::time::timeout(TICK * 10, watch.changed())
            .await
            .is_err()
    }

    async fn noticed(watch: &mut SecretWatch) -> bool {
        let limit = Duration::from_secs(10);
        tokio::time::timeout(limit, watch.changed()).await.is_ok()
    }

    #[tokio::test]
    async fn another_content_is_noticed_once_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let reference = |name: &str| {
            SecretReference::parse(&format!("secret://file{}", file(name).display())).unwrap()
        };
        std::fs::write(file("one"), "first").unwrap();
        std::fs::write(file("two"), "constant").unwrap();
        let mut watch = SecretWatch::start(vec![reference("one"), reference("two")], TICK).unwrap();
        assert!(quiet(&mut watch).await);
        // The same content in another file, and a line break at its end.
        std::fs::write(file("one.new"), "first\n").unwrap();
        std::fs::rename(file("one.new"), file("one")).unwrap();
        assert!(quiet(&mut watch).await);
        std::fs::write(file("one"), "second").unwrap();
        assert!(noticed(&mut watch).await);
        assert!(quiet(&mut watch).await);
        // Gone is not changed; back with another content is.
        std::fs::remove_file(file("one")).unwrap();
        assert!(quiet(&mut watch).await);
        std::fs::write(file("one"), "third").unwrap();
        assert!(noticed(&mut watch).await);
        assert!(SecretWatch::start(Vec::new(), TICK).is_none());
    }
}
