//! What is said about a line that was not taken.
//!
//! Invariant: a refusal names place and rule and never repeats a value from the line.

use application_core::contract::ContractKey;
use application_core::ports::RejectionRule;

/// Why one command was not taken: contract, place and rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The contract that the command would have led to; `None` where that is not known.
    pub contract: Option<ContractKey>,
    /// JSON pointer (RFC 6901) into the command; empty for the command itself. Where a contract
    /// refused the payload, it points into the payload, whose fields are named as the command's.
    pub pointer: String,
    /// The broken rule and, where it has one, its bound.
    pub rule: RejectionRule,
}

/// A [`Refusal`] with the line it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedLine {
    /// Line number, from 1; blank lines count.
    pub line: u64,
    /// Why.
    pub refusal: Refusal,
}

impl Refusal {
    /// A rule without a bound, before any contract is known.
    pub(super) fn shape(pointer: impl Into<String>, rule: impl Into<String>) -> Self {
        Self {
            contract: None,
            pointer: pointer.into(),
            rule: RejectionRule::Shape(rule.into()),
        }
    }

    /// Adds the contract that the command would have led to.
    pub(super) fn under(self, contract: ContractKey) -> Self {
        Self {
            contract: Some(contract),
            ..self
        }
    }

    /// Adds the line.
    pub fn at_line(self, line: u64) -> RefusedLine {
        RefusedLine {
            line,
            refusal: self,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(contract) = &self.contract {
            write!(f, "contract {contract}: ")?;
        }
        let place = if self.pointer.is_empty() {
            "the root"
        } else {
            &self.pointer
        };
        write!(f, "at {place}: {}", self.rule)
    }
}

impl std::fmt::Display for RefusedLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.refusal)
    }
}
