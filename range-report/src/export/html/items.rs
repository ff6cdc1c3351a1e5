//! Collects the items of a timeline: compactly, and within limits.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::details::{ApiCallDetail, CallDetail, IdleDetail, LONGEST_VALUE, MarkDetail, OperationDetail, RangeDetail};
use super::idle::words;
use super::texts::{Texts, presentable};
use crate::TableStyle;
use crate::report::{bracketed, nsys_call};
use crate::summary::RangeStyle;
use crate::timeline::{ApiCall, Call, IdleTime, Item, Mark, Operation, OperationName, Projection, Range, Work};

/// The capacity of a page. Items beyond it are counted, and the page says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of ranges, operations and calls; the shortest are dropped first. Besides these, a tenth as many
    /// marks.
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
    Thread { thread: u32, part: ThreadPart },
    Stream { device: u32, context: u32, stream: u32, part: StreamPart },
    Idle { device: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ThreadPart {
    Marks,
    Ranges,
    Lifetimes,
    ApiCalls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum StreamPart {
    Projections,
    Operations,
}

/// One item. Texts are given by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// What is known of its processor time, in thousandths of its length: on the CPU in the upper half, off it in the
    /// lower.
    pub(super) cpu: u32,
    /// Number of the launch; [`NONE`] for all but operations.
    pub(super) launch: u32,
    /// Numbers of its call, its span, and the call around it; 0 if unknown.
    pub(super) call: u64,
    pub(super) span: u64,
    pub(super) parent: u64,
}

pub(super) const NONE: u32 = u32::MAX;
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
#[derive(Debug)]
pub(super) struct Items {
    pub(super) limit: usize,
    pub(super) texts: Texts,
    pub(super) tracks: HashMap<Track, u32>,
    pub(super) bars: Vec<Bar>,
    pub(super) launches: Vec<Launch>,
    pub(super) marks: Vec<Bar>,
    pub(super) threads: BTreeMap<u32, String>,
    pub(super) devices: BTreeMap<u32, String>,
    /// Number of items that arrived, without marks.
    pub(super) came: u64,
    /// Items shorter than this are left out.
    pub(super) shortest: u64,
    pub(super) left_out: u64,
    pub(super) marks_left_out: u64,
    /// Bytes that fields of marks may still take. Marks have far more texts than spans have names, and names may arrive
    /// later.
    left_for_marks: usize,
}

impl Default for Items {
    fn default() -> Self {
        Self::new(Limits { items: 0, text: 0 })
    }
}

impl Items {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limit: limits.items,
            texts: Texts::new(limits.text),
            tracks: HashMap::new(),
            bars: Vec::new(),
            launches: Vec::new(),
            marks: Vec::new(),
            threads: BTreeMap::new(),
            devices: BTreeMap::new(),
            came: 0,
            shortest: 0,
            left_out: 0,
            marks_left_out: 0,
            left_for_marks: limits.text / 4,
        }
    }

    pub(super) fn add(&mut self, item: &Item<'_>) {
        match item {
            Item::Thread { thread, name } => announce(&mut self.threads, *thread, name),
            Item::Device { device, name } => announce(&mut self.devices, *device, name),
            Item::Range(range) => self.range(range),
            Item::Mark(mark) => self.mark(mark),
            Item::Operation(operation) => self.operation(operation),
            Item::Call(call) => self.call(call),
            Item::ApiCall(call) => self.api_call(call),
            Item::Projection(projection) => self.projection(projection),
            Item::Idle(idle) => self.idle(idle),
            Item::Detail(_) => {}
        }
    }

    fn range(&mut self, range: &Range<'_>) {
        if !self.accepts(range.start, range.end) {
            return;
        }
        let thread = |part| Track::Thread { thread: range.thread, part };
        let track = match range.style {
            RangeStyle::PushPop => thread(ThreadPart::Ranges),
            RangeStyle::StartEnd if range.call != 0 => Track::Calls,
            RangeStyle::StartEnd => thread(ThreadPart::Lifetimes),
        };
        let level = if range.style == RangeStyle::PushPop { range.depth } else { 0 };
        let detail = self.detail(&RangeDetail::of(range));
        let length = range.end.saturating_sub(range.start).max(1);
        let part = |ns: u64| u32::try_from(u128::from(ns) * 1_000 / u128::from(length)).unwrap_or(0).min(1_000);
        let bar = Bar {
            track: number(&mut self.tracks, track),
            level,
            start: range.start,
            end: range.end,
            name: named(&mut self.texts, range.domain, range.name),
            detail,
            color: range.color.filter(|color| color >> 24 > 0).map_or(0, |color| (color & 0xff_ffff) + 1),
            cpu: part(range.on_cpu_ns) << 16 | part(range.off_cpu_ns),
            launch: NONE,
            call: range.call,
            span: range.span,
            parent: range.parent,
        };
        self.push(bar);
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        if self.marks.len() >= self.limit / 10 {
            self.marks_left_out = self.marks_left_out.saturating_add(1);
            return;
        }
        let detail = MarkDetail::of(mark).and_then(|detail| serde_json::to_string(&detail).ok());
        let detail = detail.map_or(0, |detail| self.texts.number_within(&detail, &mut self.left_for_marks));
        self.marks.push(Bar {
            track: number(&mut self.tracks, Track::Thread { thread: mark.thread, part: ThreadPart::Marks }),
            level: mark.level.into(),
            start: mark.at,
            end: mark.at,
            name: named(&mut self.texts, mark.domain, mark.text),
            detail,
            color: 0,
            cpu: 0,
            launch: NONE,
            call: 0,
            span: 0,
            parent: 0,
        });
    }

    fn operation(&mut self, operation: &Operation<'_>) {
        if !self.accepts(operation.start, operation.end) {
            return;
        }
        let Operation { device, context, stream, .. } = *operation;
        let (name, bytes) = match operation.work {
            Work::Kernel(_) if !operation.kernel.is_empty() => (self.texts.shown(operation.kernel), 0),
            Work::Kernel(_) => (self.texts.shown(operation.symbol), 0),
            Work::Memory(memory) => (self.texts.shown(&bracketed(memory.kind, TableStyle::Current)), memory.bytes),
        };
        let detail = self.detail(&OperationDetail::of(operation));
        let launch = Launch {
            at: operation.launch,
            span: operation.span.map_or(0, |span| self.texts.shown(span)),
            correlation: operation.correlation,
            bytes,
        };
        let number_of_launch = u32::try_from(self.launches.len()).unwrap_or(NONE);
        self.launches.push(launch);
        let track = Track::Stream { device, context, stream, part: StreamPart::Operations };
        let bar = Bar {
            track: number(&mut self.tracks, track),
            level: 0,
            start: operation.start,
            end: operation.end,
            name,
            detail,
            color: 0,
            cpu: 0,
            launch: number_of_launch,
            call: operation.call,
            span: 0,
            parent: 0,
        };
        self.push(bar);
    }

    fn call(&mut self, call: &Call<'_>) {
        if !self.accepts(call.start, call.end) {
            return;
        }
        let detail = self.detail(&CallDetail::of(call));
        let bar = Bar {
            track: number(&mut self.tracks, Track::Calls),
            level: 0,
            start: call.start,
            end: call.end,
            name: named(&mut self.texts, call.domain, call.name),
            detail,
            color: 0,
            cpu: 0,
            launch: NONE,
            call: call.call,
            span: call.span,
            parent: call.parent,
        };
        self.push(bar);
    }

    fn api_call(&mut self, call: &ApiCall<'_>) {
        if !self.accepts(call.start, call.end) {
            return;
        }
        let detail = self.detail(&ApiCallDetail::of(call));
        let bar = Bar {
            track: number(&mut self.tracks, Track::Thread { thread: call.thread, part: ThreadPart::ApiCalls }),
            level: 0,
            start: call.start,
            end: call.end,
            name: self.texts.shown(nsys_call(call.name)),
            detail,
            color: 0,
            cpu: 0,
            launch: NONE,
            call: 0,
            span: 0,
            parent: 0,
        };
        self.push(bar);
    }

    fn projection(&mut self, projection: &Projection<'_>) {
        if !self.accepts(projection.start, projection.end) {
            return;
        }
        let Projection { device, context, stream, .. } = *projection;
        let track = Track::Stream { device, context, stream, part: StreamPart::Projections };
        let bar = Bar {
            track: number(&mut self.tracks, track),
            level: projection.level,
            start: projection.start,
            end: projection.end,
            name: named(&mut self.texts, projection.domain, projection.name),
            detail: 0,
            color: 0,
            cpu: 0,
            launch: NONE,
            call: 0,
            span: 0,
            parent: 0,
        };
        self.push(bar);
    }

    fn idle(&mut self, idle: &IdleTime<'_>) {
        if !self.accepts(idle.start, idle.end) {
            return;
        }
        let ended_by = match idle.ended_by {
            OperationName::Kernel(kernel) => presentable(kernel, LONGEST_VALUE).into_owned(),
            OperationName::Memory(kind) => bracketed(kind, TableStyle::Current),
        };
        let detail = self.detail(&IdleDetail { thread: idle.thread, ended_by });
        let bar = Bar {
            track: number(&mut self.tracks, Track::Idle { device: idle.device }),
            level: 0,
            start: idle.start,
            end: idle.end,
            name: self.texts.number(&words(idle.cause)),
            detail,
            color: 0,
            cpu: 0,
            launch: NONE,
            call: 0,
            span: 0,
            parent: 0,
        };
        self.push(bar);
    }

    /// Whether an item is long enough to be shown. Counts it.
    fn accepts(&mut self, start: u64, end: u64) -> bool {
        self.came = self.came.saturating_add(1);
        let accepted = end.saturating_sub(start) >= self.shortest && self.limit > 0;
        self.left_out = self.left_out.saturating_add(u64::from(!accepted));
        accepted
    }

    fn push(&mut self, bar: Bar) {
        self.bars.push(Bar { end: bar.end.max(bar.start), ..bar });
        if self.bars.len() > self.limit + self.limit / SURPLUS {
            self.finish();
        }
    }

    /// Drops exactly the items beyond the limit: the shortest ones. Among items of equal length, the dropped ones are
    /// spread over the run instead of being the latest.
    pub(super) fn finish(&mut self) {
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
            if let Some(&launch) = self.launches.get(bar.launch as usize) {
                bar.launch = u32::try_from(kept.len()).unwrap_or(NONE);
                kept.push(launch);
            }
        }
        self.launches = kept;
    }

    fn detail(&mut self, detail: &impl Serialize) -> u32 {
        match serde_json::to_string(detail) {
            Ok(text) if text != "{}" => self.texts.number(&text),
            _ => 0,
        }
    }
}

/// The order in which items are kept: by length, then by a hash that is the same in each run.
const fn rank(bar: &Bar) -> (u64, u64) {
    let place = bar.start ^ ((bar.track as u64) << 48) ^ ((bar.level as u64) << 40);
    (bar.end - bar.start, place.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32))
}

/// If a number is reused, the thread or device keeps its first name and gains the others.
fn announce(names: &mut BTreeMap<u32, String>, number: u32, name: &str) {
    let name = presentable(name, LONGEST_VALUE);
    let known = names.entry(number).or_default();
    if known.is_empty() {
        *known = name.into_owned();
    } else if known.len() < LONGEST_VALUE && !known.split(" / ").any(|known| known == name) {
        *known += " / ";
        *known += &name;
    }
}

fn number(tracks: &mut HashMap<Track, u32>, track: Track) -> u32 {
    let next = u32::try_from(tracks.len()).unwrap_or(NONE);
    *tracks.entry(track).or_insert(next)
}

fn named(texts: &mut Texts, domain: Option<&str>, name: &str) -> u32 {
    match domain {
        _ if name.is_empty() => texts.number("None"),
        None => texts.shown(name),
        Some(domain) => texts.shown(&format!("{domain}:{name}")),
    }
}
