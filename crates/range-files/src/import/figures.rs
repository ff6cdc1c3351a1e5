//! The summary of a run whose file has none: figures of ranges, the tree, and GPU work, from its items.

use std::io;
use std::mem::take;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use range_model::stats::{Distribution, Keyed, Lean, Named, order};
use range_model::summary::measured::Nanoseconds;
use range_model::summary::{
    ApiCallStats, GpuActivity, GpuWork, GraphWork, KernelStats, MemoryKind, MemoryStats, MemoryWork, NodeWork, Note,
    OpenRange, Process, RangeStats, RangeStyle, Sizes, Summary, Times, TreeNode,
};
use range_model::timeline::{ApiCall, Call, Item, Operation, Range, Sink, Work};
use range_model::{Fold, in_domain};

use super::database::{database, origin};
use super::outcome::{Identity, ImportError};

/// The summaries of the processes that were read so far.
pub(super) type Summaries = Arc<Mutex<Vec<Summary>>>;

/// A sink that writes nothing.
pub(super) struct Nowhere;

impl Sink for Nowhere {
    fn begin(&mut self, _: &Process) -> io::Result<()> {
        Ok(())
    }

    fn item(&mut self, _: &Item<'_>) -> io::Result<()> {
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, _: &Summary, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Passes items on to a file, and concludes its summary from them. `folds` add their answers.
pub(super) struct FiguresSink {
    pub(super) sink: Box<dyn Sink>,
    pub(super) folds: Vec<Box<dyn Fold>>,
    pub(super) figures: Figures,
    /// The moment from which time counts.
    pub(super) origin: u64,
    /// Gets the summary at the end.
    pub(super) concluded: Summaries,
}

impl Sink for FiguresSink {
    fn begin(&mut self, process: &Process) -> io::Result<()> {
        self.sink.begin(process)
    }

    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        let item = &since(self.origin, item.clone());
        match item {
            Item::Range(range) => self.figures.range(range),
            Item::Operation(operation) => self.figures.operation(operation),
            Item::ApiCall(call) => self.figures.api_call(call),
            _ => {}
        }
        self.folds.iter_mut().for_each(|fold| fold.item(item));
        self.sink.item(item)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }

    fn end(&mut self, summary: &Summary, lost: u64) -> io::Result<()> {
        let mut summary = summary.clone();
        take(&mut self.figures).finish(&mut summary);
        let mut shown = Ok(());
        for fold in &mut self.folds {
            fold.finish(&mut summary);
            fold.show(&mut |item| {
                if shown.is_ok() {
                    shown = self.sink.item(item);
                }
            });
        }
        shown?;
        self.sink.end(&summary, lost)?;
        self.concluded.lock().unwrap_or_else(PoisonError::into_inner).push(summary);
        Ok(())
    }
}

/// The item with times that count from `origin`.
fn since(origin: u64, mut item: Item<'_>) -> Item<'_> {
    let since = |at: &mut u64| *at = at.saturating_sub(origin);
    match &mut item {
        Item::Range(Range { start, end, .. })
        | Item::Call(Call { start, end, .. })
        | Item::ApiCall(ApiCall { start, end, .. }) => [start, end].into_iter().for_each(since),
        Item::Operation(Operation { start, end, launch, .. }) => {
            [start, end].into_iter().chain(launch.as_mut().map(|(_, at)| at)).for_each(since);
        }
        _ => {}
    }
    item
}

/// Reads a database of `Sqlite` or of `nsys export --type sqlite`. `sink` makes the file of each process. Returns the
/// summaries of all processes, concluded from their items: `folds` add answers.
pub(super) fn conclude(
    path: &Path,
    folds: impl Fn() -> Vec<Box<dyn Fold>>,
    mut sink: impl FnMut(&Process) -> Box<dyn Sink>,
) -> Result<Vec<Summary>, ImportError> {
    let (concluded, origin) = (Summaries::default(), origin(path)?);
    database(path, &Identity::default(), &mut |process| {
        let (sink, figures, concluded) = (sink(process), Figures::default(), Arc::clone(&concluded));
        Box::new(FiguresSink { sink, folds: folds(), figures, origin, concluded })
    })?;
    let mut all = take(&mut *concluded.lock().unwrap_or_else(PoisonError::into_inner));
    if all.is_empty() {
        return Err(ImportError::NoTimeline);
    }
    let devices: Vec<(usize, u32)> = all.iter().enumerate().flat_map(|(place, one)| devices(one, place)).collect();
    for (place, one) in all.iter_mut().enumerate() {
        if devices.iter().any(|(other, device)| *other != place && devices.contains(&(place, *device))) {
            one.notes.push(Note::GpuShared);
        }
    }
    Ok(all)
}

/// The devices that a process used, each with the place of the process.
fn devices(summary: &Summary, place: usize) -> impl Iterator<Item = (usize, u32)> {
    summary.idle.iter().flat_map(|idle| &idle.devices).map(move |device| (place, device.device))
}

/// The summaries of the processes in a database of `Sqlite` or of `nsys export --type sqlite`, which has none:
/// concluded from its items, to which `folds` add answers.
///
/// # Errors
///
/// If the file cannot be read, or has no timeline.
pub fn conclusions(path: &Path, folds: impl Fn() -> Vec<Box<dyn Fold>>) -> Result<Vec<Summary>, ImportError> {
    conclude(path, folds, |_| Box::new(Nowhere))
}

/// Levels of the tree: deeper ranges are in that of the last level.
const MOST_LEVELS: usize = 64;
/// The number of the root of the tree.
const ROOT: usize = 0;

/// The figures so far. The ranges of a thread come in the order of their starts, those around others first.
#[derive(Default)]
pub(super) struct Figures {
    /// The end of the latest item.
    latest: u64,
    ranges: Named<RangeName, Distribution>,
    nodes: Vec<Node>,
    by_label: Named<(usize, String), usize>,
    /// The push/pop ranges of each thread.
    instances: Keyed<u32, Vec<Instance>>,
    /// Ranges that were open at the end of the recording.
    cut: Named<(String, u32), u64>,
    kernels: Named<String, Distribution>,
    memory: Keyed<MemoryKind, [Distribution; 2]>,
    calls: Named<String, Distribution>,
    operations: Vec<Done>,
}

/// Domain, name and style of a range.
type RangeName = (Option<String>, String, RangeStyle);

/// A push/pop range.
struct Instance {
    start: u64,
    end: u64,
    node: usize,
    /// The place of the innermost one around all of it on its thread. Ranges of different domains may overlap: neither
    /// is around the other then.
    around: Option<usize>,
    level: usize,
}

/// The innermost range at this moment, if any, that lasts until `until` at least. Of two that overlap, the one that
/// began later ends later. So one that has ended leaves only those around it.
fn innermost(instances: &[Instance], at: u64, until: u64) -> Option<usize> {
    let mut place = instances.partition_point(|instance| instance.start <= at).checked_sub(1);
    while let Some(instance) = place.and_then(|place| instances.get(place)) {
        if instance.end > at && instance.end >= until {
            break;
        }
        place = instance.around;
    }
    place
}

#[derive(Default)]
struct Node {
    parent: usize,
    domain: Option<String>,
    name: String,
    calls: u64,
    total: u64,
    /// Time of the ranges directly below.
    nested: u64,
    longest: u64,
    first: Option<u64>,
}

/// An operation that has ended.
struct Done {
    device: u32,
    start: u64,
    end: u64,
    launched: LaunchPlace,
    /// Kind and bytes of a copy or set.
    memory: Option<(MemoryKind, u64)>,
    is_graph: bool,
}

/// Where an operation was launched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LaunchPlace {
    In(usize),
    Outside,
    Unknown,
}

impl Figures {
    fn range(&mut self, range: &Range<'_>) {
        let Range { thread, start, end, style, domain, name, .. } = *range;
        self.latest = self.latest.max(end);
        let took = end.saturating_sub(start);
        self.ranges.row((domain.map(str::to_owned), name.to_owned(), style)).add(took, |_| true);
        if style != RangeStyle::PushPop {
            return;
        }
        if range.cut {
            *self.cut.row((in_domain(domain, name), thread)) += 1;
        }
        let instances = self.instances.row(thread);
        let around = innermost(instances, start, end);
        let (above, level) = around.and_then(|at| instances.get(at)).map_or((ROOT, 0), |all| (all.node, all.level + 1));
        let node = if level < MOST_LEVELS { self.node(above, domain, name) } else { above };
        self.instances.row(thread).push(Instance { start, end, node, around, level });
        if node == above {
            return;
        }
        if let Some(above) = self.nodes.get_mut(above) {
            above.nested += took;
        }
        let Some(node) = self.nodes.get_mut(node) else { return };
        node.calls += 1;
        node.total += took;
        node.longest = node.longest.max(took);
        node.first = Some(node.first.map_or(start, |first| first.min(start)));
    }

