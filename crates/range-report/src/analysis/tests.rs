use proptest::prelude::*;

use super::*;
use crate::{RenderOptions, Report, SummaryExt as _};
use range_model::summary::{
    CallStates, CallStats, DeviceIdle, GpuIdle, LongestInstance, OffCpuStats, RangeUse, ThreadStats, WaitStats,
};
use range_model::{
    GpuActivity, GpuWork, NodeWork, OpenRange, Quantile, RangeStats, RangeStyle, StreamStats, Times, TreeNode,
};

const MS: u64 = 1_000_000;

fn node(name: &str, calls: u64, [total_ns, self_ns]: [u64; 2], children: Vec<TreeNode>) -> TreeNode {
    TreeNode { name: name.to_owned(), calls, instances: calls, total_ns, self_ns, children, ..TreeNode::default() }
}

fn leaf(name: &str, calls: u64, ns: u64) -> TreeNode {
    node(name, calls, [ns, ns], vec![])
}

fn summary(tree: Vec<TreeNode>) -> Summary {
    Summary { tree, ..Summary::default() }
}

/// A future with this own waiting time.
fn waiting(name: &str, calls: u64, [total_ms, awaited_ms]: [u64; 2], children: Vec<TreeNode>) -> TreeNode {
    let (awaited_ns, awaited_self_ns) = (Some(awaited_ms * MS), Some(awaited_ms * MS));
    let below: u64 = children.iter().map(|child| child.total_ns).sum();
    let node = node(name, calls, [total_ms * MS + below, total_ms * MS], children);
    TreeNode { instances: 3 * calls, awaited_ns, awaited_self_ns, ..node }
}

/// The span of a finding and its row, the time at stake, the time that this is a part of, and the sentence.
type Told<'a> = (Vec<&'a str>, Option<usize>, u64, Option<u64>, &'a str);

fn told(findings: &[Finding], kind: FindingKind) -> Vec<Told<'_>> {
    let of_kind = findings.iter().filter(|finding| finding.kind() == kind);
    of_kind
        .map(|one| {
            let span = one.span.iter().map(String::as_str).collect();
            (span, one.node, one.at_stake_ns, one.of_ns, one.sentence.as_str())
        })
        .collect()
}

