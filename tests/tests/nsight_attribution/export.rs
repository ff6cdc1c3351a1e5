//! Reads a recording of Nsight Systems, exported to SQLite, and passes it to our attribution like the live profiler: by
//! the stack of each thread.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use gpu_activity::join::{Context, Join, Limits};
use gpu_activity::record::{GpuOp, Instance, Note};
use range_model::timeline::{Kernel, Memory, Work};
use rusqlite::{Connection, OpenFlags, Row};
use tracing_gpu::summary::{MemoryKind, RangeStyle};

use crate::tables::{Figures, Key, figures};

/// The number of drains.
const DRAINS: u64 = 16;

/// The data that is read from a recording of one process.
pub(crate) struct Recording {
    ranges: Vec<Range>,
    calls: Vec<Call>,
    operations: Vec<GpuOp>,
    strings: HashMap<i64, String>,
}

struct Range {
    thread: u32,
    name: String,
    style: RangeStyle,
    start: u64,
    end: u64,
    /// Whether it ended on another thread.
    left: bool,
}

struct Call {
    thread: u32,
    correlation: u32,
    start: u64,
    end: u64,
    graph: bool,
}

/// The rows of our tables of projections and of kernels by range.
pub(crate) struct Totals {
    pub(crate) projections: BTreeMap<Key, Figures>,
    pub(crate) kernels: BTreeMap<Key, Figures>,
}

