//! Full load on a real broker, within the bytes that the settings add up to.
//!
//! Invariant: the client never holds more than its buffer, whoever presses it, and a process that
//! sends as much as its permits allow stays within the computed bound.

use crate::fixture::{Fixture, destination, event, settings};
use crate::topic::Topic;
use application_core::ports::OutboxMessagePublishPort as _;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// What makes the test process the one that is measured.
const MEASURED: &str = "COUNTERSIGN_TEST_MEASURED_PROCESS";

/// More publishers than the buffer has room for, without permits: the worst caller there can be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_never_holds_more_bytes_than_its_buffer() {
    let topic = Topic::create(2, &[]).await;
    let mut pressed = settings(&topic.bootstrap);
    pressed.max_block_timeout = LIMIT;
    pressed.buffer_memory_bytes = 2 << 20;
    let buffer = 2 << 20;
    let fixture = Arc::new(Fixture::build(pressed, destination(&topic.name, 2)));
    fixture.producer.start().await.expect("start");
    let mut sending = tokio::task::JoinSet::new();
    for number in 0..150_u32 {
        let fixture = Arc::clone(&fixture);
        sending.spawn(async move {
            // Small and large ones, none of which is starved by the others.
            let bytes = if number % 10 == 0 { 700_000 } else { 60_000 };
            let sent = event(
                &format!("e-{number}"),
                &format!("w-{number}"),
                vec![b'x'; bytes],
            );
            let outcome = fixture.publish(sent, LIMIT).await;
            let usage = fixture.producer.usage().expect("a generation");
            assert!(usage.bytes <= buffer, "{usage:?}");
            outcome
        });
    }
    for outcome in sending.join_all().await {
        assert!(outcome.receipt().is_some(), "{outcome:?}");
    }
    let usage = fixture.producer.usage().expect("a generation");
    assert!(usage.most_bytes <= buffer, "{usage:?}");
    // The load was a full one.
    assert!(usage.most_bytes > buffer / 2, "{usage:?}");
    fixture.producer.shut_down().await;
}

/// A process of its own, so that nothing else is measured.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_load_stays_within_the_computed_memory() {
    if std::env::var_os(MEASURED).is_some() {
        return measured().await;
    }
    let this = std::env::current_exe().expect("this test");
    let output = tokio::process::Command::new(this)
        .args([
            "--exact",
            "memory::full_load_stays_within_the_computed_memory",
            "--nocapture",
        ])
        .env(MEASURED, "1")
        .output()
        .await
        .expect("starts");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && told.contains("measured:"),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

async fn measured() {
    const RECORD: usize = 100_000;
    let topic = Topic::create(2, &[]).await;
    let mut full = settings(&topic.bootstrap);
    full.maximum_admitted_records = 76;
    full.maximum_buffered_records = 100;
    full.admission_timeout = LIMIT;
    let fixture = Arc::new(Fixture::build(full, destination(&topic.name, 2)));
    let largest = u32::try_from(RECORD).expect("small") + 1_024;
    let bound = fixture.memory_bound(largest);
    fixture.producer.start().await.expect("start");
    let before = status_bytes("VmRSS");
    let mut sending = tokio::task::JoinSet::new();
    for worker in 0..80 {
        let fixture = Arc::clone(&fixture);
        // Hashed once: an unoptimized hash is slower than the broker.
        let base = event("e", &format!("w-{worker}"), vec![b'x'; RECORD]);
        sending.spawn(async move {
            for _ in 0..25 {
                let permit = fixture.permit().await;
                let request = fixture.request(base.clone(), LIMIT);
                let outcome = fixture.publisher.publish(&request).await;
                assert!(outcome.receipt().is_some(), "{outcome:?}");
                drop((request, permit));
            }
        });
    }
    sending.join_all().await;
    let usage = fixture.producer.usage().expect("a generation");
    let grown = status_bytes("VmHWM").saturating_sub(before);
    println!("measured: {grown} of {} bytes, {usage:?}", bound.total());
    assert!(grown <= bound.total(), "{grown} of {bound:?}");
    // The load reached the client's buffer.
    assert!(usage.most_bytes > 4 << 20, "{usage:?}");
    fixture.producer.shut_down().await;
}

/// One line of `/proc/self/status`, in bytes.
fn status_bytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc");
    let line = status
        .lines()
        .find(|line| line.starts_with(name))
        .expect("the line");
    let kib = line.split_whitespace().nth(1).expect("a number");
    kib.parse::<u64>().expect("a number") * 1_024
}
