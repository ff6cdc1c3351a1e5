//! What a program does, and what is wrong with it: all random choices for which its ranks agree.

use fastrand::Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scenario {
    /// One rank is late.
    Late,
    /// A few ranks are late in turns.
    Few,
    /// All ranks are late in turns.
    AllInTurns,
    /// Data moves slowly.
    SlowLink,
    /// Each step takes each rank a little more or less.
    Noise,
    /// As `Late` or `Noise`, with records that lack something.
    Faulty(Fault),
}

impl Scenario {
    /// Whether at least 95 % of the sets must have all late ranks with their causes.
    pub(crate) fn must_be_found(self) -> bool {
        matches!(self, Self::Late | Self::Few)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// A rank lost all records of GPU work of some time in the middle.
    Gap,
    /// A rank lost records of GPU work here and there.
    Holes,
    /// The profiler of a rank saw only the first part of the run.
    EndsEarly,
    /// A rank died. The others waited for it until they were killed.
    Dies,
    /// A rank has no summary.
    Absent,
}

impl Fault {
    const ALL: [Self; 5] = [Self::Gap, Self::Holes, Self::EndsEarly, Self::Dies, Self::Absent];
}

/// Where a late rank loses its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Prepare,
    /// In `prepare`.
    Load,
    /// At the start of `forward`.
    Tokenize,
    /// After the reduction.
    Log,
    /// Kernels of `forward`.
    Forward,
    /// Every other kernel of `forward`.
    Attention,
}

impl Place {
    const ALL: [Self; 6] = [Self::Prepare, Self::Load, Self::Tokenize, Self::Log, Self::Forward, Self::Attention];

    fn range(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Load => "load",
            Self::Tokenize => "tokenize",
            Self::Log => "log",
            Self::Forward => "forward",
            Self::Attention => "attention",
        }
    }

    pub(crate) fn is_on_gpu(self) -> bool {
        matches!(self, Self::Forward | Self::Attention)
    }
}

/// Which communicators there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Groups {
    World,
    /// The world, and pairs of neighbours that gather in the forward pass.
    Pairs,
    /// Pairs of neighbours, and all ranks with the same place in their pair.
    PairsAndHalves,
}

/// How calls of NCCL are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    None,
    /// Each call is in a group of its own.
    Each,
    /// All calls of a reduction are in one group, which is one kernel.
    All,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) scenario: Scenario,
    pub(crate) ranks: u32,
    pub(crate) steps: u32,
    pub(crate) groups: Groups,
    pub(crate) grouping: Grouping,
    /// Whether the host waits for the device at the end of each step. Else it is up to two steps ahead.
    pub(crate) is_synchronous: bool,
    /// Whether weights are gathered before a step and gradients scattered after it; else gradients are reduced.
    pub(crate) is_sharded: bool,
    /// Whether gradients are reduced during the rest of the backward pass.
    pub(crate) overlaps: bool,
    /// Number of reductions in a step.
    pub(crate) buckets: u32,
    /// Every so many steps there is a broadcast.
    pub(crate) broadcasts: Option<u32>,
    /// Domain of the program's ranges.
    pub(crate) domain: Option<&'static str>,
    /// Ranges that all ranks have, beside the others.
    pub(crate) has_load: bool,
    pub(crate) has_tokenize: bool,
    pub(crate) has_attention: bool,
    pub(crate) has_log: bool,
    /// Kernels of the forward and the backward pass.
    pub(crate) kernels: [u32; 2],
    /// Time of the kernels of a step in nanoseconds, without those of NCCL.
    pub(crate) work: f64,
    /// Host code of a step, as a part of `work`.
    pub(crate) code: f64,
    /// How long all data of a step moves, as a part of `work`.
    pub(crate) moving: f64,
    /// By how much a step of a rank may be longer than another one, as a part of it.
    pub(crate) jitter: f64,
    /// How long the ranks start up, at most, in nanoseconds.
    pub(crate) start_up: f64,
    /// Late ranks with the place of each.
    late: Vec<(u32, Place)>,
    /// How many nanoseconds late they are.
    pub(crate) delay: f64,
    /// The chance of a step to have a late rank.
    pub(crate) chance: f64,
    /// The rank with a fault, and the part of the run in which it has it.
    pub(crate) faulty: u32,
    pub(crate) fault_part: [f64; 2],
    /// Records of GPU work arrive in blocks of so many nanoseconds.
    pub(crate) block: u64,
}

fn between(numbers: &mut Rng, from: f64, to: f64) -> f64 {
    from + numbers.f64() * (to - from)
}

