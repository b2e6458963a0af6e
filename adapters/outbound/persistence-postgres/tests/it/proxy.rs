//! A proxy in front of the server that can lose a commit's reply, and that notes what is sent.
//!
//! Invariant: bytes pass unchanged until the next COMMIT after it was armed; then the connection is
//! cut on both sides, before or after the server has done it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// `Q`, its length, and the statement with its NUL, as the driver sends it.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// The end of the message that proves a transaction and commits it.
const PROVEN_COMMIT: &[u8] = b"COMMIT AND CHAIN\n\0";

/// What the client sent, as far as it costs anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sent {
    /// A message of statements.
    Query(String),
    /// One prepared statement was run.
    Execute,
    /// The client waits for an answer to what it prepared or ran.
    Sync,
}

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
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl Proxy {
    /// Listens on a free port in front of `server`.
    pub(crate) async fn start(server: (String, u16)) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bound");
        let address = listener.local_addr().expect("address");
        let armed = Arc::new(AtomicU8::new(0));
        let shared = Arc::clone(&armed);
        let sent = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&sent);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let upstream = TcpStream::connect((server.0.as_str(), server.1))
                    .await
                    .expect("the server");
                tokio::spawn(forward(
                    client,
                    upstream,
                    Arc::clone(&shared),
                    Tap::new(&notes),
                ));
            }
        });
        Self {
            address,
            armed,
            sent,
        }
    }

    /// What was sent since the last call.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        std::mem::take(&mut self.sent.lock().expect("notes"))
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

/// Reads one connection's messages as they pass.
struct Tap {
    notes: Arc<Mutex<Vec<Sent>>>,
    unread: Vec<u8>,
    started: bool,
}

impl Tap {
    fn new(notes: &Arc<Mutex<Vec<Sent>>>) -> Self {
        Self {
            notes: Arc::clone(notes),
            unread: Vec::new(),
            started: false,
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        // A message is a type, unless it starts the session, and its own length with the body.
        while let Some(length) = self
            .unread
            .get(usize::from(self.started)..usize::from(self.started) + 4)
        {
            let length = u32::from_be_bytes(length.try_into().expect("four bytes"));
            let whole = usize::try_from(length).expect("small") + usize::from(self.started);
            if self.unread.len() < whole {
                return;
            }
            let message: Vec<u8> = self.unread.drain(..whole).collect();
            if !self.started {
                // Protocol 3.0; anything else asks for encryption first.
                self.started = message[4..8] == [0, 3, 0, 0];
                continue;
            }
            let sent = match message[0] {
                b'Q' => {
                    let text = &message[5..message.len() - 1];
                    Sent::Query(String::from_utf8_lossy(text).into_owned())
                }
                b'E' => Sent::Execute,
                b'S' => Sent::Sync,
                _ => continue,
            };
            self.notes.lock().expect("notes").push(sent);
        }
    }
}

async fn forward(mut client: TcpStream, mut server: TcpStream, armed: Arc<AtomicU8>, mut tap: Tap) {
    let (mut up, mut down) = ([0; 16384], [0; 16384]);
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(read @ 1..) = read else { return };
                tap.read(&up[..read]);
                let commits = [COMMIT, PROVEN_COMMIT].iter().any(|commit| {
                    up[..read].windows(commit.len()).any(|window| window == *commit)
                });
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
