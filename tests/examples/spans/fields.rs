//! Fields of spans: names, colours, categories, payloads and lifetimes; and events.

use crate::stage::{measure, measure_by, measure_with, on_thread, silent};
use crate::{Outcome, Scenario, Tier};
use std::fmt;
use std::path::Path;
use tracing::field::{Empty, debug as formatted};
use tracing::{debug, debug_span, error, info, info_span, trace, warn};
use tracing_gpu::{Domain, Profiler};
use tracing_subscriber::filter::{LevelFilter, Targets};

pub(crate) const ALL: &[Scenario] = &[
    ("names", names),
    ("odd-names", odd_names),
    ("routes", routes),
    ("colors", colors),
    ("categories", categories),
    ("payloads", payloads),
    ("nvidia-fields", nvidia_fields),
    ("values-as-texts", values_as_texts),
    ("ignored-values", ignored_values),
    ("many-ignored-values", many_ignored_values),
    ("record", record),
    ("record-before-entry", record_before_entry),
    ("record-elsewhere", record_elsewhere),
    ("record-current", record_current),
    ("reopened-with-values", reopened_with_values),
    ("lifetimes", lifetimes),
    ("lifetime-elsewhere", lifetime_elsewhere),
    ("events", events),
    ("events-per-target", events_per_target),
    ("values-that-trace", values_that_trace),
    ("values-that-panic", values_that_panic),
];

struct Layer(u32);

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conv{}", self.0)
    }
}

fn names(tier: Tier) -> Outcome {
    measure(tier, || {
        let (text, owned) = ("str", "String".to_owned());
        info_span!("span", nvtx.name = text).in_scope(|| ());
        info_span!("span", nvtx.name = owned).in_scope(|| ());
        for layer in [1, 2, 1] {
            info_span!("span", nvtx.name = %Layer(layer)).in_scope(|| ());
        }
        info_span!("span", nvtx.name = ?Some(1)).in_scope(|| ());
        info_span!("span", nvtx.name = ?Path::new("a/b")).in_scope(|| ());
        info_span!("span", nvtx.name = 7u64).in_scope(|| ());
        info_span!("span", nvtx.name = -7).in_scope(|| ());
        info_span!("span", nvtx.name = u128::MAX).in_scope(|| ());
        info_span!("span", nvtx.name = 0.5).in_scope(|| ());
        info_span!("span", nvtx.name = Empty).in_scope(|| ());
        info_span!("span", other = "ignored").in_scope(|| ());
        // The same name in the program and at run time is the same row.
        info_span!("conv1").in_scope(|| ());
    })
}

/// Spans whose own names are in a field.
fn routes(tier: Tier) -> Outcome {
    measure(tier, || {
        ["GET /a", "GET /b"].iter().for_each(|name| info_span!("request", otel.name = name).in_scope(|| ()));
        ["/a", "/b"].iter().for_each(|route| info_span!("route", http.route = route).in_scope(|| ()));
        (0..34).for_each(|number| info_span!("get", name = number).in_scope(|| ()));
    })
}

/// Names that do not fit the interface, written in the program and made at run time.
fn odd_names(tier: Tier) -> Outcome {
    measure(tier, || {
        info_span!("a\0b").in_scope(|| ());
        info_span!("").in_scope(|| ());
        info_span!("größe 名前 😀").in_scope(|| ());
        let long = |unit: &str, pad: usize| "p".repeat(pad) + &unit.repeat(1_000_000 / unit.len());
        for name in ["a\0b", "", "größe 名前 😀", "line\nfeed\u{1b}[31m"] {
            info_span!("span", nvtx.name = name).in_scope(|| ());
        }
        for name in [long("x", 0), long("é", 0), long("é", 1), long("€", 1), long("😀", 3), long("\0", 0)] {
            info_span!("span", nvtx.name = name, nvtx.category = name).in_scope(|| ());
            info!("{name}");
        }
    })
}