impl Recording {
    pub(crate) fn read(path: &Path) -> Self {
        let file = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let strings = query(&file, "SELECT id, value FROM StringIds", |row| (get(row, 0), get(row, 1)));
        let mut operations = Vec::new();
        for (kind, what) in [("KERNEL", "demangledName, 0"), ("MEMCPY", "bytes, copyKind"), ("MEMSET", "bytes, -1")] {
            let table = format!("CUPTI_ACTIVITY_KIND_{kind}");
            if exists(&file, &table) {
                let select =
                    format!("SELECT start, end, correlationId, deviceId, streamId, globalPid, {what} FROM {table}");
                operations.extend(query(&file, &select, |row| (get::<Option<i64>>(row, 5), operation(row, kind))));
            }
        }
        let processes: HashSet<_> = operations.iter().map(|(process, _)| *process).collect();
        assert_eq!(processes.len(), 1, "a recording of one process is expected");
        let calls = "SELECT globalTid, correlationId, start, end, value FROM CUPTI_ACTIVITY_KIND_RUNTIME
                     LEFT JOIN StringIds ON id = nameId WHERE correlationId IS NOT NULL";
        let call = |row: &Row<'_>| {
            let graph = get::<Option<String>>(row, 4).is_some_and(|name| name.contains("GraphLaunch"));
            Call { thread: thread(row), correlation: get(row, 1), start: get(row, 2), end: get(row, 3), graph }
        };
        Self {
            ranges: ranges(&file),
            calls: query(&file, calls, call),
            operations: operations.into_iter().map(|(_, operation)| operation).collect(),
            strings: strings.into_iter().collect(),
        }
    }

    /// Passes it to our attribution, in several drains, and returns the totals.
    pub(crate) fn attribute(&self) -> Totals {
        let (labels, notes) = self.notes();
        let last = notes.iter().map(|note| note.0).chain(self.operations.iter().map(|op| op.end)).max().unwrap_or(0);
        let called: HashMap<u32, u64> = self.calls.iter().map(|call| (call.correlation, call.end)).collect();
        let known = |op: &GpuOp| op.end.max(called.get(&op.correlation).copied().unwrap_or(0));
        let context = Context { parents: &[0], keep: &|_| true };
        let mut all = Join::new(Limits { launches: 1 << 24, nodes: 0, calls: 0, has_calls: false, instances: 1 << 24 });
        for drain in 0..DRAINS {
            let (from, to) =
                (last / DRAINS * drain, if drain + 1 == DRAINS { last + 1 } else { last / DRAINS * (drain + 1) });
            for (_, thread, note) in notes.iter().filter(|note| (from..to).contains(&note.0)) {
                all.note(*thread, note);
            }
            for op in self.operations.iter().filter(|op| (from..to).contains(&known(op))) {
                all.operation(op, true, &context);
            }
            all.drained(&context, 1);
        }
        let totals = all.totals(last);
        let range = |(label, style): (u32, RangeStyle)| (labels[label as usize].clone(), style);
        let projections = totals.projections.iter().map(|(&key, row)| {
            let of = |sum: u64| sum as f64 / row.projected.count as f64;
            let means = [of(row.operations), of(row.level_sum), of(row.children_sum)];
            let before = [row.range_total, row.projected.count.into()];
            let figures = figures(&before, &row.projected, &[row.operations.into()], &means);
            ((Some(range(key)), 0, String::new()), figures)
        });
        let kernels = totals.range_kernels.iter().map(|(&(thread, key, kernel), row)| {
            let before = [row.range_instances.into(), row.kernel_instances.into()];
            let kernel = self.strings.get(&kernel.into()).cloned().unwrap_or_default();
            ((key.map(range), thread, kernel), figures(&before, &row.times, &[], &[]))
        });
        Totals { projections: projections.collect(), kernels: kernels.collect() }
    }

    /// The notes of all threads with their times, in order, and the names of labels. Only ranges that are open at a
    /// call matter: the innermost one on the stack, and the thread's start/end ranges. A call is noted at its end. So a
    /// call that straddles the end of a range counts only for the ranges around it; a live program has no such calls.
    fn notes(&self) -> (Vec<String>, Vec<(u64, u32, Note)>) {
        #[derive(PartialEq, Eq, PartialOrd, Ord)]
        enum What {
            Opens(usize),
            Calls(usize),
            Closes(usize),
        }
        // At the same moment, outer ranges open first and close last.
        let mut events: Vec<(u32, u64, u8, u64, What)> = Vec::new();
        for (at, range) in self.ranges.iter().enumerate() {
            events.push((range.thread, range.start, 0, u64::MAX - range.end, What::Opens(at)));
            events.push((range.thread, range.end, 2, u64::MAX - range.start, What::Closes(at)));
        }
        for (at, call) in self.calls.iter().enumerate() {
            events.push((call.thread, call.end, 1, call.start, What::Calls(at)));
        }
        events.sort_unstable();
        let mut labels = Labels::default();
        let (mut notes, mut begun) = (Vec::new(), HashSet::new());
        let (mut stack, mut lifetimes) = (Vec::<usize>::new(), Vec::<usize>::new());
        let enqueues: HashSet<u32> = self.operations.iter().map(|op| op.correlation).collect();
        let mut begin =
            |notes: &mut Vec<(u64, u32, Note)>, at: usize, now: u64, parent: u64, begun: &mut HashSet<usize>| {
                let Range { thread, style, start, name, .. } = &self.ranges[at];
                if begun.insert(at) {
                    let (id, label) = (id(at), labels.number(name));
                    let instance = Instance { id, parent, label, style: *style, start: *start };
                    notes.push((now, *thread, Note::Began(instance)));
                }
            };
        for (thread, now, _, _, what) in events {
            match what {
                What::Opens(at) if self.ranges[at].style == RangeStyle::PushPop => stack.push(at),
                What::Opens(at) => lifetimes.push(at),
                What::Closes(at) => {
                    stack.retain(|&open| open != at);
                    lifetimes.retain(|&open| open != at);
                    if begun.contains(&at) {
                        let (left, instance) = (self.ranges[at].left, id(at));
                        let note = if left { Note::Left { instance } } else { Note::Ended { instance, end: now } };
                        notes.push((now, thread, note));
                    }
                }
                What::Calls(at) => {
                    let Call { correlation, start, graph, .. } = self.calls[at];
                    let around = |open: &&usize| self.ranges[**open].start <= start;
                    let enqueues = enqueues.contains(&correlation);
                    let mut instance = 0;
                    let mut outermost_first: Vec<usize> = stack.iter().chain(&lifetimes).copied().collect();
                    outermost_first.sort_by_key(|&open| (self.ranges[open].start, u64::MAX - self.ranges[open].end));
                    for open in outermost_first.into_iter().filter(|open| around(&open)) {
                        begin(&mut notes, open, now, instance, &mut begun);
                        if self.ranges[open].style == RangeStyle::PushPop {
                            instance = id(open);
                        }
                    }
                    notes.push((
                        now,
                        thread,
                        Note::Called { correlation, node: 0, instance, graph, at: 0, call: 0, enqueues },
                    ));
                }
            }
        }
        (labels.names, notes)
    }
}

