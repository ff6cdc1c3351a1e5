//! Generated servers in which one job makes requests wait, for an answer that is known: who is to blame.
//!
//! ```sh
//! planted_causes 7              # one server
//! planted_causes --seeds 0..100 # a process each, a line each, and the counts
//! TRACING_GPU=out=stderr planted_causes 7 # with the report
//! ```
//!
//! Nothing here is followed: the profiler infers who ended waits from what had just ended, over many waits. A seed
//! makes a server with some resources, each with a name of a span that waits for it and a cause ([`Cause`]). One of two
//! servers has no cause in common: all that waits in it waits for its own timer or for a thread of its own. Other
//! requests run beside them, which have nothing to do with any wait.
//!
//! One of four seeds makes a run of another shape instead ([`checked::shapes`]).
//!
//! This proves, of the claims of the profiler (`Summary::waits`): how many causes it names, that it names nobody else,
//! and that it claims nothing where nothing is in common. A cause counts if it made others wait at least 15 times.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, ExitCode, exit};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;
use tokio::sync::{Mutex as AsyncMutex, RwLock, Semaphore, mpsc, oneshot};
use tokio::time::sleep;
use tracing::{Instrument as _, Span, info_span};
use tracing_gpu::{Output, Profiler, SummaryExt as _};
use tracing_subscriber::prelude::*;

/// How a job makes others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// It holds a lock while it waits for a timer.
    LockAsleep,
    /// It holds a lock in one long poll.
    LockBusy,
    /// It writes what others read.
    Writer,
    /// It has the one connection of a pool.
    Pool,
    /// It is in front of others in the queue of an actor, which handles one message at a time.
    Actor,
    /// It lets go of a lock in the middle of its poll, and runs on: its end proves nothing.
    RunsOn,
    /// It holds a lock of threads, which do not run meanwhile. The lock is not fair.
    Threads,
    /// It writes what threads read.
    ThreadsWriter,
    /// As `Threads`, but it lets go up to 2 ms before its end: its end proves nothing.
    ThreadsRunOn,
    /// Threads wait for its answer. It begins after the waits, so nothing proves that they wait for it. It does not
    /// wait for them, though they begin before it and end when it does.
    Answer,
    /// It runs for long on the only worker of the runtime, while others are ready: alone in its server, since all wait
    /// for it. It begins after the waits.
    Workers,
    /// It holds a lock of threads in one long poll, and others wait for it in their polls, so workers wait, too: alone
    /// in its server. Its poll ends when it lets go. But a thread that is woken may take the processor of the one that
    /// wakes it, where processors are few: then the poll ends up to some ms later, which proves nothing.
    Polls,
    /// Each waits for itself.
    Nobody,
}

impl Cause {
    fn is_of_threads(self) -> bool {
        [Self::Threads, Self::ThreadsWriter, Self::ThreadsRunOn, Self::Answer].contains(&self)
    }
}

const CAUSES: [Cause; 10] = {
    use Cause::*;
    [LockAsleep, LockBusy, Writer, Pool, Actor, RunsOn, Threads, ThreadsWriter, ThreadsRunOn, Answer]
};
/// Names of who waits, of what has the resource, and of what has nothing to do with it.
const WAITERS: [&str; 4] = ["append_ledger", "load_user", "save_order", "render"];
const JOBS: [&str; 4] = ["compact ledger", "export", "rebuild index", "GET /report"];
const OTHERS: [&str; 4] = ["GET /health", "metrics", "POST /login", "flush log"];
const LEAST_WAITS: u64 = 15;
const RUN: Duration = Duration::from_millis(2_500);

macro_rules! spans {
    ($name:expr, $($literal:literal)*) => {
        match $name {
            $($literal => info_span!($literal),)*
            name => unreachable!("{name}"),
        }
    };
}

