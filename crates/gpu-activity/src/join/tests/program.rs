//! Random programs: their truth, and the notes and records that the profiler gets, in random drains.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::*;

pub(super) struct Span {
    pub(super) id: u64,
    pub(super) thread: u32,
    pub(super) label: u32,
    pub(super) style: RangeStyle,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Whether it ended on another thread.
    pub(super) left: bool,
    /// The range on the stack around it; for a start/end range, around the moment of its note.
    pub(super) nested_in: Option<u64>,
}

pub(super) struct Launched {
    pub(super) thread: u32,
    pub(super) node: Option<u32>,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) enqueues: bool,
    pub(super) own: bool,
    pub(super) ops: Vec<GpuOp>,
}

/// A program that ran: the truth, and the profiler's notes and records in order.
#[derive(Default)]
pub(super) struct Program {
    pub(super) parents: Vec<u32>,
    pub(super) spans: Vec<Span>,
    pub(super) launched: Vec<Launched>,
    pub(super) notes: Vec<(u32, Note)>,
    /// Records, each with the number of its launch.
    pub(super) records: Vec<(usize, ApiCall)>,
    pub(super) now: u64,
    /// Number of instances that ended or began because an instance below them on the stack ended.
    pub(super) moves: u64,
}

pub(super) type Step = (u8, u32, u32, u32, u32);

pub(super) const NEVER: u64 = u64::MAX;

impl Program {
    pub(super) fn new(threads: &[Vec<Step>], parents: &[u32]) -> Self {
        let parents: Vec<u32> = (0u32..).zip(parents).map(|(node, parent)| parent % node.max(1)).collect();
        let mut program = Self { parents, ..Self::default() };
        let mut correlation = u32::MAX - 12; // ids wrap
        for (thread, steps) in (1..).zip(threads) {
            program.thread(thread, steps, &mut correlation);
        }
        program.now += 1;
        let now = program.now;
        program.spans.iter_mut().filter(|span| span.end == NEVER).for_each(|span| span.end = now);
        program
    }

    fn thread(&mut self, thread: u32, steps: &[Step], correlation: &mut u32) {
        let (mut stack, mut lifetimes) = (Vec::<usize>::new(), Vec::<usize>::new());
        let mut noted = BTreeMap::<usize, u64>::new();
        let mut time = 100 + u64::from(thread) * 7;
        // Half of the threads have mostly start/end ranges.
        let is_lively = steps.first().is_some_and(|step| step.1 % 2 == 0);
        for &(kind, a, b, c, d) in steps {
            let kind = match kind % 16 {
                0..=2 if is_lively => 7,
                4 | 5 if is_lively => 8,
                kind => kind,
            };
            time += 1 + u64::from(d % 5);
            let style = if kind == 7 { RangeStyle::StartEnd } else { RangeStyle::PushPop };
            match kind {
                0..=3 | 7 => {
                    let nested_in = stack.last().map(|&below| self.spans[below].id);
                    if style == RangeStyle::StartEnd {
                        lifetimes.push(self.spans.len());
                    } else {
                        stack.push(self.spans.len());
                    }
                    self.open(thread, a % 3, style, time, nested_in);
                }
                4..=6 | 8 => {
                    let ended = if kind == 6 && a % 2 == 0 && !stack.is_empty() {
                        let at = b as usize % stack.len();
                        self.split(thread, time, &mut stack[at..], &mut noted);
                        Some(stack.remove(at)) // those above belong to other domains
                    } else if kind != 8 {
                        stack.pop()
                    } else if lifetimes.is_empty() {
                        None
                    } else {
                        Some(lifetimes.remove(a as usize % lifetimes.len()))
                    };
                    if let Some(ended) = ended {
                        let span = &mut self.spans[ended];
                        (span.end, span.left) = (time, kind == 8 && b % 2 == 0);
                        if let Some(&instance) = noted.get(&ended) {
                            let is_end = Note::Ended { instance, end: time };
                            self.notes.push((thread, if span.left { Note::Left { instance } } else { is_end }));
                        }
                    }
                }
                _ => {
                    *correlation = correlation.wrapping_add(1 + c % 2);
                    let call = (time, time + u64::from(b % 9));
                    time = call.1;
                    self.launch(thread, *correlation, call, (a, b, c, d), &stack, &lifetimes, &mut noted);
                }
            }
        }
        self.now = self.now.max(time);
    }

