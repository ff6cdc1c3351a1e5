#[cfg(feature = "join")]
mod joined;

use crate::tests::with;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::*;
use range_model::Summary;
use range_model::summary::Process;
use range_model::timeline::{Item, Sink};

/// A sink that keeps what it gets, as text.
struct Kept(Arc<Mutex<Vec<String>>>);

impl Sink for Kept {
    fn begin(&mut self, process: &Process) -> io::Result<()> {
        self.0.lock().unwrap().push(format!("{process:?}"));
        Ok(())
    }

    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        self.0.lock().unwrap().push(format!("{item:?}"));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, summary: &Summary, _: u64) -> io::Result<()> {
        self.0.lock().unwrap().push(format!("end {}", summary.process.pid));
        Ok(())
    }
}

fn imported(path: &Path, identity: &Identity) -> Result<(Imported, Vec<String>), ImportError> {
    let kept = Arc::<Mutex<Vec<String>>>::default();
    let counts = timeline(path, identity, &std::env::temp_dir(), &mut |_| Box::new(Kept(kept.clone())))?;
    let kept = kept.lock().unwrap().clone();
    Ok((counts, kept))
}

fn golden() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/attribution/run.sqlite");
    path.is_file().then_some(path) // not in a package of this crate alone
}

/// A database that Nsight Systems made: all rows, and the spans of operations by the ranges around their launches.
#[test]
fn a_database_of_nsight_systems() {
    let Some(path) = golden() else { return };
    let identity = Identity { run_id: Some("7".into()), host: Some("a".into()), rank: Some(2) };
    let (counts, items) = imported(&path, &identity).unwrap();
    assert_eq!((counts.processes, counts.calls, counts.lost_fields), (1, 0, 0));
    let connection = rusqlite::Connection::open(&path).unwrap();
    let count = |query: &str| connection.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap() as u64;
    let rows = |table: &str| count(&format!("SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_{table}"));
    assert_eq!(counts.ranges, count("SELECT COUNT(*) FROM NVTX_EVENTS WHERE eventType IN (59, 60)"));
    assert_eq!(counts.api_calls, rows("RUNTIME"));
    assert_eq!(counts.operations, rows("KERNEL") + rows("MEMCPY") + rows("MEMSET"));
    for expected in ["host: \"a\"", "rank: Some(2)", "run_id: \"7\""] {
        assert!(items[0].contains(expected), "{}", items[0]);
    }
    // The reports of Nsight Systems attribute a kernel to the innermost range around its launch.
    let innermost = count(
        "SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k WHERE EXISTS (
            SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN NVTX_EVENTS n ON n.globalTid = r.globalTid
            WHERE r.correlationId = k.correlationId AND n.eventType = 59 AND n.start <= r.start AND n.end > r.start)",
    );
    let with_span = items.iter().filter(|item| item.contains("work: Kernel") && item.contains("span: Some("));
    assert_eq!(with_span.count() as u64, innermost);
    assert!(innermost > 0);
}

