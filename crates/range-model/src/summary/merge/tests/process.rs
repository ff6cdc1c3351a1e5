//! Processes with known instances, and their summaries.

use super::{sizes, times};
use crate::{
    ApiCallStats, CategoryStats, GpuActivity, GpuWork, KernelStats, MemoryKind, MemoryStats, MemoryWork, NodeCalls,
    NodeWork, Process, ProjectionStats, RangeStats, RangeStyle, StreamStats, Summary, Times, TreeNode,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

pub(super) const KINDS: [MemoryKind; 3] = [MemoryKind::HtoD, MemoryKind::DtoH, MemoryKind::Set];
const STYLES: [RangeStyle; 2] = [RangeStyle::PushPop, RangeStyle::StartEnd];

/// Durations by name.
pub(super) type Raw = BTreeMap<u8, Vec<u64>>;

/// All instances of one process.
#[derive(Clone, Debug)]
pub(super) struct Instances {
    pub(super) ranges: Raw,
    pub(super) streams: Raw,
    pub(super) categories: Raw,
    pub(super) kernels: Raw,
    pub(super) calls: Option<Raw>,
    pub(super) projections: Raw,
    /// Durations; bytes are derived from them.
    pub(super) memory: Raw,
    pub(super) has_gpu: bool,
    /// Durations by path.
    pub(super) tree: BTreeMap<Vec<u8>, Vec<u64>>,
}

pub(super) fn name(number: u8) -> String {
    format!("name {}", number / 2)
}

pub(super) fn style(number: u8) -> RangeStyle {
    STYLES[usize::from(number) % 2]
}

pub(super) fn domain(number: u8) -> Option<String> {
    (number >= 3).then(|| "domain".to_owned())
}

pub(super) fn bytes(durations: &[u64]) -> Vec<u64> {
    durations.iter().map(|ns| ns % 1_000 * 7 + 1).collect()
}

fn raw() -> impl Strategy<Value = Raw> {
    prop::collection::btree_map(0_u8..5, prop::collection::vec(0_u64..1_000_000, 1..8), 0..4)
}

pub(super) fn process() -> impl Strategy<Value = Instances> {
    let tree = prop::collection::btree_map(
        prop::collection::vec(0_u8..3, 1..4),
        prop::collection::vec(1_u64..1_000_000, 0..4),
        0..8,
    );
    let cpu = (raw(), raw(), raw(), tree);
    let memory = prop::collection::btree_map(0_u8..3, prop::collection::vec(0_u64..1_000_000, 1..8), 0..3);
    let gpu = (raw(), prop::option::of(raw()), raw(), memory, prop::bool::weighted(0.8));
    (cpu, gpu).prop_map(|((ranges, streams, categories, tree), (kernels, calls, projections, memory, has_gpu))| {
        Instances { ranges, streams, categories, kernels, calls, projections, memory, has_gpu, tree }
    })
}

/// Work with figures derived from the durations.
pub(super) fn work(durations: &[u64]) -> GpuWork {
    let total: u64 = durations.iter().sum();
    let memory = MemoryWork { kind: MemoryKind::DtoD, operations: 1, sum_ns: total, bytes: 3 * total };
    let memory = if durations.is_empty() { Vec::new() } else { vec![memory] };
    GpuWork { operations: durations.len() as u64, sum_ns: total, busy_ns: total / 2, memory }
}

fn by_total<T>(mut rows: Vec<T>, total: impl Fn(&T) -> u64) -> Vec<T> {
    rows.sort_by_key(|row| std::cmp::Reverse(total(row)));
    rows
}

/// The node of a path, with all nodes on the way. Each node is first entered later than its predecessors.
fn node<'a>(siblings: &'a mut Vec<TreeNode>, path: &[u8]) -> &'a mut TreeNode {
    let (first, rest) = path.split_first().unwrap();
    let place = siblings.iter().position(|node| node.name == name(2 * first)).unwrap_or_else(|| {
        // By name, so that all processes have the same order.
        siblings.push(TreeNode { name: name(2 * first), first_ns: u64::from(*first), ..TreeNode::default() });
        siblings.len() - 1
    });
    if rest.is_empty() { &mut siblings[place] } else { node(&mut siblings[place].children, rest) }
}

/// The summary of such a process.
pub(super) fn summary(rank: u32, raw: &Instances) -> Summary {
    let rows = |raw: &Raw| -> Vec<(u8, Times)> {
        by_total(raw.iter().map(|(number, all)| (*number, times(all))).collect(), |(_, times)| times.total_ns)
    };
    let mut tree = Vec::new();
    for (path, durations) in &raw.tree {
        let node = node(&mut tree, path);
        node.calls += 1;
        node.instances += durations.len() as u64;
        node.total_ns += durations.iter().sum::<u64>();
        node.self_ns += durations.iter().sum::<u64>() / 3;
        node.blocked_ns += durations.iter().sum::<u64>() / 5;
        (node.stream_total_ns, node.stream_self_ns) = (durations.first().copied(), durations.last().copied());
        node.max_ns = durations.iter().copied().max().unwrap_or(0);
        (node.awaited_ns, node.awaited_self_ns) = (durations.get(1).copied(), durations.get(2).copied());
        node.gpu = (durations.len() > 1).then(|| NodeWork {
            own: work(&durations[1..]),
            total: work(durations),
            calls: vec![NodeCalls { name: "cuLaunchKernel".to_owned(), calls: 1, total_ns: durations[0] }],
            ..NodeWork::default()
        });
    }
    let projection = |(number, projected): (u8, Times)| ProjectionStats {
        domain: domain(number),
        name: name(number),
        style: style(number),
        range_total_ns: 2 * projected.total_ns,
        operations: 3 * projected.instances,
        level_sum: projected.instances,
        children_sum: 5 * projected.instances,
        projected,
    };
    let gpu = GpuActivity {
        kernels: rows(&raw.kernels).into_iter().map(|(n, times)| KernelStats { name: n.to_string(), times }).collect(),
        memory: by_total(raw.memory.iter().collect(), |(_, all)| all.iter().sum())
            .into_iter()
            .map(|(n, all)| MemoryStats { kind: KINDS[usize::from(*n)], times: times(all), sizes: sizes(&bytes(all)) })
            .collect(),
        calls: raw.calls.as_ref().map(|calls| {
            rows(calls).into_iter().map(|(n, times)| ApiCallStats { name: n.to_string(), times }).collect()
        }),
        projections: rows(&raw.projections).into_iter().map(projection).collect(),
        total: work(&raw.kernels.values().flatten().copied().collect::<Vec<u64>>()),
        outside: work(raw.kernels.get(&0).map_or(&[], Vec::as_slice)),
        ..GpuActivity::default()
    };
    Summary {
        process: Process { rank: Some(rank), pid: 100 - rank, ..Process::default() },
        ranges: rows(&raw.ranges)
            .into_iter()
            .map(|(n, times)| RangeStats { domain: domain(n), name: name(n), style: style(n), times })
            .collect(),
        stream_ranges: rows(&raw.streams)
            .into_iter()
            .map(|(n, times)| StreamStats {
                domain: domain(n),
                name: name(n),
                stream: format!("GPU {rank} #{}", n % 2),
                empty: u64::from(n),
                floor_ns: 9,
                times,
            })
            .collect(),
        categories: rows(&raw.categories)
            .into_iter()
            .map(|(n, times)| CategoryStats { category: n.to_string(), times })
            .collect(),
        gpu: raw.has_gpu.then_some(gpu),
        tree,
        ..Summary::default()
    }
}