#[derive(Default)]
struct Labels {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Labels {
    fn number(&mut self, name: &str) -> u32 {
        *self.numbers.entry(name.to_owned()).or_insert_with(|| {
            self.names.push(name.to_owned());
            self.names.len() as u32 - 1
        })
    }
}

fn id(at: usize) -> u64 {
    at as u64 + 1
}

/// Ranges by their displayed name. One that was open at the end ends with the last timestamp.
fn ranges(file: &Connection) -> Vec<Range> {
    let select = "SELECT event.globalTid, event.start, coalesce(event.end, (SELECT max(max(start, coalesce(end, start))) FROM NVTX_EVENTS)),
            event.eventType, domain.text, coalesce(string.value, event.text, ''), event.endGlobalTid IS NOT NULL
        FROM NVTX_EVENTS AS event LEFT JOIN StringIds AS string ON string.id = event.textId
            LEFT JOIN NVTX_EVENTS AS domain ON domain.eventType = 75 AND domain.domainId = event.domainId
                AND (domain.globalTid & 0x0000FFFFFF000000) = (event.globalTid & 0x0000FFFFFF000000)
        WHERE event.eventType IN (59, 60, 70, 71)";
    query(file, select, |row| {
        let (domain, text): (Option<String>, String) = (get(row, 4), get(row, 5));
        let style = if matches!(get::<u32>(row, 3), 59 | 70) { RangeStyle::PushPop } else { RangeStyle::StartEnd };
        let name = domain.map_or_else(|| text.clone(), |domain| format!("{domain}:{text}"));
        Range { thread: thread(row), name, style, start: get(row, 1), end: get(row, 2), left: get(row, 6) }
    })
}

fn operation(row: &Row<'_>, kind: &str) -> GpuOp {
    const KINDS: [MemoryKind; 11] = [
        MemoryKind::Unknown,
        MemoryKind::HtoD,
        MemoryKind::DtoH,
        MemoryKind::HtoA,
        MemoryKind::AtoH,
        MemoryKind::AtoA,
        MemoryKind::AtoD,
        MemoryKind::DtoA,
        MemoryKind::DtoD,
        MemoryKind::HtoH,
        MemoryKind::PtoP,
    ];
    let work = if kind == "KERNEL" {
        Work::Kernel(Kernel { name: get(row, 6), ..Kernel::default() })
    } else {
        let copy = usize::try_from(get::<i64>(row, 7))
            .ok()
            .map(|kind| KINDS.get(kind).copied().unwrap_or(MemoryKind::Unknown));
        Work::Memory(Memory {
            kind: copy.unwrap_or(MemoryKind::Set),
            bytes: get(row, 6),
            source: 0,
            destination: 0,
            value: 0,
        })
    };
    let (start, end, device, stream) = (get(row, 0), get(row, 1), get(row, 3), get(row, 4));
    GpuOp {
        start,
        end,
        correlation: get::<Option<u32>>(row, 2).unwrap_or(0),
        device,
        context: 0,
        stream,
        graph_node: 0,
        work,
    }
}

/// The thread number from a serialised id in the first column.
fn thread(row: &Row<'_>) -> u32 {
    (get::<i64>(row, 0) & 0xFF_FFFF) as u32
}

fn get<T: rusqlite::types::FromSql>(row: &Row<'_>, at: usize) -> T {
    row.get(at).unwrap_or_else(|error| panic!("column {at}: {error}"))
}

fn exists(file: &Connection, table: &str) -> bool {
    file.table_exists(None, table).unwrap_or_else(|error| panic!("{table}: {error}"))
}

fn query<T>(file: &Connection, select: &str, read: impl Fn(&Row<'_>) -> T) -> Vec<T> {
    let mut statement = file.prepare(select).unwrap_or_else(|error| panic!("{select}: {error}"));
    let rows = statement.query_map([], |row| Ok(read(row))).unwrap_or_else(|error| panic!("{select}: {error}"));
    rows.map(|row| row.unwrap_or_else(|error| panic!("{select}: {error}"))).collect()
}
