//! Links the command as a library, too: an ELF file that runs as a program and that `dlopen` accepts (glibc refuses an
//! executable). It exports only the entry points of tools.

use std::env::var;
use std::path::Path;

fn main() {
    let exports = Path::new(&var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("exports.map");
    // The absolute path, so that the build script runs again, and prints the right path, after the checkout was moved.
    println!("cargo::rerun-if-changed={}", exports.display());
    if var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") || var("CARGO_CFG_TARGET_ENV").as_deref() != Ok("gnu") {
        return; // `lib.rs` reports this
    }
    let arguments = [
        "-no-pie", // which some linkers refuse for a library
        "-shared",
        "-Wl,-e,_start",
        &format!("-Wl,--version-script={}", exports.display()),
        "-Wl,-Bsymbolic", // otherwise the exported entry points cannot be linked
        "-Wl,-z,nodelete",
        "-Wl,-z,defs",
    ];
    arguments.iter().for_each(|argument| println!("cargo::rustc-link-arg-bins={argument}"));
}
