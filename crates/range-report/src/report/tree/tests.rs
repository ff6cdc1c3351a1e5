mod any_tree;
mod culprits;
mod verdict;
mod waiting;

use super::*;
use crate::{Report, SummaryExt as _};
use range_model::{CapturedWork, GpuWork, GraphWork, MemoryKind, NodeWork, Quantile, TreeNode};

fn node(name: &str, calls: u64, total_ns: u64, self_ns: u64, children: Vec<TreeNode>) -> TreeNode {
    TreeNode { name: name.to_owned(), calls, instances: calls, total_ns, self_ns, children, ..TreeNode::default() }
}

fn summary(tree: Vec<TreeNode>) -> Summary {
    Summary { tree, ..Summary::default() }
}

fn phases() -> Summary {
    let mut poll = node("poll", 2, 40_000_000, 40_000_000, vec![]);
    poll.instances = 1_431;
    summary(vec![
        node(
            "Load Module",
            1,
            349_880_374,
            1_880_374,
            vec![
                node("read", 3, 240_000_000, 240_000_000, vec![]),
                node(
                    "decode",
                    152,
                    108_000_000,
                    107_900_000,
                    vec![node("check", 152, 80_000, 80_000, vec![]), node("align", 152, 20_000, 20_000, vec![])],
                ),
            ],
        ),
        node("Module running", 0, 30_000_000, 30_000_000, vec![poll]),
    ])
}

#[test]
fn at_80_columns() {
    let text = tree(&phases(), &RenderOptions::default().width(80));
    let expected = "
 ** Phase Tree (tree):

      Total      Self  Of par  Calls  Avg/Call  Inst.  Phase
   --------  --------  ------  -----  --------  -----  ------------------------
 > 349.9 ms  1.880 ms  83.3%      1   349.9 ms      1  Load Module
>> 240.0 ms  240.0 ms  68.6%      3   80.00 ms      3    read
   108.0 ms  107.9 ms  30.9%    152   710.5 us    152    decode
   100.0 us  100.0 us   0.1%    304               304      (2 more under 0.1 %)
   30.00 ms  30.00 ms   7.1%      0       -         0  Module running
   40.00 ms  40.00 ms      -*     2&  20.00 ms  1,431    poll

 >> most time of its own: read 240.0 ms (57.2%), decode 107.9 ms (25.7%),
                          poll 40.00 ms (9.5%)
 &  entered several times: no futures, not ended, or counted in another row
 *  these phases together took longer than their parent: they ran on other
    threads, after it, or in each other

";
    assert_eq!(text, expected);
}

/// Advice stands before the legend of the marks; without a tree it stands among the notes.
#[test]
fn advice_stands_right_below_the_verdict() {
    let mut advised = phases();
    advised.advice =
        vec!["`system`: field `name` has 16 values in one row. TRACING_GPU=name_from=name splits\nit.".into()];
    let text = |reports: &[Report]| {
        let mut out = Vec::new();
        advised.render(reports, &RenderOptions::default().width(80), &mut out).expect("memory takes it");
        String::from_utf8(out).expect("text")
    };
    let (with_tree, without) = (text(&[Report::Tree, Report::Ranges]), text(&[Report::Ranges]));
    let advice =
        "\n -> `system`: field `name` has 16 values in one row. TRACING_GPU=name_from=name\n    splits\\nit.\n";
    let (above, below) = with_tree.split_once(advice).unwrap_or_else(|| panic!("{with_tree}"));
    assert!(above.contains("\n >> ") && !above.contains("\n &  ") && below.contains(" &  "), "{with_tree}");
    assert!(!below.contains("`system`"), "{below}");
    assert!(without.contains(" ** Notes:\n\n - `system`: field `name` has 16 values in one row."), "{without}");
}

