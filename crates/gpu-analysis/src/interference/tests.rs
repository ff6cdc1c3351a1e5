//! Schedules at random with a known answer. The generator runs streams one command after the other, looks at each
//! moment by itself, and shares no code with the fold.

mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;

use range_model::timeline::{EventRecord, Wait};

use super::*;
use crate::tests::Numbers;

/// What a thread asks of a stream.
#[derive(Clone)]
enum Command {
    /// A kernel of this duration, for a request, in a span with this path.
    Launch {
        request: usize,
        path: Vec<String>,
        ns: u64,
        late: u64,
    },
    Record {
        event: u64,
    },
    Wait {
        event: u64,
    },
}

#[derive(Clone)]
struct Asked {
    at: u64,
    thread: u32,
    stream: u32,
    command: Command,
}

/// A request; the first one stands for none.
#[derive(Clone, Default)]
struct Request {
    is_future: bool,
    start: u64,
    end: u64,
}

/// A kernel that ran.
#[derive(Clone)]
struct Ran {
    launched: u64,
    start: u64,
    end: u64,
    thread: u32,
    stream: u32,
    request: usize,
    path: Vec<String>,
    /// All that its stream does before it: earlier kernels there, and those behind events.
    earlier: Vec<usize>,
    behind_events: BTreeSet<usize>,
}

/// A program: its commands in order of time, and what the device made of them.
#[derive(Default)]
struct Run {
    requests: Vec<Request>,
    asked: Vec<Asked>,
    ran: Vec<Ran>,
    is_numbered: bool,
    devices: u32,
}

/// The one of these that runs at a moment, and began first.
fn first<'a>(of: &[&'a Ran], at: u64) -> Option<&'a Ran> {
    of.iter().copied().filter(|ran| ran.start <= at && at < ran.end).min_by_key(|ran| ran.start)
}

/// Operations, time and longest; and the operations and the time that are only possible.
type Figures = [u64; 5];
type Truth = BTreeMap<(Vec<String>, Vec<String>), Figures>;

impl Run {
    /// Runs the commands. A stream is free when all that was asked of it is done.
    fn simulate(&mut self) {
        self.asked.sort_by_key(|asked| asked.at);
        let mut free: BTreeMap<u32, u64> = BTreeMap::new();
        let mut in_stream: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        let mut told: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
        let mut events: BTreeMap<u64, (u64, Vec<usize>)> = BTreeMap::new();
        for Asked { at, thread, stream, command } in self.asked.clone() {
            let is_free = free.get(&stream).copied().unwrap_or(0);
            match command {
                Command::Record { event } => {
                    let before = in_stream.get(&stream).cloned().unwrap_or_default();
                    events.insert(event, (is_free, before));
                }
                Command::Wait { event } => {
                    let Some((done, before)) = events.get(&event) else { continue };
                    free.insert(stream, is_free.max(*done));
                    told.entry(stream).or_default().extend(before);
                }
                Command::Launch { request, path, ns, late } => {
                    let start = is_free.max(at + 2_000) + late;
                    let earlier = in_stream.entry(stream).or_default();
                    let ran = Ran {
                        launched: at,
                        start,
                        end: start + ns,
                        thread,
                        stream,
                        request,
                        path,
                        earlier: earlier.clone(),
                        behind_events: told.get(&stream).cloned().unwrap_or_default(),
                    };
                    earlier.push(self.ran.len());
                    free.insert(stream, ran.end);
                    self.ran.push(ran);
                }
            }
        }
    }

    fn device(&self, stream: u32) -> u32 {
        stream % self.devices
    }

    /// Whether two kernels are of different requests, and no steps of one thread.
    fn are_apart(&self, it: &Ran, other: &Ran) -> bool {
        if it.request == 0 || other.request == 0 {
            return false;
        }
        if !self.is_numbered {
            return it.thread != other.thread;
        }
        it.request != other.request && (it.thread != other.thread || self.requests[other.request].end > it.launched)
    }

