//! Random programs with known causes: the generator records what each thread does, and shares no code with the fold.

mod planted;

use std::collections::BTreeMap;

use range_model::summary::IdleCause::{self, *};
use range_model::summary::InstancesUse;
use range_model::timeline::{
    Api, ApiCall, Detail, Kernel, Memory, NewStream, Operation, PlacedDetail, Range, StreamKind, Wait, WaitKind, Work,
};
use range_model::{RangeStyle, Summary};

use super::*;
use crate::tests::Numbers;

#[derive(Clone, Debug)]
enum Made {
    Range {
        thread: u32,
        start: u64,
        end: u64,
        name: &'static str,
    },
    Call {
        thread: u32,
        start: u64,
        end: u64,
        correlation: u32,
        name: &'static str,
        result: u32,
    },
    Operation {
        device: u32,
        start: u64,
        end: u64,
        stream: u32,
        correlation: u32,
        launch: (u32, u64),
        /// Of a copy, the kind of memory that it reads.
        copy: Option<u8>,
    },
    Wait {
        stream: u32,
        correlation: u32,
        at: (u32, u64),
    },
}

impl Made {
    /// The earliest time at which its record is delivered.
    fn end(&self) -> u64 {
        match *self {
            Self::Range { end, .. } | Self::Call { end, .. } | Self::Operation { end, .. } => end,
            Self::Wait { at, .. } => at.1,
        }
    }

    /// The same, this much later.
    fn later(&self, by: u64) -> Self {
        let mut made = self.clone();
        match &mut made {
            Self::Range { start, end, .. } | Self::Call { start, end, .. } => (*start, *end) = (*start + by, *end + by),
            Self::Operation { start, end, launch, .. } => {
                (*start, *end, launch.1) = (*start + by, *end + by, launch.1 + by);
            }
            Self::Wait { at, .. } => at.1 += by,
        }
        made
    }

    fn give(&self, idle: &mut Idle) {
        match *self {
            Self::Range { thread, start, end, name } => {
                idle.range(&Range { thread, start, end, name, style: RangeStyle::PushPop, ..Range::default() });
            }
            Self::Call { thread, start, end, correlation, name, result } => {
                idle.api(&ApiCall { api: Api::Runtime, name, thread, start, end, correlation, result });
            }
            Self::Operation { device, start, end, stream, correlation, launch, copy } => {
                let memory = |source| Memory { kind: MemoryKind::HtoD, bytes: 7, source, destination: 3, value: 0 };
                let work = copy.map_or(Work::Kernel(Kernel::default()), |source| Work::Memory(memory(source)));
                let (context, launch, kernel) = (1, Some(launch), "spin");
                let times = Operation { start, end, launch, symbol: kernel, ..Operation::default() };
                idle.operation(&Operation { device, context, stream, correlation, work, kernel, ..times });
            }
            Self::Wait { stream, correlation, at } => {
                let kind = WaitKind::StreamForEvent;
                let (context, stream) = (1, Some(stream));
                let wait =
                    Wait { kind, start: at.1, end: at.1, correlation, context, stream, event: Some(1), record: 1 };
                idle.detail(&PlacedDetail { detail: Detail::Wait(wait), launch: Some(at), span: None, call: 0 });
            }
        }
    }
}

/// State of a thread from a moment on.
#[derive(Clone, Copy, Debug)]
struct State {
    from: u64,
    cause: IdleCause,
    range: Option<&'static str>,
}

const NAMES: [&str; 4] = ["load", "forward", "backward", "log"];

/// A thread with its own stream.
struct Program<'a> {
    numbers: &'a mut Numbers,
    thread: u32,
    stream: u32,
    device: u32,
    now: u64,
    /// When the stream has finished its work.
    ready: u64,
    open: Vec<(&'static str, u64)>,
    states: Vec<State>,
    made: Vec<Made>,
    next_correlation: u32,
    /// By correlation: operations whose stream waited for an event.
    held: Vec<u32>,
    /// Duration of the code since the last call.
    code: u64,
    costly: Vec<Costly>,
}

const PAGEABLE: u8 = 1;
const PINNED: u8 = 2;

