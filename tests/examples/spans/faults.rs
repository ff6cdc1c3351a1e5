//! Bad input: from the environment, from the program, and in excess.

use crate::stage::{enter, exit, measure_with, on_thread, print, silent};
use crate::{Outcome, Scenario, Tier};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Barrier;
use tracing::{info, info_span};
use tracing_gpu::{Domain, Output, Profiler, Report};

pub(crate) const ALL: &[Scenario] = &[
    ("steady", steady),
    ("defaults", defaults),
    ("goes-elsewhere", goes_elsewhere),
    ("many-names", many_names),
    ("phases-of-a-rank", phases_of_a_rank),
    ("too-many-names", too_many_names),
    ("long-names", long_names),
    ("too-many-nodes", too_many_nodes),
    ("too-many-domains", too_many_domains),
    ("crowded-budget", crowded_budget),
    ("crowded-roomy-budget", crowded_roomy_budget),
    ("spent-budget", spent_budget),
    ("empty-domain", empty_domain),
    ("tiny-budget", tiny_budget),
    ("unwritable-finish", unwritable_finish),
    ("unwritable-drop", unwritable_drop),
    ("unwritable-exit", unwritable_exit),
];

/// A mixture of everything, the same each time.
fn everything() {
    for request in 0..10u64 {
        let span = info_span!("request", nvtx.lifetime = true, nvtx.category = "net", nvtx.payload = request);
        span.in_scope(|| info_span!("step").in_scope(|| info!("event")));
        let (outer, inner) = (info_span!("outer").entered(), info_span!("inner").entered());
        drop(outer);
        drop(inner);
    }
    on_thread("worker", || info_span!("there", nvtx.name = "named").in_scope(|| ()));
}

fn steady(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        everything();
        Ok(())
    })
}

/// Prints according to the environment.
fn defaults(tier: Tier) -> Outcome {
    let profiler = Profiler::builder().build()?;
    tier.install(&profiler)?;
    everything();
    writeln!(std::io::stdout(), "went on")?;
    Ok(())
}

/// Is in another folder when it ends.
fn goes_elsewhere(tier: Tier) -> Outcome {
    let profiler = Profiler::builder().build()?;
    tier.install(&profiler)?;
    everything();
    std::env::set_current_dir("elsewhere")?;
    Ok(())
}

fn many_names(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        for _ in 0..2 {
            for number in 0..10_000u32 {
                info_span!("span", nvtx.name = number).in_scope(|| ());
            }
        }
        Ok(())
    })
}

/// 20 phases of 10 steps each, like one of many processes.
fn phases_of_a_rank(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        for _ in 0..3 {
            for layer in 0..20u32 {
                let name = format!("forward of layer {layer}");
                let _layer = info_span!("layer", nvtx.name = name).entered();
                for step in 0..10u32 {
                    let name = format!("layer {layer}, step {step}");
                    info_span!("step", nvtx.name = name).in_scope(|| ());
                }
            }
        }
        Ok(())
    })
}

/// 65,536 fit; each of the rest is counted, each time.
fn too_many_names(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        let parent = info_span!("parent");
        for number in 0..70_000u32 {
            info_span!(parent: &parent, "span", nvtx.name = number).in_scope(|| ());
        }
        for number in 0..10u32 {
            info_span!(parent: &parent, "span", nvtx.name = number).in_scope(|| ());
        }
        Ok(())
    })
}

/// 200 names of 1 MB that differ only at their end, and 200 that differ only at their beginning.
fn long_names(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        let long = "x".repeat(1_000_000);
        for number in 0..200 {
            let (front, back) = (format!("{number} {long}"), format!("{long} {number}"));
            info_span!("span", nvtx.name = front).in_scope(|| ());
            info_span!("span", nvtx.name = back).in_scope(|| ());
        }
        Ok(())
    })
}

/// 300 names under each of 300 names.
fn too_many_nodes(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        for outer in 0..300u32 {
            let parent = info_span!("outer", nvtx.name = outer).entered();
            for inner in 0..300u32 {
                info_span!("inner", nvtx.name = inner).in_scope(|| ());
            }
            drop(parent);
        }
        Ok(())
    })
}

