//! Helper threads: programs made at random, which know in whose range each launch belongs.
#![allow(unsafe_code)] // an event loop, and the system's number of a thread

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tracing::info_span;
use tracing_gpu::summary::TreeNode;
use tracing_gpu::{Note, Output, Profiler, Summary};

use crate::fake::Fake;
use crate::profiler::{HANDLE, finish, start, thread_number};

const PROGRAMS: u64 = 100;

/// Launches by the path that they belong to. What is in none of these belongs outside.
type Truth = BTreeMap<String, u64>;

/// One program: its number is in all its names.
struct Program<'a> {
    number: u64,
    random: u64,
    gpu: &'a Gpu<'a>,
    /// Launches that must be found below a range.
    certain: Truth,
    /// Launches that may be there or outside, because the range ends meanwhile.
    possible: Truth,
}

/// The made-up GPU, for any thread.
struct Gpu<'a> {
    fake: &'a Fake,
    launched: AtomicU32,
    records: Mutex<()>,
}

impl Gpu<'_> {
    fn launch(&self) {
        let correlation = self.launched.fetch_add(1, SeqCst) + 1;
        self.fake.call(crate::fake::LAUNCH, correlation, HANDLE);
        let _one_at_a_time = self.records.lock().expect("no panic");
        self.fake.kernel(correlation, c"spin", 10);
    }
}

/// Works on the host, as a helper does before it launches.
fn compute(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// The pause before the first launch of a job, and between two of a burst.
const PREPARATION: Duration = Duration::from_micros(150);

/// Returns when the thread with this number sleeps in a futex.
fn until_it_sleeps(thread: u32) {
    let futex = format!("{} ", libc::SYS_futex);
    let sleeps = || {
        let state = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall"));
        state.expect("a thread of this process").starts_with(&futex)
    };
    while !sleeps() {
        std::thread::yield_now();
    }
}

impl Program<'_> {
    fn below(&mut self, most: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % most
    }

    fn name(&self, name: &str) -> String {
        format!("{name} {}", self.number)
    }

    fn path(&self, range: &str, helper: &str) -> String {
        format!("{} > [thread {}]", self.name(range), self.name(helper))
    }
}

/// A job for a helper, and where to send the answer.
struct Job {
    /// The thread that sleeps before the helper begins.
    waiter: u32,
    launches: u64,
    done: Sender<()>,
}

/// A helper that does jobs until there are no more, and the number of its thread.
fn helper<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    gpu: &'scope Gpu<'_>,
    name: String,
) -> (Sender<Job>, u32) {
    lingering_helper(scope, gpu, name, 0)
}

/// The same; it makes so many calls after each answer.
fn lingering_helper<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    gpu: &'scope Gpu<'_>,
    name: String,
    late: u64,
) -> (Sender<Job>, u32) {
    let (give, jobs): (Sender<Job>, Receiver<Job>) = channel();
    let (tell, told) = channel();
    let work = move || {
        tell.send(thread_number()).expect("somebody waits");
        for Job { waiter, launches, done } in jobs {
            until_it_sleeps(waiter);
            compute(PREPARATION);
            (0..launches).for_each(|_| gpu.launch());
            done.send(()).expect("somebody waits");
            (0..late).for_each(|_| gpu.launch());
        }
    };
    std::thread::Builder::new().name(name).spawn_scoped(scope, work).expect("a thread");
    (give, told.recv().expect("a number"))
}

fn job(launches: u64) -> (Job, Receiver<()>) {
    let (done, is_done) = channel();
    (Job { waiter: thread_number(), launches, done }, is_done)
}

/// One range after the other hands work to helpers, in turns, and waits.
fn turns(program: &mut Program<'_>) {
    let (helpers, rounds) = (1 + program.below(3), 1 + program.below(12));
    std::thread::scope(|scope| {
        let names: Vec<String> = (0..helpers).map(|helper| format!("helper {helper}")).collect();
        let all: Vec<_> = names.iter().map(|name| helper(scope, program.gpu, program.name(name))).collect();
        for round in 0..rounds {
            let (which, range) = ((round % helpers) as usize, ["train", "infer"][program.below(2) as usize]);
            let launches = 1 + program.below(50);
            let (job, done) = job(launches);
            until_it_sleeps(all[which].1); // else it takes the job without having slept
            compute(PREPARATION);
            info_span!("range", nvtx.name = program.name(range)).in_scope(|| {
                all[which].0.send(job).expect("a helper");
                done.recv().expect("an answer");
            });
            *program.certain.entry(program.path(range, &names[which])).or_default() += launches;
        }
        drop(all);
    });
}

