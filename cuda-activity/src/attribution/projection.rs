//! Instances of ranges, projected onto the GPU: from the start of the first operation that was launched inside to the end of the last.

use std::collections::{BTreeMap, VecDeque};

use super::enclosing::Inside;
use super::hash::Map;
use super::totals::{Projection, Range};
use super::{Context, Written};
use crate::record::Ticks;
use crate::record::{Instance, InstanceId};
use range_report::RangeStyle;
use range_report::stats::Distribution;

/// No instance.
pub(super) const NO_SLOT: u32 = u32::MAX;
/// An instance that there was no slot for.
pub(super) const REFUSED: u32 = NO_SLOT - 1;

/// Totals by label and style.
pub(super) type Projections = BTreeMap<Range, Projection>;

/// An instance that is kept: until it is over, nothing more can come of what was launched in it, and those inside it are gone.
#[derive(Debug)]
pub(super) struct Kept {
    /// 0 in a free slot.
    pub(super) id: InstanceId,
    /// Its number in the order of their beginnings.
    pub(super) serial: u64,
    /// On the stack.
    pub(super) parent: u32,
    /// The slot in which it goes on, if it does: then this one is over, and stands for what was around it until then.
    pub(super) moved: u32,
    pub(super) label: u32,
    pub(super) style: RangeStyle,
    /// Instances on the stack that it is nested in.
    pub(super) level: u32,
    /// Whether a call was made in it.
    pub(super) was_called: bool,
    /// Start/end ranges that it is nested in, in the order of their beginnings: while it is open, those that began before it.
    pub(super) around: Vec<u32>,
    pub(super) inside: Option<Box<Inside>>,
    pub(super) start: Ticks,
    end: Ticks,
    pub(super) over: bool,
    /// Whether it is in the totals: by the bound on instances, or as one of an older window. What comes of it later is in its ancestors and in the tables of
    /// kernels, and no longer in its projection.
    pub(super) folded: bool,
    /// Whether it is a start/end range that ended on another thread, and so is in no table.
    pub(super) left: bool,
    /// Remembered launches in it, and kept instances directly inside; for a start/end range, all inside.
    pub(super) launches: u32,
    pub(super) below: u32,
    /// Of its operations.
    first: u64,
    last: u64,
    operations: u64,
    /// The last operation that it counted, so that none counts twice.
    mark: u64,
    /// Rows of the kernels launched in it, in the order of the keys.
    pub(super) kernels: Vec<(u64, u32)>,
    /// Times of the kernels launched in it, in the order of the keys, while it is undecided.
    pub(super) alone: Vec<(u64, Distribution)>,
}

impl Kept {
    pub(super) fn is_held(&self) -> bool {
        self.launches > 0 || self.below > 0
    }

    /// Whether it has operations that are not in the totals.
    pub(super) fn counts(&self) -> bool {
        self.last > 0 && !self.folded
    }

    /// Whether it may still end on another thread, and then be in no table.
    pub(super) fn is_undecided(&self) -> bool {
        self.style == RangeStyle::StartEnd && !self.over
    }

    pub(super) fn range(&self) -> Range {
        (self.label, self.style)
    }

    fn add_to(&self, totals: &mut Projections, end: Ticks, context: &Context<'_>) {
        if !self.counts() {
            return;
        }
        let row = totals.entry(self.range()).or_default();
        row.projected.add(self.last.saturating_sub(self.first), context.keep);
        row.range_total = row.range_total.saturating_add(u128::from(end.saturating_sub(self.start)));
        row.range_written = row.range_written.saturating_add((context.written)(self.start, end));
        row.operations = row.operations.saturating_add(self.operations);
    }

    fn forget_work(&mut self) {
        (self.first, self.last, self.operations) = (u64::MAX, 0, 0);
        self.inside = None;
        self.kernels = Vec::new();
        self.alone = Vec::new();
    }
}

/// An operation, for the instances that it counts in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Whether it is the first of its launch: those of one launch count once.
    pub(super) first: bool,
    /// Its number.
    pub(super) mark: u64,
}

