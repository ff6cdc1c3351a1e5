//! An invented server: requests wait for connections and for the GPU, on eight threads. All but a few are alike. The
//! page must find the reason why those few are slow.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use range_model::timeline::{Call, Ending, Item, Operation, Range, Sink, Value};
use range_page::HtmlSink;
use tests::with;
use tracing_gpu::Summary;
use tracing_gpu::summary::{CallStats, GpuActivity, KernelStats, Process, Quantile, RangeStats, Times};

use crate::invented::{PID, Run, kernel, node, times, work_of};

const WORKERS: u32 = 8;
const STREAM: u32 = 7;
const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// A step of a request: the names that are open during a poll, its length, and the following wait.
struct Poll {
    open: Vec<&'static str>,
    running: u64,
    then: Then,
}

enum Then {
    Wait(u64),
    Gpu(u64),
    Cancelled(u64),
    Done,
}

/// The request that waited for a connection, and the one whose kernel waited for others.
pub(crate) const SLOW_QUERY: usize = 7_777;
pub(crate) const SLOW_KERNEL: usize = 12_121;

pub(crate) struct Server {
    pub(crate) calls: Vec<Call<'static>>,
    pub(crate) ranges: Vec<Range<'static>>,
    pub(crate) operations: Vec<Operation<'static>>,
    numbers: u64,
}

impl Server {
    /// A server with this many requests, each with three or four waiting calls.
    pub(crate) fn of(requests: usize) -> Self {
        let mut server = Self { calls: Vec::new(), ranges: Vec::new(), operations: Vec::new(), numbers: 0 };
        server.serve(requests);
        server
    }

    fn serve(&mut self, requests: usize) {
        let mut random = Run::default();
        let mut free = [0_u64; WORKERS as usize];
        let mut gpu_free = 0;
        let mut ready: BinaryHeap<Reverse<(u64, usize, usize)>> = BinaryHeap::new();
        let mut at = MS;
        let mut made = Vec::with_capacity(requests);
        for number in 0..requests {
            at += random.about(82 * US);
            made.push((at, polls_of(number, &mut random), BTreeMap::<&str, (u64, u64, u64)>::new()));
            ready.push(Reverse((at, number, 0)));
        }
        while let Some(Reverse((time, number, index))) = ready.pop() {
            let worker = (0..free.len()).min_by_key(|worker| free[*worker].max(time)).unwrap_or_default();
            let start = time.max(free[worker]) + 2 * US;
            let (created, polls, open) = &mut made[number];
            let poll = &polls[index];
            let mut end = start;
            let mut path: Vec<(u64, u64, &'static str)> = Vec::new();
            let thread = 100 + worker as u32;
            // Waiting names stay open; the others are ranges inside this poll.
            for (depth, name) in poll.open.iter().enumerate() {
                let parent = path.last().map_or(0, |above| above.0);
                let began = start + depth as u64 * 700;
                let begun = if depth == 0 { *created } else { began };
                let numbers = &mut self.numbers;
                let (call, _, _) = open.entry(name).or_insert_with(|| {
                    *numbers += 1;
                    (*numbers, begun, parent)
                });
                path.push((*call, began, name));
            }
            end += poll.running + path.len() as u64 * 1_500;
            if matches!(poll.then, Then::Gpu(_)) {
                let launched = end - 2 * US;
                let Then::Gpu(length) = poll.then else { continue };
                let begins = gpu_free.max(launched + 5 * US);
                gpu_free = begins + length;
                let name = path.last().map_or("", |(_, _, name)| name);
                self.operations.push(Operation {
                    start: begins,
                    end: gpu_free,
                    device: 0,
                    context: 1,
                    stream: STREAM,
                    correlation: number as u32,
                    graph_node: 0,
                    work: kernel(256, 128),
                    kernel: if length > 100 * MS { "reindex(float*, int)" } else { "gemm(float*, float const*)" },
                    symbol: "k",
                    launch: Some((thread, launched)),
                    span: Some(name),
                    path: &[],
                    captured: &[],
                    call: path.last().map_or(0, |(call, ..)| *call),
                });
            }
            for (depth, (call, began, name)) in path.iter().enumerate().rev() {
                let (parent, span) = (if depth > 0 { path[depth - 1].0 } else { 0 }, *call);
                self.ranges.push(Range {
                    thread,
                    start: *began,
                    end: end - depth as u64 * 800,
                    name,
                    depth: depth as u32,
                    call: *call,
                    span,
                    parent,
                    ..Range::default()
                });
            }
            free[worker] = end;
            let until = match poll.then {
                Then::Wait(length) => end + length,
                Then::Gpu(_) => gpu_free + 3 * US,
                Then::Cancelled(length) => end + length,
                Then::Done => end,
            };
            let is_last = index + 1 == polls.len();
            let next: Vec<&str> = if is_last { Vec::new() } else { polls[index + 1].open.clone() };
            let cancelled = matches!(poll.then, Then::Cancelled(_));
            let ended: Vec<&'static str> = open
                .keys()
                .copied()
                .filter(|name| is_last || (!next.contains(name) && *name != poll.open[0]))
                .collect();
            for name in ended {
                let Some((call, began, parent)) = open.remove(name) else { continue };
                if name == "render" {
                    continue; // it equals its one range
                }
                let fields: &'static [(&'static str, Value<'static>)] = if name == poll.open[0] {
                    Box::leak(Box::new([("id", Value::Unsigned(number as u64)), ("tenant", Value::Text("acme"))]))
                } else {
                    &[]
                };
                // It ends when its last poll finds it ready.
                let end = if is_last { until } else { until + 4 * US };
                let ending = if cancelled { Ending::Cancelled } else { Ending::Closed };
                let (span, thread, domain) = (call, thread, None);
                self.calls.push(Call { call, span, parent, thread, start: began, end, domain, name, fields, ending });
            }
            if !is_last {
                ready.push(Reverse((until, number, index + 1)));
            }
        }
    }

