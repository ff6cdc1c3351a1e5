//! Generated servers with a known answer: what the latency of each call is made of.
//!
//! ```sh
//! call_states 7              # one server, with each difference
//! call_states --seeds 0..100 # a process each, a line each, and the counts
//! ```
//!
//! A seed makes a plan: a runtime (tokio's, on one thread or 1 to 4 workers), 1 to 4 busy threads for each processor, a
//! front end of the profiler (the layer or the subscriber), some clients with requests one after the other, and for
//! each name of a span the pieces that its calls have, of 2 to 30 ms each. A piece ([`Kind`]) is processor time, a
//! blocked thread, a wait, a call of another name (awaited, joined, spawned, on the pool for blocking work, timed out,
//! aborted, left alone when it could go on), a wake while all workers are blocked, or a clone of the span that outlives
//! the call. A plain span, which has ended, may stand between two calls. Some plans have a client whose timers are late
//! again and again. [`checked::call_log`] logs what really happened.
//!
//! This proves, for each name:
//!
//! - of the log itself: states of a call add up to its latency, and what was planted is found where it was planted;
//! - of the profiler: it has the same number of calls, latency (from creation to close), running, awaited and outlived
//!   time, and the same time in each state, within 1 % of the latency or 50 us a call. Spans that are no futures
//!   have no row. Nobody is blamed for more than all that the calls of a name have waited, or for more than what the
//!   late timers were late; and nothing but a hog is blamed for these.
//!
//! Who woke a call is known to the profiler only where the program says `follow`; elsewhere "ready" may be counted as
//! "otherwise", and a parent that was woken may wait for its child until it is polled. Built with `RUSTFLAGS="--cfg
//! tokio_unstable"`, nothing is followed: tokio tells the layer when each task was woken, so each call that is not
//! polled beside others or a timer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::future::{pending, poll_fn};
use std::io::{Read as _, Write as _, pipe};
use std::pin::Pin;
use std::process::{Command, ExitCode, exit};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::task::Poll;
use std::time::Duration;

use checked::call_log::{Call, Row, STATES, State, States, Watched, rows, thread_cpu, waits};
use fastrand::Rng;
use serde_json::Value;
use tokio::sync::{Mutex as AsyncMutex, oneshot};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};
use tracing::{Instrument as _, Span, info_span, instrument};
use tracing_gpu::{Output, Profiler, SummaryExt as _, follow};
use tracing_subscriber::prelude::*;

/// Names of requests, of their children, and of the children of these.
const LEVELS: [&[&str]; 3] = [&["GET /orders", "GET /users", "POST /orders"], &["load", "price", STORE], &["query"]];
/// A function with `#[instrument]`: its span is created at the first poll, so it has no parent where it is spawned.
const STORE: &str = "store";
/// Names of futures that are handed to `tracing_gpu::follow`: their states are compared one by one.
const FOLLOWED: [&str; 4] = ["GET /orders", "price", STORE, "query"];
fn is_followed(name: &str) -> bool {
    !cfg!(tokio_unstable) && FOLLOWED.contains(&name)
}

/// Spans that are entered once, so they are no futures.
const PLAIN: [&str; 3] = ["hog", "job", "make"];
/// Calls that wait for a timer, which hogs make late half of the time, and how many there are.
const NAP: &str = "nap";
const NAPS: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Spin,
    Sleep,
    Pipe,
    Timer,
    Lock,
    Channel,
    /// Woken while hogs, which spin or sleep, hold all workers.
    Ready,
    Child,
    Join,
    Spawned,
    /// Two tasks at once, as a server has for its connections.
    SpawnedTwice,
    Pool,
    TimedOut,
    Aborted,
    /// A call that is polled once, and then not before a timer ends: it may have been woken, as in a window of futures
    /// that nobody polls.
    Unpolled,
    /// The last one: a clone of the span lives on.
    Kept,
    Forever,
}

/// Of these, the first need no call of another name.
const LEAVES: usize = 8;
const KINDS: [Kind; 16] = {
    use Kind::*;
    [
        Spin,
        Spin,
        Sleep,
        Pipe,
        Timer,
        Lock,
        Channel,
        Ready,
        Child,
        Join,
        Spawned,
        SpawnedTwice,
        Pool,
        TimedOut,
        Aborted,
        Unpolled,
    ]
};

