//! Why a row became slower: which part of its time grew, and who caused it.
//!
//! Parts are those of the mean: of all calls or instances, or for a 99th percentile of the slowest calls. The growth of
//! a part is the median of its growth over the pairs of runs, so that a disturbed run names nothing.
//!
//! Rows are found by their names, so a part may also come from other callers, and what runs at the same time may grow
//! by more than the row. So a part is named only if it makes half of the row's growth or more, and not much more than
//! all of it; and the mean must have grown about as much as what was judged.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::figure::{Figure, device_name};
use crate::text::number::human_inline;
use range_model::names::escaped;
use range_model::names::in_domain;
use range_model::stats::{Lean, order};
use range_model::summary::{CallKind, CallStates, CallStats, IdleCause, MemoryKind, WaitStats};
use range_model::{Summary, TreeNode};

/// What of a row grew most. Its text is a clause.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Reason {
    /// Labels from the row to what grew inside of it; empty if that is the row itself.
    pub inside: Vec<String>,
    /// What grew: `waiting`, `on the CPU`; of a busy GPU the kernel, or the kind of copies.
    pub part: String,
    /// Label of the span that it waited for, or what the thread did.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub cause: Option<String>,
    /// Whether the cause is inferred, not told.
    pub is_inferred: bool,
    /// By how much it grew, in nanoseconds: of each instance of the row; of a GPU, in the run.
    pub grown_ns: u64,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(inside) = self.inside.last() {
            write!(f, "in {}: ", escaped(inside))?;
        }
        f.write_str(&escaped(&self.part))?;
        if let Some(cause) = &self.cause {
            write!(f, "{} {}", if self.is_inferred { ", probably for" } else { "" }, escaped(cause))?;
        }
        write!(f, ", +{}", human_inline(self.grown_ns))
    }
}

/// A part of a row's time must be so large a part of its growth to be named: half of it or more, and not more than all
/// of it, with some room for noise.
const LEAST_PART: f64 = 0.5;
const MOST_PART: f64 = 1.2;
/// How many times the growth of a mean may differ from that of the figure that was judged.
const ALIKE: f64 = 3.0;
/// Rows inside of rows.
const DEEPEST: usize = 32;

/// What runs say of the rows of a comparison, repeat by repeat.
pub(crate) struct Facts<'a> {
    sides: [Vec<Run<'a>>; 2],
}

/// One repeat.
struct Run<'a> {
    summary: &'a Summary,
    calls: BTreeMap<String, &'a CallStats>,
    nodes: BTreeMap<String, Node>,
}

/// The nodes of the tree with one label.
#[derive(Default)]
struct Node {
    instances: u64,
    total_ns: u64,
    self_on_cpu_ns: f64,
    self_off_cpu_ns: f64,
    /// Time of the rows directly below: on their threads, and waiting.
    inside: BTreeMap<String, f64>,
}

impl<'a> Run<'a> {
    fn of(summary: &'a Summary) -> Self {
        let calls = summary.calls.iter().map(|row| (row.label(), row)).collect();
        let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
        let mut waiting: Vec<&TreeNode> = summary.tree.iter().collect();
        while let Some(node) = waiting.pop() {
            let label = |node: &TreeNode| in_domain(node.domain.as_deref(), &node.name);
            let sum = nodes.entry(label(node)).or_default();
            let below = |of: fn(&TreeNode) -> u64| node.children.iter().map(of).fold(0, u64::saturating_add);
            let own = |of: fn(&TreeNode) -> u64| of(node) as f64 - below(of) as f64;
            sum.instances = sum.instances.saturating_add(node.instances);
            sum.total_ns = sum.total_ns.saturating_add(node.total_ns);
            sum.self_on_cpu_ns += own(|node| node.on_cpu_ns);
            sum.self_off_cpu_ns += own(|node| node.off_cpu_ns);
            for child in &node.children {
                let time = child.total_ns as f64 + child.awaited_ns.unwrap_or(0) as f64;
                *sum.inside.entry(label(child)).or_default() += time;
            }
            waiting.extend(&node.children);
        }
        Self { summary, calls, nodes }
    }

    /// How often the row came, and its mean time.
    fn mean(&self, label: &str, figure: Figure) -> Option<(f64, f64)> {
        let of = |ns: u64, count: u64| (count > 0).then(|| (count as f64, ns as f64 / count as f64));
        match figure {
            Figure::Latency => self.calls.get(label).and_then(|row| of(row.latency.total_ns, row.latency.instances)),
            _ => self.nodes.get(label).and_then(|node| of(node.total_ns, node.instances)),
        }
    }

