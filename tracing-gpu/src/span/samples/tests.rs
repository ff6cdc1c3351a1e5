use range_report::Times;
use tracing::info_span;
use tracing_subscriber::prelude::*;

use super::*;
use crate::{Output, Profiler, ProfilerBuilder, Summary};

/// The summaries of `work` with each front end.
pub(crate) fn measured(builder: impl Fn() -> ProfilerBuilder, work: impl Fn()) -> [Summary; 2] {
    [false, true].map(|with_layer| {
        let profiler = builder().nvtx(false).output(Output::None).build().expect("a profiler");
        if with_layer {
            tracing::subscriber::with_default(tracing_subscriber::registry().with(profiler.layer()), &work);
        } else {
            tracing::subscriber::with_default(profiler.subscriber(), &work);
        }
        let mut summary = profiler.summary();
        // Every dispatcher gets the call sites of all earlier tests.
        summary.notes.retain(|note| !note.starts_with("Not measured"));
        summary
    })
}

pub(crate) fn rows(summary: &Summary) -> Vec<(&str, u64)> {
    let mut rows: Vec<_> = summary.ranges.iter().map(|row| (row.name.as_str(), row.times.instances)).collect();
    rows.sort_unstable();
    rows
}

#[test]
fn a_field_that_splits_a_row_is_named() {
    let work = || {
        for number in 0..100 {
            let name = format!("system {}", number % 16);
            info_span!("system", route = %name, id = number).in_scope(|| info_span!("inside").in_scope(|| ()));
            info_span!("request", return_type = "/", rpc.method = name).in_scope(|| ());
            info_span!("one", route = "always", system = number).in_scope(|| ());
        }
    };
    for summary in measured(Profiler::builder, work) {
        assert_eq!(rows(&summary), [("inside", 100), ("one", 100), ("request", 100), ("system", 100)]);
        let calls: Vec<(&str, u64, usize)> =
            summary.tree.iter().map(|node| (node.name.as_str(), node.calls, node.children.len())).collect();
        assert_eq!(calls, [("system", 100, 1), ("request", 100, 0), ("one", 100, 0)]);
        // The two most expensive rows get advice; which two these are varies.
        let known = [("one", "system", 65), ("request", "rpc.method", 16), ("system", "route", 16)];
        let known = known.map(|(name, field, least)| advised(name, field, least));
        assert!(summary.advice.iter().all(|sentence| known.contains(sentence)), "{:#?}", summary.advice);
        assert_eq!((summary.advice.len(), summary.notes.len()), (2, 0));
    }
}

fn advised(name: &str, field: &str, least: usize) -> String {
    format!(
        "`{name}`: field `{field}` has at least {least} values in one row. TRACING_GPU=name_from={field}, or \
         .name_from([\"{field}\"]) of the builder, splits it."
    )
}

#[test]
fn the_row_that_took_longest_is_named_first() {
    let samples = NameSamples::default();
    tracing::subscriber::with_default(tracing_subscriber::registry(), || {
        let spans = [info_span!("a"), info_span!("b"), info_span!("c")];
        for metadata in spans.iter().filter_map(tracing::Span::metadata) {
            let values = vec![((When::Created, 4), Keyed::from_iter([(1, ()), (2, ())]))];
            let sampled = Sampled { name: metadata.name(), spans: FIRST, values };
            samples.sites.lock().insert(metadata.callsite(), sampled);
        }
    });
    let rows = [("a", 5), ("b", 7), ("c", 6)].map(|(name, total)| RangeStats::new(name, Times::new(1, total)));
    assert_eq!(samples.advice(&rows, &[]), ["b", "c"].map(|name| advised(name, "name", 2)));
}

