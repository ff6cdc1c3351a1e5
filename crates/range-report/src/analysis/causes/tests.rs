use super::*;
use crate::SummaryExt as _;
use range_model::summary::{
    CapturedWork, GpuActivity, GraphWork, IdleCauses, InstancesUse, KernelStats, MemoryStats, NodeWork, RangeUse,
    Sizes, Times,
};

const MS: u64 = 1_000_000;

/// 100 ms of one device, of which 50 are busy, and `step` 40 times.
fn run() -> Summary {
    let mut device = DeviceIdle::default();
    (device.wall_ns, device.busy_ns) = (100 * MS, 50 * MS);
    let steady = InstancesUse { instances: 40, wall_ns: 90 * MS, devices_ns: 90 * MS, ..InstancesUse::default() };
    let ranges = vec![RangeUse { name: "step".to_owned(), steady, ..RangeUse::default() }];
    let idle = GpuIdle { devices: vec![device], ranges, ..GpuIdle::default() };
    Summary { elapsed_ns: 100 * MS, gpu: Some(GpuActivity::default()), idle: Some(idle), ..Summary::default() }
}

fn idle(summary: &mut Summary) -> &mut GpuIdle {
    summary.idle.as_mut().unwrap()
}

/// Idle time of `step`.
fn with_cause(cause: IdleCause, ns: u64) -> Summary {
    let mut summary = run();
    let mut causes = IdleCauses::default();
    causes.add(cause, ns);
    let row = SpanIdle { name: Some("step".to_owned()), gaps: 9, longest_ns: MS, causes, ..SpanIdle::default() };
    idle(&mut summary).spans = vec![row];
    summary
}

/// Calls in `step`: how many, in how many instances, for how long.
fn calls(kind: CallKind, function: &str, [calls, instances, ns]: [u64; 3]) -> SpanCalls {
    let name = Some("step".to_owned());
    SpanCalls { name, kind, function: function.to_owned(), calls, instances, ns, ..SpanCalls::default() }
}

fn found(summary: &Summary) -> Vec<(FindingKind, String)> {
    let all = in_stream(summary, Wording::default());
    let is_whole = |finding: &Finding| finding.advice.is_some() && finding.at_stake_ns > 0;
    assert!(all.iter().all(is_whole), "{all:?}");
    all.into_iter().map(|finding| (finding.kind(), finding.sentence)).collect()
}

fn only(summary: &Summary) -> Option<(FindingKind, String)> {
    let all = found(summary);
    assert!(all.len() < 2, "{all:?}");
    all.into_iter().next()
}

fn kind(summary: &Summary) -> Option<FindingKind> {
    only(summary).map(|(kind, _)| kind)
}

#[test]
fn causes_speak_from_a_twentieth_of_the_run_on() {
    for (cause, expected) in [
        (IdleCause::Launching, FindingKind::LaunchBound),
        (IdleCause::Loading, FindingKind::FirstCalls),
        (IdleCause::Host, FindingKind::HostPhase),
        (IdleCause::Dispatching, FindingKind::GpuIdleFor),
        (IdleCause::Synchronising, FindingKind::GpuIdleFor),
        (IdleCause::Copying, FindingKind::GpuIdleFor),
        (IdleCause::Allocating, FindingKind::GpuIdleFor),
        (IdleCause::BuildingGraphs, FindingKind::GpuIdleFor),
    ] {
        assert_eq!(kind(&with_cause(cause, 5 * MS)), Some(expected), "{cause:?}");
        assert_eq!(kind(&with_cause(cause, 5 * MS - 1)), None, "{cause:?}");
    }
    assert_eq!(kind(&with_cause(IdleCause::NoWork, 50 * MS)), None);
    assert_eq!(found(&run()), []);
    assert_eq!(found(&Summary::default()), []);
}

