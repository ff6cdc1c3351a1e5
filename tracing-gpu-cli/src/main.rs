//! The command, and the entry points of the injected library: see `lib.rs`.

#![no_main]
#![allow(unsafe_code)]
#![allow(non_snake_case)]

use std::ffi::{c_char, c_int, c_void};

use nvtx_rs::abi::GetExportTable;
use tracing_gpu::OpenAccRegister;
use tracing_gpu_cli::inject::entry;

#[global_allocator]
static MEMORY: tracing_gpu_cli::Memory = tracing_gpu_cli::Memory;

/// The path of the dynamic loader, which linkers omit from libraries but a program needs.
#[used]
#[unsafe(link_section = ".interp")]
static INTERPRETER: [u8; LOADER.len()] = *LOADER;

#[cfg(target_arch = "x86_64")]
const LOADER: &[u8; 28] = b"/lib64/ld-linux-x86-64.so.2\0";
#[cfg(target_arch = "aarch64")]
const LOADER: &[u8; 27] = b"/lib/ld-linux-aarch64.so.1\0";

/// The C library calls this. The `main` of Rust's runtime would read `/proc/self/maps` and map a stack for its handler
/// of stack overflows, which takes a tenth of the time in which the command measures `true`.
#[unsafe(no_mangle)]
pub extern "C" fn main(_count: c_int, _words: *const *const c_char) -> c_int {
    const PANICKED: u8 = 101; // the status that Rust's runtime ends with
    std::process::exit(std::panic::catch_unwind(tracing_gpu_cli::run).unwrap_or(PANICKED).into())
}

/// NVTX calls this; version 3 once for each part of the process with NVTX calls. The library `libnvToolsExt` of version
/// 2 looks for this function first, and only then for its own entry point with another interface.
///
/// # Safety
/// The argument is null or a function that returns the caller's export tables.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn InitializeInjectionNvtx2(tables: Option<GetExportTable>) -> c_int {
    // SAFETY: the caller vouches for `tables`.
    unsafe { entry::nvtx(tables, InitializeInjectionNvtx2) }
}

/// NVTX calls this for its extensions, such as payloads.
///
/// # Safety
/// The argument is the address of a module info struct.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn InitializeInjectionNvtxExtension(module: *mut c_void) -> c_int {
    // SAFETY: the caller vouches for `module`.
    unsafe { entry::nvtx_extension(module) }
}

/// The CUDA driver calls this inside `cuInit`.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    entry::cuda()
}

/// The runtime of OpenACC calls this with its three functions.
#[unsafe(no_mangle)]
pub extern "C" fn acc_register_library(
    register: OpenAccRegister,
    _unregister: OpenAccRegister,
    _lookup: *const c_void,
) {
    entry::openacc(register);
}
