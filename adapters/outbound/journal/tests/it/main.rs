//! The journal on real files: opening, committing, failing, and being killed.

#[cfg(feature = "broker")]
mod broker;
mod committing;
mod failing;
mod hooked;
mod killed;
mod numbered;
mod opening;
mod producing;
