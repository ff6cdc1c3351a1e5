//! What a profiler sees of each rank, on the clock of its host.

use fastrand::Rng;
use gpu_analysis::Idle;
use range_model::timeline::{Api, ApiCall, Item, Kernel, Operation, Range, Value, Work};
use range_model::{Fold as _, RangeStyle, Summary};

use crate::machine::{Done, Machine, MadeCall, MadeOperation, MadeRange, Rank};
use crate::plan::{Fault, Plan, Scenario};

const RANKS_OF_A_HOST: u32 = 8;
const BASE_UNIX_NS: u64 = 1_760_000_000_000_000_000;

/// Clock of a host: what it shows at time 0, and how much faster it goes.
#[derive(Clone, Copy)]
struct Clock {
    ahead: f64,
    drift: f64,
}

impl Clock {
    fn shows(self, at: u64) -> u64 {
        (at as f64 * (1.0 + self.drift) + self.ahead) as u64
    }
}

enum Record<'a> {
    Range(&'a MadeRange),
    Call(&'a MadeCall),
    Operation(&'a MadeOperation),
}

pub(crate) fn summaries(plan: &Plan, machine: &Machine) -> Vec<Summary> {
    let mut numbers = Rng::with_seed(plan.seed ^ 0x636c_6f63);
    let fault = match plan.scenario {
        Scenario::Faulty(fault) => Some(fault),
        _ => None,
    };
    let hosts = plan.ranks.div_ceil(RANKS_OF_A_HOST);
    let mut clock = || Clock { ahead: 2e7 + numbers.f64() * 1e7, drift: (numbers.f64() - 0.5) * 100e-6 };
    let clocks: Vec<Clock> = (0..hosts).map(|_| clock()).collect();
    let mut summaries = Vec::new();
    for (number, rank) in machine.ranks.iter().enumerate() {
        let fault = fault.filter(|_| number == plan.faulty as usize);
        if fault == Some(Fault::Absent) {
            continue;
        }
        let host = number as u32 / RANKS_OF_A_HOST;
        let clock = clocks[host as usize];
        let mut summary = Summary::default();
        summary.process.rank = Some(number as u32);
        summary.process.pid = 1_000 + number as u32;
        summary.process.host = format!("node{host}");
        summary.process.run_id = format!("run {}", plan.seed);
        summary.process.started_unix_ns = BASE_UNIX_NS + clock.shows(rank.start);
        let part = |part: f64| rank.start + ((machine.end - rank.start) as f64 * part) as u64;
        let end = match fault {
            Some(Fault::EndsEarly) => part(plan.fault_part[1]),
            Some(Fault::Dies) => rank.now,
            _ => machine.end,
        };
        summary.elapsed_ns = clock.shows(end) - clock.shows(rank.start);
        let lost = match fault {
            Some(Fault::Gap) => [part(plan.fault_part[0]), part(plan.fault_part[1])],
            _ => [0, 0],
        };
        let mut idle = Idle::default();
        give(&mut idle, plan, machine, rank, clock, end, &mut |operation| {
            let is_in_gap = operation.end.is_some_and(|end| (lost[0]..lost[1]).contains(&end));
            is_in_gap || (fault == Some(Fault::Holes) && numbers.u32(..40) == 0)
        });
        idle.finish(&mut summary);
        summaries.push(summary);
    }
    numbers.shuffle(&mut summaries);
    summaries
}

fn give(
    idle: &mut Idle,
    plan: &Plan,
    machine: &Machine,
    rank: &Rank,
    clock: Clock,
    end: u64,
    is_lost: &mut dyn FnMut(&MadeOperation) -> bool,
) {
    // Each process sees one device, or all of its host.
    let (thread, device) = (77, if plan.seed.is_multiple_of(2) { 0 } else { rank.number % RANKS_OF_A_HOST });
    let own = |at: u64| clock.shows(at) - clock.shows(rank.start);
    // Ranges arrive by their ends; records of CUDA arrive in blocks.
    let in_block = |at: u64| if plan.block == 0 { at } else { at.next_multiple_of(plan.block) };
    let mut records: Vec<(u64, Record<'_>)> = Vec::new();
    records.extend(rank.ranges.iter().map(|range| (range.end, Record::Range(range))));
    records.extend(rank.calls.iter().map(|call| (in_block(call.end), Record::Call(call))));
    for operation in &rank.operations {
        if let Some(end) = operation.end
            && !is_lost(operation)
        {
            records.push((in_block(end), Record::Operation(operation)));
        }
    }
    records.sort_by_key(|(at, _)| *at);
    for (_, record) in records {
        match record {
            Record::Range(&MadeRange { domain, name, message, start, end: until, depth }) => {
                if start >= end {
                    continue;
                }
                let fields = message.map(|(communicator, bytes)| {
                    let id = machine.communicators[communicator].id;
                    [("NCCL communicator ID", Value::Unsigned(id)), ("Message size [bytes]", Value::Unsigned(bytes))]
                });
                idle.item(&Item::Range(Range {
                    thread,
                    start: own(start),
                    end: own(until.min(end)),
                    style: RangeStyle::PushPop,
                    domain,
                    name,
                    depth,
                    fields: fields.as_ref().map_or(&[], |fields| fields),
                    cut: until > end,
                    ..Range::default()
                }));
            }
            Record::Call(&MadeCall { name, correlation, start, end: until }) => {
                if until > end {
                    continue;
                }
                let api = if name.starts_with("cuda") { Api::Runtime } else { Api::Driver };
                let (start, end) = (own(start), own(until));
                idle.item(&Item::ApiCall(ApiCall { api, name, thread, start, end, correlation, result: 0 }));
            }
            Record::Operation(operation) => {
                let (Some(start), Some(until)) = (operation.start, operation.end) else { continue };
                if until > end {
                    continue;
                }
                let (kernel, symbol) = match operation.work {
                    Done::Kernel { name, .. } => (name, name),
                    Done::Collective { what, .. } => (what.kernel(), what.symbol()),
                };
                idle.item(&Item::Operation(Operation {
                    start: own(start),
                    end: own(until),
                    device,
                    context: 1,
                    stream: 7 + 6 * operation.stream as u32,
                    correlation: operation.correlation,
                    work: Work::Kernel(Kernel::default()),
                    kernel,
                    symbol,
                    launch: Some((thread, own(operation.launched))),
                    span: operation.path.last().map(String::as_str),
                    path: &operation.path,
                    ..Operation::default()
                }));
            }
        }
    }
}