#[derive(Clone, Debug)]
struct Piece {
    kind: Kind,
    time: Duration,
    calls: Vec<Node>,
    /// Whether the spans of the calls are created in a plain span that has ended when they are awaited.
    is_made: bool,
}

impl Piece {
    fn new(kind: Kind, time: Duration) -> Self {
        Self { kind, time, calls: Vec::new(), is_made: false }
    }
}

/// A call that is planned.
#[derive(Clone, Debug)]
struct Node {
    name: &'static str,
    pieces: Vec<Piece>,
}

struct Plan {
    /// 0: all on the thread of the runtime.
    workers: usize,
    /// Busy threads for each processor, with those of the runtime.
    threads: usize,
    is_layer: bool,
    recipes: BTreeMap<&'static str, Vec<Kind>>,
    clients: Vec<Vec<Node>>,
    /// Requests that one task polls side by side.
    joined: Option<[Node; 2]>,
    naps: Option<Duration>,
}

impl Plan {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let (workers, is_layer) = (rng.usize(0..5), rng.bool());
        let recipes: BTreeMap<&'static str, Vec<Kind>> = LEVELS
            .iter()
            .enumerate()
            .flat_map(|(level, names)| names.iter().map(move |name| (level, *name)))
            .map(|(level, name)| {
                let kinds = if level + 1 < LEVELS.len() { KINDS.len() } else { LEAVES };
                let mut recipe: Vec<Kind> = (0..rng.usize(1..5)).map(|_| KINDS[rng.usize(..kinds)]).collect();
                recipe.extend(rng.bool().then_some(Kind::Kept).filter(|_| rng.bool()));
                (name, recipe)
            })
            .collect();
        let client = |rng: &mut Rng| (0..rng.usize(2..6)).map(|_| Node::new(rng, &recipes, 0)).collect();
        let mut clients: Vec<Vec<Node>> = (0..rng.usize(2..5)).map(|_| client(&mut rng)).collect();
        // A queue for the lock: all that wait are held up by its head, and then by each other.
        let time = Duration::from_micros(rng.u64(5_000..20_000));
        let queue = Node { name: "query", pieces: vec![Piece::new(Kind::Lock, time); 2] };
        clients.extend((0..rng.usize(0..8)).map(|_| vec![queue.clone()]));
        let joined = rng.bool().then(|| [(); 2].map(|()| Node::new(&mut rng, &recipes, 0)));
        let naps = rng.bool().then(|| Duration::from_micros(rng.u64(5_000..15_000)));
        Self { workers, threads: rng.usize(1..5), is_layer, recipes, clients, joined, naps }
    }
}

impl Node {
    fn new(rng: &mut Rng, recipes: &BTreeMap<&'static str, Vec<Kind>>, level: usize) -> Self {
        let name = LEVELS[level][rng.usize(..LEVELS[level].len())];
        let lost = |name| Self { name, pieces: vec![Piece::new(Kind::Forever, Duration::ZERO)] };
        let pieces = recipes[name].iter().map(|&kind| {
            let calls = match kind {
                Kind::Child | Kind::Spawned | Kind::Unpolled => vec![Self::new(rng, recipes, level + 1)],
                Kind::Join | Kind::SpawnedTwice => (0..2).map(|_| Self::new(rng, recipes, level + 1)).collect(),
                Kind::TimedOut => vec![lost("times out")],
                Kind::Aborted => vec![lost("aborted")],
                _ => vec![],
            };
            // What is aborted waits so long that the profiler takes it for cancelled.
            let least = if kind == Kind::Aborted { 45_000 } else { 0 };
            let time = Duration::from_micros(least + rng.u64(2_000..30_000));
            Piece { kind, time, calls, is_made: rng.bool() }
        });
        Self { name, pieces: pieces.collect() }
    }

    /// Adds the names of calls that a task polls beside others, and of those inside of them.
    fn add_joined(&self, is_joined: bool, names: &mut BTreeSet<&'static str>) {
        if is_joined {
            names.insert(self.name);
        }
        for piece in &self.pieces {
            let is_joined = is_joined || matches!(piece.kind, Kind::Join | Kind::TimedOut | Kind::Unpolled);
            piece.calls.iter().for_each(|node| node.add_joined(is_joined, names));
        }
    }

