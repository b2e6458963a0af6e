//! Contracts from files.
//!
//! Invariant: a manifest says what a contribution says, byte for byte; a bad file is refused by
//! name and rule before its contract exists.

use crate::fixture::{CONTRACT, Contract, compile, contract, draft, key, sample};
use application_core::ports::{EncodeError, EnvelopeCodec};
use outbound_contract_json::{
    CompileError, ContractCompiler, Manifest, ManifestContract, ManifestError, load_manifests,
};
use std::path::Path;
use tempfile::TempDir;

fn yaml() -> String {
    Manifest::to_yaml(&contract().descriptor, "v1.schema.json").expect("renders")
}

fn folder(manifest: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("temporary folder");
    write(folder.path(), "sample.yaml", manifest.as_bytes());
    write(folder.path(), "v1.schema.json", &contract().schema);
    folder
}

fn write(folder: &Path, name: &str, bytes: &[u8]) {
    std::fs::write(folder.join(name), bytes).expect(name);
}

fn load(folder: &TempDir) -> Result<Vec<ManifestContract>, ManifestError> {
    load_manifests(folder.path())
}

#[test]
fn the_text_is_pinned() {
    let descriptor = contract().descriptor;
    let expected = format!(
        "contract-id: golden.sample.recorded\n\
         payload-version: 1\n\
         owner-module: golden\n\
         logical-destination: golden-sample-events\n\
         aggregate-type: sample\n\
         payload-schema:\n  \
           file: v1.schema.json\n  \
           id: \"https://schemas.example/golden.sample.recorded/v1.schema.json\"\n  \
           sha256: \"{}\"\n\
         serializer: json-schema-envelope.v1\n\
         ordering: aggregate-sequence\n\
         partition-key: aggregate-scope.v1\n\
         maximum-payload-bytes: 4096\n\
         maximum-envelope-bytes: 8192\n\
         sensitivity: internal\n\
         supported-versions:\n  \
           producer: [1]\n  \
           consumer: [1]\n\
         same-event-requeue-horizon: \"7d\"\n\
         fields:\n",
        descriptor.payload_schema.sha256.to_hex()
    );
    let yaml = yaml();
    assert!(yaml.starts_with(&expected), "{yaml}");
    assert!(yaml.contains("  - path: level\n    kind: enum\n    values: [LOW, HIGH]\n"));
    assert!(yaml.ends_with("  - path: \"items[].amount\"\n    kind: integer\n"));
}

#[test]
fn a_manifest_reads_back_as_its_descriptor() {
    let manifest = Manifest::from_yaml(yaml().as_bytes(), "sample.yaml").expect("reads");
    assert_eq!(manifest.descriptor, contract().descriptor);
    assert_eq!(manifest.schema_file, "v1.schema.json");
    let odd = contract().descriptor;
    let odd = application_core::contract::ContractDescriptor {
        owner_module: "yes: \"é\"\n\u{1f6f0}".to_owned(),
        ..odd
    };
    let text = Manifest::to_yaml(&odd, "null").expect("renders");
    let manifest = Manifest::from_yaml(text.as_bytes(), "odd.yaml").expect("reads");
    assert_eq!(manifest.descriptor, odd);
    assert_eq!(manifest.schema_file, "null");
}

#[test]
fn both_routes_give_one_catalog() {
    let folder = folder(&yaml());
    let from_code = compile(&[contract()]);
    let manifests = load(&folder).expect("loads");
    let from_files = ContractCompiler::new()
        .manifests(manifests.clone())
        .compile()
        .expect("compiles");
    assert_eq!(
        from_code.catalog().revision(),
        from_files.catalog().revision()
    );
    assert_eq!(
        from_code.catalog().schema_set(),
        from_files.catalog().schema_set()
    );
    let both = ContractCompiler::new()
        .contribution(&contract())
        .manifests(manifests.clone())
        .compile()
        .expect("equal routes are one contract");
    assert_eq!(both.catalog().revision(), from_code.catalog().revision());
    let differing = ContractCompiler::new()
        .contribution(&contract().with(|d| d.maximum_payload_bytes -= 1))
        .manifests(manifests)
        .compile()
        .map(|_| ());
    assert!(matches!(
        differing,
        Err(CompileError::RoutesDiffer { contract }) if contract == key(CONTRACT, 1)
    ));
}

#[test]
fn a_manifest_alone_reads_and_does_not_append() {
    let deployment = crate::fixture::deployment(vec![crate::fixture::binding(
        crate::fixture::DESTINATION,
        "r1",
        true,
    )]);
    let bound = ContractCompiler::new()
        .manifests(load(&folder(&yaml())).expect("loads"))
        .compile()
        .expect("compiles")
        .bind(deployment)
        .expect("fits");
    let codec = outbound_contract_json::JsonEnvelopeCodec::new(
        bound.into(),
        domain_core::identity::TenantMode::Disabled,
    );
    assert!(codec.decode(crate::fixture::document().as_bytes()).is_ok());
    assert!(matches!(
        codec.encode(&draft(sample())),
        Err(EncodeError::UnknownPayloadType { .. })
    ));
}

