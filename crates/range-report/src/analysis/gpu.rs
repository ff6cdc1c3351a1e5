//! How busy the GPU was, and why not busier.
//!
//! Where the whole run was followed ([`Summary::idle`]), each idle moment has a cause. Else the sums of the tree give
//! how busy it was, and nothing gives why. What stands below the first line is found in `causes.rs`.

use super::causes::{advice, has_replays, in_stream, name_of, replays_graphs, waiting_calls};
use super::finding::{Evidence, Finding};
use super::late::{late_ranks, waits as waits_for_ranks};
use super::subject::{Subject, busy as idle_busy, is_most};
use crate::text::number::{human_inline, share};
use crate::text::wording::Wording;
use range_model::stats::Lean;
use range_model::summary::{GpuIdle, IdleCause, IdleCauses, InstancesUse, RangeUse, SpanIdle};
use range_model::{GpuWork, Summary, TreeNode};

/// If the GPU was busy for at least this part of the time, in per cent, the finding gives no cause of idle time.
const BUSY_ENOUGH: u128 = 90;
/// What is known of the whole run alone is told of a part of it that holds this percentage of the busy time.
const NEARLY_ALL: u128 = 90;

/// A range or the run: its busy time, and the time in which it could have been busy.
#[derive(Default)]
struct Part {
    /// The name of a range; `None` for the whole run.
    name: Option<String>,
    /// The time of the run, for all that lies between the first steady instance and the last one: a loop. `None` for
    /// what was in instances.
    of_run: Option<u64>,
    /// Whether it replays CUDA graphs.
    replays_graphs: bool,
    /// Its time is `devices_ns`. Nothing is in `causes` where they are unknown.
    used: InstancesUse,
    warm_up: InstancesUse,
    /// Where the host waits for the device most, and how often.
    waits: Option<String>,
}

/// The findings of the GPU, the first line of a report first.
pub(crate) fn on_gpu(summary: &Summary, wording: Wording) -> Vec<Finding> {
    let mut all: Vec<Finding> = how_busy(summary, wording).into_iter().in_vec();
    all.extend(late_ranks(summary, wording));
    let mut others = in_stream(summary, wording);
    if let Some(Finding { evidence: Evidence::GpuUse { cause: Some(IdleCause::NoWork), .. }, .. }) = all.first() {
        others.retain(|it| !matches!(it.evidence, Evidence::GpuIdleFor { cause: IdleCause::NoWork, .. })); // said above
    }
    all.extend(others);
    all
}

