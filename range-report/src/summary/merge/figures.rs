//! How the figures of several processes become one: of times, sizes, stream times, projections, GPU work and phases.

use std::collections::BTreeMap;

use super::rows::Join;
use crate::{GpuWork, MemoryWork, NodeCalls, NodeWork, Sizes, Times};

/// Stream times of one range in all processes.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StreamTimes {
    /// Stream times.
    pub times: Times,
    /// Instances that read no more than two events with nothing between them: nothing was enqueued.
    pub empty: u64,
    /// The largest of what two events with nothing between them read on these devices, in nanoseconds; 0 where it is
    /// not known.
    pub floor_ns: u64,
}

/// One range projected onto the GPUs of all processes, as in [`ProjectionStats`](crate::ProjectionStats).
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Projected {
    /// Projected durations of the instances with GPU work.
    pub times: Times,
    /// Sum of their durations on the CPU, in nanoseconds.
    pub range_total_ns: u64,
    /// GPU operations of all of them; those of one graph launch count once.
    pub operations: u64,
    /// Sum over these instances of the number of ranges each was nested in.
    pub level_sum: u64,
    /// Sum over these instances of the number of ranges with GPU work directly inside.
    pub children_sum: u64,
}

/// Calls of one name in all processes, as in [`CallStats`](crate::CallStats).
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CallTotals {
    /// Calls that were cancelled.
    pub cancelled: u64,
    /// Latencies.
    pub latency: Times,
    /// Time during which an instance of the call was open on some thread, in nanoseconds.
    pub busy_ns: u64,
    /// The rest of the latency, in nanoseconds.
    pub awaited_ns: u64,
    /// `awaited_ns` without the time during which a child call was alive.
    pub awaited_self_ns: u64,
}

/// What a node of the phase tree amounts to, as in [`TreeNode`](crate::TreeNode).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NodeTotals {
    /// Spans created.
    pub calls: u64,
    /// Times entered and exited.
    pub instances: u64,
    /// Sum of all durations, in nanoseconds.
    pub total_ns: u64,
    /// `total_ns` without the ranges that ran directly above these on the same thread.
    pub self_ns: u64,
    /// The part of `self_ns` in which these spans only waited for their children, estimated.
    pub blocked_ns: u64,
    /// Longest instance, in nanoseconds; 0 where it is not known.
    pub max_ns: u64,
    /// How long calls of futures waited, in nanoseconds. `None` where no call was one of a future.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub awaited_ns: Option<u64>,
    /// `awaited_ns` without the time during which a child call was alive.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub awaited_self_ns: Option<u64>,
    /// Stream time, of the processes that timed some. `None` where none did.
    pub stream_total_ns: Option<u64>,
    /// `stream_total_ns` without that of the children.
    pub stream_self_ns: Option<u64>,
    /// What these spans had the GPUs do, of the processes in which CUPTI recorded it. `None` where it did in none.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub gpu: Option<NodeWork>,
    /// The earliest first entry, from the start of its process's window: the order of siblings.
    pub first_ns: u64,
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// The sum of those that are known; `None` where none is.
fn known_sum(numbers: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    numbers.flatten().reduce(u64::saturating_add)
}

/// The deviation of all instances, from number, sum and deviation of each part: squares around the common mean, from
/// those around the mean of each.
fn deviation(parts: impl Iterator<Item = (u64, u64, f64)> + Clone) -> f64 {
    let instances = sum(parts.clone().map(|(count, ..)| count)) as f64;
    if instances <= 1.0 {
        return 0.0;
    }
    let mean = parts.clone().map(|(_, total, _)| total as f64).sum::<f64>() / instances;
    let squares: f64 = parts
        .map(|(count, total, deviation)| {
            let (count, off) = (count as f64, total as f64 / count as f64 - mean);
            (count - 1.0) * deviation * deviation + count * off * off
        })
        .sum();
    (squares / (instances - 1.0)).sqrt()
}

impl Join for Times {
    fn count(&self) -> u64 {
        self.instances
    }

    fn total(&self) -> u64 {
        self.total_ns
    }

    fn median(&self) -> Option<f64> {
        self.median_ns
    }

    fn join(parts: &[Self]) -> Self {
        join_times(parts.iter())
    }
}

fn join_times<'a>(parts: impl Iterator<Item = &'a Times> + Clone) -> Times {
    let all = || parts.clone();
    Times {
        instances: sum(all().map(|times| times.instances)),
        total_ns: sum(all().map(|times| times.total_ns)),
        min_ns: all().map(|times| times.min_ns).min().unwrap_or(0),
        max_ns: all().map(|times| times.max_ns).max().unwrap_or(0),
        median_ns: None,
        median_exact: false,
        stddev_ns: deviation(all().map(|times| (times.instances, times.total_ns, times.stddev_ns))),
        quantiles: Vec::new(), // those of all cannot be told from those of each, as the median
    }
}

impl Join for Sizes {
    fn count(&self) -> u64 {
        self.count
    }

    fn total(&self) -> u64 {
        self.total_bytes
    }

    fn median(&self) -> Option<f64> {
        self.median_bytes
    }

    fn join(parts: &[Self]) -> Self {
        Self {
            count: sum(parts.iter().map(|sizes| sizes.count)),
            total_bytes: sum(parts.iter().map(|sizes| sizes.total_bytes)),
            min_bytes: parts.iter().map(|sizes| sizes.min_bytes).min().unwrap_or(0),
            max_bytes: parts.iter().map(|sizes| sizes.max_bytes).max().unwrap_or(0),
            median_bytes: None,
            stddev_bytes: deviation(parts.iter().map(|sizes| (sizes.count, sizes.total_bytes, sizes.stddev_bytes))),
        }
    }
}

