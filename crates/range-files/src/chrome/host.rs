//! The events on the threads of the process: ranges, calls, marks and calls of CUDA.

use super::batches::Batches;
use super::color::Nearest;
use super::draw::{At, Describe, Draw, Track, Written};
use super::lanes::Lanes;
use super::polls::Polls;
use range_model::stats::Keyed;
use range_model::summary::RangeStyle;
use range_model::timeline::{Api, ApiCall, Call, Ending, Link, Mark, Range, Value};

/// The first number of tracks that are no threads. Linux's numbers of threads end at 2^22.
pub(crate) const OWN_TRACKS: u32 = 10_000_000;
/// The category of calls.
pub(crate) const CALL: &str = "call";
/// What the names of a thread's tracks begin with: of those for ranges, and of those for calls of CUDA.
const RANGES: &str = "";
const API_CALLS: &str = "CUDA API of ";
/// The number of places for the tracks of one thread in the order of tracks.
pub(crate) const PLACES: u32 = 100;

/// The threads of the process.
#[derive(Debug)]
pub(super) struct Host {
    pid: u32,
    threads: Vec<Thread>,
    by_number: Keyed<u32, usize>,
    /// Number and index of the thread of the last item. The next item is likely on the same thread.
    last: (u32, usize),
    next_track: u32,
    next_async: u64,
    batches: Batches,
    polls: Polls,
    alike: Alike,
}

#[derive(Debug)]
struct Thread {
    number: u32,
    name: String,
    ranges: Lanes,
    api_calls: Lanes,
}

impl Host {
    pub(super) fn new(pid: u32) -> Self {
        Self {
            pid,
            threads: Vec::new(),
            by_number: Keyed::default(),
            last: (0, usize::MAX),
            next_track: OWN_TRACKS,
            next_async: 1,
            batches: Batches::default(),
            polls: Polls::default(),
            alike: Alike::default(),
        }
    }

    /// Names a thread. A number may get a second name, because the operating system reuses numbers.
    pub(super) fn thread(&mut self, lines: &mut impl Draw, number: u32, name: &str) {
        let index = self.index(number);
        let track = Track { pid: self.pid, tid: number };
        let unnamed = format!("thread {number}"); // Perfetto counts an empty name as an error
        let name = if name.is_empty() { &unnamed } else { name };
        lines.metadata(track, "thread_name", name);
        lines.order(track, "thread_sort_index", place(index, 0));
        name.clone_into(&mut self.threads[index].name);
    }

    pub(super) fn range(&mut self, lines: &mut impl Draw, range: &Range<'_>) {
        if range.style == RangeStyle::StartEnd {
            return self.start_end(lines, range);
        }
        let track = self.track(lines, range.thread, RANGES, range.start, range.end);
        let event = lines.slice(track, range.name, range.start, range.end);
        describe(event, range, &mut self.alike);
        event.end();
        if range.call != 0 {
            let at = At { track, time: range.start, slice: lines.slice_of(track) };
            self.batches.range(lines, range.call, at);
            self.polls.range(lines, range.call, at);
        }
    }

    pub(super) fn link(&mut self, lines: &mut impl Draw, link: Link) {
        self.batches.link(lines, link);
    }

    /// Start/end ranges do not nest. So each is an asynchronous event: a begin and an end that share an id.
    fn start_end(&mut self, lines: &mut impl Draw, range: &Range<'_>) {
        let (pid, id) = (self.pid, self.next_async);
        self.next_async += 1;
        let event = lines.event("b", Track { pid, tid: range.thread }, range.name);
        event.time("ts", range.start).hex("id", id, 0);
        describe(event, range, &mut self.alike);
        event.end();
        let thread = range.end_thread.unwrap_or(range.thread);
        let event = lines.event("e", Track { pid, tid: thread }, range.name);
        event.time("ts", range.end.max(range.start)).hex("id", id, 0);
        categories(event, range);
        event.end();
    }

    /// Calls overlap one another and go from thread to thread. So they are asynchronous events, which viewers put on
    /// one track for each name.
    pub(super) fn call(&mut self, lines: &mut impl Draw, call: &Call<'_>) {
        let (track, id) = (Track { pid: self.pid, tid: call.thread }, self.next_async);
        self.next_async += 1;
        let event = lines.event("b", track, call.name);
        event.time("ts", call.start).text("cat", CALL).hex("id", id, 0);
        numbers(event, call.span, call.call, call.parent);
        fields(event, call.fields);
        if let Some(domain) = call.domain {
            event.args().text("domain", domain);
        }
        match call.ending {
            Ending::Cancelled => _ = event.args().boolean("cancelled", true),
            Ending::Cut => _ = event.args().boolean("cut", true),
            _ => {}
        }
        event.end();
        let event = lines.event("e", track, call.name);
        event.time("ts", call.end.max(call.start)).text("cat", CALL).hex("id", id, 0).end();
    }

    pub(super) fn mark(&self, lines: &mut impl Draw, mark: &Mark<'_>) {
        let (level, color) = match mark.level {
            1 => ("error", Some("terrible")),
            2 => ("warn", Some("bad")),
            3 => ("info", None),
            4 => ("debug", None),
            _ => ("trace", None),
        };
        let event = lines.event("i", Track { pid: self.pid, tid: mark.thread }, mark.text);
        event.time("ts", mark.at).text("s", "t");
        match mark.domain {
            Some(domain) => event.list("cat", domain, level),
            None => event.text("cat", level),
        };
        if let Some(color) = color {
            event.text("cname", color);
        }
        fields(event, mark.fields);
        event.end();
    }

