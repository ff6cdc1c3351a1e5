//! Prints every report of one invented run, at the width given as an argument, for inspection: an inference server that
//! copies its input from pageable memory, with a slow second convolution.
//!
//! ```text
//! cargo run -p tests --example gpu_reports -- 80
//! ```

use tests::with;
use tracing_gpu::summary::{
    ApiCallStats, GpuActivity, GpuWork, KernelStats, MemoryKind, MemoryStats, MemoryWork, NodeCalls, NodeWork,
    ProjectionStats, RangeKernelStats, RangeStats, RangeStyle, Sizes, Times, TreeNode,
};
use tracing_gpu::{RenderOptions, Report, Summary, SummaryExt as _};

fn main() -> std::io::Result<()> {
    let width = std::env::args().nth(1).and_then(|width| width.parse().ok()).unwrap_or(100);
    let options = RenderOptions::default().width(width);
    summary().render(Report::ALL, &options, std::io::stdout())
}

fn summary() -> Summary {
    let mut summary = Summary::default();
    summary.process.pid = 4_242;
    summary.process.command = "./serve --model resnet50.safetensors".to_owned();
    summary.elapsed_ns = 1_400_000_000;
    summary.tree = tree();
    let mut waiting: Vec<&TreeNode> = summary.tree.iter().collect();
    while let Some(node) = waiting.pop() {
        waiting.extend(&node.children);
        summary.ranges.push(RangeStats::new(node.name.clone(), times(node.instances, node.total_ns)));
    }
    summary.gpu = Some(activity());
    summary.losses.activity.dropped_records = 1_312;
    summary.losses.activity.unmatched = 2;
    summary
}

fn tree() -> Vec<TreeNode> {
    let conv1 = node("conv1", 100, 900_000, vec![], [(100, 31_000_000, 700_000)]);
    let conv2 = node("conv2", 100, 950_000, vec![], [(100, 412_000_000, 720_000)]);
    let relu = node("relu", 200, 1_300_000, vec![], [(200, 4_100_000, 1_050_000)]);
    let shape = node("shape inference", 100, 200_000, vec![], []);
    let wait = node("wait", 100, 446_000_000, vec![], []);
    let forward = node("forward", 100, 2_300_000, vec![conv1, relu, conv2, shape, wait], []);
    let upload = node("upload", 100, 210_000_000, vec![], [(100, 188_000_000, 205_000_000)]);
    let request = node("handle request", 100, 8_200_000, vec![upload, forward], []);
    let read = node("read weights", 1, 61_000_000, vec![], []);
    let load = node("load model", 1, 4_000_000, vec![read], [(160, 9_800_000, 12_000_000)]);
    vec![load, request]
}

/// A phase that took `self_ns` itself, and launched operations: their number, their time, and the time of the calls.
fn node<const N: usize>(
    name: &str,
    calls: u64,
    self_ns: u64,
    children: Vec<TreeNode>,
    launched: [(u64, u64, u64); N],
) -> TreeNode {
    let work = |operations, ns| GpuWork::new(operations, ns, ns);
    let below = |child: &TreeNode| child.gpu.as_ref().map_or((0, 0), |gpu| (gpu.total.operations, gpu.total.busy_ns));
    let (operations, ns) = launched.iter().fold((0, 0), |(n, ns), (m, more, _)| (n + m, ns + more));
    let all = children.iter().map(below).fold((operations, ns), |(n, ns), (m, more)| (n + m, ns + more));
    let calls_made = launched.iter().map(|(count, _, ns)| NodeCalls::new("cuLaunchKernel", *count, *ns)).collect();
    let mut it = TreeNode::new(name);
    it.calls = calls;
    it.instances = calls;
    it.self_ns = self_ns;
    it.total_ns = self_ns + children.iter().map(|child| child.total_ns).sum::<u64>();
    it.gpu = Some(with(NodeWork::new(work(operations, ns), work(all.0, all.1)), |it| it.calls = calls_made));
    it.children = children;
    it
}

