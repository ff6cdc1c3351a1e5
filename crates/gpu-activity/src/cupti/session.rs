//! A session with CUPTI, from subscription to its end.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::buffers::Filled;
use super::calls;
use super::context::{Contexts, Device};
use super::delivery::{Delivery, IS_DUE, MAY_COME};
use super::library::{self, Code, Domain, Library, OnCall, Subscriber};
use super::names::Names;
use super::profiler_calls::Watch;
use super::receive::{self, Devices, POOL, Receiver};
use super::sink::Sink;
use super::strides::Kind;
use super::unavailable::Unavailable;
use crate::forks;
use crate::graph::GraphChange;
use crate::own_calls::{self, within};
use crate::record::{Api, Details};
use crate::source::{Lost, Recorded, Source};
use range_model::Note;
use range_model::stats::Lean;
use range_model::timeline::{ApiRecords, Graphs, is_slight};

/// What to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which calls of the runtime and the driver to record.
    pub api_records: ApiRecords,
    /// Kinds of details to record.
    pub details: Details,
    /// What of CUDA graphs to record.
    pub graphs: Graphs,
    /// Host memory for buffers. Beyond it, buffers are small, and their records are lost and counted.
    pub buffer_bytes: usize,
    /// Whether the driver is calling us inside `cuInit` (`InitializeInjection`). Then only the driver's version is
    /// queried.
    pub in_init: bool,
}

/// The largest number of unread changes of graphs: as many as of all large graphs that are made between two reads.
const MOST_CHANGES: usize = 1 << 18;

/// How long the end of the process waits for the GPU (`PATIENCE`), and then for CUPTI's last buffers (`LAST_PATIENCE`).
const PATIENCE: Duration = Duration::from_millis(1_500);
const LAST_PATIENCE: Duration = Duration::from_millis(400);

/// How often there is a round where graphs are recorded as a whole, and little arrives. Ten flushes a second cost 0.6 %
/// of the tokens of a GPT-2 in a graph, with CUPTI alone, too (13.0, H200). Folds take records that come two seconds
/// late.
const FEWER: Duration = Duration::from_millis(500);

/// CUPTI 13.0. In a flush, older ones deliver replays that run and are recorded as a whole, without a time and for good
/// (12.9 on an H200).
const WAITS_FOR_REPLAYS: u32 = 130_000;
const FEWEST: Duration = Duration::from_secs(2);

/// Whether a session is running.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// Whether a session of this process has recorded graphs by their nodes. Then all later ones do.
static BY_NODES: AtomicBool = AtomicBool::new(false);

/// Whether the last session records calls of functions whose entries it does not watch yet.
static UNWATCHED: AtomicBool = AtomicBool::new(false);
/// The last session that was started.
static LAST: Mutex<Option<&'static Session>> = Mutex::new(None);

/// To be called before our own calls on streams. Such calls are slight or queries, and a session that records them must
/// watch their entries from then on, to tell our calls from the program's.
#[inline]
pub fn before_own_calls() {
    if UNWATCHED.load(Ordering::Relaxed) && !forks::is_child() {
        watch_last();
    }
}

#[cold]
fn watch_last() {
    let last = LAST.lock();
    if let Some(session) = last.filter(|_| UNWATCHED.swap(false, Ordering::Relaxed)) {
        own_calls::during(|| session.watch_all_recorded());
    }
}

/// A session of CUPTI for one sink. Lives as long as the process, because CUPTI may still call it.
pub struct Session {
    receiver: Receiver,
    device: Device,
    subscriber: OnceCell<Subscriber>,
    details: Details,
    /// Whether the program may have executable graphs that no session saw. CUPTI 13.0 crashes where such a graph is
    /// launched and recorded as a whole (H200).
    may_have_earlier_graphs: bool,
    /// Whether calls are recorded by their functions, and not all of them.
    records_functions: bool,
    enabled: Mutex<Vec<Kind>>,
    dropped: AtomicU64,
    over: AtomicBool,
    process: u32,
    /// Unread buffers: those that arrived, and the batch that is read next.
    arrived: Mutex<Arrived>,
    /// When the last flush began.
    flushed: Mutex<Instant>,
    held: Mutex<Arrived>,
}

/// Buffers in order of arrival, and losses.
#[derive(Debug, Default)]
struct Arrived {
    changes: Vec<GraphChange>,
    buffers: Vec<Filled>,
    lost: Lost,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Session")
    }
}