/// The first spans of a client are equal if it calls one server first, and so are those of a row of futures.
#[test]
fn spans_after_equal_ones_are_looked_at() {
    for is_future in [false, true] {
        let work = || {
            for number in 0..1_000 {
                let name = if number < 100 { "first" } else { "then" };
                let span = info_span!("call", rpc.method = name);
                (0..=u32::from(is_future)).for_each(|_| span.in_scope(|| ()));
            }
        };
        for summary in measured(Profiler::builder, work) {
            assert_eq!(summary.advice, [advised("call", "rpc.method", 2)], "{is_future}");
            assert_eq!(summary.ranges[0].times.instances, 1_000 * (1 + u64::from(is_future)));
        }
    }
}

/// The server of tarpc does this.
#[test]
fn a_field_that_is_recorded_later_is_looked_at() {
    for (equal, values) in [(0, 3), (100, 2)] {
        let work = || {
            for number in 0..1_000 {
                let span = info_span!("RPC", otel.kind = "server", otel.name = tracing::field::Empty, id = number);
                span.record("id", number + 1);
                span.record("otel.name", if number < equal { 0 } else { number % values });
                span.in_scope(|| ());
            }
        };
        for summary in measured(Profiler::builder, work) {
            let split = advised("RPC", "otel.name", values);
            let (what, _) = split.split_once(" TRACING").expect("the way to split it");
            let way = "It is set after the span is created, when the row is fixed, so `name_from` does not split \
                       it: a span inside for each value does.";
            assert_eq!(summary.advice, [format!("{what} {way}")]);
        }
    }
}

/// They count even if they are entered on another thread while the first ones are sampled.
#[test]
fn spans_that_are_looked_at_are_counted_on_any_thread() {
    let work = || {
        let spans: Vec<_> = (0..10).map(|number| info_span!("system", route = number % 2)).collect();
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let _dispatch = tracing::dispatcher::set_default(&dispatch);
                for span in spans {
                    span.in_scope(|| info_span!("inside").in_scope(|| ()));
                }
            });
        });
    };
    for summary in measured(Profiler::builder, work) {
        assert_eq!(rows(&summary), [("inside", 10), ("system", 10)]);
        assert_eq!(summary.tree[0].children[0].name, "inside");
        assert_eq!((summary.advice.len(), summary.notes.len()), (1, 0), "{:?}", summary.notes);
    }
}

#[test]
fn the_first_field_that_a_span_has_is_its_name() {
    let work = || {
        info_span!("a", name = "by name", otel.name = "by otel").in_scope(|| ());
        info_span!("b", name = 7, otel.name = tracing::field::Empty).in_scope(|| ());
        info_span!("c", otel.name = "", name = %"by name").in_scope(|| ());
        info_span!("d", nvtx.name = "by nvtx", name = "by name", otel.name = "by otel").in_scope(|| ());
        info_span!("e", other = "x").in_scope(|| ());
        let late = info_span!("f", name = tracing::field::Empty);
        late.record("name", "too late");
        late.in_scope(|| ());
    };
    for summary in measured(|| Profiler::builder().name_from(["otel.name", "name"]), work) {
        let expected = [("7", 1), ("by name", 1), ("by nvtx", 1), ("by otel", 1), ("e", 1), ("f", 1)];
        assert_eq!(rows(&summary), expected);
        assert!(summary.notes.is_empty() && summary.advice.is_empty(), "{:?}", summary.notes);
    }
}

#[test]
fn a_value_that_cannot_be_formatted_is_none() {
    struct Fails;
    impl std::fmt::Debug for Fails {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            Err(std::fmt::Error)
        }
    }
    let work = || {
        info_span!("name", name = ?Fails).in_scope(|| ());
        info_span!("system", system = ?Fails).in_scope(|| ());
    };
    for summary in measured(Profiler::builder, work) {
        assert_eq!(rows(&summary), [("name", 1), ("system", 1)]);
    }
}

#[test]
fn bare_fields_are_read_where_that_is_asked_for() {
    let work = || info_span!("a", category = "one", color = "red", payload = 1).in_scope(|| ());
    for (on, categories) in [(false, 0), (true, 1)] {
        for summary in measured(|| Profiler::builder().bare_fields(on), work) {
            assert_eq!((summary.categories.len(), summary.ranges.len()), (categories, 1));
        }
    }
}