    /// The least time in each state, and 1 ns in a state that it may have.
    fn planted(&self) -> States {
        use State::*;
        let mut all = States::default();
        for Piece { kind, time, calls, .. } in &self.pieces {
            let time = time.as_nanos() as u64;
            let below: Vec<States> = calls.iter().map(Self::planted).collect();
            match kind {
                Kind::Spin => all[OnCpu] += time,
                Kind::Sleep | Kind::Pipe => all[OffCpu] += time,
                Kind::Timer | Kind::Lock | Kind::Channel => all[Otherwise] += time,
                Kind::Ready => (all[Ready], all[Otherwise]) = (all[Ready] + time, all[Otherwise] + 1),
                Kind::Child | Kind::Join | Kind::Unpolled => {
                    for below in &below {
                        all[OnCpu] += below[OnCpu];
                        all[OffCpu] += below[OffCpu];
                        let is_alone = *kind == Kind::Child;
                        all[Ready] += if is_alone { below[Ready] } else { 0 };
                        all[ChildCall] += if is_alone { below.sum(&[ChildCall, Otherwise]) } else { 1 };
                        all[Otherwise] += u64::from(*kind == Kind::Unpolled);
                    }
                }
                Kind::Spawned => {
                    let state = if calls[0].name == STORE { Otherwise } else { ChildCall };
                    all[state] += below[0].sum(&[OnCpu, OffCpu, Ready, ChildCall, Otherwise]);
                }
                Kind::SpawnedTwice => (all[ChildCall], all[Otherwise]) = (all[ChildCall] + 1, all[Otherwise] + 1),
                Kind::Pool | Kind::TimedOut | Kind::Aborted => all[ChildCall] += time,
                Kind::Kept => all[Outlived] += time,
                Kind::Forever => all[Otherwise] += 1,
            }
            all[Outlived] += u64::from(below.iter().any(|below| below[Outlived] > 0));
        }
        all
    }
}

macro_rules! spans {
    ($name:expr, $($literal:literal)*) => {
        match $name {
            $($literal => info_span!($literal),)*
            name => unreachable!("{name}"),
        }
    };
}

fn span(name: &str) -> Span {
    spans!(name, "GET /orders" "GET /users" "POST /orders" "load" "price" "query" "times out" "aborted" "hog" "job" "nap")
}

#[instrument(skip_all)]
async fn store(body: impl Future<Output = ()>) {
    body.await;
}

/// What the calls of a server share.
struct Shared {
    lock: AsyncMutex<()>,
    /// Held while hogs hold the workers.
    hogs: Arc<AsyncMutex<()>>,
    workers: usize,
    is_layer: bool,
    /// Tasks that hold clones of spans.
    keepers: Mutex<Vec<JoinHandle<()>>>,
}

static SHARED: OnceLock<Shared> = OnceLock::new();

/// A future with its span inside of the log. `is_made`: the span is created in a plain span.
fn start(node: Node, parent: Option<&Call>, is_made: bool) -> Watched {
    let call = Call::new(node.name, parent, node.planted());
    let mut body = Box::pin(run(call.clone(), node.pieces));
    let logged = call.clone();
    let body = poll_fn(move |context| logged.inside(|| body.as_mut().poll(context)));
    if node.name == STORE {
        let body = store(body);
        let body: Pin<Box<dyn Future<Output = ()> + Send>> =
            if is_followed(STORE) { Box::pin(follow(body)) } else { Box::pin(body) };
        return Watched { call, is_lazy: true, future: Some(body) };
    }
    // On a registry, the plain span lives as long as its child, and nothing tells it from a future in its first wait.
    let is_kept = SHARED.get().is_some_and(|shared| shared.is_layer) && call.is_planted(State::Outlived);
    let span = if is_made && !is_kept { info_span!("make").in_scope(|| span(node.name)) } else { span(node.name) };
    call.is_created();
    let body = body.instrument(span);
    let is_followed = is_followed(node.name);
    let future: Pin<Box<dyn Future<Output = ()> + Send>> =
        if is_followed { Box::pin(follow(body)) } else { Box::pin(body) };
    Watched { call, is_lazy: false, future: Some(future) }
}

