//! Runs work that needs much stack on a stack of our own, on the caller's thread.
//!
//! A coroutine may have only 16 KiB of stack, and a thread with large static thread-locals may have as little left.
//! Another thread is no solution: its thread-locals are as large, and it may wait for the dynamic loader's lock, which
//! the caller holds.
#![allow(unsafe_code)]

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
pub use switch::on_own_stack;

/// Runs the work on the caller's stack: this system has no other.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
pub fn on_own_stack<R>(run: impl FnOnce() -> R) -> R {
    run()
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod switch {
    use std::arch::asm;
    use std::cell::Cell;
    use std::ffi::c_void;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
    use std::thread;

    use crate::process::undisturbed;

    /// Bytes of a stack. Untouched pages of it take no memory.
    const STACK: usize = 1 << 20;
    /// Inaccessible bytes below the stack.
    const GUARD: usize = 64 << 10;
    /// Zeros above the stack, where a stack walk ends.
    const END: usize = 4096;
    const ALL: usize = GUARD + STACK + END;

    /// A spare stack for the next caller.
    static SPARE: AtomicPtr<u8> = AtomicPtr::new(null_mut());

    thread_local! {
        /// Whether this thread runs on a stack of ours.
        static IS_SWITCHED: Cell<bool> = const { Cell::new(false) };
    }

    struct Work<F, R> {
        run: Option<F>,
        result: Option<thread::Result<R>>,
    }

    /// Runs the work on a stack of our own, of 1 MiB, so that it takes little of the caller's. If this thread is on one
    /// already, or there is no memory, runs it on the caller's stack. A panic continues in the caller. With a spare
    /// stack there is no system call.
    pub fn on_own_stack<R>(run: impl FnOnce() -> R) -> R {
        let Some(stack) = (if IS_SWITCHED.get() { None } else { take() }) else { return run() };
        IS_SWITCHED.set(true);
        let result = call_on(stack, run);
        IS_SWITCHED.set(false);
        give_back(stack);
        match result {
            Some(Ok(result)) => result,
            Some(Err(panic)) => resume_unwind(panic),
            None => std::process::abort(), // the work has run and left a result
        }
    }

    #[inline(never)]
    fn call_on<F: FnOnce() -> R, R>(stack: *mut u8, run: F) -> Option<thread::Result<R>> {
        let mut work = Work { run: Some(run), result: None };
        let function: extern "C" fn(*mut c_void) = start::<F, R>;
        let (top, argument) = (stack.wrapping_add(GUARD + STACK), (&raw mut work).cast::<c_void>());
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an ordinary call in the C ABI, of a function that does not unwind. `top` is page-aligned, and only
        // this call uses the memory below it. The register that keeps the caller's stack pointer is one that functions
        // preserve.
        unsafe {
            asm!(
                "mov r12, rsp", "mov rsp, {top}", "call {function}", "mov rsp, r12",
                top = in(reg) top, function = in(reg) function, in("rdi") argument, out("r12") _,
                clobber_abi("C"),
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            asm!(
                "mov x20, sp", "mov sp, {top}", "blr {function}", "mov sp, x20",
                top = in(reg) top, function = in(reg) function, in("x0") argument, out("x20") _,
                clobber_abi("C"),
            );
        }
        work.result
    }

    /// The first function on our stack.
    extern "C" fn start<F: FnOnce() -> R, R>(work: *mut c_void) {
        // SAFETY: the work of `call_on`, which waits until this call ends.
        let work = unsafe { &mut *work.cast::<Work<F, R>>() };
        if let Some(run) = work.run.take() {
            work.result = Some(catch_unwind(AssertUnwindSafe(|| undisturbed(run))));
        }
    }

    fn take() -> Option<*mut u8> {
        let spare = SPARE.swap(null_mut(), Acquire);
        if !spare.is_null() {
            return Some(spare);
        }
        // SAFETY: new memory, which nobody else has. Its lowest part is made inaccessible, so that a stack overflow
        // faults at once.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE;
            let stack = libc::mmap(null_mut(), ALL, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            if stack == libc::MAP_FAILED {
                return None;
            }
            libc::mprotect(stack, GUARD, libc::PROT_NONE);
            Some(stack.cast())
        }
    }

    fn give_back(stack: *mut u8) {
        if SPARE.compare_exchange(null_mut(), stack, AcqRel, Relaxed).is_err() {
            // SAFETY: mapped by `take`, and no thread runs on it any more.
            unsafe { libc::munmap(stack.cast(), ALL) };
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// An address near the caller's stack pointer.
        #[inline(never)]
        fn here() -> usize {
            let here = std::hint::black_box(0u8);
            (&raw const here).addr()
        }

        #[test]
        fn work_runs_elsewhere_on_the_same_thread_and_returns() {
            let (there, inside, thread) = on_own_stack(|| (here(), on_own_stack(here), thread::current().id()));
            assert_eq!(thread, thread::current().id());
            assert!(there.abs_diff(here()) > STACK, "another stack");
            assert!(there.abs_diff(inside) < STACK, "the same one");
            let name = String::from("moved in and out");
            assert_eq!(on_own_stack(move || name), "moved in and out");
        }

        #[test]
        fn a_panic_goes_on_at_the_caller_and_the_stack_is_used_again() {
            for _ in 0..3 {
                let panicked = catch_unwind(|| on_own_stack(|| -> u8 { panic!("there") }));
                assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"there"));
            }
            assert!(!IS_SWITCHED.get());
        }

        #[test]
        fn threads_have_a_stack_each() {
            let deep = |depth: usize| {
                fn sum(depth: usize) -> usize {
                    let words = std::hint::black_box([depth; 64]);
                    if depth == 0 { 0 } else { words[depth % 64] + sum(depth - 1) }
                }
                on_own_stack(|| sum(depth))
            };
            thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| (0..100).map(|_| deep(200)).sum())).collect();
                let sums: Vec<usize> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
                assert_eq!(sums, [100 * 200 * 201 / 2; 8]);
            });
        }
    }
}
