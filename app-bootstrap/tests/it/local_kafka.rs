//! The demo on PostgreSQL and Kafka, read back by a consumer that is not ours.

use crate::support::{KafkaScene, demo_json, environment};
use std::collections::BTreeSet;
use std::process::Command;

#[tokio::test(flavor = "multi_thread")]
async fn every_event_reaches_kafka_and_another_consumer_reads_it() {
    let scene = KafkaScene::create().await;
    let profile = scene.profile.to_str().expect("UTF-8").to_owned();
    let run = move || demo_json(&["--profile", &profile]);
    let (summary, output) = tokio::task::spawn_blocking(run).await.expect("demo");
    assert!(output.status.success(), "{summary}");
    assert_eq!(summary["committed"], 12);
    assert_eq!(summary["recorded"], 12);
    assert_eq!(summary["retried"], 1);
    assert_eq!(summary["applied"], serde_json::Value::Null);
    assert_eq!(summary["brokerRecords"], 12);
    let printed = console(&scene, 12);
    let ids: BTreeSet<_> = printed
        .lines()
        .filter_map(|line| line.split("id:").nth(1)?.split(',').next())
        .collect();
    let events = summary["events"].as_array().expect("events");
    let expected: BTreeSet<_> = events
        .iter()
        .filter_map(|event| event["eventId"].as_str())
        .collect();
    assert_eq!(ids, expected, "{printed}");
    scene.remove().await;
}

/// The same over the window claim card.
#[tokio::test(flavor = "multi_thread")]
async fn every_event_reaches_kafka_through_windows() {
    let scene = KafkaScene::with_windows().await;
    let profile = scene.profile.to_str().expect("UTF-8").to_owned();
    let run = move || demo_json(&["--profile", &profile]);
    let (summary, output) = tokio::task::spawn_blocking(run).await.expect("demo");
    assert!(output.status.success(), "{summary}");
    assert_eq!(summary["committed"], 12);
    assert_eq!(summary["recorded"], 12);
    assert_eq!(summary["retried"], 1);
    assert_eq!(summary["brokerRecords"], 12);
    let printed = console(&scene, 12);
    assert_eq!(
        printed
            .lines()
            .filter(|line| line.starts_with("id:"))
            .count(),
        12,
        "{printed}"
    );
    scene.remove().await;
}

/// Kafka's own console consumer.
fn console(scene: &KafkaScene, records: usize) -> String {
    let output = Command::new("java")
        .args(["-Xmx128m", "-cp"])
        .arg(environment("COUNTERSIGN_TEST_KAFKA_CLASSPATH"))
        .arg("org.apache.kafka.tools.consumer.ConsoleConsumer")
        .args(["--bootstrap-server", &scene.bootstrap])
        .args(["--topic", &scene.topic, "--from-beginning"])
        .args([
            "--max-messages",
            &records.to_string(),
            "--timeout-ms",
            "30000",
        ])
        .args(["--formatter-property", "print.headers=true"])
        .args(["--formatter-property", "print.key=true"])
        .output()
        .expect("java starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
