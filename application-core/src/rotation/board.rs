//! What a descriptor shows of rotations.
//!
//! Invariant: bounded, and free of secrets, addresses and payloads.

use super::{RotationCause, RotationStep};
use domain_core::identity::ProducerGeneration;
use domain_core::publication::FailureClass;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Steps that are remembered.
const STEPS: usize = 64;

/// Rotations of one process, as far as they are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RotationView {
    /// Why the last rotation began; `None` before the first.
    pub cause: Option<RotationCause>,
    /// Where it stands or how it ended.
    pub step: Option<RotationStep>,
    /// The last steps, the present one last.
    pub steps: VecDeque<RotationStep>,
    /// The generation that the last rotation let in.
    pub generation: Option<ProducerGeneration>,
    /// Why the last failed step failed.
    pub last_failure: Option<FailureClass>,
    /// Attempts whose durable outcome the barrier still waits for.
    pub open_attempts: usize,
    /// Attempts that rotations gave up at a drain's end, in all.
    pub abandoned: u64,
    /// Rotations that ended with the new material at work.
    pub renewed: u64,
    /// Rotations that ended with the previous material at work.
    pub fell_back: u64,
}

/// The view, shared.
#[derive(Debug, Clone, Default)]
pub struct RotationBoard(Arc<Mutex<RotationView>>);

impl RotationBoard {
    /// What is shown now.
    pub fn view(&self) -> RotationView {
        self.lock().clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut RotationView)) {
        change(&mut self.lock());
    }

    pub(crate) fn stands(&self, step: RotationStep) {
        self.change(|view| {
            // A step that is tried again is one step.
            if view.step == Some(step) {
                return;
            }
            view.step = Some(step);
            if view.steps.len() == STEPS {
                view.steps.pop_front();
            }
            view.steps.push_back(step);
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, RotationView> {
        // Every change is one step, so a panicking holder leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
