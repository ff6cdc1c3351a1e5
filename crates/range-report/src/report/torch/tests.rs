use super::*;
use range_model::{ApiCallStats, CapturedWork, GpuWork, KernelStats, MemoryStats, NodeCalls, NodeWork, Sizes, Times};

/// Output of torch 2.11; `tests/golden/README.md` describes the program.
const KERNELS: &str = include_str!("../../../../../tests/golden/torch/square_2.11.txt");

fn row(name: &str, [self_cpu_ns, cpu_ns]: [u64; 2], [self_gpu_ns, gpu_ns]: [u64; 2], calls: u64) -> Row {
    Row { name: name.to_owned(), self_cpu_ns, cpu_ns, self_gpu_ns, gpu_ns, calls, on_gpu: false }
}

#[test]
fn shares_are_of_the_kernels_where_there_are_rows_of_them() {
    let kernel = "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::pow>";
    let on_gpu = Row { on_gpu: true, ..row(kernel, [0, 0], [568_258, 568_258], 3) };
    let rows = [
        row("phase", [0, 0], [570_593, 570_593], 1), // the annotation's copy on the GPU: no operation
        row("phase", [74_345, 231_530], [0, 568_258], 1),
        row("aten::square", [4_342, 157_185], [0, 568_258], 3),
        row("aten::pow", [89_818, 152_843], [568_258, 568_258], 3),
        on_gpu,
        row("Activity Buffer Request", [1_022_330, 1_022_330], [0, 0], 1), // 1.022ms; 59.28% fixes the digits
        row("aten::result_type", [2_566, 2_566], [0, 0], 3),
        row("aten::to", [925, 925], [0, 0], 3),
        row("cudaLaunchKernel", [59_534, 59_534], [0, 0], 3),
        row("cudaDeviceSynchronize", [470_687, 470_687], [0, 0], 2),
    ];
    assert_eq!(table(rows.to_vec(), usize::MAX), KERNELS);
}

#[test]
fn the_rows_with_most_time_of_their_own_are_kept_and_the_others_summed_up() {
    let kernel = |name: &str, ns| Row { on_gpu: true, ..row(name, [0, 0], [ns, ns], 2) };
    let rows = vec![
        row("run", [1, 90], [0, 70], 1),
        row("small", [3, 3], [20, 20], 4),
        row("long", [80, 80], [50, 50], 1),
        kernel("a", 50),
        kernel("b", 15),
        kernel("c", 5),
    ];
    let rest = row("(4 more)", [4, 93], [20, 20], 9);
    assert_eq!(bounded(rows.clone(), 2, true), [rows[2].clone(), rows[3].clone(), rest]);
    assert_eq!(bounded(rows.clone(), 5, true), rows, "one more is as short");
    let captured = row("captured in encoder", [0, 0], [0, 60], 4);
    let with_it = [&rows[..1], std::slice::from_ref(&captured), &rows[1..]].concat();
    assert_eq!(bounded(with_it, 2, true)[..2], [captured, rows[2].clone()]);
    let text = table(rows, 2);
    assert!(text.contains("Self CUDA time total: 0.070us") && text.contains("(4 more)"), "{text}");
}

#[test]
fn names_of_52_and_more_are_cut() {
    for (length, expected) in [(51, "x".repeat(51)), (52, "x".repeat(52) + "..."), (60, "x".repeat(52) + "...")] {
        assert_eq!(shortened(&"x".repeat(length)), expected);
    }
    let text = table(vec![row(&"é".repeat(60), [1, 1], [0, 0], 1)], 30);
    let lengths: Vec<usize> = text.lines().take(5).map(width_of).collect();
    let length = 55 + 2 + 10 * 14;
    assert_eq!(lengths, [length, length + 1, length, length, length]); // `CUDA time avg` is longer than its column
    assert!(table(vec![row("ab", [1, 1], [0, 0], 1)], 30).starts_with("------  ------------  "));
}