/// A span that is entered twice at once is in its own row twice.
#[test]
fn a_root_that_is_longer_than_everything_is_marked() {
    let twice = summary(vec![node("twice", 1, 190_000_000, 100_000_000, vec![])]);
    let text = tree(&twice, &RenderOptions::default().width(80));
    assert!(text.contains(" -* ") && text.contains("\n *  these phases together took"), "{text}");
    // A root that runs inside another root is not marked, and rounding marks none.
    let in_each_other = summary(vec![
        node("outer", 1, 100_000_001, 40_000_000, vec![]),
        node("without a parent", 1, 60_000_000, 60_000_000, vec![]),
    ]);
    let text = tree(&in_each_other, &RenderOptions::default().width(80));
    assert!(text.contains("100.0%") && !text.contains("%*") && !text.contains("\n * "), "{text}");
}

#[test]
fn a_wide_one_has_bars() {
    let text = tree(&phases(), &RenderOptions::default().width(140));
    let bars: Vec<&str> =
        text.lines().filter_map(|line| line.split_once('%')?.1.rsplit_once("  ")).map(|x| x.1).collect();
    assert!(text.contains("Self, of all"), "{text}");
    assert!(text.lines().any(|line| line.starts_with(">>") && line.ends_with("57.2% #################")), "{text}");
    assert!(bars.iter().all(|bar| bar.is_ascii()));
}

/// A network whose layers are launched at once and waited for at the end, and host phases without a stream.
fn layers() -> Summary {
    let timed = |mut node: TreeNode, total_ns: u64, self_ns: u64| {
        (node.stream_total_ns, node.stream_self_ns) = (Some(total_ns), Some(self_ns));
        node
    };
    let launched = |name: &str, host_ns: u64, stream_ns: u64| {
        timed(node(name, 100, host_ns, host_ns, vec![]), stream_ns, stream_ns)
    };
    let running = vec![
        launched("conv1", 400_000, 3_100_000),
        launched("conv2", 40_000, 12_300_000),
        launched("relu", 30_000, 9_000),
        launched("flatten", 20_000, 8_000),
        node("wait", 100, 18_000_000, 18_000_000, vec![]),
    ];
    summary(vec![
        node("Load Module", 1, 30_000_000, 30_000_000, vec![]),
        timed(node("Module running", 100, 20_000_000, 1_510_000, running), 17_325_000, 1_908_000),
    ])
}

#[test]
fn stream_times_at_80_columns() {
    let expected = "
 ** Phase Tree (tree):

      Total      Self  GPU tot.  GPU self  Of par  Calls  Phase
   --------  --------  --------  --------  ------  -----  ----------------------
>> 30.00 ms  30.00 ms      -         -      60.0%      1  Load Module
   20.00 ms  1.510 ms  17.33 ms  1.908 ms   40.0%    100  Module running
   400.0 us  400.0 us  3.100 ms  3.100 ms    2.0%    100    conv1
   40.00 us  40.00 us  12.30 ms  12.30 ms    0.2%    100    conv2
   18.00 ms  18.00 ms      -         -      90.0%    100    wait
   50.00 us  50.00 us  17.00 us  17.00 us    0.3%    200    (2 more under 0.1 %)
 Columns left out: Instances, Avg/Call.

 >> most time of its own: Load Module 30.00 ms (60.0%), wait 18.00 ms (36.0%)
 GPU: most stream time of its own: conv2 12.30 ms (71.0%),
                                   conv1 3.100 ms (17.9%),
                                   Module running 1.908 ms (11.0%)

";
    assert_eq!(tree(&layers(), &RenderOptions::default().width(80)), expected);
}

