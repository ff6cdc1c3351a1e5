//! The records that the collector passes to timelines.

use range_model::stats::Keyed;
use std::sync::Arc;

use gpu_activity::join::Event;
use gpu_activity::record::{Details, Work};
use gpu_activity::source::Source;
use gpu_activity::totals::Function;

/// Each kind of details may take this fraction of the limit, so that none crowds out operations.
const DETAILS_PART: usize = 16;

/// Records that wait to be written, a bounded queue. Times are those of the source.
#[derive(Debug, Default)]
pub(crate) struct GpuRecords {
    /// Memory limit of the queue.
    most_bytes: usize,
    pub(crate) events: Vec<Event>,
    /// Number of streams in waiting projections, which count towards the limit.
    streams: usize,
    /// Readable names and symbols of kernels, by number.
    pub(crate) kernels: Keyed<u32, (Arc<str>, Arc<str>)>,
    pub(crate) functions: Keyed<Function, Arc<str>>,
    /// Names of devices by number.
    pub(crate) devices: Keyed<u32, Arc<str>>,
    pub(crate) lost: u64,
    /// Number of waiting details, and of details without room, by kind.
    details: [usize; Details::EACH.len()],
    pub(crate) lost_details: [u64; Details::EACH.len()],
}

impl GpuRecords {
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self { most_bytes, ..Self::default() }
    }

    pub(crate) fn take(&mut self) -> Self {
        let empty = Self::new(self.most_bytes);
        std::mem::replace(self, empty)
    }

    /// Whether it holds nothing that takes room.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.lost == 0 && self.lost_details.iter().all(|lost| *lost == 0)
    }

    /// Adds an event with its names, or counts it as lost.
    pub(crate) fn add(&mut self, event: Event, sources: &[&dyn Source]) {
        let streams = self.streams * size_of::<gpu_activity::join::StreamSpan>();
        // A list has at most twice the room that it needs.
        let is_full = 2 * (self.events.len() * size_of::<Event>() + streams) >= self.most_bytes;
        if let Event::Detail(detail, _) = &event {
            let kind = Details::EACH.iter().position(|(kind, _)| *kind == detail.kind());
            let counts = kind.and_then(|kind| Some((self.details.get_mut(kind)?, self.lost_details.get_mut(kind)?)));
            let Some((waiting, lost)) = counts else { return };
            if is_full || 2 * *waiting * size_of::<Event>() >= self.most_bytes / DETAILS_PART {
                *lost += 1;
                return;
            }
            *waiting += 1;
        } else if is_full {
            self.lost += 1;
            return;
        }
        match &event {
            Event::Operation(op, ..) => {
                // The program's source goes first: CUPTI's source asks the driver about any number.
                let device = || sources.iter().rev().find_map(|source| source.device(op.device));
                self.devices.row_or(op.device, || device().unwrap_or_default());
                if let Work::Kernel(launched) = op.work {
                    self.kernels.row_or(launched.name, || kernel(sources, launched.name));
                }
            }
            Event::Call(call, _) => {
                let number = (call.api, call.function);
                self.functions.row_or(number, || function(sources, number));
            }
            Event::Projection { streams, .. } => self.streams += streams.len(),
            Event::Detail(..) => {}
        }
        self.events.push(event);
    }
}

/// A kernel's readable name, and its symbol.
pub(crate) fn kernel(sources: &[&dyn Source], number: u32) -> (Arc<str>, Arc<str>) {
    sources.iter().find_map(|source| source.kernel(number)).unwrap_or_default()
}

pub(crate) fn function(sources: &[&dyn Source], (api, number): Function) -> Arc<str> {
    sources.iter().find_map(|source| source.function(api, number)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_activity::join::StreamSpan;
    use gpu_activity::record::{Api, ApiCall, Detail, NewStream, StreamKind};

    fn call(correlation: u32) -> Event {
        let (api, function) = (Api::Driver, 307);
        Event::Call(ApiCall { api, function, start: 5, end: 9, thread: 1, correlation, result: 0 }, 1)
    }

    #[test]
    fn what_waits_to_be_written_is_bounded() {
        let mut records = GpuRecords::new(10_000);
        (0..1_000).for_each(|id| records.add(call(id), &[]));
        let (waiting, bytes) = (records.events.len(), records.events.capacity() * size_of::<Event>());
        assert!(waiting > 35 && bytes <= 10_000 && records.lost == 1_000 - waiting as u64, "{waiting} in {bytes}");
        assert_eq!(records.functions.len(), 1);
        let taken = records.take();
        assert_eq!((taken.events.len(), records.is_empty()), (waiting, true));
        // Projections take room by their streams.
        for label in 0..100 {
            let on = StreamSpan { device: 0, context: 1, stream: 7, start: 1, end: 2 };
            records.add(Event::Projection { label, level: 0, streams: vec![on; 10] }, &[]);
        }
        assert!(records.events.len() < 20 && records.lost > 80, "{}", records.events.len());
    }

    /// Each kind of details has a part of the room; operations and calls have the rest.
    #[test]
    fn details_crowd_out_nothing_and_are_counted() {
        let mut records = GpuRecords::new(100_000);
        let stream = NewStream { correlation: 1, context: 1, stream: 7, priority: 0, kind: StreamKind::Blocking };
        (0..1_000).for_each(|_| records.add(Event::Detail(Detail::Stream(stream), None), &[]));
        let waiting = records.events.len();
        assert!(waiting > 10 && waiting * size_of::<Event>() <= 100_000 / 16, "{waiting}");
        let lost = 1_000 - waiting as u64;
        assert_eq!((records.lost_details, records.lost), ([0, 0, 0, lost, 0], 0));
        (0..50).for_each(|id| records.add(call(id), &[]));
        assert_eq!((records.events.len(), records.lost), (waiting + 50, 0));
        drop(records.take());
        assert!(records.is_empty() && records.lost_details == [0; 5]);
    }
}