/// Starts a session: from now on, work on all devices of the process is recorded, and `sink` is called. Initialises
/// CUDA, except with [`in_init`](Options::in_init). Only one session runs at a time.
///
/// # Errors
///
/// The reason why CUPTI cannot be used. Nothing is changed then.
pub fn start<S: Sink + 'static>(options: Options, sink: &'static S) -> Result<&'static Session, Unavailable> {
    start_with(options, sink, receive::on_call::<S>)
}

/// `on_call` must be the callback for the type of `sink`.
fn start_with(options: Options, sink: &'static dyn Sink, on_call: OnCall) -> Result<&'static Session, Unavailable> {
    if RUNNING.swap(true, Ordering::AcqRel) {
        return Err(Unavailable::Running);
    }
    let started = try_to_start(options, sink, on_call);
    if started.is_err() {
        receive::set_current(None);
        RUNNING.store(false, Ordering::Release);
    }
    started
}

fn try_to_start(options: Options, sink: &'static dyn Sink, on_call: OnCall) -> Result<&'static Session, Unavailable> {
    let device = Device::find(options.in_init)?;
    let library = Library::find(device.driver_version)?;
    let strides = library.strides();
    let needed = [Kind::Kernel, Kind::Memcpy, Kind::Memset];
    if let Some(kind) = needed.into_iter().find(|kind| !strides.readable(*kind)) {
        return Err(Unavailable::UnknownLayout { path: library.path().to_owned(), kind: kind.name() });
    }
    static TOLD: Once = Once::new();
    forks::watch();
    TOLD.call_once(|| forks::in_forked_child(receive::forked));
    let records_functions = options.api_records == ApiRecords::Weighty && library.records_functions();
    let may_have_earlier_graphs =
        options.graphs != Graphs::Nodes && Watch::current().map_or(device.was_in_use, Watch::has_earlier_graphs);
    POOL.allow(options.buffer_bytes);
    POOL.prepare();
    let session: &'static Session = Box::leak(Box::new(Session {
        receiver: Receiver {
            sink,
            contexts: Contexts::new(),
            library,
            strides,
            names: Names::new(),
            delivery: Delivery::default(),
            devices: Devices::new(device.are_several),
            adds_nodes: OnceCell::new(),
            typed_nodes: OnceCell::new(),
            opens_memory: OnceCell::new(),
            awaits_events: OnceCell::new(),
            records_waits: AtomicBool::new(false),
            // With `Off` nobody watches.
            made_executable: AtomicBool::new(options.graphs == Graphs::Off),
        },
        device,
        subscriber: OnceCell::new(),
        details: options.details,
        may_have_earlier_graphs,
        records_functions,
        enabled: Mutex::new(Vec::new()),
        dropped: AtomicU64::new(0),
        over: AtomicBool::new(false),
        process: std::process::id(),
        arrived: Mutex::default(),
        flushed: Mutex::new(Instant::now()),
        held: Mutex::default(),
    }));
    session.subscribe(on_call)?;
    session.enable(options).inspect_err(|_| session.stop())?;
    *LAST.lock() = Some(session);
    UNWATCHED.store(options.api_records != ApiRecords::None, Ordering::Relaxed);
    Ok(session)
}

impl Session {
    fn subscribe(&'static self, on_call: OnCall) -> Result<(), Unavailable> {
        let user = std::ptr::from_ref(&self.receiver).cast_mut().cast();
        let subscriber = match Watch::current() {
            // SAFETY: `user` is this session's receiver, which is never freed. Its sink has the type that `on_call`
            // expects.
            Some(watch) => Ok(unsafe { watch.share(on_call, user) }),
            // SAFETY: as above.
            None => unsafe { self.receiver.library.subscribe(on_call, user) },
        };
        let _first = self.subscriber.set(subscriber.map_err(|code| self.refused("cuptiSubscribe", code))?);
        Ok(())
    }

