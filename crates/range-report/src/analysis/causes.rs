//! The findings about lost GPU time: one rule for each kind. `docs/gpu.md` has a table of the rules and thresholds.

use std::cmp::Reverse;

use super::finding::{Evidence, Finding, FindingKind};
use super::subject::{LOOP, Subject};
use super::{Phase, Phases};
use crate::text::number::{human_bytes, human_inline, share};
use crate::text::width::shorten;
use crate::text::wording::Wording;
use range_model::Summary;
use range_model::names::joined;
use range_model::stats::{Keyed, Lean, order};
use range_model::summary::{
    CallKind, DeviceIdle, GpuActivity, GpuIdle, IdleCause, IdleCauses, InterferenceStats, MemoryKind, SpanCalls,
    SpanIdle, TreeNode,
};

/// A cause becomes a finding if it takes at least this part of the run, in per cent.
const WORTH: u128 = 5;
/// Pinning memory for fewer copies costs as much as it saves.
const PINNING_PAYS: u64 = 10;
/// Copies overlap with kernels if a kernel ran in this part of their time or more, in per cent.
const OVERLAPS: u128 = 10;
/// Copies of fewer bytes on average are small: their latency is longer than their transfer.
const SMALL_COPY: u64 = 16 << 10;
/// Small copies become a finding from this number on, if there are half as many copies as kernels or more, and if they
/// take at least this part of the run, in per cent.
const MANY_COPIES: u64 = 500;
const COPIES_WORTH: u128 = 1;
/// Operations that waited behind those of another span become a finding if each waited for at least this long on
/// average, in nanoseconds, and if that span is owed at least this part of all such time, in per cent.
const LONG_WAIT: u64 = 100_000;
const OWED: u128 = 10;
const LONGEST_NAME: usize = 40;

/// A run whose ranges, calls and GPU work were all recorded.
#[derive(Clone, Copy)]
struct Run<'a> {
    summary: &'a Summary,
    idle: &'a GpuIdle,
    /// The time from the first operation to the last, summed over all devices.
    wall: u64,
    wording: Wording,
}

