use std::sync::Barrier;
use std::time::Duration;

use range_model::summary::TreeNode;
use range_model::{Note, RangeStats, RangeStyle, Summary, Times};
use tracing::{Span, info_span};
use tracing_subscriber::prelude::*;

use super::{MOST_VALUES, Split};
use crate::core::record::RangeKey;
use crate::core::session::Names;
use crate::core::session::catalog::ROOT;
use crate::core::session::joined::Joined;
use crate::{Output, Profiler, ProfilerBuilder};

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
        summary.notes.retain(|note| !matches!(note, Note::Rejected { .. }));
        summary
    })
}

pub(crate) fn rows(summary: &Summary) -> Vec<(&str, u64)> {
    let mut rows: Vec<_> = summary.ranges.iter().map(|row| (row.name.as_str(), row.times.instances)).collect();
    rows.sort_unstable();
    rows
}

/// Merges two values of a whole call site. Returns the merge, and their nodes and labels.
#[cfg_attr(not(feature = "cuda"), allow(dead_code))] // the tests of GPU work use it, too
pub(crate) fn joined(names: &mut Names) -> (Joined, [u32; 2], [u32; 2]) {
    let catalog = &mut names.catalog;
    let plain = catalog.label(0, "get");
    let labels = ["a", "b"].map(|name| catalog.label_alone(0, name).expect("room for a name"));
    let node = |label| catalog.child(ROOT, RangeKey { label, category: 0, style: RangeStyle::PushPop });
    let nodes = labels.map(node);
    let values = [(2, Box::from("a")), (2, Box::from("b"))].into_iter().zip(labels).collect();
    names.parts.splits.row_or(8, || Split { plain, labels: values, nodes: 2, is_whole: true });
    (names.join_splits(), nodes, labels)
}

/// A function whose argument is recorded.
fn get(name: &str) -> Span {
    info_span!("get", name)
}

/// Enters a span twice, as polls do. The inner span is created at the first poll.
fn poll_twice(span: &Span) {
    span.in_scope(|| info_span!("inside").in_scope(|| ()));
    span.in_scope(|| ());
}

fn nodes(nodes: &[TreeNode]) -> Vec<(&str, u64, u64, usize)> {
    let of = |node: &TreeNode| (node.calls, node.instances, node.children.len());
    let mut all: Vec<_> =
        nodes.iter().map(|node| (node.name.as_str(), of(node))).map(|(name, (a, b, c))| (name, a, b, c)).collect();
    all.sort_unstable();
    all
}

fn calls(summary: &Summary) -> Vec<(&str, u64)> {
    let mut calls: Vec<_> = summary.calls.iter().map(|row| (row.name.as_str(), row.latency.instances)).collect();
    calls.sort_unstable();
    calls
}

#[test]
fn a_few_values_split_their_row() {
    let work = || {
        for number in 0..100 {
            let (system, route) = (["movement", "sound"][number % 2], ["/orders/{id}", "/"][number % 2]);
            info_span!("system", name = system, id = number).in_scope(|| info_span!("inside").in_scope(|| ()));
            poll_twice(&info_span!("request", http.route = %route, name = "not this"));
            info_span!("RPC", otel.name = ?number % 2, http.route = route).in_scope(|| ());
        }
    };
    for summary in measured(Profiler::builder, work) {
        let halves = [("0", 50), ("1", 50), ("inside", 200), ("request: /", 100), ("request: /orders/{id}", 100)];
        let halves = [&halves[..], &[("system: movement", 50), ("system: sound", 50)]].concat();
        assert_eq!(rows(&summary), halves);
        let tree = [("0", 50, 50, 0), ("1", 50, 50, 0), ("request: /", 50, 100, 1)];
        let tree = [&tree[..], &[("request: /orders/{id}", 50, 100, 1)]].concat();
        let tree = [&tree[..], &[("system: movement", 50, 50, 1), ("system: sound", 50, 50, 1)]].concat();
        assert_eq!(nodes(&summary.tree), tree);
        assert_eq!(calls(&summary), [("request: /", 50), ("request: /orders/{id}", 50)]);
        assert!(summary.advice.is_empty() && summary.notes.is_empty(), "{:?} {:?}", summary.advice, summary.notes);
    }
}

