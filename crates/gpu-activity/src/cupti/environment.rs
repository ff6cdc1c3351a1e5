//! Variables of the environment.
#![allow(unsafe_code)]

use std::ffi::OsString;

/// A variable of the environment. `None` in a program with more rights than its user: a variable could make it load any
/// library.
pub(super) fn variable(name: &str) -> Option<OsString> {
    #[cfg(target_os = "linux")]
    // SAFETY: reads a number that the kernel set when the process started.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    std::env::var_os(name)
}
