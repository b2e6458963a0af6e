//! `countersign describe` and the socket behind it, through the real binary.

use crate::support::{KafkaScene, Running, countersign, eventually, root};
use serde_json::Value;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const EMBEDDED: &str = "config/profiles/local-embedded.toml";

fn run(arguments: &[&str]) -> Output {
    countersign()
        .env("RUST_LOG", "warn")
        .args(arguments)
        .output()
        .expect("runs")
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a running process says; nothing while nobody serves.
fn described(arguments: &[&str]) -> Option<Value> {
    let output = run(&[&["describe", "--json"], arguments].concat());
    output
        .status
        .success()
        .then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn serve(arguments: &[&str], log: &Path) -> Running {
    let child = countersign()
        .arg("serve")
        .args(arguments)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(log).expect("log"))
        .spawn()
        .expect("starts");
    Running(child)
}

async fn in_state(arguments: &[&str], state: &str) -> Value {
    eventually(state, LIMIT, async || {
        described(arguments).filter(|one| one["running"]["runtimeState"] == state)
    })
    .await
}

fn signal(process: &Running, name: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), &process.0.id().to_string()])
        .status()
        .expect("kill");
    assert!(status.success());
}

#[test]
fn offline_shows_what_the_profile_compiles_to() {
    let output = run(&["describe", "--offline", "--json", "--profile", EMBEDDED]);
    assert!(output.status.success(), "{}", said(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["expectedState"], "ACTIVE");
    assert_eq!(document["promotion"], "not promoted");
    assert_eq!(document["tupleId"], "embedded-development.v1");
    assert_eq!(document["evidenceFingerprint"], "");
    assert_eq!(document["evidenceStatus"], "none");
    assert_eq!(document["running"], Value::Null);
    let cards = document["cards"].as_array().expect("cards");
    assert_eq!(cards.len(), 10);
    assert!(
        cards
            .iter()
            .all(|card| card["maturity"] == "implemented-candidate")
    );
    for hash in ["contractCatalogHash", "schemaSetHash", "settingsDigest"] {
        assert_eq!(document[hash].as_str().map(str::len), Some(64), "{hash}");
    }
    assert_eq!(
        document["destinations"][0],
        serde_json::json!({
            "destinationId": "portfolio-domain-events", "current": true, "topic": null,
            "bindingRevision": "portfolio-domain-events-r1",
        })
    );
    let promised = document["explicitNonGuarantees"].as_array().expect("texts");
    assert!(promised.iter().any(|text| text == "eventual publication"));
    let text = said(&run(&["describe", "--offline", "--profile", EMBEDDED]).stdout);
    assert!(text.contains("promotion: not promoted"), "{text}");
    assert!(text.contains("cardId journal-acknowledged.v1"), "{text}");
}

#[test]
fn nobody_serving_is_said_with_the_way_out() {
    let folder = tempfile::tempdir().expect("folder");
    let folder = folder.path().to_str().expect("UTF-8");
    let output = run(&["describe", "--profile", EMBEDDED, "--data-dir", folder]);
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output.stderr);
    for part in [
        "countersign serve",
        "--offline",
        "nobody serves at",
        "countersign.sock",
    ] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    assert!(output.stdout.is_empty());
}

#[test]
fn a_disabled_profile_is_described_as_that() {
    let profile = "config/profiles/disabled.toml";
    for arguments in [
        vec!["describe", "--profile", profile],
        vec!["describe", "--offline", "--profile", profile],
    ] {
        let output = run(&arguments);
        assert!(output.status.success());
        assert_eq!(said(&output.stdout), "expectedState: DISABLED\n");
    }
}

/// From a stale file over ready to the end of the process.
#[tokio::test]
async fn a_running_process_describes_itself() {
    let folder = tempfile::tempdir().expect("folder");
    let data = folder.path().join("data");
    let arguments = [
        "--profile",
        EMBEDDED,
        "--data-dir",
        data.to_str().expect("UTF-8"),
    ];
    let log = folder.path().join("log");
    let first = serve(&arguments, &log);
    in_state(&arguments, "ACTIVE_READY").await;
    let socket = data.join("run/countersign.sock");
    let metadata = std::fs::metadata(&socket).expect("socket");
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    drop(first); // by SIGKILL
    assert!(socket.exists(), "a killed process leaves its socket");
    assert!(described(&arguments).is_none());

    let mut second = serve(&arguments, &log);
    let ready = in_state(&arguments, "ACTIVE_READY").await;
    let offline: Value = serde_json::from_slice(
        &run(&["describe", "--offline", "--json", "--profile", EMBEDDED]).stdout,
    )
    .expect("JSON");
    for (name, value) in offline.as_object().expect("members") {
        assert_eq!(&ready[name], value, "{name}");
    }
    let running = &ready["running"];
    assert_eq!(running["reasons"], serde_json::json!([]));
    assert_eq!(running["dispatchAuthority"], "POLLING_V2");
    assert!(
        running["publicationEpoch"]
            .as_i64()
            .is_some_and(|epoch| epoch >= 0)
    );
    for text in ["producerGeneration", "transactionResourceId"] {
        assert!(
            running[text].as_str().is_some_and(|text| !text.is_empty()),
            "{text}"
        );
    }
    let fetched = inbound_operator_http::fetch(&socket, "/readiness")
        .await
        .expect("answer");
    assert_eq!(fetched.status, 200);
    signal(&second, "TERM");
    let ended = eventually("it ends", LIMIT, async || {
        second.0.try_wait().expect("waits")
    })
    .await;
    assert!(ended.success());
    assert!(!socket.exists(), "an orderly end removes the socket");
}

