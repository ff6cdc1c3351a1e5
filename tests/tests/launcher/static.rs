//! Statically linked programs: those that contain NVTX survive, others start programs that are measured.

use std::path::{Path, PathBuf};

use tests::foreign::headers;
use tests::launcher::{Folder, compiled, run};

const WITH_NVTX: &str = r#"
    #include <nvtx3/nvToolsExt.h>
    #include <stdlib.h>
    int main(int count, char **arguments) {
        nvtxRangePushA("range");
        nvtxRangePop();
        return count > 1 ? system(arguments[1]) : 0;
    }"#;
const WITHOUT_NVTX: &str =
    "#include <stdlib.h>\nint main(int count, char **arguments) { return system(arguments[1]); }";
const BECAUSE: &str =
    "nothing was measured: it is linked statically, and the library that measures needs the dynamic loader";

/// Prints the injection variable that a started program finds in its environment.
const ECHO: &str = r#"echo "${NVTX_INJECTION64_PATH:-nothing}""#;

fn program(folder: &Folder, name: &str, code: &str, options: &[&str]) -> PathBuf {
    let source = folder.0.join(format!("{name}.c"));
    std::fs::write(&source, code).expect("a source");
    compiled(&folder.0, &source, &[&[&*format!("-I{}", headers().display())], options].concat())
}

/// Whether the command starts it, or a shell does.
#[test]
fn a_static_program_with_nvtx_ends_as_it_does_alone() {
    let folder = Folder::new();
    for name in ["static", "static-pie"] {
        let program = program(&folder, name, WITH_NVTX, &[&format!("-{name}")]);
        let ran = run(&[], |command| command.arg(&program).arg(ECHO));
        assert_eq!((ran.status.code(), &*ran.stdout), (Some(0), "nothing\n"), "{name}: {}", ran.stderr);
        assert_eq!(ran.said(), [BECAUSE], "{name}");
        let ran = run(&[], |command| command.args(["sh", "-c", r#""$0"; exit $?"#]).arg(&program));
        assert_eq!((ran.status.code(), &*ran.ranges()), (Some(0), ""), "{name}, by a shell: {}", ran.stderr);
    }
}

#[test]
fn a_static_program_without_nvtx_starts_programs_that_are_measured() {
    let folder = Folder::new();
    let starts = program(&folder, "starts", WITHOUT_NVTX, &["-static"]);
    let measured = program(&folder, "measured", WITH_NVTX, &["-ldl"]);
    let ran = run(&[], |command| command.arg(&starts).arg(&measured));
    assert_eq!((ran.status.code(), &*ran.ranges(), ran.said()), (Some(0), "range 1", vec![]), "{}", ran.stderr);
    let ran = run(&[], |command| command.arg(&starts).arg(ECHO));
    assert!(Path::new(ran.stdout.trim_end()).is_file(), "{}", ran.stdout);
}
