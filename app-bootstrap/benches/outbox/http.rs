//! Requests to a Kafka Connect worker on this machine.
//!
//! Invariant: one request a connection; an answer that is no success is a panic with what it says.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Sends one request and gives the answer's body.
pub(crate) async fn ask(address: &str, method: &str, path: &str, body: &str) -> String {
    ask_if_there(address, method, path, body)
        .await
        .unwrap_or_else(|| panic!("{method} {path}: 404"))
}

/// The same; `None` when what is asked about is not there, or not yet.
pub(crate) async fn ask_if_there(
    address: &str,
    method: &str,
    path: &str,
    body: &str,
) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.expect("the worker");
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream
        .write_all(request.as_bytes())
        .await
        .expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status == "404" {
        return None;
    }
    assert!(status.starts_with('2'), "{method} {path}: {status}: {body}");
    Some(body.to_owned())
}
