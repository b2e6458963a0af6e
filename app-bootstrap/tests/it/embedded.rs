//! The demo on the embedded tuple, as its user runs it.

use crate::support::{countersign, demo_json, eventually, root};
use serde_json::Value;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

fn number(summary: &Value, key: &str) -> u64 {
    summary[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key} is no number in {summary}"))
}

fn in_dir(folder: &Path) -> [&str; 2] {
    ["--data-dir", folder.to_str().expect("UTF-8")]
}

#[test]
fn every_event_of_the_sample_is_accounted_for() {
    let folder = tempfile::tempdir().expect("folder");
    let (summary, output) = demo_json(&in_dir(folder.path()));
    assert!(output.status.success());
    for (key, expected) in [
        ("lines", 12),
        ("committed", 12),
        ("recorded", 12),
        ("retried", 1),
        ("exhausted", 0),
        ("held", 0),
        ("applied", 12),
        ("refused", 0),
        ("brokerRecords", 12),
        ("brokerDuplicates", 0),
        ("lost", 0),
    ] {
        assert_eq!(number(&summary, key), expected, "{key}");
    }
    assert_eq!(summary["accountedFor"], true);
    assert_eq!(summary["events"].as_array().map(Vec::len), Some(12));
    assert!(folder.path().join("countersign.db").is_file());
    assert!(folder.path().join("events.journal").is_file());
}

#[test]
fn a_named_event_that_is_already_there_is_refused_and_nothing_new_is_applied() {
    let folder = tempfile::tempdir().expect("folder");
    demo_json(&in_dir(folder.path()));
    let (summary, output) = demo_json(&in_dir(folder.path()));
    assert!(output.status.success());
    for (key, expected) in [
        ("refused", 12),
        ("knownBefore", 0),
        ("committed", 12),
        ("recorded", 12),
        ("applied", 12),
        ("brokerRecords", 12),
    ] {
        assert_eq!(number(&summary, key), expected, "{key}");
    }
    let refusals = summary["refusals"].as_array().expect("refusals");
    assert!(
        refusals
            .iter()
            .all(|refusal| refusal["pointer"] == "/eventId")
    );
}

/// A line without an event id is its own identity: the same bytes are known, others are not.
#[test]
fn a_line_is_known_by_its_bytes_and_by_nothing_less() {
    let folder = tempfile::tempdir().expect("folder");
    let input = folder.path().join("input.ndjson");
    let line = |id: &str, title: &str| {
        format!(
            "{{\"kind\":\"reserve-work-log\",\"workLogId\":\"{id}\",\"title\":\"{title}\",\
             \"minutes\":5,\"tags\":[],\"occurredAt\":\"2026-07-28T05:10:30.123Z\",\
             \"correlationId\":\"c\"}}\n"
        )
    };
    let run = |lines: &[String]| {
        std::fs::write(&input, lines.concat()).expect("input");
        let mut arguments = vec!["--input", input.to_str().expect("UTF-8")];
        arguments.extend(in_dir(folder.path()));
        let (summary, output) = demo_json(&arguments);
        assert!(output.status.success(), "{summary}");
        ["knownBefore", "refused", "committed"].map(|key| number(&summary, key))
    };
    assert_eq!(run(&[line("a", "one"), line("b", "two")]), [0, 0, 2]);
    assert_eq!(run(&[line("a", "one"), line("c", "three")]), [1, 0, 3]);
    assert_eq!(run(&[line("a", "edited")]), [0, 0, 4]);
    assert_eq!(run(&[line("d", "four"), line("d", "four")]), [0, 1, 5]);
}

#[test]
fn refused_lines_name_line_contract_pointer_and_bound_and_the_run_goes_on() {
    let folder = tempfile::tempdir().expect("folder");
    let input = root().join("examples/portfolio/data/portfolio-with-refusals.ndjson");
    let mut arguments = vec!["--input", input.to_str().expect("UTF-8")];
    arguments.extend(in_dir(folder.path()));
    let (summary, output) = demo_json(&arguments);
    assert!(output.status.success(), "refusals are not failures");
    let refused = number(&summary, "refused");
    assert_eq!(
        refused + number(&summary, "committed"),
        number(&summary, "lines")
    );
    assert_eq!(number(&summary, "recorded"), number(&summary, "committed"));
    let refusals = summary["refusals"].as_array().expect("refusals");
    assert_eq!(refusals.len() as u64, refused);
    let bounded = refusals.iter().any(|refusal| {
        refusal["line"].is_u64()
            && refusal["contract"]
                .as_str()
                .is_some_and(|contract| contract.ends_with("version 1"))
            && refusal["pointer"] == "/title"
            && refusal["rule"]
                .as_str()
                .is_some_and(|rule| rule.starts_with("maxLength is "))
    });
    assert!(bounded, "{refusals:?}");
}

