//! Summaries of many processes as one: what each range took in all of them, and in which it took longest.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use super::{ActivityLosses, Losses, Process, RangeStyle, StreamLosses, Summary, Times};
use crate::report::{self, RenderOptions};

/// The summaries of many processes together; from [`Summary::merge`].
///
/// ```
/// use tracing_gpu::{Process, RangeStats, RangeStyle, Summary, Times};
///
/// let of_rank = |rank: u32, total_ns: u64| {
///     let mut summary = Summary::default();
///     summary.process = Process { rank: Some(rank), ..Process::default() };
///     let times = Times { instances: 10, total_ns, ..Times::default() };
///     summary.ranges = vec![RangeStats { domain: None, name: "step".to_owned(), style: RangeStyle::PushPop, times }];
///     summary
/// };
/// let merged = Summary::merge([of_rank(0, 1_000), of_rank(1, 1_700), of_rank(2, 1_200)]);
/// let step = &merged.ranges[0];
/// assert_eq!((step.times.instances, step.times.total_ns), (30, 3_900));
/// assert_eq!(step.fastest().map(|rank| rank.total_ns), Some(1_000));
/// let slowest = step.slowest().ok_or("no process")?;
/// assert_eq!((merged.processes[slowest.process].label(), slowest.total_ns), ("rank 1".to_owned(), 1_700));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MergedSummary {
    /// The processes, by rank (those without one last), host and process id.
    pub processes: Vec<Process>,
    /// Length of the longest window.
    pub elapsed_ns: u64,
    /// Ranges of all processes, by total time descending, then by label and style.
    pub ranges: Vec<MergedRange>,
    /// What was lost or changed, of all processes together.
    pub losses: Losses,
    /// The notes of all processes; one that several have is here once, with their number.
    pub notes: Vec<String>,
}

/// One range in all processes.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MergedRange {
    /// NVTX domain; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the range.
    pub name: String,
    /// Push/pop or start/end.
    pub style: RangeStyle,
    /// The durations of all instances in all processes. Counts, sums, minimum, maximum and deviation are those of all instances; a median cannot be told
    /// from medians, so it is `None`, unless one process alone has the range. [`median_bounds_ns`](Self::median_bounds_ns) says between what it lies.
    pub times: Times,
    /// The least and the greatest median of a process: that of all instances is neither below nor above (as far as they are exact themselves). `None` where a process does not know its own.
    pub median_bounds_ns: Option<(f64, f64)>,
    /// What each process has of it, in the order of [`MergedSummary::processes`]; those that do not have it are left out.
    pub ranks: Vec<RankTotal>,
}

/// One range in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RankTotal {
    /// The process, as a place in [`MergedSummary::processes`].
    pub process: usize,
    /// Instances there.
    pub instances: u64,
    /// Sum of their durations.
    pub total_ns: u64,
}

impl MergedRange {
    /// The process in which this range took longest, by its total; the first of those that are equal.
    #[must_use]
    pub fn slowest(&self) -> Option<&RankTotal> {
        self.ranks.iter().min_by_key(|rank| Reverse(rank.total_ns))
    }

    /// The process in which it took the least time, of those that have it; the first of those that are equal.
    #[must_use]
    pub fn fastest(&self) -> Option<&RankTotal> {
        self.ranks.iter().min_by_key(|rank| rank.total_ns)
    }

    /// The longest total by the average over the processes that have the range: 1 where all take equally long. `None` where no time passed.
    #[must_use]
    pub fn imbalance(&self) -> Option<f64> {
        let slowest = self.slowest()?.total_ns as f64;
        (self.times.total_ns > 0).then(|| slowest * self.ranks.len() as f64 / self.times.total_ns as f64)
    }
}

