//! The lines of an input, one at a time.
//!
//! Invariant: at most one bounded line is held; a line that is too long is skipped, not collected,
//! and costs nothing but itself.

use super::{Command, Refusal, RefusedLine};
use application_core::ports::RejectionRule;
use domain_core::hashing::Sha256Digest;
use std::io::BufRead;

/// Bytes a line may have, without its end.
pub const MAXIMUM_LINE_BYTES: usize = 16 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One line that is not blank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputLine {
    /// A command; what becomes of it is for the contract and the business to say.
    Command {
        /// Line number, from 1.
        line: u64,
        /// The command.
        command: Box<Command>,
        /// Hash of the line's own bytes: the same line again has the same one.
        sha256: Sha256Digest,
    },
    /// Not a command.
    Refused(RefusedLine),
}

/// The input cannot be read on. Lines before this one are not affected.
#[derive(Debug, thiserror::Error)]
#[error("the input cannot be read at line {line}")]
pub struct ReadError {
    /// The line that was being read.
    pub line: u64,
    /// Why.
    #[source]
    pub source: std::io::Error,
}

/// Reads newline-delimited JSON. Lines may end in CR LF, blank lines are passed over, a byte order
/// mark before the first line is too, and the last line needs no end. After a [`ReadError`] the
/// iterator is at its end.
pub struct CommandReader<R> {
    input: R,
    line: u64,
    buffer: Vec<u8>,
    ended: bool,
}

impl<R: BufRead> CommandReader<R> {
    /// Reads from the input's current place.
    pub fn new(input: R) -> Self {
        Self {
            input,
            line: 0,
            buffer: Vec::new(),
            ended: false,
        }
    }

    /// Reads one line into the buffer.
    fn advance(&mut self) -> std::io::Result<Advance> {
        self.buffer.clear();
        let mut length = 0_usize;
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                if length == 0 {
                    return Ok(Advance::End);
                }
                break;
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            // Room for the byte order mark and the CR, which do not count.
            let room =
                (MAXIMUM_LINE_BYTES + BYTE_ORDER_MARK.len() + 1).saturating_sub(self.buffer.len());
            self.buffer.extend_from_slice(&part[..part.len().min(room)]);
            let used = part.len() + usize::from(end.is_some());
            length = length.saturating_add(used);
            self.input.consume(used);
            if end.is_some() {
                length -= 1;
                break;
            }
        }
        Ok(Advance::Line { length })
    }

    /// The line's own bytes, or `None` when it is too long.
    fn content(&self, length: usize) -> Option<&[u8]> {
        if length > self.buffer.len() {
            return None;
        }
        let mut content = self.buffer.as_slice();
        if self.line == 1 {
            content = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
        }
        content = content.strip_suffix(b"\r").unwrap_or(content);
        (content.len() <= MAXIMUM_LINE_BYTES).then_some(content)
    }
}

enum Advance {
    /// A line of this many bytes; the buffer holds them or as many as there is room for.
    Line { length: usize },
    /// Nothing left.
    End,
}

impl<R: BufRead> Iterator for CommandReader<R> {
    type Item = Result<InputLine, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            self.line += 1;
            let line = self.line;
            let length = match self.advance() {
                Ok(Advance::Line { length }) => length,
                Ok(Advance::End) => {
                    self.ended = true;
                    break;
                }
                Err(source) => {
                    self.ended = true;
                    return Some(Err(ReadError { line, source }));
                }
            };
            let Some(content) = self.content(length) else {
                return Some(Ok(InputLine::Refused(too_long().at_line(line))));
            };
            if content.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            return Some(Ok(match Command::parse(content) {
                Ok(command) => InputLine::Command {
                    line,
                    command: Box::new(command),
                    sha256: Sha256Digest::of(content),
                },
                Err(refusal) => InputLine::Refused(refusal.at_line(line)),
            }));
        }
        None
    }
}