#[test]
fn times_and_shares() {
    for (ns, expected) in [
        (0, "0.000us"),
        (999_999, "999.999us"),
        (1_000_000, "1.000ms"),
        (999_999_999, "1000.000ms"),
        (1_000_000_000, "1.000s"),
        (u128::from(u64::MAX), "18446744073.710s"),
    ] {
        assert_eq!(time(ns), expected);
    }
    assert_eq!((share(0, 0), share(1, 3), mean(10, 0)), ("NaN".to_owned(), "33.33%".to_owned(), "0.000us".to_owned()));
}

/// A tree with one name in two places, API calls with and without a version, and both kinds of GPU operations.
fn summary() -> Summary {
    let node = |name: &str, self_ns, total_ns, own, all, in_calls, children| TreeNode {
        name: name.to_owned(),
        calls: 1,
        self_ns,
        total_ns,
        children,
        gpu: Some(NodeWork {
            own: GpuWork { operations: 1, sum_ns: own, ..GpuWork::default() },
            total: GpuWork { operations: 1, sum_ns: all, ..GpuWork::default() },
            calls: vec![NodeCalls { name: "cudaLaunchKernel_v7000".to_owned(), calls: 1, total_ns: in_calls }],
            ..NodeWork::default()
        }),
        ..TreeNode::default()
    };
    let times = |total_ns| Times { instances: 2, total_ns, ..Times::default() };
    let unrecorded = TreeNode { gpu: None, ..node("host\t", 7_000, 7_000, 0, 0, 0, vec![]) };
    let inner = node("layer", 30_000, 30_000, 40_000, 40_000, 5_000, vec![]);
    let outer = node("layer", 20_000, 50_000, 10_000, 50_000, 8_000, vec![inner]);
    let gpu = GpuActivity {
        kernels: vec![KernelStats { name: "conv(float*)".to_owned(), times: times(30_000) }],
        memory: vec![
            MemoryStats { kind: MemoryKind::HtoD, times: times(15_000), sizes: Sizes::default() },
            MemoryStats { kind: MemoryKind::Set, times: times(5_000), sizes: Sizes::default() },
        ],
        calls: Some(vec![ApiCallStats { name: "cudaLaunchKernel_v7000".to_owned(), times: times(13_000) }]),
        ..GpuActivity::default()
    };
    Summary { tree: vec![outer, unrecorded], gpu: Some(gpu), ..Summary::default() }
}