    /// The node of this label below another. Makes it the first time.
    fn node(&mut self, parent: usize, domain: Option<&str>, name: &str) -> usize {
        let Self { nodes, by_label, .. } = self;
        if nodes.is_empty() {
            nodes.push(Node::default());
        }
        *by_label.row_or((parent, in_domain(domain, name)), || {
            nodes.push(Node { parent, domain: domain.map(str::to_owned), name: name.to_owned(), ..Node::default() });
            nodes.len() - 1
        })
    }

    fn api_call(&mut self, call: &ApiCall<'_>) {
        self.latest = self.latest.max(call.end);
        self.calls.row(call.name.to_owned()).add(call.end.saturating_sub(call.start), |_| true);
    }

    fn operation(&mut self, operation: &Operation<'_>) {
        let Operation { start, end, device, work, kernel, symbol, launch, .. } = *operation;
        self.latest = self.latest.max(end);
        let took = end.saturating_sub(start);
        let memory = match work {
            Work::Kernel(_) => {
                let name = if kernel.is_empty() { symbol } else { kernel };
                self.kernels.row(name.to_owned()).add(took, |_| true);
                None
            }
            Work::Memory(memory) => {
                let [times, bytes] = self.memory.row(memory.kind);
                times.add(took, |_| true);
                bytes.add(memory.bytes, |_| true);
                Some((memory.kind, memory.bytes))
            }
            Work::Graph(_) => None,
        };
        let launched = launch.map_or(LaunchPlace::Unknown, |(thread, at)| {
            let instances = self.instances.get(&thread).map(Vec::as_slice).unwrap_or_default();
            let innermost = innermost(instances, at, 0).and_then(|place| instances.get(place));
            innermost.map_or(LaunchPlace::Outside, |instance| LaunchPlace::In(instance.node))
        });
        let is_graph = matches!(work, Work::Graph(_));
        self.operations.push(Done { device, start, end, launched, memory, is_graph });
    }

