//! What the collector hands over for timelines.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use gpu_activity::join::Event;
use gpu_activity::record::{Api, Work};

/// Who takes over what is collected.
pub(crate) trait TakesRecords: Debug + Sync {
    /// Has `add` add to what waits to be written.
    fn take_over(&self, add: &mut dyn FnMut(&mut GpuRecords));
}

/// Names of what events have numbers of.
pub(crate) trait Names {
    /// A kernel's as a person writes it, and its symbol.
    fn kernel(&self, number: u32) -> (Arc<str>, Arc<str>);
    fn function(&self, api: Api, number: u32) -> Arc<str>;
    fn device(&self, number: u32) -> Arc<str>;
}

/// What waits to be written, a bounded queue. Its times are those of the source of records.
#[derive(Debug)]
pub(crate) struct GpuRecords {
    /// Bound on the memory of what waits.
    most_bytes: usize,
    pub(crate) events: Vec<Event>,
    /// Streams of projections among the events, as they count for the bound.
    streams: usize,
    /// Kernels by number: as a person writes them, and their symbols.
    pub(crate) kernels: HashMap<u32, (Arc<str>, Arc<str>)>,
    pub(crate) functions: HashMap<(Api, u32), Arc<str>>,
    /// Names of devices by number.
    pub(crate) devices: HashMap<u32, Arc<str>>,
    pub(crate) lost: u64,
}

impl GpuRecords {
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self {
            most_bytes,
            events: Vec::new(),
            streams: 0,
            kernels: HashMap::new(),
            functions: HashMap::new(),
            devices: HashMap::new(),
            lost: 0,
        }
    }

    pub(crate) fn take(&mut self) -> Self {
        let empty = Self::new(self.most_bytes);
        std::mem::replace(self, empty)
    }

    /// Whether it holds nothing that takes room.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.lost == 0
    }

    /// Has an event wait, with the names in it; or counts it as lost.
    pub(crate) fn add(&mut self, event: Event, names: &dyn Names) {
        let streams = self.streams * size_of::<gpu_activity::join::StreamSpan>();
        if 2 * (self.events.len() * size_of::<Event>() + streams) >= self.most_bytes {
            self.lost += 1; // lists have twice the room, at most
            return;
        }
        match &event {
            Event::Operation(op, _) => {
                self.devices.entry(op.device).or_insert_with(|| names.device(op.device));
                if let Work::Kernel(kernel) = op.work {
                    self.kernels.entry(kernel.name).or_insert_with(|| names.kernel(kernel.name));
                }
            }
            Event::Call(call, _) => {
                let function = (call.api, call.function);
                self.functions.entry(function).or_insert_with(|| names.function(call.api, call.function));
            }
            Event::Projection { streams, .. } => self.streams += streams.len(),
        }
        self.events.push(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_activity::join::StreamSpan;
    use gpu_activity::record::ApiCall;

    struct Numbers;

    impl Names for Numbers {
        fn kernel(&self, number: u32) -> (Arc<str>, Arc<str>) {
            (number.to_string().into(), "".into())
        }

        fn function(&self, api: Api, number: u32) -> Arc<str> {
            format!("{api:?} {number}").into()
        }

        fn device(&self, number: u32) -> Arc<str> {
            number.to_string().into()
        }
    }

    fn call(correlation: u32) -> Event {
        let (api, function) = (Api::Driver, 307);
        Event::Call(ApiCall { api, function, start: 5, end: 9, thread: 1, correlation, result: 0 }, 1)
    }

    #[test]
    fn what_waits_to_be_written_is_bounded() {
        let mut records = GpuRecords::new(10_000);
        (0..1_000).for_each(|id| records.add(call(id), &Numbers));
        let (waiting, bytes) = (records.events.len(), records.events.capacity() * size_of::<Event>());
        assert!(waiting > 40 && bytes <= 10_000 && records.lost == 1_000 - waiting as u64, "{waiting} in {bytes}");
        assert_eq!(records.functions.len(), 1);
        let taken = records.take();
        assert_eq!((taken.events.len(), records.is_empty()), (waiting, true));
        // Projections take room by their streams.
        for label in 0..100 {
            let on = StreamSpan { device: 0, context: 1, stream: 7, start: 1, end: 2 };
            records.add(Event::Projection { label, level: 0, streams: vec![on; 10] }, &Numbers);
        }
        assert!(records.events.len() < 20 && records.lost > 80, "{}", records.events.len());
    }
}
