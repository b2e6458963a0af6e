//! What the outbox costs and how fast it drains, on real PostgreSQL and Kafka, beside a bare producer,
//! the database's own ceiling and, when a Connect worker is named, Debezium with its outbox router, on
//! the same services in the same run.
//!
//! Invariant: figures are measured here or not at all, each ratio beside what it is a ratio to, and no
//! figure decides whether the run passes. Run it by `cargo xtask bench outbox`, which starts the
//! services and says where they are.
#![forbid(unsafe_code)]

mod append;
mod blocked;
mod ceiling;
mod debezium;
mod drain;
mod fill;
mod http;
mod latency;
mod place;
mod producer;
mod relay;
mod report;
mod retained;
mod statements;

use debezium::Worker;
use drain::{Bound, Drained};
use fill::Load;
use place::{Card, Database};
use report::Report;
use std::time::Duration;

/// How much each part does.
struct Sizes {
    scopes: Vec<u32>,
    /// Events of a backlog.
    events: u32,
    /// For how long the per-record card drains its share of a backlog.
    alone: Duration,
    /// For how long one kind of business transaction runs at a time.
    append: Duration,
    /// Single events whose latency is measured.
    single: u32,
    /// Recorded events that a scope keeps in the drains beside retained rows; 0 leaves those out.
    retained_per_scope: u32,
    /// Blocked scopes that a search has to pass; 0 leaves that out.
    blocked: u32,
    worker: Option<Worker>,
    /// Nothing but the window card's drain and its ceiling, so many times, at the first number of
    /// scopes.
    window_alone: u32,
}

impl Sizes {
    fn from_arguments() -> Self {
        let mut arguments = std::env::args().skip(1);
        let (mut quick, mut events, mut url, mut pid) = (false, None, None, None);
        let (mut scopes, mut window_alone) = (None, 0);
        while let Some(argument) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .unwrap_or_else(|| panic!("{argument} needs a value"))
            };
            match argument.as_str() {
                "--quick" => quick = true,
                "--events" => events = Some(value().parse().expect("--events is a number")),
                "--scopes" => scopes = Some(value().parse().expect("--scopes is a number")),
                "--window-alone" => {
                    window_alone = value().parse().expect("--window-alone is a number");
                }
                "--connect" => url = Some(value()),
                "--connect-pid" => pid = Some(value().parse().expect("a process id")),
                // What cargo adds.
                "--bench" => {}
                other => panic!("{other} is not known"),
            }
        }
        let worker = url.zip(pid).map(|(address, pid)| Worker { address, pid });
        let scopes = scopes.map(|scopes| vec![scopes]);
        if quick {
            Self {
                scopes: scopes.unwrap_or_else(|| vec![4_000]),
                events: events.unwrap_or(6_000),
                alone: Duration::from_secs(3),
                append: Duration::from_millis(500),
                single: 50,
                retained_per_scope: 0,
                blocked: 0,
                worker,
                window_alone,
            }
        } else {
            Self {
                scopes: scopes.unwrap_or_else(|| vec![100, 4_000, 100_000]),
                events: events.unwrap_or(100_000),
                alone: Duration::from_secs(10),
                append: Duration::from_secs(3),
                single: 400,
                retained_per_scope: 250,
                blocked: 100_000,
                worker,
                window_alone,
            }
        }
    }

    /// A backlog. With few scopes it is smaller, since each of them has one record under way.
    fn load(&self, scopes: u32) -> Load {
        Load {
            events: if scopes < 1_000 {
                self.events.min(scopes * 200)
            } else {
                self.events.max(scopes)
            },
            scopes,
            first_sequence: 1,
        }
    }
}

fn main() {
    let sizes = Sizes::from_arguments();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let report = runtime.block_on(run(&sizes));
    report.write(if sizes.window_alone > 0 {
        "outbox-window-alone"
    } else {
        "outbox"
    });
}

async fn run(sizes: &Sizes) -> Report {
    let mut report = Report::default();
    place::describe(&mut report).await;
    if sizes.window_alone > 0 {
        window_alone(sizes, &mut report).await;
        return report;
    }
    for writers in [1, 16, 64] {
        append::measure(writers, sizes.append, &mut report).await;
    }
    // The count that the ratios without a suffix are for comes first; the producer sends its records.
    let mut counts = sizes.scopes.clone();
    counts.sort_by_key(|scopes| *scopes != 4_000);
    let mut bare = 0.0;
    for scopes in counts {
        let load = sizes.load(scopes);
        let filled = Database::create(&format!("filled_{scopes}")).await;
        fill::fill(&filled, load).await;
        if bare == 0.0 {
            bare = producer::rate(&filled).await;
            report.value("bare_producer", bare, "records/s");
        }
        drains(sizes, load, &filled, bare, &mut report).await;
        filled.remove().await;
    }
    if sizes.retained_per_scope > 0 {
        beside_retained_rows(sizes, &mut report).await;
    }
    if sizes.blocked > 0 {
        behind_blocked_scopes(sizes.blocked, &mut report).await;
    }
    report
}

