//! Variables of the environment, some of which name libraries to load and files to write.

#![allow(unsafe_code)]

use std::ffi::OsString;

/// A variable. `None` in a program with rights that its user lacks (setuid, setgid, capabilities of its file).
///
/// ```
/// assert_eq!(nvtx_rs::environment::variable("PATH"), std::env::var_os("PATH"));
/// ```
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    if has_more_rights_than_its_user() { None } else { std::env::var_os(name) }
}

#[cfg(target_os = "linux")]
fn has_more_rights_than_its_user() -> bool {
    // SAFETY: reads a number that the kernel set when the process started.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Unknown on this system.
#[cfg(not(target_os = "linux"))]
fn has_more_rights_than_its_user() -> bool {
    false
}
