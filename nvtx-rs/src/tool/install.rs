//! Puts a tool's functions into the slots of a client, and finds the next tool.

#![allow(unsafe_code)]

use super::call::{Call, Tool};
use super::deliver::{INSTALLED, Installed, NEXT_PAYLOAD_SLOTS, NEXT_SLOTS, Next, deliver};
use super::thread::{inside, is_inside};
use super::{fork, panics, receive};
use crate::abi::environment::variable;
use crate::abi::loading::{State, load_library};
use crate::abi::program;
use crate::abi::slots::export_tables;
use crate::abi::{self, ExportTableCallbacks, ExportTableVersionInfo, ExtensionInfo, ExtensionSegment, GetExportTable};
use std::error::Error;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The variable that names the tool, or several, to which a tool loaded from outside passes the calls.
const NEXT_TOOL: &str = "NVTX_RS_NEXT_TOOL";

export_tables!(crate::tool::deliver::NEXT_SLOTS);

/// The result of loading the next tool: `None` if no other tool was named or this process has no tool of this crate.
///
/// ```
/// assert_eq!(nvtx_rs::tool::next_tool(), None);
/// ```
pub fn next_tool() -> Option<State> {
    INSTALLED.get()?.next.as_ref().map(|next| next.state.clone())
}

/// Attaches a tool in this process, for its whole life. If `NVTX_INJECTION64_PATH` names a tool too, that one also gets
/// the calls; [`next_tool`] has the result.
///
/// # Errors
/// If an NVTX call was made before.
///
/// ```
/// use nvtx_rs::tool::{Call, attach};
/// use std::sync::mpsc;
///
/// let (sender, receiver) = mpsc::channel();
/// attach(Box::new(move |call: &Call<'_>| {
///     if let Call::Push { event, .. } = call {
///         let _ = sender.send(event.message.map(str::to_owned));
///     }
/// }))?;
/// drop(nvtx_rs::range!("load"));
/// assert_eq!(receiver.recv().unwrap().as_deref(), Some("load"));
/// # Ok::<(), nvtx_rs::AttachError>(())
/// ```
pub fn attach(tool: Box<dyn Tool>) -> Result<(), AttachError> {
    program::set_inside_tool(is_inside);
    let mut attached = false;
    program::initialize(|| {
        let path = variable(abi::INJECTION_PATH).map(PathBuf::from);
        let mut tool = Some(tool);
        INSTALLED.get_or_init(|| Installed {
            tool: tool.take().unwrap_or_else(|| Box::new(|_: &Call<'_>| {})),
            next: path.map(load_next),
        });
        attached = tool.is_none();
        // SAFETY: this crate's own function gives out this crate's own tables.
        if unsafe { install(program::get_export_table) } {
            inside(|_thread| deliver(&Call::Attach));
            State::Attached
        } else {
            State::NotSet
        }
    });
    if attached { Ok(()) } else { Err(AttachError::TooLate) }
}

/// Why a tool could not be attached in the process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttachError {
    /// An NVTX call was made before, or another tool or transport was chosen: the choice is made once.
    TooLate,
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLate => f.write_str("a tool can be attached only before the first NVTX call of the process"),
        }
    }
}

impl Error for AttachError {}

/// The entry point of a tool that is loaded from outside.
///
/// # Safety
/// `get_export_table` is null or returns a client's export tables. `own` is the called entry point.
pub unsafe fn entry(get_export_table: Option<GetExportTable>, own: abi::Entry, make: fn() -> Box<dyn Tool>) -> c_int {
    let Some(get_export_table) = get_export_table else { return 0 };
    program::set_inside_tool(is_inside);
    // `make` may itself make NVTX calls, which load this library again. The tool does not receive these calls.
    let installed = inside(|_thread| {
        panics::contain(|| {
            INSTALLED.get_or_init(|| Installed { tool: make(), next: choose_next(own).map(load_next) });
            // SAFETY: the caller vouches for the function.
            let installed = unsafe { install(get_export_table) };
            if installed {
                deliver(&Call::Attach);
            }
            installed
        })
    });
    c_int::from(installed == Some(Some(true)))
}