fn colors(tier: Tier) -> Outcome {
    measure(tier, || {
        info_span!("name", nvtx.color = "Tomato").in_scope(|| ());
        info_span!("hex", nvtx.color = "#0088ff").in_scope(|| ());
        info_span!("hex text", nvtx.color = "0x800088FF").in_scope(|| ());
        info_span!("rgb", nvtx.color = 0x0088FF).in_scope(|| ());
        info_span!("argb", nvtx.color = 0x8000_88FFu32).in_scope(|| ());
        info_span!("display", nvtx.color = %"red").in_scope(|| ());
        info_span!("no color", nvtx.color = "reddish").in_scope(|| ());
        info_span!("negative", nvtx.color = -1).in_scope(|| ());
        info_span!("too large", nvtx.color = u64::MAX).in_scope(|| ());
        info_span!("none").in_scope(|| ());
    })
}

fn categories(tier: Tier) -> Outcome {
    measure(tier, || {
        info_span!("conv1", nvtx.category = "Conv").in_scope(|| ());
        info_span!("conv2", nvtx.category = %"Conv").in_scope(|| ());
        info_span!("pool", nvtx.category = "Pool").in_scope(|| ());
        info_span!("seven", nvtx.category = 7).in_scope(|| ());
        info_span!("seven too", nvtx.category = 7u64).in_scope(|| ());
        info_span!("negative", nvtx.category = -1).in_scope(|| ());
        info_span!("empty", nvtx.category = "").in_scope(|| ());
        info_span!("none").in_scope(|| ());
        // One name in two categories is one row of the ranges.
        info_span!("pool", nvtx.category = "Conv").in_scope(|| ());
    })
}

fn payloads(tier: Tier) -> Outcome {
    measure(tier, || {
        info_span!("u64", nvtx.payload = u64::MAX).in_scope(|| ());
        info_span!("i64", nvtx.payload = i64::MIN).in_scope(|| ());
        info_span!("f64", nvtx.payload = -0.1).in_scope(|| ());
        info_span!("u32", nvtx.payload = 5u32).in_scope(|| ());
        info_span!("i32", nvtx.payload = -5i32).in_scope(|| ());
        info_span!("f32", nvtx.payload = 0.5f32).in_scope(|| ());
        info_span!("bool", nvtx.payload = true).in_scope(|| ());
        info_span!("text", nvtx.payload = "text").in_scope(|| ());
        info_span!("none", nvtx.payload = Empty).in_scope(|| ());
    })
}

/// The field names of NVIDIA's layer.
fn nvidia_fields(tier: Tier) -> Outcome {
    measure_by(tier, silent().bare_fields(true), || {
        info_span!("span", color = "red", category = "cool", payload = 3u64).in_scope(|| ());
        info_span!("hex", color = "#ff0000").in_scope(|| ());
        info_span!("display", category = %"cool").in_scope(|| ());
        info!(color = "blue", category = "ignored", payload = 1, "event");
    })
}

/// With `%` and `?`, as written by people who do not know the type.
fn values_as_texts(tier: Tier) -> Outcome {
    measure(tier, || {
        let (integer, float, bool) = (-3, 0.25, true);
        info_span!("integer", nvtx.payload = %integer).in_scope(|| ());
        info_span!("float", nvtx.payload = ?float).in_scope(|| ());
        info_span!("bool", nvtx.payload = %bool, nvtx.lifetime = ?bool).in_scope(|| ());
    })
}

/// Invalid values, on two threads; those under the names of NVIDIA's layer may be the program's own.
fn ignored_values(tier: Tier) -> Outcome {
    fn request(color: &str) {
        info_span!("request", nvtx.color = color, color = "brand").in_scope(|| ());
    }
    measure(tier, || {
        for _ in 0..3 {
            request("rde");
            request("red");
            on_thread("worker", || request("blau"));
        }
        info_span!("both", nvtx.color = 0.5, nvtx.lifetime = "yes").in_scope(|| ());
        info_span!("one", nvtx.lifetime = 1).in_scope(|| ());
        let late = info_span!("late", nvtx.payload = Empty, nvtx.lifetime = false, payload = "text");
        late.record("nvtx.payload", formatted("x".repeat(100)));
        late.in_scope(|| ());
        info_span!("place", gpu.stream = "first", nvtx.category = -1).in_scope(|| ());
        info_span!("named", nvtx.name = true, category = -1).in_scope(|| ());
        info_span!("light", gpu.weight = -0.5).in_scope(|| ());
    })
}

