//! Which ranks were late for collective operations: distributed programs that are made up, with known causes.
//!
//! The generator shares no code with the analysis. `plan.rs` chooses a program and what is wrong with it, `program.rs`
//! writes what each rank does, `machine.rs` runs all ranks, `truth.rs` sums how long they waited, `records.rs` hands
//! what a profiler sees of each rank to the fold.
//!
//! `RANKS_SET=17 cargo test -p tests --test ranks -- --nocapture` runs one set, and prints more of it.

#[path = "ranks/machine.rs"]
mod machine;
#[path = "ranks/plan.rs"]
mod plan;
#[path = "ranks/program.rs"]
mod program;
#[path = "ranks/records.rs"]
mod records;
#[path = "ranks/truth.rs"]
mod truth;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use machine::Machine;
use plan::{Groups, Plan, Scenario};
use range_model::Summary;
use range_model::summary::{LateRank, Lateness};
use truth::Truth;

const SETS: u64 = 200;

/// What is to be found in a set, and what was found.
struct Set {
    plan: Plan,
    truth: Truth,
    lateness: Option<Lateness>,
}

impl Set {
    fn new(seed: u64) -> Self {
        let mut plan = Plan::new(seed);
        // Lateness that hides behind other work is no lateness: it grows until the others wait for it.
        for _ in 0..12 {
            let machine = Machine::run(&plan);
            let truth = Truth::new(&plan, &machine);
            if plan.planted().iter().all(|rank| truth.share(*rank) >= 0.03) {
                let lateness = Summary::merge(records::summaries(&plan, &machine)).lateness;
                return Self { plan, truth, lateness };
            }
            plan.delay *= 1.4;
        }
        panic!("set {seed}: nobody waits for the late rank: {plan:?}");
    }

    fn found(&self) -> &[LateRank] {
        self.lateness.as_ref().map_or(&[], |lateness| &lateness.late)
    }

    /// What is wrong: ranks that were not late, and causes that are not theirs.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for late in self.found() {
            let Some(planted) = self.plan.planted().into_iter().find(|rank| late.rank == format!("rank {rank}")) else {
                wrong.push(format!("{} is named", late.rank));
                continue;
            };
            if let Some(cause) = &late.cause
                && (cause.range.as_deref(), cause.state.as_str()) != self.plan.cause(planted)
            {
                let truth = self.plan.cause(planted);
                wrong.push(format!("{}: {:?} {} in place of {truth:?}", late.rank, cause.range, cause.state));
            }
        }
        wrong
    }

    /// What is not found, of what a set without faults shows.
    fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        for rank in self.plan.planted() {
            let Some(late) = self.found().iter().find(|late| late.rank == format!("rank {rank}")) else {
                missed.push(format!("rank {rank} is not named"));
                continue;
            };
            if late.cause.is_none() {
                missed.push(format!("rank {rank} has no cause"));
            }
            let truth = self.truth.waited(rank);
            if late.waited_ns.abs_diff(truth) > (truth / 20).max(1_000_000) {
                missed.push(format!("rank {rank}: {} waited, in truth {truth}", late.waited_ns));
            }
        }
        missed
    }

    /// The scenario, and what makes it hard.
    fn kind(&self) -> (Scenario, bool, bool) {
        (self.plan.scenario, self.plan.overlaps, self.plan.groups != Groups::World)
    }

    fn story(&self) -> String {
        let mut story = format!("  {:?}\n", self.plan);
        for rank in self.plan.planted() {
            let (waited, by_last) = (self.truth.waited(rank), self.truth.last.get(&rank));
            let share = self.truth.share(rank);
            let cause = self.plan.cause(rank);
            let _ = writeln!(story, "  truth: rank {rank} {cause:?}, {waited} waited, {by_last:?} as last, {share:.3}");
        }
        let mut last: Vec<(u64, u32)> = self.truth.last.iter().map(|(rank, waited)| (*waited, *rank)).collect();
        last.sort_by(|a, b| b.cmp(a));
        last.truncate(4);
        let Truth { total, elapsed, longest, .. } = self.truth;
        let _ = writeln!(story, "  all waiting {total}, by the last rank {last:?}, elapsed {elapsed}");
        let (waiting, communicator, number, rank) = longest;
        let _ = writeln!(
            story,
            "  longest: {waiting} for rank {rank} in operation {number} of communicator {communicator}"
        );
        for late in self.found() {
            let _ = writeln!(story, "  found: {late:?}");
        }
        if let Some(lateness) = &self.lateness {
            let _ = writeln!(story, "  operations: {:?}, unmatched {}", lateness.operations, lateness.unmatched);
        }
        story
    }
}

#[derive(Default)]
struct Sums {
    sets: u32,
    right: u32,
    named: u32,
    wrong: u32,
}

#[test]
fn late_ranks_are_named_and_no_others() {
    if let Some(seed) = std::env::var("RANKS_SET").ok().and_then(|seed| seed.parse().ok()) {
        let set = Set::new(seed);
        println!("set {seed}: wrong {:?}, missed {:?}\n{}", set.wrong(), set.missed(), set.story());
        return;
    }
    let (next, sums, failures) = (AtomicU64::new(0), Mutex::new(BTreeMap::new()), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= SETS {
                        break;
                    }
                    let set = Set::new(seed);
                    let (wrong, missed) = (set.wrong(), set.missed());
                    let mut sums = sums.lock().expect("no test has panicked");
                    let row: &mut Sums = sums.entry(set.kind()).or_default();
                    row.sets += 1;
                    row.named += u32::from(!set.found().is_empty());
                    row.right += u32::from(wrong.is_empty() && missed.is_empty());
                    row.wrong += u32::from(!wrong.is_empty());
                    if !wrong.is_empty() || (!missed.is_empty() && set.plan.scenario.must_be_found()) {
                        let line = format!("set {seed}: wrong {wrong:?}, missed {missed:?}\n{}", set.story());
                        failures.lock().expect("no test has panicked").insert(seed, line);
                    }
                }
            });
        }
    });
    let (sums, failures) = (sums.into_inner().expect("no panic"), failures.into_inner().expect("no panic"));
    for line in failures.values() {
        println!("{line}");
    }
    println!("{:<45} {:>5} {:>6} {:>6} {:>6}", "scenario", "sets", "right", "named", "wrong");
    for ((scenario, overlaps, is_grouped), Sums { sets, right, named, wrong }) in &sums {
        let (overlaps, groups) =
            (if *overlaps { ", overlaps" } else { "" }, if *is_grouped { ", sub-groups" } else { "" });
        println!("{:<45} {sets:>5} {right:>6} {named:>6} {wrong:>6}", format!("{scenario:?}{overlaps}{groups}"));
    }
    assert_eq!(sums.values().map(|row| row.wrong).sum::<u32>(), 0, "sets in which something wrong is named");
    let must_be_found = sums.iter().filter(|((scenario, ..), _)| scenario.must_be_found());
    let (right, sets) = must_be_found.fold((0, 0), |(right, sets), (_, row)| (right + row.right, sets + row.sets));
    assert!(right * 100 >= sets * 95, "{right} of {sets} sets with late ranks are named rightly");
}
