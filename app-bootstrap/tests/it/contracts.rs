//! Both routes to one catalog, and the lock that pins it.

use crate::support::{countersign, root};
use app_bootstrap::compose::contracts;
use app_bootstrap::config::{self, ActiveProfile, ExpectedState};
use outbound_contract_json::{ContractCompiler, ContractsLock, Manifest, load_manifests};

fn active(profile: &str) -> ActiveProfile {
    let path = root().join("config/profiles").join(profile);
    match config::load(&path).expect("compiles").state {
        ExpectedState::Active(active) => *active,
        ExpectedState::Disabled => panic!("the profile is active"),
    }
}

#[test]
fn code_and_manifests_make_one_catalog_with_one_hash() {
    let from_manifests = ContractCompiler::new()
        .manifests(load_manifests(&root().join("config/messaging/contracts")).expect("manifests"))
        .compile()
        .expect("compiles");
    let from_code = ContractCompiler::new()
        .contributions(&portfolio::contracts::contributions())
        .compile()
        .expect("compiles");
    assert_eq!(
        from_manifests.catalog().revision(),
        from_code.catalog().revision()
    );
    assert_eq!(
        from_manifests.catalog().schema_set(),
        from_code.catalog().schema_set()
    );
}

#[test]
fn a_manifest_generated_from_code_is_byte_equal_to_the_checked_in_one() {
    let folder = root().join("config/messaging/contracts");
    for contribution in portfolio::contracts::contributions() {
        let descriptor = contribution.descriptor();
        let name = format!(
            "{}.v{}.yaml",
            descriptor.contract_id, descriptor.payload_version
        );
        let schema = format!(
            "schemas/{}/v{}.schema.json",
            descriptor.contract_id, descriptor.payload_version
        );
        let checked_in = std::fs::read_to_string(folder.join(&name)).expect(&name);
        assert_eq!(
            Manifest::to_yaml(&descriptor, &schema).expect("yaml"),
            checked_in
        );
        let schema = std::fs::read(folder.join(&schema)).expect(&schema);
        assert_eq!(schema, contribution.payload_schema());
    }
}

#[test]
fn the_lock_holds_the_catalog_and_only_grows() {
    let bytes = std::fs::read(root().join("config/messaging/contracts.lock")).expect("lock");
    let lock = ContractsLock::from_yaml(&bytes).expect("reads");
    let catalog = ContractCompiler::new()
        .contributions(&portfolio::contracts::contributions())
        .compile()
        .expect("compiles");
    lock.check(catalog.catalog()).expect("holds");
    let merged = lock.merge(catalog.catalog()).expect("nothing changes");
    assert_eq!(merged.to_yaml().as_bytes(), bytes);
    merged.check_grown_from(&lock).expect("grown");
    let dropped = ContractsLock::empty().check_grown_from(&lock);
    assert!(
        dropped
            .expect_err("dropped")
            .to_string()
            .contains("portfolio.")
    );
}

#[test]
fn a_process_serves_what_its_profile_names_and_nothing_else() {
    let mut profile = active("local-embedded.toml");
    profile.manifests.truncate(1);
    let compiled = contracts::compile(&profile).expect("compiles");
    assert_eq!(compiled.catalog.catalog().iter().count(), 1);
    let error = contracts::compile_with(&profile, &portfolio::contracts::contributions())
        .err()
        .expect("further contributions are refused");
    assert!(
        error
            .to_string()
            .contains("no manifest of the profile names it")
    );
    profile.manifests.clear();
    assert!(contracts::compile(&profile).is_err());
}

