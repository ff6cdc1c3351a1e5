//! The file of the command: a program and a library at once.

use std::path::Path;
use std::process::Command;

use tests::launcher::{Folder, binary, command, compiled};

/// All symbols that another program may see.
const EXPORTS: [&str; 4] =
    ["InitializeInjection", "InitializeInjectionNvtx2", "InitializeInjectionNvtxExtension", "acc_register_library"];

fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error} (install binutils)"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn assert_is_both(file: &Path) {
    let headers = printed(Command::new("readelf").args(["-lW"]).arg(file));
    let interpreter = headers.lines().filter(|line| line.contains("program interpreter"));
    assert_eq!(interpreter.count(), 1, "{headers}");
    let symbols = printed(Command::new("nm").args(["-D", "--defined-only", "--format=just-symbols"]).arg(file));
    let mut symbols: Vec<&str> = symbols.lines().collect();
    symbols.sort_unstable();
    assert_eq!(symbols, EXPORTS);
    // There is no network: the only sockets are pairs, by which a signal handler wakes a thread.
    let called = printed(Command::new("nm").args(["-D", "--undefined-only", "--format=just-symbols"]).arg(file));
    let called: Vec<&str> = called.lines().filter_map(|call| call.split('@').next()).collect();
    assert!(called.contains(&"socketpair"), "{called:?}");
    for call in ["socket", "connect", "bind", "listen", "accept", "accept4", "getaddrinfo"] {
        assert!(!called.contains(&call), "{call}");
    }
    // SAFETY: its initialisers, of Rust's standard library and one of ours, may run twice.
    #[allow(unsafe_code)]
    let library = unsafe { libloading::Library::new(file) };
    assert!(library.is_ok(), "{library:?}");
    std::mem::forget(library);
    assert!(printed(Command::new(file).arg("--version")).starts_with("tracing-gpu "));
}

#[test]
fn the_file_is_a_program_and_a_library() {
    assert_is_both(binary());
}

/// Installed into an empty folder it needs nothing else, and runs without an environment.
#[test]
fn what_cargo_installs_is_all_there_is() {
    let root = Folder::new();
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tracing-gpu-cli");
    let target = binary().ancestors().nth(3).expect("target/debug/for-tests/tracing-gpu");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["install", "--quiet", "--debug", "--locked", "--no-track", "--path"]).arg(package);
    printed(cargo.arg("--root").arg(&root.0).arg("--target-dir").arg(target));
    assert_eq!(Folder::names(&root), ["bin"]);
    let installed = root.0.join("bin/tracing-gpu");
    assert_is_both(&installed);
    let output = Command::new(&installed).env_clear().args(["/bin/sh", "-c", "exit 3"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}

/// The program's `sqlite3_...` functions differ from ours: neither calls the other's.
#[test]
fn a_program_keeps_its_own_sqlite() {
    let folder = Folder::new();
    let source = folder.0.join("own.c");
    let code = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        #include <stdlib.h>
        int sqlite3_open_v2() { abort(); }
        int sqlite3_initialize() { abort(); }
        int sqlite3_prepare_v2() { abort(); }
        const char *sqlite3_libversion() { return "own"; }
        int main() {
            void *tool = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW | RTLD_GLOBAL);
            if (!tool) return puts(dlerror()), 1;
            const char *(*version)() = dlsym(RTLD_DEFAULT, "sqlite3_libversion");
            int (*begin)() = dlsym(tool, "InitializeInjection");
            return puts(version()), begin() != 1;
        }"#;
    std::fs::write(&source, code).expect("a source");
    let program = compiled(&folder.0, &source, &["-rdynamic", "-ldl"]);
    let database = folder.0.join("run.sqlite");
    let mut command = command(&["--gpu", "off", "--sqlite"]);
    let output = command.arg(&database).arg(program).output().expect("it starts");
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"own\n"[..]), "{output:?}");
}
