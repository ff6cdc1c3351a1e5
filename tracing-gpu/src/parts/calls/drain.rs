//! Calls of futures: merges the rows of all threads into the figures of a summary.

pub(crate) mod nodes;
pub(crate) mod threads;

use range_model::stats::{Keyed, Lean, Named, order};
use range_model::summary::CallStats;
use range_model::{Note, Summary, TreeNode};

use crate::clock::{Rate, Ticks};
use crate::core::drain::cursor::Reader;
use crate::core::drain::names::{Shown, label_shown, label_text};
use crate::core::drain::part::{Nodes, Part, Run};
use crate::core::drain::rows::by_thread;

use crate::core::drain::times::times;
use crate::core::session::Names;
use crate::core::session::joined::Joined;
use crate::core::thread::engine::Engine;
use crate::core::thread::state::ThreadState;
use crate::parts::calls::drain::nodes::{CallTimes, NodeCalls};
use crate::parts::calls::thread::call_row::{CallCopy, CallsOfLength};

/// The calls of all threads, one thread after the other.
#[derive(Default)]
pub(crate) struct Calls<'a> {
    rows: Vec<CallCopy<'a>>,
    /// The end of each thread's rows.
    ends: Vec<usize>,
    /// By node, calls of kept spans that are in no row.
    uncounted: Vec<(u32, u64)>,
}

#[cfg(all(target_os = "linux", feature = "command"))]
impl<'a> Calls<'a> {
    /// The calls of a file of rows.
    pub(crate) fn of(rows: Vec<CallCopy<'a>>) -> Self {
        Self { rows, ..Self::default() }
    }
}

impl Part for Calls<'_> {
    fn copy(&mut self, thread: &'static ThreadState, reader: &mut Reader<'_>) {
        reader.calls(thread, &mut self.rows);
        self.ends.push(self.rows.len());
    }

    fn join(&mut self, joined: &Joined) {
        for CallCopy { identity, .. } in &mut self.rows {
            (identity.label, identity.node) = (joined.label(identity.label), joined.node(identity.node));
        }
    }

    fn count(&mut self, nodes: &mut Nodes, _: &Names) {
        (nodes.calls, self.uncounted) = by_node(&self.rows);
        for &(node, more) in &self.uncounted {
            if let Some(node) = nodes.get_mut(node) {
                node.calls = node.calls.wrapping_add(more);
            }
        }
    }

    fn show(&self, id: u32, node: &mut TreeNode, nodes: &Nodes, rate: Rate) {
        let calls = nodes.calls.get(&id);
        node.awaited_ns = calls.map(|calls| rate.ns(calls.awaited()));
        node.awaited_self_ns = calls.map(|calls| rate.ns(calls.awaited_self()));
    }

    fn finish(&mut self, run: &Run<'_>, reader: &mut Reader<'_>, summary: &mut Summary) {
        let Run { names, rate, .. } = *run;
        let session = &run.engine.session;
        let (calls, of_threads) = (&run.nodes.calls, by_thread(&self.rows, &self.ends));
        summary.threads = threads::threads(names.catalog.nodes(), calls, run.threads, &of_threads, rate);
        summary.calls = stats(&by_name(calls, names), names, rate, run.asked);
        // An instance counts in one window with all of its time, which may have begun before.
        let is_known = !reader.is_part() && threads::all_is_known(session, run.nodes, &summary.losses);
        let all = run.now.saturating_sub(run.window);
        summary.outside_ns = is_known.then(|| rate.ns(threads::outside(all, run.threads, calls)));
        let is_batched = summary.calls.iter().any(|row| row.batches.is_some());
        summary.notes.extend(session.parts.batches.notes(is_batched));
        summary.notes.extend(still_waiting(run.engine, run.from, run.now, names, rate));
        summary.notes.extend(at_the_root(&self.uncounted, names));
        let spans = session.parts.calls.over_limit();
        if spans > 0 {
            summary.notes.push(Note::CallsOverLimit { spans });
        }
    }
}