#[test]
fn names_of_kinds_are_words_in_snake_case_and_differ() {
    let mut names: Vec<&str> = FindingKind::ALL.iter().map(|kind| kind.name()).collect();
    assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')), "{names:?}");
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn what_is_awaited_is_found_with_its_way() {
    let wait = waiting("wait for a connection", 1_000, [0, 60_000], vec![]);
    let mut run = summary(vec![waiting("request", 1_000, [200, 9_000], vec![wait, leaf("render", 1_000, 3_000 * MS)])]);
    run.elapsed_ns = 3_300 * MS;
    run.threads = vec![ThreadStats { in_polls_ns: Some(3_200 * MS), ..ThreadStats::new(3_200 * MS) }];
    let findings = run.findings();
    let whole = Some(69_000 * MS);
    let expected = [
        (
            vec!["request", "wait for a connection"],
            Some(1),
            60_000 * MS,
            whole,
            "most time awaited: request > wait for a connection 60.00 s (87.0%)",
        ),
        (vec!["request"], Some(0), 9_000 * MS, whole, "most time awaited: request 9.000 s (13.0%)"),
    ];
    assert_eq!(told(&findings, FindingKind::MostAwaited), expected);
    let busy =
        "the thread that polls futures was busy for 97.0% of the time: some of this may be waiting for a free thread";
    let expected = [(vec![], None, 3_200 * MS, Some(3_300 * MS), busy)];
    assert_eq!(told(&findings, FindingKind::BusyThreads), expected);
    assert_eq!(findings[2].evidence, Evidence::BusyThreads { busy: 1, polling: 1 });
    // The most costly first.
    let kinds: Vec<&str> = findings.iter().map(|finding| finding.kind().name()).collect();
    assert_eq!(kinds, ["most_awaited", "most_awaited", "busy_threads", "most_own_time", "most_own_time"]);
    assert!(findings.is_sorted_by_key(|finding| Reverse(finding.at_stake_ns)));
}

#[test]
fn what_runs_as_long_as_it_waits_is_no_matter_of_waiting() {
    let found = |awaited_ms| {
        let run = summary(vec![waiting("work", 1, [100, awaited_ms], vec![])]);
        told(&run.findings(), FindingKind::MostAwaited).len()
    };
    assert_eq!((found(100), found(101)), (0, 1));
}

#[cfg(feature = "page")]
#[test]
fn a_phase_that_has_room_in_its_parent_ran_there() {
    let children = vec![leaf("inside", 1, 600), leaf("elsewhere", 1, 900)];
    let run = summary(vec![node("parent", 1, [1_000, 400], children)]);
    let phases = Phases::of(&run);
    assert_eq!([0, 1, 2].map(|index| phases.all()[index].beside), [false, true, true]);
    assert_eq!([0, 1, 2].map(|index| phases.ran_elsewhere(index)), [false, false, true]);
}

#[test]
fn a_wait_for_what_is_measured_elsewhere_names_it() {
    let serve = leaf("serve", 20, 900 * MS);
    let mut call = waiting("call", 20, [1, 1_000], vec![serve]);
    call.total_ns = call.self_ns; // the child ran on another thread
    let run = summary(vec![call]);
    let findings = run.findings();
    let found = told(&findings, FindingKind::MostAwaited);
    assert_eq!(found[0].4, "most time awaited: call 1.000 s (100.0%), perhaps for `serve`");
    assert_eq!(findings[0].evidence, Evidence::MostAwaited { perhaps_for: Some(1), for_gpu_work: false });
}

/// As of futures in a window that nobody polls while the one that has it waits for something else.
#[test]
fn time_in_which_a_call_was_ready_is_no_wait() {
    let fetch = waiting("fetch", 80, [1, 1_700], vec![]);
    let mut run = summary(vec![fetch, waiting("store", 80, [1, 1_600], vec![])]);
    run.calls = ["fetch", "store"].map(|name| CallStats::new(name, Times::default())).into();
    run.calls[0].awaited_self_ns = 1_700 * MS;
    let found = |run: &Summary| {
        let findings = run.findings();
        let sentences = told(&findings, FindingKind::MostAwaited).into_iter().map(|(.., sentence)| sentence);
        sentences.map(|one| one.trim_start_matches("most time awaited: ").to_owned()).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(found(&run), "fetch 1.700 s (51.5%), store 1.600 s (48.5%)");
    let mut states = CallStates::default();
    (states.ready_ns, states.otherwise_ns) = (1_400 * MS, 400 * MS);
    run.calls[0].states = Some(states);
    assert_eq!(found(&run), "store 1.600 s (80.0%), fetch 400.0 ms (20.0%)");
    // Two nodes of the name share it.
    run.tree.push(waiting("fetch", 80, [1, 1_700], vec![]));
    (run.calls[0].awaited_self_ns, states.ready_ns) = (3_400 * MS, 3_000 * MS);
    run.calls[0].states = Some(states);
    assert_eq!(found(&run), "store 1.600 s (80.0%), fetch 200.0 ms (10.0%), fetch 200.0 ms (10.0%)");
}

#[test]
fn a_loop_as_long_as_the_run_costs_nothing() {
    let work = waiting("work", 10, [10, 500], vec![]);
    let mut run = summary(vec![waiting("worker", 2, [0, 2_000], vec![]), work]);
    run.elapsed_ns = 1_000 * MS;
    let findings = run.findings();
    let expected = [(vec!["worker"], Some(0), 0, None, "as long as the run: worker 1.000 s (2 calls)")];
    assert_eq!(told(&findings, FindingKind::LongLoop), expected);
    assert_eq!(told(&findings, FindingKind::MostAwaited).len(), 1);
    let loops = findings.iter().find(|finding| finding.kind() == FindingKind::LongLoop).unwrap();
    assert_eq!(loops.evidence, Evidence::LongLoop { calls: 2, life_ns: 1_000 * MS, awaited_self_ns: 1_000 * MS });
    // A call that works for less than half of its life is a loop, too.
    for (ran, waited, count) in [(800, 1_200, 1), (1_100, 900, 0)] {
        run.tree[0] = waiting("worker", 2, [ran, waited], vec![]);
        run.tree[1] = waiting("work", 10, [10, 5_000], vec![]);
        assert_eq!(told(&run.findings(), FindingKind::LongLoop).len(), count, "{ran} ms of work");
    }
}

#[test]
fn a_first_call_is_found_with_what_it_cost() {
    let mut linear = leaf("linear", 20, 454_500_000);
    linear.max_ns = 450_700_000;
    linear.longest = Some(LongestInstance { ns: linear.max_ns, is_first: true, number: Some(1), of: 20, start_ns: 0 });
    let run = summary(vec![node("forward", 20, [454_700_000, 200_000], vec![linear])]);
    let findings = run.findings();
    let one = &findings[0];
    assert_eq!(
        one.evidence,
        Evidence::OneLongCall {
            longest_ns: 450_700_000,
            others_mean_ns: 200_000,
            is_warm_up: true,
            number: Some(1),
            start_ns: Some(0)
        }
    );
    assert_eq!((one.at_stake_ns, one.of_ns, one.node), (450_500_000, Some(454_500_000), Some(1)));
    assert_eq!(one.sentence, "`linear`: first call 450.7 ms, the others 200.0 us each");
    assert_eq!(one.advice.as_deref(), Some("reset() after a warm-up leaves such calls out"));
    // The ranking leaves the slow first call out.
    let own = told(&findings, FindingKind::MostOwnTime);
    assert_eq!((own[0].2, own[0].3), (3_800_000, Some(4_000_000)));
    // A user of the command has no `reset`.
    let wording = crate::text::wording::Wording { of_command: true, ..Default::default() };
    assert!(in_phases(&run, &Phases::of(&run), wording).iter().all(|finding| finding.advice.is_none()));
}

#[test]
fn many_small_phases_are_found_together() {
    let mut phases: Vec<TreeNode> = (0..2_000).map(|i| leaf(&format!("request {i}"), 1, 310)).collect();
    phases.push(leaf("load", 1, 380_000));
    let findings = summary(phases).findings();
    let expected = [(vec![], None, 620_000, Some(1_000_000), "62.0% is in 2,000 phases under 0.1 % each")];
    assert_eq!(told(&findings, FindingKind::ManySmallPhases), expected);
    assert_eq!(findings[0].evidence, Evidence::ManySmallPhases { phases: 2_000 });
    assert!(findings[0].advice.as_deref().unwrap().starts_with("to sum them, give them one name"));
}

#[test]
fn time_in_no_range_is_exact_on_one_thread() {
    let mut run = summary(vec![leaf("load", 1, 330 * MS)]);
    (run.elapsed_ns, run.outside_ns) = (1_000 * MS, Some(670 * MS));
    run.threads = vec![ThreadStats::new(330 * MS)];
    let expected = [(vec![], None, 670 * MS, Some(1_000 * MS), "67.0% of the wall time is in no span")];
    let findings = run.findings();
    assert_eq!(told(&findings, FindingKind::OutsideRanges), expected);
    assert_eq!(findings[0].evidence, Evidence::OutsideRanges { exact: true });
    run.ranges = vec![RangeStats { style: RangeStyle::StartEnd, ..RangeStats::new("load", Times::new(1, 1)) }];
    let findings = run.findings();
    assert_eq!(told(&findings, FindingKind::OutsideRanges)[0].4, "at least 67.0% of the wall time is in no span");
    run.outside_ns = Some(99 * MS);
    assert_eq!(told(&run.findings(), FindingKind::OutsideRanges), []);
}

#[test]
fn time_on_the_gpu_is_a_part_of_all_that_it_was_busy() {
    let busy = |ns: u64| GpuWork { operations: 1, sum_ns: ns, busy_ns: ns, ..GpuWork::default() };
    let mut step = leaf("step", 10, MS);
    step.gpu = Some(NodeWork { own: busy(6 * MS), total: busy(6 * MS), calls: vec![], ..NodeWork::default() });
    (step.stream_total_ns, step.stream_self_ns) = (Some(7 * MS), Some(7 * MS));
    let mut run = summary(vec![step]);
    run.gpu = Some(GpuActivity {
        total: busy(8 * MS),
        outside: GpuWork { operations: 3, ..busy(2 * MS) },
        ..GpuActivity::default()
    });
    let expected =
        [(vec!["step"], Some(0), 6 * MS, Some(8 * MS), "GPU: most busy time of its own: step 6.000 ms (75.0%)")];
    assert_eq!(told(&run.findings(), FindingKind::MostBusyTime), expected);
    let expected =
        [(vec!["step"], Some(0), 7 * MS, Some(7 * MS), "GPU: most stream time of its own: step 7.000 ms (100.0%)")];
    assert_eq!(told(&run.findings(), FindingKind::MostStreamTime), expected);
    // In a run without ranges, no launch is reported as outside any range.
    assert_eq!(told(&run.findings(), FindingKind::LaunchedOutside), []);
    run.ranges = vec![RangeStats::new("step", Times::new(10, MS))];
    let said = "3 GPU operations (2.000 ms busy) were launched outside any range.";
    assert_eq!(told(&run.findings(), FindingKind::LaunchedOutside), [(vec![], None, 2 * MS, None, said)]);
    // Findings that cost nothing come after launches outside any range.
    let kinds: Vec<FindingKind> = run.findings().iter().map(Finding::kind).collect();
    assert_eq!(kinds[2], FindingKind::LaunchedOutside);
}

#[test]
fn losses_are_found_under_their_names() {
    let mut run = Summary::default();
    (run.losses.stray_exits, run.losses.streams.pending, run.losses.rows_without_median) = (2, 1, 3);
    run.losses.activity.unmatched = 4;
    run.losses.open = vec![OpenRange { count: 5, ..OpenRange::new("step", "main") }];
    run.stream_ranges = vec![StreamStats { empty: 1, ..StreamStats::new("step", "GPU 0 #1", Times::new(2, 9)) }];
    let evidence: Vec<Evidence> = run.findings().into_iter().map(|finding| finding.evidence).collect();
    let expected = [
        Evidence::OpenRanges { ranges: 5, cut: false },
        Evidence::Loss { figure: "stray_exits", count: 2 },
        Evidence::Loss { figure: "streams.pending", count: 1 },
        Evidence::Loss { figure: "activity.unmatched", count: 4 },
        Evidence::NoMedian { rows: 3 },
        Evidence::EmptyStreamTimes { instances: 1 },
    ];
    assert_eq!(evidence, expected);
    assert_eq!(run.findings()[2].sentence, "1 stream time was still pending, and is not counted.");
}

#[test]
fn a_run_without_anything_has_no_finding() {
    assert_eq!(Summary::default().findings(), []);
}

#[test]
fn exactly_enough_is_enough() {
    assert_eq!(enough(&[90, 9, 1], 0.9), 1);
    assert_eq!(enough(&[89, 10, 1], 0.9), 2);
    assert_eq!(enough(&[5, 5, 0], 1.0), 2);
    assert_eq!(enough(&[0, 0], 0.9), 1);
    assert_eq!(enough(&[], 0.9), 0);
}

#[cfg(feature = "page")]
#[test]
fn the_hottest_names_are_sums() {
    let parts = [("b", [3, 0]), ("a", [1, 3]), ("none", [0, 0]), ("b", [0, 2]), ("c", [4, 0]), ("d", [1, 0])];
    let hot = hottest(parts.into_iter().map(|(name, times)| (name.to_owned(), times)), 2);
    assert_eq!(hot.names, [("b".to_owned(), [3, 2]), ("a".to_owned(), [1, 3])]);
    assert_eq!((hot.others, hot.others_ns, hot.whole_ns), (2, 5, 14));
}

/// Any tree of futures and others, with odd names.
fn any_run() -> impl Strategy<Value = Summary> {
    let figures = (0_u64..30, 0_u64..2_000 * MS, 0_u64..100, prop::option::weighted(0.5, 0_u64..20_000 * MS));
    let figures = (figures, 0_u64..3, "[a-z]{0,3}|.{0,90}");
    let any_node = |((calls, total_ns, own, awaited_ns), again, name): ((u64, u64, u64, Option<u64>), u64, String),
                    children| {
        let self_ns = total_ns / 100 * own;
        let node = node(&name, calls, [total_ns, self_ns], children);
        TreeNode { instances: calls + again, max_ns: total_ns / 2, awaited_ns, awaited_self_ns: awaited_ns, ..node }
    };
    let leaf = figures.clone().prop_map(move |figures| any_node(figures, vec![]));
    let nested = leaf.prop_recursive(4, 40, 6, move |inner| {
        (figures.clone(), prop::collection::vec(inner, 0..6))
            .prop_map(move |(figures, children)| any_node(figures, children))
    });
    let run = (prop::collection::vec(nested, 0..5), 0_u64..5_000 * MS, 0_u64..3);
    run.prop_map(|(tree, elapsed_ns, stray_exits)| {
        let mut run = Summary { elapsed_ns, tree, ..Summary::default() };
        run.losses.stray_exits = stray_exits;
        run
    })
}

/// A range of 10 s in a run of 20 s, whose thread was seen so often for so long in two system calls.
fn off_cpu(rows: [(u64, u64); 2]) -> Summary {
    let mut run = summary(vec![node("run", 1, [20_000 * MS; 2].map(|ns| ns - 5), vec![leaf("step", 9, 10_000 * MS)])]);
    (run.tree[0].self_ns, run.elapsed_ns) = (10_000 * MS, 20_000 * MS);
    let row = |call: &str, (samples, ms): (u64, u64)| OffCpuStats::new("step", call, samples, ms * MS);
    run.off_cpu = vec![row("read", rows[0]), row("futex (lock or condition)", rows[1])];
    run.off_cpu[0].what = "pipe".to_owned();
    run
}

#[test]
fn a_range_off_the_cpu_is_found_with_its_system_call() {
    let of = |run: &Summary| run.findings().into_iter().filter(|one| one.kind() == FindingKind::OffCpu).collect();
    let all: Vec<Finding> = of(&off_cpu([(700, 7_000), (20, 200)]));
    let sentence = "step: off CPU 7.200 s (72.0%), in read (pipe), 720 samples";
    let expected = (vec!["run", "step"], Some(1), 7_200 * MS, Some(10_000 * MS), sentence);
    assert_eq!(told(&all, FindingKind::OffCpu), [expected]);
    assert_eq!(all[0].evidence, Evidence::OffCpu { samples: 720, in_call_ns: 7_000 * MS });
    let mixed: Vec<Finding> = of(&off_cpu([(200, 2_000), (400, 4_000)]));
    assert_eq!(mixed[0].sentence, "step: off CPU 6.000 s (60.0%), mostly in futex (lock or condition), 600 samples");
    // No more than the range took.
    let more: Vec<Finding> = of(&off_cpu([(1_010, 10_100), (0, 0)]));
    assert_eq!((more[0].at_stake_ns, more[0].of_ns), (10_000 * MS, Some(10_000 * MS)));
    // Too small a part of the range, too few samples, a range that is a small part of the run, children elsewhere.
    let mut small = off_cpu([(700, 7_000), (20, 200)]);
    small.elapsed_ns = 101_000 * MS;
    let mut blocked = off_cpu([(700, 7_000), (20, 200)]);
    blocked.tree[0].children[0].blocked_ns = 9_000 * MS;
    for run in [off_cpu([(290, 2_900), (9, 90)]), off_cpu([(10, 7_000), (9, 200)]), small, blocked] {
        assert_eq!(of(&run), []);
    }
}

/// A run with these waits: who waited, for whom, how often, how long in all and at most.
fn followed(waits: &[(&str, Option<&str>, u64, u64, u64)]) -> Summary {
    let mut run = summary(vec![leaf("request", 90, 100 * MS), leaf("compact ledger", 9, 1_000 * MS)]);
    let row = |&(waiter, by, waits, ms, longest): &(&str, Option<&str>, u64, u64, u64)| {
        WaitStats::new(waiter, by.map(str::to_owned), waits, ms * MS, longest * MS)
    };
    run.waits = waits.iter().map(row).collect();
    run
}

#[test]
fn a_span_that_made_others_wait_is_found() {
    const LEDGER: Option<&str> = Some("compact ledger");
    let run = followed(&[
        ("append_ledger", LEDGER, 68, 19_500, 602),
        ("request", None, 900, 10_000, 90),
        ("append_ledger", Some("append_ledger"), 30, 9_000, 700),
        ("request", Some("tick"), 1_200, 5_000, 900),
        ("request", Some("flush\t1"), 0, 4_900, 200),
        ("read_ledger", LEDGER, 1, 200, 150),
        ("read_ledger", Some("flush\t1"), 3, 30, 10),
        ("query", Some("flush\t1"), 2, 20, 15),
    ]);
    let findings = run.findings();
    let whole = Some(48_650 * MS);
    let ledger = "`compact ledger` made others wait 19.70 s: append_ledger 19.50 s (68 waits, up to 602.0 ms), 1 other";
    let tick = "`tick` made others wait 5.000 s: request 5.000 s (1,200 waits, up to 900.0 ms)";
    let flush = "`flush\\t1` made others wait 4.950 s: request 4.900 s (parts of waits, up to 200.0 ms), 2 others";
    let expected = [
        (vec!["compact ledger"], Some(1), 19_700 * MS, whole, ledger),
        (vec![], None, 5_000 * MS, whole, tick),
        (vec![], None, 4_950 * MS, whole, flush),
    ];
    assert_eq!(told(&findings, FindingKind::WaitsFor), expected, "the largest first");
    let evidence = Evidence::WaitsFor { waiters: 2, waits: 69, longest_ns: 602 * MS };
    assert_eq!(findings.iter().find(|one| one.kind() == FindingKind::WaitsFor).unwrap().evidence, evidence);
    let among = followed(&[("request", Some("request"), 30, 9_000, 700), ("query", LEDGER, 9, 900, 200)]).findings();
    let told_of: Vec<String> = told(&among, FindingKind::WaitsFor).into_iter().map(|one| one.4.to_owned()).collect();
    let waited = "calls of `request` waited for each other 9.000 s (30 waits, up to 700.0 ms)";
    assert_eq!(told_of, [waited], "the ledger has less than a tenth");
    let mut short = followed(&[("query", LEDGER, 68, 900, 200)]);
    let mut query = CallStats::new("query", Times::new(100, 1_000 * MS));
    query.latency.quantiles.push(Quantile::new(0.99, 180.0 * MS as f64, true));
    short.calls.push(query);
    for (without, told) in [(161 * MS, "; p99 180.0 ms, without them 161.0 ms"), (162 * MS, "")] {
        short.waits[0].p99_without_ns = Some(without);
        let waited =
            format!("`compact ledger` made others wait 900.0 ms: query 900.0 ms (68 waits, up to 200.0 ms{told})");
        assert_eq!(self::told(&short.findings(), FindingKind::WaitsFor)[0].4, waited);
    }
    let mut with_value = followed(&[("request", Some("request"), 30, 9_000, 700), ("request", LEDGER, 9, 2_000, 200)]);
    let own = &mut with_value.waits[0];
    (own.by_value, own.value_waits, own.value_time_ns) = (Some("uri=/big".to_owned()), Some(28), Some(8_000 * MS));
    let found = with_value.findings();
    let told_of: Vec<(u64, &str)> =
        told(&found, FindingKind::WaitsFor).into_iter().map(|(_, _, ns, _, sentence)| (ns, sentence)).collect();
    let big = "`request` with `uri=/big` made other calls wait 8.000 s in 28 waits, of 9.000 s for each other";
    assert_eq!(told_of[0], (8_000 * MS, big));
    assert_eq!(told_of.len(), 2, "the ledger comes next");
    let mut text = Vec::new();
    run.render(&[Report::Tree], &RenderOptions::default().width(1_000), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let verdict = text.split_once(" >> ").expect("the slowest phase").1;
    let lines: Vec<&str> = verdict.lines().skip(1).take(2).map(str::trim_start).collect();
    assert_eq!(lines, [ledger, tick], "{text}");
    let mut on_workers = run.clone();
    on_workers.waits[0].resource = Some(WaitStats::WORKER.to_owned());
    let worker = "`compact ledger` held a worker thread while others were ready for 19.50 s: append_ledger 19.50 s (68 \
                  waits, up to 602.0 ms)";
    let found = on_workers.findings();
    let expected = [
        (vec!["compact ledger"], Some(1), 19_500 * MS, whole, worker),
        (vec![], None, 5_000 * MS, whole, tick),
        (vec![], None, 4_950 * MS, whole, flush),
    ];
    assert_eq!(told(&found, FindingKind::WaitsFor), expected);
    let mut without = run;
    without.waits.retain(|row| row.by.as_deref() == Some("flush\t1"));
    let expected = (vec![], None, 4_950 * MS, Some(4_950 * MS), flush);
    assert_eq!(told(&without.findings(), FindingKind::WaitsFor), [expected]);
}

#[test]
fn time_off_the_cpu_is_no_work() {
    let mut lock = node("lock", 10, [700 * MS, 700 * MS], vec![]);
    let render = node("render", 10, [300 * MS, 300 * MS], vec![]);
    let sentence = |lock: &TreeNode| {
        let found = summary(vec![lock.clone(), render.clone()]).findings();
        told(&found, FindingKind::MostOwnTime)[0].4.to_owned()
    };
    for (off_ms, expected) in [(349, "lock 700.0 ms (70.0%)"), (350, "lock 700.0 ms (70.0%), 350.0 ms of it off CPU")] {
        lock.off_cpu_ns = off_ms * MS;
        assert_eq!(sentence(&lock), format!("most time of its own: {expected}"));
    }
    (lock.children, lock.self_ns) = (vec![node("inner", 10, [400 * MS, 400 * MS], vec![])], 300 * MS);
    assert!(sentence(&lock).ends_with("inner 400.0 ms (40.0%)"), "what is off the CPU may be the child");
}

#[test]
fn who_made_others_wait_is_named_right_after_what_was_awaited() {
    let mut run =
        followed(&[("request", Some("compact ledger"), 90, 19_500, 602), ("request", Some("tick"), 1_200, 5_000, 900)]);
    for (node, awaited) in run.tree.iter_mut().zip([20_000, 10_000]) {
        (node.awaited_ns, node.awaited_self_ns) = (Some(awaited * MS), Some(awaited * MS));
    }
    let text_of = |run: &Summary, report| {
        let mut text = Vec::new();
        run.render(&[report], &RenderOptions::default().width(1_000), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    for report in [Report::Why, Report::Tree] {
        let text = text_of(&run, report);
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
        let (first, own) = (at("most time awaited: request 20.00 s"), at("most time of its own: compact ledger"));
        let [ledger, tick] = ["`compact ledger` made others wait", "`tick` made others wait"].map(at);
        assert!(first < ledger && ledger < tick && tick < own, "{text}");
        let second = at("compact ledger 10.00 s");
        assert_eq!(second > tick, report == Report::Why, "{text}");
    }
    let device = DeviceIdle { wall_ns: 100_000 * MS, busy_ns: 2_000 * MS, ..DeviceIdle::default() };
    let mut served = RangeUse { name: "request".to_owned(), ..RangeUse::default() };
    (served.steady.instances, served.steady.wall_ns, served.steady.busy_ns) = (30, 5_000 * MS, 2_000 * MS);
    (served.in_loop.instances, served.in_loop.causes.no_work_ns) = (30, 90_000 * MS);
    run.idle = Some(GpuIdle { devices: vec![device], ranges: vec![served], ..GpuIdle::default() });
    let text = text_of(&run, Report::Why);
    let [tick, outside] = ["`tick` made others wait", "GPU idle in the loop of `request`, outside of ranges: 90.00 s"]
        .map(|words| text.find(words).unwrap_or_else(|| panic!("{words}: {text}")));
    assert!(tick < outside, "it has nothing to do then: {text}");
}

/// The inferred waits of `request`, which waited itself for 1 s: for whom, how often, of how many, by chance, how long.
fn inferred(waits: &[(&str, u64, u64, u64, u64)]) -> Summary {
    let mut run = followed(&[]);
    run.tree[0].awaited_self_ns = Some(1_000 * MS);
    let row = |&(by, waits, of, by_chance, ms): &(&str, u64, u64, u64, u64)| {
        let mut row = WaitStats::new("request", Some(by.to_owned()), waits, ms * MS, 90 * MS);
        (row.of_waits, row.by_chance) = (Some(of), Some(by_chance));
        (row.over_ns, row.within_ns) = (Some(20 * MS), Some(MS / 5));
        row
    };
    run.waits = waits.iter().map(row).collect();
    run
}

#[test]
fn whom_calls_seem_to_wait_for_is_found_with_its_evidence() {
    let findings = inferred(&[("compact ledger", 68, 70, 1, 900), ("tick\t1", 67, 70, 12, 880)]).findings();
    let ledger = "`compact ledger` probably made request wait 900.0 ms in 68 of 70 waits over 20.00 ms looked at, which \
                  ended within 200.0 us after it ended, by chance 1";
    let tick = "`tick\\t1` probably made request wait 880.0 ms in 67 of 70 waits over 20.00 ms looked at, which ended \
                within 200.0 us after it ended, by chance 12";
    let of = |ns, sentence| (vec!["request"], Some(0), ns, Some(1_000 * MS), sentence);
    let expected = [of(900 * MS, ledger), of(880 * MS, tick)];
    assert_eq!(told(&findings, FindingKind::WaitsAfter), expected);
    assert_eq!(told(&findings, FindingKind::WaitsFor), []);
    let mut with_value = inferred(&[("request", 68, 70, 0, 900)]);
    with_value.waits[0].by_value = Some("uri=/big".to_owned());
    let sentence = "`request` with `uri=/big` probably made other calls wait 900.0 ms in 68 of 70 waits over 20.00 ms \
                    looked at, which ended within 200.0 us after it ended, by chance none";
    assert_eq!(told(&with_value.findings(), FindingKind::WaitsAfter), [of(900 * MS, sentence)]);
    let each_other = inferred(&[("request", 68, 70, 0, 900)]).findings();
    let sentence = "calls of `request` probably waited for each other 900.0 ms in 68 of 70 waits over 20.00 ms \
                    looked at, which ended within 200.0 us after it ended, by chance none";
    assert_eq!(told(&each_other, FindingKind::WaitsAfter), [of(900 * MS, sentence)]);
    let mut lets_go = inferred(&[("request", 68, 70, 0, 900)]);
    lets_go.waits[0].before_ns = Some(MS / 5);
    let sentence = sentence.replace("after it ended", "of its end");
    assert_eq!(told(&lets_go.findings(), FindingKind::WaitsAfter), [of(900 * MS, &sentence)]);
    // A call inside of another waits for others of that name, not for its own.
    let mut inside = inferred(&[("compact ledger", 68, 70, 1, 900)]);
    let request = inside.tree.remove(0);
    inside.tree[0].children.push(request);
    let found = inside.findings();
    let of_others = format!("other calls of {ledger}");
    assert_eq!(told(&found, FindingKind::WaitsAfter)[0].4, of_others);
    (inside.waits[0].of_waits, inside.waits[0].waiter) = (None, "compact ledger".to_owned());
    inside.waits[0].by = Some("request".to_owned());
    let said = told(&inside.findings(), FindingKind::WaitsFor)[0].4.to_owned();
    assert!(said.starts_with("`request` of other calls made others wait 900.0 ms: compact ledger"), "{said}");
    let none = [inferred(&[("tick", 68, 70, 1, 99)]), inferred(&[("tick", 68, 70, 1, 9)])];
    none.iter().for_each(|run| assert_eq!(told(&run.findings(), FindingKind::WaitsAfter), [], "too little time"));
    let mut server = inferred(&[("tick", 68, 70, 1, 90_000)]);
    server.elapsed_ns = 101_000 * MS;
    (server.tree[1].total_ns, server.tree[1].self_ns) = (60_000 * MS, 60_000 * MS);
    let accept = &mut server.tree[0];
    (accept.calls, accept.instances, accept.total_ns) = (1, 900, 100 * MS);
    (accept.awaited_ns, accept.awaited_self_ns) = (Some(100_000 * MS), Some(100_000 * MS));
    assert_eq!(told(&server.findings(), FindingKind::WaitsAfter), [], "a loop waits for work");
}

#[test]
fn who_made_others_wait_is_not_said_below_the_thresholds() {
    let of = |waits: &[(&str, Option<&str>, u64, u64, u64)]| {
        let findings = followed(waits).findings();
        findings.iter().filter(|one| one.kind() == FindingKind::WaitsFor).count()
    };
    let [a, b, nobody] = [Some("a"), Some("b"), None];
    // The least that is said; then a smaller part of all waits, fewer waits, less time.
    assert_eq!(of(&[("b", a, 3, 10, 5), ("b", nobody, 3, 90, 50)]), 1);
    assert_eq!(of(&[("b", a, 3, 10, 5), ("b", nobody, 3, 91, 50)]), 0);
    assert_eq!(of(&[("b", a, 2, 10, 5), ("b", nobody, 3, 90, 50)]), 0);
    assert_eq!(of(&[("b", a, 3, 9, 5), ("b", nobody, 3, 9, 5)]), 0);
    // Waits of two queues for themselves, waits that no span ended, and none.
    assert_eq!(of(&[("a", a, 100, 9_000, 300), ("b", b, 100, 9_000, 300)]), 2);
    assert_eq!(of(&[("a", nobody, 100, 9_000, 300), ("b", nobody, 100, 9_000, 300)]), 0);
    assert_eq!(of(&[]), 0);
}

proptest! {
    #[test]
    fn findings_lead_to_their_phases(run in any_run()) {
        let phases = Phases::of(&run);
        for finding in run.findings() {
            if let Some(of) = finding.of_ns {
                prop_assert!(finding.at_stake_ns <= of, "{:?}", finding);
            }
            prop_assert_eq!(finding.node.is_some(), !finding.span.is_empty());
            if let Some(phase) = finding.node.map(|index| &phases.all()[index]) {
                prop_assert_eq!(finding.span.len(), phase.depth + 1);
                prop_assert_eq!(finding.span.last().map(String::as_str), Some(phase.node.name.as_str()));
            }
        }
    }

    /// The report names the first of each kind that it compares.
    #[test]
    fn the_report_prints_what_is_found(run in any_run()) {
        let (findings, mut text) = (run.findings(), Vec::new());
        let options = RenderOptions::default().width(1_000).notes(usize::MAX);
        run.render(&[Report::Tree], &options, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for finding in findings.iter().filter(|finding| finding.kind().lead().is_empty()) {
            let is_printed = match finding.kind() {
                FindingKind::OneLongCall => text.contains(&finding.sentence) || text.contains("phases more"),
                _ => text.contains(&finding.sentence),
            };
            prop_assert!(is_printed, "{:?} in {}", finding, text);
        }
        for kind in FindingKind::ALL.iter().filter(|kind| !kind.lead().is_empty()) {
            let found = findings.iter().any(|finding| finding.kind() == *kind);
            prop_assert_eq!(found, text.contains(kind.lead().trim_start_matches("GPU: ")), "{}", text);
        }
    }
}

/// The JSON of a run, and the bytes of its findings.
#[cfg(feature = "json")]
fn written(run: &Summary) -> (serde_json::Value, usize) {
    let mut out = Vec::new();
    run.write_json(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let (_, findings) = text.split_once(r#","findings":"#).unwrap();
    (serde_json::from_str(&text).unwrap(), findings.len())
}

#[cfg(feature = "json")]
#[test]
fn json_has_the_most_costly_findings_and_counts_the_others() {
    let many: Vec<TreeNode> = (0..40)
        .map(|i| {
            let mut slow = leaf(&format!("phase {i} {}", "long ".repeat(50)), 10, (100 + i) * MS);
            slow.max_ns = (90 + i) * MS;
            slow.longest = Some(LongestInstance { ns: slow.max_ns, is_first: true, of: 10, ..Default::default() });
            slow
        })
        .collect();
    let run = summary(many);
    let (json, size) = written(&run);
    let (all, kept) = (run.findings(), json["findings"].as_array().unwrap());
    assert!(size <= 2_048 && size > 1_500, "{size} bytes");
    assert_eq!(kept.len() + json["findings_left_out"].as_u64().unwrap() as usize, all.len());
    let first = &kept[0];
    assert_eq!(first["kind"], all[0].kind().name());
    assert_eq!(first["at_stake_ns"], all[0].at_stake_ns);
    assert_eq!(first["evidence"]["longest_ns"], 129 * MS);
    let name = first["span"][0].as_str().unwrap();
    assert!(name.starts_with("phase 39 long") && name.chars().count() == 40, "{name}");
}

/// Findings that stand in a file are not trusted.
#[cfg(feature = "json")]
#[test]
fn findings_of_a_file_are_concluded_anew() {
    let run = summary(vec![leaf("step", 10, MS)]);
    let (mut json, _) = written(&run);
    let read = |json: &serde_json::Value| Summary::read_json(json.to_string().as_bytes()).unwrap();
    json["findings"] = serde_json::json!([{"kind": "a later one"}, 7]);
    assert_eq!((read(&json), read(&json).findings()), (run.clone(), run.findings()));
    let fields = json.as_object_mut().unwrap();
    fields.remove("findings").and_then(|_| fields.remove("findings_left_out")).unwrap();
    assert_eq!(read(&json).findings(), run.findings(), "a file of an older version");
}

#[cfg(feature = "json")]
proptest! {
    #[test]
    fn findings_take_few_bytes(run in any_run()) {
        let (_, size) = written(&run);
        prop_assert!(size <= 2_048, "{} bytes", size);
    }
}
