//! Sinks of the program.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use range_report::timeline::{Item, Sink};
use range_report::{Process, Summary};
use tracing::{info, info_span};
use tracing_subscriber::prelude::*;

use crate::{Output, Profiler};

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