fn too_long() -> Refusal {
    Refusal {
        contract: None,
        pointer: String::new(),
        rule: RejectionRule::Bound {
            rule: "maximum line bytes".to_owned(),
            bound: MAXIMUM_LINE_BYTES.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Read};

    const COMMAND: &str = r#"{"kind":"complete-work-log","workLogId":"w-1","minutesSpent":5,"status":"finished","followUpNeeded":false,"occurredAt":"2026-07-28T05:10:30Z","correlationId":"c-1"}"#;

    fn lines(input: &[u8], buffer: usize) -> Vec<(u64, Option<String>)> {
        CommandReader::new(BufReader::with_capacity(buffer, input))
            .map(|line| match line.expect("readable") {
                InputLine::Command { line, .. } => (line, None),
                InputLine::Refused(refused) => {
                    (refused.line, Some(refused.refusal.rule.to_string()))
                }
            })
            .collect()
    }

    #[test]
    fn ends_marks_and_blank_lines_are_tolerated_at_any_buffer_size() {
        let input = format!("\u{feff}{COMMAND}\r\n\r\n  \n{COMMAND}\n{COMMAND}");
        for buffer in [1, 2, 3, 7, 64, 8192] {
            assert_eq!(
                lines(input.as_bytes(), buffer),
                [(1, None), (4, None), (5, None)],
                "{buffer}"
            );
        }
        assert_eq!(lines(b"", 8), []);
        assert_eq!(lines(b"\n\n", 8), []);
        assert_eq!(lines(b"\xEF\xBB\xBF", 8), []);
    }

    #[test]
    fn a_mark_elsewhere_and_a_bare_cr_are_not_json() {
        let input = format!("{COMMAND}\n\u{feff}{COMMAND}\n{COMMAND}\r{COMMAND}");
        let read = lines(input.as_bytes(), 64);
        assert_eq!(read[0], (1, None));
        assert!(read[1].1.as_ref().unwrap().starts_with("not JSON"));
        assert!(read[2].1.as_ref().unwrap().starts_with("not JSON"));
    }

    #[test]
    fn the_bound_is_exact_and_a_longer_line_costs_only_itself() {
        let padded = |bytes: usize, end: &str| {
            format!("{COMMAND}{}{end}", " ".repeat(bytes - COMMAND.len()))
        };
        let bound = "maximum line bytes is 16384";
        for (input, expected) in [
            (padded(MAXIMUM_LINE_BYTES, "\n"), None),
            (padded(MAXIMUM_LINE_BYTES, "\r\n"), None),
            (
                format!("\u{feff}{}", padded(MAXIMUM_LINE_BYTES, "\r\n")),
                None,
            ),
            (padded(MAXIMUM_LINE_BYTES + 1, "\n"), Some(bound)),
            (padded(MAXIMUM_LINE_BYTES + 1, "\r\n"), Some(bound)),
            (padded(MAXIMUM_LINE_BYTES + 9, ""), Some(bound)),
            (padded(MAXIMUM_LINE_BYTES * 5, "\n"), Some(bound)),
        ] {
            let ended = input.ends_with('\n');
            let read = lines(format!("{input}{COMMAND}").as_bytes(), 1000);
            assert_eq!(read[0], (1, expected.map(str::to_owned)));
            if ended {
                assert_eq!(read[1], (2, None));
            }
        }
    }

    #[test]
    fn a_long_line_is_never_held() {
        let mut reader =
            CommandReader::new(BufReader::new(std::io::repeat(b'x').take(8 * 1024 * 1024)));
        assert!(matches!(reader.next(), Some(Ok(InputLine::Refused(_)))));
        assert!(reader.buffer.capacity() <= 2 * (MAXIMUM_LINE_BYTES + 4));
        assert!(reader.next().is_none());
    }

    #[test]
    fn an_unreadable_input_ends_with_its_error() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("gone"))
            }
        }
        let whole = format!("{COMMAND}\n");
        let mut reader = CommandReader::new(BufReader::new(whole.as_bytes().chain(Broken)));
        assert!(matches!(reader.next(), Some(Ok(InputLine::Command { .. }))));
        assert_eq!(reader.next().unwrap().unwrap_err().line, 2);
        assert!(reader.next().is_none());
    }
}
