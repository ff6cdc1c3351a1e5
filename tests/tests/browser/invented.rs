//! An invented run and its summary: the items are made up, and the tables are computed from them.

use std::collections::BTreeMap;
use std::io;
use tests::with;

use range_model::timeline::{Api, Kernel, Memory, Work};
use range_model::timeline::{ApiCall, IdleTime, Item, Mark, Operation, Projection, Range, Sink, Value};
use range_page::HtmlSink;
use tracing_gpu::summary::{
    ApiCallStats, CategoryStats, DeviceIdle, GpuActivity, GpuIdle, GpuWork, KernelStats, MemoryKind, MemoryStats,
    NodeWork, Process, ProjectionStats, RangeStats, RangeStyle, Sizes, SpanIdle, Times, TreeNode,
};
use tracing_gpu::{Note, Summary};

pub(crate) const PID: u32 = 4_711;

#[derive(Clone, Default)]
pub(crate) struct Span {
    pub(crate) thread: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) name: String,
    pub(crate) depth: u32,
    pub(crate) category: Option<&'static str>,
    pub(crate) color: Option<u32>,
    pub(crate) payload: Option<Value<'static>>,
    pub(crate) fields: Vec<(&'static str, Value<'static>)>,
    /// Index of the span around it.
    pub(crate) parent: Option<usize>,
    pub(crate) lifetime: bool,
}

#[derive(Clone)]
pub(crate) struct Op {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) stream: u32,
    pub(crate) work: Work,
    pub(crate) kernel: &'static str,
    pub(crate) launch: (u32, u64),
    /// Index of the span that launched it.
    pub(crate) span: usize,
}

/// All of a run.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) threads: Vec<(u32, &'static str)>,
    pub(crate) spans: Vec<Span>,
    pub(crate) operations: Vec<Op>,
    pub(crate) calls: Vec<(u32, u64, u64, &'static str)>,
    pub(crate) marks: Vec<(u32, u64, u8, String)>,
    pub(crate) notes: Vec<String>,
    pub(crate) idle: Vec<IdleTime<'static>>,
    pub(crate) random: u64,
}

impl Run {
    /// A pseudo-random number, the same every time: `middle`, up to a fifth more or less.
    pub(crate) fn about(&mut self, middle: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let part = (self.random >> 33) % 401;
        (middle * 8 / 10 + middle * part / 1_000).max(1)
    }

    /// `count` ranges on four threads, three deep, of 300 names.
    pub(crate) fn many(count: usize) -> Self {
        let threads = [1_u32, 2, 3, 4];
        let mut run = Self { threads: threads.map(|thread| (thread, "worker")).to_vec(), ..Self::default() };
        let mut at = [0_u64; 4];
        let mut made = 0;
        while made < count {
            for thread in threads {
                let start = at[thread as usize - 1];
                let outer = run.open(thread, start, &format!("request {}", made % 40), None);
                let inner = run.open(thread, start + 400, &format!("phase {}", made % 160), Some(outer));
                let mut end = start + 900;
                for leaf in 0..8 {
                    end = run.leaf(thread, end, 1_500, &format!("leaf {}", (made + leaf) % 100), Some(inner));
                }
                run.close(inner, end + 300);
                at[thread as usize - 1] = run.close(outer, end + 600) + 2_000;
                made += 10;
            }
        }
        run.spans.truncate(count);
        run
    }

    pub(crate) fn open(&mut self, thread: u32, start: u64, name: &str, parent: Option<usize>) -> usize {
        let depth = parent.map_or(0, |parent| self.spans[parent].depth + 1);
        let span = Span { thread, start, end: start, name: name.to_owned(), depth, parent, ..Span::default() };
        self.spans.push(span);
        self.spans.len() - 1
    }

    pub(crate) fn close(&mut self, span: usize, end: u64) -> u64 {
        self.spans[span].end = end;
        end
    }

    /// A span without children.
    pub(crate) fn leaf(&mut self, thread: u32, start: u64, length: u64, name: &str, parent: Option<usize>) -> u64 {
        let span = self.open(thread, start, name, parent);
        let length = self.about(length);
        self.close(span, start + length)
    }

    /// A call that launches work, which begins when the stream is free. Returns the times at which the call returns and
    /// the work ends.
    pub(crate) fn launch(
        &mut self,
        span: usize,
        at: u64,
        stream: u32,
        length: u64,
        work: Work,
        kernel: &'static str,
    ) -> (u64, u64) {
        let thread = self.spans[span].thread;
        let call = match work {
            Work::Kernel(_) => "cuLaunchKernel",
            Work::Memory(_) => "cuMemcpyHtoDAsync_v2",
            Work::Graph(_) => "cuGraphLaunch",
        };
        let returned = at + self.about(4_200);
        self.calls.push((thread, at, returned, call));
        let free = self.operations.iter().rev().find(|other| other.stream == stream).map_or(0, |other| other.end + 700);
        let start = free.max(returned + 1_800);
        let end = start + self.about(length);
        self.operations.push(Op { start, end, stream, work, kernel, launch: (thread, at), span });
        (returned, end)
    }

