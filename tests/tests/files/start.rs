//! Errors of final files that the start can foresee: it reports them, and touches nothing.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::scenario::{BOTH, as_any_user, command, outcome};
use crate::{AGAIN, Folder, summary};

/// The files of an earlier run stay until the next one has ended, and the start only looks at them: opening a pipe
/// would wait for its reader.
#[test]
fn a_program_that_crashes_has_touched_no_file() {
    for tier in BOTH {
        let folder = Folder::new(&format!("crash-{tier}"));
        let at = |name: &str| folder.0.join(name).display().to_string();
        let modified = || fs::metadata(at("old.json")).and_then(|file| file.modified()).expect("a time");
        fs::write(at("old.json"), "of an older run").expect("a file can be written");
        let pipe = Command::new("mkfifo").arg(at("pipe")).status().expect("`mkfifo` can be started");
        assert!(pipe.success());
        let (before, missing) = (modified(), at("no/new"));
        let setting = format!("out={},json={},folded={missing}", at("old.json"), at("pipe"));
        let ran = outcome(command("abort", tier).env("TRACING_GPU", setting));
        let line = format!(
            "tracing-gpu: cannot write the folded stacks to `{missing}`: No such file or directory (os error 2){AGAIN}\n"
        );
        assert_eq!((ran.status.code(), ran.stderr), (None, line), "{tier}");
        assert_eq!(folder.files(), ["old.json", "pipe"], "{tier}");
        assert_eq!(fs::read_to_string(at("old.json")).expect("a file"), "of an older run", "{tier}");
        assert_eq!(modified(), before, "{tier}");
    }
}

#[test]
fn a_folder_or_a_file_without_permission_is_told_at_the_start() {
    let folder = Folder::new("closed");
    let [inside, file] = ["closed/run.json", "run.folded"].map(|name| folder.0.join(name));
    let closed = folder.0.join("closed");
    fs::create_dir(&closed).and_then(|()| fs::write(&file, "")).expect("a folder and a file");
    let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its own");
    allow(&closed, 0o555);
    allow(&file, 0o444);
    for tier in BOTH {
        let setting = format!("json={},folded={}", inside.display(), file.display());
        let ran = outcome(as_any_user(&mut command("guard", tier)).env("TRACING_GPU", setting));
        let line = |what: &str, path: &Path| {
            format!(
                "tracing-gpu: cannot write {what} to `{}`: Permission denied (os error 13){AGAIN}\n",
                path.display()
            )
        };
        let lines = line("the JSON", &inside) + &line("the folded stacks", &file);
        assert!(ran.status.success() && ran.stderr.starts_with(&lines), "{tier}: {}", ran.stderr);
        assert_eq!(ran.stderr.matches("tracing-gpu:").count(), 2, "{tier}: {}", ran.stderr);
    }
    allow(&closed, 0o755);
}

/// The start reports the state at that time: the program may create the folder itself, or something else may be in the
/// way at the end.
#[test]
fn the_end_tries_again() {
    for tier in BOTH {
        let folder = Folder::new(&format!("again-{tier}"));
        let (made, taken) = (folder.0.join("made/run.json"), folder.0.join("taken/run.folded"));
        let setting = format!("json={},folded={}", made.display(), taken.display());
        let mut command = command("signal-meets-end", tier);
        command.env("TRACING_GPU", setting).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the scenario can be started");
        let (mut ready, output) = (String::new(), child.stdout.take().expect("its output is piped"));
        BufReader::new(output).read_line(&mut ready).expect("it says that it is ready");
        fs::create_dir(folder.0.join("made")).expect("a folder");
        fs::create_dir_all(&taken).expect("folders");
        let output = child.wait_with_output().expect("it ends with its input");
        let text = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(output.status.success() && summary(&made).ranges.len() == 4_000, "{tier}: {text}");
        let missing = "No such file or directory (os error 2)";
        let said = [
            format!("the JSON to `{}`: {missing}{AGAIN}", made.display()),
            format!("the folded stacks to `{}`: {missing}{AGAIN}", taken.display()),
            format!("the folded stacks to `{}`: Is a directory (os error 21)", taken.display()),
        ];
        let lines: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("tracing-gpu: cannot write ")).collect();
        assert_eq!(lines, said, "{tier}");
    }
}

/// A daemon changes to `/`, where it may not write.
#[test]
fn a_program_that_goes_elsewhere_leaves_its_files_where_it_began() {
    for tier in BOTH {
        let folder = Folder::new(&format!("goes-{tier}"));
        fs::create_dir(folder.0.join("elsewhere")).expect("a folder");
        let setting = "out=report.txt,json=run.json,folded=./run.folded,trace=run.trace";
        let ran = outcome(command("goes-elsewhere", tier).current_dir(&folder.0).env("TRACING_GPU", setting));
        assert!(ran.status.success() && ran.stderr.is_empty(), "{tier}: {}", ran.stderr);
        assert_eq!(folder.files(), ["elsewhere", "report.txt", "run.folded", "run.json", "run.trace"], "{tier}");
    }
}
