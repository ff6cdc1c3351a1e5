//! Where calls are delivered: the tool of this process, and the slots of the next tool.

use super::{Call, Tool};
use crate::abi;
use crate::client::State;
use crate::panics;
use crate::slots::{Slot, Slots};
use std::cell::Cell;
use std::sync::OnceLock;

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

thread_local! {
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside a tool of this crate.
pub(crate) fn is_inside() -> bool {
    BUSY.get()
}

/// Marks this thread as being inside a tool, so that calls made there are not received anew.
pub(super) struct Inside(());

impl Inside {
    pub(super) fn enter() -> Option<Self> {
        // No `then_some`: the value made for nothing would be dropped, and with it the mark.
        if BUSY.replace(true) { None } else { Some(Self(())) }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        BUSY.set(false);
    }
}

/// Hands a call to the tool. A tool's panic goes no further: there may be C on the stack.
pub(super) fn deliver(call: &Call<'_>) {
    if let Some(installed) = INSTALLED.get() {
        panics::contain(|| installed.tool.call(call));
    }
}