/// The rules. To add a rule, write it, and add it here and to the table in `docs/gpu.md`.
const RULES: [fn(Run<'_>) -> Vec<Finding>; 7] =
    [failed_calls, idle_in_ranges, idle_in_loop, pageable_copies, default_stream, no_overlap, small_copies];

/// The findings of all rules, if it is known why the devices were idle, and of those who held others up: failed calls,
/// then the other findings, the most costly first.
pub(super) fn in_stream(summary: &Summary, wording: Wording) -> Vec<Finding> {
    let mut all = interference(summary, wording);
    if let Some(idle) = &summary.idle {
        let run = Run { summary, idle, wall: of_devices(idle, |device| device.wall_ns), wording };
        all.extend(RULES.iter().flat_map(|rule| rule(run)));
    }
    if all.iter().any(|finding| finding.kind() == FindingKind::SmallCopies) {
        // Small copies in a stream of their own would be as many, so this advice would not help.
        all.retain(|finding| finding.kind() != FindingKind::NoOverlap);
    }
    order::by_key(&mut all, |finding| (finding.kind() != FindingKind::FailedCalls, Reverse(finding.at_stake_ns)));
    all
}

fn of_devices(idle: &GpuIdle, figure: fn(&DeviceIdle) -> u64) -> u64 {
    idle.devices.iter().fold(0, |sum, device| sum.saturating_add(figure(device)))
}

/// The name of a range in a sentence.
pub(super) fn name_of(domain: Option<&str>, name: &str, wording: Wording) -> String {
    shorten(&wording.label(domain, name), LONGEST_NAME, LONGEST_NAME / 2)
}

impl<'a> Run<'a> {
    fn is_much(self, ns: u64) -> bool {
        ns > 0 && u128::from(ns) * 100 >= u128::from(self.wall) * WORTH
    }

    fn share(self, ns: u64) -> String {
        share(ns, self.wall.into())
    }

    /// A finding of the range of this label, or of no range.
    fn of_range(
        self,
        label: Label<'_>,
        evidence: Evidence,
        ns: u64,
        sentence: String,
        advice: Option<&str>,
    ) -> Finding {
        let mut finding = Finding::of_run(evidence, sentence);
        (finding.at_stake_ns, finding.of_ns) = (ns, Some(self.wall));
        finding.span = self.name(label).into_iter().in_vec();
        finding.advice = advice.map(str::to_owned);
        finding
    }

    fn name(self, (domain, name): Label<'_>) -> Option<String> {
        name.map(|name| name_of(domain, name, self.wording))
    }

    /// ` in `step``
    fn place(self, label: Label<'_>) -> String {
        self.name(label).map_or_else(|| " outside of ranges".to_owned(), |name| format!(" in `{name}`"))
    }

    fn calls(self, kind: CallKind, label: Label<'_>) -> Option<Calls<'a>> {
        let of_label = self.idle.calls.iter().filter(|row| row.kind == kind && label_of(row) == label);
        Calls::of(of_label)
    }

    /// How often ranges of this label were entered.
    fn instances(self, label: Label<'_>) -> Option<u64> {
        let row = self.idle.ranges.iter().find(|row| (row.domain.as_deref(), Some(&*row.name)) == label)?;
        Some(row.steady.instances.saturating_add(row.warm_up.instances))
    }
}

/// `2,560 calls of cudaStreamSynchronize, 64 each time`: the calls that wait in ranges of a label.
pub(super) fn waiting_calls(summary: &Summary, idle: &GpuIdle, label: Label<'_>, wording: Wording) -> Option<String> {
    let run = Run { summary, idle, wall: 0, wording };
    run.calls(CallKind::Wait, label).map(|calls| calls.words(wording))
}

/// Domain and name of a range; no name for no range.
pub(super) type Label<'a> = (Option<&'a str>, Option<&'a str>);

fn label_of(row: &SpanCalls) -> Label<'_> {
    (row.domain.as_deref(), row.name.as_deref())
}

/// Calls of several functions together.
struct Calls<'a> {
    calls: u64,
    ns: u64,
    instances: u64,
    /// The function with the most time, and whether there are other functions.
    function: &'a str,
    has_others: bool,
}

impl<'a> Calls<'a> {
    fn of(rows: impl Iterator<Item = &'a SpanCalls>) -> Option<Self> {
        rows.fold(None, |sum: Option<(Self, u64)>, row| {
            let function = without_version(&row.function);
            let Some((sum, most)) = sum else {
                let &SpanCalls { calls, ns, instances, .. } = row;
                return Some((Self { calls, ns, instances, function, has_others: false }, ns));
            };
            let of_more = Self {
                calls: sum.calls.saturating_add(row.calls),
                ns: sum.ns.saturating_add(row.ns),
                instances: sum.instances.max(row.instances), // the same instances call several functions
                function: if row.ns > most { function } else { sum.function },
                has_others: sum.has_others || function != sum.function,
            };
            Some((of_more, most.max(row.ns)))
        })
        .map(|(sum, _)| sum)
    }

    /// Whether the calls are made again and again, and not only in the first instance.
    fn are_loop(&self, instances: Option<u64>) -> bool {
        self.calls >= LOOP && instances.is_none_or(|all| all <= 1 || self.instances.saturating_mul(2) >= all)
    }

    /// `1,200 calls of cudaStreamSynchronize, 40 each time`, or `such as` where others are among them.
    fn words(&self, wording: Wording) -> String {
        let of = if self.has_others { "such as" } else { "of" };
        let calls = format!("{} calls {of} {}", wording.count(self.calls), self.function);
        match self.calls.checked_div(self.instances) {
            Some(each @ 2..) if self.instances > 1 => format!("{calls}, {} each time", wording.count(each)),
            _ => calls,
        }
    }
}

/// `cudaMemcpyAsync` of `cudaMemcpyAsync_v3020`, as the program writes it.
fn without_version(function: &str) -> &str {
    match function.rsplit_once("_v") {
        Some((name, version)) if version.len() > 1 && version.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => function,
    }
}

/// Calls that failed: one finding, of the range, function and code with most of them.
fn failed_calls(run: Run<'_>) -> Vec<Finding> {
    let failed = || run.idle.calls.iter().filter(|row| row.kind == CallKind::Failed);
    let Some(row) = failed().largest_by(|row| row.calls) else { return Vec::new() };
    let all = failed().fold(0_u64, |sum, row| sum.saturating_add(row.calls));
    let ns = failed().fold(0_u64, |sum, row| sum.saturating_add(row.ns));
    let (calls, code) = (row.calls, row.code);
    let times = if calls == 1 { "once".to_owned() } else { format!("{} times", run.wording.count(calls)) };
    let meaning = meaning(code).map_or_else(String::new, |meaning| format!(" ({meaning})"));
    let function = without_version(&row.function);
    let mut sentence = format!("{function} failed {times}{}, with error {code}{meaning}", run.place(label_of(row)));
    if all > calls {
        sentence += &format!("; {} CUDA calls failed in all", run.wording.count(all));
    }
    let advice = match code {
        2 => "free memory before, or allocate less",
        209 => "build the kernels for this GPU, too",
        700..=720 => "run the program under compute-sanitizer, which names the kernel",
        _ => "check what these calls return: their work is missing in the figures",
    };
    let mut finding =
        run.of_range(label_of(row), Evidence::FailedCalls { calls, code, all }, ns, sentence, Some(advice));
    finding.of_ns = None;
    vec![finding]
}

/// Codes that both interfaces share.
const fn meaning(code: u32) -> Option<&'static str> {
    Some(match code {
        1 => "invalid value",
        2 => "out of memory",
        9 => "invalid configuration of a launch",
        98 => "invalid device function",
        101 => "invalid device",
        201 => "invalid context",
        209 => "no kernel image for this device",
        400 => "invalid handle",
        700 => "illegal address",
        701 => "too many resources for a launch",
        702 => "a kernel ran too long",
        715 => "illegal instruction",
        716 => "misaligned address",
        719 => "a kernel failed",
        900..=907 => "not allowed during the capture of a graph",
        _ => return None,
    })
}