    /// Enables everything after the subscription, in the order that CUPTI requires.
    fn enable(&'static self, options: Options) -> Result<(), Unavailable> {
        let refused = |function| move |code| self.refused(function, code);
        self.receiver
            .library
            .register_clock(receive::clock)
            .map_err(refused("cuptiActivityRegisterTimestampCallback"))?;
        receive::set_current(Some(&self.receiver));
        // SAFETY: both functions are static and fulfil CUPTI's requirements.
        unsafe { self.receiver.library.register_callbacks(receive::on_request, receive::on_complete) }
            .map_err(refused("cuptiActivityRegisterCallbacks"))?;
        let Some(subscriber) = self.subscriber.get().copied() else { return Ok(()) };
        self.enable_callbacks(subscriber, options).map_err(refused("cuptiEnableCallback"))?;
        if self.records_functions {
            self.record_weighty(true);
        }
        let by_nodes =
            options.graphs == Graphs::Nodes || self.may_have_earlier_graphs || BY_NODES.load(Ordering::Relaxed);
        for kind in Kind::ALL {
            let is_asked = match kind {
                Kind::Driver | Kind::Runtime => options.api_records != ApiRecords::None && !self.records_functions,
                // With `Off` nobody watches who opens memory of another process.
                Kind::MemcpyPeer => self.receiver.devices.are_several() || !by_nodes || options.graphs == Graphs::Off,
                Kind::Graph => !by_nodes,
                Kind::Synchronization => options.details.has(Details::WAITS), // else from the first one on
                _ => kind.is_asked(options.details),
            };
            if is_asked && self.receiver.strides.readable(kind) {
                match self.receiver.library.kind(kind as u32, true) {
                    Ok(()) => self.enabled.lock().push(kind),
                    Err(_) if kind == Kind::Graph => {} // then their nodes are recorded
                    Err(code) => return Err(refused("cuptiActivityEnable")(code)),
                }
            }
        }
        if !self.enabled.lock().contains(&Kind::Graph) {
            BY_NODES.store(true, Ordering::Relaxed);
        }
        if options.details.has(Details::EVENT_TIMES) {
            let _without_them = self.receiver.library.time_events(true);
        }
        Ok(())
    }