fn activity() -> GpuActivity {
    let convolution = "void cudnn::ops::implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, true, false, true>(int, int, \
                       int, float const*, int, float*, kernel_conv_params)";
    let kernel = |name: &str, count, total_ns| KernelStats::new(name, times(count, total_ns));
    let memory = |kind, count, total_ns, bytes| {
        MemoryStats::new(kind, times(count, total_ns), {
            let mut it = Sizes::new(count, bytes);
            it.min_bytes = bytes / count;
            it.max_bytes = bytes / count;
            it.median_bytes = Some(bytes as f64 / count as f64);
            it
        })
    };
    let call = |name: &str, count, total_ns| ApiCallStats::new(name, times(count, total_ns));
    let projected = |name: &str, total_ns, range_total_ns, operations, level: u64| {
        let mut it = ProjectionStats::new(name, times(100, total_ns));
        it.range_total_ns = range_total_ns;
        it.operations = operations;
        it.level_sum = 100 * level;
        it.children_sum = 0;
        it
    };
    let in_range = |range: Option<&str>, kernel: &str, count, total_ns| {
        let mut it = RangeKernelStats::new(kernel, times(count, total_ns));
        it.range = range.map(|name| (None, name.to_owned()));
        it.style = range.map(|_| RangeStyle::PushPop);
        it.pid = 4_242;
        it.tid = 4_242;
        it.range_instances = if range.is_some() { 100 } else { 0 };
        it.kernel_instances = count;
        it
    };
    let copied = |kind, operations, sum_ns, bytes| MemoryWork::new(kind, operations, sum_ns, bytes);
    let mut gpu = GpuActivity::default();
    gpu.kernels = vec![
        kernel(convolution, 100, 412_000_000),
        kernel("volta_sgemm_128x128_tn", 100, 31_000_000),
        kernel("relu(float*, int)", 200, 4_100_000),
        kernel("warm_up", 3, 1_200_000),
    ];
    gpu.memory = vec![
        memory(MemoryKind::HtoD, 260, 197_000_000, 1_205_862_400),
        memory(MemoryKind::DtoH, 100, 800_000, 409_600),
        memory(MemoryKind::Set, 1, 16_128, 67_108_864),
    ];
    gpu.calls = Some(vec![
        call("cuStreamSynchronize", 100, 446_000_000),
        call("cuMemcpyHtoDAsync_v2", 260, 217_000_000),
        call("cuModuleLoadData", 1, 68_805_839),
        call("cuLaunchKernel", 403, 2_470_000),
        call("cuMemAllocAsync", 12, 1_382_682),
    ]);
    gpu.projections = vec![
        projected("handle request", 652_000_000, 669_850_000, 600, 0),
        projected("conv2", 412_000_000, 950_000, 100, 2),
        projected("upload", 188_000_000, 210_000_000, 100, 1),
    ];
    gpu.range_kernels = vec![
        in_range(None, "warm_up", 3, 1_200_000),
        in_range(Some("conv2"), convolution, 100, 412_000_000),
        in_range(Some("handle request"), convolution, 100, 412_000_000),
    ];
    gpu.total = with(GpuWork::new(764, 646_116_128, 640_000_000), |it| {
        it.memory = vec![
            copied(MemoryKind::HtoD, 260, 197_000_000, 1_205_862_400),
            copied(MemoryKind::DtoH, 100, 800_000, 409_600),
            copied(MemoryKind::Set, 1, 16_128, 67_108_864),
        ]
    });
    gpu.outside = GpuWork::new(4, 1_216_128, 1_216_128);
    gpu
}

fn times(instances: u64, total_ns: u64) -> Times {
    let mean = total_ns / instances.max(1);
    let (min_ns, max_ns) = (mean - mean / 9, mean + mean / 7);
    let mut it = Times::new(instances, total_ns);
    it.min_ns = min_ns;
    it.max_ns = max_ns;
    it.median_ns = Some(mean as f64);
    it.median_exact = true;
    it.stddev_ns = mean as f64 / 30.0;
    it
}
