//! The rows of the merged tables, all in one form.

use std::cmp::Reverse;

use crate::report::gpu_work::{bracketed, nsys_call, printable};
use crate::report::kinds::{MergedTable, TableStyle};
use crate::report::nsys::style_name;
use crate::report::options::RenderOptions;
use range_model::names;
use range_model::stats::{Named, order};
use range_model::{
    MemoryKind, Merged, MergedActivity, MergedSummary, RangeLabel, RangeStyle, RankTotals, Sizes, Times, WorkPart,
};

/// The quantity of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Nanoseconds.
    Time,
    /// Bytes.
    Size,
}

/// A table under construction.
pub(super) struct Rows<'a> {
    pub(super) unit: Unit,
    /// Header over the totals, without the unit.
    pub(super) total: &'static str,
    /// Header over the numbers of instances.
    pub(super) count: &'static str,
    /// Headers over [`Line::names`].
    pub(super) names: Vec<&'static str>,
    pub(super) lines: Vec<Line<'a>>,
    /// The sum on which the shares are based.
    pub(super) base: u128,
}

pub(super) struct Line<'a> {
    pub(super) total: u64,
    pub(super) count: u64,
    /// The dividend of the average; `None` if there is none.
    pub(super) sum: Option<u64>,
    /// Figures per instance, besides the average; `None` if instances mean nothing here, and for summed rows.
    pub(super) each: Option<Each>,
    /// All times, if the figures are times.
    pub(super) times: Option<&'a Times>,
    pub(super) ranks: &'a RankTotals,
    /// Whether the figures mean nothing, because nothing was enqueued.
    pub(super) says_nothing: bool,
    /// Names of the row, the longest one last.
    pub(super) names: Vec<String>,
    /// The remark behind the name; empty if the other names have columns of their own.
    pub(super) aside: String,
}

/// Figures per instance, in nanoseconds or bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Each {
    pub(super) min: u64,
    pub(super) max: u64,
    /// Bounds of the median: of several processes only their own medians are known.
    pub(super) median: Option<(f64, f64)>,
    pub(super) deviation: f64,
}

impl Each {
    const fn of_times(times: &Times, median: Option<(f64, f64)>) -> Self {
        Self { min: times.min_ns, max: times.max_ns, median, deviation: times.stddev_ns }
    }

    const fn of_sizes(row: &Merged<MemoryKind, Sizes>) -> Self {
        let Sizes { min_bytes: min, max_bytes: max, stddev_bytes: deviation, .. } = row.all;
        Self { min, max, median: row.median_bounds, deviation }
    }
}

impl<'a> Line<'a> {
    fn of<K>(row: &'a Merged<K, Times>, names: Vec<String>) -> Self {
        Self::of_times(&row.all, row.median_bounds, &row.ranks, names)
    }

    fn of_times(times: &'a Times, median: Option<(f64, f64)>, ranks: &'a RankTotals, names: Vec<String>) -> Self {
        let (each, times_of_all) = (Some(Each::of_times(times, median)), Some(times));
        Self { each, times: times_of_all, ..Self::new(times.total_ns, times.instances, ranks, names) }
    }

    /// A line without figures per instance besides the average.
    fn new(total: u64, count: u64, ranks: &'a RankTotals, names: Vec<String>) -> Self {
        let (each, times, says_nothing, aside) = (None, None, false, String::new());
        Self { total, count, sum: Some(total), each, times, ranks, says_nothing, names, aside }
    }
}

impl<'a> Rows<'a> {
    fn new(
        unit: Unit,
        total: &'static str,
        count: &'static str,
        names: Vec<&'static str>,
        lines: Vec<Line<'a>>,
    ) -> Self {
        let base = lines.iter().filter(|line| !line.says_nothing).map(|line| u128::from(line.total)).sum();
        Self { unit, total, count, names, lines, base }
    }

    fn times(count: &'static str, names: Vec<&'static str>, lines: Vec<Line<'a>>) -> Self {
        Self::new(Unit::Time, "Total Time", count, names, lines)
    }

    /// The same rows with a column for their names alone: the other names become a remark behind the name, as in `step
    /// (start/end)`.
    pub(super) fn by_name_alone(&self) -> Self {
        let name = |line: &Line<'a>| line.names.last().cloned().unwrap_or_default();
        let mut times: Named<String, usize> = Named::default();
        self.lines.iter().for_each(|line| *times.row(name(line)) += 1);
        let lines = self.lines.iter().map(|line| {
            let name = name(line);
            let others = line.names.split_last().map_or(&[][..], |(_, others)| others);
            let others = others.iter().filter(|_| times.get(&name).is_some_and(|&times| times > 1));
            let aside = others.filter_map(|other| match other.as_str() {
                other if other == style_name(RangeStyle::PushPop) => None, // the default style of a range
                other if other == style_name(RangeStyle::StartEnd) => Some(" (start/end)".to_owned()),
                other => Some(format!(" ({other})")),
            });
            Line { aside: aside.collect(), names: vec![name], ..*line }
        });
        Self { names: self.names.last().copied().into_iter().collect(), lines: lines.collect(), ..*self }
    }