#[test]
fn our_database_and_our_trace_come_back() {
    use crate::{Chrome, Sqlite};
    use range_model::RangeStyle;
    use range_model::summary::MemoryKind;
    use range_model::timeline::{Api, ApiCall, Call, Ending, Kernel, Memory, Operation, Range, Value, Work};

    let mut process = Process::default();
    (process.pid, process.rank, process.started_unix_ns) = (42, Some(3), 1_700_000_000_000_000_000);
    (process.host, process.run_id) = ("node7".to_owned(), "77".to_owned());
    let fields = [("size", Value::Integer(9)), ("uri", Value::Text("/a \"b\""))];
    let outer = Range {
        thread: 7,
        start: 10,
        end: 100,
        domain: Some("app"),
        name: "request",
        category: Some("io"),
        payload: Some(Value::Float(0.5)),
        fields: &fields,
        span: 1,
        call: 1,
        ..Range::default()
    };
    let inner = Range {
        thread: 7,
        start: 20,
        end: 90,
        name: "step",
        depth: 1,
        span: 2,
        call: 2,
        parent: 1,
        ..Range::default()
    };
    let other = Range {
        thread: 8,
        start: 5,
        end: 50,
        name: "job",
        style: RangeStyle::StartEnd,
        span: 3,
        call: 3,
        ..Range::default()
    };
    let call = Call {
        call: 9,
        span: 8,
        parent: 1,
        thread: 7,
        start: 3,
        end: 99,
        name: "wait",
        ending: Ending::Cancelled,
        fields: &fields[..1],
        ..Call::default()
    };
    let api = ApiCall {
        api: Api::Runtime,
        name: "cudaLaunchKernel",
        thread: 7,
        start: 30,
        end: 33,
        correlation: 5,
        result: 2,
    };
    let path_of_launch = ["app:request".to_owned(), "step".to_owned()];
    let kernel = Operation {
        start: 40,
        end: 60,
        device: 1,
        context: 2,
        stream: 3,
        correlation: 5,
        work: Work::Kernel(Kernel { grid: [1, 2, 3], block: [4, 5, 6], registers: 7, ..Kernel::default() }),
        kernel: "sgemm",
        symbol: "_Z5sgemm",
        launch: Some((7, 30)),
        span: Some("step"),
        path: &path_of_launch,
        call: 2,
        ..Operation::default()
    };
    let copied = Memory { kind: MemoryKind::HtoD, bytes: 4096, source: 1, destination: 3, value: 0 };
    let copy = Operation { start: 70, end: 80, work: Work::Memory(copied), ..Operation::default() };
    let set = Memory { kind: MemoryKind::Set, bytes: 64, source: 0, destination: 3, value: 9 };
    let set = Operation { start: 81, end: 82, work: Work::Memory(set), ..Operation::default() };
    // In the order in which the import has them: by start.
    let items = [
        Item::Thread { thread: 7, name: "main" },
        Item::Range(other),
        Item::Range(outer),
        Item::Range(inner),
        Item::ApiCall(api),
        Item::Call(call),
        Item::Operation(kernel),
        Item::Operation(copy),
        Item::Operation(set),
    ];
    let expected: Vec<String> = std::iter::once(format!("{process:?}"))
        .chain(items.iter().map(|item| format!("{item:?}")))
        .chain(["end 42".to_owned()])
        .collect();
    let write = |file: &mut dyn Sink| {
        file.begin(&process).unwrap();
        items.iter().for_each(|item| file.item(item).unwrap());
        file.end(&Summary::default(), 0).unwrap();
    };
    for kind in ["sqlite", "json", "json.gz", "pftrace"] {
        if kind == "pftrace" && cfg!(not(feature = "perfetto")) {
            continue;
        }
        let path = std::env::temp_dir().join(format!("tracing-gpu-import-{}.{kind}", std::process::id()));
        let create = || std::fs::File::create(&path).unwrap();
        match kind {
            "sqlite" => write(&mut Sqlite::new(&path)),
            "json" => write(&mut Chrome::new(create())),
            #[cfg(feature = "perfetto")]
            "pftrace" => write(&mut crate::Perfetto::new(create())),
            _ => write(&mut Chrome::gzip(create())),
        }
        let (counts, found) = imported(&path, &Identity::default()).unwrap();
        std::fs::remove_file(&path).unwrap();
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{kind}");
        }
        assert_eq!(found.len(), expected.len(), "{kind}");
        let expected =
            Imported { processes: 1, ranges: 3, calls: 1, operations: 3, api_calls: 1, ..Imported::default() };
        assert_eq!(counts, expected, "{kind}");
    }
}

/// A trace of a process that was killed is read to its last whole line; any other damage is an error.
#[test]
fn a_trace_that_is_cut_off_is_read_up_to_there() {
    use crate::Chrome;
    use range_model::timeline::Range;

    let path = std::env::temp_dir().join(format!("tracing-gpu-import-cut-{}.json", std::process::id()));
    let mut text = Vec::new();
    let mut file = Chrome::new(&mut text);
    file.begin(&with(Process::default(), |it| {
        it.pid = 42;
    }))
    .unwrap();
    let range = |start| Item::Range(Range { thread: 7, start, end: start + 5, name: "step", ..Range::default() });
    (0..9).for_each(|at| file.item(&range(10 * at)).unwrap());
    file.end(&Summary::default(), 0).unwrap();
    drop(file);
    let text = String::from_utf8(text).unwrap();
    let last = text.rfind("\"X\"").unwrap();
    std::fs::write(&path, &text[..last + 9]).unwrap();
    assert_eq!(imported(&path, &Identity::default()).unwrap().0.ranges, 8);
    std::fs::write(&path, text.replacen("\"X\"", "X", 1)).unwrap();
    let said = imported(&path, &Identity::default()).unwrap_err().to_string();
    assert!(said.starts_with("cannot be read: line 5 is no event of a trace: "), "{said}");
    std::fs::write(&path, "[\n{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"name\":\"of others\",\"ts\":1,\"dur\":2}\n]\n")
        .unwrap();
    assert!(matches!(imported(&path, &Identity::default()), Err(ImportError::NoTimeline)));
    std::fs::remove_file(&path).unwrap();
}

