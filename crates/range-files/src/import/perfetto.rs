//! Timelines of [`Perfetto`](crate::Perfetto).
//!
//! Both formats are drawn by the same code. So each event becomes that of a trace, which [`Trace`] takes.

use range_report::SummaryExt as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use prost::Message as _;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value as Json, json};

use super::outcome::{Identity, ImportError, Imported, NewSink};
use super::trace::Trace;
use crate::chrome::device::LAUNCH;
use crate::perfetto::SUMMARY;
use crate::perfetto::blocks::Blocks;
use crate::perfetto::schema::{
    BOOTTIME, CLEARED, DebugAnnotation, InternedData, InternedString, OWN_CLOCK, SLICE_BEGIN, SLICE_END, TracePacket,
    TrackDescriptor, TrackEvent,
};
use range_model::summary::{Note, Process, Summary};
use range_model::timeline::{Item, Sink};

type Result<T, E = ImportError> = std::result::Result<T, E>;

/// Passes all items of a timeline on. See [`timeline`](super::timeline).
pub(super) fn perfetto(from: File, identity: &Identity, scratch: &Path, new: NewSink<'_>) -> Result<Imported> {
    let mut blocks = Blocks::new(BufReader::new(from));
    let (mut read, mut imported) = (Read::new(scratch), Imported::default());
    while let Some(packets) = next(&mut blocks)? {
        if packets.first().is_some_and(begins_process) {
            let before = std::mem::replace(&mut read, Read::new(scratch));
            if before.has_begun {
                imported += before.finish(None, identity, new)?;
            }
        }
        packets.into_iter().try_for_each(|packet| read.packet(packet))?;
    }
    if read.has_begun || imported == Imported::default() {
        imported += read.finish(blocks.cut, identity, new)?;
    }
    imported.cut = blocks.cut;
    Ok(imported)
}

/// The summaries in a timeline: one of each process that was not killed.
pub(super) fn summaries(from: File) -> Result<Vec<Summary>> {
    let mut blocks = Blocks::new(BufReader::new(from));
    let (mut all, mut last) = (Vec::new(), Vec::new());
    let mut end = |block: &[u8]| {
        let packets = packets(block);
        let json = packets.iter().filter_map(|packet| packet.interned_data.as_ref()).find_map(summary_in);
        all.extend(json.as_deref().and_then(of_json));
    };
    // The last block of a process has it. Of others, the first packet is looked at.
    while let Some(block) = blocks.next().map_err(unreadable)? {
        let first = block.get(1..).and_then(|block| TracePacket::decode_length_delimited(block).ok());
        if first.as_ref().is_some_and(begins_process) {
            end(&last);
        }
        last = block;
    }
    end(&last);
    Ok(all)
}

fn unreadable(error: io::Error) -> ImportError {
    ImportError::Unreadable(error.to_string())
}

/// Whether a file's packets of another process begin here.
fn begins_process(packet: &TracePacket) -> bool {
    packet.chrome_events.is_some()
}

/// The text of a summary.
fn summary_in(data: &InternedData) -> Option<String> {
    let ([key], [json]) = (&*data.debug_annotation_names, &*data.debug_annotation_string_values) else { return None };
    json.text.clone().filter(|_| key.text.as_deref() == Some(SUMMARY))
}

fn of_json(json: &str) -> Option<Summary> {
    Summary::read_json(json.as_bytes()).ok()
}

/// A sink that ends with the summary of the file.
struct Ended {
    sink: Box<dyn Sink>,
    summary: Summary,
}

impl Sink for Ended {
    fn begin(&mut self, process: &Process) -> io::Result<()> {
        self.sink.begin(process)
    }

    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        self.sink.item(item)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }

    fn end(&mut self, _: &Summary, lost: u64) -> io::Result<()> {
        self.sink.end(&self.summary, lost)
    }
}

/// The packets of the next block.
fn next(blocks: &mut Blocks<impl BufRead>) -> Result<Option<Vec<TracePacket>>> {
    Ok(blocks.next().map_err(unreadable)?.map(|block| packets(&block)))
}

/// The packets of a block; none if it is damaged.
fn packets(block: &[u8]) -> Vec<TracePacket> {
    #[derive(Clone, PartialEq, prost::Message)]
    struct Packets {
        #[prost(message, repeated, tag = "1")]
        packets: Vec<TracePacket>,
    }
    Packets::decode(block).map(|all| all.packets).unwrap_or_default()
}

