//! A Docker engine and two images made on the spot, for a machine that has neither.
//!
//! The images are built from Debian's own packages and the pinned artifacts, and take the same
//! variables as the public images they stand in for. Needs root, `dockerd` and `debootstrap`.
//!
//! Invariant: the engine has its own data folder and socket and never touches an installed one.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use super::download::{self, required_program};
use super::engine::EngineAddress;
use super::lock::ServicesLock;
use super::probe;
use super::state::ServicesHome;
use crate::process::{ProcessIdentity, log_tail, run_quietly, spawn_detached};
use crate::wait;

/// The image that stands in for `postgres:16`.
pub(crate) const POSTGRES_IMAGE: &str = "local/postgres:16";
/// The image that stands in for `apache/kafka:4.3.1`.
pub(crate) const KAFKA_IMAGE: &str = "local/kafka:4.3.1";

/// A running engine of our own; stopped and removed when dropped.
pub(crate) struct LocalEngine {
    address: EngineAddress,
    process: ProcessIdentity,
    folder: PathBuf,
}

impl LocalEngine {
    /// Starts the engine and makes both images.
    pub(crate) fn start() -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            bail!("a Docker engine of our own needs root");
        }
        let dockerd = required_program("dockerd", "docker.io, the engine of the containers lane")?;
        let name = format!(
            "countersign-docker-{:016x}",
            u64::from_le_bytes(probe::random_bytes()?)
        );
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).with_context(|| format!("create {}", folder.display()))?;
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700))
            .context("close the engine's folder to others")?;
        let socket = folder.join("docker.sock");
        let log = folder.join("dockerd.log");
        let process = spawn_detached(
            Command::new(dockerd)
                .arg("--data-root")
                .arg(folder.join("data"))
                .arg("--exec-root")
                .arg(folder.join("exec"))
                .arg("--pidfile")
                .arg(folder.join("pid"))
                .arg("-H")
                .arg(format!("unix://{}", socket.display())),
            &log,
        )?;
        let engine = Self {
            address: EngineAddress::Unix(socket),
            process,
            folder,
        };
        wait::until("dockerd answering", Duration::from_secs(60), || {
            if !process.is_alive() {
                bail!("dockerd ended");
            }
            Ok(engine.address.api_version().is_some())
        })
        .map_err(|error| error.context(log_tail(&log)))
        .context("start a Docker engine")?;
        println!("docker: own engine at {}", engine.address);
        engine.make_images().context("make the images")?;
        Ok(engine)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &EngineAddress {
        &self.address
    }

    fn make_images(&self) -> Result<()> {
        let lock = ServicesLock::load()?;
        let cache = ServicesHome::from_environment()?.cache()?;
        let postgres = download::postgres(&cache, &lock.postgres)?;
        let kafka = download::kafka(&cache, &lock.kafka)?;

        let debootstrap = required_program("debootstrap", "debootstrap, which makes the images")?;
        let root = self.folder.join("rootfs");
        println!("docker: make a Debian root with Java");
        run_quietly(
            Command::new(debootstrap)
                .args([
                    "--variant=minbase",
                    "--include=openjdk-17-jre-headless",
                    "bookworm",
                ])
                .arg(&root),
            "debootstrap",
        )?;
        copy(&postgres.join("native"), &root.join("opt/postgres"))?;
        copy(&kafka, &root.join("opt/kafka"))?;
        script(
            &root.join("usr/local/bin/postgres-entrypoint"),
            POSTGRES_ENTRYPOINT,
        )?;
        script(
            &root.join("usr/local/bin/kafka-entrypoint"),
            KAFKA_ENTRYPOINT,
        )?;
        self.import(&root, POSTGRES_IMAGE, "/usr/local/bin/postgres-entrypoint")?;
        self.import(&root, KAFKA_IMAGE, "/usr/local/bin/kafka-entrypoint")?;
        std::fs::remove_dir_all(&root).context("remove the Debian root")
    }

    fn import(&self, root: &Path, image: &str, entrypoint: &str) -> Result<()> {
        println!("docker: import {image}");
        let mut tar = Command::new("tar")
            .arg("-C")
            .arg(root)
            .args(["--exclude=./var/cache/apt/archives/*.deb", "-c", "."])
            .stdout(Stdio::piped())
            .spawn()
            .context("start tar")?;
        let archive = tar.stdout.take().context("no archive")?;
        let import = Command::new(required_program("docker", "docker.io")?)
            .env("DOCKER_HOST", self.address.url())
            .args([
                "import",
                "--change",
                &format!("ENTRYPOINT [\"{entrypoint}\"]"),
                "-",
                image,
            ])
            .stdin(archive)
            .stdout(Stdio::null())
            .status()
            .context("start docker import")?;
        let packed = tar.wait().context("wait for tar")?;
        if !(import.success() && packed.success()) {
            bail!("docker import of {image}: tar {packed}, docker {import}");
        }
        Ok(())
    }
}

