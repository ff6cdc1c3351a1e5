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

// Where the process begins. Linkers give programs a `_start` from the C library's files, and libraries none. This one
// passes `initialize` on, as those of glibc before 2.34 do: it runs on all of them.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".globl _start",
    ".type _start, @function",
    "_start:",
    "xor ebp, ebp",
    "mov r9, rdx", // what the loader wants to be called at the end
    "pop rsi",     // number of arguments, and below it the arguments
    "mov rdx, rsp",
    "and rsp, -16",
    "push rax",
    "push rsp", // the end of the stack
    "xor r8d, r8d",
    "lea rcx, [rip + {initialize}]",
    "lea rdi, [rip + {main}]",
    "call [rip + __libc_start_main@GOTPCREL]",
    "hlt",
    initialize = sym initialize,
    main = sym main,
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".globl _start",
    ".type _start, %function",
    "_start:",
    "mov x29, #0",
    "mov x30, #0",
    "mov x5, x0", // what the loader wants to be called at the end
    "ldr x1, [sp]", // number of arguments, and below it the arguments
    "add x2, sp, #8",
    "mov x6, sp", // the end of the stack
    "mov x4, #0",
    "adrp x3, {initialize}",
    "add x3, x3, :lo12:{initialize}",
    "adrp x0, {main}",
    "add x0, x0, :lo12:{main}",
    "bl __libc_start_main",
    "bl abort",
    initialize = sym initialize,
    main = sym main,
);

/// The C library calls this before `main`: it runs the initializers of this file, which the loader leaves to programs.
extern "C" fn initialize(count: c_int, words: *const *const c_char, environment: *const *const c_char) {
    type Initializer = extern "C" fn(c_int, *const *const c_char, *const *const c_char);
    const END: usize = 0;
    const ADDRESS: usize = 25;
    const SIZE: usize = 27; // `DT_INIT_ARRAY` and `DT_INIT_ARRAYSZ`
    let (mut first, mut size) = (0, 0);
    // SAFETY: linkers define both symbols in every file. The table ends with an entry of the tag 0; its addresses count
    // from the first byte of the file in memory, where linkers put the array that it names.
    unsafe {
        let mut entry = &raw const _DYNAMIC;
        while (*entry).tag != END {
            match (*entry).tag {
                ADDRESS => first = (*entry).value,
                SIZE => size = (*entry).value,
                _ => {}
            }
            entry = entry.add(1);
        }
        let array = (&raw const __ehdr_start).byte_add(first).cast::<Initializer>();
        for at in 0..size / size_of::<Initializer>() {
            (*array.add(at))(count, words, environment);
        }
    }
}

/// An entry of the table by which the loader finds the parts of a file.
#[repr(C)]
struct DynamicEntry {
    tag: usize,
    value: usize,
}

unsafe extern "C" {
    static _DYNAMIC: DynamicEntry;
    static __ehdr_start: u8;
}

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