/// A call that the fold must list: its range with the start of the instance, kind, function, result, duration, bytes.
type Costly = (Option<(&'static str, u64)>, CallKind, &'static str, u32, [u64; 2]);

impl<'a> Program<'a> {
    fn new(numbers: &'a mut Numbers, thread: u32, device: u32) -> Self {
        Self {
            numbers,
            thread,
            stream: thread,
            device,
            now: 0,
            ready: 0,
            open: Vec::new(),
            states: Vec::new(),
            made: Vec::new(),
            next_correlation: thread << 20,
            held: Vec::new(),
            code: 0,
            costly: Vec::new(),
        }
    }

    fn is(&mut self, cause: IdleCause, duration: u64) {
        let range = self.open.last().map(|(name, _)| *name);
        self.states.push(State { from: self.now, cause, range });
        self.now += duration;
    }

    /// Code of the program. Its purpose is known only at its end: a phase of the host, or the way to a call.
    fn code(&mut self, duration: u64) {
        self.is(Unexplained, duration);
        self.code += duration;
    }

    fn code_is(&mut self, cause: IdleCause) {
        let is_phase = std::mem::take(&mut self.code) >= 100_000;
        for state in self.states.iter_mut().rev().take_while(|state| state.cause == Unexplained) {
            state.cause = match (is_phase, state.range) {
                (true, Some(_)) => Host,
                (true, None) => NoWork,
                (false, _) => cause,
            };
        }
    }

    fn call(&mut self, name: &'static str, cause: IdleCause, duration: u64) -> u32 {
        self.call_with(name, cause, duration, 0)
    }

    fn is_costly(&mut self, kind: CallKind, name: &'static str, result: u32, ns: u64, bytes: u64) {
        self.costly.push((self.open.last().copied(), kind, name, result, [ns, bytes]));
    }

    fn call_with(&mut self, name: &'static str, cause: IdleCause, duration: u64, result: u32) -> u32 {
        self.code_is(if cause == Synchronising { cause } else { Launching });
        let (thread, start) = (self.thread, self.now);
        self.is(cause, duration);
        self.next_correlation += 1;
        let correlation = self.next_correlation;
        self.made.push(Made::Call { thread, start, end: self.now, correlation, name, result });
        correlation
    }

    /// Work that is launched by a call which began at a moment.
    fn runs(&mut self, correlation: u32, at: u64, earliest: u64, duration: u64, copy: Option<u8>) -> u64 {
        let start = self.ready.max(earliest);
        let (end, launch) = (start + duration, (self.thread, at + 300));
        self.ready = end;
        let Self { device, stream, .. } = *self;
        self.made.push(Made::Operation { device, start, end, stream, correlation, launch, copy });
        end
    }

    fn launch(&mut self, until: Option<u64>) {
        let blocks = self.numbers.below(16) == 0; // as behind a lock of the driver
        let (at, duration) = (self.now, if blocks { self.numbers.us(90, 190) } else { self.numbers.us(3, 10) });
        let correlation = self.call("cudaLaunchKernel_v7000", Launching, duration);
        let earliest = self.now + self.numbers.us(2, 8);
        if until.is_some() {
            self.held.push(correlation);
        }
        let duration = self.numbers.us(1, 300);
        self.runs(correlation, at, earliest.max(until.unwrap_or(0)), duration, None);
    }

    /// Code between calls.
    fn glue(&mut self) {
        let duration = self.numbers.us(1, 60);
        self.code(duration);
    }

    fn act(&mut self) {
        match self.numbers.below(16) {
            15 => {
                // The call returns behind the copy, as in PyTorch's `.item()`.
                self.glue();
                let (at, duration) = (self.now, self.numbers.us(1, 30));
                let staged = at + self.numbers.us(2, 9);
                let lasts = self.ready.max(staged) + duration + self.numbers.us(1, 9) - at;
                let name = "cudaMemcpyAsync_v3020";
                let cause = if lasts >= 20_000 { Copying } else { Launching };
                let correlation = self.call(name, cause, lasts);
                self.runs(correlation, at, staged, duration, Some(PINNED));
                if self.numbers.below(2) == 0 {
                    self.glue();
                    let name = "cudaStreamSynchronize_v3020";
                    self.is_costly(CallKind::Wait, name, 0, 3_000, 0);
                    self.call(name, Synchronising, 3_000);
                }
            }
            0 | 1 if self.open.len() < 3 => {
                let first = self.numbers.below(4) as usize;
                let is_open = |name: &str| self.open.iter().any(|(open, _)| *open == name);
                let names = NAMES.iter().cycle().skip(first);
                if let Some(name) = names.take(4).find(|name| !is_open(name)) {
                    self.open.push((name, self.now));
                }
            }
            0..=2 => self.close(),
            3..=5 => {
                for _ in 0..1 + self.numbers.below(20) {
                    self.glue();
                    self.launch(None);
                }
            }
            6 => {
                self.glue();
                let until = self.ready.max(self.now) + self.numbers.us(1, 9);
                let name = "cudaStreamSynchronize_v3020";
                self.is_costly(CallKind::Wait, name, 0, until - self.now, 0);
                self.call(name, Synchronising, until - self.now);
            }
            7 => {
                self.glue();
                let at = self.now;
                let (staged, duration) = (at + self.numbers.us(5, 200), self.numbers.us(5, 300));
                let start = self.ready.max(staged);
                let over = self.numbers.us(1, 9);
                let correlation = self.call("cudaMemcpy_v3020", Copying, start + duration + over - at);
                self.runs(correlation, at, staged, duration, Some(PAGEABLE));
            }
            8 => {
                self.glue();
                let (at, duration) = (self.now, self.numbers.us(50, 400));
                let memory = if self.numbers.below(2) == 0 { PAGEABLE } else { PINNED };
                let name = "cudaMemcpyAsync_v3020";
                if memory == PAGEABLE {
                    self.is_costly(CallKind::PageableCopy, name, 0, duration, 7);
                }
                let correlation = self.call(name, Copying, duration);
                let (earliest, duration) = (self.now + self.numbers.us(2, 8), self.numbers.us(5, 300));
                self.runs(correlation, at, earliest, duration, Some(memory));
            }
            9 => {
                self.glue();
                let duration = self.numbers.us(20, 900);
                let (name, cause) = match self.numbers.below(3) {
                    0 => ("cudaMalloc_v3020", Allocating),
                    1 if duration >= 200_000 => ("cudaFuncGetAttributes_v3020", Loading),
                    1 if duration < 100_000 => ("cudaFuncGetAttributes_v3020", Launching),
                    _ => ("cuModuleLoadData", Loading),
                };
                if cause == Allocating {
                    self.is_costly(CallKind::Allocate, name, 0, duration, 0);
                }
                self.call(name, cause, duration);
            }
            12 => {
                self.glue();
                let duration = self.numbers.us(3, 20);
                let (name, cause, code) = match self.numbers.below(3) {
                    0 => ("cudaMalloc_v3020", Allocating, 2),
                    1 => ("cudaLaunchKernel_v7000", Launching, 98),
                    _ => ("cudaMalloc_v3020", Allocating, 1),
                };
                self.is_costly(CallKind::Failed, name, code, duration, 0);
                self.call_with(name, cause, duration, code);
            }
            13 => {
                // No failure: the device has not come so far.
                self.glue();
                self.call_with("cudaEventQuery_v3020", Synchronising, 2_000, 600);
            }
            14 => self.replay_new_graph(),
            10 => {
                let duration = self.numbers.us(150, 3_000);
                self.code(duration);
            }
            _ => {
                self.glue();
                let at = (self.thread, self.now + 300);
                let correlation = self.call("cudaStreamWaitEvent_v3020", Launching, 2_000);
                let stream = self.stream;
                self.made.push(Made::Wait { stream, correlation, at });
                self.glue();
                let until = self.ready.max(self.now) + self.numbers.us(100, 2_000);
                self.launch(Some(until));
            }
        }
    }

    /// Captures a graph, perhaps with another one inside, instantiates and replays it.
    fn replay_new_graph(&mut self) {
        let builds = |program: &mut Self, name| {
            let duration = program.numbers.us(1, 300);
            program.call(name, BuildingGraphs, duration);
        };
        self.glue();
        match self.numbers.below(6) {
            0 => {
                self.call_with("cudaStreamBeginCapture_v10000", BuildingGraphs, 2_000, 900);
                self.is(BuildingGraphs, 3_000);
            }
            1 => {
                // Another thread ends it, or began it.
                let is_even = self.thread.is_multiple_of(2);
                let name = if is_even { "cudaStreamBeginCapture_v10000" } else { "cudaStreamEndCapture_v10000" };
                builds(self, name);
                self.glue();
                return self.launch(None);
            }
            _ => {}
        }
        builds(self, "cudaStreamBeginCapture_v10000");
        if self.numbers.below(3) == 0 {
            self.glue();
            self.launch(None); // in another stream: it runs, and what was before is not charged to the capture
        }
        let others = ["cudaStreamIsCapturing_v10000", "cuKernelGetName", "cudaMemcpyAsync_v3020"];
        for name in others.into_iter().chain(["cudaLaunchKernel_v7000"; 3]) {
            if self.numbers.below(3) > 0 {
                let duration = self.numbers.us(1, 200);
                self.is(BuildingGraphs, duration); // code of any length
                builds(self, name);
            } else if self.numbers.below(2) == 0 {
                let duration = self.numbers.us(1, 200);
                self.is(BuildingGraphs, duration);
                let duration = self.numbers.us(20, 900);
                self.is_costly(CallKind::Allocate, "cudaMalloc_v3020", 0, duration, 0);
                self.call("cudaMalloc_v3020", Allocating, duration);
            }
        }
        if self.numbers.below(3) == 0 {
            self.is(BuildingGraphs, 1_000);
            self.call_with("cudaStreamEndCapture_v10000", BuildingGraphs, 2_000, 908); // of another thread's stream
        }
        let names: &[&'static str] = match self.numbers.below(3) {
            0 => &["cudaStreamBeginCaptureToGraph_v12030", "cudaStreamEndCapture_v10000", "cudaLaunchKernel_v7000"],
            _ => &[],
        };
        for name in names.iter().copied().chain(["cudaStreamEndCapture_v10000"]) {
            let duration = self.numbers.us(1, 200);
            self.is(BuildingGraphs, duration);
            builds(self, name);
        }
        let duration = self.numbers.us(1, 60);
        self.is(BuildingGraphs, duration);
        let aside = ["cudaEventCreate_v3020", "cudaFuncSetAttribute_v9000"];
        for name in aside.into_iter().cycle().take(self.numbers.below(5) as usize) {
            self.call(name, BuildingGraphs, 1_000);
            let duration = self.numbers.us(1, 60);
            self.is(BuildingGraphs, duration);
        }
        builds(self, "cudaGraphInstantiate_v12000");
        let duration = self.numbers.us(1, 60);
        self.is(BuildingGraphs, duration);
        builds(self, "cudaGraphUpload_v11010");
        self.glue();
        self.launch(None);
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.glue(); // the range lasts
        }
        if let Some((name, start)) = self.open.pop() {
            self.made.push(Made::Range { thread: self.thread, start, end: self.now, name });
        }
    }
}

