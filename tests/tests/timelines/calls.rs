//! The numbers of spans and calls: they lead from a range on any thread to its request.

use std::collections::{BTreeMap, BTreeSet};

use tracing::subscriber::with_default;
use tracing::{Dispatch, Span, dispatcher, info_span};
use tracing_gpu::{Output, Profiler};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

use crate::read::{Event, Files, Trace};

fn number(event: &Event, key: &str) -> u64 {
    event.args[key].as_u64().unwrap_or(0)
}

/// The files of a run of spans, with the layer or the subscriber.
fn traced(is_layer: bool, run: impl FnOnce()) -> (Files, Trace) {
    let files = Files::new("trace.json");
    let builder = Profiler::builder().nvtx(false).output(Output::None).filter_level();
    let profiler = builder.trace(&files.trace).sqlite(&files.database).build().expect("a profiler");
    match is_layer {
        true => with_default(tracing_subscriber::registry().with(profiler.layer()), run),
        false => with_default(profiler.subscriber(), run),
    }
    profiler.finish().expect("files are written");
    let trace = files.trace();
    (files, trace)
}

trait FilterLevel {
    fn filter_level(self) -> Self;
}

impl FilterLevel for tracing_gpu::ProfilerBuilder {
    fn filter_level(self) -> Self {
        self.filter(tracing_subscriber::filter::Targets::new().with_default(LevelFilter::INFO))
    }
}

/// Runs this on another thread.
fn elsewhere(run: impl FnOnce() + Send) {
    let here = dispatcher::get_default(Dispatch::clone);
    std::thread::scope(|scope| scope.spawn(|| dispatcher::with_default(&here, run)).join()).expect("it ends");
}

/// A request as in a real runtime: polled on several threads, with a part on another thread, an inner future, and under
/// the layer a span that is filtered out (the subscriber never sees it).
fn request(id: u64, is_layer: bool) {
    let request = info_span!("request", id, found = tracing::field::Empty);
    let inner = request.in_scope(|| {
        info_span!("parse").in_scope(|| ());
        info_span!("future")
    });
    let there = request.in_scope(|| info_span!("there"));
    elsewhere(|| {
        there.in_scope(|| info_span!("below").in_scope(|| ()));
        request.in_scope(|| inner.in_scope(|| ()));
    });
    let hidden = tracing::debug_span!(parent: &request, "hidden");
    let deep = inner.in_scope(|| {
        info_span!("last").in_scope(|| ()); // by a plain worker thread
        info_span!("deep")
    });
    request.in_scope(|| deep.in_scope(|| ())); // inside its grandparent
    if is_layer {
        hidden.in_scope(|| info_span!("under hidden").in_scope(|| ()));
    }
    info_span!(parent: &request, "explicit").in_scope(|| ());
    request.record("found", id + 1);
    request.in_scope(|| ());
}

