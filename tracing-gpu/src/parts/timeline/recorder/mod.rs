//! The thread that writes timelines while the program runs: takes the records of threads and the GPU's work, and passes
//! them to the folds and the files.
//!
//! It does so twenty times a second, and earlier after many records. A file that cannot be written is given up; the
//! other files, and the program, continue.
//! `moments` converts ticks, `open_ranges` keeps the values of ranges that have not ended, `span_fields` the fields of
//! spans, and `gpu` writes what the collector has joined.
//!
//! It imports the threads' state, the session, and the collector's records. It knows no profiler, and no summary except
//! the one that it gets at the end.

#[cfg(feature = "cuda")]
mod gpu;
#[cfg(not(feature = "cuda"))]
#[path = "gpu_disabled.rs"]
mod gpu;
mod labels;
mod moments;
mod open_ranges;
mod span_fields;

use std::io;
use std::mem::take;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use nvtx_rs::{Color, Payload};
use parking_lot::Mutex;
use range_model::stats::{Keyed, Lean};
use range_model::timeline::{Call, CallWait, Details, Ending, Item, Mark, Range, Sink, Value};
use range_model::{Fold, Process, RangeStyle, Summary};

use gpu::{GpuRecords, GpuTracks};
use labels::Labels;
use moments::Moments;
use open_ranges::{OpenRanges, OpenValues};
use span_fields::SpanFields;

use crate::clock::Ticks;
use crate::core::record::{OnCpu, RangeNumbers};
use crate::core::session::Session;
use crate::core::thread::engine::Engine;
use crate::core::thread::state::ThreadState;
use crate::outputs::OpenFile;
use crate::parts::timeline::thread::tape::{
    CallRecord, RangeRecord, Record, Recorded, Records, ValuesRecord, WaitRecord,
};
use crate::parts::waits::session::owed::NOBODY;
use crate::process::{spawn, without_write_signals};

/// The fraction of the timeline memory in which fields of spans are remembered.
const FIELDS_PART: usize = 4;
/// The number of record lists whose memory is kept.
const SPARE: usize = 16;
/// The longest interval between two takings of records.
const PERIOD: Duration = Duration::from_millis(50);

/// Writes the timelines of one profiler. Lives as long as the process.
pub(crate) struct Recorder {
    engine: &'static Engine,
    session: &'static Session,
    /// The details that folds need.
    pub(crate) details: Details,
    /// Where the collector adds records of the GPU's side, to be written with the next batch.
    pub(crate) gpu: Mutex<GpuRecords>,
    state: Mutex<State>,
    stop: AtomicBool,
    lost: AtomicU64,
    lost_details: [AtomicU64; Details::EACH.len()],
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recorder")
    }
}

struct State {
    takers: Takers,
    /// Start of the window that the folds answer for.
    window: Ticks,
    moments: Moments,
    labels: Labels,
    /// Threads that the files have announced.
    threads: Keyed<u32, ()>,
    /// Records that were taken last and are written next; and memory to reuse.
    ahead: Vec<Records>,
    spare: Vec<Records>,
    fields: SpanFields,
    open: OpenRanges,
    tracks: GpuTracks,
}

/// The receivers of items.
struct Takers {
    folds: Vec<Box<dyn Fold>>,
    files: Vec<OpenFile>,
    errors: Vec<io::Error>,
}

impl Takers {
    /// Passes an item to all folds and files. No file shows details.
    fn give(&mut self, item: &Item<'_>) {
        self.folds.iter_mut().for_each(|fold| fold.item(item));
        if matches!(item, Item::Detail(_)) {
            return;
        }
        self.each_file(&mut |sink| sink.item(item));
    }

    /// Passes new results of folds to files.
    fn show(&mut self) {
        let mut folds = take(&mut self.folds);
        folds.iter_mut().for_each(|fold| fold.show(&mut |item| self.each_file(&mut |sink| sink.item(item))));
        self.folds = folds;
    }

