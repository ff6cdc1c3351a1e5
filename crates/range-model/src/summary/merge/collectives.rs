//! Which ranks were late for collective operations of NCCL, and how long the others waited for them.
//!
//! Operations are matched by communicator and number. They end on all ranks at about the same time: that aligns the
//! clocks of the ranks (`Clock`), and where the ends do not agree, the operations were matched wrongly, or something is
//! missing, and they are not judged. On aligned clocks the last rank to begin is the one that the others wait for.

use std::ops::Range;

use super::Lateness;
use crate::stats::{Keyed, Lean, order};
use crate::summary::collectives::COLLECTIVES;
use crate::summary::{CollectiveStats, CollectiveWait, CommunicatorStats, LateRank, Process, RangeState, RankWait};

/// Operations for which each rank needs all others, so that none ends before the last one has begun.
const JUDGED: [&str; 3] = ["AllReduce", "AllGather", "ReduceScatter"];
/// How many operations share one line by which a clock differs from another. A clock drifts meanwhile.
const BLOCK: usize = 32;
/// Ends of one operation that differ by this much are none of one operation: so many nanoseconds, or this part of the
/// operation.
const DISAGREE: i64 = 200_000;
const DISAGREE_PART: i64 = 10;
/// Clocks of processes on one host differ by less, in nanoseconds.
const SAME_HOST: i64 = 5_000_000;
/// A rank is late from this time on, in nanoseconds, or from so many times the disagreement of ends.
const LATE: i64 = 20_000;
const LATE_TIMES: i64 = 3;
/// A rank is named if each other rank waited for it for this part of the run on average: 1 %.
const WORTH_PART: u128 = 100;
/// A rank is named if this part of all waiting is due to it, in per cent.
const MOST_PERCENT: f64 = 50.0;
/// Several are named if so much is due to them, and to each so much, in per cent; and if there are more others.
const SEVERAL_PERCENT: f64 = 70.0;
const EACH_PERCENT: f64 = 20.0;
/// How much more than its part of the waiting a rank may have by chance, in per cent; with few operations, this number
/// divided by the root of theirs.
const CHANCE_PERCENT: f64 = 20.0;
const CHANCE_OF_FEW: f64 = 150.0;
/// Operations that follow the first one of a communicator without this pause, in nanoseconds, still wait for processes
/// that start. At most so many, and this part of all.
const PAUSE: i64 = 50_000;
const MOST_AT_START: usize = 64;
const START_PART: usize = 10;
/// How many operations back the work beside them is looked at.
const MOST_BEHIND: usize = 64;
/// Through how many communicators lateness is followed.
const MOST_PASSED_ON: usize = 4;
/// How many waits are kept one by one: the longest.
const MOST_WAITS: usize = 4_096;
/// A rank is late once if this part of the waiting for it is due to one operation, in per cent.
const ONCE_PERCENT: u128 = 66;
/// A cause is named if it is this part of the lateness, in per cent.
const CAUSE_PERCENT: u128 = 50;

/// Numbers of files are not larger, in nanoseconds and in operations: the sums below have room for these.
const MOST_NS: u64 = 1 << 54;
const MOST_NUMBER: u64 = 1 << 40;
/// How many parts before an operation are read.
const MOST_PARTS: usize = 16;

/// The communicators of all processes, each with the processes that took part.
#[derive(Default)]
pub(super) struct Collectives {
    communicators: Keyed<u64, Vec<(usize, CommunicatorStats)>>,
}

/// A row of a file with columns of one length and numbers of a plausible size; `None` if it has others.
fn checked(mut row: CommunicatorStats) -> Option<CommunicatorStats> {
    let count = row.name.len().min(row.start_ns.len()).min(row.time_ns.len()).min(row.alone_ns.len());
    row.name.truncate(count);
    for column in [&mut row.start_ns, &mut row.time_ns, &mut row.alone_ns] {
        column.truncate(count);
    }
    row.before.resize(count, Vec::new());
    for (alone, time) in row.alone_ns.iter_mut().zip(&row.time_ns) {
        *alone = (*alone).min(*time);
    }
    for before in &mut row.before {
        before.truncate(MOST_PARTS);
        before.iter_mut().for_each(|(_, ns)| *ns = (*ns).min(MOST_NS));
    }
    let is_plausible = row.start_ns.iter().chain(&row.time_ns).all(|ns| *ns <= MOST_NS);
    (is_plausible && row.earlier <= MOST_NUMBER).then_some(row)
}

