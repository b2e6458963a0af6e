//! Each contradiction of requirement 004 §21.3 whose subject exists stops the real binary with its
//! own code, and before anything is opened.

use crate::support::{countersign, root};
use app_bootstrap::compose::{ComposeError, Store, contracts};
use app_bootstrap::config::{self, ExpectedState, StartCode};
use application_core::ports::{ActivationOutcome, EpochActivation, OperatorAct};
use domain_core::delivery::DispatchAuthority;
use domain_core::identity::{ActReference, OperatorId, ReasonCode, ReasonText};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// A checked-in profile whose paths and addresses all lie in the test's folder or lead nowhere.
fn profile(name: &str, folder: &Path) -> String {
    let messaging = root()
        .join("config/messaging")
        .canonicalize()
        .expect("config");
    let text = std::fs::read_to_string(root().join("config/profiles").join(name)).expect("profile");
    text.replace("../messaging/", &format!("{}/", messaging.display()))
        .replace(
            "../../countersign-data",
            &folder.join("data").display().to_string(),
        )
        .replace(
            "endpoints-file = \"../../target/services/endpoints.toml\"\n",
            "",
        )
        .replace(
            "[app.messaging.store]\nmaximum",
            "[app.messaging.store]\nurl = \"secret://file/nonexistent/url\"\nmaximum",
        )
        .replace(
            "topic-allow-list",
            "bootstrap-servers = [\"127.0.0.1:1\"]\ntopic-allow-list",
        )
}

/// The profile with one replacement stops `serve` with the code, and leaves no trace.
fn stops(name: &str, from: &str, to: &str, code: StartCode) {
    let folder = tempfile::tempdir().expect("folder");
    let text = profile(name, folder.path());
    assert!(text.contains(from), "{from} is not in {name}");
    let file = folder.path().join("profile.toml");
    std::fs::write(&file, text.replacen(from, to, 1)).expect("profile");
    let output = countersign()
        .args(["serve", "--profile"])
        .arg(&file)
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{from} to {to}: {said}");
    assert!(
        said.contains(&format!("[{code}]")),
        "{from} to {to}, {code}: {said}"
    );
    assert!(!said.contains("hunter2"), "{said}");
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .expect("folder")
        .map(|entry| entry.expect("entry").file_name())
        .collect();
    assert_eq!(left, ["profile.toml"], "{from} to {to} opened something");
}

const EMBEDDED: &str = "local-embedded.toml";
const KAFKA: &str = "local-kafka.toml";
const WINDOW: &str = "local-kafka-window.toml";

#[test]
fn provider_cards_and_tuples() {
    use StartCode as Code;
    let producer = "producer-profile = \"kafka-rdkafka-acknowledged-idempotent.v1\"";
    stops(
        KAFKA,
        producer,
        "producer-profile = \"\"",
        Code::ProviderUnknown,
    );
    stops(
        KAFKA,
        producer,
        "producer-profile = \"kafka.v9\"",
        Code::ProviderUnknown,
    );
    stops(KAFKA, producer, "", Code::KeyMissing);
    let topic = "\"external-topic-validated.v1\"";
    stops(KAFKA, topic, "\"any-topic.v1\"", Code::CardUnknown);
    stops(KAFKA, topic, "\"\"", Code::CardUnknown);
    stops(
        KAFKA,
        topic,
        "\"local-journal-file.v1\"",
        Code::TupleNotListed,
    );
    let claim = "\"postgresql-per-record-jit-claim.v1\"";
    stops(
        KAFKA,
        claim,
        "\"sqlite-single-writer-claim.v1\"",
        Code::ClaimCardNotListed,
    );
    stops(
        KAFKA,
        claim,
        "\"postgresql-batch-claim.v1\"",
        Code::CardUnknown,
    );
    stops(
        WINDOW,
        "[app.messaging.outbox.window]\n",
        "[app.messaging.outbox.capacity]\n",
        Code::Syntax,
    );
    stops(
        KAFKA,
        "dispatch-mode = \"polling\"",
        "dispatch-mode = \"cdc\"",
        Code::DispatchModeUnknown,
    );
}

#[test]
fn production() {
    use StartCode as Code;
    let (from, to) = ("\"development\"", "\"production\"");
    stops(EMBEDDED, from, to, Code::TupleNotPromoted);
    stops(KAFKA, from, to, Code::ProductionPlaintext);
    stops(WINDOW, from, to, Code::ProductionPlaintext);
}

