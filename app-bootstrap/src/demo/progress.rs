//! Progress for people: on a terminal only, on standard error.
//!
//! Invariant: nothing here reaches standard output.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write as _};

/// Draws progress where somebody can see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    visible: bool,
    messages: bool,
}

impl Progress {
    /// Quiet when the summary is for a program.
    pub(super) fn new(json: bool) -> Self {
        Self {
            visible: std::io::stderr().is_terminal(),
            messages: !json,
        }
    }

    /// A bar towards `length`, or a counter where the end is not known.
    pub(super) fn bar(&self, length: Option<u64>, title: &'static str) -> ProgressBar {
        let bar = match length {
            Some(length) => {
                ProgressBar::new(length).with_style(style("{msg:10} {wide_bar} {pos}/{len}"))
            }
            None => ProgressBar::no_length().with_style(style("{msg:10} {pos}")),
        };
        bar.set_message(title);
        if !self.visible {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        bar
    }

    /// One line for people.
    pub(super) fn say(&self, text: &str) {
        if self.messages {
            // A message that nobody can read any more is no reason to stop.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