/// All instances that are kept, and the totals of those that no longer are.
#[derive(Debug)]
pub(super) struct Instances {
    limit: usize,
    pub(super) kept: Vec<Kept>,
    free: Vec<u32>,
    pub(super) by_id: Map<InstanceId, u32>,
    /// Instances that are kept and not folded.
    pub(super) open: usize,
    /// Those that are over, in that order; those that are gone are passed over.
    over: VecDeque<(u32, InstanceId)>,
    /// Those that nothing may hold any more.
    pub(super) loose: Vec<u32>,
    serial: u64,
    /// The last call of each thread, and the instances of which it was the first.
    pub(super) first_calls: Map<u32, (u32, Vec<u32>)>,
    pub(super) totals: Projections,
}

impl Instances {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            kept: Vec::new(),
            free: Vec::new(),
            by_id: Map::default(),
            open: 0,
            over: VecDeque::new(),
            loose: Vec::new(),
            serial: 0,
            first_calls: Map::default(),
            totals: Projections::new(),
        }
    }

    /// The slot of an instance, or [`NO_SLOT`].
    pub(super) fn slot(&self, id: InstanceId) -> u32 {
        self.by_id.get(&id).copied().unwrap_or(NO_SLOT)
    }

    /// All that have a slot, in the totals or not.
    pub(super) fn kept(&self) -> usize {
        self.kept.len() - self.free.len()
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut Kept> {
        self.kept.get_mut(slot as usize)
    }

    /// Whether those that are in the totals, and kept by launches alone, are too many.
    pub(super) fn is_crowded(&self) -> bool {
        self.kept() - self.open > self.limit
    }

    pub(super) fn begin(&mut self, began: &Instance) {
        if began.id == 0 || self.by_id.contains_key(&began.id) {
            return;
        }
        if self.kept() >= self.limit.saturating_mul(5) / 2 + 64 {
            return; // calls in it find no slot
        }
        let parent = self.slot(began.parent);
        let level = self.level_in(parent);
        if let Some(below) = self.get_mut(parent) {
            below.below += 1;
        }
        self.serial += 1;
        let kept = Kept {
            id: began.id,
            serial: self.serial,
            parent,
            moved: NO_SLOT,
            label: began.label,
            style: began.style,
            level,
            was_called: false,
            around: Vec::new(),
            inside: None,
            start: began.start,
            end: 0,
            over: false,
            folded: false,
            left: false,
            launches: 0,
            below: 0,
            first: u64::MAX,
            last: 0,
            operations: 0,
            mark: 0,
            kernels: Vec::new(),
            alone: Vec::new(),
        };
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => u32::try_from(self.kept.len()).unwrap_or(NO_SLOT),
        };
        match self.kept.get_mut(slot as usize) {
            Some(place) => *place = kept,
            None if slot != NO_SLOT => {
                if self.kept.len() == self.kept.capacity() {
                    self.kept.reserve_exact(64 + self.kept.len() / 8); // not twice as many: they are large
                }
                self.kept.push(kept);
            }
            None => return,
        }
        self.by_id.insert(began.id, slot);
        self.open += 1;
    }

    /// It is over: itself, if that decides that it counts.
    pub(super) fn end(&mut self, id: InstanceId, end: Ticks) -> Option<(u32, &mut Kept)> {
        let slot = self.slot(id);
        let kept = self.kept.get_mut(slot as usize).filter(|kept| !kept.over)?;
        let decides = kept.is_undecided();
        (kept.over, kept.end) = (true, end);
        if !kept.is_held() {
            self.loose.push(slot);
        }
        self.over.push_back((slot, id));
        self.settle(slot);
        if !decides {
            return None;
        }
        self.decide(slot, true);
        self.get_mut(slot).map(|kept| (slot, kept))
    }

    /// It ended where it counts for nothing: itself, if it was undecided.
    pub(super) fn leave(&mut self, id: InstanceId) -> Option<(u32, &mut Kept)> {
        let slot = self.slot(id);
        let kept = self.kept.get_mut(slot as usize).filter(|kept| kept.is_undecided())?;
        (kept.over, kept.left, kept.folded) = (true, true, true);
        self.open -= 1;
        if !kept.is_held() {
            self.loose.push(slot);
        }
        self.decide(slot, false);
        self.nest(slot);
        self.get_mut(slot).map(|kept| (slot, kept))
    }

    /// One more launch in it is remembered.
    pub(super) fn hold(&mut self, slot: u32) {
        if let Some(kept) = self.get_mut(slot) {
            kept.launches += 1;
        }
    }

    /// A launch in it is forgotten.
    pub(super) fn release(&mut self, slot: u32) {
        let Some(kept) = self.get_mut(slot) else { return };
        kept.launches = kept.launches.saturating_sub(1);
        if kept.over && !kept.is_held() {
            self.loose.push(slot);
        }
    }

    /// Counts an operation in an instance: itself, and whether it was too late for the projection. `None` where it was counted before, or counts for nothing.
    pub(super) fn count(&mut self, slot: u32, timed: Timed) -> Option<(&mut Kept, bool)> {
        let slot = self.current(slot);
        let kept = self.kept.get_mut(slot as usize).filter(|kept| kept.mark != timed.mark && !kept.left)?;
        kept.mark = timed.mark;
        if !kept.folded {
            kept.first = kept.first.min(timed.start);
            kept.last = kept.last.max(timed.end);
            kept.operations = kept.operations.saturating_add(u64::from(timed.first));
        }
        let late = kept.folded;
        Some((kept, late))
    }

    /// All that are undecided.
    pub(super) fn undecided(&self) -> impl Iterator<Item = &Kept> {
        self.kept.iter().filter(|kept| kept.id != 0 && kept.is_undecided())
    }

    pub(super) fn range(&self, slot: u32) -> Option<Range> {
        self.kept.get(slot as usize).map(Kept::range)
    }

    /// The instance directly below on the thread's stack.
    pub(super) fn parent(&self, slot: u32) -> u32 {
        self.kept.get(slot as usize).map_or(NO_SLOT, |kept| kept.parent)
    }

    /// Folds instances that nothing more can come of, and beyond the bound the oldest that are over.
    pub(super) fn fold(&mut self, context: &Context<'_>) {
        self.forget_calls();
        while let Some(slot) = self.loose.pop() {
            self.let_go(slot, context);
        }
        while self.open > self.limit {
            let Some((slot, id)) = self.over.pop_front() else { break };
            let is_meant = |kept: &&mut Kept| kept.id == id && kept.over && !kept.folded;
            let Some(kept) = self.kept.get_mut(slot as usize).filter(is_meant) else { continue };
            kept.add_to(&mut self.totals, kept.end, context);
            self.nest(slot);
            if let Some(kept) = self.get_mut(slot) {
                kept.folded = true;
                kept.forget_work();
            }
            self.open -= 1;
        }
        if self.over.len() > 2 * self.open + 64 {
            let kept = &self.kept;
            self.over.retain(|&(slot, id)| kept.get(slot as usize).is_some_and(|kept| kept.id == id && !kept.folded));
        }
    }

    /// Frees the slot of an instance that is over and not held, and those of its ancestors that only it held.
    fn let_go(&mut self, mut slot: u32, context: &Context<'_>) {
        while let Some(kept) = self.kept.get_mut(slot as usize) {
            if kept.id == 0 || !kept.over || kept.is_held() {
                return;
            }
            kept.add_to(&mut self.totals, kept.end, context);
            self.nest(slot);
            let Some(kept) = self.kept.get_mut(slot as usize) else { return };
            self.open -= usize::from(!kept.folded);
            self.by_id.remove(&kept.id);
            kept.id = 0;
            kept.forget_work();
            self.free.push(slot);
            let moved = kept.moved;
            slot = kept.parent;
            self.let_loose(moved);
            if let Some(parent) = self.kept.get_mut(slot as usize) {
                parent.below = parent.below.saturating_sub(1);
            }
        }
    }

    /// The totals, with those that are kept as they are now.
    pub(super) fn totals(&self, now: Ticks, written: &Written<'_>) -> Projections {
        let context = Context { parents: &[], keep: &|_| true, written };
        let mut totals = self.totals.clone();
        for kept in self.kept.iter().filter(|kept| kept.id != 0) {
            kept.add_to(&mut totals, if kept.over { kept.end } else { now }, &context);
            self.nest_now(kept, &mut totals);
        }
        totals.retain(|_, row| row.projected.count > 0);
        totals
    }

    /// A new window, after all launches were let go of: instances that are over are gone, the others begin now.
    pub(super) fn clear(&mut self, now: Ticks) {
        self.totals.clear();
        for (slot, kept) in (0..).zip(&mut self.kept).filter(|(_, kept)| kept.id != 0) {
            kept.forget_work();
            if kept.over {
                self.open -= usize::from(!kept.folded);
                kept.folded = true;
                self.loose.push(slot);
            } else {
                kept.start = now;
            }
        }
        self.over.clear();
        self.fold(&Context { parents: &[], keep: &|_| false, written: &|_, _| 0 });
    }
}
