//! Summaries of many processes as one: for each range, kernel, copy and phase the total over all processes, and the
//! slowest process.

mod as_one;
mod collectives;
mod figures;
mod labels;
mod rows;
#[cfg(test)]
mod tests;
mod tree;

pub use figures::Projected;
pub use labels::{CallLabel, PhaseLabel, RangeLabel, StreamLabel, WorkPart};
pub use rows::{Merged, RankTotal, RankTotals};

use std::collections::BTreeMap;

use super::schema::Join;
use super::{
    CallTotals, GpuActivity, GpuIdle, GpuWork, GraphWork, InterferenceStats, Lateness, Losses, MemoryKind, NodeTotals,
    Note, OffCpuStats, Process, Sizes, StreamTimes, Summary, Times, WaitStats,
};
use crate::stats::order;
use collectives::Collectives;
use rows::Rows;
use tree::Trees;

/// The summaries of many processes together; from [`Summary::merge`].
///
/// It mirrors [`Summary`]: every table has a row for all processes together and, beside it, the figures of each process
/// ([`Merged::ranks`]).
///
/// ```
/// use range_model::{RangeStats, Summary, Times};
///
/// let of_rank = |rank: u32, total_ns: u64| {
///     let mut summary = Summary::default();
///     summary.process.rank = Some(rank);
///     summary.ranges = vec![RangeStats::new("step", Times::new(10, total_ns))];
///     summary
/// };
/// let merged = Summary::merge([of_rank(0, 1_000), of_rank(1, 1_700), of_rank(2, 1_200)]);
/// let step = &merged.ranges[0];
/// assert_eq!((step.all.instances, step.all.total_ns), (30, 3_900));
/// assert_eq!(step.ranks.fastest().map(|rank| rank.total), Some(1_000));
/// let slowest = step.ranks.slowest().ok_or("no process")?;
/// assert_eq!((merged.processes[slowest.process].label(), slowest.total), ("rank 1".to_owned(), 1_700));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(not(feature = "_literals"), non_exhaustive)]
pub struct MergedSummary {
    /// The processes, by rank (those without one last), host and process id.
    pub processes: Vec<Process>,
    /// Length of the longest window.
    pub elapsed_ns: u64,
    /// Ranges of all processes, by total time descending, then by domain, name and style.
    pub ranges: Vec<Merged<RangeLabel, Times>>,
    /// Stream times, by total time descending, then by range and stream.
    pub stream_ranges: Vec<Merged<StreamLabel, StreamTimes>>,
    /// The phase trees as one: a node before its children, siblings by first entry in any process.
    pub tree: Vec<Merged<PhaseLabel, NodeTotals>>,
    /// Calls of futures, by `awaited_self_ns` descending, then by domain and name. Totals of processes are
    /// `awaited_self_ns`.
    pub calls: Vec<Merged<CallLabel, CallTotals>>,
    /// Kernels, copies and API calls; `None` if CUPTI recorded them in no process.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub gpu: Option<MergedActivity>,
    /// Why the devices were idle, over all processes; `None` if no process has it.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub idle: Option<GpuIdle>,
    /// What threads waited for inside of ranges, over all processes, by time descending.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub off_cpu: Vec<OffCpuStats>,
    /// Who ended the waits of followed futures, over all processes, by time descending, then by names.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub waits: Vec<WaitStats>,
    /// Whose operations on a GPU made operations of others wait, over all processes, by time descending.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub interference: Vec<InterferenceStats>,
    /// Which ranks were late for collective operations of NCCL; `None` if no two processes took part in one together.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub lateness: Option<Lateness>,
    /// Events of OpenACC runtimes by [label](super::OpenAccStats::label), by total time descending, then by label.
    pub openacc: Vec<Merged<String, Times>>,
    /// Sums over `nvtx.category`, by total time descending, then by name.
    pub categories: Vec<Merged<String, Times>>,
    /// Losses and changes, over all processes.
    pub losses: Losses,
    /// The notes of all processes; a note of several processes appears once, with their number.
    #[cfg_attr(feature = "serde", serde(rename = "note_figures", skip_serializing_if = "Vec::is_empty"))]
    pub notes: Vec<Note>,
}

