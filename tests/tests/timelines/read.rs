//! Reads the files of a run strictly.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use tracing_gpu::summary::RangeStyle;
use tracing_gpu::{Summary, SummaryExt as _};

use crate::Rows;
use crate::scenario::{Ran, command, outcome};

/// The files of a run, in a folder of its own that the destructor removes.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) folder: PathBuf,
    pub(crate) trace: PathBuf,
    pub(crate) database: PathBuf,
    pub(crate) json: PathBuf,
}

impl Files {
    pub(crate) fn new(trace: &str) -> Self {
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tracing-gpu-timelines-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let at = |name: &str| folder.join(name);
        Self { trace: at(trace), database: at("run.sqlite"), json: at("run.json"), folder }
    }

    /// The setting for the environment variable.
    pub(crate) fn setting(&self) -> String {
        let (trace, database, json) = (self.trace.display(), self.database.display(), self.json.display());
        format!("trace={trace},sqlite={database},json={json}")
    }

    pub(crate) fn command(&self, scenario: &str, tier: &str) -> Command {
        let mut command = command(scenario, tier);
        command.env("TRACING_GPU", self.setting());
        command
    }

    pub(crate) fn trace(&self) -> Trace {
        let text = text(&self.trace).unwrap_or_else(|error| panic!("{error}"));
        Trace::new(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    pub(crate) fn database(&self) -> Database {
        Database::open(&self.database)
    }

    pub(crate) fn summary(&self) -> Summary {
        let text = std::fs::read_to_string(&self.json).expect("a summary");
        Summary::read_json(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A scenario that has ended, with its files.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) ran: Ran,
    files: Files,
}

impl Run {
    pub(crate) fn of(scenario: &str, tier: &str) -> Self {
        Self::under(scenario, tier, "trace.json")
    }

    /// Runs a scenario with a trace of this name.
    pub(crate) fn under(scenario: &str, tier: &str, trace: &str) -> Self {
        let files = Files::new(trace);
        Self { ran: outcome(&mut files.command(scenario, tier)), files }
    }
}

impl std::ops::Deref for Run {
    type Target = Files;

    fn deref(&self) -> &Files {
        &self.files
    }
}

fn text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let mut file = std::fs::File::open(path)?;
    if path.extension().is_some_and(|extension| extension == "gz") {
        flate2::read::GzDecoder::new(file).read_to_string(&mut text)?;
    } else {
        file.read_to_string(&mut text)?;
    }
    Ok(text)
}

/// An event of a trace, with the times of a slice.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) cat: String,
    pub(crate) track: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) args: Value,
    /// The track of the end, for start/end ranges.
    pub(crate) end_track: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) slices: Vec<Event>,
    pub(crate) lifetimes: Vec<Event>,
    pub(crate) calls: Vec<Event>,
    pub(crate) marks: Vec<Event>,
    pub(crate) threads: BTreeMap<u64, String>,
    pub(crate) lost: Option<u64>,
}

/// Nanoseconds of a time in microseconds.
fn ns(value: &Value) -> u64 {
    let micros = value.as_f64().unwrap_or_else(|| panic!("no time: {value}"));
    (micros * 1000.0).round() as u64
}

impl Trace {
    /// The trace of a killed process: events up to the last whole line.
    pub(crate) fn of_killed(path: &Path) -> Self {
        let mut bytes = std::fs::read(path).expect("a trace");
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'}').map_or(0, |last| last + 1));
        let text = String::from_utf8(bytes).expect("UTF-8");
        let whole = |text: &str| serde_json::from_str(&format!("{text}\n]"));
        // If the last line was cut, everything before it is whole.
        let before = || text.rfind(",\n").map_or("", |last| &text[..last]);
        let events = whole(&text).or_else(|_| whole(before()));
        Self::new(events.unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    fn new(events: Vec<Value>) -> Self {
        let mut trace = Self::default();
        let mut open: BTreeMap<String, Event> = BTreeMap::new();
        for event in events {
            let text = |key: &str| event[key].as_str().map(str::to_owned);
            let time = |key: &str| ns(&event[key]);
            let name = text("name").unwrap_or_else(|| panic!("no name: {event}"));
            let track = event["tid"].as_u64().unwrap_or_else(|| panic!("no track: {event}"));
            assert!(event["pid"].is_u64(), "{event}");
            let made = |start, end| Event {
                name: name.clone(),
                cat: text("cat").unwrap_or_else(|| panic!("no category: {event}")),
                track,
                start,
                end,
                args: event["args"].clone(),
                end_track: track,
            };
            match event["ph"].as_str().unwrap_or_else(|| panic!("no kind: {event}")) {
                "M" if name == "thread_name" => {
                    trace.threads.insert(track, event["args"]["name"].as_str().expect("a name").to_owned());
                }
                "M" => {}
                "X" => trace.slices.push(made(time("ts"), time("ts") + time("dur"))),
                "i" if event["cat"] == "lost" => trace.lost = event["args"]["lost"].as_u64(),
                "i" => trace.marks.push(made(time("ts"), time("ts"))),
                "b" => {
                    let id = text("id").expect("an id");
                    assert!(open.insert(id, made(time("ts"), 0)).is_none(), "an id twice: {event}");
                }
                "e" => {
                    let mut begun = open.remove(&text("id").expect("an id")).expect("a begin of this id");
                    assert_eq!(begun.name, name);
                    (begun.end, begun.end_track) = (time("ts"), track);
                    let of = if begun.cat == "call" { &mut trace.calls } else { &mut trace.lifetimes };
                    of.push(begun);
                }
                other => panic!("unexpected kind {other}: {event}"),
            }
        }
        assert!(open.is_empty(), "without an end: {open:?}");
        trace
    }

    /// The only slice of this name.
    pub(crate) fn slice(&self, name: &str) -> &Event {
        let found: Vec<_> = self.slices.iter().filter(|slice| slice.name == name).collect();
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        found[0]
    }

    /// Checks that any two slices of a track are nested or disjoint.
    pub(crate) fn assert_nested(&self, what: &str) {
        let mut tracks: BTreeMap<u64, Vec<&Event>> = BTreeMap::new();
        self.slices.iter().for_each(|slice| tracks.entry(slice.track).or_default().push(slice));
        for slices in tracks.values_mut() {
            slices.sort_by_key(|slice| (slice.start, std::cmp::Reverse(slice.end)));
            let mut around: Vec<&Event> = Vec::new();
            for slice in slices {
                around.retain(|outer| outer.end > slice.start || outer.end == slice.end && outer.end == outer.start);
                if let Some(outer) = around.last() {
                    assert!(slice.end <= outer.end, "{what}: {slice:?} crosses {outer:?}");
                }
                around.push(slice);
            }
        }
    }

    pub(crate) fn rows(&self) -> Rows {
        let mut rows = Rows::new();
        let slices = self.slices.iter().map(|slice| (RangeStyle::PushPop, slice));
        for (style, range) in slices.chain(self.lifetimes.iter().map(|range| (RangeStyle::StartEnd, range))) {
            let domain = range.cat.split(',').next().filter(|domain| ["io", "net"].contains(domain));
            let label = match domain.filter(|_| !range.args["fields"].is_object() && range.name != "categorised") {
                Some(domain) => format!("{domain}:{}", range.name),
                None => range.name.clone(),
            };
            let row = rows.entry((style, label)).or_default();
            *row = (row.0 + 1, row.1 + range.end - range.start);
        }
        rows
    }
}