/// Whether CUDA graphs are replayed in ranges of this name; without a name, outside of ranges.
pub(super) fn replays_graphs(summary: &Summary, label: Label<'_>) -> bool {
    if label.1.is_none() {
        return summary.gpu.as_ref().is_some_and(|gpu| gpu.outside_graphs.replays > 0);
    }
    let phases = Phases::of(summary);
    let is_its = |phase: &Phase<'_>| (phase.node.domain.as_deref(), Some(&*phase.node.name)) == label;
    let below = |(index, phase): (usize, &Phase<'_>)| phases.all().get(index..phase.end).unwrap_or_default().iter();
    let its = phases.all().iter().enumerate().filter(|(_, phase)| is_its(phase));
    its.flat_map(below).any(|phase| replays(phase.node))
}

fn replays(node: &TreeNode) -> bool {
    node.gpu.as_ref().is_some_and(|work| work.graphs.replays > 0)
}

/// Whether CUDA graphs are replayed anywhere in the run.
pub(super) fn has_replays(summary: &Summary) -> bool {
    Phases::of(summary).all().iter().any(|phase| replays(phase.node)) || replays_graphs(summary, (None, None))
}

/// Causes in one range that cost much of the run. A copy from pageable memory has a rule of its own.
fn idle_in_ranges(run: Run<'_>) -> Vec<Finding> {
    let of_row = |row: &SpanIdle| {
        let label = (row.domain.as_deref(), row.name.as_deref());
        let finding = |&cause: &IdleCause| {
            let ns = row.causes.of(cause);
            if cause == IdleCause::NoWork || !run.is_much(ns) {
                return None;
            }
            let calls = match cause {
                IdleCause::Synchronising => run.calls(CallKind::Wait, label),
                IdleCause::Allocating => run.calls(CallKind::Allocate, label),
                IdleCause::Copying if pays_to_pin(run, label) => return None,
                _ => None,
            };
            let calls = calls.filter(|calls| calls.are_loop(run.instances(label)));
            let (gaps, longest_ns, longest_at_ns) = (row.gaps, row.longest_ns, row.longest_at_ns);
            let evidence = match (cause, calls.as_ref()) {
                (IdleCause::Synchronising, Some(&Calls { calls, ns: calls_ns, instances, .. })) => {
                    Evidence::SyncLoop { calls, calls_ns, instances }
                }
                (IdleCause::Allocating, Some(&Calls { calls, ns: calls_ns, instances, .. })) => {
                    Evidence::AllocationLoop { calls, calls_ns, instances }
                }
                (IdleCause::Launching, _) => Evidence::LaunchBound { gaps, longest_ns, longest_at_ns },
                (IdleCause::Loading, _) => Evidence::FirstCalls { gaps, longest_ns, longest_at_ns },
                (IdleCause::Host, _) => Evidence::HostPhase { gaps, longest_ns, longest_at_ns },
                _ => Evidence::GpuIdleFor { cause, gaps, longest_ns, longest_at_ns },
            };
            let (place, time, part) = (run.place(label), human_inline(ns), run.share(ns));
            let mut sentence = format!("GPU idle{place}, {}: {time} ({part} of the run)", cause.name());
            if let Some(calls) = &calls {
                // What follows a wait is due to it, too.
                let at = if cause == IdleCause::Synchronising { "at" } else { "in" };
                sentence += &format!(", {at} {}", calls.words(run.wording));
            }
            let advice = match evidence.kind() {
                FindingKind::SyncLoop => Some("wait once behind the loop, or for an event of an earlier round"),
                FindingKind::AllocationLoop => Some("allocate once before the loop, or from a pool (cudaMallocAsync)"),
                _ => advice(cause, || replays_graphs(run.summary, label)),
            };
            Some(run.of_range(label, evidence, ns, sentence, advice))
        };
        IdleCause::ALL.iter().filter_map(finding).in_vec()
    };
    run.idle.spans.iter().flat_map(of_row).in_vec()
}

/// Idle time outside of ranges, in the loop of the range that the first line is about. What was before or after the
/// loop may be set-up and clean-up.
fn idle_in_loop(run: Run<'_>) -> Vec<Finding> {
    let (Subject::Instances(row) | Subject::Loop(row, _)) = Subject::of(run.summary, run.idle) else {
        return Vec::new();
    };
    let IdleCauses { host_ns, no_work_ns, .. } = row.in_loop.causes;
    // Another thread may have been in the range.
    let ns = no_work_ns.min(host_ns.saturating_add(no_work_ns).saturating_sub(row.steady.causes.host_ns));
    if row.in_loop.instances < LOOP || !run.is_much(ns) {
        return Vec::new();
    }
    let label = (row.domain.as_deref(), Some(&*row.name));
    let name = name_of(row.domain.as_deref(), &row.name, run.wording);
    let sentence = format!(
        "GPU idle in the loop of `{name}`, outside of ranges: {} ({} of the run)",
        human_inline(ns),
        run.share(ns)
    );
    let outside = run.idle.spans.iter().find(|row| row.name.is_none());
    let (gaps, longest_ns, longest_at_ns) =
        outside.map(|row| (row.gaps, row.longest_ns, row.longest_at_ns)).unwrap_or_default();
    let evidence = Evidence::GpuIdleFor { cause: IdleCause::NoWork, gaps, longest_ns, longest_at_ns };
    vec![run.of_range(label, evidence, ns, sentence, advice(IdleCause::NoWork, || false))]
}

/// What to try against a cause of idle time.
pub(super) fn advice(cause: IdleCause, replays_graphs: impl FnOnce() -> bool) -> Option<&'static str> {
    match cause {
        IdleCause::Launching if replays_graphs() => {
            Some("launch less: more in a graph, larger batches or fused kernels")
        }
        IdleCause::Launching => Some("launch less: CUDA graphs, larger batches or fused kernels"),
        IdleCause::Dispatching => Some("launch fewer and longer kernels"),
        IdleCause::Synchronising => Some("wait later, or launch the next work before waiting"),
        IdleCause::Copying => Some("copy from pinned memory, asynchronously, on a stream of its own"),
        IdleCause::Allocating => Some("allocate once, or from a pool (cudaMallocAsync)"),
        IdleCause::Loading => Some("load and launch each kernel once before the work that counts"),
        IdleCause::BuildingGraphs => {
            Some("build graphs once, and fewer of them; let kernels read what changes from memory")
        }
        IdleCause::Host => Some("run that code on another thread, or while the GPU works"),
        IdleCause::NoWork => Some("open a range there, unless the program has no work then"),
        // Events of other streams, and what nothing explains.
        _ => None,
    }
}

