//! Wrong commands, programs that cannot be measured, files that cannot be written: one clear line, and the program's
//! own status.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use tracing_gpu::SummaryExt as _;

use tests::launcher::{Folder, NOTHING, Ran, binary, command, compiled, run};

/// A file with this text and mode.
fn file(folder: &Folder, name: &str, text: &[u8], mode: u32) -> PathBuf {
    let path = folder.0.join(name);
    std::fs::write(&path, text).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("its mode");
    path
}

/// Ignored ends of children, and a size limit of zero bytes for files.
#[test]
fn what_the_command_inherits_changes_no_status() {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"trap "" CHLD; ulimit -f 0; exec "$@""#, "sh"]).arg(binary());
    let output = shell.args(["sh", "-c", "exit 5"]).output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(5) && said.contains("File too large"), "{:?}: {said}", output.status);
}

/// Signals that are ignored or blocked, and variables for the started process alone, such as the sockets of systemd.
#[test]
fn what_the_command_inherits_the_program_inherits() {
    let signals = ["--ignore-signal=INT,HUP,TERM,USR1,PIPE,CHLD,WINCH", "--block-signal=TERM,USR2,CHLD"];
    let list = |command: &[&str]| {
        let mut env = Command::new("env");
        let output = env.args(signals).args(command).args(["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"]).output();
        String::from_utf8(output.expect("env, of coreutils").stdout).expect("text")
    };
    let binary = binary().to_str().expect("text");
    let (alone, under) = (list(&[]), list(&[binary, "-o", "none"]));
    assert!(alone == under && alone.lines().count() == 2, "{alone}{under}");

    let folder = Folder::new();
    let script = file(&folder, "plain", b"echo $LISTEN_PID $WATCHDOG_PID $$ $LISTEN_FDS $TRACING_GPU_RUN", 0o755);
    let ids = r#"export LISTEN_FDS=1 LISTEN_PID=$$ WATCHDOG_PID=7; exec "$@""#;
    let output = Command::new("sh").args(["-c", ids, "sh", binary, "-o", "none"]).arg(script).output();
    let printed = String::from_utf8(output.expect("a shell").stdout).expect("text");
    let words: Vec<&str> = printed.split_whitespace().collect();
    let [listens, watched, own, sockets, run] = words[..] else { panic!("{printed:?}") };
    assert!(listens == own && run.contains("/tracing-gpu-"), "{printed}");
    assert_eq!((watched, sockets), ("7", "1"));
}

/// A closed standard input or output is closed in the program.
#[test]
fn what_was_closed_stays_closed() {
    let closed = |redirection: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec \"$@\" {redirection}"), "sh"]).arg(binary()).args(["-o", "none"]);
        let list = "for i in 0 1 2; do [ -e /proc/$$/fd/$i ] || echo $i >> closed; done; exit 3";
        let folder = Folder::new();
        let output = shell.args(["sh", "-c", list]).current_dir(&folder.0).output().expect("a shell");
        assert_eq!(output.status.code(), Some(3), "{redirection}");
        std::fs::read_to_string(folder.0.join("closed")).unwrap_or_default()
    };
    assert_eq!(["", "<&-", ">&-", "<&- >&-", "2>&-"].map(closed), ["", "0\n", "1\n", "0\n1\n", ""]);
}

/// Checks that the command ends with this status and prints this one line, in which `%` stands for the program. If no
/// call was seen, two more lines have its times.
fn assert_says(program: &Path, status: i32, line: &str) {
    let ran = run(&[], |command| command.arg(program));
    let line = line.replace('%', &program.display().to_string());
    assert_eq!((ran.status.code(), ran.said()), (Some(status), vec![&*line]), "{}", ran.stderr);
    let lines = if line == NOTHING { 3 } else { 1 };
    assert_eq!(ran.stderr.lines().count(), lines, "{}", ran.stderr);
}

