//! Collective operations of NCCL, and what a device did before each.
//!
//! NCCL runs a kernel for each operation, and tells the communicator by an NVTX range around the call that launches it.
//! In a group, the kernel is launched where the group ends: its communicator is that of all calls in the group.

use std::collections::VecDeque;

use range_model::names::{collective, label};
use range_model::stats::{Keyed, Lean, order};
use range_model::summary::{COLLECTIVES, CommunicatorStats, GPU_WORK, IdleCause, RangeState};
use range_model::timeline::{Operation, Range, Value, Work};

use super::thread::NO_RANGE;

/// NVTX domain of NCCL, the field with the number of a communicator, and the ranges between which calls are a group.
const DOMAIN: &str = "NCCL";
const COMMUNICATOR: &str = "NCCL communicator ID";
const GROUP_START: &str = "ncclGroupStart";
const GROUP_END: &str = "ncclGroupEnd";
/// How many operations of one communicator are listed: the last.
const MOST_LISTED: usize = 2_048;
const MOST_COMMUNICATORS: usize = 16;
/// Records that wait for others, of all kinds: 24 MB. Beyond, what is missing is not waited for.
const MOST_PENDING: usize = 1 << 20;
/// How many parts of the time before an operation are told by range.
const MOST_PARTS: usize = 6;
/// How many earlier calls are searched for the one that launched a kernel.
const MOST_BACK: usize = 4_096;

/// What a device does: in which range, and whether that is work, a collective, or a cause of idle time.
type Part = (u32, State);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum State {
    Work,
    Collective,
    Idle(IdleCause),
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            Self::Work => GPU_WORK,
            Self::Collective => COLLECTIVES,
            Self::Idle(cause) => cause.name(),
        }
    }
}

/// Time of a device.
#[derive(Clone, Copy)]
struct Span {
    start: u64,
    end: u64,
    part: Part,
}

/// A call of NCCL on one thread.
#[derive(Clone, Copy)]
struct NcclCall {
    start: u64,
    end: u64,
    what: What,
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    /// An operation of this communicator.
    Operation(u64),
    BeginsGroup,
    EndsGroup,
}

/// A kernel of NCCL.
#[derive(Clone)]
struct CollectiveKernel {
    start: u64,
    end: u64,
    label: u32,
    name: String,
    launch: Option<(u32, u64)>,
}

/// What is not judged yet of a device.
#[derive(Default)]
struct Pending {
    kernels: Vec<CollectiveKernel>,
    /// Other operations.
    work: Vec<Span>,
    idle: Vec<Span>,
}

/// A communicator of this process.
#[derive(Default)]
struct Communicator {
    device: u32,
    /// When its last operation began and ended, and what the device has done since then. Work beside the operation
    /// counts, too: on a rank that waits, it runs then, and on the last rank later.
    start: u64,
    end: u64,
    since: Keyed<Part, u64>,
    earlier: u64,
    listed: VecDeque<ListedOperation>,
}

struct ListedOperation {
    name: String,
    start: u64,
    end: u64,
    alone: u64,
    before: Vec<(Part, u64)>,
}

/// All communicators of a process.
#[derive(Default)]
pub(super) struct Collectives {
    /// By thread. Nothing is kept until NCCL has made a call.
    calls: Keyed<u32, Vec<NcclCall>>,
    pending: Keyed<u32, Pending>,
    count: usize,
    communicators: Keyed<u64, Communicator>,
    /// Up to when all is judged.
    judged: u64,
    window: u64,
    /// Kernels of NCCL whose communicator is not known.
    unknown: u64,
}

