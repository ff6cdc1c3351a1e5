//! What is known of streams, and operations that waited because one of two streams was the legacy default stream. That
//! stream waits for all earlier launches into the blocking streams of its context, and these streams wait for it.
//!
//! A program may want such a wait: a kernel in a stream, and then a copy of its result in the default stream. So a wait
//! counts only if different threads launched the two operations, or if the wait separated two streams other than the
//! default one.

use range_model::stats::{Keyed, Lean};
use range_model::timeline::StreamKind;

use super::functions::BETWEEN_LAUNCHES;
use super::gaps::{DISPATCH, DeviceOperation};

/// The largest number of streams that are remembered. Beyond, the longest unused half is forgotten.
const MOST_STREAMS: usize = 1 << 16;
/// The largest number of waits for events that are remembered, of all streams. Beyond, the older half is forgotten.
const MOST_WAITS: usize = 1 << 18;

/// What is known of a stream.
#[derive(Default)]
pub(super) struct StreamLog {
    pub(super) kind: StreamKind,
    /// When it was told to wait for an event.
    waits: Vec<u64>,
    /// When its last settled operation was launched.
    launched: u64,
    /// Time of its last news.
    used: u64,
}

impl StreamLog {
    /// How many times it was told to wait up to this moment.
    fn waits_until(&self, moment: u64) -> usize {
        self.waits.partition_point(|&at| at <= moment)
    }

    /// Whether it was told to wait shortly before a launch.
    pub(super) fn waited(&self, launched: u64) -> bool {
        let last = self.waits_until(launched).checked_sub(1).and_then(|last| self.waits.get(last));
        last.is_some_and(|&at| launched - at < BETWEEN_LAUNCHES)
    }
}

/// Streams, by context and number: a number is unique within a context.
#[derive(Default)]
pub(super) struct StreamLogs(Keyed<(u32, u32), StreamLog>);

impl StreamLogs {
    pub(super) fn created(&mut self, id: (u32, u32), kind: StreamKind, now: u64) {
        self.0.remove(&id);
        if matches!(kind, StreamKind::Default | StreamKind::Blocking) {
            self.0.insert(id, StreamLog { kind, used: now, ..StreamLog::default() });
        }
    }

    pub(super) fn waits(&mut self, id: (u32, u32), at: u64) {
        let log = self.0.row(id);
        log.waits.push(at);
        log.used = log.used.max(at);
    }

    pub(super) fn get(&self, operation: &DeviceOperation) -> Option<&StreamLog> {
        self.0.get(&(operation.context, operation.stream))
    }

    /// An operation of a stream is settled. A stream runs its operations in the order of their launches.
    pub(super) fn settled(&mut self, operation: &DeviceOperation) {
        let Some(log) = self.0.get_mut(&(operation.context, operation.stream)) else { return };
        log.launched = log.launched.max(operation.launch.map_or(0, |(_, at)| at));
        log.used = log.used.max(operation.end);
    }

    pub(super) fn sort(&mut self) {
        self.0.values_mut().for_each(|log| log.waits.sort_unstable());
    }

    /// Forgets waits that later launches do not need, and streams that are probably gone.
    pub(super) fn forget(&mut self) {
        let Self(logs) = self;
        let cut = |log: &mut StreamLog, moment: u64| {
            log.waits.drain(..log.waits.partition_point(|&at| at < moment));
        };
        logs.values_mut().for_each(|log| cut(log, log.launched.saturating_sub(BETWEEN_LAUNCHES)));
        if logs.rows().iter().map(|log| log.waits.len()).sum::<usize>() > MOST_WAITS {
            let mut waits = Vec::new();
            logs.rows().iter().for_each(|log| waits.extend(&log.waits));
            let middle = median(waits);
            logs.values_mut().for_each(|log| cut(log, middle));
        }
        logs.retain(|_, log| !log.waits.is_empty() || log.kind != StreamKind::default());
        keep_newer(logs, |log| log.used);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

fn median(mut moments: Vec<u64>) -> u64 {
    moments.sort_unstable();
    moments.get(moments.len() / 2).copied().unwrap_or(0)
}

/// Forgets the longest unused half of too many streams.
fn keep_newer<K: std::hash::Hash + Eq, V>(all: &mut Keyed<K, V>, used: impl Fn(&V) -> u64) {
    if all.len() > MOST_STREAMS {
        let middle = median(all.rows().iter().map(&used).in_vec());
        all.retain(|_, one| used(one) >= middle);
    }
}

/// The last operation of a stream, or of all blocking streams.
#[derive(Clone, Copy, Default)]
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
#[derive(Default)]
struct Context {
    lanes: Keyed<u32, Lane>,
    default: Option<Lane>,
    /// The blocking stream whose operation ended last.
    blocking: Option<Lane>,
}

/// The streams of one device.
#[derive(Default)]
pub(super) struct Streams {
    contexts: Keyed<u32, Context>,
    /// Waits up to this time have been counted, so that each moment counts once.
    counted: u64,
}

impl Streams {
    /// To be called for each operation, in order of their starts. Returns how long the operation waited for one on the
    /// other side (default or blocking), if that was its last wait. `log` is what is known of its stream.
    pub(super) fn began(&mut self, operation: &DeviceOperation, log: &StreamLog) -> Option<u64> {
        let is_default = match log.kind {
            StreamKind::Default => true,
            StreamKind::Blocking => false,
            _ => return None,
        };
        let &DeviceOperation { start, end, stream, launch: Some((thread, launched)), .. } = operation else {
            return None;
        };
        let context = self.contexts.row(operation.context);
        let before = context.lanes.get(&stream).copied();
        let goes_on = before.filter(|lane| start <= lane.end + DISPATCH);
        let ready = before.map_or(launched, |lane| lane.end.max(launched));
        let told_before = before.map_or(0, |lane| log.waits_until(lane.launched));
        let was_told = log.waits_until(launched) > told_before;
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
    /// Forgets streams that are probably gone.
    pub(super) fn forget(&mut self) {
        self.contexts.values_mut().for_each(|context| keep_newer(&mut context.lanes, |lane| lane.end));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.contexts.rows().iter().map(|context| context.lanes.len()).sum()
    }
}