    /// Calls of CUDA have a track beside that of their thread: they and the ranges are recorded by different means, and
    /// may not nest.
    pub(super) fn api_call(&mut self, lines: &mut impl Draw, call: &ApiCall<'_>) {
        let track = self.track(lines, call.thread, API_CALLS, call.start, call.end);
        let event = lines.slice(track, call.name, call.start, call.end);
        event.text("cat", if call.api == Api::Runtime { "cuda_runtime" } else { "cuda_driver" });
        if call.result != 0 {
            event.text("cname", "terrible");
        }
        event.args().integer("correlation", u64::from(call.correlation));
        if call.result != 0 {
            event.integer("result", u64::from(call.result));
        }
        event.end();
    }

    /// The track of a thread for a slice of this kind. If it is a new one, writes its name and place beside those of
    /// the thread.
    fn track(&mut self, lines: &mut impl Draw, thread: u32, what: &str, start: u64, end: u64) -> Track {
        let (index, pid, tid) = (self.index(thread), self.pid, self.next_track);
        let Thread { name, number, ranges, api_calls } = &mut self.threads[index];
        let lanes = if what == RANGES { ranges } else { api_calls };
        let (track, new) = lanes.place(start, end, |_| Track { pid, tid });
        let Some(lane) = new else { return track };
        self.next_track = tid.saturating_add(1);
        let thread = if name.is_empty() { format!("thread {number}") } else { name.clone() };
        let lane_name = if lane > 1 { format!(" ({lane})") } else { String::new() };
        lines.metadata(track, "thread_name", &format!("{what}{thread}{lane_name}"));
        let kind = if what == RANGES { 0 } else { PLACES / 2 };
        lines.order(track, "thread_sort_index", place(index, kind + (lane as u32).min(PLACES / 2) - 1));
        track
    }

    fn index(&mut self, number: u32) -> usize {
        if self.last.0 == number && self.last.1 < self.threads.len() {
            return self.last.1;
        }
        let index = *self.by_number.row_or(number, || self.threads.len());
        if index == self.threads.len() {
            let ranges = Lanes::beginning_with(Track { pid: self.pid, tid: number }, true);
            self.threads.push(Thread { number, name: String::new(), ranges, api_calls: Lanes::new(true) });
        }
        self.last = (number, index);
        index
    }
}

/// The place of a thread's track among all tracks of the process.
fn place(thread: usize, track: u32) -> u32 {
    (thread as u32).saturating_mul(PLACES).saturating_add(track).min(i32::MAX as u32)
}

/// Writes everything about a range except its name and times.
fn describe(event: &mut impl Describe, range: &Range<'_>, alike: &mut Alike) {
    alike.describe(event, range);
    numbers(event, range.span, range.call, range.parent);
    if let Some(payload) = range.payload {
        event.args().payload("payload", payload);
    }
    fields(event, range.fields);
    if let Some(thread) = range.end_thread.filter(|thread| *thread != range.thread) {
        event.args().integer("end_thread", u64::from(thread));
    }
    if range.cut {
        event.args().boolean("cut", true);
    }
}

/// Writes the known numbers. The first call of a span has the span's number, which is then written once.
fn numbers(event: &mut impl Describe, span: u64, call: u64, parent: u64) {
    for (key, number) in [("call", call), ("parent", parent), ("span_id", if span == call { 0 } else { span })] {
        if number != 0 {
            event.args().integer(key, number);
        }
    }
}

/// Writes fields as a member of the arguments, so that their names do not collide with ours.
fn fields(event: &mut impl Describe, fields: &[(&str, Value<'_>)]) {
    if !fields.is_empty() {
        event.args().open("fields");
        for (key, value) in fields {
            event.member(key, *value);
        }
        event.close();
    }
}

/// The texts that many ranges share, for the latest few combinations.
#[derive(Debug, Default)]
struct Alike {
    nearest: Nearest,
    known: Vec<(Common, Written)>,
    /// The index of the oldest combination, which the next one replaces if there is no room.
    next: usize,
}

/// A combination: domain, category and colour.
type Common = (Option<Box<str>>, Option<Box<str>>, Option<u32>);

/// The number of combinations whose text is kept.
const ALIKE: usize = 8;

impl Alike {
    fn describe(&mut self, event: &mut impl Describe, range: &Range<'_>) {
        let is_of = |(domain, category, color): &Common| {
            *color == range.color && category.as_deref() == range.category && domain.as_deref() == range.domain
        };
        if let Some((_, written)) = self.known.iter().find(|(common, _)| is_of(common)) {
            return event.again(written);
        }
        let from = event.place();
        categories(event, range);
        if let Some(color) = range.color {
            event.text("cname", self.nearest.name(color));
            event.args().hex("color", color.into(), 8);
        }
        // One word in the list is a domain, unless it is said to be a category.
        if let (None, Some(category)) = (range.domain, range.category) {
            event.args().text("category", category);
        }
        let common = (range.domain.map(Box::from), range.category.map(Box::from), range.color);
        let Some(written) = event.since(from) else { return };
        let known = (common, written);
        match self.known.get_mut(self.next) {
            Some(oldest) => *oldest = known,
            None => self.known.push(known),
        }
        self.next = (self.next + 1) % ALIKE;
    }
}

/// Writes the domain and then the category as a list, which must not be empty.
fn categories(event: &mut impl Describe, range: &Range<'_>) {
    match (range.domain, range.category) {
        (Some(domain), Some(category)) => event.list("cat", domain, category),
        (Some(one), None) | (None, Some(one)) => event.text("cat", one),
        (None, None) => event.text("cat", "range"),
    };
}
