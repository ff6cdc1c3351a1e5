//! Files that are complete or absent, and pipes.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};

use tests::recorder::example;
use tracing_gpu::{Summary, SummaryExt as _};

use crate::scenario::{BOTH, command, outcome};
use crate::{Folder, summary};

fn pipe(path: &str) {
    let made = Command::new("mkfifo").arg(path).status().expect("`mkfifo` can be started");
    assert!(made.success());
}

/// The reading end of a pipe, opened before anybody writes, so that a writer finds a reader. It also keeps the pipe
/// open for writing, so it waits for the first byte and sees no end.
fn reader(path: &str) -> fs::File {
    fs::File::options().read(true).write(true).open(path).expect("a pipe")
}

/// No file may be longer than 512 or 1,024 bytes (as the shell counts), which imitates a full disk.
#[test]
fn what_does_not_go_onto_the_disk_leaves_what_was_there() {
    for tier in BOTH {
        let folder = Folder::new(&format!("full-{tier}"));
        let [json, new, report] =
            ["old.json", "new.json", "report"].map(|name| folder.0.join(name).display().to_string());
        fs::write(&report, "of an older run").expect("a file can be written");
        let ran = outcome(command("guard", tier).env("TRACING_GPU", format!("json={json}")));
        let before = fs::read(&json).expect("a summary");
        assert!(ran.status.success() && before.len() > 1024, "{tier}: {}", ran.stderr);
        for (path, files) in [(&json, ["old.json", "report"]), (&new, ["old.json", "report"])] {
            let mut limited = Command::new("sh");
            limited.args(["-c", r#"trap "" XFSZ; ulimit -f 1; exec "$0" "$@""#]).arg(example("spans"));
            limited.args(["guard", tier]).env("TRACING_GPU", format!("report=ranges+tree,out={report},json={path}"));
            let ran = outcome(&mut limited);
            assert!(ran.status.success(), "{tier}: {}", ran.stderr);
            for (what, path) in [("report", &report), ("JSON", path)] {
                let line = format!("tracing-gpu: cannot write the {what} to `{path}`: File too large (os error 27)\n");
                assert!(ran.stderr.contains(&line), "{tier}: {}", ran.stderr);
            }
            assert!(ran.stderr.contains("Range Summary ("), "the report is not lost: {}", ran.stderr);
            assert_eq!(folder.files(), files, "{tier}: and nothing is left of what was begun");
            assert_eq!(fs::read(&json).expect("a summary"), before, "{tier}");
            assert_eq!(fs::read_to_string(&report).expect("a report"), "of an older run", "{tier}");
        }
        let ran = outcome(command("guard", tier).env("TRACING_GPU", format!("json={json}")));
        assert!(ran.status.success() && fs::read(&json).expect("a summary") != before, "{tier}");
    }
}

#[test]
fn a_pipe_that_nobody_reads_is_one_line() {
    let folder = Folder::new("unread");
    let at = |name: &str| folder.0.join(name).display().to_string();
    ["pipe", "other"].iter().for_each(|name| pipe(&at(name)));
    let named = [("out", "report"), ("json", "JSON"), ("folded", "folded stacks"), ("trace", "trace")];
    for (key, what) in named {
        // If the program waits for a reader, `timeout` kills it.
        let mut child = Command::new("timeout");
        child.args(["-s", "KILL", "60"]).arg(example("spans")).args(["guard", "layer"]);
        child.env("TRACING_GPU", format!("{key}={}", at("pipe"))).env_remove("NVTX_INJECTION64_PATH");
        let ran = outcome(&mut child);
        let line = format!("tracing-gpu: cannot write the {what} to `{}`: nobody reads this pipe", at("pipe"));
        assert!(
            ran.status.success() && ran.stderr.matches(&line).count() == 1,
            "{key}: {}: {}",
            ran.status,
            ran.stderr
        );
        assert!(ran.stderr.contains("Range Summary ("), "{key}: {}", ran.stderr);
    }
}

/// The reader may be `| head`. The timeline is then incomplete, so the profiler prints one line.
#[test]
fn a_pipe_whose_reader_leaves_early_holds_nobody_up() {
    let folder = Folder::new("early");
    let path = folder.0.join("pipe").display().to_string();
    pipe(&path);
    for (key, is_told) in [("trace", true), ("json", false), ("folded", false)] {
        let mut child = Command::new("timeout");
        child.args(["-s", "KILL", "60"]).arg(example("spans")).args(["timeline", "layer"]);
        child.env("TRACING_GPU", format!("report=ranges,{key}={path}")).env_remove("NVTX_INJECTION64_PATH");
        let mut reader = reader(&path);
        let child = child.stderr(Stdio::piped()).spawn().expect("the child");
        reader.read_exact(&mut [0]).expect("a byte");
        drop(reader);
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("tracing-gpu:")).collect();
        let line = format!("tracing-gpu: cannot write the trace to `{path}`: Broken pipe (os error 32)");
        assert!(output.status.success() && said.contains("Range Summary ("), "{key}: {}: {said}", output.status);
        assert_eq!(lines, if is_told { vec![line.as_str()] } else { Vec::new() }, "{key}");
    }
}

#[test]
fn pipes_with_readers_and_the_streams_of_the_program_are_written_to() {
    for tier in BOTH {
        let folder = Folder::new(&format!("read-{tier}"));
        let at = |name: &str| folder.0.join(name).display().to_string();
        pipe(&at("pipe"));
        let mut child = command("guard", tier);
        let setting = format!("json=/dev/stdout,out=/dev/stderr,trace={},folded=/dev/null", at("pipe"));
        child.env("TRACING_GPU", setting).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut first = reader(&at("pipe"));
        let child = child.spawn().expect("the child");
        let mut trace = vec![0];
        first.read_exact(&mut trace).expect("a byte");
        let mut rest = fs::File::open(at("pipe")).expect("a pipe");
        drop(first);
        rest.read_to_end(&mut trace).expect("the rest");
        let trace = String::from_utf8(trace).expect("UTF-8");
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("tracing-gpu:"), "{tier}: {said}");
        assert!(said.contains("Range Summary (") && trace.contains("\"step\""), "{tier}: {said} {trace}");
        assert_eq!(Summary::read_json(output.stdout.as_slice()).expect("a summary").ranges.len(), 2, "{tier}");
        assert_eq!(folder.files(), ["pipe"], "{tier}");
    }
}

/// A shell's `>(...)` and `/dev/stdout`, with standard output being a file that others write, too.
#[test]
fn a_shell_may_say_where_it_goes() {
    let folder = Folder::new("shell");
    let mut shell = Command::new("bash");
    let script = r#"cd "$1" && TRACING_GPU="out=none,json=/dev/stdout" "$0" guard layer >redirected.json &&
        exec 3> >(cat >piped.json) && TRACING_GPU="out=none,json=/dev/fd/3" "$0" guard layer; exec 3>&-; wait $!"#;
    let ran = outcome(shell.args(["-c", script]).arg(example("spans")).arg(&folder.0));
    assert!(ran.status.success() && ran.stderr.is_empty(), "{}", ran.stderr);
    for name in ["piped.json", "redirected.json"] {
        assert_eq!(summary(&folder.0.join(name)).ranges.len(), 2, "{name}");
    }
}
