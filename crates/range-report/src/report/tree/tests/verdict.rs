//! The sentences below the tree.

use super::*;
use range_model::summary::ThreadStats;
use range_model::{Losses, OpenRange, RangeStats, RangeStyle, Times};

/// The text below the table.
fn said(summary: &Summary, width: usize) -> String {
    let text = tree(summary, &RenderOptions::default().width(width));
    let (_, below) = text.rsplit_once("\n\n ").unwrap_or_default();
    format!(" {}", below.trim_end_matches('\n'))
}

pub(super) fn lifetime(name: &str, durations: &[u64]) -> RangeStats {
    let (instances, total_ns) = (durations.len() as u64, durations.iter().sum());
    let times = Times { instances, total_ns, ..Times::default() };
    RangeStats { domain: None, name: name.to_owned(), style: RangeStyle::StartEnd, times }
}

fn polled(name: &str, calls: u64, own_ns: u64) -> TreeNode {
    TreeNode { instances: 5 * calls, ..node(name, calls, own_ns, own_ns, vec![]) }
}

#[test]
fn polled_phases_are_marked_and_lifetimes_answer() {
    let mut summary = summary(vec![node("step", 1, 10_200, 10_200, vec![]), polled("request", 20, 2_000)]);
    let without = "
 >> most time of its own: step 10.20 us (83.6%), request 2.000 us (16.4%)
 &  entered several times: no futures, not ended, or counted in another row";
    assert_eq!(said(&summary, 80), without[1..]);
    summary.ranges = vec![
        lifetime("request", &[133_000_000, 135_000_000]),
        lifetime("step", &[500_000_000]),
        lifetime("open", &[]),
        RangeStats { style: RangeStyle::PushPop, ..lifetime("request", &[900_000_000]) },
    ];
    let with = format!("{without}\n    longest lifetimes: request 134.0 ms (mean of 2)");
    assert_eq!(said(&summary, 80), with[1..]);
    // A name is cut only if the line is full.
    assert!(
        said(&summary, 60).ends_with("\n    longest lifetimes: request 134.0 ms (mean of 2)"),
        "{}",
        said(&summary, 60)
    );
    // A span that is never entered itself stands for those inside it.
    let mut never_entered = summary.clone();
    never_entered.tree.push(TreeNode { instances: 0, ..node("whole", 1, 0, 0, vec![]) });
    never_entered.ranges.push(lifetime("whole", &[600_000_000]));
    let answer = "\n    longest lifetimes: whole 600.0 ms (mean of 1), request 134.0 ms (mean of 2)";
    assert!(said(&never_entered, 80).contains(answer), "{}", said(&never_entered, 80));
    // The longest first.
    for (name, ns) in [("a", 7_000_000), ("b", 700_000_000), ("c", 70_000_000)] {
        summary.tree.push(polled(name, 1, 1_000));
        summary.ranges.push(lifetime(name, &[ns]));
    }
    let longest = "\n    longest lifetimes: b 700.0 ms (mean of 1), request 134.0 ms (mean of 2),\n                       c 70.00 ms (mean of 1)";
    assert!(said(&summary, 80).ends_with(longest), "{}", said(&summary, 80));
    assert!(said(&summary, 200).ends_with("(mean of 2), c 70.00 ms (mean of 1)"), "{}", said(&summary, 200));
}

/// Instances are dropped in favour of other columns.
#[test]
fn polled_phases_are_marked_where_instances_are_not_shown() {
    let mut request = polled("request", 20, 2_000);
    (request.stream_total_ns, request.stream_self_ns) = (Some(500), Some(500));
    let text =
        tree(&summary(vec![request, node("step", 3, 9_000, 9_000, vec![])]), &RenderOptions::default().width(70));
    assert!(!text.contains("Inst.") && text.contains("  20&  request"), "{text}");
    assert!(text.contains("   3   step"), "{text}");
    assert!(text.contains("\n &  entered several times"), "{text}");
}