    /// What the row's own time is made of, in the whole run.
    fn parts(&self, label: &str) -> Vec<(String, f64)> {
        let Some(states) = self.calls.get(label).and_then(|row| row.states.as_ref()) else {
            let Some(node) = self.nodes.get(label) else { return Vec::new() };
            let mut parts = vec![
                (ON_CPU.to_owned(), node.self_on_cpu_ns.max(0.0)),
                (OFF_CPU.to_owned(), node.self_off_cpu_ns.max(0.0)),
            ];
            parts.extend(self.cuda_calls(label));
            return parts;
        };
        states_of(states).chain(self.cuda_calls(label)).collect()
    }

    /// Calls of the CUDA API in the spans of a label that hold up the host.
    fn cuda_calls(&self, label: &str) -> impl Iterator<Item = (String, f64)> {
        let rows = self.summary.idle.iter().flat_map(|idle| &idle.calls);
        let of_label = rows
            .filter(move |row| row.name.as_ref().is_some_and(|name| in_domain(row.domain.as_deref(), name) == label));
        of_label.filter_map(|row| Some((words(row.kind, &row.function)?, row.ns as f64)))
    }

    /// Told waits of calls, by the words for their cause: for a worker, or others.
    fn waits(&self, label: &str, is_for_worker: bool) -> impl Iterator<Item = (String, f64)> {
        let rows = self.summary.waits.iter().filter(move |row| row.waiter == label && row.of_waits.is_none());
        let rows = rows.filter(move |row| (row.resource.as_deref() == Some(WaitStats::WORKER)) == is_for_worker);
        rows.filter_map(|row| Some((by(row)?, row.time_ns as f64)))
    }
}

const ON_CPU: &str = "on the CPU";
const OFF_CPU: &str = "off the CPU";
const WAITING: &str = "waiting";
const READY: &str = "ready, but not polled";

/// States in words. A wait for a call inside is that call's.
fn states_of(states: &CallStates) -> impl Iterator<Item = (String, f64)> {
    [
        ("in CUDA's API", states.in_cuda_ns),
        (ON_CPU, states.on_cpu_ns),
        (OFF_CPU, states.off_cpu_ns),
        ("on its thread", states.on_thread_ns),
        (READY, states.ready_ns),
        ("waiting for GPU work", states.gpu_work_ns),
        (WAITING, states.otherwise_ns),
        ("kept after its last poll", states.outlived_ns),
    ]
    .into_iter()
    .map(|(words, ns)| (words.to_owned(), ns as f64))
}

fn words(kind: CallKind, function: &str) -> Option<String> {
    let function = function.split("_v").next().unwrap_or(function);
    Some(match kind {
        CallKind::PageableCopy => format!("copying pageable memory ({function})"),
        CallKind::Wait => format!("waiting for the GPU ({function})"),
        CallKind::Allocate => format!("allocating ({function})"),
        _ => return None,
    })
}

/// Who made calls wait: the label, and the value that tells it from other calls of this name.
fn by(row: &WaitStats) -> Option<String> {
    let by = row.by.as_ref()?;
    Some(row.by_value.as_ref().map_or_else(|| by.clone(), |value| format!("{by} with {value}")))
}

impl<'a> Facts<'a> {
    pub(crate) fn of(base: &[&'a Summary], new: &[&'a Summary]) -> Self {
        Self { sides: [base, new].map(|side| side.iter().map(|summary| Run::of(summary)).in_vec()) }
    }

