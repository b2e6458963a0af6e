//! The loops of a running process and what they need from it: clock, randomness, log.
//!
//! Invariant: loops only call use cases; every pause is a wait for the stop signal with a
//! deadline, so a stop is never slept through.

mod alarm;
mod ambient;
mod late_loop;
mod log_lines;
mod log_reporter;
mod readiness;
mod relay_loop;
mod rotation_loop;
mod scout;
mod secret_watch;
mod stop;
mod upkeep;
mod window_loop;

pub use alarm::Alarm;
pub use ambient::{ProcessClock, ProcessEntropy, ProcessTimer};
pub use log_lines::{Line, LogLines};
pub use log_reporter::LogReporter;
pub use readiness::{Readiness, ReadinessReason};
pub use relay_loop::{RelayCard, RelayCounters, RelayWorkers};
pub use rotation_loop::RotationRequest;
pub use scout::{Scouts, WorkHint};
pub use stop::{StopSignal, StopSwitch};

pub(crate) use late_loop::drain_late_observations;
pub(crate) use readiness::watch_unknown_backlog;
pub(crate) use rotation_loop::RotationLoop;
pub(crate) use secret_watch::SecretWatch;
pub(crate) use upkeep::{apply_retention, watch_capacity};
