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
#[cfg(feature = "openacc")]
mod openacc;
mod recursion;
#[cfg(all(target_os = "linux", feature = "command"))]
mod row_file_summary;
mod threads;
mod values;

use std::time::Duration;

use nvtx_rs::text::MAX_BYTES;
use range_report::stats::histogram::middle_of;
use range_report::stats::{Between, Distribution, Keyed, Lean, Named, order};
use range_report::summary::{HISTOGRAM_SCALE, Join as _, LongestInstance, WaitStats, histogram_bucket};
use range_report::{
    CategoryStats, GraphWork, Losses, OpenRange, Quantile, RangeStats, RangeStyle, StreamLosses, StreamStats, Summary,
    Times, TreeNode,
};

use crate::clock::{Rate, Ticks};
use crate::collector::{ActivityTotals, Collector};
use crate::record::{RangeKey, StreamRow, StreamTime, style_number, style_of};
use crate::sampler::Sampler;
use crate::session::catalog::{CategoryName, ROOT};
use crate::session::{Names, Session};
use crate::stream;
use crate::thread::call_row::CallCopy;
use crate::thread::engine::Engine;
use crate::thread::lifetimes::OpenLifetimes;
use crate::thread::row::RowCopy;
use calls::NodeCalls;
pub(crate) use cursor::Cursor;
use cursor::Reader;
#[cfg(all(target_os = "linux", feature = "command"))]
pub use row_file_summary::{RowFileSummary, read_row_file};

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
    #[cfg(feature = "openacc")]
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
    #[cfg(feature = "nvtx-tool")]
    let ignored = nvtx_rs::tool::ignored_calls();
    #[cfg(not(feature = "nvtx-tool"))]
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

