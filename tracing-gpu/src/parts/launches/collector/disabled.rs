//! The collector without the feature `cuda`: it cannot be started.

use range_model::Note;
use range_model::timeline::{ApiRecords, Details, Graphs};

use crate::core::thread::engine::Engine;

#[derive(Debug)]
pub(crate) enum Collector {}

impl Collector {
    pub(crate) fn start(
        _: &'static Engine,
        _calls: ApiRecords,
        _asked: (Details, Graphs),
        _memory: usize,
        _in_init: bool,
    ) -> Result<&'static Self, String> {
        Err("it needs the feature `cuda` of the crate tracing-gpu".to_owned())
    }

    pub(crate) fn restart(&self) {
        match *self {}
    }

    pub(crate) fn record_to<Recorder>(&self, _: &Recorder) {
        match *self {}
    }

    pub(crate) fn finish(&self, _orderly: bool) {
        match *self {}
    }

    pub(crate) fn record_graph_nodes(&self) {
        match *self {}
    }

    pub(crate) fn forgotten_nodes(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn describe(&self) -> Vec<Note> {
        match *self {}
    }

    pub(crate) fn describe_others(&self) -> Option<Note> {
        match *self {}
    }
}
