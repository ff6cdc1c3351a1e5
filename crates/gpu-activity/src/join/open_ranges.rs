//! The open start/end ranges (`nvtx.lifetime`) of each thread: they are on no stack, and all surround a launch.

use std::sync::{Arc, Weak};

use range_model::stats::Keyed;

/// Open start/end ranges of one thread.
#[derive(Debug, Default)]
struct OfThread {
    /// Sorted.
    slots: Vec<u32>,
    /// The same slots, while launches share the list.
    shared: Option<Weak<[u32]>>,
}

/// Open start/end ranges by thread.
#[derive(Debug, Default)]
pub(super) struct OpenRanges(Keyed<u32, OfThread>);

impl OpenRanges {
    pub(super) fn begin(&mut self, thread: u32, slot: u32) {
        let open = self.0.row(thread);
        open.slots.insert(open.slots.binary_search(&slot).unwrap_or_else(|place| place), slot);
        open.shared = None;
    }

    /// A range, if there is one, has ended: its slot, and the thread on which it began.
    pub(super) fn end(&mut self, ended: Option<(u32, u32)>) {
        let Some((slot, thread)) = ended else { return };
        if let Some(open) = self.0.get_mut(&thread) {
            open.slots.retain(|&other| other != slot);
            open.shared = None;
            if open.slots.is_empty() {
                self.0.remove(&thread);
            }
        }
    }

    /// Sorted slots of the open start/end ranges around the thread's next launch. Launches share the list until a
    /// range begins or ends.
    #[inline]
    pub(super) fn around(&mut self, thread: u32) -> Option<Arc<[u32]>> {
        if self.0.is_empty() {
            return None;
        }
        let open = self.0.get_mut(&thread)?;
        if let Some(shared) = open.shared.as_ref().and_then(Weak::upgrade) {
            return Some(shared);
        }
        let shared = Arc::from(open.slots.as_slice());
        open.shared = Some(Arc::downgrade(&shared));
        Some(shared)
    }
}
