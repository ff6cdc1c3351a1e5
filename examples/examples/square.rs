//! A tensor of 10,000 by 10,000 numbers squared, and where the time goes on the CPU and on the GPU.
//!
//! The report is `torch.profiler`'s: a row for every span, every call of the CUDA API and every kernel, with its own
//! time and its total time. `square` calls `power`, as `torch.square` calls `pow`. The kernel is launched in `power`,
//! so its time on the GPU is own time of `power`, and part of the total of `square`. The CPU waits for it in `wait`,
//! and the copies over the bus take longer than the squaring. Without a GPU the CPU squares.
//!
//! ```text
//! cargo run --release --example square
//! nsys profile -t nvtx,cuda target/release/examples/square
//! ```

use std::error::Error;
use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, DriverError, LaunchConfig, PushKernelArg};
use examples::gpu;
use tracing::instrument;
use tracing_gpu::{Profiler, Report};

const SIDE: usize = 10_000;
const THREADS: u32 = 256;

/// Multiplies each number by itself, `exponent - 1` times.
const SOURCE: &str = r#"
template <typename T> __global__ void power_kernel(T *output, const T *input, const int exponent, const unsigned count) {
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    T product = input[i];
    for (int n = 1; n < exponent; ++n) product *= input[i];
    output[i] = product;
}
template __global__ void power_kernel<float>(float *, const float *, int, unsigned);
"#;
const SYMBOL: &str = "_Z12power_kernelIfEvPT_PKS0_ij";

fn main() -> Result<(), Box<dyn Error>> {
    // Before CUDA starts, so that nothing is missed.
    let profiler = Profiler::builder().report([Report::Torch]).build()?;
    tracing::subscriber::set_global_default(profiler.subscriber())?;

    let tensor = init();
    let squares = match Gpu::open() {
        Ok(gpu) => {
            let input = gpu.upload(&tensor)?;
            let output = gpu.square(&input)?;
            gpu.wait()?;
            gpu.download(&output)?
        }
        Err(reason) => {
            eprintln!("no GPU used: {reason}; running on the CPU");
            square(&tensor)
        }
    };
    verify(&tensor, &squares);
    println!("{SIDE} x {SIDE} numbers squared, each as it should be");

    profiler.finish()?;
    Ok(())
}

/// Eighths of small integers: their squares are exact on any machine.
#[instrument]
fn init() -> Vec<f32> {
    (0..SIDE * SIDE).map(|index| (index % 2_003) as f32 / 8.0 - 125.0).collect()
}

struct Gpu {
    stream: Arc<CudaStream>,
    power: CudaFunction,
}

impl Gpu {
    #[instrument(name = "open")]
    fn open() -> Result<Self, String> {
        let context = gpu::context()?;
        let module = gpu::compile(&context, SOURCE, &[("THREADS", THREADS)])?;
        let power = module
            .load_function(SYMBOL)
            .map_err(|error| format!("CUDA error {} finding the kernel", error.0 as i32))?;
        Ok(Self { stream: context.default_stream(), power })
    }

    #[instrument(skip_all)]
    fn upload(&self, tensor: &[f32]) -> Result<CudaSlice<f32>, DriverError> {
        self.stream.clone_htod(tensor)
    }

    #[instrument(skip_all)]
    fn square(&self, input: &CudaSlice<f32>) -> Result<CudaSlice<f32>, DriverError> {
        self.power(input, 2)
    }

    #[instrument(skip(self, input))]
    fn power(&self, input: &CudaSlice<f32>, exponent: i32) -> Result<CudaSlice<f32>, DriverError> {
        let count = u32::try_from(input.len()).expect("numbers that 32 bits can count");
        #[allow(unsafe_code)]
        // SAFETY: any bits are a number, and the kernel writes all of them.
        let mut output = unsafe { self.stream.alloc::<f32>(input.len()) }?;
        let mut launch = self.stream.launch_builder(&self.power);
        launch.arg(&mut output).arg(input).arg(&exponent).arg(&count);
        let grid_dim = (count.div_ceil(THREADS), 1, 1);
        #[allow(unsafe_code)]
        // SAFETY: the arguments are the kernel's, and both buffers have `count` numbers.
        unsafe { launch.launch(LaunchConfig { grid_dim, block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 }) }?;
        Ok(output)
    }

    #[instrument(skip_all)]
    fn wait(&self) -> Result<(), DriverError> {
        self.stream.synchronize()
    }

    #[instrument(skip_all)]
    fn download(&self, tensor: &CudaSlice<f32>) -> Result<Vec<f32>, DriverError> {
        let numbers = self.stream.clone_dtoh(tensor)?;
        self.stream.synchronize()?;
        Ok(numbers)
    }
}

#[instrument(skip_all)]
fn square(tensor: &[f32]) -> Vec<f32> {
    power(tensor, 2)
}

#[instrument(skip(tensor))]
fn power(tensor: &[f32], exponent: i32) -> Vec<f32> {
    tensor.iter().map(|number| number.powi(exponent)).collect()
}

/// Compares every number with its product, which is exact.
#[instrument(skip_all)]
fn verify(tensor: &[f32], squares: &[f32]) {
    assert_eq!(tensor.len(), squares.len());
    let wrong = tensor.iter().zip(squares).position(|(number, square)| number * number != *square);
    assert_eq!(wrong, None, "a number that is not squared");
}
