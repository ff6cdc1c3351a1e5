//! The commands that read summaries: `compare` and `page`.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use tests::launcher::{Folder, command};
use tracing_gpu::summary::{RangeStats, Times};
use tracing_gpu::{Summary, SummaryExt as _};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/json");

/// The command, run in the folder of golden summaries.
fn in_golden(arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    command.current_dir(GOLDEN);
    command
}

/// Its status, and its output on standard error.
fn ended(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.output().expect("it starts");
    (status.code(), String::from_utf8(stderr).expect("UTF-8"))
}

/// A pipe whose reader has closed it.
fn closed_pipe() -> OwnedFd {
    let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().expect("`true` can be started");
    let end = reader.stdin.take().expect("its input is piped");
    reader.wait().expect("it ends");
    end.into()
}

/// With a reader of its output, without one, and without a reader of its errors.
#[test]
fn the_status_of_a_comparison_is_for_a_build_whoever_reads() {
    let folder = Folder::new();
    let renamed = folder.0.join("renamed.json").display().to_string();
    let text = fs::read_to_string(format!("{GOLDEN}/cuda.json")).expect("a summary");
    fs::write(&renamed, text.replace("\"Init random data\"", "\"Init\"")).expect("a file");
    for (status, arguments) in [
        (0, &["cuda.json", "cuda.json"][..]),
        (1, &["cuda.json", "sycl.json"]),
        (1, &["--csv", "cuda.json", "sycl.json"]),
        (0, &["--threshold", "400000%", "cuda.json", "sycl.json"]),
        (0, &["--least", "100000", "--basis", "total", "cuda.json", "sycl.json"]),
        (0, &["--least", "0", "cuda.json", &renamed]),
        (1, &["--least", "0", "--added", "cuda.json", &renamed]),
        (0, &["--added", "cuda.json", "cuda.json"]),
        (2, &["--least", "0", "full.json", "cuda.json"]),
        (2, &["cuda.json", "cuda.json", "full.json"]),
        (1, &["--least", "0", "--added", "full.json", "cuda.json"]),
        (0, &["--base", "cuda.json", "cuda.json", "--new", "cuda.json"]),
        (1, &["--new", "sycl.json", "--base", "cuda.json", "cuda.json"]),
        (2, &["cuda.json"]),
        (2, &["--base", "cuda.json"]),
        (2, &["--base", "cuda.json", "--new"]),
        (2, &["--base", "cuda.json", "--new", "cuda.json", "--", "cuda.json", "cuda.json"]),
        (2, &["--basis", "mean", "cuda.json", "cuda.json"]),
        (2, &["--threshold", "-1", "cuda.json", "cuda.json"]),
        (2, &["--html", "/no/such/folder/page.html", "cuda.json", "cuda.json"]),
        (0, &["--help"]),
    ] {
        let arguments = [&["compare"], arguments].concat();
        let read = ended(&mut in_golden(&arguments));
        assert_eq!(read.0, Some(status), "{arguments:?}: {}", read.1);
        assert_eq!(ended(in_golden(&arguments).stdout(closed_pipe())), read, "{arguments:?}");
        let nobody = closed_pipe();
        let same = nobody.try_clone().expect("a descriptor");
        assert_eq!(ended(in_golden(&arguments).stdout(nobody).stderr(same)).0, Some(status), "{arguments:?}");
    }
}

#[test]
fn a_comparison_is_printed_and_written_and_names_what_fails() {
    let folder = Folder::new();
    let path = |name: &str| folder.0.join(name).display().to_string();
    let (json, html) = (path("compared.json"), path("compared.html"));
    let arguments = ["compare", "--json", &json, "--html", &html, "cuda.json", "sycl.json"];
    let output = in_golden(&arguments).output().expect("it starts");
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(printed.contains(" ** Range Comparison (base: cuda):"), "{printed}");
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    let mut lines = said.lines();
    assert!(lines.next().is_some_and(|line| line.starts_with("tracing-gpu: SLOWER sycl: Module running took 23.83 s")));
    assert_eq!(lines.next(), None);
    assert!(fs::read_to_string(json).expect("a file").contains("\"runs\""));
    assert!(fs::read_to_string(html).expect("a file").starts_with("<!doctype html>"));
    let csv = in_golden(&["compare", "--csv", "cuda.json", "sycl.json"]).output().expect("it starts");
    assert!(csv.stdout.starts_with(b"Run,Time (%),"));
}