#[test]
fn stream_times_at_200_columns() {
    let expected = "
 ** Phase Tree (tree):

      Total      Self  GPU total  GPU self  Of parent  Calls  Avg/Call  Instances  Phase                   Self, of all
   --------  --------  ---------  --------  ---------  -----  --------  ---------  ----------------------  -------------------------------------
>> 30.00 ms  30.00 ms       -         -         60.0%      1  30.00 ms          1  Load Module              60.0% ##################
   20.00 ms  1.510 ms   17.33 ms  1.908 ms      40.0%    100  200.0 us        100  Module running            3.0% #
   400.0 us  400.0 us   3.100 ms  3.100 ms       2.0%    100  4.000 us        100    conv1                   0.8%
   40.00 us  40.00 us   12.30 ms  12.30 ms       0.2%    100    400 ns        100    conv2                   0.1%
   18.00 ms  18.00 ms       -         -         90.0%    100  180.0 us        100    wait                   36.0% ###########
   50.00 us  50.00 us   17.00 us  17.00 us       0.3%    200                  200    (2 more under 0.1 %)    0.1%

 >> most time of its own: Load Module 30.00 ms (60.0%), wait 18.00 ms (36.0%)
 GPU: most stream time of its own: conv2 12.30 ms (71.0%), conv1 3.100 ms (17.9%), Module running 1.908 ms (11.0%)

";
    assert_eq!(tree(&layers(), &RenderOptions::default().width(200)), expected);
}

#[test]
fn stream_times_at_100_columns() {
    let expected = "
 ** Phase Tree (tree):

      Total      Self  GPU total  GPU self  Of parent  Calls  Avg/Call  Phase
   --------  --------  ---------  --------  ---------  -----  --------  ----------------------
>> 30.00 ms  30.00 ms       -         -         60.0%      1  30.00 ms  Load Module
   20.00 ms  1.510 ms   17.33 ms  1.908 ms      40.0%    100  200.0 us  Module running
   400.0 us  400.0 us   3.100 ms  3.100 ms       2.0%    100  4.000 us    conv1
   40.00 us  40.00 us   12.30 ms  12.30 ms       0.2%    100    400 ns    conv2
   18.00 ms  18.00 ms       -         -         90.0%    100  180.0 us    wait
   50.00 us  50.00 us   17.00 us  17.00 us       0.3%    200              (2 more under 0.1 %)
 Columns left out: Instances.

 >> most time of its own: Load Module 30.00 ms (60.0%), wait 18.00 ms (36.0%)
 GPU: most stream time of its own: conv2 12.30 ms (71.0%), conv1 3.100 ms (17.9%),
                                   Module running 1.908 ms (11.0%)

";
    assert_eq!(tree(&layers(), &RenderOptions::default().width(100)), expected);
}

/// The same network as CUPTI records it, with an input that is copied and a kernel that no span launched.
fn recorded(mut of_streams: Summary) -> Summary {
    let work = |operations, busy_ns| GpuWork { operations, sum_ns: busy_ns, busy_ns, ..GpuWork::default() };
    let launch = |node: &mut TreeNode, own: [u64; 2], total: [u64; 2]| {
        let (own, total) = (work(own[0], own[1]), work(total[0], total[1]));
        node.gpu = Some(NodeWork { own, total, calls: vec![], ..NodeWork::default() });
    };
    launch(&mut of_streams.tree[0], [2, 500_000], [2, 500_000]);
    launch(&mut of_streams.tree[1], [0, 0], [400, 14_900_000]);
    for (index, busy_ns) in [2_900_000, 12_000_000, 8_000, 7_000, 0].into_iter().enumerate() {
        let operations = u64::from(busy_ns > 0) * 100;
        launch(&mut of_streams.tree[1].children[index], [operations, busy_ns], [operations, busy_ns]);
    }
    let copied = |kind, operations, sum_ns, bytes| MemoryWork { kind, operations, sum_ns, bytes };
    let mut gpu = GpuActivity { outside: work(3, 1_100_000), total: work(405, 16_000_000), ..GpuActivity::default() };
    gpu.total.memory = vec![
        copied(MemoryKind::HtoD, 1_234, 5_305_313, 67_108_864),
        copied(MemoryKind::DtoH, 1, 1_000, 585),
        copied(MemoryKind::PtoP, 0, 0, 0),
        copied(MemoryKind::Set, 2, 0, 4_096),
    ];
    of_streams.gpu = Some(gpu);
    of_streams
}