fn span(name: &str) -> Span {
    spans!(name, "append_ledger" "load_user" "save_order" "render" "compact ledger" "export" "rebuild index"
        "GET /report" "GET /health" "metrics" "POST /login" "flush log" "GET /orders" "GET /users" "POST /orders"
        "GET /page")
}

fn request_of(waiter: usize) -> &'static str {
    ["GET /orders", "GET /users", "POST /orders", "GET /page"][waiter]
}

static IS_OVER: AtomicBool = AtomicBool::new(false);
static RANDOM: LazyLock<Mutex<Rng>> = LazyLock::new(|| Mutex::new(Rng::new()));

fn random() -> MutexGuard<'static, Rng> {
    RANDOM.lock().expect("no panic")
}

/// A time around this one, as arrivals have it: exponential, up to five times as long.
fn about(time: Duration) -> Duration {
    time.mul_f64((-random().f64().max(1e-6).ln()).min(5.0))
}

fn between(least: u64, most: u64) -> Duration {
    Duration::from_micros(random().u64(least..most))
}

fn spin(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// What one kind of request waits for. Who has it now, and how many long waits it has caused.
struct Resource {
    cause: Cause,
    lock: AsyncMutex<()>,
    of_threads: Mutex<()>,
    pages_of_threads: std::sync::RwLock<()>,
    pages: RwLock<()>,
    pool: Semaphore,
    actor: mpsc::UnboundedSender<(bool, oneshot::Sender<()>)>,
    is_held: AtomicBool,
    caused: AtomicU64,
}

impl Resource {
    fn new(cause: Cause, job: usize) -> Arc<Self> {
        let (actor, mut messages) = mpsc::unbounded_channel::<(bool, oneshot::Sender<()>)>();
        let resource = Arc::new(Self {
            cause,
            lock: AsyncMutex::default(),
            of_threads: Mutex::default(),
            pages_of_threads: std::sync::RwLock::default(),
            pages: RwLock::default(),
            pool: Semaphore::new(1),
            actor,
            is_held: AtomicBool::new(false),
            caused: AtomicU64::new(0),
        });
        let own = resource.clone();
        tokio::spawn(async move {
            while let Some((is_job, answer)) = messages.recv().await {
                if is_job {
                    own.is_held.store(true, Relaxed);
                    sleep(between(8_000, 40_000)).instrument(span(JOBS[job])).await;
                    own.is_held.store(false, Relaxed);
                }
                let _gone = answer.send(());
            }
        });
        resource
    }

    /// What a request does with it. Counts a wait that the job has caused.
    async fn use_it(&self) {
        let (was_held, begun) = (self.is_held.load(Relaxed), Instant::now());
        match self.cause {
            Cause::LockAsleep | Cause::LockBusy | Cause::RunsOn => {
                let _held = self.lock.lock().await;
                self.count(was_held, begun);
                spin(between(5, 60));
            }
            Cause::Writer => {
                let _read = self.pages.read().await;
                self.count(was_held, begun);
                spin(between(5, 60));
            }
            Cause::Pool => {
                let _connection = self.pool.acquire().await.expect("it is open");
                self.count(was_held, begun);
                sleep(between(200, 600)).await;
            }
            Cause::Actor => {
                let (answer, answered) = oneshot::channel();
                self.actor.send((false, answer)).expect("it is alive");
                answered.await.expect("it answers");
                self.count(was_held, begun);
            }
            Cause::Polls => {
                let _held = self.of_threads.lock().expect("no panic");
                self.count(was_held, begun);
                spin(between(5, 60));
            }
            Cause::Threads | Cause::ThreadsWriter | Cause::ThreadsRunOn | Cause::Answer => {
                unreachable!("it has no tasks")
            }
            Cause::Workers => {
                sleep(between(500, 2_500)).await;
                self.count(true, begun + Duration::from_millis(4));
            }
            Cause::Nobody if random().bool() => sleep(about(Duration::from_millis(6))).await,
            Cause::Nobody => {
                let (answer, answered) = oneshot::channel();
                let time = about(Duration::from_millis(6));
                thread::spawn(move || {
                    thread::sleep(time);
                    answer.send(())
                });
                answered.await.expect("it answers");
            }
        }
    }

    /// Threads that wait, or make others wait, as tasks do elsewhere.
    fn start_threads(self: Arc<Self>, job: usize) -> Vec<JoinHandle<()>> {
        let start = |body: fn(&Self, usize)| {
            let own = self.clone();
            thread::spawn(move || {
                while !IS_OVER.load(Relaxed) {
                    body(&own, job);
                }
            })
        };
        let wait = |own: &Self, job: usize| {
            span(request_of(job)).in_scope(|| span(WAITERS[job]).in_scope(|| own.wait_in_thread(job)));
            thread::sleep(about(Duration::from_millis(4)));
        };
        let hold = |own: &Self, job: usize| {
            thread::sleep(between(15_000, 60_000));
            span(JOBS[job]).in_scope(|| own.hold_in_thread());
        };
        [wait, wait, wait, wait, hold].map(start).into()
    }

    fn wait_in_thread(&self, job: usize) {
        let (was_held, begun) = (self.is_held.load(Relaxed), Instant::now());
        let used = || {
            self.count(was_held, begun);
            spin(between(5, 60));
        };
        match self.cause {
            Cause::ThreadsWriter => {
                let _read = self.pages_of_threads.read().expect("no panic");
                used();
            }
            Cause::Answer => {
                spin(between(0, 500));
                let (answer, answered) = std::sync::mpsc::channel();
                let _runs_on = thread::spawn(move || {
                    span(JOBS[job]).in_scope(|| {
                        thread::sleep(between(2_000, 20_000));
                        answer.send(()).expect("it waits");
                        spin(between(60, 180));
                    });
                });
                answered.recv().expect("an answer");
                self.count(true, begun);
            }
            _ => {
                let _held = self.of_threads.lock().expect("no panic");
                used();
            }
        }
    }

    fn hold_in_thread(&self) {
        let hold = || {
            self.is_held.store(true, Relaxed);
            thread::sleep(between(8_000, 40_000));
            self.is_held.store(false, Relaxed);
        };
        match self.cause {
            Cause::Answer => {}
            Cause::ThreadsWriter => {
                let _written = self.pages_of_threads.write().expect("no panic");
                hold();
            }
            cause => {
                let held = self.of_threads.lock().expect("no panic");
                hold();
                if cause == Cause::ThreadsRunOn {
                    drop(held);
                    spin(between(0, 2_000));
                }
            }
        }
    }

    fn count(&self, was_held: bool, begun: Instant) {
        if was_held && begun.elapsed() > Duration::from_millis(2) {
            self.caused.fetch_add(1, Relaxed);
        }
    }

    /// One round of the job.
    async fn hold(&self, job: usize) {
        let hold = || self.is_held.store(true, Relaxed);
        let time = between(8_000, 40_000);
        async {
            match self.cause {
                Cause::LockAsleep | Cause::LockBusy | Cause::RunsOn => {
                    let held = self.lock.lock().await;
                    hold();
                    match self.cause {
                        Cause::LockAsleep => sleep(time).await,
                        _ => spin(time / 4),
                    }
                    self.is_held.store(false, Relaxed);
                    drop(held);
                    if self.cause == Cause::RunsOn {
                        spin(Duration::from_millis(3));
                    }
                }
                Cause::Writer => {
                    let _written = self.pages.write().await;
                    hold();
                    sleep(time).await;
                    self.is_held.store(false, Relaxed);
                }
                Cause::Pool => {
                    let _connection = self.pool.acquire().await.expect("it is open");
                    hold();
                    sleep(time).await;
                    self.is_held.store(false, Relaxed);
                }
                Cause::Workers => spin(between(10_000, 30_000)),
                Cause::Polls => {
                    spin(between(0, 500));
                    let _held = self.of_threads.lock().expect("no panic");
                    hold();
                    spin(time / 2);
                    self.is_held.store(false, Relaxed);
                }
                _ => {}
            }
        }
        .instrument(span(JOBS[job]))
        .await;
        if self.cause == Cause::Actor {
            let (answer, answered) = oneshot::channel();
            self.actor.send((true, answer)).expect("it is alive");
            answered.await.expect("it answers");
        }
    }
}

struct Plan {
    workers: usize,
    is_layer: bool,
    causes: Vec<Cause>,
}

impl Plan {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let (mut workers, is_layer, resources) = (rng.usize(2..5), rng.bool(), rng.usize(1..4));
        let cause =
            |rng: &mut Rng| if seed.is_multiple_of(2) { CAUSES[rng.usize(..CAUSES.len())] } else { Cause::Nobody };
        let causes: Vec<Cause> = match seed % 16 {
            4 => {
                workers = 1;
                vec![Cause::Workers]
            }
            12 => {
                workers = workers.min(thread::available_parallelism().map_or(2, usize::from));
                vec![Cause::Polls]
            }
            _ => (0..resources).map(|_| cause(&mut rng)).collect(),
        };
        random().seed(seed);
        Self { workers, is_layer, causes }
    }
}

