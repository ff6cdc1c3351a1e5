//! What the collector hands over for timelines.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use gpu_activity::record::{ApiCall, GpuOp, Note, Work};

/// Who takes over what is collected.
pub(crate) trait TakesRecords: Debug + Sync {
    /// Has `add` add to what waits to be written.
    fn take_over(&self, add: &mut dyn FnMut(&mut GpuRecords));
}

/// What waits to be written. Its times are those of CUPTI, from the start of the profiler's clock on.
#[derive(Debug)]
pub(crate) struct GpuRecords {
    /// Bound on the memory of what waits.
    most_bytes: usize,
    pub(crate) notes: Vec<(u32, Note)>,
    pub(crate) ops: Vec<GpuOp>,
    pub(crate) calls: Vec<(ApiCall, Arc<str>)>,
    /// Kernels by number: as a person writes them, and their symbols.
    pub(crate) kernels: HashMap<u32, (Arc<str>, Arc<str>)>,
    /// Names of devices by number.
    pub(crate) devices: HashMap<u32, Arc<str>>,
    pub(crate) lost: u64,
    /// Drains of the collector: all that came with these, and before, is here or was taken.
    pub(crate) drains: u64,
}

impl GpuRecords {
    pub(crate) fn new(most_bytes: usize) -> Self {
        let (notes, ops, calls) = (Vec::new(), Vec::new(), Vec::new());
        let (kernels, devices) = (HashMap::new(), HashMap::new());
        Self { most_bytes, notes, ops, calls, kernels, devices, lost: 0, drains: 0 }
    }

    pub(crate) fn take(&mut self) -> Self {
        let empty = Self::new(self.most_bytes);
        std::mem::replace(self, empty)
    }

    /// Whether it holds nothing that takes room.
    pub(crate) fn is_empty(&self) -> bool {
        self.notes.is_empty() && self.ops.is_empty() && self.calls.is_empty() && self.lost == 0
    }

    fn has_room(&mut self) -> bool {
        let notes = self.notes.len() * size_of::<(u32, Note)>();
        let rows = self.ops.len() * size_of::<GpuOp>() + self.calls.len() * size_of::<(ApiCall, Arc<str>)>();
        let has_room = 2 * (notes + rows) < self.most_bytes; // lists have twice the room, at most
        self.lost += u64::from(!has_room);
        has_room
    }

    pub(crate) fn note(&mut self, thread: u32, note: &Note) {
        // Without its end an instance would keep its place for ever.
        if matches!(note, Note::Ended { .. } | Note::Left { .. }) || self.has_room() {
            self.notes.push((thread, *note));
        }
    }

    /// A device that operations are of.
    pub(crate) fn device(&mut self, device: u32, name: impl FnOnce(u32) -> Arc<str>) {
        self.devices.entry(device).or_insert_with(|| name(device));
    }

    /// `names` of its kernel, if it is one.
    pub(crate) fn operation(&mut self, op: &GpuOp, names: impl FnOnce(u32) -> (Arc<str>, Arc<str>)) {
        if self.has_room() {
            if let Work::Kernel(kernel) = op.work {
                self.kernels.entry(kernel.name).or_insert_with(|| names(kernel.name));
            }
            self.ops.push(*op);
        }
    }

    pub(crate) fn call(&mut self, call: &ApiCall, name: Arc<str>) {
        if self.has_room() {
            self.calls.push((*call, name));
        }
    }

    /// A drain of the collector is over.
    pub(crate) fn drained(&mut self) {
        self.drains += 1;
    }
}
