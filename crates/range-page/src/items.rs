//! Collects the items of a timeline: compactly, and within limits.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::details::{Detail, LONGEST_VALUE, of_api_call, of_call, of_mark, of_operation, of_range};
use super::idle::words;
use super::processes::Joined;
use super::texts::{Texts, presentable};
use super::waits::{WaitPart, WaitParts};
use range_model::summary::RangeStyle;
use range_model::timeline::{
    ApiCall, Call, CallWait, IdleTime, Item, Link, Mark, Operation, OperationName, Projection, Range, Work, graph_name,
};
use range_report::TableStyle;
use range_report::page::{bracketed, nsys_call};

/// The capacity of a page. Items beyond it are counted, and the page says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of ranges, operations and calls; the shortest are dropped first. Besides these, a tenth as many
    /// marks, as many links of batches, and as many parts of waits.
    pub items: usize,
    /// Bytes of names, fields and messages.
    pub text: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { items: 1_000_000, text: 64 << 20 }
    }
}

/// The track of an item, in the page's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Track {
    Calls,
    Thread { thread: u32, part: Part },
    Stream { device: u32, context: u32, stream: u32, part: Part },
    Idle { device: u32 },
}

/// The kind of the items of a track, in the page's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Part {
    Calls,
    Marks,
    Ranges,
    Lifetimes,
    Api,
    Projections,
    Operations,
    Idle,
}

/// One item. Texts are given by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bar {
    /// Number of the track.
    pub(super) track: u32,
    /// Its preferred row; for a mark, its severity.
    pub(super) level: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) name: u32,
    /// A JSON object with further details.
    pub(super) detail: u32,
    /// 0xRRGGBB, plus one; 0 for none.
    pub(super) color: u32,
    /// For which parts of its length its thread surely ran, and surely did not: see [`part_of`].
    pub(super) on_cpu: u32,
    pub(super) off_cpu: u32,
    /// For operations, the number of the launch, plus one; 0 for others.
    pub(super) launch: u32,
    /// Numbers of its call, its span, and the call around it; 0 if unknown.
    pub(super) call: u64,
    pub(super) span: u64,
    pub(super) parent: u64,
}

const WHOLE: u128 = u32::MAX as u128;

/// A part of a length as a number that is [`u32::MAX`] for all of it: exact for lengths of up to four seconds.
pub(super) fn part_of(ns: u64, length: u64) -> u32 {
    u32::try_from((u128::from(ns) * WHOLE).div_ceil(u128::from(length.max(1)))).unwrap_or(u32::MAX)
}

impl Bar {
    /// The nanoseconds that a part of its length is.
    pub(super) fn ns_of(&self, part: u32) -> u64 {
        (u128::from(self.end - self.start) * u128::from(part) / WHOLE) as u64
    }
}

/// While items arrive, their number may exceed the limit by this fraction.
const SURPLUS: usize = 8;

/// Data that only operations have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    pub(super) at: Option<(u32, u64)>,
    pub(super) span: u32,
    pub(super) correlation: u32,
    pub(super) bytes: u64,
}

/// All items that arrived.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) limit: usize,
    pub(super) texts: Texts,
    /// Tracks of processes: of a page of one, all are of process 0.
    pub(super) tracks: HashMap<(u32, Track), u32>,
    pub(super) bars: Vec<Bar>,
    pub(super) launches: Vec<Launch>,
    pub(super) marks: Vec<Bar>,
    pub(super) links: Vec<Link>,
    pub(super) waits: WaitParts,
    pub(super) threads: BTreeMap<u32, String>,
    pub(super) devices: BTreeMap<u32, String>,
    /// Number of items that arrived, without marks.
    pub(super) came: u64,
    /// Items shorter than this are left out.
    pub(super) shortest: u64,
    pub(super) left_out: u64,
    pub(super) marks_left_out: u64,
    pub(super) links_left_out: u64,
    /// Bytes that fields of marks may still take. Marks have far more texts than spans have names, and names may arrive
    /// later.
    pub(super) left_for_marks: usize,
    /// What was joined, and where it is of several processes, of the last of them.
    pub(super) joined: Joined,
}

impl Items {
    pub(super) fn new(limits: Limits) -> Self {
        let (texts, left_for_marks) = (Texts::new(limits.text), limits.text / 4);
        Self { limit: limits.items, texts, left_for_marks, ..Self::default() }
    }