fn count<T>(items: impl Iterator<Item = T>) -> u64 {
    items.count() as u64
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

/// The shown name, and a number that distinguishes rows of that name. All rows by name use this key type: see
/// [`Keyed`].
type Shown = (String, u32);

/// Distributions of all threads and parents together.
#[derive(Default)]
struct Merged {
    /// By the shown name, as Nsight Systems groups: `a:b` in the default domain is `b` in the domain `a`.
    ranges: Named<Shown, (u32, Distribution)>,
    categories: Named<Shown, Distribution>,
}

impl Merged {
    fn of(rows: ThreadRows<'_>, names: &Names) -> Self {
        let mut merged = Self::default();
        for (key, times) in rows.iter().map(|(key, row)| (key, &row.times)).filter(|(_, times)| times.count > 0) {
            let shown = (label_shown(names, key.label), style_number(key.style));
            merged.ranges.row_or(shown, || (key.label, Distribution::default())).1.merge(times);
            // A category may be a number in one place and the same digits as text in another: they share a row.
            let category = names.catalog.category_of(key.category).map(|category| match category {
                CategoryName::Text(text) => text.to_string(),
                CategoryName::Number(number) => number.to_string(),
            });
            if let Some(category) = category {
                merged.categories.row((category, 0)).merge(times);
            }
        }
        merged
    }
}

/// Quantiles that are always kept, beside the median.
const ALWAYS: [f64; 2] = [0.9, 0.99];

/// The asked quantiles, in nanoseconds; empty if durations are not known.
#[inline(never)]
fn quantiles(distribution: &Distribution, rate: Rate, asked: &[f64]) -> Vec<Quantile> {
    let ns = |ticks: u64| rate.ns(u128::from(ticks)) as f64;
    let found = distribution.quantiles(asked).unwrap_or_default();
    let quantiles = asked.iter().zip(found).map(|(&q, Between { lower, upper, way, exact })| {
        Quantile::new(q, ns(lower) + (ns(upper) - ns(lower)) * way, exact)
    });
    quantiles.in_vec()
}

#[inline(never)]
fn times(distribution: &Distribution, rate: Rate, asked: &[f64]) -> Times {
    let mut kept = [&ALWAYS[..], asked].concat();
    kept.retain(|&q| q != 0.5); // the median has a field of its own
    order::numbers(&mut kept);
    let median = distribution.median();
    let mut times = Times::new(distribution.count, rate.ns(distribution.total));
    times.min_ns = rate.ns(u128::from(distribution.min));
    times.max_ns = rate.ns(u128::from(distribution.max));
    // Each of the two middle durations is a whole number of nanoseconds, so their mean ends in .0 or .5.
    times.median_ns = median.map(|median| {
        (u128::from(rate.ns(u128::from(median.lower))) + u128::from(rate.ns(u128::from(median.upper)))) as f64 / 2.0
    });
    times.median_exact = median.is_none_or(|median| median.exact);
    times.stddev_ns = distribution.stddev() * rate.factor();
    times.quantiles = quantiles(distribution, rate, &kept);
    if median.is_some() {
        times.histogram = histogram(distribution, rate);
    }
    times
}

/// How many durations there are of about each length; see [`Times::histogram`].
#[inline(never)]
fn histogram(distribution: &Distribution, rate: Rate) -> Vec<(u32, u64)> {
    let mut counts = [0_u64; 64 * HISTOGRAM_SCALE as usize + 1];
    let single = distribution.samples.iter().map(|&duration| (duration, 1));
    let middles = distribution.buckets.iter().map(|((octave, bucket), count)| (middle_of(octave, bucket), count));
    for (duration, count) in single.chain(middles) {
        if let Some(sum) = counts.get_mut(histogram_bucket(rate.ns(u128::from(duration))) as usize) {
            *sum += count;
        }
    }
    (0..).zip(counts).filter(|(_, count)| *count > 0).in_vec()
}

#[inline(never)]
fn ranges(merged: &Merged, names: &Names, rate: Rate, asked: &[f64]) -> Vec<RangeStats> {
    let rows = merged.ranges.iter().filter_map(|((_, style), (label, all))| {
        let (domain, name) = label_text(names, *label)?;
        let mut row = RangeStats::new(name, times(all, rate, asked));
        row.domain = domain;
        row.style = style_of(*style);
        Some(row)
    });
    let mut rows: Vec<RangeStats> = rows.in_vec();
    // Stable: equal totals stay in the order of their names.
    order::by_most(&mut rows, |row| row.times.total_ns);
    rows
}

#[inline(never)]
fn categories(merged: &Merged, rate: Rate, asked: &[f64]) -> Vec<CategoryStats> {
    let rows = merged.categories.iter();
    let mut rows: Vec<CategoryStats> =
        rows.map(|((category, _), all)| CategoryStats::new(category.clone(), times(all, rate, asked))).in_vec();
    // Stable: equal totals stay in the order of their names.
    order::by_most(&mut rows, |row| row.times.total_ns);
    rows
}

#[inline(never)]
fn label_text(names: &Names, label: u32) -> Option<(Option<String>, String)> {
    names.text_of(label)
}

/// The name as [`RangeStats::label`] gives it.
#[inline(never)]
fn label_shown(names: &Names, label: u32) -> String {
    match label_text(names, label) {
        Some((Some(domain), name)) => format!("{domain}:{name}"),
        Some((None, name)) => name,
        None => String::new(),
    }
}

/// Rows of stream time: one per name and stream.
#[inline(never)]
fn stream_ranges(rows: &[StreamRow], names: &Names, asked: &[f64]) -> Vec<StreamStats> {
    let mut merged: Named<Shown, (u32, StreamTime)> = Named::default();
    for (stream, _, range, row) in rows {
        let shown = (label_shown(names, range.label), *stream);
        let (_, all) = merged.row_or(shown, || (range.label, StreamTime::default()));
        all.times.merge(&row.times);
        all.empty += row.empty;
    }
    let facts = if merged.is_empty() { Vec::new() } else { stream::stream_facts() };
    let mut stats: Vec<StreamStats> = merged
        .into_iter()
        .filter_map(|((_, stream), (label, row))| {
            let (domain, name) = label_text(names, label)?;
            let (stream, floor_ns) = facts.get(stream as usize).cloned().unwrap_or_default();
            let mut stats = StreamStats::new(name, stream, times(&row.times, Rate::IDENTITY, asked));
            stats.domain = domain;
            stats.empty = row.empty;
            stats.floor_ns = floor_ns;
            Some(stats)
        })
        .in_vec();
    order::by_most(&mut stats, |row| row.times.total_ns); // stable, as above
    stats
}

/// The sums over all rows of one node, in ticks.
#[derive(Clone, Default)]
struct NodeTotals {
    calls: u64,
    instances: u64,
    total: u128,
    longest: u64,
    longest_instance: Option<Longest>,
    /// All durations, if quantiles were asked for.
    times: Distribution,
    nested: u128,
    on_cpu: u128,
    off_cpu: u128,
    /// Part of the total that was spent inside the same node on the same thread.
    again: u128,
    /// Part of its self time in which it waited for its children.
    blocked: u128,
    /// First entry of such a span in the window. Before any entry has ended, its creation; the flag tells which.
    first: Option<(bool, u64)>,
    /// In nanoseconds, if any instance was timed on a stream.
    stream: Option<u128>,
}

impl NodeTotals {
    /// 0 if more spans were entered elsewhere than created in the window.
    fn calls(&self) -> u64 {
        u64::try_from(self.calls.cast_signed()).unwrap_or(0)
    }
}

/// The longest instance of a row.
#[derive(Clone, Copy)]
struct Longest {
    entered: Ticks,
    is_first: bool,
    number: Option<u64>,
    of: u64,
}

impl Longest {
    fn of(row: &RowCopy) -> Option<Self> {
        let entered = row.longest_at()?;
        Some(Self { entered, is_first: entered == row.first, number: row.longest_number(), of: row.times.count })
    }
}

/// Totals by node; `threads` are the same rows by thread.
#[inline(never)]
fn node_totals(
    rows: &[(RangeKey, RowCopy)],
    threads: &[ThreadRows<'_>],
    stream_rows: &[StreamRow],
    names: &Names,
    folded: &Keyed<u32, ()>,
    keep_times: bool,
) -> Vec<NodeTotals> {
    let nodes = names.catalog.nodes();
    let mut totals = vec![NodeTotals::default(); nodes.len()];
    for (_, row) in rows {
        if let Some(node) = totals.get_mut(row.node as usize) {
            node.calls = node.calls.wrapping_add(row.calls); // see `Row::change_calls`
            node.instances += row.times.count;
            node.total += row.times.total;
            if row.times.max > node.longest {
                node.longest = row.times.max;
                node.longest_instance = Longest::of(row);
            }
            if keep_times {
                node.times.merge(&row.times);
            }
            node.nested += u128::from(row.nested);
            node.on_cpu += u128::from(row.cpu.on);
            node.off_cpu += u128::from(row.cpu.off);
            // If any thread has entered one, creation times of others do not matter.
            let first = (row.times.count == 0, row.first);
            if row.first > 0 {
                node.first = Some(node.first.map_or(first, |before| before.min(first)));
            }
        }
    }
    for (_, node, _, row) in stream_rows {
        // A row whose instances all enqueued nothing has no GPU time, whatever its markers read.
        let node = totals.get_mut(*node as usize).filter(|_| row.empty < row.times.count);
        if let Some(node) = node {
            node.stream = Some(node.stream.unwrap_or(0) + row.times.total.saturating_sub(row.empty_ns));
        }
    }
    for (node, again) in recursion::counted_again(&names.catalog, folded, threads) {
        if let Some(node) = totals.get_mut(node as usize) {
            node.again = again;
        }
    }
    totals
}

/// Adds the calls of kept spans that are in no row.
#[inline(never)]
fn add_uncounted(totals: &mut [NodeTotals], uncounted: &[(u32, u64)]) {
    for &(node, more) in uncounted {
        if let Some(node) = totals.get_mut(node as usize) {
            node.calls = node.calls.wrapping_add(more);
        }
    }
}

type ThreadRows<'a> = &'a [(RangeKey, RowCopy)];

#[inline(never)]
fn by_thread<'a, R>(rows: &'a [R], ends: &[usize]) -> Vec<&'a [R]> {
    let (mut start, mut threads) = (0, Vec::new());
    for &end in ends {
        threads.push(rows.get(start..end).unwrap_or_default());
        start = end;
    }
    threads
}

