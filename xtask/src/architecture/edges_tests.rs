//! Planted deviations from a small workspace; each must be found, and nothing else.

use super::*;

const MODULES: &str = r#"{
    "modules": [
        {"name": "domain-core", "path": "domain-core", "depends-on": [], "dev-depends-on": []},
        {"name": "application-core", "path": "application-core",
         "depends-on": ["domain-core"], "dev-depends-on": ["application-core"]},
        {"name": "outbound-a", "path": "adapters/outbound/a",
         "depends-on": ["application-core"], "dev-depends-on": ["outbound-b"]},
        {"name": "outbound-b", "path": "adapters/outbound/b",
         "depends-on": ["application-core"], "dev-depends-on": []},
        {"name": "sample", "path": "examples/sample",
         "depends-on": ["application-core"], "dev-depends-on": []},
        {"name": "app-bootstrap", "path": "app-bootstrap",
         "depends-on": ["outbound-a", "sample"], "dev-depends-on": [],
         "feature-edges": {"sample": "demo"}}
    ],
    "drivers": {"sqlx": {"normal": ["outbound-a"], "dev": ["outbound-b"]}},
    "unsafe-files": {}
}"#;

fn modules() -> Modules {
    serde_json::from_str(MODULES).unwrap()
}

fn dependency(name: &str, kind: Option<&str>) -> Dependency {
    Dependency {
        name: name.to_owned(),
        kind: kind.map(str::to_owned),
        optional: false,
        path: None,
    }
}

fn package(name: &str, path: &str, edges: &[(&str, Option<&str>)]) -> Package {
    Package {
        name: name.to_owned(),
        manifest_path: format!("/w/{path}/Cargo.toml").into(),
        dependencies: edges
            .iter()
            .map(|(on, kind)| dependency(on, *kind))
            .collect(),
        features: BTreeMap::new(),
    }
}

fn metadata() -> Metadata {
    let dev = Some("dev");
    let core = ("application-core", None);
    let mut bootstrap = package(
        "app-bootstrap",
        "app-bootstrap",
        &[("outbound-a", None), ("sample", None), ("serde", None)],
    );
    bootstrap.dependencies[1].optional = true;
    bootstrap
        .features
        .insert("demo".to_owned(), vec!["dep:sample".to_owned()]);
    Metadata {
        workspace_root: "/w".into(),
        packages: vec![
            package("domain-core", "domain-core", &[]),
            package(
                "application-core",
                "application-core",
                &[("domain-core", None), ("application-core", dev)],
            ),
            package(
                "outbound-a",
                "adapters/outbound/a",
                &[core, ("outbound-b", dev), ("sqlx", None)],
            ),
            package("outbound-b", "adapters/outbound/b", &[core, ("sqlx", dev)]),
            package("sample", "examples/sample", &[core]),
            bootstrap,
        ],
    }
}

fn package_mut<'a>(metadata: &'a mut Metadata, name: &str) -> &'a mut Package {
    metadata
        .packages
        .iter_mut()
        .find(|package| package.name == name)
        .unwrap()
}

fn module_mut<'a>(modules: &'a mut Modules, name: &str) -> &'a mut Module {
    modules
        .modules
        .iter_mut()
        .find(|module| module.name == name)
        .unwrap()
}

#[test]
fn a_workspace_as_listed_has_no_findings() {
    assert_eq!(check(&modules(), &metadata()), Vec::<String>::new());
}

#[test]
fn an_edge_that_is_not_listed_is_found_in_every_kind() {
    for kind in [None, Some("build"), Some("dev")] {
        for optional in [false, true] {
            let mut planted = metadata();
            let mut edge = dependency("outbound-b", kind);
            edge.optional = optional;
            package_mut(&mut planted, "sample").dependencies.push(edge);
            let found = check(&modules(), &planted);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].starts_with("sample -> outbound-b is not listed"),
                "{found:?}"
            );
        }
    }
}