/// One range launches and hands work to a helper again and again, as a training loop does.
fn in_one_range(program: &mut Program<'_>) {
    let (rounds, gpu) = (2 + program.below(5), program.gpu);
    let (mut own, mut of_helper) = (0, 0);
    std::thread::scope(|scope| {
        let (give, thread) = helper(scope, gpu, program.name("backward"));
        info_span!("range", nvtx.name = program.name("all")).in_scope(|| {
            for _ in 0..rounds {
                let (forward, launches) = (1 + program.below(9), 1 + program.below(50));
                (0..forward).for_each(|_| gpu.launch());
                let (job, done) = job(launches);
                until_it_sleeps(thread);
                give.send(job).expect("a helper");
                done.recv().expect("an answer");
                (own, of_helper) = (own + forward, of_helper + launches);
            }
        });
    });
    *program.certain.entry(program.name("all")).or_default() += own;
    *program.certain.entry(program.path("all", "backward")).or_default() += of_helper;
}

/// One helper works for a range that then goes on by itself, and for ranges of another thread meanwhile. After each
/// answer it makes a few calls more.
fn shared(program: &mut Program<'_>) {
    let (jobs, launches, late) = (1 + program.below(9), 20 + program.below(90), program.below(9));
    let (gpu, first) = (program.gpu, program.name("first"));
    std::thread::scope(|scope| {
        let (give, thread) = lingering_helper(scope, gpu, program.name("serves"), late);
        let (end, ended) = channel::<()>();
        let (tell, told) = channel();
        let give_first = give.clone();
        scope.spawn(move || {
            info_span!("range", nvtx.name = first).in_scope(|| {
                let (job, done) = job(3);
                give_first.send(job).expect("a helper");
                done.recv().expect("an answer");
                tell.send(()).expect("somebody waits");
                while ended.try_recv().is_err() {
                    compute(PREPARATION);
                }
            });
        });
        told.recv().expect("an answer");
        for _ in 0..jobs {
            until_it_sleeps(thread);
            compute(PREPARATION);
            let (job, done) = job(launches);
            info_span!("range", nvtx.name = program.name("second")).in_scope(|| {
                give.send(job).expect("a helper");
                done.recv().expect("an answer");
            });
        }
        end.send(()).expect("somebody waits");
        drop(give);
    });
    *program.certain.entry(program.path("first", "serves")).or_default() += 3;
    *program.possible.entry(program.path("first", "serves")).or_default() += late;
    *program.certain.entry(program.path("second", "serves")).or_default() += jobs * launches;
    *program.possible.entry(program.path("second", "serves")).or_default() += jobs * late;
}

/// A range waits for the end of a thread that it began, which opens a range itself.
fn join(program: &mut Program<'_>) {
    let (launches, inside) = (1 + program.below(90), program.below(9));
    let (gpu, waiter) = (program.gpu, thread_number());
    let own = program.name("own");
    std::thread::scope(|scope| {
        info_span!("range", nvtx.name = program.name("join")).in_scope(|| {
            let work = || {
                until_it_sleeps(waiter);
                (0..launches).for_each(|_| gpu.launch());
                info_span!("own", nvtx.name = own).in_scope(|| (0..inside).for_each(|_| gpu.launch()));
                (0..launches).for_each(|_| gpu.launch());
            };
            let helper = std::thread::Builder::new().name(program.name("joined")).spawn_scoped(scope, work);
            helper.expect("a thread").join().expect("no panic");
        });
    });
    *program.certain.entry(program.path("join", "joined")).or_default() += 2 * launches;
    *program.certain.entry(format!("{} > {own}", program.path("join", "joined"))).or_default() += inside;
}

/// A thread whose range waits until the returned channel is dropped. It sleeps when this function returns.
fn idle<'scope>(scope: &'scope std::thread::Scope<'scope, '_>, range: String) -> Sender<()> {
    let (end, ended) = channel::<()>();
    let (tell, told) = channel();
    scope.spawn(move || {
        info_span!("range", nvtx.name = range).in_scope(|| {
            tell.send(thread_number()).expect("somebody waits");
            let _closed = ended.recv();
        });
    });
    until_it_sleeps(told.recv().expect("a number"));
    end
}