    fn finish(mut self, summary: &mut Summary) {
        summary.elapsed_ns = self.latest;
        let times = |all: &Distribution| Times::measured(all, &Nanoseconds, &[]);
        let ranges = take(&mut self.ranges).into_iter().map(|((domain, name, style), all)| {
            let mut row = RangeStats::new(name, times(&all));
            (row.domain, row.style) = (domain, style);
            row
        });
        summary.ranges = ranges.in_vec();
        order::by_most(&mut summary.ranges, |row| row.times.total_ns); // stable
        let mut work = vec![(GpuWork::default(), GpuWork::default(), GraphWork::default()); self.nodes.len()];
        if !(self.operations.is_empty() && self.calls.is_empty()) {
            let mut activity = GpuActivity::default();
            let kernels = take(&mut self.kernels).into_iter();
            activity.kernels = kernels.map(|(name, all)| KernelStats::new(name, times(&all))).in_vec();
            order::by_most(&mut activity.kernels, |row| row.times.total_ns);
            let memory = take(&mut self.memory).into_iter();
            activity.memory = memory.map(|(kind, [all, of])| MemoryStats::new(kind, times(&all), sizes(&of))).in_vec();
            order::by_most(&mut activity.memory, |row| row.times.total_ns);
            let calls = take(&mut self.calls).into_iter();
            let mut calls = calls.map(|(name, all)| ApiCallStats::new(name, times(&all))).in_vec();
            order::by_most(&mut calls, |row| row.times.total_ns);
            activity.calls = (!calls.is_empty()).then_some(calls);
            self.attribute(&mut activity, &mut work);
            summary.gpu = Some(activity);
        }
        summary.tree = self.tree(work);
        summary.losses.open = take(&mut self.cut)
            .into_iter()
            .map(|((label, thread), count)| {
                let mut open = OpenRange::new(label, format!("thread {thread}"));
                (open.cut, open.count) = (true, count);
                open
            })
            .in_vec();
        summary.notes.push(Note::Concluded);
    }