/// How busy the GPU was in the range that stands for the run, and what it waited for longest.
fn how_busy(summary: &Summary, wording: Wording) -> Option<Finding> {
    let gpu = summary.gpu.as_ref().filter(|gpu| gpu.total.busy_ns > 0)?;
    let part = match &summary.idle {
        Some(idle) => in_idle(summary, idle, &gpu.total, wording),
        None => in_tree(&summary.tree, gpu.total.busy_ns, wording)
            .unwrap_or_else(|| Part { used: used(1, summary.elapsed_ns, &gpu.total), ..Part::default() }),
    };
    let (wall, busy) = (part.used.devices_ns, part.used.busy_ns);
    if wall == 0 || busy > wall {
        return None; // several devices were busy, or work went on after the range
    }
    let relation = if part.of_run.is_some() { "in the loop of" } else { "in" };
    let place = part.name.as_ref().map_or_else(String::new, |name| format!(" {relation} `{name}`"));
    // Waiting is known of the whole run.
    let all = summary.idle.as_ref().map_or(busy, idle_busy);
    let with_warm_up = busy.saturating_add(part.warm_up.busy_ns);
    let stands_for_all = u128::from(with_warm_up) * 100 >= u128::from(all) * NEARLY_ALL;
    let waits = if stands_for_all { waits_for_ranks(summary, [busy, wall]) } else { None };
    let (waiting_ns, of_it) = waits.map_or((None, String::new()), |(ns, words)| (Some(ns), words));
    let mut sentence = format!("GPU busy {} of {}{place}{of_it}", share(busy, wall.into()), human_inline(wall));
    if let Some(run) = part.of_run {
        sentence += &format!(" ({} of the run)", share(wall, run.into()));
    } else if part.warm_up.instances > 0 {
        sentence += &apart(&part.warm_up, wording);
    }
    let is_enough = u128::from(busy) * 100 >= u128::from(wall) * BUSY_ENOUGH;
    let cause = largest(&part.used.causes).filter(|_| !is_enough);
    // Ranks that wait are busy; where that is more, it is what the line is about.
    let says_why = !is_enough && waiting_ns.is_none_or(|waiting| cause.is_some_and(|(_, ns)| ns > waiting));
    let cause = cause.filter(|_| says_why);
    if says_why {
        // In a loop there are operations of other ranges, too.
        let instances = if part.of_run.is_some() { 1 } else { part.used.instances };
        let mut of_words = part.used;
        of_words.instances = instances;
        sentence += &match (cause, &part.waits) {
            (Some((IdleCause::Synchronising, ns)), Some(words)) => {
                format!(": {words} ({} of the time)", share(ns, of_words.devices_ns.into()))
            }
            (Some((IdleCause::Launching, ns)), Some(words)) if has_costly_waits(&of_words) => {
                let waited = share(of_words.causes.synchronising_ns, of_words.devices_ns.into());
                why(&of_words, IdleCause::Launching, ns, wording) + &format!("; and {words} ({waited} of the time)")
            }
            (Some((cause, ns)), _) => why(&of_words, cause, ns, wording),
            (None, _) => {
                let ask = wording.of("report=idle", "-r idle");
                format!(": {} ({ask} has the reason)", rhythm(&of_words, wording))
            }
        };
    }
    let (cause, cause_ns) = cause.unzip();
    let evidence = Evidence::GpuUse {
        busy_ns: busy,
        instances: part.used.instances,
        operations: part.used.operations,
        operations_ns: part.used.operations_ns,
        cause,
        cause_ns,
        waiting_ns,
    };
    let mut finding = Finding::of_run(evidence, sentence);
    (finding.at_stake_ns, finding.of_ns) = (wall - busy, Some(wall));
    finding.span = part.name.into_iter().in_vec();
    finding.advice = cause.and_then(|cause| advice(cause, || part.replays_graphs)).map(str::to_owned);
    Some(finding)
}

/// What so many instances in `wall` nanoseconds had of the GPU.
fn used(instances: u64, wall: u64, work: &GpuWork) -> InstancesUse {
    let &GpuWork { operations, sum_ns: operations_ns, busy_ns, .. } = work;
    let mut used = InstancesUse::default();
    (used.instances, used.devices_ns, used.busy_ns) = (instances, wall, busy_ns);
    (used.operations, used.operations_ns) = (operations, operations_ns);
    used
}

/// The part that the first line is about, and its causes.
fn in_idle(summary: &Summary, idle: &GpuIdle, total: &GpuWork, wording: Wording) -> Part {
    let of = |row: &RangeUse, used: InstancesUse, of_run: Option<u64>| {
        let name = Some(name_of(row.domain.as_deref(), &row.name, wording));
        let replays_graphs = replays_graphs(summary, (row.domain.as_deref(), Some(&row.name)));
        let waits = waits(summary, idle, Some(row), wording);
        Part { name, of_run, replays_graphs, used, warm_up: row.warm_up, waits }
    };
    match Subject::of(summary, idle) {
        Subject::Instances(row) => return of(row, row.steady, None),
        Subject::Loop(row, device) => return of(row, row.in_loop, Some(device.wall_ns)),
        Subject::Run => {}
    }
    let mut run = used(1, 0, total);
    run.busy_ns = idle_busy(idle);
    for device in &idle.devices {
        IdleCause::ALL.iter().for_each(|&cause| run.causes.add(cause, device.causes.of(cause)));
        run.devices_ns = run.devices_ns.saturating_add(device.wall_ns);
    }
    Part {
        used: run,
        replays_graphs: has_replays(summary),
        waits: waits(summary, idle, None, wording),
        ..Part::default()
    }
}