#[test]
fn time_outside_of_ranges_counts_in_the_loop_of_the_first_line() {
    let mut summary = with_cause(IdleCause::NoWork, 50 * MS);
    let outside = SpanIdle { name: None, longest_at_ns: 7, ..idle(&mut summary).spans[0].clone() };
    idle(&mut summary).spans.push(outside);
    assert_eq!(kind(&summary), None, "no loop");
    let figures = |instances, wall_ns, [host_ns, no_work_ns]: [u64; 2], busy_ns| {
        let causes = IdleCauses { host_ns, no_work_ns, ..IdleCauses::default() };
        InstancesUse { instances, wall_ns, causes, busy_ns, ..InstancesUse::default() }
    };
    let mut with_loop = |instances, host_ns, no_work_ns| {
        let of =
            |name: &str, steady, in_loop| RangeUse { name: name.to_owned(), steady, in_loop, ..RangeUse::default() };
        let step = (figures(20, 60 * MS, [10 * MS, 0], 25 * MS), figures(instances, 90 * MS, [host_ns, no_work_ns], 0));
        let log = (figures(30, 61 * MS, [0, 0], 24 * MS), figures(30, 99 * MS, [0, 50 * MS], 50 * MS));
        idle(&mut summary).ranges = vec![of("step", step.0, step.1), of("log", log.0, log.1)];
        let all = in_stream(&summary, Wording::default());
        assert!(all.len() < 2, "{all:?}");
        all.into_iter().next()
    };
    let found = with_loop(20, 12 * MS, 5 * MS).unwrap();
    assert_eq!(found.sentence, "GPU idle in the loop of `step`, outside of ranges: 5.000 ms (5.0% of the run)");
    assert_eq!((found.at_stake_ns, found.of_ns, &*found.span), (5 * MS, Some(100 * MS), &["step".to_owned()][..]));
    let evidence = Evidence::GpuIdleFor { cause: IdleCause::NoWork, gaps: 9, longest_ns: MS, longest_at_ns: 7 };
    assert_eq!(found.evidence, evidence);
    assert!(found.advice.is_some());
    assert_eq!(with_loop(20, 12 * MS, 5 * MS - 1), None);
    assert_eq!(with_loop(19, 12 * MS, 5 * MS), None, "19 are no loop");
    let capped = with_loop(20, MS, 15 * MS).unwrap();
    assert_eq!(capped.at_stake_ns, 6 * MS, "another thread was in the range for the rest");
}

/// A loop that replays graphs is not told to use graphs.
#[test]
fn the_advice_for_launches_knows_graphs() {
    let mut summary = with_cause(IdleCause::Launching, 50 * MS);
    let advice = |summary: &Summary| in_stream(summary, Wording::default()).swap_remove(0).advice;
    assert_eq!(advice(&summary).as_deref(), Some("launch less: CUDA graphs, larger batches or fused kernels"));
    let replay = |name: &str, replays| TreeNode {
        gpu: Some(NodeWork { graphs: GraphWork { replays, ..GraphWork::default() }, ..NodeWork::default() }),
        ..TreeNode::new(name)
    };
    summary.tree = vec![replay("step", 0), replay("other", 2)];
    assert_eq!(advice(&summary).as_deref(), Some("launch less: CUDA graphs, larger batches or fused kernels"));
    summary.tree.push(replay("step", 2));
    let more = Some("launch less: more in a graph, larger batches or fused kernels");
    assert_eq!(advice(&summary).as_deref(), more);

    summary.idle.as_mut().unwrap().spans[0].name = None;
    assert_ne!(advice(&summary).as_deref(), more);
    let outside_graphs = GraphWork { replays: 1, ..GraphWork::default() };
    summary.gpu = Some(GpuActivity { outside_graphs, ..GpuActivity::default() });
    assert_eq!(advice(&summary).as_deref(), more);
    assert!(has_replays(&summary));
    summary.gpu = None;
    assert!(has_replays(&summary), "in a range");
    summary.tree.clear();
    assert!(!has_replays(&summary));
}

