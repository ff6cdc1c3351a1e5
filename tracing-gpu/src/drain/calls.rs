//! Calls of futures: merges the rows of all threads into the figures of a summary.

use range_model::stats::{Distribution, Keyed, Lean, Named, order};
use range_model::summary::{CallStates, CallStats, SlowestCalls, WaitStats};

use super::names::{Shown, label_shown, label_text};
use super::times::{quantiles, times};
use crate::clock::{Rate, Ticks};
use crate::session::Names;
use crate::session::owed::NOBODY;
use crate::thread::call_row::{CallCopy, CallSums, CallsOfLength};
use crate::thread::engine::Engine;
use crate::thread::waits::{Length, LengthChange, WaitSums, coarse, length_of};

/// Times of calls, in ticks: what they measured, which may be more than their latency where threads use a span at once.
#[derive(Clone, Copy, Default)]
struct CallTimes {
    latency: u128,
    busy: u128,
    /// Time in which a call awaited something other than a call.
    idle: u128,
    outlived: u128,
    on_cpu: u128,
    off_cpu: u128,
    ready: u128,
    ready_alone: u128,
}

impl CallTimes {
    fn of(latency: u128, sums: &CallSums) -> Self {
        let CallSums { busy, idle, outlived, on_cpu, off_cpu, ready, ready_alone, .. } = *sums;
        let [busy, idle, outlived, on_cpu, off_cpu, ready, ready_alone] =
            [busy, idle, outlived, on_cpu, off_cpu, ready, ready_alone].map(u128::from);
        Self { latency, busy, idle, outlived, on_cpu, off_cpu, ready, ready_alone }
    }

    fn add(&mut self, other: &Self) {
        self.latency += other.latency;
        self.busy += other.busy;
        self.idle += other.idle;
        self.outlived += other.outlived;
        self.on_cpu += other.on_cpu;
        self.off_cpu += other.off_cpu;
        self.ready += other.ready;
        self.ready_alone += other.ready_alone;
    }

    fn awaited(&self) -> u128 {
        self.latency.saturating_sub(self.busy + self.outlived())
    }

    fn outlived(&self) -> u128 {
        self.outlived.min(self.latency.saturating_sub(self.busy))
    }

    fn awaited_self(&self) -> u128 {
        self.idle.min(self.awaited())
    }

    /// The latency in parts, in nanoseconds, which add up to it.
    fn states(&self, rate: Rate) -> CallStates {
        let busy = self.busy.min(self.latency);
        let on_cpu = self.on_cpu.min(busy);
        let off_cpu = self.off_cpu.min(busy - on_cpu);
        let (awaited, alone) = (self.awaited(), self.awaited_self());
        let ready = self.ready.min(awaited);
        let otherwise = (alone - self.ready_alone.min(alone)).min(awaited - ready);
        let mut before = 0;
        let mut ns = |ticks: u128| {
            let since = rate.ns(before);
            before += ticks;
            rate.ns(before) - since
        };
        let mut states = CallStates::default();
        states.on_cpu_ns = ns(on_cpu);
        states.off_cpu_ns = ns(off_cpu);
        states.on_thread_ns = ns(busy - on_cpu - off_cpu);
        states.ready_ns = ns(ready);
        states.child_call_ns = ns(awaited - ready - otherwise);
        states.otherwise_ns = ns(otherwise);
        states.outlived_ns = ns(self.outlived());
        states
    }
}

/// The calls of one node, in ticks.
#[derive(Clone, Default)]
pub(super) struct NodeCalls {
    label: u32,
    latency: Distribution,
    times: CallTimes,
    /// Number and times by length, see [`CallCopy::by_length`].
    by_length: Keyed<u32, (u64, CallTimes)>,
    cancelled: u64,
    /// Calls of which it is not known whether they were cancelled.
    unsure: u64,
    /// Whether too little is known to count cancelled calls.
    is_unknown: bool,
    dropped: u64,
    /// Calls of spans that are kept and entered again and again, and their uses that are calls of their own but not
    /// counted yet.
    kept: u64,
    uncounted: u64,
    batches: u64,
    in_batch: u128,
    share: u128,
}

impl NodeCalls {
    pub(super) fn awaited(&self) -> u128 {
        self.times.awaited()
    }

    pub(super) fn awaited_self(&self) -> u128 {
        self.times.awaited_self()
    }

    /// The longest latency.
    pub(super) fn longest(&self) -> u64 {
        self.latency.max
    }

    fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.times.add(&other.times);
        self.add_by_length(&other.by_length);
        self.cancelled += other.cancelled;
        self.is_unknown |= other.is_unknown;
        self.batches += other.batches;
        self.in_batch += other.in_batch;
        self.share += other.share;
    }

    fn add_by_length(&mut self, other: &Keyed<u32, (u64, CallTimes)>) {
        for (length, (calls, times)) in other.iter() {
            let all = self.by_length.row(*length);
            all.0 += calls;
            all.1.add(times);
        }
    }

    /// About the slowest hundredth of the calls: as many groups of about one length, each whole, as it takes.
    fn slowest(&self, rate: Rate) -> Option<SlowestCalls> {
        let mut groups: Vec<_> = self.by_length.iter().map(|(length, group)| (*length, *group)).in_vec();
        order::by_most(&mut groups, |(length, _)| u64::from(*length));
        let (mut calls, mut times) = (0, CallTimes::default());
        for (_, (more, of)) in groups {
            calls += more;
            times.add(&of);
            if calls >= self.latency.count.div_ceil(SLOWEST) {
                break;
            }
        }
        let mut slowest = SlowestCalls::default();
        slowest.calls = calls;
        slowest.latency_ns = rate.ns(times.latency);
        slowest.states = times.states(rate);
        (calls > 0 && self.latency.count >= SLOWEST).then_some(slowest)
    }
}

/// The slowest calls are one in so many.
const SLOWEST: u64 = 100;