#[test]
fn a_span_without_a_value_keeps_its_name() {
    let work = || {
        for name in [Some("a"), None, Some("")] {
            info_span!("one", name).in_scope(|| ());
        }
        info_span!("two", otel.name = "", http.route = tracing::field::Empty, name = "b").in_scope(|| ());
        info_span!("three", nvtx.name = "by nvtx", otel.name = "by otel").in_scope(|| ());
        info_span!("four", nvtx.name = tracing::field::Empty, otel.name = "by otel").in_scope(|| ());
        let later = info_span!("five", otel.name = tracing::field::Empty);
        later.record("otel.name", "too late");
        later.in_scope(|| ());
        info_span!("six", nvtx.category = "c", name = tracing::field::Empty).in_scope(|| ());
    };
    for summary in measured(Profiler::builder, work) {
        let expected = [("by nvtx", 1), ("five", 1), ("four", 1), ("one", 2), ("one: a", 1), ("six", 1), ("two: b", 1)];
        assert_eq!(rows(&summary), expected);
        assert!(summary.notes.is_empty() && summary.advice.is_empty(), "{:?} {:?}", summary.notes, summary.advice);
    }
}

#[test]
fn nothing_splits_by_itself_where_that_is_off() {
    let work = || {
        for number in 0..100 {
            info_span!("RPC", otel.name = number % 2, name = number % 3).in_scope(|| ());
        }
    };
    let off: [fn() -> _; 2] =
        [|| Profiler::builder().name_from([""; 0]), || Profiler::builder().name_from(["another"])];
    for summary in off.into_iter().flat_map(|builder| measured(builder, work)) {
        assert_eq!(rows(&summary), [("RPC", 100)]);
        assert!(summary.advice.is_empty(), "{:?}", summary.advice);
    }
}

/// After too many values, all counts are in the call site's row.
#[test]
fn a_row_with_many_values_is_one() {
    const VALUES: u64 = MOST_VALUES as u64 + 1;
    let work = || {
        let outer = info_span!("outer").entered();
        for number in 0..10 * VALUES {
            let name = format!("value {}", number % VALUES);
            let span = info_span!("get", name, nvtx.category = "c", nvtx.lifetime = true);
            poll_twice(&span);
            if number == 0 {
                span.in_scope(|| std::thread::sleep(Duration::from_millis(2)));
            }
        }
        drop(outer);
        info_span!("set", name = "value 0").in_scope(|| ());
        // Same text as one of the others, but from another call site.
        info_span!("get", nvtx.name = "get: value 0").in_scope(|| ());
        info_span!("get", name = "value 0").in_scope(|| ());
    };
    for summary in measured(Profiler::builder, work) {
        let of_get = 2 * 10 * VALUES + 1;
        let expected = [("get", 10 * VALUES), ("get", of_get), ("get: value 0", 2), ("inside", 10 * VALUES)];
        assert_eq!(rows(&summary), [&expected[..], &[("outer", 1), ("set: value 0", 1)]].concat());
        let roots = [("get: value 0", 2, 2, 0), ("outer", 1, 1, 1), ("set: value 0", 1, 1, 0)];
        assert_eq!(nodes(&summary.tree), roots);
        let outer = &summary.tree[0];
        assert_eq!(nodes(&outer.children), [("get", 10 * VALUES, of_get, 1)]);
        assert_eq!(nodes(&outer.children[0].children), [("inside", 10 * VALUES, 10 * VALUES, 0)]);
        assert_eq!(calls(&summary), [("get", 10 * VALUES)]);
        let [category] = &summary.categories[..] else { panic!("{:#?}", summary.categories) };
        assert_eq!(category.times.instances, of_get + 10 * VALUES);
        let row = summary.ranges.iter().find(|row| row.name == "get" && row.style == RangeStyle::PushPop);
        let (times, node) = (&row.expect("a row").times, &outer.children[0]);
        assert_eq!((times.total_ns, times.max_ns), (node.total_ns, node.max_ns));
        assert!(times.max_ns >= 2_000_000 && times.min_ns < times.max_ns, "{times:?}");
        assert_eq!(summary.losses.nodes_over_limit, 0);
    }
}

