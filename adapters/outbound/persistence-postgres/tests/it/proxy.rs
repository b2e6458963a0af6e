//! A proxy in front of the server that can lose a commit's reply.
//!
//! Invariant: bytes pass unchanged until the next COMMIT after it was armed; then the connection is
//! cut on both sides, before or after the server has done it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// `Q`, its length, and the statement with its NUL, as the driver sends it.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// Where the connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// COMMIT never reaches the server.
    Before = 1,
    /// The server commits, and its answer is lost.
    After = 2,
}

/// The proxy.
pub(crate) struct Proxy {
    address: SocketAddr,
    armed: Arc<AtomicU8>,
}

impl Proxy {
    /// Listens on a free port in front of `server`.
    pub(crate) async fn start(server: (String, u16)) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bound");
        let address = listener.local_addr().expect("address");
        let armed = Arc::new(AtomicU8::new(0));
        let shared = Arc::clone(&armed);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let upstream = TcpStream::connect((server.0.as_str(), server.1))
                    .await
                    .expect("the server");
                tokio::spawn(forward(client, upstream, Arc::clone(&shared)));
            }
        });
        Self { address, armed }
    }

    /// The port it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Cuts at the next COMMIT.
    pub(crate) fn arm(&self, cut: Cut) {
        self.armed.store(cut as u8, Ordering::SeqCst);
    }

    /// Whether the cut has happened.
    pub(crate) fn has_cut(&self) -> bool {
        self.armed.load(Ordering::SeqCst) == 0
    }
}

async fn forward(mut client: TcpStream, mut server: TcpStream, armed: Arc<AtomicU8>) {
    let (mut up, mut down) = ([0; 16384], [0; 16384]);
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(read @ 1..) = read else { return };
                let commits = up[..read].windows(COMMIT.len()).any(|window| window == COMMIT);
                let cut = if commits { armed.swap(0, Ordering::SeqCst) } else { 0 };
                if cut == Cut::Before as u8 {
                    return;
                }
                if server.write_all(&up[..read]).await.is_err() {
                    return;
                }
                if cut == Cut::After as u8 {
                    // The answer says that it is done; the client never sees it.
                    let answered = server.read(&mut down).await;
                    assert!(matches!(answered, Ok(1..)), "the server did not answer");
                    return;
                }
            }
            read = server.read(&mut down) => {
                let Ok(read @ 1..) = read else { return };
                if client.write_all(&down[..read]).await.is_err() {
                    return;
                }
            }
        }
    }
}
