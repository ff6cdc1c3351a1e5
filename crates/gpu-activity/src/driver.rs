//! The few functions of the CUDA driver that timing needs, found by name in the loaded library.
//!
//! cudarc's bindings are not used: they panic if a symbol is missing, and the application chooses the CUDA version they
//! are built for. This table works with any driver that has these functions: every driver since CUDA 11.4.
#![allow(unsafe_code)]

use std::error::Error as _;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;

use libloading::Library;
use once_cell::sync::OnceCell;

/// The driver's return code, 0 for success. It stays a number, because naming it would take a driver call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaError(pub c_int);

impl CudaError {
    /// Work before an event has not finished.
    pub const NOT_READY: Self = Self(600);
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CUDA error {}", self.0)
    }
}

impl std::error::Error for CudaError {}

/// Why the driver's functions are not there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DriverMissing {
    /// The library cannot be opened; the reason of the system.
    Library(String),
    /// The library lacks a function.
    Function(&'static CStr),
}

impl fmt::Display for DriverMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(reason) => write!(f, "the CUDA driver cannot be loaded: {reason}"),
            Self::Function(name) => {
                write!(f, "the CUDA driver has no `{}`: it is older than CUDA 11.4", name.to_string_lossy())
            }
        }
    }
}

impl std::error::Error for DriverMissing {}

/// Handles as numbers, so that they can cross threads: any thread may use a context, a stream or an event.
pub type Handle = usize;

type Raw = *mut c_void;

/// A function of any signature.
pub(crate) type AnyFunction = unsafe extern "C" fn();

/// A function of a library, as an untyped address: a generic search would be compiled once for each signature.
pub(crate) fn function(library: &Library, name: &CStr) -> Option<AnyFunction> {
    // SAFETY: the address is not called as this type; whoever calls it knows its signature.
    unsafe { library.get(name.to_bytes_with_nul()) }.ok().map(|found| *found)
}

/// The function with the first of these names that the library has.
pub(crate) fn first_function(library: &Library, names: &[&CStr]) -> Option<AnyFunction> {
    names.iter().find_map(|name| function(library, name))
}

/// Defines a table of functions of a library, each with its names there. `required`: a library without one of them is
/// of no use. `optional`: each may be missing.
macro_rules! functions {
    ($(#[$attribute:meta])* $Table:ident -> $Code:ty, $need:ident:
        $($name:ident = $($symbol:literal)|+: fn($($argument:ty),*),)*
    ) => {
        $(#[$attribute])*
        struct $Table {
            $($name: $crate::driver::functions!(@type $need unsafe extern "C" fn($($argument),*) -> $Code),)*
        }

        impl $Table {
            /// The functions of a library, or the name of a missing one.
            fn of(library: &libloading::Library) -> Result<Self, &'static std::ffi::CStr> {
                $(
                    let names = [$($symbol),+];
                    let found = match $crate::driver::first_function(library, &names) {
                        // SAFETY: the signature is that of the function of this name in its documentation, and the
                        // pointer is used only while the library is loaded, which is for ever.
                        Some(found) => Some(unsafe {
                            std::mem::transmute::<
                                $crate::driver::AnyFunction,
                                unsafe extern "C" fn($($argument),*) -> $Code,
                            >(found)
                        }),
                        None => None,
                    };
                    let $name = $crate::driver::functions!(@found $need found, names[0]);
                )*
                Ok(Self { $($name),* })
            }
        }
    };
    (@type required $($function:tt)+) => { $($function)+ };
    (@type optional $($function:tt)+) => { Option<$($function)+> };
    (@found required $found:expr, $name:expr) => { $found.ok_or($name)? };
    (@found optional $found:expr, $name:expr) => { $found };
}
pub(crate) use functions;

functions! {
    #[repr(C, align(64))] // the functions that spans call come first, in one cache line
    Table -> c_int, required:
    current_context = c"cuCtxGetCurrent": fn(*mut Raw),
    is_capturing = c"cuStreamIsCapturing": fn(Raw, *mut c_uint),
    record_event = c"cuEventRecord": fn(Raw, Raw),
    elapsed = c"cuEventElapsedTime_v2" | c"cuEventElapsedTime": fn(*mut f32, Raw, Raw),
    capture_mode = c"cuThreadExchangeStreamCaptureMode": fn(*mut c_uint),
    driver_version = c"cuDriverGetVersion": fn(*mut c_int),
    device_name = c"cuDeviceGetName": fn(*mut c_char, c_int, c_int),
    set_current_context = c"cuCtxSetCurrent": fn(Raw),
    push_context = c"cuCtxPushCurrent_v2": fn(Raw),
    pop_context = c"cuCtxPopCurrent_v2": fn(*mut Raw),
    context_device = c"cuCtxGetDevice": fn(*mut c_int),
    create_stream = c"cuStreamCreate": fn(*mut Raw, c_uint),
    destroy_stream = c"cuStreamDestroy_v2": fn(Raw),
    create_event = c"cuEventCreate": fn(*mut Raw, c_uint),
    destroy_event = c"cuEventDestroy_v2": fn(Raw),
    synchronize_event = c"cuEventSynchronize": fn(Raw),
    init = c"cuInit": fn(c_uint),
    device_count = c"cuDeviceGetCount": fn(*mut c_int),
    synchronize = c"cuCtxSynchronize": fn(),
}

/// The driver, once found.
pub struct Driver {
    table: Table,
    _library: Library,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}

/// Whether a stream captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// Work is executed.
    None,
    /// Work is recorded into a graph, or the stream must not be used while another stream captures.
    Active,
}