    /// The median growth over the pairs of repeats.
    fn growth(&self, figure: impl Fn(&Run<'a>) -> Option<f64>) -> Option<f64> {
        let [base, new] = &self.sides;
        middle(base.iter().zip(new).filter_map(|(base, new)| Some(figure(new)? - figure(base)?)).in_vec())
    }

    /// The part that grew most, each part divided by what `per` gives. A part that a run lacks is 0 there.
    fn most<P: IntoIterator<Item = (String, f64)>>(
        &self,
        parts: impl Fn(&Run<'a>) -> P,
        per: impl Fn(&Run<'a>) -> Option<f64>,
    ) -> Option<(String, f64)> {
        let of = |run: &Run<'a>| {
            let mut sums: BTreeMap<String, f64> = BTreeMap::new();
            parts(run).into_iter().for_each(|(part, ns)| *sums.entry(part).or_default() += ns);
            sums
        };
        let [base, new] = self.sides.each_ref().map(|side| side.iter().map(|run| Some((of(run), per(run)?))).in_vec());
        let known = || base.iter().zip(&new).filter_map(|(base, new)| Some((base.as_ref()?, new.as_ref()?)));
        let names: BTreeSet<&String> =
            known().flat_map(|((base, _), (new, _))| base.keys().chain(new.keys())).collect();
        let grown = names.into_iter().filter_map(|name| {
            let value = |(sums, per): &(BTreeMap<String, f64>, f64)| sums.get(name).copied().unwrap_or(0.0) / per;
            Some((name.clone(), middle(known().map(|(base, new)| value(new) - value(base)).in_vec())?))
        });
        let mut grown = grown.filter(|(_, grown)| *grown > 0.0).in_vec();
        order::by(&mut grown, |(_, a), (_, b)| b.total_cmp(a));
        grown.into_iter().next()
    }

    /// Why calls take longer, or the instances of a range, that are judged by their median or total and grew by so
    /// much.
    pub(crate) fn of_row(&self, label: &str, figure: Figure, judged: Option<f64>) -> Option<Reason> {
        let times = |run: &Run<'a>| run.mean(label, figure).map(|(times, _)| times);
        let mut grown =
            self.growth(|run| run.mean(label, figure).map(|(_, mean)| mean)).filter(|grown| *grown > 0.0)?;
        if !judged.is_none_or(|judged| is_alike(grown, judged)) {
            return None;
        }
        let mut inside: Vec<String> = Vec::new();
        while inside.len() < DEEPEST {
            let at = inside.last().map_or(label, String::as_str);
            let below = |run: &Run<'a>| {
                let node = run.nodes.get(at);
                node.into_iter().flat_map(|node| &node.inside).map(|(label, ns)| (label.clone(), *ns)).in_vec()
            };
            let Some((child, by)) = self.most(below, times).filter(|(_, by)| *by >= LEAST_PART * grown) else { break };
            if child == label || inside.contains(&child) {
                break;
            }
            if by > MOST_PART * grown {
                return None; // it ran beside the row, or for others
            }
            (grown, _) = (by, inside.push(child));
        }
        let at = inside.last().map_or(label, String::as_str);
        let part = self.most(|run| run.parts(at), times).filter(|(_, by)| is_most_of(*by, grown));
        let Some((part, by)) = part else {
            // The row itself, and nobody knows why: that says nothing.
            let part = "longer".to_owned();
            let known = (!inside.is_empty()).then_some(());
            return known.map(|()| Reason { inside, part, cause: None, is_inferred: false, grown_ns: grown as u64 });
        };
        let told = |is_for_worker| {
            let found = self.most(|run| run.waits(at, is_for_worker).in_vec(), times);
            found.filter(|(_, grown)| is_most_of(*grown, by)).map(|(cause, _)| cause)
        };
        let (told, may_be_inferred) = match part.as_str() {
            WAITING => (told(false).map(|cause| format!("for {cause}")), true),
            READY => (told(true).map(|cause| format!("because of {cause}")), false),
            OFF_CPU => (None, true),
            _ => (None, false),
        };
        let is_above = |cause: &str| cause == label || inside.iter().any(|inside| inside == cause);
        let inferred = || self.inferred(at, by).filter(|cause| may_be_inferred && !is_above(cause));
        let (cause, is_inferred) = match told {
            Some(told) => (Some(told), false),
            None => inferred().map_or((None, false), |cause| (Some(cause), true)),
        };
        Some(Reason { inside, part, cause, is_inferred, grown_ns: by as u64 })
    }

    /// Why the slowest calls take longer, whose fastest grew by so much: the state in which they are for longer.
    pub(crate) fn of_slowest(&self, label: &str, judged: f64) -> Option<Reason> {
        let slowest =
            |run: &Run<'a>| run.calls.get(label).and_then(|row| row.slowest).filter(|slowest| slowest.calls > 0);
        let calls = |run: &Run<'a>| slowest(run).map(|slowest| slowest.calls as f64);
        let grown = self.growth(|run| slowest(run).map(|slowest| slowest.latency_ns as f64 / slowest.calls as f64));
        let grown = grown.filter(|grown| is_alike(*grown, judged))?;
        let parts = |run: &Run<'a>| {
            let states = slowest(run).into_iter().flat_map(|slowest| {
                let child = ("waiting for calls inside".to_owned(), slowest.states.child_call_ns as f64);
                states_of(&slowest.states).chain([child]).in_vec()
            });
            states.in_vec()
        };
        let (part, by) = self.most(parts, calls).filter(|(_, by)| is_most_of(*by, grown))?;
        Some(Reason { inside: Vec::new(), part, cause: None, is_inferred: false, grown_ns: by as u64 })
    }

