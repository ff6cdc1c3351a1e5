//! The lists of the first screen: names with the most of something.

use serde::Serialize;

use super::texts::{LONGEST, presentable};
use super::tree::name_of;
use range_model::summary::{Summary, Times};
use range_report::TableStyle;
use range_report::page::{Hot, Phase, Phases, hottest, waiting_for_ranks};
use range_report::page::{WHOLE, recorded_whole};
use range_report::page::{bracketed, nsys_call};

/// Names in a list.
const MOST_NAMES: usize = 7;

#[derive(Debug, Serialize)]
pub(super) struct HotLists {
    /// The longest own times; and, if anything waited, the longest times including waiting.
    own: Hot,
    latency: Option<Hot>,
    /// Kernels, copies and whole replays of graphs; and API calls, if no range explains them.
    gpu: Hot,
    api: Hot,
    /// Names of calls that live as long as the run and wait for work.
    loops: Vec<String>,
    /// Whether more time was awaited than run: then the page begins with latencies.
    waits: bool,
}

pub(super) fn hot_lists(summary: &Summary, phases: &Phases) -> HotLists {
    let phase_times = |times: fn(&Phase) -> [u64; 2]| {
        hottest(phases.all().iter().map(|phase| (name_of(phase.node), times(phase))), MOST_NAMES)
    };
    let named = |name: &str, times: &Times| (presentable(name, LONGEST).into_owned(), [times.total_ns, 0]);
    let gpu = summary.gpu.as_ref();
    let kernels = gpu.into_iter().flat_map(|gpu| &gpu.kernels).map(|row| {
        let (name, [ns, _]) = named(&row.name, &row.times);
        (name, [ns - waiting_for_ranks(summary, &row.name, ns), 0])
    });
    let memory = gpu.into_iter().flat_map(|gpu| &gpu.memory);
    let memory = memory.map(|row| named(&bracketed(row.kind, TableStyle::Current), &row.times));
    let whole = recorded_whole(phases, gpu);
    let whole = whole.map(|[_, ns]| (WHOLE.to_owned(), [ns, 0]));
    let is_explained = phases.all().iter().any(|phase| phase.own_ns > 0);
    let calls = gpu.and_then(|gpu| gpu.calls.as_ref()).filter(|_| !is_explained).into_iter().flatten();
    HotLists {
        own: phase_times(|phase| [phase.own_ns, 0]),
        latency: phases
            .all()
            .iter()
            .any(|phase| wait(phase) > 0)
            .then(|| phase_times(|phase| [phase.own_ns, wait(phase)])),
        gpu: hottest(kernels.chain(memory).chain(whole), MOST_NAMES),
        api: hottest(calls.map(|row| named(nsys_call(&row.name), &row.times)), MOST_NAMES),
        loops: phases.all().iter().filter(|phase| phase.is_loop()).map(|phase| name_of(phase.node)).collect(),
        waits: phases.waits_more_than_runs(),
    }
}

/// A phase's own waiting. A loop that lives as long as the run waits for work, which does not count.
fn wait(phase: &Phase) -> u64 {
    if phase.is_loop() { 0 } else { phase.node.awaited_self_ns.unwrap_or(0) }
}
