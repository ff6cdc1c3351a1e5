//! Every way in which a process ends: the command has the same status, and the report has the measurements.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use tracing_gpu::{Note, SummaryExt as _};

use tests::foreign::headers;
use tests::launcher::{Folder, Ran, binary, command, compiled, run};

/// `ends.c`, compiled.
pub(crate) fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/launcher/ends.c");
        let include = format!("-I{}", headers().display());
        compiled(Path::new(env!("CARGO_TARGET_TMPDIR")), &source, &[&include, "-ldl", "-lpthread"])
    })
}

/// The expected result of a way to end.
struct Expected {
    /// The exit status, or the signal.
    status: Result<i32, i32>,
    /// Names and instances of all processes.
    ranges: &'static str,
    /// Whether the figures come from a snapshot.
    is_cut: bool,
}

fn expected(status: Result<i32, i32>, ranges: &'static str, is_cut: bool) -> Expected {
    Expected { status, ranges, is_cut }
}

const STEP: &str = "step 3";

/// The table of `docs/command.md`.
#[test]
fn every_end_has_its_status_and_its_report() {
    let whole = |status, ranges| expected(status, ranges, false);
    let table: &[(&str, Expected)] = &[
        ("return", whole(Ok(0), STEP)),
        ("cleared environment", whole(Ok(0), "child 3, step 3")),
        ("exit", whole(Ok(3), STEP)),
        ("quick_exit", whole(Ok(4), STEP)),
        ("thread", whole(Ok(0), "step 3, thread 3")),
        ("pthread_exit", whole(Ok(0), "step 3, thread 3")),
        ("raise", whole(Err(libc::SIGTERM), STEP)),
        ("close all and raise", whole(Err(libc::SIGINT), STEP)),
        ("_exit", whole(Ok(5), STEP)),
        ("exit_group", whole(Ok(5), STEP)),
        ("last thread", whole(Ok(5), STEP)),
        ("abort", whole(Err(libc::SIGABRT), STEP)),
        ("segv", whole(Err(libc::SIGSEGV), STEP)),
        ("fault", whole(Err(libc::SIGSEGV), STEP)),
        ("kill", whole(Err(libc::SIGKILL), STEP)),
        ("exec", whole(Ok(0), "again 3, step 3, step 3")),
        ("fork", whole(Ok(0), "child 3, step 3")),
        ("fork first", whole(Ok(0), "child 3")),
        ("clone", whole(Ok(0), "child 3, step 6")),
        ("fork and _exit", whole(Ok(0), "child 3, step 3")),
        ("spawn", whole(Ok(0), "again 3, step 3, step 3")),
        ("background", whole(Ok(6), "background 3, step 3")),
    ];
    for (way, expected) in table {
        let ran = run(&["-r", "ranges"], |command| command.arg(program()).arg(way));
        let status = ran.status.code().ok_or_else(|| ran.status.signal().expect("a signal"));
        assert_eq!((status, &*ran.ranges()), (expected.status, expected.ranges), "{way}: {}", ran.stderr);
        assert_eq!(ran.is_cut(), expected.is_cut, "{way}: {}", ran.stderr);
        let processes = ran.summaries.len();
        let title = if processes > 1 { format!("Ranges of {processes} Processes") } else { "Push/Pop Range".into() };
        assert!(ran.stderr.contains(&title), "{way}: {}", ran.stderr);
        assert_eq!(ran.said(), [""; 0], "{way}");
    }
}

/// Strict mode allows no clock: a thread may only read, write and end.
#[test]
fn seccomps_strict_mode_is_survived() {
    let ran = run(&[], |command| command.arg(program()).arg("strict"));
    assert_eq!((ran.status.code(), &*ran.ranges()), (Some(0), "step 3, strict 3"), "{}", ran.stderr);
}

/// Four threads have more rows and names than fit into the first blocks of the file.
#[test]
fn all_that_was_counted_is_left_of_a_process_that_is_killed() {
    let ran = run(&[], |command| command.arg(program()).arg("names"));
    let counted: Vec<u64> = ran.summaries[0].ranges.iter().map(|row| row.times.instances).collect();
    assert_eq!((ran.status.signal(), ran.is_cut()), (Some(libc::SIGKILL), false), "{}", ran.stderr);
    let of = |instances: u64| counted.iter().filter(|count| **count == instances).count();
    assert_eq!((counted.len(), of(12), of(3)), (1001, 1000, 1), "{}", ran.stderr);
}

