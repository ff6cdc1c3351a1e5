//! Functions that control the made-up driver and libcupti.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};

use libloading::{Library, Symbol};

pub(crate) const LAUNCH: u32 = 307;
pub(crate) const COPY: u32 = 277;
/// `cuMemsetD8_v2`.
pub(crate) const SET: u32 = 249;
pub(crate) const GRAPH: u32 = 514;
/// `cuGraphAddKernelNode_v2`.
pub(crate) const ADD_KERNEL: u32 = 689;
/// `cuIpcOpenMemHandle_v2`.
pub(crate) const OPEN_MEMORY: u32 = 691;
pub(crate) const SYNCHRONIZE: u32 = 17;
/// `cuEventRecord` and `cuStreamWaitEvent`.
pub(crate) const RECORD: u32 = 119;
pub(crate) const WAIT: u32 = 295;
/// `cuProfilerStart` and `cuProfilerStop`.
pub(crate) const START: u32 = 308;
pub(crate) const STOP: u32 = 309;
/// A minor function, which only queries something.
pub(crate) const SLIGHT: u32 = 304;
/// `cuEventQuery`.
pub(crate) const QUERY: u32 = 122;
/// `cudaGetDevice_v3020`, which calls `SLIGHT`.
pub(crate) const GET_DEVICE: u32 = 17;
/// `cudaLaunchKernel_v7000`, which calls `cuLaunchKernel`.
pub(crate) const RUNTIME_LAUNCH: u32 = 211;

/// Place and time of an operation; time 0 means now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) device: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    pub(crate) node: u64,
    pub(crate) at: u64,
}

pub(crate) struct Fake {
    driver: Library,
    cupti: Library,
}

impl Fake {
    pub(crate) fn load() -> Self {
        let open = |name: String| {
            // SAFETY: the libraries of tests/cupti have no initialisers.
            unsafe { Library::new(&name) }.unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        Self {
            driver: open("libcuda.so.1".to_owned()),
            cupti: open(std::env::var("TRACING_GPU_CUPTI").expect("the made-up libcupti")),
        }
    }

    /// Initialises CUDA, as a program does.
    pub(crate) fn init(&self) {
        // SAFETY: the signature of `cuInit` in tests/cupti/cuda.c.
        let init = unsafe { self.driver.get::<unsafe extern "C" fn(u32) -> c_int>(b"cuInit") };
        // SAFETY: loads the library in CUDA_INJECTION64_PATH, as the driver does.
        assert_eq!(unsafe { init.expect("cuInit")(0) }, 0);
    }

    fn function<F>(&self, name: &str) -> Symbol<'_, F> {
        // SAFETY: each caller's type is that of the function in tests/cupti/cupti.c, which treats handles as plain
        // numbers.
        unsafe { self.cupti.get(name.as_bytes()) }.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Makes a driver call on this thread, from its begin to its end.
    pub(crate) fn call(&self, number: u32, correlation: u32, context: usize) {
        // SAFETY: the type is right.
        unsafe { self.function::<unsafe extern "C" fn(u32, u32, usize)>("fake_call")(number, correlation, context) };
    }

    /// A closure that calls this driver function with an id. It looks the test's function up only once.
    pub(crate) fn caller(&self, number: u32, context: usize) -> impl Fn(u32) + '_ {
        let call = self.function::<unsafe extern "C" fn(u32, u32, usize)>("fake_call");
        // SAFETY: the type is right.
        move |correlation| unsafe { call(number, correlation, context) }
    }