pub(crate) struct Database {
    connection: Connection,
    pub(crate) threads: Vec<String>,
}

impl Database {
    /// Opens the database for writing, which repairs it if its writer was killed.
    pub(crate) fn open(path: &Path) -> Self {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).expect("a database");
        let mut database = Self { connection, threads: Vec::new() };
        assert_eq!(database.text("PRAGMA integrity_check"), "ok", "{}", path.display());
        database.threads = database.texts("SELECT value FROM ThreadNames JOIN StringIds ON id = nameId");
        database
    }

    pub(crate) fn number(&self, query: &str) -> i64 {
        self.connection.query_row(query, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    pub(crate) fn text(&self, query: &str) -> String {
        self.connection.query_row(query, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    pub(crate) fn texts(&self, query: &str) -> Vec<String> {
        let mut query = self.connection.prepare(query).expect("a query");
        let rows = query.query_map([], |row| row.get(0)).expect("no parameters");
        rows.map(|row| row.expect("a text")).collect()
    }

    /// Texts of the marks, ordered by level from the most verbose on, then by text.
    pub(crate) fn marks(&self) -> Vec<String> {
        self.texts("SELECT text FROM NVTX_EVENTS WHERE eventType = 34 ORDER BY category = 3, category DESC, text")
    }

    /// Instances and totals by the name of the category, or by its number if it has no name.
    pub(crate) fn categories(&self) -> BTreeMap<String, (u64, u64)> {
        let query = "SELECT coalesce(c.text, e.category), count(*), sum(e.end - e.start) FROM NVTX_EVENTS e
            LEFT JOIN (SELECT DISTINCT category, text FROM NVTX_EVENTS WHERE eventType = 33) c ON c.category = e.category
            WHERE e.eventType IN (59, 60) AND e.category > 0 GROUP BY 1";
        let mut query = self.connection.prepare(query).expect("a query");
        let row = |row: &rusqlite::Row<'_>| -> rusqlite::Result<_> {
            let name = match row.get_ref(0)? {
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                name => name.as_str()?.to_owned(),
            };
            Ok((name, (row.get::<_, i64>(1)? as u64, row.get::<_, i64>(2)? as u64)))
        };
        query.query_map([], row).expect("no parameters").map(|row| row.expect("a row")).collect()
    }

    pub(crate) fn rows(&self) -> Rows {
        let query = "SELECT eventType, d.text, value, count(*), sum(e.end - e.start) FROM NVTX_EVENTS e
            JOIN StringIds ON id = e.textId
            LEFT JOIN (SELECT domainId, text FROM NVTX_EVENTS WHERE eventType = 75) d ON d.domainId = e.domainId
            WHERE eventType IN (59, 60) GROUP BY 1, 2, 3";
        let mut query = self.connection.prepare(query).expect("a query");
        let row = |row: &rusqlite::Row<'_>| -> rusqlite::Result<_> {
            let style = if row.get::<_, i64>(0)? == 59 { RangeStyle::PushPop } else { RangeStyle::StartEnd };
            let (domain, name): (Option<String>, String) = (row.get(1)?, row.get(2)?);
            let label = domain.map_or(name.clone(), |domain| format!("{domain}:{name}"));
            let (instances, total): (i64, i64) = (row.get(3)?, row.get(4)?);
            Ok(((style, label), (instances as u64, total as u64)))
        };
        query.query_map([], row).expect("no parameters").map(|row| row.expect("a row")).collect()
    }
}