/// A rank of a communicator.
struct Rank {
    /// Place of its process.
    process: usize,
    stats: CommunicatorStats,
    /// How much later than the first process it started: added to its times, to compare them with others.
    offset: i64,
}

impl Rank {
    fn earlier(&self) -> usize {
        usize::try_from(self.stats.earlier).unwrap_or(usize::MAX)
    }

    fn end_number(&self) -> usize {
        self.earlier().saturating_add(self.stats.start_ns.len())
    }

    fn name(&self, number: usize) -> &str {
        let place = self.stats.name.get(number - self.earlier()).copied().unwrap_or(u32::MAX);
        self.stats.names.get(place as usize).map_or("", |name| name)
    }

    fn time(&self, number: usize) -> i64 {
        signed(self.stats.time_ns.get(number - self.earlier()).copied().unwrap_or(0))
    }

    fn alone(&self, number: usize) -> i64 {
        signed(self.stats.alone_ns.get(number - self.earlier()).copied().unwrap_or(0))
    }

    fn own_start(&self, number: usize) -> u64 {
        self.stats.start_ns.get(number - self.earlier()).copied().unwrap_or(0)
    }

    fn start(&self, number: usize) -> i64 {
        signed(self.own_start(number)).saturating_add(self.offset)
    }

    fn end(&self, number: usize) -> i64 {
        self.start(number).saturating_add(self.time(number))
    }

    /// How long the device did what counts before an operation.
    fn before_ns(&self, number: usize, counts: impl Fn(&RangeState) -> bool) -> i64 {
        let its = self.before(number).filter(|(part, _)| counts(part));
        its.fold(0, |sum: i64, (_, ns)| sum.saturating_add(signed(ns)))
    }

    fn before(&self, number: usize) -> impl Iterator<Item = (&RangeState, u64)> {
        let its = self.stats.before.get(number - self.earlier()).into_iter().flatten();
        its.filter_map(|&(part, ns)| Some((self.stats.parts.get(part as usize)?, ns)))
    }
}