#[test]
fn loops_that_wait_and_loops_that_allocate() {
    let with_calls = |cause, rows: &[SpanCalls]| {
        let mut summary = with_cause(cause, 12 * MS);
        idle(&mut summary).calls = rows.to_vec();
        only(&summary).unwrap()
    };
    let waits = |calls_made| calls(CallKind::Wait, "cudaStreamSynchronize_v3020", calls_made);
    let (kind, sentence) = with_calls(IdleCause::Synchronising, &[waits([1_200, 40, 30 * MS])]);
    let expected = "GPU idle in `step`, synchronising: 12.00 ms (12.0% of the run), at 1,200 calls of \
                    cudaStreamSynchronize, 30 each time";
    assert_eq!((kind, &*sentence), (FindingKind::SyncLoop, expected));
    let first_alone = "GPU idle in `step`, synchronising: 12.00 ms (12.0% of the run)";
    for few in [[19, 19, MS], [1_200, 19, 30 * MS]] {
        let (kind, sentence) = with_calls(IdleCause::Synchronising, &[waits(few)]);
        assert_eq!((kind, &*sentence), (FindingKind::GpuIdleFor, first_alone), "{few:?}");
    }
    let allocations = [
        calls(CallKind::Allocate, "cudaMalloc_v3020", [40, 40, 2 * MS]),
        calls(CallKind::Allocate, "cudaFree_v3020", [40, 40, 9 * MS]),
    ];
    let (kind, sentence) = with_calls(IdleCause::Allocating, &allocations);
    let expected =
        "GPU idle in `step`, allocating: 12.00 ms (12.0% of the run), in 80 calls such as cudaFree, 2 each time";
    assert_eq!((kind, &*sentence), (FindingKind::AllocationLoop, expected));
    let (kind, _) = with_calls(IdleCause::Allocating, &[waits([1_200, 40, 30 * MS])]);
    assert_eq!(kind, FindingKind::GpuIdleFor, "waits are no allocations");
    let (kind, _) = with_calls(IdleCause::Allocating, &[calls(CallKind::Allocate, "cudaMalloc", [600, 1, 11 * MS])]);
    assert_eq!(kind, FindingKind::GpuIdleFor, "a first instance that fills its cache");
}

#[test]
fn calls_that_failed_come_first() {
    let mut summary = with_cause(IdleCause::Host, 30 * MS);
    let failed =
        |function: &str, code, times| SpanCalls { code, ..calls(CallKind::Failed, function, [times, 1, 2_000]) };
    idle(&mut summary).calls = vec![failed("cudaMalloc_v3020", 2, 1)];
    let all = found(&summary);
    assert_eq!(
        all[0],
        (FindingKind::FailedCalls, "cudaMalloc failed once in `step`, with error 2 (out of memory)".into())
    );
    assert_eq!(all[1].0, FindingKind::HostPhase);
    let launch = SpanCalls { name: None, ..failed("cuLaunchKernel", 700, 1_000) };
    idle(&mut summary).calls.push(launch);
    let expected = "cuLaunchKernel failed 1,000 times outside of ranges, with error 700 (illegal address); 1,001 CUDA \
                    calls failed in all";
    assert_eq!(found(&summary)[0].1, expected);
    let findings = summary.findings();
    assert_eq!(findings[0].kind(), FindingKind::FailedCalls, "in files, too");
    assert!(matches!(findings[0].evidence, Evidence::FailedCalls { calls: 1_000, code: 700, all: 1_001 }));
    // All launches fail: no device has run anything.
    idle(&mut summary).devices.clear();
    idle(&mut summary).spans.clear();
    assert_eq!(found(&summary)[0].1, expected);
}

#[test]
fn pageable_memory_in_asynchronous_copies() {
    let copies = |figures| {
        let mut summary = with_cause(IdleCause::Copying, 11 * MS);
        let row = calls(CallKind::PageableCopy, "cudaMemcpyAsync_v3020", figures);
        idle(&mut summary).calls = vec![SpanCalls { bytes: 3 << 30, ..row }];
        only(&summary).unwrap()
    };
    let (kind, sentence) = copies([40, 40, 20 * MS]);
    let expected = "pageable memory in `step`: 40 calls of cudaMemcpyAsync held the host up for 20.00 ms (20.0% of the \
                    run), to copy 3.221 GB";
    assert_eq!((kind, &*sentence), (FindingKind::PageableCopies, expected), "and the idle time is not named twice");
    assert_eq!(copies([9, 9, 20 * MS]).0, FindingKind::GpuIdleFor, "a few at the start");
    assert_eq!(copies([40, 40, 4 * MS]).0, FindingKind::GpuIdleFor, "they cost little");
}

