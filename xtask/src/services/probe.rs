//! Asking a port whether the right server answers there, and choosing free ports.
//!
//! Invariant: a probe speaks the server's own protocol; that something accepts a connection is
//! never taken for an answer.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::{Context, Result, bail};

const PATIENCE: Duration = Duration::from_secs(5);

/// Below the range that the kernel gives to outgoing connections, so that a port found free
/// is not taken by a client between the look and the server's own bind.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A loopback port that nobody listens on and that is not in `taken`.
pub(crate) fn free_port(taken: &[u16]) -> Result<u16> {
    for _ in 0..200 {
        let random = u16::from_le_bytes(random_bytes()?);
        let port = PORTS.start + random % (PORTS.end - PORTS.start);
        if !taken.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free loopback port found in {PORTS:?}")
}

/// Bytes from the kernel's generator.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("read /dev/urandom")?;
    Ok(bytes)
}

/// Whether a PostgreSQL server answers an SSLRequest (PostgreSQL protocol 3.0, §55.7) there.
pub(crate) fn postgres_answers(address: &str) -> bool {
    let ask = || -> Result<bool> {
        let mut stream = connect(address)?;
        stream.write_all(&8_u32.to_be_bytes())?;
        stream.write_all(&80_877_103_u32.to_be_bytes())?;
        let mut answer = [0; 1];
        stream.read_exact(&mut answer)?;
        Ok(matches!(answer[0], b'S' | b'N'))
    };
    ask().unwrap_or(false)
}

/// Whether a Kafka broker answers an ApiVersions request, version 0, without an error there.
pub(crate) fn kafka_answers(address: &str) -> bool {
    const API_VERSIONS: u16 = 18;
    const CORRELATION: u32 = 0x636f_756e;
    let ask = || -> Result<bool> {
        let mut request = Vec::new();
        request.extend(API_VERSIONS.to_be_bytes());
        request.extend(0_u16.to_be_bytes());
        request.extend(CORRELATION.to_be_bytes());
        request.extend(5_u16.to_be_bytes());
        request.extend(b"xtask");
        let mut stream = connect(address)?;
        stream.write_all(&u32::try_from(request.len())?.to_be_bytes())?;
        stream.write_all(&request)?;
        let mut answer = [0; 10];
        stream.read_exact(&mut answer)?;
        Ok(answer[4..8] == CORRELATION.to_be_bytes() && answer[8..10] == [0, 0])
    };
    ask().unwrap_or(false)
}

/// Connects to `host:port` with a time limit on every step.
pub(crate) fn connect(address: &str) -> Result<TcpStream> {
    let candidates: Vec<SocketAddr> = address
        .to_socket_addrs()
        .with_context(|| format!("resolve {address}"))?
        .collect();
    for candidate in &candidates {
        if let Ok(stream) = TcpStream::connect_timeout(candidate, PATIENCE) {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            return Ok(stream);
        }
    }
    bail!("nothing listens on {address}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server of one connection that reads `expect` bytes and answers with `answer`.
    fn serve_once(expect: usize, answer: &'static [u8]) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut vec![0; expect]).unwrap();
            stream.write_all(answer).unwrap();
        });
        address
    }

    #[test]
    fn postgres_is_known_by_its_answer_to_an_ssl_request() {
        assert!(postgres_answers(&serve_once(8, b"N")));
        assert!(!postgres_answers(&serve_once(8, b"H")));
    }

    #[test]
    fn kafka_is_known_by_the_correlation_id_it_returns() {
        assert!(kafka_answers(&serve_once(19, b"\0\0\0\x20coun\0\0")));
        assert!(!kafka_answers(&serve_once(19, b"\0\0\0\x20coun\0\x23")));
        assert!(!kafka_answers(&serve_once(19, b"HTTP/1.1 400")));
    }

    #[test]
    fn a_free_port_is_none_of_the_taken_ones() {
        let first = free_port(&[]).unwrap();
        assert!(PORTS.contains(&first));
        assert_ne!(free_port(&[first]).unwrap(), first);
    }
}
