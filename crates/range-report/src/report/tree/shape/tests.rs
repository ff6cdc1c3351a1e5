use super::*;
use crate::SummaryExt as _;
use crate::analysis::FindingKind;
use range_model::Summary;

fn node(name: &str, total_ns: u64, self_ns: u64, children: Vec<TreeNode>) -> TreeNode {
    TreeNode { name: name.to_owned(), calls: 1, instances: 1, total_ns, self_ns, children, ..TreeNode::default() }
}

fn leaf(name: &str, ns: u64) -> TreeNode {
    node(name, ns, ns, vec![])
}

fn run(roots: &[TreeNode]) -> Summary {
    Summary { tree: roots.to_vec(), ..Summary::default() }
}

fn entries(phases: &Phases) -> Vec<Entry> {
    Shape::of(phases, usize::MAX).entries()
}

/// Name, depth, mark and number of folded siblings of each line.
fn lines(roots: &[TreeNode]) -> Vec<(String, usize, Mark, usize)> {
    let run = run(roots);
    let phases = Phases::of(&run);
    let name = |entry: &Entry| phases.all()[entry.index].node.name.clone();
    let line = |entry: &Entry| (name(entry), entry.depth, entry.mark, entry.folded);
    entries(&phases).iter().map(line).collect()
}

#[test]
fn the_way_to_the_slowest_phase_is_marked() {
    let roots = [
        leaf("init", 10_000),
        node("run", 90_000, 1_000, vec![leaf("a", 29_000), node("b", 60_000, 40_000, vec![leaf("c", 20_000)])]),
    ];
    let expected = [
        ("init", 0, Mark::None),
        ("run", 0, Mark::Way),
        ("a", 1, Mark::None),
        ("b", 1, Mark::Slowest),
        ("c", 2, Mark::None),
    ];
    assert_eq!(lines(&roots), expected.map(|(name, depth, mark)| (name.to_owned(), depth, mark, 0)));
}

/// Ranges that are still open have no time of their own, and what they hold does.
#[test]
fn a_line_for_open_ranges_has_the_time_of_what_ended_in_them() {
    let open = |name: &str, children| TreeNode { instances: 0, ..node(name, 0, 0, children) };
    let run = run(&[leaf("hot", 100_000), open("a", vec![open("b", vec![open("c", vec![leaf("flush", 25_000)])])])]);
    let phases = Phases::of(&run);
    let entries = Shape::of(&phases, 3).entries();
    let last = entries.last().expect("a line");
    assert_eq!((entries.len(), last.folded, last.figures.total_ns, last.figures.self_ns), (4, 1, 25_000, 25_000));
}

#[test]
fn siblings_below_the_bound_share_a_line() {
    let small = |name: &str| node(name, 99, 49, vec![leaf("inner", 50)]);
    let roots = [node("run", 100_000, 99_603, vec![small("a"), leaf("big", 100), small("b"), leaf("c", 99)])];
    let run = run(&roots);
    let entries = entries(&Phases::of(&run));
    assert_eq!(lines(&roots)[1], ("big".to_owned(), 1, Mark::None, 0));
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[2].folded, 3);
    assert_eq!(
        entries[2].figures,
        Figures { total_ns: 297, self_ns: 297, calls: 3, instances: 3, ..Figures::default() }
    );
}

#[test]
fn a_single_small_leaf_keeps_its_name() {
    let roots = [leaf("load", 1_000_000), leaf("set", 10)];
    assert_eq!(lines(&roots)[1].0, "set");
    assert_eq!(lines(&roots)[1].3, 0);
}

