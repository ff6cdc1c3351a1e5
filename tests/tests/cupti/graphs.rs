//! CUDA graphs: what is recorded at each level, and which spans captured it.

use tracing::info_span;
use tracing_gpu::summary::{CapturedKernel, CapturedWork, GraphWork, TreeNode};
use tracing_gpu::{Gpu, Graphs, Output, Profiler, ProfilerBuilder, RenderOptions, Report, SummaryExt as _};

use crate::fake::{ADD_KERNEL, COPY, Fake, GRAPH, LAUNCH, Place, monotonic};
use crate::profiler::{HANDLE, finish, start};

/// CUPTI's callbacks.
const CREATED: u32 = 9;
const NODE: u32 = 13;
const CLONED: u32 = 20;
pub(crate) const EXECUTABLE: u32 = 18;

fn builder() -> ProfilerBuilder {
    Profiler::builder().gpu(Gpu::Cupti).report([Report::Tree]).output(Output::None).nvtx(false)
}

const fn node(graph: usize, place: usize) -> usize {
    graph << 32 | place
}

/// A call of the driver that is captured into a graph, as a node of it.
fn captures(fake: &Fake, function: u32, place: usize) {
    fake.call(function, 100 + place as u32, HANDLE);
    fake.graph(NODE, 1, node(1, place), 0);
}

/// Graph 1 is captured in `warm-up`, and becomes executable as graph 2.
fn capture(fake: &Fake) {
    let _warm_up = info_span!("warm-up").entered();
    fake.graph(CREATED, 1, 0, 0);
    info_span!("encoder").in_scope(|| {
        captures(fake, LAUNCH, 0);
        info_span!("attention").in_scope(|| (1..3).for_each(|place| captures(fake, LAUNCH, place)));
    });
    info_span!("decoder").in_scope(|| {
        captures(fake, COPY, 3);
        fake.add_node(105, HANDLE, 2);
        fake.graph(NODE, 1, node(1, 5), 0);
    });
    captures(fake, ADD_KERNEL, 4);
    fake.graph(CREATED, 2, 0, 0);
    for place in 0..6 {
        fake.graph(NODE, 2, node(2, place), 0);
        fake.graph(CLONED, 2, node(2, place), node(1, place));
    }
    fake.graph(EXECUTABLE, 2, 0, 0);
}

/// A replay in `generate > replay`: a record of the whole graph, and in `nodes` one of each node, of which CUPTI
/// delivers the kinds that are enabled.
fn replay(fake: &Fake, correlation: u32, start: u64, nodes: bool) {
    let _spans = (info_span!("generate").entered(), info_span!("replay").entered());
    fake.call(GRAPH, correlation, HANDLE);
    let at = monotonic() + start;
    let whole = [(4, u64::from(correlation)), (8, at), (16, at + 1_000), (24, 0), (28, 2), (32, 1), (36, 7)];
    fake.record(51, &whole);
    if nodes {
        for place in [0, 1, 2, 4] {
            let at = at + 100 * place as u64;
            fake.place(Place { device: 0, context: 1, stream: 7, node: node(2, place) as u64, at });
            fake.kernel(correlation, c"spin", 10);
        }
        fake.place(Place { device: 0, context: 1, stream: 7, node: node(2, 3) as u64, at: at + 300 });
        fake.memory(correlation, 1, 64, 20);
    }
    fake.place(Place::default());
}

fn find<'a>(nodes: &'a [TreeNode], name: &str) -> &'a TreeNode {
    let mut all = nodes.iter();
    all.find_map(|node| if node.name == name { Some(node) } else { find_in(&node.children, name) })
        .unwrap_or_else(|| panic!("no {name}"))
}

fn find_in<'a>(nodes: &'a [TreeNode], name: &str) -> Option<&'a TreeNode> {
    nodes.iter().find_map(|node| if node.name == name { Some(node) } else { find_in(&node.children, name) })
}

fn part(captured_in: &str, counts: [u64; 4], timed: u64, sum_ns: u64) -> CapturedWork {
    let mut part = CapturedWork::new(captured_in);
    [part.kernels, part.copies, part.sets, part.others] = counts;
    (part.timed, part.sum_ns) = (timed, sum_ns);
    part
}

