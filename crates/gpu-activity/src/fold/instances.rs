//! Instances of ranges in which something was launched: which of them surround a launch, and how long they are kept.
//!
//! A slot also has room for what the folds keep of its instance, so that an operation meets each instance once and one
//! bound holds for all.

use std::collections::VecDeque;

use crate::record::{Instance, InstanceId, Ticks};
use range_model::RangeStyle;
use rustc_hash::FxHashMap;

/// A range: interned label, and style.
pub type Range = (u32, RangeStyle);

/// First start and last end of an instance's work on one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the numbers are those of the operations
pub struct StreamSpan {
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub start: u64,
    pub end: u64,
}

/// No instance.
pub(crate) const NO_SLOT: u32 = u32::MAX;
/// Stands for an instance that got no slot.
pub(crate) const REFUSED: u32 = NO_SLOT - 1;

/// An instance that is kept: until it is over, its launches have no more outstanding work, and the instances inside it
/// are gone.
#[derive(Debug, Default)]
pub(crate) struct InstanceState {
    /// As it was noted; its id is 0 in a free slot. After a new window has begun, it starts there.
    pub(crate) began: Instance,
    /// The thread that noted its begin.
    thread: u32,
    /// The instance directly below it on the stack, if it is on the stack.
    pub(crate) parent: u32,
    /// Number of instances on the stack around it, and the innermost of them.
    pub(crate) level: u32,
    pub(crate) nested_in: Option<Range>,
    pub(crate) end: Ticks,
    pub(crate) over: bool,
    /// Whether the folds have taken it, because of the bound on instances, or it belongs to an older window. Its later
    /// work counts in its ancestors and in the tables of kernels, but no longer in its projection.
    pub(crate) folded: bool,
    /// Whether it is a start/end range that ended on another thread and is therefore in no table.
    pub(crate) left: bool,
    /// Remembered launches in it (`launches`), and kept instances directly above it on the stack (`above`).
    launches: u32,
    above: u32,
    /// The last operation that it counted. It keeps an operation from counting twice.
    pub(crate) mark: u64,
    pub(crate) figures: Figures,
    /// Its work by stream in all windows, if events are asked for; and whether work arrived in this period.
    pub(crate) streams: Vec<StreamSpan>,
    pub(crate) grew: bool,
}

/// What the totals keep of an instance, in one window.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// First start and last end of its operations; 0 without any.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Launches with operations.
    pub(crate) operations: u64,
    /// Rows of the kernels launched in it, in the order of kernels and threads.
    pub(crate) kernels: Vec<((u32, u32), u32)>,
}

impl InstanceState {
    fn is_held(&self) -> bool {
        self.launches > 0 || self.above > 0
    }

    /// Whether this is the finished instance with this id, and no fold has taken it.
    fn is_to_fold(&self, id: InstanceId) -> bool {
        self.began.id == id && self.over && !self.folded
    }

    /// Whether it is a start/end range that may still end on another thread.
    pub(crate) fn is_undecided(&self) -> bool {
        self.began.style == RangeStyle::StartEnd && !self.over
    }

    pub(crate) fn range(&self) -> Range {
        (self.began.label, self.began.style)
    }
}

/// All kept instances.
#[derive(Debug, Default)]
pub(crate) struct Instances {
    limit: usize,
    kept: Vec<InstanceState>,
    free: Vec<u32>,
    by_id: FxHashMap<InstanceId, u32>,
    /// Number of kept instances that are not folded.
    open: usize,
    /// Instances that are over, in order of their ends; freed ones are skipped.
    over: VecDeque<(u32, InstanceId)>,
    /// Slots of instances that lost their last holder, perhaps only for a while: candidates for freeing.
    loose: Vec<u32>,
    /// Start/end ranges that have ended since the last drain. Their slots are kept until its end.
    pub(crate) ended: Vec<u32>,
}

impl Instances {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// The slot of an instance, or [`NO_SLOT`].
    pub(crate) fn slot(&self, id: InstanceId) -> u32 {
        self.by_id.get(&id).copied().unwrap_or(NO_SLOT)
    }

    /// Number of instances with a slot, whether folded or not.
    pub(crate) fn kept(&self) -> usize {
        self.kept.len() - self.free.len()
    }

