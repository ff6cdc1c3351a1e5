//! Operations that the program has timed itself, by queries of another API.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use range_model::Note;
use range_model::stats::{Lean, Named};

use crate::forks;
use crate::record::{Api, GpuOp, Kernel, Work};
use crate::source::{Lost, Recorded, Source};

/// Numbers of launches, kernels and queues count up from `FIRST`, those of devices from `FIRST_DEVICE`. CUDA uses none
/// of these, except for launches after 2^31 calls. Two launches with the same number are confused only if both wait for
/// their operations at the same time.
const FIRST: u32 = 1 << 31;
const FIRST_DEVICE: u32 = 32;

/// Largest number of devices with a busy time of their own, including CUDA's. Further devices share the last.
const MOST_DEVICES: u32 = 31;

/// Largest number of operation names, the same as for names made at run time. Further operations share one.
const MOST_NAMES: usize = 1 << 16;
const OTHER: &str = "(other)";

/// A source that the program fills, on any thread.
#[derive(Debug)]
pub struct TimedOperations {
    most: usize,
    launches: AtomicU32,
    queues: AtomicU32,
    devices: Mutex<Numbered>,
    names: Mutex<Numbered>,
    arrived: Mutex<Arrived>,
    held: Mutex<Vec<GpuOp>>,
    over_budget: AtomicU64,
    process: u32,
}

#[derive(Debug, Default)]
struct Arrived {
    operations: Vec<GpuOp>,
    /// Whether the source has ended.
    is_over: bool,
}

/// Names by number, from 0.
#[derive(Debug, Default)]
struct Numbered {
    all: Vec<Arc<str>>,
    numbers: Named<Arc<str>, u32>,
}

impl Numbered {
    fn number(&mut self, name: &str, most: usize) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let name = if self.all.len() + 1 < most { name } else { OTHER };
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let (number, name) = (self.all.len() as u32, Arc::<str>::from(name));
        self.all.push(Arc::clone(&name));
        self.numbers.insert(name, number);
        number
    }
}

/// A queue of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    device: u32,
    stream: u32,
}

impl TimedOperations {
    /// A source in which at most this many bytes of operations wait to be read.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self {
            most: bytes / (2 * size_of::<GpuOp>()), // a list may have twice the room that it needs
            launches: AtomicU32::new(FIRST),
            queues: AtomicU32::new(FIRST),
            devices: Mutex::default(),
            names: Mutex::default(),
            arrived: Mutex::default(),
            held: Mutex::default(),
            over_budget: AtomicU64::new(0),
            process: std::process::id(),
        }
    }

    /// A new queue of the device of this name.
    pub fn queue(&self, device: &str) -> Queue {
        let device = self.devices.lock().number(device, MOST_DEVICES as usize);
        Queue { device: FIRST_DEVICE + device, stream: self.queues.fetch_add(1, Relaxed) }
    }

    /// Whether it has any queue.
    pub fn is_used(&self) -> bool {
        self.queues.load(Relaxed) != FIRST
    }

    /// The correlation id of a new launch.
    pub fn launch(&self) -> u32 {
        self.launches.fetch_add(1, Relaxed) | FIRST
    }

    /// An operation of this launch ran, at times of [`now`](crate::cupti::now).
    pub fn ran(&self, queue: Queue, correlation: u32, name: &str, start: u64, end: u64) {
        let name = FIRST + self.names.lock().number(name, MOST_NAMES);
        let Queue { device, stream } = queue;
        let work = Work::Kernel(Kernel { name, ..Kernel::default() });
        let mut arrived = self.arrived.lock();
        if arrived.is_over {
            return;
        }
        if arrived.operations.len() < self.most {
            let op = GpuOp { start, end, correlation, device, context: 1, stream, graph_node: 0, work };
            arrived.operations.push(op);
        } else {
            self.over_budget.fetch_add(1, Relaxed);
        }
    }
}

impl Source for TimedOperations {
    fn flush(&self) {}

    fn hold(&self) {
        self.held.lock().append(&mut self.arrived.lock().operations);
    }

    fn read(&self, each: &mut dyn FnMut(Recorded)) -> Lost {
        let held = std::mem::take(&mut *self.held.lock());
        held.into_iter().for_each(|op| each(Recorded::Op(op)));
        Lost { unreadable: 0, over_budget: self.over_budget.swap(0, Relaxed) }
    }

    fn dropped(&self) -> u64 {
        0
    }

    fn kernel(&self, number: u32) -> Option<(Arc<str>, Arc<str>)> {
        let name = self.names.lock().all.get(number.checked_sub(FIRST)? as usize).cloned()?;
        Some((name, "".into()))
    }

    fn function(&self, _: Api, _: u32) -> Option<Arc<str>> {
        None
    }

    fn device(&self, number: u32) -> Option<Arc<str>> {
        self.devices.lock().all.get(number.checked_sub(FIRST_DEVICE)? as usize).cloned()
    }

    /// Operations that the program has not handed over by now are lost.
    fn finish(&'static self, _: bool) -> bool {
        self.arrived.lock().is_over = true;
        true
    }

    fn describe(&self) -> Note {
        Note::TimedByProgram { devices: self.devices.lock().all.iter().map(|name| name.to_string()).in_vec() }
    }

    fn describe_others(&self) -> Option<Note> {
        None
    }

    fn forked(&self) -> bool {
        forks::is_child() || std::process::id() != self.process
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &TimedOperations) -> (Vec<(u32, u64)>, u64) {
        let mut read = Vec::new();
        source.hold();
        let lost = source.read(&mut |record| {
            if let Recorded::Op(GpuOp { correlation, start, .. }) = record {
                read.push((correlation - FIRST, start));
            }
        });
        (read, lost.over_budget)
    }

    #[test]
    fn what_comes_is_read_once_and_bounded() {
        let source = TimedOperations::new(3 * 2 * size_of::<GpuOp>());
        let queue = source.queue("adapter");
        let launches = [source.launch(), source.launch()];
        (0..5).for_each(|at| source.ran(queue, launches[at as usize % 2], "pass", at, at + 1));
        assert_eq!(read(&source), (vec![(0, 0), (1, 1), (0, 2)], 2));
        assert_eq!(read(&source), (vec![], 0));
    }

    /// Nobody reads a late operation, so it would wait for ever.
    #[test]
    fn what_comes_after_the_end_is_thrown_away() {
        let source: &'static TimedOperations = Box::leak(Box::new(TimedOperations::new(1 << 10)));
        let (queue, launch) = (source.queue("adapter"), source.launch());
        source.ran(queue, launch, "pass", 1, 2);
        assert!(source.finish(true));
        source.ran(queue, launch, "pass", 3, 4);
        assert_eq!(read(source), (vec![(0, 1)], 0));
    }

    #[test]
    fn names_are_bounded_and_their_numbers_are_nobody_elses() {
        let source = TimedOperations::new(0);
        let queues: Vec<Queue> = (0..40).map(|number| source.queue(&format!("adapter {number}"))).collect();
        assert_eq!((queues[0].device, source.device(32).as_deref()), (32, Some("adapter 0")));
        assert_eq!(source.device(queues[39].device).as_deref(), Some(OTHER));
        assert!(queues.iter().all(|queue| (32..64).contains(&queue.device)));
        assert_ne!(queues[38].stream, queues[39].stream);
        assert_eq!((source.device(31), source.kernel(0)), (None, None));
    }
}
