//! The ways in which processes end, from `launcher/ends.c`: counts of Nsight Systems and of the command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::foreign::headers;
use tests::launcher::{Folder, compiled, run};
use tests::nsight::profile;

type Counts = BTreeMap<String, u64>;

/// Processes that both measure completely.
#[test]
fn counts_are_equal_where_nsight_systems_keeps_all() {
    let folder = Folder::new();
    let program = program(&folder);
    for way in ["return", "thread", "errno", "spawn"] {
        let (theirs, ours) = both(&program, way);
        assert_eq!(theirs, ours, "{way}");
    }
}

/// Nsight Systems 2022.4 loses the ranges of forked children, and those from before an `exec`. Ours include all of its
/// ranges.
#[test]
fn counts_are_at_least_those_of_nsight_systems() {
    let folder = Folder::new();
    let program = program(&folder);
    for way in ["exec", "fork", "clone", "fork and _exit", "forks", "generations", "cleared environment"] {
        let (theirs, ours) = both(&program, way);
        assert!(!theirs.is_empty(), "{way}");
        for (name, count) in &theirs {
            assert!(ours.get(name).is_some_and(|ours| ours >= count), "{way}: {name}: {theirs:?}, {ours:?}");
        }
    }
}

fn program(folder: &Folder) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/launcher/ends.c");
    let include = format!("-I{}", headers().display());
    compiled(&folder.0, &source, &[&include, "-ldl", "-lpthread"])
}

/// Ranges by name, counted by Nsight Systems and by the command.
fn both(program: &Path, way: &str) -> (Counts, Counts) {
    let mut theirs = Counts::new();
    let (recording, _) = profile(Command::new(program).arg(way));
    for event in recording.events() {
        *theirs.entry(event.text.unwrap_or_default()).or_default() += 1;
    }
    let ran = run(&[], |command| command.arg(program).arg(way));
    assert_eq!(ran.status.code(), Some(0), "{way}: {}", ran.stderr);
    let mut ours = Counts::new();
    for row in ran.summaries.iter().flat_map(|summary| &summary.ranges) {
        *ours.entry(row.name.clone()).or_default() += row.times.instances;
    }
    (theirs, ours)
}
