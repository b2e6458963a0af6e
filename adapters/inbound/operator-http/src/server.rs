//! The pages and the task that serves them.
//!
//! Invariant: a page is made anew for each request and says how things stand at that moment.

use crate::connection::BoundedListener;
use crate::socket::{LocalSocket, SocketFile};
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// What a page says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether the answer is yes: 200, otherwise 503.
    pub yes: bool,
    /// One JSON document.
    pub json: String,
}

/// Makes a page; it must not block.
pub type Page = Arc<dyn Fn() -> Answer + Send + Sync>;

/// The pages of a process.
#[derive(Clone)]
pub struct Pages {
    /// `GET /descriptor`
    pub descriptor: Page,
    /// `GET /readiness`: 200 when ready, 503 when not.
    pub readiness: Page,
}

/// Serves until it is dropped, and removes the socket's file then.
#[derive(Debug)]
pub struct LocalServer {
    task: JoinHandle<()>,
    _file: SocketFile,
}

impl LocalServer {
    /// Serves the pages on a socket.
    pub fn start(socket: LocalSocket, pages: Pages) -> Self {
        let Pages {
            descriptor,
            readiness,
        } = pages;
        let router = Router::new()
            .route(
                "/descriptor",
                get(move || std::future::ready(answer(&descriptor))),
            )
            .route(
                "/readiness",
                get(move || std::future::ready(answer(&readiness))),
            );
        let listener = BoundedListener::new(socket.listener);
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!(%error, "the local socket is not served any more");
            }
        });
        Self {
            task,
            _file: socket.file,
        }
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn answer(page: &Page) -> Response {
    let Answer { yes, json } = page();
    let status = if yes {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-store"),
        (CONNECTION, "close"),
    ];
    (status, headers, json).into_response()
}
