//! Delivers calls to the tool of this process, and holds the slots of the next tool.

use super::call::{Call, Tool};
use super::handles::Depths;
use super::panics;
use crate::abi;
use crate::abi::loading::State;
use crate::abi::slots::{Slot, Slots};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The slots that the next tool filled. It must not fill the program's slots, where both tools would overwrite each
/// other.
pub(super) static NEXT_SLOTS: Slots = Slots::empty();

/// As above, for the payload extension.
pub(super) static NEXT_PAYLOAD_SLOTS: [Slot; abi::payload::SIZE] =
    [const { Slot::new(std::ptr::null_mut()) }; abi::payload::SIZE];

pub(super) static INSTALLED: OnceLock<Installed> = OnceLock::new();

/// The tool of this process, and the one behind it.
pub(super) struct Installed {
    pub(super) tool: Box<dyn Tool>,
    pub(super) next: Option<Next>,
}

pub(super) struct Next {
    pub(super) state: State,
    pub(super) extension: Option<abi::ExtensionEntry>,
}

/// State of a thread. It needs no memory of its own, so it exists until the thread's end.
pub(super) struct Thread {
    is_inside: Cell<bool>,
    pub(super) depths: Depths,
}

thread_local! {
    static THREAD: Thread = const { Thread { is_inside: Cell::new(false), depths: Depths::new() } };
}

/// Whether this thread is inside a tool of this crate: also in a signal handler that interrupted one, which may then
/// hold locks.
#[must_use]
pub fn is_inside() -> bool {
    THREAD.with(|thread| thread.is_inside.get())
}

/// Number of calls that arrived while a tool was being called on their thread.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// How many NVTX calls of this process no tool received, because one was being called on their thread: the tool made
/// them, or a signal handler that interrupted it.
#[must_use]
pub fn ignored_calls() -> u64 {
    IGNORED.load(Ordering::Relaxed)
}

/// Runs `call` with this thread marked as inside a tool, so that calls made there are not received again; `None` if it
/// is inside already.
#[inline]
pub(super) fn inside<R>(call: impl FnOnce(&Thread) -> R) -> Option<R> {
    struct Mark<'a>(&'a Cell<bool>);
    impl Drop for Mark<'_> {
        fn drop(&mut self) {
            self.0.set(false);
        }
    }
    THREAD.with(|thread| {
        if thread.is_inside.replace(true) {
            IGNORED.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let _mark = Mark(&thread.is_inside);
        Some(call(thread))
    })
}

/// Passes a call to the tool. Catches a panic of the tool, because C code may be on the stack.
#[inline]
pub(super) fn deliver(call: &Call<'_>) {
    if let Some(installed) = INSTALLED.get() {
        panics::contain(|| installed.tool.call(call));
    }
}