async fn run(call: Arc<Call>, pieces: Vec<Piece>) {
    let shared = SHARED.get().expect("it is set first");
    for Piece { kind, time, calls, is_made } in pieces {
        let parent =
            |node: &Node| (!matches!(kind, Kind::Spawned | Kind::SpawnedTwice) || node.name != STORE).then_some(&*call);
        let mut calls = calls.into_iter().map(|node| start(node.clone(), parent(&node), is_made));
        let mut next = || calls.next().expect("it is planned");
        match kind {
            Kind::Spin => spin_cpu(time),
            Kind::Sleep => std::thread::sleep(time),
            Kind::Pipe => {
                let (mut reader, mut writer) = pipe().expect("a pipe");
                std::thread::spawn(move || {
                    std::thread::sleep(time);
                    writer.write_all(&[1])
                });
                reader.read_exact(&mut [0]).expect("a byte");
            }
            Kind::Timer => sleep(time).await,
            Kind::Lock => {
                let _held = shared.lock.lock().await;
                sleep(time).await;
            }
            Kind::Channel => {
                let (sender, filled) = oneshot::channel();
                tokio::spawn(async move {
                    sleep(time).await;
                    sender.send(())
                });
                filled.await.expect("it is filled");
            }
            Kind::Ready => become_ready(time, shared).await,
            Kind::Child => next().await,
            Kind::Join => {
                tokio::join!(next(), next());
            }
            Kind::Spawned => tokio::spawn(next()).await.expect("no panic"),
            Kind::SpawnedTwice => {
                for task in [next(), next()].map(tokio::spawn) {
                    task.await.expect("no panic");
                }
            }
            Kind::Pool => {
                let job = Call::new("job", Some(&call), States::default());
                let span = span("job");
                let work = move || {
                    spin_cpu(time / 2);
                    std::thread::sleep(time / 2);
                };
                spawn_blocking(move || job.run_plain(span, work)).await.expect("no panic");
            }
            Kind::TimedOut => assert!(timeout(time, next()).await.is_err(), "it takes forever"),
            Kind::Aborted => {
                let task = tokio::spawn(next());
                sleep(time).await;
                task.abort();
                assert!(task.await.is_err(), "it takes forever");
            }
            Kind::Unpolled => {
                let mut call = Box::pin(next());
                let is_finished = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_ready())).await;
                let left = Some(call).filter(|_| !is_finished); // `buffered` and `join_all` drop what has finished
                sleep(time).await;
                if let Some(call) = left {
                    call.await;
                }
            }
            Kind::Kept => {
                let (call, clone) = (call.clone(), Span::current());
                let keeper = tokio::spawn(async move {
                    sleep(time).await;
                    call.release(clone);
                });
                shared.keepers.lock().expect("no panic").push(keeper);
            }
            Kind::Forever => pending().await,
        }
    }
}

/// Waits for a thread that wakes this task at the moment at which hogs have all workers.
async fn become_ready(time: Duration, shared: &'static Shared) {
    let alone = Arc::new(shared.hogs.clone().lock_owned().await);
    let held = Arc::new(Barrier::new(shared.workers.max(1) + 1));
    for _ in 0..shared.workers.max(1) {
        let (held, alone) = (held.clone(), alone.clone());
        tokio::spawn(async move {
            held.wait();
            held.wait();
            let hog = Call::new("hog", None, States::default());
            let is_spinning = time.subsec_micros().is_multiple_of(2);
            hog.run_plain(span("hog"), || if is_spinning { spin_cpu(time) } else { std::thread::sleep(time) });
            drop(alone);
        });
    }
    drop(alone);
    let (sender, woken) = oneshot::channel();
    std::thread::spawn(move || {
        held.wait();
        sender.send(()).expect("it is awaited");
        held.wait();
    });
    woken.await.expect("it is woken");
}

