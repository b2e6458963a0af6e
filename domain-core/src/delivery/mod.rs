//! The life of one delivery generation: its states and the one function that moves between them.
//!
//! Invariant: a state is left only through [`DeliveryState::next`]; the same guards stand again
//! in every store's SQL.

mod budget;
mod state;
mod transition;

pub use budget::{PublicationWindow, WindowError};
pub use state::{Authority, Claim, DeliveryState, DeliveryStateName, DispatchAuthority};
pub use transition::{DeliveryEvent, Holder, IllegalTransition, TransitionRefusal};
