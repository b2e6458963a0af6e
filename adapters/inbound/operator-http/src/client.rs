//! Reading one page of a running process.
//!
//! Invariant: bounded in time and bytes; an answer that is cut short is an error.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// What an answer may have in all, in bytes.
const ANSWER_BYTES: u64 = 1024 * 1024;
/// What an answer may take; longer than a slow client before this one may.
const ANSWER_TIME: Duration = Duration::from_secs(15);

/// A page as it was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The HTTP status.
    pub status: u16,
    /// The document.
    pub body: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No process holds the socket.
    #[error("nobody serves at {}", path.display())]
    Nobody {
        /// The socket.
        path: PathBuf,
    },
    /// The process belongs to somebody else.
    #[error("{} belongs to another user", path.display())]
    NotOurs {
        /// The socket.
        path: PathBuf,
    },
    /// The process took too long.
    #[error("no answer from {} within {ANSWER_TIME:?}", path.display())]
    TooSlow {
        /// The socket.
        path: PathBuf,
    },
    /// The connection failed.
    #[error("{} cannot be read", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Cut short, too long, or no HTTP.
    #[error("the answer from {} is not understood", path.display())]
    NotUnderstood {
        /// The socket.
        path: PathBuf,
    },
}

/// Asks for one page, such as `/descriptor`.
///
/// # Errors
/// [`FetchError`].
pub async fn fetch(path: &Path, page: &str) -> Result<Fetched, FetchError> {
    let owned = || path.to_owned();
    let bytes = match tokio::time::timeout(ANSWER_TIME, exchange(path, page)).await {
        Err(_) => return Err(FetchError::TooSlow { path: owned() }),
        Ok(Ok(bytes)) => bytes,
        Ok(Err(source)) => {
            return Err(match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    FetchError::Nobody { path: owned() }
                }
                io::ErrorKind::PermissionDenied => FetchError::NotOurs { path: owned() },
                _ => FetchError::Io {
                    path: owned(),
                    source,
                },
            });
        }
    };
    read(&bytes).ok_or_else(|| FetchError::NotUnderstood { path: owned() })
}

async fn exchange(path: &Path, page: &str) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(path).await?;
    let request = format!("GET {page} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream
        .take(ANSWER_BYTES + 1)
        .read_to_end(&mut bytes)
        .await?;
    Ok(bytes)
}

/// Status and body of a whole answer of known length.
fn read(bytes: &[u8]) -> Option<Fetched> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.split(' ').next()?;
    let length: usize = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())?;
    (body.len() == length).then_some(Fetched {
        status: status.parse().ok()?,
        body: body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_answers_are_read_and_others_are_not() {
        let whole = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(
            read(whole),
            Some(Fetched {
                status: 503,
                body: "{}".to_owned()
            })
        );
        for broken in [
            &whole[..whole.len() - 1],
            b"HTTP/1.1 200 OK\r\n\r\n{}",
            b"HTTP/2 200\r\ncontent-length: 2\r\n\r\n{}",
            b"HTTP/1.1 x\r\ncontent-length: 2\r\n\r\n{}",
            b"\xff",
            b"",
        ] {
            assert_eq!(read(broken), None);
        }
    }
}
