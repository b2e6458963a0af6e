//! The local socket as clients meet it: who may connect, what is answered, and what a client that
//! misbehaves can do.

use inbound_operator_http::{
    Answer, FetchError, LocalServer, LocalSocket, Pages, SocketError, fetch,
};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

struct Scene {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("run/process.sock");
        Self { folder, path }
    }

    fn serve(&self) -> LocalServer {
        let asked = AtomicU32::new(0);
        let pages = Pages {
            descriptor: Arc::new(move || Answer {
                yes: true,
                json: format!("{{\"asked\":{}}}", asked.fetch_add(1, Ordering::Relaxed)),
            }),
            readiness: Arc::new(|| Answer {
                yes: false,
                json: "{\"reasons\":[]}".to_owned(),
            }),
        };
        LocalServer::start(LocalSocket::bind(&self.path).expect("bound"), pages)
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(self.path.parent().expect("folder"))
            .expect("folder")
            .map(|entry| {
                entry
                    .expect("entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path)
        .expect("metadata")
        .permissions()
        .mode()
        & 0o777
}

#[tokio::test]
async fn pages_are_made_anew_and_nothing_else_is_served() {
    let scene = Scene::new();
    let _server = scene.serve();
    let first = fetch(&scene.path, "/descriptor").await.expect("answer");
    assert_eq!((first.status, first.body.as_str()), (200, "{\"asked\":0}"));
    let second = fetch(&scene.path, "/descriptor").await.expect("answer");
    assert_eq!(second.body, "{\"asked\":1}");
    assert_eq!(
        fetch(&scene.path, "/readiness")
            .await
            .expect("answer")
            .status,
        503
    );
    for page in ["/", "/descriptor/", "/metrics"] {
        assert_eq!(
            fetch(&scene.path, page).await.expect("answer").status,
            404,
            "{page}"
        );
    }
    let mut stream = UnixStream::connect(&scene.path).await.expect("connects");
    stream
        .write_all(
            b"POST /descriptor HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\
                     Connection: close\r\n\r\n",
        )
        .await
        .expect("sent");
    let mut said = String::new();
    stream.read_to_string(&mut said).await.expect("answer");
    assert!(said.starts_with("HTTP/1.1 405"), "{said}");
}

#[tokio::test]
async fn only_the_owner_may_connect_and_the_file_goes_with_the_server() {
    let scene = Scene::new();
    let server = scene.serve();
    assert_eq!(mode(&scene.path), 0o600);
    assert_eq!(mode(scene.path.parent().expect("folder")), 0o700);
    assert_eq!(scene.files(), ["process.sock", "process.sock.lock"]);
    drop(server);
    assert_eq!(scene.files(), ["process.sock.lock"]);
    let nobody = fetch(&scene.path, "/descriptor").await.expect_err("nobody");
    assert!(matches!(nobody, FetchError::Nobody { .. }), "{nobody}");
}

#[tokio::test]
async fn a_stale_file_is_replaced_a_held_path_and_other_files_are_not() {
    let scene = Scene::new();
    std::fs::create_dir_all(scene.path.parent().expect("folder")).expect("folder");
    drop(std::os::unix::net::UnixListener::bind(&scene.path).expect("left behind"));
    assert!(
        std::fs::metadata(&scene.path)
            .expect("there")
            .file_type()
            .is_socket()
    );
    // A process that died while making its socket left this.
    std::fs::create_dir(scene.path.with_extension("sock.new")).expect("left behind");
    let stale = fetch(&scene.path, "/descriptor").await.expect_err("nobody");
    assert!(matches!(stale, FetchError::Nobody { .. }), "{stale}");
    let server = scene.serve();
    assert_eq!(
        fetch(&scene.path, "/descriptor")
            .await
            .expect("answer")
            .status,
        200
    );
    let held = LocalSocket::bind(&scene.path).expect_err("held");
    assert!(matches!(held, SocketError::Held { .. }), "{held}");
    assert_eq!(
        fetch(&scene.path, "/descriptor")
            .await
            .expect("answer")
            .status,
        200
    );
    drop(server);
    for plant in [
        (|path: &Path| std::fs::write(path, "kept")) as fn(&Path) -> std::io::Result<()>,
        |path| std::os::unix::fs::symlink("/dev/null", path),
    ] {
        plant(&scene.path).expect("planted");
        let error = LocalSocket::bind(&scene.path).expect_err("no socket");
        assert!(matches!(error, SocketError::NotASocket { .. }), "{error}");
        std::fs::symlink_metadata(&scene.path).expect("left alone");
        std::fs::remove_file(&scene.path).expect("removed");
    }
    let long = scene.folder.path().join("x".repeat(100));
    let error = LocalSocket::bind(&long).expect_err("too long");
    assert!(error.to_string().contains("at most 101"), "{error}");
}

/// Clients that say nothing, say too little, or never read: the others are answered, at once while
/// there is room and after the slow ones' deadline when there is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_client_stops_nobody() {
    let scene = Scene::new();
    let _server = scene.serve();
    let connect = async || UnixStream::connect(&scene.path).await.expect("connects");
    let mut slow = Vec::new();
    for number in 0..15 {
        let mut stream = connect().await;
        if number % 2 == 0 {
            stream.write_all(b"GET /descr").await.expect("sent");
        }
        slow.push(stream);
    }
    let began = Instant::now();
    assert_eq!(
        fetch(&scene.path, "/descriptor")
            .await
            .expect("answer")
            .status,
        200
    );
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    for _ in 0..5 {
        slow.push(connect().await);
    }
    assert_eq!(
        fetch(&scene.path, "/descriptor")
            .await
            .expect("answer")
            .status,
        200
    );
    assert!(
        began.elapsed() < Duration::from_secs(12),
        "{:?}",
        began.elapsed()
    );
    // The first ones were cut off.
    let mut rest = Vec::new();
    let cut = slow[0].read_to_end(&mut rest).await;
    assert!(cut.is_ok() || cut.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn a_request_without_end_is_cut_off() {
    let scene = Scene::new();
    let _server = scene.serve();
    let mut stream = UnixStream::connect(&scene.path).await.expect("connects");
    let mut sent = 0_usize;
    let header = format!(
        "GET /descriptor HTTP/1.1\r\nHost: x\r\nX-Long: {}",
        "a".repeat(4096)
    );
    let mut failed = stream.write_all(header.as_bytes()).await.is_err();
    while !failed && sent < 64 * 1024 * 1024 {
        failed = stream.write_all(&[b'a'; 4096]).await.is_err();
        sent += 4096;
    }
    assert!(failed, "{sent} bytes of one request were taken");
    assert_eq!(
        fetch(&scene.path, "/descriptor")
            .await
            .expect("answer")
            .status,
        200
    );
}
