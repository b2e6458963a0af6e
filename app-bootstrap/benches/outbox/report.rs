//! The figures of a run, as lines and as JSON.
//!
//! Invariant: a ratio names what it is a ratio to.

use crate::drain::Drained;
use crate::latency::Took;
use std::path::Path;

/// A name for any number of scopes but the 4,000 that names without a suffix are for.
pub(crate) fn suffixed(name: &str, scopes: u32) -> String {
    match scopes {
        4_000 => name.to_owned(),
        other => format!("{name}_{other}"),
    }
}

struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    ratio: Option<(&'static str, f64)>,
}

/// What was measured, in order.
#[derive(Default)]
pub(crate) struct Report(Vec<Figure>);

impl Report {
    pub(crate) fn value(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.keep(Figure {
            name: name.into(),
            value,
            unit,
            ratio: None,
        });
    }

    pub(crate) fn ratio(
        &mut self,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        yardstick: &'static str,
        of: f64,
    ) {
        self.keep(Figure {
            name: name.into(),
            value,
            unit,
            ratio: Some((yardstick, value / of)),
        });
    }

    pub(crate) fn drained(&mut self, name: &str, drained: &Drained) {
        self.value(name, drained.rate, "events/s");
        self.value(format!("{name}_memory"), drained.resident_mib, "MiB");
        for (what, count, unit) in [
            ("wal_syncs", drained.wal_syncs, "an event"),
            ("wal_bytes", drained.wal_bytes, "bytes an event"),
            ("transactions", drained.transactions, "an event"),
        ] {
            self.value(format!("{name}_{what}"), count / drained.events, unit);
        }
    }

    pub(crate) fn latency(&mut self, name: &str, took: &Took) {
        self.value(format!("{name}_latency_p50"), took.p50, "ms");
        self.value(format!("{name}_latency_p99"), took.p99, "ms");
        self.value(format!("{name}_latency_longest"), took.longest, "ms");
    }

    /// Keeps a figure and shows it, so that a run that fails later has said what it measured.
    fn keep(&mut self, figure: Figure) {
        let ratio = figure
            .ratio
            .map(|(to, ratio)| format!("  {ratio:.2} x {to}"))
            .unwrap_or_default();
        println!(
            "{:<44} {:>12.3} {}{ratio}",
            figure.name, figure.value, figure.unit
        );
        self.0.push(figure);
    }

    /// Writes `target/bench/NAME.json`.
    pub(crate) fn write(&self, name: &str) {
        let figures: Vec<_> = self
            .0
            .iter()
            .map(|figure| {
                serde_json::json!({
                    "name": figure.name,
                    "value": figure.value,
                    "unit": figure.unit,
                    "ratioTo": figure.ratio.map(|(to, _)| to),
                    "ratio": figure.ratio.map(|(_, ratio)| ratio),
                })
            })
            .collect();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench");
        std::fs::create_dir_all(&folder).expect("a folder for the figures");
        let text = serde_json::to_string_pretty(&serde_json::json!({ "figures": figures }));
        std::fs::write(
            folder.join(format!("{name}.json")),
            text.expect("figures are JSON"),
        )
        .expect("the figures are written");
    }
}