    /// The ranges around an idle time, the outermost first.
    pub(crate) fn around(&self, idle: &IdleTime<'_>) -> Vec<&Span> {
        let is_around = |span: &&Span| match idle.charged_at < idle.start {
            true => span.start <= idle.charged_at && idle.charged_at < span.end && !span.lifetime,
            false => span.start <= idle.start && idle.end <= span.end && !span.lifetime,
        };
        let mut around: Vec<&Span> =
            self.spans.iter().filter(|span| Some(span.thread) == idle.thread).filter(is_around).collect();
        around.sort_by_key(|span| span.depth);
        around
    }

    pub(crate) fn idle(&self) -> GpuIdle {
        let mut device = DeviceIdle::default();
        let mut spans: BTreeMap<Option<String>, SpanIdle> = BTreeMap::new();
        for idle in &self.idle {
            let ns = idle.end - idle.start;
            device.causes.add(idle.cause, ns);
            let name = self.around(idle).last().map(|span| span.name.clone());
            let span = spans.entry(name).or_default();
            span.causes.add(idle.cause, ns);
            span.gaps += 1;
        }
        device.busy_ns = work_of(self.operations.iter().map(|op| (op.start, op.end))).busy_ns;
        device.wall_ns = device.busy_ns + device.causes.total_ns();
        let mut all = GpuIdle::default();
        all.devices = vec![device];
        all.spans = spans.into_iter().map(|(name, span)| with(span, |it| it.name = name)).collect();
        all.spans.sort_by_key(|span| std::cmp::Reverse(span.causes.total_ns()));
        all
    }

