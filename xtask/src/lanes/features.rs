//! The features that one build of all tests turns on.
//!
//! Invariant: every feature of every member is on, so that no test is left out by its gate,
//! except those of xtask, whose feature only changes where services come from.

use crate::metadata::Metadata;

/// `package/feature` for every member but xtask, sorted, `default` left out.
pub(crate) fn all(metadata: &Metadata) -> Vec<String> {
    let mut features: Vec<String> = metadata
        .packages
        .iter()
        .filter(|package| package.name != "xtask")
        .flat_map(|package| {
            package
                .features
                .keys()
                .filter(|feature| *feature != "default")
                .map(|feature| format!("{}/{feature}", package.name))
        })
        .collect();
    features.sort();
    features
}

/// The same as one `--features` argument; empty when there is nothing to turn on.
pub(crate) fn arguments(features: &[String]) -> Vec<String> {
    if features.is_empty() {
        return Vec::new();
    }
    vec!["--features".to_owned(), features.join(",")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_but_default_and_those_of_xtask_is_on() {
        let metadata: Metadata = serde_json::from_str(
            r#"{"workspace_root": "/w", "packages": [
                {"name": "b", "manifest_path": "/w/b/Cargo.toml", "dependencies": [],
                 "features": {"default": ["x"], "x": [], "y": []}},
                {"name": "a", "manifest_path": "/w/a/Cargo.toml", "dependencies": [],
                 "features": {}},
                {"name": "xtask", "manifest_path": "/w/xtask/Cargo.toml", "dependencies": [],
                 "features": {"containers": []}}]}"#,
        )
        .unwrap();
        assert_eq!(arguments(&all(&metadata)), ["--features", "b/x,b/y"]);
        assert!(arguments(&[]).is_empty());
    }
}
