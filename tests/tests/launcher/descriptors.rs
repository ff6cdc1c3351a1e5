//! The program may do anything with its descriptors and its files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tests::foreign::headers;
use tests::launcher::{Folder, binary, compiled, run};

/// `descriptors.c`, compiled.
fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/launcher/descriptors.c");
        let include = format!("-I{}", headers().display());
        compiled(Path::new(env!("CARGO_TARGET_TMPDIR")), &source, &[&include, "-ldl"])
    })
}

/// It closes all descriptors and opens its own files under the same numbers.
#[test]
fn files_of_the_program_stay_its_own() {
    for output in ["sqlite", "trace", "html"] {
        let folder = Folder::new();
        let option = [&format!("--{output}"), "own"];
        let ran = run(&option, |command| command.arg(program()).arg("reuse").current_dir(&folder.0));
        assert_eq!((ran.status.code(), &*ran.ranges()), (Some(0), "before 1, work 1"), "{}", ran.stderr);
        let is_changed = |name: &String| {
            name.starts_with("file-") && std::fs::metadata(folder.0.join(name)).expect("a file").len() > 0
        };
        let changed: Vec<String> = folder.names().into_iter().filter(is_changed).collect();
        assert!(changed.is_empty(), "{output}: {changed:?}");
        let said = ran.said();
        assert!(said.len() == 1 && said[0].ends_with(": the program has closed its descriptor"), "{output}: {said:?}");
    }
}

/// Standard error is a file that must not grow, or a pipe without a reader. One line of ours is lost, and nothing else.
#[test]
fn a_line_that_cannot_be_written_ends_no_program() {
    for way in ["limit", "unread"] {
        let folder = Folder::new();
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"exec "$@" 2> error"#, "sh"]).arg(binary()).args(["-o", "none", "--json", "own"]);
        let output = shell.arg(program()).arg(way).current_dir(&folder.0).output().expect("a shell");
        assert_eq!(output.status.code(), Some(0), "{way}: {:?}", output.status);
    }
}

/// Without its own threads the library still counts everything, so there is no message.
#[test]
fn a_program_without_room_for_threads_is_measured() {
    let ran = run(&["-o", "none"], |command| command.arg(program()).arg("no threads"));
    assert_eq!((ran.status.code(), &*ran.ranges(), ran.said()), (Some(0), "work 1", vec![]), "{}", ran.stderr);
}
