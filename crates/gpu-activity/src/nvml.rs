//! Clocks of GPUs, and what holds them down, from NVML.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};

use libloading::Library;

use crate::driver::functions;

type Device = *mut c_void;

functions! {
    Table -> c_int, required:
    init = c"nvmlInit_v2": fn(),
    shutdown = c"nvmlShutdown": fn(),
    count = c"nvmlDeviceGetCount_v2": fn(*mut c_uint),
    device = c"nvmlDeviceGetHandleByIndex_v2": fn(c_uint, *mut Device),
    name = c"nvmlDeviceGetName": fn(Device, *mut c_char, c_uint),
    uuid = c"nvmlDeviceGetUUID": fn(Device, *mut c_char, c_uint),
    clock = c"nvmlDeviceGetClockInfo": fn(Device, c_uint, *mut c_uint),
    most_clock = c"nvmlDeviceGetMaxClockInfo": fn(Device, c_uint, *mut c_uint),
    held_by = c"nvmlDeviceGetCurrentClocksThrottleReasons": fn(Device, *mut c_ulonglong),
}

/// The kinds of clocks, by NVML's numbers.
const SM: c_uint = 1;
const MEMORY: c_uint = 2;

/// A GPU and its clocks now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// Name of the product; empty where NVML does not tell it.
    pub name: String,
    /// Its UUID; likewise.
    pub uuid: String,
    /// Clock of the multiprocessors in MHz; 0 where NVML does not tell it, as for all numbers.
    pub sm_mhz: u32,
    /// Clock of the memory in MHz.
    pub memory_mhz: u32,
    /// The largest clock of the multiprocessors in MHz.
    pub most_sm_mhz: u32,
    /// What holds the clocks down: the bits of `nvmlClocksThrottleReasons`.
    pub held_by: u64,
}

/// The clocks of all GPUs, by their numbers in NVML. Empty where there is no NVML. Takes some milliseconds.
#[must_use]
pub fn clocks() -> Vec<Clocks> {
    let name = if cfg!(windows) { "nvml.dll" } else { "libnvidia-ml.so.1" };
    // SAFETY: the library comes with the driver, and its initialisers may run in any process.
    let Ok(library) = (unsafe { Library::new(name) }) else { return Vec::new() };
    let Ok(table) = Table::of(&library) else { return Vec::new() };
    // SAFETY: takes no arguments; NVML counts its users.
    if unsafe { (table.init)() } != 0 {
        return Vec::new();
    }
    let mut count = 0;
    // SAFETY: writes one integer.
    let known = unsafe { (table.count)(&raw mut count) } == 0;
    let clocks = (0..if known { count } else { 0 }).filter_map(|number| table.clocks(number)).collect();
    // SAFETY: ends what the call above began; no handle is used any more.
    unsafe { (table.shutdown)() };
    clocks
}

impl Table {
    // Every block below calls a function of the loaded library with a handle that NVML gave and that is valid until
    // its shutdown. If a call fails, what it would have written stays 0 or empty.

    fn clocks(&self, number: c_uint) -> Option<Clocks> {
        let mut device: Device = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        (unsafe { (self.device)(number, &raw mut device) } == 0).then_some(())?;
        let clock = |function: unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> c_int, kind| {
            let mut mhz = 0;
            // SAFETY: writes one integer.
            unsafe { function(device, kind, &raw mut mhz) };
            mhz
        };
        let text = |function: unsafe extern "C" fn(Device, *mut c_char, c_uint) -> c_int| {
            let mut text = [0_u8; 128];
            // SAFETY: writes at most 128 bytes, terminating NUL included, into an array of that size.
            unsafe { function(device, text.as_mut_ptr().cast(), 128) };
            CStr::from_bytes_until_nul(&text).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let mut held_by = 0;
        // SAFETY: writes one integer.
        unsafe { (self.held_by)(device, &raw mut held_by) };
        Some(Clocks {
            name: text(self.name),
            uuid: text(self.uuid),
            sm_mhz: clock(self.clock, SM),
            memory_mhz: clock(self.clock, MEMORY),
            most_sm_mhz: clock(self.most_clock, SM),
            held_by,
        })
    }
}
