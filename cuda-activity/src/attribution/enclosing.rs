//! Which ranges of its thread are around an instance: how deep it is nested, and whose child it is.
//!
//! Its level is the number of instances that began before it and ended after it; its parent is the one of these that began last. That is what Nsight Systems makes of
//! them, too, unless two that are around it cross each other: there the parent is the one that fits it best, and the other may be no ancestor.
//!
//! The stack is known from the start. Start/end ranges that began before are known with the first launch inside, those that are around at the end; and as one that is
//! still open may end on another thread and count for nothing, it is told what is to become of those inside in either case.

use std::collections::BTreeMap;

use super::projection::{Instances, Kept, NO_SLOT, Projections};
use super::totals::Range;
use range_report::RangeStyle;

/// Threads whose last call is remembered from one drain to the next: what follows a call comes in the same.
pub(super) const MOST_THREADS: usize = 1 << 12;

/// What is inside of a start/end range, and in the totals before it is known whether the range counts.
#[derive(Debug, Default)]
pub(super) struct Inside {
    /// Instances by range: one level more each, if it counts.
    levels: BTreeMap<Range, u64>,
    /// Its children. If it does not count, they are children of the first start/end range that does, or of the range on the stack.
    children: BTreeMap<(Vec<u32>, Option<Range>), u64>,
}

impl Instances {
    /// A call is noted on a thread, in an instance: for those on the stack that it is the first call of, the start/end ranges around follow.
    pub(super) fn called(&mut self, thread: u32, correlation: u32, mut slot: u32) {
        if self.kept.get(slot as usize).is_none_or(|kept| kept.was_called) {
            return;
        }
        let (last, first_calls) = self.first_calls.entry(thread).or_default();
        if *last != correlation {
            *last = correlation;
            first_calls.clear();
        }
        while let Some(kept) = self.kept.get_mut(slot as usize).filter(|kept| !kept.was_called) {
            kept.was_called = true;
            first_calls.push(slot);
            slot = kept.parent;
        }
    }

    /// A drain is over.
    pub(super) fn forget_calls(&mut self) {
        if self.first_calls.len() > MOST_THREADS {
            self.first_calls.clear();
        }
    }

    /// That call is in a start/end range, too; `others` are those that it is known to be in, in the order of their beginnings.
    pub(super) fn called_within(&mut self, thread: u32, correlation: u32, slot: u32, others: &[u32]) {
        let first_calls = self.first_calls.get(&thread).filter(|(last, _)| *last == correlation);
        for inner in first_calls.map(|(_, slots)| slots.clone()).unwrap_or_default() {
            self.put_around(inner, slot);
        }
        if self.kept.get_mut(slot as usize).is_some_and(|kept| !std::mem::replace(&mut kept.was_called, true)) {
            others.iter().for_each(|&outer| self.put_around(slot, outer));
        }
    }

    fn put_around(&mut self, inner: u32, outer: u32) {
        // Only an older one is held by a younger one, and by an open one only, so that all are free in the end.
        let serial = |slot: u32| self.kept.get(slot as usize).filter(|kept| !kept.over).map(|kept| kept.serial);
        let Some(began) = serial(outer).zip(serial(inner)).filter(|(outer, inner)| outer < inner) else { return };
        let Some(around) = self.kept.get(inner as usize).map(|kept| &kept.around) else { return };
        let is_before = |slot: &u32| self.kept.get(*slot as usize).is_some_and(|kept| kept.serial < began.0);
        let at = match around.last() {
            Some(last) if !is_before(last) => around.partition_point(is_before),
            _ => around.len(), // always, but where it was moved: each is looked for in a short time however many there are
        };
        if around.get(at) == Some(&outer) {
            return; // since before it was moved
        }
        if let Some(kept) = self.kept.get_mut(inner as usize) {
            kept.around.insert(at, outer);
        }
        if let Some(kept) = self.kept.get_mut(outer as usize) {
            kept.below += 1;
        }
    }

    /// Nothing directly inside of it is where it was, once.
    pub(super) fn let_loose(&mut self, slot: u32) {
        let Some(kept) = self.kept.get_mut(slot as usize) else { return };
        kept.below = kept.below.saturating_sub(1);
        if kept.over && !kept.is_held() {
            self.loose.push(slot);
        }
    }

    /// An instance is over: what ended before it is not around it.
    pub(super) fn settle(&mut self, slot: u32) {
        let Some(kept) = self.kept.get_mut(slot as usize) else { return };
        let around = std::mem::take(&mut kept.around);
        let (style, before, serial) = (kept.style, kept.parent, kept.serial);
        let (around, ended): (Vec<u32>, Vec<u32>) = around.into_iter().partition(|&outer| !self.is_over(outer));
        ended.into_iter().for_each(|outer| self.let_loose(outer));
        let parent = if style == RangeStyle::StartEnd { self.open_from(before) } else { before };
        let level = self.level_in(self.before(parent, serial));
        if parent != before {
            if let Some(kept) = self.kept.get_mut(parent as usize) {
                kept.below += 1;
            }
            self.let_loose(before);
        }
        if let Some(kept) = self.kept.get_mut(slot as usize) {
            (kept.around, kept.parent, kept.level) = (around, parent, level);
        }
    }

