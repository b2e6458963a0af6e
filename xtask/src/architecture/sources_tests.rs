//! Planted sources; each must be found, and nothing else.

use super::*;

fn modules(unsafe_files: &str) -> Modules {
    let text = format!(r#"{{"modules": [], "drivers": {{}}, "unsafe-files": {unsafe_files}}}"#);
    serde_json::from_str(&text).unwrap()
}

fn file(module: &str, path: &str, text: &str) -> SourceFile {
    SourceFile {
        module: module.to_owned(),
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

fn findings(module: &str, path: &str, text: &str) -> Vec<String> {
    check(&modules("{}"), &[file(module, path, text)])
}

#[test]
fn a_missing_heading_is_found_in_product_and_tests() {
    for path in ["src/a.rs", "tests/it/main.rs", "build.rs"] {
        assert!(findings("x", path, "//! What it is for.\n").is_empty());
        let found = findings("x", path, "\n//! Too late.\n");
        assert_eq!(found, [format!("x/{path} does not open with //!")]);
    }
}

#[test]
fn a_driver_type_in_a_port_is_found() {
    let port = "//! A port.\npub trait Publish {\n    fn send(&self, r: rdkafka::message::OwnedMessage);\n}\n";
    assert_eq!(
        findings("application-core", "src/ports/publish.rs", port),
        ["application-core/src/ports/publish.rs:3 names rdkafka"]
    );
    assert!(findings("outbound-messaging-kafka", "src/publish.rs", port).is_empty());
}

#[test]
fn a_forbidden_name_in_the_domain_is_found_outside_its_tests_only() {
    for name in ["tracing", "serde_json", "tokio", "sqlx"] {
        let text = format!("//! X, not {name}.\nuse {name}::a;\n");
        let found = findings("domain-core", "src/a.rs", &text);
        assert_eq!(found, [format!("domain-core/src/a.rs:2 names {name}")]);
    }
    let tests = "//! X.\n#[cfg(test)]\nmod tests {\n    use serde_json::Value;\n}\n";
    assert!(findings("domain-core", "src/a.rs", tests).is_empty());
    let own_file = "//! X.\nuse serde_json::Value;\n";
    assert!(findings("domain-core", "src/a/tests.rs", own_file).is_empty());
    assert!(findings("domain-core", "src/a_tests.rs", own_file).is_empty());
    assert!(findings("domain-core", "tests/it/main.rs", own_file).is_empty());
}

#[test]
fn every_crate_root_forbids_unsafe_code() {
    for path in ["src/lib.rs", "src/main.rs", "src/bin/other.rs"] {
        assert!(findings("x", path, "//! X.\n#![forbid(unsafe_code)]\n").is_empty());
        let found = findings("x", path, "//! X.\n// #![forbid(unsafe_code)]\n");
        assert_eq!(found, [format!("x/{path} lacks #![forbid(unsafe_code)]")]);
    }
}

#[test]
fn unsafe_code_stands_in_the_listed_file_only() {
    let listed = modules(r#"{"k": "src/ffi.rs"}"#);
    let root = file("k", "src/lib.rs", "//! X.\nmod ffi;\n");
    let ffi = file("k", "src/ffi.rs", "//! X.\nfn f() { unsafe { g() } }\n");
    assert!(check(&listed, &[root.clone(), ffi]).is_empty());
    let elsewhere = file("k", "src/a.rs", "//! X.\nfn f() { unsafe { g() } }\n");
    assert_eq!(
        check(&listed, &[root, elsewhere]),
        [
            "k/src/a.rs contains unsafe code",
            "k/src/ffi.rs is listed in unsafe-files but has no unsafe code",
        ]
    );
}

#[test]
fn an_empty_name_is_found_as_file_and_as_folder() {
    for name in EMPTY_NAMES {
        for path in [format!("src/{name}.rs"), format!("src/{name}/mod.rs")] {
            let found = findings("x", &path, "//! X.\n");
            assert_eq!(found, [format!("x/{path}: {name} names nothing")]);
        }
    }
    assert!(findings("x", "src/commonplace.rs", "//! X.\n").is_empty());
}

#[test]
fn a_file_that_is_too_long_is_found() {
    let long = format!("//! X.\n{}", "\n".repeat(MOST_LINES));
    let found = findings("x", "src/a.rs", &long);
    assert_eq!(found, ["x/src/a.rs has 601 lines; split it below 600"]);
}

#[test]
fn aborting_on_panic_is_found_in_any_profile() {
    let parse = |text: &str| text.parse::<toml::Table>().unwrap();
    assert!(aborts_on_panic(&parse(
        "[profile.release]\npanic = \"abort\"\n"
    )));
    assert!(!aborts_on_panic(&parse(
        "[profile.release]\npanic = \"unwind\"\n"
    )));
    assert!(!aborts_on_panic(&parse("[package]\nname = \"x\"\n")));
}

#[test]
fn a_member_without_the_shared_lints_is_found() {
    let parse = |text: &str| text.parse::<toml::Table>().unwrap();
    assert!(shares_lints(&parse("[lints]\nworkspace = true\n")));
    assert!(!shares_lints(&parse(
        "[lints.rust]\nunsafe_code = \"allow\"\n"
    )));
    assert!(!shares_lints(&parse("[package]\nname = \"x\"\n")));
}