/// Spans in the 4,096 domains that fit, and in further ones: `tracing` targets are static, so the domains are used up
/// first.
fn too_many_domains(tier: Tier) -> Outcome {
    for number in 0.. {
        if nvtx_rs::Domain::named(&format!("domain {number}")).is_err() {
            break;
        }
    }
    measure_with(tier, silent().domain(Domain::PerTarget), |_| {
        info_span!(target: "domain 7", "fits").in_scope(|| ());
        info_span!(target: "does not fit", "left over").in_scope(|| info!(target: "does not fit", "event"));
        Ok(())
    })
}

/// 64 threads with 128 names each and 100 instances of each, more than a row holds by itself, within 1 MiB for
/// durations.
fn crowded_budget(tier: Tier) -> Outcome {
    crowd_of_names(tier, 1 << 20)
}

/// The same with room for all durations.
fn crowded_roomy_budget(tier: Tier) -> Outcome {
    crowd_of_names(tier, 64 << 20)
}

/// Prints how many KiB are allocated before the summary is taken.
#[allow(unsafe_code)]
fn crowd_of_names(tier: Tier, budget: usize) -> Outcome {
    // SAFETY: no other thread runs yet. With one arena its figures are those of the process.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    measure_with(tier, silent().sample_budget(budget), |_| {
        let barrier = Barrier::new(64);
        std::thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    // A first span before the barrier, so that all threads have a state, and none is passed on
                    // meanwhile.
                    info_span!("span", nvtx.name = 0).in_scope(|| ());
                    barrier.wait();
                    for name in (1..100 * 128u32).map(|number| number % 128) {
                        info_span!("span", nvtx.name = name).in_scope(|| ());
                    }
                });
            }
        });
        // SAFETY: it reads the allocator's counts under the allocator's own lock.
        let allocated = unsafe { libc::mallinfo2() };
        writeln!(std::io::stderr(), "{}", (allocated.uordblks + allocated.hblkhd) >> 10)?;
        Ok(())
    })
}

/// The first range takes all the memory for durations; the second has none. Both durations are still correct.
fn spent_budget(tier: Tier) -> Outcome {
    let profiler = Profiler::builder().sample_budget(64 << 10).report([Report::Ranges]).build()?;
    tier.install(&profiler)?;
    for _ in 0..100_000 {
        info_span!("first").in_scope(|| ());
    }
    for name in (0..40 * 1_000u32).map(|number| number % 1_000) {
        info_span!("others", nvtx.name = name).in_scope(|| ());
    }
    let last = info_span!("last");
    for milliseconds in [2, 30, 10].into_iter().chain([2; 37]) {
        // more than a row holds by itself
        enter(&last);
        let begin = std::time::Instant::now();
        while begin.elapsed().as_millis() < milliseconds {
            std::hint::spin_loop();
        }
        exit(&last);
    }
    print(&profiler.summary())?;
    Ok(())
}

fn empty_domain(_: Tier) -> Outcome {
    let error = Profiler::builder().domain(Domain::Named(String::new())).build();
    writeln!(std::io::stdout(), "{:?}", error.map(drop))?;
    Ok(())
}

fn tiny_budget(_: Tier) -> Outcome {
    let error = Profiler::builder().sample_budget(1_000).build();
    writeln!(std::io::stdout(), "{:?}", error.map(drop))?;
    Ok(())
}

fn unwritable(tier: Tier) -> Result<Profiler, Box<dyn std::error::Error>> {
    let path = PathBuf::from("/no/such/folder/report.txt");
    let profiler = Profiler::builder().output(Output::File(path)).build()?;
    tier.install(&profiler)?;
    everything();
    Ok(profiler)
}

fn unwritable_finish(tier: Tier) -> Outcome {
    match unwritable(tier)?.finish() {
        Ok(()) => Err("it was written".into()),
        Err(error) => Ok(writeln!(std::io::stdout(), "{error}")?),
    }
}

fn unwritable_drop(tier: Tier) -> Outcome {
    drop(unwritable(tier)?);
    std::process::exit(7);
}

fn unwritable_exit(tier: Tier) -> Outcome {
    std::mem::forget(unwritable(tier)?);
    std::process::exit(7);
}
