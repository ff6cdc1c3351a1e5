//! NVTX ranges of C and C++ code that is linked into the program, and of NVIDIA's crate `nvtx`. Their calls arrive here
//! without a loaded tool library.
//!
//! NVTX's headers look for a tool in the variable `InitializeInjectionNvtx2_fnptr`, which they declare weak. It is
//! defined here. The first NVTX call of each such part of the program checks for a profiler of foreign ranges. If there
//! is none, that part never has a tool, as if this file did not exist.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

use nvtx_rs::abi::{Entry, GetExportTable};
use nvtx_rs::tool::{Call, Tool};

use super::tool::NvtxTool;
use crate::core::thread::engine::Engine;

/// The engine that measures such ranges; null if none does.
static ENGINE: AtomicPtr<Engine> = AtomicPtr::new(null_mut());

/// The variable in which NVTX's headers find a tool inside the program.
#[allow(non_upper_case_globals, reason = "the name is NVTX's")]
#[unsafe(no_mangle)]
pub(crate) static InitializeInjectionNvtx2_fnptr: Entry = attach;

/// Called at the first NVTX call of a part of the program.
extern "system" fn attach(get_export_table: Option<GetExportTable>) -> c_int {
    if ENGINE.load(Acquire).is_null() {
        return 0;
    }
    // SAFETY: NVTX's headers call this with their own function for their tables; `attach` is the entry point that they
    // called.
    unsafe { nvtx_rs::tool::entry(get_export_table, attach, || Box::new(Linked)) }
}

/// Makes this engine measure the ranges, unless another one does.
pub(crate) fn measure(engine: &'static Engine) -> bool {
    let address = std::ptr::from_ref(engine).cast_mut();
    let is_free = ENGINE.compare_exchange(null_mut(), address, AcqRel, Acquire).is_ok();
    if is_free {
        engine.session.parts.foreign.receive();
    }
    is_free
}

/// Stops the engine's measuring: the next one may begin.
pub(crate) fn give_back(engine: &'static Engine) {
    let address = std::ptr::from_ref(engine).cast_mut();
    let _not_ours = ENGINE.compare_exchange(address, null_mut(), AcqRel, Relaxed);
}

/// Passes calls to the present engine.
struct Linked;

impl Tool for Linked {
    #[inline]
    fn call(&self, call: &Call<'_>) {
        // SAFETY: the stored pointer is null or comes from a reference that is valid for ever.
        if let Some(engine) = unsafe { ENGINE.load(Acquire).as_ref() } {
            NvtxTool::of(engine).call(call);
        }
    }
}