    /// Adds each operation to the nodes that launched it, directly or below.
    fn attribute(&mut self, activity: &mut GpuActivity, work: &mut [(GpuWork, GpuWork, GraphWork)]) {
        let Self { operations, nodes, .. } = self;
        order::by_key(operations, |done| (done.device, done.start));
        // The device and the end of what each sum has counted so far.
        let mut until = vec![[(u32::MAX, 0); 2]; nodes.len()];
        let mut others = [(u32::MAX, 0); 3];
        let [all, outside, unknown] = &mut others;
        for done in operations.iter() {
            add(&mut activity.total, done, all);
            match done.launched {
                LaunchPlace::Unknown => add(&mut activity.unmatched, done, unknown),
                LaunchPlace::Outside => {
                    add(&mut activity.outside, done, outside);
                    add_graph(&mut activity.outside_graphs, done);
                }
                LaunchPlace::In(own) => {
                    let mut node = own;
                    while let (Some(work), Some([until, total])) = (work.get_mut(node), until.get_mut(node)) {
                        if node == ROOT {
                            break;
                        }
                        if node == own {
                            add(&mut work.0, done, until);
                            add_graph(&mut work.2, done);
                        }
                        add(&mut work.1, done, total);
                        node = nodes.get(node).map_or(ROOT, |node| node.parent);
                    }
                }
            }
        }
    }

    fn tree(&mut self, mut work: Vec<(GpuWork, GpuWork, GraphWork)>) -> Vec<TreeNode> {
        let mut children: Vec<Vec<TreeNode>> = vec![Vec::new(); self.nodes.len()];
        // A parent has a lower number than its children.
        for (id, node) in self.nodes.iter().enumerate().skip(ROOT + 1).rev() {
            let mut row = TreeNode::new(node.name.clone());
            row.domain.clone_from(&node.domain);
            (row.calls, row.instances) = (node.calls, node.calls);
            (row.total_ns, row.self_ns, row.max_ns) =
                (node.total, node.total.saturating_sub(node.nested), node.longest);
            row.first_ns = node.first.unwrap_or(0);
            row.children = children.get_mut(id).map(take).unwrap_or_default();
            order::by_key(&mut row.children, |child| child.first_ns);
            if let Some((own, total, graphs)) = work.get_mut(id).map(take).filter(|(_, total, _)| total.operations > 0)
            {
                let mut node = NodeWork::new(own, total);
                node.graphs = graphs;
                row.gpu = Some(node);
            }
            if let Some(siblings) = children.get_mut(node.parent) {
                siblings.push(row);
            }
        }
        let mut roots = children.first_mut().map(take).unwrap_or_default();
        order::by_key(&mut roots, |node| node.first_ns);
        roots
    }
}

/// Adds an operation to a sum. `until` is the device and the end of those before.
fn add(work: &mut GpuWork, done: &Done, until: &mut (u32, u64)) {
    let took = done.end.saturating_sub(done.start);
    work.operations += 1;
    work.sum_ns += took;
    if until.0 != done.device {
        *until = (done.device, 0);
    }
    work.busy_ns += done.end.saturating_sub(done.start.max(until.1));
    until.1 = until.1.max(done.end);
    let Some((kind, bytes)) = done.memory else { return };
    match work.memory.iter_mut().find(|row| row.kind == kind) {
        Some(row) => {
            (row.operations, row.sum_ns, row.bytes) = (row.operations + 1, row.sum_ns + took, row.bytes + bytes);
        }
        None => work.memory.push(MemoryWork::new(kind, 1, took, bytes)),
    }
}

fn add_graph(graphs: &mut GraphWork, done: &Done) {
    if done.is_graph {
        graphs.replays += 1;
        graphs.whole += 1;
        graphs.whole_ns += done.end.saturating_sub(done.start);
    }
}

/// Sizes in bytes.
fn sizes(bytes: &Distribution) -> Sizes {
    let same = Times::measured(bytes, &Nanoseconds, &[]); // the same figures, for bytes
    let mut sizes = Sizes::new(same.instances, same.total_ns);
    (sizes.min_bytes, sizes.max_bytes) = (same.min_ns, same.max_ns);
    (sizes.median_bytes, sizes.stddev_bytes) = (same.median_ns, same.stddev_ns);
    sizes
}

#[cfg(test)]
mod tests;
