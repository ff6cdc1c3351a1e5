//! The calls of one node of the tree, or of one name.

use range_model::stats::{Distribution, Keyed, Lean, order};
use range_model::summary::{CallStates, SlowestCalls};

use crate::clock::Rate;
use crate::parts::calls::thread::call_row::CallSums;

/// Times of calls, in ticks. They may exceed the latency where threads use a span at once.
#[derive(Clone, Copy, Default)]
pub(crate) struct CallTimes {
    pub(crate) latency: u128,
    pub(crate) busy: u128,
    /// Time in which a call awaited something other than a call.
    pub(crate) idle: u128,
    pub(crate) outlived: u128,
    pub(crate) on_cpu: u128,
    pub(crate) off_cpu: u128,
    pub(crate) ready: u128,
    pub(crate) ready_alone: u128,
}

impl CallTimes {
    pub(crate) fn of(latency: u128, sums: &CallSums) -> Self {
        let CallSums { busy, idle, outlived, on_cpu, off_cpu, ready, ready_alone, .. } = *sums;
        let [busy, idle, outlived, on_cpu, off_cpu, ready, ready_alone] =
            [busy, idle, outlived, on_cpu, off_cpu, ready, ready_alone].map(u128::from);
        Self { latency, busy, idle, outlived, on_cpu, off_cpu, ready, ready_alone }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.latency += other.latency;
        self.busy += other.busy;
        self.idle += other.idle;
        self.outlived += other.outlived;
        self.on_cpu += other.on_cpu;
        self.off_cpu += other.off_cpu;
        self.ready += other.ready;
        self.ready_alone += other.ready_alone;
    }

    pub(crate) fn awaited(&self) -> u128 {
        self.latency.saturating_sub(self.busy + self.outlived())
    }

    pub(crate) fn outlived(&self) -> u128 {
        self.outlived.min(self.latency.saturating_sub(self.busy))
    }

    pub(crate) fn awaited_self(&self) -> u128 {
        self.idle.min(self.awaited())
    }

    /// The latency in parts, in nanoseconds, which add up to it.
    pub(crate) fn states(&self, rate: Rate) -> CallStates {
        let busy = self.busy.min(self.latency);
        let on_cpu = self.on_cpu.min(busy);
        let off_cpu = self.off_cpu.min(busy - on_cpu);
        let (awaited, alone) = (self.awaited(), self.awaited_self());
        let ready = self.ready.min(awaited);
        let otherwise = (alone - self.ready_alone.min(alone)).min(awaited - ready);
        let mut before = 0;
        let mut ns = |ticks: u128| {
            let since = rate.ns(before);
            before += ticks;
            rate.ns(before) - since
        };
        let mut states = CallStates::default();
        states.on_cpu_ns = ns(on_cpu);
        states.off_cpu_ns = ns(off_cpu);
        states.on_thread_ns = ns(busy - on_cpu - off_cpu);
        states.ready_ns = ns(ready);
        states.child_call_ns = ns(awaited - ready - otherwise);
        states.otherwise_ns = ns(otherwise);
        states.outlived_ns = ns(self.outlived());
        states
    }
}

/// The calls of one node, in ticks.
#[derive(Clone, Default)]
pub(crate) struct NodeCalls {
    pub(crate) label: u32,
    pub(crate) latency: Distribution,
    pub(crate) times: CallTimes,
    /// Number and times by length, see `CallCopy::by_length`.
    pub(crate) by_length: Keyed<u32, (u64, CallTimes)>,
    pub(crate) cancelled: u64,
    /// Calls of which it is not known whether they were cancelled.
    pub(crate) unsure: u64,
    /// Whether too little is known to count cancelled calls.
    pub(crate) is_unknown: bool,
    pub(crate) dropped: u64,
    /// Calls of spans that are kept and entered again and again; and uses of such spans that are calls, but are not
    /// counted yet.
    pub(crate) kept: u64,
    pub(crate) uncounted: u64,
    pub(crate) batches: u64,
    pub(crate) in_batch: u128,
    pub(crate) share: u128,
}

impl NodeCalls {
    pub(crate) fn awaited(&self) -> u128 {
        self.times.awaited()
    }

    pub(crate) fn awaited_self(&self) -> u128 {
        self.times.awaited_self()
    }

    /// The longest latency.
    pub(crate) fn longest(&self) -> u64 {
        self.latency.max
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.times.add(&other.times);
        self.add_by_length(&other.by_length);
        self.cancelled += other.cancelled;
        self.is_unknown |= other.is_unknown;
        self.batches += other.batches;
        self.in_batch += other.in_batch;
        self.share += other.share;
    }

    fn add_by_length(&mut self, other: &Keyed<u32, (u64, CallTimes)>) {
        for (length, (calls, times)) in other.iter() {
            let all = self.by_length.row(*length);
            all.0 += calls;
            all.1.add(times);
        }
    }

    /// About the slowest hundredth of the calls: whole groups of about one length each, until there are enough.
    pub(crate) fn slowest(&self, rate: Rate) -> Option<SlowestCalls> {
        let mut groups: Vec<_> = self.by_length.iter().map(|(length, group)| (*length, *group)).in_vec();
        order::by_most(&mut groups, |(length, _)| u64::from(*length));
        let (mut calls, mut times) = (0, CallTimes::default());
        for (_, (more, of)) in groups {
            calls += more;
            times.add(&of);
            if calls >= self.latency.count.div_ceil(SLOWEST) {
                break;
            }
        }
        let mut slowest = SlowestCalls::default();
        slowest.calls = calls;
        slowest.latency_ns = rate.ns(times.latency);
        slowest.states = times.states(rate);
        (calls > 0 && self.latency.count >= SLOWEST).then_some(slowest)
    }
}

/// The slowest calls are one in so many.
const SLOWEST: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_hundredth_takes_whole_groups_and_its_states_add_up() {
        let mut node = NodeCalls::default();
        node.latency.count = 1_000;
        let times = |latency| CallTimes { latency, busy: 40, on_cpu: 30, off_cpu: 5, idle: 20, ..CallTimes::default() };
        for (length, group) in [(7, (980, times(9_800))), (9, (14, times(200))), (12, (6, times(150)))] {
            *node.by_length.row(length) = group;
        }
        let slowest = node.slowest(Rate::IDENTITY).expect("it has a thousand calls");
        assert_eq!((slowest.calls, slowest.latency_ns), (20, 350));
        let CallStates { on_cpu_ns, off_cpu_ns, on_thread_ns, child_call_ns, otherwise_ns, .. } = slowest.states;
        assert_eq!([on_cpu_ns, off_cpu_ns, on_thread_ns, child_call_ns, otherwise_ns], [60, 10, 10, 230, 40]);
        node.latency.count = 99;
        assert_eq!(node.slowest(Rate::IDENTITY), None);
    }
}
