//! Fields that may distinguish the spans of one row: collects their values in some spans of a call site, for advice.
//!
//! A call site that declares such a field, and none that is read anyway, takes the slow way for its first spans on each
//! thread and under each parent. Then its spans are as fast as any, and one is looked at each time that the number of
//! instances or calls of a row has doubled: the first spans may be equal. A field that is recorded after the creation
//! of its span counts as well.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use range_report::RangeStats;
use rustc_hash::{FxBuildHasher, FxHashSet};
use tracing_core::Metadata;
use tracing_core::callsite::Identifier;
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Record};

/// Fields that frameworks put the real name of a span in, the best one first.
const CANDIDATES: [&str; 7] = ["otel.name", "http.route", "rpc.method", "route", "name", "system", "return_type"];
/// Spans of a call site that are looked at first, without a gap.
pub(crate) const FIRST: usize = 64;
/// Values of a field that are told apart.
const MAX_VALUES: usize = 256;
/// Call sites that there is advice on.
const MAX_ADVICE: usize = 2;

/// Whether a call site declares such a field.
pub(crate) fn is_worth_it(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.fields().iter().any(|field| CANDIDATES.contains(&field.name()))
}

/// The call site of a span, if such a field of it is recorded. Nothing is formatted.
pub(crate) fn named_in(record: &Record<'_>) -> Option<Identifier> {
    let mut named = Named(None);
    record.record(&mut named);
    named.0
}

/// By call site.
#[derive(Debug, Default)]
pub(crate) struct NameSamples {
    sites: Mutex<HashMap<Identifier, Sampled>>,
    are_taken: AtomicBool,
}

#[derive(Debug)]
struct Sampled {
    name: &'static str,
    spans: usize,
    /// Hashes of the values of each field, by its place among the candidates: first of fields that spans have when they
    /// are created, then of those that are recorded later.
    values: BTreeMap<(When, usize), FxHashSet<u64>>,
}

/// When a span has a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    Created,
    Later,
}

impl Sampled {
    fn put(&mut self, when: When, read: Values) {
        for (candidate, hash) in read.0 {
            let values = self.values.entry((when, candidate)).or_default();
            if values.len() < MAX_VALUES {
                values.insert(hash);
            }
        }
    }
}

impl NameSamples {
    /// Takes a span. Returns whether that is enough for now. Code of the values runs, so the gate must be closed.
    pub(crate) fn take(&self, attributes: &Attributes<'_>) -> bool {
        let metadata = attributes.metadata();
        let mut read = Values::default();
        attributes.record(&mut read); // not under the lock
        let mut sites = self.sites.lock();
        let none = || Sampled { name: metadata.name(), spans: 0, values: BTreeMap::new() };
        let sampled = sites.entry(metadata.callsite()).or_insert_with(none);
        sampled.spans += 1;
        sampled.put(When::Created, read);
        self.are_taken.store(true, Relaxed);
        sampled.spans >= FIRST
    }

    /// Whether any span was taken: only then is a record worth a look.
    #[inline]
    pub(crate) fn are_taken(&self) -> bool {
        self.are_taken.load(Relaxed)
    }

    /// Takes what is recorded of a span after its creation, if spans of its call site are taken. As for
    /// [`take`](Self::take).
    pub(crate) fn take_recorded(&self, record: &Record<'_>) {
        let mut read = Values::default();
        record.record(&mut read);
        if let Some(site) = named_in(record)
            && let Some(sampled) = self.sites.lock().get_mut(&site)
        {
            sampled.put(When::Later, read);
        }
    }

    /// For the call sites whose spans have more than one name, those first whose rows took most time: which field tells
    /// the spans apart.
    pub(crate) fn advice(&self, ranges: &[RangeStats]) -> Vec<String> {
        let sites = self.sites.lock();
        let split = |sampled: &Sampled| {
            let ((when, candidate), values) = sampled.values.iter().find(|(_, values)| values.len() > 1)?;
            let field = *CANDIDATES.get(*candidate)?;
            let least = if sampled.spans >= FIRST { "at least " } else { "" };
            let what = format!("field `{field}` has {least}{} values in one row", values.len());
            let way = match when {
                When::Created => {
                    format!("TRACING_GPU=name_from={field}, or .name_from([\"{field}\"]) of the builder, splits it.")
                }
                When::Later => "It is set after the span is created, when the row is fixed, so `name_from` does not \
                                split it: a span inside for each value does."
                    .to_owned(),
            };
            Some((sampled.name, field, values.len(), format!("`{}`: {what}. {way}", sampled.name)))
        };
        let time = |name: &str| -> u128 {
            ranges.iter().filter(|row| row.name == name).map(|row| u128::from(row.times.total_ns)).sum()
        };
        let mut rows: Vec<(&str, &str, usize, String)> = sites.values().filter_map(split).collect();
        rows.sort_by_cached_key(|&(name, field, values, _)| (Reverse(time(name)), name, field, Reverse(values)));
        rows.dedup_by_key(|&mut (name, field, ..)| (name, field));
        rows.into_iter().take(MAX_ADVICE).map(|(.., sentence)| sentence).collect()
    }
}

