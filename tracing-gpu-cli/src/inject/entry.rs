//! The entry points: what NVTX, the CUDA driver and the runtime of OpenACC call in a measured process. They run on a
//! stack of our own: what calls may be a coroutine.

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

/// Receives the calls of one part of the process that makes NVTX calls. `own` is the exported function.
///
/// # Safety
/// `tables` is null or gives out a client's export tables.
pub unsafe fn nvtx(tables: Option<GetExportTable>, own: Entry) -> c_int {
    if system::is_in_static_program() {
        return 0;
    }
    on_own_stack(|| {
        if !measures() {
            return 0;
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { nvtx_rs::tool::entry(tables, own, make) }
    })
}

/// Receives the calls of an extension.
///
/// # Safety
/// `module` is what a client passes to this entry point.
pub unsafe fn nvtx_extension(module: *mut c_void) -> c_int {
    // SAFETY: the caller's promise is passed on.
    on_own_stack(|| unsafe { nvtx_rs::tool::extension(module) })
}

/// Inside `cuInit`: nothing here calls CUDA.
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
        if measured.settings.captured == CaptureRange::Cuda {
            measured.wait_for_profiler_start();
        }
        if let Some(running) = measured.now() {
            system::without_signals(|| running.profiler.collect_in_injection());
            running.start_threads();
        }
        Some(())
    });
    c_int::from(matches!(measured, Ok(Some(()))))
}

/// At the start of a runtime of OpenACC.
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

/// No panic leaves this library: there is C on the stack.
fn measures() -> bool {
    catch_unwind(|| enter().is_some()).unwrap_or(false)
}

/// Who was to be injected into CUDA comes first: what it takes of CUPTI it keeps.
fn next_cuda() {
    let Some(path) = variable(NEXT_CUDA).filter(|path| !path.is_empty()) else { return };
    // SAFETY: a library that the user, or a tool, has named for the driver to load: it is loaded for no other reason.
    let Ok(library) = (unsafe { libloading::Library::new(path) }) else { return };
    // SAFETY: by CUDA's interface this symbol is a function of this type. The library stays.
    if let Ok(entry) = unsafe { library.get::<unsafe extern "C" fn() -> c_int>(b"InitializeInjection\0") } {
        // SAFETY: as the driver calls it, inside `cuInit`.
        let _its_own_affair = unsafe { entry() };
    }
    std::mem::forget(library);
}