/// Runs a server. Returns the profiler's summary, and how many waits each job has caused.
fn serve(plan: &Plan) -> (Value, Vec<u64>) {
    let profiler = Profiler::builder().output(Output::None).build().expect("a profiler");
    if plan.is_layer {
        tracing_subscriber::registry().with(profiler.layer()).init();
    } else {
        profiler.subscriber().init();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(plan.workers).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let caused = runtime.block_on(async {
        let mut tasks = Vec::new();
        let (mut resources, mut threads) = (Vec::new(), Vec::new());
        for (index, &cause) in plan.causes.iter().enumerate() {
            let resource = Resource::new(cause, index);
            resources.push(resource.clone());
            if cause.is_of_threads() {
                threads.extend(resource.start_threads(index));
                continue;
            }
            for _ in 0..4 {
                let resource = resource.clone();
                tasks.push(tokio::spawn(async move {
                    while !IS_OVER.load(Relaxed) {
                        async { resource.use_it().instrument(span(WAITERS[index])).await }
                            .instrument(span(request_of(index)))
                            .await;
                        sleep(about(Duration::from_millis(4))).await;
                    }
                }));
            }
            tasks.push(tokio::spawn(async move {
                while !IS_OVER.load(Relaxed) {
                    sleep(between(15_000, 60_000)).await;
                    resource.hold(index).await;
                }
            }));
        }
        for (index, name) in OTHERS.into_iter().enumerate() {
            tasks.push(tokio::spawn(async move {
                while !IS_OVER.load(Relaxed) {
                    async {
                        sleep(about(Duration::from_micros(300 << index))).await;
                        spin(between(5, 100));
                    }
                    .instrument(span(name))
                    .await;
                }
            }));
        }
        sleep(RUN).await;
        IS_OVER.store(true, Relaxed);
        for task in tasks {
            task.await.expect("no panic");
        }
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        resources.iter().map(|resource| resource.caused.load(Relaxed)).collect()
    });
    drop(runtime);
    let mut json = Vec::new();
    profiler.summary().write_json(&mut json).expect("JSON");
    profiler.finish().expect("a report");
    (serde_json::from_slice(&json).expect("JSON"), caused)
}

fn one(seed: u64) -> ExitCode {
    thread::spawn(|| {
        thread::sleep(Duration::from_secs(60));
        println!("WRONG: it hangs");
        exit(1)
    });
    if seed % 4 == 3 {
        let said = checked::shapes::run(seed);
        println!("{said}");
        return if said.starts_with("WRONG") { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let plan = Plan::new(seed);
    let (summary, caused) = serve(&plan);
    let mut claims: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut rows: Vec<_> = summary["waits"].as_array().into_iter().flatten().collect();
    if cfg!(tokio_unstable) {
        rows.retain(|row| row["resource"].is_null()); // on a busy machine, any task may hold a worker
    }
    for row in rows {
        println!("claim: {row}");
        let name = |of: &str| row[of].as_str().unwrap_or("nobody").to_owned();
        claims.entry(name("waiter")).or_default().insert(name("by"));
    }
    let all_wait = matches!(plan.causes[..], [Cause::Workers | Cause::Polls]);
    let mut is_right = true;
    for (index, (cause, caused)) in plan.causes.iter().zip(caused).enumerate() {
        let own = claims.remove(WAITERS[index]).unwrap_or_default();
        // A queue goes on when those before it do: these are the requests themselves.
        let may_be = |name: &String| [JOBS[index], request_of(index), WAITERS[index]].contains(&name.as_str());
        let verdict = match cause {
            _ if !own.iter().all(may_be) || *cause == Cause::Nobody && !own.is_empty() => "WRONG",
            Cause::Nobody => "silent",
            _ if own.contains(JOBS[index]) => "named",
            Cause::RunsOn | Cause::ThreadsRunOn | Cause::Polls | Cause::Answer => "unproven",
            _ if caused < LEAST_WAITS => "few",
            _ => "missed",
        };
        is_right &= verdict != "WRONG";
        println!("{verdict} {cause:?} of {}: {caused} waits, {own:?}", WAITERS[index]);
    }
    // Requests and jobs wait as well: what is claimed of them is right if it is about their own resource.
    for (waiter, by) in claims {
        let index = (0..plan.causes.len()).find(|&index| [JOBS[index], request_of(index)].contains(&waiter.as_str()));
        let own = |name: &String| {
            index.is_some_and(|index| [JOBS[index], request_of(index), WAITERS[index]].contains(&name.as_str()))
        };
        let has_cause = |index: usize| ![Cause::Nobody, Cause::Answer].contains(&plan.causes[index]);
        let is_own =
            by.iter().all(own) && index.is_some_and(has_cause) || all_wait && by.iter().all(|name| *name == JOBS[0]);
        is_right &= is_own;
        println!("{} {waiter} for {by:?}", if is_own { "also" } else { "WRONG" });
    }
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn many(seeds: std::ops::Range<u64>) -> ExitCode {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for seed in seeds {
        let me = std::env::current_exe().expect("a program");
        let output = Command::new(me).arg(seed.to_string()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout);
        let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with("claim: ")).collect();
        println!("{seed}: {}", lines.join("; "));
        for line in lines {
            *counts.entry(line.split(' ').next().unwrap_or_default().to_owned()).or_default() += 1;
        }
        if !matches!(output.status.code(), Some(0 | 1)) {
            println!("{seed}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
            *counts.entry("WRONG".to_owned()).or_default() += 1;
        }
    }
    let count = |verdict: &str| counts.get(verdict).copied().unwrap_or_default();
    let (named, wrong) = (count("named"), count("WRONG"));
    let planted = named + count("missed");
    println!("named {named} of {planted} planted causes, {wrong} wrong; silent {} times, rightly", count("silent"));
    println!("{} have few waits, {} cannot be proven", count("few"), count("unproven"));
    if wrong > 0 || named * 100 < planted * 95 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seeds = |text: &str| {
        let (begin, end) = text.split_once("..")?;
        Some(begin.parse().ok()?..end.parse().ok()?)
    };
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => many(0..6),
        ["--seeds", text] if seeds(text).is_some() => many(seeds(text).unwrap_or_default()),
        [seed] if seed.parse::<u64>().is_ok() => one(seed.parse().unwrap_or_default()),
        _ => {
            eprintln!("planted_causes SEED, or planted_causes --seeds A..B");
            ExitCode::FAILURE
        }
    }
}