/// The entry point for extensions. Payloads are received; other extensions are left to the next tool. It succeeds even
/// without a next tool, because programs use it to ask whether a domain is enabled.
///
/// # Safety
/// `module_info` is a client's argument of this entry point.
pub unsafe fn extension(module_info: *mut c_void) -> c_int {
    let Some(installed) = INSTALLED.get().filter(|_| !module_info.is_null()) else { return 0 };
    let next = installed.next.as_ref().and_then(|next| next.extension);
    let info = module_info.cast::<ExtensionInfo>();
    // SAFETY: by the interface this struct, whose first fields always exist; the others are read only if it is long
    // enough.
    let segment = unsafe {
        let whole = usize::from((*info).size) >= size_of::<ExtensionInfo>();
        let is_payload = whole && i32::from((*info).module) == abi::payload::MODULE && (*info).segment_count > 0;
        if is_payload { (*info).segments } else { null_mut() }
    };
    if segment.is_null() {
        // SAFETY: the function is the next tool's entry point of this type, and the caller vouches for the argument.
        return next.map_or(1, |next| unsafe { next(module_info) });
    }
    if let Some(next) = next {
        let slots = NEXT_PAYLOAD_SLOTS.as_ptr().cast_mut().cast();
        let mut own = ExtensionSegment { id: 0, slot_count: abi::payload::SIZE, slots };
        // SAFETY: as above. The next tool gets slots of our own, which it fills before any call goes through them.
        unsafe {
            let mut copy = ExtensionInfo { segment_count: 1, segments: &raw mut own, ..*info };
            if next((&raw mut copy).cast()) == 0 {
                NEXT_PAYLOAD_SLOTS.iter().for_each(|slot| slot.store(null_mut(), Ordering::Release));
            }
        }
    }
    // SAFETY: the client passes at least one segment.
    let ExtensionSegment { slot_count, slots, .. } = unsafe { *segment };
    let mut functions: Vec<*mut c_void> =
        NEXT_PAYLOAD_SLOTS.iter().map(|slot| slot.load(Ordering::Acquire)).take(slot_count).collect();
    for (_, id, function) in receive::payload_receivers() {
        if let Some(slot) = functions.get_mut(id) {
            *slot = function;
        }
    }
    for (id, function) in functions.into_iter().enumerate().filter(|(_, function)| !function.is_null()) {
        // SAFETY: the segment has `slot_count` slots, which live as long as the client and are read while written.
        unsafe { AtomicPtr::from_ptr(slots.add(id)) }.store(function, Ordering::Release);
    }
    1
}

/// The tool behind this one in the list; the first one if this one is not in it.
fn choose_next(own: abi::Entry) -> Option<PathBuf> {
    let list = variable(NEXT_TOOL)?;
    let tools: Vec<PathBuf> = std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect();
    let is_own =
        |path: &PathBuf| load_library(path.clone()).is_ok_and(|(_library, entry)| std::ptr::fn_addr_eq(entry, own));
    let next = tools.iter().rposition(is_own).map_or(0, |own| own + 1);
    tools.into_iter().nth(next)
}

fn load_next(path: PathBuf) -> Next {
    let (library, entry) = match load_library(path) {
        Ok(loaded) => loaded,
        Err(state) => return Next { state, extension: None },
    };
    let stub = NEXT_SLOTS.fill_with_stub();
    // SAFETY: the path names a tool, `entry` is the function of that interface, and the tables it is led to are filled
    // before any call goes through them.
    if unsafe { entry(Some(get_export_table)) } == 0 {
        NEXT_SLOTS.clear();
        return Next { state: State::EntryFailed { path: library.path }, extension: None };
    }
    NEXT_SLOTS.clear_untouched(stub);
    let extension = library.extension_entry();
    library.keep();
    Next { state: State::Attached, extension }
}

/// Fills the slots of the client whose export tables these are.
///
/// # Safety
/// `get_export_table` returns the export tables of a client.
unsafe fn install(get_export_table: GetExportTable) -> bool {
    fork::watch();
    // SAFETY: the caller vouches for the function; it takes any number.
    let (callbacks, version) =
        unsafe { (get_export_table(abi::export_table::CALLBACKS), get_export_table(abi::export_table::VERSION_INFO)) };
    let callbacks = callbacks.cast::<ExportTableCallbacks>();
    // SAFETY: by the interface this table is null or this struct, whose first field is always there.
    if callbacks.is_null() || unsafe { (*callbacks).struct_size } < size_of::<ExportTableCallbacks>() {
        return false;
    }
    let version = version.cast::<ExportTableVersionInfo>();
    // SAFETY: as above; the function is called only if the struct reaches as far.
    unsafe {
        if !version.is_null() && (*version).struct_size >= size_of::<ExportTableVersionInfo>() {
            ((*version).set_injection_version)(u32::from(abi::VERSION));
        }
    }
    for (module, id, function) in receive::receivers() {
        let mut table = std::ptr::null::<c_void>();
        let mut size = 0;
        // SAFETY: the function is there, as checked above, and stores into the two places given.
        let known = unsafe { ((*callbacks).get_module_function_table)(module, &mut table, &mut size) };
        if known == 0 || table.is_null() || id >= size as usize {
            continue;
        }
        // SAFETY: the table has `size` entries, and `id` is less.
        let slot: *mut *mut c_void = unsafe { *table.cast::<*mut *mut c_void>().add(id) };
        if !slot.is_null() {
            // SAFETY: an entry that is not null is the address of a slot, which is aligned and lives as long as the
            // client; the client reads it while it is written, hence the atomic store.
            unsafe { AtomicPtr::from_ptr(slot) }.store(function, Ordering::Release);
        }
    }
    true
}