    pub(crate) fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        summary.process = {
            let mut it = Process::default();
            it.pid = PID;
            it.command = "target/release/train --model resnet18 --batch 64".to_owned();
            it.host = "node07".to_owned();
            it.rank = Some(0);
            it.started_unix_ns = 1_795_188_942_000_000_000;
            it
        };
        summary.elapsed_ns = self.spans.iter().map(|span| span.end).max().unwrap_or(0) + 1_200_000;
        summary.ranges = by(self.spans.iter(), |span| (span.name.clone(), span.lifetime), |span| span.end - span.start)
            .into_iter()
            .map(|((name, lifetime), times)| with(RangeStats::new(name, times), |it| it.style = style(lifetime)))
            .collect();
        summary.ranges.sort_by_key(|row| std::cmp::Reverse(row.times.total_ns));
        let categorised = self.spans.iter().filter(|span| span.category.is_some());
        summary.categories =
            by(categorised, |span| span.category.unwrap_or_default().to_owned(), |span| span.end - span.start)
                .into_iter()
                .map(|(category, times)| CategoryStats::new(category, times))
                .collect();
        summary.tree = self.tree();
        summary.notes = self.notes.iter().map(|note| Note::Text { text: note.clone() }).collect();
        if !self.operations.is_empty() {
            summary.gpu = Some(self.activity());
        }
        if !self.idle.is_empty() {
            summary.idle = Some(self.idle());
        }
        summary
    }

    fn activity(&self) -> GpuActivity {
        let length = |op: &&Op| op.end - op.start;
        let kernels = self.operations.iter().filter(|op| matches!(op.work, Work::Kernel(_)));
        let mut gpu = GpuActivity::default();
        gpu.kernels = by(kernels, |op| op.kernel.to_owned(), length)
            .into_iter()
            .map(|(name, times)| KernelStats::new(name, times))
            .collect();
        gpu.kernels.sort_by_key(|row| std::cmp::Reverse(row.times.total_ns));
        for kind in [MemoryKind::HtoD, MemoryKind::DtoH, MemoryKind::Set] {
            let of_kind = self.operations.iter().filter_map(|op| match op.work {
                Work::Memory(memory) if memory.kind == kind => Some((op.end - op.start, memory.bytes)),
                _ => None,
            });
            let (lengths, bytes): (Vec<u64>, Vec<u64>) = of_kind.unzip();
            if lengths.is_empty() {
                continue;
            }
            let mut sizes = Sizes::new(bytes.len() as u64, bytes.iter().sum());
            sizes.min_bytes = bytes.iter().copied().min().unwrap_or(0);
            sizes.max_bytes = bytes.iter().copied().max().unwrap_or(0);
            gpu.memory.push(MemoryStats::new(kind, times(lengths), sizes));
        }
        let calls = by(self.calls.iter(), |call| call.3.to_owned(), |call| call.2 - call.1);
        gpu.calls = Some(calls.into_iter().map(|(name, times)| ApiCallStats::new(name, times)).collect());
        let projected = self.projected();
        let rows = by(projected.iter(), |(span, ..)| self.spans[*span].name.clone(), |(_, _, start, end)| end - start);
        gpu.projections = rows
            .into_iter()
            .map(|(name, projected)| {
                let mut row = ProjectionStats::new(name, projected);
                row.range_total_ns = row.projected.total_ns / 3;
                row.operations = row.projected.instances * 4;
                row.level_sum = row.projected.instances;
                row
            })
            .collect();
        gpu.total = work(self.operations.iter());
        gpu
    }

    /// Span, stream, and the projected time there.
    fn projected(&self) -> Vec<(usize, u32, u64, u64)> {
        let mut found: BTreeMap<(usize, u32), (u64, u64)> = BTreeMap::new();
        for op in &self.operations {
            let mut span = Some(op.span);
            while let Some(index) = span {
                let (start, end) = found.entry((index, op.stream)).or_insert((op.start, op.end));
                (*start, *end) = ((*start).min(op.start), (*end).max(op.end));
                span = self.spans[index].parent;
            }
        }
        found.into_iter().map(|((span, stream), (start, end))| (span, stream, start, end)).collect()
    }

    fn tree(&self) -> Vec<TreeNode> {
        let mut paths: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        let mut roots = Vec::new();
        for (index, span) in self.spans.iter().enumerate().filter(|(_, span)| !span.lifetime) {
            let mut path = span.parent.and_then(|parent| paths.get(&parent)).cloned().unwrap_or_default();
            path.push(&span.name);
            let inside = self.spans.iter().filter(|other| other.parent == Some(index) && other.thread == span.thread);
            let node = node(&mut roots, &path, span.start);
            node.calls += 1;
            node.instances += 1;
            node.total_ns += span.end - span.start;
            node.self_ns += (span.end - span.start) - inside.map(|inside| inside.end - inside.start).sum::<u64>();
            paths.insert(index, path);
        }
        let mut launched: BTreeMap<&[&str], (Vec<&Op>, Vec<&Op>)> = BTreeMap::new();
        for op in &self.operations {
            let Some(path) = paths.get(&op.span) else { continue };
            for depth in 1..=path.len() {
                let (own, total) = launched.entry(&path[..depth]).or_default();
                total.push(op);
                if depth == path.len() {
                    own.push(op);
                }
            }
        }
        for (path, (own, total)) in launched {
            let gpu = NodeWork::new(work(own.into_iter()), work(total.into_iter()));
            node(&mut roots, path, 0).gpu = Some(gpu);
        }
        roots
    }

    /// Hands everything to a sink.
    pub(crate) fn write(&self, sink: &mut dyn Sink, summary: &Summary, lost: u64) -> io::Result<()> {
        sink.begin(&summary.process)?;
        for (thread, name) in &self.threads {
            sink.item(&Item::Thread { thread: *thread, name })?;
        }
        if !self.operations.is_empty() {
            sink.item(&Item::Device { device: 0, name: "NVIDIA H200" })?;
        }
        // The call of a span has the span's index plus one as its number. Lifetimes belong to no span.
        let number = |span: Option<usize>| span.map_or(0, |index| index as u64 + 1);
        for (index, span) in self.spans.iter().enumerate() {
            let call = number((!span.lifetime).then_some(index));
            sink.item(&Item::Range(Range {
                thread: span.thread,
                start: span.start,
                end: span.end,
                style: style(span.lifetime),
                domain: None,
                name: &span.name,
                depth: span.depth,
                category: span.category,
                color: span.color,
                payload: span.payload,
                fields: &span.fields,
                end_thread: None,
                cut: false,
                on_cpu_ns: 0,
                // Nothing else says that its thread did not run.
                off_cpu_ns: if span.name == "wait for batch" { (span.end - span.start) / 100 * 99 } else { 0 },
                span: call,
                call,
                parent: number(span.parent),
            }))?;
        }
        for (thread, at, level, text) in &self.marks {
            let fields = &[("said on", Value::Unsigned(u64::from(*thread)))];
            sink.item(&Item::Mark(Mark { thread: *thread, at: *at, domain: None, text, level: *level, fields }))?;
        }
        for (thread, start, end, name) in &self.calls {
            let (api, result, correlation) = (Api::Driver, 0, 1);
            sink.item(&Item::ApiCall(ApiCall {
                api,
                name,
                thread: *thread,
                start: *start,
                end: *end,
                correlation,
                result,
            }))?;
        }
        for (index, op) in self.operations.iter().enumerate() {
            sink.item(&Item::Operation(Operation {
                start: op.start,
                end: op.end,
                device: 0,
                context: 1,
                stream: op.stream,
                correlation: 100 + index as u32,
                graph_node: 0,
                work: op.work,
                kernel: op.kernel,
                symbol: op.kernel,
                launch: Some(op.launch),
                span: Some(&self.spans[op.span].name),
                path: &[],
                captured: &[],
                call: number(Some(op.span)),
            }))?;
        }
        for idle in &self.idle {
            sink.item(&Item::Idle(*idle))?;
        }
        for (span, stream, start, end) in self.projected() {
            let span = &self.spans[span];
            let (device, context, level) = (0, 1, span.depth);
            sink.item(&Item::Projection(Projection {
                device,
                context,
                stream,
                start,
                end,
                domain: None,
                name: &span.name,
                level,
            }))?;
        }
        sink.end(summary, lost)
    }

    /// The page.
    pub(crate) fn page(&self, lost: u64) -> Vec<u8> {
        let mut page = Vec::new();
        self.write(&mut HtmlSink::new(&mut page), &self.summary(), lost).expect("memory takes it");
        page
    }
}