#[test]
fn what_cannot_be_started_has_the_status_that_a_shell_gives() {
    let folder = Folder::new();
    assert_says(Path::new("no-such-program"), 127, "there is no program `%`");
    assert_says(&folder.0.join("missing"), 127, "there is no program `%`");
    let text = file(&folder, "text", b"hello\n", 0o644);
    assert_says(&text, 126, "`%` may not be executed: chmod +x makes it a program");
    assert_says(&folder.0, 126, "`%` is a folder, not a program");
    let script = file(&folder, "script", b"#!/no/such/shell\n", 0o755);
    assert_says(&script, 127, "`%` is a script for `/no/such/shell`, which is not there");
    let script = file(&folder, "windows", b"#!/bin/sh\r\n", 0o755);
    assert_says(&script, 127, "`%` is a script for `/bin/sh\\r`, which is not there");
    let source = file(&folder, "loader.c", b"int main() { return 0; }", 0o644);
    let program = compiled(&folder.0, &source, &["-Wl,--dynamic-linker=/no/such/loader"]);
    assert_says(&program, 127, "`%` needs a dynamic loader that is not there: it is for another system");
    let other = file(&folder, "other", b"\x7fELF\x02\x01\x01\0 for another machine", 0o755);
    assert_says(&other, 126, "`%` is no program for this machine");
}

#[test]
fn the_command_line_is_explained() {
    let ran = run(&[], |command| command);
    assert_eq!(ran.status.code(), Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("Usage: tracing-gpu"), "{}", ran.stderr);
    let ran = run(&["--report", "wat"], |command| command.arg("true"));
    assert_eq!(ran.status.code(), Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("invalid value 'wat' for '--report"), "{}", ran.stderr);
    for time in ["0", "0.0", "1e-12", "nan", "soon"] {
        let ran = run(&["-t", time], |command| command.arg("true"));
        assert_eq!(ran.status.code(), Some(2), "{time}: {}", ran.stderr);
        assert!(ran.stderr.contains("expected a number of seconds above 0"), "{time}: {}", ran.stderr);
    }
}

#[test]
fn a_program_that_does_nothing_for_us_keeps_its_status() {
    let folder = Folder::new();
    let script = file(&folder, "script", b"#!/bin/sh\nexit 5\n", 0o755);
    assert_says(&script, 5, NOTHING);
    // Shells start a script without an interpreter like this.
    let script = file(&folder, "plain", b"echo \"$0 $@\"; exit 6\n", 0o755);
    let ran = run(&[], |command| command.args([Path::new("plain"), Path::new("a b")]).env("PATH", &folder.0));
    let printed = format!("{} a b\n", script.display());
    assert_eq!((ran.status.code(), &*ran.stdout, ran.said()), (Some(6), &*printed, vec![NOTHING]), "{}", ran.stderr);
    assert_says(&file(&folder, "empty", b"", 0o755), 0, NOTHING);
    // Arguments after the program belong to it.
    let ran = run(&[], |command| command.args(["sh", "-c", "echo \"$@\"; exit 4", "sh", "--report", "-o", "--", "x"]));
    assert_eq!((ran.status.code(), &*ran.stdout), (Some(4), "--report -o -- x\n"));
}