impl MergedSummary {
    /// Prints the ranges: totals over all processes, the least, average and longest total of a process, and which process that is; then what was lost.
    ///
    /// ```
    /// use tracing_gpu::{RenderOptions, Summary};
    ///
    /// let mut text = Vec::new();
    /// Summary::merge([Summary::default(), Summary::default()]).render(&RenderOptions::default(), &mut text)?;
    /// assert!(text.starts_with(b"\n ** Ranges of 2 Processes (merged):\n"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn render(&self, options: &RenderOptions, out: &mut impl io::Write) -> io::Result<()> {
        out.write_all(report::merged(self, options).as_bytes())
    }

    /// Writes the table that [`render`](Self::render) prints as comma-separated values, quoted as [`export::csv`](crate::export::csv) does.
    ///
    /// ```
    /// let mut text = Vec::new();
    /// tracing_gpu::Summary::merge([]).csv(&mut text)?;
    /// assert!(text.ends_with(b",Min Rank (ns),Avg Rank (ns),Max Rank (ns),Max/Avg,Slowest,Range\n"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn csv(&self, out: &mut impl io::Write) -> io::Result<()> {
        let plain = RenderOptions::default().raw_names(true);
        out.write_all(report::merged_table(self, &plain).csv().as_bytes())
    }
}

impl Summary {
    /// Joins the summaries of many processes, such as the ranks of one run. They are taken one after the other, and the order does not matter.
    ///
    /// A process says which it is (see [`Process`]) and writes its summary under a name of its own, `json=run-%r.json`; one that is handed a thousand such files
    /// joins them in a quarter of a second.
    ///
    /// ```
    /// use tracing_gpu::Summary;
    ///
    /// let merged = Summary::merge([Summary::default(), Summary::default()]);
    /// assert_eq!(merged.processes.len(), 2);
    /// ```
    ///
    /// Ranges are joined by label and style. The tree, stream times, categories and the GPU's work stay with the processes.
    #[must_use]
    pub fn merge(summaries: impl IntoIterator<Item = Self>) -> MergedSummary {
        let (mut merged, mut rows, mut notes) = (MergedSummary::default(), BTreeMap::new(), BTreeMap::new());
        for (process, summary) in summaries.into_iter().enumerate() {
            for range in summary.ranges.into_iter().filter(|range| range.times.instances > 0) {
                let key = (range.label(), range.style);
                let parts: &mut Parts = rows.entry(key).or_insert_with(|| Parts::of(range.domain, range.name));
                parts.times.push((process, range.times));
            }
            merged.elapsed_ns = merged.elapsed_ns.max(summary.elapsed_ns);
            add_losses(&mut merged.losses, summary.losses);
            for note in summary.notes {
                *notes.entry(note).or_insert(0_usize) += 1;
            }
            merged.processes.push(summary.process);
        }
        let places = sort_processes(&mut merged.processes);
        merged.ranges = rows.into_iter().map(|((_, style), parts)| parts.together(style, &places)).collect();
        merged.ranges.sort_by_key(|range| Reverse(range.times.total_ns)); // stable: equal totals stay in the order of their names
        merged.notes = notes
            .into_iter()
            .map(|(note, count)| if count > 1 { format!("{note} ({count} processes)") } else { note })
            .collect();
        merged
    }
}

/// Sorts the processes, and returns the new place of each.
fn sort_processes(processes: &mut Vec<Process>) -> Vec<usize> {
    let mut sorted: Vec<(usize, Process)> = processes.drain(..).enumerate().collect();
    sorted.sort_by(|(_, a), (_, b)| {
        let key = |process: &Process| (process.rank.is_none(), process.rank);
        (key(a), &a.host, a.pid, &a.run_id, a.started_unix_ns).cmp(&(
            key(b),
            &b.host,
            b.pid,
            &b.run_id,
            b.started_unix_ns,
        ))
    });
    let mut places = vec![0; sorted.len()];
    for (place, (old, process)) in sorted.into_iter().enumerate() {
        if let Some(slot) = places.get_mut(old) {
            *slot = place;
        }
        processes.push(process);
    }
    places
}

/// What the processes have of one range.
struct Parts {
    domain: Option<String>,
    name: String,
    times: Vec<(usize, Times)>,
}