    /// Who probably made these calls wait longer by so much each: inferred in most of the new runs. Only a part of all
    /// waits was looked at, so their times cannot be compared; but whoever made them longer takes longer itself, or
    /// made nobody wait before.
    fn inferred(&self, at: &str, least: f64) -> Option<String> {
        let [base, new] = &self.sides;
        // The first of them has the most time.
        let row = |run: &Run<'a>| run.summary.waits.iter().find(|row| row.waiter == at && row.of_waits.is_some());
        let mut inferred: BTreeMap<String, usize> = BTreeMap::new();
        new.iter().filter_map(row).filter_map(by).for_each(|by| *inferred.entry(by).or_default() += 1);
        let (cause, _) = inferred.into_iter().max_by_key(|(_, runs)| *runs).filter(|(_, runs)| 2 * runs > new.len())?;
        let label = new.iter().filter_map(row).find(|row| by(row).as_ref() == Some(&cause))?.by.clone()?;
        let has_it =
            |run: &&Run<'a>| run.summary.waits.iter().any(|row| row.waiter == at && row.by.as_ref() == Some(&label));
        let is_new = 2 * base.iter().filter(has_it).count() < base.len();
        let mean = |run: &Run<'a>| run.mean(&label, Figure::Latency).or_else(|| run.mean(&label, Figure::Range));
        let grew = self.growth(|run| mean(run).map(|(_, mean)| mean)).is_some_and(|grown| grown >= LEAST_PART * least);
        (is_new || grew).then_some(cause)
    }

    /// Why a GPU was busy or idle for longer.
    pub(crate) fn of_device(&self, figure: Figure, device: &str) -> Option<Reason> {
        let one = |_: &Run<'a>| Some(1.0);
        let time = |run: &Run<'a>| {
            let mut devices = run.summary.idle.iter().flat_map(|idle| &idle.devices);
            let row = devices.find(|row| device_name(row) == device)?;
            Some(if let Figure::GpuIdle(cause) = figure { row.causes.of(cause) } else { row.busy_ns } as f64)
        };
        let grown = self.growth(time).filter(|grown| *grown > 0.0)?;
        let has_several = |run: &Run<'a>| run.summary.idle.as_ref().is_some_and(|idle| idle.devices.len() > 1);
        if self.sides.iter().flatten().any(has_several) {
            return None; // spans and kernels are not told apart by device
        }
        let most = match figure {
            Figure::GpuIdle(cause) => self.most(|run| idle_spans(run.summary, cause), one),
            _ => self.most(|run| operations(run.summary), one),
        };
        let (name, by) = most.filter(|(_, by)| is_most_of(*by, grown))?;
        let (inside, part) = match figure {
            Figure::GpuIdle(_) => (vec![name], "most of it".to_owned()),
            _ => (Vec::new(), name),
        };
        Some(Reason { inside, part, cause: None, is_inferred: false, grown_ns: by as u64 })
    }
}

/// Whether a mean grew about as much as what was judged.
fn is_alike(grown: f64, judged: f64) -> bool {
    (judged / ALIKE..=ALIKE * judged).contains(&grown)
}

/// Whether a part explains a growth.
fn is_most_of(part: f64, grown: f64) -> bool {
    (LEAST_PART * grown..=MOST_PART * grown).contains(&part)
}

/// The median, of an even number the lower one, so that of two the disturbed one does not count. `None` for two or
/// none: two pairs do not tell which is disturbed.
fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    if values.len() == 2 {
        return None;
    }
    values.get(values.len().checked_sub(1)? / 2).copied()
}

fn idle_spans(summary: &Summary, cause: IdleCause) -> Vec<(String, f64)> {
    let spans = summary.idle.iter().flat_map(|idle| &idle.spans);
    let named = spans
        .filter_map(|row| Some((in_domain(row.domain.as_deref(), row.name.as_ref()?), row.causes.of(cause) as f64)));
    named.in_vec()
}

fn memory_name(kind: MemoryKind) -> String {
    if kind == MemoryKind::Set { "[CUDA memset]".to_owned() } else { format!("[CUDA memcpy {kind:?}]") }
}

/// Kernels by name, and copies by kind.
fn operations(summary: &Summary) -> Vec<(String, f64)> {
    let kernels = summary.gpu.iter().flat_map(|gpu| &gpu.kernels);
    let copies = summary.gpu.iter().flat_map(|gpu| &gpu.memory);
    let kernels = kernels.map(|row| (row.name.clone(), row.times.total_ns as f64));
    kernels.chain(copies.map(|row| (memory_name(row.kind), row.times.total_ns as f64))).in_vec()
}