fn without_streams(mut summary: Summary) -> Summary {
    summary.tree.iter_mut().for_each(forget_streams);
    summary
}

#[test]
fn busy_times_at_80_columns() {
    let expected = "
 ** Phase Tree (tree):

      Total      Self  GPU busy  Busy own  Of par  Calls  Phase
   --------  --------  --------  --------  ------  -----  ----------------------
>> 30.00 ms  30.00 ms  500.0 us  500.0 us   60.0%      1  Load Module
   20.00 ms  1.510 ms  14.90 ms      -      40.0%    100  Module running
   400.0 us  400.0 us  2.900 ms  2.900 ms    2.0%    100    conv1
 G 40.00 us  40.00 us  12.00 ms  12.00 ms    0.2%    100    conv2
   18.00 ms  18.00 ms      -         -      90.0%    100    wait
   50.00 us  50.00 us  15.00 us  15.00 us    0.3%    200    (2 more under 0.1 %)
                       1.100 ms  1.100 ms                 (outside any range)
 Columns left out: Instances, Avg/Call.

 >> most time of its own: Load Module 30.00 ms (60.0%), wait 18.00 ms (36.0%)
 G  most busy time of its own: conv2 12.00 ms (75.0%), conv1 2.900 ms (18.1%)
 GPU busy counts work that overlaps once: children may add up to more
 copied HtoD  67.11 MB in 5.305 ms   12.6 GB/s  (1,234 copies)
 copied DtoH     585 B in 1.000 us  0.585 GB/s  (1 copy)
 set          4.096 KB in     0 ns      - GB/s  (2 sets)

";
    assert_eq!(tree(&recorded(without_streams(layers())), &RenderOptions::default().width(80)), expected);
}

#[test]
fn the_row_of_a_helper_thread_has_no_times_of_the_host() {
    let mut backward = node("backward", 40, 113_700_000, 113_700_000, vec![node("[thread pt]", 0, 0, 0, vec![])]);
    let work = |operations| GpuWork::new(operations, 44_110_000, 44_110_000);
    backward.gpu = Some(NodeWork::new(GpuWork::default(), work(1_040)));
    backward.children[0].gpu = Some(NodeWork::new(work(1_040), work(1_040)));
    let mut summary = summary(vec![backward]);
    summary.gpu = Some(range_model::GpuActivity::default());
    let text = tree(&summary, &RenderOptions::default().width(100));
    let row = " G                     44.11 ms   44.11 ms                                           [thread pt]\n";
    assert!(text.contains(row), "{text}");
}

#[test]
fn busy_and_stream_times_at_200_columns() {
    let expected = "
 ** Phase Tree (tree):

      Total      Self  GPU busy  Busy self    Stream  Str. own  Of parent  Calls  Avg/Call  Instances  Phase                   Self, of all
   --------  --------  --------  ---------  --------  --------  ---------  -----  --------  ---------  ----------------------  -------------------------------------
>> 30.00 ms  30.00 ms  500.0 us   500.0 us      -         -         60.0%      1  30.00 ms          1  Load Module              60.0% ##################
   20.00 ms  1.510 ms  14.90 ms       -     17.33 ms  1.908 ms      40.0%    100  200.0 us        100  Module running            3.0% #
   400.0 us  400.0 us  2.900 ms   2.900 ms  3.100 ms  3.100 ms       2.0%    100  4.000 us        100    conv1                   0.8%
 G 40.00 us  40.00 us  12.00 ms   12.00 ms  12.30 ms  12.30 ms       0.2%    100    400 ns        100    conv2                   0.1%
   18.00 ms  18.00 ms      -          -         -         -         90.0%    100  180.0 us        100    wait                   36.0% ###########
   50.00 us  50.00 us  15.00 us   15.00 us  17.00 us  17.00 us       0.3%    200                  200    (2 more under 0.1 %)    0.1%
                       1.100 ms   1.100 ms                                                             (outside any range)

 >> most time of its own: Load Module 30.00 ms (60.0%), wait 18.00 ms (36.0%)
 G  most busy time of its own: conv2 12.00 ms (75.0%), conv1 2.900 ms (18.1%)
 GPU: most stream time of its own: conv2 12.30 ms (71.0%), conv1 3.100 ms (17.9%), Module running 1.908 ms (11.0%)
 GPU busy counts work that overlaps once: children may add up to more
 copied HtoD  67.11 MB in 5.305 ms   12.6 GB/s  (1,234 copies)
 copied DtoH     585 B in 1.000 us  0.585 GB/s  (1 copy)
 set          4.096 KB in     0 ns      - GB/s  (2 sets)

";
    assert_eq!(tree(&recorded(layers()), &RenderOptions::default().width(200)), expected);
}

