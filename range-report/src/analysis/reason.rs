//! Why a row became slower: which part of its time grew, and who caused it.
//!
//! Parts are those of the mean: of all calls or instances, or of the slowest calls. The growth of a part is the median
//! of its growth over the pairs of runs, so that a disturbed run names nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::figure::{Figure, device_name};
use crate::stats::{Lean, order};
use crate::summary::{CallKind, CallStates, CallStats, IdleCause, WaitStats};
use crate::text::escaped;
use crate::text::names::in_domain;
use crate::text::number::human_inline;
use crate::{Summary, TreeNode};

/// What of a row grew most. Its text is a clause.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Reason {
    /// Labels from the row to what grew inside of it; empty if that is the row itself.
    pub inside: Vec<String>,
    /// What grew: `waiting`, `on the CPU`.
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
        f.write_str(&self.part)?;
        if let Some(cause) = &self.cause {
            write!(f, "{} {}", if self.is_inferred { ", probably for" } else { "" }, escaped(cause))?;
        }
        write!(f, ", +{}", human_inline(self.grown_ns))
    }
}

/// A part of a row's time must be so large a part of its growth to be named.
const LEAST_PART: f64 = 0.5;
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
    self_on_cpu_ns: i64,
    self_off_cpu_ns: i64,
    /// Time of the rows directly below: on their threads, and waiting.
    inside: BTreeMap<String, u64>,
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
            let own = |of: fn(&TreeNode) -> u64| of(node).cast_signed() - below(of).cast_signed();
            sum.instances += node.instances;
            sum.total_ns += node.total_ns;
            sum.self_on_cpu_ns += own(|node| node.on_cpu_ns);
            sum.self_off_cpu_ns += own(|node| node.off_cpu_ns);
            for child in &node.children {
                *sum.inside.entry(label(child)).or_default() += child.total_ns + child.awaited_ns.unwrap_or(0);
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
                (ON_CPU.to_owned(), node.self_on_cpu_ns as f64),
                (OFF_CPU.to_owned(), node.self_off_cpu_ns as f64),
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

    /// Told waits of calls, by the words for their cause.
    fn waits(&self, label: &str) -> impl Iterator<Item = (String, f64)> {
        let rows = self.summary.waits.iter().filter(move |row| row.waiter == label && row.of_waits.is_none());
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
        let mut grown = base.iter().zip(new).filter_map(|(base, new)| Some(figure(new)? - figure(base)?)).in_vec();
        grown.sort_by(f64::total_cmp);
        grown.get(grown.len() / 2).copied()
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
            let mut grown = known().map(|(base, new)| value(new) - value(base)).in_vec();
            grown.sort_by(f64::total_cmp);
            Some((name.clone(), *grown.get(grown.len() / 2)?))
        });
        let mut grown = grown.filter(|(_, grown)| *grown > 0.0).in_vec();
        order::by(&mut grown, |(_, a), (_, b)| b.total_cmp(a));
        grown.into_iter().next()
    }

    /// Why calls take longer, or the instances of a range.
    pub(crate) fn of_row(&self, label: &str, figure: Figure) -> Option<Reason> {
        let times = |run: &Run<'a>| run.mean(label, figure).map(|(times, _)| times);
        let mut grown =
            self.growth(|run| run.mean(label, figure).map(|(_, mean)| mean)).filter(|grown| *grown > 0.0)?;
        let mut inside: Vec<String> = Vec::new();
        while inside.len() < DEEPEST {
            let at = inside.last().map_or(label, String::as_str);
            let below = |run: &Run<'a>| {
                let node = run.nodes.get(at);
                node.into_iter().flat_map(|node| &node.inside).map(|(label, ns)| (label.clone(), *ns as f64)).in_vec()
            };
            let Some((child, by)) = self.most(below, times).filter(|(_, by)| *by >= LEAST_PART * grown) else { break };
            if child == label || inside.contains(&child) {
                break;
            }
            (grown, _) = (by, inside.push(child));
        }
        let at = inside.last().map_or(label, String::as_str);
        let part = self.most(|run| run.parts(at), times).filter(|(_, by)| *by >= LEAST_PART * grown);
        let Some((part, by)) = part else {
            // The row itself, and nobody knows why: that says nothing.
            let part = "longer".to_owned();
            let known = (!inside.is_empty()).then_some(());
            return known.map(|()| Reason { inside, part, cause: None, is_inferred: false, grown_ns: grown as u64 });
        };
        let waits = [WAITING, READY, OFF_CPU].contains(&part.as_str());
        let cause = if waits { self.cause(at, times, LEAST_PART * by) } else { None };
        let is_inferred = cause.as_ref().is_some_and(|(_, is_inferred)| *is_inferred);
        let cause = cause.map(|(cause, is_inferred)| match (part.as_str(), is_inferred) {
            (_, true) => cause,
            (READY, _) => format!("because of {cause}"),
            _ => format!("for {cause}"),
        });
        Some(Reason { inside, part, cause, is_inferred, grown_ns: by as u64 })
    }

    /// Who made these calls wait longer: told for at least so long, or inferred in half of the new runs. And whether it
    /// is inferred, which is said of a part of all waits, so that its times cannot be compared.
    fn cause(&self, at: &str, times: impl Fn(&Run<'a>) -> Option<f64>, least: f64) -> Option<(String, bool)> {
        if let Some((cause, _)) = self.most(|run| run.waits(at).in_vec(), times).filter(|(_, by)| *by >= least) {
            return Some((cause, false));
        }
        let [_, new] = &self.sides;
        let mut inferred: BTreeMap<String, usize> = BTreeMap::new();
        for run in new {
            // The first of them has the most time.
            let row = run.summary.waits.iter().find(|row| row.waiter == at && row.of_waits.is_some());
            row.and_then(by).into_iter().for_each(|by| *inferred.entry(by).or_default() += 1);
        }
        let most = inferred.into_iter().max_by_key(|(_, runs)| *runs).filter(|(_, runs)| 2 * runs > new.len())?;
        Some((most.0, true))
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
        let most = match figure {
            Figure::GpuIdle(cause) => self.most(|run| idle_spans(run.summary, cause), one),
            _ => self.most(|run| operations(run.summary), one),
        };
        let (name, by) = most.filter(|(_, by)| *by >= LEAST_PART * grown)?;
        let part = if let Figure::GpuIdle(_) = figure { "most of it" } else { "executing" };
        Some(Reason { inside: vec![name], part: part.to_owned(), cause: None, is_inferred: false, grown_ns: by as u64 })
    }
}

fn idle_spans(summary: &Summary, cause: IdleCause) -> Vec<(String, f64)> {
    let spans = summary.idle.iter().flat_map(|idle| &idle.spans);
    let named = spans
        .filter_map(|row| Some((in_domain(row.domain.as_deref(), row.name.as_ref()?), row.causes.of(cause) as f64)));
    named.in_vec()
}

/// Kernels by name, and copies as `HtoD`.
fn operations(summary: &Summary) -> Vec<(String, f64)> {
    let kernels = summary.gpu.iter().flat_map(|gpu| &gpu.kernels);
    let copies = summary.gpu.iter().flat_map(|gpu| &gpu.memory);
    let kernels = kernels.map(|row| (row.name.clone(), row.times.total_ns as f64));
    kernels.chain(copies.map(|row| (format!("{:?}", row.kind), row.times.total_ns as f64))).in_vec()
}
