use crate::tests::with;
use range_report::SummaryExt as _;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parquet::file::reader::{FileReader as _, SerializedFileReader};

use super::files::folder;
use super::schema::ALL;
use super::*;
use range_model::RangeStyle;
use range_model::summary::{
    CallStates, CallStats, CommunicatorStats, DeviceIdle, GpuIdle, IdleCause, MemoryKind, RangeState, SpanIdle, Times,
    WaitStats,
};
use range_model::timeline::{Api, ApiCall, Call, Ending, Kernel, Memory, Operation, Range, Value, Work};

/// A folder that is removed afterwards, and a clock that a test sets.
struct Place {
    folder: PathBuf,
    seconds: Arc<AtomicU64>,
}

impl Place {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tracing-gpu-parquet-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Self { folder, seconds: Arc::default() }
    }

    fn sink(&self) -> Parquet {
        let seconds = self.seconds.clone();
        let mut sink = Parquet::new(&self.folder, move || Duration::from_secs(seconds.load(Ordering::Relaxed)));
        sink.begin(&process()).unwrap();
        sink
    }

    fn wait(&self, seconds: u64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
    }

    /// The names of all files.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(folder(&self.folder, &process())).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn rows(&self, name: &str) -> Vec<String> {
        rows(&folder(&self.folder, &process()).join(name))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The rows of a file, without the values that are missing.
fn rows(path: &Path) -> Vec<String> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let row = |row: parquet::errors::Result<parquet::record::Row>| {
        let text = row.unwrap().to_string();
        let cells = text.trim_matches(['{', '}']).split(", ").filter(|cell| !cell.ends_with(": null"));
        cells.collect::<Vec<_>>().join(", ")
    };
    reader.get_row_iter(None).unwrap().map(row).collect()
}

#[allow(clippy::needless_update)] // more is going to be known of a process
fn process() -> Process {
    let (host, run_id, started_unix_ns) = ("node7".to_owned(), "77".to_owned(), 1_000_000);
    with(Process::default(), |it| {
        it.pid = 42;
        it.host = host;
        it.rank = Some(3);
        it.run_id = run_id;
        it.started_unix_ns = started_unix_ns;
    })
}

fn range(name: &str, start: u64, end: u64) -> Item<'_> {
    Item::Range(Range { thread: 7, start, end, name, ..Range::default() })
}

