//! Files that cannot be written: one line each, the report, and the program's own exit status.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rusqlite::Connection;

use crate::read::Files;
use crate::scenario::{BOTH, Ran, as_any_user, command, outcome, printed};

/// Checks for exactly these lines at the start; the other file must be written.
fn assert_said(what: &str, ran: &Ran, code: i32, lines: &[String]) {
    assert_eq!(ran.status.code(), Some(code), "{what}: {}", ran.stderr);
    let complaints: String = lines.iter().map(|line| format!("tracing-gpu: {line}\n")).collect();
    assert!(ran.stderr.starts_with(&complaints), "{what}: {}\n{complaints}", ran.stderr);
    assert_eq!(ran.stderr.matches("tracing-gpu:").count(), lines.len(), "{what}: {}", ran.stderr);
    assert_eq!(printed(&ran.stderr)["work"], 1, "{what}");
}

const ENDS: [(&str, i32); 3] = [("guard", 0), ("leaked-process-exit", 7), ("panic", 101)];

#[test]
fn a_timeline_that_cannot_be_written_is_one_line() {
    let files = Files::new("trace.json");
    let directory = files.folder.join("folder.sqlite");
    fs::create_dir(&directory).expect("a folder");
    let directory = directory.display().to_string();
    let missing = files.folder.join("missing/run.sqlite").display().to_string();
    for tier in BOTH {
        for (path, of_trace, of_database) in [
            ("/dev/full", "No space left on device (os error 28)", "is no ordinary file"),
            (missing.as_str(), "No such file or directory (os error 2)", "No such file or directory (os error 2)"),
            (directory.as_str(), "Is a directory (os error 21)", "is a directory"),
            (
                "/proc/self/version.sqlite",
                "No such file or directory (os error 2)",
                "No such file or directory (os error 2)",
            ),
        ] {
            for (scenario, code) in ENDS {
                let what = format!("{tier} {scenario} {path}");
                let trace = format!("cannot write the trace to `{path}`: {of_trace}");
                let database = |path: &str| format!("cannot write the database to `{path}`: {of_database}");
                let run = |setting: String| outcome(command(scenario, tier).env("TRACING_GPU", setting));
                // The other file is written.
                let ran = run(format!("trace={path},sqlite={}", files.database.display()));
                assert_said(&what, &ran, code, std::slice::from_ref(&trace));
                assert!(fs::read(&files.database).is_ok_and(|bytes| bytes.starts_with(b"SQLite format 3")), "{what}");
                let ran = run(format!("trace={},sqlite={path}", files.trace.display()));
                assert_said(&what, &ran, code, &[database(path)]);
                let text = fs::read_to_string(&files.trace).expect("a trace");
                assert!(serde_json::from_str::<Vec<serde_json::Value>>(&text).is_ok(), "{what}: {text}");
                // Two distinct files, even if the first exists.
                let other = if fs::metadata(path).is_ok() { path.to_owned() } else { format!("{path}.2") };
                let ran = run(format!("trace={path},sqlite={other}"));
                assert_said(&what, &ran, code, &[trace, database(&other)]);
                fs::remove_file(&files.trace).and(fs::remove_file(&files.database)).expect("both are there");
            }
        }
    }
}

/// A non-file, another user's file, and one that another program has open.
#[test]
fn a_database_that_is_locked_is_left_alone() {
    for tier in BOTH {
        let files = Files::new("trace.json");
        let other = Connection::open(&files.database).expect("a database");
        other.execute_batch("CREATE TABLE kept(x); INSERT INTO kept VALUES (42); BEGIN EXCLUSIVE").expect("a lock");
        for (scenario, code) in ENDS {
            let ran = outcome(&mut files.command(scenario, tier));
            let path = files.database.display();
            let line = format!("cannot write the database to `{path}`: is open elsewhere, maybe in another process");
            assert_said(scenario, &ran, code, &[line]);
            assert!(files.trace.is_file());
        }
        let kept: i64 = other.query_row("SELECT x FROM kept", [], |row| row.get(0)).expect("what was there");
        assert_eq!(kept, 42);
    }
}

#[test]
fn a_folder_without_permission_is_one_line() {
    let files = Files::new("trace.json");
    let closed = files.folder.join("closed");
    fs::create_dir(&closed).expect("a folder");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).expect("its own folder");
    let (trace, database) = (closed.join("run.json"), closed.join("run.sqlite"));
    for tier in BOTH {
        for (scenario, code) in ENDS {
            let setting = format!("trace={},sqlite={}", trace.display(), database.display());
            let ran = outcome(as_any_user(&mut command(scenario, tier)).env("TRACING_GPU", setting));
            let line = |what: &str, path: &std::path::Path| {
                format!("cannot write {what} to `{}`: Permission denied (os error 13)", path.display())
            };
            assert_said(scenario, &ran, code, &[line("the trace", &trace), line("the database", &database)]);
        }
    }
    let _ = fs::set_permissions(&closed, fs::Permissions::from_mode(0o755));
}

/// A disk that becomes full in the middle, or at once, imitated by a limit on file sizes, which needs no special
/// rights. The tables of a database take 304 KiB before there is a row.
#[test]
fn a_file_that_grows_too_large_is_one_line() {
    for tier in BOTH {
        for (key, kilobytes, at_start) in [("trace", 150, false), ("sqlite", 400, false), ("sqlite", 150, true)] {
            let files = Files::new("trace.json");
            let (what, path) =
                if key == "trace" { ("the trace", &files.trace) } else { ("the database", &files.database) };
            let start = format!("tracing-gpu: cannot write {what} to `{}`: ", path.display());
            let spans = tests::recorder::example("spans");
            let script = format!("trap '' XFSZ; ulimit -f {kilobytes}; exec '{}' timeline {tier}", spans.display());
            let mut command = std::process::Command::new("bash");
            command.args(["-c", &script]).env("TRACING_GPU", format!("{key}={}", path.display()));
            let ran = outcome(&mut command);
            let what = format!("{tier} {key} {kilobytes}: {}", ran.stderr);
            assert_eq!(ran.status.code(), Some(0), "{what}");
            let mut lines = ran.stderr.lines();
            let said = if at_start { lines.next() } else { lines.last() };
            assert!(said.is_some_and(|said| said.starts_with(&start)), "{what}");
            assert_eq!(ran.stderr.matches("tracing-gpu:").count(), 1, "{what}");
            assert_eq!(printed(&ran.stderr)["batch"], 4, "{what}");
        }
    }
}
