//! The contents of a timeline: all kinds of spans and events, on several threads, and ranges that are open when the
//! process is killed.

use crate::stage::{Tier, enter, exit, on_thread, thread};
use crate::{Outcome, Scenario};
use std::hint::black_box;
use std::io::{BufRead as _, Write as _};
use std::time::{Duration, Instant};
use tracing::{debug, error, info, info_span};
use tracing_gpu::{Domain, Profiler, ProfilerBuilder, Report};
use tracing_subscriber::filter::{LevelFilter, Targets};

pub(crate) const ALL: &[Scenario] = &[
    ("timeline", everything),
    ("timeline-domains", domains),
    ("timeline-without-statistics", without_statistics),
    ("timeline-cut", cut),
    ("timeline-reset", reset),
    ("timeline-lost", lost),
    ("timeline-room", room),
    ("timeline-short-threads", short_threads),
    ("timeline-fed", fed),
];

fn builder() -> ProfilerBuilder {
    Profiler::builder().report([Report::Ranges]).filter(Targets::new().with_default(LevelFilter::TRACE))
}

fn busy(microseconds: u64) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_micros(microseconds) {
        black_box(&start);
    }
}

fn everything(tier: Tier) -> Outcome {
    let profiler = builder().build()?;
    tier.install(&profiler)?;
    let workers: Vec<_> =
        (0..3).map(|number| thread(&format!("worker {number}"), move || batch(number))).collect::<Result<_, _>>()?;
    batch(100);
    for worker in workers {
        worker.join().map_err(|_| "a worker panicked")?;
    }
    values();
    let request = info_span!("request", nvtx.lifetime = true, nvtx.color = "blue", nvtx.category = "net", id = 7);
    request.in_scope(|| busy(20));
    drop(request);
    let request = info_span!("request", nvtx.lifetime = true, id = 8);
    on_thread("closer", move || {
        request.in_scope(|| busy(20));
        drop(request);
    });
    Ok(())
}

/// Longer than the writer's period, so that nested ranges are written in several pieces.
fn batch(number: u64) {
    let all = info_span!("batch", number);
    let _all = all.enter();
    info!("batch {number} begins");
    for layer in 0..60u64 {
        let _layer = info_span!("layer", nvtx.name = %format!("layer {}", layer % 4), layer, kind = "conv").entered();
        for _ in 0..20 {
            info_span!("kernel").in_scope(|| busy(10));
        }
        // Entered again, also while it is open.
        let again = info_span!("again");
        again.in_scope(|| again.in_scope(|| busy(5)));
        again.in_scope(|| ());
        // Out of order: `inner` is closed and reopened.
        let (outer, inner) =
            (info_span!("left early"), info_span!("reopened", nvtx.color = "red", nvtx.payload = layer));
        enter(&outer);
        enter(&inner);
        busy(5);
        exit(&outer);
        busy(5);
        exit(&inner);
    }
}

fn values() {
    info_span!("coloured", nvtx.color = "#76b900").in_scope(|| ());
    info_span!("categorised", nvtx.category = "io").in_scope(|| ());
    info_span!("numbered", nvtx.category = 7, nvtx.payload = -5).in_scope(|| ());
    info_span!("typed", text = "a \"b\"\n", small = -1i64, large = u64::MAX, half = 0.5, yes = true, shown = ?Some(1))
        .in_scope(|| ());
    let later = info_span!("recorded later", found = tracing::field::Empty);
    later.in_scope(|| ());
    later.record("found", "here");
    later.in_scope(|| ());
    error!(left = 3, ready = false, share = 0.5, disk = "/dev/\"a\"", mounted = ?Some(1), "disk \"is\" full");
    debug!("größe 日本語");
}

/// The same names in domains of their own.
fn domains(tier: Tier) -> Outcome {
    let profiler = builder().domain(Domain::PerTarget).build()?;
    tier.install(&profiler)?;
    for _ in 0..100 {
        let _read = info_span!(target: "io", "read", nvtx.category = "disk").entered();
        info_span!(target: "net", "read").in_scope(|| info!(target: "net", "packet"));
        // In another domain: neither is reopened when the other ends.
        let (outer, inner) = (info_span!(target: "io", "crossing"), info_span!(target: "net", "crossing"));
        enter(&outer);
        enter(&inner);
        exit(&outer);
        exit(&inner);
    }
    profiler.finish()?;
    Ok(())
}

