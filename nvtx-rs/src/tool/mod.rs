//! The other side of the interface: receives the NVTX calls of a process, and passes them on.
//!
//! A [`Tool`] gets every call as a plain [`Call`]: with the domain's name, the text of registered strings, and the
//! variants of one call (default domain, wide strings, attributes) made one. It can be attached
//!
//! - **in the process**, by [`attach`], before the first NVTX call of this crate. It then sees the calls made through
//!   this crate, and hands them on to the tool that `NVTX_INJECTION64_PATH` names, such as a profiler;
//! - **from outside**, as a library of crate type `cdylib` with [`export_tool!`](crate::export_tool!), named by
//!   `NVTX_INJECTION64_PATH`. It then sees the calls of every part of the process, whatever language it is written in,
//!   and hands them on to the tool that `NVTX_RS_NEXT_TOOL` names. Several, in order, may be given like the directories
//!   in `PATH`; a tool of this crate that finds itself there goes on with the one behind it.
//!
//! The next tool gets the program's arguments, and the program gets that tool's result.
//!
//! Calls of the payload extension are treated like others: a range that is popped with a payload is popped. The
//! program's data are decoded when the tool asks for them ([`Extended::fields`]), by the schemas registered before.
//! Counters and the naming of memory are left to the next tool.
//!
//! A forked child can make calls at once, because no lock of this module stays locked. A tool must take care of its own
//! locks. Ranges and marks whose names the thread knows take no lock.
//!
//! NVTX calls that a tool makes while it is being called are ignored, and so are those of a signal handler that
//! interrupts it ([`ignored_calls`] counts both). A panic in a tool ends that call only.

mod arguments;
mod call;
mod decode;
mod deliver;
mod extended;
mod field;
mod fork;
mod handles;
pub(crate) mod install;
mod panics;
mod receive;
mod schema;
mod thread;

pub use call::{Call, Event, NamedObject, SyncAction, Tool};
pub use extended::Extended;
pub use field::{Field, FieldValue};
pub use install::{attach, next_tool};
#[doc(hidden)]
pub use install::{entry, extension};
#[doc(hidden)]
pub use thread::{Kept, outside};
pub use thread::{ignored_calls, is_inside};

/// Makes a library of crate type `cdylib` a tool that `NVTX_INJECTION64_PATH` can name.
///
/// The argument is the path of a function without parameters that returns a [`Tool`](crate::tool::Tool). It is called
/// once for the process.
///
/// ```
/// mod counting {
///     use nvtx_rs::tool::Call;
///
///     pub fn make() -> impl nvtx_rs::tool::Tool {
///         |call: &Call<'_>| eprintln!("{call:?}")
///     }
/// }
/// nvtx_rs::export_tool!(counting::make);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export_tool {
    ($make:path) => {
        /// Called by each part of the process that makes NVTX calls.
        ///
        /// # Safety
        /// The argument is null or a function that returns the caller's export tables.
        #[allow(unsafe_code, non_snake_case)]
        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn InitializeInjectionNvtx2(
            get_export_table: ::core::option::Option<$crate::abi::GetExportTable>,
        ) -> ::core::ffi::c_int {
            let make = || -> ::std::boxed::Box<dyn $crate::tool::Tool> { ::std::boxed::Box::new($make()) };
            // SAFETY: the caller vouches for the argument.
            unsafe { $crate::tool::entry(get_export_table, InitializeInjectionNvtx2, make) }
        }

        /// Called for the extensions of the interface.
        ///
        /// # Safety
        /// The argument is the address of a module info struct.
        #[allow(unsafe_code, non_snake_case)]
        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn InitializeInjectionNvtxExtension(
            module_info: *mut ::core::ffi::c_void,
        ) -> ::core::ffi::c_int {
            // SAFETY: the caller vouches for the argument.
            unsafe { $crate::tool::extension(module_info) }
        }
    };
}
