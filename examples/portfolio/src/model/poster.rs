//! Posters: each published edition is a new version.
//!
//! Invariant: editions of one poster only grow.

use super::{Change, OneLine, RuleBroken, next_version};
use crate::contracts::{Audience, Author, PosterPublished};
use domain_core::identity::{AggregateId, AggregateSequence};

/// One poster, as of its newest edition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poster {
    /// Its id.
    pub id: AggregateId,
    /// Editions published so far.
    pub version: AggregateSequence,
    /// The edition's headline.
    pub title: OneLine,
    /// The edition's number.
    pub edition: i64,
    /// For whom it is.
    pub audience: Audience,
    /// The person who made it.
    pub author_name: OneLine,
    /// The person's team.
    pub author_team: OneLine,
    /// The last day it hangs; the contract's schema says how a day is written.
    pub on_display_until: OneLine,
}

/// Publishes an edition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishPoster {
    /// Which poster.
    pub id: AggregateId,
    /// The headline.
    pub title: OneLine,
    /// The edition's number.
    pub edition: i64,
    /// For whom it is.
    pub audience: Audience,
    /// The person who made it.
    pub author_name: OneLine,
    /// The person's team.
    pub author_team: OneLine,
    /// The last day it hangs.
    pub on_display_until: OneLine,
}

impl Poster {
    /// Decides on an edition.
    ///
    /// # Errors
    /// [`RuleBroken`] when the edition is not later than the newest one.
    pub fn publish(
        current: Option<&Self>,
        command: &PublishPoster,
    ) -> Result<Change<Self, PosterPublished>, RuleBroken> {
        if current.is_some_and(|poster| command.edition <= poster.edition) {
            return Err(RuleBroken {
                pointer: "/edition",
                rule: "the edition is not later than the one published before",
            });
        }
        let PublishPoster {
            id,
            title,
            edition,
            audience,
            author_name,
            author_team,
            on_display_until,
        } = command.clone();
        let event = PosterPublished {
            poster_id: id.as_str().to_owned(),
            title: title.as_str().to_owned(),
            edition,
            audience,
            author: Author {
                name: author_name.as_str().to_owned(),
                team: author_team.as_str().to_owned(),
            },
            on_display_until: on_display_until.as_str().to_owned(),
        };
        let aggregate = Self {
            id,
            version: next_version(current.map(|poster| poster.version))?,
            title,
            edition,
            audience,
            author_name,
            author_team,
            on_display_until,
        };
        Ok(Change { aggregate, event })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edition(edition: i64) -> PublishPoster {
        let text = |text| OneLine::parse(text).unwrap();
        PublishPoster {
            id: AggregateId::parse("poster-7").unwrap(),
            title: text("Offene Werkstatt"),
            edition,
            audience: Audience::Public,
            author_name: text("Zoë"),
            author_team: text("Atelier"),
            on_display_until: text("2026-09-30"),
        }
    }

    #[test]
    fn editions_grow_and_versions_count_them() {
        let first = Poster::publish(None, &edition(1)).unwrap();
        let third = Poster::publish(Some(&first.aggregate), &edition(3)).unwrap();
        assert_eq!(third.aggregate.version.value(), 2);
        assert_eq!(third.event.edition, 3);
        for stale in [3, 2, -1] {
            let refused = Poster::publish(Some(&third.aggregate), &edition(stale)).unwrap_err();
            assert_eq!(refused.pointer, "/edition");
        }
    }
}
