//! Where a running process serves its descriptor.
//!
//! Invariant: the path is one that the system takes; by default it is below the profile's own
//! folder, so that whoever names the profile finds the process.

use super::super::code::StartCode;
use super::super::error::ConfigError;
use super::origin::Origin;
use inbound_operator_http::MAXIMUM_PATH_BYTES;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

pub(super) fn compile(at: &Origin<'_>, given: Option<&Path>) -> Result<PathBuf, ConfigError> {
    let path = match given {
        Some(path) => at.path(path),
        None => {
            let mut name = at
                .file
                .file_stem()
                .map_or_else(OsString::new, OsString::from);
            name.push(".sock");
            at.path(&Path::new("run").join(name))
        }
    };
    let bytes = path.as_os_str().as_bytes().len();
    if bytes > MAXIMUM_PATH_BYTES {
        return Err(at.refuse_as(
            StartCode::DescriptorSocket,
            "descriptor-socket",
            format!(
                "leads to a path of {bytes} bytes, but a local socket's has at most \
                 {MAXIMUM_PATH_BYTES}; name a shorter one"
            ),
        ));
    }
    Ok(path)
}