#[test]
fn stream_time_keeps_a_name_and_is_folded_with_it() {
    let on_stream = |name: &str, ns: u64, stream_ns: u64| {
        let stream_ns = Some(stream_ns);
        TreeNode { stream_total_ns: stream_ns, stream_self_ns: stream_ns, ..leaf(name, ns) }
    };
    let parent = TreeNode {
        stream_total_ns: Some(90),
        stream_self_ns: Some(40),
        ..node("parent", 10, 5, vec![on_stream("child", 5, 50)])
    };
    let launch = node("launch", 10, 5, vec![on_stream("kernel", 5, 99_600)]);
    let children =
        vec![parent, on_stream("at the bound", 10, 100), launch, on_stream("below", 10, 99), leaf("host", 10)];
    let roots = [node("run", 100_000, 99_950, children), on_stream("rest", 1_000, 111)];
    let run = run(&roots);
    let phases = Phases::of(&run);
    assert_eq!(phases.gpu_whole(Way::Stream), Some(100_000));
    let names: Vec<String> = lines(&roots).into_iter().map(|line| line.0).collect();
    assert_eq!(names, ["run", "at the bound", "launch", "kernel", "parent", "rest"]);
    let entries = entries(&phases);
    let stream = |index: usize| {
        let OnGpu { total_ns, self_ns } = entries[index].figures.on_gpu(Way::Stream);
        (total_ns, self_ns)
    };
    assert_eq!(entries[4].folded, 3);
    assert_eq!(stream(4), (Some(189), Some(189)));
    assert_eq!(stream(0), (None, None));
    let findings = run.findings();
    let most = findings.iter().filter(|finding| finding.kind() == FindingKind::MostStreamTime);
    let most: Vec<&str> = most.filter_map(|finding| finding.span.last()).map(String::as_str).collect();
    assert_eq!(most, ["kernel"], "the others are small beside it");
}

/// If every stream time is 0 or absent, only time decides.
#[test]
fn no_stream_time_keeps_nothing() {
    let mut roots = [node("run", 100_000, 99_980, vec![leaf("a", 10), leaf("b", 10)])];
    let whole = |roots: &[TreeNode]| Phases::of(&run(roots)).gpu_whole(Way::Stream);
    assert_eq!((lines(&roots).len(), whole(&roots)), (2, None));
    roots[0].children[0].stream_total_ns = Some(0);
    roots[0].children[0].stream_self_ns = Some(0);
    assert_eq!((lines(&roots).len(), whole(&roots)), (2, Some(0)));
    assert!(run(&roots).findings().iter().all(|finding| finding.kind() != FindingKind::MostStreamTime));
}

#[test]
fn a_small_parent_of_a_long_child_is_not_folded() {
    let spawn = node("spawn", 10, 10, vec![leaf("task", 500_000)]);
    let roots = [node("main", 500_000, 499_980, vec![spawn, leaf("other", 10)])];
    let names: Vec<String> = lines(&roots).into_iter().map(|line| line.0).collect();
    assert_eq!(names, ["main", "spawn", "task", "other"]);
    let run = run(&roots);
    let phases = Phases::of(&run);
    assert_eq!(phases.whole(), 1_000_000);
    let beside: Vec<bool> = entries(&phases).iter().map(|entry| entry.beside).collect();
    assert_eq!(beside, [false, false, true, false]);
}

#[test]
fn without_the_slowest_nothing_is_marked() {
    let roots: Vec<TreeNode> = (0..2_000).map(|i| leaf(&i.to_string(), 10)).collect();
    let lines = lines(&roots);
    assert_eq!(lines.len(), 1);
    assert_eq!((lines[0].2, lines[0].3), (Mark::None, 2_000));
    assert!(run(&roots).findings().iter().all(|finding| finding.kind() != FindingKind::MostOwnTime));
}

#[test]
fn any_depth_is_walked() {
    let mut root = leaf("inner", 1);
    for _ in 0..50_000 {
        root = node("outer", 1, 0, vec![root]);
    }
    let run = Summary { tree: vec![root], ..Summary::default() };
    assert_eq!(entries(&Phases::of(&run)).len(), 50_001);
    let mut roots = run.tree;
    while let Some(mut node) = roots.pop() {
        roots.append(&mut node.children); // dropping it as a whole would recurse
    }
}