/// One number again and again, for whoever changes what it depends on.
async fn window_alone(sizes: &Sizes, report: &mut Report) {
    let load = sizes.load(sizes.scopes[0]);
    let filled = Database::create("alone").await;
    fill::fill(&filled, load).await;
    for _ in 0..sizes.window_alone {
        let ceiling = ceiling::rate(&filled).await;
        let window = drain::measure(Card::Window, &filled, Bound::Events(load.events)).await;
        report.drained(&format!("window_{}", load.scopes), &window);
        report.ratio(
            report::suffixed("window_vs_sql_ceiling", load.scopes),
            window.rate,
            "events/s",
            "sql_ceiling",
            ceiling,
        );
    }
    filled.remove().await;
}

/// Everything that is measured over one number of scopes.
async fn drains(sizes: &Sizes, load: Load, filled: &Database, bare: f64, report: &mut Report) {
    let scopes = load.scopes;
    let ceiling = ceiling::rate(filled).await;
    report.value(format!("sql_ceiling_{scopes}"), ceiling, "events/s");
    let alone = drain::measure(Card::PerRecord, filled, Bound::Time(sizes.alone)).await;
    report.drained(&format!("per_record_{scopes}"), &alone);
    let window = drain::measure(Card::Window, filled, Bound::Events(load.events)).await;
    report.drained(&format!("window_{scopes}"), &window);
    for (card, name) in [(Card::PerRecord, "per_record"), (Card::Window, "window")] {
        let took = latency::measure(card, scopes, sizes.single).await;
        report.latency(&format!("{name}_{scopes}"), &took);
    }
    let mut yardsticks = vec![
        ("per_record", alone.rate),
        ("sql_ceiling", ceiling),
        ("bare_producer", bare),
    ];
    if scopes == 4_000 {
        for (card, name) in [(Card::PerRecord, "per_record"), (Card::Window, "window")] {
            statements::measure(card, name, filled, load, report).await;
        }
        let wide = drain::measure(Card::PerRecordWide, filled, Bound::Time(sizes.alone)).await;
        report.drained(&format!("per_record_64_workers_{scopes}"), &wide);
    }
    // Debezium reads the log, so the number of scopes is no matter to it; it is asked where the
    // requirement asks for it.
    if let (Some(worker), true) = (&sizes.worker, scopes >= 4_000) {
        let peer = debezium::measure(worker, load).await;
        report.value(format!("debezium_{scopes}"), peer.rate, "events/s");
        report.value(
            format!("debezium_{scopes}_memory"),
            peer.resident_mib,
            "MiB",
        );
        report.ratio(
            report::suffixed("window_memory_vs_debezium", scopes),
            window.resident_mib,
            "MiB",
            "debezium",
            peer.resident_mib,
        );
        yardsticks.push(("debezium", peer.rate));
    }
    for (name, rate) in yardsticks {
        report.ratio(
            report::suffixed(&format!("window_vs_{name}"), scopes),
            window.rate,
            "events/s",
            name,
            rate,
        );
    }
}

/// How long an event of a free scope takes while so many others are blocked.
async fn behind_blocked_scopes(scopes: u32, report: &mut Report) {
    let store = blocked::store(scopes).await;
    for (card, name) in [(Card::PerRecord, "per_record"), (Card::Window, "window")] {
        let took = blocked::measure(card, &store, 40).await;
        report.latency(&format!("{name}_behind_{scopes}_blocked"), &took);
    }
    store.remove().await;
}

/// Both cards at 4,000 scopes with recorded events before each scope's open ones, then with a
/// transaction that holds the horizon of vacuum back, and with both.
async fn beside_retained_rows(sizes: &Sizes, report: &mut Report) {
    let load = Load {
        first_sequence: i64::from(sizes.retained_per_scope) + 1,
        ..sizes.load(4_000)
    };
    let plain = Database::create("plain").await;
    fill::fill(&plain, sizes.load(4_000)).await;
    let retained = Database::create("retained").await;
    fill::fill(&retained, load).await;
    retained::insert(&retained, sizes.retained_per_scope).await;
    for (filled, held, name) in [
        (&retained, false, "retained"),
        (&plain, true, "held_horizon"),
        (&retained, true, "retained_held_horizon"),
    ] {
        for (card, bound, named) in [
            (Card::PerRecord, Bound::Time(sizes.alone), "per_record"),
            (Card::Window, Bound::Events(load.events), "window"),
        ] {
            let drained: Drained = if held {
                drain::measure_held(card, filled, bound).await
            } else {
                drain::measure(card, filled, bound).await
            };
            report.drained(&format!("{named}_{name}_4000"), &drained);
        }
    }
    retained.remove().await;
    plain.remove().await;
}
