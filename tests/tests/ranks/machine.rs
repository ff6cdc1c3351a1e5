//! Runs all ranks on one true clock: hosts, streams, and collective operations, for which the ranks wait.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use fastrand::Rng;

use crate::plan::Plan;
use crate::program::{Action, COMPUTE, Collective, Communicator, STREAMS, communicators, programs};

#[derive(Clone, Debug)]
pub(crate) struct MadeRange {
    pub(crate) domain: Option<&'static str>,
    pub(crate) name: &'static str,
    /// The communicator of a call of NCCL, as its number in the plan, and the bytes.
    pub(crate) message: Option<(usize, u64)>,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) depth: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct MadeCall {
    pub(crate) name: &'static str,
    pub(crate) correlation: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct MadeOperation {
    pub(crate) stream: usize,
    pub(crate) work: Done,
    pub(crate) correlation: u32,
    pub(crate) launched: u64,
    pub(crate) path: Rc<Vec<String>>,
    /// The earliest time at which the device has it.
    earliest: u64,
    /// Operations of other streams that it waits for.
    needs: Vec<usize>,
    pub(crate) start: Option<u64>,
    pub(crate) end: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum Done {
    Kernel {
        name: &'static str,
        ns: u64,
    },
    /// The operation of this number of a communicator.
    Collective {
        what: Collective,
        communicator: usize,
        number: usize,
        moving: u64,
    },
}

#[derive(Default)]
pub(crate) struct Rank {
    pub(crate) number: u32,
    /// When its process began.
    pub(crate) start: u64,
    pub(crate) now: u64,
    actions: Vec<Action>,
    next: usize,
    open: Vec<MadeRange>,
    pub(crate) ranges: Vec<MadeRange>,
    pub(crate) calls: Vec<MadeCall>,
    pub(crate) operations: Vec<MadeOperation>,
    /// Operations that have not begun.
    queues: [VecDeque<usize>; STREAMS],
    /// When each stream has done what began; `None` if that is a collective operation without an end.
    ready: [Option<u64>; STREAMS],
    /// The last operation that was launched on each stream.
    last: [Option<usize>; STREAMS],
    /// The last operation of each step, by stream.
    step_ends: Vec<[Option<usize>; STREAMS]>,
    /// How many operations of each communicator it launched.
    counts: BTreeMap<usize, usize>,
    path: Option<Rc<Vec<String>>>,
}

/// A collective operation on all of its ranks.
#[derive(Default)]
pub(crate) struct Together {
    pub(crate) what: Option<Collective>,
    /// Rank and place of its operation there, in the order of the arrivals that were found.
    pub(crate) parts: Vec<(u32, usize)>,
}

pub(crate) struct Machine {
    pub(crate) ranks: Vec<Rank>,
    pub(crate) communicators: Vec<Communicator>,
    /// By communicator and number.
    pub(crate) together: BTreeMap<(usize, usize), Together>,
    /// The last moment of the run.
    pub(crate) end: u64,
    numbers: Rng,
}

impl Machine {
    pub(crate) fn run(plan: &Plan) -> Self {
        let (communicators, of) = communicators(plan);
        let ranks = programs(plan, &of).into_iter().zip(0..).map(|((start, actions), number)| Rank {
            number,
            start,
            now: start,
            actions,
            ready: [Some(0); STREAMS],
            ..Rank::default()
        });
        let ranks = ranks.collect();
        let numbers = Rng::with_seed(plan.seed ^ 0x6d61_6368);
        let mut machine = Self { ranks, communicators, together: BTreeMap::new(), end: 0, numbers };
        let mut goes_on = true;
        while goes_on {
            goes_on = false;
            for rank in 0..machine.ranks.len() {
                goes_on |= machine.advance(rank);
            }
        }
        machine.finish();
        machine
    }

    /// Runs one rank until it needs another one. Whether it did anything.
    fn advance(&mut self, rank: usize) -> bool {
        let mut has_run = false;
        loop {
            let mut did = self.host(rank);
            for stream in 0..STREAMS {
                did |= self.stream(rank, stream);
            }
            if !did {
                return has_run;
            }
            has_run = true;
        }
    }

    fn host(&mut self, number: usize) -> bool {
        let rank = &mut self.ranks[number];
        let mut did = false;
        while let Some(action) = rank.actions.get(rank.next) {
            match *action {
                Action::Open { domain, name, message } => {
                    let depth = rank.open.len() as u32;
                    rank.open.push(MadeRange { domain, name, message, start: rank.now, end: 0, depth });
                    rank.path = None;
                    rank.now += 100;
                }
                Action::Close => {
                    let range = rank.open.pop().expect("ranges nest");
                    rank.ranges.push(MadeRange { end: rank.now, ..range });
                    rank.path = None;
                    rank.now += 100;
                }
                Action::Code(ns) => rank.now += ns,
                Action::Launch { ns, kernel, waits } => {
                    let others = rank.last[COMPUTE + 1..].iter().flatten();
                    let needs = if waits { others.copied().collect() } else { Vec::new() };
                    let work = Done::Kernel { name: kernel, ns };
                    rank.launch("cudaLaunchKernel_v7000", COMPUTE, work, needs, &mut self.numbers);
                }
                Action::Collective { what, communicator, stream, moving } => {
                    let count = rank.counts.entry(communicator).or_default();
                    let work = Done::Collective { what, communicator, number: *count, moving };
                    *count += 1;
                    let needs = rank.last[COMPUTE].into_iter().collect();
                    rank.call("cudaStreamWaitEvent_v3020", 1_000);
                    rank.launch("cuLaunchKernelExC", stream, work, needs, &mut self.numbers);
                }
                Action::Synchronise => {
                    let Some(until) = rank.done(rank.last) else { return did };
                    rank.wait("cudaStreamSynchronize_v3020", until, &mut self.numbers);
                }
                Action::Limit => {
                    if let Some(&end) = rank.step_ends.len().checked_sub(2).and_then(|at| rank.step_ends.get(at)) {
                        let Some(until) = rank.done(end) else { return did };
                        rank.wait("cudaEventSynchronize_v3020", until, &mut self.numbers);
                    }
                }
                Action::StepEnd => rank.step_ends.push(rank.last),
            }
            rank.next += 1;
            did = true;
        }
        did
    }

    /// Begins what a stream can begin.
    fn stream(&mut self, number: usize, stream: usize) -> bool {
        let mut did = false;
        loop {
            let rank = &mut self.ranks[number];
            let (Some(&at), Some(ready)) = (rank.queues[stream].front(), rank.ready[stream]) else { return did };
            let mut start = rank.operations[at].earliest.max(ready + 700);
            for &need in &rank.operations[at].needs {
                let Some(end) = rank.operations[need].end else { return did };
                start = start.max(end + 1_000);
            }
            did = true;
            rank.queues[stream].pop_front();
            let operation = &mut rank.operations[at];
            operation.start = Some(start);
            match operation.work {
                Done::Kernel { ns, .. } => {
                    operation.end = Some(start + ns);
                    rank.ready[stream] = Some(start + ns);
                }
                Done::Collective { what, communicator, number: nth, moving } => {
                    rank.ready[stream] = None;
                    let together = self.together.entry((communicator, nth)).or_default();
                    together.what = Some(what);
                    together.parts.push((number as u32, at));
                    if together.parts.len() == self.communicators[communicator].members.len() {
                        let parts = together.parts.clone();
                        self.ends(what, &parts, moving, self.communicators[communicator].members[0]);
                    }
                }
            }
        }
    }

    /// All ranks of a collective operation are there.
    fn ends(&mut self, what: Collective, parts: &[(u32, usize)], moving: u64, root: u32) {
        let start = |ranks: &[Rank], (rank, at): (u32, usize)| ranks[rank as usize].operations[at].start.unwrap_or(0);
        let last = parts.iter().map(|part| start(&self.ranks, *part)).max().unwrap_or(0);
        let of_root = parts.iter().find(|(rank, _)| *rank == root).map_or(0, |part| start(&self.ranks, *part));
        let moving = moving + self.numbers.u64(..=moving / 50);
        for &(rank, at) in parts {
            let own = start(&self.ranks, (rank, at));
            let all_there = if what == Collective::Broadcast { own.max(of_root) } else { last };
            let end = all_there + moving + self.numbers.u64(..20_000);
            let rank = &mut self.ranks[rank as usize];
            rank.operations[at].end = Some(end);
            rank.ready[rank.operations[at].stream] = Some(end);
        }
    }

    /// Cuts what is open: a rank waits for another one that is no longer there.
    fn finish(&mut self) {
        let last = self.ranks.iter().flat_map(|rank| rank.operations.iter().filter_map(|operation| operation.end));
        let end = last.chain(self.ranks.iter().map(|rank| rank.now)).max().unwrap_or(0);
        let waits = self.ranks.iter().any(|rank| rank.next < rank.actions.len());
        self.end = end + if waits { 5_000_000 } else { 1_000_000 };
        for rank in &mut self.ranks {
            if rank.next < rank.actions.len() {
                rank.now = self.end;
            }
            while let Some(range) = rank.open.pop() {
                rank.ranges.push(MadeRange { end: rank.now, ..range });
            }
        }
    }
}

impl Rank {
    fn call(&mut self, name: &'static str, ns: u64) -> u32 {
        let (start, correlation) = (self.now, self.calls.len() as u32 + 1);
        self.now += ns;
        self.calls.push(MadeCall { name, correlation, start, end: self.now });
        correlation
    }

    fn launch(&mut self, call: &'static str, stream: usize, work: Done, needs: Vec<usize>, numbers: &mut Rng) {
        let launched = self.now + 300;
        let correlation = self.call(call, numbers.u64(3_000..10_000));
        let label = |range: &MadeRange| match range.domain {
            Some(domain) => format!("{domain}:{}", range.name),
            None => range.name.to_owned(),
        };
        let open = &self.open;
        let path = self.path.get_or_insert_with(|| Rc::new(open.iter().map(label).collect())).clone();
        let earliest = self.now + numbers.u64(2_000..8_000);
        let at = self.operations.len();
        self.operations.push(MadeOperation {
            stream,
            work,
            correlation,
            launched,
            path,
            earliest,
            needs,
            start: None,
            end: None,
        });
        self.queues[stream].push_back(at);
        self.last[stream] = Some(at);
    }

    /// When all of these have ended, if that is known.
    fn done(&self, operations: [Option<usize>; STREAMS]) -> Option<u64> {
        operations.into_iter().flatten().try_fold(0, |end, at| Some(self.operations[at].end?.max(end)))
    }

    fn wait(&mut self, name: &'static str, until: u64, numbers: &mut Rng) {
        let end = self.now.max(until) + numbers.u64(2_000..6_000);
        self.call(name, end - self.now);
    }
}