/// New names and threads need system calls, which change `errno` and in which a thread may be cancelled.
#[test]
fn calls_disturb_no_thread() {
    for way in ["errno", "cancel"] {
        let ran = run(&[], |command| command.arg(program()).arg(way));
        assert_eq!(ran.status.code(), Some(0), "{way}: {}", ran.stderr);
        assert_eq!(ran.said(), [""; 0], "{way}");
    }
}

/// Calls that interrupt the measuring of another call cannot be measured, and are counted.
#[test]
fn calls_of_signal_handlers_are_measured_or_counted() {
    let ran = run(&[], |command| command.arg(program()).arg("handler"));
    let handled: u64 = ran.stdout.trim().parse().expect("a number");
    let summary = &ran.summaries[0];
    let measured = summary.ranges.iter().find(|row| row.name == "handler").map_or(0, |row| row.times.instances);
    let mut notes = summary.notes.iter().filter_map(|note| match note {
        Note::SignalHandlerCalls { calls } => Some(*calls),
        _ => None,
    });
    let lost = notes.next().unwrap_or(0);
    assert_eq!((ran.status.code(), measured + lost / 2), (Some(0), handled), "{}", ran.stderr);
}

/// An open range is named, and nothing else is missing.
#[test]
fn processes_that_end_at_once_are_whole() {
    let ran = run(&[], |command| command.arg(program()).arg("many _exit"));
    assert_eq!((ran.said(), ran.is_cut()), (vec![], false), "{}", ran.stderr);
    assert_eq!(ran.summaries.len(), 6, "{}", ran.stderr);
    let instances = |summary: &tracing_gpu::Summary| summary.ranges.iter().map(|row| row.times.instances).sum::<u64>();
    assert!(ran.summaries.iter().all(|summary| instances(summary) == 3), "{}", ran.stderr);
}

/// SQLite finds its journal beside the database, and the page states that there is nothing to show.
#[test]
fn files_of_a_process_that_was_killed_have_the_names_that_were_asked_for() {
    let folder = Folder::new();
    let options = ["html", "trace", "sqlite"].map(|kind| [format!("--{kind}"), format!("run.{kind}")]).concat();
    let mut command = command(&options.iter().map(String::as_str).collect::<Vec<_>>());
    let output = command.arg(program()).arg("kill").current_dir(&folder.0).output().expect("it starts");
    assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{output:?}");
    assert!(folder.names().iter().all(|name| name.starts_with("run.") && !name.bytes().any(|c| c.is_ascii_digit())));
    let page = std::fs::read_to_string(folder.0.join("run.html")).expect("a page");
    assert!(page.contains("was ended before this page could be written"), "{page}");
}

/// The library keeps the descriptor that it needs. If the program closes it, the report says what is missing.
#[test]
fn a_program_that_can_open_no_more_files_is_measured_to_its_end() {
    let ran = run(&[], |command| command.arg(program()).arg("no more files"));
    let [summary] = &ran.summaries[..] else { panic!("{ran:?}") };
    let instances: u64 = summary.ranges.iter().map(|row| row.times.instances).sum();
    assert_eq!((ran.status.code(), instances, ran.said()), (Some(0), 3_003, vec![]), "{}", ran.stderr);
    assert_eq!(summary.notes, []);

    let ran = run(&[], |command| command.arg(program()).arg("no more files, not ours either"));
    let said = "This process could not write any more from some moment on (Too many open files): the rows of threads \
                and names that were new from then on are missing.";
    assert_eq!(
        (&*ran.ranges(), &ran.summaries[0].notes_as_text()[..]),
        (STEP, &[said.to_owned()][..]),
        "{}",
        ran.stderr
    );
}

#[test]
fn pops_on_another_thread_than_their_pushes_are_told() {
    let ran = run(&[], |command| command.arg(program()).arg("elsewhere"));
    let text = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("3 exits were on a thread that had no such range open, as many as"), "{}", ran.stderr);
}

/// No file of ours can be written then, and the program ends normally. The rows have a place that needs no more room.
#[test]
fn a_program_that_limits_the_size_of_files_keeps_its_status() {
    let ran = run(&[], |command| command.arg(program()).arg("limit"));
    assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr);
    assert_eq!((&*ran.ranges(), ran.said(), ran.is_cut()), (STEP, vec![], false), "{}", ran.stderr);
}