impl Join for StreamTimes {
    fn count(&self) -> u64 {
        self.times.instances
    }

    fn total(&self) -> u64 {
        self.times.total_ns
    }

    fn median(&self) -> Option<f64> {
        self.times.median_ns
    }

    fn join(parts: &[Self]) -> Self {
        Self {
            times: join_times(parts.iter().map(|part| &part.times)),
            empty: sum(parts.iter().map(|part| part.empty)),
            floor_ns: parts.iter().map(|part| part.floor_ns).max().unwrap_or(0),
        }
    }
}

impl Join for Projected {
    fn count(&self) -> u64 {
        self.times.instances
    }

    fn total(&self) -> u64 {
        self.times.total_ns
    }

    fn median(&self) -> Option<f64> {
        self.times.median_ns
    }

    fn join(parts: &[Self]) -> Self {
        let all = |what: fn(&Self) -> u64| sum(parts.iter().map(what));
        Self {
            times: join_times(parts.iter().map(|part| &part.times)),
            range_total_ns: all(|part| part.range_total_ns),
            operations: all(|part| part.operations),
            level_sum: all(|part| part.level_sum),
            children_sum: all(|part| part.children_sum),
        }
    }
}

/// A process's total is what the calls themselves waited for.
impl Join for CallTotals {
    fn count(&self) -> u64 {
        self.latency.instances
    }

    fn total(&self) -> u64 {
        self.awaited_self_ns
    }

    fn median(&self) -> Option<f64> {
        self.latency.median_ns
    }

    fn join(parts: &[Self]) -> Self {
        let all = |what: fn(&Self) -> u64| sum(parts.iter().map(what));
        Self {
            cancelled: all(|part| part.cancelled),
            latency: join_times(parts.iter().map(|part| &part.latency)),
            busy_ns: all(|part| part.busy_ns),
            awaited_ns: all(|part| part.awaited_ns),
            awaited_self_ns: all(|part| part.awaited_self_ns),
        }
    }
}

/// A process's total is the time during which its work ran.
impl Join for GpuWork {
    fn count(&self) -> u64 {
        self.operations
    }

    fn total(&self) -> u64 {
        self.busy_ns
    }

    fn join(parts: &[Self]) -> Self {
        join_work(parts.iter())
    }
}

fn join_work<'a>(parts: impl Iterator<Item = &'a GpuWork> + Clone) -> GpuWork {
    let mut memory: BTreeMap<_, MemoryWork> = BTreeMap::new();
    for more in parts.clone().flat_map(|part| &part.memory) {
        let nothing = MemoryWork { kind: more.kind, operations: 0, sum_ns: 0, bytes: 0 };
        let all = memory.entry(more.kind).or_insert(nothing);
        all.operations = all.operations.saturating_add(more.operations);
        all.sum_ns = all.sum_ns.saturating_add(more.sum_ns);
        all.bytes = all.bytes.saturating_add(more.bytes);
    }
    GpuWork {
        operations: sum(parts.clone().map(|part| part.operations)),
        sum_ns: sum(parts.clone().map(|part| part.sum_ns)),
        busy_ns: sum(parts.map(|part| part.busy_ns)),
        memory: memory.into_values().collect(),
    }
}

impl Join for NodeTotals {
    fn count(&self) -> u64 {
        self.instances
    }

    fn total(&self) -> u64 {
        self.total_ns
    }

    fn join(parts: &[Self]) -> Self {
        let all = |what: fn(&Self) -> u64| sum(parts.iter().map(what));
        let known: Vec<&NodeWork> = parts.iter().filter_map(|part| part.gpu.as_ref()).collect();
        Self {
            calls: all(|part| part.calls),
            instances: all(|part| part.instances),
            total_ns: all(|part| part.total_ns),
            self_ns: all(|part| part.self_ns),
            blocked_ns: all(|part| part.blocked_ns),
            max_ns: parts.iter().map(|part| part.max_ns).max().unwrap_or(0),
            awaited_ns: known_sum(parts.iter().map(|part| part.awaited_ns)),
            awaited_self_ns: known_sum(parts.iter().map(|part| part.awaited_self_ns)),
            stream_total_ns: known_sum(parts.iter().map(|part| part.stream_total_ns)),
            stream_self_ns: known_sum(parts.iter().map(|part| part.stream_self_ns)),
            gpu: (!known.is_empty()).then(|| join_nodes(&known)),
            first_ns: parts.iter().map(|part| part.first_ns).min().unwrap_or(0),
        }
    }
}

fn join_nodes(parts: &[&NodeWork]) -> NodeWork {
    let mut calls: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for more in parts.iter().flat_map(|part| &part.calls) {
        let (count, total) = calls.entry(&more.name).or_default();
        (*count, *total) = (count.saturating_add(more.calls), total.saturating_add(more.total_ns));
    }
    let calls = calls.into_iter().map(|(name, (calls, total_ns))| NodeCalls { name: name.to_owned(), calls, total_ns });
    NodeWork {
        own: join_work(parts.iter().map(|part| &part.own)),
        total: join_work(parts.iter().map(|part| &part.total)),
        calls: calls.collect(),
    }
}