    /// Calls `what` for each file. A file that fails is given up.
    fn each_file(&mut self, what: &mut dyn FnMut(&mut dyn Sink) -> io::Result<()>) {
        let Self { files, errors, .. } = self;
        files.retain_mut(|file| file.write(what).map_err(|error| errors.push(error)).is_ok());
    }
}

impl Recorder {
    /// Starts writing to open files. `errors` are those so far; a file that cannot be begun is given up. Returns the
    /// errors so far as lines; the end reports them, too.
    ///
    /// `memory` limits the waiting records of the GPU's side. The session's room limits those of threads.
    pub(crate) fn start(
        engine: &'static Engine,
        process: &Process,
        (files, errors): (Vec<OpenFile>, Vec<io::Error>),
        folds: Vec<Box<dyn Fold>>,
        memory: usize,
    ) -> (&'static Self, Vec<String>) {
        let session = &engine.session;
        let details = folds.iter().fold(Details::NONE, |all, fold| all.and(fold.details()));
        let mut takers = Takers { folds, files, errors };
        without_write_signals(|| takers.each_file(&mut |sink| sink.begin(process)));
        let said = takers.errors.iter().map(io::Error::to_string).in_vec();
        let recorder: &'static Self = Box::leak(Box::new(Self {
            engine,
            session,
            details,
            gpu: Mutex::new(GpuRecords::new(memory)),
            state: Mutex::new(State {
                takers,
                window: session.clock.origin(), // folds that begin late learn of the present window
                moments: Moments::new(session.clock.origin()),
                labels: Labels::default(),
                threads: Keyed::default(),
                ahead: Vec::new(),
                spare: Vec::new(),
                fields: SpanFields::new(memory / FIELDS_PART),
                open: OpenRanges::default(),
                tracks: GpuTracks::new(session.clock.origin_monotonic_ns()),
            }),
            stop: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            lost_details: Default::default(),
            thread: Mutex::default(),
        }));
        let thread = spawn("tracing-gpu-files", Box::new(|| without_write_signals(|| recorder.run())));
        *recorder.thread.lock() = thread.ok(); // without a thread, the end writes all that fits
        (recorder, said)
    }

    fn run(&self) {
        let Some(room) = &self.session.parts.tape_room else { return };
        let asleep = Mutex::new(());
        while !self.stop.load(Relaxed) {
            let _elapsed = room.wake.wait_for(&mut asleep.lock(), PERIOD);
            self.write();
        }
    }

    /// Number of details without room so far, with the name of each kind.
    pub(crate) fn lost_details(&self) -> Vec<(u64, &'static str)> {
        let lost = self.lost_details.iter().map(|lost| lost.load(Relaxed));
        lost.zip(Details::EACH).filter(|(lost, _)| *lost > 0).map(|(lost, (_, what))| (lost, what)).in_vec()
    }

    /// Number of records without room so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Writes the records so far.
    pub(crate) fn write(&self) {
        let mut state = self.state.lock();
        let state = &mut *state;
        // A span may be created on one thread and entered on another, whose records are taken earlier. The present
        // batch was therefore taken before all records are taken again: then the fields of its spans are available.
        let mut taken = take(&mut state.ahead);
        self.take(state, &mut taken);
        let (count, mut places) = (taken.len(), None);
        self.take(state, &mut taken);
        let gpu = self.gpu.lock().take();
        if !gpu.is_empty() || count > 0 {
            state.moments.add(self.session.clock.anchor()); // after all conversions that use the old reading
            state.labels.update(self.session);
        }
        self.restart_folds(state);
        for at in 0..count {
            write_records(state, &taken, at, &mut places, self.session);
            let Some(mut records) = taken.get_mut(at).map(take) else { continue };
            self.session.parts.tape_room.iter().for_each(|room| room.give_back(records.room()));
            if state.spare.len() < SPARE {
                records.clear();
                state.spare.push(records);
            }
        }
        state.ahead = taken.split_off(count);
        let lost = gpu.lost;
        self.lost_details.iter().zip(gpu.lost_details).for_each(|(all, lost)| _ = all.fetch_add(lost, Relaxed));
        let State { takers, moments, labels, tracks, open, fields, .. } = state;
        tracks.write(&gpu, moments, labels, &mut |item| takers.give(item));
        self.lost.fetch_add(lost + take(&mut open.lost) + take(&mut fields.lost), Relaxed);
        state.takers.show();
        state.takers.each_file(&mut |sink| sink.flush());
    }

    /// Tells the folds of a new window, before they get records of it.
    fn restart_folds(&self, state: &mut State) {
        let window = self.session.window();
        if window != state.window {
            state.window = window;
            state.moments.add(self.session.clock.anchor());
            let at = state.moments.ns(window);
            state.takers.folds.iter_mut().for_each(|fold| fold.restart(at));
        }
    }

    /// Takes the records of all threads, and reads fields in them that were recorded after the creation of a span.
    fn take(&self, state: &mut State, all: &mut Vec<Records>) {
        let from = all.len();
        for thread in self.engine.all_threads() {
            // Only the present records: a thread that is faster than the files must not keep the others waiting.
            for _ in 0..self.take_piece(state, thread, all) {
                self.take_piece(state, thread, all);
            }
        }
        for records in all.get(from..).unwrap_or_default() {
            records.updates().for_each(|record| state.fields.add(&record, self.session));
        }
    }

    /// Takes the next piece of a thread's records. Returns the number of remaining pieces.
    fn take_piece(&self, state: &mut State, thread: &ThreadState, all: &mut Vec<Records>) -> usize {
        let mut records = state.spare.pop().unwrap_or_default();
        let (lost, left) = thread.parts.tape.take(&mut records);
        self.lost.fetch_add(lost, Relaxed);
        if records.is_empty() {
            state.spare.push(records);
        } else {
            all.push(records);
        }
        left
    }

    fn stop(&self) {
        self.stop.store(true, Relaxed);
        if let Some(room) = &self.session.parts.tape_room {
            room.wake.notify_one();
        }
        if let Some(thread) = self.thread.lock().take() {
            let _panicked = thread.join();
        }
    }

    /// Abandons the files in their present state, and all unwritten records.
    pub(crate) fn abandon(&self) {
        self.stop();
        self.state.lock().takers.files.clear();
    }

    /// Writes the remaining records, and the calls that are still open. Later records are lost.
    pub(crate) fn complete(&self) {
        self.stop();
        self.write();
        self.write(); // the batch that was taken ahead
        let state = &mut *self.state.lock();
        let now = self.session.clock.now();
        state.moments.add(self.session.clock.anchor());
        for call in self.session.parts.calls.iter() {
            let Some((start, numbers, (thread, place))) = call.open_numbers() else { continue };
            let Some(home) = self.engine.thread_at(thread) else { continue };
            let Some(label) = home.identity(place).map(|identity| identity.key.label) else { continue };
            give_call(state, home.thread_id(), label, (start, now), numbers, Ending::Cut);
        }
        self.lost.fetch_add(take(&mut state.fields.lost), Relaxed);
    }

    /// To be called next: lets the folds add their results to the last summary.
    pub(crate) fn finish_folds(&self, summary: &mut Summary) {
        let takers = &mut self.state.lock().takers;
        takers.folds.iter_mut().for_each(|fold| fold.finish(summary));
        takers.show();
        takers.folds.clear();
    }

    /// Passes a window to the files. The end reports their errors.
    pub(crate) fn window(&self, summary: &Summary) {
        without_write_signals(|| self.state.lock().takers.each_file(&mut |sink| sink.window(summary)));
    }

    /// To be called next: closes the files. Returns the errors of each.
    pub(crate) fn finish(&self, summary: &Summary) -> Vec<io::Error> {
        let takers = &mut self.state.lock().takers;
        let lost = self.lost.load(Relaxed);
        takers.each_file(&mut |sink| sink.end(summary, lost));
        takers.files.clear();
        take(&mut takers.errors)
    }
}

