//! The events of one track in a block: they have numbers for texts, and times that count from the event before.

use std::cmp::Reverse;

use prost::Message;
use prost::encoding::{WireType, encode_key};

use super::schema::{
    BOOTTIME, CLEARED, Clock, ClockSnapshot, CounterDescriptor, EventPacket, FLOW_IDS, NEEDS_STATE, OWN_CLOCK, PACKET,
    ProcessDescriptor, SLICE_END, TERMINATING_FLOW_IDS, ThreadDescriptor, TracePacket, TracePacketDefaults,
    TrackDescriptor, TrackEvent, TrackEventDefaults,
};
use super::strings::{Strings, Used};
use crate::chrome::draw::Track;

/// One event of a track.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    end: u64,
    /// Where its text is, up to that of the next one.
    body: usize,
    is_slice: bool,
}

/// The events of a track that are not written yet.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) track: Track,
    /// Its number among counters, and its name, if it is one.
    pub(super) counter: Option<(u32, String)>,
    pub(super) name: Option<String>,
    pub(super) sort_index: Option<i32>,
    /// Whether something about the track changed in this block.
    pub(super) is_new: bool,
    pub(super) used: Used,
    pub(super) bodies: Vec<u8>,
    entries: Vec<Entry>,
    /// Event, number, and whether the arrow ends there.
    flows: Vec<(usize, u64, bool)>,
    /// From where times count in this block, and in the one before.
    base: u64,
    last_base: u64,
}

impl Sequence {
    pub(super) fn new(track: Track, counter: Option<(u32, String)>) -> Self {
        Self {
            track,
            counter,
            name: None,
            sort_index: None,
            is_new: false,
            used: Used::default(),
            bodies: Vec::new(),
            entries: Vec::new(),
            flows: Vec::new(),
            base: 0,
            last_base: 0,
        }
    }

