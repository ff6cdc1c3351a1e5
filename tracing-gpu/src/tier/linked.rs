//! NVTX ranges of C and C++ code that is linked into the program, and of NVIDIA's crate `nvtx`: their calls come here
//! without a library that is loaded.
//!
//! NVTX's headers look for a tool in the variable `InitializeInjectionNvtx2_fnptr`, which they declare weak. It is
//! defined here. The first NVTX call of each such part of the program asks whether there is a profiler for foreign
//! ranges; a part that finds none has no tool for good, as if this were not here.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

use nvtx_rs::abi::{Entry, GetExportTable};
use nvtx_rs::tool::{Call, Tool};

use super::tool::NvtxTool;
use crate::thread::engine::Engine;

/// The engine that measures such ranges; null where none does.
static ENGINE: AtomicPtr<Engine> = AtomicPtr::new(null_mut());

/// Where NVTX's headers find a tool that is part of the program.
#[allow(non_upper_case_globals, reason = "the name is NVTX's")]
#[unsafe(no_mangle)]
pub(crate) static InitializeInjectionNvtx2_fnptr: Entry = attach;

/// Called at the first NVTX call of a part of the program.
extern "system" fn attach(get_export_table: Option<GetExportTable>) -> c_int {
    if ENGINE.load(Acquire).is_null() {
        return 0;
    }
    // SAFETY: NVTX's headers call this, with their own function that gives out their tables; `attach` is the entry
    // point that they called.
    unsafe { nvtx_rs::tool::entry(get_export_table, attach, || Box::new(Linked)) }
}

/// Has this engine measure the ranges, unless another one does.
pub(crate) fn measure(engine: &'static Engine) -> bool {
    let address = std::ptr::from_ref(engine).cast_mut();
    let is_free = ENGINE.compare_exchange(null_mut(), address, AcqRel, Acquire).is_ok();
    if is_free {
        engine.session.foreign.receive();
    }
    is_free
}

/// The engine measures no more: the next one may.
pub(crate) fn give_back(engine: &'static Engine) {
    let address = std::ptr::from_ref(engine).cast_mut();
    let _not_ours = ENGINE.compare_exchange(address, null_mut(), AcqRel, Relaxed);
}

/// Hands calls to the engine of the moment.
struct Linked;

impl Tool for Linked {
    #[inline]
    fn call(&self, call: &Call<'_>) {
        // SAFETY: what is stored here is null or comes from a reference that is valid for ever.
        if let Some(engine) = unsafe { ENGINE.load(Acquire).as_ref() } {
            NvtxTool::of(engine).call(call);
        }
    }
}