impl Collectives {
    /// Takes note of a call of NCCL.
    pub(super) fn range(&mut self, range: &Range<'_>) {
        if range.domain != Some(DOMAIN) {
            return;
        }
        let number = |value: &Value<'_>| match *value {
            Value::Unsigned(number) => Some(number),
            Value::Integer(number) => Some(number.cast_unsigned()),
            _ => None,
        };
        let field = range.fields.iter().find(|(name, _)| *name == COMMUNICATOR);
        let what = match (field.and_then(|(_, value)| number(value)), range.name) {
            (Some(communicator), _) => What::Operation(communicator),
            (None, GROUP_START) => What::BeginsGroup,
            (None, GROUP_END) => What::EndsGroup,
            _ => return,
        };
        self.calls.row(range.thread).push(NcclCall { start: range.start, end: range.end, what });
        self.count += 1;
    }

    pub(super) fn operation(&mut self, operation: &Operation<'_>, label: impl FnOnce(&str) -> u32) {
        if self.calls.is_empty() {
            return;
        }
        let &Operation { start, launch, .. } = operation;
        let end = operation.end.max(start);
        let label = operation.path.last().map_or(NO_RANGE, |span| label(span));
        let pending = self.pending.row(operation.device);
        let name = if operation.kernel.is_empty() { operation.symbol } else { operation.kernel };
        match collective(name).filter(|_| matches!(operation.work, Work::Kernel(_))) {
            Some(name) => pending.kernels.push(CollectiveKernel { start, end, label, name: name.to_owned(), launch }),
            None => pending.work.push(Span { start, end, part: (label, State::Work) }),
        }
        self.count += 1;
    }

    pub(super) fn idle(&mut self, device: u32, [start, end]: [u64; 2], label: u32, cause: IdleCause) {
        if !self.calls.is_empty() {
            self.pending.row(device).idle.push(Span { start, end, part: (label, State::Idle(cause)) });
            self.count += 1;
        }
    }

    /// A window begins: what ended before is no longer listed, but counts.
    pub(super) fn restart(&mut self, at: u64) {
        self.window = at;
        self.unknown = 0;
        for communicator in self.communicators.values_mut() {
            communicator.earlier += communicator.listed.len() as u64;
            communicator.listed.clear();
        }
    }

    /// Judges what began before a moment, up to which all is known; `waiting` is the start of the first idle time that
    /// has no range yet.
    pub(super) fn judge(&mut self, until: u64, waiting: Option<u64>) {
        let is_full = self.count > MOST_PENDING;
        let until = waiting.filter(|_| !is_full).map_or(until, |waiting| until.min(waiting));
        // What runs beside a kernel is known once the kernel has ended.
        let kernels = self.pending.values().flat_map(|pending| &pending.kernels);
        let running = kernels.filter(|kernel| kernel.end >= until).map(|kernel| kernel.start).min();
        let until = running.map_or(until, |start| until.min(start));
        if self.calls.is_empty() || until <= self.judged {
            return;
        }
        self.calls.values_mut().for_each(|calls| order::by_key(calls, |call| (call.start, call.end)));
        for device in self.pending.keys().copied().in_vec() {
            let Some(mut pending) = self.pending.remove(&device) else { continue };
            self.judge_device(device, until, &mut pending);
            if !(pending.kernels.is_empty() && pending.work.is_empty() && pending.idle.is_empty()) {
                self.pending.insert(device, pending);
            }
        }
        self.judged = until;
        let unlaunched = self.pending.values().flat_map(|pending| &pending.kernels);
        let first = unlaunched.filter_map(|kernel| kernel.launch).map(|(_, at)| at).min().unwrap_or(until).min(until);
        // The earliest launch still needs the calls of its group.
        for calls in self.calls.values_mut() {
            let past = calls.partition_point(|call| call.end < first);
            let (mut depth, mut kept) = (0_usize, 0);
            for (at, call) in calls.iter().take(past).enumerate() {
                kept = if depth == 0 { at } else { kept };
                match call.what {
                    What::BeginsGroup => depth += 1,
                    What::EndsGroup => depth = depth.saturating_sub(1),
                    What::Operation(_) => {}
                }
                kept = if depth == 0 { at + 1 } else { kept };
            }
            calls.drain(..kept);
            let most = calls.len().saturating_sub(MOST_PENDING);
            calls.drain(..most);
        }
        let of_device = |pending: &Pending| pending.kernels.len() + pending.work.len() + pending.idle.len();
        self.count =
            self.pending.values().map(of_device).sum::<usize>() + self.calls.values().map(Vec::len).sum::<usize>();
    }

    fn judge_device(&mut self, device: u32, until: u64, pending: &mut Pending) {
        let (mut kernels, later) = std::mem::take(&mut pending.kernels).into_iter().partition(|it| it.start < until);
        pending.kernels = later;
        order::by_key(&mut kernels, |kernel: &CollectiveKernel| kernel.start);
        let work = parts(&mut pending.work);
        let mut collective = kernels
            .iter()
            .map(|kernel| Span { start: kernel.start, end: kernel.end, part: (kernel.label, State::Collective) })
            .in_vec();
        let mut all = without(&parts(&mut collective), &work);
        all.extend(&work);
        all.extend(&pending.idle);
        order::by_key(&mut all, |span| span.start);
        for kernel in kernels {
            let Some(id) = self.communicator(device, &kernel) else {
                self.unknown += u64::from(kernel.start >= self.window);
                continue;
            };
            let from = self.judged;
            let window = self.window;
            let is_first = !self.communicators.contains_key(&id);
            let communicator = self.communicators.row_or(id, || Communicator { device, ..Communicator::default() });
            if !is_first {
                communicator.add(&all, [from, kernel.start]);
            }
            let before = longest(std::mem::take(&mut communicator.since));
            (communicator.start, communicator.end) = (kernel.start, communicator.end.max(kernel.end));
            let alone = (kernel.end - kernel.start).saturating_sub(overlap(&work, [kernel.start, kernel.end]));
            let CollectiveKernel { name, start, end, .. } = kernel;
            if start < window {
                communicator.earlier += 1;
                continue;
            }
            communicator.listed.push_back(ListedOperation { name, start, end, alone, before });
            if communicator.listed.len() > MOST_LISTED {
                communicator.listed.pop_front();
                communicator.earlier += 1;
            }
        }
        for communicator in self.communicators.values_mut().filter(|it| it.device == device) {
            communicator.add(&all, [self.judged, until]);
        }
        pending.work.retain(|span| span.end > until);
        pending.idle.retain(|span| span.end > until);
    }

    /// The communicator of a kernel, if its launch tells it.
    fn communicator(&self, device: u32, kernel: &CollectiveKernel) -> Option<u64> {
        let (thread, at) = kernel.launch?;
        let calls = self.calls.get(&thread)?;
        let begun = calls.get(..calls.partition_point(|call| call.start <= at))?;
        // Calls nest: the innermost one that is open is the last that began and has not ended.
        let back = begun.len().saturating_sub(MOST_BACK);
        let begun = begun.get(back..)?;
        let open = begun.iter().rposition(|call| call.end >= at)?;
        let id = match begun.get(open)?.what {
            What::Operation(id) => id,
            What::EndsGroup => of_group(begun.get(..open)?)?,
            What::BeginsGroup => return None,
        };
        let known = self.communicators.get(&id);
        let has_room = known.is_some() || self.communicators.len() < MOST_COMMUNICATORS;
        // One with ranks on several devices of this process has several operations of each number.
        (has_room && known.is_none_or(|known| known.device == device) && id != 0).then_some(id)
    }

    /// A row for each communicator.
    pub(super) fn rows(&mut self, labels: &Keyed<u32, (Option<String>, String)>) -> Vec<CommunicatorStats> {
        let mut rows = Vec::new();
        for (&id, communicator) in self.communicators.iter() {
            let mut row = CommunicatorStats::default();
            (row.id, row.earlier) = (id, communicator.earlier);
            let (mut names, mut parts) = (Keyed::default(), Keyed::default());
            for listed in &communicator.listed {
                row.name.push(place(&mut names, listed.name.clone()));
                row.start_ns.push(listed.start);
                row.time_ns.push(listed.end - listed.start);
                row.alone_ns.push(listed.alone);
                row.before.push(listed.before.iter().map(|&(part, ns)| (place(&mut parts, part), ns)).in_vec());
            }
            row.names = in_places(names);
            let of_label = |number| labels.get(&number).and_then(|(domain, name)| label(domain.as_deref(), name));
            let part = |(number, state): Part| {
                let mut part = RangeState::default();
                (part.range, part.state) = (of_label(number), state.name().to_owned());
                part
            };
            row.parts = in_places(parts).into_iter().map(part).in_vec();
            rows.push(row);
        }
        if self.unknown > 0 {
            let mut row = CommunicatorStats::default();
            row.earlier = self.unknown;
            rows.push(row);
        }
        rows
    }
}