#[inline(never)]
fn tree(
    totals: &[NodeTotals],
    calls: &Keyed<u32, NodeCalls>,
    activity: Option<(&ActivityTotals, &Keyed<u32, GraphWork>)>,
    names: &Names,
    rate: Rate,
    window: u64,
    asked: &[f64],
) -> Vec<TreeNode> {
    let nodes = names.catalog.nodes();
    // A parent has a lower number than its children. From the last node to the first, every node is complete when it is
    // moved to its parent.
    let mut children: Vec<Vec<TreeNode>> = vec![Vec::new(); nodes.len()];
    for (id, node) in nodes.iter().enumerate().skip(ROOT as usize + 1).rev() {
        let mut below = children.get_mut(id).map(std::mem::take).unwrap_or_default();
        let work = activity.and_then(|(all, graphs)| gpu::node(all, graphs, id as u32));
        let is_used = |own: &&NodeTotals| own.calls() + own.instances > 0 || own.stream.is_some();
        let Some(own) = totals.get(id).filter(|own| is_used(own) || work.is_some() || !below.is_empty()) else {
            continue;
        };
        let Some((domain, name)) = label_text(names, node.label).filter(|_| node.style == RangeStyle::PushPop) else {
            continue;
        };
        order::by_key(&mut below, |child| child.first_ns);
        // A node without an entry is as old as its children.
        let first_ns = match own.first {
            Some((_, first)) => rate.ns(u128::from(first.saturating_sub(window))),
            None => below.first().map_or(0, |child| child.first_ns),
        };
        let below_stream =
            below.iter().filter_map(|child| child.stream_total_ns).reduce(|sum, child| sum.saturating_add(child));
        let own_stream = own.stream.map(|total| u64::try_from(total).unwrap_or(u64::MAX));
        let of_calls = calls.get(&(id as u32));
        let mut tree_node = TreeNode::new(name);
        tree_node.domain = domain;
        tree_node.calls = own.calls();
        tree_node.instances = own.instances;
        let total = own.total.saturating_sub(own.again);
        tree_node.total_ns = rate.ns(total);
        tree_node.self_ns = rate.ns(own.total.saturating_sub(own.nested));
        tree_node.blocked_ns = rate.ns(own.blocked);
        // Of nodes inside themselves it is not known which part counts twice.
        let of_once = |time: u128| if own.again > 0 { 0 } else { time };
        let on_cpu = of_once(own.on_cpu).min(total);
        tree_node.on_cpu_ns = rate.ns(on_cpu);
        tree_node.off_cpu_ns = rate.ns((on_cpu + of_once(own.off_cpu)).min(total)).saturating_sub(tree_node.on_cpu_ns);
        tree_node.max_ns = rate.ns(u128::from(own.longest));
        tree_node.longest = own.longest_instance.map(|Longest { entered, is_first, number, of }| {
            let mut longest = LongestInstance::default();
            longest.ns = tree_node.max_ns;
            longest.start_ns = rate.ns(u128::from(entered.saturating_sub(window)));
            (longest.is_first, longest.number, longest.of) = (is_first, number, of);
            longest
        });
        tree_node.quantiles = quantiles(&own.times, rate, asked);
        tree_node.awaited_ns = of_calls.map(|calls| rate.ns(calls.awaited()));
        tree_node.awaited_self_ns = of_calls.map(|calls| rate.ns(calls.awaited_self()));
        tree_node.stream_total_ns = own_stream.or(below_stream);
        tree_node.stream_self_ns =
            own_stream.map(|own| own.saturating_sub(below_stream.unwrap_or(0))).or(below_stream.map(|_| 0));
        tree_node.gpu = work;
        tree_node.first_ns = first_ns;
        tree_node.children = below;
        if let Some(siblings) = children.get_mut(node.parent as usize) {
            siblings.push(tree_node);
        }
    }
    let mut roots = children.first_mut().map(std::mem::take).unwrap_or_default();
    order::by_key(&mut roots, |node| node.first_ns);
    roots
}

/// Spans that the tree counts under another name than their own: those in `(more)` rows.
#[inline(never)]
fn spans_in_more(rows: &[(RangeKey, RowCopy)], names: &Names) -> u64 {
    let nodes = names.catalog.nodes();
    let in_more =
        |(key, row): &&(RangeKey, RowCopy)| nodes.get(row.node as usize).is_some_and(|node| node.label != key.label);
    let spans = rows.iter().filter(in_more).fold(0_u64, |sum, (_, row)| row.calls.wrapping_add(sum));
    u64::try_from(spans.cast_signed()).unwrap_or(0) // as in `NodeTotals::calls`
}

/// Rows of the tree that stand for recursion beyond the depth limit. Recursion in `(more)` rows counts there.
#[inline(never)]
fn recursive_rows(totals: &[NodeTotals], names: &Names) -> u64 {
    let catalog = &names.catalog;
    let rows = (0..).zip(catalog.nodes()).zip(totals).filter(|(_, own)| own.instances > 0);
    count(rows.filter(|((id, node), _)| catalog.recursion_of(*id).is_some() && !catalog.is_more(node)))
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