#[test]
fn a_listed_edge_that_is_gone_is_found() {
    let mut planted = metadata();
    package_mut(&mut planted, "sample").dependencies.clear();
    assert_eq!(
        check(&modules(), &planted),
        ["sample -> application-core is listed in depends-on but not there"]
    );
}

#[test]
fn an_edge_of_the_product_does_not_pass_for_one_of_the_tests() {
    let mut planted = metadata();
    package_mut(&mut planted, "outbound-a").dependencies[1].kind = None;
    assert_eq!(
        check(&modules(), &planted),
        [
            "outbound-a -> outbound-b is not listed in depends-on",
            "outbound-a -> outbound-b is listed in dev-depends-on but not there",
        ]
    );
}

#[test]
fn a_forbidden_edge_stays_forbidden_when_it_is_listed() {
    for (from, on) in [
        ("domain-core", "application-core"),
        ("application-core", "outbound-a"),
        ("outbound-b", "outbound-a"),
        ("sample", "outbound-a"),
        ("outbound-b", "app-bootstrap"),
    ] {
        let mut planted = metadata();
        package_mut(&mut planted, from)
            .dependencies
            .push(dependency(on, None));
        let mut listed = modules();
        module_mut(&mut listed, from)
            .depends_on
            .insert(on.to_owned());
        assert_eq!(
            check(&listed, &planted),
            [format!("the dependency rule forbids {from} -> {on}")]
        );
    }
}

#[test]
fn an_unlisted_and_a_missing_crate_are_found() {
    let mut planted = metadata();
    planted.packages.push(package("new", "examples/new", &[]));
    assert_eq!(
        check(&modules(), &planted),
        ["new is a crate of the workspace but not listed"]
    );
    let mut listed = modules();
    let mut old = listed.modules[0].clone();
    old.name = "old".to_owned();
    listed.modules.push(old);
    assert_eq!(
        check(&listed, &metadata()),
        ["old is listed but no crate of the workspace"]
    );
}

#[test]
fn a_moved_crate_is_found() {
    let mut planted = metadata();
    package_mut(&mut planted, "outbound-b").manifest_path = "/w/adapters/b/Cargo.toml".into();
    assert_eq!(
        check(&modules(), &planted),
        ["outbound-b lies in /w/adapters/b, not in adapters/outbound/b"]
    );
}

#[test]
fn the_sample_must_stay_behind_its_feature() {
    let mut planted = metadata();
    package_mut(&mut planted, "app-bootstrap").dependencies[1].optional = false;
    assert_eq!(
        check(&modules(), &planted),
        ["app-bootstrap -> sample is not an optional dependency"]
    );
    let mut planted = metadata();
    let enabled = vec!["dep:sample".to_owned()];
    package_mut(&mut planted, "app-bootstrap")
        .features
        .insert("serve".to_owned(), enabled);
    assert_eq!(
        check(&modules(), &planted),
        ["app-bootstrap -> sample is enabled by [\"demo\", \"serve\"], not by demo alone"]
    );
    let mut listed = modules();
    module_mut(&mut listed, "app-bootstrap")
        .feature_edges
        .clear();
    assert_eq!(
        check(&listed, &metadata()),
        ["app-bootstrap -> sample must be listed in feature-edges"]
    );
}

#[test]
fn a_driver_is_used_by_the_listed_crates_only_and_by_all_of_them() {
    let mut planted = metadata();
    package_mut(&mut planted, "application-core")
        .dependencies
        .push(dependency("sqlx", None));
    assert_eq!(
        check(&modules(), &planted),
        ["application-core uses the driver sqlx (Product) unlisted"]
    );
    let mut planted = metadata();
    package_mut(&mut planted, "outbound-b").dependencies.pop();
    assert_eq!(
        check(&modules(), &planted),
        ["outbound-b is listed for sqlx (Tests) but does not use it"]
    );
}
