//! The same port without the feature `cudarc`: no stream can be named, so nothing is timed.

use std::time::Duration;

use crate::clock::Ticks;
use crate::collect::core::Core;
use crate::drain::ActivityTotals;
use crate::record::RangeKey;
use crate::recorder::Recorder;
use crate::summary::StreamLosses;

pub(crate) type StreamId = u32;

/// There is none.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {}

impl Mark {
    pub(crate) fn words(self) -> (StreamId, u64, u64) {
        match self {}
    }

    pub(crate) fn from_words(_: StreamId, _: u64, _: u64) -> Option<Self> {
        None
    }
}

#[derive(Clone, Copy, Debug)]
#[allow(dead_code)] // made for a port that nobody reads here
pub(crate) struct Target {
    pub(crate) core: &'static Core,
    pub(crate) node: u32,
    pub(crate) key: RangeKey,
    pub(crate) window: u64,
}

pub(crate) fn current() -> StreamId {
    0
}

pub(crate) fn begin(_: &Core, _: StreamId) -> Option<Mark> {
    None
}

pub(crate) fn end(mark: Mark, _: Target) {
    match mark {}
}

pub(crate) fn abandon(mark: Mark) {
    match mark {}
}

pub(crate) fn read_all(_: Option<Duration>) {}

pub(crate) fn losses(_: &Core) -> StreamLosses {
    StreamLosses::default()
}

pub(crate) fn notes(_: &Core) -> Vec<String> {
    Vec::new()
}

pub(crate) fn stream_facts() -> Vec<(String, u64)> {
    Vec::new()
}

/// There is none.
#[derive(Debug)]
pub(crate) enum Collector {}

#[derive(Clone, Copy, Debug)]
#[allow(dead_code)] // as above
pub(crate) struct CollectorOptions {
    pub(crate) calls: bool,
    pub(crate) memory: usize,
}

impl Collector {
    pub(crate) fn start(_: &'static Core, _: CollectorOptions) -> Result<&'static Self, String> {
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
