//! Variables of the environment.
#![allow(unsafe_code)]

use std::ffi::OsString;

/// A variable of the environment. A program that has rights which its user lacks has none: it would load any library.
pub(super) fn variable(name: &str) -> Option<OsString> {
    #[cfg(target_os = "linux")]
    // SAFETY: reads a number that the kernel left for this process when it began.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    std::env::var_os(name)
}