#[test]
fn spans_then_calls_then_what_ran() {
    let text = torch(&summary(), &RenderOptions::default());
    let cells: Vec<Vec<&str>> = text.lines().skip(6).take(6).map(|line| line.split("  ").collect()).collect();
    let cells: Vec<Vec<&str>> = cells
        .iter()
        .map(|line| line.iter().map(|cell| cell.trim()).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let expected = [
        "layer|64.91%|37.000us|140.35%|80.000us|40.000us|50.000us|100.00%|90.000us|45.000us|2",
        "host\\t|12.28%|7.000us|12.28%|7.000us|7.000us|0.000us|0.00%|0.000us|0.000us|1",
        "cudaLaunchKernel|22.81%|13.000us|22.81%|13.000us|6.500us|0.000us|0.00%|0.000us|0.000us|2",
        "conv(float*)|0.00%|0.000us|0.00%|0.000us|0.000us|30.000us|60.00%|30.000us|15.000us|2",
        "Memcpy HtoD|0.00%|0.000us|0.00%|0.000us|0.000us|15.000us|30.00%|15.000us|7.500us|2",
        "Memset|0.00%|0.000us|0.00%|0.000us|0.000us|5.000us|10.00%|5.000us|2.500us|2",
    ];
    assert_eq!(cells.iter().map(|line| line.join("|")).collect::<Vec<_>>(), expected, "{text}");
    assert!(text.ends_with("Self CPU time total: 57.000us\nSelf CUDA time total: 50.000us\n\n"), "{text}");
}

#[test]
fn what_is_missing_is_said() {
    let text = |gpu| torch(&Summary { gpu, ..Summary::default() }, &RenderOptions::default());
    assert!(text(None).contains(NO_ACTIVITY));
    assert!(text(Some(GpuActivity::default())).contains(NO_RANGE));
}

/// At the level of whole graphs the times of nodes are not known.
#[test]
fn spans_that_captured_what_a_span_replays_are_below_it() {
    let part = |path: &str, kernels, timed, sum_ns| {
        let captured_in = path.to_owned();
        CapturedWork { captured_in, kernels, timed, sum_ns, ..CapturedWork::default() }
    };
    let node = |parts: &[CapturedWork]| TreeNode {
        name: "replay".to_owned(),
        total_ns: 900,
        self_ns: 900,
        calls: 1,
        gpu: Some(NodeWork {
            own: GpuWork { sum_ns: 60, ..GpuWork::default() },
            total: GpuWork { sum_ns: 60, ..GpuWork::default() },
            graphs: GraphWork { replays: 1, captured: parts.to_vec(), ..GraphWork::default() },
            ..NodeWork::default()
        }),
        ..TreeNode::default()
    };
    let parts = [part("encoder > attention\n", 4, 4, 40), part("", 1, 1, 20), part("whole", 3, 0, 0)];
    let last = TreeNode { name: "last".to_owned(), ..node(&[]) };
    let rows = spans(&[node(&parts), node(&parts[..1]), last], &RenderOptions::default());
    let expected = [
        row("replay", [1_800, 1_800], [120, 120], 2),
        row("captured in encoder > attention\\n", [0, 0], [0, 80], 8),
        row("captured in no span of its own", [0, 0], [0, 20], 1),
        row("last", [900, 900], [60, 60], 1),
    ];
    assert_eq!(rows, expected);
    let long = format!("first > {} > last", "x".repeat(80));
    let graphs = [part(&long, 1, 1, 9), part(CapturedWork::NOT_SEEN, 1, 1, 8)];
    let graphs = GraphWork { replays: 1, captured: graphs.to_vec(), ..GraphWork::default() };
    let outside = GpuWork { sum_ns: 30, ..GpuWork::default() };
    let gpu = Some(GpuActivity { outside, outside_graphs: graphs, ..GpuActivity::default() });
    let text = torch(&Summary { gpu, ..Summary::default() }, &RenderOptions::default());
    let names: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once("   NaN")?.0.trim())).collect();
    let [of_all, of_long, not_seen] = names[..] else { panic!("{text}") };
    assert_eq!((of_all, not_seen), ("(outside any range)", "(captured before measuring began)"), "{text}");
    assert!(of_long.starts_with("captured in first > x") && of_long.ends_with("x > last"), "{text}");
    assert!(text.contains("Self CUDA time total: 0.030us"), "{text}");
}

/// A replay that is recorded as a whole is GPU work, of which shares are told.
#[test]
fn whole_replays_have_a_row_of_gpu_work() {
    let work = GpuWork { sum_ns: 3_000, ..GpuWork::default() };
    let graphs = GraphWork { replays: 2, whole: 2, whole_ns: 3_000, ..GraphWork::default() };
    let gpu = Some(NodeWork { graphs, ..NodeWork::new(work.clone(), work) });
    let tree = vec![TreeNode { gpu, calls: 2, ..TreeNode::new("replay") }];
    let times = Times { instances: 1, total_ns: 1_000, ..Times::default() };
    let kernels = vec![KernelStats { name: "k".to_owned(), times }];
    let gpu = Some(GpuActivity { kernels, ..GpuActivity::default() });
    let text = torch(&Summary { tree, gpu, ..Summary::default() }, &RenderOptions::default());
    let shares = |name: &str| {
        let row = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
        row.split_whitespace().rfind(|cell| cell.ends_with('%')).unwrap_or_default().to_owned()
    };
    assert_eq!(["replay", "[CUDA graph replays]", "k "].map(shares), ["75.00%", "75.00%", "25.00%"], "{text}");
    assert!(text.ends_with("Self CUDA time total: 4.000us\n\n"), "{text}");
}