fn many_ignored_values(tier: Tier) -> Outcome {
    macro_rules! spans {
        ($($name:literal)*) => {{ $(info_span!($name, nvtx.payload = "none").in_scope(|| ());)* }};
    }
    measure(tier, || spans!("1" "2" "3" "4" "5" "6" "7" "8" "9" "10"))
}

fn record(tier: Tier) -> Outcome {
    measure(tier, || {
        let span =
            info_span!("span", nvtx.category = Empty, nvtx.color = Empty, nvtx.payload = Empty, nvtx.name = Empty);
        span.in_scope(|| {
            span.record("nvtx.category", "late");
            span.record("nvtx.color", "red");
            span.record("nvtx.payload", 1u64);
            span.record("nvtx.name", "renamed");
        });
        span.in_scope(|| ());
        span.record("nvtx.payload", -2i64);
        span.in_scope(|| ());
        span.record("nvtx.color", "no color");
        span.record("nvtx.category", 9);
        span.in_scope(|| ());
    })
}

fn record_before_entry(tier: Tier) -> Outcome {
    measure_by(tier, silent().bare_fields(true), || {
        let span = info_span!("span", color = Empty, category = "cool", payload = Empty);
        span.record("color", "red");
        span.record("payload", 2u64);
        span.in_scope(|| ());
        span.record("payload", 3u64);
        span.in_scope(|| ());
    })
}

/// Recorded on a thread that did not create the span, while it is open here.
fn record_elsewhere(tier: Tier) -> Outcome {
    measure(tier, || {
        let span = info_span!("span", nvtx.category = Empty, nvtx.payload = Empty);
        let there = span.clone();
        span.in_scope(|| {
            on_thread("worker", move || {
                there.record("nvtx.category", "late");
                there.record("nvtx.payload", 4u64);
                there.in_scope(|| ());
            });
        });
        span.in_scope(|| ());
    })
}

/// Through `Span::current()`, after another call site with the same name but without fields.
fn record_current(tier: Tier) -> Outcome {
    measure(tier, || {
        info_span!("span").in_scope(|| ());
        let span = info_span!("span", nvtx.category = Empty, nvtx.payload = Empty);
        span.in_scope(|| {
            tracing::Span::current().record("nvtx.category", "late");
            tracing::Span::current().record("nvtx.payload", 4u64);
        });
        span.in_scope(|| ());
    })
}

/// A range that is closed and reopened keeps its colour and payload.
fn reopened_with_values(tier: Tier) -> Outcome {
    measure(tier, || {
        let outer = info_span!("outer").entered();
        let inner =
            info_span!("inner", nvtx.color = "red", nvtx.payload = 5u64, nvtx.category = "cool", nvtx.name = "named")
                .entered();
        drop(outer);
        drop(inner);
    })
}

fn lifetimes(tier: Tier) -> Outcome {
    measure_with(tier, silent().domain(Domain::Named("app".to_owned())), |_| {
        for request in 0..3u64 {
            let span = info_span!(
                "request",
                nvtx.lifetime = true,
                nvtx.category = "net",
                nvtx.payload = request,
                nvtx.color = "red"
            );
            span.in_scope(|| ());
            span.in_scope(|| info_span!("step").in_scope(|| ()));
        }
        info_span!("request", nvtx.lifetime = false).in_scope(|| ());
        Ok(())
    })
}

