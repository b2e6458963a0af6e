//! The record as a client that is not ours prints it.
//!
//! Invariant: Kafka's own console consumer is the witness; nothing of this workspace parses the
//! record.

use crate::fixture::{Fixture, OCCURRED_MILLIS, PARENT, event};
use crate::topic::{Topic, environment};
use std::process::Stdio;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kafkas_own_console_prints_key_headers_time_and_bytes() {
    let topic = Topic::create(1, &[]).await;
    let fixture = Fixture::start(&topic, 1).await;
    let sent = event(
        "e-console",
        "w-1",
        "{\"title\":\"작업 ✓\"}".as_bytes().to_vec(),
    );
    let outcome = fixture.publish(sent.clone(), Duration::from_secs(30)).await;
    assert!(outcome.receipt().is_some(), "{outcome:?}");
    let properties = [
        "print.timestamp=true",
        "print.partition=true",
        "print.offset=true",
        "print.headers=true",
        "print.key=true",
        "key.separator=|",
        "headers.separator=;",
    ];
    let mut console = tokio::process::Command::new("java");
    console
        .args([
            "-Xmx128m",
            "-Dfile.encoding=UTF-8",
            "-Dstdout.encoding=UTF-8",
            "-cp",
        ])
        .arg(environment("COUNTERSIGN_TEST_KAFKA_CLASSPATH"))
        .arg("org.apache.kafka.tools.consumer.ConsoleConsumer")
        .args(["--bootstrap-server", &topic.bootstrap])
        .args(["--topic", &topic.name])
        .args(["--from-beginning", "--max-messages", "1"])
        .args(["--timeout-ms", "30000"])
        .args(properties.iter().flat_map(|p| ["--formatter-property", p]))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(60), console.output())
        .await
        .expect("the console ends")
        .expect("the console starts");
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    let expected = format!(
        "CreateTime:{OCCURRED_MILLIS}|Partition:0|Offset:0|id:e-console;\
         contract-id:portfolio.worklog.reserved;payload-version:2;traceparent:{PARENT};\
         tracestate:vendor=1|{}|{{\"title\":\"작업 ✓\"}}",
        sent.partition_key.as_str()
    );
    assert_eq!(printed.trim_end(), expected);
    fixture.producer.shut_down().await;
}