/// The GPU work of all processes, as in [`GpuActivity`] for one. Kernels by range are not merged.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(not(feature = "_literals"), non_exhaustive)]
pub struct MergedActivity {
    /// Kernels by name, by total time descending, then by name.
    pub kernels: Vec<Merged<String, Times>>,
    /// Times of copies and sets by kind, by total time descending, then by kind.
    pub memory_times: Vec<Merged<MemoryKind, Times>>,
    /// Sizes of copies and sets by kind, by total size descending, then by kind. Totals of processes are bytes.
    pub memory_sizes: Vec<Merged<MemoryKind, Sizes>>,
    /// Calls of the CUDA API by name, by total time descending, then by name. `None` if no process recorded them.
    pub calls: Option<Vec<Merged<String, Times>>>,
    /// Ranges projected onto the GPUs, by total projected time descending, then by range.
    pub projections: Vec<Merged<RangeLabel, Projected>>,
    /// All operations, those launched outside of any range, and those without a known launch; empty parts are left out.
    /// Totals of processes are busy times. GPU time of several processes is added, although they may share a GPU.
    pub work: Vec<Merged<WorkPart, GpuWork>>,
    /// Replays of CUDA graphs outside of any range.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "GraphWork::is_empty"))]
    pub outside_graphs: GraphWork,
}

impl Summary {
    /// Joins the summaries of many processes, such as the ranks of one run. They are read one after the other, and the
    /// order does not matter.
    ///
    /// Each process identifies itself (see [`Process`]). Of profiled programs, each writes its summary under a name of
    /// its own (`json=run-%r.json`), and another process joins a thousand such files in less than a second.
    ///
    /// ```
    /// use range_model::{RangeStats, Summary, Times};
    ///
    /// let ranks = (0..8).map(|rank| {
    ///     let mut summary = Summary::default();
    ///     summary.process.rank = Some(rank);
    ///     summary.ranges.push(RangeStats::new("step", Times::new(1, 500)));
    ///     summary
    /// });
    /// let merged = Summary::merge(ranks);
    /// assert_eq!((merged.processes.len(), merged.ranges[0].all.instances), (8, 8));
    /// ```
    ///
    /// Ranges, kernels, copies, calls, categories and projections are joined by domain, name and style or kind; stream
    /// times also by stream, whatever its device; events of OpenACC by label; the tree by the labels from the root
    /// down. Kernels by range are not merged.
    #[must_use]
    pub fn merge(summaries: impl IntoIterator<Item = Self>) -> MergedSummary {
        let (mut merged, mut tables, mut notes) = (MergedSummary::default(), Tables::default(), BTreeMap::new());
        let mut losses = Vec::new();
        for (process, mut summary) in summaries.into_iter().enumerate() {
            merged.elapsed_ns = merged.elapsed_ns.max(summary.elapsed_ns);
            losses.push(std::mem::take(&mut summary.losses));
            let advice = std::mem::take(&mut summary.advice).into_iter().map(|text| Note::Text { text });
            for note in advice.chain(std::mem::take(&mut summary.notes)) {
                *notes.entry(note).or_insert(0_u64) += 1;
            }
            merged.processes.push(std::mem::take(&mut summary.process));
            tables.add(process, summary);
        }
        merged.losses = Losses::join(&losses.iter().collect::<Vec<_>>());
        if losses.len() > 1 {
            // An order that does not depend on that of the processes.
            order::by(&mut merged.losses.open, |a, b| {
                (&a.label, &a.thread, a.style, a.cut, a.count).cmp(&(&b.label, &b.thread, b.style, b.cut, b.count))
            });
        }
        let places = sort_processes(&mut merged.processes);
        merged.notes = notes
            .into_iter()
            .map(|(note, processes)| match processes {
                1 => note,
                _ => Note::Shared { note: Box::new(note), processes },
            })
            .collect();
        tables.finish(&places, &mut merged);
        merged.notes.extend(merged.lateness.as_ref().and_then(not_compared));
        merged
    }
}

/// The parts of all tables.
#[derive(Default)]
struct Tables {
    ranges: Rows<RangeLabel, Times>,
    stream_ranges: Rows<StreamLabel, StreamTimes>,
    tree: Trees,
    calls: Rows<CallLabel, CallTotals>,
    categories: Rows<String, Times>,
    gpu: Option<GpuTables>,
    openacc: Rows<String, Times>,
    idle: Vec<GpuIdle>,
    off_cpu: Vec<OffCpuStats>,
    waits: Vec<WaitStats>,
    interference: Vec<InterferenceStats>,
    collectives: Collectives,
}

#[derive(Default)]
struct GpuTables {
    kernels: Rows<String, Times>,
    memory_times: Rows<MemoryKind, Times>,
    memory_sizes: Rows<MemoryKind, Sizes>,
    calls: Option<Rows<String, Times>>,
    projections: Rows<RangeLabel, Projected>,
    work: Rows<WorkPart, GpuWork>,
    outside_graphs: Vec<GraphWork>,
}