    /// Lengths of its two largest lists: room for instances, and ended ones.
    #[cfg(test)]
    pub(crate) fn lengths(&self) -> (usize, usize) {
        (self.kept.capacity(), self.over.len())
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&InstanceState> {
        self.kept.get(slot as usize)
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut InstanceState> {
        self.kept.get_mut(slot as usize)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &InstanceState> {
        self.kept.iter().filter(|kept| kept.began.id != 0)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut InstanceState> {
        self.kept.iter_mut().filter(|kept| kept.began.id != 0)
    }

    /// Whether too many instances are kept that are folded already. Only launches still hold these.
    pub(crate) fn is_crowded(&self) -> bool {
        self.kept() - self.open > self.limit
    }

    /// Begins an instance. Returns its slot, if there is room for one.
    pub(crate) fn begin(&mut self, thread: u32, began: &Instance) -> Option<u32> {
        if began.id == 0 || self.by_id.contains_key(&began.id) {
            return None;
        }
        if self.kept() >= self.limit.saturating_mul(5) / 2 + 64 {
            return None; // its calls find no slot
        }
        let below = self.slot(began.parent);
        let (level, nested_in) =
            self.get_mut(below).map_or((0, None), |below| (below.level.saturating_add(1), Some(below.range())));
        let parent = if began.style == RangeStyle::PushPop { below } else { NO_SLOT };
        let kept = InstanceState { began: *began, thread, parent, level, nested_in, ..InstanceState::default() };
        let slot = self.free.pop().or_else(|| u32::try_from(self.kept.len()).ok())?;
        match self.kept.get_mut(slot as usize) {
            Some(place) => *place = kept,
            None => {
                if self.kept.len() == self.kept.capacity() {
                    self.kept.reserve_exact((self.kept.len() >> 3).max(64)); // does not double: entries are large
                }
                self.kept.push(kept);
            }
        }
        if let Some(parent) = self.get_mut(parent) {
            parent.above += 1;
        }
        self.by_id.insert(began.id, slot);
        self.open += 1;
        Some(slot)
    }

    /// Ends an instance. Without an `end` it is a start/end range that ended on another thread, and counts for nothing.
    /// Returns the slot of a start/end range, and the thread on which it began.
    pub(crate) fn end(&mut self, id: InstanceId, end: Option<Ticks>) -> Option<(u32, u32)> {
        let slot = self.slot(id);
        let can_leave = |kept: &InstanceState| end.is_some() || kept.began.style == RangeStyle::StartEnd;
        let kept = self.kept.get_mut(slot as usize).filter(|kept| !kept.over && can_leave(kept))?;
        kept.over = true;
        if let Some(end) = end {
            kept.end = end;
            self.over.push_back((slot, id));
        } else {
            (kept.left, kept.folded) = (true, true);
            self.open -= 1;
        }
        if !kept.is_held() {
            self.loose.push(slot);
        }
        if kept.began.style == RangeStyle::PushPop {
            return None;
        }
        self.ended.push(slot);
        Some((slot, kept.thread))
    }

    /// Adds a remembered launch to an instance.
    pub(crate) fn hold(&mut self, slot: u32) {
        if let Some(kept) = self.get_mut(slot) {
            kept.launches += 1;
        }
    }

    /// Removes a forgotten launch from an instance.
    pub(crate) fn release(&mut self, slot: u32) {
        let Some(kept) = self.get_mut(slot) else { return };
        kept.launches = kept.launches.saturating_sub(1);
        if !kept.is_held() {
            self.loose.push(slot);
        }
    }

    /// Gives the folds the instances that can get no more work, and frees them; beyond the bound also gives the oldest
    /// finished ones.
    pub(crate) fn fold(&mut self, mut give: impl FnMut(&mut InstanceState)) {
        while let Some(slot) = self.loose.pop() {
            self.let_go(slot, &mut give);
        }
        while self.open > self.limit {
            let Some((slot, id)) = self.over.pop_front() else { break };
            let Some(kept) = self.kept.get_mut(slot as usize).filter(|kept| kept.is_to_fold(id)) else { continue };
            give(kept);
            kept.folded = true;
            kept.figures = Figures::default();
            self.open -= 1;
        }
        if self.over.len() > 2 * self.open + 64 {
            let kept = &self.kept;
            self.over.retain(|&(slot, id)| kept.get(slot as usize).is_some_and(|kept| kept.is_to_fold(id)));
        }
    }

    /// Frees the slot of a finished instance that nothing holds, and the slots of ancestors that only it held.
    fn let_go(&mut self, mut slot: u32, give: &mut impl FnMut(&mut InstanceState)) {
        while let Some(kept) = self.kept.get_mut(slot as usize) {
            if kept.began.id == 0 || !kept.over || kept.is_held() {
                return;
            }
            give(kept);
            self.open -= usize::from(!kept.folded);
            self.by_id.remove(&kept.began.id);
            kept.began.id = 0;
            kept.figures = Figures::default();
            self.free.push(slot);
            slot = kept.parent;
            if let Some(parent) = self.kept.get_mut(slot as usize) {
                parent.above = parent.above.saturating_sub(1);
            }
        }
    }

    /// Begins a new window. Finished instances no longer count, and are freed when none of their launches is kept. The
    /// others begin now.
    pub(crate) fn clear(&mut self, now: Ticks) {
        for (slot, kept) in (0..).zip(&mut self.kept).filter(|(_, kept)| kept.began.id != 0) {
            kept.figures = Figures::default();
            if kept.over {
                self.open -= usize::from(!kept.folded);
                kept.folded = true;
                self.loose.push(slot);
            } else {
                kept.began.start = now;
            }
        }
        self.over.clear();
        self.ended.clear();
    }
}
