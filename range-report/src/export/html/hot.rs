//! The lists of the first screen: names with the most of something.

use std::collections::HashMap;

use serde::Serialize;

use super::texts::{LONGEST, presentable};
use super::tree::name_of;
use crate::analysis::{Hot, Phase, Phases, hottest};
use crate::report::{TableStyle, bracketed, nsys_call};
use crate::summary::Summary;

/// Names in a list.
const MOST_NAMES: usize = 7;

#[derive(Debug, Serialize)]
pub(super) struct HotLists {
    /// What ran longest itself; and, where anything waited, what ran and waited longest.
    own: List,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<List>,
    /// Kernels and copies; and calls, where no range explains them.
    gpu: List,
    api: List,
    /// Whether more time was awaited than run: then the page begins with latencies.
    waits: bool,
}

#[derive(Debug, Serialize)]
struct List {
    names: Vec<Entry>,
    /// What shares are of.
    whole: u128,
    /// How many others there are, and what they have together.
    others: usize,
    others_ns: u128,
}

#[derive(Debug, Serialize)]
struct Entry {
    name: String,
    ns: u64,
    /// The part of a latency in which it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    ran: Option<u64>,
}

impl List {
    fn of(Hot { names, others, others_ns, whole_ns }: Hot, ran: &HashMap<String, u64>) -> Self {
        let entry = |(name, ns): (String, u64)| Entry { ran: ran.get(&name).copied(), name, ns };
        Self { names: names.into_iter().map(entry).collect(), whole: whole_ns, others, others_ns }
    }
}

pub(super) fn hot_lists(summary: &Summary, phases: &Phases) -> HotLists {
    let by_name = |ns: fn(&Phase) -> u64| phases.all().iter().map(move |phase| (name_of(phase.node), ns(phase)));
    let list = |parts: &mut dyn Iterator<Item = (String, u64)>| List::of(hottest(parts, MOST_NAMES), &HashMap::new());
    // Loops that live as long as the run wait for work.
    let wait = |phase: &Phase| if phase.is_loop() { 0 } else { phase.node.awaited_self_ns.unwrap_or(0) };
    let own = |phase: &Phase| phase.own_ns;
    let latency = phases.all().iter().any(|phase| wait(phase) > 0).then(|| {
        let hot = hottest(by_name(own).chain(by_name(wait)), MOST_NAMES);
        let mut ran: HashMap<String, u64> = hot.names.iter().map(|(name, _)| (name.clone(), 0)).collect();
        for (name, ns) in by_name(own) {
            ran.entry(name).and_modify(|sum| *sum = sum.saturating_add(ns));
        }
        List::of(hot, &ran)
    });
    let shown = |name: &str| presentable(name, LONGEST).into_owned();
    let gpu = summary.gpu.as_ref();
    let kernels = gpu.into_iter().flat_map(|gpu| &gpu.kernels).map(|row| (shown(&row.name), row.times.total_ns));
    let memory = gpu.into_iter().flat_map(|gpu| &gpu.memory);
    let memory = memory.map(|row| (bracketed(row.kind, TableStyle::Current), row.times.total_ns));
    let is_explained = phases.all().iter().any(|phase| phase.own_ns > 0);
    let calls = gpu.and_then(|gpu| gpu.calls.as_ref()).filter(|_| !is_explained).into_iter().flatten();
    HotLists {
        own: list(&mut by_name(own)),
        latency,
        gpu: list(&mut kernels.chain(memory)),
        api: list(&mut calls.map(|row| (shown(nsys_call(&row.name)), row.times.total_ns))),
        waits: phases.waits_more_than_runs(),
    }
}