/// `the host waits for it in `check` (2,560 calls of cudaStreamSynchronize, 64 each time) with nothing left in the
/// queue`: the range with most idle time of this cause. `None` if no range has most of it, or one that is entered in
/// less than half of the instances of the subject.
fn waits(summary: &Summary, idle: &GpuIdle, subject: Option<&RangeUse>, wording: Wording) -> Option<String> {
    let ns = |row: &SpanIdle| row.causes.of(IdleCause::Synchronising);
    let row = idle.spans.iter().largest_by(|row| ns(row))?;
    let all = idle.spans.iter().fold(0, |sum: u64, row| sum.saturating_add(ns(row)));
    let label = (row.domain.as_deref(), Some(row.name.as_deref()?));
    let instances = |range: &RangeUse| range.steady.instances.saturating_add(range.warm_up.instances);
    let its = idle.ranges.iter().find(|range| (range.domain.as_deref(), Some(&*range.name)) == label);
    let often = subject.is_none_or(|subject| its.map_or(0, instances).saturating_mul(2) >= instances(subject));
    if !is_most(ns(row), all) || !often {
        return None;
    }
    let is_subject = subject.is_some_and(|subject| (subject.domain.as_deref(), Some(&*subject.name)) == label);
    let name = name_of(label.0, label.1.unwrap_or_default(), wording);
    let place = if is_subject { String::new() } else { format!(" in `{name}`") };
    let calls = waiting_calls(summary, idle, label, wording).map(|words| format!(" ({words})")).unwrap_or_default();
    Some(format!("the host waits for it{place}{calls} with nothing left in the queue"))
}

/// The same from the sums of the tree, but only a range in which nothing was awaited.
fn in_tree(nodes: &[TreeNode], all: u64, wording: Wording) -> Option<Part> {
    let work = |node: &TreeNode| node.gpu.as_ref().map_or(0, |gpu| gpu.total.busy_ns);
    let node = nodes.iter().largest_by(|node| work(node))?;
    if !is_most(work(node), all) {
        return None;
    }
    if let Some(below) = in_tree(&node.children, all, wording).filter(|_| node.instances <= 1) {
        return Some(below);
    }
    let gpu = node.gpu.as_ref().filter(|_| node.awaited_ns.is_none())?;
    Some(Part {
        name: Some(name_of(node.domain.as_deref(), &node.name, wording)),
        used: used(node.instances, node.total_ns, &gpu.total),
        ..Part::default()
    })
}

fn largest(causes: &IdleCauses) -> Option<(IdleCause, u64)> {
    let all = IdleCause::ALL.iter().map(|&cause| (cause, causes.of(cause)));
    all.largest_by(|(_, ns)| *ns).filter(|(_, ns)| *ns > 0)
}

/// `, without 1 warm-up instance of 1.310 s (53.4% loading)`; no cause if the largest one explains less than a tenth,
/// as where the first range creates the context, before any work.
fn apart(warm_up: &InstancesUse, wording: Wording) -> String {
    let several = if warm_up.instances == 1 { "" } else { "s" };
    let (count, wall) = (wording.count(warm_up.instances), human_inline(warm_up.wall_ns));
    let most = largest(&warm_up.causes)
        .filter(|(_, ns)| ns.saturating_mul(10) >= warm_up.devices_ns)
        .map(|(cause, ns)| format!(" ({} {})", share(ns, warm_up.devices_ns.into()), cause.name()))
        .unwrap_or_default();
    format!(", without {count} warm-up instance{several} of {wall}{most}")
}

