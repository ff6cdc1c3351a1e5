//! The tables of function pointers that a tool fills, and the export tables through which it finds them.

#![allow(unsafe_code)]

use crate::abi;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// One function pointer of a client. `AtomicPtr<T>` has the layout of `*mut T`, so a tool can write to its address.
pub(crate) type Slot = AtomicPtr<c_void>;

/// Defines what has a part for each module.
macro_rules! modules {
    ($($module:ident),*) => {
        /// All slots of one client.
        pub(crate) struct Slots {
            $(pub(crate) $module: [Slot; abi::$module::SIZE],)*
        }

        impl Slots {
            /// Slots with the stub: a client before its first call.
            pub(crate) const fn fresh() -> Self {
                Self { $($module: [const { AtomicPtr::new(stub as *mut c_void) }; abi::$module::SIZE],)* }
            }

            /// Slots that hold nothing.
            #[cfg(feature = "tool")]
            pub(crate) const fn empty() -> Self {
                Self { $($module: [const { AtomicPtr::new(std::ptr::null_mut()) }; abi::$module::SIZE],)* }
            }

            /// Every slot of every module, including the unused entry 0 of each.
            pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot> {
                [$(self.$module.as_slice()),*].into_iter().flatten()
            }

            /// The slots of the module with this id.
            #[cfg(feature = "nvidia")]
            pub(crate) fn of(&self, module: i32) -> &[Slot] {
                match module {
                    $(abi::$module::MODULE => &self.$module,)*
                    _ => &[],
                }
            }
        }

        /// The addresses of the slots of each module: null, the slots from 1 up, null.
        pub(crate) struct Tables {
            $($module: [Option<&'static Slot>; abi::$module::SIZE + 1],)*
        }

        impl Tables {
            pub(crate) const fn of(slots: &'static Slots) -> Self {
                Self { $($module: table(&slots.$module),)* }
            }

            fn module(&self, module: i32) -> &[Option<&'static Slot>] {
                match module {
                    $(abi::$module::MODULE => &self.$module,)*
                    _ => &[],
                }
            }
        }
    };
}
modules!(core, cuda, opencl, cudart, core2, sync);

impl Slots {
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

const fn table<const N: usize, const M: usize>(slots: &'static [Slot; N]) -> [Option<&'static Slot>; M] {
    assert!(M == N + 1);
    let mut table = [None; M];
    let mut id = 1;
    while id < N {
        table[id] = Some(&slots[id]);
        id += 1;
    }
    table
}

impl Tables {
    /// Stores a module's table at the tool's request. Returns 0 for an unknown module.
    ///
    /// # Safety
    /// Each of `out_table` and `out_size` is null or valid for one write.
    pub(crate) unsafe fn give(&'static self, module: i32, out_table: *mut *const c_void, out_size: *mut u32) -> c_int {
        let table = self.module(module);
        let Some(size) = table.len().checked_sub(1) else { return 0 };
        if !out_table.is_null() {
            // SAFETY: the caller vouches for a non-null pointer.
            unsafe { out_table.write(table.as_ptr().cast()) };
        }
        if !out_size.is_null() {
            // SAFETY: as above. A table has at most 17 entries, so its size fits.
            unsafe { out_size.write(size as u32) };
        }
        1
    }
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
            static TABLES: $crate::abi::slots::Tables = $crate::abi::slots::Tables::of(&$slots);
            // SAFETY: by the interface the tool passes null or a place for the result, as `give` requires.
            unsafe { TABLES.give(module, out_table, out_size) }
        }
    };
}
pub(crate) use export_tables;