fn without_statistics(tier: Tier) -> Outcome {
    let profiler = builder().statistics(false).build()?;
    tier.install(&profiler)?;
    info_span!("outer").in_scope(|| info_span!("inner").in_scope(|| busy(50)));
    profiler.finish()?;
    Ok(())
}

/// Ranges that are open when the profiler ends.
fn cut(tier: Tier) -> Outcome {
    let profiler = builder().build()?;
    tier.install(&profiler)?;
    let _outer = info_span!("outer", id = 1).entered();
    let _inner = info_span!("inner").entered();
    info_span!("closed").in_scope(|| ());
    profiler.finish()?;
    Ok(())
}

/// Windows begin while ranges are open; their values were written before.
fn reset(tier: Tier) -> Outcome {
    let profiler = builder().build()?;
    tier.install(&profiler)?;
    let request = info_span!("request", nvtx.lifetime = true, id = 9);
    let outer = info_span!("outer", id = 1).entered();
    let plain = info_span!("plain").entered();
    let inner = info_span!("inner", id = 2).entered();
    info_span!("before").in_scope(|| busy(50));
    // Earlier records are written by now, or arrive in one piece with the rest: both are correct.
    std::thread::sleep(Duration::from_millis(200));
    profiler.reset();
    info_span!("between").in_scope(|| busy(50));
    profiler.reset();
    info_span!("after").in_scope(|| busy(50));
    drop(inner);
    info_span!("next", id = 3).in_scope(|| ());
    drop((plain, outer, request));
    profiler.finish()?;
    Ok(())
}

/// More records than there is room for.
fn lost(tier: Tier) -> Outcome {
    let profiler = builder().timeline_memory(256 * 1024).build()?;
    tier.install(&profiler)?;
    for _ in 0..200_000 {
        info_span!("step").in_scope(|| ());
    }
    profiler.finish()?;
    Ok(())
}

/// In total far more records than there is room for, each part after the previous one has been written.
fn room(tier: Tier) -> Outcome {
    let profiler = builder().timeline_memory(256 * 1024).build()?;
    tier.install(&profiler)?;
    let settings = std::env::var("TRACING_GPU")?;
    let trace = settings.split(',').find_map(|setting| setting.strip_prefix("trace=")).ok_or("no trace")?;
    for round in 0..40 {
        for _ in 0..500 {
            info_span!("step").in_scope(|| ());
        }
        let last = format!("round {round} is over");
        info!("{last}");
        let begun = Instant::now();
        while !std::fs::read_to_string(trace)?.contains(&last) {
            if begun.elapsed() > Duration::from_secs(30) {
                return Err(format!("{last}, and it is not written").into());
            }
            std::thread::yield_now();
        }
    }
    profiler.finish()?;
    Ok(())
}

/// Threads that end before any of their records are written.
fn short_threads(tier: Tier) -> Outcome {
    let profiler = builder().build()?;
    tier.install(&profiler)?;
    for number in 0..20 {
        on_thread(&format!("short {number}"), move || info_span!("on", number).in_scope(|| ()));
    }
    profiler.finish()?;
    Ok(())
}

/// Makes 1,000 ranges, and then prints a line, for each line of standard input; the last word determines its end.
fn fed(tier: Tier) -> Outcome {
    let profiler = builder().on_signal(true).build()?;
    tier.install(&profiler)?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        for _ in 0..500 {
            info_span!("outer", line = line.as_str()).in_scope(|| info_span!("inner").in_scope(|| ()));
        }
        info!("{line}");
        writeln!(std::io::stdout(), "{line}")?;
        match line.as_str() {
            "exit" => std::process::exit(7),
            "panic" => panic!("on purpose"),
            _ => {}
        }
    }
    profiler.finish()?;
    Ok(())
}
