//! Traces of [`Chrome`](crate::Chrome), which have an event a line.
//!
//! A trace has its ranges in the order of their ends, and neither their depths nor the paths of operations. So its
//! events go into a database, which has no less, and the rest is the import of that.

use std::io::{BufRead, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{fs, process};

use rustc_hash::FxHashMap;
use serde_json::Value as Json;

use super::database::database;
use super::fields::Names;
use super::outcome::{Identity, ImportError, Imported, NewSink};
use crate::Sqlite;
use crate::chrome::device::{APART, LAUNCH, memory_kind};
use crate::chrome::host::{CALL, OWN_TRACKS, PLACES};
use range_model::summary::{MemoryKind, Process, RangeStyle, Summary};
use range_model::timeline::{Api, ApiCall, Call, Ending, Item, Kernel, Memory, Operation, Range, Sink, Value, Work};

type Result<T, E = ImportError> = std::result::Result<T, E>;

/// A database that is removed afterwards.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _was_not_made = fs::remove_file(&self.0);
    }
}

/// Passes all items of a trace on. See [`timeline`](super::timeline).
pub(super) fn trace(mut from: impl BufRead, identity: &Identity, scratch: &Path, new: NewSink<'_>) -> Result<Imported> {
    let (mut trace, mut imported) = (Trace::new(scratch), Imported::default());
    let (mut line, mut number) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        match from.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break, // of a process that was killed
            Err(error) => return Err(ImportError::Unreadable(error.to_string())),
        }
        number += 1;
        let text = line.trim_ascii();
        let text = text.strip_suffix(b",").unwrap_or(text);
        if matches!(text, b"" | b"[" | b"]" | b"[]") {
            continue;
        }
        match serde_json::from_slice(text) {
            Ok(event) => {
                if trace.has_begun && is_of_process(&event) {
                    imported += std::mem::replace(&mut trace, Trace::new(scratch)).finish(identity, new)?;
                }
                trace.event(&event)?;
            }
            Err(_) if !line.ends_with(b"\n") => break, // the last line of a process that was killed
            Err(error) => {
                return Err(ImportError::Unreadable(format!("line {number} is no event of a trace: {error}")));
            }
        }
    }
    imported += trace.finish(identity, new)?;
    Ok(imported)
}

/// Whether a process tells of itself: in a joined trace, the events of another one begin.
fn is_of_process(event: &Json) -> bool {
    event["name"] == "process_labels" && event["args"].get("started_unix_ns").is_some()
}

/// A trace as far as it was read.
pub(super) struct Trace {
    sink: Sqlite,
    scratch: Scratch,
    has_begun: bool,
    pid: u64,
    names: Names,
    lost_fields: u64,
    /// Threads by their place among tracks, and by the numbers of their further tracks.
    places: FxHashMap<u64, u32>,
    tracks: FxHashMap<u64, u32>,
    /// The begin of an asynchronous event, which its end follows.
    begun: Json,
    /// The last operation, which the arrow from its launch may follow.
    operation: Json,
}

impl Trace {
    /// With a folder for a database, which has all events until the end.
    pub(super) fn new(scratch: &Path) -> Self {
        static IMPORTS: AtomicU64 = AtomicU64::new(0); // of this process, which may be several at once
        let number = IMPORTS.fetch_add(1, Relaxed);
        let scratch = Scratch(scratch.join(format!(".convert-{}-{number}.sqlite", process::id())));
        let (sink, names) = (Sqlite::new(&scratch.0), Names::default());
        let (places, tracks) = (FxHashMap::default(), FxHashMap::default());
        let (begun, operation) = (Json::Null, Json::Null);
        Self { sink, scratch, has_begun: false, pid: 0, names, lost_fields: 0, places, tracks, begun, operation }
    }

    /// Passes all items on.
    pub(super) fn finish(mut self, identity: &Identity, new: NewSink<'_>) -> Result<Imported> {
        if !self.has_begun {
            return Err(ImportError::NoTimeline);
        }
        self.operation(None)?;
        self.sink.end(&Summary::default(), 0)?;
        let mut imported = database(&self.scratch.0, identity, new)?;
        imported.lost_fields += self.lost_fields;
        Ok(imported)
    }