#[test]
fn what_cannot_be_compared_has_one_line_that_names_the_file() {
    let folder = Folder::new();
    let write = |name: &str, text: &str| {
        let path = folder.0.join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let mut run = Summary::default();
    (run.process.pid, run.process.started_unix_ns) = (4711, 1);
    run.ranges.push(RangeStats::new("step", Times::new(1, 1_000_000)));
    let mut text = Vec::new();
    run.write_json(&mut text).expect("memory takes it");
    let text = String::from_utf8(text).expect("UTF-8");
    let (one, copy) = (write("one.json", &text), write("copy.json", &text));
    let cut = write("cut.json", &text[..100]);
    let newer = write("newer.json", r#"{"schema": "tracing-gpu/7"}"#);
    let missing = folder.0.join("missing.json").display().to_string();
    for (files, line) in [
        ([&one, &missing], format!("{missing}: No such file or directory (os error 2)")),
        ([&cut, &one], format!("{cut}: not JSON: ")),
        ([&one, &newer], format!("{newer}: written by a newer tracing-gpu, in version 7 of the format: ")),
        ([&one, &copy], format!("{one} and {copy} are the same run: nothing was compared")),
        ([&one, &"cuda.json".to_owned()], "cuda has none of the ranges of one: nothing was compared".to_owned()),
    ] {
        let (status, said) = ended(&mut in_golden(&["compare", files[0], files[1]]));
        assert!(status == Some(2) && said.starts_with(&format!("tracing-gpu: {line}")), "{line}\n{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let (status, said) = ended(&mut in_golden(&["compare", "--base", &one, &copy, "--new", "cuda.json"]));
    assert!(status == Some(2) && said.contains("are the same run"), "{said}");
    let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full, which Linux has");
    let refused = ended(in_golden(&["compare", "cuda.json", "cuda.json"]).stdout(full));
    assert_eq!(refused, (Some(2), "tracing-gpu: No space left on device (os error 28)\n".to_owned()));
}

#[test]
fn a_page_is_made_from_a_summary_and_replaces_none_by_itself() {
    let folder = Folder::new();
    let (summary, page) = (folder.0.join("run.json"), folder.0.join("run.html"));
    fs::copy(format!("{GOLDEN}/full.json"), &summary).expect("a copy");
    let run = |arguments: &[&str]| {
        let mut command = command(&["page"]);
        ended(command.arg(&summary).args(arguments))
    };
    assert_eq!(run(&[]), (Some(0), String::new()));
    let written = fs::read_to_string(&page).expect("a page");
    assert!(written.starts_with("<!doctype html>") && written.contains("made from the summary of a run"));
    fs::write(&page, "the page of the run").expect("a file");
    let (status, said) = run(&[]);
    assert!(status == Some(1) && said.contains("run.html: there is a file: `--output PATH` names the page"), "{said}");
    assert_eq!(fs::read_to_string(&page).expect("a page"), "the page of the run");
    assert_eq!(run(&["-o", page.to_str().expect("UTF-8")]), (Some(0), String::new()));
    assert_eq!(fs::read_to_string(&page).expect("a page"), written);
    // A finding that is off is not on the page.
    let finding = "first call 2.000 ms, the others";
    assert!(written.contains(finding));
    let set = ["-o", page.to_str().expect("UTF-8"), "--without", "one_long_call"];
    assert_eq!(run(&set), (Some(0), String::new()));
    assert!(!fs::read_to_string(&page).expect("a page").contains(finding));
    let (status, said) = ended(&mut command(&["page", "/no/such/run.json"]));
    assert_eq!((status, said.lines().count()), (Some(1), 1), "{said}");
}

/// A recording of Nsight Systems on an H200, in which `cublas create` takes most of the ranges' time.
#[test]
fn a_database_of_nsight_systems_is_a_report_and_a_page() {
    let folder = Folder::new();
    let recording = folder.0.join("run.sqlite");
    fs::copy(format!("{GOLDEN}/../attribution/run.sqlite"), &recording).expect("a copy");
    let (status, said) = ended(command(&["merge"]).arg(&recording));
    let first = said.lines().map(str::trim).find(|line| line.starts_with("GPU busy")).unwrap_or_default();
    assert!(status == Some(0) && first.starts_with("GPU busy 30.3% of 171.0 ms: "), "{said}");
    assert!(said.contains(">> most time of its own: cublas create 54.40 ms (85.5%)"), "{said}");
    assert_eq!(ended(command(&["page"]).arg(&recording)), (Some(0), String::new()));
    let page = fs::read_to_string(folder.0.join("run.html")).expect("a page");
    for text in ["cublas create", "concluded from a timeline"] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains("made from the summary of a run"), "it has a timeline");
    // It does not say when it was recorded, so it may be another run.
    assert_eq!(ended(command(&["compare"]).arg(&recording).arg(&recording)), (Some(0), String::new()));
    let (status, said) = ended(command(&["merge", "-r", "tree+graphs"]).arg(&recording));
    assert!(status == Some(0) && said.contains("the report graphs cannot be made from a database"), "{said}");
    // Nsight Systems' own format is not known.
    let report = folder.0.join("other.nsys-rep");
    fs::write(&report, "report").expect("a file");
    for command_ in ["merge", "page"] {
        let (status, said) = ended(command(&[command_]).arg(&report));
        assert!(status == Some(1) && said.contains("`nsys export --type sqlite`"), "{said}");
    }
    fs::write(&recording, b"SQLite format 3\0 and nothing else").expect("a file");
    let (status, said) = ended(command(&["merge"]).arg(&recording));
    assert!(status == Some(1) && said.contains("cannot be read") && said.lines().count() == 1, "{said}");
}

#[test]
fn a_program_may_have_the_name_of_a_command() {
    let folder = Folder::new();
    let path = format!("{}:{}", folder.0.display(), std::env::var("PATH").unwrap_or_default());
    for name in ["compare", "merge", "page"] {
        let program = folder.0.join(name);
        fs::write(&program, "#!/bin/sh\necho \"$0 $*\"\n").expect("a script");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
        for words in [&["--", name][..], &["-o", "none", name], &[&format!("./{name}")]] {
            let mut command = command(words);
            let output = command.args(["a", "--b"]).current_dir(&folder.0).env("PATH", &path).output();
            let printed = String::from_utf8(output.expect("it starts").stdout).expect("UTF-8");
            assert!(printed.ends_with(&format!("/{name} a --b\n")), "{words:?}: {printed}");
        }
    }
}
