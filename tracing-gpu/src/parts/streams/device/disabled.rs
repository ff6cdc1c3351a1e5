//! The same interface without the feature `cuda`: no stream can be named, so nothing is timed.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Ticks;
use crate::core::budget::Budget;
use crate::core::record::RangeKey;
use crate::parts::streams::StreamId;

/// No pair is ever started.
#[derive(Clone, Copy)]
pub(crate) enum StartedPair {}

impl StartedPair {
    pub(crate) fn words(self) -> (StreamId, u64, u64) {
        match self {}
    }

    pub(crate) fn from_words(_: StreamId, _: u64, _: u64) -> Option<Self> {
        None
    }
}

/// Nothing is measured.
#[derive(Debug)]
pub(crate) struct StreamTotals;

impl StreamTotals {
    pub(crate) fn new(_: Ticks, _: Arc<Budget>) -> Self {
        Self
    }

    pub(crate) fn restart(&self, _: Ticks) {}
}

pub(crate) fn current() -> StreamId {
    0
}

pub(crate) fn on_scope_change(_: fn()) {}

pub(crate) fn begin(_: &StreamTotals, _: StreamId) -> Option<StartedPair> {
    None
}

pub(crate) fn end(started: StartedPair, _: &StreamTotals, _: u32, _: RangeKey, _: u64) {
    match started {}
}

pub(crate) fn abandon(started: StartedPair) {
    match started {}
}

pub(crate) fn read_all(_: Option<Duration>) {}