impl Communicator {
    /// Adds what the device did between two moments, since the last operation.
    fn add(&mut self, all: &[Span], [from, to]: [u64; 2]) {
        let from = from.max(self.start);
        let first = all.partition_point(|span| span.end <= from); // they do not overlap
        for span in all.get(first..).into_iter().flatten().take_while(|span| span.start < to) {
            let from = if span.part.1 == State::Work { from } else { from.max(self.end) };
            let ns = span.end.min(to).saturating_sub(span.start.max(from));
            if ns > 0 {
                *self.since.row(span.part) += ns;
            }
        }
    }
}

/// The communicator of the group that ends behind these calls, if all calls in it have the same.
fn of_group(calls: &[NcclCall]) -> Option<u64> {
    let (mut depth, mut id) = (1_usize, None);
    for call in calls.iter().rev() {
        match call.what {
            What::Operation(own) if id.is_none_or(|id| id == own) => id = Some(own),
            What::Operation(_) => return None,
            What::EndsGroup => depth += 1,
            What::BeginsGroup => depth -= 1,
        }
        if depth == 0 {
            return id;
        }
    }
    None
}

/// The longest parts, and the rest by state without ranges.
fn longest(since: Keyed<Part, u64>) -> Vec<(Part, u64)> {
    let mut parts = since.into_iter().in_vec();
    order::by_most(&mut parts, |(_, ns)| *ns);
    let rest = parts.split_off(MOST_PARTS.min(parts.len()));
    for ((_, state), ns) in rest {
        let part = (NO_RANGE, state);
        match parts.iter_mut().find(|(known, _)| *known == part) {
            Some((_, sum)) => *sum += ns,
            None => parts.push((part, ns)),
        }
    }
    parts
}

