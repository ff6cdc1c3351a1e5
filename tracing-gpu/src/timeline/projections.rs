//! Instances of ranges, projected onto streams: each is kept until all that was launched in it has run.

use std::collections::{HashMap, VecDeque};

use gpu_activity::record::{GpuOp, Instance, InstanceId};

pub(super) type Stream = (u32, u32, u32); // device, context, stream

/// An instance, until its projection is written.
#[derive(Debug)]
pub(super) struct Kept {
    parent: InstanceId,
    pub(super) label: u32,
    pub(super) level: u32,
    is_over: bool,
    /// Launches in it whose operations are still expected, and kept instances directly inside.
    held: u32,
    /// First start and last end on each stream.
    pub(super) streams: Vec<(Stream, u64, u64)>,
}

/// All that are kept.
#[derive(Debug)]
pub(super) struct Projections {
    most: usize,
    kept: HashMap<InstanceId, Kept>,
    /// Those that are over, in that order; those that are gone are passed over.
    over: VecDeque<InstanceId>,
    /// Those whose projection is whole.
    whole: Vec<InstanceId>,
    /// Projections that are missing or may be cut short, for want of room.
    pub(super) lost: u64,
}

impl Projections {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), kept: HashMap::new(), over: VecDeque::new(), whole: Vec::new(), lost: 0 }
    }

    /// Where there is no room, the oldest that is over makes it: its projection is what it is now, and goes to `write`.
    pub(super) fn begin(&mut self, began: &Instance, write: impl FnMut(&Kept)) {
        if self.kept.contains_key(&began.id) {
            return;
        }
        if self.kept.len() >= self.most && !self.make_room(write) {
            self.lost += 1;
            return;
        }
        let parent = self.kept.get_mut(&began.parent);
        let level = parent.map_or(0, |parent| {
            parent.held += 1;
            parent.level + 1
        });
        let (parent, label) = (began.parent, began.label);
        let kept = Kept { parent, label, level, is_over: false, held: 0, streams: Vec::new() };
        self.kept.insert(began.id, kept);
    }

    fn make_room(&mut self, mut write: impl FnMut(&Kept)) -> bool {
        self.settle(&mut write);
        while self.kept.len() >= self.most {
            let Some(oldest) = self.over.pop_front() else { return false };
            self.lost += u64::from(self.kept.contains_key(&oldest));
            self.write(oldest, &mut write);
        }
        true
    }

    pub(super) fn end(&mut self, id: InstanceId) {
        let Some(kept) = self.kept.get_mut(&id).filter(|kept| !kept.is_over) else { return };
        kept.is_over = true;
        if kept.held == 0 {
            self.whole.push(id);
        }
        self.over.push_back(id);
        if self.over.len() > 2 * self.kept.len() + 64 {
            let kept = &self.kept;
            self.over.retain(|id| kept.contains_key(id));
        }
    }

    /// Operations are expected of one more launch in it. Whether it is there.
    pub(super) fn hold(&mut self, id: InstanceId) -> bool {
        self.kept.get_mut(&id).map(|kept| kept.held += 1).is_some()
    }

    /// Nothing more is expected of a launch in it, or of an instance inside.
    pub(super) fn release(&mut self, id: InstanceId) {
        let Some(kept) = self.kept.get_mut(&id) else { return };
        kept.held = kept.held.saturating_sub(1);
        if kept.is_over && kept.held == 0 {
            self.whole.push(id);
        }
    }

    /// An operation that was launched in it ran.
    pub(super) fn ran(&mut self, id: InstanceId, op: &GpuOp) {
        self.lost += u64::from(id != 0 && !self.kept.contains_key(&id));
        let (stream, mut next) = ((op.device, op.context, op.stream), id);
        while let Some(kept) = self.kept.get_mut(&next) {
            match kept.streams.iter_mut().find(|(of, ..)| *of == stream) {
                Some((_, first, last)) => (*first, *last) = ((*first).min(op.start), (*last).max(op.end)),
                None => kept.streams.push((stream, op.start, op.end)),
            }
            next = kept.parent;
        }
    }

    /// Hands over those whose projection is whole.
    pub(super) fn settle(&mut self, mut write: impl FnMut(&Kept)) {
        while let Some(id) = self.whole.pop() {
            self.write(id, &mut write);
        }
    }

    fn write(&mut self, id: InstanceId, mut write: impl FnMut(&Kept)) {
        if let Some(kept) = self.kept.remove(&id) {
            write(&kept);
            self.release(kept.parent);
        }
    }

    /// Nothing more comes: hands over the rest.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Kept> + use<> {
        std::mem::take(&mut self.kept).into_values()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }
}