pub(crate) fn kernel(grid: i32, block: i32) -> Work {
    Work::Kernel(Kernel {
        grid: [grid, 64, 1],
        block: [block, 1, 1],
        registers: 96,
        static_shared: 16_384,
        ..Kernel::default()
    })
}

pub(crate) fn copy(kind: MemoryKind, bytes: u64) -> Work {
    let (source, destination) = if kind == MemoryKind::DtoH { (3, 2) } else { (2, 3) };
    Work::Memory(Memory { kind, bytes, source, destination, value: 0 })
}

const fn style(lifetime: bool) -> RangeStyle {
    if lifetime { RangeStyle::StartEnd } else { RangeStyle::PushPop }
}

pub(crate) fn node<'a>(roots: &'a mut Vec<TreeNode>, path: &[&str], first_ns: u64) -> &'a mut TreeNode {
    let (name, rest) = path.split_first().expect("a path has a name");
    let at = roots.iter().position(|node| node.name == *name).unwrap_or_else(|| {
        roots.push(with(TreeNode::new(*name), |it| it.first_ns = first_ns));
        roots.len() - 1
    });
    if rest.is_empty() { &mut roots[at] } else { node(&mut roots[at].children, rest, first_ns) }
}

fn by<T, K: Ord>(items: impl Iterator<Item = T>, key: impl Fn(&T) -> K, length: impl Fn(&T) -> u64) -> Vec<(K, Times)> {
    let mut lengths: BTreeMap<K, Vec<u64>> = BTreeMap::new();
    for item in items {
        lengths.entry(key(&item)).or_default().push(length(&item));
    }
    lengths.into_iter().map(|(key, lengths)| (key, times(lengths))).collect()
}

pub(crate) fn times(mut lengths: Vec<u64>) -> Times {
    lengths.sort_unstable();
    let (instances, total_ns) = (lengths.len() as u64, lengths.iter().sum::<u64>());
    let mean = total_ns as f64 / instances as f64;
    let squares: f64 = lengths.iter().map(|length| (*length as f64 - mean).powi(2)).sum();
    let mut it = Times::new(instances, total_ns);
    it.min_ns = lengths[0];
    it.max_ns = lengths[lengths.len() - 1];
    it.median_ns = Some(lengths[lengths.len() / 2] as f64);
    it.median_exact = true;
    it.stddev_ns = if instances > 1 { (squares / (instances - 1) as f64).sqrt() } else { 0.0 };
    it
}

fn work<'a>(operations: impl Iterator<Item = &'a Op>) -> GpuWork {
    work_of(operations.map(|op| (op.start, op.end)))
}

pub(crate) fn work_of(intervals: impl Iterator<Item = (u64, u64)>) -> GpuWork {
    let mut intervals: Vec<(u64, u64)> = intervals.collect();
    intervals.sort_unstable();
    let (mut busy_ns, mut until) = (0, 0);
    for (start, end) in &intervals {
        busy_ns += end.saturating_sub((*start).max(until));
        until = until.max(*end);
    }
    let sum_ns = intervals.iter().map(|(start, end)| end - start).sum();
    let mut it = GpuWork::new(intervals.len() as u64, sum_ns, busy_ns);
    it.memory = Vec::new();
    it
}
