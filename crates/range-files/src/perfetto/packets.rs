//! The events of a block, as they are drawn.

use super::schema::{
    COUNTER, ChromeEvents, ChromeMetadata, DebugAnnotation, INSTANT, LegacyEvent, ProcessDescriptor, SLICE_BEGIN,
    TracePacket, TrackEvent,
};
use super::sequence::{Scratch, Sequence, process, put};
use super::strings::{Role, Strings};
use crate::chrome::draw::{At, Describe, Draw, Track, Written};
use range_model::stats::Keyed;
use range_model::timeline::Value;

/// Sequences of tracks come behind that of the whole trace.
pub(super) const OF_TRACE: u32 = 1;
/// The bytes that an event takes beside its text, about.
const BESIDE: usize = 24;
/// Where in the number of a flow the process is.
const PROCESS_AT: u32 = 40;

/// The events of a block, and what is known of tracks.
#[derive(Debug, Default)]
pub(super) struct Packets {
    strings: Strings,
    sequences: Vec<Sequence>,
    by_track: Keyed<Track, usize>,
    counters: Keyed<(u32, u32), usize>,
    processes: Keyed<u32, ProcessDescriptor>,
    /// What is said of the process for programs.
    metadata: Vec<ChromeMetadata>,
    block: u64,
    bytes: usize,
    flows: u64,
    scratch: Scratch,
    /// The event that is being written.
    open: Open,
}

/// An event that is not complete.
#[derive(Debug, Default)]
struct Open {
    /// The process of the timeline.
    pid: u32,
    event: TrackEvent,
    phase: &'static str,
    track: Track,
    sequence: usize,
    start: u64,
    end: u64,
    in_args: bool,
    /// The key of the argument whose members follow, and these.
    key: Option<u64>,
    members: Vec<DebugAnnotation>,
    /// Emptied lists, to be filled again.
    spare: Vec<Vec<DebugAnnotation>>,
    /// The name of a counter.
    name: String,
}

impl Packets {
    /// About how many bytes the block takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Writes the packets of the block; with those of a file's beginning.
    pub(super) fn write(&mut self, is_first: bool, out: &mut Vec<u8>) {
        if is_first {
            let chrome_events = Some(ChromeEvents { metadata: self.metadata.clone() });
            let trusted_packet_sequence_id = Some(OF_TRACE);
            put(&TracePacket { chrome_events, trusted_packet_sequence_id, ..TracePacket::default() }, out);
        }
        let mut order: Vec<usize> =
            (0..self.sequences.len()).filter(|&at| is_first || self.sequences[at].is_shown()).collect();
        // Threads before devices: an arrow begins before it ends.
        order.sort_by_key(|&at| (self.sequences[at].track, at));
        let mut last = None;
        for &at in &order {
            let pid = self.sequences[at].track.pid;
            if last.replace(pid) != Some(pid) {
                put(&process(pid, self.processes.row(pid).clone()), out);
            }
            put(&self.sequences[at].descriptor(), out);
        }
        for at in order {
            self.sequences[at].write(OF_TRACE + 1 + at as u32, &self.strings, &mut self.scratch, out);
        }
    }