/// Exact times stay; times on streams are dropped first.
#[test]
fn busy_and_stream_times_at_80_columns() {
    let narrow = tree(&recorded(layers()), &RenderOptions::default().width(80));
    let header = "      Total      Self  GPU busy  Busy own  Of par  Calls  Phase\n";
    assert!(narrow.contains(header), "{narrow}");
    assert!(narrow.contains("\n Columns left out: Instances, Avg/Call, Stream self, Stream.\n"), "{narrow}");
    assert!(narrow.contains(" G  most busy time of its own: conv2 12.00 ms (75.0%)"), "{narrow}");
    assert!(narrow.contains(" GPU: most stream time of its own: conv2 12.30 ms (71.0%),\n"), "{narrow}");
}

/// Below a phase that replays a graph, and before its children, stands what was captured.
#[test]
fn captured_work_at_80_columns() {
    let part = |path, nodes: u64, ns| CapturedWork {
        kernels: nodes - 1,
        sets: 1,
        timed: if ns > 0 { nodes } else { 0 },
        sum_ns: ns,
        ..CapturedWork::new(path)
    };
    let mut summary = recorded(without_streams(layers()));
    let captured = vec![part("encoder > attention", 3_000, 9_000_000), part("encoder", 200, 2_000_000)];
    let graphs = GraphWork { replays: 100, captured, ..GraphWork::default() };
    let running = &mut summary.tree[1];
    if let Some(gpu) = &mut running.gpu {
        gpu.graphs = graphs;
    }
    if let Some(gpu) = &mut summary.gpu {
        gpu.outside_graphs =
            GraphWork { replays: 1, whole: 1, captured: vec![part("a", 7, 0)], ..GraphWork::default() };
        gpu.total.memory.clear();
    }
    let expected = "
 ** Phase Tree (tree):

      Total      Self  GPU busy  Busy own  Of par  Calls  Phase
   --------  --------  --------  --------  ------  -----  ----------------------
>> 30.00 ms  30.00 ms  500.0 us  500.0 us   60.0%      1  Load Module
   20.00 ms  1.510 ms  14.90 ms      -      40.0%    100  Module running
                       11.00 ms  2.000 ms          3,200    [encoder]
                       9.000 ms  9.000 ms          3,000      [attention]
   400.0 us  400.0 us  2.900 ms  2.900 ms    2.0%    100    conv1
 G 40.00 us  40.00 us  12.00 ms  12.00 ms    0.2%    100    conv2
   18.00 ms  18.00 ms      -         -      90.0%    100    wait
   50.00 us  50.00 us  15.00 us  15.00 us    0.3%    200    (2 more under 0.1 %)
                       1.100 ms  1.100 ms                 (outside any range)
                           -         -                 7    [a]
 Columns left out: Instances, Avg/Call.

";
    let shown = tree(&summary, &RenderOptions::default().width(80));
    assert!(shown.starts_with(expected), "{shown}");
    let explained = "
 GPU busy counts work that overlaps once: children may add up to more
 []  a row in brackets counts the graph nodes that a span of this name captured;
     the nearest row above without brackets replays them; times are sums;
     replays recorded as a whole have no times of nodes

";
    assert!(shown.ends_with(explained), "{shown}");

    // Further columns of a run stay empty.
    summary.tree[0].quantiles = vec![Quantile { q: 0.5, ns: 7.0, exact: true }];
    let shown = tree(&summary, &RenderOptions::default().width(200));
    let place = |text| shown.lines().find_map(|line| line.find(text));
    let names = ["Phase  ", "[encoder]", "[attention]", "(outside any range)", "[a]"].map(place);
    let first = place("Phase  ").unwrap();
    assert_eq!(names, [0, 2, 4, 0, 2].map(|indent| Some(first + indent)), "{shown}");
}

