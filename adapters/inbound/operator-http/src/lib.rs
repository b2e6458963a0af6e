//! What a running process tells whoever operates it, over HTTP on a local Unix socket.
//!
//! Invariant: only the owner of the process can connect, a page is read and never changes
//! anything, and clients are bounded in number, bytes and time, so that none can hold up the
//! process or another client for longer than its own deadline (requirement 004 §21.8).
#![forbid(unsafe_code)]

mod client;
mod connection;
mod server;
mod socket;

pub use client::{FetchError, Fetched, fetch};
pub use server::{Answer, LocalServer, Page, Pages};
pub use socket::{LocalSocket, MAXIMUM_PATH_BYTES, SocketError};
