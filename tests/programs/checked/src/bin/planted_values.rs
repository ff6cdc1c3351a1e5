//! Generated servers in which all calls have one name, and those with one value make the others wait.
//!
//! ```sh
//! planted_values 7              # one server
//! planted_values --seeds 0..100 # a process each, a line each, and the counts
//! TRACING_GPU=out=stderr planted_values 7 # with the report
//! ```
//!
//! A seed makes a server with one lock. Its calls are all `request`, with a method, a path, and perhaps a number of
//! their own. Every second server has a culprit: calls with one path hold the lock for long. In the others all calls
//! hold it alike, whatever their values. Some servers are followed, so that it is told who wakes whom; in others that
//! is inferred. This proves that the report names the planted value, and no value where there is none.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode, exit};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;
use tokio::sync::{Mutex as AsyncMutex, RwLock, Semaphore};
use tokio::time::sleep;
use tracing::{Instrument as _, Span, info_span};
use tracing_gpu::{Output, Profiler, SummaryExt as _};
use tracing_subscriber::prelude::*;

const RUN: Duration = Duration::from_millis(3_000);
const LEAST_WAITS: u64 = 20;

/// What all requests use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lock,
    ReadLock,
    Permit,
    /// A lock of threads, held in one long poll; workers wait for it in polls. Before it takes the lock, the holder
    /// works for a while: who waits from the begin of its poll on may as well wait for the same as it. Where processors
    /// are few, a thread that is woken may take the processor of the one that wakes it, so that the holder's poll ends
    /// later: that proves nothing.
    OfThreads,
    /// Nothing: calls that begin together sleep in their polls for nearly as long, those of one path the shortest.
    Sleep,
}

/// What holds it for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Culprit {
    /// Calls with one path, which have a method that others have as well, or of their own.
    Path(&'static str),
    /// Every call now and then, whatever its values.
    Any,
}

#[derive(Debug)]
struct Plan {
    kind: Kind,
    culprit: Culprit,
    /// Whether each request has a path of its own, but for the culprit's.
    has_own_paths: bool,
    has_number: bool,
    is_followed: bool,
    is_layer: bool,
    workers: usize,
    clients: usize,
}

impl Plan {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        random().seed(seed);
        let method = if rng.bool() { "POST" } else { "GET" };
        let kind = [Kind::Lock, Kind::ReadLock, Kind::Permit][rng.usize(..3)];
        Self {
            kind: match seed % 16 {
                14.. => Kind::OfThreads,
                13 => Kind::Sleep,
                _ => kind,
            },
            culprit: if seed.is_multiple_of(2) { Culprit::Path(method) } else { Culprit::Any },
            has_own_paths: rng.bool(),
            has_number: rng.bool(),
            is_followed: rng.bool(),
            is_layer: rng.bool(),
            workers: rng.usize(2..5),
            clients: rng.usize(4..12),
        }
    }
}

static IS_OVER: AtomicBool = AtomicBool::new(false);
static RANDOM: LazyLock<Mutex<Rng>> = LazyLock::new(|| Mutex::new(Rng::new()));
static NUMBER: AtomicU64 = AtomicU64::new(0);

fn random() -> MutexGuard<'static, Rng> {
    RANDOM.lock().expect("no panic")
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

struct Server {
    plan: Plan,
    lock: AsyncMutex<()>,
    pages: RwLock<()>,
    permits: Semaphore,
    of_threads: Mutex<()>,
    is_held: AtomicBool,
    /// Long waits that the culprit has caused.
    caused: AtomicU64,
}

impl Server {
    fn span(&self, method: &str, path: &str) -> Span {
        match self.plan.has_number {
            true => info_span!("request", number = NUMBER.fetch_add(1, Relaxed), method, uri = %path),
            false => info_span!("request", method, uri = %path),
        }
    }

    async fn request(&self, method: &str, path: &str, held: Option<Duration>) {
        let body = async {
            let (was_held, begun) = (self.is_held.load(Relaxed), Instant::now());
            let count = || {
                if was_held && begun.elapsed() > Duration::from_millis(2) {
                    self.caused.fetch_add(1, Relaxed);
                }
            };
            let use_it = async || {
                count();
                if let Some(time) = held {
                    self.is_held.store(true, Relaxed);
                    sleep(time).await;
                    self.is_held.store(false, Relaxed);
                }
            };
            match self.plan.kind {
                Kind::Lock => {
                    let _held = self.lock.lock().await;
                    use_it().await;
                }
                Kind::ReadLock if held.is_none() => {
                    let _read = self.pages.read().await;
                    use_it().await;
                }
                Kind::ReadLock => {
                    let _written = self.pages.write().await;
                    use_it().await;
                }
                Kind::OfThreads => {
                    if held.is_some() {
                        spin(between(400, 900));
                    }
                    let _held = self.of_threads.lock().expect("no panic");
                    count();
                    if let Some(time) = held {
                        self.is_held.store(true, Relaxed);
                        spin(time / 2);
                        self.is_held.store(false, Relaxed);
                    }
                }
                Kind::Sleep => thread::sleep(held.unwrap_or(Duration::from_millis(21))),
                Kind::Permit => {
                    let _permit = self.permits.acquire().await.expect("it is open");
                    use_it().await;
                }
            }
        };
        let body = body.instrument(self.span(method, path));
        if self.plan.is_followed { tracing_gpu::follow(body).await } else { body.await }
    }

