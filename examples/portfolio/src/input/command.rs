//! One line as a command.
//!
//! Invariant: a command has every field it needs, of the right type, and no other. Bounds that a
//! contract states are left to the contract, so that they have one owner.

use super::document::{Fields, Node};
use super::{Refusal, instant};
use crate::contracts::{Audience, CompletionStatus, Contract};
use crate::model::{CompleteWorkLog, Completion, OneLine, PublishPoster, ReserveWorkLog};
use application_core::event::TraceContext;
use domain_core::identity::{
    AggregateId, AggregateIdentity, CausationId, CorrelationId, EventId, IdentityError,
};
use domain_core::instant::OccurredAt;

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The event's id, where the input decides it.
    pub event_id: Option<EventId>,
    /// When it happened.
    pub occurred_at: OccurredAt,
    /// The workflow it belongs to.
    pub correlation_id: CorrelationId,
    /// What caused it, where something did.
    pub causation_id: Option<CausationId>,
    /// The trace it was created in.
    pub trace: Option<TraceContext>,
    /// What to do.
    pub action: Action,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// `reserve-work-log`.
    ReserveWorkLog(ReserveWorkLog),
    /// `complete-work-log`.
    CompleteWorkLog(CompleteWorkLog),
    /// `publish-poster`.
    PublishPoster(PublishPoster),
}

const KINDS: &str = "one of reserve-work-log, complete-work-log, publish-poster";

impl Command {
    /// Reads one line, without its end.
    ///
    /// Common to every kind: `kind`, `occurredAt` (`YYYY-MM-DDThh:mm:ss[.fraction]Z`),
    /// `correlationId`, and optionally `eventId`, `causationId`, `traceparent`. Then, by kind:
    /// - `reserve-work-log`: `workLogId`, `title`, `minutes`, optionally `tags`;
    /// - `complete-work-log`: `workLogId`, `minutesSpent`, `status`, `followUpNeeded`;
    /// - `publish-poster`: `posterId`, `title`, `edition`, `audience`,
    ///   `author` (`name`, `team`), `onDisplayUntil`.
    ///
    /// # Errors
    /// [`Refusal`] with the first broken rule.
    pub fn parse(line: &[u8]) -> Result<Self, Refusal> {
        let mut fields = Fields::open(String::new(), Node::parse(line)?)?;
        let contract = match fields.text("kind")?.as_str() {
            "reserve-work-log" => Contract::WorkLogReserved,
            "complete-work-log" => Contract::WorkLogCompleted,
            "publish-poster" => Contract::PosterPublished,
            _ => return Err(Refusal::shape("/kind", KINDS)),
        };
        Self::read(contract, fields).map_err(|refusal| refusal.under(contract.key()))
    }

    fn read(contract: Contract, mut fields: Fields) -> Result<Self, Refusal> {
        let occurred_at = fields.text("occurredAt")?;
        let occurred_at = instant::parse(&occurred_at)
            .ok_or_else(|| Refusal::shape(fields.at("occurredAt"), instant::RULE))?;
        let correlation_id = fields.text("correlationId")?;
        let correlation_id = identity(
            &fields,
            "correlationId",
            CorrelationId::parse(correlation_id),
        )?;
        let event_id = fields.optional_text("eventId")?.map(EventId::parse);
        let event_id = optional(&fields, "eventId", event_id)?;
        let causation_id = fields.optional_text("causationId")?.map(CausationId::parse);
        let causation_id = optional(&fields, "causationId", causation_id)?;
        let trace = match fields.optional_text("traceparent")? {
            None => None,
            Some(parent) => Some(
                TraceContext::parse(&parent, None)
                    .map_err(|error| Refusal::shape(fields.at("traceparent"), error.to_string()))?,
            ),
        };
        let action = match contract {
            Contract::WorkLogReserved => Action::ReserveWorkLog(reserve(&mut fields)?),
            Contract::WorkLogCompleted => Action::CompleteWorkLog(complete(&mut fields)?),
            Contract::PosterPublished => Action::PublishPoster(publish(&mut fields)?),
        };
        fields.close()?;
        Ok(Self {
            event_id,
            occurred_at,
            correlation_id,
            causation_id,
            trace,
            action,
        })
    }
}

impl Action {
    /// The contract of the event that the action leads to.
    pub fn contract(&self) -> Contract {
        match self {
            Self::ReserveWorkLog(_) => Contract::WorkLogReserved,
            Self::CompleteWorkLog(_) => Contract::WorkLogCompleted,
            Self::PublishPoster(_) => Contract::PosterPublished,
        }
    }