    /// The figures by process of the lines beyond the first `most`, if there is more than one.
    pub(super) fn ranks_beyond(&self, most: usize) -> Option<RankTotals> {
        let others = self.lines.get(most..).filter(|others| others.len() > 1)?; // a single one is as short
        Some(RankTotals::sum(others.iter().filter(|line| !line.says_nothing).map(|line| line.ranks)))
    }

    /// The first lines, and one with the sum of the others, whose totals by process are `ranks`.
    pub(super) fn bounded(mut self, most: usize, ranks: Option<&'a RankTotals>) -> Self {
        let Some(ranks) = ranks else { return self };
        let others = self.lines.split_off(most.min(self.lines.len()));
        let sum = |of: fn(&Line<'_>) -> u64| {
            others.iter().filter(|line| !line.says_nothing).map(of).fold(0, u64::saturating_add)
        };
        let mut names = vec![String::new(); self.names.len()];
        if let Some(name) = names.last_mut() {
            *name = format!("({} more)", others.len());
        }
        let dividend = others.iter().all(|line| line.sum.is_some()).then(|| sum(|line| line.sum.unwrap_or(0)));
        let line = Line::new(sum(|line| line.total), sum(|line| line.count), ranks, names);
        self.lines.push(Line { sum: dividend, ..line });
        self
    }

    /// Reorders the rows, and the columns for names, as in the table of one process.
    pub(super) fn as_of_one(&mut self, table: MergedTable) {
        if table == MergedTable::StreamTimes {
            self.names.reverse();
            self.lines.iter_mut().for_each(|line| line.names.reverse());
        }
        match table {
            MergedTable::Work => return, // one process has no such table
            MergedTable::Calls => {
                order::by_key(&mut self.lines, |line| {
                    Reverse((line.total, line.times.map_or(0, |latency| latency.total_ns)))
                });
                return;
            }
            _ => {}
        }
        order::by(&mut self.lines, |a, b| {
            let key = |line: &Line<'a>| Reverse((!line.says_nothing).then_some(line.total));
            // Labels before styles, and ranges before streams.
            let names = |line: &Line<'a>| match table {
                MergedTable::StreamTimes => line.names.clone(),
                _ => line.names.iter().rev().cloned().collect::<Vec<_>>(),
            };
            key(a).cmp(&key(b)).then_with(|| names(a).cmp(&names(b)))
        });
    }

    /// The rows without remarks behind their names.
    pub(super) fn bare(&self) -> Self {
        let lines = self.lines.iter().map(|line| Line { aside: String::new(), names: line.names.clone(), ..*line });
        Self { names: self.names.clone(), lines: lines.collect(), ..*self }
    }

    /// `None` for the tree, which has a form of its own. Copies have their names in that style; the names of 2021 are
    /// shorter.
    pub(super) fn of(merged: &'a MergedSummary, table: MergedTable, style: TableStyle) -> Option<Self> {
        let gpu = merged.gpu.as_ref();
        Some(match table {
            MergedTable::Ranges => {
                let rows = merged.ranges.iter().map(|row| (&row.key, &row.all, row.median_bounds, &row.ranks));
                of_ranges(rows.collect(), "Instances")
            }
            MergedTable::GpuProjection => {
                let rows = gpu.into_iter().flat_map(|gpu| &gpu.projections);
                let rows = rows.map(|row| (&row.key, &row.all.times, row.median_bounds, &row.ranks));
                of_ranges(rows.collect(), "Instances")
            }
            MergedTable::StreamTimes => streams(merged),
            MergedTable::Work => work(gpu),
            MergedTable::Kernels => {
                let rows = gpu.into_iter().flat_map(|gpu| &gpu.kernels);
                Self::times("Instances", vec!["Name"], rows.map(|row| Line::of(row, vec![row.key.clone()])).collect())
            }
            MergedTable::Api => {
                let rows = gpu.into_iter().flat_map(|gpu| gpu.calls.iter().flatten());
                let lines = rows.map(|row| Line::of(row, vec![nsys_call(&row.key).to_owned()]));
                Self::times("Num Calls", vec!["Name"], lines.collect())
            }
            MergedTable::OpenAcc => {
                let lines = merged.openacc.iter().map(|row| Line::of(row, vec![row.key.clone()]));
                Self::times("Events", vec!["Event"], lines.collect())
            }
            MergedTable::MemTime => {
                let rows = gpu.into_iter().flat_map(|gpu| &gpu.memory_times);
                let lines = rows.map(|row| Line::of(row, vec![bracketed(row.key, style)]));
                Self::times("Count", vec!["Operation"], lines.collect())
            }
            MergedTable::MemSize => {
                let rows = gpu.into_iter().flat_map(|gpu| &gpu.memory_sizes);
                let lines = rows.map(|row| {
                    let (names, sizes) = (vec![bracketed(row.key, style)], &row.all);
                    let line = Line::new(sizes.total_bytes, sizes.count, &row.ranks, names);
                    Line { each: Some(Each::of_sizes(row)), ..line }
                });
                Self::new(Unit::Size, "Total", "Count", vec!["Operation"], lines.collect())
            }
            MergedTable::Calls => {
                let lines = merged.calls.iter().map(|row| Line {
                    total: row.all.awaited_self_ns,
                    sum: Some(row.all.awaited_self_ns),
                    each: None, // latencies, not instances
                    ..Line::of_times(
                        &row.all.latency,
                        None,
                        &row.ranks,
                        vec![names::label_or_none(row.key.domain.as_deref(), &row.key.name)],
                    )
                });
                Self::new(Unit::Time, "Awaited Self", "Calls", vec!["Call"], lines.collect())
            }
            MergedTable::Categories => {
                let lines = merged.categories.iter().map(|row| Line::of(row, vec![row.key.clone()]));
                Self::times("Instances", vec!["Category"], lines.collect())
            }
            MergedTable::Tree => return None,
        })
    }
}

