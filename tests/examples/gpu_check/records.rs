//! Details that a fold asks for: events and waits for them, memory, streams, overheads. And a captured graph, as a
//! whole and by its nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use cudarc::driver::result::{free_async, malloc_async};
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use range_model::timeline::{Detail, Details, Item, MemoryOperation, StreamKind, WaitKind, Work};
use tracing::info_span;
use tracing_gpu::summary::GraphWork;
use tracing_gpu::{Gpu, Output, Profiler, Report, Summary};

use crate::device::{Device, check, install_built, us};

const ROUNDS: usize = 50;
const NODES: usize = 20;
const REPLAYS: usize = 3;
const BYTES: usize = 1024;

/// The largest deviation of an event's time from those of the kernels around it: a GPU's clock steps by up to 1 us.
const STEP: u64 = 2_000;

/// A detail with the span of its call.
type Placed = (Detail, String);

/// A kernel: stream, start, end, node of a graph.
type Kernel = (u32, u64, u64, u64);

/// The details, the kernels, and the spans that captured nodes of graphs.
type Seen = (Vec<Placed>, Vec<Kernel>, Vec<(u64, Vec<String>)>);

static SEEN: Mutex<Seen> = Mutex::new((Vec::new(), Vec::new(), Vec::new()));

fn see(item: &Item<'_>) {
    let mut seen = SEEN.lock().expect("no panic");
    match item {
        Item::Detail(placed) => seen.0.push((placed.detail, placed.span.unwrap_or_default().to_owned())),
        Item::Operation(run) if matches!(run.work, Work::Kernel(_)) => {
            seen.1.push((run.stream, run.start, run.end, run.graph_node));
            if run.graph_node != 0 {
                seen.2.push((run.graph_node, run.captured.to_vec()));
            }
        }
        _ => {}
    }
}

pub(crate) fn run() {
    let all = Details::EACH.iter().fold(Details::EVENT_TIMES, |all, (kind, _)| all.and(*kind));
    let builder = Profiler::builder().gpu(Gpu::Cupti).report([Report::Kernels]).output(Output::None);
    let profiler = install_built(builder.watch(all, see).build().expect("a profiler"));
    let replay = work();
    replay();
    let whole = graphs(&profiler.summary());
    profiler.record_graph_nodes();
    replay();
    let summary = profiler.summary();
    let (both, losses) = (graphs(&summary), summary.losses.activity);
    profiler.finish().expect("nothing to be written");
    println!("{losses:?}");
    let lost = losses.dropped_records + losses.over_budget_records + losses.unreadable_records;
    check("nothing is lost", lost == 0);
    let (mut details, mut kernels, captured) = std::mem::take(&mut *SEEN.lock().expect("no panic"));
    details.sort_by_key(|(detail, _)| detail.correlation());
    kernels.sort_by_key(|kernel| kernel.1);
    events(&details, &kernels);
    others(&details);
    nodes(&captured);
    levels(&whole, &both);
}

/// The replays that were launched in the span `replay`.
fn graphs(summary: &Summary) -> GraphWork {
    let replay = summary.tree.iter().find(|node| node.name == "replay");
    replay.and_then(|node| node.gpu.as_ref()).map_or_else(GraphWork::default, |work| work.graphs.clone())
}

/// Two streams, the second of which waits for the first in each round; memory; a graph, captured in two spans. Returns
/// what replays the graph.
fn work() -> impl Fn() {
    let device = Device::open();
    // SAFETY: the kernels that run here use no memory.
    #[allow(unsafe_code)]
    unsafe {
        device.context.disable_event_tracking();
    }
    let [a, b] = info_span!("streams").in_scope(|| [(); 2].map(|()| device.context.new_stream().expect("a stream")));
    let event = device.context.new_event(None).expect("an event");
    for _ in 0..ROUNDS {
        device.spin(&a, us(20));
        info_span!("record").in_scope(|| event.record(&a).expect("a record"));
        info_span!("wait").in_scope(|| b.wait(&event).expect("a wait"));
        device.spin(&b, us(5));
        info_span!("memory").in_scope(|| {
            // SAFETY: the stream lasts, and nobody uses the memory.
            #[allow(unsafe_code)]
            unsafe {
                let memory = malloc_async(b.cu_stream(), BYTES).expect("memory");
                free_async(memory, b.cu_stream()).expect("memory to be freed");
            }
        });
    }
    info_span!("synchronize").in_scope(|| [&a, &b].map(|stream| stream.synchronize().expect("the device")));
    a.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).expect("a capture");
    info_span!("encoder").in_scope(|| (0..NODES / 2).for_each(|_| device.spin(&a, us(1))));
    info_span!("decoder").in_scope(|| (0..NODES / 2).for_each(|_| device.spin(&a, us(1))));
    let graph = info_span!("instantiate").in_scope(|| {
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        a.end_capture(flags).expect("the capture is whole").expect("a graph")
    });
    move || {
        let _its_kernels = &device;
        info_span!("replay").in_scope(|| (0..REPLAYS).for_each(|_| graph.launch().expect("a launch")));
        a.synchronize().expect("the device");
    }
}