#[test]
fn a_row_with_many_values_is_offered_to_be_split() {
    let work = || (0..=MOST_VALUES).for_each(|number| get(&format!("value {number}")).in_scope(|| ()));
    for summary in measured(Profiler::builder, work) {
        assert_eq!(rows(&summary), [("get", MOST_VALUES as u64 + 1)]);
        let [advice] = &summary.advice[..] else { panic!("{:?}", summary.advice) };
        let expected = "`get`: field `name` has too many values for a row each. TRACING_GPU=name_from=name, ";
        assert!(advice.starts_with(expected), "{advice}");
    }
    // Splits by other fields stay.
    let work = || {
        info_span!("request", http.route = "/").in_scope(|| ());
        (0..=MOST_VALUES).for_each(|number| get(&format!("value {number}")).in_scope(|| ()));
    };
    for summary in measured(Profiler::builder, work) {
        let [advice] = &summary.advice[..] else { panic!("{:?}", summary.advice) };
        let way = r#"name_from=http.route+name, or .name_from(["http.route", "name"]) of the builder, splits it."#;
        assert!(advice.ends_with(way), "{advice}");
    }
    let work = || (0..MOST_VALUES).for_each(|number| get(&format!("value {number}")).in_scope(|| ()));
    for summary in measured(Profiler::builder, work) {
        assert_eq!((summary.ranges.len(), summary.advice.len()), (MOST_VALUES, 0));
    }
}

#[test]
fn the_rows_that_took_longest_are_named_first() {
    let profiler = Profiler::builder().nvtx(false).output(Output::None).build().expect("a profiler");
    tracing::subscriber::with_default(profiler.subscriber(), || {
        for name in 0..=MOST_VALUES {
            let spans = [info_span!("a", name), info_span!("b", name), info_span!("c", name)];
            spans.iter().for_each(|span| span.in_scope(|| ()));
        }
    });
    let rows = [("a", 5), ("b", 7), ("c", 6)].map(|(name, total)| RangeStats::new(name, Times::new(1, total)));
    let advice = profiler.engine().session.advice(&rows);
    let named: Vec<&str> = advice.iter().filter_map(|sentence| sentence.split('`').nth(1)).collect();
    assert_eq!(named, ["b", "c"], "{advice:?}");
}

/// A tree walk with few names has a node for each path of them.
#[test]
fn values_with_many_nodes_are_one_row() {
    fn visit(depth: u32) {
        for name in ["properties", "items", "anyOf", "required"] {
            info_span!("visit", name).in_scope(|| {
                if depth > 1 {
                    visit(depth - 1)
                }
            });
        }
    }
    let nested = || {
        for outer in 0..MOST_VALUES {
            let _outer = info_span!("outer", name = outer).entered();
            for inner in 0..MOST_VALUES {
                info_span!("inner", name = inner).in_scope(|| info_span!("innermost", name = inner).in_scope(|| ()));
            }
        }
        info_span!("after", name = "one").in_scope(|| ());
    };
    for summary in measured(Profiler::builder, || visit(8)) {
        let of_depth = |depth: u32| ("visit", 4_u64.pow(depth));
        assert_eq!(rows(&summary), [("visit", (1..=8).map(|depth| of_depth(depth).1).sum())]);
        let (mut nodes, mut depth) = (&summary.tree, 0);
        while let [node] = &nodes[..] {
            depth += 1;
            assert_eq!((node.name.as_str(), node.instances), of_depth(depth));
            nodes = &node.children;
        }
        assert_eq!((depth, nodes.len(), summary.losses.nodes_over_limit), (8, 0, 0));
        assert!(
            summary.advice[0].starts_with("`visit`: the values of field `name` have too many rows"),
            "{:?}",
            summary.advice
        );
    }
    for summary in measured(Profiler::builder, nested) {
        let of = |name: &str| summary.ranges.iter().filter(|row| row.name.starts_with(name)).count();
        assert_eq!(["outer: ", "inner: ", "innermost", "after: "].map(of), [32, 32, 32, 1], "all there are");
    }
}

