//! Disks that are full, broken or read-only from any call on, and a wall clock that changes while the program runs.

use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::scenario::{BOTH, LAYER, command, instances, outcome, outcome_recorded, printed, rows, untold};
use tests::launcher::{Folder, Ran};
use tracing_gpu::{Summary, SummaryExt as _};

/// `shim.c`, compiled.
fn shim() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/shim.c");
        let library = Path::new(env!("CARGO_TARGET_TMPDIR"));
        tests::launcher::compiled(library, &source, &["-shared", "-fPIC", "-ldl"])
    })
}

/// The events of a complete trace.
pub(crate) fn events(trace: &[u8]) -> Vec<serde_json::Value> {
    serde_json::from_slice(trace).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(trace)))
}

/// The number of ranges in a complete database.
pub(crate) fn ranges(database: &Path) -> u64 {
    let file = rusqlite::Connection::open(database).expect("a database");
    let is_whole: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a database");
    assert_eq!(is_whole, "ok", "{}", database.display());
    file.query_row("SELECT count(*) FROM NVTX_EVENTS WHERE eventType IN (59, 60)", [], |row| row.get(0))
        .expect("ranges")
}

/// Runs this with the first call that creates or writes a file failing, then the second, and so on, until there are no
/// more. The folder is empty before each.
fn each_failing(make: impl Fn(&Folder) -> Command, judge: impl Fn(&str, &Folder, std::process::Output)) -> usize {
    for number in 0.. {
        let (folder, told) = (Folder::new(), Folder::new());
        let hit = told.0.join("hit");
        let mut command = make(&folder);
        command.env("LD_PRELOAD", shim()).env("FAULT_CALL", number.to_string()).env("FAULT_HIT", &hit);
        command.env_remove("NVTX_INJECTION64_PATH").env("FAULT_FOLDER", &folder.0);
        let output = command.output().expect("a program");
        let Ok(call) = std::fs::read_to_string(&hit) else { return number };
        judge(&format!("call {number}, {call}: {}", String::from_utf8_lossy(&output.stderr)), &folder, output);
    }
    0
}

const FILES: [(&str, &str); 5] =
    [("out", "report"), ("json", "a.json"), ("folded", "a.folded"), ("trace", "t.json.gz"), ("sqlite", "a.sqlite")];

#[test]
fn a_disk_that_fails_at_any_write_costs_the_file_that_it_was_for() {
    let make = |folder: &Folder| {
        let mut command = command("guard", LAYER);
        let files = FILES.map(|(key, name)| format!("{key}={}", folder.0.join(name).display()));
        command.env("TRACING_GPU", files.join(","));
        command
    };
    let judge = |what: &str, folder: &Folder, output: std::process::Output| {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.matches("tracing-gpu:").count() <= 1, "{what}");
        for (key, name) in FILES {
            let path = folder.0.join(name);
            if said.contains(&format!("to `{}`: ", path.display())) {
                // The report is printed even if its own file cannot be written.
                assert!(key != "out" || printed(&said) == rows([("step", 1), ("work", 1)]), "{what}");
                continue;
            }
            let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{what}: {name}: {error}"));
            match key {
                "out" => {
                    assert_eq!(printed(&String::from_utf8_lossy(&bytes)), rows([("step", 1), ("work", 1)]), "{what}")
                }
                "json" => assert_eq!(Summary::read_json(&*bytes).expect(what).ranges.len(), 2, "{what}"),
                "folded" => assert_eq!(bytes.iter().filter(|&&byte| byte == b'\n').count(), 2, "{what}"),
                "trace" => {
                    let mut trace = Vec::new();
                    flate2::read::MultiGzDecoder::new(&*bytes).read_to_end(&mut trace).expect(what);
                    assert_eq!(events(&trace).iter().filter(|event| event["name"] == "step").count(), 1, "{what}");
                }
                _ => assert_eq!(ranges(&path), 2, "{what}"),
            }
        }
        let is_known = |name: &String| FILES.iter().any(|(_, known)| known == name) || name == "a.sqlite-journal";
        assert!(folder.names().iter().all(is_known), "{what}: {:?}", folder.names());
    };
    let calls = each_failing(make, judge);
    assert!(calls > 60, "{calls} calls write files");
}

/// The same for the folder of a run: the program runs normally, and is measured or gets a line that it is not.
#[test]
fn a_folder_of_a_run_that_fails_at_any_write_is_one_line() {
    let judge = |what: &str, folder: &Folder, output: std::process::Output| {
        let ran = Ran::new(output, &Folder::new());
        assert_eq!((ran.status.code(), &*ran.stdout), (Some(4), "out\n"), "{what}");
        assert!(ran.said().len() == 1, "{what}");
        assert_eq!(folder.names(), [""; 0], "{what}: nothing stays of the run");
    };
    let make = |folder: &Folder| {
        let mut command = tests::launcher::command(&[]);
        command.env("TMPDIR", &folder.0).args(["sh", "-c", "echo out; exit 4"]);
        command
    };
    assert!(each_failing(make, judge) > 1);
}

