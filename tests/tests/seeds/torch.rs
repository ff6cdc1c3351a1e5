//! The output of `torch.profiler` for `torch.square`, from a tree of the same operators. That version had no rows for
//! kernels, so GPU shares are based on the operators' launches.

use super::printed;
use tests::with;
use tracing_gpu::summary::{ApiCallStats, GpuActivity, GpuWork, NodeCalls, NodeWork, Times, TreeNode};
use tracing_gpu::{Report, Summary, TableStyle};

const EXPECTED: &str = include_str!("../../golden/torch/square.txt");

/// Calls and their sums; `1.579ms` is all that is known of the last one.
const CALLS: [(&str, u64, u64); 3] = [
    ("cudaEventRecord_v3020", 8, 24_461),
    ("cudaLaunchKernel_v7000", 1, 18_570),
    ("cudaDeviceSynchronize_v3020", 1, 1_579_000),
];

#[test]
fn square() {
    // The calls in an operator took the rest of its total, besides its own time and its children.
    let type_of = operator("aten::result_type", 1_760, [], 6_000, vec![]);
    let cast = operator("aten::to", 950, [], 5_000, vec![]);
    let power = operator("aten::pow", 81_962, [(1, 18_570), (0, 8_870)], 1_737_000, vec![type_of, cast]);
    let square = operator("aten::square", 12_979, [(0, 5_551)], 15_000, vec![power]);
    assert_eq!((square.total_ns, square.children[0].total_ns), (130_642, 112_112));

    let mut gpu = GpuActivity::default();
    let times = |instances, total_ns| Times::new(instances, total_ns);
    gpu.calls = Some(CALLS.map(|(name, count, ns)| ApiCallStats::new(name, times(count, ns))).into());
    let mut summary = Summary::default();
    summary.tree = vec![square];
    summary.gpu = Some(gpu);

    for (style, title) in [
        (TableStyle::Current, " ** Operators as in torch.profiler (torch):"),
        (TableStyle::Legacy, "Operators as in torch.profiler:"),
    ] {
        assert_eq!(printed(&summary, Report::Torch, style), format!("\n{title}\n\n{EXPECTED}\n"));
    }
}

/// An operator that ran `own_ns` besides its children and its calls of [`CALLS`], and launched `gpu_ns`.
fn operator<const N: usize>(
    name: &str,
    own_ns: u64,
    calls: [(usize, u64); N],
    gpu_ns: u64,
    children: Vec<TreeNode>,
) -> TreeNode {
    let work = |sum_ns| GpuWork::new(1, sum_ns, sum_ns);
    let total_gpu_ns = |node: &TreeNode| node.gpu.as_ref().map_or(0, |gpu| gpu.total.sum_ns);
    let self_ns = own_ns + calls.iter().map(|call| call.1).sum::<u64>();
    let calls = calls.map(|(call, total_ns)| NodeCalls::new(CALLS[call].0, 1, total_ns));
    let mut it = TreeNode::new(name);
    it.calls = 1;
    it.instances = 1;
    it.self_ns = self_ns;
    it.total_ns = self_ns + children.iter().map(|child| child.total_ns).sum::<u64>();
    it.gpu =
        Some(with(NodeWork::new(work(gpu_ns), work(gpu_ns + children.iter().map(total_gpu_ns).sum::<u64>())), |it| {
            it.calls = calls.into()
        }));
    it.children = children;
    it
}
