//! What calls of futures did, by a log with its own clock: who was created, polled, woken, finished, dropped and
//! released when, and how much processor time each poll took. It shares no code with the profiler.
//!
//! The clock is read before and after everything at which the profiler reads its own. What lies between two such
//! readings is the slack of a call: there, nobody knows who is right.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use tracing::Span;

/// What a call may be in; at each moment in the first that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// An instance is open, and its thread runs.
    OnCpu,
    /// An instance is open, and its thread does not run.
    OffCpu,
    /// An instance is open, and it is not known whether its thread runs. The truth never says so.
    OnThread,
    /// Woken or new, and not polled.
    Ready,
    /// A call that was created in it has not come to its end.
    ChildCall,
    Otherwise,
    /// After its end (the last poll, or its drop before that) its span lives on.
    Outlived,
}

/// The names of the states in a summary, in their order above.
pub const STATES: [&str; 7] =
    ["on_cpu_ns", "off_cpu_ns", "on_thread_ns", "ready_ns", "child_call_ns", "otherwise_ns", "outlived_ns"];

/// Nanoseconds in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct States(pub [u64; STATES.len()]);

impl Index<State> for States {
    type Output = u64;

    fn index(&self, state: State) -> &u64 {
        &self.0[state as usize]
    }
}

impl IndexMut<State> for States {
    fn index_mut(&mut self, state: State) -> &mut u64 {
        &mut self.0[state as usize]
    }
}

impl States {
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(all, more)| *all += more);
    }

    pub fn sum(&self, states: &[State]) -> u64 {
        states.iter().map(|state| self[*state]).sum()
    }
}

/// Nanoseconds since the first reading.
fn now() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

/// Processor time of this thread, in nanoseconds.
pub fn thread_cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[derive(Clone, Copy, Debug, Default)]
struct Instance {
    begin: u64,
    end: u64,
    cpu: u64,
}

#[derive(Debug, Default)]
struct Log {
    created: u64,
    instances: Vec<Instance>,
    /// Its last instance, as it was seen inside of the span.
    inside: Instance,
    /// When it was woken, and the call that the thread of the waker was in.
    wakes: Vec<(u64, Option<usize>)>,
    is_finished: bool,
    /// Readings before and after the drop.
    dropped: (u64, u64),
    /// When the last clone of the span was dropped.
    released: u64,
    slack: u64,
}

/// One call, in the log of the process.
#[derive(Debug)]
pub struct Call {
    name: &'static str,
    parent: Option<usize>,
    number: usize,
    planted: States,
    log: Mutex<Log>,
}

static CALLS: Mutex<Vec<Arc<Call>>> = Mutex::new(Vec::new());

thread_local! {
    /// The call that this thread is in.
    static INSIDE: Cell<Option<usize>> = const { Cell::new(None) };
}

impl Call {
    /// To be called right before its span is created. `planted`: the least time in each state.
    pub fn new(name: &'static str, parent: Option<&Self>, planted: States) -> Arc<Self> {
        let mut calls = CALLS.lock().expect("no panic");
        let (number, parent) = (calls.len(), parent.map(|parent| parent.number));
        let log = Mutex::new(Log { created: now(), ..Log::default() });
        calls.push(Arc::new(Self { name, parent, number, planted, log }));
        calls[number].clone()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("no panic")
    }

    /// Whether it is planned to be in this state.
    pub fn is_planted(&self, state: State) -> bool {
        self.planted[state] > 0
    }

    /// To be called right after its span was created.
    pub fn is_created(&self) {
        let mut log = self.log();
        log.slack += now() - log.created;
    }

    /// Runs what enters the span. What runs in the span calls [`inside`](Self::inside).
    pub fn around<T>(&self, run: impl FnOnce() -> T) -> T {
        let begin = now();
        let result = run();
        let end = now();
        let mut log = self.log();
        log.slack += log.inside.begin - begin + end - log.inside.end;
        let cpu = log.inside.cpu;
        log.instances.push(Instance { begin, end, cpu });
        result
    }

    /// Runs what is in the span.
    pub fn inside<T>(&self, run: impl FnOnce() -> T) -> T {
        let (begin, cpu) = (now(), thread_cpu());
        let outer = INSIDE.replace(Some(self.number));
        let result = run();
        INSIDE.set(outer);
        // Not after the span: a future whose drop follows its last poll late looks cancelled.
        let cpu = thread_cpu() - cpu;
        self.log().inside = Instance { begin, end: now(), cpu };
        result
    }

    /// Drops a future with its span, or a span that is no future's.
    pub fn end<T>(&self, last: T) {
        let before = self.release(last);
        self.log().dropped = (before, now());
    }