/// Each thread has few values, but all threads together have too many.
#[test]
fn values_of_all_threads_count() {
    const THREADS: usize = 4;
    const EACH: usize = 10;
    let work = || {
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        let barrier = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (dispatch, barrier) = (&dispatch, &barrier);
                scope.spawn(move || {
                    let _dispatch = tracing::dispatcher::set_default(dispatch);
                    for round in 0..100 {
                        if round % 10 == 0 {
                            barrier.wait();
                        }
                        (0..EACH).for_each(|number| get(&format!("value {thread} {number}")).in_scope(|| ()));
                    }
                });
            }
        });
    };
    for summary in measured(Profiler::builder, work) {
        let all = (THREADS * EACH * 100) as u64;
        assert_eq!(rows(&summary), [("get", all)]);
        assert_eq!(nodes(&summary.tree), [("get", all, all, 0)]);
    }
}

/// This also holds on a thread that gets no further value.
#[test]
fn spans_of_a_whole_call_site_take_the_fast_path() {
    for with_layer in [false, true] {
        let profiler = Profiler::builder().nvtx(false).output(Output::None).build().expect("a profiler");
        let dispatch = match with_layer {
            true => tracing::Dispatch::new(tracing_subscriber::registry().with(profiler.layer())),
            false => tracing::Dispatch::new(profiler.subscriber()),
        };
        let is_fast = |name: &str| {
            (0..4).for_each(|_| get(name).in_scope(|| ()));
            let metadata = get(name).metadata().expect("a span that is measured");
            profiler
                .engine()
                .thread()
                .expect("a thread")
                .child_counting(metadata)
                .is_some_and(|(_, row)| row.is_plain())
        };
        tracing::dispatcher::with_default(&dispatch, || {
            assert!(!is_fast("value 0"));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let _dispatch = tracing::dispatcher::set_default(&dispatch);
                    (1..=MOST_VALUES).for_each(|number| get(&format!("value {number}")).in_scope(|| ()));
                    assert!(is_fast("value 1"));
                });
            });
            assert!(is_fast("value 0"));
        });
    }
}

#[test]
fn a_call_site_whose_first_spans_have_no_value_is_whole() {
    let span = |number: u64, name: Option<u64>| info_span!("RPC", otel.name = name, number);
    let work = || {
        (0..100).for_each(|number| span(number, None).in_scope(|| ()));
        (0..100).for_each(|number| span(number, Some(number % 2)).in_scope(|| ()));
    };
    for summary in measured(Profiler::builder, work) {
        assert_eq!(rows(&summary), [("RPC", 200)]);
    }
    let work = || {
        span(0, Some(7)).in_scope(|| ());
        (0..100).for_each(|number| span(number, None).in_scope(|| ()));
        span(0, Some(8)).in_scope(|| ());
    };
    for summary in measured(Profiler::builder, work) {
        assert_eq!(rows(&summary), [("7", 1), ("8", 1), ("RPC", 100)]);
    }
}

/// The span is entered where it was not created, and its creating thread forgets it.
#[test]
fn a_span_keeps_its_name_wherever_it_is_entered() {
    let work = || {
        let spans: Vec<Span> = (0..3_000_u32).map(|number| info_span!("system", name = number % 3)).collect();
        let unnamed: Vec<Span> = (0..3).map(|_| info_span!("system", name = tracing::field::Empty)).collect();
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        let enter = |span: &Span| span.in_scope(|| info_span!("inside").in_scope(|| ()));
        spans.iter().take(300).for_each(enter);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _dispatch = tracing::dispatcher::set_default(&dispatch);
                spans.iter().skip(300).chain(&unnamed).for_each(enter);
            });
        });
    };
    for summary in measured(Profiler::builder, work) {
        let expected = [("inside", 3_003), ("system", 3), ("system: 0", 1_000), ("system: 1", 1_000)];
        assert_eq!(rows(&summary), [&expected[..], &[("system: 2", 1_000)]].concat());
        assert_eq!((summary.tree.len(), summary.losses.spans_dropped), (4, 0));
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
