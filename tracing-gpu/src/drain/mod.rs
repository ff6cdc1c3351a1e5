//! Merges the rows of all threads into a [`Summary`], without stopping the threads.
//!
//! Here ticks become nanoseconds, and numbers become names: for ranges in this file, for the GPU's work in `gpu`.
//! `recursion` finds time that would count twice because a node is inside itself. `blocked` finds the time in which a
//! span waited for its children.
//!
//! It imports the threads' state, the session, the streams and the collector. Nothing below calls it.

mod blocked;
mod calls;
mod coincidence;
mod cursor;
#[cfg(feature = "cuda")]
mod gpu;
#[cfg(not(feature = "cuda"))]
#[path = "gpu_disabled.rs"]
mod gpu;
mod guards;
mod names;
#[cfg(feature = "injection")]
mod openacc;
mod ranges;
mod recursion;
#[cfg(all(target_os = "linux", feature = "command"))]
mod row_file_summary;
mod threads;
mod times;
mod totals;
mod tree;
mod values;

use std::time::Duration;

use nvtx_rs::text::MAX_BYTES;
use range_model::stats::{Keyed, Lean};
use range_model::summary::{Join as _, WaitStats};
use range_model::{Losses, OpenRange, RangeStyle, StreamLosses, Summary, TreeNode};

use crate::clock::Ticks;
use crate::collector::Collector;
use crate::record::RangeKey;
use crate::sampler::Sampler;
use crate::session::{Names, Session};
use crate::stream;
use crate::thread::call_row::CallCopy;
use crate::thread::engine::Engine;
use crate::thread::lifetimes::OpenLifetimes;
use crate::thread::row::RowCopy;
pub(crate) use cursor::Cursor;
use cursor::Reader;
use names::label_shown;
use ranges::{Merged, categories, ranges, stream_ranges};
#[cfg(all(target_os = "linux", feature = "command"))]
pub use row_file_summary::{RowFileSummary, read_row_file};
use tree::{add_uncounted, by_thread, count, node_totals, recursive_rows, spans_in_more, tree};

/// A correction of the clock above this gets a note: it is more than an ordinary NTP adjustment.
const WORTH_A_NOTE_PPM: u64 = 100;

/// Ranges that the finish ended, by label, and the thread of the finish.
pub(crate) struct Cut {
    pub(crate) labels: Vec<u32>,
    pub(crate) thread: String,
}

/// Facts about the end of the measurement, for the last summary.
#[derive(Default)]
pub(crate) struct End {
    pub(crate) cut: Option<Cut>,
    /// End of the measurement. The time to write files afterwards is not the program's.
    pub(crate) at: Ticks,
    /// How long to wait for the GPU at the end of the process; `None` for no limit.
    pub(crate) patience: Option<Duration>,
}

