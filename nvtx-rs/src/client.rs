//! Finds the tool, lets it fill the slots, and calls what it put there.
//!
//! At the first NVTX call of the process the library named by the environment variable `NVTX_INJECTION64_PATH` is
//! loaded and its `InitializeInjectionNvtx2` called, once. Profilers such as Nsight Systems set that variable. Without
//! it nothing is loaded, and every call is one load and one branch from then on.
//!
//! The C headers look, while the variable is not set, for a tool linked into the program (the weak symbol
//! `InitializeInjectionNvtx2_fnptr`). Stable Rust has no weak symbols; [`tool::attach`](crate::tool::attach) is the way
//! to receive the calls inside the process.

#![allow(unsafe_code)]

use crate::abi;
use crate::environment::variable;
use crate::slots::{Slot, Slots, export_tables};
use once_cell::sync::OnceCell;
use std::cell::Cell;
use std::error::Error as _;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

/// Whether a tool receives the calls, and if not, why.
///
/// ```
/// use nvtx_rs::client::{State, state};
/// match state() {
///     State::Attached => println!("a tool is attached"),
///     State::NotSet => println!("start the program with `nsys profile`"),
///     other => println!("no tool: {other:?}"),
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// `NVTX_INJECTION64_PATH` is not set: the program runs without a profiler.
    NotSet,
    /// The library cannot be loaded. The empty path is the program itself.
    MissingLibrary {
        /// What the variable names.
        path: PathBuf,
        /// What the dynamic linker says.
        reason: String,
    },
    /// The library has no `InitializeInjectionNvtx2`.
    NoEntryPoint {
        /// What the variable names.
        path: PathBuf,
    },
    /// The library's `InitializeInjectionNvtx2` reported a failure.
    EntryFailed {
        /// What the variable names.
        path: PathBuf,
    },
    /// A tool is attached.
    Attached,
    /// The tool is being loaded; only code that runs inside its entry point sees this.
    Loading,
}

/// Loads the tool if that has not been done, and says what came of it.
///
/// ```
/// # unsafe { std::env::remove_var("NVTX_INJECTION64_PATH") };
/// assert_eq!(nvtx_rs::client::state(), nvtx_rs::client::State::NotSet);
/// ```
pub fn state() -> State {
    initialize(load_from_environment);
    STATE.get().cloned().unwrap_or(State::Loading)
}

/// Whether a tool wants ranges: worth asking before work that is done only to describe one.
///
/// After the first call this is one load and one comparison. Tools may come and go while the program runs, so ask each
/// time.
///
/// ```
/// let batch = vec![1, 2, 3];
/// if nvtx_rs::is_tool_attached() {
///     nvtx_rs::mark!("batch", payload: batch.len());
/// }
/// ```
#[inline]
#[must_use]
pub fn is_tool_attached() -> bool {
    is_set(&SLOTS.core2[abi::core2::RANGE_PUSH_EX]) && is_ready(&SLOTS.core2[abi::core2::RANGE_PUSH_EX])
}

/// Whether no tool wants ranges, as far as one load tells: false where there is a tool, and before the first NVTX call
/// of the process, which loads one.
///
/// For paths that must not even contain the call which [`is_tool_attached`] may make. Ask [`is_tool_attached`] next.
///
/// ```
/// if !nvtx_rs::is_tool_absent() && nvtx_rs::is_tool_attached() {
///     nvtx_rs::mark!("there is a tool");
/// }
/// ```
#[inline(always)]
#[must_use]
pub fn is_tool_absent() -> bool {
    !is_set(&SLOTS.core2[abi::core2::RANGE_PUSH_EX])
}

pub(crate) static SLOTS: Slots = Slots::fresh();
export_tables!(crate::client::SLOTS);

static STATE: OnceCell<State> = OnceCell::new();
static PHASE: AtomicU8 = AtomicU8::new(FRESH);
const FRESH: u8 = 0;
const STARTED: u8 = 1;
const COMPLETE: u8 = 2;

thread_local! {
    static IN_ENTRY: Cell<bool> = const { Cell::new(false) };
}

/// Whether a call through the slot may do something: false for good once the tool was looked for and not found.
#[inline(always)]
pub(crate) fn is_set(slot: &Slot) -> bool {
    !slot.load(Ordering::Relaxed).is_null()
}

