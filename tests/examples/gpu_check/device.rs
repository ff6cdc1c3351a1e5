//! The device, its kernels, and a profiler.

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use tracing_gpu::summary::StreamStats;
use tracing_gpu::{Gpu, Graphs, Output, Profiler, Report, Summary};
use tracing_subscriber::prelude::*;

const SOURCE: &str = r#"
extern "C" __global__ void spin(unsigned long long ns) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (now - start < ns);
}
extern "C" __global__ void add(int *value, int amount) { *value += amount; }
extern "C" __global__ void fail() { asm volatile("trap;"); }
"#;

pub(crate) struct Device {
    pub(crate) context: Arc<CudaContext>,
    pub(crate) spin: CudaFunction,
    pub(crate) add: CudaFunction,
    pub(crate) fail: CudaFunction,
}

pub(crate) const ONE: LaunchConfig = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };

impl Device {
    pub(crate) fn open() -> Self {
        Self::open_number(0)
    }

    pub(crate) fn count() -> usize {
        CudaContext::device_count().expect("the number of devices") as usize
    }

    pub(crate) fn open_number(number: usize) -> Self {
        let context = CudaContext::new(number).expect("a CUDA device");
        let ptx = cudarc::nvrtc::compile_ptx(SOURCE).expect("NVRTC");
        let module = context.load_module(ptx).expect("the module");
        let function = |name| module.load_function(name).expect("the kernel");
        Self { spin: function("spin"), add: function("add"), fail: function("fail"), context }
    }

    pub(crate) fn spin(&self, stream: &Arc<CudaStream>, time: Duration) {
        let ns = time.as_nanos() as u64;
        // SAFETY: the kernel takes one 64-bit integer by value and touches no memory.
        #[allow(unsafe_code)]
        unsafe { stream.launch_builder(&self.spin).arg(&ns).launch(ONE) }.expect("a launch");
    }
}

/// A profiler with the subscriber without a registry, or with a layer, depending on `TIER` in the environment.
pub(crate) fn profiler() -> Profiler {
    install_built(Profiler::builder().output(Output::Stderr).build().expect("a profiler"))
}

/// The same without output, for a program that examines the summary of these reports itself.
pub(crate) fn install(gpu: Gpu, reports: &[Report]) -> Profiler {
    let builder = Profiler::builder().gpu(gpu).graphs(Graphs::Nodes).report(reports.iter().copied());
    let builder = builder.output(Output::None);
    install_built(builder.build().expect("a profiler"))
}

/// Makes it the program's profiler.
pub(crate) fn install_built(profiler: Profiler) -> Profiler {
    if std::env::var("TIER").is_ok_and(|tier| tier == "layer") {
        tracing_subscriber::registry().with(profiler.layer()).init();
    } else {
        tracing::subscriber::set_global_default(profiler.subscriber()).expect("no other subscriber");
    }
    profiler
}

pub(crate) fn row<'a>(summary: &'a Summary, name: &str) -> &'a StreamStats {
    let found = summary.stream_ranges.iter().find(|row| row.name == name);
    found.unwrap_or_else(|| panic!("no stream time for `{name}`: {:#?}", summary.stream_ranges))
}

pub(crate) const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// Prints the check, and ends the program if it fails.
pub(crate) fn check(name: &str, holds: bool) {
    println!("{} {name}", if holds { "ok    " } else { "FAILED" });
    assert!(holds, "{name}");
}