/// All measurements so far in the current window, or in the last one; with a cursor, what came since its last reading.
///
/// `asked` are additional quantiles.
#[inline(never)]
pub(crate) fn summarise(
    engine: &'static Engine,
    collector: Option<&'static Collector>,
    sampler: Option<&Sampler>,
    end: Option<&End>,
    cursor: Option<&mut Cursor>,
    asked: &[f64],
) -> Summary {
    let session = &engine.session;
    if session.gpu {
        // Waits for the GPU to reach the events on named streams. The measured threads continue. Times that a window
        // does not wait for are in the next one.
        let patience = if cursor.is_some() { Some(Duration::ZERO) } else { end.and_then(|end| end.patience) };
        stream::read_all(patience);
    }
    let rate = session.clock.calibrate();
    // A thread that begins a window clears its rows one after another.
    let _same_window = session.gate.hold();
    let window = session.window();
    let mut reader = Reader::new(cursor, window);
    let all_threads = engine.all_threads();
    let (mut rows, mut calls): (Vec<(RangeKey, RowCopy)>, Vec<CallCopy<'_>>) = (Vec::new(), Vec::new());
    let (mut ends, mut call_ends) = (Vec::new(), Vec::new()); // the ends of each thread's rows
    let abandoned = engine.abandoned().into_iter();
    let mut open: Vec<Unnamed> = abandoned
        .map(|range| {
            let (label, mut open) = pushed(range.label, range.thread);
            open.count = range.count;
            (label, open)
        })
        .in_vec();
    let (mut lifetimes, mut waits, mut held_up, mut coincidences) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut value_waits, mut shorter) = (Vec::new(), Some(Vec::new()));
    for thread in &all_threads {
        // A thread that has made no call since the window began still has rows of an older window.
        if thread.window.is(window) {
            reader.rows(thread, &mut rows);
            reader.calls(thread, &mut calls);
            if let Some(followed) = thread.followed.get() {
                waits.extend(followed.waits.copy());
                value_waits.extend(followed.values.copy());
                match (&mut shorter, followed.shorter.copy()) {
                    (Some(all), Some(more)) => all.extend(more),
                    _ => shorter = None,
                }
            }
            if let Some(workers) = thread.held_up.get() {
                held_up.extend(workers.copy());
            }
            if let Some(all) = thread.coincidences.get() {
                coincidences.extend(all.copy());
            }
            ends.push(rows.len());
            call_ends.push(calls.len());
        }
        let name = thread.name.lock().clone();
        open.extend(
            thread
                .stack
                .open()
                .filter(|_| thread.is_up_to_date())
                .filter_map(|(_, place)| Some(pushed(thread.identity(place)?.key.label, name.clone()))),
        );
        lifetimes.extend(thread.open_lifetimes());
    }
    (waits, held_up) = (reader.waits(waits), reader.held_up(held_up));
    (value_waits, shorter) = (reader.values(value_waits), shorter.map(|shorter| reader.shorter(shorter)));
    let mut activity = reader.activity(collector.map(|collector| collector.totals(session.clock.now())));
    open.extend(lifetimes.into_iter().map(|OpenLifetimes { label, thread, count }| {
        let (label, mut open) = pushed(label, thread);
        (open.style, open.count) = (RangeStyle::StartEnd, count);
        (label, open)
    }));
    // After the rows, so that no duration is longer than the window.
    let now = end.map_or_else(|| session.clock.now(), |end| end.at);
    let from = reader.start(window, now);
    let stream_rows = session.streams.rows(&|key| reader.first_time(key));
    let mut stream_rows = reader.streams(stream_rows);
    let mut held = guards::HeldGuards::find(session, &all_threads);
    // A copy, so that a thread that needs a new name waits only for the copying.
    let names = &mut if reader.is_part() { session.copy_of_names_again() } else { session.copy_of_names() };
    let joined = names.join_splits();
    if !joined.is_empty() {
        let join = |label: &mut u32, node: &mut u32| (*label, *node) = (joined.label(*label), joined.node(*node));
        rows.iter_mut().for_each(|(key, row)| join(&mut key.label, &mut row.node));
        calls.iter_mut().for_each(|call| join(&mut call.identity.label, &mut call.identity.node));
        waits
            .iter_mut()
            .chain(&mut held_up)
            .flat_map(|(labels, _)| labels)
            .for_each(|label| *label = joined.label(*label));
        value_waits.iter_mut().for_each(|([label, _], _)| *label = joined.label(*label));
        let shorter = shorter.iter_mut().flatten().flat_map(|(labels, ..)| labels);
        shorter.for_each(|label| *label = joined.label(*label));
        // Two names that are one now may both have ended before the same wait.
        coincidences.retain(|(key, _)| joined.label(key.by.label) == key.by.label);
        coincidences.iter_mut().for_each(|(key, _)| key.waiter = joined.label(key.waiter));
        stream_rows.iter_mut().for_each(|(_, node, key, _)| join(&mut key.label, node));
        held.join(&joined);
        activity.iter_mut().for_each(|all| gpu::join(all, &joined));
    }
    let merged = Merged::of(&rows, names);
    let mut folded = Keyed::default();
    // GPU work stays at the nodes to which it was attributed, and so do the rows.
    if activity.is_none() {
        let to;
        (to, folded) = held.fold(&mut names.catalog);
        let fold = |node: &mut u32| *node = to.get(*node as usize).copied().unwrap_or(*node);
        rows.iter_mut().for_each(|(_, row)| fold(&mut row.node));
        stream_rows.iter_mut().for_each(|(_, node, ..)| fold(node));
    }
    let threads = by_thread(&rows, &ends);
    let mut totals = node_totals(&rows, &threads, &stream_rows, names, &folded, !asked.is_empty());
    let mut summary = Summary::default();
    summary.elapsed_ns = rate.ns(u128::from(now.saturating_sub(from)));
    summary.ranges = ranges(&merged, names, rate, asked);
    summary.stream_ranges = stream_ranges(&stream_rows, names, asked);
    let calls_of_threads = by_thread(&calls, &call_ends);
    let (calls, uncounted) = calls::by_node(&calls);
    add_uncounted(&mut totals, &uncounted);
    for (node, ticks) in blocked::blocked(names.catalog.nodes(), &totals, &calls, &threads) {
        if let Some(node) = totals.get_mut(node as usize) {
            node.blocked = ticks;
        }
    }
    let graphs = activity.as_ref().map(|all| gpu::graphs(all, names)).unwrap_or_default();
    let activity_of_nodes = activity.as_ref().map(|all| (all, &graphs));
    summary.tree = tree(&totals, &calls, activity_of_nodes, names, rate, window, asked);
    if from > window {
        begin_later(&mut summary.tree, rate.ns(u128::from(from - window)));
    }
    summary.threads = threads::threads(names.catalog.nodes(), &calls, &threads, &calls_of_threads, rate);
    let named_calls = calls::by_name(&calls, names);
    summary.calls = calls::stats(&named_calls, names, rate, asked);
    let mut told = calls::waits(&waits, names, rate);
    values::tell(&mut told, &value_waits, (names, &session.values), rate);
    calls::set_p99_without(&mut told, &named_calls, shorter.as_deref().unwrap_or_default(), names, rate);
    let mut for_workers = calls::waits(&held_up, names, rate);
    for_workers.iter_mut().for_each(|row| row.resource = Some(WaitStats::WORKER.to_owned()));
    // Many waits together prove it: those of one window may be too few.
    coincidences.retain(|_| !reader.is_part());
    let inferred = coincidence::inferred(&coincidences, (names, &session.values), rate);
    summary.waits = [told, for_workers, inferred].concat().joined();
    let told = all_threads.iter().filter_map(|thread| Some(thread.followed.get()?.waits.lost()));
    let inferred = all_threads.iter().filter_map(|thread| Some(thread.coincidences.get()?.lost()));
    let held_up = all_threads.iter().filter_map(|thread| Some(thread.held_up.get()?.lost()));
    let lost_waits: u64 = told.chain(inferred).chain(held_up).sum();
    if lost_waits > 0 {
        summary.notes.push(format!("{lost_waits} parts of waits are in no row: too many pairs of names wait."));
    }
    if shorter.is_none() {
        let note = "Too many names waited for each other to know the p99 of calls without these waits.";
        summary.notes.push(note.to_owned());
    }
    let is_batched = summary.calls.iter().any(|row| row.batches.is_some());
    summary.notes.extend(session.batches.notes(is_batched));
    summary.gpu = activity.as_ref().map(|all| gpu::activity(all, &graphs, names, rate, asked, std::process::id()));
    #[cfg(feature = "injection")]
    {
        summary.openacc = reader.openacc(openacc::stats(&all_threads, window, rate, asked));
        summary.notes.extend(openacc::notes(&all_threads, window, session));
    }
    summary.off_cpu = reader.off_cpu(sampler.map_or_else(Vec::new, |sampler| sampler.stats(window, names, &joined)));
    summary.categories = categories(&merged, rate, asked);
    summary.losses = reader.losses(losses(session, names, open, end.and_then(|end| end.cut.as_ref())));
    // An instance counts in one window with all of its time, which may have begun before.
    summary.outside_ns = (!reader.is_part() && threads::all_is_known(session, &totals, &calls, &summary.losses))
        .then(|| rate.ns(threads::outside(now.saturating_sub(window), &rows, &calls)));
    summary.losses.nodes_over_limit = spans_in_more(&rows, names);
    summary.losses.recursive_rows = recursive_rows(&totals, names);
    if let Some(all) = &activity {
        summary.losses.activity = gpu::losses(all);
    }
    summary.notes.extend(calls::still_waiting(engine, from, now, names, rate));
    summary.notes.extend(calls::at_the_root(&uncounted, names));
    summary.notes.extend(held.notes);
    if session.gpu {
        summary.notes.extend(stream::notes(&session.streams));
    }
    #[cfg(feature = "injection")]
    let ignored = nvtx_rs::tool::ignored_calls();
    #[cfg(not(feature = "injection"))]
    let ignored = 0_u64;
    if session.foreign.is_received() && ignored > 0 {
        summary.notes.push(format!(
            "{ignored} NVTX calls of signal handlers came while another call of their thread was being measured. They \
             are in no table."
        ));
    }
    if session.calls.over_limit() > 0 {
        let spans = session.calls.over_limit();
        summary.notes.push(format!("Too many spans were open at once: the calls of {spans} spans were not followed."));
    }
    if session.clock.worst_correction_ppm() > WORTH_A_NOTE_PPM {
        let ppm = session.clock.worst_correction_ppm();
        summary.notes.push(format!("The rate of the clock was corrected by {ppm} ppm between two summaries."));
    }
    let cut = summary.ranges.iter().filter(|row| row.name.len() + 2 >= MAX_BYTES && row.name.ends_with('…')).count();
    if cut > 0 {
        let rows = if cut == 1 { "row has" } else { "rows have" };
        summary.notes.push(format!(
            "{cut} {rows} a name that was cut at {} KiB: ranges whose names differ only behind that are in one row.",
            MAX_BYTES / 1_024
        ));
    }
    summary.losses.rows_without_median = count(summary.ranges.iter().filter(|row| row.times.median_ns.is_none()))
        + count(summary.stream_ranges.iter().filter(|row| row.times.median_ns.is_none()));
    summary
}

