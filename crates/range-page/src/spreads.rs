//! How the times of names are spread over all instances, for pages that do not have all of them.

use std::collections::BTreeMap;

use super::tables::MOST_ROWS;
use super::texts::{LONGEST, presentable};
use range_model::names::label_or_none;
use range_model::summary::{Summary, Times};
use range_report::TableStyle;
use range_report::page::{bracketed, nsys_call};

/// By the title of a table, and by the name of a row: see [`Times::histogram`].
pub(super) type Spreads<'a> = BTreeMap<&'static str, BTreeMap<String, &'a [(u32, u64)]>>;

pub(super) fn spreads(summary: &Summary) -> Spreads<'_> {
    let mut all = Spreads::new();
    let ranges = summary.ranges.iter().map(|row| (label_or_none(row.domain.as_deref(), &row.name), &row.times));
    all.insert("Ranges", of_names(ranges));
    let calls = summary.calls.iter().map(|row| (label_or_none(row.domain.as_deref(), &row.name), &row.latency));
    all.insert("Calls", of_names(calls));
    if let Some(gpu) = &summary.gpu {
        all.insert("Kernels", of_names(gpu.kernels.iter().map(|row| (row.name.clone(), &row.times))));
        let memory = gpu.memory.iter().map(|row| (bracketed(row.kind, TableStyle::Current), &row.times));
        all.insert("GPU memory", of_names(memory));
        let calls = gpu.calls.iter().flatten().map(|row| (nsys_call(&row.name).to_owned(), &row.times));
        all.insert("API calls", of_names(calls));
    }
    all
}

/// Of rows with one name, as those of push/pop and of start/end ranges, the first counts.
fn of_names<'a>(rows: impl Iterator<Item = (String, &'a Times)>) -> BTreeMap<String, &'a [(u32, u64)]> {
    let mut all = BTreeMap::new();
    for (name, times) in rows.take(MOST_ROWS) {
        all.entry(presentable(&name, LONGEST).into_owned()).or_insert(times.histogram.as_slice());
    }
    all
}
