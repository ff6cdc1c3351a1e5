//! The example that is a tool, where nobody reads its output (any more, as behind `| head`): no panic, and the status
//! that it is otherwise.
#![cfg(unix)]

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// An example of this package: cargo builds them with its tests.
fn example(name: &str, arguments: &[&str]) -> Command {
    let program = std::env::current_exe().expect("the path of this program is known");
    let built = |folder: &Path| Some(folder.join("examples").join(name)).filter(|path| path.is_file());
    let found = program.ancestors().skip(1).find_map(built);
    let mut command = Command::new(found.expect("it is built by `cargo build -p examples --examples`"));
    command.args(arguments).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/json"));
    command.env_remove("TRACING_GPU").env_remove("TRACING_GPU_FILTER");
    command
}

/// The end of a pipe whose other end is closed.
fn closed_pipe() -> OwnedFd {
    let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().expect("`true` can be started");
    let end = reader.stdin.take().expect("its input is piped");
    reader.wait().expect("it ends");
    end.into()
}

fn run(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.output().expect("an example can be started");
    (status.code(), String::from_utf8(stderr).expect("UTF-8"))
}

/// Its status, and what it says on standard error, with a reader of its standard output and without.
fn read_and_unread(name: &str, arguments: &[&str]) -> [(Option<i32>, String); 2] {
    [run(&mut example(name, arguments)), run(example(name, arguments).stdout(closed_pipe()))]
}

/// Its status where both of its outputs are one pipe, which nobody reads.
fn status_unread(name: &str, arguments: &[&str]) -> Option<i32> {
    let nobody = closed_pipe();
    let same = nobody.try_clone().expect("a descriptor");
    run(example(name, arguments).stdout(nobody).stderr(same)).0
}

#[test]
fn compare_judges_whoever_reads() {
    for (arguments, code) in [
        (&["cuda.json", "cuda.json"][..], 0),
        (&["cuda.json", "sycl.json"], 1),
        (&["--added", "--least", "0", "full.json", "cuda.json"], 1),
        (&["--csv", "cuda.json", "sycl.json"], 1),
        (&["--json", "cuda.json", "sycl.json"], 1),
        (&["cuda.json", "missing.json"], 2),
        (&["--help"], 0),
    ] {
        let [read, unread] = read_and_unread("compare", arguments);
        assert_eq!((read.0, &unread), (Some(code), &read), "{arguments:?}");
        assert_eq!(status_unread("compare", arguments), Some(code), "{arguments:?}");
    }
    let [read, unread] = read_and_unread("compare", &[]);
    for (status, said) in [read, unread] {
        assert!(status == Some(0) && said.starts_with("SLOWER "), "{status:?}: {said}");
    }
    assert_eq!(status_unread("compare", &[]), Some(0));
}

/// What fails for another reason is said.
#[test]
fn a_comparison_that_cannot_be_written_is_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full, which Linux has");
    let (status, said) = run(example("compare", &["cuda.json", "cuda.json"]).stdout(full));
    assert_eq!((status, said.as_str()), (Some(2), "compare: No space left on device (os error 28)\n"));
}