    #[allow(clippy::too_many_arguments)]
    fn launch(
        &mut self,
        thread: u32,
        correlation: u32,
        (start, end): (u64, u64),
        (a, b, c, d): (u32, u32, u32, u32),
        stack: &[usize],
        lifetimes: &[usize],
        noted: &mut BTreeMap<usize, u64>,
    ) {
        let flavour = b % 8;
        let (own, enqueues, graph, is_noted) = (flavour == 7, flavour != 6, flavour == 5, d % 11 != 1);
        let node = is_noted.then_some(c % self.parents.len() as u32);
        if own && is_noted {
            self.notes.push((thread, Note::Own { correlation }));
        } else if let Some(node) = node {
            let open: BTreeSet<usize> = stack.iter().chain(lifetimes).copied().collect();
            for span in open {
                let below = stack.iter().rfind(|&&below| below < span);
                if self.spans[span].style == RangeStyle::StartEnd && !noted.contains_key(&span) {
                    self.spans[span].nested_in = below.map(|&below| self.spans[below].id);
                }
                self.begin(span, below.map_or(0, |&below| noted[&below]), noted);
            }
            let instance = stack.last().map_or(0, |span| noted[span]);
            if d % 4 == 1 {
                // Another driver call of the same call to the runtime, before the one that enqueues.
                self.notes.push((
                    thread,
                    Note::Called { correlation, node, instance, graph: false, at: 0, call: 0, enqueues: false },
                ));
            }
            self.notes.push((thread, Note::Called { correlation, node, instance, graph, at: 0, call: 0, enqueues }));
        }
        let count = if !enqueues || own {
            0
        } else if graph {
            1 + c % 4
        } else {
            c % 3
        };
        let ops = (0..count).map(|nth| operation(correlation, start, nth, flavour, (a, b, c, d))).collect();
        let of = self.launched.len();
        self.launched.push(Launched { thread, node, start, end, enqueues, own: own && is_noted, ops });
        let record = ApiCall { api: Api::Driver, function: b % 4, start, end, thread, correlation, result: 0 };
        self.records.push((of, record));
        if d % 3 == 0 && !own {
            self.records.push((of, ApiCall { api: Api::Runtime, function: 100 + b % 2, end: end + 1, ..record }));
        }
    }

    fn open(&mut self, thread: u32, label: u32, style: RangeStyle, start: u64, nested_in: Option<u64>) {
        let id = self.spans.len() as u64 + 1;
        self.spans.push(Span { id, thread, label, style, start, end: NEVER, left: false, nested_in });
    }

    /// The first of these ranges on the stack ends: those above it end and begin again.
    fn split(&mut self, thread: u32, time: u64, stack: &mut [usize], noted: &mut BTreeMap<usize, u64>) {
        let Some((&mut ended, above)) = stack.split_first_mut() else { return };
        let mut nested_in = self.spans[ended].nested_in;
        for &mut span in above.iter_mut().rev() {
            self.spans[span].end = time;
            if let Some(instance) = noted.remove(&span) {
                self.moves += 1;
                self.notes.push((thread, Note::Ended { instance, end: time }));
            }
        }
        for span in above {
            let label = self.spans[*span].label;
            *span = self.spans.len();
            self.open(thread, label, RangeStyle::PushPop, time, nested_in);
            nested_in = Some(self.spans[*span].id);
        }
    }

    fn begin(&mut self, span: usize, parent: u64, noted: &mut BTreeMap<usize, u64>) {
        let Span { id, thread, label, style, start, .. } = self.spans[span];
        if let std::collections::btree_map::Entry::Vacant(new) = noted.entry(span) {
            new.insert(id);
            self.notes.push((thread, Note::Began(Instance { id, parent, label, style, start })));
        }
    }
}

fn operation(correlation: u32, called: u64, nth: u32, flavour: u32, (a, b, c, d): (u32, u32, u32, u32)) -> GpuOp {
    let start = called + u64::from(d % 200) + u64::from(nth * (a % 40));
    let end = start + u64::from((b + nth) % 50);
    let work = match (flavour + nth * (flavour / 5)) % 8 {
        0..=3 | 5 => Work::Kernel(Kernel { name: (a + nth) % 4, ..Kernel::default() }),
        set => {
            let kind = [MemoryKind::HtoD, MemoryKind::Set][usize::from(set == 6)];
            Work::Memory(Memory { kind, bytes: u64::from(c) * 3, source: 1, destination: 3, value: 0 })
        }
    };
    let start = if d % 13 == 5 && nth == 0 { 0 } else { start };
    GpuOp { start, end, correlation, device: a % 3, context: 1, stream: b % 4, graph_node: 0, work }
}