/// Whether waits with nothing left in the queue cost at least 5 % of the time. The host is not ahead after a wait,
/// so they are told where launching costs more, too.
fn has_costly_waits(part: &InstancesUse) -> bool {
    part.causes.synchronising_ns.saturating_mul(20) >= part.devices_ns
}

/// `: the host launches 417 operations each time, one each 58 us, that run 11 us (68.3% of the time)`
fn why(part: &InstancesUse, cause: IdleCause, ns: u64, wording: Wording) -> String {
    let what = match cause {
        IdleCause::Launching => format!("the host launches {}", rhythm(part, wording)),
        IdleCause::Dispatching => {
            let each = part.causes.dispatching_ns / part.operations.max(1);
            format!("{}, and the GPU takes {} to begin the next", rhythm(part, wording), human_inline(each))
        }
        other => wait(other).to_owned(),
    };
    format!(": {what} ({} of the time)", share(ns, part.devices_ns.into()))
}

/// `417 operations each time, one each 58 us, that run 11 us`
fn rhythm(part: &InstancesUse, wording: Wording) -> String {
    let (operations, times) = (part.operations.max(1), part.instances.max(1));
    let [each, run] = [part.devices_ns / operations, part.operations_ns / operations].map(human_inline);
    let (count, time) = if times > 1 { (operations / times, " each time") } else { (operations, "") };
    let (plural, runs) = if count == 1 { ("", "runs") } else { ("s", "run") };
    format!("{} operation{plural}{time}, one each {each}, that {runs} {run}", wording.count(count))
}

