//! The collector: a thread that joins the launch logs of all threads with the records of sources: CUPTI, and the
//! program itself.
//!
//! It does so ten times a second, sooner if threads note many launches, less often if no source needs it, and once more
//! for a summary. CUPTI's callbacks only put buffers aside (`entry`). The result is [`ActivityTotals`]. For timelines
//! the collector adds what is joined to [`GpuRecords`] (`records`).
//!
//! It imports the threads' state, the session and the crate gpu-activity. It does not know who drains it, who writes
//! timelines, or how the process ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpu_activity::cupti;
use gpu_activity::join::{Context, Join, Limits};
use gpu_activity::own_calls as own;
use gpu_activity::record::{Api, Details};
use gpu_activity::source::{Lost, Recorded, Source};
use gpu_activity::timed::TimedOperations;
use gpu_activity::totals::{Function, Totals};
use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use range_model::Note;
use range_model::stats::{Keyed, Lean};
use range_model::timeline::{ApiRecords, Graphs};

use crate::clock::Ticks;
use crate::core::samples::KEPT;
use crate::core::session::Session;
use crate::core::thread::engine::Engine;
use crate::parts::launches::thread::notes::{Dropped, Taken};
use crate::parts::launches::thread::waiting::waiting_node;

mod entry;
mod records;
mod strays;

use entry::Entry;
pub(crate) use records::GpuRecords;
use records::{function, kernel};
use strays::Strays;

/// The interval between two collections.
const PERIOD: Duration = Duration::from_millis(100);
/// Shares of the memory limit, in sixteenths.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shares {
    /// CUPTI's buffers, with those that wait to be read.
    buffers: usize,
    /// Launches and instances with outstanding operations.
    launches: usize,
    instances: usize,
    /// API calls without work that wait for their records.
    calls: usize,
    /// Uncollected notes of threads.
    notes: usize,
}

impl Shares {
    const LAUNCHES: Self = Self { buffers: 9, launches: 3, instances: 3, calls: 0, notes: 1 };
    /// If each API call is noted. Then the default limit has room for a million calls that wait at once.
    const CALLS: Self = Self { buffers: 6, launches: 2, instances: 3, calls: 3, notes: 2 };

    fn of(has_calls: bool, details: Details) -> Self {
        if has_calls || !details.is_empty() { Self::CALLS } else { Self::LAUNCHES }
    }

    fn limits(self, calls: bool, memory: usize) -> Limits {
        let launch_bytes = LAUNCH_BYTES + if calls { NESTED_BYTES } else { 0 };
        Limits {
            launches: share(memory, self.launches) / launch_bytes,
            nodes: MOST_NODES,
            calls: share(memory, self.calls).saturating_sub(TABLE_BYTES) / CALL_BYTES,
            has_calls: calls,
            instances: share(memory, self.instances) / INSTANCE_BYTES,
        }
    }
}

/// Sum of the shares.
const PARTS: usize = 16;
/// Number of records after which events are handed over, so that few wait.
const EVENTS: usize = 1 << 14;
/// A round starts early once threads have noted this fraction of the calls that can be remembered. More are noted until
/// the round reads them.
const EARLY: usize = 5;

/// Memory per remembered launch, and for as many waiting driver calls; per other call, and of a table that grows; as
/// [`Limits`] states. And per instance that is not in the totals. There may be two and a half times as many instances.
const LAUNCH_BYTES: usize = 168;
const NESTED_BYTES: usize = 163;
const CALL_BYTES: usize = 44;
const TABLE_BYTES: usize = 1_100_000;
const INSTANCE_BYTES: usize = 280 * 5 / 2;
/// The largest number of graph nodes, 12 bytes each.
const MOST_NODES: usize = 1 << 19;

/// The profiler that owns CUPTI, by id; 0 for none. Taken (`AcqRel`) at `start`, returned at the end of `finish`.
static OWNER: AtomicU64 = AtomicU64::new(0);