    pub(super) fn event(&mut self, event: &Json) -> Result<()> {
        let is_of_process = self.has_begun && whole(&event["pid"]) == self.pid;
        let phase = text(&event["ph"]);
        if phase != "C" && event["cat"] != LAUNCH {
            self.operation(None)?;
        }
        match phase {
            "M" if !self.has_begun && event["name"] == "process_labels" => self.begin(event),
            "M" if is_of_process => self.track(event),
            "X" if is_of_process => self.slice(event),
            "X" if self.has_begun && event["args"].get("level").is_none() => {
                self.operation = event.clone();
                Ok(())
            }
            "s" if event["cat"] == LAUNCH => self.operation(Some((self.thread(event), time(&event["ts"])))),
            "b" if is_of_process => {
                self.begun = event.clone();
                Ok(())
            }
            "e" if is_of_process => {
                let begun = std::mem::take(&mut self.begun);
                match (&begun["id"], &begun["id2"]) == (&event["id"], &event["id2"]) {
                    true if begun["cat"] == CALL => self.call(&begun, time(&event["ts"])),
                    true => self.range(&begun, time(&event["ts"]), Some(self.thread(event))),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, event: &Json) -> Result<()> {
        let args = &event["args"];
        self.pid = whole(&event["pid"]);
        let mut process = Process::default();
        process.pid = self.pid as u32;
        process.run_id = text(&args["run"]).to_owned();
        process.host = text(&args["host"]).to_owned();
        process.rank = args["rank"].as_u64().map(|rank| rank as u32);
        process.started_unix_ns = whole(&args["started_unix_ns"]);
        self.has_begun = true;
        Ok(self.sink.begin(&process)?)
    }

    /// The name or the place of a track.
    fn track(&mut self, event: &Json) -> Result<()> {
        let (track, args) = (whole(&event["tid"]), &event["args"]);
        let is_thread = track < u64::from(OWN_TRACKS);
        let place = whole(&args["sort_index"]) / u64::from(PLACES);
        match text(&event["name"]) {
            "thread_name" if is_thread => {
                let (thread, name) = (track as u32, text(&args["name"]));
                let name = if name == format!("thread {thread}") { "" } else { name };
                self.sink.item(&Item::Thread { thread, name })?;
            }
            "thread_sort_index" if is_thread => _ = self.places.insert(place, track as u32),
            "thread_sort_index" => {
                let thread = self.places.get(&place).copied().unwrap_or_default();
                self.tracks.insert(track, thread);
            }
            _ => {}
        }
        Ok(())
    }

    fn thread(&self, event: &Json) -> u32 {
        let track = whole(&event["tid"]);
        self.tracks.get(&track).copied().unwrap_or(track as u32)
    }

    /// A range, a call of CUDA, or the place where an arrow begins.
    fn slice(&mut self, event: &Json) -> Result<()> {
        let start = time(&event["ts"]);
        let end = start.saturating_add(time(&event["dur"]));
        let args = &event["args"];
        let api = match text(&event["cat"]) {
            _ if args.get("correlation").is_none() => return self.range(event, end, None),
            "cuda_runtime" => Api::Runtime,
            "cuda_driver" => Api::Driver,
            _ => return Ok(()),
        };
        let (thread, name) = (self.thread(event), text(&event["name"]));
        let (correlation, result) = (whole(&args["correlation"]) as u32, whole(&args["result"]) as u32);
        Ok(self.sink.item(&Item::ApiCall(ApiCall { api, name, thread, start, end, correlation, result }))?)
    }

    /// A range; one of style start/end has the thread on which it ended.
    fn range(&mut self, event: &Json, end: u64, ended_on: Option<u32>) -> Result<()> {
        let (thread, args) = (self.thread(event), &event["args"]);
        let (domain, category) = match (text(&event["cat"]), args["category"].as_str()) {
            (_, Some(category)) => (None, Some(category)),
            ("range", None) => (None, None),
            (both, None) => {
                both.split_once(',').map_or((Some(both), None), |(domain, category)| (Some(domain), Some(category)))
            }
        };
        let hexadecimal = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        let (_, fields) = self.names.read(&args["fields"], &mut self.lost_fields);
        let (span, call, parent) = numbers(args);
        let range = Range {
            thread,
            start: time(&event["ts"]),
            end,
            style: if ended_on.is_some() { RangeStyle::StartEnd } else { RangeStyle::PushPop },
            domain,
            name: text(&event["name"]),
            category,
            color: hexadecimal(text(&args["color"])),
            payload: payload(&args["payload"]),
            fields: &fields,
            end_thread: ended_on.filter(|end| *end != thread),
            cut: args["cut"] == true,
            span,
            call,
            parent,
            ..Range::default()
        };
        Ok(self.sink.item(&Item::Range(range))?)
    }

    fn call(&mut self, event: &Json, end: u64) -> Result<()> {
        let args = &event["args"];
        let (_, fields) = self.names.read(&args["fields"], &mut self.lost_fields);
        let (span, call, parent) = numbers(args);
        let ending = match (args["cancelled"] == true, args["cut"] == true) {
            (true, _) => Ending::Cancelled,
            (_, true) => Ending::Cut,
            _ => Ending::Closed,
        };
        Ok(self.sink.item(&Item::Call(Call {
            call,
            span,
            parent,
            thread: self.thread(event),
            start: time(&event["ts"]),
            end,
            domain: args["domain"].as_str(),
            name: text(&event["name"]),
            fields: &fields,
            ending,
        }))?)
    }

    /// The last operation, whose launch is known by now.
    fn operation(&mut self, launch: Option<(u32, u64)>) -> Result<()> {
        let event = std::mem::take(&mut self.operation);
        if event.is_null() {
            return Ok(());
        }
        let (name, args) = (text(&event["name"]), &event["args"]);
        let (start, mut kernel, mut symbol) = (time(&event["ts"]), "", "");
        let work = if event["cat"] == "kernel" {
            kernel = name;
            symbol = args["symbol"].as_str().unwrap_or(name);
            let size = |size: &Json| size.as_i64().unwrap_or(0) as i32;
            let sizes = |key: &str| [0, 1, 2].map(|axis: usize| size(&args[key][axis]));
            Work::Kernel(Kernel {
                name: 0,
                grid: sizes("grid"),
                block: sizes("block"),
                registers: whole(&args["registers"]) as u16,
                static_shared: size(&args["static_shared"]),
                dynamic_shared: size(&args["dynamic_shared"]),
            })
        } else if event["cat"] == "graph" {
            Work::Graph(whole(&args["graph"]) as u32)
        } else {
            Work::Memory(memory(name, args))
        };
        let captured =
            args["captured_in"].as_str().map(|path| path.split(" > ").map(str::to_owned).collect::<Vec<_>>());
        Ok(self.sink.item(&Item::Operation(Operation {
            start,
            end: start.saturating_add(time(&event["dur"])),
            device: (whole(&event["pid"]).saturating_sub(self.pid) / u64::from(APART)).saturating_sub(1) as u32,
            context: whole(&args["context"]) as u32,
            stream: whole(&args["stream"]) as u32,
            correlation: whole(&args["correlation"]) as u32,
            graph_node: whole(&args["graph_node"]),
            work,
            kernel,
            symbol,
            launch,
            span: args["span"].as_str(),
            path: &[],
            captured: captured.as_deref().unwrap_or_default(),
            call: whole(&args["call"]),
        }))?)
    }
}

/// A copy or a set, by its name: `Memcpy HtoD (Pageable -> Device)`, `Memset (Device)`.
fn memory(name: &str, args: &Json) -> Memory {
    const KINDS: [MemoryKind; 11] = [
        MemoryKind::Unknown,
        MemoryKind::HtoD,
        MemoryKind::DtoH,
        MemoryKind::HtoA,
        MemoryKind::AtoH,
        MemoryKind::AtoA,
        MemoryKind::AtoD,
        MemoryKind::DtoA,
        MemoryKind::DtoD,
        MemoryKind::HtoH,
        MemoryKind::PtoP,
    ];
    let (what, places) = name.strip_suffix(')').and_then(|name| name.split_once(" (")).unwrap_or((name, ""));
    let place = |name: &str| (0..=7).find(|kind| memory_kind(*kind) == name).unwrap_or(0);
    let (source, destination) =
        places.split_once(" -> ").map_or((0, place(places)), |(from, to)| (place(from), place(to)));
    let way = what.strip_prefix("Memcpy ");
    let kind = KINDS.into_iter().find(|kind| kind.direction() == way && way.is_some()).unwrap_or(MemoryKind::Set);
    let value = u32::from_str_radix(text(&args["value"]).trim_start_matches("0x"), 16).unwrap_or(0);
    Memory { kind, bytes: whole(&args["bytes"]), source, destination, value }
}

/// The numbers of span, call and parent. The first call of a span has the span's number, which is written once.
fn numbers(args: &Json) -> (u64, u64, u64) {
    let call = whole(&args["call"]);
    (args.get("span_id").map_or(call, whole), call, whole(&args["parent"]))
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}

/// A whole number. A large one is a string.
fn whole(value: &Json) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

/// Nanoseconds, which are written as microseconds.
fn time(value: &Json) -> u64 {
    (value.as_f64().unwrap_or(0.0) * 1000.0).round() as u64
}

/// The payload of a range, which is a number.
fn payload(value: &Json) -> Option<Value<'static>> {
    let digits = value.as_str().map(str::to_owned).or_else(|| value.is_number().then(|| value.to_string()))?;
    (digits.parse().map(Value::Integer).ok())
        .or_else(|| digits.parse().map(Value::Unsigned).ok())
        .or_else(|| digits.parse().map(Value::Float).ok())
}
