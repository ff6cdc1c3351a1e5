//! The networks on a GPU: kernels in CUDA C, compiled when the program starts.
//!
//! Building needs no CUDA toolkit, and running needs only the driver and NVRTC, which are both loaded at run time. If
//! one of them or the device is missing, [`Gpu::open`] returns one line, and the program runs on the CPU.

mod kernels;
mod operations;

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaModule, CudaStream, DriverError};
use cudarc::nvrtc::{CompileError, CompileOptions, compile_ptx_with_opts};

use kernels::Kernels;
pub use operations::{DeviceConv, DeviceFullyConnected, DeviceTensor};

/// The first device, the kernels of the networks on it, and one stream for all work.
pub struct Gpu {
    stream: Arc<CudaStream>,
    kernels: Kernels,
}

impl Gpu {
    /// Opens the first device.
    ///
    /// # Errors
    /// Returns one short line if there is no driver, device or NVRTC, or if one of them does not fit the others.
    pub fn open() -> Result<Self, String> {
        let context = context()?;
        let kernels = Kernels::compile(&context)?;
        let stream = context.new_stream().map_err(|error| reason("making a stream", error))?;
        Ok(Self { stream, kernels })
    }

    /// [`open`](Self::open) for a program that also runs without a GPU: if there is none, or the program has the
    /// argument `--cpu`, prints the reason on stderr in one line.
    pub fn open_or_explain() -> Option<Self> {
        let gpu = if cpu_is_forced() { Err("--cpu was given".to_owned()) } else { Self::open() };
        gpu.inspect_err(|reason| eprintln!("no GPU used: {reason}; running on the CPU")).ok()
    }

    /// The stream of all work.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }
}

/// Whether there is a device, and the command line does not exclude it. A program can ask this before it chooses its
/// reports. Makes no context.
pub fn is_available() -> bool {
    !cpu_is_forced() && driver().is_ok() && CudaContext::device_count().is_ok_and(|count| count > 0)
}

fn cpu_is_forced() -> bool {
    std::env::args().skip(1).any(|argument| argument == "--cpu")
}

/// The context of the first device.
///
/// # Errors
/// Returns one short line if there is no driver or device.
pub fn context() -> Result<Arc<CudaContext>, String> {
    driver()?;
    CudaContext::new(0).map_err(|error| reason("opening the device", error))
}

/// Looks for the driver.
fn driver() -> Result<(), String> {
    // cudarc panics if it misses the driver or one of its functions, so both are checked first. An error is printed
    // only as its number, because cudarc asks the driver for the text.
    #[allow(unsafe_code)]
    // SAFETY: any process may load the driver's library; the function is found but not called.
    let (present, whole) = unsafe {
        use cudarc::driver::sys;
        let present = sys::is_culib_present();
        (present, present && sys::culib().get::<unsafe extern "C" fn()>(b"cuMemAllocAsync").is_ok())
    };
    match (present, whole) {
        (false, _) => Err("no CUDA driver".to_owned()),
        (true, false) => Err("the CUDA driver is older than 11.2, or not NVIDIA's".to_owned()),
        (true, true) => Ok(()),
    }
}

/// Compiles CUDA C for the device of `context`, with every name of `constants` defined as its number.
///
/// # Errors
/// Returns one short line if there is no NVRTC, if it rejects the source, or if the driver rejects the result.
pub fn compile(context: &Arc<CudaContext>, source: &str, constants: &[(&str, u32)]) -> Result<Arc<CudaModule>, String> {
    #[allow(unsafe_code)]
    // SAFETY: any process may load NVRTC's library.
    if !unsafe { cudarc::nvrtc::sys::is_culib_present() } {
        return Err("no NVRTC (libnvrtc) to compile the kernels".to_owned());
    }
    let options = constants.iter().map(|(name, value)| format!("-D{name}={value}")).collect();
    let ptx = compile_ptx_with_opts(source, CompileOptions { options, ..CompileOptions::default() });
    let ptx = ptx.map_err(|error| match error {
        CompileError::CompileError { log, .. } => {
            let log = log.to_string_lossy();
            format!("NVRTC refuses the kernels: {}", log.lines().next().unwrap_or("no reason given").trim())
        }
        error => format!("NVRTC fails: {error:?}"),
    })?;
    context.load_module(ptx).map_err(|error| reason("loading the kernels", error))
}

/// One line about an error of the driver.
fn reason(doing: &str, error: DriverError) -> String {
    match error.0 as i32 {
        100 => "no CUDA device".to_owned(),
        222 => "the CUDA driver is older than NVRTC".to_owned(),
        code => format!("CUDA error {code} {doing}"),
    }
}

/// The value; or ends the program, because no device can replace one that fails in the middle of a computation.
#[track_caller]
fn must<T>(result: Result<T, DriverError>) -> T {
    result.unwrap_or_else(|error| panic!("the GPU failed: {error}"))
}