/// The details of a kind that were made in this span.
fn of<'a, T: 'a>(details: &'a [Placed], span: &'a str, pick: impl Fn(&'a Detail) -> Option<T> + 'a) -> Vec<T> {
    details.iter().filter(|(_, of)| of == span).filter_map(|(detail, _)| pick(detail)).collect()
}

fn events(details: &[Placed], kernels: &[Kernel]) {
    let events = of(details, "record", |detail| match detail {
        Detail::Event(event) => Some(event),
        _ => None,
    });
    let waits = of(details, "wait", |detail| match detail {
        Detail::Wait(wait) => Some(wait),
        _ => None,
    });
    println!("{:?}\n{:?}\nof {} and {}", events.first(), waits.first(), events.len(), waits.len());
    check("each record of an event is there, in its span", events.len() == ROUNDS);
    check("each wait of a stream is there, in its span", waits.len() == ROUNDS);
    check("they are waits of streams for events", waits.iter().all(|wait| wait.kind == WaitKind::StreamForEvent));
    let records: BTreeSet<u64> = events.iter().map(|event| event.record).collect();
    check("each record has a number of its own", records.len() == ROUNDS && !records.contains(&0));
    let pairs = events.iter().zip(&waits);
    check("each wait is for the record before it", pairs.clone().all(|(event, wait)| event.record == wait.record));
    check("by another stream", pairs.clone().all(|(event, wait)| wait.stream.is_some_and(|it| it != event.stream)));
    let on = |stream: u32| kernels.iter().filter(move |kernel| kernel.0 == stream && kernel.3 == 0);
    let (first, second) = (events.first().map_or(0, |it| it.stream), waits.first().and_then(|it| it.stream));
    let (before, after): (Vec<_>, Vec<_>) = (on(first).collect(), on(second.unwrap_or(0)).collect());
    check("each round has its kernels", before.len() == ROUNDS && after.len() == ROUNDS);
    let times = events.iter().zip(before.iter().zip(&after));
    let off = times.filter(|(event, (a, b))| event.at + STEP < a.2 || event.at > b.1 + STEP);
    let off: Vec<_> = off.map(|(event, (a, b))| (a.2, event.at, b.1)).collect();
    println!("times that are off (kernel's end, event, next kernel's start): {:?} of {}", off.first(), off.len());
    check("each event is reached between the kernels around it", off.is_empty());
}

fn others(details: &[Placed]) {
    let of_host = of(details, "synchronize", |detail| match detail {
        Detail::Wait(wait) => Some((wait.kind, wait.end >= wait.start)),
        _ => None,
    });
    println!("{of_host:?}");
    check("a thread waits for each stream", of_host.iter().filter(|it| **it == (WaitKind::Stream, true)).count() == 2);
    let memory = of(details, "memory", |detail| match detail {
        Detail::Memory(operation) => Some(operation),
        _ => None,
    });
    println!("{:?} of {}", memory.first(), memory.len());
    let is_pair = |pair: &[&MemoryOperation]| match pair {
        [made, freed] => {
            let has_stream = made.stream.is_some() && made.stream == freed.stream;
            let is_whole = made.bytes == BYTES as u64 && made.address == freed.address;
            !made.is_release && freed.is_release && is_whole && has_stream
        }
        _ => false,
    };
    check("memory is made and freed in each round", memory.len() == 2 * ROUNDS && memory.chunks(2).all(is_pair));
    let streams = of(details, "streams", |detail| match detail {
        Detail::Stream(stream) => Some((stream.kind, stream.priority)),
        _ => None,
    });
    println!("{streams:?}");
    check("two streams are made that do not block", streams == [(StreamKind::NonBlocking, 0); 2]);
    let mut overheads = BTreeMap::new();
    for (detail, _) in details {
        if let Detail::Overhead(overhead) = detail {
            let sum: &mut (u64, u64) = overheads.entry(overhead.kind).or_default();
            *sum = (sum.0 + 1, sum.1 + overhead.end.saturating_sub(overhead.start));
        }
    }
    println!("overheads, and their ns: {overheads:?}");
    check("there are overheads", !overheads.is_empty());
}

fn nodes(captured: &[(u64, Vec<String>)]) {
    let mut runs: BTreeMap<(Option<&str>, u64), usize> = BTreeMap::new();
    for (node, path) in captured {
        *runs.entry((path.last().map(String::as_str), *node)).or_default() += 1;
    }
    println!("nodes that ran: {runs:?}");
    let of = |span: &str| runs.iter().filter(|((of, _), count)| *of == Some(span) && **count == REPLAYS).count();
    check("each node leads to the span of its capture", (of("encoder"), of("decoder")) == (NODES / 2, NODES / 2));
    check("and no other ran", runs.len() == NODES);
}

/// The replays as a whole alone, and with as many by their nodes.
fn levels(whole: &GraphWork, both: &GraphWork) {
    println!("{whole:?}\n{both:?}");
    let replays = REPLAYS as u64;
    check("whole replays are counted", (whole.replays, whole.whole) == (replays, replays));
    check("then replays by nodes", (both.replays, both.whole, both.whole_ns) == (2 * replays, replays, whole.whole_ns));
    let each = (NODES * REPLAYS / 2) as u64;
    let parts = |of: &GraphWork| -> Vec<(String, u64, u64)> {
        of.captured.iter().map(|part| (part.captured_in.clone(), part.kernels, part.timed)).collect()
    };
    let expected = |kernels, timed| ["decoder", "encoder"].map(|span| (span.to_owned(), kernels, timed)).to_vec();
    check("both spans captured half of the kernels", parts(whole) == expected(each, 0));
    check("whose nodes have times at the level of nodes", parts(both) == expected(2 * each, each));
    let nodes = both.captured.iter().map(|part| part.sum_ns).sum::<u64>();
    println!("{REPLAYS} replays: {} ns as a whole, {nodes} ns in their kernels", whole.whole_ns);
    check("a whole replay is at least as long as its kernels", whole.whole_ns * 10 > nodes * 9);
}
