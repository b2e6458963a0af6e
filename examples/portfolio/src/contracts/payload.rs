//! The payload records of the sample's contracts, version 1.
//!
//! Invariant: names and order of the fields are those of the contract's descriptor, and every
//! field is always written, so that the encoder finds nothing to refuse but values. Reading is as
//! strict: an unknown or missing field is an error.

use serde::{Deserialize, Serialize};

/// Payload of `portfolio.worklog.reserved` version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkLogReserved {
    /// Which work log; the aggregate's id.
    pub work_log_id: String,
    /// What the work is about.
    pub title: String,
    /// Minutes set aside.
    pub minutes: i64,
    /// Free classification.
    pub tags: Vec<String>,
}

/// Payload of `portfolio.worklog.completed` version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkLogCompleted {
    /// Which work log; the aggregate's id.
    pub work_log_id: String,
    /// Minutes the work took.
    pub minutes_spent: i64,
    /// How it ended.
    pub status: CompletionStatus,
    /// Whether something is left to do.
    pub follow_up_needed: bool,
}

/// Payload of `portfolio.poster.published` version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PosterPublished {
    /// Which poster; the aggregate's id.
    pub poster_id: String,
    /// Its headline.
    pub title: String,
    /// Which edition.
    pub edition: i64,
    /// For whom it is.
    pub audience: Audience,
    /// Who made it.
    pub author: Author,
    /// The last day it hangs, `YYYY-MM-DD`.
    pub on_display_until: String,
}

/// Who made a poster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Author {
    /// The person.
    pub name: String,
    /// The person's team.
    pub team: String,
}

/// Declares an enumeration with its stable names, once for serde, storage and messages.
macro_rules! named_values {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $text)] $variant),+
        }

        impl $name {
            /// The stable names, in the contract's order.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// The stable name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }

            /// The value of a stable name.
            pub fn parse(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

named_values!(
    /// How work ended.
    CompletionStatus {
        /// All of it is done.
        Finished = "finished",
        /// Some of it is done.
        PartlyFinished = "partly-finished",
        /// None of it will be done.
        Abandoned = "abandoned",
    }
);
named_values!(
    /// For whom a poster is.
    Audience {
        /// Anyone.
        Public = "public",
        /// Partners of the organization.
        Partners = "partners",
        /// The author's team.
        Team = "team",
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_names_are_what_serde_writes() {
        for name in CompletionStatus::NAMES {
            let value = CompletionStatus::parse(name).expect(name);
            assert_eq!(value.as_str(), *name);
            assert_eq!(serde_json::to_value(value).unwrap(), *name);
        }
        for name in Audience::NAMES {
            let value = Audience::parse(name).expect(name);
            assert_eq!(value.as_str(), *name);
            assert_eq!(serde_json::to_value(value).unwrap(), *name);
        }
        assert_eq!(CompletionStatus::parse("Finished"), None);
    }

    #[test]
    fn a_payload_with_another_field_is_not_read() {
        let text = br#"{"workLogId":"w","minutesSpent":1,"status":"finished","followUpNeeded":true,"x":1}"#;
        assert!(serde_json::from_slice::<WorkLogCompleted>(text).is_err());
    }
}
