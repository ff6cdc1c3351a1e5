//! Links the command as a library, too: an ELF file that runs as a program and that `dlopen` accepts (glibc refuses an
//! executable). It exports only the entry points of tools.

use std::env::var;
use std::path::Path;
use std::process::Command;

fn main() {
    let exports = Path::new(&var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("exports.map");
    // The absolute path, so that the build script runs again, and prints the right path, after the checkout was moved.
    println!("cargo::rerun-if-changed={}", exports.display());
    if var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") || var("CARGO_CFG_TARGET_ENV").as_deref() != Ok("gnu") {
        return; // `lib.rs` reports this
    }
    let arguments = [
        "-shared",
        &start_file(),
        "-Wl,-e,_start",
        &format!("-Wl,--version-script={}", exports.display()),
        "-Wl,-Bsymbolic", // otherwise the exported entry points cannot be linked
        "-Wl,-z,nodelete",
        "-Wl,-z,defs",
    ];
    arguments.iter().for_each(|argument| println!("cargo::rustc-link-arg-bins={argument}"));
}

/// The C library's file with `_start` for position-independent code, which linkers omit from libraries.
fn start_file() -> String {
    let linker = var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned());
    let output = Command::new(&linker).arg("-print-file-name=Scrt1.o").output();
    let found = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    found.ok().filter(|path| Path::new(path).is_file()).unwrap_or_else(|| {
        println!("cargo::error=`{linker} -print-file-name=Scrt1.o` finds no such file: install gcc and libc6-dev");
        String::new()
    })
}
