//! Programs at random with a known answer: the generator looks at each moment by itself, and shares no code with the
//! fold.

use range_model::Times;
use range_model::summary::SlowestCalls;

use super::*;
use crate::tests::Numbers;

/// What a call does: its life, polls with the thread of each, and what was launched in it. All times are moments.
#[derive(Debug, Default)]
struct Made {
    parent: usize,
    life: (u64, u64),
    polls: Vec<(u64, u64)>,
    api: Vec<(u64, u64)>,
    operations: Vec<(u64, u64)>,
}

/// Requests, one after the other, each with a poll or several on a thread of its own; some await a child call.
#[derive(Debug, Default)]
struct Program(Vec<Made>);

impl Program {
    fn make(seed: u64) -> Self {
        let numbers = &mut Numbers(seed);
        let mut program = Self::default();
        for request in 0..1 + numbers.below(6) {
            let begun = 1 + request * 40 + numbers.below(100);
            let at = program.call(numbers, usize::MAX, begun);
            if numbers.below(2) == 0 {
                let child = begun + numbers.below(30);
                program.call(numbers, at, child);
            }
            // A child is over before its parent is polled for the last time.
            let ends = program.0[at + 1..].iter().map(|child| child.life.1).max();
            if let Some(end) = ends {
                let last = end.max(program.0[at].life.1) + 1 + numbers.below(20);
                program.0[at].polls.push((last, last + 2));
                program.0[at].life.1 = last + 2 + numbers.below(5);
            }
        }
        program
    }

    /// A call of several polls, with API calls in them, and operations that they launch.
    fn call(&mut self, numbers: &mut Numbers, parent: usize, begun: u64) -> usize {
        let mut made = Made { parent, ..Made::default() };
        let mut at = begun + numbers.below(10);
        for _ in 0..2 + numbers.below(3) {
            let end = at + 1 + numbers.below(12);
            made.polls.push((at, end));
            if numbers.below(2) == 0 && end - at > 2 {
                let call = at + numbers.below(end - at - 1);
                let over = call + 1 + numbers.below(end - call);
                made.api.push((call, over));
                let start = over + numbers.below(10);
                made.operations.push((call, start + 1 + numbers.below(30)));
            }
            at = end + 1 + numbers.below(30);
        }
        made.life = (begun, made.polls[made.polls.len() - 1].1 + numbers.below(9));
        self.0.push(made);
        self.0.len() - 1
    }

    /// In CUDA, and waiting for GPU work, by looking at each moment.
    fn truth(&self, call: usize) -> (u64, u64) {
        let made = &self.0[call];
        let within = |all: &[(u64, u64)], at: u64| all.iter().any(|part| part.0 <= at && at < part.1);
        let last_poll = made.polls.iter().map(|poll| poll.1).max().unwrap_or(0);
        let family = || (0..self.0.len()).filter(|&other| other == call || self.0[other].parent == call);
        let children = || (0..self.0.len()).filter(|&other| self.0[other].parent == call);
        let (mut in_cuda, mut on_gpu) = (0, 0);
        for at in made.life.0..made.life.1 {
            let polled = within(&made.polls, at);
            in_cuda += u64::from(polled && within(&made.api, at));
            let alive = |child: usize| {
                let last = self.0[child].polls.iter().map(|poll| poll.1).max().unwrap_or(0);
                (self.0[child].life.0..last).contains(&at)
            };
            let works = family().any(|one| within(&self.0[one].operations, at));
            on_gpu += u64::from(!polled && at < last_poll && works && !children().any(alive));
        }
        (in_cuda, on_gpu)
    }

    /// Gives all records to a fold, in the order of their ends, those of the GPU later.
    fn give(&self, fold: &mut States) {
        let mut items: Vec<(u64, Item)> = Vec::new();
        for (call, made) in self.0.iter().enumerate() {
            let number = call as u64 + 1;
            let (thread, parent) = (number as u32, if made.parent == usize::MAX { 0 } else { made.parent as u64 + 1 });
            for &(start, end) in &made.polls {
                items.push((end, Item::Range { thread, call: number, parent, start, end }));
            }
            items.extend(made.api.iter().map(|&(start, end)| (end + 500, Item::Api { thread, start, end })));
            let operations = made.operations.iter();
            items.extend(
                operations.map(|&(at, end)| (end + 700, Item::Operation { call: number, at, start: end - 1, end })),
            );
            items.push((made.life.1, Item::Call { call: number, parent, start: made.life.0, end: made.life.1 }));
        }
        items.sort_by_key(|(at, _)| *at);
        items.into_iter().for_each(|(_, item)| item.give(fold));
    }
}