    /// Begins a new block.
    pub(super) fn next_block(&mut self) {
        self.sequences.iter_mut().for_each(Sequence::clear);
        self.block += 1;
        self.bytes = 0;
        if self.strings.is_full() {
            self.strings.clear();
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.strings.is_full()
    }

    fn sequence(&mut self, track: Track) -> usize {
        let Self { sequences, by_track, .. } = self;
        *by_track.row_or(track, || {
            sequences.push(Sequence::new(track, None));
            sequences.len() - 1
        })
    }

    fn begin(&mut self, phase: &'static str, track: Track, start: u64, end: u64) -> &mut Open {
        let open = &mut self.open;
        (open.phase, open.track, open.start, open.end, open.in_args) = (phase, track, start, end, false);
        open
    }

    fn iid(&mut self, role: Role, text: &str) -> u64 {
        let Self { strings, sequences, open, .. } = self;
        let number = strings.number(text);
        sequences.get_mut(open.sequence).map_or(0, |sequence| sequence.used.iid(role, number))
    }

    /// Adds an argument, or a member of one.
    fn annotation(&mut self, key: &str, annotation: DebugAnnotation) -> &mut Self {
        let annotation = DebugAnnotation { name_iid: Some(self.iid(Role::Key, key)), ..annotation };
        let open = &mut self.open;
        if open.key.is_some() { &mut open.members } else { &mut open.event.debug_annotations }.push(annotation);
        self
    }

    fn string(&mut self, text: &str) -> DebugAnnotation {
        DebugAnnotation { string_value_iid: Some(self.iid(Role::Value, text)), ..DebugAnnotation::default() }
    }

    fn value(&mut self, key: &str, value: Value<'_>) -> &mut Self {
        let nothing = DebugAnnotation::default();
        let value = match value {
            Value::Integer(number) => DebugAnnotation { int_value: Some(number), ..nothing },
            Value::Unsigned(number) => DebugAnnotation { uint_value: Some(number), ..nothing },
            Value::Float(number) => DebugAnnotation { double_value: Some(number), ..nothing },
            Value::Bool(answer) => DebugAnnotation { bool_value: Some(answer), ..nothing },
            Value::Text(text) => self.string(text),
        };
        self.annotation(key, value)
    }

    /// What is said of a process, or for programs, in an event without a time.
    fn said(&mut self, key: &'static str, text: &str) {
        if key == "labels" {
            let process = self.processes.row(self.open.track.pid);
            process.process_labels = vec![text.to_owned()];
            let pid = self.open.track.pid;
            self.open.pid = pid;
            self.integer("pid", pid.into());
        } else {
            let (name, string_value) = (Some(key.to_owned()), Some(text.to_owned()));
            self.metadata.push(ChromeMetadata { name, string_value, int_value: None });
        }
    }

    /// The begin or the end of an arrow that is no part of a slice.
    fn end_of_arrow(&mut self, phase: u8, name: &'static str, number: u64, at: At) {
        let event = self.event(INSTANT_PHASE, at.track, name);
        event.text("cat", name).time("ts", at.time);
        event.open.event.kind = None;
        event.open.event.legacy_event = Some(LegacyEvent {
            phase: Some(phase.into()),
            unscoped_id: Some(u64::from(event.open.pid) << PROCESS_AT | number),
            local_id: None,
            bind_to_enclosing: (phase == b'f').then_some(true),
        });
        event.end();
    }
}

const INSTANT_PHASE: &str = "i";

impl Draw for Packets {
    type Event = Self;

    const POLLS: bool = true;

    fn slice(&mut self, track: Track, name: &str, start: u64, end: u64) -> &mut Self {
        self.begin("X", track, start, end);
        self.open.sequence = self.sequence(track);
        self.open.event.kind = Some(SLICE_BEGIN);
        self.open.event.name_iid = Some(self.iid(Role::Name, name));
        self
    }

    fn event(&mut self, phase: &'static str, track: Track, name: &str) -> &mut Self {
        let open = self.begin(phase, track, 0, 0);
        match phase {
            "M" => return self,
            "C" => {
                open.event.kind = Some(COUNTER);
                name.clone_into(&mut open.name);
                return self;
            }
            INSTANT_PHASE => open.event.kind = Some(INSTANT),
            _ => {
                let phase = phase.bytes().next().map(i32::from);
                open.event.legacy_event = Some(LegacyEvent { phase, ..LegacyEvent::default() });
            }
        }
        self.open.sequence = self.sequence(track);
        self.open.event.name_iid = Some(self.iid(Role::Name, name));
        self
    }

    /// An arrow between two slices of this block is a part of them. Any other has events of its own, as in Chrome's
    /// format.
    fn arrow(&mut self, name: &'static str, number: u64, from: At, to: At) {
        let places = [from, to].map(|at| (at.slice >> 32 == self.block).then_some((at.slice & 0xffff_ffff) as usize));
        let [Some(first), Some(second)] = places else {
            self.end_of_arrow(b's', name, number, from);
            return self.end_of_arrow(b'f', name, number, to);
        };
        self.flows += 1;
        let flow = u64::from(self.open.pid) << PROCESS_AT | self.flows;
        for (place, at, ends) in [(first, from, false), (second, to, true)] {
            let sequence = self.sequence(at.track);
            self.sequences[sequence].flow(place, flow, ends);
        }
    }

    fn slice_of(&self, track: Track) -> u64 {
        let at = self.by_track.get(&track).map_or(0, |&at| self.sequences[at].len());
        self.block << 32 | at.saturating_sub(1) as u64
    }

    fn metadata(&mut self, track: Track, what: &str, name: &str) {
        match what {
            "process_name" => self.processes.row(track.pid).process_name = Some(name.to_owned()),
            "process_labels" => self.processes.row(track.pid).process_labels = vec![name.to_owned()],
            _ => {
                let sequence = self.sequence(track);
                self.sequences[sequence].name = Some(name.to_owned());
                self.sequences[sequence].is_new = true;
            }
        }
        self.bytes += BESIDE + name.len();
    }

    fn order(&mut self, track: Track, what: &str, index: u32) {
        if what == "process_sort_index" {
            self.processes.row(track.pid).legacy_sort_index = Some(index as i32);
        } else {
            let sequence = self.sequence(track);
            self.sequences[sequence].sort_index = Some(index as i32);
        }
    }
}

impl Describe for Packets {
    fn time(&mut self, _: &'static str, ns: u64) -> &mut Self {
        (self.open.start, self.open.end) = (ns, ns);
        self
    }