    pub(super) fn add(&mut self, item: &Item<'_>) {
        match item {
            Item::Thread { thread, name } => announce(&mut self.threads, *thread, name),
            Item::Device { device, name } => announce(&mut self.devices, *device, name),
            Item::Mark(mark) => self.mark(mark),
            Item::Range(range) if self.accepts(range.start, range.end) => self.range(range),
            Item::Operation(operation) if self.accepts(operation.start, operation.end) => self.operation(operation),
            Item::Call(call) if self.accepts(call.start, call.end) => self.call(call),
            Item::ApiCall(call) if self.accepts(call.start, call.end) => self.api_call(call),
            Item::Projection(of) if self.accepts(of.start, of.end) => self.projection(of),
            Item::Idle(idle) if self.accepts(idle.start, idle.end) => self.idle(idle),
            Item::Wait(wait) => self.wait(wait),
            Item::Link(link) if self.links.len() < self.limit / 10 => self.links.push(*link),
            Item::Link(_) => self.links_left_out = self.links_left_out.saturating_add(1),
            _ => {}
        }
    }

    fn range(&mut self, range: &Range<'_>) {
        let thread = |part| Track::Thread { thread: range.thread, part };
        let (track, level) = match range.style {
            RangeStyle::PushPop => (thread(Part::Ranges), range.depth),
            RangeStyle::StartEnd if range.call != 0 => (Track::Calls, 0),
            RangeStyle::StartEnd => (thread(Part::Lifetimes), 0),
        };
        let part = |ns| part_of(ns, range.end.saturating_sub(range.start));
        let bar = Bar {
            level,
            detail: self.detail(of_range(range)),
            name: named(&mut self.texts, range.domain, range.name),
            color: range.color.filter(|color| *color != 0).map_or(0, |color| (color & 0xff_ffff) + 1),
            on_cpu: part(range.on_cpu_ns),
            off_cpu: part(range.off_cpu_ns),
            call: range.call,
            span: range.span,
            parent: range.parent,
            ..Bar::default()
        };
        self.push(track, range.start, range.end, bar);
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        if self.marks.len() >= self.limit / 10 {
            self.marks_left_out = self.marks_left_out.saturating_add(1);
            return;
        }
        let detail = of_mark(mark).text();
        let detail = detail.map_or(0, |detail| self.texts.number_within(&detail, &mut self.left_for_marks));
        let (start, end) = (mark.at, mark.at);
        let track = self.track(Track::Thread { thread: mark.thread, part: Part::Marks });
        let name = named(&mut self.texts, mark.domain, mark.text);
        self.marks.push(Bar { track, level: mark.level.into(), start, end, name, detail, ..Bar::default() });
    }

    fn operation(&mut self, operation: &Operation<'_>) {
        let Operation { device, context, stream, .. } = *operation;
        let (name, bytes) = match operation.work {
            Work::Kernel(_) if !operation.kernel.is_empty() => (self.texts.shown(operation.kernel), 0),
            Work::Kernel(_) => (self.texts.shown(operation.symbol), 0),
            Work::Memory(memory) => (self.texts.shown(&bracketed(memory.kind, TableStyle::Current)), memory.bytes),
            Work::Graph(graph) => (self.texts.shown(&graph_name(graph)), 0),
        };
        let detail = self.detail(of_operation(operation));
        self.launches.push(Launch {
            at: operation.launch,
            span: operation.span.map_or(0, |span| self.texts.shown(span)),
            correlation: operation.correlation,
            bytes,
        });
        let launch = number_of_last(&self.launches);
        let track = Track::Stream { device, context, stream, part: Part::Operations };
        let bar = Bar { name, detail, launch, call: operation.call, ..Bar::default() };
        self.push(track, operation.start, operation.end, bar);
    }

    fn call(&mut self, call: &Call<'_>) {
        let (detail, name) = (self.detail(of_call(call)), named(&mut self.texts, call.domain, call.name));
        let &Call { start, end, call, span, parent, .. } = call;
        self.push(Track::Calls, start, end, Bar { name, detail, call, span, parent, ..Bar::default() });
    }

    fn wait(&mut self, &CallWait { call, start, end, domain, by, is_for_worker }: &CallWait<'_>) {
        let by = by.map_or(0, |by| named(&mut self.texts, domain, by));
        self.waits.push(WaitPart { call, start, end: end.max(start), by, is_for_worker }, self.limit / 10);
    }

    fn api_call(&mut self, call: &ApiCall<'_>) {
        let (detail, name) = (self.detail(of_api_call(call)), self.texts.shown(nsys_call(call.name)));
        let track = Track::Thread { thread: call.thread, part: Part::Api };
        self.push(track, call.start, call.end, Bar { name, detail, ..Bar::default() });
    }

    fn projection(&mut self, projection: &Projection<'_>) {
        let Projection { device, context, stream, start, end, level, .. } = *projection;
        let name = named(&mut self.texts, projection.domain, projection.name);
        let track = Track::Stream { device, context, stream, part: Part::Projections };
        self.push(track, start, end, Bar { level, name, ..Bar::default() });
    }

