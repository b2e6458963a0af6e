//! What must hold on every database.

use crate::codec::{TestCodec, envelope};
use crate::harness::{CountedIds, Harness, Inbox, Outbox};
use application_core::ports::{
    EnvelopeCodec, InboxStorePort, OutboxAppendPort, RejectionRule, TransactionError,
    TransactionPort,
};
use application_core::usecase::{
    ConsumeEvent, ConsumeOutcome, IntegrationEventAppender, RefusedRecord, TransportHeaders,
};
use domain_core::identity::{AggregateId, AggregateIdentity, AggregateSequence, AggregateType};
use portfolio::SAMPLE_INPUT;
use portfolio::consume::{ReadModelHandler, read_model_consumer};
use portfolio::contracts::{CompletionStatus, Contract};
use portfolio::execute::{ExecuteCommand, ExecuteError, Executed};
use portfolio::input::{Command, CommandReader, InputLine, RefusedLine};
use portfolio::model::{Completion, OneLine, Poster, WorkLog, WorkLogState};
use portfolio::store::{
    Observation, PortfolioDatabase, PortfolioRepository, ReadModelCounts, ReadModelStore,
    StoreError,
};
use std::sync::Arc;

const WITH_REFUSALS: &str = include_str!("../../data/portfolio-with-refusals.ndjson");

type Execute<H> = ExecuteCommand<<H as Harness>::Portfolio, Outbox>;

fn execute_command<H: Harness>() -> Execute<H> {
    let codec: Arc<dyn EnvelopeCodec> = Arc::new(TestCodec::new());
    ExecuteCommand::new(
        Arc::new(H::Portfolio::default()),
        IntegrationEventAppender::new(codec, Arc::new(Outbox)),
        Arc::new(CountedIds::default()),
    )
}

/// Feeds an input in; a line whose fault is the store's or the deployment's fails the test.
async fn feed<H: Harness>(harness: &H, input: &str) -> (Vec<Executed>, Vec<RefusedLine>)
where
    Outbox: OutboxAppendPort<H::Tx>,
{
    let execute = execute_command::<H>();
    let transactions = harness.transactions();
    let (mut executed, mut refused) = (Vec::new(), Vec::new());
    for line in CommandReader::new(input.as_bytes()) {
        match line.expect("readable") {
            InputLine::Refused(line) => refused.push(line),
            InputLine::Command { line, command, .. } => {
                match execute.execute(transactions.as_ref(), *command).await {
                    Ok(one) => executed.push(one),
                    Err(TransactionError::Work(error)) => {
                        let refusal = error.refusal().expect("the line is at fault");
                        refused.push(refusal.at_line(line));
                    }
                    Err(error) => panic!("line {line}: {error:?}"),
                }
            }
        }
    }
    (executed, refused)
}

type Consumer<H> =
    ConsumeEvent<<H as Harness>::Transactions, Inbox, ReadModelHandler<<H as Harness>::Portfolio>>;

fn consumer<H: Harness>(harness: &H) -> Consumer<H>
where
    Inbox: InboxStorePort<H::Tx>,
{
    ConsumeEvent::new(
        harness.transactions(),
        Arc::new(Inbox),
        Arc::new(ReadModelHandler::new(Arc::new(H::Portfolio::default()))),
        Arc::new(TestCodec::new()),
        read_model_consumer(),
    )
}

async fn counts<H: Harness>(harness: &H) -> ReadModelCounts {
    let mut connection = harness.connection().await;
    let counts = H::Portfolio::default()
        .read_model_counts(&mut connection)
        .await;
    counts.expect("counts")
}

/// Kind/id, title, status, events, last sequence.
async fn read_model<H: Harness>(harness: &H) -> Vec<(String, Option<String>, String, u64, i64)> {
    let mut connection = harness.connection().await;
    let entries = H::Portfolio::default()
        .read_model_after(&mut connection, None, 100)
        .await
        .expect("entries");
    entries
        .into_iter()
        .map(|entry| {
            let kind = entry.aggregate.aggregate_type().as_str();
            (
                format!("{kind}/{}", entry.aggregate.id()),
                entry.title,
                entry.status,
                entry.event_count,
                entry.last_sequence.value(),
            )
        })
        .collect()
}

