//! Prints every report of one invented run, at the width given as an argument, to be looked at: an inference server
//! that copies its input from pageable memory, and whose second convolution is slow.
//!
//! ```text
//! cargo run -p tests --example gpu_reports -- 80
//! ```

use tracing_gpu::{
    ApiCallStats, GpuActivity, GpuWork, KernelStats, MemoryKind, MemoryStats, MemoryWork, NodeCalls, NodeWork,
    ProjectionStats, RangeKernelStats, RangeStats, RangeStyle, RenderOptions, Report, Sizes, Summary, Times, TreeNode,
};

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
        summary.ranges.push(RangeStats {
            domain: None,
            name: node.name.clone(),
            style: RangeStyle::PushPop,
            times: times(node.instances, node.total_ns),
        });
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

/// A phase that took `self_ns` itself, and launched operations: their number, time, and the time that the calls took.
fn node<const N: usize>(
    name: &str,
    calls: u64,
    self_ns: u64,
    children: Vec<TreeNode>,
    launched: [(u64, u64, u64); N],
) -> TreeNode {
    let work = |operations, ns| GpuWork { operations, sum_ns: ns, busy_ns: ns, ..GpuWork::default() };
    let below = |child: &TreeNode| child.gpu.as_ref().map_or((0, 0), |gpu| (gpu.total.operations, gpu.total.busy_ns));
    let (operations, ns) = launched.iter().fold((0, 0), |(n, ns), (m, more, _)| (n + m, ns + more));
    let all = children.iter().map(below).fold((operations, ns), |(n, ns), (m, more)| (n + m, ns + more));
    let calls_made = launched
        .iter()
        .map(|(count, _, ns)| NodeCalls { name: "cuLaunchKernel".to_owned(), calls: *count, total_ns: *ns })
        .collect();
    TreeNode {
        name: name.to_owned(),
        calls,
        instances: calls,
        self_ns,
        total_ns: self_ns + children.iter().map(|child| child.total_ns).sum::<u64>(),
        gpu: Some(NodeWork { own: work(operations, ns), total: work(all.0, all.1), calls: calls_made }),
        children,
        ..TreeNode::default()
    }
}

fn activity() -> GpuActivity {
    let convolution = "void cudnn::ops::implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, true, false, true>(int, int, \
                       int, float const*, int, float*, kernel_conv_params)";
    let kernel = |name: &str, count, total_ns| KernelStats { name: name.to_owned(), times: times(count, total_ns) };
    let memory = |kind, count, total_ns, bytes| MemoryStats {
        kind,
        times: times(count, total_ns),
        sizes: Sizes {
            count,
            total_bytes: bytes,
            min_bytes: bytes / count,
            max_bytes: bytes / count,
            median_bytes: Some(bytes as f64 / count as f64),
            stddev_bytes: 0.0,
        },
    };
    let call = |name: &str, count, total_ns| ApiCallStats { name: name.to_owned(), times: times(count, total_ns) };
    let projected = |name: &str, total_ns, range_total_ns, operations, level: u64| ProjectionStats {
        domain: None,
        name: name.to_owned(),
        style: RangeStyle::PushPop,
        projected: times(100, total_ns),
        range_total_ns,
        operations,
        level_sum: 100 * level,
        children_sum: 0,
    };
    let in_range = |range: Option<&str>, kernel: &str, count, total_ns| RangeKernelStats {
        range: range.map(|name| (None, name.to_owned())),
        style: range.map(|_| RangeStyle::PushPop),
        pid: 4_242,
        tid: 4_242,
        range_instances: if range.is_some() { 100 } else { 0 },
        kernel_instances: count,
        times: times(count, total_ns),
        kernel: kernel.to_owned(),
    };
    let copied = |kind, operations, sum_ns, bytes| MemoryWork { kind, operations, sum_ns, bytes };
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
    gpu.total = GpuWork {
        operations: 764,
        sum_ns: 646_116_128,
        busy_ns: 640_000_000,
        memory: vec![
            copied(MemoryKind::HtoD, 260, 197_000_000, 1_205_862_400),
            copied(MemoryKind::DtoH, 100, 800_000, 409_600),
            copied(MemoryKind::Set, 1, 16_128, 67_108_864),
        ],
    };
    gpu.outside = GpuWork { operations: 4, sum_ns: 1_216_128, busy_ns: 1_216_128, memory: vec![] };
    gpu
}

fn times(instances: u64, total_ns: u64) -> Times {
    let mean = total_ns / instances.max(1);
    let (min_ns, max_ns) = (mean - mean / 9, mean + mean / 7);
    Times {
        instances,
        total_ns,
        min_ns,
        max_ns,
        median_ns: Some(mean as f64),
        median_exact: true,
        stddev_ns: mean as f64 / 30.0,
        ..Times::default()
    }
}
