//! Variables of the environment, some of which name libraries to load and files to write.

#![allow(unsafe_code)]

use std::ffi::OsString;

/// A variable. A program that has rights which its user lacks (setuid, setgid, capabilities of its file) has none.
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
    // SAFETY: reads a number that the kernel left for this process when it began.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Not known here.
#[cfg(not(target_os = "linux"))]
fn has_more_rights_than_its_user() -> bool {
    false
}