    /// The number of events in this block.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_shown(&self) -> bool {
        self.is_new || !self.entries.is_empty()
    }

    /// Adds an event.
    pub(super) fn add(&mut self, event: &TrackEvent, start: u64, end: u64, is_slice: bool) {
        let body = self.bodies.len();
        let _fits = event.encode(&mut self.bodies); // a vector grows
        self.entries.push(Entry { start, end: end.max(start), body, is_slice });
    }

    pub(super) fn flow(&mut self, entry: usize, number: u64, ends: bool) {
        self.flows.push((entry, number, ends));
    }

    /// Forgets the events, which were written.
    pub(super) fn clear(&mut self) {
        self.used.clear();
        self.bodies.clear();
        self.entries.clear();
        self.flows.clear();
        self.is_new = false;
        self.last_base = self.base;
    }

    fn uuid(&self) -> u64 {
        let place = self.counter.as_ref().map_or(self.track.tid, |(number, _)| COUNTERS | number);
        u64::from(self.track.pid) << 32 | u64::from(place)
    }

    pub(super) fn descriptor(&self) -> TracePacket {
        let Track { pid, tid } = self.track;
        let mut descriptor = TrackDescriptor { uuid: Some(self.uuid()), ..TrackDescriptor::default() };
        match &self.counter {
            Some((_, name)) => {
                descriptor.name = Some(name.clone());
                descriptor.parent_uuid = Some(process_uuid(pid));
                descriptor.counter = Some(CounterDescriptor {});
            }
            None => {
                descriptor.thread = Some(ThreadDescriptor {
                    pid: Some(pid as i32),
                    tid: Some(tid as i32),
                    legacy_sort_index: self.sort_index,
                    thread_name: self.name.clone(),
                });
            }
        }
        TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() }
    }

    /// Writes the events in the order of time: a slice begins before those inside it.
    pub(super) fn write(&mut self, number: u32, strings: &Strings, scratch: &mut Scratch, out: &mut Vec<u8>) {
        let track_uuid = Some(self.uuid());
        let Self { entries, bodies, flows, .. } = self;
        let Scratch { order, ends, packet } = scratch;
        order.clear();
        order.extend(0..entries.len());
        // Of two slices with the same times, the outer one came later.
        order.sort_unstable_by_key(|&place| {
            let Entry { start, end, .. } = entries[place];
            let came = if start == end { place } else { usize::MAX - place };
            (start, Reverse(end), came)
        });
        flows.sort_unstable_by_key(|&(entry, ..)| entry);
        let Some(&first) = order.first() else { return };
        // A clock never goes back: what began before the last block's base has absolute times.
        self.base = self.last_base.max(entries[first].start);
        let of_clock =
            |clock, is_incremental| Clock { clock_id: Some(clock), timestamp: Some(self.base), is_incremental };
        let header = TracePacket {
            clock_snapshot: Some(ClockSnapshot {
                clocks: vec![of_clock(BOOTTIME, None), of_clock(OWN_CLOCK, Some(true))],
            }),
            trusted_packet_sequence_id: Some(number),
            interned_data: Some(self.used.said(strings)),
            sequence_flags: Some(CLEARED | NEEDS_STATE),
            trace_packet_defaults: Some(TracePacketDefaults {
                track_event_defaults: Some(TrackEventDefaults { track_uuid }),
                timestamp_clock_id: Some(OWN_CLOCK),
            }),
            ..TracePacket::default()
        };
        put(&header, out);
        packet.trusted_packet_sequence_id = Some(number);
        packet.sequence_flags = Some(NEEDS_STATE);
        let mut last = self.base;
        ends.clear();
        for &place in order.iter() {
            let entry = entries[place];
            while let Some(time) = ends.pop_if(|time| *time <= entry.start) {
                end_slice(packet, time, &mut last, out);
            }
            let to = entries.get(place + 1).map_or(bodies.len(), |next| next.body);
            packet.track_event.clear();
            packet.track_event.extend_from_slice(&bodies[entry.body..to]);
            let from = flows.partition_point(|&(of, ..)| of < place);
            for &(_, number, ends) in flows[from..].iter().take_while(|&&(of, ..)| of == place) {
                let field = if ends { TERMINATING_FLOW_IDS } else { FLOW_IDS };
                encode_key(field, WireType::SixtyFourBit, &mut packet.track_event);
                packet.track_event.extend(number.to_le_bytes());
            }
            put_at(packet, entry.start, &mut last, out);
            if entry.is_slice {
                // It does not cross the slice around it.
                ends.push(ends.last().map_or(entry.end, |&around| entry.end.min(around)));
            }
        }
        while let Some(time) = ends.pop() {
            end_slice(packet, time, &mut last, out);
        }
    }
}

/// Writes the end of a slice.
fn end_slice(packet: &mut EventPacket, time: u64, last: &mut u64, out: &mut Vec<u8>) {
    packet.track_event.clear();
    packet.track_event.extend([KIND, SLICE_END as u8]);
    put_at(packet, time, last, out);
}

/// Writes an event with its time, which counts from the last one.
fn put_at(packet: &mut EventPacket, time: u64, last: &mut u64, out: &mut Vec<u8>) {
    (packet.timestamp, packet.timestamp_clock_id) = match time.checked_sub(*last) {
        Some(since) => {
            *last = time;
            (Some(since), None)
        }
        None => (Some(time), Some(BOOTTIME)),
    };
    put(packet, out);
}

/// What writing needs, kept for the next time.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    order: Vec<usize>,
    ends: Vec<u64>,
    packet: EventPacket,
}

/// Numbers of counters among the tracks of a process.
const COUNTERS: u32 = 1 << 31;
/// The key of [`TrackEvent::kind`].
const KIND: u8 = 9 << 3;

fn process_uuid(pid: u32) -> u64 {
    u64::from(pid) << 32
}

/// Writes a packet of a trace.
pub(super) fn put(packet: &impl Message, out: &mut Vec<u8>) {
    encode_key(PACKET, WireType::LengthDelimited, out);
    let _fits = packet.encode_length_delimited(out); // a vector grows
}

/// The track of a process.
pub(super) fn process(pid: u32, process: ProcessDescriptor) -> TracePacket {
    let descriptor = TrackDescriptor {
        uuid: Some(process_uuid(pid)),
        process: Some(ProcessDescriptor { pid: Some(pid as i32), ..process }),
        ..TrackDescriptor::default()
    };
    TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() }
}