fn one_of<T: Copy>(numbers: &mut Rng, all: &[T]) -> T {
    all[numbers.usize(..all.len())]
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut numbers = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x7261_6e6b);
        let it = &mut numbers;
        // Nine of twenty sets have one late rank.
        let scenario = match seed % 20 {
            0..9 => Scenario::Late,
            9..11 => Scenario::Few,
            11..13 => Scenario::AllInTurns,
            13..15 => Scenario::SlowLink,
            15..17 => Scenario::Noise,
            of_twenty => Scenario::Faulty(Fault::ALL[(seed / 20 + of_twenty * 2) as usize % Fault::ALL.len()]),
        };
        let is_large = matches!(seed, 40 | 56);
        let least = match scenario {
            Scenario::Few => 8,
            Scenario::AllInTurns => 6,
            Scenario::Faulty(_) => 3,
            _ => 2,
        };
        let ranks = match it.u32(..20) {
            _ if is_large => 512,
            0 => it.u32(17..=64),
            1..8 => it.u32(least..=8.max(least)),
            _ => it.u32(least..=16),
        };
        let steps = if ranks > 16 { it.u32(20..30) } else { one_of(it, &[20, 30, 50, 80, 120, 200]) };
        let steps = if scenario == Scenario::AllInTurns { steps.max(4 * ranks) } else { steps };
        let groups = match it.u32(..6) {
            0 if ranks % 2 == 0 && ranks >= 4 => Groups::Pairs,
            1 if ranks % 2 == 0 && ranks >= 4 => Groups::PairsAndHalves,
            _ => Groups::World,
        };
        let is_synchronous = it.bool();
        let buckets = one_of(it, &[1, 1, 2, 3, 5]);
        let overlaps = buckets > 1 && it.bool();
        let grouping = match it.u32(..4) {
            0 | 1 => Grouping::None,
            2 if !overlaps => Grouping::All,
            _ => Grouping::Each,
        };
        let start_up = if it.bool() { between(it, 0.5e9, 3e9) } else { between(it, 0.05e9, 0.3e9) };
        // Steps are long enough that the start does not outweigh them.
        let shortest = (3e6_f64).max(1.5 * start_up / f64::from(steps));
        let work = shortest * between(it, 1.0, 5.0);
        let slow = between(it, 0.5, 2.0);
        let fast = between(it, 0.02, 0.25);
        let moving = if scenario == Scenario::SlowLink { slow } else { fast };
        let jitter = if scenario == Scenario::Noise { 0.05 } else { 0.01 } * it.f64();
        let code = if is_synchronous { between(it, 0.0, 0.1) } else { between(it, 0.0, 0.03) };
        let mut order: Vec<u32> = (0..ranks).collect();
        it.shuffle(&mut order);
        let late_ranks = match scenario {
            Scenario::Late => 1,
            Scenario::Few => it.usize(2..=3),
            Scenario::AllInTurns => order.len(),
            Scenario::Faulty(_) if it.u32(..3) > 0 => 1,
            _ => 0,
        };
        let place = one_of(it, &Place::ALL);
        let is_alike = it.bool();
        let late: Vec<(u32, Place)> = order[..late_ranks]
            .iter()
            .map(|rank| (*rank, if is_alike { place } else { one_of(it, &Place::ALL) }))
            .collect();
        // Hosts that are ahead hide the delays of each other.
        let hides = matches!(scenario, Scenario::Few | Scenario::AllInTurns)
            && late.iter().any(|(_, place)| !place.is_on_gpu());
        let has = |it: &mut Rng, place| it.bool() || late.iter().any(|(_, other)| *other == place);
        let part = between(it, 0.06, 0.5);
        let faulty = it.u32(..ranks);
        let from = between(it, 0.2, 0.6);
        Self {
            seed,
            scenario,
            ranks,
            steps,
            groups,
            grouping,
            is_synchronous: is_synchronous || hides,
            is_sharded: it.u32(..3) == 0,
            overlaps,
            buckets,
            broadcasts: (it.u32(..4) == 0).then(|| it.u32(5..15)),
            domain: (it.u32(..4) == 0).then_some("trainer"),
            has_load: has(it, Place::Load),
            has_tokenize: has(it, Place::Tokenize),
            has_attention: has(it, Place::Attention),
            has_log: has(it, Place::Log),
            kernels: [it.u32(3..8), it.u32(buckets.max(4)..12)],
            work,
            code,
            moving,
            jitter,
            start_up,
            late,
            delay: part * work,
            chance: one_of(it, &[1.0, 1.0, 0.5]),
            faulty,
            fault_part: [from, from + between(it, 0.02, 0.3)],
            block: one_of(it, &[0, 20_000_000, 200_000_000]),
        }
    }

    /// The ranks that are to be named.
    pub(crate) fn planted(&self) -> Vec<u32> {
        if self.scenario == Scenario::AllInTurns {
            Vec::new()
        } else {
            self.late.iter().map(|(rank, _)| *rank).collect()
        }
    }

    /// The range and the state in which a late rank loses its time.
    pub(crate) fn cause(&self, rank: u32) -> (Option<&'static str>, &'static str) {
        let Some((_, place)) = self.late.iter().find(|(late, _)| *late == rank) else { return (None, "") };
        let label = match (self.domain, place.range()) {
            (None, name) => name,
            (Some(_), "prepare") => "trainer:prepare",
            (Some(_), "load") => "trainer:load",
            (Some(_), "tokenize") => "trainer:tokenize",
            (Some(_), "log") => "trainer:log",
            (Some(_), "forward") => "trainer:forward",
            (Some(_), _) => "trainer:attention",
        };
        (Some(label), if place.is_on_gpu() { "GPU work" } else { "host code" })
    }

    /// Who is late in each step, and where.
    pub(crate) fn turns(&self) -> Vec<Option<(u32, Place)>> {
        let mut numbers = Rng::with_seed(self.seed ^ 0x7475_726e);
        let is_random = self.scenario == Scenario::Few && self.seed % 2 == 1;
        let mut round: Vec<(u32, Place)> = Vec::new();
        let turn = |_| {
            if round.is_empty() {
                round.clone_from(&self.late);
                if self.scenario == Scenario::AllInTurns {
                    numbers.shuffle(&mut round);
                }
            }
            let is_late = !round.is_empty() && numbers.f64() < self.chance;
            is_late.then(|| if is_random { self.late[numbers.usize(..self.late.len())] } else { round.remove(0) })
        };
        (0..self.steps).map(turn).collect()
    }
}
