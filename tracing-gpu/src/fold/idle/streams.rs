//! Which operations waited because one of two streams was the legacy default stream: that stream waits for all that was
//! launched before into other streams of its context, and they wait for it, except for non-blocking ones.

use range_report::timeline::StreamKind;
use rustc_hash::FxHashMap;

use super::DISPATCH;
use super::gaps::DeviceOperation;

/// The last operation of a stream, or of all blocking streams.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    launched: u64,
    /// When its stream began to run without a break.
    from: u64,
    end: u64,
}

/// The streams of one context.
#[derive(Debug, Default)]
struct Context {
    lanes: FxHashMap<u32, Lane>,
    default: Lane,
    /// The one of the blocking streams that ended last.
    blocking: Lane,
}

/// The streams of one device.
#[derive(Debug, Default)]
pub(super) struct Streams {
    contexts: FxHashMap<u32, Context>,
    /// Each moment counts once.
    counted: u64,
}

impl Streams {
    /// An operation has begun, later than all before. Returns how long it waited for one on the other side, if that was
    /// the last thing that it waited for. `kind` is that of its stream; `waits`, when that stream was told to wait for
    /// events.
    pub(super) fn began(&mut self, operation: &DeviceOperation, kind: StreamKind, waits: &[u64]) -> Option<u64> {
        let (_, launched) = operation.launch?;
        let context = self.contexts.entry(operation.context).or_default();
        let known = context.lanes.get(&operation.stream).copied();
        let goes_on = known.filter(|lane| operation.start <= lane.end + DISPATCH);
        let (before, from) = (known.unwrap_or_default(), goes_on.map_or(operation.start, |lane| lane.from));
        let lane = Lane { launched, from, end: operation.end.max(before.end) };
        context.lanes.insert(operation.stream, lane);
        let other = match kind {
            StreamKind::Default => {
                context.default = lane;
                context.blocking
            }
            StreamKind::Blocking => {
                if lane.end > context.blocking.end {
                    context.blocking = lane;
                }
                context.default
            }
            _ => return None,
        };
        // What is launched first runs first: the other one kept this one waiting.
        let ready = before.end.max(launched);
        let was_told = waits.partition_point(|&at| at <= launched) > waits.partition_point(|&at| at <= before.launched);
        if was_told
            || other.launched >= launched
            || other.end > operation.start
            || operation.start - other.end > DISPATCH
        {
            return None;
        }
        let from = ready.max(other.from).max(self.counted);
        self.counted = self.counted.max(other.end);
        other.end.checked_sub(from).filter(|ns| *ns > 0)
    }
}