    /// Who waited behind whom, from a moment on.
    fn truth(&self, window: u64) -> Truth {
        let mut truth = Truth::new();
        for it in self.ran.iter().filter(|it| it.start >= window && it.request != 0) {
            let from = it.launched.max(window);
            let of = |indices: &mut dyn Iterator<Item = usize>| -> Vec<&Ran> {
                indices.map(|index| &self.ran[index]).filter(|ran| ran.end > from).collect()
            };
            let (earlier, behind) = (of(&mut it.earlier.iter().copied()), of(&mut it.behind_events.iter().copied()));
            let beside: Vec<&Ran> = self
                .ran
                .iter()
                .filter(|ran| ran.end > from && ran.start < it.start && ran.stream != it.stream)
                .filter(|ran| self.device(ran.stream) == self.device(it.stream) && self.are_apart(it, ran))
                .collect();
            let mut moments: Vec<u64> =
                earlier.iter().chain(&behind).chain(&beside).flat_map(|r| [r.start, r.end]).collect();
            moments.extend([from, it.start]);
            moments.retain(|at| (from..=it.start).contains(at));
            moments.sort_unstable();
            moments.dedup();
            let mut own: BTreeMap<&[String], u64> = BTreeMap::new();
            let mut possible: BTreeMap<&[String], u64> = BTreeMap::new();
            let needed = earlier.iter().chain(&behind).filter(|ran| !self.are_apart(it, ran));
            let ready = needed.map(|ran| ran.end).max().unwrap_or(0);
            // When it was last not ready, or something ran that it waits for.
            let mut free = from;
            for pair in moments.windows(2) {
                let (at, until) = (pair[0], pair[1]);
                let by = first(&earlier, at).or_else(|| first(&behind, at));
                if at < ready || by.is_some() {
                    (free, possible) = (until, BTreeMap::new());
                }
                if let Some(by) = by.filter(|_| at >= ready) {
                    *own.entry(&by.path).or_default() += until - at;
                } else if let Some(by) = first(&beside, at).filter(|_| at >= ready) {
                    *possible.entry(&by.path).or_default() += until - at;
                }
            }
            for (by, ns) in own {
                let sums = truth.entry((it.path.clone(), by.to_vec())).or_default();
                *sums = [sums[0] + 1, sums[1] + ns, sums[2].max(ns), sums[3], sums[4]];
            }
            for (by, ns) in possible.into_iter().filter(|_| it.start - free > 50_000) {
                let sums = truth.entry((it.path.clone(), by.to_vec())).or_default();
                (sums[3], sums[4]) = (sums[3] + 1, sums[4] + ns);
            }
        }
        truth
    }

    /// Its records, each with the earliest time of its delivery.
    fn records(&self) -> Vec<(u64, Record)> {
        let mut records = Vec::new();
        let number = |request: usize| if self.is_numbered { request as u64 } else { 0 };
        let mut launches = self.requests.len() as u64;
        let (mut correlation, mut ran) = (0, 0..self.ran.len());
        for asked in &self.asked {
            correlation += 1;
            let (at, launch) = (asked.at, Some((asked.thread, asked.at)));
            match asked.command {
                Command::Launch { request, ref path, .. } => {
                    launches += 1;
                    let (start, end, thread, parent) = (at - 500, at + 500, asked.thread, number(request));
                    let is_nested = path.len() > 1;
                    let call = if is_nested { number(launches as usize) } else { parent };
                    let ran = ran.next().unwrap();
                    records.push((self.ran[ran].end, Record::Operation(ran, call, correlation)));
                    if is_nested && request != 0 {
                        let range =
                            Range { thread, start, end, name: "launch", span: 1, call, parent, ..Range::default() };
                        records.push((end, Record::Range(range)));
                    }
                    if self.requests[request].is_future {
                        let poll = Range {
                            thread,
                            start: start - 100,
                            end: end + 100,
                            span: 1,
                            call: parent,
                            ..Range::default()
                        };
                        records.push((end + 100, Record::Range(poll)));
                    }
                }
                Command::Record { event: record } => {
                    let (context, stream, event) = (1, asked.stream, 1);
                    let event = EventRecord { at: 0, correlation, context, stream, event, record, graph_node: 0 };
                    records.push((at, Record::Detail(Detail::Event(event), launch)));
                }
                Command::Wait { event: record } => {
                    let (kind, context, stream) = (WaitKind::StreamForEvent, 1, Some(asked.stream));
                    let wait = Wait { kind, start: at, end: at, correlation, context, stream, event: Some(1), record };
                    records.push((at, Record::Detail(Detail::Wait(wait), launch)));
                }
            }
        }
        for (request, &Request { is_future, start, end }) in self.requests.iter().enumerate().skip(1) {
            let call = number(request);
            let record = match is_future {
                true => Record::Call(Call { call, start, end, name: "request", ..Call::default() }),
                false => Record::Range(Range { start, end, span: 1, call, name: "request", ..Range::default() }),
            };
            records.push((end, record));
        }
        records
    }

