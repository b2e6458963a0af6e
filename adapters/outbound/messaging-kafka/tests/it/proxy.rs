//! A TCP proxy in front of one broker that can hold answers back or cut connections.
//!
//! Invariant: in both directions bytes are passed on unchanged and in order; while held, requests
//! still reach the broker and only its answers wait.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answers {
    Pass,
    Hold,
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    answers: watch::Sender<Answers>,
    cut: watch::Sender<u64>,
    held_bytes: Arc<AtomicUsize>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port and passes on to `broker`, which need not listen yet.
    pub(crate) async fn start(broker: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        let answers = watch::Sender::new(Answers::Pass);
        let cut = watch::Sender::new(0);
        let held_bytes = Arc::new(AtomicUsize::new(0));
        let accepting = tokio::spawn({
            let (answers, cut, held) = (answers.clone(), cut.clone(), Arc::clone(&held_bytes));
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    let (answers, held) = (answers.subscribe(), Arc::clone(&held));
                    let mut cut = cut.subscribe();
                    cut.mark_unchanged();
                    tokio::spawn(async move {
                        tokio::select! {
                            _ = cut.changed() => {}
                            () = pass(client, broker, answers, held) => {}
                        }
                    });
                }
            }
        });
        Self {
            address,
            answers,
            cut,
            held_bytes,
            accepting,
        }
    }

    pub(crate) fn set(&self, answers: Answers) {
        self.answers.send_replace(answers);
    }

    /// Cuts every connection.
    pub(crate) fn cut(&self) {
        self.cut.send_modify(|count| *count += 1);
    }

    /// Bytes of answers that were read from the broker while answers were held.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Acquire)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn pass(
    client: TcpStream,
    broker: SocketAddr,
    answers: watch::Receiver<Answers>,
    held: Arc<AtomicUsize>,
) {
    let Ok(server) = TcpStream::connect(broker).await else {
        return;
    };
    let (mut client_in, client_out) = client.into_split();
    let (server_in, mut server_out) = server.into_split();
    tokio::select! {
        _ = tokio::io::copy(&mut client_in, &mut server_out) => {}
        () = pass_answers(server_in, client_out, answers, held) => {}
    }
}

async fn pass_answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut answers: watch::Receiver<Answers>,
    held: Arc<AtomicUsize>,
) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer).await else {
            return;
        };
        if *answers.borrow() == Answers::Hold {
            held.fetch_add(count, Ordering::AcqRel);
        }
        if answers.wait_for(|now| *now == Answers::Pass).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
