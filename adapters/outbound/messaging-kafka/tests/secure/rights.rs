//! Access rules, set over the broker's own protocol.
//!
//! Invariant: a change is acknowledged by the broker, each rule by itself, before it counts.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// What a principal may do with a topic, by the protocol's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Operation {
    Write = 4,
    Describe = 8,
    DescribeConfigs = 10,
}

/// All that a producer needs of its topic.
pub(crate) const PRODUCER: [Operation; 3] = [
    Operation::Describe,
    Operation::DescribeConfigs,
    Operation::Write,
];

const TOPIC: u8 = 2;
const LITERAL: u8 = 3;
const ALLOW: u8 = 3;
const CREATE_ACLS: u16 = 30;
const DELETE_ACLS: u16 = 31;

/// Lets a user do this with exactly one topic.
pub(crate) fn grant(broker: SocketAddr, user: &str, topic: &str, operations: &[Operation]) {
    let answer = change(broker, CREATE_ACLS, user, topic, operations);
    let mut answer = answer.as_slice();
    for _ in 0..array(&mut answer) {
        assert_eq!(number(&mut answer, 2), 0, "the rule was refused");
        text(&mut answer);
    }
}

/// Takes it back.
pub(crate) fn revoke(broker: SocketAddr, user: &str, topic: &str, operations: &[Operation]) {
    let answer = change(broker, DELETE_ACLS, user, topic, operations);
    let mut answer = answer.as_slice();
    for _ in 0..array(&mut answer) {
        assert_eq!(number(&mut answer, 2), 0, "the rule was kept");
        text(&mut answer);
        assert_eq!(array(&mut answer), 1, "one rule matches");
        assert_eq!(number(&mut answer, 2), 0, "the rule was kept");
        text(&mut answer);
        answer = &answer[1..];
        text(&mut answer);
        answer = &answer[1..];
        text(&mut answer);
        text(&mut answer);
        answer = &answer[2..];
    }
}

/// One request of version 1 with one entry for each operation; the answer behind its throttle time.
fn change(
    broker: SocketAddr,
    key: u16,
    user: &str,
    topic: &str,
    operations: &[Operation],
) -> Vec<u8> {
    let mut request = Vec::new();
    request.extend(key.to_be_bytes());
    request.extend(1_u16.to_be_bytes());
    request.extend(7_u32.to_be_bytes());
    put(&mut request, "rights");
    let count = u32::try_from(operations.len()).expect("few");
    request.extend(count.to_be_bytes());
    for operation in operations {
        request.push(TOPIC);
        put(&mut request, topic);
        request.push(LITERAL);
        put(&mut request, &format!("User:{user}"));
        put(&mut request, "*");
        request.extend([*operation as u8, ALLOW]);
    }
    let mut stream = TcpStream::connect(broker).expect("connect");
    let limit = Some(Duration::from_secs(30));
    stream.set_read_timeout(limit).expect("a bounded wait");
    let length = u32::try_from(request.len()).expect("short");
    stream.write_all(&length.to_be_bytes()).expect("write");
    stream.write_all(&request).expect("write");
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("an answer");
    let mut answer = vec![0; usize::try_from(u32::from_be_bytes(length)).expect("short")];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer[..4], 7_u32.to_be_bytes(), "another answer");
    answer.split_off(8)
}

fn put(request: &mut Vec<u8>, text: &str) {
    request.extend(u16::try_from(text.len()).expect("short").to_be_bytes());
    request.extend(text.as_bytes());
}

fn number(answer: &mut &[u8], bytes: usize) -> i64 {
    let (head, rest) = answer.split_at(bytes);
    *answer = rest;
    let negative = head[0] & 0x80 != 0;
    let start = if negative { -1 } else { 0 };
    head.iter()
        .fold(start, |number, byte| (number << 8) | i64::from(*byte))
}

fn array(answer: &mut &[u8]) -> i64 {
    let count = number(answer, 4);
    assert!(count > 0, "an answer without entries");
    count
}

fn text(answer: &mut &[u8]) {
    let length = usize::try_from(number(answer, 2)).unwrap_or(0);
    *answer = &answer[length..];
}