#[test]
fn a_summary_for_people_says_how_each_event_ended() {
    let output = countersign().arg("demo").output().expect("runs");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let starting = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!(starting("ok "), 11, "{text}");
    assert_eq!(starting("retried "), 1, "{text}");
    assert!(text.contains("ends at journal sequence 12"), "{text}");
    assert!(
        text.contains("every committed event is accounted for"),
        "{text}"
    );
}

/// Killed again and again, each time somewhere else; the last run accounts for everything.
#[tokio::test]
async fn a_demo_killed_in_the_middle_is_finished_by_the_next_one() {
    let folder = tempfile::tempdir().expect("folder");
    let input = folder.path().join("input.ndjson");
    let mut file = std::fs::File::create(&input).expect("input");
    for number in 0..150 {
        writeln!(
            file,
            "{{\"kind\":\"reserve-work-log\",\"workLogId\":\"kill-{number}\",\"title\":\"T\",\
             \"minutes\":5,\"tags\":[],\"occurredAt\":\"2026-07-28T05:10:30.123Z\",\
             \"correlationId\":\"kill\"}}"
        )
        .expect("line");
    }
    drop(file);
    let data = folder.path().join("data");
    let journal = data.join("events.journal");
    for size in [1, 20_000, 60_000] {
        let mut child = countersign()
            .args(["demo", "--json", "--input"])
            .arg(&input)
            .arg("--data-dir")
            .arg(&data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        eventually("the journal grows", Duration::from_secs(60), async || {
            let length = std::fs::metadata(&journal).map_or(0, |file| file.len());
            (length >= size || child.try_wait().expect("child").is_some()).then_some(())
        })
        .await;
        child.kill().expect("SIGKILL");
        child.wait().expect("reaped");
    }
    let mut arguments = vec!["--input", input.to_str().expect("UTF-8")];
    arguments.extend(in_dir(&data));
    let (summary, output) = demo_json(&arguments);
    assert!(output.status.success(), "{summary}");
    for key in ["committed", "recorded", "applied"] {
        assert_eq!(number(&summary, key), 150, "{key}");
    }
    assert_eq!(number(&summary, "refused"), 0);
    assert_eq!(number(&summary, "brokerCollisions"), 0);
}

#[test]
fn a_flipped_byte_in_the_journal_is_refused_with_its_layer() {
    let folder = tempfile::tempdir().expect("folder");
    demo_json(&in_dir(folder.path()));
    let journal = folder.path().join("events.journal");
    let mut bytes = std::fs::read(&journal).expect("journal");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&journal, bytes).expect("written");
    let output = countersign()
        .args(["demo", "--json"])
        .args(in_dir(folder.path()))
        .output()
        .expect("runs");
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    let refusal = message
        .lines()
        .find(|line| line.starts_with("countersign: "))
        .unwrap_or_else(|| panic!("no refusal in: {message}"));
    for part in ["the provider cannot be opened", "record ", "at byte "] {
        assert!(refusal.contains(part), "{part} is not in: {refusal}");
    }
    let layers = ["framing", "pde", "integrity", "schema"];
    assert!(
        layers.iter().any(|layer| refusal.contains(layer)),
        "{refusal}"
    );
}

#[test]
fn wrong_calls_and_profiles_are_errors_with_the_reason() {
    for (arguments, expected) in [
        (vec!["demo", "--input", "/nonexistent"], "/nonexistent"),
        (
            vec!["demo", "--profile", "config/profiles/disabled.toml"],
            "DISABLED",
        ),
        (
            vec!["serve", "--profile", "/nonexistent.toml"],
            "cannot be read",
        ),
        (vec!["nonsense"], "nonsense"),
    ] {
        let output = countersign().args(&arguments).output().expect("runs");
        assert!(!output.status.success(), "{arguments:?}");
        let message = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn config_check_opens_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let messaging = root()
        .join("config/messaging")
        .canonicalize()
        .expect("config");
    let text = std::fs::read_to_string(root().join("config/profiles/local-embedded.toml"))
        .expect("profile")
        .replace("../messaging/", &format!("{}/", messaging.display()))
        .replace("../../countersign-data/", "data/");
    let profile = folder.path().join("profile.toml");
    std::fs::write(&profile, text).expect("written");
    let output = countersign()
        .args(["config", "check", "--profile"])
        .arg(&profile)
        .output()
        .expect("runs");
    assert!(output.status.success());
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .expect("folder")
        .map(|entry| entry.expect("entry").file_name())
        .collect();
    assert_eq!(left, ["profile.toml"]);
}

/// A reader that left is an error with its exit code, never a panic.
#[test]
fn a_closed_standard_output_is_no_panic() {
    let full = || {
        std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full")
    };
    for arguments in [&["config", "check"][..], &["demo"], &["demo", "--json"]] {
        let output = countersign()
            .args(arguments)
            .stdout(full())
            .stderr(Stdio::piped())
            .output()
            .expect("runs");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(!message.contains("panicked"), "{message}");
    }
}