#[test]
fn items_are_rows() {
    let place = Place::new("rows");
    let mut sink = place.sink();
    let fields: &[(&'static str, Value<'_>)] =
        &[("uri", Value::Text("/big")), ("size", Value::Unsigned(9)), ("ratio", Value::Float(0.5))];
    let path = ["app:request".to_owned(), "step".to_owned()];
    let range = Range {
        thread: 7,
        start: 10,
        end: 25,
        style: RangeStyle::StartEnd,
        domain: Some("app"),
        name: "request",
        depth: 2,
        category: Some("io"),
        color: Some(0xFF00_FF00),
        payload: Some(Value::Integer(-4)),
        fields,
        end_thread: Some(8),
        cut: true,
        on_cpu_ns: 5,
        off_cpu_ns: 6,
        span: 11,
        call: 12,
        parent: 13,
    };
    let call = Call {
        call: 12,
        span: 11,
        thread: 7,
        start: 9,
        end: 99,
        name: "request",
        fields: &fields[..1],
        ending: Ending::Cancelled,
        ..Call::default()
    };
    let kernel = Operation {
        start: 30,
        end: 36,
        device: 1,
        context: 2,
        stream: 3,
        correlation: 4,
        work: Work::Kernel(Kernel { grid: [1, 2, 3], block: [4, 5, 6], registers: 7, ..Kernel::default() }),
        kernel: "sgemm",
        symbol: "_Z5sgemm",
        launch: Some((7, 20)),
        span: Some("step"),
        path: &path,
        call: 12,
        ..Operation::default()
    };
    let copied = Memory { kind: MemoryKind::HtoD, bytes: 4096, source: 1, destination: 3, value: 0 };
    let copy = Operation { start: 40, end: 44, work: Work::Memory(copied), ..Operation::default() };
    let api = ApiCall { api: Api::Runtime, name: "cudaMalloc", thread: 7, start: 1, end: 3, correlation: 5, result: 2 };
    for item in [
        Item::Thread { thread: 7, name: "worker" },
        Item::Range(range),
        Item::Range(Range { thread: 9, start: 50, end: 51, name: "plain", ..Range::default() }),
        Item::Call(call),
        Item::Operation(kernel),
        Item::Operation(copy),
        Item::ApiCall(api),
    ] {
        sink.item(&item).unwrap();
    }
    sink.end(&Summary::default(), 0).unwrap();
    assert_eq!(
        place.names(),
        ["api-42-0000.parquet", "calls-42-0000.parquet", "copies-42-0000.parquet", "kernels-42-0000.parquet"]
            .into_iter()
            .chain(["ranges-42-0000.parquet"])
            .collect::<Vec<_>>()
    );
    assert_eq!(
        place.rows("ranges-42-0000.parquet"),
        [
            "pid: 42, thread: 7, thread_name: \"worker\", start_ns: 1000010, duration_ns: 15, domain: \"app\", \
             name: \"request\", style: \"start_end\", depth: 2, category: \"io\", color: 4278255360, \
             fields: {\"nvtx.payload\" -> \"-4\", \"uri\" -> \"/big\", \"size\" -> \"9\", \"ratio\" -> \"0.5\"}, \
             end_thread: 8, cut: true, on_cpu_ns: 5, off_cpu_ns: 6, span_id: 11, call_id: 12, parent_id: 13",
            "pid: 42, thread: 9, start_ns: 1000050, duration_ns: 1, name: \"plain\", style: \"push_pop\", depth: 0, \
             cut: false, on_cpu_ns: 0, off_cpu_ns: 0",
        ]
    );
    assert_eq!(
        place.rows("calls-42-0000.parquet"),
        ["pid: 42, thread: 7, start_ns: 1000009, duration_ns: 90, name: \"request\", ending: \"cancelled\", \
          fields: {\"uri\" -> \"/big\"}, span_id: 11, call_id: 12"]
    );
    assert_eq!(
        place.rows("kernels-42-0000.parquet"),
        ["pid: 42, device: 1, context: 2, stream: 3, start_ns: 1000030, duration_ns: 6, name: \"sgemm\", \
          symbol: \"_Z5sgemm\", correlation: 4, grid_x: 1, grid_y: 2, grid_z: 3, block_x: 4, block_y: 5, block_z: 6, \
          registers: 7, static_shared_bytes: 0, dynamic_shared_bytes: 0, launch_thread: 7, launch_ns: 1000020, \
          span: \"step\", path: \"app:request;step\", call_id: 12"]
    );
    assert_eq!(
        place.rows("copies-42-0000.parquet"),
        ["pid: 42, device: 0, context: 0, stream: 0, start_ns: 1000040, duration_ns: 4, kind: \"HtoD\", bytes: 4096, \
          source: \"pageable\", destination: \"device\""]
    );
    assert_eq!(
        place.rows("api-42-0000.parquet"),
        ["pid: 42, thread: 7, start_ns: 1000001, duration_ns: 2, api: \"runtime\", name: \"cudaMalloc\", \
          correlation: 5, result: 2"]
    );
}

#[test]
fn a_summary_is_states_waits_and_findings() {
    let place = Place::new("summary");
    let mut sink = place.sink();
    let mut call = CallStats::new("request", Times::new(3, 700));
    call.states = Some(with(CallStates::default(), |it| {
        it.on_cpu_ns = 300;
        it.gpu_work_ns = 400;
    }));
    let mut plain = CallStats::new("poll", Times::new(1, 50));
    (plain.busy_ns, plain.awaited_ns) = (20, 30);
    let mut device = with(DeviceIdle::default(), |it| {
        it.device = 1;
        it.wall_ns = 100;
        it.busy_ns = 60;
        it.gaps = 2;
    });
    device.causes.add(IdleCause::Host, 40);
    let mut span = with(SpanIdle::default(), |it| {
        it.name = Some("load".to_owned());
        it.gaps = 2;
    });
    span.causes.add(IdleCause::Host, 40);
    let idle = with(GpuIdle::default(), |it| {
        it.devices = vec![device];
        it.spans = vec![span];
    });
    let mut summary = with(Summary::default(), |it| {
        it.process = process();
        it.elapsed_ns = 2_000_000_000;
    });
    (summary.calls, summary.idle) = (vec![call, plain], Some(idle));
    summary.waits = vec![WaitStats::new("request", Some("compact".to_owned()), 2, 90, 50)];
    place.wait(3);
    sink.end(&summary, 5).unwrap();
    let head = "pid: 42, window_start_ns: 1001000000, window_ns: 2000000000";
    let states = place.rows("states-42-0000.parquet");
    assert_eq!(states.len(), 9 + 3 + (1 + IdleCause::ALL.len()) + IdleCause::ALL.len());
    for expected in [
        "subject: \"call\", name: \"request\", state: \"GPU work\", time_ns: 400, of_ns: 700, instances: 3",
        "subject: \"call\", name: \"poll\", state: \"awaited\", time_ns: 30, of_ns: 50, instances: 1",
        "subject: \"device\", device: 1, state: \"busy\", time_ns: 60, of_ns: 100, instances: 2",
        "subject: \"device\", device: 1, state: \"host code\", time_ns: 40, of_ns: 100, instances: 2",
        "subject: \"span\", name: \"load\", state: \"host code\", time_ns: 40, of_ns: 40, instances: 2",
    ] {
        let expected = format!("{head}, {expected}");
        assert!(states.contains(&expected), "{expected} is not in {states:#?}");
    }
    assert_eq!(
        place.rows("waits-42-0000.parquet"),
        [format!("{head}, waiter: \"request\", waited_for: \"compact\", waits: 2, time_ns: 90, longest_ns: 50")]
    );
    let findings = place.rows("findings-42-0000.parquet");
    assert_eq!(findings.len(), summary.findings().len() + 1);
    assert!(
        findings[0].contains("kind: \"lost_rows\", at_stake_ns: 0, sentence: \"5 rows are missing"),
        "{findings:?}"
    );
}

