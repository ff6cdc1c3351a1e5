//! Waits of calls, and their causes: told by wakers, or inferred.

pub(crate) mod coincidence;
pub(crate) mod values;

use std::mem::take;

use range_model::stats::{Distribution, Keyed, Lean, Named, order};
use range_model::summary::{Join as _, WaitStats};
use range_model::{Note, Summary};

use crate::clock::Rate;
use crate::core::drain::cursor::Reader;
use crate::core::drain::names::{Shown, label_shown};
use crate::core::drain::part::{Part, Run};
use crate::core::drain::times::quantiles;
use crate::core::session::Names;
use crate::core::session::joined::Joined;
use crate::core::thread::state::ThreadState;
use crate::parts::calls::drain::by_name;
use crate::parts::calls::drain::nodes::NodeCalls;
use crate::parts::waits::session::owed::NOBODY;
use crate::parts::waits::thread::coincidence::{Key, Sums};
use crate::parts::waits::thread::waits::{Length, LengthChange, ValueSums, WaitSums, coarse, length_of};

/// Sums by the labels of the waiter and of the cause.
type WaitRows = Vec<([u32; 2], WaitSums)>;

#[derive(Default)]
pub(crate) struct Waits {
    /// Waits of followed futures; the values of their causes; and how much shorter calls would be without each cause.
    told: WaitRows,
    values: Vec<([u32; 2], ValueSums)>,
    shorter: Vec<LengthChange>,
    /// Whether a thread had no room for shorter lengths.
    is_shorter_lost: bool,
    /// Waits for the thread of a call that was ready.
    held_up: WaitRows,
    coincidences: Vec<(Key, Sums)>,
}

impl Part for Waits {
    fn copy(&mut self, thread: &'static ThreadState, _: &mut Reader<'_>) {
        if let Some(followed) = thread.parts.waits.followed.get() {
            self.told.extend(followed.waits.copy());
            self.values.extend(followed.values.copy());
            match followed.shorter.copy() {
                Some(more) => self.shorter.extend(more),
                None => self.is_shorter_lost = true,
            }
        }
        if let Some(workers) = thread.parts.waits.held_up.get() {
            self.held_up.extend(workers.copy());
        }
        if let Some(all) = thread.parts.waits.coincidences.get() {
            self.coincidences.extend(all.copy());
        }
    }

    fn read(&mut self, reader: &mut Reader<'_>) {
        self.told = reader.waits(take(&mut self.told));
        self.held_up = reader.held_up(take(&mut self.held_up));
        self.values = reader.values(take(&mut self.values));
        if !self.is_shorter_lost {
            self.shorter = reader.shorter(take(&mut self.shorter));
        }
        // Many waits together prove it: those of one window may be too few.
        if reader.is_part() {
            self.coincidences.clear();
        }
    }

    fn join(&mut self, joined: &Joined) {
        let join = |label: &mut u32| *label = joined.label(*label);
        self.told.iter_mut().chain(&mut self.held_up).flat_map(|(labels, _)| labels).for_each(join);
        self.values.iter_mut().for_each(|([label, _], _)| join(label));
        self.shorter.iter_mut().flat_map(|(labels, ..)| labels).for_each(join);
        // Two names that are one now may both have ended before the same wait.
        self.coincidences.retain(|(key, _)| joined.label(key.by.label) == key.by.label);
        self.coincidences.iter_mut().for_each(|(key, _)| join(&mut key.waiter));
    }

    fn finish(&mut self, run: &Run<'_>, _: &mut Reader<'_>, summary: &mut Summary) {
        let Run { names, rate, .. } = *run;
        let asked = &run.engine.session.parts.values;
        let mut told = waits(&self.told, names, rate);
        values::tell(&mut told, &self.values, (names, asked), rate);
        if !self.is_shorter_lost && !self.shorter.is_empty() {
            set_p99_without(&mut told, &by_name(&run.nodes.calls, names), &self.shorter, names, rate);
        }
        let mut for_workers = waits(&self.held_up, names, rate);
        for_workers.iter_mut().for_each(|row| row.resource = Some(WaitStats::WORKER.to_owned()));
        let inferred = coincidence::inferred(&self.coincidences, (names, asked), rate);
        summary.waits = [told, for_workers, inferred].concat().joined();
        let told = run.all_threads.iter().filter_map(|thread| Some(thread.parts.waits.followed.get()?.waits.lost()));
        let inferred = run.all_threads.iter().filter_map(|thread| Some(thread.parts.waits.coincidences.get()?.lost()));
        let held_up = run.all_threads.iter().filter_map(|thread| Some(thread.parts.waits.held_up.get()?.lost()));
        let parts: u64 = told.chain(inferred).chain(held_up).sum();
        if parts > 0 {
            summary.notes.push(Note::WaitsOverLimit { parts });
        }
        if self.is_shorter_lost {
            summary.notes.push(Note::ShorterCallsOverLimit);
        }
    }
}

/// Waits by the names of waiter and cause, the longest first.
#[inline(never)]
fn waits(rows: &[([u32; 2], WaitSums)], names: &Names, rate: Rate) -> Vec<WaitStats> {
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

/// Sets, for each cause, the 99th percentile of the latencies of its waiters without the waits that it caused.
#[inline(never)]
fn set_p99_without(
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

/// The 99th percentile in nanoseconds, with `more` calls of some lengths. `None` if a length would have fewer than
/// none.
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
}