/// The call site of a field that may tell spans apart.
struct Named(Option<Identifier>);

impl Visit for Named {
    fn record_debug(&mut self, field: &Field, _: &dyn fmt::Debug) {
        if CANDIDATES.contains(&field.name()) {
            self.0 = Some(field.callsite());
        }
    }
}

/// Hashes of values, each with the place of its field among the candidates.
#[derive(Default)]
struct Values(Vec<(usize, u64)>);

impl Visit for Values {
    fn record_str(&mut self, field: &Field, value: &str) {
        if let Some(candidate) = CANDIDATES.iter().position(|name| *name == field.name()) {
            self.0.push((candidate, FxBuildHasher.hash_one(value)));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if CANDIDATES.contains(&field.name()) {
            self.record_str(field, &format!("{value:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use range_report::Times;
    use tracing::info_span;
    use tracing_subscriber::prelude::*;

    use super::*;
    use crate::{Output, Profiler, ProfilerBuilder, Summary};

    fn measured(builder: impl Fn() -> ProfilerBuilder, work: impl Fn()) -> [Summary; 2] {
        [false, true].map(|with_layer| {
            let profiler = builder().nvtx(false).output(Output::None).build().expect("a profiler");
            if with_layer {
                tracing::subscriber::with_default(tracing_subscriber::registry().with(profiler.layer()), &work);
            } else {
                tracing::subscriber::with_default(profiler.subscriber(), &work);
            }
            let mut summary = profiler.summary();
            // Every dispatcher is told of the call sites of all tests before it.
            summary.notes.retain(|note| !note.starts_with("Not measured"));
            summary
        })
    }

    fn rows(summary: &Summary) -> Vec<(&str, u64)> {
        let mut rows: Vec<_> = summary.ranges.iter().map(|row| (row.name.as_str(), row.times.instances)).collect();
        rows.sort_unstable();
        rows
    }

    #[test]
    fn a_field_that_splits_a_row_is_named() {
        let work = || {
            for number in 0..100 {
                let name = format!("system {}", number % 16);
                info_span!("system", name = %name, id = number).in_scope(|| info_span!("inside").in_scope(|| ()));
                info_span!("request", http.route = "/", otel.name = name).in_scope(|| ());
                info_span!("one", name = "always", system = number).in_scope(|| ());
            }
        };
        for summary in measured(Profiler::builder, work) {
            assert_eq!(rows(&summary), [("inside", 100), ("one", 100), ("request", 100), ("system", 100)]);
            let calls: Vec<(&str, u64, usize)> =
                summary.tree.iter().map(|node| (node.name.as_str(), node.calls, node.children.len())).collect();
            assert_eq!(calls, [("system", 100, 1), ("request", 100, 0), ("one", 100, 0)]);
            // Those whose rows took longest are named: which two these are is not known.
            let known = [("one", "system", 65), ("request", "otel.name", 16), ("system", "name", 16)];
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
                let values = BTreeMap::from([((When::Created, 4), FxHashSet::from_iter([1, 2]))]);
                let sampled = Sampled { name: metadata.name(), spans: FIRST, values };
                samples.sites.lock().insert(metadata.callsite(), sampled);
            }
        });
        let rows = [("a", 5), ("b", 7), ("c", 6)].map(|(name, total)| RangeStats::new(name, Times::new(1, total)));
        assert_eq!(samples.advice(&rows), ["b", "c"].map(|name| advised(name, "name", 2)));
    }

    /// The first spans of a client are equal where it calls one server first; so are those of a row of futures.
    #[test]
    fn spans_after_equal_ones_are_looked_at() {
        for is_future in [false, true] {
            let work = || {
                for number in 0..1_000 {
                    let name = if number < 100 { "first" } else { "then" };
                    let span = info_span!("call", otel.name = name);
                    (0..=u32::from(is_future)).for_each(|_| span.in_scope(|| ()));
                }
            };
            for summary in measured(Profiler::builder, work) {
                assert_eq!(summary.advice, [advised("call", "otel.name", 2)], "{is_future}");
                assert_eq!(summary.ranges[0].times.instances, 1_000 * (1 + u64::from(is_future)));
            }
        }
    }

    /// As the server of tarpc does.
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

    /// Also when they are entered elsewhere, while the first ones are looked at.
    #[test]
    fn spans_that_are_looked_at_are_counted_on_any_thread() {
        let work = || {
            let spans: Vec<_> = (0..10).map(|number| info_span!("system", name = number % 2)).collect();
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
    fn bare_fields_are_read_where_that_is_asked_for() {
        let work = || info_span!("a", category = "one", color = "red", payload = 1).in_scope(|| ());
        for (on, categories) in [(false, 0), (true, 1)] {
            for summary in measured(|| Profiler::builder().bare_fields(on), work) {
                assert_eq!((summary.categories.len(), summary.ranges.len()), (categories, 1));
            }
        }
    }
}
