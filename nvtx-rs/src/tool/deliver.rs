//! Where calls are delivered: the tool of this process, and the slots of the next tool.

use super::call::{Call, Tool};
use super::handles::Depths;
use super::panics;
use crate::abi;
use crate::abi::loading::State;
use crate::abi::slots::{Slot, Slots};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the next tool filled. It must not fill the program's slots, where it and this tool would overwrite each other.
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

/// What is known of a thread. It needs no memory of its own, so it is there to the thread's end.
pub(super) struct Thread {
    is_inside: Cell<bool>,
    pub(super) depths: Depths,
}

thread_local! {
    static THREAD: Thread = const { Thread { is_inside: Cell::new(false), depths: Depths::new() } };
}

/// Whether this thread is inside a tool of this crate.
pub(super) fn is_inside() -> bool {
    THREAD.with(|thread| thread.is_inside.get())
}

/// Calls that came while a tool was being called on their thread.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// How many NVTX calls of this process no tool received, since one was being called on their thread: the tool made
/// them, or a signal handler that interrupted it.
#[must_use]
pub fn ignored_calls() -> u64 {
    IGNORED.load(Ordering::Relaxed)
}

/// Runs `call` with this thread marked as being inside a tool, so that calls made there are not received anew; none if
/// it is.
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

/// Hands a call to the tool. A tool's panic goes no further: there may be C on the stack.
#[inline]
pub(super) fn deliver(call: &Call<'_>) {
    if let Some(installed) = INSTALLED.get() {
        panics::contain(|| installed.tool.call(call));
    }
}