/// Asynchronous copies that held the host up because their memory is pageable.
fn pageable_copies(run: Run<'_>) -> Vec<Finding> {
    let rows = run.idle.calls.iter().filter(|row| row.kind == CallKind::PageableCopy);
    let rows = rows.filter(|row| pays_to_pin(run, label_of(row)));
    let finding = |row: &SpanCalls| {
        let &SpanCalls { calls: copies, ns, bytes, .. } = row;
        let (function, place) = (without_version(&row.function), run.place(label_of(row)));
        let (count, size, time) = (run.wording.count(copies), human_bytes(bytes), human_inline(ns));
        let sentence = format!(
            "pageable memory{place}: {count} calls of {function} held the host up for {time} ({} of the run), to copy \
             {size}",
            run.share(ns)
        );
        let advice = "pin that memory (cudaHostAlloc, cudaHostRegister, pin_memory)";
        run.of_range(label_of(row), Evidence::PageableCopies { copies, bytes }, ns, sentence, Some(advice))
    };
    rows.map(finding).in_vec()
}

/// Whether a range has many copies from pageable memory that cost much.
fn pays_to_pin(run: Run<'_>, label: Label<'_>) -> bool {
    run.calls(CallKind::PageableCopy, label).is_some_and(|calls| calls.calls >= PINNING_PAYS && run.is_much(calls.ns))
}