pub(crate) fn graphs(fake: &Fake, tier: &str) {
    levels(fake, &[(Graphs::Whole, true, 8), (Graphs::Off, true, 2)]);
    attributed(fake, tier);
    // There is no way back, not even for another profiler.
    levels(fake, &[(Graphs::Whole, false, 8), (Graphs::Nodes, false, 8), (Graphs::Off, false, 2)]);
}

/// The program may have made graphs before there was a profiler.
pub(crate) fn from_before(fake: &Fake) {
    let profiler = builder().build().expect("settings that can be used");
    assert!(!fake.enabled(0).contains(&51) && fake.enabled(0).contains(&10));
    let notes = profiler.summary().notes_as_text();
    let why = "graphs by their nodes, because the program may have made some before";
    assert!(notes.iter().any(|note| note.contains(why)), "{notes:?}");
    finish(fake, profiler);
}

/// At each level: whether whole graphs are recorded, and the number of callbacks on changes.
fn levels(fake: &Fake, levels: &[(Graphs, bool, usize)]) {
    for &(graphs, whole, callbacks) in levels {
        let profiler = builder().graphs(graphs).build().expect("settings that can be used");
        assert_eq!((fake.enabled(0).contains(&51), fake.enabled(3).len()), (whole, callbacks), "{graphs}");
        fake.tell("fake_together", 0);
        profiler.finish().expect("nothing to be written");
    }
    fake.tell("fake_alone", 0);
}

fn attributed(fake: &Fake, tier: &str) {
    let profiler = start(builder(), tier);
    replay(fake, 30, 0, false); // of a graph that is not known
    profiler.reset();
    capture(fake);
    replay(fake, 40, 10, false);
    replay(fake, 41, 2_000, false);
    let summary = profiler.summary();
    let work = |summary: &tracing_gpu::Summary| -> GraphWork {
        find(&summary.tree, "replay").gpu.as_ref().expect("work in the span of the replay").graphs.clone()
    };
    let whole = work(&summary);
    assert_eq!((whole.replays, whole.whole, whole.whole_ns), (2, 2, 2_000));
    let twice = |counts: [u64; 4]| counts.map(|count| 2 * count);
    let expected = [
        part("", twice([1, 0, 0, 0]), 0, 0),
        part("decoder", twice([0, 1, 1, 0]), 0, 0),
        part("encoder", twice([1, 0, 0, 0]), 0, 0),
        part("encoder > attention", twice([2, 0, 0, 0]), 0, 0),
    ];
    assert_eq!(whole.captured, expected);
    let mut text = Vec::new();
    summary.render(&[Report::Tree, Report::Graphs], &RenderOptions::default(), &mut text).expect("a text");
    let text = String::from_utf8(text).expect("UTF-8");
    let rows = text.split("Columns left out").next().unwrap_or_default();
    let captured: Vec<Vec<&str>> = rows.lines().map(|row| row.split_whitespace().collect()).collect();
    let below = captured.iter().position(|row| row.last() == Some(&"replay")).expect("a row of the replay");
    let expected = ["- - 6 [encoder]", "- - 4 [attention]", "- - 4 [decoder]", "- - 2 (in no span of its own)"];
    let expected: Vec<Vec<&str>> = expected.iter().map(|row| row.split_whitespace().collect()).collect();
    assert_eq!(captured[below + 1..below + 5], expected, "{text}");
    assert!(text.contains("generate > replay  encoder > attention"), "{text}");

    profiler.record_graph_nodes();
    profiler.record_graph_nodes();
    assert!(!fake.enabled(0).contains(&51) && fake.enabled(0).contains(&10));
    replay(fake, 42, 4_000, true);
    let nodes = work(&profiler.summary());
    assert_eq!((nodes.replays, nodes.whole, nodes.whole_ns), (3, 2, 2_000));
    let spun = |mut part: CapturedWork| {
        part.by_kernel = vec![CapturedKernel::new("spin", part.timed, part.sum_ns)];
        part
    };
    let expected = [
        spun(part("", [3, 0, 0, 0], 1, 10)),
        part("decoder", [0, 3, 2, 0], 1, 20),
        spun(part("encoder", [3, 0, 0, 0], 1, 10)),
        spun(part("encoder > attention", [6, 0, 0, 0], 2, 20)),
    ];
    assert_eq!(nodes.captured, expected);
    finish(fake, profiler);
}