/// A timeline as far as it was read.
struct Read {
    trace: Trace,
    /// What is said of the process.
    process: Map<String, Json>,
    has_begun: bool,
    sequences: FxHashMap<u32, Sequence>,
    /// Threads by their tracks.
    tracks: FxHashMap<u64, (i32, i32)>,
    /// Where arrows begin, by the number of the flow, or by that of an event of its own.
    launches: FxHashMap<(bool, u64), Json>,
    summary: Option<String>,
    /// The begins of asynchronous events, whose ends may follow in a later block.
    begun: FxHashMap<u64, Json>,
}

/// What is known of a sequence of packets.
#[derive(Default)]
struct Sequence {
    names: FxHashMap<u64, String>,
    categories: FxHashMap<u64, String>,
    keys: FxHashMap<u64, String>,
    values: FxHashMap<u64, String>,
    track: (i32, i32),
    last: u64,
    /// Open slices: the event, its start, and where an arrow to it begins.
    open: Vec<(Json, u64, Option<Json>)>,
}

impl Sequence {
    fn take(&mut self, data: InternedData) {
        let said = [
            (&mut self.categories, data.event_categories),
            (&mut self.names, data.event_names),
            (&mut self.keys, data.debug_annotation_names),
            (&mut self.values, data.debug_annotation_string_values),
        ];
        for (known, said) in said {
            known.extend(said.into_iter().filter_map(|InternedString { iid, text }| Some((iid?, text?))));
        }
    }

    fn value(&self, annotation: &DebugAnnotation) -> Json {
        let DebugAnnotation { bool_value, uint_value, int_value, double_value, string_value_iid, .. } = annotation;
        if let Some(text) = string_value_iid {
            return json!(self.values.get(text));
        }
        if let Some(number) = double_value {
            return if number.is_finite() { json!(number) } else { json!(format!("{number:?}")) };
        }
        match (bool_value, uint_value, int_value) {
            (Some(answer), ..) => json!(answer),
            (_, Some(number), _) => json!(number),
            (.., Some(number)) => json!(number),
            _ if annotation.array_values.is_empty() => self.object(&annotation.dict_entries),
            _ => annotation.array_values.iter().map(|value| self.value(value)).collect(),
        }
    }

    fn object(&self, annotations: &[DebugAnnotation]) -> Json {
        let key = |annotation: &DebugAnnotation| self.keys.get(&annotation.name_iid?).cloned();
        annotations.iter().filter_map(|annotation| Some((key(annotation)?, self.value(annotation)))).collect()
    }

    /// The event in the form of a trace.
    fn event(&self, event: &TrackEvent, at: u64) -> Json {
        let categories: Vec<&str> =
            event.category_iids.iter().filter_map(|iid| self.categories.get(iid)).map(String::as_str).collect();
        let name = event.name_iid.and_then(|iid| self.names.get(&iid));
        let (pid, tid) = self.track;
        json!({
            "ph": "X", "pid": pid, "tid": tid, "name": name, "cat": categories.join(","), "ts": microseconds(at),
            "args": self.object(&event.debug_annotations),
        })
    }
}

/// The times of a trace.
fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

impl Read {
    fn new(scratch: &Path) -> Self {
        Self {
            trace: Trace::new(scratch),
            process: Map::new(),
            has_begun: false,
            sequences: FxHashMap::default(),
            tracks: FxHashMap::default(),
            launches: FxHashMap::default(),
            summary: None,
            begun: FxHashMap::default(),
        }
    }

    /// Passes the items on, and ends with the summary of the file.
    fn finish(self, cut: Option<u64>, identity: &Identity, new: NewSink<'_>) -> Result<Imported> {
        let mut found = self.summary.as_deref().and_then(of_json).unwrap_or_default();
        found.notes.extend(cut.map(|byte| Note::TimelineCut { byte }));
        let mut found = Some(found);
        self.trace.finish(identity, &mut |process| {
            let mut summary = found.take().unwrap_or_default();
            summary.process = process.clone();
            Box::new(Ended { sink: new(process), summary })
        })
    }