/// What a device waited for.
const fn wait(cause: IdleCause) -> &'static str {
    match cause {
        IdleCause::Launching => "it waits for launches",
        IdleCause::Dispatching => "it takes long from one operation to the next",
        IdleCause::Synchronising => "the host waits for it with nothing left in the queue",
        IdleCause::Copying => "it waits for copies that block the host",
        IdleCause::Allocating => "it waits for memory to be allocated or released",
        IdleCause::Loading => "it waits for code to be loaded",
        IdleCause::BuildingGraphs => "it waits for CUDA graphs to be built, changed or released",
        IdleCause::Host => "it waits for code of the host",
        IdleCause::NoWork => "no range is open",
        IdleCause::Event => "it waits for events of other streams",
        // `Unexplained`
        _ => "nothing recorded says why; perhaps another process uses it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use range_model::summary::{CallKind, DeviceIdle, GpuActivity, NodeWork, SpanCalls};

    fn causes(times: &[(IdleCause, u64)]) -> IdleCauses {
        let mut causes = IdleCauses::default();
        times.iter().for_each(|&(cause, us)| causes.add(cause, us * 1_000));
        causes
    }

    /// Instances, wall and busy time in microseconds, operations.
    fn part(instances: u64, [wall, busy]: [u64; 2], operations: u64, times: &[(IdleCause, u64)]) -> InstancesUse {
        InstancesUse {
            instances,
            wall_ns: wall * 1_000,
            devices_ns: wall * 1_000,
            busy_ns: busy * 1_000,
            operations,
            operations_ns: busy * 1_000,
            causes: causes(times),
        }
    }

    fn range(name: &str, warm_up: InstancesUse, steady: InstancesUse) -> RangeUse {
        RangeUse { name: name.to_owned(), warm_up, steady, ..RangeUse::default() }
    }

    fn span(name: Option<&str>, times: &[(IdleCause, u64)]) -> SpanIdle {
        let causes = causes(times);
        let longest_ns = causes.total_ns() / 2;
        SpanIdle { name: name.map(str::to_owned), gaps: 7, longest_ns, causes, ..SpanIdle::default() }
    }

    /// One device.
    fn run([wall, busy]: [u64; 2], ranges: Vec<RangeUse>, spans: Vec<SpanIdle>) -> Summary {
        let mut idle = GpuIdle::default();
        let mut device = DeviceIdle { wall_ns: wall * 1_000, busy_ns: busy * 1_000, ..DeviceIdle::default() };
        for span in &spans {
            IdleCause::ALL.iter().for_each(|&cause| device.causes.add(cause, span.causes.of(cause)));
        }
        idle.devices = vec![device];
        (idle.ranges, idle.spans) = (ranges, spans);
        let total = GpuWork::new(12_512, busy * 1_000, busy * 1_000);
        let gpu = GpuActivity { total, ..GpuActivity::default() };
        Summary { elapsed_ns: wall * 1_100, gpu: Some(gpu), idle: Some(idle), ..Summary::default() }
    }

    fn sentences(summary: &Summary) -> Vec<String> {
        on_gpu(summary, Wording::default()).into_iter().map(|finding| finding.sentence).collect()
    }

    /// `.item()` in a loop: the first line names the range that waits, and how often.
    #[test]
    fn a_check_that_waits_for_each_value() {
        let steady = part(39, [390_000, 130_000], 5_000, &[(IdleCause::Synchronising, 200_000)]);
        let check = |instances| range("check", InstancesUse::default(), part(instances, [300_000, 9_000], 9, &[]));
        let ranges = vec![range("step", part(1, [10_000, 3_000], 128, &[]), steady), check(40)];
        let spans = |forward, check| {
            vec![
                span(Some("forward"), &[(IdleCause::Synchronising, forward)]),
                span(Some("check"), &[(IdleCause::Synchronising, check)]),
            ]
        };
        let calls = |name: &str, calls| SpanCalls {
            name: Some(name.to_owned()),
            kind: CallKind::Wait,
            function: "cudaStreamSynchronize_v3020".to_owned(),
            calls,
            instances: 40,
            ..SpanCalls::default()
        };
        let mut summary = run([400_000, 133_000], ranges, spans(20_000, 180_000));
        let first = |summary: &Summary| sentences(summary).swap_remove(0);
        let ends = |summary: &Summary, expected: &str| {
            let said = first(summary);
            assert!(
                said.ends_with(&format!(": {expected} with nothing left in the queue (51.3% of the time)")),
                "{said}"
            );
        };
        ends(&summary, "the host waits for it in `check`");
        summary.idle.as_mut().unwrap().calls = vec![calls("forward", 40), calls("check", 2_560)];
        ends(&summary, "the host waits for it in `check` (2,560 calls of cudaStreamSynchronize, 64 each time)");
        summary.idle.as_mut().unwrap().ranges[1] = check(19);
        ends(&summary, "the host waits for it"); // `check` is in less than half of the steps
        summary.idle.as_mut().unwrap().ranges[1] = check(20);
        summary.idle.as_mut().unwrap().spans = spans(120_000, 80_000);
        ends(&summary, "the host waits for it"); // no range has most of it
        summary.idle.as_mut().unwrap().spans = vec![span(Some("step"), &[(IdleCause::Synchronising, 200_000)])];
        summary.idle.as_mut().unwrap().calls = vec![calls("step", 80)];
        ends(&summary, "the host waits for it (80 calls of cudaStreamSynchronize, 2 each time)");
    }

    #[test]
    fn waits_are_told_beside_launches_from_a_twentieth_on() {
        for (waited, is_told) in [(19_500, true), (19_499, false)] {
            let times = [(IdleCause::Launching, 150_000), (IdleCause::Synchronising, waited)];
            let step = range("step", InstancesUse::default(), part(39, [390_000, 130_000], 5_000, &times));
            let check = range("check", InstancesUse::default(), part(39, [300_000, 9_000], 9, &[]));
            let spans = vec![span(Some("check"), &[(IdleCause::Synchronising, waited)])];
            let said = sentences(&run([390_000, 130_000], vec![step, check], spans)).swap_remove(0);
            let expected = "; and the host waits for it in `check` with nothing left in the queue (5.0% of the time)";
            assert!(said.contains("the host launches") && said.ends_with(expected) == is_told, "{said}");
        }
    }

    /// As the training of a small model looks on an H100.
    #[test]
    fn a_training_that_launches_too_slowly() {
        let steady =
            part(29, [726_000, 138_000], 12_093, &[(IdleCause::Launching, 500_000), (IdleCause::Host, 80_000)]);
        let first = part(1, [1_310_000, 9_000], 419, &[(IdleCause::Loading, 700_000)]);
        let inner = part(30, [300_000, 80_000], 5_000, &[]);
        let ranges = vec![range("forward", InstancesUse::default(), inner), range("step", first, steady)];
        let spans = vec![
            span(Some("forward"), &[(IdleCause::Launching, 450_000), (IdleCause::Loading, 650_000)]),
            span(Some("data"), &[(IdleCause::Host, 90_000)]),
            span(None, &[(IdleCause::NoWork, 600_000)]),
        ];
        let summary = run([2_050_000, 147_000], ranges, spans);
        let expected = [
            "GPU busy 19.0% of 726.0 ms in `step`, without 1 warm-up instance of 1.310 s (53.4% loading): the host \
             launches 417 operations each time, one each 60.03 us, that run 11.41 us (68.9% of the time)",
            "GPU idle in `forward`, loading: 650.0 ms (31.7% of the run)",
            "GPU idle in `forward`, launching: 450.0 ms (22.0% of the run)",
        ];
        assert_eq!(sentences(&summary), expected, "90 ms of host code are less than 5 %");
        let first = &on_gpu(&summary, Wording::default())[0];
        assert_eq!((first.at_stake_ns, first.of_ns), (588_000_000, Some(726_000_000)));
        assert_eq!((first.span.join(">"), first.advice.is_some()), ("step".to_owned(), true));
        assert!(matches!(first.evidence, Evidence::GpuUse { cause: Some(IdleCause::Launching), instances: 29, .. }));
    }

    /// As a model that generates tokens looks on an H100: half of the GPU's time is in other phases.
    #[test]
    fn a_first_call_that_loads_modules_of_the_program() {
        let steady = part(4, [1_969_000, 75_100], 39_356, &[(IdleCause::Launching, 1_766_000)]);
        let first = part(1, [4_773_000, 18_800], 9_839, &[(IdleCause::Host, 4_217_000), (IdleCause::Loading, 9_000)]);
        let summary = run([9_929_000, 167_700], vec![range("generate", first, steady)], Vec::new());
        let expected = "GPU busy 3.8% of 1.969 s in `generate`, without 1 warm-up instance of 4.773 s (88.4% host \
                        code): the host launches 9,839 operations each time, one each 50.03 us, that run 1.908 us \
                        (89.7% of the time)";
        assert_eq!(sentences(&summary), [expected]);
    }

    #[test]
    fn a_first_range_that_creates_the_context() {
        let steady = part(199, [379_400, 365_400], 3_980, &[(IdleCause::Synchronising, 6_000)]);
        let first = part(1, [256_600, 2_000], 20, &[(IdleCause::Launching, 300)]);
        let summary = run([382_000, 367_400], vec![range("step", first, steady)], Vec::new());
        let expected = "GPU busy 96.3% of 379.4 ms in `step`, without 1 warm-up instance of 256.6 ms";
        assert_eq!(sentences(&summary), [expected]);
    }

    /// As the decoding of tokens by a CUDA graph looks on an H100, with ranges that are only around launches.
    #[test]
    fn a_loop_whose_ranges_end_before_its_work() {
        let not = InstancesUse::default();
        let looped = |name: &str, wall| RangeUse {
            in_loop: part(1_000, [wall, 655], 1_000, &[(IdleCause::Launching, wall - 655)]),
            ..range(name, not, part(1_000, [225, 225], 350, &[]))
        };
        let launched = |name: &str, us: u64, children| {
            let work = GpuWork::new(1_000, us * 1_000, us * 1_000);
            TreeNode { gpu: Some(NodeWork::new(work.clone(), work)), children, ..TreeNode::new(name) }
        };
        let once = |wall| range("main", not, part(1, [wall, 600], 1_300, &[(IdleCause::Loading, 300)]));
        let made = |ranges: &[RangeUse]| {
            let mut summary = run([1_231, 699], ranges.to_vec(), Vec::new());
            let replay = launched("replay", 655, vec![launched("inner", 300, Vec::new())]);
            summary.tree = vec![launched("token", 655, vec![replay])];
            summary
        };
        let first = |ranges: &[RangeUse]| sentences(&made(ranges))[0].clone();
        let mut replay = looped("replay", 660);
        let expected = "GPU busy 99.2% of 660.0 us in the loop of `replay` (53.6% of the run)";
        assert_eq!(first(&[replay.clone()]), expected);
        assert_eq!(first(&[once(661), replay.clone()]), expected, "it says more than all of the program");
        assert!(first(&[once(660), replay.clone()]).contains(" in `main`"), "which is no longer");
        let others = [looped("inner", 659), looped("log", 700), replay.clone()];
        assert_eq!(first(&others), expected, "others launched less than half, or nothing");
        let outer = "GPU busy 98.8% of 663.0 us in the loop of `token` (53.9% of the run)";
        assert_eq!(first(&[looped("token", 663), replay.clone()]), outer, "the whole round");
        let run = "GPU busy 56.8% of 1.231 ms:";
        let mut of_two = made(&[replay.clone()]);
        let devices = &mut of_two.idle.as_mut().unwrap().devices;
        devices.push(devices[0].clone());
        assert!(sentences(&of_two)[0].starts_with("GPU busy 56.8% of 2.462 ms:"), "two devices");
        let mut with_graphs = made(&[looped("replay", 1_100)]);
        let advice = |summary: &Summary| on_gpu(summary, Wording::default()).swap_remove(0).advice.unwrap();
        assert!(advice(&with_graphs).contains("CUDA graphs"));
        with_graphs.tree[0].children[0].gpu.as_mut().unwrap().graphs.replays = 1_000;
        assert!(advice(&with_graphs).contains("more in a graph"));
        with_graphs.tree[0].children[0].gpu.as_mut().unwrap().graphs.replays = 0;
        with_graphs.tree[0].children[0].children[0].gpu.as_mut().unwrap().graphs.replays = 1_000;
        assert!(advice(&with_graphs).contains("more in a graph"), "in a range inside");
        let mut served = looped("replay", 1_100);
        served.in_loop.causes = causes(&[(IdleCause::Host, 445)]);
        let mut served = made(&[served]);
        let expected = "GPU busy 59.5% of 1.100 ms in the loop of `replay` (89.4% of the run): ";
        assert_eq!(sentences(&served)[0], format!("{expected}it waits for code of the host (40.5% of the time)"));
        served.idle.as_mut().unwrap().ranges[0].in_loop.causes =
            causes(&[(IdleCause::Host, 200), (IdleCause::NoWork, 245)]);
        assert_eq!(sentences(&served), [format!("{expected}no range is open (22.3% of the time)")]);
        let mut thought = served.clone();
        thought.idle.as_mut().unwrap().ranges[0].in_loop.causes =
            causes(&[(IdleCause::Host, 300), (IdleCause::NoWork, 145)]);
        let outside = "GPU idle in the loop of `replay`, outside of ranges: 145.0 us (11.8% of the run)".to_owned();
        let of_code = format!("{expected}it waits for code of the host (27.3% of the time)");
        assert_eq!(sentences(&thought), [of_code, outside], "not said above");
        assert!(advice(&served).starts_with("open a range there"));
        replay.in_loop.busy_ns = 349_000;
        assert!(first(&[replay.clone()]).starts_with(run), "it holds less than half");
        let mut nested = made(&[looped("replay", 660)]);
        nested.tree = vec![launched("replay", 340, vec![launched("replay", 340, Vec::new())])];
        assert!(sentences(&nested)[0].starts_with(run), "the inner one launched what the outer one did");
        replay.in_loop = part(19, [660, 655], 1_000, &[]);
        assert!(first(&[replay]).starts_with(run), "19 are no loop");
    }

    /// Each rank had one of the two devices: its ranges are no shorter than both together.
    #[test]
    fn ranks_with_a_device_each() {
        let steady = part(20, [2_000, 1_760], 90, &[(IdleCause::Host, 240)]);
        let mut summary = run([1_000, 1_760], vec![range("step", InstancesUse::default(), steady)], Vec::new());
        let devices = &mut summary.idle.as_mut().unwrap().devices;
        devices.push(devices[0].clone());
        assert!(sentences(&summary)[0].starts_with("GPU busy 88.0% of 2.000 ms in `step`: "));
    }

    #[test]
    fn a_busy_gpu_has_no_cause() {
        let ranges = vec![range("step", InstancesUse::default(), part(9, [1_000, 950], 90, &[(IdleCause::Host, 50)]))];
        let summary = run([1_000, 950], ranges, vec![span(Some("step"), &[(IdleCause::Host, 49)])]);
        assert_eq!(sentences(&summary), ["GPU busy 95.0% of 1.000 ms in `step`"]);
    }

    /// One use of each phase, as a prover has: the shortest that holds most of the work; and without any, the run.
    #[test]
    fn a_program_that_does_each_thing_once() {
        let host = [(IdleCause::Host, 700)];
        let once = |name, wall, busy| range(name, InstancesUse::default(), part(1, [wall, busy], 10, &host));
        let ranges = vec![once("main", 2_000, 200), once("prove", 900, 190), once("commit", 500, 90)];
        let summary = run([1_000, 200], ranges, Vec::new());
        let expected = "GPU busy 21.1% of 900.0 us in `prove`: it waits for code of the host (77.8% of the time)";
        assert_eq!(sentences(&summary), [expected]);
        let summary = run([1_000, 200], Vec::new(), vec![span(None, &[(IdleCause::Synchronising, 800)])]);
        let expected = [
            "GPU busy 20.0% of 1.000 ms: the host waits for it with nothing left in the queue (80.0% of the time)",
            "GPU idle outside of ranges, synchronising: 800.0 us (80.0% of the run)",
        ];
        assert_eq!(sentences(&summary), expected);
    }

    #[test]
    fn without_the_causes_the_sums_of_the_tree_say_how_busy_it_was() {
        let node = |name: &str, instances, wall, busy, children| {
            let mut node = TreeNode { instances, total_ns: wall, self_ns: wall, children, ..TreeNode::new(name) };
            let work = GpuWork::new(4_170, busy, busy);
            node.gpu = Some(NodeWork::new(work.clone(), work));
            node
        };
        let mut summary = run([1_000, 100], Vec::new(), Vec::new());
        summary.idle = None;
        let expected = "GPU busy 9.1% of 1.100 ms: 12,512 operations, one each 87 ns, that run 7 ns (report=idle has the \
                        reason)";
        assert_eq!(sentences(&summary), [expected]);
        let step = node("step", 10, 500_000, 90_000, vec![node("forward", 10, 300_000, 80_000, Vec::new())]);
        summary.tree = vec![node("main", 1, 900_000, 95_000, vec![step])];
        let expected = "GPU busy 18.0% of 500.0 us in `step`: 417 operations each time, one each 119 ns, that run 21 ns \
                        (report=idle has the reason)";
        assert_eq!(sentences(&summary), [expected]);
        summary.tree[0].children[0].awaited_ns = Some(1);
        assert!(
            sentences(&summary)[0].starts_with("GPU busy 10.6% of 900.0 us in `main`:"),
            "its own wall time is not known"
        );
        summary.gpu = None;
        assert_eq!(sentences(&summary), [""; 0]);
    }
}