/// Waits for one timer after the other. Hogs have all workers when every second one ends.
async fn nap(time: Duration, workers: usize) {
    for number in 0..NAPS {
        let node = Node { name: NAP, pieces: vec![Piece::new(Kind::Timer, time)] };
        let nap = tokio::spawn(start(node, None, false));
        tokio::task::yield_now().await; // it begins to wait
        let hog = || {
            tokio::spawn(async move {
                let hog = Call::new("hog", None, States::default());
                hog.run_plain(span("hog"), || spin_cpu(2 * time));
            })
        };
        let hogs: Vec<_> = (0..if number % 2 == 0 { workers.max(1) } else { 0 }).map(|_| hog()).collect();
        for task in hogs.into_iter().chain([nap]) {
            task.await.expect("no panic");
        }
    }
}

/// Keeps processors busy until it is dropped.
struct Load(Arc<AtomicBool>);

impl Load {
    fn new(threads: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        for _ in 0..threads {
            let is_over = is_over.clone();
            std::thread::spawn(move || while !is_over.load(Relaxed) {});
        }
        Self(is_over)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn spin_cpu(time: Duration) {
    let end = thread_cpu() + time.as_nanos() as u64;
    while thread_cpu() < end {
        std::hint::spin_loop();
    }
}

/// Runs a server. Returns the profiler's summary.
fn serve(plan: Plan) -> Value {
    let report = std::env::temp_dir().join(format!("call_states-{}.txt", std::process::id()));
    let profiler = Profiler::builder().output(Output::File(report.clone())).build().expect("a profiler");
    if plan.is_layer {
        tracing_subscriber::registry().with(profiler.layer()).init();
    } else {
        profiler.subscriber().init();
    }
    let (lock, hogs, keepers) = (AsyncMutex::default(), Arc::default(), Mutex::default());
    assert!(SHARED.set(Shared { lock, hogs, workers: plan.workers, is_layer: plan.is_layer, keepers }).is_ok());
    let runtime = match plan.workers {
        0 => tokio::runtime::Builder::new_current_thread().enable_all().build(),
        workers => tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build(),
    };
    let runtime = runtime.expect("a runtime");
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let load = Load::new((plan.threads - 1) * processors);
    runtime.block_on(async {
        let client = async |requests: Vec<Node>| {
            for request in requests {
                start(request, None, false).await;
            }
        };
        let napping = plan.naps.map(|time| tokio::spawn(nap(time, plan.workers)));
        let clients: Vec<_> = plan.clients.into_iter().map(|requests| tokio::spawn(client(requests))).collect();
        if let Some(requests) = plan.joined {
            let [one, other] = requests.map(|request| start(request, None, false));
            tokio::spawn(async { tokio::join!(one, other) }).await.expect("no panic");
        }
        for client in clients.into_iter().chain(napping) {
            client.await.expect("no panic");
        }
        let keepers = std::mem::take(&mut *SHARED.get().expect("set").keepers.lock().expect("no panic"));
        for keeper in keepers {
            keeper.await.expect("no panic");
        }
    });
    drop((runtime, load));
    let mut json = Vec::new();
    profiler.summary().write_json(&mut json).expect("JSON");
    profiler.finish().expect("a report");
    std::fs::remove_file(&report).expect("the report");
    serde_json::from_slice(&json).expect("JSON")
}

/// The profiler's rows of calls by name.
fn calls_of(summary: &Value) -> BTreeMap<String, &Value> {
    let rows = summary["calls"].as_array().into_iter().flatten();
    rows.map(|row| (row["name"].as_str().expect("a name").to_owned(), row)).collect()
}

/// Compares who ended the waits of followed calls with the log: the time that is owed to each.
fn check_waits(summary: &Value, rows: &BTreeMap<&str, Row>, wrong: &mut Wrong) {
    let truth = waits(if cfg!(tokio_unstable) { &[][..] } else { &FOLLOWED });
    let row = |row: &Value| {
        let waiter = row["waiter"].as_str().expect("a name").to_owned();
        ((waiter, row["by"].as_str().map(str::to_owned)), row["time_ns"].as_u64().expect("a time"))
    };
    let rows_of = summary["waits"].as_array().into_iter().flatten();
    // Who held the worker of a ready call is not in the log; what is inferred, planted_causes proves.
    let told = rows_of.filter(|row| row["resource"].is_null() && row["of_waits"].is_null());
    let ours: BTreeMap<_, _> = told.map(row).collect();
    let owned = |(waiter, by): &(&str, Option<&str>)| ((*waiter).to_owned(), by.map(str::to_owned));
    let truth: BTreeMap<_, _> = truth.iter().map(|(pair, time)| (owned(pair), *time)).collect();
    for pair in truth.keys().chain(ours.keys().filter(|pair| !truth.contains_key(*pair))) {
        let [ours, truth] = [&ours, &truth].map(|all| all.get(pair).copied().unwrap_or_default());
        let allowed = rows.get(&*pair.0).map_or(0, |row| (row.latency / 100).max(50_000 * row.calls) + row.slack);
        let (waiter, by) = (&pair.0, pair.1.as_deref().unwrap_or("nobody"));
        let [told, truly] = [ours, truth].map(Duration::from_nanos);
        println!("{waiter} waited {truly:.1?} for {by}, as told {told:.1?}");
        compare(&format!("{waiter} for {by}"), "waits", both(ours), both(truth), allowed, wrong);
    }
}

/// Compares the time for which others are blamed with what the calls of each name have waited in all, and with what
/// naps of this length have waited for longer.
fn check_blame(summary: &Value, rows: &BTreeMap<&str, Row>, naps: Option<Duration>, wrong: &mut Wrong) {
    let mut blamed: BTreeMap<&str, u64> = BTreeMap::new();
    for row in summary["waits"].as_array().into_iter().flatten() {
        let (waiter, by) = (row["waiter"].as_str().unwrap_or_default(), row["by"].as_str());
        *blamed.entry(waiter).or_default() += row["time_ns"].as_u64().expect("a time");
        if waiter == NAP && by != Some("hog") && !row["of_waits"].is_null() {
            wrong.push(("name".to_owned(), format!("{row}")));
        }
    }
    for (waiter, row) in rows {
        use State::*;
        let blamed = blamed.get(waiter).copied().unwrap_or_default();
        let allowed = (row.latency / 100).max(50_000 * row.calls) + row.slack;
        let waited = row.states[0].sum(&[Ready, ChildCall, Otherwise]);
        let waited = match naps {
            Some(time) if *waiter == NAP => waited.saturating_sub(time.as_nanos() as u64 * row.calls),
            _ => waited,
        };
        compare(waiter, "blame", both(blamed), (0, waited), allowed, wrong);
    }
}

/// What differs: the figure, and how.
type Wrong = Vec<(String, String)>;

fn compare(name: &str, of: &str, ours: (u64, u64), truth: (u64, u64), allowed: u64, wrong: &mut Wrong) {
    if ours.1 + allowed < truth.0 || truth.1 + allowed < ours.0 {
        let range = |(least, most): (u64, u64)| {
            let [least, most] = [least, most].map(Duration::from_nanos);
            if least == most { format!("{least:.3?}") } else { format!("{least:.3?} to {most:.3?}") }
        };
        let (ours, truth, allowed) = (range(ours), range(truth), Duration::from_nanos(allowed));
        wrong.push((of.to_owned(), format!("{name}: {ours}, not {truth}, within {allowed:.3?}")));
    }
}

/// Whether the log has what was planted, as far as a machine allows that does other things, too.
fn check_log(name: &str, row: &Row, threads: usize, wrong: &mut Wrong) {
    use State::*;
    // A thread may be stopped for so long, and a call where there is too much to do.
    let slice = 10_000_000 * if threads > 1 { threads as u64 * row.calls } else { 1 };
    let allowed = (row.latency / 100).max(50_000 * row.calls) + 50_000 * row.instances + row.slack;
    compare(name, "log's sum", both(row.states[0].0.iter().sum()), both(row.latency), 0, wrong);
    compare(name, "impossible moments", both(row.impossible), (0, 0), 0, wrong);
    for state in [OnCpu, OffCpu, Ready, ChildCall, Otherwise, Outlived] {
        let (found, planted) = (row.states[0][state], row.planted[state]);
        let figure = format!("planted {}", STATES[state as usize]);
        let (least, most) = match state {
            OnCpu => (planted, planted),
            ChildCall | Otherwise | Outlived if planted == 0 => (0, slice),
            _ => (planted.saturating_sub(slice), u64::MAX / 2),
        };
        compare(name, &figure, both(found), (least, most), allowed, wrong);
    }
}

fn both(figure: u64) -> (u64, u64) {
    (figure, figure)
}

/// Whether it is known when a call was woken: partly, if its task polls others or a timer beside it.
enum Wakes {
    Known,
    Partly,
    Hidden,
}

/// Compares a row of the profiler with the log.
fn check_row(name: &str, row: &Row, ours: &Value, wakes: Wakes, wrong: &mut Wrong) {
    use State::*;
    let figure = |name: &str| ours[name].as_u64().unwrap_or_default();
    let latency = &ours["latency"];
    let (calls, total) =
        (latency["instances"].as_u64().unwrap_or_default(), latency["total_ns"].as_u64().unwrap_or_default());
    let count = |of, ours, (least, most), wrong: &mut Wrong| {
        if !(least..=most).contains(&ours) {
            wrong.push((String::from(of), format!("{name}: {ours}, not {least} to {most}")));
        }
    };
    count("calls", calls, both(row.calls), wrong);
    count("cancelled", figure("cancelled"), row.cancelled, wrong);
    let allowed = (row.latency / 100).max(50_000 * row.calls) + row.slack;
    let (known, hidden) = (row.states, row.without_wakes);
    let sums = |of: &[States], states: &[State]| {
        let sums = of.iter().map(|of| of.sum(states));
        sums.fold((u64::MAX, 0), |(least, most), sum| (sum.min(least), sum.max(most)))
    };
    for (of, ours, truth) in [
        ("latency", total, both(row.latency)),
        ("running time", figure("busy_ns"), sums(&known, &[OnCpu, OffCpu])),
        ("awaited time", figure("awaited_ns"), sums(&known, &[Ready, ChildCall, Otherwise])),
        ("own awaited time", figure("awaited_self_ns"), sums(&hidden, &[Ready, Otherwise])),
        ("outlived time", figure("outlived_ns"), sums(&known, &[Outlived])),
    ] {
        compare(name, of, both(ours), truth, allowed, wrong);
    }
    let states = States(STATES.map(|state| ours["states"][state].as_u64().unwrap_or_default()));
    compare(name, "sum", both(states.0.iter().sum()), both(total), calls, wrong);
    let some_known = [known, hidden].concat();
    let (is_known, truth) = match wakes {
        Wakes::Known => (true, &known[..]),
        Wakes::Partly => (false, &some_known[..]),
        Wakes::Hidden => (false, &hidden[..]),
    };
    let unknown = states[OnThread];
    let apart: &[(&[State], u64)] = &[(&[Ready], 0), (&[Otherwise], 0)];
    let together: &[(&[State], u64)] = &[(&[Ready, Otherwise], 0)];
    let always: &[(&[State], u64)] = &[
        (&[OnCpu], unknown),
        (&[OffCpu], unknown),
        (&[OnCpu, OffCpu, OnThread], 0),
        (&[ChildCall], 0),
        (&[Outlived], 0),
    ];
    for (summed, unknown) in always.iter().chain(if is_known { apart } else { together }) {
        let of = summed.iter().map(|state| STATES[*state as usize]).collect::<Vec<_>>().join(" + ");
        let least = states.sum(summed);
        compare(name, &of, (least, least + unknown), sums(truth, summed), allowed, wrong);
    }
    // A timer beside a call wakes their task.
    if matches!(wakes, Wakes::Partly) && name != "times out" {
        let ready = states[Ready];
        compare(name, "most ready", both(ready), (0, sums(&known, &[Ready]).1), allowed, wrong);
    }
    let others = states[Otherwise].saturating_sub(sums(truth, &[Otherwise]).1);
    if is_known && row.planted[Otherwise] == 0 && others > row.latency / 100 + row.slack {
        wrong.push(("otherwise, not planted".into(), format!("{name}: {:?}", Duration::from_nanos(states[Otherwise]))));
    }
}

fn one(seed: u64) -> ExitCode {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(180));
        println!("WRONG end: it hangs");
        exit(1)
    });
    let plan = Plan::new(seed);
    let (threads, naps) = (plan.threads, plan.naps);
    let front_end = if plan.is_layer { "layer" } else { "subscriber" };
    let about = format!("{} workers, {threads} threads a processor, {front_end}", plan.workers);
    plan.recipes.iter().for_each(|(name, recipe)| println!("{name}: {recipe:?}"));
    // With a registry, a child keeps the span of its parent open.
    let (is_layer, mut joined) = (plan.is_layer, BTreeSet::new());
    plan.clients.iter().flatten().for_each(|node| node.add_joined(false, &mut joined));
    plan.joined.iter().flatten().for_each(|node| node.add_joined(true, &mut joined));
    let wakes = |name: &str| match (cfg!(tokio_unstable) && is_layer, joined.contains(name)) {
        _ if is_followed(name) => Wakes::Known,
        (true, false) => Wakes::Known,
        (true, true) => Wakes::Partly,
        (false, _) => Wakes::Hidden,
    };
    let summary = serve(plan);
    let ours = calls_of(&summary);
    let (mut wrong, rows) = (Wrong::new(), rows(is_layer, &PLAIN));
    check_waits(&summary, &rows, &mut wrong);
    check_blame(&summary, &rows, naps, &mut wrong);
    for (name, row) in &rows {
        let states = STATES.iter().zip(row.states[0].0).filter(|(_, time)| *time > 0);
        let states: Vec<String> =
            states.map(|(state, time)| format!("{state} {:.1?}", Duration::from_nanos(time))).collect();
        println!("{name}: {} calls, {:.1?}: {}", row.calls, Duration::from_nanos(row.latency), states.join(", "));
        if PLAIN.contains(name) {
            continue;
        }
        check_log(name, row, threads, &mut wrong);
        match ours.get(*name) {
            Some(ours) => check_row(name, row, ours, wakes(name), &mut wrong),
            None => wrong.push(("row".to_owned(), format!("{name}: there is none, of {} calls", row.calls))),
        }
    }
    let others = ours.keys().filter(|name| !rows.contains_key(name.as_str()) || PLAIN.contains(&name.as_str()));
    wrong.extend(others.map(|name| ("row".to_owned(), format!("{name}: it is no future"))));
    wrong.iter().for_each(|(figure, how)| println!("WRONG {figure} of {how}"));
    let calls: u64 = rows.values().map(|row| row.calls).sum();
    println!("{about}: {calls} calls of {} names, {} figures wrong", rows.len(), wrong.len());
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn many(seeds: std::ops::Range<u64>) -> ExitCode {
    let (mut counts, mut failed, all) = (BTreeMap::<String, u64>::new(), 0, seeds.end.saturating_sub(seeds.start));
    for seed in seeds {
        let me = std::env::current_exe().expect("a program");
        let output = Command::new(me).arg(seed.to_string()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout);
        for figure in said.lines().filter_map(|line| line.strip_prefix("WRONG ")?.split(" of ").next()) {
            *counts.entry(figure.to_owned()).or_default() += 1;
        }
        failed += u64::from(!output.status.success());
        match output.status.code() {
            Some(0 | 1) => println!("{seed}: {}", said.lines().last().unwrap_or("WRONG: it says nothing")),
            _ => println!("{seed}: WRONG: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)),
        }
    }
    let counts = counts.iter().fold(String::new(), |mut text, (figure, rows)| {
        write!(text, ", {figure} of {rows} rows").expect("a string has room");
        text
    });
    println!("{}: {failed} of {all} seeds{counts}", if failed > 0 { "WRONG" } else { "as it was" });
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seeds = |text: &str| {
        let (begin, end) = text.split_once("..")?;
        Some(begin.parse().ok()?..end.parse().ok()?)
    };
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => many(0..5),
        ["--seeds", text] if seeds(text).is_some() => many(seeds(text).unwrap_or_default()),
        [seed] if seed.parse::<u64>().is_ok() => one(seed.parse().unwrap_or_default()),
        _ => {
            eprintln!("call_states SEED, or call_states --seeds A..B");
            ExitCode::FAILURE
        }
    }
}