/// Streams that did not run at once because of the default stream.
fn default_stream(run: Run<'_>) -> Vec<Finding> {
    let rows = || run.idle.calls.iter().filter(|row| row.kind == CallKind::DefaultStream);
    let (Some(all), Some(row)) = (Calls::of(rows()), rows().largest_by(|row| row.ns)) else { return Vec::new() };
    if all.calls < LOOP || !run.is_much(all.ns) {
        return Vec::new();
    }
    let (count, time, part) = (run.wording.count(all.calls), human_inline(all.ns), run.share(all.ns));
    let most = if rows().count() > 1 { ", most of them" } else { "," };
    let sentence = format!(
        "the default stream kept others from running at once for {time} ({part} of the run): {count} operations waited \
         for it or held it up{most}{}",
        run.place(label_of(row))
    );
    let advice = "make the streams that need not wait for it with cudaStreamNonBlocking, or launch nothing there";
    let evidence = Evidence::DefaultStream { operations: all.calls };
    vec![run.of_range(label_of(row), evidence, all.ns, sentence, Some(advice))]
}

/// Copies and kernels that take turns and do not overlap.
fn no_overlap(run: Run<'_>) -> Vec<Finding> {
    let sum = |figure| of_devices(run.idle, figure);
    let (copy_ns, overlap_ns) = (sum(|device| device.copy_ns), sum(|device| device.overlap_ns));
    let alone = copy_ns.saturating_sub(overlap_ns);
    let kernels = sum(|device| device.busy_ns).saturating_sub(alone);
    let (turns, at_stake) = (sum(|device| device.turns), alone.min(kernels));
    if turns < LOOP || !run.is_much(at_stake) || u128::from(overlap_ns) * 100 > u128::from(copy_ns) * OVERLAPS {
        return Vec::new();
    }
    let sentence = format!(
        "copies and sets took {}, and kernels ran beside {} of it: copies alone took {} of the run",
        human_inline(copy_ns),
        share(overlap_ns, copy_ns.into()),
        run.share(alone)
    );
    let evidence = Evidence::NoOverlap { copy_ns, overlap_ns, turns };
    let advice = "copy on a stream of its own while kernels run";
    vec![run.of_range((None, None), evidence, at_stake, sentence, Some(advice))]
}