    fn idle(&mut self, idle: &IdleTime<'_>) {
        let ended_by = match idle.ended_by {
            OperationName::Kernel(kernel) => presentable(kernel, LONGEST_VALUE).into_owned(),
            OperationName::Memory(kind) => bracketed(kind, TableStyle::Current),
        };
        let waited = Some(idle.start.saturating_sub(idle.charged_at)).filter(|&ns| ns > 0);
        let detail = Detail::default().with("thread", idle.thread).with("ended_by", Some(ended_by));
        let detail = detail.with("waited", waited);
        let (detail, name) = (self.detail(detail), self.texts.number(&words(idle.cause)));
        self.push(Track::Idle { device: idle.device }, idle.start, idle.end, Bar { name, detail, ..Bar::default() });
    }

    /// Whether an item is long enough to be shown. Counts it.
    pub(super) fn accepts(&mut self, start: u64, end: u64) -> bool {
        self.came = self.came.saturating_add(1);
        let accepted = end.saturating_sub(start) >= self.shortest && self.limit > 0;
        self.left_out = self.left_out.saturating_add(u64::from(!accepted));
        accepted
    }

    pub(super) fn push(&mut self, track: Track, start: u64, end: u64, bar: Bar) {
        let track = self.track(track);
        self.bars.push(Bar { track, start, end: end.max(start), ..bar });
        if self.bars.len() > self.limit + self.limit / SURPLUS {
            self.finish();
        }
    }

    /// The number of a track of the process that is joined.
    pub(super) fn track(&mut self, track: Track) -> u32 {
        let next = u32::try_from(self.tracks.len()).unwrap_or(u32::MAX);
        *self.tracks.entry((self.joined.present(), track)).or_insert(next)
    }

    /// Drops exactly the items beyond the limit: the shortest ones. Among items of equal length, the dropped ones are
    /// spread over the run instead of being the latest.
    pub(super) fn finish(&mut self) {
        self.waits.keep(self.limit / 10);
        let surplus = self.bars.len().saturating_sub(self.limit);
        let Some(last) = surplus.checked_sub(1) else { return };
        let mut ranks: Vec<(u64, u64)> = self.bars.iter().map(rank).collect();
        let (_, &mut cut, _) = ranks.select_nth_unstable(last);
        let before = self.bars.len();
        self.bars.retain(|bar| rank(bar) > cut);
        self.shortest = cut.0;
        self.left_out = self.left_out.saturating_add((before - self.bars.len()) as u64);
        self.forget_launches();
    }

    /// Drops the launches of dropped operations.
    fn forget_launches(&mut self) {
        let mut kept = Vec::with_capacity(self.launches.len());
        for bar in &mut self.bars {
            if let Some(&launch) = launch_of(bar, &self.launches) {
                kept.push(launch);
                bar.launch = number_of_last(&kept);
            }
        }
        self.launches = kept;
    }

    fn detail(&mut self, detail: Detail) -> u32 {
        detail.text().map_or(0, |text| self.texts.number(&text))
    }
}

/// The number in [`Bar::launch`] of the launch that was added last.
pub(super) fn number_of_last(launches: &[Launch]) -> u32 {
    u32::try_from(launches.len()).unwrap_or(0)
}

/// The launch of an operation.
pub(super) fn launch_of<'a>(bar: &Bar, launches: &'a [Launch]) -> Option<&'a Launch> {
    launches.get(bar.launch.checked_sub(1)? as usize)
}

/// The order in which items are kept: by length, then by a hash that is the same in each run.
const fn rank(bar: &Bar) -> (u64, u64) {
    let place = bar.start ^ ((bar.track as u64) << 48) ^ ((bar.level as u64) << 40);
    (bar.end - bar.start, place.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32))
}

/// If a number is reused, the thread or device keeps its first name and gains the others.
pub(super) fn announce(names: &mut BTreeMap<u32, String>, number: u32, name: &str) {
    let name = presentable(name, LONGEST_VALUE);
    let known = names.entry(number).or_default();
    if known.is_empty() {
        *known = name.into_owned();
    } else if known.len() < LONGEST_VALUE && !known.split(" / ").any(|known| known == name) {
        *known += " / ";
        *known += &name;
    }
}

fn named(texts: &mut Texts, domain: Option<&str>, name: &str) -> u32 {
    match domain {
        _ if name.is_empty() => texts.number("None"),
        None => texts.shown(name),
        Some(domain) => texts.shown(&format!("{domain}:{name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_length_are_exact() {
        for (length, ns) in [(0, 0), (1, 1), (1_112_000_000, 241_000_001), (4_000_000_000, 3_999_999_999), (7, 3)] {
            let bar = Bar { start: 5, end: 5 + length, ..Bar::default() };
            assert_eq!(bar.ns_of(part_of(ns, length)), ns, "{ns} of {length}");
        }
        assert_eq!(part_of(9, 7), u32::MAX, "no more than all of it");
    }
}