/// The number of a key, from 0 on in the order in which they come.
fn place<K: Eq + std::hash::Hash>(places: &mut Keyed<K, u32>, key: K) -> u32 {
    let next = places.len() as u32;
    *places.row_or(key, || next)
}

/// The keys in the order of their numbers.
fn in_places<K: Ord + Eq + std::hash::Hash>(places: Keyed<K, u32>) -> Vec<K> {
    let mut all = places.into_iter().in_vec();
    order::by_key(&mut all, |(_, place)| *place);
    all.into_iter().map(|(key, _)| key).in_vec()
}

/// The spans without overlaps, in order: what began first has the time.
fn parts(spans: &mut [Span]) -> Vec<Span> {
    order::by_key(spans, |span| span.start);
    let (mut parts, mut known) = (Vec::new(), 0);
    for span in spans.iter() {
        let start = span.start.max(known);
        if start < span.end {
            parts.push(Span { start, ..*span });
            known = span.end;
        }
    }
    parts
}

/// The parts of `spans` in which there is none of `others`. Neither list overlaps itself.
fn without(spans: &[Span], others: &[Span]) -> Vec<Span> {
    let mut left = Vec::new();
    for span in spans {
        let mut start = span.start;
        let first = others.partition_point(|other| other.end <= span.start);
        for other in others.get(first..).into_iter().flatten().take_while(|other| other.start < span.end) {
            if start < other.start {
                left.push(Span { start, end: other.start, ..*span });
            }
            start = other.end;
        }
        if start < span.end {
            left.push(Span { start, ..*span });
        }
    }
    left
}

