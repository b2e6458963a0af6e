//! Bugs planted in the shipped statements, and what notices them.
//!
//! Invariant: a planted statement is the shipped text with one place changed, in the interleaving
//! that the shipped one survives; what the shipped text keeps, the changed one breaks. A freeze
//! without FOR UPDATE is planted in `freeze.rs`, an append through an unreferenced CTE in
//! `epoch_races.rs`.

mod clock;
mod ordering;
mod races;
mod scan;
mod statements;
mod version;

/// The shipped statement with one text changed, which stands in it exactly once.
fn planted(shipped: &str, text: &str, with: &str) -> String {
    assert_eq!(
        shipped.matches(text).count(),
        1,
        "what is planted is not once in the statement: {text}"
    );
    shipped.replacen(text, with, 1)
}
