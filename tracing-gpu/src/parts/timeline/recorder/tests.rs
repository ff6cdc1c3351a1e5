//! Sinks of the program, and folds.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use range_model::timeline::{Call, Item, Range, Sink};
use range_model::{Fold, Process, Summary};
use tracing::{info, info_span};
use tracing_subscriber::prelude::*;

use crate::{Output, Profiler, ProfilerBuilder};

/// Keeps a word for each call, until there is room for no more.
struct Words(Arc<Mutex<Vec<String>>>, usize);

impl Words {
    fn keep(&self, word: String) -> io::Result<()> {
        let mut words = self.0.lock();
        if words.len() == self.1 {
            return Err(io::Error::other("no room"));
        }
        words.push(word);
        Ok(())
    }
}

impl Sink for Words {
    fn begin(&mut self, process: &Process) -> io::Result<()> {
        self.keep(format!("begin {}", process.pid == std::process::id()))
    }

    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        match item {
            Item::Range(range) => self.keep(format!("{} {}", range.name, range.fields.len())),
            Item::Mark(mark) => self.keep(mark.text.to_owned()),
            _ => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, summary: &Summary, lost: u64) -> io::Result<()> {
        self.keep(format!("end {} {lost}", summary.ranges.len()))
    }
}

#[test]
fn a_sink_of_the_program_receives_the_timeline_and_one_that_fails_no_more() {
    for with_layer in [false, true] {
        let kept = [100, 2].map(|most| (Arc::default(), most));
        let sinks = kept.each_ref().map(|(words, most)| Words(Arc::clone(words), *most));
        let [all, few] = sinks;
        let profiler = Profiler::builder().nvtx(false).output(Output::None).sink(all).sink(few).build().unwrap();
        let work = || {
            info_span!("outer", number = 7).in_scope(|| {
                info_span!("inner").in_scope(|| ());
                info!("halfway");
            });
        };
        if with_layer {
            tracing::subscriber::with_default(tracing_subscriber::registry().with(profiler.layer()), work);
        } else {
            tracing::subscriber::with_default(profiler.subscriber(), work);
        }
        let failed = profiler.finish().unwrap_err().to_string();
        assert_eq!(failed, "cannot write the timeline to a sink of the program: no room");
        let [all, few] = kept.map(|(words, _)| words.lock().clone());
        assert_eq!(all, ["begin true", "inner 0", "halfway", "outer 1", "end 2 0"], "{with_layer}");
        assert_eq!(few, all[..2]);
    }
}

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
