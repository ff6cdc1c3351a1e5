//! The collector without the feature `cudarc`: it cannot be started.

use crate::clock::Ticks;
use crate::collect::core::Core;
use crate::drain::ActivityTotals;
use crate::recorder::Recorder;

/// There is none.
#[derive(Debug)]
pub(crate) enum Collector {}

impl Collector {
    pub(crate) fn start(_: &'static Core, _calls: bool, _memory: usize) -> Result<&'static Self, String> {
        Err("it needs the feature `cudarc` of the crate tracing-gpu".to_owned())
    }

    pub(crate) fn totals(&self, _: Ticks) -> ActivityTotals {
        match *self {}
    }

    pub(crate) fn restart(&self) {
        match *self {}
    }

    pub(crate) fn record_to(&self, _: &'static Recorder, _origin: u64) {
        match *self {}
    }

    pub(crate) fn finish(&self, _orderly: bool) {
        match *self {}
    }

    pub(crate) fn describe(&self) -> String {
        match *self {}
    }
}