/// Why a library is not loaded, in the words of the loader; the error's own text names only the function that failed.
pub(crate) fn reason(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

fn answer(code: c_int) -> Result<(), CudaError> {
    if code == 0 { Ok(()) } else { Err(CudaError(code)) }
}

/// Makes a call that restores the program's state, and repeats it if the driver refuses: the driver may report an error
/// of earlier work, once. Returns whether a call succeeded.
fn twice(mut call: impl FnMut() -> c_int) -> bool {
    call() == 0 || call() == 0
}

impl Driver {
    /// The driver of this process. Searches for it once; does not initialise it.
    #[inline]
    pub fn get() -> Result<&'static Self, &'static DriverMissing> {
        static DRIVER: OnceCell<Result<Driver, DriverMissing>> = OnceCell::new();
        DRIVER.get_or_init(Self::load).as_ref()
    }

    fn load() -> Result<Self, DriverMissing> {
        let name = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
        // SAFETY: the driver's initialisers may run in any process. If the program uses CUDA they have run already, and
        // this call only adds a reference.
        let library = unsafe { Library::new(name) }.map_err(|error| DriverMissing::Library(reason(&error)))?;
        let table = Table::of(&library).map_err(DriverMissing::Function)?;
        Ok(Self { table, _library: library })
    }

    // Every block below calls a function of the table with arguments of the declared types. The driver checks handles
    // that were once valid, and answers with an error. That they were valid is the contract of the code that registered
    // the stream (a binding's `Arc`, or the contract of `RawStream`).

    /// Initialises the driver, unless that was done.
    pub fn init(&self) -> Result<(), CudaError> {
        // SAFETY: 0 is the only value allowed for the flags.
        answer(unsafe { (self.table.init)(0) })
    }

    /// Number of devices.
    pub fn device_count(&self) -> Result<i32, CudaError> {
        let mut devices = 0;
        // SAFETY: writes one integer.
        answer(unsafe { (self.table.device_count)(&raw mut devices) })?;
        Ok(devices)
    }

    /// Waits for all work of the current context.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: takes no arguments.
        answer(unsafe { (self.table.synchronize)() })
    }

    /// Version of CUDA that the driver speaks, as 1000 * major + 10 * minor.
    pub fn version(&self) -> Result<i32, CudaError> {
        let mut version = 0;
        // SAFETY: writes one integer.
        answer(unsafe { (self.table.driver_version)(&raw mut version) })?;
        Ok(version)
    }

    /// Device of the current context, and its name.
    pub fn current_device(&self) -> Result<(i32, String), CudaError> {
        let mut device = 0;
        // SAFETY: writes one integer.
        answer(unsafe { (self.table.context_device)(&raw mut device) })?;
        Ok((device, self.device_name(device)?))
    }

    /// Name of a device of the initialised driver. (The handle of a device is its number.)
    pub fn device_name(&self, device: i32) -> Result<String, CudaError> {
        let mut name = [0u8; 256];
        // SAFETY: writes at most 256 bytes, terminating NUL included, into an array of that size.
        answer(unsafe { (self.table.device_name)(name.as_mut_ptr().cast(), 256, device) })?;
        let text = CStr::from_bytes_until_nul(&name).map(|name| name.to_string_lossy().into_owned());
        Ok(text.unwrap_or_default())
    }

    /// Identities of all devices that the process sees, as `nvidia-smi -L` prints them; empty unless the driver is
    /// initialised.
    #[must_use]
    pub fn device_uuids(&self) -> Vec<String> {
        let Some(found) = function(&self._library, c"cuDeviceGetUuid") else { return Vec::new() };
        // SAFETY: the signature is that of the function of this name in its documentation.
        let ask =
            unsafe { std::mem::transmute::<AnyFunction, unsafe extern "C" fn(*mut [u8; 16], c_int) -> c_int>(found) };
        let uuid_of = |device| {
            let mut uuid = [0_u8; 16];
            // SAFETY: writes 16 bytes.
            answer(unsafe { ask(&raw mut uuid, device) }).ok()?;
            let digits: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
            let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
            let parts = [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)];
            Some(format!("GPU-{}", parts.join("-")))
        };
        (0..self.device_count().unwrap_or(0)).filter_map(uuid_of).collect()
    }

    /// Whether the initialised driver has a context, as far as can be asked: the primary one of a device, or that of
    /// this thread.
    #[must_use]
    pub(crate) fn has_context(&self) -> bool {
        let mut current: Raw = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        let asked = answer(unsafe { (self.table.current_context)(&raw mut current) });
        let is_in_one = asked.is_ok() && !current.is_null();
        let Some(found) = function(&self._library, c"cuDevicePrimaryCtxGetState") else { return is_in_one };
        // SAFETY: the signature is that of the function of this name in its documentation.
        let state = unsafe {
            std::mem::transmute::<AnyFunction, unsafe extern "C" fn(c_int, *mut c_uint, *mut c_int) -> c_int>(found)
        };
        let is_active = |device| {
            let (mut flags, mut active) = (0, 0);
            // SAFETY: writes two integers.
            answer(unsafe { state(device, &raw mut flags, &raw mut active) }).is_ok() && active != 0
        };
        is_in_one || (0..self.device_count().unwrap_or(0)).any(is_active)
    }

    /// Runs `body` with `context` current, then restores the former context.
    pub fn in_context<T>(&self, context: Handle, body: impl FnOnce() -> Result<T, CudaError>) -> Result<T, CudaError> {
        let pushed = self.enter_context(context)?;
        let result = body();
        self.leave_context(pushed);
        result
    }

    /// Makes `context` current. Returns whether another one was, for [`leave_context`](Self::leave_context).
    #[inline]
    fn enter_context(&self, context: Handle) -> Result<bool, CudaError> {
        let mut current: Raw = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        answer(unsafe { (self.table.current_context)(&raw mut current) })?;
        let is_other = current.addr() != context;
        if is_other {
            self.push_context(context)?;
        }
        Ok(is_other)
    }

    /// Restores the context that was current before [`enter_context`](Self::enter_context).
    #[inline]
    fn leave_context(&self, pushed: bool) {
        if pushed {
            self.pop_context();
        }
    }

    #[cold]
    #[inline]
    fn push_context(&self, context: Handle) -> Result<(), CudaError> {
        // SAFETY: pushes a context handle; a stale one is an error.
        answer(unsafe { (self.table.push_context)(raw(context)) })
    }

    #[cold]
    #[inline]
    fn pop_context(&self) {
        let mut popped: Raw = std::ptr::null_mut();
        // SAFETY: undoes a push on this thread; writes one pointer.
        let _done = twice(|| unsafe { (self.table.pop_context)(&raw mut popped) });
    }

    /// Runs `body`, which may change the current context, then restores the former one.
    pub fn keeping_context<T>(&self, body: impl FnOnce() -> T) -> T {
        let mut current: Raw = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        let known = unsafe { (self.table.current_context)(&raw mut current) } == 0;
        let result = body();
        if known {
            // SAFETY: makes a context current that was current a moment ago, or none.
            let _done = twice(|| unsafe { (self.table.set_current_context)(current) });
        }
        result
    }

    /// Runs `body` in the relaxed capture mode, in which our calls cannot break a capture of any thread. Calls that
    /// enqueue nothing into a stream need it: in other modes they fail while a thread captures, and break its capture.
    /// Two calls do without: the query whether a stream captures is always allowed, and to record an event in a stream
    /// that does not capture is as harmless as a launch.
    pub fn relaxed<T>(&self, body: impl FnOnce() -> T) -> T {
        const RELAXED: c_uint = 2;
        let mut mode = RELAXED;
        // SAFETY: exchanges this thread's mode with the integer pointed to.
        let exchanged = unsafe { (self.table.capture_mode)(&raw mut mode) } == 0;
        let result = body();
        if exchanged {
            let taken = mode;
            let _done = twice(|| {
                mode = taken;
                // SAFETY: as above; restores the former mode.
                unsafe { (self.table.capture_mode)(&raw mut mode) }
            });
        }
        result
    }

    /// Whether work on this stream goes into a graph at present.
    #[inline]
    pub fn capture(&self, stream: Handle) -> Result<Capture, CudaError> {
        /// The answer for the legacy stream while a stream that synchronises with it captures. The query itself is
        /// harmless.
        const IMPLICIT: c_int = 906;
        let mut status = 0;
        // SAFETY: writes one integer.
        match unsafe { (self.table.is_capturing)(raw(stream), &raw mut status) } {
            0 if status == 0 => Ok(Capture::None),
            0 | IMPLICIT => Ok(Capture::Active),
            code => Err(CudaError(code)),
        }
    }

    /// A stream of the current context that does not synchronise with the default stream.
    pub fn create_stream(&self) -> Result<Handle, CudaError> {
        const NON_BLOCKING: c_uint = 1;
        let mut stream: Raw = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        answer(unsafe { (self.table.create_stream)(&raw mut stream, NON_BLOCKING) })?;
        Ok(stream.addr())
    }

    /// Destroys a stream from [`create_stream`](Self::create_stream).
    pub fn destroy_stream(&self, stream: Handle) {
        // SAFETY: the stream is ours and is not used again.
        let _kept_at_worst = unsafe { (self.table.destroy_stream)(raw(stream)) };
    }

    /// A new event of the current context, with timing.
    pub fn create_event(&self) -> Result<Handle, CudaError> {
        let mut event: Raw = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        answer(unsafe { (self.table.create_event)(&raw mut event, 0) })?;
        Ok(event.addr())
    }

    /// Destroys an event from [`create_event`](Self::create_event).
    pub fn destroy_event(&self, event: Handle) {
        // SAFETY: the event is ours and is not used again.
        let _kept_at_worst = unsafe { (self.table.destroy_event)(raw(event)) };
    }

    /// Puts an event into a stream.
    #[inline]
    pub fn record(&self, event: Handle, stream: Handle) -> Result<(), CudaError> {
        // SAFETY: only enqueues. Both handles belong to the current context, or the driver refuses them.
        answer(unsafe { (self.table.record_event)(raw(event), raw(stream)) })
    }

    /// Puts an event into a stream of `context`, and leaves the current one as it was. False where the stream captures:
    /// then nothing has happened.
    #[inline]
    pub fn record_in(&self, context: Handle, event: Handle, stream: Handle) -> Result<bool, CudaError> {
        let pushed = self.enter_context(context)?;
        let recorded = match self.capture(stream) {
            Ok(Capture::None) => self.record(event, stream).map(|()| true),
            Ok(Capture::Active) => Ok(false),
            Err(error) => Err(error),
        };
        self.leave_context(pushed);
        recorded
    }

    /// Waits until the work before an event has finished.
    pub fn wait(&self, event: Handle) -> Result<(), CudaError> {
        // SAFETY: only waits.
        answer(unsafe { (self.table.synchronize_event)(raw(event)) })
    }

    /// Nanoseconds between two events, or [`NOT_READY`](CudaError::NOT_READY) until the work before both has finished.
    /// This one call replaces a query.
    #[inline]
    pub fn elapsed_ns(&self, start: Handle, end: Handle) -> Result<u64, CudaError> {
        let mut milliseconds = 0f32;
        // SAFETY: writes one float.
        answer(unsafe { (self.table.elapsed)(&raw mut milliseconds, raw(start), raw(end)) })?;
        // Rounds to the nearest; the conversion to a signed number is a single instruction.
        Ok((f64::from(milliseconds.max(0.0)) * 1e6 + 0.5) as i64 as u64)
    }
}

/// A handle in the driver's type.
fn raw(handle: Handle) -> Raw {
    std::ptr::with_exposed_provenance_mut(handle)
}