#[test]
fn the_numbers_of_a_range_lead_to_its_request() {
    for is_layer in [true, false] {
        let (files, trace) = traced(is_layer, || (0..40).for_each(|id| request(id, is_layer)));
        let requests: Vec<&Event> = trace.calls.iter().filter(|call| call.name == "request").collect();
        let slices = |name: &str| trace.slices.iter().filter(|slice| slice.name == name).collect::<Vec<_>>();
        assert_eq!((requests.len(), slices("request").len(), slices("future").len()), (40, 200, 80), "{is_layer}");
        let parents: BTreeMap<u64, u64> = trace
            .slices
            .iter()
            .chain(&trace.calls)
            .map(|range| (number(range, "call"), number(range, "parent")))
            .collect();
        let of = |request: u64, range: &Event| {
            let mut call = number(range, "call");
            while call != request && call != 0 {
                call = parents[&call];
            }
            call == request
        };
        for request in requests {
            let call = number(request, "call");
            let own: Vec<&Event> = trace.slices.iter().filter(|slice| of(call, slice)).collect();
            let mut names: Vec<&str> = own.iter().map(|slice| slice.name.as_str()).collect();
            names.sort_unstable();
            let all = "below deep explicit future future last parse request request request request request there under hidden";
            assert!(all.starts_with(&names.join(" ")) && names.len() == 13 + usize::from(is_layer), "{names:?}");
            assert!(own.iter().all(|slice| request.start <= slice.start && slice.end <= request.end), "{own:?}");
            let fields = &request.args["fields"];
            assert_eq!(fields["found"].as_u64(), fields["id"].as_u64().map(|id| id + 1), "{is_layer}");
            for slice in own.iter().filter(|slice| slice.name == "request") {
                assert_eq!(slice.args["fields"]["id"], fields["id"], "on each thread");
            }
            let last = own.iter().filter(|slice| slice.name == "request").max_by_key(|slice| slice.start);
            assert_eq!(&last.unwrap().args["fields"], fields, "{is_layer}: a value that is recorded later");
            assert_eq!(own.iter().map(|slice| slice.track).collect::<BTreeSet<_>>().len(), 2, "on two threads");
        }
        // The same in the database.
        let database = files.database();
        let name = "SELECT count(*) FROM NVTX_EVENTS e JOIN StringIds ON id = textId WHERE value = 'request'";
        let count = |and: &str| database.number(&format!("{name} AND {and}"));
        assert_eq!((count("parentId IS NULL AND spanId = callId"), count("TRUE")), (200, 200), "{is_layer}");
        let below = "SELECT count(*) FROM NVTX_EVENTS e JOIN StringIds n ON n.id = e.textId
            JOIN NVTX_EVENTS p ON p.callId = e.parentId JOIN StringIds pn ON pn.id = p.textId
            WHERE n.value = 'below' AND pn.value = 'there'";
        assert_eq!(database.number(below), 40);
        let calls = "SELECT count(*) FROM TRACING_GPU_CALLS c JOIN NVTX_EVENTS e ON e.callId = c.callId
            JOIN StringIds ON id = e.textId WHERE value = 'request' AND c.start <= e.start AND e.end <= c.end";
        assert_eq!(database.number(calls), 200);
        let deep: BTreeSet<u64> = slices("deep").iter().map(|slice| number(slice, "parent")).collect();
        let futures: BTreeSet<u64> = slices("future").iter().map(|slice| number(slice, "call")).collect();
        assert_eq!(deep, futures, "{is_layer}: its parent, not the range that it is entered in");
    }
}

/// The closing thread's records are written first.
#[test]
fn a_call_that_is_closed_on_another_thread_has_its_fields() {
    for is_layer in [true, false] {
        let (_, trace) = traced(is_layer, || {
            info_span!("first").in_scope(|| ());
            let mut call = Span::none();
            elsewhere(|| {
                call = info_span!("call", id = 7);
                (0..2).for_each(|_| call.in_scope(|| ()));
            });
        });
        let ids: Vec<_> = trace.calls.iter().map(|call| call.args["fields"]["id"].as_u64()).collect();
        assert_eq!((ids, trace.lost), (vec![Some(7)], None), "{is_layer}");
    }
}

/// Later threads reuse their states, and a registry gives them ids for the same entries.
#[test]
fn spans_that_outlive_their_threads_have_their_fields_or_are_counted() {
    for is_layer in [true, false] {
        let (_, trace) = traced(is_layer, || {
            let mut kept = Vec::new();
            (0..20).for_each(|id| elsewhere(|| kept.push(info_span!("kept", id))));
            kept.iter().for_each(|span| (0..2).for_each(|_| span.in_scope(|| ())));
        });
        let kept: Vec<&Event> = trace.slices.iter().filter(|slice| slice.name == "kept").collect();
        let without = kept.iter().filter(|slice| slice.args["fields"].is_null()).count() as u64;
        assert_eq!((kept.len(), trace.lost.unwrap_or(0)), (40, without), "{is_layer}");
        assert!(is_layer || without == 0);
    }
}

/// An exit below the innermost range closes and reopens the ranges above.
#[test]
fn what_is_opened_again_keeps_its_numbers() {
    for is_layer in [true, false] {
        let (_, trace) = traced(is_layer, || {
            let [one, two, three] = ["one", "two", "three"].map(|name| info_span!("nested", nvtx.name = name));
            let guards = (one.enter(), two.enter(), three.enter());
            drop(guards.0);
            info_span!("inside").in_scope(|| ());
            drop((guards.2, guards.1));
        });
        let calls = |name: &str| {
            let slices = trace.slices.iter().filter(|slice| slice.name == name);
            slices.map(|slice| number(slice, "call")).collect::<Vec<_>>()
        };
        let (two, three) = (calls("two"), calls("three"));
        assert_eq!((two.len(), three.len()), (2, 2), "{is_layer}");
        assert!(two[0] == two[1] && three[0] == three[1] && two[0] != three[0], "{is_layer}: {two:?} {three:?}");
        let inside = trace.slice("inside");
        assert_eq!(number(inside, "parent"), three[0], "{is_layer}");
    }
}

