//! Files of several processes that became one come back: every item, at its time on the common clock.

use crate::tests::with;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::{Identity, imported};
use crate::joined::{Format, join};
use crate::{Chrome, Sqlite};
use range_model::summary::{MemoryKind, Process};
use range_model::timeline::{Api, ApiCall, Call, Item, Kernel, Memory, Operation, Range, Sink, Value, Work};
use range_model::{RangeStyle, Summary};

const FIRST: u64 = 1_763_652_942_007_999_999;
const LATER: u64 = 1_234_567;

/// A folder of its own, which the destructor removes.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tracing-gpu-joined-{name}-{}", std::process::id()));
        let _of_an_earlier_run = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _stays = fs::remove_dir_all(&self.0);
    }
}

fn process(pid: u32, started_unix_ns: u64) -> Process {
    let command = format!("/bin/program{pid} \"ts\":");
    let rank = Some(pid);
    with(Process::default(), |it| {
        it.pid = pid;
        it.command = command;
        it.rank = rank;
        it.started_unix_ns = started_unix_ns;
        it.host = "a".into();
        it.run_id = "7".into();
    })
}

/// Work that is alike in all processes, and texts that look like parts of the format. Times are so much later, and
/// numbers of spans so much higher.
fn items(later: u64, above: u64) -> Vec<Item<'static>> {
    static FIELDS: &[(&str, Value<'_>)] = &[("ts", Value::Integer(9)), ("id", Value::Text(",\"ts\":5,\"id\":\"0x1\""))];
    let at = |time: u64| later + time;
    let thread = 7;
    let named = |start, end, name, depth, call: u64, parent: u64| Range {
        thread,
        start: at(start),
        end: at(end),
        name,
        depth,
        domain: (depth == 0).then_some(",\"ts\":"),
        fields: FIELDS,
        span: call + above,
        call: call + above,
        parent: if parent == 0 { 0 } else { parent + above },
        ..Range::default()
    };
    let job = |start, end, span| Range {
        thread: 8,
        style: RangeStyle::StartEnd,
        domain: None,
        ..named(start, end, "job", 0, span, 0)
    };
    let path: &'static [String] = Vec::leak(vec![",\"ts\"::a,\"ts\":1.0".to_owned(), "step".to_owned()]);
    let kernel = Operation {
        start: at(40_001),
        end: at(60_000),
        device: 1,
        context: 2,
        stream: 3,
        correlation: 5,
        work: Work::Kernel(Kernel { grid: [1, 2, 3], ..Kernel::default() }),
        kernel: "sgemm",
        symbol: "_Z5sgemm",
        launch: Some((7, at(30))),
        span: Some("step"),
        path,
        call: 2 + above,
        ..Operation::default()
    };
    let copied = Memory { kind: MemoryKind::HtoD, bytes: 4096, source: 1, destination: 3, value: 0 };
    let copy = Operation { start: at(70_000), end: at(80_000), work: Work::Memory(copied), ..Operation::default() };
    vec![
        Item::Thread { thread, name: "main" },
        Item::Device { device: 1, name: "H100" },
        Item::Range(job(5, 50, 3)),
        Item::Range(job(6, 50, 4)),
        Item::Range(named(10, 99_999, "a,\"ts\":1.0", 0, 1, 0)),
        Item::Range(named(20, 90_000, "step", 1, 2, 1)),
        Item::ApiCall(ApiCall {
            api: Api::Runtime,
            name: "cudaLaunchKernel",
            thread,
            start: at(30),
            end: at(33),
            correlation: 5,
            result: 0,
        }),
        Item::Call(Call {
            call: 9 + above,
            span: 8 + above,
            parent: 1 + above,
            thread,
            start: at(3),
            end: at(99),
            name: "wait",
            fields: FIELDS,
            ..Call::default()
        }),
        Item::Operation(kernel),
        Item::Operation(copy),
    ]
}

fn write(path: &Path, process: &Process, items: &[Item<'_>]) {
    let create = || File::create(path).unwrap();
    let mut sink: Box<dyn Sink> = match path.extension().unwrap().to_str().unwrap() {
        "sqlite" => Box::new(Sqlite::new(path)),
        "json" => Box::new(Chrome::new(create())),
        #[cfg(feature = "perfetto")]
        "pftrace" => Box::new(crate::Perfetto::new(create())),
        _ => Box::new(Chrome::gzip(create())),
    };
    sink.begin(process).unwrap();
    items.iter().for_each(|item| sink.item(item).unwrap());
    sink.end(
        &with(Summary::default(), |it| {
            it.process = process.clone();
        }),
        0,
    )
    .unwrap();
}

const FORMATS: &[(&str, Format)] = &[
    ("json", Format::Trace),
    ("gz", Format::Trace),
    ("sqlite", Format::Sqlite),
    #[cfg(feature = "perfetto")]
    ("pftrace", Format::Perfetto),
];

/// The files of two processes, of which the second began first.
fn files(folder: &Folder, kind: &str) -> Vec<PathBuf> {
    [(9, FIRST + LATER), (70, FIRST)]
        .map(|(pid, started)| {
            let path = folder.0.join(format!("{pid}.{kind}"));
            write(&path, &process(pid, started), &items(0, 0));
            path
        })
        .to_vec()
}

fn found(path: &Path) -> Vec<String> {
    imported(path, &Identity::default()).unwrap().1
}

#[test]
fn what_was_joined_comes_back_at_its_time() {
    let folder = Folder::new("back");
    for &(kind, format) in FORMATS {
        let joined = folder.0.join(format!("all.{kind}"));
        join(format, &files(&folder, kind), &joined).unwrap();
        // What the process that began later would have written if its clock were that of the run.
        let alone = folder.0.join(format!("alone.{kind}"));
        let above = if kind == "sqlite" { 1 << 40 } else { 0 };
        write(&alone, &process(9, FIRST), &items(LATER, above));
        let later = found(&alone);
        write(&alone, &process(70, FIRST), &items(0, 0));
        let mut expected = [found(&alone), later];
        if kind == "sqlite" {
            expected.reverse(); // a database is read by process id
        }
        let (found, expected) = (found(&joined), expected.concat());
        found.iter().zip(&expected).for_each(|(found, expected)| assert_eq!(found, expected, "{kind}"));
        assert_eq!(found.len(), expected.len(), "{kind}");
        fs::remove_file(joined).unwrap();
    }
}

/// Processes and devices are told apart, with their places one behind the other.
#[test]
fn each_process_has_its_tracks_and_numbers() {
    let folder = Folder::new("tracks");
    let joined = folder.0.join("all.json");
    join(Format::Trace, &files(&folder, "json"), &joined).unwrap();
    let events: Vec<serde_json::Value> = serde_json::from_slice(&fs::read(joined).unwrap()).unwrap();
    let said = |what: &str, key: &str| {
        let events = events.iter().filter(|event| event["name"] == what && !event["args"][key].is_null());
        events.map(|event| format!("{} {}", event["pid"], event["args"][key])).collect::<Vec<_>>()
    };
    let names = [
        "70 \"program70\"",
        "10000070 \"GPU 0 of 70 program70\"",
        "20000070 \"GPU 1 H100 of 70 program70\"",
        "9 \"program9\"",
        "10000009 \"GPU 0 of 9 program9\"",
        "20000009 \"GPU 1 H100 of 9 program9\"",
    ];
    let mut found = said("process_name", "name");
    found.sort_by_key(|name| names.iter().position(|known| known == name));
    assert_eq!(found, names);
    let mut places = said("process_sort_index", "sort_index");
    places.sort();
    assert_eq!(
        places,
        ["10000009 1001", "10000070 1", "20000009 1002", "20000070 2", "70 0", "9 1000"].map(str::to_owned)
    );
    let numbers = |phase: &str, key: &str| -> Vec<String> {
        let events = events.iter().filter(|event| event["ph"] == phase);
        events.map(|event| format!("{} {}", event["pid"], event[key])).collect()
    };
    assert_eq!(numbers("s", "id"), ["70 \"0x10000000001\"", "9 \"0x20000000001\""]);
    assert_eq!(numbers("f", "id"), ["20000070 \"0x10000000001\"", "20000009 \"0x20000000001\""]);
    let locals =
        ["70", "9"].map(|pid| ["0x1", "0x2", "0x3"].map(|id| format!("{pid} {{\"local\":\"{id}\"}}"))).concat();
    assert_eq!((numbers("b", "id2"), numbers("e", "id2")), (locals.clone(), locals));
}

/// A process that was killed leaves a file that ends anywhere. It is joined as far as it goes.
#[test]
fn what_was_cut_is_joined_as_far_as_it_goes() {
    let folder = Folder::new("cut");
    for &(kind, format) in FORMATS.iter().filter(|(kind, _)| *kind != "sqlite") {
        let files = files(&folder, kind);
        let (whole, joined) = (fs::read(&files[0]).unwrap(), folder.0.join(format!("all.{kind}")));
        let all = found(&files[1]).len();
        let mut least = 0;
        for cut in (0..whole.len()).step_by(101).chain([whole.len()]) {
            fs::write(&files[0], &whole[..cut]).unwrap();
            join(format, &files, &joined).unwrap_or_else(|error| panic!("{kind} {cut}: {error}"));
            let items = found(&joined).len();
            fs::remove_file(&joined).unwrap();
            assert!(items >= all.max(least), "{kind} {cut}: {items}");
            least = items;
        }
        assert_eq!(least, 2 * all, "{kind}");
    }
    // A database without tables: it was killed before its first commit.
    let files = files(&folder, "sqlite");
    fs::write(&files[0], b"").unwrap();
    let joined = folder.0.join("all.sqlite");
    join(Format::Sqlite, &files, &joined).unwrap();
    assert_eq!(found(&joined), found(&files[1]));
}

#[test]
fn a_file_that_is_none_of_ours_is_named() {
    let folder = Folder::new("none");
    for &(kind, format) in FORMATS {
        let (files, joined) = (files(&folder, kind), folder.0.join(format!("all.{kind}")));
        for content in [&b"something else"[..], b"[\n{\"a\":{}},\n{}\n]\n"] {
            fs::write(&files[0], content).unwrap();
            let result = join(format, &files, &joined);
            if content.starts_with(b"[") && format == Format::Trace {
                result.unwrap(); // without a process, nothing of it is read
                continue;
            }
            let error = result.unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot read `{}`: ", files[0].display())), "{kind}: {error}");
        }
        fs::write(&files[1], b"").unwrap();
        assert!(join(format, &files, &joined).is_err(), "{kind}");
        fs::remove_file(&files[0]).unwrap();
        let error = join(format, &files, &joined).unwrap_err().to_string();
        assert!(error.contains(&files[0].display().to_string()), "{kind}: {error}");
    }
}

/// Reports of databases count each name, device and moment once.
#[test]
fn strings_and_devices_are_in_a_database_once() {
    let folder = Folder::new("once");
    let joined = folder.0.join("all.sqlite");
    join(Format::Sqlite, &files(&folder, "sqlite"), &joined).unwrap();
    let connection = rusqlite::Connection::open(joined).unwrap();
    let count = |query: &str| connection.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT COUNT(*) - COUNT(DISTINCT value) FROM StringIds"), 0);
    assert_eq!(count("SELECT COUNT(*) FROM TARGET_INFO_GPU"), 1);
    assert_eq!(count("SELECT COUNT(DISTINCT pid) FROM TARGET_INFO_CUDA_DEVICE"), 2);
    assert_eq!(count("SELECT COUNT(*) FROM PROCESSES"), 2);
    assert_eq!(count("SELECT stopTime FROM ANALYSIS_DETAILS"), LATER as i64);
    assert_eq!(count("SELECT COUNT(*) FROM ANALYSIS_DETAILS"), 1);
    assert_eq!(count("SELECT COUNT(*) FROM sqlite_master WHERE type = 'index'"), 0);
    let complete = "SELECT COUNT(*) FROM META_DATA_CAPTURE WHERE name IN ('TRACING_GPU:COMPLETE:9', \
                    'TRACING_GPU:COMPLETE:70') AND value = 'true'";
    assert_eq!(count(complete), 2);
}

#[cfg(feature = "perfetto")]
#[test]
fn the_summaries_of_all_processes_are_read() {
    let folder = Folder::new("summaries");
    let (mut files, joined) = (files(&folder, "pftrace"), folder.0.join("all.pftrace"));
    let killed = folder.0.join("killed.pftrace");
    write(&killed, &process(80, FIRST + 1), &items(0, 0));
    let blocks = fs::read(&killed).unwrap();
    fs::write(&killed, &blocks[..blocks.len() - 1]).unwrap();
    files.push(killed);
    join(Format::Perfetto, &files, &joined).unwrap();
    let pids = |path: &Path| -> Vec<u32> {
        crate::import::summaries(path).unwrap().iter().map(|summary| summary.process.pid).collect()
    };
    assert_eq!((pids(&joined), pids(&files[0]), pids(&files[2])), (vec![70, 9], vec![9], vec![]));
    #[cfg(feature = "html")]
    {
        let page = crate::import::page(&joined, &folder.0, range_report::FindingKinds::default()).unwrap_err();
        assert_eq!(page.to_string(), crate::import::ImportError::Several(3).to_string());
    }
}
