//! Input: newline-delimited JSON, one command a line.
//!
//! Invariant: every line becomes a command or a refusal, never nothing; the reader goes on after a
//! refusal and holds one bounded line at a time.

mod command;
mod document;
mod instant;
mod reader;
mod refusal;

pub use command::{Action, Command};
pub use reader::{CommandReader, InputLine, MAXIMUM_LINE_BYTES, ReadError};
pub use refusal::{Refusal, RefusedLine};
