//! The unprivileged account that PostgreSQL runs under.
//!
//! Invariant: PostgreSQL is never started as root, and nothing is added to the system's
//! accounts for it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::download::required_program;
use crate::process::run_quietly;

/// Who a command runs as.
#[derive(Clone, Debug)]
pub(crate) enum Account {
    /// The user who called; not root.
    Caller,
    /// Another user, by `setpriv`, because root called.
    Other {
        /// The name, for people.
        name: String,
        /// The user id.
        uid: u32,
        /// The primary group id.
        gid: u32,
        /// Where `setpriv` lies.
        setpriv: PathBuf,
    },
}

impl Account {
    /// The caller, or for root the first of `postgres` and `nobody` that exists.
    pub(crate) fn unprivileged() -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::Caller);
        }
        let setpriv = required_program(
            "setpriv",
            "util-linux, which starts PostgreSQL as another user",
        )?;
        let passwd = std::fs::read_to_string("/etc/passwd").context("read /etc/passwd")?;
        for name in ["postgres", "nobody"] {
            if let Some((uid, gid)) = ids_of(&passwd, name) {
                let name = name.to_owned();
                return Ok(Self::Other {
                    name,
                    uid,
                    gid,
                    setpriv,
                });
            }
        }
        bail!("PostgreSQL refuses to run as root, and neither postgres nor nobody is a user here")
    }

    /// A command with an empty environment that runs `program` under this account.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = match self {
            Self::Caller => Command::new(program),
            Self::Other {
                uid, gid, setpriv, ..
            } => {
                let mut command = Command::new(setpriv);
                command
                    .args([format!("--reuid={uid}"), format!("--regid={gid}")])
                    .args(["--clear-groups", "--"])
                    .arg(program);
                command
            }
        };
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .current_dir("/");
        command
    }

    /// Whether this account can reach `path`, every folder above it included.
    pub(crate) fn can_reach(&self, path: &Path) -> bool {
        let mut look = self.command("test");
        look.arg("-x").arg(path);
        run_quietly(&mut look, "look at a path").is_ok()
    }

    /// Gives a file or folder to this account.
    pub(crate) fn own(&self, path: &Path) -> Result<()> {
        if let Self::Other { uid, gid, .. } = self {
            std::os::unix::fs::chown(path, Some(*uid), Some(*gid))
                .with_context(|| format!("give {} to another user", path.display()))?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Caller => f.write_str("the calling user"),
            Self::Other { name, .. } => f.write_str(name),
        }
    }
}

fn ids_of(passwd: &str, name: &str) -> Option<(u32, u32)> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.first() == Some(&name))
            .then(|| Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?)))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_exact_name() {
        let passwd = "postgresql:x:7:7::/:/bin/sh\npostgres:x:101:104:P,,,:/v:/bin/bash\n";
        assert_eq!(ids_of(passwd, "postgres"), Some((101, 104)));
        assert_eq!(ids_of(passwd, "nobody"), None);
    }
}