    fn is_over(&self, slot: u32) -> bool {
        self.kept.get(slot as usize).is_none_or(|kept| kept.over)
    }

    /// The innermost instance on the stack that is open, from this one down.
    fn open_from(&self, mut slot: u32) -> u32 {
        while let Some(kept) = self.kept.get(slot as usize).filter(|kept| kept.over) {
            slot = if kept.moved == NO_SLOT { kept.parent } else { kept.moved };
        }
        slot
    }

    /// Level directly in this instance, or in none.
    pub(super) fn level_in(&self, parent: u32) -> u32 {
        self.kept.get(parent as usize).map_or(0, |kept| kept.level.saturating_add(1))
    }

    /// Start/end ranges that may be its parent, the last that began first, and the range on the stack that is the parent if none of them is.
    fn parents(&self, parent: u32, around: &[u32]) -> (Vec<u32>, Option<Range>) {
        let below = self.kept.get(parent as usize);
        let after = below.map_or(0, |kept| kept.serial);
        let later = |slot: &u32| self.kept.get(*slot as usize).is_some_and(|kept| kept.serial > after);
        (around.iter().rev().copied().filter(later).collect(), below.map(Kept::range))
    }

    /// Counts levels and children of an instance that is added to the totals; nothing is around it from then on.
    pub(super) fn nest(&mut self, slot: u32) {
        let Some(kept) = self.kept.get_mut(slot as usize) else { return };
        let (around, range) = (std::mem::take(&mut kept.around), kept.range());
        let (parent, serial) = (kept.parent, kept.serial);
        if kept.counts() {
            let mut levels = u64::from(kept.level);
            let parents = self.parents(self.before(parent, serial), &around);
            for &outer in &around {
                let Some(outer) = self.kept.get_mut(outer as usize) else { continue };
                if outer.is_undecided() {
                    *outer.inside.get_or_insert_default().levels.entry(range).or_default() += 1;
                } else if !outer.left {
                    levels += 1;
                }
            }
            self.totals.entry(range).or_default().level_sum += levels;
            self.add_children(parents.0, parents.1, 1);
        }
        around.into_iter().for_each(|outer| self.let_loose(outer));
    }

    fn add_children(&mut self, around: Vec<u32>, on_stack: Option<Range>, children: u64) {
        let mut rest = around.into_iter();
        while let Some(slot) = rest.next() {
            match self.kept.get_mut(slot as usize) {
                Some(kept) if kept.is_undecided() => {
                    let rest = (rest.collect(), on_stack);
                    *kept.inside.get_or_insert_default().children.entry(rest).or_default() += children;
                    return;
                }
                Some(kept) if !kept.left => {
                    let range = kept.range();
                    self.totals.entry(range).or_default().children_sum += children;
                    return;
                }
                _ => {}
            }
        }
        if let Some(range) = on_stack {
            self.totals.entry(range).or_default().children_sum += children;
        }
    }

    /// It is known whether a start/end range counts.
    pub(super) fn decide(&mut self, slot: u32, counts: bool) {
        let Some(kept) = self.kept.get_mut(slot as usize) else { return };
        let (inside, range) = (kept.inside.take(), kept.range());
        let Some(inside) = inside else { return };
        if counts {
            inside.add_to(range, &mut self.totals);
        } else {
            inside.children.into_iter().for_each(|((around, on_stack), count)| {
                self.add_children(around, on_stack, count);
            });
        }
    }

    /// Levels and children of an instance as if all were over now, and counted.
    pub(super) fn nest_now(&self, kept: &Kept, totals: &mut Projections) {
        if kept.counts() {
            let around = kept.around.iter().copied().filter(|&outer| {
                self.kept.get(outer as usize).is_some_and(|outer| !outer.left && (kept.over || !outer.over))
            });
            let around: Vec<u32> = around.collect();
            let parent = if kept.is_undecided() { self.open_from(kept.parent) } else { kept.parent };
            let parent = self.before(parent, kept.serial);
            let levels = u64::from(self.level_in(parent)) + around.len() as u64;
            totals.entry(kept.range()).or_default().level_sum += levels;
            let (around, on_stack) = self.parents(parent, &around);
            let parent = around.first().and_then(|&outer| self.range(outer)).or(on_stack);
            if let Some(range) = parent {
                totals.entry(range).or_default().children_sum += 1;
            }
        }
        if let Some(inside) = &kept.inside {
            inside.add_to(kept.range(), totals);
        }
    }
}

impl Inside {
    fn add_to(&self, range: Range, totals: &mut Projections) {
        for (&range, count) in &self.levels {
            totals.entry(range).or_default().level_sum += count;
        }
        totals.entry(range).or_default().children_sum += self.children.values().sum::<u64>();
    }
}