fn refused(from: &str, to: &str) -> ManifestError {
    let text = yaml();
    assert!(text.contains(from), "{from}");
    Manifest::from_yaml(text.replacen(from, to, 1).as_bytes(), "sample.yaml")
        .map(|_| ())
        .expect_err(to)
}

#[test]
fn keys_are_known_present_and_unique() {
    for (from, to) in [
        ("owner-module:", "owner_module:"),
        ("owner-module: golden\n", ""),
        (
            "owner-module: golden\n",
            "owner-module: golden\nowner-module: other\n",
        ),
        (
            "owner-module: golden\n",
            "owner-module: golden\n\"owner-module\": other\n",
        ),
        ("  file:", "  path:"),
        ("  - path: title\n", "  - path: title\n    path: title\n"),
        ("  - path: title\n", "  - path: title\n    optional: true\n"),
        ("producer: [1]", "producer: 1"),
        ("payload-version: 1", "payload-version: one"),
        ("maximum-payload-bytes: 4096", "maximum-payload-bytes: -1"),
        (
            "maximum-payload-bytes: 4096",
            "maximum-payload-bytes: 4294967296",
        ),
        ("maximum-payload-bytes: 4096", "maximum-payload-bytes: 4.5"),
        ("owner-module: golden", "owner-module: &a golden"),
        ("owner-module: golden", "owner-module: *a"),
        ("owner-module: golden", "owner-module:"),
        ("owner-module: golden", "owner-module: ~"),
        ("owner-module: golden", "owner-module: [golden]"),
        ("contract-id:", "<<: {a: b}\ncontract-id:"),
        ("contract-id:", "contract-id: a.b\n---\ncontract-id:"),
        ("contract-id:", "contract-id:\n\tx:"),
    ] {
        let error = refused(from, to);
        assert!(
            matches!(&error, ManifestError::Syntax { origin, .. } if origin == "sample.yaml"),
            "{to}: {error}"
        );
    }
    for blank in ["", "\n", "# comment\n", "{}", "[]", "null"] {
        assert!(
            matches!(
                Manifest::from_yaml(blank.as_bytes(), "x"),
                Err(ManifestError::Syntax { .. })
            ),
            "{blank:?}"
        );
    }
    let bombs = format!("a: {}", "[".repeat(10_000));
    assert!(Manifest::from_yaml(bombs.as_bytes(), "x").is_err());
    let large = format!("# {}\n{}", "x".repeat(70_000), yaml());
    assert!(matches!(
        Manifest::from_yaml(large.as_bytes(), "x"),
        Err(ManifestError::Syntax { rule, .. }) if rule.contains("at most 65536")
    ));
}

#[test]
fn values_are_judged_by_key() {
    for (from, to, key) in [
        (
            "contract-id: golden.sample.recorded",
            "contract-id: golden",
            "contract-id",
        ),
        (
            "payload-version: 1",
            "payload-version: 0",
            "payload-version",
        ),
        (
            "logical-destination: golden-sample-events",
            "logical-destination: Golden",
            "logical-destination",
        ),
        (
            "aggregate-type: sample",
            "aggregate-type: Sample",
            "aggregate-type",
        ),
        ("sha256: \"", "sha256: \"0", "payload-schema.sha256"),
        ("ordering: aggregate-sequence", "ordering: fifo", "ordering"),
        (
            "partition-key: aggregate-scope.v1",
            "partition-key: round-robin",
            "partition-key",
        ),
        (
            "sensitivity: internal",
            "sensitivity: secret",
            "sensitivity",
        ),
        (
            "producer: [1]",
            "producer: [0]",
            "supported-versions.producer",
        ),
        (
            "consumer: [1]",
            "consumer: [-1]",
            "supported-versions.consumer",
        ),
        (
            "horizon: \"7d\"",
            "horizon: \"7w\"",
            "same-event-requeue-horizon",
        ),
        ("kind: boolean", "kind: float", "fields"),
        ("    values: [LOW, HIGH]\n", "", "fields"),
        (
            "kind: boolean\n",
            "kind: boolean\n    values: [a]\n",
            "fields",
        ),
    ] {
        let error = refused(from, to);
        assert!(
            matches!(&error, ManifestError::Field { key: at, .. } if at == key),
            "{to}: {error}"
        );
    }
    for (from, to) in [
        ("producer: [1]", "producer: [2, 1]"),
        ("serializer: json-schema-envelope.v1", "serializer: avro.v1"),
        ("maximum-payload-bytes: 4096", "maximum-payload-bytes: 9000"),
    ] {
        assert!(
            matches!(refused(from, to), ManifestError::Descriptor { .. }),
            "{to}"
        );
    }
}

