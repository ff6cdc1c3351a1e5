//! Compute passes of wgpu as GPU work of spans: two timestamp queries time each pass, and the profiler gets them when
//! they have been read back.
//!
//! ```sh
//! cd programs
//! cargo run --release -p wgpu_passes    # needs a Vulkan driver; Debian's mesa-vulkan-drivers has one without a GPU
//! ```
//!
//! It compares the profiler's figures with the sum of the timestamps.

use std::error::Error;
use std::time::Instant;

use tracing::info_span;
use tracing_gpu::{ClockPair, Output, Profiler, Report};
use wgpu::{
    Backends, BindGroup, Buffer, BufferUsages, ComputePipeline, Device, DeviceDescriptor, Features, Instance,
    InstanceDescriptor, MapMode, PollType, QuerySet, QueryType, Queue,
};

const SHADER: &str = "
@group(0) @binding(0) var<storage, read_write> words: array<u32>;

@compute @workgroup_size(64)
fn scramble(@builtin(global_invocation_id) id: vec3<u32>) {
    var word = words[id.x];
    for (var round = 0u; round < 2000u; round++) {
        word = word * 747796405u + 2891336453u;
    }
    words[id.x] = word;
}";

/// Words of a workgroup, and workgroups of the two passes of a frame.
const GROUP: u32 = 64;
const PASSES: [(&str, u32); 2] = [("light", 16), ("heavy", 128)];
const FRAMES: u32 = 10;

struct Gpu {
    device: Device,
    queue: Queue,
    pipeline: ComputePipeline,
    words: BindGroup,
    timestamps: QuerySet,
    resolved: Buffer,
    readable: Buffer,
    name: String,
}

impl Gpu {
    async fn open() -> Result<Self, Box<dyn Error>> {
        let instance = Instance::new(InstanceDescriptor {
            backends: Backends::VULKAN,
            ..InstanceDescriptor::new_without_display_handle()
        });
        let adapter = instance.request_adapter(&Default::default()).await?;
        let required_features = Features::TIMESTAMP_QUERY;
        let (device, queue) =
            adapter.request_device(&DeviceDescriptor { required_features, ..Default::default() }).await?;
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(SHADER.into()),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("scramble"),
            compilation_options: Default::default(),
            cache: None,
        });
        let buffer = |size, usage| {
            device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
        };
        let most = PASSES.iter().map(|(_, groups)| groups * GROUP * 4).max().unwrap_or(0);
        let words = buffer(most.into(), BufferUsages::STORAGE);
        let words = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[wgpu::BindGroupEntry { binding: 0, resource: words.as_entire_binding() }],
        });
        let timestamps =
            device.create_query_set(&wgpu::QuerySetDescriptor { label: None, ty: QueryType::Timestamp, count: 2 });
        let resolved = buffer(16, BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC);
        let readable = buffer(16, BufferUsages::MAP_READ | BufferUsages::COPY_DST);
        let name = adapter.get_info().name;
        Ok(Self { pipeline, words, timestamps, resolved, readable, name, device, queue })
    }

    /// Runs a pass and waits for it. Returns its begin and end, in nanoseconds of the GPU's clock. `submitted` is
    /// called right after the submission.
    fn run<T>(&self, groups: u32, submitted: impl FnOnce() -> T) -> Result<(T, u64, u64), Box<dyn Error>> {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                label: None,
                timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                    query_set: &self.timestamps,
                    beginning_of_pass_write_index: Some(0),
                    end_of_pass_write_index: Some(1),
                }),
            });
            pass.set_pipeline(&self.pipeline);
            pass.set_bind_group(0, &self.words, &[]);
            pass.dispatch_workgroups(groups, 1, 1);
        }
        encoder.resolve_query_set(&self.timestamps, 0..2, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.readable, 0, 16);
        self.queue.submit([encoder.finish()]);
        let submission = submitted();
        self.readable.map_async(MapMode::Read, .., |_| ());
        self.device.poll(PollType::wait_indefinitely())?;
        let bytes = self.readable.get_mapped_range(..)?.to_vec();
        self.readable.unmap();
        let period = f64::from(self.queue.get_timestamp_period());
        let ns = |word: &[u8]| (u64::from_le_bytes(word.try_into().unwrap_or_default()) as f64 * period) as u64;
        let (begin, end) = bytes.split_at(8);
        Ok((submission, ns(begin), ns(end)))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let profiler = Profiler::builder().report([Report::Tree, Report::Kernels]).output(Output::Stderr).build()?;
    tracing::subscriber::set_global_default(profiler.subscriber())?;
    let gpu = pollster::block_on(Gpu::open())?;
    // The end of a pass that was waited for is about now.
    let (_, _, gpu_ns) = gpu.run(1, || ())?;
    let queue = profiler.ingest(&gpu.name, ClockPair { gpu_ns, cpu: Instant::now() });

    let mut sum = 0;
    for _ in 0..FRAMES {
        let _frame = info_span!("frame").entered();
        for (name, groups) in PASSES {
            let _pass = info_span!("pass", nvtx.name = name).entered();
            let (submission, begin, end) = gpu.run(groups, || queue.submit())?;
            queue.ran(submission, name, begin, end);
            sum += end - begin;
        }
    }
    let summary = profiler.summary();
    let measured = summary.tree.first().and_then(|frame| frame.gpu.as_ref()).map(|work| work.total.sum_ns);
    profiler.finish()?;
    if measured != Some(sum) {
        return Err(format!("the profiler has {measured:?} ns of GPU time, the timestamps {sum} ns").into());
    }
    Ok(())
}