#[test]
fn the_journal_refuses_a_contract_that_needs_more_than_a_record() {
    let mut profile = active("local-embedded.toml");
    for destination in &mut profile.destinations {
        destination.maximum_envelope_bytes = 900;
    }
    let error = contracts::compile(&profile).err().expect("refused");
    let text = app_bootstrap::chain(&error);
    for part in ["journal-acknowledged.v1", "811", "900"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

#[test]
fn configuration_tightens_and_never_relaxes() {
    let mut profile = active("local-embedded.toml");
    let contract = portfolio::contracts::contributions()[0].descriptor();
    let bounds = |payload| config::ContractBounds {
        contract: contract.key(),
        maximum_payload_bytes: Some(payload),
        maximum_envelope_bytes: None,
    };
    profile.overrides = vec![bounds(contract.maximum_payload_bytes - 1)];
    assert!(contracts::compile(&profile).is_ok());
    profile.overrides = vec![bounds(contract.maximum_payload_bytes + 1)];
    let error = contracts::compile(&profile).err().expect("refused");
    let text = app_bootstrap::chain(&error);
    assert!(text.contains(contract.contract_id.as_str()), "{text}");
}

/// The tool behind `countersign contracts`: it adds, and refuses to change or drop.
#[test]
fn the_lock_tool_adds_and_never_changes() {
    let folder = tempfile::tempdir().expect("folder");
    let manifests = root().join("config/messaging/contracts");
    let lock = folder.path().join("contracts.lock");
    let locked = |arguments: &[&str], previous: Option<&std::path::Path>| {
        let mut command = countersign();
        command.args(arguments).arg("--manifests").arg(&manifests);
        command.arg("--lock").arg(&lock);
        if let Some(previous) = previous {
            command.arg("--previous").arg(previous);
        }
        command.output().expect("runs")
    };
    let output = locked(&["contracts", "lock"], None);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("3 added"));
    let checked_in = root().join("config/messaging/contracts.lock");
    let bytes = std::fs::read(&lock).expect("lock");
    assert_eq!(bytes, std::fs::read(&checked_in).expect("lock"));
    assert!(
        locked(&["contracts", "check"], Some(&checked_in))
            .status
            .success()
    );

    let text = String::from_utf8(bytes).expect("UTF-8");
    let line = text
        .lines()
        .find(|line| line.contains("descriptor-sha256"))
        .expect("an entry");
    let planted = text.replace(
        line,
        &format!("    descriptor-sha256: \"{}\"", "0".repeat(64)),
    );
    std::fs::write(&lock, &planted).expect("planted");
    for arguments in [&["contracts", "lock"], &["contracts", "check"]] {
        let output = locked(arguments, None);
        assert!(!output.status.success(), "{arguments:?}");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains("portfolio."), "{message}");
    }
    assert_eq!(std::fs::read_to_string(&lock).expect("lock"), planted);
}

/// What only the producer can judge is judged before anything opens, and names the profile.
#[test]
fn producer_settings_are_proved_before_a_store_opens() {
    let text = std::fs::read_to_string(root().join("config/profiles/local-kafka.toml"))
        .expect("profile")
        .replace(
            "endpoints-file = \"../../target/services/endpoints.toml\"",
            "",
        )
        .replace(
            "[app.messaging.store]",
            "[app.messaging.store]\nurl = \"secret://file/nonexistent/url\"",
        )
        .replace(
            "topic-allow-list",
            "bootstrap-servers = [\"127.0.0.1:1\"]\ntopic-allow-list",
        );
    let messaging = root()
        .join("config/messaging")
        .canonicalize()
        .expect("config");
    let text = text.replace("../messaging/", &format!("{}/", messaging.display()));
    let check = |text: &str| {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join("profile.toml");
        std::fs::write(&file, text).expect("profile");
        match config::load(&file).expect("compiles").state {
            ExpectedState::Active(active) => contracts::compile(&active)
                .map(|_| ())
                .map_err(|error| app_bootstrap::chain(&error)),
            ExpectedState::Disabled => panic!("the profile is active"),
        }
    };
    assert_eq!(check(&text), Ok(()));
    for (from, to, named) in [
        (
            "delivery-timeout = \"60s\"",
            "delivery-timeout = \"35s\"",
            "delivery",
        ),
        (
            "[\"portfolio.*\"]",
            "[\"other.*\"]",
            "portfolio.domain-events.v1",
        ),
        ("[\"127.0.0.1:1\"]", "[\"nowhere\"]", "bootstrap"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = check(&text.replace(from, to)).expect_err(to);
        assert!(error.contains("profile.toml"), "{error}");
        assert!(error.contains(named), "{error}");
    }
}
