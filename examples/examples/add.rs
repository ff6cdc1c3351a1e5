//! The smallest CUDA program, and the work of the GPU for it.
//!
//! One integer is allocated on the device, a kernel of one thread writes a sum into it, and it is copied back. The
//! report is the one that `nvprof` printed: kernels and copies, then the calls of the CUDA API. It shows at once that
//! starting up and loading the kernel take nearly all the time, and the addition none. Without a GPU the CPU adds.
//!
//! ```text
//! cargo run --release --example add
//! ```

use std::error::Error;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, DriverError, LaunchConfig, PushKernelArg};
use examples::gpu;
use tracing::instrument;
use tracing_gpu::{Profiler, Report};

const A: i32 = 2;
const B: i32 = 7;

/// In C++, unlike the kernels of the other examples: the report has its parameters, which are part of its symbol.
const SOURCE: &str = "__global__ void add(int a, int b, int *c) { *c = a + b; }";
const SYMBOL: &str = "_Z3addiiPi";

fn main() -> Result<(), Box<dyn Error>> {
    // Before CUDA starts, so that nothing is missed.
    let profiler = Profiler::builder().report([Report::Nvprof]).build()?;
    tracing::subscriber::set_global_default(profiler.subscriber())?;

    let sum = match open() {
        Ok((context, module)) => add(&context, &module.load_function(SYMBOL)?)?,
        Err(reason) => {
            eprintln!("no GPU used: {reason}; running on the CPU");
            A + B
        }
    };
    println!("{A} + {B} is {sum}");
    assert_eq!(sum, A + B);

    profiler.finish()?;
    Ok(())
}

#[instrument(name = "Load Module")]
fn open() -> Result<(Arc<CudaContext>, Arc<CudaModule>), String> {
    let context = gpu::context()?;
    let module = gpu::compile(&context, SOURCE, &[])?;
    Ok((context, module))
}

#[instrument(name = "Module running", skip_all)]
fn add(context: &Arc<CudaContext>, kernel: &CudaFunction) -> Result<i32, DriverError> {
    let stream = context.default_stream();
    #[allow(unsafe_code)]
    // SAFETY: any bits are an integer, and the kernel writes it before it is read.
    let mut sum = unsafe { stream.alloc::<i32>(1) }?;
    let mut launch = stream.launch_builder(kernel);
    launch.arg(&A).arg(&B).arg(&mut sum);
    #[allow(unsafe_code)]
    // SAFETY: the arguments are the kernel's, and it writes one integer.
    unsafe { launch.launch(LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 }) }?;
    let sum = stream.clone_dtoh(&sum)?;
    stream.synchronize()?;
    Ok(sum[0])
}