/// For each span number, the index of the list with its fields and their place in it.
type Places = Keyed<u64, (usize, usize)>;

/// Writes the records of one of the lists. The first search for a span in later lists fills `places`.
fn write_records(state: &mut State, lists: &[Records], at: usize, places: &mut Option<Places>, session: &Session) {
    let Some(records) = lists.get(at) else { return };
    // Adds the fields of a span, if a list after this one has its creation: it was created on another thread.
    let mut find = |RangeNumbers { span, has_fields, .. }: RangeNumbers, known: &mut SpanFields| {
        if !has_fields || known.is_known(span) {
            return;
        }
        let search = || {
            let mut places = Places::default();
            for (list, records) in lists.iter().enumerate().skip(at + 1) {
                records.new_spans().for_each(|(span, place)| _ = places.row_or(span, || (list, place)));
            }
            places
        };
        let later = places.get_or_insert_with(search).get(&span).filter(|(list, _)| *list > at);
        let record = later.and_then(|&(list, place)| lists.get(list)?.fields_at(place));
        record.iter().for_each(|record| known.add(record, session));
    };
    // Values of the next range. They come directly before it, or with values of surrounding ranges in between.
    let mut values: Vec<(u32, ValuesRecord)> = Vec::new();
    let mut fields: Vec<(&'static str, Value<'_>)> = Vec::new();
    let mut on_cpu = None; // the thread, start and processor time of the next range
    let mut last = None; // the thread of the previous record, which most records share
    for (thread, record) in records.iter() {
        let is_new = last != Some(thread) && state.threads.insert(thread, ());
        last = Some(thread);
        if let Recorded::Other(Record::Thread { name }, _) = record {
            state.takers.give(&Item::Thread { thread, name }); // perhaps a second time, because numbers are reused
        } else if is_new {
            state.takers.give(&Item::Thread { thread, name: "" }); // its name was lost
        }
        match record {
            Recorded::Other(Record::Thread { .. } | Record::Range(_), _) => {}
            Recorded::Fields(record) => {
                if record.at.is_none() {
                    state.fields.add(&record, session);
                }
            }
            Recorded::Call(CallRecord { label, start, end, is_cancelled, numbers }) => {
                find(numbers, &mut state.fields);
                let ending = if is_cancelled { Ending::Cancelled } else { Ending::Closed };
                give_call(state, thread, label, (start, end), numbers, ending);
            }
            Recorded::Wait(WaitRecord { call, by, start, end, is_for_worker }) => {
                let (domain, name) = state.labels.label(by);
                let by = (by != NOBODY).then_some(name);
                let [start, end] = [start, end].map(|at| state.moments.ns(at));
                state.takers.give(&Item::Wait(CallWait { call, start, end, domain, by, is_for_worker }));
            }
            Recorded::Values(record) => values.push((thread, record)),
            Recorded::OnCpu(start, cpu) => on_cpu = Some((thread, start, cpu)),
            Recorded::Other(Record::Restarted { depth, before, start }, _) => {
                state.open.cut(thread, *depth, *before, *start);
            }
            Recorded::Other(Record::Link(link), _) => state.takers.give(&Item::Link(*link)),
            Recorded::Other(Record::Mark { at, domain, level, text }, own) => {
                let at = state.moments.ns(*at);
                fields.clear();
                fields.extend(records.fields(own));
                let fields = fields.as_slice();
                state.takers.give(&Item::Mark(Mark { thread, at, domain: *domain, text, level: *level, fields }));
            }
            Recorded::Range(range) => {
                find(range.numbers, &mut state.fields);
                let start = match range.key.style {
                    RangeStyle::PushPop => state.open.began(thread, range.depth, range.start),
                    _ => range.start,
                };
                let mut own = |own_start| {
                    let index = values.iter().rposition(|(of, own)| (*of, own.start) == (thread, own_start))?;
                    Some(values.swap_remove(index).1)
                };
                // The last values may belong to its end. If a window cut the range, those carry the start of the
                // window.
                let last = own(range.start);
                let first = own(start);
                let kept = state.open.values(thread, start);
                let cpu = on_cpu.take().filter(|(of, own, _)| (*of, *own) == (thread, range.start));
                let cpu = cpu.map_or_else(OnCpu::default, |(.., cpu)| cpu);
                let range = RangeRecord { start, ..range };
                let Some(described) = kept
                    .as_ref()
                    .map(|kept| (kept.color, kept.payload))
                    .or_else(|| first.or(last).map(|own| (own.color, own.payload)))
                else {
                    give_range(state, thread, (&range, cpu), (None, None), &[]);
                    continue;
                };
                fields.clear();
                for own in [first, last].into_iter().flatten() {
                    fields.extend(records.fields(own.fields));
                }
                match kept.filter(|kept| !kept.fields.is_empty()) {
                    Some(kept) => {
                        let all: Vec<(&str, Value<'_>)> = kept.fields.iter().chain(fields.iter().copied()).collect();
                        give_range(state, thread, (&range, cpu), described, &all);
                    }
                    None => give_range(state, thread, (&range, cpu), described, &fields),
                }
            }
        }
    }
    // Values of ranges that are still open.
    for (thread, ValuesRecord { start, color, payload, fields }) in values {
        let fields = records.fields(fields).collect();
        state.open.keep(thread, start, OpenValues { color, payload, fields });
    }
}

fn give_range(
    state: &mut State,
    thread: u32,
    (range, cpu): (&RangeRecord, OnCpu),
    (color, payload): (Option<Color>, Option<Payload>),
    fields: &[(&'static str, Value<'_>)],
) {
    let State { takers, moments, labels, fields: known, .. } = state;
    let RangeRecord { key, start, end, depth, began_on, cut, numbers } = *range;
    let (domain, name) = labels.label(key.label);
    let (start_ns, end_ns) = (moments.ns(start), moments.ns(end));
    let pace = end_ns.saturating_sub(start_ns) as f64 / end.saturating_sub(start).max(1) as f64;
    let length = |ticks: u64| (ticks as f64 * pace) as u64;
    let write = |fields: &[(&'static str, Value<'_>)]| {
        let item = Item::Range(Range {
            thread: began_on.unwrap_or(thread),
            start: start_ns,
            end: end_ns,
            style: key.style,
            domain,
            name,
            depth,
            category: labels.category(key.category),
            color: color.map(|color| color.to_argb()),
            payload: payload.map(value_of),
            fields,
            end_thread: began_on.map(|_| thread),
            cut,
            on_cpu_ns: length(cpu.on),
            off_cpu_ns: length(cpu.off),
            span: numbers.span,
            call: numbers.call,
            parent: numbers.parent,
        });
        takers.give(&item);
    };
    known.write(numbers, end, fields, write);
}

fn give_call(
    state: &mut State,
    thread: u32,
    label: u32,
    (start, end): (Ticks, Ticks),
    numbers: RangeNumbers,
    ending: Ending,
) {
    let State { takers, moments, labels, fields: known, .. } = state;
    let (domain, name) = labels.label(label);
    let RangeNumbers { span, call, parent, .. } = numbers;
    let (start, end) = (moments.ns(start), moments.ns(end));
    let write = |fields: &[(&'static str, Value<'_>)]| {
        let item = Item::Call(Call { call, span, parent, thread, start, end, domain, name, fields, ending });
        takers.give(&item);
    };
    known.write(numbers, Ticks::MAX, &[], write);
}

/// A payload in the form of timelines.
pub(crate) fn value_of(payload: Payload) -> Value<'static> {
    match payload {
        Payload::U64(value) => Value::Unsigned(value),
        Payload::I64(value) => Value::Integer(value),
        Payload::F64(value) => Value::Float(value),
        Payload::U32(value) => Value::Unsigned(value.into()),
        Payload::I32(value) => Value::Integer(value.into()),
        Payload::F32(value) => Value::Float(value.into()),
    }
}

#[cfg(test)]
mod tests;
