//! A library that the CUDA driver loads inside `cuInit`: a profiler for any program, configured by `TRACING_GPU`.

#![allow(unsafe_code)] // what such a library is made of: exported functions, and a pointer that a forked child clears

use std::ffi::c_int;
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

use tracing_gpu::{Output, Profiler};

static PROFILER: AtomicPtr<Profiler> = AtomicPtr::new(std::ptr::null_mut());

/// A child gets its own profiler, if it needs one. Nothing is freed, because another thread may have been inside it.
extern "C" fn in_child() {
    PROFILER.store(std::ptr::null_mut(), Release);
}

/// The first step of each entry point: threads that arrive at once share one profiler.
fn profiler() -> &'static Profiler {
    static BUILDING: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    let _one_at_a_time = BUILDING.lock();
    // SAFETY: null, or leaked below.
    if let Some(there) = unsafe { PROFILER.load(Acquire).as_ref() } {
        return there;
    }
    let profiler = Profiler::builder().nvtx(false).gpu_when_injected(true).output(Output::None).build();
    let profiler: &'static Profiler = Box::leak(Box::new(profiler.expect("settings that can be used")));
    let before = PROFILER.swap(std::ptr::from_ref(profiler).cast_mut(), AcqRel);
    assert!(before.is_null());
    // SAFETY: the hook is a function without arguments that only stores.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    profiler
}

/// The driver calls this inside `cuInit`.
#[unsafe(no_mangle)]
extern "C" fn InitializeInjection() -> c_int {
    profiler().collect_in_injection();
    1
}

/// An entry point without CUDA, such as a first NVTX call.
#[unsafe(no_mangle)]
extern "C" fn annotate() {
    profiler();
}
