//! The program's own record of its launches: the truth for checking a profiler's tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use tracing_gpu::summary::{MemoryKind, RangeStyle};

use super::workload::Kernel;

/// The work of one place. A place is a path of span names, `outer/inner`; the empty path is outside of any span. A name
/// after `~` is the start/end range of a lifetime: the thread is inside of it, but not of its span.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// Calls that enqueued something; a graph launch is one.
    pub(crate) calls: u64,
    /// Executions, and the requested time in nanoseconds.
    pub(crate) kernels: BTreeMap<Kernel, (u64, u64)>,
    /// Operations and bytes.
    pub(crate) memory: BTreeMap<MemoryKind, (u64, u64)>,
    /// Calls of a library, of which is known only that they launch kernels.
    pub(crate) foreign: u64,
}

impl Work {
    /// Operations that are known.
    pub(crate) fn operations(&self) -> u64 {
        let (kernels, memory) =
            (self.kernels.values().map(|(count, _)| count), self.memory.values().map(|(count, _)| count));
        kernels.chain(memory).sum()
    }

    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.foreign += other.foreign;
        for (&kernel, &(count, ns)) in &other.kernels {
            let sum = self.kernels.entry(kernel).or_default();
            *sum = (sum.0 + count, sum.1 + ns);
        }
        for (&kind, &(count, bytes)) in &other.memory {
            let sum = self.memory.entry(kind).or_default();
            *sum = (sum.0 + count, sum.1 + bytes);
        }
    }
}

/// A range as a profiler's table names it.
pub(crate) type Range = (String, RangeStyle);

#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<BTreeMap<String, Work>>);

impl Ledger {
    pub(crate) fn kernel(&self, place: &str, kernel: Kernel, ns: u64) {
        self.note(place, |work| {
            work.calls += 1;
            work.executed(kernel, ns);
        });
    }

    pub(crate) fn memory(&self, place: &str, kind: MemoryKind, bytes: u64) {
        self.note(place, |work| {
            work.calls += 1;
            work.moved(kind, bytes);
        });
    }

    /// One call with several operations.
    pub(crate) fn graph(&self, place: &str, kernels: &[(Kernel, u64)], set_bytes: u64) {
        self.note(place, |work| {
            work.calls += 1;
            kernels.iter().for_each(|&(kernel, ns)| work.executed(kernel, ns));
            work.moved(MemoryKind::Set, set_bytes);
        });
    }

    pub(crate) fn foreign(&self, place: &str, calls: u64) {
        self.note(place, |work| work.foreign += calls);
    }

    fn note(&self, place: &str, change: impl FnOnce(&mut Work)) {
        change(self.0.lock().expect("no panic while it is held").entry(place.to_owned()).or_default());
    }

    /// All of it.
    pub(crate) fn total(&self) -> Work {
        let mut total = Work::default();
        self.0.lock().expect("no panic while it is held").values().for_each(|work| total.add(work));
        total
    }

    /// Work by the path of the launching spans.
    pub(crate) fn by_span(&self) -> BTreeMap<String, Work> {
        let mut spans: BTreeMap<String, Work> = BTreeMap::new();
        for (place, work) in self.0.lock().expect("no panic while it is held").iter() {
            let path: Vec<&str> = place.split('/').filter(|name| !name.starts_with('~')).collect();
            spans.entry(path.join("/")).or_default().add(work);
        }
        spans
    }

    /// Calls by the ranges open on the launching thread; a call counts once for each instance around it.
    pub(crate) fn calls_by_range(&self) -> BTreeMap<Range, u64> {
        let mut ranges = BTreeMap::new();
        for (place, work) in self.0.lock().expect("no panic while it is held").iter() {
            for range in ranges_of(place) {
                *ranges.entry(range).or_default() += work.calls;
            }
        }
        ranges
    }

    /// Executions of kernels by the ranges open on the launching thread, each range once; `None` if there was none.
    pub(crate) fn kernels_by_range(&self) -> BTreeMap<(Option<Range>, Kernel), u64> {
        let mut ranges = BTreeMap::new();
        for (place, work) in self.0.lock().expect("no panic while it is held").iter() {
            let mut open: BTreeSet<Option<Range>> = ranges_of(place).map(Some).collect();
            if open.is_empty() {
                open.insert(None);
            }
            for range in open {
                for (&kernel, &(count, _)) in &work.kernels {
                    *ranges.entry((range.clone(), kernel)).or_default() += count;
                }
            }
        }
        ranges
    }

    /// Names of spans with partly unknown work.
    pub(crate) fn foreign_names(&self) -> BTreeSet<String> {
        let ledger = self.0.lock().expect("no panic while it is held");
        ledger.iter().filter(|(_, work)| work.foreign > 0).map(|(place, _)| place.clone()).collect()
    }
}

impl Work {
    fn executed(&mut self, kernel: Kernel, ns: u64) {
        let (count, sum) = self.kernels.entry(kernel).or_default();
        (*count, *sum) = (*count + 1, *sum + ns);
    }

    fn moved(&mut self, kind: MemoryKind, bytes: u64) {
        let (count, sum) = self.memory.entry(kind).or_default();
        (*count, *sum) = (*count + 1, *sum + bytes);
    }
}

fn ranges_of(place: &str) -> impl Iterator<Item = Range> + '_ {
    place.split('/').filter(|name| !name.is_empty()).map(|name| match name.strip_prefix('~') {
        Some(lifetime) => (lifetime.to_owned(), RangeStyle::StartEnd),
        None => (name.to_owned(), RangeStyle::PushPop),
    })
}
