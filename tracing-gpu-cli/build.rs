//! Links the command so that it is a library, too: an ELF file that runs as a program and that `dlopen` takes (glibc
//! refuses an executable). It exports the entry points of tools, and nothing else.

use std::env::var;
use std::path::Path;
use std::process::Command;

fn main() {
    let exports = Path::new(&var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("exports.map");
    // By its whole path, so that this runs again, and says where it is, when somebody has moved the checkout.
    println!("cargo::rerun-if-changed={}", exports.display());
    if var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") || var("CARGO_CFG_TARGET_ENV").as_deref() != Ok("gnu") {
        return; // `lib.rs` says so
    }
    let arguments = [
        "-shared",
        &start_file(),
        "-Wl,-e,_start",
        &format!("-Wl,--version-script={}", exports.display()),
        "-Wl,-Bsymbolic", // else the exported entry points cannot be linked
        "-Wl,-z,nodelete",
        "-Wl,-z,defs",
    ];
    arguments.iter().for_each(|argument| println!("cargo::rustc-link-arg-bins={argument}"));
}

/// Where the C library has `_start` for code that can lie anywhere. A linker of libraries leaves it out.
fn start_file() -> String {
    let linker = var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned());
    let output = Command::new(&linker).arg("-print-file-name=Scrt1.o").output();
    let found = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    found.ok().filter(|path| Path::new(path).is_file()).unwrap_or_else(|| {
        println!("cargo::error=`{linker} -print-file-name=Scrt1.o` finds no such file: install gcc and libc6-dev");
        String::new()
    })
}
