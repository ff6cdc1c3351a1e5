//! Files of programs that end early.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tracing_gpu::summary::RangeStyle;

use crate::read::{Database, Files, Trace};
use crate::scenario::BOTH;

/// A program that makes 1,000 ranges and an event for each line of input, and then prints that line.
struct Fed {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Fed {
    fn start(files: &Files, tier: &str) -> Self {
        let mut command = files.command("timeline-fed", tier);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.expect("the scenario can be started");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("its output is piped"));
        Self { child, input, output: BufReader::new(output) }
    }

    /// Sends this line. Its ranges have ended when this returns.
    fn feed(&mut self, line: &str) {
        writeln!(self.input.as_mut().expect("its input is open"), "{line}").expect("it reads");
        let mut said = String::new();
        self.output.read_line(&mut said).expect("it answers");
        assert_eq!(said, format!("{line}\n"));
    }

    fn signal(&self, signal: &str) {
        let kill = std::process::Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(kill.expect("`kill` is in every shell's path: install procps or util-linux").success());
    }

    /// Its exit status, and its output on standard error.
    fn end(mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        self.child.stderr.take().expect("its errors are piped").read_to_string(&mut said).expect("UTF-8");
        (self.child.wait().expect("it ends"), said)
    }
}

/// Waits until this text is in the file, that is, has been flushed.
fn wait_for(text: &str, files: &Files) {
    let begun = Instant::now();
    loop {
        let found = std::fs::read(&files.trace).unwrap_or_default();
        if found.windows(text.len()).any(|window| window == text.as_bytes()) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is written while the program runs");
        std::thread::yield_now();
    }
}

#[test]
fn a_run_that_is_killed_leaves_what_was_flushed() {
    for tier in BOTH {
        for lines in [0, 1, 5, 40, 120] {
            let files = Files::new("trace.json");
            let mut fed = Fed::start(&files, tier);
            fed.feed("first");
            wait_for("\"first\",\"ts\"", &files);
            fed.feed("second"); // the first is in the database before the trace grows
            wait_for("\"second\",\"ts\"", &files);
            (0..lines).for_each(|line| fed.feed(&format!("line {line}")));
            fed.signal("-KILL");
            let (status, said) = fed.end();
            assert_eq!((status.signal(), said.as_str()), (Some(libc::SIGKILL), ""), "{tier}");

            let trace = Trace::of_killed(&files.trace);
            trace.assert_nested(tier);
            let of = |line: &str| {
                let of_line = |slice: &&crate::read::Event| slice.args["fields"]["line"] == line;
                trace.slices.iter().filter(of_line).count()
            };
            assert_eq!((of("first"), of("second")), (500, 500), "{tier}");
            assert!(trace.marks.len() >= 2 && trace.marks.len() <= 2 + lines, "{tier}");

            let database = Database::open(&files.database);
            let marks = database.marks();
            assert!(marks.contains(&"first".to_owned()) && marks.len() <= 2 + lines, "{tier}: {marks:?}");
            let rows = database.rows();
            let outer = rows[&(RangeStyle::PushPop, "outer".to_owned())].0;
            let inner = rows[&(RangeStyle::PushPop, "inner".to_owned())].0;
            assert!(outer >= 500 && inner >= outer && outer <= (2 + lines as u64) * 500, "{tier}: {rows:?}");
        }
    }
}

#[test]
fn however_a_program_ends_its_files_are_complete() {
    for tier in BOTH {
        for (last, code, signal) in [
            ("done", Some(0), None),
            ("exit", Some(7), None),
            ("panic", Some(101), None),
            ("-INT", None, Some(libc::SIGINT)),
            ("-TERM", None, Some(libc::SIGTERM)),
        ] {
            let what = format!("{tier} {last}");
            let files = Files::new("trace.json");
            let mut fed = Fed::start(&files, tier);
            fed.feed("first");
            if signal.is_some() {
                fed.feed("last");
                fed.signal(last);
            } else {
                fed.feed(last);
                drop(fed.input.take());
            }
            let (status, said) = fed.end();
            assert_eq!((status.code(), status.signal()), (code, signal), "{what}: {said}");
            let (trace, _) = crate::assert_complete(&what, &files);
            assert_eq!((trace.slices.len(), trace.marks.len()), (2_000, 2), "{what}");
        }
    }
}
