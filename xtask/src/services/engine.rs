//! Talking to a Docker engine: whether one answers, and a socket for clients that are newer.
//!
//! The testing library asks for the newest API version it knows and does not negotiate; an
//! engine refuses every version above its own. The [`Downgrade`] socket stands between them
//! and lowers the version in each request's path to what the engine offers.
//!
//! Invariant: the socket changes only the version and, so that a connection carries one
//! request, the `Connection` header; everything else passes byte for byte.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::probe;

const PATIENCE: Duration = Duration::from_secs(5);

/// Where an engine listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EngineAddress {
    /// A socket of this machine.
    Unix(PathBuf),
    /// `host:port`, without TLS.
    Tcp(String),
}

/// An API version, as major and minor.
pub(crate) type ApiVersion = (u32, u32);

impl EngineAddress {
    /// `DOCKER_HOST`, or the usual socket. `None` for a scheme that is not spoken here.
    pub(crate) fn from_environment() -> Option<Self> {
        match std::env::var("DOCKER_HOST") {
            Ok(value) if !value.is_empty() => Self::parse(&value),
            _ => Some(Self::Unix(PathBuf::from("/var/run/docker.sock"))),
        }
    }

    fn parse(value: &str) -> Option<Self> {
        if let Some(path) = value.strip_prefix("unix://") {
            return Some(Self::Unix(PathBuf::from(path)));
        }
        let rest = value
            .strip_prefix("tcp://")
            .or_else(|| value.strip_prefix("http://"))?;
        Some(Self::Tcp(rest.trim_end_matches('/').to_owned()))
    }

    /// The value for `DOCKER_HOST`.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Unix(path) => format!("unix://{}", path.display()),
            Self::Tcp(address) => format!("tcp://{address}"),
        }
    }

    /// The API version of the engine that answers there; `None` when none does.
    pub(crate) fn api_version(&self) -> Option<ApiVersion> {
        let ask = || -> Result<String> {
            let mut stream = self.connect()?;
            stream.write(b"GET /version HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n")?;
            stream.read_to_end()
        };
        let answer = ask().ok()?;
        answer.starts_with("HTTP/1.1 200").then_some(())?;
        parse_version(
            answer
                .split("\"ApiVersion\":\"")
                .nth(1)?
                .split('"')
                .next()?,
        )
    }

    fn connect(&self) -> Result<Stream> {
        Ok(match self {
            Self::Unix(path) => {
                let stream = UnixStream::connect(path)
                    .with_context(|| format!("connect to {}", path.display()))?;
                Stream::Unix(stream)
            }
            Self::Tcp(address) => Stream::Tcp(probe::connect(address)?),
        })
    }
}

impl std::fmt::Display for EngineAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.url())
    }
}

/// A socket that speaks any API version and hands requests to an engine in the engine's own.
pub(crate) struct Downgrade {
    address: EngineAddress,
    folder: PathBuf,
}

impl Downgrade {
    /// Opens the socket in a folder that only this user can enter; threads serve it until the
    /// process ends.
    pub(crate) fn start(engine: EngineAddress, offered: ApiVersion) -> Result<Self> {
        let name = format!(
            "countersign-engine-{:016x}",
            u64::from_le_bytes(probe::random_bytes()?)
        );
        let folder = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new()
            .create(&folder)
            .with_context(|| format!("create {}", folder.display()))?;
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700))
            .context("close the folder to others")?;
        let socket = folder.join("docker.sock");
        let listener = UnixListener::bind(&socket)
            .with_context(|| format!("listen on {}", socket.display()))?;
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let engine = engine.clone();
                std::thread::spawn(move || {
                    if let Err(error) = relay(client, &engine, offered) {
                        eprintln!("docker socket: {error:#}");
                    }
                });
            }
        });
        Ok(Self {
            address: EngineAddress::Unix(socket),
            folder,
        })
    }

    /// Where clients connect to.
    pub(crate) fn address(&self) -> &EngineAddress {
        &self.address
    }
}

impl Drop for Downgrade {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            eprintln!("remove {}: {error}", self.folder.display());
        }
    }
}