/// Two ranges wait: work belongs to neither.
fn two_wait(program: &mut Program<'_>) {
    let launches = 1 + program.below(60);
    std::thread::scope(|scope| {
        let end = idle(scope, program.name("idle"));
        let (give, _helper) = helper(scope, program.gpu, program.name("helper"));
        let (job, done) = job(launches);
        info_span!("range", nvtx.name = program.name("one of two")).in_scope(|| {
            give.send(job).expect("a helper");
            done.recv().expect("an answer");
        });
        drop(end);
    });
}

/// How often this thread has gone to sleep.
fn sleeps() -> i64 {
    // SAFETY: zeros are a value of the struct, and the call writes one.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage.ru_nvcsw
    }
}

/// A thread launches without a pause, before a range opens that waits for something else, and meanwhile. On a busy
/// machine it may sleep all the same, in a lock of a moment: then nobody can tell it from a helper.
fn unrelated(program: &mut Program<'_>) {
    let (gpu, stop) = (program.gpu, AtomicBool::new(false));
    let begun = AtomicBool::new(false);
    let slept = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let work = || {
            let (mut last, mut before) = (Instant::now(), sleeps());
            while !stop.load(SeqCst) {
                gpu.launch();
                let now = sleeps();
                if now != before && last.elapsed() > Duration::from_micros(30) {
                    slept.store(true, SeqCst);
                }
                (last, before) = (Instant::now(), now);
                begun.store(true, SeqCst);
            }
        };
        std::thread::Builder::new().name(program.name("busy")).spawn_scoped(scope, work).expect("a thread");
        while !begun.load(SeqCst) {
            std::thread::yield_now();
        }
        let (tell, told) = channel();
        let (go, goes) = channel();
        let other = scope.spawn(move || {
            goes.recv().expect("a begin");
            compute(PREPARATION * 4);
            tell.send(()).expect("somebody waits");
        });
        compute(PREPARATION * 4);
        go.send(()).expect("somebody waits");
        info_span!("range", nvtx.name = program.name("elsewhere")).in_scope(|| told.recv().expect("an answer"));
        other.join().expect("no panic");
        stop.store(true, SeqCst);
    });
    if slept.load(SeqCst) {
        program.possible.insert(program.path("elsewhere", "busy"), u64::MAX / 2);
    }
}

/// An event loop whose range is open, and a wait with a time limit.
fn event_loop(program: &mut Program<'_>) {
    let launches = 1 + program.below(60);
    let has_limit = program.below(2) == 0;
    let (gpu, name) = (program.gpu, program.name("worker"));
    let (mut end, mut into) = std::io::pipe().expect("a pipe");
    std::thread::scope(|scope| {
        let (tell, told) = channel();
        let work = move || {
            compute(PREPARATION);
            (0..launches).for_each(|_| gpu.launch());
            std::io::Write::write_all(&mut into, &[1]).expect("a reader");
            let _nobody_waits = tell.send(());
        };
        info_span!("range", nvtx.name = program.name("loop")).in_scope(|| {
            std::thread::Builder::new().name(name).spawn_scoped(scope, work).expect("a thread");
            if has_limit {
                told.recv_timeout(Duration::from_secs(60)).expect("an answer");
            } else {
                std::io::Read::read_exact(&mut end, &mut [0]).expect("a byte");
            }
        });
    });
}