/// The calls of futures by node, and the number of additional calls of kept spans that are no futures: a model's
/// layers, an executor's systems.
#[inline(never)]
pub(super) fn by_node(rows: &[CallCopy<'_>]) -> (Keyed<u32, NodeCalls>, Vec<(u32, u64)>) {
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

/// A sentence about kept spans with entries on threads without an open range, if there are any.
#[inline(never)]
pub(super) fn at_the_root(uncounted: &[(u32, u64)], names: &Names) -> Option<String> {
    let node = |node: u32| names.catalog.nodes().get(node as usize).map(|node| label_shown(names, node.label));
    let mut apart: Vec<_> = uncounted.iter().filter(|(_, more)| *more > 0).in_vec();
    order::by_most(&mut apart, |(_, more)| *more);
    let first = apart.first().and_then(|(id, _)| node(*id))?;
    let others = match apart.len() - 1 {
        0 => String::new(),
        1 => " and 1 other".to_owned(),
        others => format!(" and {others} others"),
    };
    Some(format!(
        "`{first}`{others} ran on threads without an open range, so they are no part of the range that waits for them: \
         it has that wait in its Self."
    ))
}

/// The largest number of names with a sentence about waiting calls.
const MOST_NAMES: usize = 3;
/// A call gets a sentence if it has waited at least this fraction of the window, and at least 100 ms.
const LONG: u64 = 10;
const LONG_NS: u64 = 100_000_000;

/// A sentence for each name with calls that have waited long and not ended. The longest wait comes first.
#[inline(never)]
pub(super) fn still_waiting(engine: &Engine, window: Ticks, now: Ticks, names: &Names, rate: Rate) -> Vec<String> {
    let mut waiting: Named<Shown, (u64, u64)> = Named::default();
    for call in engine.session.calls.iter() {
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
    let sentence = |((name, _), (count, longest)): (Shown, (u64, u64))| {
        let longest = rate.ns(u128::from(longest)) as f64 / 1e9;
        match count {
            1 => format!(
                "1 call of `{name}` still waits, for {longest:.1} s. Only calls that have ended are in the figures."
            ),
            _ => format!(
                "{count} calls of `{name}` still wait, the longest for {longest:.1} s. Only calls that have ended are in \
                 the figures."
            ),
        }
    };
    waiting.into_iter().take(MOST_NAMES).map(sentence).in_vec()
}

/// The calls of all nodes with a name together.
pub(super) fn by_name(nodes: &Keyed<u32, NodeCalls>, names: &Names) -> Named<Shown, NodeCalls> {
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
pub(super) fn stats(merged: &Named<Shown, NodeCalls>, names: &Names, rate: Rate, asked: &[f64]) -> Vec<CallStats> {
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

/// Waits of followed futures by who waited and to whom they are owed, the longest first.
#[inline(never)]
pub(super) fn waits(rows: &[([u32; 2], WaitSums)], names: &Names, rate: Rate) -> Vec<WaitStats> {
    let mut all: Named<(String, Option<String>), WaitSums> = Named::default();
    for ([waiter, by], sums) in rows {
        let by = Some(*by).filter(|by| *by != NOBODY).map(|by| label_shown(names, by));
        let row = all.row((label_shown(names, *waiter), by));
        row.waits += sums.waits;
        row.time += sums.time;
        row.longest = row.longest.max(sums.longest);
    }
    let rows = all.into_iter().map(|((waiter, by), WaitSums { waits, time, longest })| {
        WaitStats::new(waiter, by, waits, rate.ns(u128::from(time)), rate.ns(u128::from(longest)))
    });
    let mut rows: Vec<WaitStats> = rows.in_vec();
    order::by_most(&mut rows, |row| row.time_ns);
    rows
}

/// Sets the 99th percentile of the latencies of those that waited, without what they owe to each other name.
#[inline(never)]
pub(super) fn set_p99_without(
    rows: &mut [WaitStats],
    calls: &Named<Shown, NodeCalls>,
    shorter: &[LengthChange],
    names: &Names,
    rate: Rate,
) {
    let mut by_labels: Keyed<[u32; 2], Vec<(Length, i64)>> = Keyed::default();
    shorter.iter().for_each(|(labels, length, more)| by_labels.row(*labels).push((*length, *more)));
    let mut by_names: Named<[String; 2], Vec<(Length, i64)>> = Named::default();
    for (labels, more) in by_labels.iter() {
        by_names.row(labels.map(|label| label_shown(names, label))).extend(more);
    }
    for row in rows {
        let labels = row.by.as_ref().map(|by| [row.waiter.clone(), by.clone()]);
        let more = labels.and_then(|labels| by_names.get(&labels));
        let calls = more.and_then(|_| calls.get(&(row.waiter.clone(), 0)));
        row.p99_without_ns = calls.zip(more).and_then(|(calls, more)| p99_with(&calls.latency, more, rate));
    }
}

/// The 99th percentile in nanoseconds, with so many more calls of some lengths. `None` where the others are not known.
fn p99_with(all: &Distribution, more: &[(Length, i64)], rate: Rate) -> Option<u64> {
    let mut counts: Keyed<Length, i64> = Keyed::default();
    let known = all.samples.iter().map(|latency| (length_of(*latency), 1));
    let known = known.chain(all.buckets.iter().map(|(length, count)| (coarse(length), count as i64)));
    known.chain(more.iter().copied()).for_each(|(length, count)| *counts.row(length) += count);
    let mut without = Distribution { count: all.count, max: u64::MAX, ..Distribution::default() };
    for (length, count) in counts.iter() {
        without.buckets.add(*length, u64::try_from(*count).ok()?);
    }
    let p99 = quantiles(&without, rate, &[0.99]);
    p99.first().map(|p99| p99.ns.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_without_what_they_owe_are_shorter() {
        let all = Distribution::of((1..=200).map(|call| if call <= 10 { 90_000 } else { 1_000 + call }));
        let rate = Rate::IDENTITY;
        let near = |found: Option<u64>, ns: u64| found.is_some_and(|found| found.abs_diff(ns) <= ns / 125);
        assert!(near(p99_with(&all, &[], rate), 90_000));
        let without = [(length_of(90_000), -10), (length_of(1_010), 6), (length_of(40_000), 4)];
        assert!(near(p99_with(&all, &without, rate), 40_000), "{:?}", p99_with(&all, &without, rate));
        assert_eq!(p99_with(&all, &[(length_of(90_000), -11)], rate), None, "of more calls than are known");
        assert_eq!(p99_with(&Distribution { count: 201, ..all }, &[], rate), None, "of fewer");
    }

    #[test]
    fn the_slowest_hundredth_takes_whole_groups_and_its_states_add_up() {
        let mut node = NodeCalls::default();
        node.latency.count = 1_000;
        let times = |latency| CallTimes { latency, busy: 40, on_cpu: 30, off_cpu: 5, idle: 20, ..CallTimes::default() };
        for (length, group) in [(7, (980, times(9_800))), (9, (14, times(200))), (12, (6, times(150)))] {
            *node.by_length.row(length) = group;
        }
        let slowest = node.slowest(Rate::IDENTITY).expect("it has a thousand calls");
        assert_eq!((slowest.calls, slowest.latency_ns), (20, 350));
        let CallStates { on_cpu_ns, off_cpu_ns, on_thread_ns, child_call_ns, otherwise_ns, .. } = slowest.states;
        assert_eq!([on_cpu_ns, off_cpu_ns, on_thread_ns, child_call_ns, otherwise_ns], [60, 10, 10, 230, 40]);
        node.latency.count = 99;
        assert_eq!(node.slowest(Rate::IDENTITY), None);
    }

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