    /// What the action is about.
    pub fn aggregate(&self) -> AggregateIdentity {
        let id = match self {
            Self::ReserveWorkLog(command) => &command.id,
            Self::CompleteWorkLog(command) => &command.id,
            Self::PublishPoster(command) => &command.id,
        };
        AggregateIdentity::new(self.contract().aggregate_type(), id.clone())
    }
}

fn reserve(fields: &mut Fields) -> Result<ReserveWorkLog, Refusal> {
    Ok(ReserveWorkLog {
        id: aggregate_id(fields, "workLogId")?,
        title: one_line(fields, "title")?,
        minutes: fields.integer("minutes")?,
        tags: fields
            .texts("tags")?
            .into_iter()
            .enumerate()
            .map(|(index, tag)| checked_line(tag, || format!("{}/{index}", fields.at("tags"))))
            .collect::<Result<_, _>>()?,
    })
}

fn complete(fields: &mut Fields) -> Result<CompleteWorkLog, Refusal> {
    Ok(CompleteWorkLog {
        id: aggregate_id(fields, "workLogId")?,
        completion: Completion {
            minutes_spent: fields.integer("minutesSpent")?,
            status: named(
                fields,
                "status",
                CompletionStatus::parse,
                CompletionStatus::NAMES,
            )?,
            follow_up_needed: fields.flag("followUpNeeded")?,
        },
    })
}

fn publish(fields: &mut Fields) -> Result<PublishPoster, Refusal> {
    let id = aggregate_id(fields, "posterId")?;
    let title = one_line(fields, "title")?;
    let edition = fields.integer("edition")?;
    let audience = named(fields, "audience", Audience::parse, Audience::NAMES)?;
    let mut author = fields.object("author")?;
    let author_name = one_line(&mut author, "name")?;
    let author_team = one_line(&mut author, "team")?;
    author.close()?;
    Ok(PublishPoster {
        id,
        title,
        edition,
        audience,
        author_name,
        author_team,
        on_display_until: one_line(fields, "onDisplayUntil")?,
    })
}

fn aggregate_id(fields: &mut Fields, name: &str) -> Result<AggregateId, Refusal> {
    let text = fields.text(name)?;
    identity(fields, name, AggregateId::parse(text))
}

fn one_line(fields: &mut Fields, name: &str) -> Result<OneLine, Refusal> {
    let text = fields.text(name)?;
    checked_line(text, || fields.at(name))
}

fn checked_line(text: String, pointer: impl FnOnce() -> String) -> Result<OneLine, Refusal> {
    OneLine::parse(text).map_err(|error| Refusal::shape(pointer(), error.to_string()))
}

fn named<T>(
    fields: &mut Fields,
    name: &str,
    parse: fn(&str) -> Option<T>,
    names: &[&str],
) -> Result<T, Refusal> {
    let text = fields.text(name)?;
    parse(&text)
        .ok_or_else(|| Refusal::shape(fields.at(name), format!("one of {}", names.join(", "))))
}

/// Identity errors hold lengths and offsets only.
fn identity<T>(
    fields: &Fields,
    name: &str,
    parsed: Result<T, IdentityError>,
) -> Result<T, Refusal> {
    parsed.map_err(|error| Refusal::shape(fields.at(name), error.to_string()))
}