pub(crate) async fn the_shipped_input_becomes_a_read_model_once<H: Harness>(harness: &H)
where
    Outbox: OutboxAppendPort<H::Tx>,
    Inbox: InboxStorePort<H::Tx>,
{
    let (executed, refused) = feed(harness, SAMPLE_INPUT).await;
    assert_eq!(refused, []);
    assert_eq!(executed.len(), 12);
    assert_eq!(executed[11].event_id.as_str(), "portfolio-0012");
    assert_eq!(executed[11].order.sequence().value(), 3);

    let envelopes = harness.envelopes().await;
    assert_eq!(envelopes.len(), 12);
    let consumer = consumer(harness);
    for envelope in &envelopes {
        let outcome = consumer
            .execute(envelope, TransportHeaders::default())
            .await
            .expect("consumed");
        assert!(matches!(outcome, ConsumeOutcome::Applied), "{outcome:?}");
    }
    let expected = ReadModelCounts {
        aggregates: 5,
        events: 12,
        work_logs: 3,
        posters: 2,
    };
    assert_eq!(counts(harness).await, expected);

    // Sent again, in another order, nothing changes.
    for envelope in envelopes.iter().rev() {
        let outcome = consumer
            .execute(envelope, TransportHeaders::default())
            .await
            .expect("consumed");
        assert!(matches!(outcome, ConsumeOutcome::Duplicate), "{outcome:?}");
    }
    assert_eq!(counts(harness).await, expected);
    let entry = |key: &str, title: &str, status: &str, events, last| {
        (
            key.to_owned(),
            Some(title.to_owned()),
            status.to_owned(),
            events,
            last,
        )
    };
    assert_eq!(
        read_model(harness).await,
        [
            entry(
                "poster/poster-offene-werkstatt",
                "Offene Werkstatt – jetzt auch sonntags",
                "published",
                2,
                2
            ),
            entry(
                "poster/포스터-광화문",
                "가을 책 축제 – 마지막 주말",
                "published",
                3,
                3
            ),
            entry(
                "worklog/worklog-42",
                "Lay out the autumn programme, all 12 pages",
                "partly-finished",
                3,
                3
            ),
            entry(
                "worklog/worklog-43",
                "Satellite photographs for the back cover 🛰",
                "abandoned",
                2,
                2
            ),
            entry("worklog/작업-7", "축제 안내판 교정", "finished", 2, 2),
        ]
    );
}

pub(crate) async fn every_refused_line_is_told_and_the_run_goes_on<H: Harness>(harness: &H)
where
    Outbox: OutboxAppendPort<H::Tx>,
{
    let (executed, refused) = feed(harness, WITH_REFUSALS).await;
    let told: Vec<String> = refused.iter().map(ToString::to_string).collect();
    let (reserved, completed, published) = (
        "contract portfolio.worklog.reserved version 1",
        "contract portfolio.worklog.completed version 1",
        "contract portfolio.poster.published version 1",
    );
    assert_eq!(
        told,
        [
            format!("line 2: {reserved}: at /title: maxLength is 80"),
            format!("line 3: {published}: at the root: maximum payload bytes is 360"),
            format!("line 4: {completed}: at /status: one of finished, partly-finished, abandoned"),
            "line 5: at the root: not JSON: the line ends too early".to_owned(),
            "line 6: at /title: the name is repeated".to_owned(),
            format!("line 7: {reserved}: at /minutes: required field is missing"),
            format!("line 8: {reserved}: at /minutes: a whole number is required, not a text"),
            format!("line 9: {reserved}: at /minutes: maximum is 1440"),
            "line 10: at /kind: one of reserve-work-log, complete-work-log, publish-poster"
                .to_owned(),
            format!("line 11: {reserved}: at /colour: unknown field"),
            format!("line 12: {completed}: at /workLogId: the work log was never reserved"),
            format!("line 13: {published}: at /onDisplayUntil: format is date"),
            format!("line 14: {reserved}: at /tags/1: pattern is ^[a-z][a-z0-9-]*$"),
            format!(
                "line 15: {reserved}: at /eventId: event refusals-0001 is already in the outbox"
            ),
            format!(
                "line 19: {published}: at /edition: \
                 the edition is not later than the one published before"
            ),
        ]
    );
    let ids: Vec<_> = executed.iter().map(|one| one.event_id.as_str()).collect();
    assert_eq!(ids, ["refusals-0001", "refusals-0016", "refusals-0017"]);

    // Nothing of a refused line is stored.
    for (statement, expected) in [
        ("SELECT COUNT(*) FROM test_outbox", 3),
        ("SELECT COUNT(*) FROM portfolio_work_log", 1),
        ("SELECT COUNT(*) FROM portfolio_poster", 1),
        ("SELECT version FROM portfolio_work_log", 2),
        ("SELECT version FROM portfolio_poster", 1),
    ] {
        assert_eq!(harness.number(statement).await, expected, "{statement}");
    }
}