    /// Drops a clone of the span. Returns when that began.
    pub fn release<T>(&self, owner: T) -> u64 {
        let before = now();
        drop(owner);
        let mut log = self.log();
        log.released = log.released.max(now());
        log.slack += log.released - before;
        before
    }

    /// A span that is entered once, on this thread.
    pub fn run_plain(&self, span: Span, run: impl FnOnce()) {
        self.is_created();
        self.around(|| span.in_scope(|| self.inside(run)));
        self.log().is_finished = true;
        self.end(span);
    }
}

/// A future whose inside enters the span of a call.
pub struct Watched {
    pub call: Arc<Call>,
    /// Whether the span is created at the first poll, as `#[instrument]` does.
    pub is_lazy: bool,
    pub future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Future for Watched {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let call = self.call.clone();
        if std::mem::take(&mut self.is_lazy) {
            call.log().created = now();
        }
        let waker = Waker::from(Arc::new(Waking { call: call.clone(), waker: context.waker().clone() }));
        let future = self.future.as_mut().expect("it was not dropped");
        let result = call.around(|| future.as_mut().poll(&mut Context::from_waker(&waker)));
        call.log().is_finished = result.is_ready();
        result
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let future = self.future.take();
        self.call.end(future);
    }
}

struct Waking {
    call: Arc<Call>,
    waker: Waker,
}

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.call.log().wakes.push((now(), INSIDE.get()));
        self.waker.wake_by_ref();
    }
}

/// What is known of the calls of one name.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub calls: u64,
    pub latency: u64,
    pub slack: u64,
    pub instances: u64,
    /// With who was woken when; and without, where only a new call is ready. A child that is no future is a call for
    /// the profiler only while it does not know that: so the second of each has no such children.
    pub states: [States; 2],
    pub without_wakes: [States; 2],
    pub planted: States,
    /// Calls that are surely cancelled by the profiler's rule, and those that may be: it does not see whether a poll
    /// was the last, so a call must have waited some time before its drop.
    pub cancelled: (u64, u64),
    /// What no log of a program may have: instances that overlap, or lie outside of the call.
    pub impossible: u64,
}

/// Nanoseconds that a call must have waited before its drop to be cancelled surely, and perhaps.
const SURELY: u64 = 40_000_000;
const PERHAPS: u64 = 30_000;

/// The rows of all calls of the process, which must have closed. `keeps`: a child keeps the span of its parent open.
/// `plain`: names of calls that are no futures.
pub fn rows(keeps: bool, plain: &[&str]) -> BTreeMap<&'static str, Row> {
    let calls = CALLS.lock().expect("no panic");
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    let mut closes = vec![0; calls.len()];
    let mut children: Vec<Vec<(u64, u64)>> = vec![Vec::new(); calls.len()];
    let mut futures = children.clone();
    // A child is younger than its parent.
    for call in calls.iter().rev() {
        let log = call.log();
        let last = log.instances.last().map_or(log.created, |last| last.end);
        let end = if log.is_finished { last } else { log.dropped.0 };
        let close = log.released.max(closes[call.number]);
        if let Some(parent) = call.parent {
            children[parent].push((log.created, end));
            if !plain.contains(&call.name) {
                futures[parent].push((log.created, end));
            }
            if keeps {
                closes[parent] = closes[parent].max(close);
            }
        }
        let row = rows.entry(call.name).or_default();
        row.calls += 1;
        row.latency += close.saturating_sub(log.created);
        row.slack += log.slack;
        row.instances += log.instances.len() as u64;
        for (at, children) in [&mut children, &mut futures].into_iter().enumerate() {
            let mut own = std::mem::take(&mut children[call.number]);
            own.sort_unstable();
            row.states[at].add(&partition(&log, (end, close), &own, true));
            row.without_wakes[at].add(&partition(&log, (end, close), &own, false));
        }
        row.planted.add(&call.planted);
        // The drop enters the span, too. The profiler cannot tell a late one from a poll.
        let surely = log.dropped.0.saturating_sub(last);
        let perhaps = log.dropped.1.saturating_sub(log.inside.end);
        row.slack += if log.is_finished { surely } else { 0 };
        row.cancelled.0 += u64::from(!log.is_finished && (log.instances.is_empty() || surely > SURELY));
        row.cancelled.1 += u64::from(!log.is_finished || perhaps > PERHAPS);
        let moments = log.instances.iter().flat_map(|instance| [instance.begin, instance.end]).chain([end, close]);
        row.impossible += u64::from(!moments.is_sorted() || last < log.created);
    }
    rows
}

/// A wait that ended with a wake: when it began and ended, and in which call the waking thread was.
#[derive(Clone, Copy, Debug)]
struct Wait {
    since: u64,
    until: u64,
    by: Option<usize>,
}