/// Collects kernels, copies and API calls of this process for one profiler. Lives as long as the process.
#[derive(Debug)]
pub(crate) struct Collector {
    engine: &'static Engine,
    session: &'static Session,
    /// CUPTI, if this collector has it, then the operations that the program has timed itself.
    sources: Vec<&'static dyn Source>,
    cupti: Option<&'static cupti::Session>,
    timed: &'static TimedOperations,
    calls: bool,
    strays: Strays,
    state: Mutex<State>,
    /// The records that wait for the writer of timelines, if there is one.
    recorded: OnceCell<&'static Mutex<GpuRecords>>,
    /// Whether all launched work has been delivered.
    is_over: AtomicBool,
    stop: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct State {
    join: Join,
    /// Parent of each node of the lineage tree.
    parents: Vec<u32>,
    /// Start of the window, in nanoseconds of CUPTI's clock. Earlier work does not belong to it.
    window: u64,
    notes: Taken,
    dropped_notes: Dropped,
    /// Time of the last drain that made old calls age.
    counted: Instant,
    /// CUPTI's count of dropped records at the start of the window.
    dropped_before: u64,
    /// What sources lost in the window.
    lost: Lost,
}

/// Attributed work, with the names of its kernels, functions and devices.
#[derive(Default)]
pub(crate) struct ActivityTotals {
    pub(crate) totals: Totals,
    kernels: Keyed<u32, Arc<str>>,
    functions: Keyed<(Api, u32), Arc<str>>,
    /// Whether single API calls were recorded.
    pub(crate) calls: bool,
}

impl ActivityTotals {
    /// What came since `before`, an earlier state of these.
    pub(crate) fn since(&self, before: Option<&Self>) -> Self {
        let nothing = Totals::default();
        let totals = self.totals.since(before.map_or(&nothing, |before| &before.totals));
        Self { totals, kernels: self.kernels.clone(), functions: self.functions.clone(), calls: self.calls }
    }

    pub(crate) fn kernel(&self, id: u32) -> String {
        let name = self.kernels.get(&id).filter(|name| !name.is_empty());
        name.map_or_else(|| format!("(kernel {id})"), |name| name.to_string())
    }

    pub(crate) fn function(&self, function: Function) -> String {
        let name = self.functions.get(&function).filter(|name| !name.is_empty());
        name.map_or_else(|| format!("({:?} function {})", function.0, function.1), |name| name.to_string())
    }
}

impl Collector {
    /// Starts collecting CUPTI's records, in at most `memory` bytes. `calls`: which calls of the CUDA API, too.
    /// `in_init`: the driver calls us inside `cuInit`. The error is a sentence for the report.
    pub(crate) fn start(
        engine: &'static Engine,
        calls: ApiRecords,
        (details, graphs): (Details, Graphs),
        memory: usize,
        in_init: bool,
    ) -> Result<&'static Self, String> {
        if OWNER.compare_exchange(0, engine.session.id, Acquire, Relaxed).is_err() {
            return Err("CUPTI belongs to another profiler of this process".to_owned());
        }
        let start = || {
            let entry: &'static Entry = Box::leak(Box::new(Entry::new(engine)));
            let has_calls = calls != ApiRecords::None;
            let Shares { buffers, .. } = Shares::of(has_calls, details);
            let options =
                cupti::Options { api_records: calls, details, graphs, buffer_bytes: share(memory, buffers), in_init };
            let session = cupti::start(options, entry).map_err(|unavailable| unavailable.to_string())?;
            Self::begin(engine, Some((session, entry)), has_calls, details, memory)
        };
        start().inspect_err(|_: &String| OWNER.store(0, Release))
    }

