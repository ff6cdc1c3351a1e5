//! Values of fields in a trace and in a database, compared with the output of `tracing_subscriber::fmt` for the same
//! spans.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroI8;
use std::sync::{Arc, Mutex};

use serde_json::Value as Json;
use tracing::field::{Empty, debug, display};
use tracing::span::{Attributes, Id};
use tracing::subscriber::with_default;
use tracing::{Span, info_span};
use tracing_gpu::{Output, Profiler};
use tracing_subscriber::fmt::FormattedFields;
use tracing_subscriber::fmt::format::DefaultFields;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

use crate::read::{Files, Trace};

/// The output of `fmt` for each span, in order of creation.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<BTreeMap<u64, String>>>);

/// The index of a span in that order.
struct Place(u64);

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Printed {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut all = self.0.lock().unwrap();
        let place = all.len() as u64;
        all.insert(place, String::new());
        context.span(id).expect("a span").extensions_mut().insert(Place(place));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).expect("a span");
        let extensions = span.extensions();
        let (Some(Place(place)), Some(fields)) = (extensions.get(), extensions.get::<FormattedFields<DefaultFields>>())
        else {
            return;
        };
        self.0.lock().unwrap().insert(*place, fields.fields.clone());
    }
}

#[derive(Debug)]
struct Failure;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cable is \"out\"")
    }
}

impl std::error::Error for Failure {}

/// Spans with one value each; and whether `fmt` quotes it, because it is a `str`.
fn spans() -> Vec<(Span, bool)> {
    let long = "größe 日本語 🦀 ".repeat(4_000);
    let error: &(dyn std::error::Error + 'static) = &Failure;
    let mut all: Vec<(Span, bool)> =
        ["", "a", "1234567", "12345678", "123456789", "größe 日本語 🦀", "\"q\\", "\n\t\r\u{0}\u{1b}[1m\u{7f}"]
            .iter()
            .map(|text| (info_span!("case", value = text), true))
            .collect();
    all.push((info_span!("case", value = long), true));
    let plain = [
        info_span!("case", value = i64::MIN),
        info_span!("case", value = -1_i8),
        info_span!("case", value = 0_u64),
        info_span!("case", value = u64::MAX),
        info_span!("case", value = i128::MIN),
        info_span!("case", value = u128::MAX),
        info_span!("case", value = NonZeroI8::MIN),
        info_span!("case", value = true),
        info_span!("case", value = 0.1),
        info_span!("case", value = 1.0),
        info_span!("case", value = -0.0),
        info_span!("case", value = 1e300),
        info_span!("case", value = f64::MIN_POSITIVE),
        info_span!("case", value = f64::NAN),
        info_span!("case", value = f64::INFINITY),
        info_span!("case", value = f64::NEG_INFINITY),
        info_span!("case", value = error),
        info_span!("case", value = ?Some("größe \"x\"")),
        info_span!("case", value = ?(1, [2.5, f64::NAN], "\n")),
        info_span!("case", value = %"größe\n\"x\""),
        info_span!("case", value = %long),
        info_span!("case", value = format_args!("{}-{}", 1, "two")),
        info_span!("case", value = Some(7)),
        info_span!("case", value = None::<u64>),
        info_span!("case", value = Empty),
        info_span!("case", value = Empty, other = 1),
    ];
    all.extend(plain.map(|span| (span, false)));
    for value in [&3_u64 as &dyn tracing::Value, &-0.5, &false, &debug("x"), &display(&long)] {
        let span = info_span!("case", value = Empty);
        span.record("value", value);
        all.push((span, false));
    }
    all
}

/// A value in the form of `fmt`.
fn shown(value: &Json, quoted: bool) -> String {
    match value {
        Json::String(text) if quoted => format!("{text:?}"),
        Json::String(text) => text.clone(),
        Json::Number(number) if number.is_f64() => format!("{:?}", number.as_f64().unwrap()),
        other => other.to_string(),
    }
}

/// The trace of a run with this much memory for timelines.
fn traced(memory: usize, run: impl FnOnce()) -> Trace {
    let files = Files::new("trace.json");
    let builder = Profiler::builder().nvtx(false).output(Output::None).timeline_memory(memory);
    let profiler = builder.trace(&files.trace).build().expect("a profiler");
    with_default(profiler.subscriber(), run);
    profiler.finish().expect("it can be written");
    files.trace()
}

/// More spans than are remembered at once, inside one that stays open.
#[test]
fn fields_are_there_however_far_the_files_are_behind() {
    const SPANS: u64 = 60_000;
    let trace = traced(9 << 20, || {
        let spans = |from| (from..SPANS / 2 + from).for_each(|n| info_span!("step", n, text = "of it").in_scope(|| ()));
        std::thread::scope(|scope| {
            let here = tracing::dispatcher::get_default(tracing::Dispatch::clone);
            scope.spawn(move || tracing::dispatcher::with_default(&here, || spans(SPANS / 2)));
            info_span!("all", n = SPANS).in_scope(|| spans(0));
        });
    });
    let mut numbers: Vec<u64> = trace.slices.iter().filter_map(|slice| slice.args["fields"]["n"].as_u64()).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..=SPANS), "{} of {SPANS}", numbers.len());
    assert_eq!(trace.lost, None);
}

#[test]
fn a_call_whose_fields_are_forgotten_is_counted() {
    let trace = traced(1 << 20, || {
        let call = info_span!("call", text = "of it");
        (0..2).for_each(|_| call.in_scope(|| ()));
        (0..5_000).for_each(|n| info_span!("step", n).in_scope(|| ()));
    });
    let calls: Vec<_> = trace.calls.iter().map(|call| (call.name.as_str(), call.args.get("fields"))).collect();
    assert_eq!((calls, trace.lost), (vec![("call", None)], Some(1)));
}

#[test]
fn values_are_what_fmt_prints() {
    let files = Files::new("trace.json");
    let builder = Profiler::builder().nvtx(false).output(Output::None);
    let profiler = builder.trace(&files.trace).sqlite(&files.database).build().expect("a profiler");
    let printed = Printed::default();
    let subscriber = tracing_subscriber::registry().with(profiler.layer());
    let subscriber = subscriber.with(tracing_subscriber::fmt::layer().with_ansi(false).with_writer(std::io::sink));
    let quoted = with_default(subscriber.with(printed.clone()), || {
        let all = spans();
        all.iter().for_each(|(span, _)| span.in_scope(|| ()));
        all.into_iter().map(|(_, quoted)| quoted).collect::<Vec<_>>()
    });
    profiler.finish().expect("files are written");
    let printed = printed.0.lock().unwrap();
    let trace = files.trace();
    let database =
        files.database().texts("SELECT coalesce(jsonText, '{}') FROM NVTX_EVENTS WHERE eventType = 59 ORDER BY start");
    assert_eq!((printed.len(), trace.slices.len(), database.len()), (quoted.len(), quoted.len(), quoted.len()));
    let mut slices: Vec<_> = trace.slices.iter().collect();
    slices.sort_by_key(|slice| slice.start);
    for (((expected, slice), text), quoted) in printed.values().zip(slices).zip(&database).zip(quoted) {
        let of_database: Json = serde_json::from_str(text).expect("JSON");
        for fields in [&slice.args["fields"], &of_database] {
            let fields = fields.as_object().into_iter().flatten();
            let shown: Vec<String> = fields.map(|(name, value)| format!("{name}={}", shown(value, quoted))).collect();
            assert_eq!(&shown.join(" "), expected);
        }
    }
}