/// If no phase launched work, the column of shares is missing, but work launched outside of spans is still shown.
#[test]
fn work_outside_of_any_span_has_a_row() {
    let mut summary = phases();
    summary.gpu = Some(GpuActivity::default());
    assert!(!tree(&summary, &RenderOptions::default()).contains("GPU"));
    let outside = GpuWork { operations: 1, busy_ns: 1_000, ..GpuWork::default() };
    summary.gpu = Some(GpuActivity { outside, ..GpuActivity::default() });
    let text = tree(&summary, &RenderOptions::default().width(80));
    assert!(text.contains("                       1.000 us  1.000 us                 (outside any range)\n"), "{text}");
}

#[test]
fn the_phase_that_is_slowest_on_both_has_one_mark() {
    let mut roots = vec![node("a", 1, 10, 10, vec![]), node("b", 1, 5, 5, vec![])];
    let own = GpuWork { operations: 1, busy_ns: 7, ..GpuWork::default() };
    roots[0].gpu = Some(NodeWork { total: own.clone(), own, calls: vec![], ..NodeWork::default() });
    let text = tree(&summary(roots), &RenderOptions::default());
    assert!(text.contains(">> 10 ns") && text.contains(" GPU: most busy time of its own: a 7 ns (100.0%)"), "{text}");
}

#[test]
fn empty() {
    let text = tree(&Summary::default(), &RenderOptions::default().style(crate::TableStyle::Legacy));
    assert!(text.starts_with("\nPhase Tree:\n\nNo range was recorded."));
}

#[test]
fn names_cannot_break_the_lines() {
    let odd = summary(vec![node("a\nb\u{1b}[2J", 1, 5, 5, vec![]), node("", 1, 4, 4, vec![])]);
    let text = tree(&odd, &RenderOptions::default());
    assert!(text.contains("a\\nb\\x1b[2J") && text.contains("  None"), "{text}");
    assert!(tree(&odd, &RenderOptions::default().raw_names(true)).contains("a\nb\u{1b}[2J"));
}

#[test]
fn deep_phases_say_how_deep_they_are() {
    let mut inner = node("the innermost phase of them all", 1, 1_000, 1_000, vec![]);
    for _ in 0..300 {
        inner = node("outer", 1, 1_000, 0, vec![inner]);
    }
    let text = tree(&summary(vec![inner]), &RenderOptions::default().width(80));
    let line = text.lines().find(|line| line.starts_with(">>")).unwrap();
    assert!(line.contains("+300 ") && line.ends_with("them all") && width_of(line) <= 80, "{line}");
}

/// Tables with stream times have more columns, and drop them for long names.
#[test]
fn names_that_need_it_get_the_room_of_columns() {
    let nested = |name: &str, stream_ns: Option<u64>, width, depth| {
        let mut root = node(name, 1, 5_000, 5_000, vec![]);
        (root.stream_total_ns, root.stream_self_ns) = (stream_ns, stream_ns);
        for _ in 0..depth {
            root = node("a", 1, 5_000, 0, vec![root]);
        }
        let text = tree(&summary(vec![root]), &RenderOptions::default().width(width));
        let table = text.split("\n\n").nth(1).unwrap().split("\n Columns left out").next().unwrap();
        ["GPU", "Avg/Call", "Inst", name].map(|word| table.contains(word))
    };
    let headers = |name, stream_ns, width| nested(name, stream_ns, width, 0);
    let (wide, narrow) = ("a name of 24 columns....", "a name");
    assert_eq!(headers(wide, Some(1), 110), [true, true, true, true]);
    assert_eq!(headers(wide, Some(1), 100), [true, true, false, true]);
    assert_eq!(headers(narrow, Some(1), 100), [true, true, true, true]);
    assert_eq!(headers(narrow, Some(1), 80), [true, true, false, true]);
    assert_eq!(headers("1234567890123", Some(1), 80), [true, false, false, true]);
    assert_eq!(headers("b", Some(1), 78), [true, true, false, true]);
    assert_eq!(nested("at depth", Some(1), 101, 5), [true, true, true, true]);
    assert_eq!(nested("at depth 6", Some(1), 100, 6), [true, true, false, true]);
    assert_eq!(headers(wide, None, 80), [false, true, true, true]);
    assert_eq!(headers(wide, None, 76), [false, true, true, false]);
}