#[test]
fn listed_collectives_are_rows() {
    let place = Place::new("collectives");
    let mut sink = place.sink();
    let part = |range: Option<&str>, state: &str| {
        with(RangeState::default(), |it| {
            it.range = range.map(str::to_owned);
            it.state = state.to_owned();
        })
    };
    let listed = with(CommunicatorStats::default(), |it| {
        it.id = u64::MAX - 1;
        it.earlier = 7;
        it.names = vec!["AllReduce".to_owned(), "Broadcast".to_owned()];
        it.name = vec![0, 1, 0];
        it.start_ns = vec![100, 200, 300];
        it.time_ns = vec![40, 50, 60];
        it.alone_ns = vec![30, 0, 60];
        it.parts = vec![part(Some("ml:forward"), "GPU work"), part(None, "host code")];
        it.before = vec![vec![(1, 90), (0, 20)], vec![], vec![(0, 80)]];
    });
    let unknown = with(CommunicatorStats::default(), |it| it.earlier = 3);
    let summary = with(Summary::default(), |it| {
        it.process = process();
        it.communicators = vec![unknown, listed];
    });
    sink.window(&Summary::default()).unwrap();
    sink.end(&summary, 0).unwrap();
    assert_eq!(
        place.rows("collectives-42-0000.parquet"),
        [
            "pid: 42, communicator: -2, number: 7, name: \"AllReduce\", start_ns: 1000100, duration_ns: 40, \
             alone_ns: 30, before_state: \"host code\", before_ns: 90",
            "pid: 42, communicator: -2, number: 8, name: \"Broadcast\", start_ns: 1000200, duration_ns: 50, \
             alone_ns: 0",
            "pid: 42, communicator: -2, number: 9, name: \"AllReduce\", start_ns: 1000300, duration_ns: 60, \
             alone_ns: 60, before_range: \"ml:forward\", before_state: \"GPU work\", before_ns: 80",
        ]
    );
}

/// Of a run with windows, no time of calls and waits is there twice: the end adds what no window has.
#[test]
fn windows_have_rows_of_their_own() {
    let place = Place::new("windows");
    let mut sink = place.sink();
    let of = |instances, told, inferred| {
        let mut summary = with(Summary::default(), |it| {
            it.process = process();
            it.elapsed_ns = 2_000_000_000;
        });
        summary.calls = vec![CallStats::new("request", Times::new(instances, 10 * instances))];
        summary.waits = vec![WaitStats::new("request", Some("compact".to_owned()), told, 90, 50)];
        if inferred > 0 {
            let mut row = WaitStats::new("request", Some("flush".to_owned()), inferred, 70, 60);
            (row.of_waits, row.by_chance) = (Some(9), Some(1));
            summary.waits.push(row);
        }
        summary
    };
    for instances in [3, 4] {
        place.wait(2);
        sink.window(&of(instances, instances, 0)).unwrap();
    }
    let mut whole = of(7, 7, 5);
    whole.elapsed_ns = 4_000_000_000;
    let mut device = with(DeviceIdle::default(), |it| {
        it.device = 1;
        it.wall_ns = 100;
        it.busy_ns = 60;
    });
    device.causes.add(IdleCause::Host, 40);
    whole.idle = Some(with(GpuIdle::default(), |it| {
        it.devices = vec![device];
    }));
    sink.end(&whole, 0).unwrap();
    let busy = |start: u64, instances: u64| {
        let times = format!("time_ns: {0}, of_ns: {0}, instances: {instances}", 10 * instances);
        format!(
            "pid: 42, window_start_ns: {start}, window_ns: 2000000000, subject: \"call\", name: \"request\", \
             state: \"on thread\", {times}"
        )
    };
    let states = place.rows("states-42-0000.parquet");
    assert_eq!(states.len(), 3 + 3 + 1 + IdleCause::ALL.len());
    assert_eq!((&states[0], &states[3]), (&busy(1_000_000, 3), &busy(2_001_000_000, 4)));
    let of_run = "pid: 42, window_start_ns: 1000000, window_ns: 4000000000";
    assert!(
        states[6].starts_with(&format!("{of_run}, subject: \"device\", device: 1, state: \"busy\"")),
        "{states:#?}"
    );
    let waits = place.rows("waits-42-0000.parquet");
    let told: Vec<&String> = waits.iter().filter(|row| row.contains("compact")).collect();
    assert!(told.len() == 2 && told.iter().all(|row| row.contains("window_ns: 2000000000")), "{waits:#?}");
    assert!(waits.len() == 3 && waits[2].starts_with(of_run) && waits[2].contains("flush"), "{waits:#?}");
}