/// Delivers everything in random drains: each thread's notes in order; each record after its note, in any order, some
/// drains later.
pub(super) fn delivered(program: &Program, dice: &[u8], peek: bool) -> Totals {
    let join = Join::new(Limits { launches: 10_000, nodes: 10_000, calls: 10_000, has_calls: true, instances: 10_000 });
    deliver(program, dice, peek, join).0
}

/// Delivers everything to the end. Returns the events, too.
pub(super) fn delivered_with_events(program: &Program, dice: &[u8]) -> (Totals, Vec<Event>) {
    let mut join =
        Join::new(Limits { launches: 10_000, nodes: 10_000, calls: 10_000, has_calls: true, instances: 10_000 });
    join.ask_for_events();
    let (totals, mut join) = deliver(program, dice, false, join);
    join.finish(&Context { parents: &program.parents, keep: &|_| true });
    assert_eq!(sorted(join.totals(program.now)), totals, "the end counts nothing more");
    (totals, join.take_events().collect())
}

fn deliver(program: &Program, dice: &[u8], peek: bool, mut join: Join) -> (Totals, Join) {
    enum Record<'a> {
        Op(&'a GpuOp),
        Call(&'a ApiCall),
    }
    let mut rolled = 0;
    let mut roll = |sides: u8| {
        rolled += 1;
        u32::from(
            dice[rolled % dice.len()].wrapping_mul(31).wrapping_add(((rolled / dice.len()) as u8).wrapping_mul(17))
                % sides,
        )
    };
    let (mut at, mut noted_in) = (BTreeMap::<u32, u32>::new(), BTreeMap::<u32, u32>::new());
    let mut notes: BTreeMap<u32, Vec<(u32, Note)>> = BTreeMap::new();
    for &(thread, note) in &program.notes {
        let drain = at.entry(thread).or_default();
        *drain += u32::from(roll(4) == 0);
        if let Note::Called { correlation, .. } | Note::Own { correlation } = note {
            noted_in.insert(correlation, *drain);
        }
        notes.entry(*drain).or_default().push((thread, note));
    }
    let mut events: Vec<(u32, u32, Record<'_>)> = Vec::new();
    let mut driver_in = BTreeMap::new();
    for (of, call) in &program.records {
        let noted = noted_in.get(&call.correlation).copied().unwrap_or(0);
        let drain = match driver_in.get(of) {
            None => noted + roll(8),
            Some(driver) => driver + roll(2),
        };
        driver_in.insert(*of, drain);
        events.push((drain, roll(255), Record::Call(call)));
    }
    for launched in &program.launched {
        let mut drain = None;
        for op in &launched.ops {
            let noted = noted_in.get(&op.correlation).copied().unwrap_or(0);
            let (earliest, spread) = drain.map_or((noted, 4), |last: u32| (last, 3));
            let drain = drain.insert(earliest + roll(spread));
            events.push((*drain, roll(255), Record::Op(op)));
        }
    }
    events.sort_by_key(|&(drain, order, _)| (drain, order));
    let context = Context { parents: &program.parents, keep: &|_| true };
    let last = events.last().map_or(0, |last| last.0).max(notes.keys().copied().max().unwrap_or(0));
    let mut events = events.into_iter().peekable();
    for drain in 0..=last {
        for (thread, note) in notes.remove(&drain).unwrap_or_default() {
            join.note(thread, &note);
        }
        while let Some((_, _, event)) = events.next_if(|event| event.0 == drain) {
            match event {
                Record::Op(op) => join.operation(op, true, &context),
                Record::Call(call) => join.call(call, true, &context),
            }
        }
        if peek {
            let _changes_nothing = join.totals(program.now);
        }
        if drain < last || !peek {
            join.drained(&context, u32::from(roll(3) > 0));
        }
    }
    for _ in 0..if peek { 0 } else { roll(6) } {
        join.drained(&context, 1);
    }
    (sorted(join.totals(program.now)), join)
}

pub(super) fn sorted(mut totals: Totals) -> Totals {
    let all = totals.kernels.values_mut().chain(totals.calls.values_mut());
    let all = all.chain(totals.memory.values_mut().flat_map(|(times, sizes)| [times, sizes]));
    let all = all.chain(totals.projections.values_mut().map(|row| &mut row.projected));
    all.chain(totals.range_kernels.values_mut().map(|row| &mut row.times)).for_each(|all| all.samples.sort_unstable());
    totals
}

pub(super) fn threads() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let step = (any::<u8>(), 0u32..1_000, 0u32..1_000, 0u32..1_000, 0u32..1_000);
    prop::collection::vec(prop::collection::vec(step, 0..40), 1..4)
}