/// Created here, entered and closed there; one that is never entered; one that is still alive at the end.
fn lifetime_elsewhere(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        let span = info_span!("request", nvtx.lifetime = true);
        on_thread("worker", move || {
            span.in_scope(|| ());
            drop(span);
        });
        drop(info_span!("never entered", nvtx.lifetime = true));
        std::mem::forget(info_span!("alive", nvtx.lifetime = true));
        Ok(())
    })
}

fn events(tier: Tier) -> Outcome {
    let run = || {
        let size = 5;
        error!("failed: {}", "disk");
        warn!(size, "slow");
        info!("plain");
        debug!(target: "quiet", "size {size}");
        trace!(size, name = "x");
        info!(message = "as a field");
        info!({ message = %Layer(3) });
        info!(name: "named", "the message wins");
        info!(name: "hidden name", size);
        info!(name: "only a name", empty = Empty);
        info!(target: "off", "filtered out");
        info_span!("around").in_scope(|| info!("inside"));
    };
    #[cfg(feature = "nvidia")]
    if tier == Tier::Nvidia {
        return measure(tier, run);
    }
    let filter = Targets::new().with_default(LevelFilter::TRACE).with_target("off", LevelFilter::OFF);
    measure_with(tier, silent().filter(filter), |_| {
        run();
        Ok(())
    })
}

fn events_per_target(tier: Tier) -> Outcome {
    measure_with(tier, silent().domain(Domain::PerTarget), |_| {
        info!(target: "a", "in a");
        info!(target: "b", "in b");
        debug!(target: "b", "below the filter");
        Ok(())
    })
}

/// Makes spans and events while it is formatted.
struct Traces;

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        info!("from a value");
        info_span!("from a value", nvtx.name = "inside").in_scope(|| info!("deeper"));
        f.write_str("formatted")
    }
}

fn values_that_trace(tier: Tier) -> Outcome {
    measure(tier, || {
        let span = info_span!("span", nvtx.name = ?Traces, nvtx.category = Empty);
        span.in_scope(|| info!(value = ?Traces, "event {:?}", Traces));
        span.record("nvtx.category", formatted(Traces));
        span.in_scope(|| info_span!("after").in_scope(|| ()));
        let _guard = debug_span!("not measured", nvtx.name = ?Traces).entered();
    })
}

struct Panics;

impl fmt::Debug for Panics {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("a value that cannot be formatted")
    }
}

/// All places where a value is formatted: fields of spans, later fields, and events.
const PANICKING: [(&str, fn()); 13] = [
    ("name", || drop(info_span!("span", nvtx.name = ?Panics))),
    ("lifetime", || drop(info_span!("span", nvtx.lifetime = true, nvtx.name = ?Panics))),
    ("color", || drop(info_span!("span", nvtx.color = ?Panics))),
    ("category", || drop(info_span!("span", nvtx.category = ?Panics))),
    ("payload", || drop(info_span!("span", nvtx.payload = ?Panics))),
    ("stream", || drop(info_span!("span", gpu.stream = ?Panics))),
    ("other", || drop(info_span!("span", other = ?Panics))),
    ("recorded name", || _ = info_span!("span", nvtx.name = Empty).record("nvtx.name", formatted(Panics))),
    ("recorded color", || _ = info_span!("span", nvtx.color = Empty).record("nvtx.color", formatted(Panics))),
    ("recorded other", || _ = info_span!("span", other = Empty).record("other", formatted(Panics))),
    ("message", || info!("event {:?}", Panics)),
    ("event's value", || info!(value = ?Panics, "event")),
    ("event's color", || info!(nvtx.color = ?Panics, "event")),
];

/// The panic is the program's own; later spans are measured as before. Prints where values were formatted.
fn values_that_panic(tier: Tier) -> Outcome {
    std::panic::set_hook(Box::new(|_| ()));
    measure_by(tier, Profiler::builder().report([]), || {
        for (place, attempt) in PANICKING {
            info_span!("outer").in_scope(|| {
                if std::panic::catch_unwind(attempt).is_err() {
                    eprintln!("{place}");
                }
                info_span!("after").in_scope(|| info!("mark"));
            });
        }
    })
}