/// A model keeps the spans of its layers like this.
#[test]
fn each_use_of_a_span_that_is_kept_is_a_call() {
    for is_layer in [true, false] {
        let (_, trace) = traced(is_layer, || {
            let layer: Span = info_span!("load").in_scope(|| info_span!("layer", number = 3));
            for _ in 0..3 {
                info_span!("forward").in_scope(|| (0..2).for_each(|_| layer.in_scope(|| ())));
            }
        });
        let of = |name: &str| trace.slices.iter().filter(|slice| slice.name == name).collect::<Vec<_>>();
        let forwards: BTreeSet<u64> = of("forward").iter().map(|slice| number(slice, "call")).collect();
        let uses: BTreeMap<u64, u64> =
            of("layer").iter().map(|slice| (number(slice, "parent"), number(slice, "call"))).collect();
        assert_eq!(uses.keys().copied().collect::<BTreeSet<_>>(), forwards, "{is_layer}");
        assert_eq!(uses.values().collect::<BTreeSet<_>>().len(), 3, "{is_layer}");
        let spans: BTreeSet<u64> = of("layer")
            .iter()
            .map(|slice| match number(slice, "span_id") {
                0 => number(slice, "call"),
                span => span,
            })
            .collect();
        assert_eq!((spans.len(), of("layer").len(), trace.calls.len()), (1, 6, 0), "{is_layer}");
        assert!(of("layer").iter().all(|slice| slice.args["fields"]["number"] == 3), "{is_layer}");
    }
}

/// An actor enters the span of a message, between two polls of its sender.
#[test]
fn a_span_that_is_handed_over_is_one_call() {
    for is_layer in [true, false] {
        let (_, trace) = traced(is_layer, || {
            let request = info_span!("request", id = 7);
            request.in_scope(|| ());
            info_span!("actor").in_scope(|| request.in_scope(|| info_span!("work").in_scope(|| ())));
            request.in_scope(|| ());
        });
        let slices = trace.slices.iter().filter(|slice| slice.name == "request");
        let calls: BTreeSet<_> = slices.map(|slice| (number(slice, "call"), number(slice, "parent"))).collect();
        let request = number(trace.slice("work"), "parent");
        assert_eq!((calls, trace.calls.len()), (BTreeSet::from([(request, 0)]), 1), "{is_layer}");
        assert_eq!(trace.calls[0].args["fields"]["id"], 7, "{is_layer}");
    }
}

/// By creation, a span belongs to the call in which it was created, even inside another one of that name.
#[test]
fn by_creation_a_range_is_of_the_request_that_made_its_span() {
    let files = Files::new("trace.json");
    let builder = Profiler::builder().output(Output::None).parents(tracing_gpu::Parents::Created);
    let profiler = builder.trace(&files.trace).build().expect("a profiler");
    with_default(profiler.subscriber(), || {
        for _ in 0..10 {
            let part = info_span!("request", first = true).in_scope(|| info_span!("part"));
            info_span!("request", first = false).in_scope(|| part.in_scope(|| ()));
        }
    });
    profiler.finish().expect("files are written");
    let trace = files.trace();
    let first =
        |call: u64| trace.slices.iter().find(|slice| number(slice, "call") == call).map(|of| &of.args["fields"]);
    let parts: Vec<&Event> = trace.slices.iter().filter(|slice| slice.name == "part").collect();
    let of_first = parts.iter().filter(|part| first(number(part, "parent")).is_some_and(|of| of["first"] == true));
    assert_eq!((of_first.count(), parts.len()), (10, 10));
}

#[test]
fn what_is_open_at_the_end_is_a_call_that_is_cut() {
    for is_layer in [true, false] {
        let open = std::cell::OnceCell::new();
        let (_, trace) = traced(is_layer, || {
            let waits = info_span!("waits", id = 7);
            (0..2).for_each(|_| waits.in_scope(|| ()));
            open.set(waits).expect("once");
        });
        assert_eq!(trace.calls.len(), 1, "{is_layer}");
        assert_eq!((&trace.calls[0].args["cut"], &trace.calls[0].args["fields"]["id"]), (&true.into(), &7.into()));
    }
}