/// One span of 10 ms in half a second must not appear as 100 %.
#[test]
fn shares_are_put_beside_the_wall_time() {
    let mut tiny = summary(vec![node("tiny", 1, 10_200_000, 10_200_000, vec![])]);
    tiny.elapsed_ns = 515_000_000;
    let expected = "
 >> most time of its own: tiny 10.20 ms (100.0%)
    100% is 10.20 ms in spans, on all threads, in 515.0 ms of wall time";
    assert_eq!(said(&tiny, 80), expected[1..]);
    // Nothing is a part of no time.
    (tiny.tree[0].total_ns, tiny.tree[0].self_ns) = (0, 0);
    assert!(!tree(&tiny, &RenderOptions::default()).contains("wall time"));
}

#[test]
fn time_in_no_span_is_said_where_it_matters() {
    let mut phases = summary(vec![node("load", 1, 330_000_000, 330_000_000, vec![])]);
    phases.elapsed_ns = 1_000_000_000;
    phases.threads = vec![ThreadStats::new(330_000_000)];
    let wall = |summary: &Summary| said(summary, 200).lines().nth(1).unwrap().trim().to_owned();
    let known = "100% is 330.0 ms in spans, on all threads, in 1.000 s of wall time";
    assert_eq!(wall(&phases), known, "a span is open still, or the summary is one of an older version");
    phases.outside_ns = Some(670_000_000);
    assert_eq!(wall(&phases), format!("{known}, 67.0% of which is in no span"));
    let command = RenderOptions::default().width(200).of_command(true);
    assert!(tree(&phases, &command).contains("67.0% of which is in no range\n"));
    // With several threads it is a bound.
    phases.threads.push(ThreadStats::new(0));
    assert_eq!(wall(&phases), format!("{known}, at least 67.0% of which is in no span"));
    phases.outside_ns = Some(100_000_000);
    assert_eq!(wall(&phases), format!("{known}, at least 10.0% of which is in no span"));
    phases.outside_ns = Some(99_999_999);
    assert_eq!(wall(&phases), known, "too little to matter");
}

/// For example spans with a number in their names.
#[test]
fn time_in_many_small_phases_is_told_beside_the_slowest() {
    let request = |i: u32| node(&format!("request {i}"), 1, 310, 310, vec![]);
    let mut requests = summary((0..2_000).map(request).chain([node("load", 1, 380_000, 380_000, vec![])]).collect());
    let expected = "
 >> most time of its own: load 380.0 us (38.0%)
    but 62.0% is in 2,000 phases under 0.1 % each: to sum them, give them one
    name and put what differs into nvtx.payload, or give them one nvtx.category";
    assert_eq!(said(&requests, 80), expected[1..]);
    // No phase is large enough to be named.
    let load = requests.tree.pop();
    let expected = "
 >> 100.0% is in 2,000 phases under 0.1 % each: to sum them, give them one name
    and put what differs into nvtx.payload, or give them one nvtx.category";
    assert_eq!(said(&requests, 80), expected[1..]);
    // Small phases in several lines, with the phases below, count together.
    let all = std::mem::take(&mut requests.tree);
    for requests_of_one in all.chunks(100) {
        let within = vec![node("within", 1, 310, 0, requests_of_one.to_vec())];
        requests.tree.push(node("worker", 1, 31_000, 0, within));
    }
    requests.tree.extend(load);
    assert!(said(&requests, 80).contains("\n    but 62.0% is in 2,020 phases"), "{}", said(&requests, 80));
    // A few are not.
    requests.tree.truncate(10);
    requests.tree.push(node("load", 1, 380_000, 380_000, vec![]));
    assert!(!said(&requests, 80).contains("under"), "{}", said(&requests, 80));
}

