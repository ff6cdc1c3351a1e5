//! Shapes of runs whose first line has a known answer, beside up to four busy threads a processor: one slow call in the
//! middle, loops beside many awaited calls, timers that come late. The program measures the truth around its spans.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tracing::{Instrument as _, info_span};
use tracing_gpu::analysis::{Evidence, Finding, FindingKind};
use tracing_gpu::{Output, Profiler, Summary, SummaryExt as _};
use tracing_subscriber::prelude::*;

/// Runs the shape of a seed. Returns a line that begins with `named`, `silent` or `WRONG`.
pub fn run(seed: u64) -> String {
    let mut rng = Rng::with_seed(seed);
    let is_over = Arc::new(AtomicBool::new(false));
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let busy = rng.usize(0..4) * processors;
    let spinners: Vec<_> = (0..busy)
        .map(|_| {
            let is_over = is_over.clone();
            thread::spawn(move || {
                while !is_over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    let (name, verdict) = match rng.u32(0..3) {
        0 => ("slow call", slow_call(&mut rng)),
        1 => ("loops", loops(&mut rng)),
        _ => ("late timers", late_timers(&mut rng)),
    };
    is_over.store(true, Relaxed);
    spinners.into_iter().for_each(|thread| thread.join().expect("no panic"));
    match verdict {
        Ok(said) => {
            format!("{} {name} beside {busy} busy threads: {said}", if said.is_empty() { "silent" } else { "named" })
        }
        Err(wrong) => format!("WRONG {name} beside {busy} busy threads: {wrong}"),
    }
}

/// What was found; empty where nothing was said.
type Verdict = Result<String, String>;

fn spin(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// A profiler, as the layer or alone, and when it certainly did not exist yet.
fn start(rng: &mut Rng) -> (Profiler, Instant) {
    let before = Instant::now();
    let profiler = Profiler::builder().output(Output::None).build().expect("a profiler");
    if rng.bool() {
        tracing_subscriber::registry().with(profiler.layer()).init();
    } else {
        profiler.subscriber().init();
    }
    (profiler, before)
}

fn end(profiler: Profiler) -> Summary {
    let summary = profiler.summary();
    profiler.finish().expect("a report");
    summary
}

fn first(findings: &[Finding], kind: FindingKind) -> Option<&Finding> {
    findings.iter().find(|finding| finding.kind() == kind)
}

fn name_of(finding: &Finding) -> &str {
    finding.span.last().map_or("", String::as_str)
}

/// A call as it was measured: from before its span was made and from inside of it, to inside and to after its exit.
#[derive(Clone, Copy)]
struct Measured {
    began: [Instant; 2],
    ended: [Instant; 2],
}

impl Measured {
    fn at_least(&self) -> Duration {
        self.ended[0] - self.began[1]
    }

    fn at_most(&self) -> Duration {
        self.ended[1] - self.began[0]
    }
}

/// Threads that make tiles; one tile of one of them is slow, mostly not the first. Then all is saved.
fn slow_call(rng: &mut Rng) -> Verdict {
    let (threads, tiles) = (rng.usize(1..5), rng.usize(20..120));
    let (slow_on, slow) = (rng.usize(0..threads), if rng.u32(0..4) == 0 { 0 } else { rng.usize(1..tiles) });
    let (each, long, save) = (rng.u64(100..500), rng.u64(40..400), rng.u64(10..150));
    let (profiler, before) = start(rng);
    let after = Instant::now();
    let tile = move |is_slow: bool, index: usize| {
        let outside = Instant::now();
        let (began, ended) = info_span!("tile", index).in_scope(|| {
            let began = Instant::now();
            spin(if is_slow { Duration::from_millis(long) } else { Duration::from_micros(each) });
            (began, Instant::now())
        });
        Measured { began: [outside, began], ended: [ended, Instant::now()] }
    };
    let work =
        move |thread| (0..tiles).map(|index| tile((thread, index) == (slow_on, slow), index)).collect::<Vec<_>>();
    // The slow one comes first where it is the first of its thread: then it is the first of all.
    let order = (0..threads).map(|thread| (thread + slow_on) % threads);
    let running: Vec<_> = order.map(|thread| (thread, thread::spawn(move || work(thread)))).collect();
    let mut calls: Vec<(usize, usize, Measured)> = Vec::new();
    for (thread, done) in running {
        let done = done.join().expect("no panic");
        calls.extend(done.into_iter().enumerate().map(|(index, call)| (thread, index, call)));
    }
    info_span!("save").in_scope(|| spin(Duration::from_millis(save)));
    let summary = end(profiler);
    let findings = summary.findings();
    let by_length = |call: &&(usize, usize, Measured)| call.2.at_most();
    let (thread, index, longest) = *calls.iter().max_by_key(by_length).expect("a tile");
    let others = calls.iter().filter(|call| (call.0, call.1) != (thread, index));
    let of_others: Duration = others.clone().map(|call| call.2.at_most()).sum();
    let is_sure = others.map(|call| call.2.at_most()).max().is_some_and(|next| next < longest.at_least())
        && of_others < longest.at_least();
    let Some(found) = findings.iter().find(|it| it.kind() == FindingKind::OneLongCall && name_of(it) == "tile") else {
        return if is_sure { Err("no long call".to_owned()) } else { Ok(String::new()) };
    };
    if !is_sure {
        return Ok(String::new()); // other threads had the processor for long
    }
    let Evidence::OneLongCall { longest_ns, is_warm_up, number, start_ns, .. } = found.evidence else {
        return Err("no evidence".to_owned());
    };
    let sentence = found.sentence.clone();
    let between = |ns: u64, least: Duration, most: Duration| (least..=most).contains(&Duration::from_nanos(ns));
    let start = start_ns.ok_or("no moment")?;
    let near = Duration::from_micros(50);
    let drift = longest.began[1].duration_since(before) / 100; // of the clock's rate
    let is_right = number == Some(index as u64 + 1)
        && is_warm_up == (index == 0)
        && between(longest_ns, longest.at_least().mul_f64(0.99), longest.at_most().mul_f64(1.01))
        && between(
            start,
            longest.began[0].duration_since(after).saturating_sub(near + drift),
            longest.began[1].duration_since(before) + near + drift,
        );
    // A slow call is in the order, and a warm-up is not.
    let most = first(&findings, FindingKind::MostOwnTime).map_or("", name_of);
    let of_tiles = if is_warm_up { of_others } else { of_others + longest.at_least() };
    let saved = Duration::from_millis(save);
    let is_close = of_tiles < saved * 2 && saved < of_tiles * 2; // `save` may be interrupted
    let is_most = is_close || most == if of_tiles > saved { "tile" } else { "save" };
    let truth = format!("{} of {tiles} on thread {thread}, {:?}; most is {most}", index + 1, longest.at_most());
    if is_right && is_most { Ok(sentence) } else { Err(format!("{sentence}, which was {truth}")) }
}

/// Queries that are awaited one by one, at once, or in one call, mostly beside workers that wait for jobs.
fn loops(rng: &mut Rng) -> Verdict {
    let shape = rng.u32(0..3);
    let (queries, each, workers) = (rng.u64(20..60), rng.u64(2..6), if shape == 0 { rng.usize(0..4) } else { 0 });
    let (rendered, flushed) = (rng.u64(1..4), rng.u64(0..20));
    let (profiler, _) = start(rng);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let jobs: Vec<_> = (0..workers)
            .map(|_| {
                let (sender, mut receiver) = mpsc::unbounded_channel::<Duration>();
                let working = async move {
                    while let Some(time) = receiver.recv().await {
                        info_span!("job").in_scope(|| spin(time));
                    }
                };
                (sender, tokio::spawn(working.instrument(info_span!("worker"))))
            })
            .collect();
        let query = || sleep(Duration::from_millis(each)).instrument(info_span!("query"));
        match shape {
            0 => {
                for index in 0..queries {
                    query().await;
                    if let Some((sender, _)) = jobs.get(index as usize % 4) {
                        sender.send(Duration::from_micros(50)).expect("it works");
                    }
                }
            }
            1 => {
                let long = Duration::from_millis(queries * each);
                join_all((0..queries).map(|_| sleep(long).instrument(info_span!("query")))).await;
            }
            _ => {
                let all = async {
                    for _ in 0..queries {
                        sleep(Duration::from_millis(each)).await;
                    }
                };
                all.instrument(info_span!("query")).await;
            }
        }
        info_span!("render").in_scope(|| spin(Duration::from_millis(rendered)));
        let flush = Duration::from_millis(flushed.min(queries * each / 4));
        sleep(flush).instrument(info_span!("flush")).await;
        for (sender, working) in jobs {
            drop(sender);
            working.await.expect("no panic");
        }
    });
    let findings = end(profiler).findings();
    let loops: Vec<&str> = findings.iter().filter(|it| it.kind() == FindingKind::LongLoop).map(name_of).collect();
    let most = first(&findings, FindingKind::MostAwaited);
    let truth = format!("shape {shape}, {queries} queries of {each} ms, {workers} workers: {loops:?}");
    match most {
        _ if loops.iter().any(|name| *name != "worker") => Err(truth),
        Some(most) if name_of(most) != "query" => Err(format!("{truth}, {}", most.sentence)),
        Some(most) => Ok(most.sentence.clone()),
        None => Ok(String::new()), // it ran for longer, as other threads had the processor
    }
}

/// Naps on the only worker of a runtime, some of which a spin overlaps: it is owed no more than they were late.
fn late_timers(rng: &mut Rng) -> Verdict {
    let (rounds, nap, block) = (rng.u32(40..80), rng.u64(5..20), rng.u64(10..40));
    let nap = Duration::from_millis(nap);
    let (profiler, _) = start(rng);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let late = runtime.block_on(async {
        let mut late = Duration::ZERO;
        for round in 0..rounds {
            let napping = async move {
                let begun = Instant::now();
                sleep(nap).await;
                begun.elapsed().saturating_sub(nap)
            };
            let napping = tokio::spawn(napping.instrument(info_span!("nap")));
            tokio::task::yield_now().await;
            if round % 2 == 0 {
                let blocking = async move { spin(Duration::from_millis(block)) };
                tokio::spawn(blocking.instrument(info_span!("block"))).await.expect("no panic");
            }
            late += napping.await.expect("no panic");
        }
        late
    });
    let summary = end(profiler);
    let of_naps = summary.waits.iter().filter(|row| row.waiter == "nap" && row.by.is_some());
    let (mut owed, mut by) = (0, Vec::new());
    for row in of_naps {
        owed += row.time_ns;
        by.push(row.by.clone().unwrap_or_default());
    }
    let most = late.mul_f64(1.01) + Duration::from_micros(50) * rounds;
    let truth = format!("nap waited {:?} for {by:?}, and was late by {late:?}", Duration::from_nanos(owed));
    match Duration::from_nanos(owed) <= most && by.iter().all(|by| by == "block") {
        true if by.is_empty() => Ok(String::new()),
        true => Ok(truth),
        false => Err(truth),
    }
}