    fn enable_callbacks(&self, subscriber: Subscriber, options: Options) -> Result<(), Code> {
        for number in [receive::CONTEXT_BEGINS, receive::CONTEXT_ENDS] {
            self.receiver.library.callback(subscriber, Domain::Resource, number, true)?;
        }
        if options.graphs != Graphs::Off {
            for number in receive::GRAPHS {
                self.receiver.library.callback(subscriber, Domain::Resource, number, true)?;
            }
            let name = |number| self.receiver.library.function_name(Api::Driver, number);
            let typed = (1..calls::NUMBERS).filter_map(|it| Some((it, calls::node_parameters(&name(it)?)?)));
            let _first = self.receiver.typed_nodes.set(typed.in_vec());
            let _first = self.receiver.opens_memory.set(self.numbers_of(calls::opens_memory).in_vec());
        }
        if options.details.has(Details::EVENT_WAITS) && !options.details.has(Details::WAITS) {
            let awaits = self.numbers_of(|name| calls::is_detailed(name, Details::EVENT_WAITS)).in_vec();
            let _first = self.receiver.awaits_events.set(awaits);
        }
        let watch = |number| {
            let _known_to_be_there = self.receiver.library.callback(subscriber, Domain::Driver, number, true);
        };
        if options.api_records != ApiRecords::None {
            // One by one: a training step of PyTorch took 2 ms less than with the whole domain and exceptions from it
            // (H200, CUPTI 13.0).
            self.numbers_of(|name| !calls::is_of_no_span(name)).for_each(watch);
        } else {
            if options.graphs != Graphs::Off {
                let adds_nodes = self.numbers_of(|name| calls::adds_node(name) || calls::opens_memory(name)).in_vec();
                adds_nodes.iter().copied().for_each(watch);
                let _first = self.receiver.adds_nodes.set(adds_nodes);
            }
            self.numbers_of(|name| calls::is_detailed(name, options.details)).for_each(watch);
        }
        let mut refused = None;
        for (number, name) in calls::ENQUEUE {
            // An older library refuses a newer number. That is harmless: its program cannot call the function.
            let enabled = self.receiver.library.callback(subscriber, Domain::Driver, *number, true);
            if *name == "cuLaunchKernel" {
                refused = enabled.err();
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Switches records of the calls that are not slight.
    fn record_weighty(&self, on: bool) {
        for api in [Api::Driver, Api::Runtime] {
            for number in self.numbers_in(api, |name| !is_slight(api, name)) {
                let _known_to_be_there = self.receiver.library.record_function(api, number, on);
            }
        }
    }

    /// The numbers, in this library, of the driver's functions whose names match.
    fn numbers_of(&self, is_such: impl Fn(&str) -> bool) -> impl Iterator<Item = u32> {
        self.numbers_in(Api::Driver, is_such)
    }

    fn numbers_in(&self, api: Api, is_such: impl Fn(&str) -> bool) -> impl Iterator<Item = u32> {
        let name = move |number: &u32| self.receiver.library.function_name(api, *number);
        (1..calls::NUMBERS).filter(move |number| name(number).is_some_and(|name| is_such(&name)))
    }

    /// Also calls the sink at the entries of all other functions whose calls are recorded. For sessions with API
    /// records.
    fn watch_all_recorded(&self) {
        let Some(subscriber) = self.subscriber.get().filter(|_| self.usable()) else { return };
        let are_recorded =
            |name: &str| calls::is_query(name) || !self.records_functions && is_slight(Api::Driver, name);
        for number in self.numbers_of(are_recorded) {
            let _known_to_be_there = self.receiver.library.callback(*subscriber, Domain::Driver, number, true);
        }
    }

    fn refused(&self, function: &'static str, code: Code) -> Unavailable {
        self.receiver.library.refused(self.device.driver_version, function, code)
    }

    /// Whether CUPTI may be called: not in a forked child, and not after the end of the session.
    fn usable(&self) -> bool {
        !self.forked() && !self.over.load(Ordering::Acquire)
    }

    fn flush_all(&self, forced: bool) {
        *self.flushed.lock() = Instant::now();
        let before = self.receiver.delivery.begun();
        if self.receiver.library.flush_all(forced).is_ok() {
            let first = if forced { IS_DUE } else { MAY_COME };
            // Without force, some records may be incomplete, so their buffers are not due.
            let is_due = || forced && POOL.holding() > 0;
            self.receiver.delivery.settle(before, first, || POOL.handed_out(), is_due);
        }
    }

    /// Keeps a buffer from the sink for [`Source::read`].
    pub fn keep(&self, buffer: Filled) {
        self.arrived.lock().buffers.push(buffer);
    }

    /// Records each node of graphs from now on. There is no way back in this process: CUPTI 13.0 crashes, and 13.5
    /// records nothing, if a graph that was launched so is to be recorded as a whole (measured on an H100).
    pub fn record_nodes(&self) {
        let is_whole = |kind: &Kind| *kind == Kind::Graph;
        let mut enabled = self.enabled.lock();
        if self.usable()
            && let Some(place) = enabled.iter().position(is_whole)
            && self.receiver.library.kind(Kind::Graph as u32, false).is_ok()
        {
            enabled.remove(place);
            BY_NODES.store(true, Ordering::Relaxed);
            if !self.receiver.devices.are_several() {
                enabled.retain(|kind| *kind != Kind::MemcpyPeer);
                let _it_costs_time_then = self.receiver.library.kind(Kind::MemcpyPeer as u32, false);
            }
        }
    }

    /// Keeps a change of a graph from the sink for [`Source::read`], or counts it as lost.
    pub fn keep_change(&self, change: GraphChange) {
        let mut arrived = self.arrived.lock();
        if arrived.changes.len() < MOST_CHANGES {
            arrived.changes.push(change);
        } else {
            arrived.lost.over_budget += 1;
        }
    }

    /// Adds losses from the sink, which [`Source::read`] returns.
    pub fn lose(&self, records: Lost) {
        let lost = &mut self.arrived.lock().lost;
        lost.unreadable += records.unreadable;
        lost.over_budget += records.over_budget;
    }

    /// Reads the records of a buffer from the sink. Returns how many cannot be read.
    pub fn read_buffer(&self, buffer: &mut Filled, each: impl FnMut(Recorded)) -> u64 {
        receive::read(&self.receiver, buffer.bytes(), each)
    }

    /// Waits for the GPU, takes all records, and releases CUPTI. Returns whether the wait succeeded and all records
    /// arrived; later ones are discarded.
    fn end(&self, orderly: bool) -> bool {
        let waited = self.device.synchronize(&self.receiver.contexts);
        self.flush_all(false);
        self.flush_all(true);
        let all = waited && POOL.holding() == 0;
        if orderly || self.receiver.contexts.any() {
            self.stop();
        } else {
            // CUPTI 13.0 crashes on disabling kinds that were enabled inside `cuInit` if no context was made since. The
            // process ends, so nobody else needs CUPTI.
            receive::set_current(None);
        }
        all
    }

    /// Stops records and callbacks.
    fn stop(&self) {
        let mut enabled = std::mem::take(&mut *self.enabled.lock());
        if self.receiver.devices.are_several() {
            enabled.push(Kind::MemcpyPeer); // perhaps since a context began
        }
        if self.receiver.records_waits.load(Ordering::Relaxed) {
            enabled.push(Kind::Synchronization);
        }
        // Whole graphs last: a graph that is launched meanwhile must not be recorded by its nodes.
        for kind in enabled.into_iter().rev() {
            let _nothing_to_be_done = self.receiver.library.kind(kind as u32, false);
        }
        if self.records_functions {
            self.record_weighty(false);
        }
        if self.details.has(Details::EVENT_TIMES) {
            let _nothing_to_be_done = self.receiver.library.time_events(false);
        }
        self.count_dropped();
        let _nothing_to_be_done = match (Watch::current(), self.subscriber.get()) {
            (Some(watch), _) => watch.end(),
            (None, Some(subscriber)) => self.receiver.library.unsubscribe(*subscriber),
            (None, None) => Ok(()),
        };
        receive::set_current(None);
        POOL.release();
        RUNNING.store(false, Ordering::Release);
    }

    fn count_dropped(&self) {
        let take = || self.receiver.library.take_dropped();
        // Tries again if CUPTI refuses, because nobody else counts these records.
        if let Ok(dropped) = take().or_else(|_| take()) {
            self.dropped.fetch_add(dropped as u64, Ordering::Relaxed);
        }
    }

    fn name(&self) -> String {
        self.receiver.library.full_name()
    }
}

impl Source for Session {
    /// Returns when the sink has all complete buffers.
    fn flush(&self) {
        if self.usable() {
            self.flush_all(false);
        }
    }

    /// What arrives without a flush is much.
    fn is_due(&self) -> bool {
        if !self.receiver.made_executable.load(Ordering::Relaxed) || BY_NODES.load(Ordering::Relaxed) {
            return true;
        }
        let between = if self.receiver.library.version() < WAITS_FOR_REPLAYS { FEWEST } else { FEWER };
        let arrived = self.arrived.lock();
        self.flushed.lock().elapsed() >= between
            || !arrived.buffers.is_empty()
            || arrived.changes.len() >= MOST_CHANGES / 4
    }

    fn hold(&self) {
        let arrived = std::mem::take(&mut *self.arrived.lock());
        let mut held = self.held.lock();
        held.changes.extend(arrived.changes);
        held.buffers.extend(arrived.buffers);
        held.lost.unreadable += arrived.lost.unreadable;
        held.lost.over_budget += arrived.lost.over_budget;
    }

    fn read(&self, each: &mut dyn FnMut(Recorded)) -> Lost {
        let Arrived { changes, buffers, mut lost } = std::mem::take(&mut *self.held.lock());
        if !buffers.is_empty() {
            POOL.prepare(); // memory for CUPTI's next request
        }
        changes.into_iter().for_each(|change| each(Recorded::Graph(change)));
        for mut buffer in buffers {
            lost.unreadable += self.read_buffer(&mut buffer, &mut *each);
        }
        lost
    }

    fn dropped(&self) -> u64 {
        if self.usable() {
            self.count_dropped();
        }
        self.dropped.load(Ordering::Relaxed)
    }

    fn kernel(&self, number: u32) -> Option<(Arc<str>, Arc<str>)> {
        if self.forked() { None } else { self.receiver.names.both(number) }
    }

    /// For example `cuLaunchKernel` or `cudaMemcpyAsync_v3020`.
    fn function(&self, api: Api, number: u32) -> Option<Arc<str>> {
        if self.forked() { None } else { self.receiver.library.function_name(api, number).map(Arc::from) }
    }

    fn device(&self, number: u32) -> Option<Arc<str>> {
        (!self.forked()).then(|| self.device.name(number))
    }

    /// At the exit of the process, waits at most `PATIENCE`; then delivers the records that have arrived.
    fn finish(&'static self, orderly: bool) -> bool {
        if self.forked() || self.over.swap(true, Ordering::AcqRel) {
            return false;
        }
        if orderly {
            return self.end(true);
        }
        within(PATIENCE, move || self.end(false)).unwrap_or_else(|| {
            self.receiver.contexts.give_up();
            let _takes_what_there_is = within(LAST_PATIENCE, move || self.flush_all(true));
            false
        })
    }

    /// Names the library and the driver, and what is not recorded.
    fn describe(&self) -> Note {
        let is_missing =
            |kind: &Kind| *kind != Kind::Graph && kind.is_asked(self.details) && !self.receiver.strides.readable(*kind);
        Note::Cupti {
            library: self.name(),
            driver: self.device.driver_version,
            left_out: Kind::ALL.into_iter().filter(is_missing).map(|kind| kind.name().to_owned()).in_vec(),
            has_earlier_graphs: self.may_have_earlier_graphs,
            without_queries: self.records_functions,
        }
    }

    /// The profiler of the program's framework, `torch.profiler` in a process with PyTorch. Reads `/proc/self/maps`.
    fn describe_others(&self) -> Option<Note> {
        library::own_profiler().map(|profiler| Note::CuptiTaken { profiler: profiler.to_owned() })
    }

    /// In a forked child, locks may be held by threads that do not exist there.
    fn forked(&self) -> bool {
        forks::is_child() || std::process::id() != self.process
    }
}
