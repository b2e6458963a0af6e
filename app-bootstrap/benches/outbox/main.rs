//! What the outbox costs and how fast it drains, on real PostgreSQL and Kafka, beside a bare producer
//! and the database's own ceiling on the same services in the same run.
//!
//! Invariant: figures are measured here or not at all, each with the ratio to its yardstick. Run it
//! by `cargo xtask bench outbox`, which starts the services and says where they are.
#![forbid(unsafe_code)]

mod append;
mod ceiling;
mod drain;
mod fill;
mod producer;
mod report;
mod scene;

use report::Report;
use scene::{Card, Scene};

/// How much each part does.
struct Sizes {
    scopes: Vec<u32>,
    window_events: u32,
    per_record_events: u32,
    append_seconds: u64,
    retained: u32,
}

impl Sizes {
    fn of(quick: bool) -> Self {
        if quick {
            Self {
                scopes: vec![4_000],
                window_events: 6_000,
                per_record_events: 300,
                append_seconds: 1,
                retained: 0,
            }
        } else {
            Self {
                scopes: vec![100, 4_000, 100_000],
                window_events: 100_000,
                per_record_events: 2_000,
                append_seconds: 5,
                retained: 1_000_000,
            }
        }
    }
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let sizes = Sizes::of(quick);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let report = runtime.block_on(run(&sizes));
    print!("{}", report.table());
    report.write("outbox");
}

async fn run(sizes: &Sizes) -> Report {
    let mut report = Report::default();
    for writers in [1, 16, 64] {
        let scene = Scene::create(Card::Window, sizes.append_seconds).await;
        append::measure(&scene, writers, sizes.append_seconds, &mut report).await;
        scene.remove().await;
    }
    let producer = producer::rate(sizes.window_events.max(20_000)).await;
    report.value("bare_producer", producer, "records/s");
    for &scopes in &sizes.scopes {
        let ceiling = ceiling::rate(scopes, sizes.window_events).await;
        report.value(format!("sql_ceiling_{scopes}"), ceiling, "events/s");
        let alone = drain::rate(Card::PerRecord, scopes, sizes.per_record_events, 0).await;
        report.drained("per_record", scopes, &alone);
        let window = drain::rate(Card::Window, scopes, sizes.window_events, 0).await;
        report.drained("window", scopes, &window);
        let suffix = match scopes {
            4_000 => String::new(),
            other => format!("_{other}"),
        };
        for (name, yardstick, rate) in [
            ("window_vs_per_record", "per_record", alone.rate),
            ("window_vs_sql_ceiling", "sql_ceiling", ceiling),
            ("window_vs_bare_producer", "bare_producer", producer),
        ] {
            report.ratio(format!("{name}{suffix}"), window.rate, yardstick, rate);
        }
    }
    if sizes.retained > 0 {
        let held = drain::rate(Card::Window, 4_000, sizes.window_events, sizes.retained).await;
        report.drained("window_retained", 4_000, &held);
    }
    report
}
