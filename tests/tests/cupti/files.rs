//! Reads the GPU's side of the child's timelines.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rusqlite::{Connection, types::ValueRef};
use serde_json::Value;

/// A trace, as its events.
pub(crate) struct Chrome {
    events: Vec<Value>,
    /// Names of threads, and of the groups of tracks, which a trace has as processes.
    tracks: HashMap<(u64, u64), String>,
    processes: HashMap<u64, String>,
}

/// An operation on a GPU.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) name: String,
    pub(crate) start: u64,
    pub(crate) lasted: u64,
    pub(crate) device: u32,
    pub(crate) track: String,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    pub(crate) id: u32,
    pub(crate) span: Option<String>,
    pub(crate) symbol: Option<String>,
    /// Thread and time of the start of the arrow to this operation.
    pub(crate) launch: Option<(u32, u64)>,
}

fn ns(event: &Value, key: &str) -> u64 {
    let micros = event[key].as_f64().unwrap_or_else(|| panic!("no {key}: {event}"));
    (micros * 1000.0).round() as u64
}

fn number(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))).expect("32 bits")
}

fn text<'a>(event: &'a Value, key: &str) -> &'a str {
    event[key].as_str().unwrap_or_else(|| panic!("no {key}: {event}"))
}

impl Chrome {
    pub(crate) fn read(path: &Path) -> Self {
        let text_of = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let events: Vec<Value> = serde_json::from_str(&text_of).unwrap_or_else(|error| panic!("{error}: {text_of}"));
        let (mut tracks, mut processes) = (HashMap::new(), HashMap::new());
        for event in events.iter().filter(|event| event["ph"] == "M") {
            let name = event["args"]["name"].as_str().unwrap_or_default().to_owned();
            match text(event, "name") {
                "thread_name" => _ = tracks.insert(Self::place(event), name),
                "process_name" => _ = processes.insert(Self::place(event).0, name),
                _ => {}
            }
        }
        Self { events, tracks, processes }
    }

    fn place(event: &Value) -> (u64, u64) {
        (number(&event["pid"]).into(), number(&event["tid"]).into())
    }

    fn track(&self, event: &Value) -> &str {
        self.tracks.get(&Self::place(event)).unwrap_or_else(|| panic!("a track without a name: {event}"))
    }

    fn slices(&self, categories: &'static [&'static str]) -> impl Iterator<Item = &Value> {
        let is_of = move |event: &&Value| event["ph"] == "X" && categories.contains(&text(event, "cat"));
        self.events.iter().filter(is_of)
    }

    /// Operations in order.
    pub(crate) fn operations(&self) -> Vec<Ran> {
        let begins = |event: &&Value| event["ph"] == "s";
        let begins: HashMap<&str, &Value> =
            self.events.iter().filter(begins).map(|event| (text(event, "id"), event)).collect();
        let ran = |event: &Value| {
            let args = &event["args"];
            let ends =
                |end: &&Value| end["ph"] == "f" && Self::place(end) == Self::place(event) && end["ts"] == event["ts"];
            let launch = self.events.iter().find(ends).map(|end| begins[text(end, "id")]);
            let device = &self.processes[&Self::place(event).0];
            Ran {
                name: text(event, "name").to_owned(),
                start: ns(event, "ts"),
                lasted: ns(event, "dur"),
                device: number_of(device).unwrap_or_else(|| panic!("{device} is no device")),
                track: self.track(event).to_owned(),
                context: number(&args["context"]),
                stream: number(&args["stream"]),
                id: number(&args["correlation"]),
                span: args["span"].as_str().map(str::to_owned),
                symbol: args["symbol"].as_str().map(str::to_owned),
                launch: launch.map(|begin| (number(&begin["tid"]), ns(begin, "ts"))),
            }
        };
        self.slices(&["kernel", "memcpy", "memset"]).map(ran).collect()
    }

    /// The thread with a range of this name around this moment.
    pub(crate) fn slice(&self, name: &str, at: u64) -> Option<u32> {
        let holds = |event: &&Value| {
            let start = ns(event, "ts");
            event["name"] == name && start <= at && at <= start + ns(event, "dur") && event["args"]["level"].is_null()
        };
        self.slices(&["range"]).find(holds).map(|event| number(&event["tid"]))
    }

    /// Ranges on streams: name, track, start, duration, level.
    pub(crate) fn projected(&self) -> Vec<(&str, &str, u64, u64, u32)> {
        let projected = self.slices(&["range"]).filter(|event| !event["args"]["level"].is_null());
        projected
            .map(|event| {
                let level = number(&event["args"]["level"]);
                (text(event, "name"), self.track(event), ns(event, "ts"), ns(event, "dur"), level)
            })
            .collect()
    }

    /// Calls of the API: id, name, category, track, and result in case of an error.
    pub(crate) fn calls(&self) -> Vec<(u32, &str, &str, &str, Option<u64>)> {
        let calls = self.slices(&["cuda_driver", "cuda_runtime"]);
        calls
            .map(|event| {
                let id = number(&event["args"]["correlation"]);
                (id, text(event, "name"), text(event, "cat"), self.track(event), event["args"]["result"].as_u64())
            })
            .collect()
    }
}

