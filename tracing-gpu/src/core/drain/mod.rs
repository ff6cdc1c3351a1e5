//! Merges the rows of all threads into a [`Summary`], without stopping the threads.
//!
//! Here ticks become nanoseconds, and numbers become names. [`summarise`] makes ranges and the tree from rows, and each
//! [`Part`] adds the figures of one capability. `recursion` finds time that would count twice because a node is inside
//! itself. `blocked` finds the time in which a span waited for its children.
//!
//! It imports the threads' state, the session and the parts' structs. Nothing below calls it.

pub(crate) mod blocked;
pub(crate) mod cursor;
mod guards;
pub(crate) mod names;
pub(crate) mod part;
pub(crate) mod ranges;
mod recursion;
pub(crate) mod rows;
pub(crate) mod times;
pub(crate) mod totals;
pub(crate) mod tree;

use std::time::Duration;

use nvtx_rs::text::MAX_BYTES;
use range_model::stats::{Keyed, Lean};
use range_model::{Losses, Note, OpenRange, RangeStats, Summary, TreeNode};

use crate::clock::Ticks;
use crate::core::session::{Names, Session};
use crate::core::thread::engine::Engine;
use crate::core::thread::state::ThreadState;
use crate::parts::drain::open_lifetimes;
pub(crate) use cursor::Cursor;
use cursor::Reader;
use names::label_shown;
use part::{Part, Run};
use ranges::{Merged, categories, ranges};
use rows::Rows;
use tree::{count, node_totals, recursive_rows, spans_in_more, tree};

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
/// `parts` add what they measure; their notes stand in this order. `asked` are additional quantiles.
#[inline(never)]
pub(crate) fn summarise(
    engine: &'static Engine,
    mut parts: Vec<Box<dyn Part>>,
    end: Option<&End>,
    cursor: Option<&mut Cursor>,
    asked: &[f64],
) -> Summary {
    let session = &engine.session;
    let rate = session.clock.calibrate();
    // A thread that begins a window clears its rows one after another.
    let _same_window = session.gate.hold();
    let window = session.window();
    let mut reader = Reader::new(cursor, window);
    let all_threads = engine.all_threads();
    let (mut rows, mut open) = (Rows::default(), OpenRanges::of_ended_threads(engine));
    for thread in &all_threads {
        // A thread that has made no call since the window began still has rows of an older window.
        if thread.window.is(window) {
            rows.copy(thread, &mut reader);
            parts.iter_mut().for_each(|part| part.copy(thread, &mut reader));
        }
        open.copy(thread); // right after its rows, so that few ranges end in between
    }
    parts.iter_mut().for_each(|part| part.read(&mut reader));
    // After the rows, so that no duration is longer than the window.
    let now = end.map_or_else(|| session.clock.now(), |end| end.at);
    let from = reader.start(window, now);
    let mut held = guards::HeldGuards::find(session, &all_threads);
    // A copy, so that a thread that needs a new name waits only for the copying.
    let names = &mut if reader.is_part() { session.copy_of_names_again() } else { session.copy_of_names() };
    let joined = names.join_splits();
    if !joined.is_empty() {
        rows.join(&joined);
        held.join(&joined);
        parts.iter_mut().for_each(|part| part.join(&joined));
    }
    let merged = Merged::of(&rows.all, names);
    let mut folded = Keyed::default();
    if !parts.iter().any(|part| part.keeps_nodes()) {
        let to;
        (to, folded) = held.fold(&mut names.catalog);
        let fold = |node: &mut u32| *node = to.get(*node as usize).copied().unwrap_or(*node);
        rows.fold(&fold);
        parts.iter_mut().for_each(|part| part.fold(&fold));
    }
    let threads = rows.by_thread();
    let mut nodes = node_totals(&rows.all, &threads, names, &folded, !asked.is_empty());
    parts.iter_mut().for_each(|part| part.count(&mut nodes, names));
    blocked::add_blocked(names.catalog.nodes(), &mut nodes, &threads);

    let mut summary = Summary::default();
    summary.elapsed_ns = rate.ns(u128::from(now.saturating_sub(from)));
    summary.ranges = ranges(&merged, names, rate, asked);
    summary.categories = categories(&merged, rate, asked);
    summary.tree = tree(&nodes, &parts, names, rate, window, asked);
    if from > window {
        begin_later(&mut summary.tree, rate.ns(u128::from(from - window)));
    }
    let mut all_losses = losses(session, names, open.all, end.and_then(|end| end.cut.as_ref()));
    parts.iter().for_each(|part| part.lose(&mut all_losses));
    summary.losses = reader.losses(all_losses);
    summary.losses.nodes_over_limit = spans_in_more(&rows.all, names);
    summary.losses.recursive_rows = recursive_rows(&nodes.totals, names);
    summary.losses.rows_without_median = count(summary.ranges.iter().filter(|row| row.times.median_ns.is_none()));
    let (joined, nodes, all_threads) = (&joined, &nodes, &all_threads[..]);
    let run = Run { engine, all_threads, window, from, now, rate, names, joined, threads: &threads, nodes, asked };
    parts.iter_mut().for_each(|part| part.finish(&run, &mut reader, &mut summary));
    summary.notes.extend(held.notes);
    summary.notes.extend(notes(session, &summary.ranges));
    summary
}

/// Notes on the clock and on names.
fn notes(session: &Session, ranges: &[RangeStats]) -> Vec<Note> {
    let mut notes = Vec::new();
    let ppm = session.clock.worst_correction_ppm();
    if ppm > WORTH_A_NOTE_PPM {
        notes.push(Note::ClockCorrected { ppm });
    }
    let rows = ranges.iter().filter(|row| row.name.len() + 2 >= MAX_BYTES && row.name.ends_with('…')).count();
    if rows > 0 {
        notes.push(Note::NamesCut { rows: rows as u64, bytes: MAX_BYTES as u64 });
    }
    notes
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

/// The ranges and lifetimes that are open now.
struct OpenRanges {
    all: Vec<Unnamed>,
}

impl OpenRanges {
    /// The ranges that ended threads have left open.
    fn of_ended_threads(engine: &Engine) -> Self {
        let abandoned = engine.abandoned().into_iter().map(|range| {
            let (label, mut open) = pushed(range.label, range.thread);
            open.count = range.count;
            (label, open)
        });
        Self { all: abandoned.in_vec() }
    }

    /// Adds the open ranges of a thread.
    fn copy(&mut self, thread: &'static ThreadState) {
        let name = thread.name.lock().clone();
        let places = thread.stack.open().filter(|_| thread.is_up_to_date());
        let open = places.filter_map(|(_, place)| Some(pushed(thread.identity(place)?.key.label, name.clone())));
        self.all.extend(open);
        self.all.extend(open_lifetimes(thread));
    }
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
    losses.names_over_limit = names.catalog.names_over_limit;
    losses.categories_over_limit = names.catalog.categories_over_limit;
    losses
}
