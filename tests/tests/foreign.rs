//! Programs in C and Python that use NVIDIA's own NVTX, with a tool of `nvtx-rs` behind them.

use std::process::Command;
use tests::foreign::{compile, folder};
use tests::recorder::{Call, run_recorded};

/// Calls that say what was annotated, each as `kind domain:message`.
fn events(calls: &[Call]) -> Vec<String> {
    calls.iter().filter(|call| call.is_event()).map(Call::to_string).collect()
}

/// The package asks the entry point of the extensions whether a domain is enabled, and sends nothing if it fails.
#[test]
fn ranges_of_python_are_received() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/ranges.py");
    let calls = run_recorded(Command::new("python3").arg(script).env("PYTHONPATH", folder("python")));
    let expected = "push python:outer|mark python:moment|pop python:|push decorated|pop|start started\
                    |end|push pushed|pop";
    assert_eq!(events(&calls).join("|"), expected);
    let outer = calls.iter().find(|call| call.kind == "push").unwrap();
    assert_eq!((outer.color, outer.payload.as_deref()), (Some(0x00FF_0000), Some("i64:3")));
}

/// The library asks for `InitializeInjectionNvtx2` first, and passes the tables of version 3.
#[test]
fn ranges_of_the_library_of_version_2_are_received() {
    let library = folder("v2").join("nvidia/nvtx");
    let include = format!("-I{}", library.join("include").display());
    let (file, path) = (library.join("lib/libnvToolsExt.so.1"), format!("-Wl,-rpath,{}/lib", library.display()));
    let program = compile("tests/foreign/version_2.c", &[&include, &file.display().to_string(), &path]);
    let calls = run_recorded(&mut Command::new(&program));
    let expected = "push outer|push domain:registered ü|mark wide|pop domain:|pop|start started|end";
    assert_eq!(events(&calls).join("|"), expected);
    std::fs::remove_file(program).unwrap();
}