    pub(crate) fn page(&self) -> Vec<u8> {
        let mut page = Vec::new();
        let mut sink = HtmlSink::new(&mut page);
        let summary = self.summary();
        sink.begin(&summary.process).expect("memory takes it");
        let mut put = |item: Item<'_>| sink.item(&item).expect("memory takes it");
        for worker in 0..WORKERS {
            put(Item::Thread { thread: 100 + worker, name: "tokio-runtime-worker" });
        }
        put(Item::Device { device: 0, name: "NVIDIA H200" });
        self.ranges.iter().for_each(|range| put(Item::Range(range.clone())));
        self.calls.iter().for_each(|call| put(Item::Call(call.clone())));
        self.operations.iter().for_each(|operation| put(Item::Operation(operation.clone())));
        sink.end(&summary, 0).expect("memory takes it");
        page
    }

    fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        summary.process = with(Process::default(), |it| {
            it.pid = PID;
            it.command = "target/release/orders --listen 0.0.0.0:3000".to_owned();
            it.host = "node07".to_owned();
        });
        summary.elapsed_ns = self.calls.iter().map(|call| call.end).max().unwrap_or(0) + MS;
        let mut ranges: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        self.ranges.iter().for_each(|range| ranges.entry(range.name).or_default().push(range.end - range.start));
        let mut calls: BTreeMap<&str, (Vec<u64>, u64)> = BTreeMap::new();
        for call in &self.calls {
            let (lengths, cancelled) = calls.entry(call.name).or_default();
            lengths.push(call.end - call.start);
            *cancelled += u64::from(call.ending == Ending::Cancelled);
        }
        let busy: BTreeMap<&str, u64> = ranges.iter().map(|(name, lengths)| (*name, lengths.iter().sum())).collect();
        for (path, awaited_self) in PATHS {
            let name = path[path.len() - 1];
            let (lengths, _) = calls.get(name).cloned().unwrap_or_default();
            let instances = ranges.get(name).map_or(0, Vec::len) as u64;
            let inner: u64 = PATHS
                .iter()
                .filter(|(other, _)| other.len() == path.len() + 1 && other.starts_with(path))
                .map(|(other, _)| busy.get(other[other.len() - 1]).copied().unwrap_or(0))
                .sum();
            let total = busy.get(name).copied().unwrap_or(0);
            let it = node(&mut summary.tree, path, 0);
            (it.total_ns, it.self_ns) = (total, total.saturating_sub(inner));
            (it.calls, it.instances) = (if lengths.is_empty() { instances } else { lengths.len() as u64 }, instances);
            if !lengths.is_empty() {
                let waited = lengths.iter().sum::<u64>().saturating_sub(total);
                (it.awaited_ns, it.awaited_self_ns) = (Some(waited), Some(if *awaited_self { waited } else { 0 }));
            }
        }
        summary.ranges =
            ranges.into_iter().map(|(name, lengths)| RangeStats::new(name, with_quantiles(lengths))).collect();
        summary.ranges.sort_by_key(|row| Reverse(row.times.total_ns));
        summary.calls = calls
            .into_iter()
            .map(|(name, (lengths, cancelled))| {
                let mut row = CallStats::new(name, with_quantiles(lengths));
                row.cancelled = Some(cancelled);
                row.busy_ns = busy.get(name).copied().unwrap_or(0);
                row.awaited_ns = row.latency.total_ns.saturating_sub(row.busy_ns);
                row
            })
            .collect();
        let mut kernels: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        self.operations.iter().for_each(|op| kernels.entry(op.kernel).or_default().push(op.end - op.start));
        let mut gpu = GpuActivity::default();
        gpu.kernels = kernels.into_iter().map(|(name, lengths)| KernelStats::new(name, times(lengths))).collect();
        gpu.total = work_of(self.operations.iter().map(|op| (op.start, op.end)));
        summary.gpu = Some(gpu);
        summary
    }
}