/// Rows of a query, cells joined by `|`.
pub(crate) fn rows(path: &Path, query: &str) -> Vec<String> {
    let file = Connection::open(path).expect("a database");
    let mut statement = file.prepare(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let cell = |at| {
            Ok(match row.get_ref(at)? {
                ValueRef::Null => "-".to_owned(),
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Real(number) => number.to_string(),
                ValueRef::Text(text) | ValueRef::Blob(text) => String::from_utf8_lossy(text).into_owned(),
            })
        };
        let cells: rusqlite::Result<Vec<String>> = (0..columns).map(cell).collect();
        Ok(cells?.join("|"))
    });
    rows.expect("no parameters").map(|row| row.expect("a row")).collect()
}

/// The device number in `GPU 0 Its Name`.
fn number_of(device: &str) -> Option<u32> {
    device.strip_prefix("GPU ")?.split(' ').next()?.parse().ok()
}

/// The timeline of a page: for each bar its part, name and duration.
pub(crate) struct Page(Vec<(String, String, u64)>);

impl Page {
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("a page");
        let script = |id: &str| {
            let (_, rest) = text.split_once(&format!(" id=\"{id}\">")).unwrap_or_else(|| panic!("no {id}"));
            rest.split_once("</script>").expect("an end").0
        };
        let data: Value = serde_json::from_str(script("data")).expect("data");
        let (names, lengths) = (numbers(script("column-name")), numbers(script("column-length")));
        let tracks = data["groups"].as_array().expect("groups").iter().flat_map(|group| group["tracks"].as_array());
        let parts = tracks.flatten().flat_map(|track| {
            let bars = track["rows"].as_array().into_iter().flatten().filter_map(|row| row[1].as_u64()).sum::<u64>();
            (0..bars).map(|_| track["part"].as_str().expect("a part").to_owned())
        });
        let name = |number: u64| data["texts"][number as usize].as_str().expect("a name").to_owned();
        Self(parts.zip(names).zip(lengths).map(|((part, number), ns)| (part, name(number), ns)).collect())
    }

    /// The number of bars in a part, and their summed durations, by the first word or words of their names.
    pub(crate) fn sums(&self, part: &str) -> BTreeMap<String, (u64, u64)> {
        let mut sums = BTreeMap::<_, (u64, u64)>::new();
        for (_, name, ns) in self.0.iter().filter(|bar| bar.0 == part) {
            let sum = sums.entry(name.split(" (").next().unwrap_or_default().to_owned()).or_default();
            *sum = (sum.0 + 1, sum.1 + ns);
        }
        sums
    }
}

/// Decodes a column: numbers in base 128, the lowest seven bits first, with the bytes in base 64.
fn numbers(column: &str) -> Vec<u64> {
    let bytes = STANDARD.decode(column).expect("base 64");
    let ends = bytes.split_inclusive(|byte| byte & 0x80 == 0);
    ends.map(|bytes| bytes.iter().rev().fold(0, |all, byte| all << 7 | u64::from(byte & 0x7f))).collect()
}