/// A timeline that is cut anywhere is read up to its last whole block, and says where it was cut.
#[cfg(feature = "perfetto")]
#[test]
fn a_timeline_that_is_cut_at_any_byte_is_read_up_to_its_last_block() {
    use crate::Perfetto;
    use range_model::timeline::Range;

    /// A pipe, in which each flush ends a block.
    struct Pipe(Arc<Mutex<Vec<u8>>>);
    impl io::Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl io::Seek for Pipe {
        fn seek(&mut self, _: io::SeekFrom) -> io::Result<u64> {
            Err(io::ErrorKind::NotSeekable.into())
        }
    }

    let text = Arc::<Mutex<Vec<u8>>>::default();
    let mut file = Perfetto::new(Pipe(text.clone()));
    file.begin(&with(Process::default(), |it| {
        it.pid = 42;
    }))
    .unwrap();
    file.item(&Item::Thread { thread: 7, name: "main" }).unwrap();
    // The range around all others ends in the last block: it began before the clocks of that block.
    let mut ends = Vec::new();
    for block in 0..3 {
        for step in 0..4 {
            let start = 1_000 + block * 1_000 + step * 100;
            let range =
                Range { thread: 7, start, end: start + 5, name: "step", depth: 1, call: start, ..Range::default() };
            file.item(&Item::Range(range)).unwrap();
        }
        if block == 2 {
            let around = Range { thread: 7, start: 1_000, end: 9_000, name: "around", ..Range::default() };
            file.item(&Item::Range(around)).unwrap();
        }
        file.flush().unwrap();
        ends.push((text.lock().unwrap().len(), 4 * (block + 1) + u64::from(block == 2)));
    }
    let summary = with(Summary::default(), |it| {
        it.elapsed_ns = 77;
    });
    file.end(&summary, 0).unwrap();
    let text = text.lock().unwrap().clone();
    let path = std::env::temp_dir().join(format!("tracing-gpu-import-cut-{}.pftrace", std::process::id()));
    for cut in 0..=text.len() {
        std::fs::write(&path, &text[..cut]).unwrap();
        let whole = ends.iter().rev().find(|(end, _)| *end <= cut);
        let is_end = ends.iter().any(|(end, _)| *end == cut) || cut == text.len();
        match (imported(&path, &Identity::default()), whole) {
            (Ok((counts, items)), Some(&(end, ranges))) => {
                assert_eq!((counts.ranges, counts.cut), (ranges, (!is_end).then_some(end as u64)), "{cut}");
                let around = items.iter().any(|item| item.contains("start: 1000, end: 9000"));
                assert_eq!(around, ranges == 13, "{cut}");
            }
            (Err(error), None) => {
                assert!(matches!(error, ImportError::NoTimeline | ImportError::Unreadable(_)), "{cut}: {error}")
            }
            (other, _) => panic!("{cut}: {other:?}"),
        }
        let found = super::summaries(&path).unwrap().pop();
        assert_eq!(found.map(|summary| summary.elapsed_ns), (cut == text.len()).then_some(77), "{cut}");
    }
    std::fs::remove_file(&path).unwrap();
}

/// The page of a timeline has the tables of the run, and of one that is cut, a line that says so.
#[cfg(all(feature = "perfetto", feature = "html"))]
#[test]
fn a_page_of_a_timeline() {
    use crate::Perfetto;
    use range_model::timeline::Range;

    let mut step = range_model::TreeNode::new("deep step");
    (step.calls, step.instances, step.total_ns, step.self_ns) = (1, 1, 5, 5);
    let mut summary = Summary::default();
    (summary.elapsed_ns, summary.tree) = (10, vec![step]);
    let mut text = io::Cursor::new(Vec::new());
    let mut file = Perfetto::new(&mut text);
    file.begin(&with(Process::default(), |it| {
        it.pid = 42;
        it.command = "serve".to_owned();
    }))
    .unwrap();
    let range = Range { thread: 7, start: 1, end: 6, name: "of the timeline", ..Range::default() };
    file.item(&Item::Range(range)).unwrap();
    file.end(&summary, 0).unwrap();
    drop(file);
    let text = text.into_inner();
    let path = std::env::temp_dir().join(format!("tracing-gpu-import-page-{}.pftrace", std::process::id()));
    for (cut, has_tables) in [(text.len(), true), (text.len() - 1, false)] {
        std::fs::write(&path, &text[..cut]).unwrap();
        let page = super::page(&path, &std::env::temp_dir(), range_report::FindingKinds::default()).unwrap();
        let page = String::from_utf8(page.html).unwrap();
        assert!(page.contains("of the timeline"));
        assert_eq!((page.contains("deep step"), page.contains("was cut at byte")), (has_tables, !has_tables));
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn other_files_are_errors() {
    let path = std::env::temp_dir().join(format!("tracing-gpu-import-other-{}", std::process::id()));
    let said = |path: &Path| imported(path, &Identity::default()).unwrap_err().to_string();
    assert_eq!(said(Path::new("/no/such/file")), "cannot be read: No such file or directory (os error 2)");
    std::fs::write(&path, "no database, and longer than a page of one".repeat(100)).unwrap();
    assert_eq!(said(&path), "cannot be read: file is not a database");
    std::fs::remove_file(&path).unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE Other (a INTEGER)").unwrap();
    assert_eq!(said(&path), "has no ranges and no GPU work: no timeline of tracing-gpu or nsys export");
    std::fs::remove_file(&path).unwrap();
}
