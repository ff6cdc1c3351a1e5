//! The tables of function pointers that a tool fills, and the export tables through which it finds them.

#![allow(unsafe_code)]

use crate::abi;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// One function pointer of a client. `AtomicPtr<T>` has the layout of `*mut T`, so a tool can write to its address.
pub(crate) type Slot = AtomicPtr<c_void>;

/// All slots of one client.
pub(crate) struct Slots {
    pub(crate) core: [Slot; abi::core::SIZE],
    pub(crate) cuda: [Slot; abi::cuda::SIZE],
    pub(crate) opencl: [Slot; abi::opencl::SIZE],
    pub(crate) cudart: [Slot; abi::cudart::SIZE],
    pub(crate) core2: [Slot; abi::core2::SIZE],
    pub(crate) sync: [Slot; abi::sync::SIZE],
}

impl Slots {
    /// Slots with the stub: a client before its first call.
    pub(crate) const fn fresh() -> Self {
        Self {
            core: [const { AtomicPtr::new(stub as *mut c_void) }; abi::core::SIZE],
            cuda: [const { AtomicPtr::new(stub as *mut c_void) }; abi::cuda::SIZE],
            opencl: [const { AtomicPtr::new(stub as *mut c_void) }; abi::opencl::SIZE],
            cudart: [const { AtomicPtr::new(stub as *mut c_void) }; abi::cudart::SIZE],
            core2: [const { AtomicPtr::new(stub as *mut c_void) }; abi::core2::SIZE],
            sync: [const { AtomicPtr::new(stub as *mut c_void) }; abi::sync::SIZE],
        }
    }

    /// Slots that hold nothing.
    #[cfg(feature = "tool")]
    pub(crate) const fn empty() -> Self {
        Self {
            core: [const { AtomicPtr::new(std::ptr::null_mut()) }; abi::core::SIZE],
            cuda: [const { AtomicPtr::new(std::ptr::null_mut()) }; abi::cuda::SIZE],
            opencl: [const { AtomicPtr::new(std::ptr::null_mut()) }; abi::opencl::SIZE],
            cudart: [const { AtomicPtr::new(std::ptr::null_mut()) }; abi::cudart::SIZE],
            core2: [const { AtomicPtr::new(std::ptr::null_mut()) }; abi::core2::SIZE],
            sync: [const { AtomicPtr::new(std::ptr::null_mut()) }; abi::sync::SIZE],
        }
    }

    /// Every slot of every module, including the unused entry 0 of each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot> {
        let first = self.core.iter().chain(&self.cuda).chain(&self.opencl);
        first.chain(&self.cudart).chain(&self.core2).chain(&self.sync)
    }

    /// Puts the stub everywhere and returns it, for [`Slots::clear_untouched`]. The returned pointer is compared later,
    /// because a function may have several addresses.
    pub(crate) fn fill_with_stub(&self) -> *mut c_void {
        let pointer = stub as *mut c_void;
        self.iter().for_each(|slot| slot.store(pointer, Ordering::Relaxed));
        pointer
    }

    /// Empties the slots that still hold `stub`.
    pub(crate) fn clear_untouched(&self, stub: *mut c_void) {
        for slot in self.iter() {
            let _ = slot.compare_exchange(stub, std::ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Empties all slots.
    pub(crate) fn clear(&self) {
        self.iter().for_each(|slot| slot.store(std::ptr::null_mut(), Ordering::Release));
    }
}

/// Takes a function's place until a tool has been searched for. A tool that calls it gets zero. The present calling
/// conventions allow calling a function without parameters with any arguments.
extern "system" fn stub() -> usize {
    0
}

/// The table of slot addresses of one module: null, the slots from 1 up, null.
pub(crate) const fn table<const N: usize, const M: usize>(slots: &'static [Slot; N]) -> [Option<&'static Slot>; M] {
    assert!(M == N + 1);
    let mut table = [None; M];
    let mut id = 1;
    while id < N {
        table[id] = Some(&slots[id]);
        id += 1;
    }
    table
}

/// Stores a module's table at the tool's request.
///
/// # Safety
/// Each of `out_table` and `out_size` is null or valid for one write.
pub(crate) unsafe fn give_table<const M: usize>(
    table: &'static [Option<&'static Slot>; M],
    out_table: *mut *const c_void,
    out_size: *mut u32,
) -> c_int {
    if !out_table.is_null() {
        // SAFETY: the caller vouches for a non-null pointer.
        unsafe { out_table.write(table.as_ptr().cast()) };
    }
    if !out_size.is_null() {
        // SAFETY: as above. A table has at most 17 entries, so its size fits.
        unsafe { out_size.write((M - 1) as u32) };
    }
    1
}

pub(crate) extern "system" fn ignore_injection_version(_version: u32) {}

/// Defines `get_export_table` for the static `$slots` in the calling module.
macro_rules! export_tables {
    ($slots:path) => {
        /// The function passed to a tool's entry point.
        pub(crate) extern "system" fn get_export_table(id: u32) -> *const std::ffi::c_void {
            use $crate::abi::{self, export_table};
            static CALLBACKS: abi::ExportTableCallbacks = abi::ExportTableCallbacks {
                struct_size: size_of::<abi::ExportTableCallbacks>(),
                get_module_function_table,
            };
            static VERSION_INFO: abi::ExportTableVersionInfo = abi::ExportTableVersionInfo {
                struct_size: size_of::<abi::ExportTableVersionInfo>(),
                version: abi::VERSION as u32,
                reserved0: 0,
                set_injection_version: $crate::abi::slots::ignore_injection_version,
            };
            match id {
                export_table::CALLBACKS => std::ptr::from_ref(&CALLBACKS).cast(),
                export_table::VERSION_INFO => std::ptr::from_ref(&VERSION_INFO).cast(),
                _ => std::ptr::null(),
            }
        }

        unsafe extern "system" fn get_module_function_table(
            module: i32,
            out_table: *mut *const std::ffi::c_void,
            out_size: *mut u32,
        ) -> std::ffi::c_int {
            use $crate::abi::slots::{Slot, give_table, table};
            use $crate::abi::{self, module};
            static CORE: [Option<&'static Slot>; abi::core::SIZE + 1] = table(&$slots.core);
            static CUDA: [Option<&'static Slot>; abi::cuda::SIZE + 1] = table(&$slots.cuda);
            static OPENCL: [Option<&'static Slot>; abi::opencl::SIZE + 1] = table(&$slots.opencl);
            static CUDART: [Option<&'static Slot>; abi::cudart::SIZE + 1] = table(&$slots.cudart);
            static CORE2: [Option<&'static Slot>; abi::core2::SIZE + 1] = table(&$slots.core2);
            static SYNC: [Option<&'static Slot>; abi::sync::SIZE + 1] = table(&$slots.sync);
            // SAFETY: by the interface the tool passes null or a place for the result, as `give_table` requires.
            unsafe {
                match module {
                    module::CORE => give_table(&CORE, out_table, out_size),
                    module::CUDA => give_table(&CUDA, out_table, out_size),
                    module::OPENCL => give_table(&OPENCL, out_table, out_size),
                    module::CUDART => give_table(&CUDART, out_table, out_size),
                    module::CORE2 => give_table(&CORE2, out_table, out_size),
                    module::SYNC => give_table(&SYNC, out_table, out_size),
                    _ => 0,
                }
            }
        }
    };
}
pub(crate) use export_tables;
