//! What the host thread of each rank does.

use fastrand::Rng;

use crate::plan::{Fault, Grouping, Groups, Place, Plan, Scenario};

/// Streams of a rank.
pub(crate) const COMPUTE: usize = 0;
/// NCCL's stream for the world, or for the half of it.
pub(crate) const WORLD: usize = 1;
/// NCCL's stream for pairs.
pub(crate) const PAIR: usize = 2;
pub(crate) const STREAMS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Collective {
    AllReduce,
    AllGather,
    ReduceScatter,
    /// From the first rank of its communicator.
    Broadcast,
}

impl Collective {
    pub(crate) fn call(self) -> &'static str {
        match self {
            Self::AllReduce => "ncclAllReduce",
            Self::AllGather => "ncclAllGather",
            Self::ReduceScatter => "ncclReduceScatter",
            Self::Broadcast => "ncclBroadcast",
        }
    }

    pub(crate) fn kernel(self) -> &'static str {
        match self {
            Self::AllReduce => "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            Self::AllGather => "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            Self::ReduceScatter => "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            Self::Broadcast => "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        }
    }

    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::AllReduce => "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
            Self::AllGather => "_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE",
            Self::ReduceScatter => {
                "_Z44ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE"
            }
            Self::Broadcast => "_Z31ncclDevKernel_Broadcast_RING_LL24ncclDevKernelArgsStorageILm4096EE",
        }
    }
}

/// A communicator of the plan. Its number is its place in `communicators`.
#[derive(Clone, Debug)]
pub(crate) struct Communicator {
    /// NCCL's number.
    pub(crate) id: u64,
    pub(crate) members: Vec<u32>,
}

/// All communicators, and of each rank the one on each of NCCL's streams.
pub(crate) fn communicators(plan: &Plan) -> (Vec<Communicator>, Vec<[usize; 2]>) {
    let mut numbers = Rng::with_seed(plan.seed ^ 0x636f_6d6d);
    let mut all: Vec<Communicator> = Vec::new();
    let mut add = |members: Vec<u32>| {
        all.push(Communicator { id: numbers.u64(1..), members });
        all.len() - 1
    };
    let ranks = 0..plan.ranks;
    let of: Vec<[usize; 2]> = match plan.groups {
        Groups::World => {
            let world = add(ranks.clone().collect());
            ranks.map(|_| [world, world]).collect()
        }
        Groups::Pairs => {
            let world = add(ranks.clone().collect());
            let pairs: Vec<usize> = (0..plan.ranks / 2).map(|pair| add(vec![2 * pair, 2 * pair + 1])).collect();
            ranks.map(|rank| [world, pairs[rank as usize / 2]]).collect()
        }
        Groups::PairsAndHalves => {
            let halves = [0, 1].map(|odd| add(ranks.clone().filter(|rank| rank % 2 == odd).collect()));
            let pairs: Vec<usize> = (0..plan.ranks / 2).map(|pair| add(vec![2 * pair, 2 * pair + 1])).collect();
            ranks.map(|rank| [halves[rank as usize % 2], pairs[rank as usize / 2]]).collect()
        }
    };
    (all, of)
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Open {
        domain: Option<&'static str>,
        name: &'static str,
        message: Option<(usize, u64)>,
    },
    Close,
    /// Code takes so many nanoseconds.
    Code(u64),
    /// A launch on the compute stream: nanoseconds of the kernel, its name, and whether it waits for NCCL.
    Launch {
        ns: u64,
        kernel: &'static str,
        waits: bool,
    },
    /// A launch of a collective operation on a stream, with the communicator: nanoseconds in which data moves.
    Collective {
        what: Collective,
        communicator: usize,
        stream: usize,
        moving: u64,
    },
    /// The thread waits for all that it has launched.
    Synchronise,
    /// The thread waits for the end of the step before the last one.
    Limit,
    StepEnd,
}

struct Writer<'a> {
    plan: &'a Plan,
    numbers: Rng,
    actions: Vec<Action>,
    communicators: [usize; 2],
}

/// The start of each rank's process in nanoseconds, and its actions.
pub(crate) fn programs(plan: &Plan, of: &[[usize; 2]]) -> Vec<(u64, Vec<Action>)> {
    let turns = plan.turns();
    let program = |rank: u32| {
        let numbers = Rng::with_seed(plan.seed << 16 ^ u64::from(rank) ^ 0x7072_6f67 << 32);
        let mut writer = Writer { plan, numbers, actions: Vec::new(), communicators: of[rank as usize] };
        let start = 1_000_000 + (0.4 * plan.start_up * writer.numbers.f64()) as u64;
        writer.open("setup");
        let setup = (0.05 + 0.55 * writer.numbers.f64()) * plan.start_up;
        writer.code(setup);
        writer.close();
        let dies = plan.scenario == Scenario::Faulty(Fault::Dies) && rank == plan.faulty;
        let last = if dies { (f64::from(plan.steps) * plan.fault_part[1]) as usize } else { plan.steps as usize };
        for (step, turn) in turns.iter().enumerate().take(last.max(2)) {
            writer.step(step as u32, turn.filter(|(late, _)| *late == rank).map(|(_, place)| place));
        }
        (start, writer.actions)
    };
    (0..plan.ranks).map(program).collect()
}