enum Item {
    Range { thread: u32, call: u64, parent: u64, start: u64, end: u64 },
    Call { call: u64, parent: u64, start: u64, end: u64 },
    Api { thread: u32, start: u64, end: u64 },
    Operation { call: u64, at: u64, start: u64, end: u64 },
}

impl Item {
    fn give(self, fold: &mut States) {
        match self {
            Self::Range { thread, call, parent, start, end } => {
                let name = "a poll";
                fold.range(&Range { thread, start, end, name, span: call, call, parent, ..Range::default() });
            }
            Self::Call { call, parent, start, end } => {
                let name = name_of(call);
                fold.call(&Call { call, parent, start, end, name: &name, ..Call::default() });
            }
            Self::Api { thread, start, end } => {
                fold.api(&ApiCall { thread, start, end, ..ApiCall::default() });
            }
            Self::Operation { call, at, start, end } => {
                fold.operation(&Operation { start, end, launch: Some((1, at)), call, ..Operation::default() });
            }
        }
    }
}

/// Each call has a name of its own, so that its times are a row.
fn name_of(call: u64) -> String {
    format!("call {call}")
}

const EACH: u64 = 1_000_000;

/// In CUDA, on and off the CPU, on a thread, waiting for GPU work, and otherwise.
fn states_of(times: [u64; 6]) -> CallStates {
    let mut states = CallStates::default();
    [
        states.in_cuda_ns,
        states.on_cpu_ns,
        states.off_cpu_ns,
        states.on_thread_ns,
        states.gpu_work_ns,
        states.otherwise_ns,
    ] = times;
    states
}

fn summary_of(calls: Vec<CallStats>) -> Summary {
    let mut summary = Summary::default();
    summary.calls = calls;
    summary
}

/// A row whose states have room for anything.
fn row(name: &str) -> CallStats {
    let mut row = CallStats::new(name, Times::default());
    let states = states_of([0, 0, 0, EACH, 0, EACH]);
    let mut slowest = SlowestCalls::default();
    (slowest.calls, slowest.states) = (1, states);
    row.slowest = Some(slowest);
    row.states = Some(states);
    row
}

fn rows_of(fold: &mut States, names: &[String]) -> Vec<CallStats> {
    let mut summary = summary_of(names.iter().map(|name| row(name)).collect());
    fold.finish(&mut summary);
    assert_eq!(summary.notes, []);
    summary.calls
}

#[test]
fn each_call_has_the_times_that_a_look_at_each_moment_finds() {
    let mut waits = 0;
    for seed in 0..300 {
        let program = Program::make(seed);
        // Settled at once, in small parts, and in large ones.
        let mut fold = States::default();
        fold.limits.lateness = 1_000;
        fold.limits.batch = [1, 7, 1 << 20][seed as usize % 3];
        program.give(&mut fold);
        let names: Vec<String> = (1..=program.0.len() as u64).map(name_of).collect();
        for (call, row) in rows_of(&mut fold, &names).into_iter().enumerate() {
            let (in_cuda, on_gpu) = program.truth(call);
            let states = row.states.unwrap();
            assert_eq!((states.in_cuda_ns, states.gpu_work_ns), (in_cuda, on_gpu), "{seed}: {call} of {program:#?}");
            assert_eq!((states.on_thread_ns, states.otherwise_ns), (EACH - in_cuda, EACH - on_gpu), "{seed}");
            assert_eq!(row.slowest.unwrap().states, states, "{seed}");
            waits += on_gpu;
        }
    }
    assert!(waits > 3_000, "{waits}");
}

#[test]
fn what_may_be_in_cuda_is_known_neither_as_on_nor_as_off_the_cpu() {
    let thread = &mut ThreadLog::default();
    let range = |start, end| Instance { start, end, call: start, on_cpu_ns: 60, off_cpu_ns: 35 };
    thread.ranges = vec![range(0, 100), range(10, 30), range(200, 300)];
    thread.api = vec![(12, 22), (11, 25), (50, 76), (70, 80), (110, 120)];
    let mut found = Vec::new();
    assert_eq!(thread.settle(150, &mut |call, in_cuda| found.push((call, in_cuda))), (0, 1));
    let in_cuda = |all, on_cpu, off_cpu| InCuda { all, on_cpu, off_cpu };
    assert_eq!(found, [(10, in_cuda(14, 14, 14)), (0, in_cuda(44, 44, 35))]);
    let sums = Sums { in_cuda: in_cuda(44, 44, 35), on_gpu: 9, ..Sums::default() };
    let mut states = states_of([0, 60, 35, 5, 0, 7]);
    sums.settle(&mut states);
    assert_eq!(states, states_of([44, 16, 0, 40, 7, 0]));
}