    fn give(&self, record: &Record, fold: &mut Interference) {
        match record {
            Record::Range(range) => fold.range(range),
            Record::Call(call) => fold.call(call),
            &Record::Detail(detail, launch) => fold.detail(&PlacedDetail { detail, launch, span: None, call: 0 }),
            &Record::Operation(ran, call, correlation) => self.run(&self.ran[ran], call, correlation, fold),
        }
    }

    fn run(&self, ran: &Ran, call: u64, correlation: u32, fold: &mut Interference) {
        fold.operation(&Operation {
            start: ran.start,
            end: ran.end,
            device: self.device(ran.stream),
            context: 1,
            stream: ran.stream,
            correlation,
            launch: Some((ran.thread, ran.launched)),
            span: ran.path.last().map(|name| &**name),
            path: &ran.path,
            call,
            ..Operation::default()
        });
    }
}

#[derive(Clone, Debug)]
enum Record {
    Range(Range<'static>),
    Call(Call<'static>),
    Detail(Detail, Option<(u32, u64)>),
    /// A kernel, by its place.
    Operation(usize, u64, u32),
}

/// Requests of three kinds on a few threads and streams: some are futures, which may go on while others run on their
/// thread; some launch on two streams with an event between; some wait for events of others.
fn program(seed: u64, is_numbered: bool) -> Run {
    let mut numbers = Numbers(seed);
    let (threads, streams) = (1 + numbers.below(4), 1 + numbers.below(4));
    let mut run = Run { is_numbered, devices: 1 + numbers.below(2) as u32, ..Run::default() };
    run.requests.push(Request::default());
    let (mut now, mut events) = (1_000_000, 0);
    let mut free = vec![0; threads as usize + 1];
    let mut futures = Vec::new();
    for _ in 0..120 {
        now += numbers.us(1, 1_200);
        let request = run.requests.len();
        let kind = ["hog", "small", "batch"][numbers.below(3) as usize];
        let is_future = is_numbered && numbers.one_in(2);
        let home = 1 + numbers.below(threads) as usize;
        let start = if is_future { now } else { now.max(free[home]) };
        let mut at = start + 2_000;
        let has_span = !numbers.one_in(12);
        for _ in 0..1 + numbers.below(3) {
            at += numbers.us(3, 200);
            let thread = if is_future { 1 + numbers.below(threads) as u32 } else { home as u32 };
            let stream = 1 + numbers.below(streams) as u32;
            let mut path = vec![kind.to_owned()];
            path.extend((!numbers.one_in(3)).then(|| "launch".to_owned()));
            let (request, path) = if has_span { (request, path) } else { (0, Vec::new()) };
            let late = if numbers.one_in(10) { numbers.us(10, 300) } else { 0 };
            let ns = if kind == "hog" { numbers.us(50, 900) } else { numbers.us(2, 100) };
            let launch = Command::Launch { request, path, ns, late };
            run.asked.push(Asked { at, thread, stream, command: launch.clone() });
            if numbers.one_in(3) {
                events += 1;
                run.asked.push(Asked { at: at + 1_100, thread, stream, command: Command::Record { event: events } });
                let (other, event) = (1 + numbers.below(streams) as u32, 1 + numbers.below(events));
                // Its own event, or another one: perhaps recorded later.
                let event = if numbers.one_in(2) { events } else { event };
                run.asked.push(Asked { at: at + 1_200, thread, stream: other, command: Command::Wait { event } });
                at += numbers.us(3, 50);
                run.asked.push(Asked { at, thread, stream: other, command: launch });
            }
        }
        let end = at + numbers.us(2, 20);
        free[home] = if is_future { free[home] } else { end };
        futures.extend((is_future && !numbers.one_in(4)).then_some(request));
        run.requests.push(Request { is_future, start, end });
    }
    // No two commands at one time.
    let mut taken = BTreeSet::new();
    for asked in &mut run.asked {
        while !taken.insert(asked.at) {
            asked.at += 1;
        }
    }
    run.simulate();
    // Most futures wait for their work.
    for request in futures {
        let ends = run.ran.iter().filter(|ran| ran.request == request).map(|ran| ran.end + 5_000);
        run.requests[request].end = ends.max().unwrap_or(0).max(run.requests[request].end);
    }
    run
}

/// Records in order of their ends, each up to a millisecond later.
fn in_order(run: &Run, seed: u64) -> Vec<(u64, Record)> {
    let mut numbers = Numbers(!seed);
    let mut records = run.records();
    records.iter_mut().for_each(|(at, _)| *at += numbers.us(0, 1_000));
    records.sort_by_key(|(at, _)| *at);
    records
}

fn answer(mut fold: Interference) -> (Truth, Vec<Note>) {
    let mut summary = Summary::default();
    fold.finish(&mut summary);
    let figures = |row: &InterferenceStats| {
        [row.operations, row.time_ns, row.longest_ns, row.possible_operations, row.possible_ns]
    };
    let rows = summary.interference.iter().map(|row| ((row.waiter.clone(), row.by.clone()), figures(row)));
    (rows.collect(), summary.notes)
}

fn check(found: &Truth, truth: &Truth, seed: u64) {
    let pairs: BTreeSet<_> = found.keys().chain(truth.keys()).collect();
    let of = |pair| (pair, found.get(pair), truth.get(pair));
    let differ: Vec<_> = pairs.into_iter().map(of).filter(|(_, found, truth)| found != truth).collect();
    assert!(differ.is_empty(), "seed {seed}: {differ:?}");
}

#[test]
fn schedules_at_random_are_accounted_to_the_nanosecond() {
    let mut all = [0; 5];
    for seed in 0..100 {
        for is_numbered in [true, false] {
            let run = program(seed, is_numbered);
            let truth = run.truth(0);
            for batch in [usize::MAX, 200] {
                let limits = Limits { batch, lateness: 20_000_000, ..Limits::default() };
                let mut fold = Interference { limits, ..Interference::default() };
                in_order(&run, seed).iter().for_each(|(_, record)| run.give(record, &mut fold));
                let (found, notes) = answer(fold);
                check(&found, &truth, seed);
                assert_eq!(notes, []);
            }
            truth.values().for_each(|sums| all.iter_mut().zip(sums).for_each(|(all, more)| *all += more));
        }
    }
    assert!(all.iter().all(|sum| *sum > 500), "{all:?}");
}

#[test]
fn a_window_begins_anew() {
    for seed in 0..50 {
        let run = program(seed, true);
        let records = in_order(&run, seed);
        let (before, after) = records.split_at(records.len() / 2);
        let window = before.last().unwrap().0;
        let mut fold = Interference::default();
        before.iter().for_each(|(_, record)| run.give(record, &mut fold));
        fold.restart(window);
        after.iter().for_each(|(_, record)| run.give(record, &mut fold));
        let (found, notes) = answer(fold);
        check(&found, &run.truth(window), seed);
        assert_eq!(notes, []);
    }
}

/// What waits for an event is left out, and nothing else is said of the rest.
#[test]
fn without_events_nothing_is_invented() {
    let mut all = [0; 2];
    for seed in 0..30 {
        let run = program(seed, true);
        let truth = run.truth(0);
        let mut fold = Interference::without_events();
        assert!(!fold.details().has(Details::EVENTS));
        let records = in_order(&run, seed).into_iter().map(|(_, record)| record);
        let is_recorded = |record: &Record| !matches!(record, Record::Detail(Detail::Event(_), _));
        records.filter(is_recorded).for_each(|record| run.give(&record, &mut fold));
        let (found, notes) = answer(fold);
        let of = |of: &Truth| of.values().map(|sums| sums[1]).sum::<u64>();
        assert!(found.iter().all(|(pair, sums)| sums[1] <= truth[pair][1]) && notes.is_empty(), "seed {seed}");
        all = [all[0] + of(&found), all[1] + of(&truth)];
    }
    assert!(all[0] * 10 > all[1] && all[0] < all[1], "{all:?}");
}

/// Memory is bounded. What does not fit is counted, and nothing is invented.
#[test]
fn what_has_no_room_is_counted() {
    let late = discriminant(&Note::InterferenceLate { operations: 0 });
    for (limits, expected) in [
        (
            Limits { batch: 50, lateness: 1_000_000, kept: 5, ..Limits::default() },
            discriminant(&Note::InterferenceCut { operations: 0 }),
        ),
        (Limits { most: 40, ..Limits::default() }, late),
        (Limits { pairs: 2, ..Limits::default() }, discriminant(&Note::InterferenceOverLimit { operations: 0 })),
    ] {
        let mut has_note = false;
        for seed in 0..20 {
            let run = program(seed, false);
            let truth = run.truth(0);
            let mut fold = Interference { limits, ..Interference::default() };
            in_order(&run, seed).iter().for_each(|(_, record)| run.give(record, &mut fold));
            let (found, notes) = answer(fold);
            has_note |= notes.iter().any(|note| discriminant(note) == expected);
            let is_true = |(pair, sums): (&_, &Figures)| sums[1] <= truth.get(pair).map_or(0, |sums| sums[1]);
            // Without the records that are late, others look ready.
            assert!(expected == late || found.iter().all(is_true), "seed {seed}: {limits:?}");
        }
        assert!(has_note, "{limits:?}");
    }
}