fn optional<T>(
    fields: &Fields,
    name: &str,
    parsed: Option<Result<T, IdentityError>>,
) -> Result<Option<T>, Refusal> {
    parsed
        .map(|parsed| identity(fields, name, parsed))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESERVE: &str = r#"{"kind":"reserve-work-log","workLogId":"작업-42","title":"표지 시안","minutes":90,"tags":["design"],"occurredAt":"2026-07-28T05:10:30.123Z","correlationId":"corr-1","eventId":"evt-1","causationId":"cause-1","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}"#;
    const PUBLISH: &str = r#"{"kind":"publish-poster","posterId":"poster-7","title":"Open day","edition":1,"audience":"public","author":{"name":"Zoë","team":"Atelier"},"onDisplayUntil":"2026-09-30","occurredAt":"2026-07-28T05:10:30Z","correlationId":"corr-1"}"#;

    fn refused(line: &str) -> (String, String) {
        let refusal = Command::parse(line.as_bytes()).expect_err(line);
        (refusal.pointer, refusal.rule.to_string())
    }

    #[test]
    fn every_field_arrives() {
        let command = Command::parse(RESERVE.as_bytes()).unwrap();
        assert_eq!(command.event_id, EventId::parse("evt-1").ok());
        assert_eq!(command.occurred_at.epoch_millis(), 1_785_215_430_123);
        assert_eq!(command.causation_id, CausationId::parse("cause-1").ok());
        assert!(command.trace.is_some());
        assert_eq!(command.action.aggregate().id().as_str(), "작업-42");
        let Action::ReserveWorkLog(reserve) = command.action else {
            panic!("another action");
        };
        assert_eq!((reserve.minutes, reserve.tags.len()), (90, 1));

        let command = Command::parse(PUBLISH.as_bytes()).unwrap();
        assert_eq!((command.event_id, command.trace), (None, None));
        let Action::PublishPoster(publish) = command.action else {
            panic!("another action");
        };
        assert_eq!(publish.author_name.as_str(), "Zoë");
        assert_eq!(publish.audience, Audience::Public);
    }

    #[test]
    fn each_refusal_names_place_and_rule() {
        let without = |line: &str, from: &str, to: &str| {
            assert!(line.contains(from), "{from}");
            line.replacen(from, to, 1)
        };
        for (line, pointer, rule) in [
            (without(RESERVE, "reserve-work-log", "sing"), "/kind", KINDS),
            (
                without(RESERVE, r#""kind""#, r#""kinds""#),
                "/kind",
                "required field is missing",
            ),
            (
                without(RESERVE, r#""minutes":90,"#, ""),
                "/minutes",
                "required field is missing",
            ),
            (
                without(RESERVE, "90", r#""90""#),
                "/minutes",
                "a whole number is required, not a text",
            ),
            (
                without(RESERVE, "90", "1.5"),
                "/minutes",
                "a whole number is required, not a number that is not whole or does not fit 64 bits",
            ),
            (
                without(RESERVE, r#"["design"]"#, r#""design""#),
                "/tags",
                "a list of texts is required, not a text",
            ),
            (
                without(RESERVE, r#""design""#, "null"),
                "/tags/0",
                "a text is required, not null",
            ),
            (
                without(RESERVE, "design", r"a\u0000b"),
                "/tags/0",
                "a control character at byte 1",
            ),
            (
                without(RESERVE, "표지", r"\n"),
                "/title",
                "a control character at byte 0",
            ),
            (
                without(RESERVE, "작업-42", " x"),
                "/workLogId",
                "aggregate id has a character outside visible characters (no control, format or white-space character) at byte 0",
            ),
            (
                without(RESERVE, ".123Z", "+09:00"),
                "/occurredAt",
                instant::RULE,
            ),
            (
                without(RESERVE, "corr-1", ""),
                "/correlationId",
                "correlation id is empty; at least 1 byte is required",
            ),
            (
                without(RESERVE, "evt-1", &"e".repeat(97)),
                "/eventId",
                "event id has 97 bytes; at most 96 are allowed",
            ),
            (
                without(RESERVE, r#""evt-1""#, "null"),
                "/eventId",
                "a text is required, not null",
            ),
            (
                without(RESERVE, "00-4b", "01-4b"),
                "/traceparent",
                "traceparent is not a version-00 W3C trace parent of 55 bytes",
            ),
            (
                without(RESERVE, "{", r#"{"extra":1,"#),
                "/extra",
                "unknown field",
            ),
            (
                without(RESERVE, "{", r#"{"title":"x","#),
                "/title",
                "the name is repeated",
            ),
            (
                without(PUBLISH, "Atelier\"", "Atelier\",\"role\":1"),
                "/author/role",
                "unknown field",
            ),
            (
                without(PUBLISH, r#"{"name":"Zoë","team":"Atelier"}"#, "[]"),
                "/author",
                "an object is required, not a list",
            ),
            (
                without(PUBLISH, "public", "everyone"),
                "/audience",
                "one of public, partners, team",
            ),
        ] {
            assert_eq!(refused(&line), (pointer.to_owned(), rule.to_owned()));
        }
    }

    #[test]
    fn the_contract_is_named_as_soon_as_it_is_known() {
        let refusal = Command::parse(
            PUBLISH
                .replace("\"edition\":1", "\"edition\":[]")
                .as_bytes(),
        )
        .unwrap_err();
        assert_eq!(refusal.contract, Some(Contract::PosterPublished.key()));
        assert_eq!(
            refusal.at_line(7).to_string(),
            "line 7: contract portfolio.poster.published version 1: at /edition: \
             a whole number is required, not a list"
        );
        assert_eq!(Command::parse(b"[]").unwrap_err().contract, None);
    }
}
