//! Comparing `modules.json` with what cargo knows, both ways.
//!
//! Invariant: an edge that is not listed and a listed edge that is not there are both found,
//! whatever its kind: normal, build, optional, for one target, or for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::modules::{Module, Modules};
use super::rule::{Layer, Use};
use crate::metadata::{Dependency, Metadata, Package};

/// Everything in which the two differ or that the rule forbids; empty when all is well.
pub(crate) fn check(modules: &Modules, metadata: &Metadata) -> Vec<String> {
    let mut found = Vec::new();
    let packages: BTreeMap<&str, &Package> = metadata
        .packages
        .iter()
        .map(|package| (package.name.as_str(), package))
        .collect();
    let mut listed: BTreeMap<&str, &Module> = BTreeMap::new();
    for module in &modules.modules {
        if listed.insert(&module.name, module).is_some() {
            found.push(format!("{} is listed twice", module.name));
        }
    }
    for name in packages.keys().filter(|name| !listed.contains_key(*name)) {
        found.push(format!("{name} is a crate of the workspace but not listed"));
    }
    for (name, module) in &listed {
        match packages.get(name) {
            None => found.push(format!("{name} is listed but no crate of the workspace")),
            Some(package) => {
                check_path(module, package, metadata, &mut found);
                check_edges(module, package, &packages, &mut found);
                check_rule(module, &listed, &mut found);
                check_feature_edges(module, package, &listed, &mut found);
            }
        }
    }
    check_drivers(modules, metadata, &mut found);
    found
}

fn check_path(module: &Module, package: &Package, metadata: &Metadata, found: &mut Vec<String>) {
    let folder = package.manifest_path.parent().unwrap_or(Path::new(""));
    if folder != metadata.workspace_root.join(&module.path) {
        found.push(format!(
            "{} lies in {}, not in {}",
            module.name,
            folder.display(),
            module.path
        ));
    }
}

fn check_edges(
    module: &Module,
    package: &Package,
    packages: &BTreeMap<&str, &Package>,
    found: &mut Vec<String>,
) {
    let name = &module.name;
    for (purpose, listed, table) in [
        (Use::Product, &module.depends_on, "depends-on"),
        (Use::Tests, &module.dev_depends_on, "dev-depends-on"),
    ] {
        let real: BTreeSet<&str> = package
            .dependencies
            .iter()
            .filter(|dependency| purpose_of(dependency) == purpose)
            .filter(|dependency| {
                dependency.path.is_some() || packages.contains_key(dependency.name.as_str())
            })
            .map(|dependency| dependency.name.as_str())
            .collect();
        for on in real.iter().filter(|on| !listed.contains(**on)) {
            found.push(format!("{name} -> {on} is not listed in {table}"));
        }
        for on in listed.iter().filter(|on| !real.contains(on.as_str())) {
            found.push(format!("{name} -> {on} is listed in {table} but not there"));
        }
    }
}

fn purpose_of(dependency: &Dependency) -> Use {
    match dependency.kind.as_deref() {
        Some("dev") => Use::Tests,
        _ => Use::Product,
    }
}

fn check_rule(module: &Module, listed: &BTreeMap<&str, &Module>, found: &mut Vec<String>) {
    let Some(layer) = Layer::of(&module.path) else {
        found.push(format!(
            "{} lies in {}, where no crate belongs",
            module.name, module.path
        ));
        return;
    };
    for (purpose, edges) in [
        (Use::Product, &module.depends_on),
        (Use::Tests, &module.dev_depends_on),
    ] {
        for on in edges {
            // A crate's tests may turn on its own features by depending on itself.
            if *on == module.name && purpose == Use::Tests {
                continue;
            }
            let target = listed
                .get(on.as_str())
                .and_then(|target| Layer::of(&target.path));
            if !target.is_some_and(|target| layer.may_depend_on(target, purpose)) {
                found.push(format!(
                    "the dependency rule forbids {} -> {on}",
                    module.name
                ));
            }
        }
    }
}

fn check_feature_edges(
    module: &Module,
    package: &Package,
    listed: &BTreeMap<&str, &Module>,
    found: &mut Vec<String>,
) {
    let name = &module.name;
    let layer = Layer::of(&module.path);
    for on in &module.depends_on {
        let target = listed
            .get(on.as_str())
            .and_then(|target| Layer::of(&target.path));
        if let (Some(from), Some(target)) = (layer, target)
            && from.needs_feature_for(target)
            && !module.feature_edges.contains_key(on)
        {
            found.push(format!("{name} -> {on} must be listed in feature-edges"));
        }
    }
    for (on, feature) in &module.feature_edges {
        let edges: Vec<&Dependency> = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.name == *on && purpose_of(dependency) == Use::Product)
            .collect();
        if edges.is_empty() || edges.iter().any(|dependency| !dependency.optional) {
            found.push(format!("{name} -> {on} is not an optional dependency"));
        }
        let enablers: Vec<&str> = package
            .features
            .iter()
            .filter(|(_, enabled)| {
                enabled
                    .iter()
                    .any(|item| *item == format!("dep:{on}") || item == on)
            })
            .map(|(enabler, _)| enabler.as_str())
            .collect();
        if enablers != [feature.as_str()] {
            found.push(format!(
                "{name} -> {on} is enabled by {enablers:?}, not by {feature} alone"
            ));
        }
    }
}

fn check_drivers(modules: &Modules, metadata: &Metadata, found: &mut Vec<String>) {
    for (driver, users) in &modules.drivers {
        for (purpose, listed) in [(Use::Product, &users.normal), (Use::Tests, &users.dev)] {
            let real: BTreeSet<&str> = metadata
                .packages
                .iter()
                .filter(|package| {
                    package.dependencies.iter().any(|dependency| {
                        dependency.name == *driver && purpose_of(dependency) == purpose
                    })
                })
                .map(|package| package.name.as_str())
                .collect();
            for user in real.iter().filter(|user| !listed.contains(**user)) {
                found.push(format!(
                    "{user} uses the driver {driver} ({purpose:?}) unlisted"
                ));
            }
            for user in listed.iter().filter(|user| !real.contains(user.as_str())) {
                found.push(format!(
                    "{user} is listed for {driver} ({purpose:?}) but does not use it"
                ));
            }
        }
    }
}

#[cfg(test)]
#[path = "edges_tests.rs"]
mod tests;