/// The one way past maturity is the harness's own, and what it gives is never called active.
#[cfg(feature = "qualification")]
#[test]
fn qualification_is_reached_from_here_alone() {
    use app_bootstrap::config::registry::Promotion;
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("profile.toml");
    let production = |name: &str| {
        let text = profile(name, folder.path());
        std::fs::write(&file, text.replacen("\"development\"", "\"production\"", 1))
            .expect("profile");
        config::load_for_qualification(&file)
    };
    let ExpectedState::Active(active) = production(EMBEDDED).expect("qualifies").state else {
        panic!("the profile is not disabled");
    };
    assert_eq!(active.promotion, Promotion::QualificationOnly);
    let plaintext = production(KAFKA).expect_err("plaintext is never qualified for production");
    assert_eq!(plaintext.code, StartCode::ProductionPlaintext);
}

/// Neither a key nor a word of the command line asks for qualification.
#[test]
fn no_key_and_no_command_asks_for_qualification() {
    stops(
        EMBEDDED,
        "\"ACTIVE\"",
        "\"QUALIFICATION_ONLY\"",
        StartCode::ValueInvalid,
    );
    stops(
        EMBEDDED,
        "expected-state",
        "qualification-only = true\nexpected-state",
        StartCode::UnknownKey,
    );
    for command in [
        vec!["--help"],
        vec!["serve", "--help"],
        vec!["config", "check", "--help"],
    ] {
        let output = countersign().args(&command).output().expect("runs");
        let help = String::from_utf8_lossy(&output.stdout).to_lowercase();
        assert!(!help.is_empty() && !help.contains("qualif"), "{help}");
    }
}

#[test]
fn a_literal_credential_is_refused_before_anything_else() {
    let literal = "\"postgres://u:hunter2@db/x\"";
    let from = "\"secret://file/nonexistent/url\"";
    stops(KAFKA, from, literal, StartCode::LiteralCredential);
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("profile.toml");
    let text = profile(KAFKA, folder.path())
        .replacen("\"development\"", "\"production\"", 1)
        .replacen(from, literal, 1);
    std::fs::write(&file, text).expect("profile");
    let error = config::load(&file).expect_err("refused");
    assert_eq!(error.code, StartCode::LiteralCredential);
    assert!(!error.to_string().contains("hunter2"));
}

#[test]
fn empty_parts() {
    use StartCode as Code;
    stops(
        KAFKA,
        "[\"127.0.0.1:1\"]",
        "[]",
        Code::BootstrapServersEmpty,
    );
    stops(
        KAFKA,
        "bootstrap-servers = [\"127.0.0.1:1\"]\n",
        "",
        Code::BootstrapServersEmpty,
    );
    let folder = tempfile::tempdir().expect("folder");
    let text = profile(EMBEDDED, folder.path());
    let manifests = text
        .split("manifests = ")
        .nth(1)
        .and_then(|rest| rest.split(']').next())
        .expect("manifests");
    stops_text(
        &text.replace(&format!("{manifests}]"), "[]"),
        Code::ContractsEmpty,
    );
    let destinations = text
        .find("[app.messaging.destinations")
        .expect("destinations");
    stops_text(&text[..destinations], Code::DestinationsEmpty);
}

fn stops_text(text: &str, code: StartCode) {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("profile.toml");
    std::fs::write(&file, text).expect("profile");
    let error = match config::load(&file) {
        Err(error) => {
            assert!(error.to_string().contains(code.as_str()), "{error}");
            error.code
        }
        Ok(profile) => {
            let ExpectedState::Active(active) = profile.state else {
                panic!("{code}: the profile compiles as DISABLED");
            };
            let error = contracts::compile(&active)
                .err()
                .unwrap_or_else(|| panic!("{code}: the profile compiles"));
            assert!(error.to_string().contains(code.as_str()), "{error}");
            error.code()
        }
    };
    assert_eq!(error, code);
}

