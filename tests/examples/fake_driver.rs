//! A CUDA driver without a GPU: all enqueued work has finished at once, and a pair of events reads 2 us.
//!
//! It has the functions that `tracing-gpu` searches for, those that cudarc calls for a context and a stream, and
//! `fake_driver_calls`, which returns how often one was called. Tests copy it to a folder as `libcuda.so.1` and set
//! `LD_LIBRARY_PATH`. The variable `FAKE_DRIVER` selects a behaviour:
//!
//! - `no_streams`: no stream can be created;
//! - `capturing`: every stream is in a capture, as after `fake_driver_capture(1)`;
//! - `stuck`: no event is ever reached, but waiting for one returns;
//! - `hangs`: the same, and waiting for one never returns;
//! - `deinitializes`: an exit hook of the driver takes it down, and it refuses everything from then on;
//! - `watched`: counts events that are recorded again before they were read, for `fake_driver_overwritten`;
//! - `cuda_12`: a driver for CUDA 12.4, without functions that such a driver lacks.
//!
//! `FAKE_DRIVER_FAILS=N:CODE` makes the N-th call, counted from `fake_driver_arm` on, fail with this code and do
//! nothing.

#![allow(unsafe_code)] // what a driver is made of: exported functions that write through pointers

use std::collections::HashSet;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::without_provenance_mut as handle;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, OnceLock};

type Handle = *mut c_void;

const CONTEXT: usize = 0x1000;
const OUT_OF_MEMORY: c_int = 2;
const DEINITIALIZED: c_int = 4;
const NOT_READY: c_int = 600;

fn is(behavior: &str) -> bool {
    static BEHAVIOR: OnceLock<String> = OnceLock::new();
    BEHAVIOR.get_or_init(|| std::env::var("FAKE_DRIVER").unwrap_or_default()) == behavior
}

static CAPTURING: AtomicBool = AtomicBool::new(false);

/// Whether a query of the time between events blocks, and how many do.
static HOLDS: AtomicBool = AtomicBool::new(false);
static HELD: AtomicU64 = AtomicU64::new(0);

/// Set by the exit hook, if there is one.
static IS_DOWN: AtomicBool = AtomicBool::new(false);

extern "C" fn take_down() {
    IS_DOWN.store(true, Relaxed);
}

/// Recorded but unread events, if that is watched; and how many were recorded again.
static UNREAD: LazyLock<Mutex<(HashSet<usize>, u64)>> = LazyLock::new(Mutex::default);

fn watch(event: Handle, is_read: bool) {
    let mut unread = UNREAD.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if is_read {
        unread.0.remove(&event.addr());
    } else if !unread.0.insert(event.addr()) {
        unread.1 += 1;
    }
}

/// Number of calls since counting was enabled.
static ARMED: AtomicBool = AtomicBool::new(false);
static ARMED_CALLS: AtomicU64 = AtomicU64::new(0);

/// The code with which this call must fail, if it must.
fn failure() -> Option<c_int> {
    static WHICH: OnceLock<Option<(u64, c_int)>> = OnceLock::new();
    if !ARMED.load(Relaxed) {
        return None;
    }
    let number = ARMED_CALLS.fetch_add(1, Relaxed);
    let (which, code) = (*WHICH.get_or_init(|| {
        let text = std::env::var("FAKE_DRIVER_FAILS").ok()?;
        let (number, code) = text.split_once(':')?;
        Some((number.parse().ok()?, code.parse().ok()?))
    }))?;
    (number == which).then_some(code)
}

/// A new handle.
fn fresh() -> Handle {
    static NEXT: AtomicUsize = AtomicUsize::new(0x10_000);
    handle(NEXT.fetch_add(16, Relaxed))
}

thread_local! {
    /// The stack of current contexts, as far as it is used: the current one, and the one below.
    static CURRENT: std::cell::Cell<[usize; 2]> = const { std::cell::Cell::new([0; 2]) };
    static CAPTURE_MODE: std::cell::Cell<c_uint> = const { std::cell::Cell::new(0) };
}

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) $body:block)*) => {
        static NAMES: &[&str] = &[$(stringify!($name)),*];
        #[allow(non_camel_case_types)]
        enum Number { $($name),* }
        static CALLS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                let calls = &CALLS[Number::$name as usize];
                calls.store(calls.load(Relaxed) + 1, Relaxed); // exact for a single calling thread, and cheap
                if IS_DOWN.load(Relaxed) {
                    return DEINITIALIZED;
                }
                if let Some(code) = failure() {
                    return code;
                }
                // SAFETY: the caller passes writable pointers, as the driver's documentation requires.
                #[allow(unused_unsafe)]
                unsafe { $body }
            }
        )*
    };
}

