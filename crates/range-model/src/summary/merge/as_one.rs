//! Many processes in the form of one, for reports that know only one.

use crate::summary::{MergedActivity, MergedSummary, RangeLabel, WorkPart};
use crate::{
    ApiCallStats, CallStats, CategoryStats, GpuActivity, GpuWork, KernelStats, MemoryStats, OpenAccStats, Process,
    ProjectionStats, RangeStats, Sizes, StreamStats, Summary, TreeNode,
};

impl MergedSummary {
    /// All processes as if they were one, for reports without a table of many: `nvprof`, `hot`, `torch`. It has no
    /// kernels by range, and no median for rows of several processes. The process is the first one; the command line
    /// tells how many there are.
    #[must_use]
    pub fn as_one(&self) -> Summary {
        let mut process = self.processes.first().cloned().unwrap_or_default();
        process.command = commands(&self.processes);
        let calls = self.calls.iter().map(|row| CallStats {
            domain: row.key.domain.clone(),
            name: row.key.name.clone(),
            ..CallStats::of_totals(&row.all)
        });
        let streams = self.stream_ranges.iter().map(|row| StreamStats {
            domain: row.key.domain.clone(),
            name: row.key.name.clone(),
            stream: row.key.stream.clone(),
            ..StreamStats::of_totals(&row.all)
        });
        Summary {
            machine: None,
            process,
            elapsed_ns: self.elapsed_ns,
            ended_unix_ns: None,
            outside_ns: None,
            threads: Vec::new(),
            ranges: ranges(self),
            stream_ranges: streams.collect(),
            tree: nested(self),
            calls: calls.collect(),
            gpu: self.gpu.as_ref().map(activity),
            idle: self.idle.clone(),
            kernel_exec: Vec::new(), // by thread: not merged
            range_exec: Vec::new(),
            off_cpu: self.off_cpu.clone(),
            waits: self.waits.clone(),
            interference: self.interference.clone(),
            communicators: Vec::new(), // they are in `lateness`
            lateness: self.lateness.clone(),
            openacc: self.openacc.iter().map(|row| OpenAccStats::new(row.key.clone(), row.all.clone())).collect(),
            categories: self
                .categories
                .iter()
                .map(|row| CategoryStats { category: row.key.clone(), times: row.all.clone() })
                .collect(),
            losses: self.losses.clone(),
            advice: Vec::new(), // among the notes
            notes: self.notes.clone(),
            empty_because: None,
        }
    }
}

/// The command of the first process, and the number of processes.
fn commands(processes: &[Process]) -> String {
    let first = processes.first().map_or("", |process| process.command.as_str());
    match processes.len() {
        1 => first.to_owned(),
        count => format!("{first} ({count} processes)"),
    }
}

fn activity(gpu: &MergedActivity) -> GpuActivity {
    let work = |part: WorkPart| {
        gpu.work.iter().find(|row| row.key == part).map_or_else(GpuWork::default, |row| row.all.clone())
    };
    let sizes =
        |kind| gpu.memory_sizes.iter().find(|row| row.key == kind).map_or_else(Sizes::default, |row| row.all.clone());
    let projections = gpu.projections.iter().map(|row| ProjectionStats {
        domain: row.key.domain.clone(),
        name: row.key.name.clone(),
        style: row.key.style,
        projected: row.all.times.clone(),
        range_total_ns: row.all.range_total_ns,
        operations: row.all.operations,
        level_sum: row.all.level_sum,
        children_sum: row.all.children_sum,
    });
    let memory = gpu.memory_times.iter().map(|row| MemoryStats::new(row.key, row.all.clone(), sizes(row.key)));
    let calls = gpu.calls.as_ref();
    GpuActivity {
        kernels: gpu.kernels.iter().map(|row| KernelStats::new(row.key.clone(), row.all.clone())).collect(),
        memory: memory.collect(),
        calls: calls.map(|calls| calls.iter().map(|row| ApiCallStats::new(row.key.clone(), row.all.clone())).collect()),
        projections: projections.collect(),
        range_kernels: Vec::new(),
        total: work(WorkPart::All),
        outside: work(WorkPart::Outside),
        unmatched: work(WorkPart::Unmatched),
        outside_graphs: gpu.outside_graphs.clone(),
    }
}

fn ranges(merged: &MergedSummary) -> Vec<RangeStats> {
    let ranges = merged.ranges.iter().map(|range| (range.key.clone(), range.all.clone()));
    ranges.map(|(RangeLabel { domain, name, style }, times)| RangeStats { domain, name, style, times }).collect()
}

/// The roots of the tree, made from the flat list in the order of printing.
fn nested(merged: &MergedSummary) -> Vec<TreeNode> {
    // From the last to the first: when a node is reached, its children are waiting, the nearest on top.
    let mut waiting: Vec<(usize, TreeNode)> = Vec::new();
    for node in merged.tree.iter().rev() {
        let (key, all) = (&node.key, &node.all);
        let mut children = Vec::new();
        while waiting.last().is_some_and(|(depth, _)| *depth > key.depth) {
            children.extend(waiting.pop().map(|(_, child)| child));
        }
        let node =
            TreeNode { domain: key.domain.clone(), name: key.name.clone(), children, ..TreeNode::of_totals(all) };
        waiting.push((key.depth, node));
    }
    waiting.into_iter().rev().map(|(_, root)| root).collect()
}