    /// Sends requests one after the other.
    async fn client(&self) {
        while !IS_OVER.load(Relaxed) {
            let number = random().u64(0..if self.plan.has_own_paths { u64::MAX } else { 8 });
            let method = if random().u8(0..4) == 0 { "POST" } else { "GET" };
            let is_long = self.plan.culprit == Culprit::Any && random().u8(0..30) == 0;
            let held = if is_long { Some(between(8_000, 40_000)) } else { None };
            self.request(method, &format!("/page/{number}"), held).await;
            sleep(between(500, 6_000)).await;
        }
    }

    /// Calls that sleep, three at a time.
    async fn sleepers(self: Arc<Self>) {
        while !IS_OVER.load(Relaxed) {
            let sleeps = |path: &'static str, time: u64| {
                let own = self.clone();
                tokio::spawn(async move { own.request("GET", path, Some(Duration::from_millis(time))).await })
            };
            let all = [sleeps("/first", 20), sleeps("/page/1", 21), sleeps("/page/2", 21)];
            for call in all {
                call.await.expect("no panic");
            }
        }
    }

    async fn culprit(&self, method: &str) {
        while !IS_OVER.load(Relaxed) {
            sleep(between(15_000, 60_000)).await;
            self.request(method, "/big", Some(between(8_000, 40_000))).await;
        }
    }
}

/// Runs a server. Returns the profiler's summary, and how many waits were caused.
fn serve(plan: Plan) -> (Value, u64) {
    let profiler = Profiler::builder().output(Output::None).build().expect("a profiler");
    if plan.is_layer {
        tracing_subscriber::registry().with(profiler.layer()).init();
    } else {
        profiler.subscriber().init();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(plan.workers).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let server = Arc::new(Server {
        plan,
        lock: AsyncMutex::default(),
        pages: RwLock::default(),
        permits: Semaphore::new(1),
        of_threads: Mutex::default(),
        is_held: AtomicBool::new(false),
        caused: AtomicU64::new(0),
    });
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..server.plan.clients {
            let own = server.clone();
            match server.plan.kind {
                Kind::Sleep if tasks.is_empty() => tasks.push(tokio::spawn(own.sleepers())),
                Kind::Sleep => {}
                _ => tasks.push(tokio::spawn(async move { own.client().await })),
            }
        }
        if let Culprit::Path(method) = server.plan.culprit {
            let own = server.clone();
            tasks.push(tokio::spawn(async move { own.culprit(method).await }));
        }
        sleep(RUN).await;
        IS_OVER.store(true, Relaxed);
        for task in tasks {
            task.await.expect("no panic");
        }
    });
    drop(runtime);
    let mut json = Vec::new();
    profiler.summary().write_json(&mut json).expect("JSON");
    profiler.finish().expect("a report");
    (serde_json::from_slice(&json).expect("JSON"), server.caused.load(Relaxed))
}

fn one(seed: u64) -> ExitCode {
    thread::spawn(|| {
        thread::sleep(Duration::from_secs(60));
        println!("WRONG: it hangs");
        exit(1)
    });
    let plan = Plan::new(seed);
    let (about, culprit, kind) = (format!("{plan:?}"), plan.culprit, plan.kind);
    let (summary, caused) = serve(plan);
    let rows = summary["waits"].as_array().cloned().unwrap_or_default();
    rows.iter().for_each(|row| println!("claim: {row}"));
    let values: Vec<&str> = rows.iter().filter_map(|row| row["by_value"].as_str()).collect();
    // Several values may tell the same calls apart. That its method tells them is true, but not what is asked for.
    let is_named = |value: &&str| value.split(' ').any(|one| one == "uri=/big");
    let is_broad = |value: &&str| matches!(culprit, Culprit::Path(method) if *value == format!("method={method}"));
    let verdict = match culprit {
        Culprit::Any if values.is_empty() => "silent",
        Culprit::Any => "WRONG",
        Culprit::Path(_) if values.iter().any(|value| !is_named(value) && !is_broad(value)) => "WRONG",
        Culprit::Path(_) if values.iter().any(is_named) => "named",
        Culprit::Path(_) if kind == Kind::OfThreads => "unproven",
        Culprit::Path(_) if caused < LEAST_WAITS => "few",
        Culprit::Path(_) => "missed",
    };
    println!("{verdict} {values:?} after {caused} waits of {about}");
    if verdict == "WRONG" { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn many(seeds: std::ops::Range<u64>) -> ExitCode {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for seed in seeds {
        let me = std::env::current_exe().expect("a program");
        let output = Command::new(me).arg(seed.to_string()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout);
        let line = said.lines().rfind(|line| !line.starts_with("claim: ")).unwrap_or("WRONG: nothing is said");
        println!("{seed}: {line}");
        let verdict = if matches!(output.status.code(), Some(0 | 1)) { line } else { "WRONG" };
        *counts.entry(verdict.split([' ', ':']).next().unwrap_or_default().to_owned()).or_default() += 1;
    }
    let count = |verdict: &str| counts.get(verdict).copied().unwrap_or_default();
    let (named, wrong) = (count("named"), count("WRONG"));
    let planted = named + count("missed");
    let (silent, few) = (count("silent"), count("few"));
    println!(
        "named {named} of {planted} planted values, {wrong} wrong; silent {silent} times, rightly; {few} have few"
    );
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
            eprintln!("planted_values SEED, or planted_values --seeds A..B");
            ExitCode::FAILURE
        }
    }
}
