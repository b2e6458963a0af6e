//! Runs the official JSON Schema Test Suite (Draft 2020-12) through the options that payload
//! schemas are compiled with, and prints every case whose outcome is not the suite's.
//!
//! Invariant: no resolver, `format` asserted, patterns on the linear-time engine, exactly as in the
//! product; nothing is skipped without being printed.
//!
//! `cargo run -p outbound-contract-json --example json_schema_suite -- FOLDER`, where `FOLDER` is a
//! checkout of the suite.

use outbound_contract_json::validation_options;
use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};

#[derive(Default, Clone, Copy)]
struct Count {
    passed: usize,
    failed: usize,
    refused: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let suite = std::env::args()
        .nth(1)
        .map(PathBuf::from)
        .ok_or("name the folder of the suite")?;
    let tests = suite.join("tests/draft2020-12");
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    for (part, folder) in [
        ("required", tests.clone()),
        ("optional", tests.join("optional")),
        ("optional/format", tests.join("optional/format")),
    ] {
        for file in files(&folder)? {
            let count = run(part, &file)?;
            let total = counts.entry(part).or_default();
            total.passed += count.passed;
            total.failed += count.failed;
            total.refused += count.refused;
        }
    }
    for (
        part,
        Count {
            passed,
            failed,
            refused,
        },
    ) in counts
    {
        println!("{part}: {passed} as expected, {failed} otherwise, {refused} not compiled");
    }
    Ok(())
}

fn run(part: &str, file: &Path) -> Result<Count, Box<dyn Error>> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let groups: Vec<Value> = serde_json::from_slice(&std::fs::read(file)?)?;
    let mut count = Count::default();
    for group in &groups {
        let description = group["description"].as_str().unwrap_or_default();
        let tests = group["tests"].as_array().map_or(&[][..], Vec::as_slice);
        let validator = match validation_options().build(&group["schema"]) {
            Ok(validator) => validator,
            Err(error) => {
                count.refused += tests.len();
                let keyword = error.kind().keyword().to_owned();
                println!("{part}/{name}: {description}: not compiled ({keyword}): {error}");
                continue;
            }
        };
        for test in tests {
            if Some(validator.is_valid(&test["data"])) == test["valid"].as_bool() {
                count.passed += 1;
            } else {
                count.failed += 1;
                let what = test["description"].as_str().unwrap_or_default();
                println!(
                    "{part}/{name}: {description}: {what}: expected {}",
                    test["valid"]
                );
            }
        }
    }
    Ok(count)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "json")
    });
    files.sort();
    Ok(files)
}