/// The library's memory is not read after it is unloaded.
#[test]
fn a_library_that_is_unloaded_keeps_its_ranges() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/launcher/plugin.c");
    let include = format!("-I{}", headers().display());
    let plugin = compiled(Path::new(env!("CARGO_TARGET_TMPDIR")), &source, &["-shared", "-fPIC", &include, "-ldl"]);
    let ran = run(&[], |command| command.arg(program()).arg("unload").env("PLUGIN", &plugin));
    let ranges = "of a library 6, plugin:registered 6, step 3";
    assert_eq!((ran.status.code(), &*ran.ranges(), ran.is_cut()), (Some(0), ranges, false), "{}", ran.stderr);
}

/// The program continues to its own end, and its measurements are in the folder of the run, which stays.
#[test]
fn a_command_that_is_killed_leaves_the_program_alone() {
    let (folder, temporary) = (Folder::new(), Folder::new());
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let mut command = command(&["--json", &folder.0.join("run.json").display().to_string()]);
    command.arg(program()).arg("wait for input").env("TMPDIR", &temporary.0).stdin(Stdio::piped()).stdout(writer);
    let mut child = command.spawn().expect("it starts");
    drop(command);
    let mut line = [0; 6];
    reader.read_exact(&mut line).expect("it says that it waits");
    let input = child.stdin.take();
    child.kill().and_then(|()| child.wait()).expect("its end");
    drop(input); // ends the program
    let mut said = String::new();
    reader.read_to_string(&mut said).expect("its last words");
    assert_eq!((&line, said.as_str()), (b"ready\n", "handled\n"));
    let run = temporary.0.join(temporary.names().first().expect("the folder of the run"));
    let json = std::fs::read_dir(run).expect("a folder").map(|entry| entry.expect("an entry").path());
    let json = { json }.find(|path| path.extension().is_some_and(|extension| extension == "json"));
    // The read above waits until the program's last descriptor is closed. The file is written before that.
    let summary = tracing_gpu::Summary::read_json(std::fs::File::open(json.expect("a summary")).expect("a file"));
    assert_eq!(summary.expect("a summary").ranges.len(), 2);
}

#[test]
fn a_range_that_never_ended_is_named() {
    let ran = run(&[], |command| command.arg(program()).arg("open"));
    assert!(ran.stderr.contains("Still open, and not counted: endless (ends)."), "{}", ran.stderr);
}

/// One thread makes ranges, another forks: no child hangs, and each is counted.
#[test]
fn forks_beside_threads_lose_nothing() {
    let ran = run(&[], |command| command.arg(program()).arg("forks"));
    let children = ran.ranges().split(", ").filter(|row| *row == "child 3").count();
    assert_eq!((ran.status.code(), ran.summaries.len(), children), (Some(0), 201, 200), "{}", ran.stderr);
    assert!(ran.ranges().ends_with("thread 600"), "{}", ran.ranges());
}

/// As above, but the thread's names have numbers, which go to a timeline as fields.
#[test]
fn forks_beside_fields_hang_no_child() {
    let folder = Folder::new();
    let trace = folder.0.join("run-%p.trace").display().to_string();
    let ran = run(&["--trace", &trace], |command| command.arg(program()).arg("forks beside numbers"));
    let children = ran.ranges().split(", ").filter(|row| *row == "child 1").count();
    assert_eq!((ran.status.code(), children), (Some(0), 200), "{}", ran.stderr);
}

/// Our descriptors have numbers that the program's own files do not get.
#[test]
fn a_program_that_closes_all_descriptors_keeps_its_files_and_ours() {
    let folder = Folder::new();
    let (trace, own) = (folder.0.join("run.trace"), folder.0.join("own"));
    let options = ["--trace", trace.to_str().expect("text")];
    let ran = run(&options, |command| command.arg(program()).arg("close all and open").env("OWN", &own));
    assert_eq!((ran.status.code(), &*ran.ranges(), ran.said()), (Some(0), STEP, vec![]), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(own).expect("its file"), "");
    assert!(std::fs::read_to_string(trace).expect("a trace").contains("\"step\""));
}