    /// Starts collecting only operations that the program times itself. Any number of profilers may do so.
    pub(crate) fn start_alone(engine: &'static Engine, memory: usize) -> Result<&'static Self, String> {
        Self::begin(engine, None, false, Details::NONE, memory)
    }

    /// Lets threads note their launches from now on, and starts the thread that collects them.
    fn begin(
        engine: &'static Engine,
        cupti: Option<(&'static cupti::Session, &'static Entry)>,
        calls: bool,
        details: Details,
        memory: usize,
    ) -> Result<&'static Self, String> {
        let shares = Shares::of(calls, details);
        let limits = shares.limits(calls, memory);
        let mut join = Join::new(limits);
        if !details.is_empty() {
            join.ask_for_details();
        }
        let timed: &TimedOperations = Box::leak(Box::new(TimedOperations::new(share(memory, shares.buffers))));
        let sources = cupti.map(|(session, _)| session as &dyn Source).into_iter().chain([timed as &dyn Source]);
        let collector: &'static Self = Box::leak(Box::new(Self {
            engine,
            session: &engine.session,
            sources: sources.in_vec(),
            cupti: cupti.map(|(session, _)| session),
            timed,
            calls,
            strays: Strays::default(),
            state: Mutex::new(State {
                join,
                parents: Vec::new(),
                window: cupti.map_or(0, |_| cupti::now()),
                notes: Taken::default(),
                dropped_notes: Dropped::default(),
                counted: Instant::now(),
                dropped_before: 0,
                lost: Lost::default(),
            }),
            recorded: OnceCell::new(),
            is_over: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            thread: Mutex::default(),
        }));
        cupti.iter().for_each(|&(session, entry)| entry.open(&collector.strays, session));
        let session = collector.session;
        session.parts.note_room.allow(share(memory, shares.notes));
        session.set_collecting(true);
        let thread = crate::process::spawn("tracing-gpu", Box::new(|| collector.run()));
        match thread {
            Ok(thread) => {
                session.parts.note_room.wake(thread.thread().clone(), limits.launches / EARLY);
                *collector.thread.lock() = Some(thread);
                Ok(collector)
            }
            Err(error) => {
                session.set_collecting(false);
                own::during(|| collector.finish_sources(true)); // a disorderly end would start threads
                Err(format!("no thread could be started to collect GPU records: {error}"))
            }
        }
    }

    /// Ends all sources. Returns whether all launched work has arrived.
    fn finish_sources(&self, orderly: bool) -> bool {
        self.sources.iter().fold(true, |all_came, source| all_came & source.finish(orderly))
    }

    /// Whether a row keeps one more single duration, given the number that it keeps.
    fn keeps(&self, kept: u64) -> bool {
        kept < KEPT && self.session.budget.covers(kept)
    }

    /// Whether this is a forked child of the measured process.
    fn forked(&self) -> bool {
        self.sources.iter().any(|source| source.forked())
    }

    fn dropped(&self) -> u64 {
        self.sources.iter().map(|source| source.dropped()).sum()
    }

    /// The source of operations that the program times itself.
    pub(crate) fn timed(&self) -> &TimedOperations {
        self.timed
    }

    /// Whether nobody reads operations that the program times: after the end, and in a forked child, where threads that
    /// do not exist may hold locks.
    pub(crate) fn has_ended(&self) -> bool {
        self.stop.load(Relaxed) || self.session.is_of_parent()
    }

    /// Notes a launch of work that the program times itself, in the innermost range of this thread. Returns its id.
    pub(crate) fn launch(&self) -> u32 {
        let correlation = self.timed.launch();
        match self.engine.calling_thread() {
            Some(thread) => thread.note_call(correlation, false, true, |thread| waiting_node(thread, self.engine)),
            None => self.strays.note(&self.session.parts.note_room, correlation, false, true),
        }
        correlation
    }

    fn run(&'static self) {
        own::whole_thread();
        while !self.stop.load(Acquire) {
            let parked = Instant::now();
            std::thread::park_timeout(PERIOD);
            if self.stop.load(Acquire) {
                return;
            }
            // It returns early after many notes, and sometimes without a reason.
            if parked.elapsed() < PERIOD || self.sources.iter().all(|source| source.is_due()) {
                self.flush_and_collect();
            }
        }
    }

    /// One round. It always flushes, because the number of counting rounds decides when calls are forgotten.
    fn flush_and_collect(&'static self) {
        self.session.parts.note_room.begin_collecting(); // notes made during the flush may wait for the next round
        self.sources.iter().for_each(|source| source.flush());
        self.collect();
    }

    /// Attributes the records that have arrived.
    fn collect(&'static self) {
        let mut state = self.state.lock();
        // Within a shorter time CUPTI may not have delivered related records, and a drain may be asked for at any time.
        // At most two seconds, because in a process that was stopped no records arrived.
        let tenths = (state.counted.elapsed().as_millis() / PERIOD.as_millis()).min(20);
        if tenths > 0 {
            state.counted = Instant::now();
        }
        // Records first, so that their launches have been noted by now.
        self.sources.iter().for_each(|source| source.hold());
        let State { join, parents, window, notes, dropped_notes, lost, .. } = &mut *state;
        for thread in self.engine.all_threads() {
            *dropped_notes += thread.take_notes(notes);
            notes.iter().for_each(|(thread, note)| join.note(thread, &note));
            thread.give_back(notes);
        }
        *dropped_notes += self.strays.take(notes, &self.session.parts.note_room);
        notes.iter().for_each(|(_, note)| join.note(0, &note));
        self.strays.give_back(notes, &self.session.parts.note_room);
        self.session.with_names(|names| {
            parents.extend(names.catalog.nodes().iter().skip(parents.len()).map(|node| node.parent));
        });
        let context = Context { parents: parents.as_slice(), keep: &|kept| self.keeps(kept) };
        // Operations without a time are counted; operations that ended before the window do not belong to it.
        let of_window = |end: u64| end == 0 || end >= *window;
        for source in &self.sources {
            let mut events_wait = 0;
            let Lost { unreadable, over_budget, .. } = source.read(&mut |record| {
                match record {
                    Recorded::Op(op) => join.operation(&op, of_window(op.end), &context),
                    Recorded::Call(call) => join.call(&call, of_window(call.start), &context),
                    Recorded::Detail(detail) => join.detail(&detail),
                    Recorded::Graph(change) => join.graph(&change),
                }
                events_wait += 1;
                if events_wait % EVENTS == 0 {
                    self.hand_over(join);
                }
            });
            lost.unreadable += unreadable;
            lost.over_budget += over_budget;
        }
        join.drained(&context, u32::try_from(tenths).unwrap_or(20));
        self.hand_over(join);
    }

    /// Passes joined events to the writer of timelines.
    fn hand_over(&'static self, join: &mut Join) {
        if let Some(records) = self.recorded.get() {
            let mut records = records.lock();
            join.take_events().for_each(|event| records.add(event, &self.sources));
        }
    }

    /// Adds everything that is collected from now on to the records of a writer of timelines, too.
    pub(crate) fn record_to(&self, records: &'static Mutex<GpuRecords>) {
        if self.recorded.set(records).is_ok() {
            self.state.lock().join.ask_for_events();
        }
    }

    /// The totals up to now; `now` is in ticks. Waits for CUPTI to hand over finished work, not for the GPU.
    pub(crate) fn totals(&'static self, now: Ticks) -> ActivityTotals {
        if self.forked() {
            return ActivityTotals::default();
        }
        own::during(|| self.flush_and_collect());
        let dropped = self.dropped();
        let state = self.state.lock();
        let mut totals = state.join.totals(now);
        let losses = &mut totals.losses;
        losses.dropped_records = dropped.saturating_sub(state.dropped_before);
        losses.unreadable_records = state.lost.unreadable;
        losses.over_budget_records = state.lost.over_budget;
        losses.late += state.dropped_notes.ranges;
        losses.forgotten_launches += state.dropped_notes.launches;
        losses.forgotten_calls += state.dropped_notes.calls;
        // Calls that are outstanding after the end have no operations: they were captured into a graph, or had no
        // bytes.
        if self.is_over.load(Acquire) {
            losses.outstanding = 0;
        }
        let kernels = totals.kernels.keys().map(|&id| (id, kernel(&self.sources, id).0)).collect();
        let functions = totals.calls.keys().map(|&number| (number, function(&self.sources, number))).collect();
        ActivityTotals { totals, kernels, functions, calls: self.calls }
    }

    /// Begins a new window.
    pub(crate) fn restart(&'static self) {
        if self.forked() {
            return;
        }
        own::during(|| self.flush_and_collect());
        let dropped = self.dropped();
        let mut state = self.state.lock();
        state.join.clear(self.session.window());
        state.window = cupti::now();
        state.lost = Lost::default();
        state.dropped_notes = Dropped::default();
        state.dropped_before = dropped;
    }

    /// Waits for all work in flight, and releases CUPTI. While the program is alive (`orderly`) this waits for the GPU
    /// without a limit. At the end of the process it waits 1.5 s at most and takes the records that have arrived.
    pub(crate) fn finish(&'static self, orderly: bool) {
        cupti::before_own_calls();
        self.session.set_collecting(false);
        self.stop.store(true, Release); // pairs with `run`
        if let Some(thread) = self.thread.lock().take() {
            thread.thread().unpark();
            if orderly {
                let _panicked = thread.join();
            }
        }
        let all_came = own::during(|| self.finish_sources(orderly));
        self.collect(); // timelines need the last records before they are closed
        let mut state = self.state.lock();
        let State { join, parents, .. } = &mut *state;
        join.finish(&Context { parents: parents.as_slice(), keep: &|kept| self.keeps(kept) });
        self.hand_over(join);
        drop(state);
        self.is_over.store(all_came, Release); // pairs with `totals`
        let _not_ours = OWNER.compare_exchange(self.session.id, 0, Release, Relaxed);
    }

    /// Records each node of graphs from now on.
    pub(crate) fn record_graph_nodes(&'static self) {
        if let Some(session) = self.cupti.filter(|_| !self.forked()) {
            own::during(|| session.record_nodes());
        }
    }

    /// Number of graph nodes without room.
    pub(crate) fn forgotten_nodes(&'static self) -> u64 {
        if self.forked() { 0 } else { self.state.lock().join.forgotten_nodes() }
    }

    /// For the footer: where the records come from.
    pub(crate) fn describe(&'static self) -> Vec<Note> {
        let has_timed = self.sources.len() == 1 || self.timed.is_used();
        self.sources.iter().take(1 + usize::from(has_timed)).map(|source| source.describe()).in_vec()
    }

    /// For the footer: which other profilers get no records.
    pub(crate) fn describe_others(&'static self) -> Option<Note> {
        self.sources.iter().find_map(|source| source.describe_others())
    }
}

/// This many sixteenths of a memory limit.
fn share(memory: usize, parts: usize) -> usize {
    memory / PARTS * parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::page::PAGE;
    use crate::parts::launches::session::PIECE_BYTES;

    #[test]
    fn the_default_limit_has_room_for_a_million_calls() {
        for Shares { buffers, launches, instances, calls, notes } in [Shares::LAUNCHES, Shares::CALLS] {
            assert_eq!(buffers + launches + instances + calls + notes, PARTS);
        }
        let (memory, shares) = (Config::default().gpu_memory, Shares::of(true, Details::NONE));
        let limits = shares.limits(true, memory);
        assert!(limits.calls >= 1_000_000 && limits.launches >= 100_000, "{limits:?}");
        assert!(share(memory, shares.notes) / PIECE_BYTES * PAGE >= 1_000_000);
        assert!(share(memory, shares.buffers) >= 1_000_000 * 2 * 40, "a record of the driver and one of the runtime");
    }
}
