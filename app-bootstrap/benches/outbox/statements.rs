//! Statements and round trips, counted on the wire.
//!
//! Invariant: what passes is forwarded byte by byte; only its types are looked at. A drain through it is
//! counted and never timed.

use crate::drain;
use crate::fill::Load;
use crate::place::{self, Card, Database, Scene};
use crate::relay::Relay;
use crate::report::Report;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Events of a per-record drain that is counted.
const FEW: u64 = 300;

/// What was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) statements: f64,
    pub(crate) round_trips: f64,
}

impl Counted {
    pub(crate) fn per(self, count: f64) -> Self {
        Self {
            statements: self.statements / count,
            round_trips: self.round_trips / count,
        }
    }
}

#[derive(Default)]
struct Totals {
    statements: AtomicU64,
    round_trips: AtomicU64,
}

/// A way to a database that counts.
pub(crate) struct Wire {
    url: String,
    totals: Arc<Totals>,
}

impl Wire {
    pub(crate) async fn before(database: &Database) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let url = database.url();
        let (_, rest) = url.rsplit_once('@').expect("a URL with a password");
        let (server, _) = rest.split_once('/').expect("a URL with a database");
        let totals = Arc::new(Totals::default());
        let (target, shared) = (server.to_owned(), Arc::clone(&totals));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(upstream) = TcpStream::connect(&target).await else {
                    continue;
                };
                tokio::spawn(forward(client, upstream, Arc::clone(&shared)));
            }
        });
        Self {
            url: url.replace(server, &format!("127.0.0.1:{port}")),
            totals,
        }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// What was sent since the last call.
    pub(crate) fn counted(&self) -> Counted {
        Counted {
            statements: self.totals.statements.swap(0, Ordering::SeqCst) as f64,
            round_trips: self.totals.round_trips.swap(0, Ordering::SeqCst) as f64,
        }
    }
}

async fn forward(client: TcpStream, server: TcpStream, totals: Arc<Totals>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = async move {
        let mut tap = Tap::default();
        let mut bytes = [0; 65_536];
        while let Ok(read @ 1..) = from_client.read(&mut bytes).await {
            tap.read(&bytes[..read], &totals);
            if to_server.write_all(&bytes[..read]).await.is_err() {
                return;
            }
        }
    };
    let down = async move {
        // Ends with either side's connection; there is nobody to tell.
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
    };
    tokio::join!(up, down);
}

/// One connection's messages (PostgreSQL protocol 3.0, §55.7): a type, unless it starts the session,
/// and its own length with the body.
#[derive(Default)]
struct Tap {
    unread: Vec<u8>,
    started: bool,
}

impl Tap {
    fn read(&mut self, bytes: &[u8], totals: &Totals) {
        self.unread.extend_from_slice(bytes);
        loop {
            let head = usize::from(self.started);
            let Some(length) = self.unread.get(head..head + 4) else {
                return;
            };
            let length = u32::from_be_bytes(length.try_into().expect("four bytes"));
            let whole = usize::try_from(length).expect("small") + head;
            if self.unread.len() < whole {
                return;
            }
            let message: Vec<u8> = self.unread.drain(..whole).collect();
            if !self.started {
                // Version 3.0; anything else asks for encryption first.
                self.started = message.get(4..8) == Some(&[0, 3, 0, 0]);
                continue;
            }
            let (statements, round_trips) = match message[0] {
                b'Q' => {
                    let text = String::from_utf8_lossy(&message[5..message.len() - 1]);
                    let parts = text.split(';').filter(|part| !part.trim().is_empty());
                    (parts.count() as u64, 1)
                }
                b'E' => (1, 0),
                b'S' => (0, 1),
                _ => (0, 0),
            };
            totals.statements.fetch_add(statements, Ordering::SeqCst);
            totals.round_trips.fetch_add(round_trips, Ordering::SeqCst);
        }
    }
}

/// Statements and round trips of a card for each event, the searches included.
pub(crate) async fn measure(
    card: Card,
    name: &str,
    filled: &Database,
    load: Load,
    report: &mut Report,
) {
    let database = filled.copy().await;
    let wire = Wire::before(&database).await;
    let scene = Scene::at(&wire.url(), card).await;
    let mut relay = Relay::start(&scene);
    let topic = &scene.topic;
    place::until("the first record", Duration::from_millis(5), || {
        relay.check();
        std::future::ready(topic.records() > 0)
    })
    .await;
    let (begin, _) = (topic.records(), wire.counted());
    let enough = match card {
        Card::Window => u64::from(load.events),
        Card::PerRecord | Card::PerRecordWide => FEW,
    };
    place::until("counted", Duration::from_millis(20), || {
        relay.check();
        std::future::ready(topic.records() >= enough)
    })
    .await;
    let (end, counted) = (topic.records(), wire.counted());
    if card == Card::Window {
        let mut watch = database.connect().await;
        drain::until_recorded(&mut watch).await;
    }
    relay.end();
    let per_event = counted.per((end - begin) as f64);
    report.value(
        format!("{name}_{}_statements", load.scopes),
        per_event.statements,
        "an event",
    );
    report.value(
        format!("{name}_{}_round_trips", load.scopes),
        per_event.round_trips,
        "an event",
    );
    scene.remove().await;
    database.remove().await;
}
