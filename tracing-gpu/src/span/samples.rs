//! Fields that may distinguish the spans of one row: collects their values in the first spans of a call site, for a
//! note.
//!
//! A call site that declares such a field, and none that is read anyway, takes the slow way for its first spans on each
//! thread and under each parent. Then its spans are as fast as any.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::BuildHasher as _;

use parking_lot::Mutex;
use rustc_hash::{FxBuildHasher, FxHashSet};
use tracing_core::Metadata;
use tracing_core::field::{Field, Visit};
use tracing_core::span::Attributes;

use super::site::site_key;

/// Fields that frameworks put the real name of a span in, the best one first.
const CANDIDATES: [&str; 6] = ["otel.name", "http.route", "rpc.method", "route", "name", "system"];
/// Spans of a call site that are looked at.
const SAMPLES: usize = 64;
/// Call sites that have a note.
const MAX_NOTES: usize = 2;

/// Whether a call site declares such a field.
pub(crate) fn is_worth_it(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.fields().iter().any(|field| CANDIDATES.contains(&field.name()))
}

/// By call site.
#[derive(Debug, Default)]
pub(crate) struct NameSamples(Mutex<HashMap<u64, Sampled>>);

#[derive(Debug)]
struct Sampled {
    name: &'static str,
    spans: usize,
    /// Hashes of the values of each field, by its place among the candidates.
    values: BTreeMap<usize, FxHashSet<u64>>,
}

impl NameSamples {
    /// Takes a span. Returns whether no more spans are needed. Code of the values runs, so the gate must be closed.
    pub(crate) fn take(&self, attributes: &Attributes<'_>) -> bool {
        let metadata = attributes.metadata();
        let mut read = Values::default();
        if self.is_full(metadata) {
            return true;
        }
        attributes.record(&mut read); // not under the lock
        let mut all = self.0.lock();
        let none = || Sampled { name: metadata.name(), spans: 0, values: BTreeMap::new() };
        let sampled = all.entry(site_key(metadata)).or_insert_with(none);
        sampled.spans += 1;
        for (candidate, hash) in read.0 {
            sampled.values.entry(candidate).or_default().insert(hash);
        }
        sampled.spans >= SAMPLES
    }

    fn is_full(&self, metadata: &'static Metadata<'static>) -> bool {
        self.0.lock().get(&site_key(metadata)).is_some_and(|sampled| sampled.spans >= SAMPLES)
    }

    /// For the call sites whose spans have the most names: which field tells them apart.
    pub(crate) fn notes(&self) -> Vec<String> {
        let all = self.0.lock();
        let split = |sampled: &Sampled| {
            let (candidate, values) = sampled.values.iter().find(|(_, values)| values.len() > 1)?;
            Some((values.len(), sampled.name, *CANDIDATES.get(*candidate)?, sampled.spans >= SAMPLES))
        };
        let mut rows: Vec<(usize, &str, &str, bool)> = all.values().filter_map(split).collect();
        rows.sort_by_key(|&(count, name, field, _)| (std::cmp::Reverse(count), name, field));
        rows.dedup_by_key(|&mut (_, name, field, _)| (name, field));
        let rows = rows.into_iter().take(MAX_NOTES);
        rows.map(|(count, name, field, is_full)| {
            let least = if is_full { "at least " } else { "" };
            format!(
                "`{name}`: field `{field}` has {least}{count} values in one row. TRACING_GPU=name_from={field}, or \
                 .name_from([\"{field}\"]) of the builder, splits it."
            )
        })
        .collect()
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
    use tracing::info_span;
    use tracing_subscriber::prelude::*;

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
            let notes = [("one", "system", 64), ("request", "otel.name", 16)].map(|(name, field, least)| {
                format!(
                    "`{name}`: field `{field}` has at least {least} values in one row. \
                     TRACING_GPU=name_from={field}, or .name_from([\"{field}\"]) of the builder, splits it."
                )
            });
            assert_eq!(summary.notes, notes);
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
            assert_eq!(summary.notes.len(), 1, "{:?}", summary.notes);
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
            assert!(summary.notes.is_empty(), "{:?}", summary.notes);
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