/// Durations, and the order of a timeline, use clocks that nobody can set.
#[test]
fn a_wall_clock_that_is_set_to_and_fro_changes_no_duration() {
    for tier in BOTH {
        let folder = Folder::new();
        let trace = folder.0.join("t.json");
        let setting = format!("out=none,trace={}", trace.display());
        let ran = outcome(
            command("steady", tier).env("LD_PRELOAD", shim()).env("FAULT_CLOCK", "1").env("TRACING_GPU", setting),
        );
        let summary = ran.summary();
        assert_eq!(instances(&summary), instances(&untold("steady", tier).summary()), "{tier}");
        let hour = 3_600_000_000_000;
        assert!(
            summary.elapsed_ns < hour / 2 && summary.ranges.iter().all(|row| row.times.total_ns < hour / 2),
            "{tier}"
        );
        let events = events(&std::fs::read(trace).expect("a trace"));
        let us = |event: &serde_json::Value, key: &str| event[key].as_f64().unwrap_or(0.0);
        assert!(events.iter().all(|event| us(event, "dur") < 1e9 && (0.0..1e9).contains(&us(event, "ts"))), "{tier}");
    }
}

/// Runs this with a path in a folder that everyone may write to, like `/tmp`. Another user has put a link, a file, a
/// pipe or a link to a folder there, in turn.
fn each_planted(run: impl Fn(&mut dyn FnMut(&mut Command) -> String, &Path)) {
    for kind in ["link", "file", "pipe", "folder"] {
        let (shared, own) = (Folder::new(), Folder::new());
        std::fs::set_permissions(&shared.0, std::fs::Permissions::from_mode(0o1777)).expect("a folder");
        let (planted, kept) = (shared.0.join("planted"), own.0.join("kept"));
        std::fs::write(&kept, "kept").expect("a file");
        match kind {
            "link" => symlink(&kept, &planted).expect("a link"),
            "folder" => symlink(&own.0, &planted).expect("a link"),
            "file" => std::fs::write(&planted, "kept").expect("a file"),
            _ => assert!(Command::new("mkfifo").arg(&planted).status().expect("mkfifo").success()),
        }
        let mut judge = |command: &mut Command| {
            let output = command.env("LD_PRELOAD", shim()).env("FAULT_ALIEN", "planted").output().expect("a program");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let line = "planted`: another user may have put it into this folder, to which all users may write";
            let line = if kind == "folder" { line.replace("planted", "planted/kept") } else { line.to_owned() };
            assert!(matches!(output.status.code(), Some(0 | 1)) && said.contains(&line), "{kind}: {said}");
            assert_eq!((shared.names(), own.names()), (vec!["planted".to_owned()], vec!["kept".to_owned()]), "{kind}");
            assert_eq!(std::fs::read_to_string(&kept).expect("a file"), "kept", "{kind}: {command:?}");
            if kind == "file" {
                assert_eq!(std::fs::read_to_string(&planted).expect("a file"), "kept", "{command:?}");
            }
            said
        };
        run(&mut judge, &if kind == "folder" { planted.join("kept") } else { planted.clone() });
    }
}

#[test]
fn what_another_user_put_into_a_shared_folder_is_not_written_to() {
    each_planted(|ran, path| {
        for (key, _) in FILES {
            let said = ran(command("guard", LAYER).env("TRACING_GPU", format!("{key}={}", path.display())));
            assert_eq!(printed(&said), rows([("step", 1), ("work", 1)]), "{key}: {said}");
        }
    });
    let run = Folder::new();
    std::fs::write(run.0.join("run.json"), include_str!("../../golden/json/cuda.json")).expect("a file");
    each_planted(|ran, path| {
        let output = format!("--output={}", path.display());
        let said = ran(tests::launcher::command(&["merge", &output]).arg(&run.0));
        assert!(said.contains("Module running"), "{said}");
    });
}

/// A program with such rights, for example a setuid one, could be made to load any library and to write any file.
#[test]
fn a_program_with_rights_that_its_user_lacks_reads_no_variables() {
    let folder = Folder::new();
    let setting = format!("out=none,json={}", folder.0.join("%q{HOME}.json").display());
    let ran = |variables: &[(&str, &str)]| {
        let mut command = command("guard", LAYER);
        command.env("LD_PRELOAD", shim()).env("HOME", "a/b").env("TRACING_GPU", &setting);
        outcome_recorded(command.envs(variables.iter().copied()))
    };
    let plain = ran(&[]);
    assert!(plain.stderr.is_empty() && !plain.calls.is_empty(), "{}", plain.stderr);
    assert_eq!(folder.names(), ["a_b.json"]);
    std::fs::remove_file(folder.0.join("a_b.json")).expect("a file");
    let privileged = ran(&[("FAULT_PRIVILEGED", "1"), ("TRACING_GPU_FILTER", "off")]);
    assert_eq!(printed(&privileged.stderr), rows([("step", 1), ("work", 1)]), "{}", privileged.stderr);
    assert_eq!((privileged.calls.len(), folder.names()), (0, Vec::new()));
}
