//! Projections of range instances onto the GPU: from the start of the first operation that was launched inside to the
//! end of the last.

use std::collections::VecDeque;

use super::context::Context;
use super::event::{Event, StreamSpan};
use crate::record::{GpuOp, Instance, InstanceId, Ticks};
use crate::totals::{Projection, Range};
use range_report::RangeStyle;
use range_report::stats::Keyed;
use rustc_hash::FxHashMap;

/// No instance.
pub(super) const NO_SLOT: u32 = u32::MAX;
/// Stands for an instance that got no slot.
pub(super) const REFUSED: u32 = NO_SLOT - 1;

/// Totals by label and style.
type Projections = Keyed<Range, Projection>;

/// An instance that is kept: until it is over, its launches have no more outstanding work, and the instances inside it
/// are gone.
#[derive(Debug)]
pub(super) struct InstanceState {
    /// 0 in a free slot.
    id: InstanceId,
    /// The thread that noted its begin.
    thread: u32,
    /// The instance directly below it on the stack, if it is on the stack.
    parent: u32,
    label: u32,
    style: RangeStyle,
    /// Number of instances on the stack around it, and the innermost of them.
    level: u32,
    nested_in: Option<Range>,
    start: Ticks,
    end: Ticks,
    over: bool,
    /// Whether it is already in the totals, because of the bound on instances or because it belongs to an older window.
    /// Its later work counts in its ancestors and in the tables of kernels, but no longer in its projection.
    folded: bool,
    /// Whether it is a start/end range that ended on another thread and is therefore in no table.
    left: bool,
    /// Remembered launches in it (`launches`), and kept instances directly above it on the stack (`above`).
    launches: u32,
    above: u32,
    /// First start and last end of its operations.
    first: u64,
    last: u64,
    operations: u64,
    /// The last operation that it counted. It keeps an operation from counting twice.
    mark: u64,
    /// Rows of the kernels launched in it, in the order of the keys.
    pub(super) kernels: Vec<(u64, u32)>,
    /// Its work by stream in all windows, if events are asked for; and whether work arrived in this period.
    streams: Vec<StreamSpan>,
    grew: bool,
}

impl InstanceState {
    fn is_held(&self) -> bool {
        self.launches > 0 || self.above > 0
    }

    /// Whether it has operations that are not in the totals yet.
    fn counts(&self) -> bool {
        self.last > 0 && !self.folded
    }

    /// Whether it is a start/end range that may still end on another thread.
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
        let row = totals.row(self.range());
        row.projected.add(self.last.saturating_sub(self.first), context.keep);
        row.range_total = row.range_total.saturating_add(u128::from(end.saturating_sub(self.start)));
        row.operations = row.operations.saturating_add(self.operations);
        row.level_sum = row.level_sum.saturating_add(u64::from(self.level));
        if let Some(around) = self.nested_in {
            totals.row(around).children_sum += 1;
        }
    }

    /// Emits its work on each stream as a projection.
    fn project(&mut self, projections: &mut Option<Vec<Event>>) {
        let streams = std::mem::take(&mut self.streams);
        if let Some(projections) = projections.as_mut().filter(|_| !streams.is_empty()) {
            projections.push(Event::Projection { label: self.label, level: self.level, streams });
        }
    }

    fn forget_work(&mut self) {
        (self.first, self.last, self.operations) = (u64::MAX, 0, 0);
        self.kernels = Vec::new();
    }
}

/// An operation, as the instances around it count it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Whether it is the first of its launch: the operations of one launch count once.
    pub(super) first: bool,
    /// Its serial number.
    pub(super) mark: u64,
}

/// A start/end range that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) slot: u32,
    /// The thread on which it began.
    pub(super) thread: u32,
    /// `None` if it does not count.
    pub(super) range: Option<Range>,
}

/// All kept instances, and the totals of former ones.
#[derive(Debug)]
pub(super) struct Instances {
    limit: usize,
    pub(super) kept: Vec<InstanceState>,
    free: Vec<u32>,
    by_id: FxHashMap<InstanceId, u32>,
    /// Number of kept instances that are not folded.
    open: usize,
    /// Instances that are over, in order of their ends; freed ones are skipped.
    over: VecDeque<(u32, InstanceId)>,
    /// Slots of finished instances that lost their last holder, perhaps only for a while: candidates for freeing.
    loose: Vec<u32>,
    totals: Projections,
    /// Projections of complete instances, if events are asked for.
    projections: Option<Vec<Event>>,
    /// Drains until the end of the period. Then finished instances without new work are projected.
    period: u32,
}