impl Drop for LocalEngine {
    fn drop(&mut self) {
        match self.process.stop(Signal::TERM, Duration::from_secs(30)) {
            Ok(_) => println!("docker: own engine stopped"),
            Err(error) => eprintln!("stop the Docker engine: {error:#}"),
        }
        // A mount that is still there must not be emptied through; the folder then stays.
        if let Ok(mounts) = std::fs::read_to_string("/proc/self/mounts") {
            let prefix = self.folder.display().to_string();
            for mount in mounts
                .lines()
                .rev()
                .filter_map(|line| line.split(' ').nth(1))
            {
                if mount.starts_with(&prefix)
                    && let Err(error) = run_quietly(Command::new("umount").arg(mount), "umount")
                {
                    eprintln!("{error:#}");
                    return;
                }
            }
        }
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            eprintln!("remove {}: {error}", self.folder.display());
        }
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    run_quietly(
        Command::new("cp")
            .args(["-a", "--no-preserve=ownership"])
            .arg(from)
            .arg(to),
        "copy into the image",
    )?;
    Ok(())
}

fn script(path: &Path, text: &str) -> Result<()> {
    std::fs::File::create(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)))
        .with_context(|| format!("write {}", path.display()))
}

/// Takes `POSTGRES_PASSWORD`, `POSTGRES_DB` and the command `postgres OPTION…`.
const POSTGRES_ENTRYPOINT: &str = r#"#!/bin/sh
set -eu
export LD_LIBRARY_PATH=/opt/postgres/lib LC_ALL=C
data=/var/lib/postgres
install -d -o nobody -g nogroup -m 700 "$data"
umask 077
printf %s "$POSTGRES_PASSWORD" > "$data/password"
chown nobody "$data/password"
unset POSTGRES_PASSWORD
as_nobody() { setpriv --reuid=nobody --regid=nogroup --clear-groups -- "$@"; }
cd /
as_nobody /opt/postgres/bin/initdb -D "$data/data" -U postgres --pwfile="$data/password" \
    -A scram-sha-256 -E UTF8 --locale=C --no-sync --no-instructions > /dev/null
rm "$data/password"
echo 'host all all all scram-sha-256' >> "$data/data/pg_hba.conf"
if [ "${POSTGRES_DB:-postgres}" != postgres ]; then
    echo "CREATE DATABASE $POSTGRES_DB" | as_nobody /opt/postgres/bin/postgres --single -D "$data/data" postgres > /dev/null
fi
shift
exec setpriv --reuid=nobody --regid=nogroup --clear-groups -- \
    /opt/postgres/bin/postgres -D "$data/data" -c listen_addresses='*' -c unix_socket_directories= "$@"
"#;

/// Takes every broker setting as a variable: `KAFKA_NODE_ID` is `node.id`.
const KAFKA_ENTRYPOINT: &str = r#"#!/bin/sh
set -eu
mkdir -p /var/lib/kafka
cd /var/lib/kafka
heap=${KAFKA_HEAP_OPTS:--Xmx400m -Xms128m}
unset KAFKA_HEAP_OPTS
echo log.dirs=/var/lib/kafka/data > server.properties
env | grep '^KAFKA_' | while IFS='=' read -r name value; do
    key=$(printf %s "${name#KAFKA_}" | tr 'A-Z_' 'a-z.')
    printf '%s=%s\n' "$key" "$value" >> server.properties
done
java -XX:TieredStopAtLevel=1 -cp '/opt/kafka/*' kafka.tools.StorageTool format \
    -t MDEyMzQ1Njc4OWFiY2RlZg -c server.properties
exec java $heap -XX:+UseSerialGC -cp '/opt/kafka/*' kafka.Kafka server.properties
"#;