#[test]
fn claim_settings() {
    use StartCode as Code;
    let folder = tempfile::tempdir().expect("folder");
    let text = profile(WINDOW, folder.path());
    let window = text.find("[app.messaging.outbox.window]").expect("window");
    let after = text
        .find("[app.messaging.outbox.capacity]")
        .expect("capacity");
    let without = format!("{}{}", &text[..window], &text[after..]);
    stops_text(&without, Code::ClaimSettingsMissing);
    let text = profile(EMBEDDED, folder.path());
    let section = |name: &str| {
        text.find(&format!("[app.messaging.{name}]"))
            .expect("section")
    };
    let (outbox, store, journal) = (section("outbox"), section("store"), section("journal"));
    let no_outbox = format!("{}{}", &text[..outbox], &text[store..]);
    stops_text(&no_outbox, Code::ClaimSettingsMissing);
    let no_store = format!("{}{}", &text[..store], &text[journal..]);
    stops_text(&no_store, Code::ClaimSettingsMissing);
    stops(EMBEDDED, "claim-lease = \"30s\"\n", "", Code::KeyMissing);
}

#[test]
fn settings_that_would_weaken_the_producer_are_unknown_keys() {
    for key in [
        "acks = \"1\"",
        "retries = 3",
        "max-in-flight = 100",
        "enable-idempotence = false",
    ] {
        stops(
            KAFKA,
            "[app.messaging.kafka.producer]\n",
            &format!("[app.messaging.kafka.producer]\n{key}\n"),
            StartCode::UnknownKey,
        );
    }
}

#[test]
fn relations() {
    use StartCode as Code;
    stops(
        KAFKA,
        "delivery-timeout = \"60s\"",
        "delivery-timeout = \"36s\"",
        Code::DeadlineRelation,
    );
    stops(
        KAFKA,
        "claim-lease = \"90s\"",
        "claim-lease = \"72s\"",
        Code::BudgetRelation,
    );
    stops(
        KAFKA,
        "budget = \"68s\"",
        "budget = \"67s\"",
        Code::BudgetRelation,
    );
    stops(
        EMBEDDED,
        "age = \"15m\"",
        "age = \"19s\"",
        Code::HorizonRelation,
    );
    stops(
        EMBEDDED,
        "age = \"15m\"",
        "age = \"8d\"",
        Code::HorizonRelation,
    );
}

#[test]
fn bytes() {
    use StartCode as Code;
    let over = |bytes: u32| format!("maximum-envelope-bytes = {bytes}");
    stops(EMBEDDED, &over(800), &over(812), Code::BytesExceedBound);
    stops(EMBEDDED, &over(800), &over(1024), Code::BytesExceedBound);
    stops(EMBEDDED, &over(800), &over(200), Code::BytesExceedBound);
    stops(
        KAFKA,
        "topic-maximum-bytes = 1048588",
        "topic-maximum-bytes = 1000000",
        Code::BytesExceedBound,
    );
    stops(
        KAFKA,
        "request-bytes = 4194304",
        "request-bytes = 1000000",
        Code::BytesExceedBound,
    );
    stops(
        WINDOW,
        "buffer-memory-bytes = 33554432",
        "buffer-memory-bytes = 4194304",
        Code::BytesExceedBound,
    );
}

#[test]
fn duplicates() {
    use StartCode as Code;
    let folder = tempfile::tempdir().expect("folder");
    let text = profile(EMBEDDED, folder.path());
    let manifest = text
        .lines()
        .find(|line| line.contains("reserved.v1.yaml"))
        .expect("a manifest");
    let twice = text.replacen(manifest, &format!("{manifest}\n{manifest}"), 1);
    stops_text(&twice, Code::DuplicateId);
    let earlier = |extra: &str| {
        format!(
            "\n[[app.messaging.destinations.portfolio-domain-events.earlier-revisions]]\n\
             binding-revision = \"portfolio-domain-events-r1\"\nmaximum-record-bytes = 1024\n\
             maximum-envelope-bytes = 800\n{extra}"
        )
    };
    stops_text(&format!("{text}{}", earlier("")), Code::DuplicateId);
    let kafka = profile(KAFKA, folder.path());
    let topic = kafka
        .find("[app.messaging.destinations.")
        .map(|at| &kafka[at..])
        .expect("destination");
    let other = topic.replace("portfolio-domain-events", "other-events");
    stops_text(&format!("{kafka}\n{other}"), Code::DuplicateId);
    let idle = other.replace("topic = \"portfolio.domain", "topic = \"portfolio.other");
    stops_text(&format!("{kafka}\n{idle}"), Code::DestinationInvalid);
    let shared = topic
        .replace(
            "[app.messaging.destinations.portfolio-domain-events]",
            "[[app.messaging.destinations.portfolio-domain-events.earlier-revisions]]",
        )
        .replace("portfolio-domain-events-r1", "portfolio-domain-events-r0");
    let same_topic = config_code(&format!("{kafka}\n{shared}"));
    assert_eq!(
        same_topic, None,
        "an earlier revision may name the same topic"
    );
}

