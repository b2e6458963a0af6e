//! One replacement of a producer generation, step by step.
//!
//! Invariant: a pure function of what stands and what happened. No step sends under a new generation
//! before the old one is closed, every old attempt has a durable outcome and every permit is back;
//! whatever fails leads to a step that tries again, to the previous material while that is allowed, or
//! to an end that says why (requirement 004 §16.10).

mod board;

pub use board::{RotationBoard, RotationView};

use domain_core::publication::FailureClass;

/// Why a generation is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationCause {
    /// Somebody asked for it.
    Asked,
    /// The content of a referenced secret changed.
    SecretChanged,
    /// A fault of the provider ended the generation at work.
    GenerationEnded(FailureClass),
    /// No generation could be started so far.
    NotStarted(FailureClass),
}

impl RotationCause {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::SecretChanged => "secret-changed",
            Self::GenerationEnded(_) => "generation-ended",
            Self::NotStarted(_) => "not-started",
        }
    }

    /// Whether the generation that is replaced could have gone on.
    fn replaces_a_sound_one(self) -> bool {
        matches!(self, Self::Asked | Self::SecretChanged)
    }
}

/// What a generation is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Material {
    /// Secrets and settings as they are now.
    New,
    /// Those of the last generation that worked, for a bounded time.
    Previous,
}

/// How a rotation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationEnd {
    /// A generation of the new material admits records.
    Renewed,
    /// The new material did not work; a generation of the previous one admits records for now.
    FellBack,
    /// The broker stored a record on another topic; only an operator may let the producer go on.
    Misrouted,
    /// The process is stopping.
    Stopped,
}

/// Where a rotation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationStep {
    /// Admission, and claiming with it, is being stopped.
    Pausing,
    /// What is under way may end by itself, a bounded time.
    Draining,
    /// What did not end is given up and recorded `INDETERMINATE`, its ordering-required head `HOLD`.
    Recording,
    /// The old generation is being closed.
    Closing,
    /// A pause before the next try; nothing is admitted.
    Waiting,
    /// Secrets and settings are being read.
    Resolving,
    /// A generation is being made.
    Creating(Material),
    /// Brokers and topics are being looked at.
    Attesting(Material),
    /// Every old attempt must have a durable outcome, and every old permit be back.
    Barrier(Material),
    /// The new generation is being let in.
    Resuming(Material),
    /// It is over.
    Done(RotationEnd),
}

impl RotationStep {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pausing => "PAUSING",
            Self::Draining => "DRAINING",
            Self::Recording => "RECORDING",
            Self::Closing => "CLOSING",
            Self::Waiting => "WAITING",
            Self::Resolving => "RESOLVING",
            Self::Creating(Material::New) => "CREATING",
            Self::Creating(Material::Previous) => "CREATING_PREVIOUS",
            Self::Attesting(Material::New) => "ATTESTING",
            Self::Attesting(Material::Previous) => "ATTESTING_PREVIOUS",
            Self::Barrier(_) => "BARRIER",
            Self::Resuming(_) => "RESUMING",
            Self::Done(RotationEnd::Renewed) => "RENEWED",
            Self::Done(RotationEnd::FellBack) => "FELL_BACK",
            Self::Done(RotationEnd::Misrouted) => "MISROUTED",
            Self::Done(RotationEnd::Stopped) => "STOPPED",
        }
    }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationFact {
    /// Nothing is admitted any more.
    Paused,
    /// The drain is over, whatever it left.
    Drained,
    /// What was left is recorded, or will be asked for again at the barrier.
    Recorded,
    /// The old generation is closed.
    Closed,
    /// It is not closed yet.
    StillClosing,
    /// The pause is over.
    WaitOver,
    /// Secrets and settings were read.
    Resolved,
    /// A generation was made.
    Created,
    /// Brokers and topics are as they should be.
    Attested,
    /// The step at hand failed. Whether the previous material may be used now is the policy's.
    Failed {
        /// Whether its time is not over.
        previous_allowed: bool,
    },
    /// Every old attempt has a durable outcome, and every old permit is back.
    BarrierOpen,
    /// Not yet, or it could not be found out.
    BarrierShut,
    /// The generation admits records.
    Resumed,
    /// The broker stored a record on another topic.
    Misrouted,
    /// The process is stopping.
    ProcessStops,
}

/// A fact that does not belong to the step; the step stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{fact:?} does not belong to {}", step.as_str())]
pub struct IllegalRotation {
    /// Where the rotation stands.
    pub step: RotationStep,
    /// What was said to have happened.
    pub fact: RotationFact,
}

/// One rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// Why.
    pub cause: RotationCause,
    /// Where it stands.
    pub step: RotationStep,
}

impl Rotation {
    /// The first step.
    pub fn begin(cause: RotationCause) -> Self {
        Self {
            cause,
            step: RotationStep::Pausing,
        }
    }

    /// The step after `fact`.
    ///
    /// # Errors
    /// [`IllegalRotation`]; the rotation is unchanged.
    pub fn next(self, fact: RotationFact) -> Result<Self, IllegalRotation> {
        use RotationFact as Fact;
        use RotationStep as Step;
        let step = match (self.step, fact) {
            (Step::Done(_), _) => return Err(self.illegal(fact)),
            (_, Fact::ProcessStops) => Step::Done(RotationEnd::Stopped),
            // Only a generation that sends can reveal it; a new one does not send before it is done.
            (Step::Pausing | Step::Draining | Step::Recording | Step::Closing, Fact::Misrouted) => {
                Step::Done(RotationEnd::Misrouted)
            }
            (Step::Pausing, Fact::Paused) => Step::Draining,
            (Step::Draining, Fact::Drained) => Step::Recording,
            (Step::Recording, Fact::Recorded) => Step::Closing,
            (Step::Closing, Fact::StillClosing) => Step::Closing,
            (Step::Closing, Fact::Closed) if self.cause.replaces_a_sound_one() => Step::Resolving,
            // What ended a generation, or kept the first one away, seldom passes at once.
            (Step::Closing, Fact::Closed) => Step::Waiting,
            (Step::Waiting, Fact::WaitOver) => Step::Resolving,
            (Step::Resolving, Fact::Resolved) => Step::Creating(Material::New),
            (Step::Creating(material), Fact::Created) => Step::Attesting(material),
            (Step::Attesting(material), Fact::Attested) => Step::Barrier(material),
            (Step::Barrier(material), Fact::BarrierShut) => Step::Barrier(material),
            (Step::Barrier(material), Fact::BarrierOpen) => Step::Resuming(material),
            (Step::Resuming(Material::New), Fact::Resumed) => Step::Done(RotationEnd::Renewed),
            (Step::Resuming(Material::Previous), Fact::Resumed) => {
                Step::Done(RotationEnd::FellBack)
            }
            (
                Step::Resolving
                | Step::Creating(Material::New)
                | Step::Attesting(Material::New)
                | Step::Resuming(Material::New),
                Fact::Failed {
                    previous_allowed: true,
                },
            ) if self.cause.replaces_a_sound_one() => Step::Creating(Material::Previous),
            (
                Step::Resolving | Step::Creating(_) | Step::Attesting(_) | Step::Resuming(_),
                Fact::Failed { .. },
            ) => Step::Waiting,
            _ => return Err(self.illegal(fact)),
        };
        Ok(Self { step, ..self })
    }

    fn illegal(self, fact: RotationFact) -> IllegalRotation {
        IllegalRotation {
            step: self.step,
            fact,
        }
    }
}

#[cfg(test)]
#[path = "transition_table.rs"]
mod tests;