functions! {
    cuInit(_flags: c_uint) {
        static ONCE: std::sync::Once = std::sync::Once::new();
        if is("deinitializes") {
            ONCE.call_once(|| assert_eq!(libc::atexit(take_down), 0));
        }
        0
    }
    cuDriverGetVersion(version: *mut c_int) { *version = if is("cuda_12") { 12_040 } else { 13_000 }; 0 }
    cuDeviceGet(device: *mut c_int, number: c_int) { *device = number; 0 }
    cuDeviceGetCount(count: *mut c_int) { *count = 1; 0 }
    cuDeviceGetName(name: *mut c_char, _length: c_int, _device: c_int) {
        for (index, &letter) in c"Fake GPU".to_bytes_with_nul().iter().enumerate() {
            *name.add(index) = letter as c_char;
        }
        0
    }
    cuDeviceGetAttribute(value: *mut c_int, _attribute: c_int, _device: c_int) { *value = 0; 0 }
    cuDevicePrimaryCtxRetain(context: *mut Handle, _device: c_int) { *context = handle(CONTEXT); 0 }
    cuDevicePrimaryCtxRelease_v2(_device: c_int) { 0 }
    cuCtxGetCurrent(context: *mut Handle) { *context = handle(CURRENT.get()[0]); 0 }
    cuCtxSetCurrent(context: Handle) { CURRENT.set([context.addr(), CURRENT.get()[1]]); 0 }
    cuCtxPushCurrent_v2(context: Handle) { CURRENT.set([context.addr(), CURRENT.get()[0]]); 0 }
    cuCtxPopCurrent_v2(context: *mut Handle) {
        let [top, below] = CURRENT.get();
        *context = handle(top);
        CURRENT.set([below, 0]);
        0
    }
    cuCtxGetDevice(device: *mut c_int) { *device = 0; 0 }
    cuCtxSynchronize() { 0 }
    cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) { *mode = CAPTURE_MODE.replace(*mode); 0 }
    cuStreamIsCapturing(_stream: Handle, status: *mut c_uint) {
        *status = c_uint::from(is("capturing") || CAPTURING.load(Relaxed));
        0
    }
    cuStreamCreate(stream: *mut Handle, _flags: c_uint) {
        if is("no_streams") { OUT_OF_MEMORY } else { *stream = fresh(); 0 }
    }
    cuStreamDestroy_v2(_stream: Handle) { 0 }
    cuStreamSynchronize(_stream: Handle) { 0 }
    cuLaunchHostFunc(_stream: Handle, body: extern "C" fn(Handle), data: Handle) { body(data); 0 }
    cuEventCreate(event: *mut Handle, _flags: c_uint) { *event = fresh(); 0 }
    cuEventDestroy_v2(_event: Handle) { 0 }
    cuEventRecord(event: Handle, _stream: Handle) { if is("watched") { watch(event, false); } 0 }
    cuEventQuery(_event: Handle) { 0 }
    cuEventSynchronize(_event: Handle) {
        while is("hangs") {
            std::thread::park();
        }
        0
    }
    cuEventElapsedTime_v2(milliseconds: *mut f32, start: Handle, end: Handle) {
        if HOLDS.load(Relaxed) {
            HELD.fetch_add(1, Relaxed);
            while HOLDS.load(Relaxed) {
                std::thread::yield_now();
            }
        }
        if is("stuck") || is("hangs") {
            return NOT_READY;
        }
        if is("watched") {
            [start, end].into_iter().for_each(|event| watch(event, true));
        }
        *milliseconds = 0.002;
        0
    }
    cuGetErrorString(_error: c_int, text: *mut *const c_char) { *text = c"an error of the fake driver".as_ptr(); 0 }
}

/// Calls of the function of that name so far; `u64::MAX` where there is none.
///
/// # Safety
/// `name` must be a string that ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_driver_calls(name: *const c_char) -> u64 {
    // SAFETY: the caller vouches for the name.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    NAMES.iter().position(|known| *known == name).map_or(u64::MAX, |index| CALLS[index].load(Relaxed))
}

/// Starts or stops counting calls. Returns the count.
#[unsafe(no_mangle)]
pub extern "C" fn fake_driver_arm(counts: c_uint) -> u64 {
    ARMED.store(counts != 0, Relaxed);
    ARMED_CALLS.load(Relaxed)
}

/// Puts every stream into a capture, or none.
#[unsafe(no_mangle)]
pub extern "C" fn fake_driver_capture(captures: c_uint) {
    CAPTURING.store(captures != 0, Relaxed);
}

/// Makes queries of the time between two events block, or no longer.
#[unsafe(no_mangle)]
pub extern "C" fn fake_driver_hold(holds: c_uint) {
    HOLDS.store(holds != 0, Relaxed);
}

/// How many queries had to block.
#[unsafe(no_mangle)]
pub extern "C" fn fake_driver_held() -> u64 {
    HELD.load(Relaxed)
}

/// Number of events so far that were recorded again before they were read.
#[unsafe(no_mangle)]
pub extern "C" fn fake_driver_overwritten() -> u64 {
    UNREAD.lock().unwrap_or_else(std::sync::PoisonError::into_inner).1
}
