//! Reports without a range, each for one reason.

use crate::stage::Tier;
use crate::{Outcome, Scenario};
use std::io::Write as _;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::set_global_default;
use tracing::{debug_span, info_span, trace_span};
use tracing_gpu::{Profiler, Report};
use tracing_subscriber::prelude::*;

pub(crate) const ALL: &[Scenario] = &[
    ("empty-never-attached", never_attached),
    ("empty-not-installed", not_installed),
    ("empty-other-subscriber", other_subscriber),
    ("empty-all-filtered", all_filtered),
    ("empty-other-filter", other_filter),
    ("empty-other-filter-off", other_filter_off),
    ("empty-hidden", hidden),
    ("empty-hidden-first", hidden_first),
    ("empty-hidden-here", hidden_here),
    ("empty-hidden-each", hidden_each),
    ("empty-own-filter", own_filter),
    ("empty-own-filter-off", own_filter_off),
    ("empty-filter-of-nothing", filter_of_nothing),
    ("empty-reset", reset),
    ("empty-not-entered", not_entered),
    ("empty-dropped-at-once", dropped_at_once),
    ("empty-idle", idle),
    ("empty-guard-at-once", guard_at_once),
    ("empty-guard-idle", guard_idle),
    ("some-filtered", some_filtered),
    ("many-filtered", many_filtered),
];

/// A drop after this time does not count as immediate.
const LONG: Duration = Duration::from_millis(20);

fn start() -> Result<Profiler, Box<dyn std::error::Error>> {
    Ok(Profiler::builder().report([Report::Ranges]).build()?)
}

fn work() {
    info_span!("work").in_scope(|| ());
}

fn never_attached(_: Tier) -> Outcome {
    let _profiler = start()?;
    work();
    Ok(())
}

fn not_installed(tier: Tier) -> Outcome {
    let profiler = start()?;
    match tier {
        Tier::Layer => drop(tracing_subscriber::registry().with(profiler.layer())),
        _ => drop(profiler.subscriber()),
    }
    work();
    Ok(())
}

fn other_subscriber(tier: Tier) -> Outcome {
    set_global_default(tracing_subscriber::registry())?;
    let profiler = start()?;
    assert!(tier.install(&profiler).is_err());
    work();
    Ok(())
}

fn all_filtered(tier: Tier) -> Outcome {
    let profiler = start()?;
    tier.install(&profiler)?;
    filtered();
    Ok(())
}

fn filtered() {
    for _ in 0..2 {
        debug_span!("one").in_scope(|| ());
        trace_span!("two").in_scope(|| ());
        debug_span!(target: "tower_http::trace", "request").in_scope(|| ());
        for target in 0..2 {
            match target {
                0 => trace_span!(target: "h2", "poll").in_scope(|| ()),
                _ => trace_span!(target: "h2::codec", "parse").in_scope(|| ()),
            }
        }
    }
}

/// Rejected spans of five crates.
fn many_filtered(tier: Tier) -> Outcome {
    let profiler = start()?;
    tier.install(&profiler)?;
    work();
    debug_span!(target: "a", "of a").in_scope(|| ());
    debug_span!(target: "b", "of b").in_scope(|| ());
    debug_span!(target: "c", "of c").in_scope(|| ());
    debug_span!(target: "d", "of d").in_scope(|| ());
    debug_span!(target: "e", "of e").in_scope(|| ());
    Ok(())
}

/// A filter of the whole subscriber.
fn other_filter(_: Tier) -> Outcome {
    let profiler = start()?;
    set_global_default(tracing_subscriber::registry().with(LevelFilter::ERROR).with(profiler.layer()))?;
    work();
    Ok(())
}

fn other_filter_off(_: Tier) -> Outcome {
    let profiler = start()?;
    set_global_default(tracing_subscriber::registry().with(LevelFilter::OFF).with(profiler.layer()))?;
    work();
    Ok(())
}

