//! Idle times of a device, derived from its operations.

use range_model::stats::order;
use range_model::summary::MemoryKind;

/// An idle device begins a launched operation within this time, in nanoseconds.
pub(crate) const DISPATCH: u64 = 50_000;

/// An operation, as far as idle time needs it.
#[derive(Clone, Copy)]
pub(super) struct DeviceOperation {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) name: Name,
    /// Whether this is the unsettled rest of an operation.
    pub(super) is_rest: bool,
    /// Whether its kernel ran for the first time.
    pub(super) is_first: bool,
    pub(super) context: u32,
    pub(super) stream: u32,
    pub(super) correlation: u32,
    /// Thread and time of its launch.
    pub(super) launch: Option<(u32, u64)>,
    /// The range that waited for that thread, if it worked for one: its label, by which of two domains it may have.
    pub(super) handed_over: Option<[u32; 2]>,
}

/// Name of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Name {
    /// Number of its kernel.
    Kernel(u32),
    Memory(MemoryKind),
}

/// An idle time, with the operation that ended it.
#[derive(Clone, Copy)]
pub(super) struct Gap {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) ended_by: DeviceOperation,
}

/// The next state of a device.
#[derive(Clone, Copy)]
pub(super) enum Settled {
    Idle(Gap),
    /// An operation began. It may end after the settled time.
    Began(DeviceOperation),
    /// The device was busy with an operation that was launched then. `began` is its duration, if it began meanwhile.
    Busy {
        from: u64,
        until: u64,
        launched: Option<u64>,
        began: Option<u64>,
    },
}

/// The operations of one device, in the order in which they arrive.
#[derive(Default)]
pub(super) struct DeviceLog {
    operations: Vec<DeviceOperation>,
    /// Start of the first operation, and the moment up to which busy and idle times are known; `None` before the first
    /// operation.
    known: Option<(u64, u64)>,
    /// Operations that start before this are too late.
    settled: u64,
    pub(super) busy: u64,
    pub(super) copy: u64,
    pub(super) overlap: u64,
    /// How often a copy came next after a kernel.
    pub(super) turns: u64,
    last_is_kernel: bool,
    pub(super) late: u64,
}

impl DeviceLog {
    pub(super) fn add(&mut self, operation: DeviceOperation) {
        self.operations.push(operation);
    }

    pub(super) fn len(&self) -> usize {
        self.operations.len()
    }

    /// Start of the first operation and end of the last one, as far as they are settled.
    pub(super) const fn known(&self) -> Option<(u64, u64)> {
        self.known
    }

    /// Start of the next gap.
    pub(super) fn cursor(&self) -> u64 {
        self.known.map_or(self.settled, |(_, until)| until)
    }

    /// Forgets all sums. Operations that run on begin at this moment, up to which all are settled.
    pub(super) fn restart(&mut self, at: u64) {
        let operations = std::mem::take(&mut self.operations);
        *self = Self { operations, settled: at, ..Self::default() };
    }

    /// Adds operations up to a moment to the sums, and reports the states of the device.
    pub(super) fn settle(&mut self, until: u64, each: &mut dyn FnMut(Settled)) {
        let mut taken = Vec::new();
        self.operations.retain_mut(|operation| {
            if operation.start >= until {
                return true;
            }
            taken.push(*operation);
            let goes_on = operation.end > until;
            (operation.start, operation.is_rest) = (until, true); // keeps the rest for the next call
            goes_on
        });
        order::by_key(&mut taken, |operation| (operation.start, operation.launch.map(|(_, at)| at), operation.end));
        let (mut kernels, mut copies) = (Vec::new(), Vec::new());
        for mut operation in taken {
            if !operation.is_rest {
                each(Settled::Began(operation));
                let is_kernel = matches!(operation.name, Name::Kernel(_));
                self.turns += u64::from(!is_kernel && self.last_is_kernel);
                self.last_is_kernel = is_kernel;
            }
            let began = (!operation.is_rest).then_some(operation.end - operation.start);
            self.late += u64::from(operation.start < self.settled);
            operation.start = operation.start.max(self.settled);
            operation.end = operation.end.min(until).max(operation.start);
            let (_, known) = self.known.get_or_insert((operation.start, operation.start));
            if operation.start > *known {
                each(Settled::Idle(Gap { start: *known, end: operation.start, ended_by: operation }));
            }
            self.busy += operation.end.saturating_sub(operation.start.max(*known));
            let from = operation.start.max(*known);
            *known = operation.end.max(*known);
            let launched = operation.launch.map(|(_, at)| at);
            each(Settled::Busy { from, until: *known, launched, began });
            let union = if matches!(operation.name, Name::Memory(_)) { &mut copies } else { &mut kernels };
            extend(union, operation.start, operation.end);
        }
        self.copy += copies.iter().map(|(start, end)| end - start).sum::<u64>();
        self.overlap += common(&kernels, &copies);
        self.settled = until;
    }
}

/// Adds an interval to a union. It must not start before earlier ones.
fn extend(union: &mut Vec<(u64, u64)>, start: u64, end: u64) {
    match union.last_mut() {
        Some(last) if start <= last.1 => last.1 = last.1.max(end),
        _ => union.push((start, end)),
    }
}

/// Time that is in both unions.
fn common(one: &[(u64, u64)], other: &[(u64, u64)]) -> u64 {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut sum = 0;
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        sum += a.1.min(b.1).saturating_sub(a.0.max(b.0));
        if a.1 < b.1 {
            one.next()
        } else {
            other.next()
        };
    }
    sum
}