#[test]
fn the_sentence_on_stream_time_is_limited_to_the_width() {
    let named = |name: &str, stream_ns: u64| TreeNode {
        stream_total_ns: Some(stream_ns),
        stream_self_ns: Some(stream_ns),
        ..node(name, 1, 1, 1, vec![])
    };
    let long = "a long name that goes on and on until it ends";
    let roots = summary(vec![named(long, 600), named("b", 390), named("c", 10)]);
    let sentence = |width| {
        let text = tree(&roots, &RenderOptions::default().width(width));
        text.lines().find(|line| line.starts_with(" GPU:")).map(str::to_owned).unwrap()
    };
    assert_eq!(sentence(60), " GPU: most stream time of its own: a lo…ends 600 ns (60.0%),");
    assert_eq!(sentence(80), " GPU: most stream time of its own: a long name th… until it ends 600 ns (60.0%),");
    assert_eq!(
        sentence(140),
        " GPU: most stream time of its own: a long name that go…and on until it ends 600 ns (60.0%), b 390 ns (39.0%)"
    );
}

/// Without any stream time, the report does not mention streams.
#[test]
fn no_word_of_streams_without_stream_time() {
    assert!(!tree(&phases(), &RenderOptions::default().width(200)).contains("GPU"));
    let mut timed = phases();
    timed.tree[1].children[0].stream_total_ns = Some(0);
    let text = tree(&timed, &RenderOptions::default().width(200));
    assert!(text.contains("GPU total  GPU self") && !text.contains("GPU: most"), "{text}");
}

fn forget_streams(node: &mut TreeNode) {
    (node.stream_total_ns, node.stream_self_ns) = (None, None);
    node.children.iter_mut().for_each(forget_streams);
}

/// The largest phases get the rows, each below its parent.
#[test]
fn phases_without_a_row_are_summed_up() {
    let layers = (1..=50).map(|layer| {
        let ns = layer * 1_000_000;
        node(&format!("layer {layer}"), 2, ns, ns, vec![])
    });
    let layers: Vec<TreeNode> = layers.collect();
    let total = layers.iter().map(|layer| layer.total_ns).sum();
    let summary = summary(vec![node("forward", 1, total, 0, layers)]);
    let printed = |options: RenderOptions| -> Vec<String> {
        let text = tree(&summary, &options.width(90));
        let phases =
            text.lines().filter(|line| line.contains("layer ") || line.contains("forward") || line.contains("more"));
        phases.take_while(|line| !line.contains(">> most")).map(str::to_owned).collect()
    };
    let lines = printed(RenderOptions::default());
    assert_eq!(lines.len(), 31, "{lines:#?}");
    assert!(lines[1].contains("layer 22 ") || lines[1].contains("layer 22"), "{}", lines[1]);
    // 1 to 21 make 231 of 1,275 ms.
    let rest = lines.last().unwrap();
    assert!(rest.contains("231.0 ms") && rest.contains("18.1%") && rest.contains("(21 more)"), "{rest}");
    assert_eq!(printed(RenderOptions::default().rows(usize::MAX)).len(), 51);
}
