//! Fields that may distinguish the spans of one row: collects their values in some spans of a call site, for advice.
//!
//! Sampling applies to a call site that declares such a field, unless all its fields are read anyway or one of them
//! splits it (`session/splits.rs`). Its first spans on each thread and under each parent take the slow path. Later
//! spans are as fast as any, except for one each time that the instances or calls of a row have doubled, because the
//! first spans may be equal. A field that is recorded after the creation of its span counts as well.

use std::cmp::Reverse;
use std::fmt::{self, Write as _};
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use nvtx_rs::text::sanitize;
use parking_lot::Mutex;
use range_report::RangeStats;
use range_report::stats::{Keyed, Lean, order};
use rustc_hash::FxBuildHasher;
use tracing_core::Metadata;
use tracing_core::callsite::Identifier;
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Record};

/// Fields in which frameworks put the real name of a span, the best one first.
const CANDIDATES: [&str; 7] = ["otel.name", "http.route", "rpc.method", "route", "name", "system", "return_type"];
/// The number of a call site's first spans that are all sampled.
pub(crate) const FIRST: usize = 64;
/// The largest number of values of a field that are distinguished.
const MAX_VALUES: usize = 256;
/// The largest number of call sites with advice.
const MAX_ADVICE: usize = 2;

/// Whether a call site declares such a field.
pub(crate) fn is_worth_it(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.fields().iter().any(|field| CANDIDATES.contains(&field.name()))
}

/// The call site of a span, if such a field of it is recorded. Formats nothing.
pub(crate) fn named_in(record: &Record<'_>) -> Option<Identifier> {
    let mut named = Named(None);
    record.record(&mut named);
    named.0
}

/// Samples by call site.
#[derive(Debug, Default)]
pub(crate) struct NameSamples {
    sites: Mutex<Keyed<Identifier, Sampled>>,
    are_taken: AtomicBool,
}

#[derive(Debug)]
struct Sampled {
    name: &'static str,
    spans: usize,
    /// Hashes of the values of each field, with the field's index in `CANDIDATES`: separate for values at creation and
    /// values recorded later.
    values: Vec<((When, usize), Keyed<u64, ()>)>,
}

/// When a span gets a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    Created,
    Later,
}

impl Sampled {
    fn none(metadata: &Metadata<'static>) -> Self {
        Self { name: metadata.name(), spans: 0, values: Vec::new() }
    }

    fn put(&mut self, when: When, read: Values) {
        for (candidate, hash) in read.0 {
            let field = (when, candidate);
            let place = self.values.iter().position(|(known, _)| *known == field).unwrap_or_else(|| {
                self.values.push((field, Keyed::default()));
                self.values.len() - 1
            });
            let (_, values) = &mut self.values[place];
            if values.len() < MAX_VALUES {
                values.insert(hash, ());
            }
        }
    }
}

impl NameSamples {
    /// Samples a span. Returns whether that is enough for now. It runs code of the values, so the gate must be closed.
    pub(crate) fn take(&self, attributes: &Attributes<'_>) -> bool {
        let metadata = attributes.metadata();
        let mut read = Values::default();
        attributes.record(&mut read); // not under the lock
        let mut sites = self.sites.lock();
        let sampled = sites.row_or(metadata.callsite(), || Sampled::none(metadata));
        sampled.spans += 1;
        sampled.put(When::Created, read);
        self.are_taken.store(true, Relaxed);
        sampled.spans >= FIRST
    }

    /// Stores the values of a call site that has too many, each with the name of its field, in place of samples.
    pub(crate) fn fill<'a>(
        &self,
        metadata: &'static Metadata<'static>,
        values: impl Iterator<Item = (&'a str, &'a str)>,
    ) {
        let hashes = values.filter_map(|(field, value)| hash(field, value)).in_vec();
        let mut sites = self.sites.lock();
        let sampled = sites.row_or(metadata.callsite(), || Sampled::none(metadata));
        sampled.spans = sampled.spans.max(FIRST);
        sampled.put(When::Created, Values(hashes));
        self.are_taken.store(true, Relaxed);
    }

    /// Whether any span was sampled; otherwise records need no attention.
    #[inline]
    pub(crate) fn are_taken(&self) -> bool {
        self.are_taken.load(Relaxed)
    }

    /// Samples values that are recorded after a span's creation, if its call site is sampled. The gate must be closed,
    /// as for [`take`](Self::take).
    pub(crate) fn take_recorded(&self, record: &Record<'_>) {
        let mut read = Values::default();
        record.record(&mut read);
        if let Some(site) = named_in(record)
            && let Some(sampled) = self.sites.lock().get_mut(&site)
        {
            sampled.put(When::Later, read);
        }
    }

    /// Advice for call sites whose spans have more than one name, the most expensive rows first: the field that
    /// distinguishes the spans. `named_by` are the fields that already name spans; a choice of fields must include
    /// them.
    pub(crate) fn advice(&self, ranges: &[RangeStats], named_by: &[String]) -> Vec<String> {
        let sites = self.sites.lock();
        let split = |sampled: &Sampled| {
            let ((when, candidate), values) =
                sampled.values.iter().filter(|(_, values)| values.len() > 1).min_by_key(|(field, _)| *field)?;
            let field = *CANDIDATES.get(*candidate)?;
            let least = if sampled.spans >= FIRST { "at least " } else { "" };
            let what = format!("field `{field}` has {least}{} values in one row", values.len());
            let way = match when {
                When::Created => {
                    let mut fields: Vec<&str> = named_by.iter().map(String::as_str).in_vec();
                    fields.extend(Some(field).filter(|field| !fields.contains(field)));
                    let (all, list) = (fields.join("+"), fields.join("\", \""));
                    format!("TRACING_GPU=name_from={all}, or .name_from([\"{list}\"]) of the builder, splits it.")
                }
                When::Later => "It is set after the span is created, when the row is fixed, so `name_from` does not \
                                split it: a span inside for each value does."
                    .to_owned(),
            };
            Some((sampled.name, field, values.len(), format!("`{}`: {what}. {way}", sampled.name)))
        };
        let time =
            |name: &str| -> u128 { ranges.iter().filter(|row| row.name == name).map(|row| row.times.total_ns).total() };
        let mut rows: Vec<(&str, &str, usize, String)> = sites.rows().iter().filter_map(split).in_vec();
        order::by_key(&mut rows, |&(name, field, values, _)| (Reverse(time(name)), name, field, Reverse(values)));
        rows.dedup_by_key(|&mut (name, field, ..)| (name, field));
        rows.into_iter().take(MAX_ADVICE).map(|(.., sentence)| sentence).in_vec()
    }
}

/// The call site of a field that may distinguish spans.
struct Named(Option<Identifier>);

impl Visit for Named {
    fn record_debug(&mut self, field: &Field, _: &dyn fmt::Debug) {
        if CANDIDATES.contains(&field.name()) {
            self.0 = Some(field.callsite());
        }
    }
}

/// The hash of a value, with the index of its field in `CANDIDATES`.
fn hash(field: &str, value: &str) -> Option<(usize, u64)> {
    let candidate = CANDIDATES.iter().position(|name| *name == field)?;
    Some((candidate, FxBuildHasher.hash_one(&*sanitize(value))))
}

/// Hashes of values, each with the index of its field in `CANDIDATES`.
#[derive(Default)]
struct Values(Vec<(usize, u64)>);

impl Visit for Values {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.extend(hash(field.name(), value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // `format!` panics if `Debug` or `Display` of a value returns an error.
        if CANDIDATES.contains(&field.name()) && write!(text, "{value:?}").is_ok() {
            self.record_str(field, &text);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