fn relay(client: UnixStream, engine: &EngineAddress, offered: ApiVersion) -> Result<()> {
    let mut reader = BufReader::new(client.try_clone().context("share a connection")?);
    let Some(head) = read_head(&mut reader)? else {
        return Ok(());
    };
    let mut upstream = engine.connect()?;
    upstream.forget_limits()?;
    upstream.write(rewrite_head(&head, offered).as_bytes())?;

    let mut to_client = client;
    let mut from_engine = upstream.share()?;
    let answers = std::thread::spawn(move || {
        // A side that went away ends the copy; the other side sees the shutdown.
        let _ = from_engine.copy_to(&mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    let _ = upstream.copy_from(&mut reader);
    upstream.finish_writing();
    if answers.join().is_err() {
        bail!("the answering half panicked");
    }
    Ok(())
}

/// The request line and the headers, the empty line included; `None` at end of input.
fn read_head(reader: &mut impl std::io::BufRead) -> Result<Option<String>> {
    let mut head = String::new();
    loop {
        let before = head.len();
        let read = reader
            .take(65_536)
            .read_line(&mut head)
            .context("read a request")?;
        if read == 0 {
            if head.is_empty() {
                return Ok(None);
            }
            bail!("a request ended in its headers");
        }
        if head.len() > 65_536 {
            bail!("a request has too many headers");
        }
        if matches!(&head[before..], "\r\n" | "\n") {
            return Ok(Some(head));
        }
    }
}

fn rewrite_head(head: &str, offered: ApiVersion) -> String {
    let upgrades = head.lines().any(|line| is_header(line, "upgrade"));
    let mut rewritten = String::with_capacity(head.len() + 32);
    for (index, line) in head.split_inclusive('\n').enumerate() {
        if index == 0 {
            rewritten.push_str(&rewrite_request_line(line, offered));
            if !upgrades {
                rewritten.push_str("Connection: close\r\n");
            }
        } else if upgrades || !is_header(line, "connection") {
            rewritten.push_str(line);
        }
    }
    rewritten
}

fn rewrite_request_line(line: &str, offered: ApiVersion) -> String {
    let Some((method, rest)) = line.split_once(' ') else {
        return line.to_owned();
    };
    let Some((version, path)) = rest
        .strip_prefix("/v")
        .and_then(|rest| rest.split_once('/'))
    else {
        return line.to_owned();
    };
    match parse_version(version) {
        Some(asked) if asked > offered => format!("{method} /v{}.{}/{path}", offered.0, offered.1),
        _ => line.to_owned(),
    }
}

fn is_header(line: &str, name: &str) -> bool {
    line.split_once(':')
        .is_some_and(|(found, _)| found.trim().eq_ignore_ascii_case(name))
}

fn parse_version(text: &str) -> Option<ApiVersion> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Unix(stream) => stream.write_all(bytes),
            Self::Tcp(stream) => stream.write_all(bytes),
        }
        .context("write to the engine")
    }

    fn read_to_end(&mut self) -> Result<String> {
        let mut answer = String::new();
        match self {
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.read_to_string(&mut answer)
            }
            Self::Tcp(stream) => stream.read_to_string(&mut answer),
        }
        .context("read from the engine")?;
        Ok(answer)
    }

    /// A request may wait for minutes, for example for a container's end.
    fn forget_limits(&self) -> Result<()> {
        if let Self::Tcp(stream) = self {
            stream.set_read_timeout(None)?;
            stream.set_write_timeout(None)?;
        }
        Ok(())
    }

    fn share(&self) -> Result<Self> {
        Ok(match self {
            Self::Unix(stream) => Self::Unix(stream.try_clone().context("share a connection")?),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone().context("share a connection")?),
        })
    }

    fn copy_to(&mut self, to: &mut impl Write) -> std::io::Result<u64> {
        match self {
            Self::Unix(stream) => std::io::copy(stream, to),
            Self::Tcp(stream) => std::io::copy(stream, to),
        }
    }

    fn copy_from(&mut self, from: &mut impl Read) -> std::io::Result<u64> {
        match self {
            Self::Unix(stream) => std::io::copy(from, stream),
            Self::Tcp(stream) => std::io::copy(from, stream),
        }
    }

    fn finish_writing(&self) {
        // The peer may have closed already, which is what this asks for.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_newer_version_is_lowered() {
        let lowered = rewrite_request_line(
            "POST /v1.53/containers/create?name=v1.53 HTTP/1.1\r\n",
            (1, 41),
        );
        assert_eq!(
            lowered,
            "POST /v1.41/containers/create?name=v1.53 HTTP/1.1\r\n"
        );
        for kept in [
            "GET /v1.40/info HTTP/1.1\r\n",
            "GET /_ping HTTP/1.1\r\n",
            "GET /vol/x HTTP/1.1\r\n",
        ] {
            assert_eq!(rewrite_request_line(kept, (1, 41)), kept);
        }
    }

    #[test]
    fn a_plain_request_closes_its_connection_and_an_upgrade_does_not() {
        let plain = "GET /v1.53/info HTTP/1.1\r\nHost: x\r\nconnection: keep-alive\r\n\r\n";
        assert_eq!(
            rewrite_head(plain, (1, 41)),
            "GET /v1.41/info HTTP/1.1\r\nConnection: close\r\nHost: x\r\n\r\n"
        );
        let upgrade =
            "POST /v1.53/exec/1/start HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";
        assert_eq!(
            rewrite_head(upgrade, (1, 41)),
            upgrade.replace("1.53", "1.41")
        );
    }

    #[test]
    fn an_engine_is_asked_through_the_socket_in_its_own_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let engine = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let head = read_head(&mut reader).unwrap().unwrap();
            let mut stream = stream;
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nbody").unwrap();
            head
        });
        let socket = Downgrade::start(EngineAddress::Unix(path), (1, 41)).unwrap();
        let mut client = socket.address().connect().unwrap();
        client.write(b"GET /v9.9/info HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(client.read_to_end().unwrap(), "HTTP/1.1 200 OK\r\n\r\nbody");
        assert!(
            engine
                .join()
                .unwrap()
                .starts_with("GET /v1.41/info HTTP/1.1\r\n")
        );
    }

    #[test]
    fn nothing_answers_where_nothing_listens() {
        let nowhere = EngineAddress::Unix(PathBuf::from("/nonexistent/docker.sock"));
        assert_eq!(nowhere.api_version(), None);
        assert_eq!(EngineAddress::parse("ssh://host"), None);
        assert_eq!(
            EngineAddress::parse("tcp://127.0.0.1:2375"),
            Some(EngineAddress::Tcp("127.0.0.1:2375".to_owned()))
        );
    }
}