/// The rank of a process in a communicator.
fn rank_of(process: usize, communicator: u64, ranks: &Keyed<u64, Vec<Rank>>) -> Option<&Rank> {
    ranks.get(&communicator)?.iter().find(|rank| rank.process == process)
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

fn unsigned(ns: i64) -> u64 {
    u64::try_from(ns).unwrap_or(0)
}

fn median(mut all: Vec<i64>) -> i64 {
    order::by_key(&mut all, |number| *number);
    all.get(all.len() / 2).copied().unwrap_or(0)
}

/// An operation for which a rank was late.
struct LateOperation {
    communicator: u64,
    number: usize,
    /// The process of the last rank, and by how much it was late.
    last: usize,
    late_by: i64,
    /// How long the others waited together, and each of the communicator's ranks, in microseconds.
    waited: u64,
    each: Vec<u32>,
    because: Because,
    /// In the median of the others, how long work ran beside the operation, and what the device did before it.
    beside: i64,
    before: i64,
}

/// Why the last rank of an operation was late.
#[derive(Clone, Copy, PartialEq)]
enum Because {
    /// By what it did itself.
    Own,
    /// It waited in another communicator.
    Elsewhere,
    /// It was as late for the operation before, while its work went on beside that one: the place of that one in
    /// `late_operations`.
    Behind(usize),
}

/// The operations for which one rank was late.
#[derive(Default)]
struct Late {
    /// How long each other process waited, in microseconds.
    waits: Keyed<usize, u64>,
    /// Number of ranks of the largest communicator.
    ranks: usize,
    /// The operation for which the others waited longest, and how long they waited.
    longest: Option<(u64, usize)>,
    /// By communicator: number of the operation, and by how much.
    operations: Keyed<u64, Vec<(usize, i64)>>,
}

/// All that is judged so far.
#[derive(Default)]
struct Judgement {
    operations: Keyed<String, CollectiveStats>,
    late_operations: Vec<LateOperation>,
    /// By communicator, the places of its own among them.
    places: Keyed<u64, Range<usize>>,
    /// Number of the last operation that was judged, in the present communicator.
    last: Option<usize>,
    late: Keyed<usize, Late>,
    /// By communicator, the numbers of the operations that are judged.
    judged: Keyed<u64, Vec<usize>>,
    waits: Keyed<usize, u64>,
    longest: Vec<CollectiveWait>,
    count: u64,
    unmatched: u64,
}

impl Collectives {
    pub(super) fn add(&mut self, process: usize, rows: Vec<CommunicatorStats>) {
        for row in rows.into_iter().filter_map(checked) {
            self.communicators.row(row.id).push((process, row));
        }
    }

    /// What is found of all communicators that several processes share. `places`: of each process in `processes`.
    pub(super) fn compared(self, places: &[usize], processes: &[Process], elapsed: u64) -> Option<Lateness> {
        let began = processes.iter().map(|process| process.started_unix_ns).min().unwrap_or(0);
        let (mut all, mut ranks) = (Judgement::default(), Keyed::default());
        for (id, members) in self.communicators {
            if id == 0 {
                all.unmatched += members.iter().fold(0, |sum: u64, (_, row)| sum.saturating_add(row.earlier));
                continue;
            }
            let of = |(process, stats): (usize, CommunicatorStats)| {
                let process = places.get(process).copied()?;
                let offset = processes.get(process)?.started_unix_ns.saturating_sub(began);
                (offset <= MOST_NS).then(|| Rank { process, stats, offset: signed(offset) })
            };
            let mut its = members.into_iter().filter_map(of).in_vec();
            order::by_key(&mut its, |rank| rank.process);
            its.dedup_by(|one, other| processes.get(one.process) == processes.get(other.process)); // a file given twice
            if its.len() > 1 {
                all.judge(id, &its, processes);
                ranks.insert(id, its);
            }
        }
        let is_any = !ranks.is_empty();
        all.blame(&ranks);
        is_any.then(|| all.answer(&ranks, processes, elapsed))
    }
}

/// By how much the clock of a rank is ahead of that of the first one, over some operations.
struct Clock {
    /// At two moments.
    at: [i64; 2],
    ahead: [i64; 2],
    /// The median distance of ends from that.
    disagreement: i64,
}

impl Clock {
    fn of(block: &[usize], rank: &Rank, first: &Rank) -> Self {
        let ahead = |number: usize| rank.end(number).saturating_sub(first.end(number));
        let half = block.split_at(block.len() / 2);
        let parts = if half.0.len() < 4 { [block, block] } else { [half.0, half.1] };
        let at = parts.map(|part| median(part.iter().map(|&number| first.end(number)).in_vec()));
        let mut clock = Self {
            at,
            ahead: parts.map(|part| median(part.iter().map(|&number| ahead(number)).in_vec())),
            disagreement: 0,
        };
        let off = |number: usize| (ahead(number) - clock.ahead_at(first.end(number))).saturating_abs();
        clock.disagreement = median(block.iter().map(|&number| off(number)).in_vec());
        clock
    }

    fn ahead_at(&self, moment: i64) -> i64 {
        let ([from, to], [before, after]) = (self.at, self.ahead);
        let way = if to > from { (moment - from) as f64 / (to - from) as f64 } else { 0.0 };
        before.saturating_add(((after - before) as f64 * way) as i64)
    }
}

impl Judgement {
    /// Judges the operations of one communicator.
    fn judge(&mut self, id: u64, ranks: &[Rank], processes: &[Process]) {
        let [first, others @ ..] = ranks else { return };
        let from = ranks.iter().map(Rank::earlier).fold(0, usize::max);
        let to = ranks.iter().map(Rank::end_number).min().unwrap_or(0);
        let longest = ranks.iter().map(Rank::end_number).fold(0, usize::max);
        self.unmatched += longest.saturating_sub(to.max(from)) as u64;
        let mut numbers = Vec::new();
        for number in from..to {
            let name = first.name(number);
            if others.iter().any(|rank| rank.name(number) != name) {
                self.unmatched += 1;
            } else if JUDGED.contains(&name) {
                numbers.push(number);
            }
        }
        if from == 0 {
            numbers.drain(..at_start(&numbers, ranks));
        }
        let blocks = (numbers.len() / BLOCK).max(1);
        let size = numbers.len().div_ceil(blocks).max(1);
        self.last = None;
        let first_place = self.late_operations.len();
        for block in numbers.chunks(size) {
            let clocks = ranks.iter().map(|rank| Clock::of(block, rank, first)).in_vec();
            let longest = median(block.iter().map(|&number| longest_time(ranks, number)).in_vec());
            let most = DISAGREE.max(longest / DISAGREE_PART);
            let disagreement = clocks.iter().map(|clock| clock.disagreement).fold(0, i64::max);
            let host = |rank: &Rank| processes.get(rank.process).map_or("", |process| process.host.as_str());
            let is_off = |(rank, clock): (&Rank, &Clock)| {
                let is_same = !host(rank).is_empty() && host(rank) == host(first);
                is_same && clock.ahead.iter().any(|ahead| ahead.saturating_abs() > SAME_HOST)
            };
            if disagreement > most || ranks.iter().zip(&clocks).any(is_off) {
                self.unmatched += block.len() as u64;
                continue;
            }
            for &number in block {
                self.operation(id, number, ranks, &clocks, disagreement);
            }
        }
        self.judged.insert(id, numbers);
        self.places.insert(id, first_place..self.late_operations.len());
    }

    /// Judges one operation.
    fn operation(&mut self, id: u64, number: usize, ranks: &[Rank], clocks: &[Clock], disagreement: i64) {
        let Some(first) = ranks.first() else { return };
        let moment = first.end(number);
        let ahead = |at: usize| clocks.get(at).map_or(0, |clock| clock.ahead_at(moment));
        let starts = ranks.iter().enumerate().map(|(at, rank)| rank.start(number) - ahead(at)).in_vec();
        let ends = ranks.iter().enumerate().map(|(at, rank)| rank.end(number) - ahead(at));
        let (last, late_rank) = starts.iter().zip(0..).fold((i64::MIN, 0), |most, (&start, at)| most.max((start, at)));
        let least_late = LATE.max(LATE_TIMES * disagreement);
        if ends.min().is_none_or(|end| end.saturating_add(least_late) < last) {
            self.unmatched += 1; // one rank ended before another one began
            return;
        }
        self.count += 1;
        let (mut waited, mut each) = (0_u64, Vec::new());
        let row = self.operations.row(first.name(number).to_owned());
        row.operations += 1;
        for (rank, &start) in ranks.iter().zip(&starts) {
            let waiting = (last - start).clamp(0, rank.time(number));
            // What runs beside it was launched before, so it runs first.
            let idle = unsigned(waiting - (rank.time(number) - rank.alone(number)));
            row.time_ns = row.time_ns.saturating_add(unsigned(rank.time(number)));
            row.waiting_ns = row.waiting_ns.saturating_add(unsigned(waiting));
            row.idle_ns = row.idle_ns.saturating_add(idle);
            let wait = self.waits.row(rank.process);
            *wait = wait.saturating_add(idle);
            waited = waited.saturating_add(idle);
            each.push(u32::try_from(idle / 1_000).unwrap_or(u32::MAX));
        }
        let others = starts.iter().enumerate().filter(|(at, _)| *at != late_rank).map(|(_, &start)| start).in_vec();
        let late_by = last - median(others);
        if late_by >= least_late
            && let Some(rank) = ranks.get(late_rank)
        {
            let others = || ranks.iter().filter(|other| other.process != rank.process);
            self.late_operations.push(LateOperation {
                communicator: id,
                number,
                last: rank.process,
                late_by,
                waited,
                each,
                because: self.because(id, number, rank, ranks, late_by),
                beside: median(others().map(|rank| rank.time(number) - rank.alone(number)).in_vec()),
                before: median(others().map(|rank| rank.before_ns(number, |_| true)).in_vec()),
            });
            let (of, late_ns) = (u32::try_from(ranks.len()).unwrap_or(u32::MAX), unsigned(late_by));
            let place = |rank: &Rank| u32::try_from(rank.process).unwrap_or(u32::MAX);
            let (late, late_start_ns) = (place(rank), rank.own_start(number));
            for (rank, &start) in ranks.iter().zip(&starts) {
                let wait_ns = unsigned((last - start).clamp(0, rank.time(number)));
                let (process, start_ns) = (place(rank), rank.own_start(number));
                if process != late && wait_ns > 0 {
                    let wait = CollectiveWait { process, start_ns, wait_ns, late, late_start_ns, late_ns, ranks: of };
                    self.longest.push(wait);
                }
            }
            if self.longest.len() > 2 * MOST_WAITS {
                self.keep_longest();
            }
        }
        self.last = Some(number);
    }

    /// Why this rank was late for an operation.
    fn because(&self, id: u64, number: usize, own: &Rank, ranks: &[Rank], late_by: i64) -> Because {
        let elsewhere = |part: &RangeState| part.state == COLLECTIVES;
        if more_than_others(own, ranks, number, elsewhere) * 2 >= late_by {
            return Because::Elsewhere;
        }
        let last = self.late_operations.len().wrapping_sub(1);
        let is_before = |other: &LateOperation| (other.communicator, Some(other.number)) == (id, self.last);
        if !self.late_operations.get(last).is_some_and(is_before) {
            return Because::Own;
        }
        // Beside the operations before, for which a rank was as late, others did what this rank did only later.
        let mut more = more_than_others(own, ranks, number, |_| true);
        let (mut beside, mut most, mut place) = (0_i64, 0, Some(last));
        for _ in 0..MOST_BEHIND {
            let Some(before) = place.and_then(|place| self.late_operations.get(place)) else { break };
            beside += before.beside;
            most = most.max(before.late_by);
            place = None;
            if let Because::Behind(earlier) = before.because {
                more += own.before_ns(before.number, |_| true) - before.before;
                place = Some(earlier);
            }
        }
        let is_behind = beside * 2 >= late_by && most * 2 >= late_by && more * 2 < late_by;
        if is_behind { Because::Behind(last) } else { Because::Own }
    }

    /// Charges what was waited in each operation to the rank that was the last; where that one was late because of an
    /// earlier operation, to the last one there.
    fn blame(&mut self, ranks: &Keyed<u64, Vec<Rank>>) {
        let mut began: Keyed<usize, Vec<(u64, usize)>> = Keyed::default();
        for (at, own) in self.late_operations.iter().enumerate() {
            let (mut cause, mut passed_on) = (own, 0);
            loop {
                let before = match cause.because {
                    Because::Behind(before) => self.late_operations.get(before),
                    Because::Elsewhere if passed_on < MOST_PASSED_ON => {
                        let began = began.row_or(cause.last, || self.taken_part(cause.last, ranks));
                        self.before(cause, ranks, began).filter(|before| before.last != cause.last)
                    }
                    _ => None,
                };
                let Some(before) = before else { break };
                passed_on += usize::from(cause.because == Because::Elsewhere);
                cause = before;
            }
            let members = ranks.get(&own.communicator).map_or(&[][..], |ranks| ranks);
            let late = self.late.row(cause.last);
            for (rank, &us) in members.iter().zip(&own.each) {
                *late.waits.row(rank.process) += u64::from(us);
            }
            late.ranks = late.ranks.max(members.len());
            if late.longest.is_none_or(|(waited, _)| own.waited > waited) {
                late.longest = Some((own.waited, at));
            }
            if own.because == Because::Own {
                late.operations.row(own.communicator).push((own.number, own.late_by));
            }
        }
    }

    /// The operations in which a process took part and for which any rank was late: when it began each, and their
    /// places.
    fn taken_part(&self, process: usize, ranks: &Keyed<u64, Vec<Rank>>) -> Vec<(u64, usize)> {
        let mut all = Vec::new();
        for (id, places) in self.places.iter() {
            let Some(own) = rank_of(process, *id, ranks) else { continue };
            for place in places.clone() {
                all.extend(self.late_operations.get(place).map(|late| (own.own_start(late.number), place)));
            }
        }
        order::by_key(&mut all, |began| *began);
        all
    }

    /// The last operation of another communicator before this one in which the rank that was late took part, if it
    /// waited there since its operation before this one, and for a rank that was as late.
    fn before(
        &self,
        late: &LateOperation,
        ranks: &Keyed<u64, Vec<Rank>>,
        began: &[(u64, usize)],
    ) -> Option<&LateOperation> {
        let own = rank_of(late.last, late.communicator, ranks)?;
        let earlier = began.get(..began.partition_point(|(at, _)| *at < own.own_start(late.number)))?;
        let mut others = earlier.iter().rev().filter_map(|(_, place)| self.late_operations.get(*place));
        let other = others.find(|other| other.communicator != late.communicator)?;
        let since = late.number.checked_sub(1).filter(|before| *before >= own.earlier());
        let since = since.map_or(0, |before| own.own_start(before));
        let its = rank_of(late.last, other.communicator, ranks)?;
        let ended = its.own_start(other.number).saturating_add(unsigned(its.time(other.number)));
        (ended > since && other.late_by * 2 >= late.late_by).then_some(other)
    }

    fn keep_longest(&mut self) {
        order::by_most(&mut self.longest, |wait| wait.wait_ns);
        self.longest.truncate(MOST_WAITS);
    }

    fn answer(mut self, ranks: &Keyed<u64, Vec<Rank>>, processes: &[Process], elapsed: u64) -> Lateness {
        let label = |process: usize| processes.get(process).map(Process::label).unwrap_or_default();
        let mut answer = Lateness { unmatched: self.unmatched, ..Lateness::default() };
        for (name, row) in std::mem::take(&mut self.operations) {
            answer.operations.push(CollectiveStats { name, ..row });
        }
        order::by_most(&mut answer.operations, |row| row.time_ns);
        self.keep_longest();
        answer.waits = std::mem::take(&mut self.longest);
        answer.ranks = self.waits.iter().map(|(&rank, &idle_ns)| RankWait { rank: label(rank), idle_ns }).in_vec();
        answer.late = self.named(ranks, elapsed, &label);
        answer
    }

    /// The ranks to which most of the waiting is due, those with most of it first. Where ranks are late by chance, each
    /// has about the same part of it.
    fn named(&self, ranks: &Keyed<u64, Vec<Rank>>, elapsed: u64, label: &dyn Fn(usize) -> String) -> Vec<LateRank> {
        let all = self.waits.values().fold(0, |sum: u64, ns| sum.saturating_add(*ns));
        let percent = |ns: u64| 100.0 * ns as f64 / all.max(1) as f64;
        let mut late = self.late.iter().map(|(&process, late)| (process, late)).in_vec();
        order::by_most(&mut late, |(_, late)| late.waited_ns());
        let mut rows = Vec::new();
        for (process, late) in late {
            if percent(late.waited_ns()) < EACH_PERCENT {
                break;
            }
            let row = late.row(process, label(process), ranks, self);
            // One that waited itself, for others in another communicator, is none.
            let is_own = |row: &LateRank| row.cause.as_ref().is_none_or(|cause| cause.state != COLLECTIVES);
            rows.extend(row.filter(is_own).map(|row| (late, row)));
        }
        let Some((most, _)) = rows.first() else { return Vec::new() };
        let few = CHANCE_OF_FEW / (self.count.max(1) as f64).sqrt();
        // The first so many have more than that together by chance.
        let by_chance = |count: usize| 100.0 * count as f64 / most.ranks.max(1) as f64 + CHANCE_PERCENT.max(few);
        let sum = rows.iter().fold(0, |sum: u64, (late, _)| sum.saturating_add(late.waited_ns()));
        let is_several = rows.len() * 2 < most.ranks && percent(sum) >= SEVERAL_PERCENT.max(by_chance(rows.len()));
        if !is_several {
            rows.truncate(usize::from(percent(most.waited_ns()) >= MOST_PERCENT.max(by_chance(1))));
        }
        let is_worth = |row: &LateRank| u128::from(row.each_ns) * WORTH_PART >= u128::from(elapsed) && elapsed > 0;
        rows.into_iter().map(|(_, row)| row).filter(is_worth).in_vec()
    }
}

/// How many operations at the start wait for processes that start: the first, and those that follow it without a pause
/// on any rank.
fn at_start(numbers: &[usize], ranks: &[Rank]) -> usize {
    let follows = |pair: &[usize]| {
        let [before, number] = *pair else { return false };
        ranks.iter().any(|rank| rank.start(number).saturating_sub(rank.end(before)) < PAUSE)
    };
    let most = MOST_AT_START.min(numbers.len() / START_PART);
    let more = numbers.windows(2).take(most).take_while(|pair| follows(pair)).count();
    numbers.len().min(1 + more)
}

/// How much longer than those of the others the device of this rank took for some parts before an operation.
fn more_than_others(own: &Rank, ranks: &[Rank], number: usize, counts: impl Fn(&RangeState) -> bool) -> i64 {
    let others = ranks.iter().filter(|rank| rank.process != own.process);
    own.before_ns(number, &counts) - median(others.map(|rank| rank.before_ns(number, &counts)).in_vec())
}

impl Late {
    fn waited_ns(&self) -> u64 {
        self.waits.values().fold(0, |sum: u64, us| sum.saturating_add(us.saturating_mul(1_000)))
    }

    /// The row of a rank, of the communicator in which it was latest; `None` if it was never late by itself.
    fn row(&self, process: usize, rank: String, ranks: &Keyed<u64, Vec<Rank>>, all: &Judgement) -> Option<LateRank> {
        let of = self.operations.iter().filter_map(|(id, operations)| Some((*id, ranks.get(id)?, operations)));
        let sum = |operations: &[(usize, i64)]| operations.iter().fold(0, |sum: i64, (_, by)| sum.saturating_add(*by));
        let (id, members, operations) = of.largest_by(|(_, _, operations)| sum(operations))?;
        let own = members.iter().find(|rank| rank.process == process)?;
        let mut row = LateRank { rank, ..LateRank::default() };
        let mut waits = self.waits.iter().map(|(_, us)| us.saturating_mul(1_000)).in_vec();
        let mut operations = operations.clone();
        // A pause is no habit.
        let once = self.longest.and_then(|(waited, at)| Some((waited, all.late_operations.get(at)?)));
        let once = once.filter(|(waited, late)| {
            late.because == Because::Own && u128::from(*waited) * 100 >= u128::from(self.waited_ns()) * ONCE_PERCENT
        });
        if let Some((_, late)) = once
            && late.communicator == id
        {
            operations.retain(|(number, _)| *number == late.number);
            waits = late.each.iter().map(|us| u64::from(*us) * 1_000).in_vec();
        }
        row.waited_ns = waits.iter().fold(0, |sum: u64, ns| sum.saturating_add(*ns));
        let longest = waits.iter().copied().largest();
        waits.retain(|ns| *ns > 0 && *ns >= longest / 2);
        row.others = waits.len() as u64;
        row.each_ns = waits.iter().fold(0, |sum: u64, ns| sum.saturating_add(*ns)) / row.others.max(1);
        let name = operations
            .first()
            .map(|(number, _)| own.name(*number))
            .filter(|name| operations.iter().all(|(number, _)| own.name(*number) == *name));
        row.name = name.unwrap_or_default().to_owned();
        row.operations = operations.len() as u64;
        let is_of = |number: &&usize| name.is_none_or(|name| own.name(**number) == name);
        row.of = all.judged.get(&id).map_or(0, |numbers| numbers.iter().filter(is_of).count() as u64);
        row.late_ns = unsigned(median(operations.iter().map(|(_, by)| *by).in_vec()));
        // An operation right behind another one is late because that one was.
        let lateness = unsigned(sum(&operations)).min(row.each_ns);
        if let Some((part, ns)) = cause(own, members, &operations, lateness) {
            (row.cause, row.cause_ns) = (Some(part), ns);
        }
        Some(row)
    }
}

/// What the device of a rank did for longer than those of the others before operations for which it was late by
/// `lateness` in all: in one range; else in any.
fn cause(own: &Rank, members: &[Rank], operations: &[(usize, i64)], lateness: u64) -> Option<(RangeState, u64)> {
    let whole = |part: &RangeState| part.clone();
    let of_any_range = |part: &RangeState| RangeState { range: None, state: part.state.clone() };
    [whole as fn(&RangeState) -> RangeState, of_any_range].into_iter().find_map(|key| {
        let sums = |rank: &Rank| {
            let mut sums: Keyed<RangeState, u64> = Keyed::default();
            for (part, ns) in operations.iter().flat_map(|(number, _)| rank.before(*number)) {
                *sums.row(key(part)) += ns;
            }
            sums
        };
        let others = members.iter().filter(|rank| rank.process != own.process).map(sums).in_vec();
        let mut most: Option<(RangeState, u64)> = None;
        for (part, ns) in sums(own) {
            let usual = |sums: &Keyed<RangeState, u64>| {
                // What is not listed may be in the rest.
                let rest = || part.range.as_ref().and_then(|_| sums.get(&of_any_range(&part)));
                signed(sums.get(&part).or_else(rest).copied().unwrap_or(0))
            };
            let more = ns.saturating_sub(unsigned(median(others.iter().map(usual).in_vec())));
            if most.as_ref().is_none_or(|(_, most)| more > *most) {
                most = Some((part, more));
            }
        }
        most.filter(|(_, ns)| u128::from(*ns) * 100 >= u128::from(lateness) * CAUSE_PERCENT && lateness > 0)
    })
}

/// How long the operation took on the rank on which it took longest.
fn longest_time(ranks: &[Rank], number: usize) -> i64 {
    ranks.iter().map(|rank| rank.time(number)).fold(0, i64::max)
}

#[cfg(test)]
mod tests;