/// For how long any of these spans, which do not overlap, lies between two moments.
fn overlap(spans: &[Span], [from, to]: [u64; 2]) -> u64 {
    let first = spans.partition_point(|span| span.end <= from);
    let its = spans.get(first..).into_iter().flatten().take_while(|span| span.start < to);
    its.fold(0, |sum, span| sum + (span.end.min(to) - span.start.max(from)))
}

#[cfg(test)]
mod tests {
    use range_model::RangeStyle;
    use range_model::timeline::Kernel;

    use super::*;

    const LABELS: [&str; 3] = ["prepare", "forward", "NCCL:ncclAllReduce"];

    fn call(name: &str, [start, end]: [u64; 2], communicator: Option<u64>) -> Made {
        Made { name: name.to_owned(), start, end, communicator }
    }

    struct Made {
        name: String,
        start: u64,
        end: u64,
        communicator: Option<u64>,
    }

    impl Made {
        fn give(&self, collectives: &mut Collectives) {
            let fields = self.communicator.map(|id| [(COMMUNICATOR, Value::Unsigned(id))]);
            let fields = fields.as_ref().map_or(&[][..], |fields| fields);
            let (domain, style) = (Some(DOMAIN), RangeStyle::PushPop);
            let &Self { start, end, ref name, .. } = self;
            collectives.range(&Range { thread: 1, start, end, name, domain, style, fields, ..Range::default() });
        }
    }

    fn ran(collectives: &mut Collectives, kernel: &str, [start, end]: [u64; 2], launched: u64, label: usize) {
        let path = [LABELS[label].to_owned()];
        let (launch, work) = (Some((1, launched)), Work::Kernel(Kernel::default()));
        let operation = Operation { start, end, kernel, launch, work, path: &path, ..Operation::default() };
        collectives.operation(&operation, |_| label as u32);
    }

    const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

    fn rows(mut collectives: Collectives) -> Vec<CommunicatorStats> {
        collectives.judge(u64::MAX, None);
        rows_of(&mut collectives)
    }

    fn rows_of(collectives: &mut Collectives) -> Vec<CommunicatorStats> {
        let mut labels = Keyed::default();
        for (number, label) in (0..).zip(LABELS) {
            *labels.row(number) = (None, label.to_owned());
        }
        collectives.rows(&labels)
    }

    /// What is listed of a communicator: starts, and the parts before each.
    fn told(row: &CommunicatorStats) -> Vec<(u64, Vec<String>)> {
        let part = |&(part, ns): &(u32, u64)| {
            let RangeState { range, state, .. } = &row.parts[part as usize];
            format!("{} {state} {}", range.as_deref().unwrap_or("-"), ns / 1_000)
        };
        row.start_ns.iter().copied().zip(row.before.iter().map(|its| its.iter().map(part).collect())).collect()
    }

    /// Times in microseconds, as in these tests below.
    fn us(times: [u64; 2]) -> [u64; 2] {
        times.map(|us| us * 1_000)
    }

    #[test]
    fn the_time_before_an_operation_is_told_by_range_and_state() {
        let mut all = Collectives::default();
        for at in [0, 1_000] {
            call("ncclAllReduce", us([at + 190, at + 210]), Some(7)).give(&mut all);
            ran(&mut all, "gemm", us([at + 100, at + 180]), 90, 1);
            ran(&mut all, REDUCE, us([at + 200, at + 300]), (at + 200) * 1_000, 2);
            ran(&mut all, "gemm", us([at + 280, at + 330]), 90, 1); // beside it for 20 us
            all.idle(0, us([at + 30, at + 100]), 0, IdleCause::Host);
            all.idle(0, us([at + 180, at + 200]), NO_RANGE, IdleCause::Launching);
        }
        all.idle(0, us([330, 1_030]), 0, IdleCause::Host);
        let rows = rows(all);
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((row.id, row.earlier, &*row.names[0], &row.name[..]), (7, 0, "AllReduce", &[0, 0][..]));
        assert_eq!((&row.time_ns[..], &row.alone_ns[..]), (&[100_000; 2][..], &[80_000; 2][..]));
        let second = ["prepare host code 770", "forward GPU work 130", "- launching 20"];
        let second = second.map(str::to_owned).to_vec();
        assert_eq!(told(row), [(200_000, Vec::new()), (1_200_000, second)], "nothing is before the first");
    }