/// The command prints the program's times and the way to a report once, and not if something prevents a report.
#[test]
fn a_program_without_names_has_its_times_and_how_to_name_phases() {
    let folder = Folder::new();
    let busy = file(&folder, "python3", b"#!/bin/sh\ni=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done\n", 0o755);
    let ran = run(&[], |command| command.arg(&busy));
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let [said, took, naming] = lines[..] else { panic!("{}", ran.stderr) };
    assert_eq!(said, format!("tracing-gpu: {NOTHING}"));
    assert_eq!(naming, " To name phases: in Python with `with nvtx.annotate(\"load\"):` (pip install nvtx)");
    let start = format!(" `{}` took ", busy.display());
    let figures = took.strip_prefix(&start).unwrap_or_else(|| panic!("{took}"));
    let numbers: Vec<f64> = figures.split(' ').filter_map(|word| word.parse().ok()).collect();
    let &[wall, user, system, memory] = &numbers[..] else { panic!("{took}") };
    assert!(user > 0.0 && user + system < 1.5 * wall + 0.1 && (0.5..1_000.0).contains(&memory), "{took}");
    assert!(figures.ends_with(" MB in one process"), "{took}");

    let report = folder.0.join("report");
    let ran = run(&["-o", report.to_str().expect("text")], |command| command.arg("true"));
    let text = std::fs::read_to_string(&report).expect("a report");
    assert_eq!((ran.stderr.lines().count(), text.lines().count()), (1, 3), "{}{text}", ran.stderr);
    assert!(text.contains(" `true` took ") && text.contains("<nvtx3/nvtx3.hpp>"), "{text}");
    for silent in [&["--csv"][..], &["-o", "none"]] {
        let ran = run(silent, |command| command.arg("true"));
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
    let ran = run(&[], |command| command.args(["env", "-i", "true"]));
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
}

#[test]
fn programs_that_load_no_library_are_named() {
    let folder = Folder::new();
    let source = file(&folder, "static.c", b"int main() { return 6; }", 0o644);
    let program = compiled(&folder.0, &source, &["-static"]);
    let because = "it is linked statically, and the library that measures needs the dynamic loader";
    assert_says(&program, 6, &format!("nothing was measured: {because}"));

    // The header of a 32-bit program identifies it; not every machine can build one. The system checks something else.
    let mut bytes = std::fs::read("/bin/true").expect("a program");
    bytes[4] = 1;
    let program = file(&folder, "32", &bytes, 0o755);
    let because = "it is a 32-bit program, and this command is for 64-bit programs";
    assert_says(&program, 0, &format!("nothing was measured: {because}"));
}

/// The program loads the file of the command by its name.
#[test]
fn a_command_that_is_removed_meanwhile_says_so() {
    let folder = Folder::new();
    let copy = folder.0.join("tracing-gpu");
    if std::fs::hard_link(binary(), &copy).is_err() {
        std::fs::copy(binary(), &copy).expect("a copy");
    }
    let output = Command::new(&copy).args(["rm"]).arg(&copy).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("could not load the file of this command, which was removed or replaced meanwhile"),
        "{said}"
    );
}

/// The message makes no claim about programs that it starts.
#[test]
fn programs_that_start_others_elsewhere_are_named() {
    const OR: &str = "nothing was measured: the program used neither NVTX nor CUDA nor OpenACC, or";
    let folder = Folder::new();
    let nsys = file(&folder, "nsys", b"#!/bin/sh\nexit 3\n", 0o755);
    let keeps = "keeps variables or files of this command from it: env ... tracing-gpu ./app";
    for (program, status, line) in [
        (&["env", "-i", "true"][..], 0, format!("{OR} `env` {keeps}")),
        (
            &[nsys.to_str().expect("text"), "profile"],
            3,
            format!("{OR} `nsys` has put its own library there. For both: nsys ... tracing-gpu ./app"),
        ),
    ] {
        let ran = run(&[], |command| command.args(program));
        assert_eq!((ran.status.code(), ran.said()), (Some(status), vec![&*line]), "{}", ran.stderr);
    }
    let ran = run(&[], |command| command.arg(binary()).args(["sh", "-c", "exit 4"]));
    let itself = "nothing was measured: `tracing-gpu` measures the program that it starts, and reports it itself";
    assert_eq!((ran.status.code(), ran.said()), (Some(4), vec![NOTHING, itself]), "{}", ran.stderr);
}

