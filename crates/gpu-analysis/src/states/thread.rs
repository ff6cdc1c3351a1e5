//! How long a thread was in CUDA's API during each of its ranges.

use std::cmp::Reverse;

use range_model::stats::{Lean, order};

/// Number of blocks of a thread at which two become one.
const MOST_BLOCKS: usize = 1 << 13;

/// An instance of a span.
#[derive(Clone, Copy)]
pub(super) struct Instance {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) call: u64,
    pub(super) on_cpu_ns: u64,
    pub(super) off_cpu_ns: u64,
}

/// Time in the API, and how much of the time that is known as on and off the CPU may be in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InCuda {
    pub(super) all: u64,
    pub(super) on_cpu: u64,
    pub(super) off_cpu: u64,
}

impl InCuda {
    pub(super) fn add(&mut self, more: &Self) {
        self.all = self.all.saturating_add(more.all);
        self.on_cpu = self.on_cpu.saturating_add(more.on_cpu);
        self.off_cpu = self.off_cpu.saturating_add(more.off_cpu);
    }

    pub(super) fn map(self, of: impl Fn(u64) -> u64) -> Self {
        Self { all: of(self.all), on_cpu: of(self.on_cpu), off_cpu: of(self.off_cpu) }
    }
}

/// Some time of a thread, and how much of it was in the API.
#[derive(Clone, Copy)]
struct Block {
    start: u64,
    end: u64,
    ns: u64,
}

#[derive(Default)]
pub(super) struct ThreadLog {
    pub(super) ranges: Vec<Instance>,
    /// Start and end of each call of the API. A call of the runtime has calls of the driver inside.
    pub(super) api: Vec<(u64, u64)>,
    /// What is settled, in order. A range that has ended is one block, since no other begins inside of it.
    blocks: Vec<Block>,
}

impl ThreadLog {
    /// Calls `found` for the ranges that ended before a moment and have time in the API. Returns how many calls of the
    /// API came too late, and how many records are left.
    pub(super) fn settle(&mut self, until: u64, found: &mut dyn FnMut(u64, InCuda)) -> (u64, usize) {
        let last = self.blocks.last().map_or(0, |block| block.end);
        let mut api: Vec<_> = self.api.extract_if(.., |call| call.1 < until).in_vec();
        let mut ranges: Vec<_> = self.ranges.extract_if(.., |range| range.end < until).in_vec();
        let came = api.len();
        api.retain(|call| call.1 >= last); // else what is after it is settled
        let late = (came - api.len()) as u64;
        order::by_key(&mut api, |call| (call.1, Reverse(call.0)));
        order::by_key(&mut ranges, |range| (range.end, Reverse(range.start)));
        let mut api = api.into_iter().peekable();
        for range in ranges {
            while let Some(call) = api.next_if(|call| call.1 <= range.end) {
                self.push(call);
            }
            let in_cuda = self.collapse(&range);
            if in_cuda.all > 0 {
                found(range.call, in_cuda);
            }
        }
        api.for_each(|call| self.push(call));
        if self.blocks.len() > MOST_BLOCKS {
            let pairs = self.blocks.chunks(2).filter_map(|pair| {
                let (first, last) = (pair.first()?, pair.last()?);
                Some(Block { start: first.start, end: last.end, ns: pair.iter().map(|block| block.ns).sum() })
            });
            self.blocks = pairs.in_vec();
        }
        (late, self.ranges.len() + self.api.len())
    }

    /// Adds a call of the API that ends after all so far.
    fn push(&mut self, (start, end): (u64, u64)) {
        // Calls inside of it; and one that overlaps for an unknown reason counts once.
        while let Some(inner) = self.blocks.pop_if(|block| block.end > start) {
            if inner.start < start {
                let ns = inner.ns + end.saturating_sub(inner.end);
                return self.blocks.push(Block { start: inner.start, end: end.max(inner.end), ns });
            }
        }
        self.blocks.push(Block { start, end, ns: end.saturating_sub(start) });
    }

    /// Makes one block of all that is in the range.
    fn collapse(&mut self, range: &Instance) -> InCuda {
        let &Instance { mut start, end, on_cpu_ns, off_cpu_ns, .. } = range;
        let (mut ns, mut before, blocks) = (0, 0, self.blocks.len());
        while let Some(block) = self.blocks.pop_if(|block| block.end > range.start) {
            let inside = block.ns.min(block.end - block.start.max(range.start));
            ns += inside;
            before += block.ns - inside;
            start = start.min(block.start);
        }
        if self.blocks.len() < blocks {
            self.blocks.push(Block { start, end, ns: ns + before });
        }
        let all = ns.min(end.saturating_sub(range.start));
        InCuda { all, on_cpu: all.min(on_cpu_ns), off_cpu: all.min(off_cpu_ns) }
    }
}