impl Writer<'_> {
    fn open(&mut self, name: &'static str) {
        self.actions.push(Action::Open { domain: self.plan.domain, name, message: None });
    }

    fn nccl(&mut self, name: &'static str, message: Option<(usize, u64)>) {
        self.actions.push(Action::Open { domain: Some("NCCL"), name, message });
    }

    fn close(&mut self) {
        self.actions.push(Action::Close);
    }

    fn code(&mut self, ns: f64) {
        self.actions.push(Action::Code(ns as u64));
    }

    fn glue(&mut self) {
        let ns = self.numbers.u64(1_000..6_000);
        self.actions.push(Action::Code(ns));
    }

    fn launch(&mut self, ns: f64, kernel: &'static str, waits: bool) {
        self.glue();
        self.actions.push(Action::Launch { ns: ns as u64, kernel, waits });
    }

    /// Calls of NCCL in a range of the program.
    fn collectives(&mut self, range: &'static str, what: Collective, stream: usize, count: u32, moving: f64) {
        let communicator = self.communicators[stream - 1];
        let bytes = (moving * 100.0) as u64;
        self.open(range);
        self.glue();
        let is_one_group = self.plan.grouping == Grouping::All;
        let is_grouped = is_one_group || self.plan.grouping == Grouping::Each;
        let begin = |writer: &mut Self| {
            writer.nccl("ncclGroupStart", None);
            writer.code(300.0);
            writer.close();
        };
        let launch = |writer: &mut Self, moving: f64| {
            writer.glue();
            let moving = moving as u64;
            writer.actions.push(Action::Collective { what, communicator, stream, moving });
            writer.code(500.0);
            writer.close();
        };
        for call in 0..count {
            if is_grouped && (!is_one_group || call == 0) {
                begin(self);
            }
            self.nccl(what.call(), Some((communicator, bytes)));
            if is_grouped {
                self.code(700.0);
                self.close();
            } else {
                launch(self, moving);
            }
            if is_grouped && (!is_one_group || call + 1 == count) {
                self.nccl("ncclGroupEnd", None);
                launch(self, if is_one_group { moving * f64::from(count) } else { moving });
            }
        }
        self.close();
    }

    fn step(&mut self, step: u32, late: Option<Place>) {
        let plan = self.plan;
        let factor = 1.0 + plan.jitter * self.numbers.f64();
        let delay = |place: Place| if late == Some(place) { plan.delay } else { 0.0 };
        let code = plan.code * plan.work * factor;
        let [forward, backward] = plan.kernels;
        let moving = plan.moving * plan.work;
        self.open("step");
        if !plan.is_synchronous {
            self.actions.push(Action::Limit);
        }
        self.open("prepare");
        self.code(0.5 * code + delay(Place::Prepare));
        if plan.has_load {
            self.open("load");
            self.code(0.3 * code + delay(Place::Load));
            self.close();
        }
        self.glue();
        self.close();
        if plan.broadcasts.is_some_and(|every| step % every == every - 1) {
            self.collectives("share", Collective::Broadcast, WORLD, 1, 0.05 * moving);
        }
        if plan.is_sharded {
            self.collectives("gather", Collective::AllGather, WORLD, 1, 0.4 * moving);
        }

        self.open("forward");
        if plan.has_tokenize {
            self.open("tokenize");
            self.code(0.1 * code + delay(Place::Tokenize));
            self.close();
        }
        let kernel = 0.33 * plan.work * factor / f64::from(forward);
        let in_attention = (1..forward).step_by(2).count().max(1) as f64;
        let mut waits = plan.is_sharded;
        for at in 0..forward {
            let of_attention = plan.has_attention && at % 2 == 1;
            if of_attention {
                self.open("attention");
            }
            let extra = match late {
                Some(Place::Forward) if !of_attention => {
                    let others = f64::from(forward) - if plan.has_attention { in_attention } else { 0.0 };
                    plan.delay / others
                }
                Some(Place::Attention) if of_attention => plan.delay / in_attention,
                _ => 0.0,
            };
            let name = if of_attention { "attention_forward" } else { "gemm_forward" };
            self.launch(kernel + extra, name, std::mem::take(&mut waits));
            if of_attention {
                self.close();
            }
            if at == forward / 2 && plan.groups != Groups::World {
                self.collectives("exchange", Collective::AllGather, PAIR, 1, 0.1 * moving);
                waits = true;
            }
        }
        self.close();

        self.open("backward");
        let kernel = 0.65 * plan.work * factor / f64::from(backward);
        let reduce = if plan.is_sharded { Collective::ReduceScatter } else { Collective::AllReduce };
        let bucket = 0.6 * moving / f64::from(plan.buckets);
        let mut reduced = 0;
        for at in 0..backward {
            self.launch(kernel, "gemm_backward", std::mem::take(&mut waits));
            if plan.overlaps && (at + 1) * plan.buckets / backward > reduced {
                reduced += 1;
                self.collectives("reduce", reduce, WORLD, 1, bucket);
            }
        }
        self.close();
        if !plan.overlaps {
            self.collectives("reduce", reduce, WORLD, plan.buckets, bucket);
        }
        self.open("optimizer");
        self.launch(0.02 * plan.work * factor, "adam", true);
        self.close();
        self.actions.push(Action::StepEnd);
        if plan.is_synchronous {
            self.actions.push(Action::Synchronise);
        }
        if plan.has_log {
            self.open("log");
            self.code(0.1 * code + delay(Place::Log));
            self.close();
        }
        self.close();
        self.glue();
    }
}