/// Looks for the tool if need be; whether the slot holds a tool's function.
pub(crate) fn is_ready(slot: &Slot) -> bool {
    function(slot).is_some()
}

/// The tool's function. Its address is kept for one call, since a tool may change it at any time; what it was stays
/// loaded.
pub(crate) fn function(slot: &Slot) -> Option<*mut c_void> {
    if PHASE.load(Ordering::Acquire) != COMPLETE {
        initialize(load_from_environment);
        if PHASE.load(Ordering::Acquire) != COMPLETE {
            // A call made by the tool from its own entry point: nobody is there to receive it.
            return None;
        }
    }
    let pointer = slot.load(Ordering::Acquire);
    (!pointer.is_null()).then_some(pointer)
}

/// Has `load` find the tool and install it, unless that was done before; other threads wait. True when it ran.
pub(crate) fn initialize(load: impl FnOnce() -> State) -> bool {
    if PHASE.load(Ordering::Acquire) == COMPLETE || IN_ENTRY.get() {
        return false;
    }
    if PHASE.compare_exchange(FRESH, STARTED, Ordering::AcqRel, Ordering::Acquire).is_err() {
        while PHASE.load(Ordering::Acquire) != COMPLETE {
            thread::yield_now();
        }
        return false;
    }
    IN_ENTRY.set(true);
    let stub = SLOTS.fill_with_stub();
    let state = load();
    if state == State::Attached {
        SLOTS.clear_untouched(stub);
    } else {
        SLOTS.clear();
    }
    let _ = STATE.set(state);
    PHASE.store(COMPLETE, Ordering::SeqCst);
    IN_ENTRY.set(false);
    true
}

fn load_from_environment() -> State {
    match variable(abi::INJECTION_PATH) {
        None => State::NotSet,
        Some(path) => match load_library(path.into()) {
            Ok((library, entry)) => {
                // SAFETY: the variable names a tool, and `entry` is the function of that interface; the argument has
                // the type that it takes. The library stays loaded, see below.
                if unsafe { entry(Some(get_export_table)) } == 0 {
                    return State::EntryFailed { path: library.path };
                }
                library.keep();
                State::Attached
            }
            Err(state) => state,
        },
    }
}

/// A loaded tool; closed when dropped.
pub(crate) struct ToolLibrary {
    pub(crate) path: PathBuf,
    library: Library,
}

#[cfg(unix)]
type Library = libloading::os::unix::Library;
#[cfg(not(unix))]
type Library = libloading::Library;

impl ToolLibrary {
    /// Leaves the library loaded for the life of the process, as slots point into it.
    pub(crate) fn keep(self) {
        std::mem::forget(self.library);
    }

    /// The tool's entry point for extensions, if it has one.
    pub(crate) fn extension_entry(&self) -> Option<abi::ExtensionEntry> {
        // SAFETY: in a tool's library the name stands for a function of this type.
        unsafe { self.library.get::<abi::ExtensionEntry>(abi::EXTENSION_ENTRY_POINT.as_bytes()) }
            .ok()
            .map(|entry| *entry)
    }
}

/// Loads a tool's library and finds its entry point.
pub(crate) fn load_library(path: PathBuf) -> Result<(ToolLibrary, abi::Entry), State> {
    #[cfg(unix)]
    // SAFETY: the user named the library as a tool, so its initialisers are meant to run here.
    let opened = unsafe { Library::open(Some(&path), libloading::os::unix::RTLD_LAZY) };
    #[cfg(not(unix))]
    // SAFETY: as above.
    let opened = unsafe { Library::new(&path) };
    let library = match opened {
        Ok(library) => library,
        Err(error) => {
            // What the loader says is the source; the error itself says which function failed.
            let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            return Err(State::MissingLibrary { path, reason });
        }
    };
    // SAFETY: in a tool's library the name stands for a function of this type.
    let entry = unsafe { library.get::<abi::Entry>(abi::ENTRY_POINT.as_bytes()) }.map(|entry| *entry);
    match entry {
        Ok(entry) => Ok((ToolLibrary { path, library }, entry)),
        Err(_) => Err(State::NoEntryPoint { path }),
    }
}