/// Snapshots continue when there is room again.
#[test]
fn a_disk_that_was_full_for_a_while_ends_no_snapshots() {
    let ran = run(&[], |command| command.arg(program()).arg("full for a while"));
    assert_eq!((ran.status.code(), &*ran.ranges()), (Some(0), "later 3, step 3"), "{}", ran.stderr);
}

#[test]
fn a_program_that_uses_up_its_memory_goes_on_and_measuring_ends() {
    let ran = run(&[], |command| command.arg(program()).arg("memory"));
    let [summary] = &ran.summaries[..] else { panic!("{ran:?}") };
    let step = summary.ranges.iter().find(|range| range.name == "step");
    assert_eq!((ran.status.code(), step.map(|step| step.times.instances)), (Some(0), Some(3)), "{}", ran.stderr);
    let measured: u64 = summary.ranges.iter().map(|range| range.times.instances).sum();
    assert!(summary.losses.spans_dropped >= 180_003 - measured - 1, "{measured} of {}", summary.losses.spans_dropped);
}

/// The command makes the summary from the file of rows.
#[test]
fn a_process_without_memory_for_its_summary_ends_in_order() {
    let ran = run(&[], |command| command.arg(program()).arg("memory at the end"));
    let [summary] = &ran.summaries[..] else { panic!("{ran:?}") };
    let measured: u64 = summary.ranges.iter().map(|range| range.times.instances).sum();
    let expected = (Some(0), 60_003, 20_001);
    assert_eq!((ran.status.code(), measured, summary.ranges.len()), expected, "{}", ran.stderr);
    assert_eq!((ran.said(), ran.is_cut()), (vec![], false), "{}", ran.stderr);
}

/// A handler may come while the thread holds a lock of ours, or moves memory of ours. The command reads the rows of
/// such a process.
#[test]
fn a_handler_may_end_the_process_in_a_call() {
    let ran = run(&["--timeout", "60"], |command| command.arg(program()).arg("exit in a handler"));
    assert_eq!((ran.status.code(), ran.summaries.len()), (Some(0), 201), "{}", ran.stderr);
    assert!(ran.summaries.iter().skip(1).all(|summary| !summary.ranges.is_empty()), "{}", ran.stderr);
    let mut open = ran.summaries.iter().flat_map(|summary| &summary.losses.open);
    assert!(open.all(|range| !range.label.is_empty()), "{}", ran.stderr);
}

#[test]
fn with_wait_primary_nobody_waits_for_the_background() {
    let ran = run(&["--wait", "primary"], |command| command.arg(program()).arg("background"));
    // The background process starts when the report is printed, or later.
    assert!(ran.status.code() == Some(6) && ran.ranges().contains(STEP), "{ran:?}");
}

#[test]
fn a_process_that_too_many_forks_lead_to_is_named() {
    let ran = run(&[], |command| command.arg(program()).arg("generations"));
    assert_eq!((ran.status.code(), ran.summaries.len()), (Some(0), 64), "{}", ran.stderr);
    let [said] = ran.said()[..] else { panic!("{}", ran.stderr) };
    assert!(said.ends_with(" is not measured: 64 forks lead to it, one after another"), "{said}");
}

/// Starts the program that waits for a signal, and returns once it waits.
fn waiting(folder: &Folder, options: &[&str], way: &str, input: Stdio) -> Child {
    waiting_in(command(options), folder, way, input)
}

/// The same with more options of this command.
fn waiting_in(mut command: Command, folder: &Folder, way: &str, input: Stdio) -> Child {
    command.arg("--json").arg(folder.0.join("run-%p.json"));
    command.arg(program()).arg(way).stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut line = String::new();
    let read = BufReader::new(child.stdout.as_mut().expect("it is piped")).read_line(&mut line);
    assert!(read.is_ok() && line == "ready\n", "{line:?}");
    child
}

pub(crate) fn send(child: &Child, signal: i32) {
    send_to(i32::try_from(child.id()).expect("a process"), signal);
}

fn send_to(process: i32, signal: i32) {
    // SAFETY: sends a signal to a process that a test has started and not reaped.
    #[allow(unsafe_code)]
    let sent = unsafe { libc::kill(process, signal) };
    assert_eq!(sent, 0);
}