/// No script can mistake results of the last run for those of this one.
#[test]
fn no_file_keeps_the_figures_of_the_last_run() {
    let folder = Folder::new();
    let names = ["report", "csv", "json", "html", "trace", "sqlite"];
    let [report, csv, json, html, trace, sqlite] = names.map(|name| folder.0.join(name));
    let stale = || names.iter().for_each(|name| std::fs::write(folder.0.join(name), "stale").expect("a file"));
    let text = |path: &Path| std::fs::read_to_string(path).expect("a file");
    for (program, why) in
        [("true", &NOTHING[..60]), ("no-such-program", "nothing was measured: `no-such-program` could not be started")]
    {
        stale();
        let mut all = command(&["--output"]);
        all.arg(&report).arg("--json").arg(&json).arg("--html").arg(&html).arg("--trace").arg(&trace);
        all.arg("--sqlite").arg(&sqlite).arg(program).output().expect("it starts");
        command(&["--csv", "--output"]).arg(&csv).arg(program).output().expect("it starts");
        assert!(text(&report).starts_with(&format!("tracing-gpu: {why}")), "{}", text(&report));
        assert!(text(&csv).starts_with("Time (%),") && text(&csv).lines().count() == 1, "{}", text(&csv));
        let summary = tracing_gpu::Summary::read_json(std::fs::File::open(&json).expect("a file")).expect("a summary");
        assert!(summary.ranges.is_empty() && summary.notes_as_text()[0].starts_with(why), "{summary:?}");
        assert!(text(&html).starts_with("<!doctype html>") && text(&html).contains(why), "{}", text(&html));
        let trace: serde_json::Value = serde_json::from_str(&text(&trace)).expect("JSON");
        assert!(trace[0]["args"]["name"].as_str().is_some_and(|name| name.starts_with(why)), "{trace}");
        assert!(!sqlite.exists());
    }
}

/// Its own report on its ranges has more than ours, so those tables are printed once.
#[test]
fn a_program_that_measures_itself_prints_its_tables_alone() {
    let titles = |text: &str, title: &str| text.matches(title).count();
    let program = tests::recorder::example("spans");
    let ran = run(&[], |command| command.arg(&program).args(["init-guard", "layer"]));
    let printed = (titles(&ran.stderr, "** Phase Tree"), titles(&ran.stderr, "** NVTX Push/Pop Range Summary"));
    assert_eq!((ran.status.code(), printed), (Some(0), (1, 1)), "{}", ran.stderr);
    assert_eq!((ran.summaries.len(), ran.said()), (1, vec![]), "{}", ran.stderr);
    // A file of the command has everything that was asked for.
    let folder = Folder::new();
    let report = folder.0.join("report");
    let options = ["--output", report.to_str().expect("text")];
    let ran = run(&options, |command| command.arg(&program).args(["init-guard", "layer"]));
    let text = std::fs::read_to_string(report).expect("a report");
    let title = "** Phase Tree";
    assert_eq!((titles(&ran.stderr, title), titles(&text, title)), (1, 1), "{}{text}", ran.stderr);
}

/// A program with the rights of another user; with its own rights if the tests run as root.
#[test]
fn a_setuid_program_is_named() {
    let folder = Folder::new();
    let mut program = PathBuf::from("/bin/mount");
    if std::fs::metadata("/proc/self").expect("itself").uid() == 0 {
        program = file(&folder, "setuid", &std::fs::read("/bin/true").expect("a program"), 0o755);
        std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(0o755)).expect("all may come in");
        std::os::unix::fs::chown(&program, Some(65_534), None).expect("root may");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).expect("its mode");
    }
    let ran = run(&[], |command| command.arg(&program).arg("--version"));
    let because = "it is a setuid, setgid or privileged program, and the system keeps libraries from it";
    assert_eq!((ran.status.code(), ran.said()), (Some(0), vec![&*format!("nothing was measured: {because}")]));
}

