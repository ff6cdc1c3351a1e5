//! The slots of this program, through which its calls go and which a tool fills, and the single search for that tool.

#![allow(unsafe_code)]

use super::environment::variable;
use super::loading::{State, load_library};
use super::slots::{Slot, Slots, export_tables};
use crate::abi;
use once_cell::sync::OnceCell;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

/// Loads the tool unless that has been done, and returns the result.
///
/// ```
/// # unsafe { std::env::remove_var("NVTX_INJECTION64_PATH") };
/// assert_eq!(nvtx_rs::client::state(), nvtx_rs::client::State::NotSet);
/// ```
pub fn state() -> State {
    initialize(load_from_environment);
    STATE.get().cloned().unwrap_or(State::Loading)
}

/// Whether a tool wants ranges. Ask before work that only serves to describe a range.
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

/// Whether no tool wants ranges, as far as one load shows. False with a tool, and before the first NVTX call of the
/// process, which loads one.
///
/// For paths that must not contain even the call inside [`is_tool_attached`]. Ask [`is_tool_attached`] next.
#[inline]
#[must_use]
pub fn is_tool_absent() -> bool {
    !is_set(&SLOTS.core2[abi::core2::RANGE_PUSH_EX])
}

pub(crate) static SLOTS: Slots = Slots::fresh();
export_tables!(crate::abi::program::SLOTS);

static STATE: OnceCell<State> = OnceCell::new();
static PHASE: AtomicU8 = AtomicU8::new(FRESH);
const FRESH: u8 = 0;
const STARTED: u8 = 1;
const COMPLETE: u8 = 2;

/// Tells whether a thread is inside a tool of this crate. The tool side sets it before it calls a tool.
static INSIDE_TOOL: OnceCell<fn() -> bool> = OnceCell::new();

thread_local! {
    static IN_ENTRY: Cell<bool> = const { Cell::new(false) };
}

/// From now on `is_inside` is asked whether a thread is inside a tool.
#[cfg(feature = "tool")]
pub(crate) fn set_inside_tool(is_inside: fn() -> bool) {
    let _ = INSIDE_TOOL.set(is_inside);
}

/// Whether this thread is inside a tool of this crate.
pub(crate) fn is_inside_tool() -> bool {
    INSIDE_TOOL.get().is_some_and(|is_inside| is_inside())
}

/// Whether a call through the slot can have an effect. Once a search has found no tool, it stays false.
#[inline]
pub(crate) fn is_set(slot: &Slot) -> bool {
    !slot.load(Ordering::Relaxed).is_null()
}

/// Looks for the tool unless that has been done. Returns whether the slot holds a tool's function.
pub(crate) fn is_ready(slot: &Slot) -> bool {
    function(slot).is_some()
}

/// The tool's function. The address is valid for one call: a tool may change the slot at any time, but its library
/// stays loaded.
pub(crate) fn function(slot: &Slot) -> Option<*mut c_void> {
    if PHASE.load(Ordering::Acquire) != COMPLETE {
        initialize(load_from_environment);
        if PHASE.load(Ordering::Acquire) != COMPLETE {
            // The tool's entry point made this call itself, so nobody receives it.
            return None;
        }
    }
    let pointer = slot.load(Ordering::Acquire);
    (!pointer.is_null()).then_some(pointer)
}

/// Calls `load`, which finds and installs the tool, unless that was done before. Other threads wait meanwhile. Returns
/// whether `load` ran.
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
                // SAFETY: the variable names a tool, and `entry` is the function of that interface, with the right
                // argument type. The library stays loaded, see below.
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
