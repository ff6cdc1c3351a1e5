//! A fold answers one question about the window of a run, from the stream of ranges, calls and GPU work.

pub(crate) mod idle;
pub(crate) mod interference;
pub(crate) mod kernel_exec;
pub(crate) mod states;
mod union;

use range_report::Summary;
use range_report::timeline::{ApiCall, Call, Details, Item, Link, Operation, PlacedDetail, Range};

/// Gets everything that timelines get, whether or not one is written, in the same order: ranges of a thread by their
/// ends, with no order across threads and devices. Runs on the thread that writes timelines. If no report asks for a
/// fold, nothing is recorded for it.
pub(crate) trait Fold: Send {
    /// The kinds of details that it needs. Asked once, before the run.
    fn details(&self) -> Details {
        Details::NONE
    }
    /// An instance of a range that has ended.
    fn range(&mut self, _: &Range<'_>) {}
    /// A call of a span that was entered several times, at its close.
    fn call(&mut self, _: &Call<'_>) {}
    /// An operation on a GPU, with the place of its launch.
    fn operation(&mut self, _: &Operation<'_>) {}
    /// A call of the GPU's API.
    fn api(&mut self, _: &ApiCall<'_>) {}
    /// A batch and a call that it serves.
    fn link(&mut self, _: &Link) {}
    /// A detail of the kinds that any fold needs.
    fn detail(&mut self, _: &PlacedDetail<'_>) {}
    /// Any of these.
    fn item(&mut self, item: &Item<'_>) {
        match item {
            Item::Range(range) => self.range(range),
            Item::Call(call) => self.call(call),
            Item::Operation(operation) => self.operation(operation),
            Item::ApiCall(call) => self.api(call),
            Item::Link(link) => self.link(link),
            Item::Detail(detail) => self.detail(detail),
            _ => {}
        }
    }
    /// A window begins at this moment, in nanoseconds of the items: discards what ended before. Later items may have
    /// ended before, too.
    fn restart(&mut self, _at: u64) {}
    /// Everything has arrived. Adds the answer to the last summary, before it is printed and before files end with it.
    fn finish(&mut self, summary: &mut Summary);
    /// Passes new parts of the answer to files that show it. Called about every 50 ms, and once after `finish`.
    fn show(&mut self, _give: &mut dyn FnMut(&Item<'_>)) {}
}

/// Shows everything that it gets, and has no answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    pub(crate) details: Details,
    pub(crate) see: fn(&Item<'_>),
}

impl Fold for Watch {
    fn details(&self) -> Details {
        self.details
    }
    fn item(&mut self, item: &Item<'_>) {
        use Item::{ApiCall, Call, Detail, Operation, Range};
        if matches!(item, Range(_) | Call(_) | Operation(_) | ApiCall(_) | Detail(_)) {
            (self.see)(item);
        }
    }
    fn finish(&mut self, _: &mut Summary) {}
}

/// Makes a fold for a run.
pub(crate) type NewFold = fn() -> Box<dyn Fold>;

/// Hands an item to all folds.
pub(crate) fn give(folds: &mut [Box<dyn Fold>], item: &Item<'_>) {
    for fold in folds {
        fold.item(item);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use parking_lot::Mutex;
    use tracing::info_span;
    use tracing_subscriber::prelude::*;

    use super::*;
    use crate::Output;
    use crate::profiler::ProfilerBuilder;

    #[derive(Clone, Copy, Debug, Default)]
    struct Counts {
        ranges: u64,
        calls: u64,
        /// Summed duration of ranges.
        ns: u64,
    }

    /// Ranges and calls by name, and the start of the window.
    #[derive(Default)]
    struct Counting(BTreeMap<String, Counts>, u64);

    impl Fold for Counting {
        fn range(&mut self, range: &Range<'_>) {
            if range.end <= self.1 {
                return;
            }
            let counts = self.0.entry(range.name.to_owned()).or_default();
            (counts.ranges, counts.ns) = (counts.ranges + 1, counts.ns + range.end - range.start);
        }

        fn call(&mut self, call: &Call<'_>) {
            if call.end > self.1 {
                self.0.entry(call.name.to_owned()).or_default().calls += 1;
            }
        }

        fn restart(&mut self, at: u64) {
            *self = Self(BTreeMap::new(), at);
        }

        fn finish(&mut self, summary: &mut Summary) {
            *FOUND.lock() = Some((std::mem::take(&mut self.0), summary.clone()));
        }
    }

    static FOUND: Mutex<Option<(BTreeMap<String, Counts>, Summary)>> = Mutex::new(None);

    /// Folds get everything of the last window, although no file is written.
    #[test]
    fn ranges_and_calls_of_all_threads_reach_a_fold() {
        let builder = ProfilerBuilder::with_folds(vec![|| Box::<Counting>::default()]);
        let profiler = builder.output(Output::None).nvtx(false).build().unwrap();
        let subscriber = tracing::Dispatch::new(tracing_subscriber::registry().with(profiler.layer()));
        let twice = || {
            tracing::dispatcher::with_default(&subscriber, || {
                let span = info_span!("step", part = 7);
                (0..2).for_each(|_| span.in_scope(|| info_span!("inner").in_scope(|| ())));
            });
        };
        for is_first in [true, false] {
            std::thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(|| (0..100).for_each(|_| twice()))));
            if is_first {
                profiler.reset();
            }
        }
        profiler.finish().unwrap();
        let (found, summary) = FOUND.lock().take().expect("it was asked");
        assert_eq!(found.keys().collect::<Vec<_>>(), ["inner", "step"]);
        for (name, calls) in [("inner", 0), ("step", 400)] {
            let (counts, row) = (found[name], summary.ranges.iter().find(|row| row.name == name).unwrap());
            assert_eq!((counts.ranges, counts.calls, row.times.instances), (800, calls, 800), "{name}");
            assert!(counts.ns.abs_diff(row.times.total_ns) <= 800, "{name}: {counts:?}"); // 1 ns each
        }
    }

    /// Random numbers for generated programs (SplitMix64): a seed always gives the same program.
    pub(in crate::fold) struct Numbers(pub(in crate::fold) u64);

    impl Numbers {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        }

        pub(in crate::fold) fn below(&mut self, bound: u64) -> u64 {
            self.next() % bound
        }

        /// A random number of microseconds, in nanoseconds.
        pub(in crate::fold) fn us(&mut self, from: u64, to: u64) -> u64 {
            from * 1_000 + self.below((to - from) * 1_000)
        }

        pub(in crate::fold) fn one_in(&mut self, many: u64) -> bool {
            self.below(many) == 0
        }
    }
}