#[test]
fn signals_for_one_process_reach_the_program() {
    for (way, signal, status, ranges) in [
        ("wait", libc::SIGTERM, Err(libc::SIGTERM), STEP),
        ("wait", libc::SIGINT, Err(libc::SIGINT), STEP),
        ("handled", libc::SIGTERM, Ok(libc::SIGTERM), "handled 3, step 3"),
        ("handled", libc::SIGUSR1, Ok(libc::SIGUSR1), "handled 3, step 3"),
        ("handled", libc::SIGXCPU, Ok(libc::SIGXCPU), "handled 3, step 3"),
        ("handled", libc::SIGWINCH, Ok(libc::SIGWINCH), "handled 3, step 3"),
        ("handled", libc::SIGPWR, Ok(libc::SIGPWR), "handled 3, step 3"),
        ("handled", libc::SIGRTMIN(), Ok(libc::SIGRTMIN()), "handled 3, step 3"),
        ("handled", libc::SIGRTMAX(), Ok(libc::SIGRTMAX()), "handled 3, step 3"),
        ("wait", libc::SIGRTMIN(), Err(libc::SIGRTMIN()), STEP),
        ("wait", libc::SIGABRT, Err(libc::SIGABRT), STEP),
    ] {
        let folder = Folder::new();
        let child = waiting(&folder, &["--timeout", "60"], way, Stdio::null());
        send(&child, signal);
        let ran = Ran::new(child.wait_with_output().expect("its end"), &folder);
        let ended = ran.status.code().ok_or_else(|| ran.status.signal().expect("a signal"));
        assert_eq!((ended, &*ran.ranges(), ran.is_cut()), (status, ranges, false), "{way}: {}", ran.stderr);
    }
}

/// A job that a script starts with `&` ignores SIGINT, what `nohup` starts ignores SIGHUP, and a parent may block any.
#[test]
fn signals_that_were_ignored_or_blocked_reach_a_program_that_handles_them() {
    for how in ["--ignore-signal=USR1", "--block-signal=USR1"] {
        let folder = Folder::new();
        let mut env = Command::new("env");
        env.args(["-u", "TRACING_GPU", "-u", "NVTX_INJECTION64_PATH", how]).arg(binary()).args(["--timeout", "60"]);
        let child = waiting_in(env, &folder, "handled", Stdio::null());
        send(&child, libc::SIGUSR1);
        let ran = Ran::new(child.wait_with_output().expect("its end"), &folder);
        assert_eq!((ran.status.code(), &*ran.ranges()), (Some(libc::SIGUSR1), "handled 3, step 3"), "{}", ran.stderr);
    }
}

/// A user who does not want to wait for a daemon asks the command to end, and gets the report.
#[test]
fn a_signal_ends_the_waiting_for_what_a_program_leaves_behind() {
    let folder = Folder::new();
    let mut child = waiting(&folder, &[], "daemon", Stdio::piped());
    while child.try_wait().expect("its status").is_none() {
        send(&child, libc::SIGTERM); // the command may not have noticed yet that the program has ended
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(child.stdin.take()); // ends the daemon, which has our pipes
    let ran = Ran::new(child.wait_with_output().expect("its end"), &folder);
    assert_eq!((ran.status.code(), &*ran.ranges()), (Some(6), "daemon 3, step 3"), "{}", ran.stderr);
}

/// The command handles signals one after another: the program counts all that arrived before the last.
#[test]
fn an_interrupt_for_the_command_alone_reaches_the_program_once() {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        let folder = Folder::new();
        let child = waiting(&folder, &[], "count interrupts", Stdio::null());
        send(&child, signal);
        send(&child, libc::SIGUSR1);
        let ran = Ran::new(child.wait_with_output().expect("its end"), &folder);
        assert!(ran.status.success() && ran.stdout.ends_with("interrupts 1\n"), "{ran:?}");
    }
}