#[test]
fn work_of_the_default_stream_that_keeps_others_apart() {
    let waited = |rows: &[SpanCalls]| {
        let mut summary = run();
        idle(&mut summary).calls = rows.to_vec();
        only(&summary)
    };
    let row = |figures| calls(CallKind::DefaultStream, "", figures);
    let expected = "the default stream kept others from running at once for 12.00 ms (12.0% of the run): 30 operations \
                    waited for it or held it up, in `step`";
    assert_eq!(waited(&[row([30, 30, 12 * MS])]), Some((FindingKind::DefaultStream, expected.to_owned())));
    let outside = SpanCalls { name: None, ..row([3, 0, MS]) };
    assert!(waited(&[row([30, 30, 12 * MS]), outside]).unwrap().1.ends_with(
        "33 operations waited for it or held it up, \
        most of them in `step`"
    ));
    assert_eq!(waited(&[row([19, 19, 12 * MS])]), None);
    assert_eq!(waited(&[row([30, 30, 4 * MS])]), None);
}

#[test]
fn copies_and_kernels_by_turns() {
    let ran = |copy_ns, overlap_ns, turns| {
        let mut summary = run();
        let device = &mut idle(&mut summary).devices[0];
        (device.copy_ns, device.overlap_ns, device.turns) = (copy_ns, overlap_ns, turns);
        only(&summary)
    };
    let expected =
        "copies and sets took 20.00 ms, and kernels ran beside 5.0% of it: copies alone took 19.0% of the run";
    assert_eq!(ran(20 * MS, MS, 40), Some((FindingKind::NoOverlap, expected.to_owned())));
    assert_eq!(ran(20 * MS, MS, 1), None, "one load before all kernels has nothing to overlap with");
    assert_eq!(ran(20 * MS, 3 * MS, 40), None, "they overlap");
    assert_eq!(ran(4 * MS, 0, 40), None, "they cost little");
    assert_eq!(ran(48 * MS, 0, 40), None, "kernels of 2 ms can hide no more than that");
}

#[test]
fn copies_that_are_small() {
    let made = |copies, bytes, kernels| {
        let mut summary = run();
        let gpu = summary.gpu.as_mut().unwrap();
        gpu.kernels = vec![KernelStats::new("k", Times::new(kernels, 5 * MS))];
        gpu.memory =
            vec![MemoryStats::new(MemoryKind::HtoD, Times::new(copies, 2 * MS), Sizes::new(copies, copies * bytes))];
        summary
    };
    let copied = |copies, bytes, kernels| only(&made(copies, bytes, kernels));
    let expected = Some((
        FindingKind::SmallCopies,
        "3,780 copies HtoD of 96 B on average, beside 4,000 kernels: 2.000 ms".to_owned(),
    ));
    assert_eq!(copied(3_780, 96, 4_000), expected);
    assert_eq!(copied(3_780, 16 << 10, 4_000), None, "they are not small");
    assert_eq!(copied(499, 96, 400), None, "they are few");
    assert_eq!(copied(3_780, 96, 8_000), None, "kernels are more");
    for (total_ns, is_named) in [(MS, true), (MS - 1, false)] {
        let mut run = made(3_780, 96, 4_000);
        run.gpu.as_mut().unwrap().memory[0].times.total_ns = total_ns;
        assert_eq!(only(&run).is_some(), is_named, "from 1 % of 100 ms on");
    }

    // Kernels in graphs that were recorded as a whole, of a range and of none.
    for kernels in [4_000, 2_000] {
        let captured = CapturedWork { kernels, ..CapturedWork::default() };
        let graphs = GraphWork { captured: vec![captured], ..GraphWork::default() };
        let mut replayed = made(3_780, 96, 4_000);
        replayed.gpu.as_mut().unwrap().outside_graphs = graphs.clone();
        assert_eq!(only(&replayed).is_some(), kernels == 2_000, "{kernels}");
        replayed.tree =
            vec![TreeNode { gpu: Some(NodeWork { graphs, ..NodeWork::default() }), ..TreeNode::new("replay") }];
        assert_eq!(only(&replayed), None);
        replayed.tree[0].gpu.as_mut().unwrap().graphs.captured[0].timed = kernels; // then kernels are in the table
        assert_eq!(only(&replayed).is_some(), kernels == 2_000, "{kernels}");
    }

    let mut by_turns = made(3_780, 96, 4_000);
    let device = &mut idle(&mut by_turns).devices[0];
    (device.copy_ns, device.turns) = (20 * MS, 40);
    assert_eq!(only(&by_turns), expected, "a stream of their own would launch as many");
}