/// A command that the business refuses.
const NEVER_RESERVED: &str = r#"{"kind":"complete-work-log","workLogId":"w","minutesSpent":1,"status":"finished","followUpNeeded":false,"occurredAt":"2026-07-29T08:00:00Z","correlationId":"c"}"#;

/// A poster's command; `edition` and `title` as given.
fn publish(edition: i64, title: &str) -> Command {
    let line = format!(
        r#"{{"kind":"publish-poster","posterId":"p","title":"{title}","edition":{edition},"audience":"public","author":{{"name":"n","team":"t"}},"onDisplayUntil":"2026-12-01","occurredAt":"2026-07-29T08:00:00Z","correlationId":"c"}}"#
    );
    Command::parse(line.as_bytes()).expect("a command")
}

pub(crate) async fn a_refused_payload_rolls_the_business_row_back<H: Harness>(harness: &H)
where
    Outbox: OutboxAppendPort<H::Tx>,
{
    let execute = execute_command::<H>();
    let transactions = harness.transactions();
    let first = execute
        .execute(transactions.as_ref(), publish(1, "One"))
        .await;
    first.expect("executed");
    // The update has run by the time the encoder refuses; only the rollback takes it back.
    let refused = execute
        .execute(transactions.as_ref(), publish(2, &"x".repeat(81)))
        .await;
    let Err(TransactionError::Work(error)) = refused else {
        panic!("not refused: {refused:?}");
    };
    assert!(matches!(error, ExecuteError::Append { .. }));
    let refusal = error.refusal().expect("the command is at fault");
    assert_eq!(refusal.contract, Some(Contract::PosterPublished.key()));
    assert_eq!(refusal.pointer, "/title");
    let bound = RejectionRule::Bound {
        rule: "maxLength".to_owned(),
        bound: "80".to_owned(),
    };
    assert_eq!(refusal.rule, bound);
    assert_eq!(
        harness.number("SELECT edition FROM portfolio_poster").await,
        1
    );
    assert_eq!(
        harness.number("SELECT version FROM portfolio_poster").await,
        1
    );
    assert_eq!(harness.number("SELECT COUNT(*) FROM test_outbox").await, 1);
}

pub(crate) async fn a_swallowed_refusal_cannot_commit<H: Harness>(harness: &H)
where
    Outbox: OutboxAppendPort<H::Tx>,
{
    let never_reserved = Command::parse(NEVER_RESERVED.as_bytes()).expect("a command");
    for command in [
        publish(1, &"x".repeat(81)),
        publish(1, &"🛰".repeat(80)),
        never_reserved,
    ] {
        let execute = execute_command::<H>();
        let result = harness
            .transactions()
            .in_write(move |tx| {
                Box::pin(async move {
                    let refused = execute.execute_in(tx, &command).await;
                    assert!(refused.is_err());
                    Ok::<(), std::io::Error>(())
                })
            })
            .await;
        assert!(matches!(result, Err(TransactionError::RollbackOnly)));
        let posters = harness
            .number("SELECT COUNT(*) FROM portfolio_poster")
            .await;
        assert_eq!(posters, 0);
    }
}

pub(crate) async fn ids_come_from_the_source_when_the_input_gives_none<H: Harness>(harness: &H)
where
    Outbox: OutboxAppendPort<H::Tx>,
{
    let execute = execute_command::<H>();
    let transactions = harness.transactions();
    for edition in 1..=2 {
        let executed = execute
            .execute(transactions.as_ref(), publish(edition, "One"))
            .await
            .expect("executed");
        assert_eq!(executed.event_id.as_str(), format!("made-{edition}"));
        assert_eq!(executed.order.sequence().value(), edition);
        assert_eq!(executed.order.index().value(), 0);
        assert_eq!(executed.contract, Contract::PosterPublished);
    }
}

fn line(text: &str) -> OneLine {
    OneLine::parse(text).expect("one line")
}

