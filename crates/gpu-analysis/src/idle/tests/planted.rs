//! Programs with one cause planted, and what is concluded from them: the cause first, and nothing where there is none.

use range_report::{Finding, FindingKind, SummaryExt as _};

use super::*;

/// Kernels of a step, and how often it runs.
const KERNELS: usize = 20;
const STEPS: u64 = 40;

/// What the program does in each step but launch: `0` is the first one.
type Plant = fn(&mut Program<'_>, u64);

/// Steps that launch kernels of `us` on average, and do something behind each of them, and once in each step.
fn findings(seed: u64, us: u64, each: Plant, once: Plant) -> Vec<Finding> {
    let mut numbers = Numbers(seed);
    let mut program = Program::new(&mut numbers, 1, 0);
    program.code(200_000);
    for step in 0..STEPS {
        program.open.push(("step", program.now));
        for _ in 0..KERNELS {
            let code = program.numbers.us(1, 4);
            program.code(code);
            let (at, duration) = (program.now, program.numbers.us(us / 2, us + us / 2 + 1));
            let correlation = program.call("cudaLaunchKernel_v7000", IdleCause::Launching, 4_000);
            let earliest = program.now + 3_000;
            program.runs(correlation, at, earliest, duration, None);
            each(&mut program, step);
        }
        once(&mut program, step);
        program.close();
    }
    let costly: Vec<Costly> = std::mem::take(&mut program.costly);
    assert!(costly.is_empty(), "the truth is in the plan");
    let mut idle = Idle::default();
    program.made.iter().for_each(|made: &Made| made.give(&mut idle));
    let mut summary = Summary::default();
    idle.finish(&mut summary);
    summary.findings()
}

fn nothing(_: &mut Program<'_>, _: u64) {}

fn wait(program: &mut Program<'_>, _: u64) {
    let until = program.ready.max(program.now) + 20_000;
    program.call("cudaStreamSynchronize_v3020", IdleCause::Synchronising, until - program.now);
}

fn allocate(program: &mut Program<'_>, _: u64) {
    program.call("cudaMalloc_v3020", IdleCause::Allocating, 150_000);
}

fn think(program: &mut Program<'_>, _: u64) {
    program.code(5_000_000);
}

fn think_between(program: &mut Program<'_>, step: u64) {
    wait(program, step);
    program.close();
    program.code(5_000_000);
}

fn load(program: &mut Program<'_>, step: u64) {
    if step == 0 {
        program.call("cuModuleLoadData", IdleCause::Loading, 30_000_000);
    }
}

/// As PyTorch captures: launches of 10 us with as much of Python's code between them.
fn capture(program: &mut Program<'_>, _: u64) {
    program.call("cudaStreamBeginCapture_v10000", IdleCause::BuildingGraphs, 10_000);
    for _ in 0..50 {
        program.is(IdleCause::BuildingGraphs, 10_000);
        program.call("cudaLaunchKernel_v7000", IdleCause::BuildingGraphs, 10_000);
    }
    program.call("cudaStreamEndCapture_v10000", IdleCause::BuildingGraphs, 10_000);
    program.call("cudaGraphInstantiate_v12000", IdleCause::BuildingGraphs, 500_000);
}

fn fail(program: &mut Program<'_>, step: u64) {
    if step == 7 {
        program.call_with("cudaLaunchKernel_v7000", IdleCause::Launching, 4_000, 98);
    }
}

fn copy_for(program: &mut Program<'_>, call: u64, ns: u64, memory: u8) {
    let at = program.now;
    let correlation = program.call("cudaMemcpyAsync_v3020", IdleCause::Copying, call);
    let earliest = if call > 100_000 { at + call - 10_000 } else { program.now + 3_000 };
    program.runs(correlation, at, earliest, ns, Some(memory));
}

fn copy_from_pageable(program: &mut Program<'_>, _: u64) {
    copy_for(program, 4_000_000, 10_000, PAGEABLE);
}

fn copy_and_block(program: &mut Program<'_>, _: u64) {
    copy_for(program, 4_000_000, 10_000, PINNED);
}

fn copy_between(program: &mut Program<'_>, _: u64) {
    copy_for(program, 4_000, 60_000, PINNED);
}

#[test]
fn the_planted_cause_comes_first() {
    let cases: [(&str, u64, Plant, Plant, Option<FindingKind>); 11] = [
        ("nothing", 100, nothing, nothing, None),
        ("a wait behind each kernel", 30, wait, nothing, Some(FindingKind::SyncLoop)),
        ("a wait in each step", 100, nothing, wait, None),
        ("an allocation behind each kernel", 30, allocate, nothing, Some(FindingKind::AllocationLoop)),
        ("a phase of the host", 50, nothing, think, Some(FindingKind::HostPhase)),
        ("a first call", 30, nothing, load, Some(FindingKind::FirstCalls)),
        ("kernels shorter than their launches", 2, nothing, nothing, Some(FindingKind::LaunchBound)),
        ("pageable copies", 30, nothing, copy_from_pageable, Some(FindingKind::PageableCopies)),
        ("copies that block", 30, nothing, copy_and_block, Some(FindingKind::GpuIdleFor)),
        ("copies between kernels", 100, copy_between, nothing, Some(FindingKind::NoOverlap)),
        ("one launch that fails", 100, nothing, fail, Some(FindingKind::FailedCalls)),
    ];
    for (what, us, each, once, expected) in cases {
        for seed in 0..50 {
            let found = findings(seed, us, each, once);
            assert_eq!(found.first().map(Finding::kind), expected, "{what}, seed {seed}: {found:?}");
            let at_least =
                found.first().map_or(0, |finding| finding.at_stake_ns * 100 / finding.of_ns.unwrap_or(100).max(1));
            assert!(
                expected.is_none() || expected == Some(FindingKind::FailedCalls) || at_least >= 5,
                "{what}: {found:?}"
            );
            let is_named = found.iter().all(|one| one.kind() == FindingKind::NoOverlap || one.span == ["step"]);
            assert!(is_named && found.iter().all(|one| one.advice.is_some()), "{what}: {found:?}");
        }
    }
}

#[test]
fn causes_that_have_no_kind_of_their_own_are_named() {
    for (once, expected) in [
        (capture as Plant, "GPU idle in `step`, building graphs: "),
        (think_between, "GPU idle in the loop of `step`, outside of ranges: "),
    ] {
        for seed in 0..50 {
            let found = findings(seed, 50, nothing, once);
            let is_its = |finding: &&Finding| finding.sentence.starts_with(expected);
            assert_eq!(found.iter().position(|finding| is_its(&finding)), Some(0), "seed {seed}: {found:?}");
            assert_eq!(found.iter().filter(is_its).count(), 1, "seed {seed}: {found:?}");
        }
    }
}
