//! The networks on a GPU: kernels in CUDA C, compiled when the program starts.
//!
//! To build this takes no CUDA toolkit, and to run it nothing but the driver and NVRTC, both looked for at run time.
//! Where either is missing, or there is no device, [`Gpu::open`] says so in one line and the program goes on without.

mod kernels;
mod operations;

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaModule, CudaStream, DriverError};
use cudarc::nvrtc::{CompileError, CompileOptions, compile_ptx_with_opts};

use kernels::Kernels;
pub use operations::{DeviceConv, DeviceFullyConnected, DeviceTensor};

/// The first device, the kernels of the networks on it, and one stream, to which all work goes in order.
pub struct Gpu {
    stream: Arc<CudaStream>,
    kernels: Kernels,
}

impl Gpu {
    /// Opens the first device.
    ///
    /// # Errors
    /// With one short line, where there is no driver, no device, no NVRTC, or one of them does not go with the others.
    pub fn open() -> Result<Self, String> {
        let context = context()?;
        let kernels = Kernels::compile(&context)?;
        let stream = context.new_stream().map_err(|error| reason("making a stream", error))?;
        Ok(Self { stream, kernels })
    }

    /// [`open`](Self::open) for a program that can do without: where there is no GPU to use, or `--cpu` is among the
    /// program's arguments, one line on stderr says why.
    pub fn open_or_explain() -> Option<Self> {
        let gpu = if cpu_is_forced() { Err("--cpu was given".to_owned()) } else { Self::open() };
        gpu.inspect_err(|reason| eprintln!("no GPU used: {reason}; running on the CPU")).ok()
    }

    /// The stream that all work goes to.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }
}

/// Whether there is a device to use, and nothing on the command line against it: what a program can ask before it
/// decides what to report. Makes no context.
pub fn is_available() -> bool {
    !cpu_is_forced() && driver().is_ok() && CudaContext::device_count().is_ok_and(|count| count > 0)
}

fn cpu_is_forced() -> bool {
    std::env::args().skip(1).any(|argument| argument == "--cpu")
}

/// The context of the first device.
///
/// # Errors
/// With one short line, where there is no driver or no device.
pub fn context() -> Result<Arc<CudaContext>, String> {
    driver()?;
    CudaContext::new(0).map_err(|error| reason("opening the device", error))
}

/// Looks for the driver.
fn driver() -> Result<(), String> {
    // cudarc panics where it misses the driver or a function of it, so both are looked for first. An error is printed
    // as its number alone: cudarc asks the driver for the text.
    #[allow(unsafe_code)]
    // SAFETY: the driver's library is made to be loaded by any process; the function is looked for and not called.
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
/// With one short line, where there is no NVRTC, it refuses the source, or the driver refuses what it made.
pub fn compile(context: &Arc<CudaContext>, source: &str, constants: &[(&str, u32)]) -> Result<Arc<CudaModule>, String> {
    #[allow(unsafe_code)]
    // SAFETY: NVRTC's library is made to be loaded by any process.
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

/// The value, or the end of the program: a device that fails in the middle of a computation cannot be replaced.
#[track_caller]
fn must<T>(result: Result<T, DriverError>) -> T {
    result.unwrap_or_else(|error| panic!("the GPU failed: {error}"))
}