#[derive(Default)]
struct Truth {
    /// By device: wall time, busy time, time by cause.
    devices: BTreeMap<u32, (u64, u64, BTreeMap<IdleCause, u64>)>,
    spans: BTreeMap<(Option<&'static str>, IdleCause), u64>,
    /// By range, kind, function and result: calls, instances, time and bytes.
    calls: BTreeMap<(Option<&'static str>, CallKind, &'static str, u32), [u64; 4]>,
    /// When which device did what; `None` is busy.
    pieces: Vec<(u64, u64, Option<IdleCause>)>,
}

impl Truth {
    /// States of the devices while ranges of a name were open: number of ranges, busy and idle time.
    fn during(&self, made: &[Made], name: &str) -> (u64, BTreeMap<Option<IdleCause>, u64>) {
        let (mut count, mut sums) = (0, BTreeMap::new());
        for made in made {
            let Made::Range { start, end, name: of, .. } = *made else { continue };
            if of != name {
                continue;
            }
            count += 1;
            for &(from, to, what) in &self.pieces {
                *sums.entry(what).or_default() += to.min(end).saturating_sub(from.max(start));
            }
        }
        sums.retain(|_, ns| *ns > 0);
        (count, sums)
    }

    /// The time from the first range of a name until the last one has ended, and the devices have done what was
    /// launched before that; and their busy and idle time in it.
    fn in_loop(&self, made: &[Made], name: &str) -> (u64, BTreeMap<Option<IdleCause>, u64>) {
        let its = made.iter().filter_map(|made| match *made {
            Made::Range { start, end, name: of, .. } if of == name => Some((start, end)),
            _ => None,
        });
        let (start, last) = its.fold((u64::MAX, 0), |(start, last), range| (start.min(range.0), last.max(range.1)));
        let mut until = last;
        for device in self.devices.keys() {
            let mut operations: Vec<_> = made
                .iter()
                .filter_map(|made| match *made {
                    Made::Operation { device: of, start, end, launch, .. } if of == *device => {
                        Some((start, launch.1, end))
                    }
                    _ => None,
                })
                .collect();
            operations.sort_unstable();
            let its = operations.iter().take_while(|(_, launched, _)| *launched <= last);
            until = its.fold(until, |until, (.., end)| until.max(*end));
        }
        let mut sums = BTreeMap::new();
        for &(from, to, what) in &self.pieces {
            *sums.entry(what).or_default() += to.min(until).saturating_sub(from.max(start));
        }
        (until - start, sums)
    }
}

struct Run {
    made: Vec<Made>,
    truth: Truth,
}

fn program(seed: u64) -> Run {
    let mut numbers = Numbers(seed);
    let threads = 1 + numbers.below(3) as u32;
    let devices = 1 + numbers.below(2) as u32;
    let (mut made, mut states, mut held) = (Vec::new(), BTreeMap::new(), Vec::new());
    let mut calls = BTreeMap::new();
    for thread in 1..=threads {
        let device = numbers.below(devices.into()) as u32;
        let begins = numbers.us(100, 900);
        let mut program = Program::new(&mut numbers, thread, device);
        program.code(begins);
        program.open.push(("main", begins));
        program.close(); // so that each thread has a range
        for _ in 0..300 {
            program.act();
        }
        while !program.open.is_empty() {
            program.close();
        }
        program.code(1_000_000);
        program.code_is(Launching);
        made.append(&mut program.made);
        held.append(&mut program.held);
        states.insert(thread, program.states);
        let mut known = Vec::new();
        for (range, kind, name, code, [ns, bytes]) in program.costly {
            let key = (range.map(|(name, _)| name), kind, name, code);
            let sums = calls.entry(key).or_insert([0; 4]);
            let instance = range.map(|range| (range, key));
            let is_new = instance.is_some() && !known.contains(&instance);
            known.extend(is_new.then_some(instance));
            let more = [1, u64::from(is_new), ns, bytes];
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }
    Run { truth: Truth { calls, ..truth(&made, &states, &held) }, made }
}

/// The start of the call in which a host waited, and when it began to launch something else.
#[derive(Clone, Copy)]
struct HostWait {
    start: u64,
    until: u64,
}

/// The call of a thread during which the device ran dry, if the host waited in it for the device. `ender`: the call
/// whose operation ends the idle time. `calls` are in order.
fn wait(calls: &[(u64, u64, u32, &str)], moment: u64, ender: u32) -> Option<HostWait> {
    let enqueues = |name: &str| name.starts_with("cudaLaunchKernel") || name.starts_with("cudaMemcpy");
    let is_aside = |name: &str| {
        ["cudaFuncGetAttributes", "cuKernelGetName", "cudaEventCreate", "cudaFuncSetAttribute", "cudaStreamWaitEvent"]
            .iter()
            .any(|beginning| name.starts_with(beginning))
            || ["cudaGetDevice", "cudaStreamIsCapturing", "cudaGetLastError"].iter().any(|one| name.starts_with(one))
    };
    let around = |&(from, to, _, name): &(u64, u64, u32, &str)| {
        from < moment && moment < to && !is_aside(name) && name != "cudaEventQuery_v3020"
    };
    let at = calls.iter().position(around)?;
    let (start, end, correlation, name) = calls[at];
    let mut later = calls[at + 1..].iter().filter(|call| !is_aside(call.3));
    let next = later.clone().next();
    let waits = match name {
        "cudaStreamSynchronize_v3020" | "cudaMemcpy_v3020" => true,
        "cudaMemcpyAsync_v3020" => {
            end - start >= 20_000 || next.is_some_and(|next| next.3 == "cudaStreamSynchronize_v3020")
        }
        _ => false,
    };
    let until = later.find(|call| enqueues(call.3)).filter(|call| call.2 != ender).map_or(u64::MAX, |call| call.0);
    (waits && correlation != ender).then_some(HostWait { start, until })
}

/// Moves from change to change, with the same result as nanosecond by nanosecond.
fn truth(made: &[Made], states: &BTreeMap<u32, Vec<State>>, held: &[u32]) -> Truth {
    let mut truth = Truth::default();
    let mut operations: BTreeMap<u32, Vec<(u64, u64, u32, u32)>> = BTreeMap::new();
    let mut calls = BTreeMap::new();
    let mut by_thread: BTreeMap<u32, Vec<(u64, u64, u32, &str)>> = BTreeMap::new();
    for made in made {
        match *made {
            Made::Operation { device, start, end, correlation, launch, .. } => {
                operations.entry(device).or_default().push((start, end, launch.0, correlation));
            }
            Made::Call { thread, start, end, correlation, name, .. } => {
                calls.insert(correlation, (start, end));
                by_thread.entry(thread).or_default().push((start, end, correlation, name));
            }
            _ => {}
        }
    }
    by_thread.values_mut().for_each(|calls| calls.sort_unstable());
    for (device, mut operations) in operations {
        operations.sort_unstable();
        let first = operations[0].0;
        let (mut until, mut busy) = (first, 0);
        let mut causes = BTreeMap::new();
        for (start, end, thread, correlation) in operations {
            if start > until {
                let states = &states[&thread];
                let launched = calls[&correlation].1;
                let Truth { spans, pieces, .. } = &mut truth;
                let mut waited = wait(&by_thread[&thread], until, correlation);
                let since = waited.map_or(until, |wait| wait.start);
                let mut parts = Vec::new();
                for (at, state) in states.iter().enumerate() {
                    let to = states.get(at + 1).map_or(u64::MAX, |next| next.from);
                    let mut part = |from: u64, to: u64, cause| {
                        let (from, to) = (from.max(until), to.min(start));
                        if to <= from {
                            return;
                        }
                        let most = match cause {
                            Launching => 100_000,
                            Synchronising | Copying => u64::MAX,
                            _ => 20_000,
                        };
                        waited = waited.filter(|wait| to - from < most && from < wait.until);
                        parts.push((cause, state.range, from, to, waited.is_some() && cause == Launching));
                    };
                    part(state.from, to.min(launched), state.cause);
                    let rest = start - launched.max(until).min(start);
                    let after = match (rest > 50_000, launched > until) {
                        (true, _) if held.contains(&correlation) => Event,
                        (true, _) => Unexplained,
                        (false, true) => Launching,
                        (false, false) => Dispatching,
                    };
                    part(state.from.max(launched), to, after);
                }
                let way: u64 = parts.iter().filter(|part| part.4).map(|(_, _, from, to, _)| to - from).sum();
                let range = states.iter().rev().find(|state| state.from <= since).and_then(|state| state.range);
                for (cause, of, from, to, is_way) in parts {
                    let is_way = is_way && way <= 4 * (until - since);
                    let (cause, range) = if is_way { (Synchronising, range) } else { (cause, of) };
                    *causes.entry(cause).or_default() += to - from;
                    *spans.entry((range, cause)).or_default() += to - from;
                    pieces.push((from, to, Some(cause)));
                }
            }
            if end > until {
                busy += end - start.max(until);
                truth.pieces.push((start.max(until), end, None));
            }
            until = until.max(end);
        }
        truth.devices.insert(device, (until - first, busy, causes));
    }
    truth
}

/// An idle time that a file shows: device, start, end, cause, and thread with the moment whose range is charged.
type ShownTime = (u32, u64, u64, IdleCause, Option<(u32, u64)>);

fn show(idle: &mut Idle, shown: &mut Vec<ShownTime>) {
    idle.show(&mut |item| {
        let Item::Idle(IdleTime { device, start, end, cause, thread, charged_at, ended_by }) = *item else {
            panic!("{item:?}")
        };
        assert!([OperationName::Kernel("spin"), OperationName::Memory(MemoryKind::HtoD)].contains(&ended_by));
        shown.push((device, start, end, cause, thread.map(|thread| (thread, charged_at))));
    });
}

/// Idle times in files add up to the answer, by device and by the innermost range of their thread.
fn check_shown(mut shown: Vec<ShownTime>, found: &GpuIdle, made: &[Made], seed: u64) {
    shown.sort_unstable_by_key(|&(device, start, ..)| (device, start));
    for pair in shown.windows(2) {
        assert!(pair[0].0 < pair[1].0 || pair[0].2 <= pair[1].1, "seed {seed}: {pair:?}");
    }
    let mut devices: BTreeMap<u32, IdleCauses> = BTreeMap::new();
    let mut spans: BTreeMap<Option<&str>, IdleCauses> = BTreeMap::new();
    let ranges: Vec<_> = made
        .iter()
        .filter_map(|made| match *made {
            Made::Range { thread, start, end, name } => Some((thread, start, end, name)),
            _ => None,
        })
        .collect();
    for (device, start, end, cause, charged) in shown {
        let is_around = |&&(of, from, to, _): &&(u32, u64, u64, &str)| match charged {
            Some((thread, at)) => of == thread && from <= at && (at < start || end <= to) && at < to,
            None => false,
        };
        let around = ranges.iter().filter(is_around);
        let innermost = around.min_by_key(|(_, from, to, _)| to - from);
        devices.entry(device).or_default().add(cause, end - start);
        spans.entry(innermost.map(|(.., name)| *name)).or_default().add(cause, end - start);
    }
    for row in &found.devices {
        assert_eq!(devices.remove(&row.device).unwrap_or_default(), row.causes, "seed {seed}: {}", row.device);
    }
    for row in &found.spans {
        let sums = spans.remove(&row.name.as_deref()).unwrap_or_default();
        assert_eq!(sums, row.causes, "seed {seed}: {:?}", row.name);
    }
    assert!(devices.is_empty() && spans.is_empty(), "seed {seed}");
}

fn check(run: &Run, limits: Limits, seed: u64) -> GpuIdle {
    // Records arrive in order of their ends, each up to a millisecond later; ranges of a thread arrive in order.
    let mut numbers = Numbers(!seed);
    let mut order: Vec<(u64, &Made)> = run
        .made
        .iter()
        .map(|made| (made.end() + if matches!(made, Made::Range { .. }) { 0 } else { numbers.us(0, 1_000) }, made))
        .collect();
    order.sort_by_key(|(at, _)| *at);
    let order: Vec<&Made> = order.into_iter().map(|(_, made)| made).collect();
    check_in_order(run, &order, Idle { limits, ..Idle::shown() }, seed)
}

fn check_in_order(run: &Run, order: &[&Made], mut idle: Idle, seed: u64) -> GpuIdle {
    let limits = idle.limits;
    let mut shown = Vec::new();
    for records in order.chunks(50) {
        records.iter().for_each(|made| made.give(&mut idle));
        show(&mut idle, &mut shown);
    }
    let mut summary = Summary::default();
    summary.elapsed_ns = u64::MAX;
    idle.finish(&mut summary);
    show(&mut idle, &mut shown);
    let found = summary.idle.expect("operations");
    assert_eq!((found.late, found.dropped_calls), (0, 0), "seed {seed}");
    assert_eq!(found.devices.len(), run.truth.devices.len());
    for device in &found.devices {
        let (wall, busy, causes) = &run.truth.devices[&device.device];
        assert_eq!((device.wall_ns, device.busy_ns), (*wall, *busy), "seed {seed}");
        assert_eq!(device.wall_ns, device.busy_ns + device.causes.total_ns(), "seed {seed}");
        for cause in IdleCause::ALL {
            let expected = causes.get(&cause).copied().unwrap_or(0);
            assert_eq!(device.causes.of(cause), expected, "seed {seed}: {cause:?} on device {}", device.device);
        }
    }
    for (&(range, cause), &expected) in &run.truth.spans {
        let row = found.spans.iter().find(|row| row.name.as_deref() == range);
        let ns = row.map_or(0, |row| row.causes.of(cause));
        assert_eq!(ns, expected, "seed {seed}: {cause:?} in {range:?}");
    }
    let calls: BTreeMap<_, _> = found
        .calls
        .iter()
        .map(|row| {
            let key = (row.name.as_deref(), row.kind, &*row.function, row.code);
            (key, [row.calls, row.instances, row.ns, row.bytes])
        })
        .collect();
    assert_eq!(calls, run.truth.calls, "seed {seed}");
    for range in &found.ranges {
        let (count, during) = run.truth.during(&run.made, &range.name);
        assert_eq!(range.steady.instances + range.warm_up.instances, count, "seed {seed}: {}", range.name);
        let ns = |cause| during.get(&cause).copied().unwrap_or(0);
        let both = |figure: fn(&InstancesUse) -> u64| figure(&range.steady) + figure(&range.warm_up);
        assert_eq!(both(|part| part.busy_ns), ns(None), "seed {seed}: busy in {}", range.name);
        let code = ns(Some(Host)) + ns(Some(NoWork)); // of a thread without a range, while another one has this range
        assert_eq!(both(|part| part.causes.host_ns), code, "seed {seed}: host code in {}", range.name);
        assert_eq!(both(|part| part.causes.event_ns), ns(Some(Event)), "seed {seed}: events in {}", range.name);
    }
    for range in found.ranges.iter().filter(|range| range.warm_up.instances == 0 && range.steady.instances > 1) {
        let (wall, during) = run.truth.in_loop(&run.made, &range.name);
        let ns = |cause| during.get(&cause).copied().unwrap_or(0);
        assert_eq!(range.in_loop.instances, range.steady.instances, "seed {seed}");
        if range.in_loop.wall_ns < wall && limits.batch < run.made.len() {
            continue; // the last operation was settled in two parts, the second after one that was launched later
        }
        assert_eq!(range.in_loop.wall_ns, wall, "seed {seed}: the loop of {}", range.name);
        assert_eq!(range.in_loop.busy_ns, ns(None), "seed {seed}: busy in the loop of {}", range.name);
        let causes = range.in_loop.causes;
        assert_eq!(causes.host_ns, ns(Some(Host)), "seed {seed}: in the loop of {}", range.name);
        assert_eq!(causes.no_work_ns, ns(Some(NoWork)), "seed {seed}: in the loop of {}", range.name);
    }
    assert!(found.ranges.len() > 2, "seed {seed}");
    check_shown(shown, &found, &run.made, seed);
    found
}

#[test]
fn causes_of_programs_at_random_are_found() {
    let mut all = IdleCauses::default();
    for seed in 0..200 {
        let run = program(seed);
        for device in check(&run, Limits::default(), seed).devices {
            IdleCause::ALL.iter().for_each(|&cause| all.add(cause, device.causes.of(cause)));
        }
    }
    assert!(IdleCause::ALL.iter().all(|&cause| cause == Unexplained || all.of(cause) > 1_000_000), "{all:?}");
}

/// A run is recorded with calls that only query something, or without them.
#[test]
fn slight_calls_change_nothing() {
    for seed in 0..50 {
        let mut run = program(seed);
        let ends = |made: &Made| match *made {
            Made::Call { thread, start, end, .. } => [(thread, start - 700), (thread, end + 100)],
            _ => [(0, 0); 2],
        };
        let places: Vec<_> = run.made.iter().flat_map(ends).filter(|&(thread, _)| thread > 0).collect();
        for (number, (thread, at)) in places.into_iter().enumerate() {
            let name = ["cudaGetDevice_v3020", "cudaStreamIsCapturing_v10000", "cudaGetLastError_v3020"][number % 3];
            let (start, end, correlation) = (at, at + 500, 1 << 30 | number as u32);
            run.made.push(Made::Call { thread, start, end, correlation, name, result: 0 });
        }
        check(&run, Limits::default(), seed);
    }
}

/// PyTorch's backward pass runs like this, on a thread of its own.
#[test]
fn a_thread_without_ranges_works_for_the_range_of_the_only_other() {
    let kernel = |correlation, thread, start| Made::Operation {
        device: 0,
        start,
        end: start + 10_000,
        stream: 7,
        correlation,
        launch: (thread, start - 5_000),
        copy: None,
    };
    let range = |thread, start, end, name| Made::Range { thread, start, end, name };
    let idle_in = |made: &[Made], name: Option<&str>| {
        let mut idle = Idle::default();
        made.iter().for_each(|made| made.give(&mut idle));
        let mut summary = Summary::default();
        idle.finish(&mut summary);
        let rows = summary.idle.expect("operations").spans;
        rows.iter().find(|row| row.name.as_deref() == name).map(|row| row.causes.host_ns)
    };
    let mut made = vec![kernel(1, 1, 100_000), range(1, 50_000, 900_000, "backward"), kernel(2, 2, 1_000_000)];
    assert_eq!(idle_in(&made, Some("backward")), Some(790_000));
    made.push(range(3, 0, 950_000, "elsewhere"));
    assert_eq!(idle_in(&made, Some("backward")), None, "it may work for either");
    assert_eq!(idle_in(&made, None), Some(885_000));
}

/// Each launch has a range of its own, and ends long before its kernel. The first one takes long.
#[test]
fn a_loop_lasts_until_its_work_is_done() {
    const ROUNDS: u32 = 20;
    let launch = |at: u64, lasts, correlation, start| {
        let range = Made::Range { thread: 1, start: at, end: at + lasts, name: "replay" };
        let (launch, end) = ((1, at + 1_000), start + 100_000);
        [range, Made::Operation { device: 0, start, end, stream: 7, correlation, launch, copy: None }]
    };
    let begin = 1_000_000;
    let mut made = launch(100_000, 500_000, 1, 400_000).to_vec();
    for round in 0..ROUNDS {
        let at = begin + u64::from(round) * 20_000;
        made.extend(launch(at, 10_000, 2 + round, begin + 5_000 + u64::from(round) * 101_000));
    }
    let end = begin + 5_000 + 101_000 * u64::from(ROUNDS) - 1_000;
    for other in 0..5 {
        let at = end + 10_000 + u64::from(other) * 120_000;
        made.push(launch(at, 1, 100 + other, at + 5_000)[1].clone()); // of no range, with short pauses
    }
    made.sort_by_key(Made::end);
    for batch in [5, Limits::default().batch] {
        let limits = Limits { batch, lateness: 300_000, ..Limits::default() };
        let mut idle = Idle { limits, ..Idle::default() };
        made.iter().for_each(|made| made.give(&mut idle));
        let mut summary = Summary::default();
        idle.finish(&mut summary);
        let all = summary.idle.expect("operations").ranges;
        let [row] = &all[..] else { panic!("{all:?}") };
        let InstancesUse { instances, wall_ns, devices_ns, busy_ns, operations, operations_ns, causes, .. } =
            row.in_loop;
        assert_eq!([row.warm_up.instances, instances, operations], [1, u64::from(ROUNDS), u64::from(ROUNDS)]);
        assert_eq!([wall_ns, devices_ns], [end - begin; 2], "in batches of {batch}");
        assert_eq!([busy_ns, operations_ns], [u64::from(ROUNDS) * 100_000; 2]);
        assert_eq!(busy_ns + causes.total_ns(), wall_ns);
    }
}

/// The same, with records settled while the program runs.
#[test]
fn settling_in_between_changes_nothing() {
    for seed in 0..200 {
        let limits = Limits { batch: 37, lateness: 20_000_000, ..Limits::default() };
        check(&program(seed), limits, seed);
    }
}

/// A file is read table by table: ranges in the order of their starts, then calls, then operations.
#[test]
fn items_of_a_file_come_in_its_order() {
    for seed in 0..200 {
        let run = program(seed);
        let mut order: Vec<&Made> = run.made.iter().collect();
        order.sort_by_key(|made| match made {
            Made::Range { start, end, .. } => (0, *start, u64::MAX - end),
            Made::Call { start, .. } => (1, *start, 0),
            Made::Operation { start, .. } => (2, *start, 0),
            Made::Wait { at, .. } => (3, at.1, 0),
        });
        check_in_order(&run, &order, Idle::of_file(), seed);
    }
}

/// For a program that never uses a GPU, or no longer does, memory stays within the limit.
#[test]
fn memory_is_bounded_where_a_device_stays_idle() {
    for has_device in [false, true] {
        let mut idle = Idle { limits: Limits { lateness: 1_000, batch: 100, most: 1_000 }, ..Idle::default() };
        if has_device {
            let (launch, stream) = ((1, 5), 1);
            let operation =
                Made::Operation { device: 0, start: 10, end: 20, stream, correlation: 1, launch, copy: None };
            operation.give(&mut idle);
        }
        for number in 1..20_000 {
            let (start, end) = (number * 100, number * 100 + 90);
            Made::Range { thread: 1, start, end, name: "step" }.give(&mut idle);
            Made::Call { thread: 1, start, end, correlation: 0, name: "cudaEventQuery", result: 0 }.give(&mut idle);
            assert!(idle.kept() < 1_200, "{has_device}: {}", idle.kept());
        }
        let mut summary = Summary::default();
        idle.finish(&mut summary);
        assert_eq!(summary.idle.is_some(), has_device);
    }
}

/// A default stream, and others, which wait for it or do not.
#[test]
fn what_waited_for_the_default_stream() {
    const DEFAULT: u32 = 7;
    let stream = |stream, kind| {
        let new = NewStream { correlation: 0, context: 1, stream, priority: 0, kind };
        PlacedDetail { detail: Detail::Stream(new), launch: None, span: None, call: 0 }
    };
    // Thread and stream; launched at, began, ended, in microseconds.
    let waited = |operations: &[(u32, u32, [u64; 3])], kind, wait: Option<u64>| {
        let mut idle = Idle::default();
        idle.detail(&stream(DEFAULT, StreamKind::Default));
        [13, 14, 15].iter().for_each(|&other| idle.detail(&stream(other, kind)));
        for (index, &(thread, stream, [launched, start, end])) in operations.iter().enumerate() {
            let launch = (thread, launched * 1_000);
            let (start, end, correlation) = (start * 1_000, end * 1_000, 1 + index as u32);
            Made::Operation { device: 0, start, end, stream, correlation, launch, copy: None }.give(&mut idle);
        }
        if let Some(at) = wait {
            Made::Wait { stream: 13, correlation: 99, at: (1, at * 1_000) }.give(&mut idle);
        }
        let mut summary = Summary::default();
        idle.finish(&mut summary);
        let rows = summary.idle.expect("operations").calls;
        assert!(rows.iter().all(|row| row.kind == CallKind::DefaultStream));
        rows.iter().map(|row| (row.calls, row.ns / 1_000)).reduce(|sum, row| (sum.0 + row.0, sum.1 + row.1))
    };
    let blocking = |operations: &[_]| waited(operations, StreamKind::Blocking, None);

    let held_up = [(1, DEFAULT, [5, 100, 400]), (2, 13, [10, 403, 500])];
    assert_eq!(blocking(&held_up), Some((1, 300)));
    assert_eq!(waited(&held_up, StreamKind::NonBlocking, None), None, "something else held it up");
    assert_eq!(waited(&held_up, StreamKind::Unknown, None), None);
    assert_eq!(waited(&held_up, StreamKind::Blocking, Some(8)), None, "it was told to wait");
    assert_eq!(waited(&held_up, StreamKind::Blocking, Some(11)), Some((1, 300)), "only later");
    assert_eq!(blocking(&[(2, 13, [5, 100, 400]), (1, DEFAULT, [10, 403, 500])]), Some((1, 300)));
    assert_eq!(blocking(&[(1, DEFAULT, [5, 100, 400]), (2, 13, [350, 403, 500])]), Some((1, 50)));
    let second = [(1, DEFAULT, [5, 100, 400]), (2, 13, [398, 403, 500]), (2, 13, [399, 500, 600])];
    assert_eq!(blocking(&second), Some((1, 2)), "the second waits for the first");
    let own_queue = [(2, 13, [1, 50, 402]), (1, DEFAULT, [5, 402, 450]), (1, DEFAULT, [6, 450, 900])];
    assert_eq!(blocking(&own_queue), Some((1, 352)), "its own stream held up the third");
    assert_eq!(blocking(&[(1, DEFAULT, [5, 100, 400]), (2, 13, [10, 120, 500])]), None, "it did not wait");
    assert_eq!(blocking(&[(1, DEFAULT, [5, 100, 400]), (2, 13, [10, 460, 500])]), None, "not for this");

    // One thread: copies of the default stream around a kernel in another one are as the program wants them.
    let around = [(1, DEFAULT, [5, 100, 400]), (1, 13, [10, 403, 500]), (1, DEFAULT, [11, 502, 600])];
    assert_eq!(blocking(&around), None);
    // Two streams that could run at once, and do not.
    let apart = [(1, 13, [5, 100, 400]), (1, DEFAULT, [10, 403, 410]), (1, 14, [20, 413, 700])];
    assert_eq!(blocking(&apart), Some((1, 310)));
    let same = [(1, 13, [5, 100, 400]), (1, DEFAULT, [10, 403, 410]), (1, 13, [20, 413, 700])];
    assert_eq!(blocking(&same), None);
    // Of two that wait at once, each moment counts once.
    let both = [apart[0], apart[1], apart[2], (2, 15, [6, 413, 700])];
    assert_eq!(blocking(&both), Some((1, 310)));
}

/// A server that makes a stream for each request: none stays for ever, and all idle time keeps its cause.
#[test]
fn streams_that_are_gone_are_forgotten() {
    const REQUESTS: u32 = 200_000;
    const APART: u64 = 1_000_000;
    let mut idle = Idle { limits: Limits { batch: 10_000, ..Limits::default() }, ..Idle::default() };
    for number in 1..=REQUESTS {
        let (start, stream, thread) = (u64::from(number) * APART, 10 + number, 1);
        let kind = StreamKind::Blocking;
        let new = NewStream { correlation: 0, context: 1, stream, priority: 0, kind };
        idle.detail(&PlacedDetail { detail: Detail::Stream(new), launch: None, span: None, call: 0 });
        Made::Wait { stream, correlation: number, at: (thread, start) }.give(&mut idle);
        let (launch, name) = ((thread, start + 10_000), "cudaLaunchKernel");
        let (from, end, correlation) = (start + 10_000, start + 15_000, number);
        Made::Call { thread, start: from, end, correlation, name, result: 0 }.give(&mut idle);
        let (start, end) = (start + 300_000, start + 310_000);
        Made::Operation { device: 0, start, end, stream, correlation, launch, copy: None }.give(&mut idle);
    }
    assert!(idle.streams.len() < 80_000, "{}", idle.streams.len());
    assert!(idle.devices[&0].streams.len() < 80_000, "{}", idle.devices[&0].streams.len());
    let mut summary = Summary::default();
    idle.finish(&mut summary);
    assert_eq!(summary.idle.expect("operations").devices[0].causes.event_ns, 285_000 * u64::from(REQUESTS - 1));
}

/// Numbers of streams are unique within a context.
#[test]
fn a_stream_of_another_context_is_another_stream() {
    let event = |context| {
        let mut idle = Idle::default();
        for (number, start) in [(1, 100_000), (2, 1_000_000)] {
            let launch = (1, start - 90_000);
            Made::Operation { device: 0, start, end: start + 1, stream: 13, correlation: number, launch, copy: None }
                .give(&mut idle);
        }
        let (kind, stream, event) = (WaitKind::StreamForEvent, Some(13), Some(1));
        let wait = Wait { kind, start: 0, end: 0, correlation: 9, context, stream, event, record: 1 };
        idle.detail(&PlacedDetail { detail: Detail::Wait(wait), launch: Some((1, 900_000)), span: None, call: 0 });
        let mut summary = Summary::default();
        idle.finish(&mut summary);
        summary.idle.expect("operations").devices[0].causes.event_ns
    };
    assert_eq!((event(1), event(2)), (90_000, 0));
}

/// The record of a long call arrives long after that of its copy began. A copy whose call never arrives is counted.
#[test]
fn a_pageable_copy_without_its_call_is_counted() {
    for has_call in [true, false] {
        let mut idle = Idle { limits: Limits { batch: 10, lateness: 1_000, ..Limits::default() }, ..Idle::default() };
        let copy = |correlation, start, end| Made::Operation {
            device: 0,
            start,
            end,
            stream: 1,
            correlation,
            launch: (1, start),
            copy: Some(1),
        };
        copy(1, 10_000, 900_000).give(&mut idle);
        for at in 0..40 {
            let (start, name) = (890_000 + 10 * at, "cudaEventQuery");
            let call = Made::Call { thread: 2, start, end: start + 5, correlation: 0, name, result: 0 };
            call.give(&mut idle);
        }
        if has_call {
            let (start, end, name) = (9_000, 900_100, "cudaMemcpyAsync");
            Made::Call { thread: 1, start, end, correlation: 1, name, result: 0 }.give(&mut idle);
        }
        let mut summary = Summary::default();
        idle.finish(&mut summary);
        let found = summary.idle.expect("operations");
        let copies: u64 =
            found.calls.iter().filter(|row| row.kind == CallKind::PageableCopy).map(|row| row.calls).sum();
        assert_eq!((copies, found.unmatched_copies), (u64::from(has_call), u64::from(!has_call)));
    }
}

fn in_order(made: &[Made]) -> impl Iterator<Item = &Made> {
    let mut order: Vec<&Made> = made.iter().collect();
    order.sort_by_key(|made| made.end());
    order.into_iter()
}

/// After a program, a window begins. What is found in it is what is found of the second program alone.
#[test]
fn a_window_begins_anew() {
    const BEGIN: u64 = 10_000_000_000;
    for seed in 0..60 {
        let [before, mut after] = [seed, seed + 1_000].map(program);
        if seed % 3 == 0 {
            // Ranges before a window tell nothing of the threads in it.
            after.made.retain(|made| !matches!(made, Made::Range { .. }));
        }
        let answer = |mut idle: Idle| {
            let mut summary = Summary::default();
            summary.elapsed_ns = BEGIN;
            idle.finish(&mut summary);
            summary.idle.expect("operations")
        };
        let mut alone = Idle::default();
        alone.kernels.numbers.row("spin".to_owned()); // ran before
        alone.kernels.names.push("spin".to_owned());
        in_order(&after.made).for_each(|made| made.give(&mut alone));
        let mut windowed = Idle::shown();
        let late = before.made.len() - before.made.len().min(7);
        in_order(&before.made).take(late).for_each(|made| made.give(&mut windowed));
        windowed.restart(BEGIN);
        in_order(&before.made).skip(late).for_each(|made| made.give(&mut windowed));
        in_order(&after.made).for_each(|made| made.later(BEGIN).give(&mut windowed));
        let (expected, mut found) = (answer(alone), answer(windowed));
        found.spans.iter_mut().for_each(|row| row.longest_at_ns -= BEGIN);
        assert_eq!(found, expected, "seed {seed}");
    }
}

/// An operation, a range and a call that go on where a window begins count from there on.
#[test]
fn a_window_cuts_what_goes_on() {
    let run = |start, end, launched| {
        let launch = (1, launched);
        Made::Operation { device: 0, start, end, stream: 1, correlation: 0, launch, copy: None }
    };
    let mut idle = Idle::default();
    run(100_000, 200_000, 90_000).give(&mut idle);
    let (name, result) = ("cudaMalloc", 0);
    idle.restart(1_000_000);
    run(900_000, 1_100_000, 850_000).give(&mut idle);
    Made::Call { thread: 1, start: 990_000, end: 1_200_000, correlation: 7, name, result }.give(&mut idle);
    run(1_300_000, 1_400_000, 1_290_000).give(&mut idle);
    Made::Range { thread: 1, start: 50_000, end: 1_500_000, name: "step" }.give(&mut idle);
    let mut summary = Summary::default();
    summary.elapsed_ns = 600_000;
    idle.finish(&mut summary);
    let found = summary.idle.expect("operations");
    let device = &found.devices[0];
    assert_eq!((device.before_ns, device.wall_ns, device.busy_ns, device.after_ns), (0, 400_000, 200_000, 200_000));
    assert_eq!((device.causes.allocating_ns, found.calls.len()), (100_000, 0), "the call began before");
    let range = &found.ranges[0].steady;
    assert_eq!((range.instances, range.wall_ns, range.busy_ns), (1, 500_000, 200_000));
}

/// `backward` launches from a thread of its own, with ranges of a library there, while a third thread has ranges, too:
/// idle time before those launches is in what the thread did that waited for them.
#[test]
fn idle_time_before_launches_of_a_helper_is_in_the_ranges_that_wait_for_it() {
    const MS: u64 = 1_000_000;
    for (backward, domain) in [("backward", None), ("trainer:backward", Some("trainer")), ("my: backward", None)] {
        let mut idle = Idle::default();
        let mut correlation = 0;
        let range = |idle: &mut Idle, thread, domain, name, [start, end]: [u64; 2]| {
            let style = RangeStyle::PushPop;
            let (start, end) = (start * MS, end * MS);
            idle.range(&Range { thread, start, end, name, domain, style, ..Range::default() });
        };
        let name = domain.map_or(backward, |_| "backward");
        for at in (0..10).map(|step| 100 * step) {
            let mut run = |thread, ms: u64, path: &[&str]| {
                correlation += 1;
                let start = ms * MS;
                let (symbol, path) = ("gemm", path.iter().map(|label| (*label).to_owned()).collect::<Vec<_>>());
                let call = ApiCall { api: Api::Runtime, thread, start, correlation, ..ApiCall::default() };
                idle.api(&ApiCall { name: "cudaLaunchKernel_v7000", end: start + 5_000, ..call });
                let (end, launch) = (start + MS, Some((thread, start)));
                let operation = Operation { symbol, launch, path: &path, correlation, ..Operation::default() };
                idle.operation(&Operation { start: start + 5_000, end, ..operation });
            };
            run(1, at + 40, &["step", "forward"]);
            for ms in [60, 70, 80] {
                run(2, at + ms, &["step", backward, "[thread pt]"]);
            }
            run(2, at + 85, &["step", backward, "[thread pt]", "NCCL:ncclAllReduce"]);
            range(&mut idle, 2, Some("NCCL"), "ncclAllReduce", [at + 84, at + 86]);
            range(&mut idle, 1, None, "load", [at, at + 30]);
            range(&mut idle, 1, None, "forward", [at + 30, at + 50]);
            range(&mut idle, 1, domain, name, [at + 50, at + 90]);
            range(&mut idle, 1, None, "step", [at, at + 100]);
            range(&mut idle, 3, None, "metrics", [at, at + 100]);
        }
        let mut summary = Summary::default();
        idle.finish(&mut summary);
        let spans = summary.idle.unwrap().spans;
        let of = |name: &str| {
            let row = spans.iter().find(|row| row.name.as_deref() == Some(name));
            row.map_or(0, |row| row.causes.total_ns().div_ceil(MS))
        };
        // Each gap ends 5 us after its launch.
        assert_eq!([of("load"), of("step")], [270, 90], "{spans:#?}");
        assert_eq!([of("forward"), of(name)], [10 * 9 + 9 * 10 + 1, 10 * (10 + 9 + 9 + 3) + 9 * 4 + 1], "{spans:#?}");
        assert_eq!((of("ncclAllReduce"), of("metrics")), (11, 0), "{spans:#?}");
        assert!(spans.iter().all(|row| row.name.is_some()), "nothing is outside of ranges: {spans:#?}");
    }
}