impl Tables {
    fn add(&mut self, process: usize, summary: Summary) {
        for row in summary.ranges {
            self.ranges.add(process, RangeLabel { domain: row.domain, name: row.name, style: row.style }, row.times);
        }
        for row in summary.stream_ranges {
            let part = row.totals();
            let key = StreamLabel { domain: row.domain, name: row.name, stream: without_device(row.stream) };
            self.stream_ranges.add(process, key, part);
        }
        self.tree.add(process, summary.tree);
        for row in summary.calls {
            let part = row.totals();
            self.calls.add(process, CallLabel { domain: row.domain, name: row.name }, part);
        }
        for row in summary.categories {
            self.categories.add(process, row.category, row.times);
        }
        for row in summary.openacc {
            self.openacc.add(process, row.label(), row.times);
        }
        self.idle.extend(summary.idle);
        self.off_cpu.extend(summary.off_cpu);
        self.waits.extend(summary.waits);
        self.interference.extend(summary.interference);
        self.collectives.add(process, summary.communicators);
        if let Some(gpu) = summary.gpu {
            self.gpu.get_or_insert_default().add(process, gpu);
        }
    }

    fn finish(self, places: &[usize], merged: &mut MergedSummary) {
        merged.ranges = self.ranges.together(places);
        merged.stream_ranges = self.stream_ranges.together(places);
        merged.tree = self.tree.together(places);
        merged.calls = self.calls.together(places);
        merged.categories = self.categories.together(places);
        merged.gpu = self.gpu.map(|gpu| gpu.together(places));
        merged.openacc = self.openacc.together(places);
        merged.off_cpu = self.off_cpu.joined();
        merged.waits = self.waits.joined();
        merged.interference = self.interference.joined();
        merged.lateness = self.collectives.compared(places, &merged.processes, merged.elapsed_ns);
        merged.idle = (!self.idle.is_empty()).then(|| GpuIdle::join(&self.idle.iter().collect::<Vec<_>>()));
    }
}

impl GpuTables {
    fn add(&mut self, process: usize, gpu: GpuActivity) {
        let GpuActivity {
            kernels,
            memory,
            calls,
            projections,
            range_kernels: _,
            total,
            outside,
            unmatched,
            outside_graphs,
        } = gpu;
        self.outside_graphs.push(outside_graphs);
        for row in kernels {
            self.kernels.add(process, row.name, row.times);
        }
        for row in memory {
            self.memory_times.add(process, row.kind, row.times);
            self.memory_sizes.add(process, row.kind, row.sizes);
        }
        if let Some(calls) = calls {
            let all = self.calls.get_or_insert_default();
            calls.into_iter().for_each(|row| all.add(process, row.name, row.times));
        }
        for row in projections {
            let key = RangeLabel { domain: row.domain, name: row.name, style: row.style };
            let part = Projected {
                times: row.projected,
                range_total_ns: row.range_total_ns,
                operations: row.operations,
                level_sum: row.level_sum,
                children_sum: row.children_sum,
            };
            self.projections.add(process, key, part);
        }
        for (part, work) in [(WorkPart::All, total), (WorkPart::Outside, outside), (WorkPart::Unmatched, unmatched)] {
            self.work.add(process, part, work);
        }
    }

    fn together(self, places: &[usize]) -> MergedActivity {
        let mut work = self.work.together(places);
        order::by_key(&mut work, |row| row.key);
        MergedActivity {
            kernels: self.kernels.together(places),
            memory_times: self.memory_times.together(places),
            memory_sizes: self.memory_sizes.together(places),
            calls: self.calls.map(|calls| calls.together(places)),
            projections: self.projections.together(places),
            work,
            outside_graphs: GraphWork::join(&self.outside_graphs.iter().collect::<Vec<_>>()),
        }
    }
}

/// A note on collective operations that are not judged, if they are a tenth of all or more.
fn not_compared(lateness: &Lateness) -> Option<Note> {
    let judged = lateness.operations.iter().fold(0, |sum: u64, row| sum.saturating_add(row.operations));
    let is_much = lateness.unmatched > 0 && lateness.unmatched >= judged / 9;
    is_much.then_some(Note::CollectivesNotCompared { operations: lateness.unmatched, compared: judged })
}

/// `#1` of `GPU 0 #1`.
fn without_device(stream: String) -> String {
    let device = stream.strip_prefix("GPU ").and_then(|rest| rest.split_once(' '));
    match device {
        Some((number, name)) if number == "?" || number.bytes().all(|byte| byte.is_ascii_digit()) => name.to_owned(),
        _ => stream,
    }
}

/// Sorts the processes, and returns the new index of each.
fn sort_processes(processes: &mut Vec<Process>) -> Vec<usize> {
    let mut sorted: Vec<(usize, Process)> = processes.drain(..).enumerate().collect();
    order::by(&mut sorted, |(_, a), (_, b)| {
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