/// Work that goes on after the range that waited, while the next range waits for something else.
fn outlives(program: &mut Program<'_>) {
    let (gpu, waiter) = (program.gpu, thread_number());
    let is_over = Arc::new(AtomicBool::new(false));
    let (more, inside) = (program.below(40), Arc::new(Mutex::new((0, 0))));
    std::thread::scope(|scope| {
        let (half, is_half) = channel();
        let (counts, over) = (Arc::clone(&inside), Arc::clone(&is_over));
        let (go, tell_later) = channel();
        let (tell, told) = channel();
        let other = scope.spawn(move || {
            tell_later.recv().expect("a begin");
            compute(PREPARATION * 2);
            tell.send(()).expect("somebody waits");
        });
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut late = Some(program.name("late"));
        let work = move || {
            until_it_sleeps(waiter);
            let mut tell = Some(half);
            let mut after = 0;
            while !stopped.load(SeqCst) || after < more {
                let was_over = over.load(SeqCst);
                gpu.launch();
                let mut counts = counts.lock().expect("no panic");
                if tell.is_some() {
                    counts.0 += 1;
                } else if !was_over {
                    counts.1 += 1;
                } else {
                    after += 1;
                }
                if counts.0 == 20
                    && let Some(tell) = tell.take()
                {
                    tell.send(()).expect("somebody waits");
                }
                if over.load(SeqCst)
                    && let Some(late) = late.take()
                {
                    info_span!("range", nvtx.name = late).in_scope(|| gpu.launch());
                }
            }
        };
        std::thread::Builder::new().name(program.name("goes on")).spawn_scoped(scope, work).expect("a thread");
        info_span!("range", nvtx.name = program.name("half")).in_scope(|| is_half.recv().expect("an answer"));
        is_over.store(true, SeqCst);
        go.send(()).expect("somebody waits");
        info_span!("range", nvtx.name = program.name("next")).in_scope(|| told.recv().expect("an answer"));
        other.join().expect("no panic");
        stop.store(true, SeqCst);
    });
    let (certain, possible) = *inside.lock().expect("no panic");
    *program.certain.entry(program.path("half", "goes on")).or_default() += certain;
    *program.possible.entry(program.path("half", "goes on")).or_default() += possible;
    *program.possible.entry(program.name("late")).or_default() += 1;
}

/// The process's main thread launches, while another one waits in its range.
fn main_launches(program: &mut Program<'_>) {
    let launches = program.below(30);
    std::thread::scope(|scope| {
        let end = idle(scope, program.name("idle"));
        (0..launches).for_each(|_| program.gpu.launch());
        drop(end);
    });
}

const KINDS: [fn(&mut Program<'_>); 9] =
    [turns, in_one_range, shared, join, two_wait, unrelated, event_loop, outlives, main_launches];

pub(crate) fn helpers(fake: &Fake, tier: &str) {
    let profiler: Profiler = start(Profiler::builder().gpu(tracing_gpu::Gpu::Cupti).output(Output::None), tier);
    let gpu = &Gpu { fake, launched: AtomicU32::new(0), records: Mutex::new(()) };
    let (mut certain, mut possible) = (Truth::new(), Truth::new());
    for number in 0..PROGRAMS {
        let random = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut program = Program { number, random, gpu, certain: Truth::new(), possible: Truth::new() };
        for _ in 0..1 + program.below(4) {
            let kind = KINDS[program.below(KINDS.len() as u64) as usize];
            kind(&mut program);
        }
        certain.append(&mut program.certain);
        possible.append(&mut program.possible);
    }
    let summary: Summary = profiler.summary();
    let all = summary.gpu.as_ref().expect("records").total.operations;
    assert_eq!(all, u64::from(gpu.launched.load(SeqCst)), "{:?}", summary.losses.activity);
    let mut found = Truth::new();
    summary.tree.iter().for_each(|node| add(node, "", &mut found));
    for (path, &operations) in &found {
        let least = certain.get(path).copied().unwrap_or(0);
        let most = least + possible.get(path).copied().unwrap_or(0);
        assert!((least..=most).contains(&operations), "{path}: {operations}, not {least} to {most}");
    }
    let missing: Vec<_> = certain.iter().filter(|(path, count)| **count > 0 && !found.contains_key(*path)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let is_undecided = |note: &Note| matches!(note, Note::ContestedCalls { .. });
    assert!(summary.notes.iter().any(is_undecided), "{:?}", summary.notes);
    finish(fake, profiler);
}

/// Adds the operations launched in each node, by its path.
fn add(node: &TreeNode, above: &str, found: &mut Truth) {
    let path = if above.is_empty() { node.name.clone() } else { format!("{above} > {}", node.name) };
    let own = node.gpu.as_ref().map_or(0, |work| work.own.operations);
    if own > 0 {
        found.insert(path.clone(), own);
    }
    if node.name.starts_with("[thread ") {
        let kernels = node.gpu.iter().flat_map(|work| &work.kernels);
        assert_eq!(kernels.map(|kernel| (kernel.executions, kernel.sum_ns)).collect::<Vec<_>>(), [(own, 10 * own)]);
    }
    node.children.iter().for_each(|child| add(child, &path, found));
}