    fn text(&mut self, key: &'static str, value: &str) -> &mut Self {
        match (key, self.open.in_args) {
            (_, true) if self.open.phase == "M" => self.said(key, value),
            (_, true) => {
                let value = self.string(value);
                self.annotation(key, value);
            }
            ("cat", false) => {
                let category = self.iid(Role::Category, value);
                self.open.event.category_iids.push(category);
            }
            _ => {} // names of colours, and what only Chrome's format has to say
        }
        self
    }

    fn list(&mut self, key: &'static str, first: &str, second: &str) -> &mut Self {
        self.text(key, first).text(key, second)
    }

    fn args(&mut self) -> &mut Self {
        self.open.in_args = true;
        self
    }

    fn open(&mut self, key: &'static str) -> &mut Self {
        self.open.key = Some(self.iid(Role::Key, key));
        self
    }

    fn close(&mut self) -> &mut Self {
        let open = &mut self.open;
        let dict_entries = std::mem::replace(&mut open.members, open.spare.pop().unwrap_or_default());
        let name_iid = open.key.take();
        open.event.debug_annotations.push(DebugAnnotation { name_iid, dict_entries, ..DebugAnnotation::default() });
        self
    }

    fn member(&mut self, key: &str, value: Value<'_>) -> &mut Self {
        self.value(key, value)
    }

    fn payload(&mut self, key: &'static str, value: Value<'_>) -> &mut Self {
        self.value(key, value)
    }

    fn integer(&mut self, key: &'static str, value: u64) -> &mut Self {
        if self.open.phase == "M" {
            let (name, int_value) = (Some(key.to_owned()), Some(value.cast_signed()));
            self.metadata.push(ChromeMetadata { name, string_value: None, int_value });
            return self;
        }
        self.value(key, Value::Unsigned(value))
    }

    fn signed_integer(&mut self, key: &'static str, value: i64) -> &mut Self {
        self.value(key, Value::Integer(value))
    }

    fn count(&mut self, key: &'static str, value: u64) -> &mut Self {
        let name = format!("{} {key}", self.open.name);
        let track = self.open.track;
        let counter = (track.pid, self.strings.number(&name));
        let Self { sequences, counters, .. } = self;
        let number = counters.len() as u32;
        self.open.sequence = *counters.row_or(counter, || {
            sequences.push(Sequence::new(track, Some((number, name))));
            sequences.len() - 1
        });
        self.open.event.counter_value = Some(value.cast_signed());
        self
    }

    fn float(&mut self, key: &'static str, value: f64) -> &mut Self {
        self.value(key, Value::Float(value))
    }

    fn boolean(&mut self, key: &'static str, value: bool) -> &mut Self {
        self.value(key, Value::Bool(value))
    }

    fn triple(&mut self, key: &'static str, values: [i32; 3]) -> &mut Self {
        let mut array_values = self.open.spare.pop().unwrap_or_default();
        let int_value = |value: i32| DebugAnnotation { int_value: Some(value.into()), ..DebugAnnotation::default() };
        array_values.extend(values.map(int_value));
        self.annotation(key, DebugAnnotation { array_values, ..DebugAnnotation::default() })
    }

    fn hex(&mut self, key: &'static str, value: u64, digits: u32) -> &mut Self {
        match &mut self.open.event.legacy_event {
            Some(legacy) if !self.open.in_args => legacy.local_id = Some(value),
            _ => {
                let text = format!("{value:#0width$x}", width = digits as usize + 2);
                let text = self.string(&text);
                self.annotation(key, text);
            }
        }
        self
    }

    fn place(&self) -> usize {
        0
    }

    fn since(&self, _: usize) -> Option<Written> {
        None
    }

    fn again(&mut self, _: &Written) {}

    fn end(&mut self) {
        let Open { event, phase, sequence, start, end, spare, .. } = &mut self.open;
        if let (false, Some(sequence)) = (*phase == "M", self.sequences.get_mut(*sequence)) {
            let before = sequence.bodies.len();
            sequence.add(event, *start, *end, *phase == "X");
            self.bytes += sequence.bodies.len() - before + BESIDE;
        }
        for mut annotation in event.debug_annotations.drain(..) {
            for mut list in [std::mem::take(&mut annotation.dict_entries), std::mem::take(&mut annotation.array_values)]
            {
                if list.capacity() > 0 {
                    list.clear();
                    spare.push(list);
                }
            }
        }
        event.category_iids.clear();
        (event.kind, event.legacy_event, event.name_iid, event.counter_value) = (None, None, None, None);
    }
}
