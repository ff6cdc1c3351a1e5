//! Delivers calls to the tool of this process, and holds the slots of the next tool.

use super::call::{Call, Tool};
use super::panics;
use crate::abi;
use crate::abi::loading::State;
use crate::abi::slots::{Slot, Slots};
use std::sync::OnceLock;

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

/// Passes a call to the tool. Catches a panic of the tool, because C code may be on the stack.
#[inline]
pub(super) fn deliver(call: &Call<'_>) {
    if let Some(installed) = INSTALLED.get() {
        panics::contain(|| installed.tool.call(call));
    }
}