/// Whenever the process is killed, all files that have their names are whole, and only rows of the last 10 s are in
/// others.
#[test]
fn files_are_closed_after_ten_seconds() {
    let place = Place::new("age");
    let mut sink = place.sink();
    assert!(place.names().is_empty());
    sink.item(&range("a", 1, 2)).unwrap();
    sink.flush().unwrap();
    assert_eq!(place.names(), [".ranges-42-0000.parquet.open"]);
    place.wait(9);
    sink.flush().unwrap();
    sink.item(&range("b", 2, 3)).unwrap();
    assert_eq!(place.names(), [".ranges-42-0000.parquet.open"]);
    place.wait(1);
    sink.flush().unwrap();
    assert_eq!(place.names(), ["ranges-42-0000.parquet"]);
    sink.item(&range("c", 3, 4)).unwrap();
    let call = Call { name: "c", ..Call::default() };
    sink.item(&Item::Call(call)).unwrap();
    let open = [".calls-42-0000.parquet.open", ".ranges-42-0001.parquet.open", "ranges-42-0000.parquet"];
    assert_eq!(place.names(), open);
    drop(sink); // as a kill leaves it
    assert_eq!(place.names(), open);
    assert_eq!(place.rows("ranges-42-0000.parquet").len(), 2);
}

#[test]
fn files_are_closed_when_they_are_large() {
    let place = Place::new("size");
    let mut sink = place.sink().limits(Duration::from_secs(10), 1);
    let rows = group::ROWS as u64;
    for at in 0..2 * rows + 1 {
        sink.item(&range(if at % 3 == 0 { "a" } else { "b" }, at * 10, at * 10 + at % 7)).unwrap();
    }
    let names = ["ranges-42-0000.parquet", "ranges-42-0001.parquet"];
    assert_eq!(place.names(), [&[".ranges-42-0002.parquet.open"], &names[..]].concat());
    for (file, name) in (0..).zip(names) {
        let found = place.rows(name);
        assert_eq!(found.len() as u64, rows);
        for (at, row) in (file * rows..).zip(found).step_by(9_973) {
            let (start, name) = (1_000_000 + at * 10, if at % 3 == 0 { "a" } else { "b" });
            let expected = format!("start_ns: {start}, duration_ns: {}, name: \"{name}\"", at % 7);
            assert!(row.contains(&expected), "{at}: {row}");
        }
    }
}

/// Texts that differ in each row end a group before it takes much memory, and all are there.
#[test]
fn long_texts_end_a_group() {
    let place = Place::new("texts");
    let mut sink = place.sink().limits(Duration::from_secs(10), 1);
    for at in 0..40_u64 {
        let (text, is_there) = (format!("{at}-{}", "x".repeat(1 << 20)), at % 2 == 0);
        let fields = [("query", Value::Text(&text))];
        let fields = if is_there { &fields[..] } else { &[] };
        sink.item(&Item::Range(Range { name: "a", fields, ..Range::default() })).unwrap();
    }
    sink.end(&Summary::default(), 0).unwrap();
    let names = place.names();
    assert_eq!(names.len(), 2, "{names:?}");
    let all: Vec<String> = names.iter().flat_map(|name| place.rows(name)).collect();
    assert_eq!(all.len(), 40);
    for (at, row) in all.iter().enumerate() {
        assert_eq!(row.contains(&format!("\"query\" -> \"{at}-xxx")), at % 2 == 0, "{at}");
    }
}