#[test]
fn schema_files_stay_below_the_manifest() {
    let with = |file: &str| yaml().replace("file: v1.schema.json", &format!("file: \"{file}\""));
    for file in [
        "../v1.schema.json",
        "/etc/hostname",
        "a/../../v1.schema.json",
        "..",
        ".",
        "",
        "./v1.schema.json",
        "a\\\\b",
    ] {
        let folder = folder(&with(file));
        assert!(
            matches!(load(&folder), Err(ManifestError::Field { key, .. }) if key == "payload-schema.file"),
            "{file}"
        );
    }
    let missing = folder(&with("v2.schema.json"));
    assert!(
        matches!(load(&missing), Err(ManifestError::Io { path, .. }) if path.ends_with("v2.schema.json"))
    );
    let nul = folder(&yaml().replace("file: v1.schema.json", "file: \"v1\\0.json\""));
    assert!(load(&nul).is_err());
    let nested = folder(&with("deep/v1.schema.json"));
    std::fs::create_dir(nested.path().join("deep")).expect("folder");
    write(nested.path(), "deep/v1.schema.json", &contract().schema);
    assert_eq!(load(&nested).expect("loads").len(), 1);
    let directory = folder(&with("deep"));
    std::fs::create_dir(directory.path().join("deep")).expect("folder");
    assert!(
        matches!(load(&directory), Err(ManifestError::Place { rule, .. }) if rule.contains("regular"))
    );
    let large = folder(&yaml());
    write(large.path(), "v1.schema.json", &vec![b' '; 262_145]);
    assert!(
        matches!(load(&large), Err(ManifestError::Place { rule, .. }) if rule.contains("262144"))
    );
}

#[cfg(unix)]
#[test]
fn links_do_not_lead_out_of_the_folder() {
    use std::os::unix::fs::symlink;
    let outside = tempfile::tempdir().expect("temporary folder");
    write(outside.path(), "v1.schema.json", &contract().schema);
    write(outside.path(), "sample.yaml", yaml().as_bytes());
    let leads_out = |error: ManifestError| matches!(error, ManifestError::Place { rule, .. } if rule.contains("outside"));
    let schema = folder(&yaml());
    std::fs::remove_file(schema.path().join("v1.schema.json")).expect("removed");
    symlink(
        outside.path().join("v1.schema.json"),
        schema.path().join("v1.schema.json"),
    )
    .expect("link");
    assert!(leads_out(load(&schema).expect_err("link")));
    let manifest = folder(&yaml());
    symlink(
        outside.path().join("sample.yaml"),
        manifest.path().join("other.yaml"),
    )
    .expect("link");
    assert!(leads_out(load(&manifest).expect_err("link")));
    let through = folder(&yaml().replace("file: v1.schema.json", "file: out/v1.schema.json"));
    symlink(outside.path(), through.path().join("out")).expect("link");
    assert!(leads_out(load(&through).expect_err("link")));
    // A link within the folder is how mounted configuration looks.
    let inside = folder(&yaml());
    std::fs::rename(
        inside.path().join("v1.schema.json"),
        inside.path().join("data"),
    )
    .expect("moved");
    symlink("data", inside.path().join("v1.schema.json")).expect("link");
    assert_eq!(load(&inside).expect("loads").len(), 1);
}

#[test]
fn folders_are_read_in_the_order_of_names() {
    let folder = folder(&yaml());
    let poster: Contract = crate::fixture::contract_of(
        "golden.poster.recorded",
        1,
        "golden-sample-events",
        "poster",
    );
    write(
        folder.path(),
        "a-poster.yaml",
        Manifest::to_yaml(&poster.descriptor, "poster.json")
            .expect("renders")
            .as_bytes(),
    );
    write(folder.path(), "poster.json", &poster.schema);
    write(folder.path(), "notes.txt", b"not a manifest");
    let names: Vec<_> = load(&folder)
        .expect("loads")
        .into_iter()
        .map(|one| one.descriptor.contract_id.as_str().to_owned())
        .collect();
    assert_eq!(names, ["golden.poster.recorded", CONTRACT]);
    write(folder.path(), "late.yml", b"");
    assert!(
        matches!(load(&folder), Err(ManifestError::Place { path, .. }) if path.ends_with("late.yml"))
    );
    assert!(matches!(
        load_manifests(Path::new("/nonexistent")),
        Err(ManifestError::Io { .. })
    ));
}

#[test]
fn a_schema_that_changed_under_its_hash_is_refused() {
    let folder = folder(&yaml());
    let mut schema = contract().schema;
    schema.push(b'\n');
    write(folder.path(), "v1.schema.json", &schema);
    let compiled = ContractCompiler::new()
        .manifests(load(&folder).expect("loads"))
        .compile()
        .map(|_| ());
    let Err(CompileError::Schema { contract, source }) = compiled else {
        panic!("{compiled:?}");
    };
    assert_eq!(contract, key(CONTRACT, 1));
    assert!(matches!(
        source,
        outbound_contract_json::SchemaError::Hash { .. }
    ));
}