    /// However often what is known is judged meanwhile, and where an idle time waits for its range.
    #[test]
    fn judging_in_parts_changes_nothing() {
        let program = |judged: &[(u64, Option<u64>)]| {
            let mut all = Collectives::default();
            let mut moments = judged.iter();
            for at in (0..4_000).step_by(500) {
                call("ncclAllReduce", us([at + 190, at + 210]), Some(7 + at / 500 % 2)).give(&mut all);
                ran(&mut all, "gemm", us([at + 100, at + 180]), 90, 1);
                ran(&mut all, REDUCE, us([at + 200, at + 300]), (at + 200) * 1_000, 2);
                all.idle(0, us([at + 300, at + 600]), 0, IdleCause::Host);
                if let Some(&(until, waiting)) = moments.next() {
                    all.judge(until * 1_000, waiting.map(|us| us * 1_000));
                }
            }
            rows(all)
        };
        let whole = program(&[]);
        let before: Vec<String> = told(&whole[0])[1].1.clone();
        assert_eq!(before, ["prepare host code 600", "forward GPU work 160", "NCCL:ncclAllReduce collectives 100"]);
        assert_eq!(program(&[(250, None), (600, None), (1_250, None), (1_700, None), (2_300, None)]), whole);
        assert_eq!(program(&[(550, Some(100)), (1_100, Some(320)), (1_600, Some(320)), (2_050, None)]), whole);
    }

    #[test]
    fn a_kernel_of_a_group_is_of_the_communicator_that_all_its_calls_have() {
        let group = |calls: &[(&str, u64)]| {
            let mut all = Collectives::default();
            call("ncclAllReduce", us([10, 20]), Some(5)).give(&mut all); // before the group
            call("ncclGroupStart", us([30, 31]), None).give(&mut all);
            let mut at = 40;
            for &(name, id) in calls {
                call(name, us([at, at + 1]), (id > 0).then_some(id)).give(&mut all);
                at += 10;
            }
            call("ncclGroupEnd", us([200, 300]), None).give(&mut all);
            ran(&mut all, REDUCE, us([400, 500]), 250_000, 2);
            rows(all).iter().map(|row| (row.id, row.earlier, row.start_ns.len())).collect::<Vec<_>>()
        };
        assert_eq!(group(&[("ncclAllReduce", 7), ("ncclAllReduce", 7)]), [(7, 0, 1)]);
        let nested = [("ncclGroupStart", 0), ("ncclAllReduce", 7), ("ncclGroupEnd", 0)];
        assert_eq!(group(&nested), [(7, 0, 1)]);
        assert_eq!(group(&[("ncclAllReduce", 7), ("ncclAllReduce", 8)]), [(0, 1, 0)], "two communicators");
        let mut late = Collectives::default();
        call("ncclAllReduce", us([10, 20]), Some(5)).give(&mut late);
        ran(&mut late, REDUCE, us([30, 40]), 25_000, 2);
        let rows = rows(late);
        assert_eq!((rows.len(), rows[0].id, rows[0].earlier), (1, 0, 1), "launched in no call");
    }