/// Profilers of one process, and processes with one number, do not write over each other's files.
#[test]
fn no_file_replaces_another() {
    let place = Place::new("names");
    let (mut first, mut second) = (place.sink(), place.sink());
    first.item(&range("a", 1, 2)).unwrap();
    second.item(&range("b", 1, 2)).unwrap();
    second.end(&Summary::default(), 0).unwrap();
    first.end(&Summary::default(), 0).unwrap();
    let mut third = place.sink();
    third.item(&range("c", 1, 2)).unwrap();
    third.end(&Summary::default(), 0).unwrap();
    let names = ["ranges-42-0000.parquet", "ranges-42-0001.parquet", "ranges-42-0002.parquet"];
    assert_eq!(place.names(), names);
    for (name, range) in names.iter().zip(["a", "b", "c"]) {
        assert!(place.rows(name)[0].contains(&format!("name: \"{range}\"")), "{name}");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_of_the_beginning() {
    let place = Place::new("folder");
    fs::write(&place.folder, "").unwrap();
    let mut sink = Parquet::new(&place.folder, || Duration::ZERO);
    assert!(sink.begin(&process()).is_err());
    assert_eq!(sink.item(&range("a", 1, 2)).unwrap_err().to_string(), "not open: given up after an error, or ended");
    fs::remove_file(&place.folder).unwrap();
}

#[test]
fn a_file_that_was_removed_does_not_come_back() {
    let place = Place::new("removed");
    let mut sink = place.sink();
    sink.item(&range("a", 1, 2)).unwrap();
    fs::remove_file(folder(&place.folder, &process()).join(".ranges-42-0000.parquet.open")).unwrap();
    assert_eq!(sink.end(&Summary::default(), 0).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert!(place.names().is_empty());
}

#[test]
fn folders_are_those_of_hive() {
    let of = |run: &str, host: &str| {
        let (run_id, host) = (run.to_owned(), host.to_owned());
        folder(
            Path::new("runs"),
            &with(process(), |it| {
                it.run_id = run_id;
                it.host = host;
                it.rank = None;
            }),
        )
        .display()
        .to_string()
    };
    assert_eq!(of("1764185435-42", "node7.local"), "runs/run=1764185435-42/host=node7.local/rank=0");
    assert_eq!(of("../a b", ""), "runs/run=%2E.%2Fa%20b/host=unknown/rank=0");
    assert_eq!(of("é=1%", "."), "runs/run=%C3%A9%3D1%25/host=%2E/rank=0");
}

/// The engines and the documentation have the columns of the code. `BLESS=1` writes those of the engines.
#[test]
fn the_columns_are_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (docs, file) = (root.join("docs/parquet.md"), root.join("docs/queries/schema.json"));
    if !docs.is_file() {
        return; // a package of this crate alone
    }
    let mut json = String::from("{\n");
    let text = fs::read_to_string(docs).unwrap();
    for (place, (dataset, name, columns)) in ALL.iter().enumerate() {
        assert_eq!(place, *dataset as usize);
        let pairs: Vec<String> =
            columns.iter().map(|column| format!("    \"{}\": \"{}\"", column.name, column.sql())).collect();
        let end = if place + 1 == ALL.len() { "" } else { "," };
        json += &format!("  \"{name}\": {{\n{}\n  }}{end}\n", pairs.join(",\n"));
        let section = text.split(&format!("\n## `{name}`")).nth(1).unwrap_or_default().split("\n## ").next().unwrap();
        let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
        let documented: Vec<(&str, &str)> =
            cells.filter_map(|(column, rest)| Some((column, rest.split_once(" |")?.0))).collect();
        let kind = |optional: bool, sql: &str| format!("{sql}{}", if optional { ", may be NULL" } else { "" });
        let expected: Vec<(&str, String)> = columns
            .iter()
            .map(|column| (column.name, kind(column.is_optional || column.sql().starts_with("MAP"), column.sql())))
            .collect();
        let expected: Vec<(&str, &str)> = expected.iter().map(|(name, kind)| (*name, kind.as_str())).collect();
        assert_eq!(documented, expected, "`{name}` in docs/parquet.md");
    }
    json += "}\n";
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(root.join("queries")).unwrap();
        fs::write(&file, &json).unwrap();
    }
    assert!(fs::read_to_string(file).unwrap_or_default() == json, "BLESS=1 writes docs/queries/schema.json anew");
}