/// What stops the text, if anything does.
fn config_code(text: &str) -> Option<StartCode> {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("profile.toml");
    std::fs::write(&file, text).expect("profile");
    match config::load(&file) {
        Err(error) => Some(error.code),
        Ok(profile) => match profile.state {
            ExpectedState::Active(active) => contracts::compile(&active).err().map(|e| e.code()),
            ExpectedState::Disabled => None,
        },
    }
}

#[test]
fn hashes() {
    let folder = tempfile::tempdir().expect("folder");
    let text = profile(EMBEDDED, folder.path());
    let lock =
        std::fs::read_to_string(root().join("config/messaging/contracts.lock")).expect("lock");
    let hash = lock
        .split('"')
        .find(|part| part.len() == 64)
        .expect("a hash");
    let planted = folder.path().join("contracts.lock");
    std::fs::write(&planted, lock.replace(hash, &"0".repeat(64))).expect("planted");
    let line = text
        .lines()
        .find(|line| line.starts_with("lock-file"))
        .expect("lock-file");
    let other = format!("lock-file = \"{}\"", planted.display());
    stops_text(&text.replace(line, &other), StartCode::HashMismatch);
}

#[test]
fn a_disabled_profile_with_active_parts() {
    stops(
        EMBEDDED,
        "\"ACTIVE\"",
        "\"DISABLED\"",
        StartCode::DisabledNotEmpty,
    );
}

/// What only an open store can tell is judged before the producer opens and anything is claimed.
#[tokio::test]
async fn a_store_whose_epoch_belongs_to_somebody_else() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("profile.toml");
    std::fs::write(&file, profile(EMBEDDED, folder.path())).expect("profile");
    let ExpectedState::Active(active) = config::load(&file).expect("compiles").state else {
        panic!("the profile is active");
    };
    let compiled = contracts::compile(&active).expect("contracts");
    let store = Store::open(&compiled).await.expect("opens");
    let authority = store.authority();
    let seen = authority.active_epoch().await.expect("read").expect("one");
    let prepared = authority
        .prepare_epoch(DispatchAuthority::Cdc, None)
        .await
        .expect("prepared");
    let reference = |text: &str| ActReference::parse(text).expect("reference");
    let outcome = authority
        .activate_epoch(&EpochActivation {
            expected_active: Some(seen.epoch),
            epoch: prepared.epoch,
            row_version: prepared.row_version,
            wait: Duration::from_secs(5),
            approval: reference("approval-1"),
            act: OperatorAct {
                operator: OperatorId::parse("operator-1").expect("operator"),
                reason_code: ReasonCode::parse("CUT_OVER").expect("code"),
                reason: ReasonText::parse("the connector takes over").expect("reason"),
                reference: reference("CHG-1"),
            },
        })
        .await
        .expect("activated");
    assert_eq!(outcome, ActivationOutcome::Activated);
    store.close().await;
    let again = Store::open(&compiled).await.err().expect("refused");
    assert_eq!(again.code(), StartCode::EpochAuthorityMismatch);
    assert!(matches!(again, ComposeError::EpochAuthority { .. }));
    let output = countersign()
        .args(["serve", "--profile"])
        .arg(&file)
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("[EPOCH_AUTHORITY_MISMATCH]"), "{said}");
    assert!(said.contains("of CDC"), "{said}");
    assert!(!folder.path().join("data/events.journal").exists());
}

/// The page lists exactly the codes that exist.
#[test]
fn every_code_is_documented_and_every_documented_code_exists() {
    let page =
        std::fs::read_to_string(root().join("docs/registries/start-codes.md")).expect("page");
    let documented: BTreeSet<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let existing: BTreeSet<_> = StartCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(documented, existing);
    assert_eq!(existing.len(), StartCode::ALL.len(), "a code is used twice");
}