/// Spans behind whose operations those of other spans waited. Requests of one span are not told apart.
fn interference(summary: &Summary, wording: Wording) -> Vec<Finding> {
    let whole = summary.interference.iter().map(|row| row.time_ns).total();
    let mut spans: Keyed<&[String], Vec<&InterferenceStats>> = Keyed::default();
    for row in summary.interference.iter().filter(|row| row.waiter != row.by && row.operations > 0) {
        spans.row(&row.by).push(row);
    }
    let finding = |(by, rows): (&&[String], &Vec<&InterferenceStats>)| {
        let sum = |of: fn(&InterferenceStats) -> u64| rows.iter().fold(0, |sum: u64, row| sum.saturating_add(of(row)));
        let (ns, operations) = (sum(|row| row.time_ns), sum(|row| row.operations));
        let is_much = u128::from(ns) * 100 >= u128::from(summary.elapsed_ns) * WORTH
            && u128::from(ns) * 100 >= whole * OWED
            && operations >= LOOP
            && ns / operations >= LONG_WAIT;
        let most = rows.iter().rev().largest_by(|row| row.time_ns).filter(|_| is_much)?;
        let (by_name, waiter) = told_apart(by, &most.waiter, wording);
        let others = match rows.len() - 1 {
            0 => String::new(),
            1 => ", and some of 1 other span".to_owned(),
            many => format!(", and some of {} other spans", wording.count(many as u64)),
        };
        let sentence = format!(
            "`{by_name}` cost others {} in the stream: {} operations of `{waiter}` were ready behind it, {} each, up to \
             {}{others}",
            human_inline(ns),
            wording.count(most.operations),
            human_inline(most.time_ns / most.operations.max(1)),
            human_inline(most.longest_ns),
        );
        let longest_ns = rows.iter().map(|row| row.longest_ns).largest();
        let evidence = Evidence::Interference { operations, waiters: rows.len(), longest_ns };
        let mut finding = Finding::of_run(evidence, sentence);
        (finding.at_stake_ns, finding.of_ns) = (ns, Some(u64::try_from(whole).unwrap_or(u64::MAX)));
        finding.span = by.to_vec();
        finding.advice =
            Some("launch it in a stream of its own with a lower priority, or as smaller kernels".to_owned());
        Some(finding)
    };
    spans.iter().filter_map(finding).in_vec()
}

/// Two paths without the spans at their ends that both have.
fn told_apart(one: &[String], other: &[String], wording: Wording) -> (String, String) {
    let ends = one.iter().rev().zip(other.iter().rev());
    let common = ends.take_while(|(a, b)| a == b).count().min(one.len().min(other.len()).saturating_sub(1));
    let name = |path: &[String]| {
        let path = joined(path.get(..path.len() - common).unwrap_or_default().to_vec(), " > ");
        shorten(&wording.label(None, &path), LONGEST_NAME, LONGEST_NAME / 2)
    };
    (name(one), name(other))
}

/// Small copies that are at least half as many as kernels.
fn small_copies(run: Run<'_>) -> Vec<Finding> {
    let Some(gpu) = &run.summary.gpu else { return Vec::new() };
    let launched = gpu.kernels.iter().map(|kernel| kernel.times.instances);
    let kernels = launched.chain(kernels_of_graphs(run.summary, gpu)).fold(0, u64::saturating_add);
    let Some(row) = gpu.memory.iter().largest_by(|row| row.sizes.count) else { return Vec::new() };
    let (copies, mean_bytes) = (row.sizes.count, row.sizes.total_bytes.checked_div(row.sizes.count).unwrap_or(0));
    let costs_little = u128::from(row.times.total_ns) * 100 < u128::from(run.wall) * COPIES_WORTH;
    if copies < MANY_COPIES || copies < kernels / 2 || mean_bytes >= SMALL_COPY || costs_little {
        return Vec::new();
    }
    let what = match row.kind {
        MemoryKind::Set => "sets of memory".to_owned(),
        kind => format!("copies {kind:?}"),
    };
    let wording = run.wording;
    let (count, bytes, time) = (wording.count(copies), human_bytes(mean_bytes), human_inline(row.times.total_ns));
    let sentence = format!("{count} {what} of {bytes} on average, beside {} kernels: {time}", wording.count(kernels));
    let advice = "copy once what these copies have together, or keep it on the GPU";
    let mut finding = Finding::of_run(Evidence::SmallCopies { copies, mean_bytes }, sentence);
    (finding.at_stake_ns, finding.advice) = (row.times.total_ns, Some(advice.to_owned()));
    vec![finding]
}

/// The kernels of graphs that were recorded as a whole, and so are in no table of kernels.
fn kernels_of_graphs(summary: &Summary, gpu: &GpuActivity) -> Vec<u64> {
    let phases = Phases::of(summary);
    let of_ranges = phases.all().iter().filter_map(|phase| Some(&phase.node.gpu.as_ref()?.graphs));
    let captured = of_ranges.chain([&gpu.outside_graphs]).flat_map(|graphs| &graphs.captured);
    captured.map(|row| row.kernels.saturating_sub(row.timed)).in_vec()
}

#[cfg(test)]
#[path = "causes/tests.rs"]
mod tests;