/// The socket's place is refused like any other contradiction, before the store opens.
#[test]
fn a_socket_that_cannot_be_made_stops_the_start() {
    let folder = tempfile::tempdir().expect("folder");
    let messaging = root()
        .join("config/messaging")
        .canonicalize()
        .expect("config");
    let text = std::fs::read_to_string(root().join(EMBEDDED))
        .expect("profile")
        .replace("../messaging/", &format!("{}/", messaging.display()))
        .replace(
            "../../countersign-data",
            &folder.path().join("data").display().to_string(),
        );
    let file = folder.path().join("profile.toml");
    let taken = folder.path().join("taken");
    std::fs::write(&taken, "kept").expect("file");
    for path in [
        taken.clone(),
        taken.join("below.sock"),
        PathBuf::from("x".repeat(120)),
    ] {
        let key = format!("descriptor-socket = \"{}\"\nexpected-state", path.display());
        std::fs::write(&file, text.replacen("expected-state", &key, 1)).expect("profile");
        let output = run(&["serve", "--profile", file.to_str().expect("UTF-8")]);
        assert_eq!(output.status.code(), Some(1));
        let error = said(&output.stderr);
        assert!(error.contains("[DESCRIPTOR_SOCKET]"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&taken).expect("there"), "kept");
    assert!(!folder.path().join("data").exists(), "the store was opened");
}

fn rewrite(scene: &KafkaScene, from: &str, to: &str) {
    let text = std::fs::read_to_string(&scene.profile).expect("profile");
    assert!(text.contains(from), "{from} is not in the profile");
    std::fs::write(&scene.profile, text.replace(from, to)).expect("profile");
}

/// Two processes of one profile: the second runs, and says that it is not described.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_sensitive_is_described() {
    let scene = KafkaScene::create().await;
    rewrite(
        &scene,
        "binding-revision",
        "sensitive = true\nbinding-revision",
    );
    let profile = scene.profile.to_str().expect("UTF-8").to_owned();
    let arguments = ["--profile", profile.as_str()];
    let log = scene.folder.path().join("log");
    let first = serve(&arguments, &log);
    let ready = in_state(&arguments, "ACTIVE_READY").await;
    let second_log = scene.folder.path().join("second");
    let second = serve(&arguments, &second_log);
    eventually("the second one runs", LIMIT, async || {
        let text = std::fs::read_to_string(&second_log).expect("log");
        (text.contains("relay started") && text.contains("is not described")).then_some(())
    })
    .await;
    let alias = ready["destinations"][0]["topic"]
        .as_str()
        .expect("an alias");
    assert!(alias.starts_with("topic-") && alias.len() == 22, "{alias}");
    assert!(
        ready["versions"]["librdkafka"]
            .as_str()
            .is_some_and(|text| text.starts_with("2."))
    );
    let text = said(&run(&["describe", "--profile", &profile]).stdout);
    let offline = said(&run(&["describe", "--offline", "--json", "--profile", &profile]).stdout);
    let logs = [&log, &second_log].map(|path| std::fs::read_to_string(path).expect("log"));
    let password = scene
        .url
        .split_once("://")
        .and_then(|(_, rest)| rest.split_once('@'))
        .and_then(|(user, _)| user.split_once(':'))
        .map(|(_, password)| password.to_owned())
        .expect("a URL with a password");
    for shown in [&ready.to_string(), &text, &offline] {
        for secret in [
            &scene.topic,
            &scene.bootstrap,
            &scene.url,
            &"secret://".to_owned(),
        ] {
            assert!(!shown.contains(secret.as_str()), "{secret} is in {shown}");
        }
        assert!(!shown.contains(&password));
    }
    for shown in &logs {
        assert!(
            !shown.contains(&scene.topic) && !shown.contains(&password),
            "{shown}"
        );
        assert!(shown.contains(alias), "{shown}");
    }
    drop((first, second));

    // A fault names the alias as well.
    rewrite(&scene, &scene.topic.clone(), "portfolio.not-there");
    let output = run(&["serve", "--profile", &profile]);
    let error = said(&output.stderr);
    assert!(!output.status.success(), "{error}");
    assert!(
        error.contains("topic-") && !error.contains("not-there"),
        "{error}"
    );
    scene.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_away_leaves_the_process_active_and_not_ready() {
    let scene = KafkaScene::create().await;
    let endpoints = scene.folder.path().join("endpoints.toml");
    let text = std::fs::read_to_string(&endpoints).expect("endpoints");
    std::fs::write(&endpoints, text.replace(&scene.bootstrap, "127.0.0.1:9")).expect("endpoints");
    let profile = scene.profile.to_str().expect("UTF-8").to_owned();
    let arguments = ["--profile", profile.as_str()];
    let log = scene.folder.path().join("log");
    let server = serve(&arguments, &log);
    let state = in_state(&arguments, "ACTIVE_NOT_READY").await;
    let reasons = state["running"]["reasons"].to_string();
    // Which of the two depends on whether the first look at the broker is over.
    let why = ["producer-not-attested", "producer-recovering"];
    assert!(why.iter().any(|why| reasons.contains(why)), "{reasons}");
    assert_eq!(state["running"]["producerGeneration"], Value::Null);
    let socket = scene.folder.path().join("run/profile.sock");
    let fetched = inbound_operator_http::fetch(&socket, "/readiness")
        .await
        .expect("answer");
    assert_eq!(fetched.status, 503);
    assert!(
        fetched.body.contains("ACTIVE_NOT_READY"),
        "{}",
        fetched.body
    );
    assert!(!fetched.body.contains("127.0.0.1"));
    drop(server);
    scene.remove().await;
}
