//! The command is killed: a later run finds its processes' measurements, and removes them later.

use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use tests::launcher::{Folder, NOTHING, binary, command, run};

use crate::ends::program;

/// The command's messages for a program that does nothing, but long enough for a search for other runs, with this
/// folder for temporary files.
fn said_beside(temporary: &Folder) -> Vec<String> {
    let ran = run(&[], |command| command.args(["sleep", "0.02"]).env("TMPDIR", &temporary.0));
    assert!(ran.status.success(), "{}", ran.stderr);
    ran.said().into_iter().map(str::to_owned).collect()
}

/// A run whose command is killed: one of its processes was killed as well, another has ended in order.
fn killed(temporary: &Folder) -> PathBuf {
    let before = temporary.names();
    let script = r#""$0" kill; "$0" return; kill -KILL $PPID"#;
    let mut command = command(&["-o", "none"]);
    command.args(["sh", "-c", script]).arg(program()).env("TMPDIR", &temporary.0).stderr(Stdio::null());
    assert_eq!(command.status().expect("it starts").signal(), Some(libc::SIGKILL));
    let new = temporary.names().into_iter().find(|name| !before.contains(name));
    temporary.0.join(new.expect("the folder of the run"))
}

fn make_old(folder: &Path) {
    let two_days = Duration::from_secs(2 * 24 * 60 * 60);
    let file = File::open(folder).expect("a folder");
    file.set_modified(SystemTime::now() - two_days).expect("its owner may");
}

#[test]
fn what_a_killed_command_leaves_is_named_once_merged_and_removed_after_a_day() {
    let temporary = Folder::new();
    let left = killed(&temporary);
    make_old(&left); // it is not removed before it was named
    let name = left.display();
    let line = format!(
        "an earlier run was killed before its report: `tracing-gpu merge {name}` prints it. It is removed after a day"
    );
    assert_eq!(said_beside(&temporary), [NOTHING, &line]);
    assert_eq!(said_beside(&temporary), [NOTHING]);

    let merged = command(&["merge", &name.to_string()]).output().expect("it starts");
    let printed = String::from_utf8_lossy(&merged.stderr);
    assert!(merged.status.success() && printed.contains("Phase Tree of 2 Processes"), "{printed}");
    assert!(printed.contains("step") && !printed.contains("ended at once"), "{printed}"); // the summary is complete

    assert!(left.is_dir());
    make_old(&left);
    assert_eq!(said_beside(&temporary), [NOTHING]);
    assert_eq!(temporary.names(), [""; 0]);
}

#[test]
fn several_killed_commands_have_one_line() {
    let temporary = Folder::new();
    (0..3).for_each(|_| _ = killed(&temporary));
    let said = said_beside(&temporary);
    assert!(said.len() == 2 && said[1].contains("prints it (2 more such folders are beside it)."), "{said:?}");
}

/// This holds however old it is.
#[test]
fn the_folder_of_a_command_that_lives_is_left_alone() {
    let temporary = Folder::new();
    let script = r#""$0"; touch -d "2 days ago" "$TRACING_GPU_RUN"; "$1" true; test -f "$TRACING_GPU_RUN"/settings"#;
    let ran =
        run(&[], |command| command.args(["sh", "-c", script]).arg(program()).arg(binary()).env("TMPDIR", &temporary.0));
    assert_eq!((ran.status.code(), &*ran.ranges(), ran.said()), (Some(0), "step 3", vec![NOTHING]), "{}", ran.stderr);
}

/// Other entries of a shared folder, whatever their names.
#[test]
fn nothing_else_is_named_or_removed() {
    let temporary = Folder::new();
    let left = killed(&temporary);
    let (elsewhere, link) = (Folder::new(), temporary.0.join("tracing-gpu-1-0123456789abcdef"));
    let target = elsewhere.0.join("target");
    std::fs::rename(&left, &target).expect("one file system");
    symlink(&target, link).expect("a link");
    let open_to_all = killed(&temporary);
    std::fs::set_permissions(&open_to_all, Permissions::from_mode(0o755)).expect("its mode");
    let of_another_name = killed(&temporary);
    std::fs::rename(&of_another_name, temporary.0.join("tracing-gpu-1-2")).expect("one file system");
    std::fs::remove_file(killed(&temporary).join("settings")).expect("a file");
    if std::fs::metadata("/proc/self").expect("itself").uid() == 0 {
        chown(killed(&temporary), Some(65_534), None).expect("root may");
    }
    let before = temporary.names();
    before.iter().for_each(|name| make_old(&temporary.0.join(name)));
    assert_eq!(said_beside(&temporary), [NOTHING]);
    assert_eq!(temporary.names(), before);
}
