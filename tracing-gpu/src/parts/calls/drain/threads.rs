//! Time of threads in spans, and time in which no span was open at all.

use range_model::stats::{Keyed, Lean, order};
use range_model::summary::ThreadStats;
use range_model::{Losses, RangeStyle};

use crate::clock::Rate;
use crate::core::drain::part::Nodes;
use crate::core::drain::totals::{NodeTotals, ThreadRows};
use crate::core::record::RangeKey;
use crate::core::session::Session;
use crate::core::session::catalog::{Node, ROOT};
use crate::core::thread::row::RowCopy;
use crate::parts::calls::drain::nodes::NodeCalls;
use crate::parts::calls::thread::call_row::CallCopy;

/// The threads on which spans ran, the most time in spans first. `threads` are the rows of each, `calls_of_threads` the
/// calls that ended on each, `calls` those of futures.
///
/// A future ends where it is polled last. A thread on which none has ended may have entered the span of one and done
/// other work in it, as threads of a blocking pool do.
#[inline(never)]
pub(crate) fn threads(
    nodes: &[Node],
    calls: &Keyed<u32, NodeCalls>,
    threads: &[ThreadRows<'_>],
    calls_of_threads: &[&[CallCopy<'_>]],
    rate: Rate,
) -> Vec<ThreadStats> {
    let polled = polled(nodes, calls);
    let is_future =
        |call: &CallCopy<'_>| call.latency.count > call.sums.kept && calls.contains_key(&call.identity.node);
    let of_thread = |(rows, ended): (&ThreadRows<'_>, &&[CallCopy<'_>])| {
        let (mut in_spans, mut in_polls) = (0, 0);
        for (_, row) in rows.iter().filter(|(key, row)| key.style == RangeStyle::PushPop && row.times.count > 0) {
            let own = row.times.total.saturating_sub(u128::from(row.nested));
            in_spans += own;
            in_polls += if polled.get(row.node as usize) == Some(&true) { own } else { 0 };
        }
        let has_polled = ended.iter().any(is_future);
        (in_spans > 0).then(|| {
            let mut stats = ThreadStats::new(rate.ns(in_spans));
            stats.in_polls_ns = has_polled.then(|| rate.ns(in_polls));
            stats
        })
    };
    let mut threads: Vec<ThreadStats> = threads.iter().zip(calls_of_threads).filter_map(of_thread).in_vec();
    order::by_key(&mut threads, |thread| std::cmp::Reverse((thread.in_spans_ns, thread.in_polls_ns)));
    threads
}

/// For each node, whether its own time keeps a thread from other tasks. The own time of a span around `block_on` does
/// not, because the span waits for its futures.
#[inline(never)]
fn polled(nodes: &[Node], calls: &Keyed<u32, NodeCalls>) -> Vec<bool> {
    // A parent has a lower number than its children.
    let of_future = |id: usize| u32::try_from(id).is_ok_and(|id| calls.contains_key(&id));
    let (mut within, mut holds) = (vec![false; nodes.len()], vec![false; nodes.len()]);
    for (id, node) in nodes.iter().enumerate().skip(ROOT as usize + 1) {
        within[id] = of_future(id) || within.get(node.parent as usize) == Some(&true);
    }
    for (id, node) in nodes.iter().enumerate().skip(ROOT as usize + 1).rev() {
        let is_held = of_future(id) || holds[id];
        if let Some(parent) = holds.get_mut(node.parent as usize).filter(|_| is_held) {
            *parent = true;
        }
    }
    within.into_iter().zip(holds).map(|(within, holds)| within || !holds).in_vec()
}

/// Whether each span of the window has ended, is in a row, and was followed if it was entered more than once. A span
/// may have begun before a reset.
#[inline(never)]
pub(crate) fn all_is_known(session: &Session, nodes: &Nodes, losses: &Losses) -> bool {
    let Nodes { totals, calls } = nodes;
    let is_unfollowed = |(id, node): (u32, &NodeTotals)| node.instances > node.calls() && !calls.contains_key(&id);
    let waits = session.parts.calls.iter().any(|call| call.waits_since().is_some());
    let is_lost = losses.spans_dropped + session.parts.calls.over_limit() > 0 || session.was_reset();
    let is_open = waits || losses.open.iter().any(|range| !range.cut);
    let has_rows = totals.iter().any(|node| node.instances > 0);
    has_rows && !is_lost && !is_open && !(0..).zip(totals).any(is_unfollowed)
}

/// A lower bound of the window's ticks in which no span was open: the window minus the ranges on all threads, the
/// awaiting of calls, and lifetimes.
#[inline(never)]
pub(crate) fn outside(window: u64, threads: &[ThreadRows<'_>], calls: &Keyed<u32, NodeCalls>) -> u128 {
    let took = |(key, row): &(RangeKey, RowCopy)| match key.style {
        RangeStyle::PushPop => row.times.total.saturating_sub(u128::from(row.nested)),
        _ => row.times.total,
    };
    let inside =
        threads.iter().flat_map(|rows| rows.iter()).map(took).chain(calls.values().map(NodeCalls::awaited_self));
    u128::from(window).saturating_sub(inside.fold(0, u128::saturating_add))
}