#[test]
fn functions_as_programs_write_them() {
    for (function, expected) in [
        ("cudaMemcpyAsync_v3020", "cudaMemcpyAsync"),
        ("cuMemAlloc_v2", "cuMemAlloc_v2"),
        ("cudaLaunchKernelExC_v11060", "cudaLaunchKernelExC"),
        ("cuLaunchKernel", "cuLaunchKernel"),
    ] {
        assert_eq!(without_version(function), expected);
    }
}

fn path(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A run of 100 ms without figures of idle time.
fn held(rows: &[InterferenceStats]) -> Summary {
    Summary { interference: rows.to_vec(), idle: None, ..run() }
}

#[test]
fn who_made_operations_of_others_wait() {
    let (hog, small) = (path(&["request: hog", "launch"]), path(&["request: small", "launch"]));
    let row = |operations, ns| InterferenceStats::new(small.clone(), hog.clone(), operations, ns, 3 * MS);
    let sentence = "`request: hog` cost others 40.00 ms in the stream: 20 operations of `request: small` were ready behind \
                    it, 2.000 ms each, up to 3.000 ms";
    let rows = [row(20, 40 * MS), InterferenceStats::new(hog.clone(), small.clone(), 30, 4 * MS, MS)];
    assert_eq!(only(&held(&rows)), Some((FindingKind::Interference, sentence.to_owned())), "4 ms are too little");
    let other = InterferenceStats::new(path(&["launch"]), hog.clone(), 5, 9 * MS, 4 * MS);
    let found = in_stream(&held(&[row(20, 40 * MS), other]), Wording::default());
    assert!(found[0].sentence.ends_with("up to 3.000 ms, and some of 1 other span"), "{found:?}");
    assert_eq!((found[0].at_stake_ns, found[0].of_ns, &found[0].span), (49 * MS, Some(49 * MS), &hog));
    let evidence = Evidence::Interference { operations: 25, waiters: 2, longest_ns: 4 * MS };
    assert_eq!(found[0].evidence, evidence);
    for (rows, why) in [
        (vec![row(19, 40 * MS)], "few operations"),
        (vec![row(20, 4 * MS)], "little time"),
        (vec![row(401, 40 * MS)], "short waits"),
        (vec![InterferenceStats::new(hog.clone(), hog.clone(), 20, 40 * MS, 3 * MS)], "one span"),
        (vec![InterferenceStats { possible_operations: 99, possible_ns: 90 * MS, ..row(0, 0) }], "only possible"),
    ] {
        assert_eq!(kind(&held(&rows)), None, "{why}");
    }
    let mut summary =
        held(&[row(20, 40 * MS), InterferenceStats::new(hog.clone(), hog.clone(), 20, 400 * MS, 30 * MS)]);
    assert_eq!(kind(&summary), None, "less than a tenth of all such time");
    summary.interference.truncate(1);
    summary.idle = with_cause(IdleCause::Launching, 50 * MS).idle;
    assert_eq!(found_kinds(&summary), [FindingKind::LaunchBound, FindingKind::Interference]);
}

fn found_kinds(summary: &Summary) -> Vec<FindingKind> {
    found(summary).into_iter().map(|(kind, _)| kind).collect()
}