#[test]
fn equal_names_are_told_apart_by_where_they_are() {
    let block = |ns: u64| node("block", 20, ns, ns, vec![]);
    let stage = |name: &str, ns: u64| node(name, 10, ns, 0, vec![block(ns)]);
    let stages = vec![stage("stage1", 500), stage("stage2", 300), node("head", 1, 200, 200, vec![])];
    let network = summary(vec![node("run", 1, 1_000, 0, stages)]);
    let expected = " >> most time of its own: stage1 > block 500 ns (50.0%), stage2 > block 300 ns (30.0%)";
    assert_eq!(said(&network, 90), format!("{expected},\n                          head 200 ns (20.0%)"));
    let expected_at_80 = expected.replace(", ", ",\n                          ") + ", head 200 ns (20.0%)";
    assert_eq!(said(&network, 80), expected_at_80);
    assert_eq!(said(&network, 200), format!("{expected}, head 200 ns (20.0%)"));
    // The nearest ancestor that differs from those of all others; even one whose name is not in the line.
    let within = |name: &str, ns: u64| node(name, 1, ns, 0, vec![stage("stage", ns)]);
    let twice = summary(vec![within("warm up", 500), within("run", 300), stage("head", 200)]);
    let expected = " >> most time of its own: warm up > … > block 500 ns (50.0%), run > … > block 300 ns (30.0%), \
                    head > block 200 ns (20.0%)";
    assert_eq!(said(&twice, 200), expected);
    let one = summary(vec![stage("stage1", 99_999), stage("stage2", 1)]);
    assert_eq!(said(&one, 80), " >> most time of its own: stage1 > block 100.0 us (100.0%)");
    // A phase inside itself.
    let inner = node("walk", 1, 300, 300, vec![]);
    let deep = summary(vec![node("walk", 1, 1_000, 700, vec![inner])]);
    let expected = " >> most time of its own: walk 700 ns (70.0%), walk > walk 300 ns (30.0%)";
    assert_eq!(said(&deep, 80), expected);
    // Both names are shortened.
    let long = "a name that is too long for the line";
    let long = |name: &str, ns: u64| node(&format!("{name} {long}"), 1, ns, 0, vec![node(long, 1, ns, ns, vec![])]);
    let long = summary(vec![long("a", 700), long("b", 300)]);
    let expected = "
 >> most time of its own: a a n…e line > a name that…or the line 700 ns (70.0%),
                          b a n…e line > a name that…or the line 300 ns (30.0%)";
    assert_eq!(said(&long, 80), expected[1..]);
}

/// This happens after a signal: running spans have not ended, and so have no time.
#[test]
fn children_of_what_is_open_are_longer_than_their_parent() {
    let mut open = summary(vec![node("run", 1, 0, 0, vec![node("step", 3, 300, 300, vec![])])]);
    assert!(
        said(&open, 80).ends_with("they ran on other\n    threads, after it, or in each other"),
        "{}",
        said(&open, 80)
    );
    let (label, thread) = ("run".to_owned(), "main".to_owned());
    let range = OpenRange { label, thread, style: RangeStyle::PushPop, cut: false, count: 1 };
    open.losses = Losses { open: vec![range], ..Losses::default() };
    let expected = "
 >> most time of its own: step 300 ns (100.0%)
 *  these phases together took longer than their parent: they ran on other
    threads, after it, or in each other; or their parent is still open";
    assert_eq!(said(&open, 80), expected[1..]);
    // Ranges that were cut and counted are no reason, nor are lifetimes.
    open.losses.open[0].cut = true;
    assert!(!said(&open, 80).contains("open"));
    open.losses.open[0].cut = false;
    open.losses.open[0].style = RangeStyle::StartEnd;
    assert!(!said(&open, 80).contains("open"));
}

/// Futures and kept spans have different marks.
#[test]
fn polls_are_told_from_spans_that_are_entered_again() {
    let mut future = polled("future", 20, 2_000);
    (future.awaited_ns, future.awaited_self_ns) = (Some(1_000), Some(1_000));
    let text = tree(&summary(vec![future, polled("kept", 3, 9_000)]), &RenderOptions::default());
    assert!(text.contains(" 20+ ") && text.contains("  3& "), "{text}");
    assert!(text.contains("\n +  one instance per poll") && text.contains("\n &  entered several times"), "{text}");
}

/// A share is a share of the time inside the parent.
#[test]
fn what_ran_elsewhere_has_no_share() {
    let child = |name, total_ns| node(name, 1, total_ns, total_ns, vec![]);
    let all = summary(vec![node("parent", 1, 1_000, 400, vec![child("inside", 600), child("elsewhere", 900)])]);
    let text = tree(&all, &RenderOptions::default());
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(line("inside").contains(" 60.0%* ") && line("elsewhere").contains(" -* "), "{text}");
}
