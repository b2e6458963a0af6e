//! The figures of a run, as a table and as JSON.
//!
//! Invariant: a ratio names what it is a ratio to.

use crate::drain::Drained;
use std::fmt::Write as _;
use std::path::Path;

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
        self.0.push(Figure {
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
        yardstick: &'static str,
        of: f64,
    ) {
        self.0.push(Figure {
            name: name.into(),
            value,
            unit: "events/s",
            ratio: Some((yardstick, value / of)),
        });
    }

    pub(crate) fn drained(&mut self, card: &str, scopes: u32, drained: &Drained) {
        self.value(format!("{card}_{scopes}"), drained.rate, "events/s");
        let per_event = |count: f64| count / f64::from(drained.events);
        let named = |what: &str| format!("{card}_{scopes}_{what}");
        self.value(
            named("wal_syncs_per_event"),
            per_event(drained.wal_syncs),
            "",
        );
        self.value(
            named("transactions_per_event"),
            per_event(drained.transactions),
            "",
        );
        self.value(named("memory"), drained.resident_mib, "MiB");
        for (what, value) in [
            ("latency_p50", drained.p50_ms),
            ("latency_p99", drained.p99_ms),
        ] {
            self.value(named(what), value, "ms");
        }
    }

    pub(crate) fn table(&self) -> String {
        let mut table = String::new();
        for figure in &self.0 {
            let ratio = figure
                .ratio
                .map(|(to, ratio)| format!("  {ratio:.2} x {to}"))
                .unwrap_or_default();
            writeln!(
                table,
                "{:<44} {:>12.3} {}{ratio}",
                figure.name, figure.value, figure.unit
            )
            .expect("a text takes it");
        }
        table
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
