//! The entry points that NVTX, the CUDA driver and the OpenACC runtime call in a measured process. They run on a stack
//! of our own, because the caller may be a coroutine.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::panic::catch_unwind;
use std::sync::atomic::Ordering::Release;

use nvtx_rs::abi::{Entry, GetExportTable};
use nvtx_rs::environment::variable;
use nvtx_rs::tool::Tool;
use tracing_gpu::{OpenAccRegister, on_own_stack};

use super::{IN_CUDA, OfThisProcess, enter};
use crate::folder::{CaptureRange, NEXT_CUDA};
use crate::system;

fn make() -> Box<dyn Tool> {
    Box::new(OfThisProcess)
}

/// Receives the calls of one part of the process with NVTX calls. `own` is the exported function.
///
/// # Safety
/// `tables` is null or returns a client's export tables.
pub unsafe fn nvtx(tables: Option<GetExportTable>, own: Entry) -> c_int {
    if system::is_in_static_program() {
        return 0;
    }
    on_own_stack(|| {
        if !measures() {
            return 0;
        }
        // SAFETY: the caller vouches for `tables`.
        unsafe { nvtx_rs::tool::entry(tables, own, make) }
    })
}

/// Receives the calls of an extension.
///
/// # Safety
/// `module` is the client's argument of this entry point.
pub unsafe fn nvtx_extension(module: *mut c_void) -> c_int {
    // SAFETY: the caller vouches for `module`.
    on_own_stack(|| unsafe { nvtx_rs::tool::extension(module) })
}

/// Called inside `cuInit`, so nothing here calls CUDA.
pub fn cuda() -> c_int {
    if system::is_in_static_program() {
        return 0;
    }
    next_cuda();
    on_own_stack(begin_in_cuda)
}

fn begin_in_cuda() -> c_int {
    let measured = catch_unwind(|| {
        let measured = enter()?;
        IN_CUDA.store(true, Release);
        match measured.settings.captured {
            CaptureRange::None => {}
            CaptureRange::Cuda => measured.wait_for_profiler_start(),
            CaptureRange::Nvtx(_) => measured.watch_graphs(),
        }
        if let Some(running) = measured.now() {
            tracing_gpu::without_signals(|| running.profiler.collect_in_injection());
            running.start_threads();
        }
        Some(())
    });
    c_int::from(matches!(measured, Ok(Some(()))))
}

/// Called at the start of an OpenACC runtime.
pub fn openacc(register: OpenAccRegister) {
    if system::is_in_static_program() {
        return;
    }
    let _panicked = catch_unwind(|| {
        on_own_stack(|| {
            let Some(measured) = enter() else { return };
            let _first = measured.openacc_register.set(register);
            measured.now().inspect(|running| running.begin(measured));
        });
    });
}

/// Catches panics, because callers are C code.
fn measures() -> bool {
    catch_unwind(|| enter().is_some()).unwrap_or(false)
}

/// Loads the library that was set for injection before. It comes first, because CUPTI serves whoever takes it first.
fn next_cuda() {
    let Some(path) = variable(NEXT_CUDA).filter(|path| !path.is_empty()) else { return };
    // SAFETY: the user or a tool has named this library for the driver to load, which is all that is done here.
    let Ok(library) = (unsafe { libloading::Library::new(path) }) else { return };
    // SAFETY: CUDA defines the type of this symbol. The library is never unloaded.
    if let Ok(entry) = unsafe { library.get::<unsafe extern "C" fn() -> c_int>(b"InitializeInjection\0") } {
        // SAFETY: called like the driver calls it, inside `cuInit`.
        let _its_own_affair = unsafe { entry() };
    }
    std::mem::forget(library);
}