    fn packet(&mut self, packet: TracePacket) -> Result<()> {
        for said in packet.chrome_events.unwrap_or_default().metadata {
            let value =
                said.string_value.map(Json::from).or(said.int_value.map(|number| json!(number.cast_unsigned())));
            self.process.extend(said.name.zip(value));
        }
        if let Some(descriptor) = packet.track_descriptor {
            self.track(&descriptor)?;
        }
        let sequence = self.sequences.entry(packet.trusted_packet_sequence_id.unwrap_or_default()).or_default();
        if packet.sequence_flags.unwrap_or_default() & CLEARED != 0 {
            *sequence = Sequence::default();
        }
        let data = packet.interned_data.unwrap_or_default();
        self.summary = self.summary.take().or_else(|| summary_in(&data));
        sequence.take(data);
        if let Some(defaults) = packet.trace_packet_defaults {
            let track = defaults.track_event_defaults.unwrap_or_default().track_uuid.unwrap_or_default();
            sequence.track = self.tracks.get(&track).copied().unwrap_or_default();
        }
        for clock in packet.clock_snapshot.unwrap_or_default().clocks {
            if clock.clock_id == Some(OWN_CLOCK) {
                sequence.last = clock.timestamp.unwrap_or_default();
            }
        }
        let (Some(event), Some(time)) = (packet.track_event, packet.timestamp) else { return Ok(()) };
        let time = match packet.timestamp_clock_id {
            Some(BOOTTIME) => time,
            _ => {
                sequence.last = sequence.last.saturating_add(time);
                sequence.last
            }
        };
        if self.has_begun {
            self.event(packet.trusted_packet_sequence_id.unwrap_or_default(), &event, time)
        } else {
            Ok(())
        }
    }

    fn track(&mut self, descriptor: &TrackDescriptor) -> Result<()> {
        if descriptor.process.is_some() && !self.has_begun && self.process.contains_key("pid") {
            self.has_begun = true;
            let args = Json::from(self.process.clone());
            self.trace
                .event(&json!({"ph": "M", "name": "process_labels", "pid": self.process["pid"], "args": args}))?;
        }
        let (Some(uuid), Some(thread)) = (descriptor.uuid, &descriptor.thread) else { return Ok(()) };
        let track = (thread.pid.unwrap_or_default(), thread.tid.unwrap_or_default());
        self.tracks.insert(uuid, track);
        let (name, index) = (thread.thread_name.as_deref(), thread.legacy_sort_index);
        for (what, args) in [
            ("thread_name", name.map(|name| json!({"name": name}))),
            ("thread_sort_index", index.map(|index| json!({"sort_index": index}))),
        ] {
            if let Some(args) = args {
                self.trace.event(&json!({"ph": "M", "name": what, "pid": track.0, "tid": track.1, "args": args}))?;
            }
        }
        Ok(())
    }

    fn event(&mut self, number: u32, event: &TrackEvent, time: u64) -> Result<()> {
        let Some(sequence) = self.sequences.get_mut(&number) else { return Ok(()) };
        match (event.kind, &event.legacy_event) {
            (Some(SLICE_BEGIN), _) => {
                let begun = sequence.event(event, time);
                for flow in &event.flow_ids {
                    self.launches.insert((true, *flow), begun.clone());
                }
                let launch = event.terminating_flow_ids.first().and_then(|flow| self.launches.remove(&(true, *flow)));
                sequence.open.push((begun, time, launch));
            }
            (Some(SLICE_END), _) => {
                if let Some((mut begun, start, launch)) = sequence.open.pop() {
                    begun["dur"] = json!(microseconds(time.saturating_sub(start)));
                    self.trace.event(&begun)?;
                    if let Some(mut launch) = launch.filter(|from| from["cat"] == LAUNCH) {
                        launch["ph"] = json!("s");
                        self.trace.event(&launch)?;
                    }
                }
            }
            (None, Some(legacy)) => {
                let phase = legacy.phase.and_then(|phase| u8::try_from(phase).ok()).map_or('?', char::from);
                let mut begun = sequence.event(event, time);
                let is_launch = begun["cat"] == LAUNCH;
                let id = legacy.local_id.or(legacy.unscoped_id).unwrap_or_default();
                match phase {
                    's' if is_launch => _ = self.launches.insert((false, id), begun),
                    'f' if is_launch => {
                        let launch = self.launches.remove(&(false, id));
                        if let Some((.., to)) = sequence.open.last_mut() {
                            *to = launch;
                        }
                    }
                    'b' | 'e' => {
                        (begun["ph"], begun["id"]) = (json!(phase), json!(id));
                        if phase == 'b' {
                            self.begun.insert(id, begun);
                        } else if let Some(before) = self.begun.remove(&id) {
                            // Both are neighbours in a trace.
                            self.trace.event(&before)?;
                            self.trace.event(&begun)?;
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }
}
