//! CUPTI without this library: records are thrown away.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cudarc::driver::CudaContext;

use super::foreign::{Cupti, Raw};

const BUFFER: Layout = match Layout::from_size_align(4 << 20, 8) {
    Ok(layout) => layout,
    Err(_) => panic!("a layout"),
};

/// Buffers that CUPTI has returned.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

extern "C" fn request(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    #[allow(unsafe_code)]
    // SAFETY: CUPTI passes three pointers to write to. A buffer belongs to CUPTI until CUPTI returns it.
    unsafe {
        *buffer = free.map_or_else(|| alloc_zeroed(BUFFER), |address| address as *mut u8);
        if (*buffer).is_null() {
            handle_alloc_error(BUFFER);
        }
        (*size, *records) = (BUFFER.size(), 0);
    }
}

/// Throws the records away.
extern "C" fn complete(_context: Raw, _stream: u32, buffer: *mut u8, _size: usize, _valid: usize) {
    FREE.lock().unwrap_or_else(PoisonError::into_inner).push(buffer as usize);
}

extern "C" fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[allow(unsafe_code)]
    // SAFETY: writes one struct.
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now);
    }
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

extern "C" fn called(_user: Raw, _domain: i32, _number: u32, _data: *const c_void) {}

/// CUPTI, started. Ends with the process.
pub(crate) struct Alone(Cupti);

impl Alone {
    /// Starts it, optionally with a clock and callbacks at launches, and with a thread that flushes as often as ours.
    pub(crate) fn start(kinds: &[i32], callbacks: bool, flushes: bool) -> Self {
        const DRIVER_API: i32 = 1;
        const LAUNCH_KERNEL: u32 = 307;
        const PERIOD: Duration = Duration::from_millis(100);
        // The driver must be there before any function of CUPTI is called.
        assert!(CudaContext::device_count().is_ok_and(|count| count > 0), "no CUDA device");
        let cupti = Cupti::open().expect("CUPTI");
        #[allow(unsafe_code)]
        // SAFETY: the callbacks are functions of this program, kinds are numbers, and the subscriber is written before
        // it is read.
        unsafe {
            if callbacks {
                let mut subscriber = null_mut();
                assert_eq!((cupti.subscribe)(&raw mut subscriber, called, null_mut()), 0, "cuptiSubscribe");
                assert_eq!((cupti.enable_callback)(1, subscriber, DRIVER_API, LAUNCH_KERNEL), 0, "cuptiEnableCallback");
                assert_eq!((cupti.clock)(monotonic), 0, "cuptiActivityRegisterTimestampCallback");
            }
            assert_eq!((cupti.register)(request, complete), 0, "cuptiActivityRegisterCallbacks");
            for &kind in kinds {
                assert_eq!((cupti.enable)(kind), 0, "cuptiActivityEnable({kind})");
            }
        }
        if flushes {
            std::thread::spawn(move || {
                loop {
                    std::thread::sleep(PERIOD);
                    flush(&cupti);
                }
            });
        }
        Self(cupti)
    }

    /// Makes CUPTI return its buffers. Returns how many arrived.
    pub(crate) fn end(&self) -> usize {
        flush(&self.0);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

fn flush(cupti: &Cupti) {
    #[allow(unsafe_code)]
    // SAFETY: the only argument is a flag.
    unsafe {
        (cupti.flush)(0);
    }
}