#[test]
fn nobody_else_comes_into_the_folder_of_a_run_or_guesses_its_name() {
    let ran = || run(&[], |command| command.args(["sh", "-c", r#"stat -c "%a %n" "$TRACING_GPU_RUN""#])).stdout;
    let (first, second) = (ran(), ran());
    for folder in [&first, &second] {
        let (mode, name) = folder.trim_end().split_once(' ').expect("a mode and a name");
        let random = name.rsplit('-').next().expect("a part that is random");
        assert_eq!((mode, random.len()), ("700", 16), "{name}");
        assert!(!Path::new(name).exists(), "{name}");
    }
    let random = |name: &str| name[name.len() - 17..name.len() - 13].to_owned();
    assert_ne!(random(&first), random(&second), "no clock");
}

/// No place has room for a single byte.
#[test]
fn without_room_on_any_disk_the_program_runs_unmeasured() {
    let full = r#"trap '' XFSZ; ulimit -f 0; exec "$0" sh -c 'exit 11'"#;
    let output = Command::new("sh").args(["-c", full]).arg(tests::launcher::binary()).output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(11), "{said}");
    let expected =
        "tracing-gpu: the program runs without being measured: no folder for the run in `/tmp`: File too large";
    assert!(said.starts_with(expected) && said.lines().count() == 1, "{said}");
}

#[test]
fn options_of_nvprof_are_answered_in_one_line() {
    for (options, part) in [
        (&["--print-api-trace"][..], "stats -r cuda_api_trace"),
        (&["-o", "sample.nvvp"], "--html run.html"),
        (&["--profile-from-start", "off", "--gpu", "off"], "cudaProfilerStart is seen by CUPTI alone"),
        (&["--metrics=all"], "ncu"),
        (&["--cpu-profiling-frequency", "100"], "perf"),
        (&["--annotate-mpi", "openmpi"], "nsys profile -t mpi"),
    ] {
        let ran = run(options, |command| command.args(["sh", "-c", "exit 9"]));
        assert_eq!(ran.status.code(), Some(2), "{options:?}: {}", ran.stderr);
        assert!(ran.said().len() == 1 && ran.said()[0].contains(part), "{options:?}: {}", ran.stderr);
    }
    for options in [&["-f"][..], &["--log-file", "/dev/null"], &["--profile-child-processes"], &["-t", "60"]] {
        let ran = run(options, |command| command.args(["sh", "-c", "exit 9"]));
        assert_eq!((ran.status.code(), ran.said()), (Some(9), vec![NOTHING]), "{options:?}");
    }
}

#[test]
fn files_that_cannot_be_written_are_named_before_the_program_runs() {
    let ran =
        run(&["--html", "/no/such/folder/run.html"], |command| command.args(["sh", "-c", "echo ran >&2; exit 7"]));
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let expected = "tracing-gpu: cannot write `/no/such/folder/run.html`: No such file or directory (os error 2)";
    assert_eq!(lines[..2], [expected, "ran"], "{}", ran.stderr);
    assert_eq!(ran.status.code(), Some(7));
}

/// The folder of the run is created elsewhere; if that fails, too, the program runs all the same.
#[test]
fn a_run_without_a_folder_is_a_run() {
    let ran = run(&[], |command| command.env("TMPDIR", "/no/such/folder").args(["sh", "-c", "exit 8"]));
    // Lines about remains of other runs in `/tmp` may follow.
    assert_eq!((ran.status.code(), ran.said().first()), (Some(8), Some(&NOTHING)));
}

/// Files of a run are removed.
#[test]
fn nothing_stays_behind() {
    let folder = Folder::new();
    let output =
        command(&[]).env("TMPDIR", &folder.0).args(["sh", "-c", "ls \"$TMPDIR\""]).output().expect("it starts");
    let ran = Ran::new(output, &Folder::new());
    assert!(ran.stdout.starts_with("tracing-gpu-"), "{ran:?}");
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn completions_and_the_manual_page_are_printed() {
    for (arguments, part) in [
        (&["completions", "bash"][..], "--capture-range"),
        (&["completions", "zsh"], "--threshold"),
        (&["man"], "\\-\\-threshold"),
    ] {
        let output = command(arguments).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(part), "{arguments:?}\n{text}");
    }
}