#[test]
fn calls_of_the_last_window_count_and_those_of_too_many_parts_are_told() {
    let mut fold = States::default();
    let poll = |fold: &mut States, start: u64| {
        Item::Range { thread: 1, call: 1, parent: 0, start, end: start + 10 }.give(fold);
    };
    (0..3).for_each(|number| poll(&mut fold, 20 * number));
    Item::Operation { call: 1, at: 5, start: 34, end: 35 }.give(&mut fold);
    let close = |fold: &mut States| Item::Call { call: 1, parent: 0, start: 0, end: 60 }.give(fold);
    close(&mut fold);
    fold.restart(60);
    close(&mut fold); // and told again, late
    assert_eq!(rows_of(&mut fold, &[name_of(1)]), [row(&name_of(1))], "it was over before");
    let mut fold = States { limits: Limits { intervals: 1, ..Limits::default() }, ..States::default() };
    (0..3).for_each(|number| poll(&mut fold, 20 * number));
    Item::Operation { call: 1, at: 5, start: 34, end: 35 }.give(&mut fold);
    close(&mut fold);
    let mut summary = summary_of(vec![row(&name_of(1))]);
    fold.finish(&mut summary);
    assert_eq!(summary.calls, [row(&name_of(1))]);
    assert_eq!(summary.notes, [Note::CallStatesCut { calls: 1 }]);
}

/// Batches of one instance each, with a span inside. Requests are in several, and some are over before their batches.
#[test]
fn the_gpu_time_of_batches_is_divided_among_what_they_serve() {
    for seed in 0..200 {
        let numbers = &mut Numbers(seed);
        let (requests, batches) = (1 + numbers.below(6), 1 + numbers.below(4));
        let mut items: Vec<(u64, Item)> = Vec::new();
        let mut truth = vec![0.0; requests as usize];
        let (mut links, mut whole, mut pieces) = (Vec::new(), 0, 0);
        for request in 0..requests {
            let (call, start, end) = (request + 1, 10 + request, 100 + numbers.below(8_000));
            items.push((start + 1, Item::Range { thread: 1, call, parent: 0, start, end: start + 1 }));
            items.push((end, Item::Range { thread: 1, call, parent: 0, start: end - 1, end }));
            items.push((end, Item::Call { call, parent: 0, start, end }));
        }
        for batch in 0..batches {
            let (call, inner) = (100 + 2 * batch, 101 + 2 * batch);
            let served: Vec<(u64, f64)> = (1..=requests).map(|one| (one, numbers.below(4) as f64)).collect();
            let weights: f64 = served.iter().map(|(_, weight)| weight).sum();
            let start = 20 + 1_000 * batch;
            items.push((start + 50, Item::Range { thread: 2, call: inner, parent: call, start, end: start + 50 }));
            items.push((start + 90, Item::Range { thread: 2, call, parent: 0, start, end: start + 90 }));
            let mut on_gpu = 0;
            for _ in 0..numbers.below(5) {
                let end = start + 10 + numbers.below(900);
                items.push((
                    end + 700,
                    Item::Operation { call: call + numbers.below(2), at: start, start: start + 5, end },
                ));
                (on_gpu, pieces) = (on_gpu + end - start - 5, pieces + 1);
            }
            whole += on_gpu;
            for &(one, weight) in &served {
                let part = if weights > 0.0 { weight / weights } else { 1.0 / requests as f64 };
                truth[one as usize - 1] += part * on_gpu as f64;
                links.extend((0..=numbers.below(2)).map(|_| Link { batch: call, served: one, weight }));
            }
        }
        items.push((5, Item::Operation { call: 1, at: 3, start: 4, end: 5 })); // of a request itself
        items.sort_by_key(|(at, _)| *at);
        let mut fold = States::default();
        fold.limits.lateness = 1_000;
        fold.limits.batch = [1, 7, 1 << 20][seed as usize % 3];
        links.iter().for_each(|link| fold.link(link));
        items.into_iter().for_each(|(_, item)| item.give(&mut fold));
        let names: Vec<String> = (1..=requests).map(name_of).collect();
        let shares: Vec<u64> =
            rows_of(&mut fold, &names).iter().map(|row| row.gpu_share_ns.unwrap_or_default()).collect();
        assert_eq!(shares.iter().sum::<u64>(), whole, "{seed}: {shares:?}");
        for (share, truth) in shares.iter().zip(truth) {
            // What comes late is divided apart.
            assert!((*share as f64 - truth).abs() <= f64::from(pieces), "{seed}: {share}, {truth}");
        }
    }
}