/// Hidden by a filter without a level hint, in front of the profiler's layer, which then sees no span.
fn hidden_first(_: Tier) -> Outcome {
    let profiler = start()?;
    let none = tracing_subscriber::filter::FilterFn::new(|metadata| !metadata.is_span());
    set_global_default(tracing_subscriber::registry().with(profiler.layer()).with(none))?;
    work();
    sleep(LONG);
    Ok(())
}

/// The same on the profiler's layer.
fn hidden_here(_: Tier) -> Outcome {
    let profiler = start()?;
    let none = tracing_subscriber::filter::FilterFn::new(|metadata| !metadata.is_span());
    set_global_default(tracing_subscriber::registry().with(profiler.layer().with_filter(none)))?;
    work();
    sleep(LONG);
    Ok(())
}

/// The same by a filter that is asked for each span.
fn hidden_each(_: Tier) -> Outcome {
    let profiler = start()?;
    let none = tracing_subscriber::filter::DynFilterFn::new(|metadata, _| !metadata.is_span());
    set_global_default(tracing_subscriber::registry().with(profiler.layer().with_filter(none)))?;
    work();
    Ok(())
}

fn own_filter(_: Tier) -> Outcome {
    let profiler = start()?;
    set_global_default(tracing_subscriber::registry().with(profiler.layer().with_filter(LevelFilter::ERROR)))?;
    work();
    Ok(())
}

/// Another layer wants all levels.
fn own_filter_off(_: Tier) -> Outcome {
    let profiler = start()?;
    let other = tracing_subscriber::layer::Identity::new();
    set_global_default(
        tracing_subscriber::registry().with(profiler.layer().with_filter(LevelFilter::OFF)).with(other),
    )?;
    work();
    Ok(())
}

fn filter_of_nothing(tier: Tier) -> Outcome {
    let nothing = tracing_subscriber::filter::Targets::new();
    let profiler = Profiler::builder().report([Report::Ranges]).filter(nothing).build()?;
    tier.install(&profiler)?;
    work();
    Ok(())
}

/// Hidden by a filter without a level hint.
fn hidden(_: Tier) -> Outcome {
    let profiler = start()?;
    let none = tracing_subscriber::filter::FilterFn::new(|metadata| !metadata.is_span());
    set_global_default(tracing_subscriber::registry().with(none).with(profiler.layer()))?;
    work();
    Ok(())
}

fn reset(tier: Tier) -> Outcome {
    let profiler = start()?;
    tier.install(&profiler)?;
    work();
    profiler.reset();
    Ok(())
}

fn not_entered(tier: Tier) -> Outcome {
    let profiler = start()?;
    tier.install(&profiler)?;
    drop(info_span!("work"));
    Ok(())
}

fn dropped_at_once(tier: Tier) -> Outcome {
    let began = Instant::now();
    let profiler = start()?;
    tier.install(&profiler)?;
    drop(profiler);
    print_milliseconds(began)?;
    work();
    Ok(())
}

/// An upper bound of the time taken, because a busy machine may delay immediate actions.
fn print_milliseconds(began: Instant) -> Outcome {
    Ok(writeln!(std::io::stdout(), "{}", began.elapsed().as_millis())?)
}

fn idle(tier: Tier) -> Outcome {
    let _profiler = {
        let profiler = start()?;
        tier.install(&profiler)?;
        profiler
    };
    sleep(LONG);
    Ok(())
}

fn guard_at_once(_: Tier) -> Outcome {
    let began = Instant::now();
    drop(Profiler::builder().report([Report::Ranges]).install()?);
    print_milliseconds(began)?;
    work();
    Ok(())
}

fn guard_idle(_: Tier) -> Outcome {
    let _profile = Profiler::builder().report([Report::Ranges]).install()?;
    sleep(LONG);
    Ok(())
}

fn some_filtered(tier: Tier) -> Outcome {
    let profiler = start()?;
    tier.install(&profiler)?;
    work();
    filtered();
    Ok(())
}
