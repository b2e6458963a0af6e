//! Connections with an end.
//!
//! Invariant: at most so many at once, each with a deadline and a number of bytes that it may send;
//! what exceeds either is cut off.

use axum::serve::Listener;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

/// Connections at once; further ones wait in the system's queue.
pub(crate) const CLIENTS: usize = 16;
/// What one may take in all.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);
/// Bytes that one may send.
pub(crate) const REQUEST_BYTES: usize = 16 * 1024;
/// The pause after a failed accept, as when file descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Accepts within the bounds.
pub(crate) struct BoundedListener {
    listener: UnixListener,
    permits: Arc<Semaphore>,
}

impl BoundedListener {
    pub(crate) fn new(listener: UnixListener) -> Self {
        Self {
            listener,
            permits: Arc::new(Semaphore::new(CLIENTS)),
        }
    }
}

impl Listener for BoundedListener {
    type Io = BoundedStream;
    type Addr = ();

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            // Nobody closes the semaphore.
            let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
                return std::future::pending().await;
            };
            match self.listener.accept().await {
                Ok((stream, _)) => return (BoundedStream::new(stream, permit), ()),
                Err(error) => {
                    tracing::debug!(%error, "a local client could not be accepted");
                    let _ = timeout(ACCEPT_PAUSE, std::future::pending::<()>()).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(())
    }
}

/// One connection.
pub(crate) struct BoundedStream {
    stream: UnixStream,
    deadline: Pin<Box<Sleep>>,
    left: usize,
    _permit: OwnedSemaphorePermit,
}

impl BoundedStream {
    fn new(stream: UnixStream, permit: OwnedSemaphorePermit) -> Self {
        Self {
            stream,
            deadline: Box::pin(sleep_until(Instant::now() + DEADLINE)),
            left: REQUEST_BYTES,
            _permit: permit,
        }
    }

    fn in_time(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.deadline.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.in_time(context)?;
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        match self.left.checked_sub(buffer.filled().len() - before) {
            Some(left) => {
                self.left = left;
                read
            }
            None => Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
        }
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.in_time(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.in_time(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.in_time(context)?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