/// The calls of futures by node, and the number of additional calls of kept spans that are no futures: a model's
/// layers, an executor's systems.
#[inline(never)]
fn by_node(rows: &[CallCopy<'_>]) -> (Keyed<u32, NodeCalls>, Vec<(u32, u64)>) {
    let mut all: Keyed<u32, (&str, NodeCalls)> = Keyed::default();
    for CallCopy { identity, latency, sums, served, by_length } in rows {
        if latency.count == 0 && sums.uncounted == 0 && served.batches == 0 {
            continue; // the row is from an earlier window
        }
        let (source, node) = all.row(identity.node);
        *source = identity.source;
        node.label = identity.label;
        node.latency.merge(latency);
        node.times.add(&CallTimes::of(latency.total, sums));
        for (length, CallsOfLength { calls, latency, sums }) in by_length {
            let group = node.by_length.row(*length);
            group.0 += calls;
            group.1.add(&CallTimes::of(u128::from(*latency), sums));
        }
        node.cancelled += sums.cancelled;
        node.unsure += sums.unsure;
        node.dropped += sums.dropped;
        node.kept += sums.kept;
        node.uncounted += sums.uncounted;
        node.batches += served.batches;
        node.in_batch += u128::from(served.in_batch);
        node.share += u128::from(served.share);
    }
    let (mut nodes, mut uncounted) = (Vec::new(), Vec::new());
    for (id, (source, node)) in all {
        let is_of_futures = node.latency.count > 0 && node.kept <= node.latency.count / 2;
        if is_of_futures {
            nodes.push((id, source, node));
        } else {
            uncounted.push((id, node.uncounted));
        }
    }
    believe(&mut nodes);
    (nodes.into_iter().map(|(id, _, node)| (id, node)).collect(), uncounted)
}

/// One call in so many may be unsure: a thread is seldom stopped right before it drops a finished future.
const UNSURE_PART: u64 = 100;

/// If futures are not entered for their drop, a last poll after a wait looks like the drop of a cancelled future.
/// Cancelled calls are therefore counted only if as many finished calls look dropped: of the same node or, if none does
/// there, of the same crate. Else their number is unknown.
#[inline(never)]
fn believe(nodes: &mut [(u32, &str, NodeCalls)]) {
    let mut crates: Named<Shown, [u64; 2]> = Keyed::default();
    for (_, source, node) in nodes.iter() {
        let [cancelled, dropped] = crates.row(((*source).to_owned(), 0));
        (*cancelled, *dropped) = (*cancelled + node.cancelled, *dropped + node.dropped);
    }
    for (_, source, node) in nodes {
        let of_crate = crates.get(&((*source).to_owned(), 0)).copied().unwrap_or_default();
        let [cancelled, dropped] = if node.dropped > 0 { [node.cancelled, node.dropped] } else { of_crate };
        node.is_unknown = node.unsure * UNSURE_PART > node.latency.count || node.cancelled > 0 && dropped < cancelled;
    }
}

/// A note on kept spans with entries on threads without an open range, if there are any.
#[inline(never)]
fn at_the_root(uncounted: &[(u32, u64)], names: &Names) -> Option<Note> {
    let node = |node: u32| names.catalog.nodes().get(node as usize).map(|node| label_shown(names, node.label));
    let mut apart: Vec<_> = uncounted.iter().filter(|(_, more)| *more > 0).in_vec();
    order::by_most(&mut apart, |(_, more)| *more);
    let name = apart.first().and_then(|(id, _)| node(*id))?;
    Some(Note::AtTheRoot { name, others: apart.len() as u64 - 1 })
}

/// The largest number of names with a note on waiting calls.
const MOST_NAMES: usize = 3;
/// A call gets a note if it has waited at least this fraction of the window, and at least 100 ms.
const LONG: u64 = 10;
const LONG_NS: u64 = 100_000_000;

/// A note for each name with calls that have waited long and not ended. The longest wait comes first.
#[inline(never)]
fn still_waiting(engine: &Engine, window: Ticks, now: Ticks, names: &Names, rate: Rate) -> Vec<Note> {
    let mut waiting: Named<Shown, (u64, u64)> = Named::default();
    for call in engine.session.parts.calls.iter() {
        let Some(waited) = call.waits_since().map(|since| now.saturating_sub(since.max(window))) else { continue };
        let is_long = waited > now.saturating_sub(window) / LONG && rate.ns(u128::from(waited)) >= LONG_NS;
        let (thread, place) = call.home();
        let identity = engine.thread_at(thread).filter(|_| is_long);
        if let Some(identity) = identity.and_then(|thread| thread.identity(place)) {
            let (count, longest) = waiting.row((label_shown(names, identity.key.label), 0));
            (*count, *longest) = (*count + 1, (*longest).max(waited));
        }
    }
    let mut waiting: Vec<(Shown, (u64, u64))> = waiting.into_iter().in_vec();
    order::by_most(&mut waiting, |&(_, (_, longest))| longest);
    let note = |((name, _), (calls, longest)): (Shown, (u64, u64))| Note::StillWaiting {
        calls,
        name,
        longest_ns: rate.ns(u128::from(longest)),
    };
    waiting.into_iter().take(MOST_NAMES).map(note).in_vec()
}

/// The calls of all nodes with a name together.
pub(crate) fn by_name(nodes: &Keyed<u32, NodeCalls>, names: &Names) -> Named<Shown, NodeCalls> {
    let mut merged: Named<Shown, NodeCalls> = Named::default();
    for node in nodes.values() {
        let shown = (label_shown(names, node.label), 0);
        let all = merged.row_or(shown, || NodeCalls { label: node.label, ..NodeCalls::default() });
        all.merge(node);
    }
    merged
}

/// A row for each name, the largest own awaiting first.
#[inline(never)]
pub(crate) fn stats(merged: &Named<Shown, NodeCalls>, names: &Names, rate: Rate, asked: &[f64]) -> Vec<CallStats> {
    let rows = merged.values().filter_map(|calls| {
        let (domain, name) = label_text(names, calls.label)?;
        let mut row = CallStats::new(name, times(&calls.latency, rate, asked));
        row.domain = domain;
        row.cancelled = (!calls.is_unknown).then_some(calls.cancelled);
        let CallTimes { busy, .. } = calls.times;
        row.busy_ns = rate.ns(busy);
        row.awaited_ns = rate.ns(calls.awaited());
        row.awaited_self_ns = rate.ns(calls.awaited_self());
        row.outlived_ns = rate.ns(calls.times.outlived());
        row.states = Some(calls.times.states(rate));
        row.slowest = calls.slowest(rate);
        if calls.batches > 0 {
            row.batches = Some(calls.batches);
            row.in_batch_ns = Some(rate.ns(calls.in_batch));
            row.share_ns = Some(rate.ns(calls.share));
        }
        Some(row)
    });
    let mut rows: Vec<CallStats> = rows.in_vec();
    order::by_key(&mut rows, |row| std::cmp::Reverse((row.awaited_self_ns, row.latency.total_ns)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_cancelled_calls_is_unknown_where_too_little_is() {
        let known = |[cancelled, unsure, dropped]: [u64; 3], others: u64| {
            let mut node = NodeCalls { cancelled, unsure, dropped, ..NodeCalls::default() };
            node.latency.count = 200;
            let other = NodeCalls { dropped: others, ..NodeCalls::default() };
            let mut nodes = [(1, "here", node), (2, "here", other)];
            believe(&mut nodes);
            !nodes[0].2.is_unknown
        };
        assert!(known([0, 0, 0], 0) && known([5, 2, 90], 0));
        assert!(!known([5, 3, 90], 0), "more than one in a hundred calls may be cancelled, too");
        assert!(known([90, 0, 90], 0) && !known([91, 0, 90], 300), "they may be last polls");
        assert!(!known([100, 0, 0], 99) && known([100, 0, 0], 100), "others show that a drop is entered");
    }
}
