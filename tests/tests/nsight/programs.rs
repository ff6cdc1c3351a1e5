//! Programs of our own, `examples/workload.rs`: generated ones, short bodies, ranges open at the end.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use tests::nsight::{Event, Recording, Row, Table, profile, release_example};
use tracing_gpu::Summary;
use tracing_gpu::summary::{OpenRange, RangeStyle};

use crate::compare::{agree, agree_closely, printed_rows, rows};

/// Runs a workload under Nsight Systems. Returns its recording, and our summary of the same process.
pub(crate) fn workload(kind: &str, tier: &str, domain: &str, seed: u64) -> (Recording, Summary) {
    let (recording, summary, _) = workload_with_table(kind, tier, domain, seed);
    (recording, summary)
}

fn workload_with_table(kind: &str, tier: &str, domain: &str, seed: u64) -> (Recording, Summary, String) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let out = std::env::temp_dir().join(format!("nsight-workload-{}-{number}.json", std::process::id()));
    let table = PathBuf::from(format!("{}.txt", out.display()));
    let mut command = Command::new(release_example("workload"));
    command.arg(kind).arg(&out).args([tier, domain, &seed.to_string()]);
    command.env("TRACING_GPU", format!("out={}", table.display()));
    let (recording, output) = profile(&command);
    let json = std::fs::read(&out).unwrap_or_else(|error| panic!("{command:?} wrote no summary: {error}\n{output:?}"));
    let printed = std::fs::read_to_string(&table).expect("the workload's table");
    let _ = std::fs::remove_file(&out);
    let _ = std::fs::remove_file(&table);
    (recording, serde_json::from_slice(&json).expect("a summary"), printed)
}

/// What a push and a pop take together under Nsight Systems on this machine, in nanoseconds.
pub(crate) fn pair_ns() -> f64 {
    static PAIR: OnceLock<f64> = OnceLock::new();
    *PAIR.get_or_init(|| {
        let out = std::env::temp_dir().join(format!("nsight-pair-{}.txt", std::process::id()));
        let mut command = Command::new(release_example("workload"));
        command.arg("pair").arg(&out).args(["layer", "default", "0"]);
        let _recorded = profile(&command);
        let written = std::fs::read_to_string(&out).expect("the workload's figure");
        let _ = std::fs::remove_file(&out);
        written.parse().expect("nanoseconds")
    })
}

/// Bodies so short that they show whether the clock is read before the push or after it.
#[test]
fn short_bodies() {
    for tier in ["layer", "subscriber"] {
        agree_closely(&format!("bodies, {tier}"), || {
            let (recording, summary) = workload("bodies", tier, "default", 0);
            (recording, rows(&summary))
        });
    }
}

/// A new name is registered with the tool, which takes time. That must happen outside of the range, or its only
/// duration is wrong.
#[test]
fn names_used_once() {
    for tier in ["layer", "subscriber"] {
        agree(&format!("names used once, {tier}"), || {
            let (recording, summary) = workload("once", tier, "default", 0);
            (recording, rows(&summary))
        });
    }
}

/// Random nesting, threads, names, domains, re-entry, exits out of order and lifetimes.
#[test]
fn generated_programs() {
    let (mut split, mut threads) = (0, 0);
    for seed in 0..16 {
        let tier = ["layer", "subscriber"][seed as usize % 2];
        let domain = ["default", "target", "named: domain", "target"][seed as usize / 2 % 4];
        agree(&format!("seed {seed}, {tier}, {domain}"), || {
            let (recording, summary) = workload("random", tier, domain, seed);
            assert_eq!(summary.losses.open, [], "seed {seed}");
            assert_eq!(summary.losses.stray_exits, 0, "seed {seed}");
            split += summary.losses.split_instances;
            let events = recording.events();
            threads += events.iter().map(|event| event.tid).collect::<BTreeSet<_>>().len();
            assert_names_and_domains(domain, &events);
            (recording, rows(&summary))
        });
    }
    assert!(split > 1_000, "hardly an exit out of order: {split} instances were split");
    assert!(threads > 24, "hardly a program with threads: {threads} in all");
}

/// Checks the names and domains of the call sites without our own table: an error in both would agree.
fn assert_names_and_domains(domain: &str, events: &[Event]) {
    let targets = ["app", "app::io", "app::net", "app::net:x", "größe", "long", "quotes", "solver", "x"];
    let domains: BTreeSet<Option<&str>> = match domain {
        "default" => [None].into(),
        "target" => targets.map(Some).into_iter().chain([None]).collect(),
        name => [Some(name)].into(),
    };
    assert_eq!(events.iter().map(|event| event.domain.as_deref()).collect::<BTreeSet<_>>(), domains);

    let mut names: BTreeSet<String> = (0..12).map(|number| format!("layer {number}")).collect();
    for (letter, cut) in [("x", 32_765), ("ä", 16_382), ("日", 10_921)] {
        names.extend([letter.repeat(100), letter.repeat(cut) + "…"]);
    }
    let written = [
        "load",
        "step",
        "Step",
        "read",
        "(unnamed)",
        "x:load",
        "iterate",
        "iterate ",
        "  blanks  ",
        "1000",
        "0.5",
        "a \"b\", 'c' and a comma",
        "tab\there, \u{1b}[31m",
        "%s %d {} \\",
        "日本語 😀 e\u{301}",
        "nul␀inside",
        "no target",
        "None",
        "coloured",
        "request",
    ];
    names.extend(written.map(str::to_owned));
    assert_eq!(events.iter().filter_map(|event| event.text.clone()).collect::<BTreeSet<_>>(), names);
    assert!(events.iter().all(|event| event.text.is_some()));
}

/// The finish ends and counts ranges that are open on its own thread. Ranges open on other threads cannot be ended, and
/// the lifetime of an open span has no end: the footer names them, and Nsight Systems has one more instance of each,
/// which lasts as long as the recording.
#[test]
fn open_at_the_end() {
    for tier in ["layer", "subscriber"] {
        let (recording, before, printed) = workload_with_table("open", tier, "default", 0);
        let on_main = |open: &&OpenRange| open.thread == "main" && open.style == RangeStyle::PushPop;
        let elsewhere = before.losses.open.iter().filter(|open| !on_main(open));
        let mut expected: Vec<(String, u64)> =
            printed_rows(&printed).into_iter().map(|row| (row.label, row.instances)).collect();
        for open in elsewhere {
            match expected.iter_mut().find(|(label, _)| *label == open.label) {
                Some((_, instances)) => *instances += open.count,
                None => expected.push((open.label.clone(), open.count)),
            }
        }
        expected.sort();
        let mut recorded: Vec<(String, u64)> =
            recording.table(Table::Both).into_iter().map(|Row { label, instances, .. }| (label, instances)).collect();
        recorded.sort();
        assert_eq!(recorded, expected, "{tier}\n{printed}");
        let all = [
            ("closed", 2),
            ("not closed", 1),
            ("open here and there", 3),
            ("open on an ended thread", 1),
            ("open on main", 1),
        ];
        assert_eq!(recorded, all.map(|(label, instances)| (label.to_owned(), instances)));
    }
}