/// The command with this program on a terminal, and its output up to when it is ready.
fn on_a_terminal(folder: &Folder, way: &str) -> (Child, BufReader<ChildStdout>, String) {
    let (json, program) = (folder.0.display(), program().display());
    // The shell stays in between, because `script` stops with its child. Its trap lets it survive an interrupt.
    let line = format!("trap : INT; {} --json {json}/run-%p.json {program} '{way}'; exit $?", binary().display());
    let mut script = Command::new("script");
    script
        .args(["-qec", &line, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .env_remove("TRACING_GPU")
        .env_remove("NVTX_INJECTION64_PATH");
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script, of util-linux");
    let mut terminal = BufReader::new(child.stdout.take().expect("it is piped"));
    let printed = read_to(&mut terminal, "ready");
    (child, terminal, printed)
}

/// The output up to a line that ends in `end`.
fn read_to(terminal: &mut impl BufRead, end: &str) -> String {
    let (mut printed, end) = (String::new(), format!("{end}\r\n"));
    while !printed.ends_with(&end) {
        assert_ne!(terminal.read_line(&mut printed).expect("text"), 0, "no {end:?} in {printed}");
    }
    printed
}

/// The terminal sends the interrupt to the program and the command. The program decides whether it ends.
#[test]
fn ctrl_c_on_a_terminal_ends_the_program_and_prints_the_report() {
    let folder = Folder::new();
    let (mut child, mut terminal, mut printed) = on_a_terminal(&folder, "wait");
    child.stdin.as_mut().expect("it is piped").write_all(b"\x03").expect("a terminal");
    terminal.read_to_string(&mut printed).expect("text");
    assert_eq!(child.wait().expect("its end").code(), Some(128 + libc::SIGINT), "{printed}");
    assert!(printed.contains("Phase Tree") && printed.contains("step"), "{printed}");
}

#[test]
fn ctrl_c_on_a_terminal_reaches_the_program_once() {
    let folder = Folder::new();
    let (mut child, mut terminal, mut printed) = on_a_terminal(&folder, "count interrupts");
    terminal.read_line(&mut printed).expect("text");
    let command = printed.trim_end().rsplit(' ').next().and_then(|process| process.parse().ok());
    let command = command.expect("the id of the command");
    // While the command is stopped, the program handles the interrupt: a second one would not merge with it.
    send_to(command, libc::SIGSTOP);
    child.stdin.as_mut().expect("it is piped").write_all(b"\x03").expect("a terminal");
    printed += &read_to(&mut terminal, &format!("signal {}", libc::SIGINT));
    send_to(command, libc::SIGCONT);
    send_to(command, libc::SIGUSR1);
    terminal.read_to_string(&mut printed).expect("text");
    let ended = child.wait().expect("its end");
    assert!(ended.success() && printed.contains("interrupts 1\r\n"), "{ended}: {printed}");
}

/// A run that times out while the program waits. A busy machine gets more time to begin the wait.
fn out_of_time(run: impl Fn(&str) -> Ran) -> Ran {
    let mut tried = ["0.3", "3", "30"].into_iter().map(run);
    tried.find(|ran| ran.stdout.ends_with("ready\n")).expect("it is ready in half a minute")
}

#[test]
fn time_that_is_up_ends_the_program_with_a_report() {
    let ran = out_of_time(|time| run(&["--timeout", time], |command| command.arg(program()).arg("wait")));
    assert_eq!((ran.status.signal(), &*ran.ranges(), ran.is_cut()), (Some(libc::SIGTERM), STEP, false));

    // The command does not wait for processes that a shell leaves behind: neither if a signal ends the shell, nor if it
    // ends itself. In the latter case a line would name the awaited processes after two seconds.
    for (trap, status) in [("", Err(libc::SIGTERM)), (r#"trap "exit 3" TERM;"#, Ok(3))] {
        let left = format!("exec 3<&0; cat <&3 >/dev/null 2>&1 & {trap} echo ready; wait");
        let (input, held) = std::io::pipe().expect("a pipe");
        let ran = out_of_time(|time| {
            let input = input.try_clone().expect("a descriptor");
            run(&["--timeout", time], |command| command.args(["sh", "-c", &left]).stdin(input))
        });
        drop(held); // ends the remaining process
        let ended = ran.status.code().ok_or_else(|| ran.status.signal().expect("a signal"));
        assert_eq!((ended, ran.said().len()), (status, 1), "{}", ran.stderr);
    }

    let ran = out_of_time(|time| {
        let folder = Folder::new();
        let mut timeout = Command::new("timeout");
        timeout.arg(time).arg(binary()).arg("--json").arg(folder.0.join("run-%p.json")).arg(program()).arg("wait");
        timeout.env_remove("TRACING_GPU").env_remove("NVTX_INJECTION64_PATH");
        Ran::new(timeout.output().expect("timeout, of coreutils"), &folder)
    });
    assert_eq!((ran.status.code(), &*ran.ranges()), (Some(124), STEP), "{}", ran.stderr);
}