/// Number of drains in a period: a minute, at ten drains a second.
const PERIOD: u32 = 600;

impl Instances {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            kept: Vec::new(),
            free: Vec::new(),
            by_id: FxHashMap::default(),
            open: 0,
            over: VecDeque::new(),
            loose: Vec::new(),
            totals: Projections::default(),
            projections: None,
            period: PERIOD,
        }
    }

    pub(super) fn ask_for_projections(&mut self) {
        self.projections.get_or_insert_with(Vec::new);
    }

    pub(super) fn take_projections(&mut self) -> impl Iterator<Item = Event> + use<> {
        self.projections.as_mut().map(std::mem::take).unwrap_or_default().into_iter()
    }

    /// A counting drain is over. Instances in which a graph was launched are kept as long as the graph is remembered,
    /// but are projected earlier: a file that is written while the program runs must contain them.
    pub(super) fn project_quiet(&mut self) {
        let Self { kept, projections, period, .. } = self;
        *period -= 1;
        if *period > 0 {
            return;
        }
        *period = PERIOD;
        for instance in kept.iter_mut().filter(|instance| instance.over) {
            if !std::mem::take(&mut instance.grew) {
                instance.project(projections);
            }
        }
    }

    /// Projects the kept instances in their present state.
    pub(super) fn project_all(&mut self) {
        let Self { kept, projections, .. } = self;
        kept.iter_mut().for_each(|kept| kept.project(projections));
    }

    /// Adds an operation on a stream to the instance and those around it. For events alone.
    pub(super) fn ran(&mut self, mut slot: u32, op: &GpuOp) {
        while let Some(kept) = self.kept.get_mut(slot as usize) {
            kept.grew = true;
            let GpuOp { device, context, stream, start, end, .. } = *op;
            let is_of = |it: &&mut StreamSpan| (it.device, it.context, it.stream) == (device, context, stream);
            match kept.streams.iter_mut().find(is_of) {
                Some(it) => (it.start, it.end) = (it.start.min(start), it.end.max(end)),
                None => kept.streams.push(StreamSpan { device, context, stream, start, end }),
            }
            slot = kept.parent;
        }
    }

    /// The slot of an instance, or [`NO_SLOT`].
    pub(super) fn slot(&self, id: InstanceId) -> u32 {
        self.by_id.get(&id).copied().unwrap_or(NO_SLOT)
    }

    /// Number of instances with a slot, whether in the totals or not.
    pub(super) fn kept(&self) -> usize {
        self.kept.len() - self.free.len()
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut InstanceState> {
        self.kept.get_mut(slot as usize)
    }

    /// Whether too many instances are kept that already count in the totals. Only launches still hold these.
    pub(super) fn is_crowded(&self) -> bool {
        self.kept() - self.open > self.limit
    }

    /// Begins an instance. Returns its slot, if there is room for one.
    pub(super) fn begin(&mut self, thread: u32, began: &Instance) -> Option<u32> {
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
        let kept = InstanceState {
            id: began.id,
            thread,
            parent,
            label: began.label,
            style: began.style,
            level,
            nested_in,
            start: began.start,
            end: 0,
            over: false,
            folded: false,
            left: false,
            launches: 0,
            above: 0,
            first: u64::MAX,
            last: 0,
            operations: 0,
            mark: 0,
            kernels: Vec::new(),
            streams: Vec::new(),
            grew: false,
        };
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => u32::try_from(self.kept.len()).unwrap_or(NO_SLOT),
        };
        match self.kept.get_mut(slot as usize) {
            Some(place) => *place = kept,
            None if slot != NO_SLOT => {
                if self.kept.len() == self.kept.capacity() {
                    self.kept.reserve_exact(64 + self.kept.len() / 8); // does not double, because entries are large
                }
                self.kept.push(kept);
            }
            None => return None,
        }
        if let Some(parent) = self.get_mut(parent) {
            parent.above += 1;
        }
        self.by_id.insert(began.id, slot);
        self.open += 1;
        Some(slot)
    }

    /// Ends an instance. Without an `end` it is a start/end range that ended on another thread, and counts for nothing.
    /// Returns only start/end ranges.
    pub(super) fn end(&mut self, id: InstanceId, end: Option<Ticks>) -> Option<Ended> {
        let slot = self.slot(id);
        let can_leave = |kept: &InstanceState| end.is_some() || kept.style == RangeStyle::StartEnd;
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
        let range = end.map(|_| kept.range());
        (kept.style == RangeStyle::StartEnd).then_some(Ended { slot, thread: kept.thread, range })
    }

    /// Adds a remembered launch to an instance.
    pub(super) fn hold(&mut self, slot: u32) {
        if let Some(kept) = self.get_mut(slot) {
            kept.launches += 1;
        }
    }

    /// Removes a forgotten launch from an instance.
    pub(super) fn release(&mut self, slot: u32) {
        let Some(kept) = self.get_mut(slot) else { return };
        kept.launches = kept.launches.saturating_sub(1);
        if kept.over && !kept.is_held() {
            self.loose.push(slot);
        }
    }

    /// Counts an operation in an instance. Returns the instance, and whether the operation was too late for the
    /// projection; `None` if it was counted before, or if the instance counts for nothing.
    pub(super) fn count(&mut self, slot: u32, timed: Timed) -> Option<(&mut InstanceState, bool)> {
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

    pub(super) fn range(&self, slot: u32) -> Option<Range> {
        self.kept.get(slot as usize).map(InstanceState::range)
    }

    /// The instance directly below on the thread's stack.
    pub(super) fn parent(&self, slot: u32) -> u32 {
        self.kept.get(slot as usize).map_or(NO_SLOT, |kept| kept.parent)
    }

    /// Folds instances that can get no more work, and beyond the bound the oldest finished ones.
    pub(super) fn fold(&mut self, context: &Context<'_>) {
        while let Some(slot) = self.loose.pop() {
            self.let_go(slot, context);
        }
        while self.open > self.limit {
            let Some((slot, id)) = self.over.pop_front() else { break };
            let is_meant = |kept: &&mut InstanceState| kept.id == id && kept.over && !kept.folded;
            let Some(kept) = self.kept.get_mut(slot as usize).filter(is_meant) else { continue };
            kept.add_to(&mut self.totals, kept.end, context);
            kept.project(&mut self.projections);
            kept.folded = true;
            kept.forget_work();
            self.open -= 1;
        }
        if self.over.len() > 2 * self.open + 64 {
            let kept = &self.kept;
            self.over.retain(|&(slot, id)| kept.get(slot as usize).is_some_and(|kept| kept.id == id && !kept.folded));
        }
    }

    /// Frees the slot of a finished instance that nothing holds, and the slots of ancestors that only it held.
    fn let_go(&mut self, mut slot: u32, context: &Context<'_>) {
        while let Some(kept) = self.kept.get_mut(slot as usize) {
            if kept.id == 0 || !kept.over || kept.is_held() {
                return;
            }
            kept.add_to(&mut self.totals, kept.end, context);
            kept.project(&mut self.projections);
            self.open -= usize::from(!kept.folded);
            self.by_id.remove(&kept.id);
            kept.id = 0;
            kept.forget_work();
            self.free.push(slot);
            slot = kept.parent;
            if let Some(parent) = self.kept.get_mut(slot as usize) {
                parent.above = parent.above.saturating_sub(1);
            }
        }
    }

    /// The totals, including kept instances in their present state.
    pub(super) fn totals(&self, now: Ticks) -> Projections {
        let context = Context { parents: &[], keep: &|_| true };
        let mut totals = self.totals.clone();
        for kept in self.kept.iter().filter(|kept| kept.id != 0) {
            kept.add_to(&mut totals, if kept.over { kept.end } else { now }, &context);
        }
        totals.into_iter().filter(|(_, row)| row.projected.count > 0).collect()
    }

    /// Begins a new window. Finished instances no longer count, and are freed when none of their launches is kept. The
    /// others begin now.
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
        self.fold(&Context { parents: &[], keep: &|_| false });
    }
}