/// Counts first entries from the start of a window, so many nanoseconds after that of the profiler's.
fn begin_later(nodes: &mut [TreeNode], later: u64) {
    for node in nodes {
        node.first_ns = node.first_ns.saturating_sub(later);
        if let Some(longest) = &mut node.longest {
            longest.start_ns = longest.start_ns.saturating_sub(later);
        }
        begin_later(&mut node.children, later);
    }
}

/// The number of an open range's label, and the range without it.
type Unnamed = (u32, OpenRange);

fn pushed(label: u32, thread: String) -> Unnamed {
    (label, OpenRange::new(String::new(), thread))
}

#[inline(never)]
fn losses(session: &Session, names: &Names, open: Vec<Unnamed>, cut: Option<&Cut>) -> Losses {
    let load = |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    let mut all = Vec::new();
    if let Some(Cut { labels, thread, .. }) = cut {
        all.extend(labels.iter().map(|&label| pushed(label, thread.clone())));
        all.iter_mut().for_each(|(_, range)| range.cut = true);
    }
    all.extend(open);
    all.iter_mut().for_each(|(label, range)| range.label = label_shown(names, *label));
    let mut losses = Losses::default();
    losses.split_instances = load(&session.losses.split_instances);
    losses.stray_exits = load(&session.losses.stray_exits);
    losses.spans_dropped = load(&session.losses.spans_dropped);
    losses.open = all.into_iter().map(|(_, range)| range).in_vec();
    losses.streams = if session.gpu { stream::losses(&session.streams) } else { StreamLosses::default() };
    losses.names_over_limit = names.catalog.names_over_limit;
    losses.categories_over_limit = names.catalog.categories_over_limit;
    losses
}