    /// A closure that launches a kernel of `ns` in this context, with an id. It looks the functions up only once.
    pub(crate) fn launcher(&self, context: usize, name: &'static CStr, ns: u64) -> impl Fn(u32) + '_ {
        let call = self.function::<unsafe extern "C" fn(u32, u32, usize)>("fake_call");
        let kernel = self.function::<unsafe extern "C" fn(u32, *const c_char, u64)>("fake_kernel");
        // SAFETY: the types are right, and the name lasts.
        move |correlation| unsafe {
            call(LAUNCH, correlation, context);
            kernel(correlation, name.as_ptr(), ns);
        }
    }

    /// Makes a runtime call with a driver call inside.
    pub(crate) fn runtime(&self, number: u32, of_driver: u32, correlation: u32) {
        let call = self.function::<unsafe extern "C" fn(u32, u32, u32, usize)>("fake_runtime");
        // SAFETY: the type is right.
        unsafe { call(number, of_driver, correlation, 5) };
    }

    /// Sets the place of the next operations.
    pub(crate) fn place(&self, place: Place) {
        let Place { device, context, stream, node, at } = place;
        let function = self.function::<unsafe extern "C" fn(u32, u32, u32, u64, u64)>("fake_place");
        // SAFETY: the type is right.
        unsafe { function(device, context, stream, node, at) };
    }

    /// A kernel that ran for `ns`; for 0, one without known times.
    pub(crate) fn kernel(&self, correlation: u32, name: &'static CStr, ns: u64) {
        let kernel = self.function::<unsafe extern "C" fn(u32, *const c_char, u64)>("fake_kernel");
        // SAFETY: the type is right, and the name lasts.
        unsafe { kernel(correlation, name.as_ptr(), ns) };
    }

    /// A copy of CUPTI's `kind`, or for 0 a set.
    pub(crate) fn memory(&self, correlation: u32, kind: u8, bytes: u64, ns: u64) {
        let memory = self.function::<unsafe extern "C" fn(u32, u8, u64, u64)>("fake_memory");
        // SAFETY: the type is right.
        unsafe { memory(correlation, kind, bytes, ns) };
    }

    /// Adds a record of a kind, if the kind is enabled.
    pub(crate) fn record(&self, kind: u32, fields: &[(usize, u64)]) {
        let mut record = [0u8; 128];
        record[..4].copy_from_slice(&kind.to_le_bytes());
        for (place, value) in fields {
            // Four-byte fields come in ascending order, so that the next field overwrites excess bytes.
            record[*place..place + 8].copy_from_slice(&value.to_le_bytes());
        }
        let put = self.function::<unsafe extern "C" fn(u32, *const u8)>("fake_record");
        // SAFETY: the type is right, and no record is longer.
        unsafe { put(kind, record.as_ptr()) };
    }

    /// `cuGraphAddNode_v2` of a node of this type.
    pub(crate) fn add_node(&self, correlation: u32, context: usize, kind: u32) {
        let add = self.function::<unsafe extern "C" fn(u32, u32, usize, u32)>("fake_add_node");
        // SAFETY: the type is right.
        unsafe { add(690, correlation, context, kind) };
    }

    /// Sends a resource callback about a graph.
    pub(crate) fn graph(&self, number: u32, graph: usize, node: usize, original: usize) {
        let send = self.function::<unsafe extern "C" fn(u32, usize, usize, usize)>("fake_graph");
        // SAFETY: the type is right.
        unsafe { send(number, graph, node, original) };
    }

    /// The kinds of records that are enabled, the callbacks of a domain, or the functions of an API that are recorded
    /// without the others (4 for the driver, 5 for the runtime).
    pub(crate) fn enabled(&self, domain: u32) -> Vec<u32> {
        let enabled = self.function::<unsafe extern "C" fn(u32, u32) -> c_int>("fake_enabled");
        let numbers = if domain == 0 { 0..64 } else { 0..800 };
        // SAFETY: the type is right.
        numbers.filter(|number| unsafe { enabled(domain, *number) } != 0).collect()
    }

    /// Calls a control function; it takes `number`, or no argument.
    pub(crate) fn tell(&self, what: &str, number: usize) {
        // SAFETY: the type is right.
        unsafe { self.function::<unsafe extern "C" fn(usize)>(what)(number) };
    }

    /// How often CUPTI was called; with `lookups`, how often only for a lookup.
    pub(crate) fn calls(&self, lookups: bool) -> c_int {
        // SAFETY: the type is right.
        unsafe { self.function::<unsafe extern "C" fn(usize) -> c_int>("fake_calls")(lookups.into()) }
    }

    /// How often all records were requested.
    pub(crate) fn flushes(&self) -> usize {
        // SAFETY: the type is right.
        unsafe { self.function::<unsafe extern "C" fn() -> usize>("fake_flushes")() }
    }

    /// How often a context was waited for.
    pub(crate) fn waited(&self, context: usize) -> c_int {
        // SAFETY: the signature of `fake_waited` in tests/cupti/cuda.c.
        let waited = unsafe { self.driver.get::<unsafe extern "C" fn(usize) -> c_int>(b"fake_waited") };
        // SAFETY: the function only counts.
        unsafe { waited.expect("fake_waited")(context) }
    }

    /// Makes CUPTI receive every driver call from now on, whoever makes it.
    pub(crate) fn report_calls(&self) {
        type Report = unsafe extern "C" fn(u32, *mut c_void);
        // SAFETY: the signature of `fake_report_to` in tests/cupti/cuda.c.
        let report_to = unsafe { self.driver.get::<unsafe extern "C" fn(Report)>(b"fake_report_to") };
        // SAFETY: both libraries stay loaded as long as this value.
        unsafe { report_to.expect("fake_report_to")(*self.function::<Report>("fake_reported")) };
    }
}

/// The reading of CUPTI's clock.
pub(crate) fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one struct.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