impl Parts {
    fn of(domain: Option<String>, name: String) -> Self {
        Self { domain, name, times: Vec::new() }
    }

    fn together(self, style: RangeStyle, places: &[usize]) -> MergedRange {
        let mut parts: Vec<(usize, Times)> =
            self.times.into_iter().filter_map(|(process, times)| Some((*places.get(process)?, times))).collect();
        parts.sort_by_key(|(process, _)| *process);
        let medians: Option<Vec<f64>> = parts.iter().map(|(_, times)| times.median_ns).collect();
        let bounds = medians.map(|all| {
            let least = all.iter().copied().fold(f64::INFINITY, f64::min);
            (least, all.iter().copied().fold(0.0, f64::max))
        });
        let ranks = parts.iter().map(|(process, times)| RankTotal {
            process: *process,
            instances: times.instances,
            total_ns: times.total_ns,
        });
        let ranks = ranks.collect();
        let times = all_times(&parts);
        MergedRange { domain: self.domain, name: self.name, style, times, median_bounds_ns: bounds, ranks }
    }
}

fn all_times(parts: &[(usize, Times)]) -> Times {
    if let [(_, alone)] = parts {
        return alone.clone();
    }
    let all = || parts.iter().map(|(_, times)| times);
    let instances = all().fold(0_u64, |sum, times| sum.saturating_add(times.instances));
    let mean = all().map(|times| times.total_ns as f64).sum::<f64>() / instances as f64;
    // Squares around the common mean, from those around the mean of each part.
    let squares: f64 = all()
        .map(|times| {
            let (count, off) = (times.instances as f64, times.total_ns as f64 / times.instances as f64 - mean);
            (count - 1.0) * times.stddev_ns * times.stddev_ns + count * off * off
        })
        .sum();
    Times {
        instances,
        total_ns: all().fold(0_u64, |sum, times| sum.saturating_add(times.total_ns)),
        min_ns: all().map(|times| times.min_ns).min().unwrap_or(0),
        max_ns: all().map(|times| times.max_ns).max().unwrap_or(0),
        median_ns: None,
        median_exact: false,
        stddev_ns: if instances > 1 { (squares / (instances as f64 - 1.0)).sqrt() } else { 0.0 },
    }
}

/// Each field is named, so that none that is added is forgotten.
fn add_losses(all: &mut Losses, more: Losses) {
    let Losses {
        split_instances,
        stray_exits,
        open,
        names_over_limit,
        nodes_over_limit,
        rows_without_median,
        streams: StreamLosses { pending, captured, refused, dropped, unreadable },
        activity:
            ActivityLosses {
                dropped_records,
                over_budget_records,
                without_time,
                unmatched,
                late,
                outstanding,
                forgotten_launches,
                unreadable_records,
            },
        spans_dropped,
    } = more;
    all.open.extend(open);
    let (streams, activity) = (&mut all.streams, &mut all.activity);
    for (sum, count) in [
        (&mut all.split_instances, split_instances),
        (&mut all.stray_exits, stray_exits),
        (&mut all.names_over_limit, names_over_limit),
        (&mut all.nodes_over_limit, nodes_over_limit),
        (&mut all.rows_without_median, rows_without_median),
        (&mut all.spans_dropped, spans_dropped),
        (&mut streams.pending, pending),
        (&mut streams.captured, captured),
        (&mut streams.refused, refused),
        (&mut streams.dropped, dropped),
        (&mut streams.unreadable, unreadable),
        (&mut activity.dropped_records, dropped_records),
        (&mut activity.over_budget_records, over_budget_records),
        (&mut activity.without_time, without_time),
        (&mut activity.unmatched, unmatched),
        (&mut activity.late, late),
        (&mut activity.outstanding, outstanding),
        (&mut activity.forgotten_launches, forgotten_launches),
        (&mut activity.unreadable_records, unreadable_records),
    ] {
        *sum = sum.saturating_add(count);
    }
}

#[cfg(test)]
mod tests;