/// A range: its label, its times, the bounds of its median, and its figures by process.
type RangeRow<'a> = (&'a RangeLabel, &'a Times, Option<(f64, f64)>, &'a RankTotals);

/// Adds a column for the style if any range is not push/pop.
fn of_ranges<'a>(rows: Vec<RangeRow<'a>>, count: &'static str) -> Rows<'a> {
    let any_start_end = rows.iter().any(|(key, ..)| key.style == RangeStyle::StartEnd);
    let lines = rows.into_iter().map(|(key, times, median, ranks)| {
        let style = any_start_end.then(|| style_name(key.style).to_owned());
        Line::of_times(
            times,
            median,
            ranks,
            style.into_iter().chain([names::label_or_none(key.domain.as_deref(), &key.name)]).collect(),
        )
    });
    let names = if any_start_end { vec!["Style", "Range"] } else { vec!["Range"] };
    Rows::times(count, names, lines.collect())
}

/// Rows without a visible total come last.
fn streams(merged: &MergedSummary) -> Rows<'_> {
    let lines = merged.stream_ranges.iter().map(|row| {
        let names = vec![row.key.stream.clone(), names::label_or_none(row.key.domain.as_deref(), &row.key.name)];
        let line = Line::of_times(&row.all.times, row.median_bounds, &row.ranks, names);
        Line { says_nothing: row.all.empty >= row.all.times.instances, ..line }
    });
    let mut lines: Vec<Line<'_>> = lines.collect();
    order::by_key(&mut lines, |line| Reverse(!line.says_nothing));
    Rows::times("Instances", vec!["Stream", "Range"], lines)
}

/// Shares are of all work. An average means little, because operations overlap.
fn work(gpu: Option<&MergedActivity>) -> Rows<'_> {
    let rows = || gpu.into_iter().flat_map(|gpu| &gpu.work);
    let lines = rows().map(|row| {
        let name = match row.key {
            WorkPart::All => "all",
            WorkPart::Outside => "outside of ranges",
            WorkPart::Unmatched => "launch not known",
        };
        Line { sum: None, ..Line::new(row.all.busy_ns, row.all.operations, &row.ranks, vec![name.to_owned()]) }
    });
    let table = Rows::new(Unit::Time, "Busy Time", "Operations", vec!["Work"], lines.collect());
    let all = rows().find(|row| row.key == WorkPart::All).map_or(0, |row| u128::from(row.all.busy_ns));
    Rows { base: all, ..table }
}

/// Whether all processes have ranks, like those of MPI.
pub(super) fn are_ranks(merged: &MergedSummary) -> bool {
    merged.processes.iter().all(|process| process.rank.is_some())
}

/// The process with the greatest total.
pub(super) fn slowest(ranks: &RankTotals, merged: &MergedSummary, options: &RenderOptions) -> String {
    let process = ranks.slowest().and_then(|rank| merged.processes.get(rank.process));
    let label = process.map_or_else(String::new, |process| process.label());
    printable(&label, options)
}