impl Log {
    fn waits(&self) -> Vec<Wait> {
        let polls = self.instances.iter().zip(self.instances.iter().skip(1));
        let mut began = None;
        let waits = polls.filter_map(|(poll, next)| {
            let wakes = self.wakes.iter().filter(|(wake, _)| (poll.begin..next.begin).contains(wake));
            let since = *began.get_or_insert(poll.end);
            // Where it was not woken, others have polled it: its wait goes on.
            let (until, by) = *wakes.min_by_key(|(wake, _)| *wake)?;
            began = None;
            (until > since).then_some(Wait { since, until, by })
        });
        waits.collect()
    }
}

/// Nanoseconds that calls of one name waited for another, or for nothing that was in a call.
pub fn waits(followed: &[&str]) -> BTreeMap<(&'static str, Option<&'static str>), u64> {
    let calls = CALLS.lock().expect("no panic");
    let log = Waits { waits: calls.iter().map(|call| call.log().waits()).collect(), calls: &calls, followed };
    let mut all = BTreeMap::new();
    for call in calls.iter().filter(|call| followed.contains(&call.name)) {
        for wait in &log.waits[call.number] {
            let mut since = wait.since;
            let mut add = |until: u64, by: Option<usize>| {
                *all.entry((call.name, by.map(|by| calls[by].name))).or_default() += until - since;
                since = until;
            };
            match wait.by {
                Some(by) => log.held_up(by, wait.since, wait.until, &mut |until, by| add(until, Some(by))),
                None => add(wait.until, None),
            }
        }
    }
    all
}

struct Waits<'a> {
    waits: Vec<Vec<Wait>>,
    calls: &'a [Arc<Call>],
    followed: &'a [&'a str],
}

impl Waits<'_> {
    /// What held up a call from then until then, in parts: where it waited for another call, what held up that one;
    /// else itself. Nobody follows calls of other names than these: if it is none of them, or never waited, what held
    /// up the call that polls it held it up.
    fn held_up(&self, call: usize, since: u64, until: u64, part: &mut dyn FnMut(u64, usize)) {
        if let Some(followed) = self.that_waited(call, until) {
            for wait in self.waits[followed].iter().filter(|wait| since < wait.until && wait.until <= until) {
                if let Some(by) = wait.by {
                    if wait.since > since {
                        part(wait.since, call);
                    }
                    self.held_up(by, wait.since.max(since), wait.until, part);
                }
            }
        }
        part(until, call);
    }

    /// This call or the innermost one around it, on the same thread at that moment, that is followed and has waited.
    fn that_waited(&self, call: usize, at: u64) -> Option<usize> {
        let is_polled = |call: usize| {
            let log = self.calls[call].log();
            log.instances.iter().any(|poll| (poll.begin..=poll.end).contains(&at))
        };
        let has_waited = |call: &usize| {
            let is_followed = self.followed.contains(&self.calls[*call].name);
            is_followed && self.waits[*call].iter().any(|wait| wait.until <= at)
        };
        let around = |call: &usize| self.calls[*call].parent.filter(|parent| is_polled(*parent));
        std::iter::successors(Some(call), around).find(has_waited)
    }
}

/// The latency of a call in parts.
fn partition(log: &Log, (end, close): (u64, u64), children: &[(u64, u64)], with_wakes: bool) -> States {
    let mut states = States::default();
    states[State::Ready] = log.instances.first().map_or(end, |first| first.begin) - log.created;
    for (number, instance) in log.instances.iter().enumerate() {
        let wall = instance.end - instance.begin;
        let cpu = instance.cpu.min(wall);
        states[State::OnCpu] += cpu;
        states[State::OffCpu] += wall - cpu;
        let next = log.instances.get(number + 1).map_or(end, |next| next.begin);
        let wakes = log.wakes.iter().map(|(wake, _)| *wake);
        let wakes = wakes.filter(|wake| with_wakes && (instance.begin..next).contains(wake));
        let woken = wakes.min().unwrap_or(next).max(instance.end);
        let child = covered(children, instance.end, woken);
        states[State::ChildCall] += child;
        states[State::Otherwise] += woken - instance.end - child;
        states[State::Ready] += next - woken;
    }
    states[State::Outlived] = close.saturating_sub(end);
    states
}

/// How much of the time from `begin` to `end` these spans of time cover, which are sorted.
fn covered(spans: &[(u64, u64)], mut begin: u64, end: u64) -> u64 {
    let mut all = 0;
    for &(from, to) in spans {
        let (from, to) = (from.max(begin), to.min(end));
        all += to.saturating_sub(from);
        begin = begin.max(to);
    }
    all
}
