//! Serving the descriptor on the profile's local socket, and reading it there.
//!
//! Invariant: a process whose socket another one holds still runs; only what makes the socket
//! impossible stops the start.

use super::{CompiledDescriptor, Descriptor, RuntimeStatus};
use crate::compose::Compiled;
use inbound_operator_http::{
    Answer, FetchError, LocalServer, LocalSocket, Pages, SocketError, fetch,
};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Why a running process was not described.
#[derive(Debug, thiserror::Error)]
pub enum DescribeError {
    /// No process serves.
    #[error(
        "no process serves this profile; `countersign serve` starts one, and `--offline` shows what \
         the profile compiles to"
    )]
    Nobody(#[source] FetchError),
    /// It did not answer.
    #[error("the running process was not read")]
    Fetch(#[source] FetchError),
    /// It answered something else.
    #[error("the running process answered {0} and no descriptor")]
    Answer(u16),
}

/// Serves the descriptor; nothing where another process holds the socket.
pub(crate) fn serve_locally(
    compiled: &Compiled,
    descriptor: CompiledDescriptor,
    status: &Arc<RuntimeStatus>,
) -> Result<Option<LocalServer>, SocketError> {
    let socket = match LocalSocket::bind(&compiled.profile.descriptor_socket) {
        Ok(socket) => socket,
        Err(error @ SocketError::Held { .. }) => {
            tracing::warn!(
                %error,
                "this process is not described; give it a descriptor-socket of its own"
            );
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let (whole, ready) = (Arc::clone(status), Arc::clone(status));
    let pages = Pages {
        descriptor: Arc::new(move || Answer {
            yes: true,
            json: json(&Descriptor {
                compiled: descriptor.clone(),
                running: whole.now(),
            }),
        }),
        readiness: Arc::new(move || {
            let now = ready.now();
            Answer {
                yes: now.is_ready(),
                json: json(&now),
            }
        }),
    };
    Ok(Some(LocalServer::start(socket, pages)))
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a descriptor has only texts, numbers and lists")
}

/// Reads the descriptor of the process that holds a socket, as one JSON document.
///
/// # Errors
/// [`DescribeError`].
pub async fn running_descriptor(socket: &Path) -> Result<String, DescribeError> {
    let fetched = fetch(socket, "/descriptor")
        .await
        .map_err(|error| match error {
            FetchError::Nobody { .. } => DescribeError::Nobody(error),
            other => DescribeError::Fetch(other),
        })?;
    match fetched.status {
        200 => Ok(fetched.body),
        other => Err(DescribeError::Answer(other)),
    }
}
