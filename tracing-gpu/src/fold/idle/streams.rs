//! Operations that waited because one of two streams was the legacy default stream. That stream waits for all earlier
//! launches into the blocking streams of its context, and these streams wait for it.
//!
//! A program may want such a wait: a kernel in a stream, and then a copy of its result in the default stream. So a wait
//! counts only if different threads launched the two operations, or if the wait separated two streams other than the
//! default one.

use range_report::timeline::StreamKind;
use rustc_hash::FxHashMap;

use super::gaps::{DISPATCH, DeviceOperation};

/// The last operation of a stream, or of all blocking streams.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    stream: u32,
    thread: u32,
    launched: u64,
    /// When its stream began to run without a break.
    from: u64,
    end: u64,
    /// Only for the default stream: the stream that it waited for, and when that stream began to run.
    behind: Option<(u32, u64)>,
}

/// The streams of one context.
#[derive(Debug, Default)]
struct Context {
    lanes: FxHashMap<u32, Lane>,
    default: Option<Lane>,
    /// The blocking stream whose operation ended last.
    blocking: Option<Lane>,
}

/// The streams of one device.
#[derive(Debug, Default)]
pub(super) struct Streams {
    contexts: FxHashMap<u32, Context>,
    /// Waits up to this time have been counted, so that each moment counts once.
    counted: u64,
}

impl Streams {
    /// To be called for each operation, in order of their starts. Returns how long the operation waited for one on the
    /// other side (default or blocking), if that was its last wait. `kind` is the kind of its stream. `waits` are the
    /// times at which that stream was told to wait for events.
    pub(super) fn began(&mut self, operation: &DeviceOperation, kind: StreamKind, waits: &[u64]) -> Option<u64> {
        let is_default = match kind {
            StreamKind::Default => true,
            StreamKind::Blocking => false,
            _ => return None,
        };
        let &DeviceOperation { start, end, stream, launch: Some((thread, launched)), .. } = operation else {
            return None;
        };
        let context = self.contexts.entry(operation.context).or_default();
        let before = context.lanes.get(&stream).copied();
        let goes_on = before.filter(|lane| start <= lane.end + DISPATCH);
        let ready = before.map_or(launched, |lane| lane.end.max(launched));
        let told_before = before.map_or(0, |lane| waits.partition_point(|&at| at <= lane.launched));
        let was_told = waits.partition_point(|&at| at <= launched) > told_before;
        let other = if is_default { context.blocking } else { context.default };
        // The other operation was launched first, and this one began as soon as the other one had ended.
        let other = other.filter(|other| {
            !was_told
                && other.launched < launched
                && ready < other.end
                && (other.end..=other.end + DISPATCH).contains(&start)
        });
        let behind = match is_default {
            true => other.map(|other| (other.stream, other.from)).or(goes_on.and_then(|lane| lane.behind)),
            false => None,
        };
        let from = goes_on.map_or(start, |lane| lane.from);
        let lane = Lane { stream, thread, launched, from, end, behind };
        context.lanes.insert(stream, lane);
        if is_default {
            context.default = Some(lane);
        } else if context.blocking.is_none_or(|last| last.end < end) {
            context.blocking = Some(lane);
        }
        let other = other?;
        let apart = other.behind.filter(|(first, _)| *first != stream);
        if other.thread == thread && apart.is_none() {
            return None;
        }
        let from = apart.map_or(other.from, |(_, from)| from.min(other.from));
        let from = from.max(ready).max(self.counted);
        self.counted = self.counted.max(other.end);
        other.end.checked_sub(from).filter(|ns| *ns > 0)
    }
}