    /// As where PyTorch coalesces operations of several communicators.
    #[test]
    fn groups_in_a_group_are_one() {
        let nested = |ids: [u64; 2], judged: Option<u64>| {
            let mut all = Collectives::default();
            call("ncclGroupStart", us([30, 31]), None).give(&mut all);
            for (at, id) in [(40, ids[0]), (50, ids[1])] {
                call("ncclGroupStart", us([at, at + 1]), None).give(&mut all);
                call("ncclAllReduce", us([at + 2, at + 3]), Some(id)).give(&mut all);
                call("ncclGroupEnd", us([at + 4, at + 5]), None).give(&mut all);
            }
            if let Some(moment) = judged {
                all.judge(moment * 1_000, None);
            }
            call("ncclGroupEnd", us([200, 300]), None).give(&mut all);
            ran(&mut all, REDUCE, us([400, 500]), 250_000, 2);
            ran(&mut all, REDUCE, us([501, 600]), 251_000, 2);
            rows(all).iter().map(|row| (row.id, row.earlier, row.start_ns.len())).collect::<Vec<_>>()
        };
        for judged in [None, Some(48), Some(60), Some(150)] {
            assert_eq!(nested([7, 7], judged), [(7, 0, 2)], "{judged:?}");
            assert_eq!(nested([7, 8], judged), [(0, 2, 0)], "{judged:?}");
        }
    }

    #[test]
    fn six_parts_are_told_by_range_and_the_rest_by_state() {
        let parts = |numbers: &[u32]| {
            let mut since = Keyed::default();
            for &number in numbers {
                since.insert((number, State::Work), u64::from(100 - number));
            }
            since.insert((9, State::Idle(IdleCause::Host)), 1);
            longest(since).into_iter().map(|((label, state), ns)| (label, state.name(), ns)).collect::<Vec<_>>()
        };
        let six: Vec<_> = (0..6).map(|label| (label, "GPU work", u64::from(100 - label))).collect();
        let rest = [(NO_RANGE, "GPU work", 94 + 93), (NO_RANGE, "host code", 1)];
        assert_eq!(parts(&[7, 6, 5, 4, 3, 2, 1, 0]), [&six[..], &rest].concat());
        assert_eq!(parts(&[0]), [(0, "GPU work", 100), (9, "host code", 1)]);
    }

    #[test]
    fn a_window_and_a_long_run_list_the_last_and_count_the_others() {
        let mut all = Collectives::default();
        let one = |all: &mut Collectives, at: u64| {
            call("ncclAllReduce", us([at, at + 1]), Some(7)).give(all);
            ran(all, REDUCE, us([at, at + 2]), at * 1_000, 2);
        };
        (0..3).for_each(|number| one(&mut all, 10 * number));
        all.judge(25_000, None);
        all.restart(25_000);
        (3..5).for_each(|number| one(&mut all, 10 * number));
        all.judge(u64::MAX, None);
        let row = rows_of(&mut all).remove(0);
        assert_eq!((row.earlier, &row.start_ns[..]), (3, &[30_000, 40_000][..]));
        let mut many = Collectives::default();
        (0..MOST_LISTED as u64 + 3).for_each(|number| one(&mut many, 10 * number));
        let row = rows(many).remove(0);
        assert_eq!((row.earlier, row.start_ns.len(), row.start_ns[0]), (3, MOST_LISTED, 30_000));
    }

    #[test]
    fn a_communicator_with_two_devices_in_a_process_is_not_known() {
        let mut all = Collectives::default();
        for device in 0..2_u32 {
            let at = 10 * u64::from(device);
            call("ncclAllReduce", us([at, at + 1]), Some(7)).give(&mut all);
            let (launch, kernel) = (Some((1, at * 1_000)), REDUCE);
            let [start, end] = us([at, at + 2]);
            all.operation(&Operation { device, start, end, kernel, launch, ..Operation::default() }, |_| 0);
        }
        let found: Vec<_> = rows(all).iter().map(|row| (row.id, row.earlier, row.start_ns.len())).collect();
        assert_eq!(found, [(7, 0, 1), (0, 1, 0)]);
    }
}