/// The phases, and whether each waits for something other than its children.
const PATHS: &[(&[&str], bool)] = &[
    (&["GET /orders"], false),
    (&["GET /orders", "query"], false),
    (&["GET /orders", "query", "wait for a connection"], true),
    (&["GET /orders", "query", "fetch rows"], true),
    (&["GET /orders", "render"], false),
    (&["POST /predict"], false),
    (&["POST /predict", "infer"], true),
];

fn polls_of(number: usize, random: &mut Run) -> Vec<Poll> {
    let poll = |open: &[&'static str], running, then| Poll { open: open.to_vec(), running, then };
    if number % 10 == 1 {
        let kernel = if number == SLOW_KERNEL - 10 { 310 * MS } else { random.about(420 * US) };
        return vec![
            poll(&["POST /predict", "infer"], random.about(60 * US), Then::Gpu(kernel)),
            poll(&["POST /predict", "infer"], random.about(9 * US), Then::Wait(random.about(30 * US))),
            poll(&["POST /predict", "render"], random.about(40 * US), Then::Done),
        ];
    }
    let connection = if number == SLOW_QUERY { 780 * MS } else { random.about(250 * US) };
    let mut fetched = random.about(1_900 * US);
    if number.is_multiple_of(97) {
        fetched *= 6;
    }
    let cancelled = number % 1_000 == 500;
    let mut polls = vec![
        poll(&["GET /orders", "query", "wait for a connection"], random.about(22 * US), Then::Wait(connection)),
        poll(
            &["GET /orders", "query", "fetch rows"],
            random.about(15 * US),
            if cancelled { Then::Cancelled(30 * MS) } else { Then::Wait(fetched) },
        ),
    ];
    if !cancelled {
        polls.push(poll(&["GET /orders", "query", "fetch rows"], random.about(30 * US), Then::Wait(0)));
        polls.push(poll(&["GET /orders", "render"], random.about(110 * US), Then::Done));
    }
    polls
}

fn with_quantiles(lengths: Vec<u64>) -> Times {
    let mut sorted = lengths.clone();
    sorted.sort_unstable();
    let at = |q: f64| sorted[((sorted.len() as f64 * q).ceil() as usize).clamp(1, sorted.len()) - 1] as f64;
    with(times(lengths), |it| {
        it.quantiles = [0.9, 0.99].map(|q| Quantile::new(q, at(q), true)).into();
    })
}