fn work_log(version: i64, state: WorkLogState) -> WorkLog {
    WorkLog {
        id: AggregateId::parse("작업-1").expect("an id"),
        version: AggregateSequence::new(version).expect("a version"),
        title: line("교정 \"2\" \\ 🛰"),
        minutes: 30,
        tags: vec![line("a"), line("따옴표\"")],
        state,
    }
}

fn poster(version: i64) -> Poster {
    Poster {
        id: AggregateId::parse("포스터-1").expect("an id"),
        version: AggregateSequence::new(version).expect("a version"),
        title: line("Grüße"),
        edition: 7 + version,
        audience: portfolio::contracts::Audience::Team,
        author_name: line("Zoë"),
        author_team: line("Süd"),
        on_display_until: line("2026-12-01"),
    }
}

fn completed() -> WorkLogState {
    WorkLogState::Completed(Completion {
        minutes_spent: 31,
        status: CompletionStatus::Abandoned,
        follow_up_needed: true,
    })
}

async fn in_write<H: Harness, T: Send + 'static>(
    harness: &H,
    work: impl for<'t> FnOnce(&'t mut H::Tx) -> application_core::ports::TxFuture<'t, T, StoreError>
    + Send
    + 'static,
) -> Result<T, StoreError> {
    match harness.transactions().in_write(work).await {
        Ok(done) => Ok(done),
        Err(TransactionError::Work(error)) => Err(error),
        Err(error) => panic!("{error:?}"),
    }
}

async fn save_work_log<H: Harness>(harness: &H, log: WorkLog) -> Result<(), StoreError> {
    in_write(harness, move |tx| {
        Box::pin(async move { H::Portfolio::default().save_work_log(tx, &log).await })
    })
    .await
}

async fn save_poster<H: Harness>(harness: &H, poster: Poster) -> Result<(), StoreError> {
    in_write(harness, move |tx| {
        Box::pin(async move { H::Portfolio::default().save_poster(tx, &poster).await })
    })
    .await
}

async fn find_work_log<H: Harness>(harness: &H) -> Result<Option<WorkLog>, StoreError> {
    let id = work_log(1, WorkLogState::Reserved).id;
    in_write(harness, move |tx| {
        Box::pin(async move { H::Portfolio::default().find_work_log(tx, &id).await })
    })
    .await
}

async fn find_poster<H: Harness>(harness: &H) -> Result<Option<Poster>, StoreError> {
    let id = poster(1).id;
    in_write(harness, move |tx| {
        Box::pin(async move { H::Portfolio::default().find_poster(tx, &id).await })
    })
    .await
}

pub(crate) async fn only_the_next_version_is_saved<H: Harness>(harness: &H) {
    let open = WorkLogState::Reserved;
    for (version, saved) in [
        (2, false),
        (1, true),
        (1, false),
        (3, false),
        (2, true),
        (2, false),
    ] {
        let result = save_work_log(harness, work_log(version, open)).await;
        assert_eq!(result.is_ok(), saved, "version {version}: {result:?}");
        assert!(saved || matches!(result, Err(StoreError::Stale)));
        let result = save_poster(harness, poster(version)).await;
        assert_eq!(result.is_ok(), saved, "version {version}: {result:?}");
        assert!(saved || matches!(result, Err(StoreError::Stale)));
    }
    let stored = find_work_log(harness).await.expect("found").expect("there");
    assert_eq!(stored.version.value(), 2);
}

pub(crate) async fn what_is_saved_is_loaded_again<H: Harness>(harness: &H) {
    assert_eq!(find_work_log(harness).await.expect("read"), None);
    assert_eq!(find_poster(harness).await.expect("read"), None);
    for (version, state) in [(1, WorkLogState::Reserved), (2, completed())] {
        let log = work_log(version, state);
        save_work_log(harness, log.clone()).await.expect("saved");
        assert_eq!(find_work_log(harness).await.expect("read"), Some(log));
        let poster = poster(version);
        save_poster(harness, poster.clone()).await.expect("saved");
        assert_eq!(find_poster(harness).await.expect("read"), Some(poster));
    }
}

pub(crate) async fn a_row_that_breaks_its_rule_is_told_apart<H: Harness>(harness: &H) {
    save_work_log(harness, work_log(1, WorkLogState::Reserved))
        .await
        .expect("saved");
    harness
        .run("UPDATE portfolio_work_log SET tags = 'secret'")
        .await;
    let Err(StoreError::Corrupt { what }) = find_work_log(harness).await else {
        panic!("the row was read");
    };
    assert_eq!(what, "column tags breaks its rule");
    harness.run("DROP TABLE portfolio_work_log").await;
    let gone = find_work_log(harness).await;
    assert!(matches!(gone, Err(StoreError::Failed(_))), "{gone:?}");
}

fn observation(sequence: i64, title: Option<&str>, status: &'static str) -> Observation {
    Observation {
        aggregate: AggregateIdentity::new(
            AggregateType::parse("worklog").expect("a type"),
            AggregateId::parse("w").expect("an id"),
        ),
        sequence: AggregateSequence::new(sequence).expect("a sequence"),
        title: title.map(str::to_owned),
        status,
    }
}

async fn observe<H: Harness>(harness: &H, observation: Observation) {
    in_write(harness, move |tx| {
        Box::pin(async move { H::Portfolio::default().observe(tx, &observation).await })
    })
    .await
    .expect("observed");
}

pub(crate) async fn the_read_model_does_not_depend_on_the_order_of_arrival<H: Harness>(
    harness: &H,
) {
    let events = [
        observation(1, Some("first"), "reserved"),
        observation(2, Some("second"), "reserved"),
        observation(3, None, "finished"),
    ];
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        harness.run("DELETE FROM portfolio_read_model").await;
        for index in order {
            observe(harness, events[index].clone()).await;
        }
        let expected = (
            "worklog/w".to_owned(),
            Some("second".to_owned()),
            "finished".to_owned(),
            3,
            3,
        );
        assert_eq!(read_model(harness).await, [expected], "{order:?}");
    }
    harness.run("DELETE FROM portfolio_read_model").await;
    observe(harness, events[2].clone()).await;
    assert_eq!(read_model(harness).await[0].1, None);
}

pub(crate) async fn the_read_model_is_listed_in_pages<H: Harness>(harness: &H) {
    // By code point: upper case before lower, and both before Hangul, in either database.
    let ids = ["B", "a", "ä", "가"];
    for (index, id) in ids.iter().enumerate() {
        let mut one = observation(1, None, "reserved");
        let kind = if index % 2 == 0 { "poster" } else { "worklog" };
        one.aggregate = AggregateIdentity::new(
            AggregateType::parse(kind).expect("a type"),
            AggregateId::parse(*id).expect("an id"),
        );
        observe(harness, one).await;
    }
    let mut connection = harness.connection().await;
    let portfolio = H::Portfolio::default();
    let mut listed = Vec::new();
    let mut after = None;
    loop {
        let page = portfolio
            .read_model_after(&mut connection, after.as_ref(), 1)
            .await
            .expect("a page");
        let Some(entry) = page.into_iter().next() else {
            break;
        };
        listed.push(format!(
            "{}/{}",
            entry.aggregate.aggregate_type(),
            entry.aggregate.id()
        ));
        after = Some(entry.aggregate);
    }
    assert_eq!(listed, ["poster/B", "poster/ä", "worklog/a", "worklog/가"]);
    let counts = counts(harness).await;
    assert_eq!((counts.work_logs, counts.posters, counts.events), (2, 2, 4));
}

pub(crate) async fn an_event_about_another_aggregate_is_never_applied<H: Harness>(harness: &H)
where
    Outbox: OutboxAppendPort<H::Tx>,
    Inbox: InboxStorePort<H::Tx>,
{
    feed(harness, SAMPLE_INPUT.lines().next().expect("a line")).await;
    let envelopes = harness.envelopes().await;
    let mut decoded = TestCodec::new().decode(&envelopes[0]).expect("decoded");
    decoded.identities.aggregate = observation(1, None, "reserved").aggregate;
    let about_another = envelope(&decoded.identities, &decoded.payload);
    let broken = envelope(&decoded.identities, br#"{"workLogId":"secret"}"#);
    let consumer = consumer(harness);
    for document in [about_another, broken] {
        let outcome = consumer
            .execute(&document, TransportHeaders::default())
            .await
            .expect("an outcome");
        let ConsumeOutcome::Refused(RefusedRecord::Unacceptable { reason, .. }) = outcome else {
            panic!("applied: {outcome:?}");
        };
        assert!(!reason.contains("secret"));
    }
    assert_eq!(harness.number("SELECT COUNT(*) FROM test_inbox").await, 0);
    assert_eq!(counts(harness).await, ReadModelCounts::default());
}
