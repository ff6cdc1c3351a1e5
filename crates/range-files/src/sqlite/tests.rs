use crate::tests::with;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use rusqlite::Connection;

use super::*;
use range_model::RangeStyle;
use range_model::summary::MemoryKind;
use range_model::timeline::{Api, ApiCall, Call, Ending, Kernel, Mark, Memory, Operation, Range, Value, Work};

#[path = "file/tests.rs"]
mod files;

/// A path of its own, in a folder that is removed afterwards.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tracing-gpu-sqlite-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("run.sqlite")
    }

    fn left(&self) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[allow(clippy::needless_update)] // more is going to be known of a process
fn process() -> Process {
    let (command, host, run_id) = ("program --flag".to_owned(), "node7".to_owned(), "77".to_owned());
    with(Process::default(), |it| {
        it.pid = 4242;
        it.command = command;
        it.host = host;
        it.rank = Some(3);
        it.run_id = run_id;
    })
}

fn range<'a>(name: &'a str, start: u64, end: u64, depth: u32) -> Range<'a> {
    Range { thread: 7, start, end, name, depth, ..Range::default() }
}

/// Rows of a query, cells joined by `|`.
fn rows(path: &Path, query: &str) -> Vec<String> {
    let file = Connection::open(path).unwrap();
    let mut statement = file.prepare(query).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let cells: Vec<String> = (0..columns)
            .map(|at| match row.get_ref(at).unwrap() {
                rusqlite::types::ValueRef::Null => "-".to_owned(),
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                rusqlite::types::ValueRef::Real(number) => number.to_string(),
                rusqlite::types::ValueRef::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
                rusqlite::types::ValueRef::Blob(_) => "blob".to_owned(),
            })
            .collect();
        Ok(cells.join("|"))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

fn written(test: &str, items: &[Item<'_>]) -> Place {
    let place = Place::new(test);
    let mut sink = Sqlite::new(place.file());
    sink.begin(&process()).unwrap();
    for item in items {
        sink.item(item).unwrap();
    }
    sink.end(
        &with(Summary::default(), |it| {
            it.elapsed_ns = 1000;
        }),
        3,
    )
    .unwrap();
    assert_eq!(place.left(), ["run.sqlite"]);
    place
}

#[test]
fn ranges_and_marks_have_what_nvtx_gives_them() {
    let payload = [Value::Unsigned(u64::MAX), Value::Bool(true), Value::Text("a \"b\"\n")];
    let fields = [("n", Value::Integer(-1)), ("x", Value::Float(0.5))];
    let of = |domain| Range { domain: Some(domain), ..range("r", 10, 20, 0) };
    let items = [
        Item::Thread { thread: 7, name: "main" },
        Item::Range(range("bare", 1, 9, 0)),
        Item::Range(Range { category: Some("io"), color: Some(0xff00_00ff), ..of("app") }),
        Item::Range(Range { category: Some("7"), payload: Some(payload[0]), start: 21, end: 31, ..of("net") }),
        Item::Range(Range { payload: Some(payload[1]), ..range("flag", 33, 34, 0) }),
        Item::Range(Range { payload: Some(payload[2]), fields: &fields, ..range("text", 40, 41, 0) }),
        Item::Range(Range {
            style: RangeStyle::StartEnd,
            end_thread: Some(8),
            category: Some("io"),
            ..range("life", 2, 50, 0)
        }),
        Item::Mark(Mark { thread: 7, at: 60, domain: None, text: "disk is full", level: 1, fields: &[] }),
        Item::Mark(Mark { thread: 7, at: 61, domain: None, text: "", level: 1, fields: &fields }),
    ];
    let place = written("events", &items);
    let select = "SELECT start, end, eventType, rangeId, category, color, coalesce(text, value), globalTid & 0xffffff,
        endGlobalTid & 0xffffff, domainId, uint64Value, doubleValue, uint32Value, jsonText
        FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId ORDER BY NVTX_EVENTS.rowid";
    let json = r#"{"nvtx.payload":"a \"b\"\n","n":-1,"x":0.5}"#;
    let expected = [
        "1|9|59|-|-|-|bare|7|-|0|-|-|-|-",
        "10|-|75|-|-|-|app|7|-|1|-|-|-|-",
        "10|-|33|-|256|-|io|7|-|1|-|-|-|-",
        "10|20|59|-|256|4278190335|r|7|-|1|-|-|-|-",
        "21|-|75|-|-|-|net|7|-|2|-|-|-|-",
        "21|31|59|-|7|-|r|7|-|2|-1|-|-|-",
        "33|34|59|-|-|-|flag|7|-|0|-|-|1|-",
        &format!("40|41|59|-|-|-|text|7|-|0|-|-|-|{json}"),
        "2|-|33|-|256|-|io|7|-|0|-|-|-|-",
        "2|50|60|1|256|-|life|7|8|0|-|-|-|-",
        "60|-|33|-|1|-|ERROR|7|-|0|-|-|-|-",
        "60|-|34|-|1|-|disk is full|7|-|0|-|-|-|-",
        r#"61|-|34|-|1|-||7|-|0|-|-|-|{"n":-1,"x":0.5}"#,
    ];
    let found = rows(&place.file(), select);
    assert_eq!(found, expected);
    assert_eq!(rows(&place.file(), "SELECT value FROM ThreadNames JOIN StringIds ON id = nameId"), ["main"]);
    let capture = rows(&place.file(), "SELECT * FROM META_DATA_CAPTURE WHERE name LIKE 'TRACING_GPU:%'");
    let expected = [
        "COMMAND|program --flag",
        "COMPLETE|true",
        "HOST|node7",
        "RANK|3",
        "RUN_ID|77",
        "LOST_ITEMS|3",
        "API_CALLS_WITHOUT_DURATION|0",
    ];
    assert_eq!(capture, expected.map(|row| format!("TRACING_GPU:{row}")));
    assert_eq!(rows(&place.file(), "SELECT * FROM PROCESSES"), ["281546145660928|4242|program --flag"]);
    let details = "SELECT globalVid, duration, startTime, stopTime FROM ANALYSIS_DETAILS";
    assert_eq!(rows(&place.file(), details), ["281474976710656|1000|0|1000"]);
}

#[test]
fn numbers_of_calls_are_beside_what_nsight_knows() {
    let fields = [("id", Value::Unsigned(7))];
    let call = Call { call: 3, span: 3, parent: 1, thread: 8, start: 2, end: 5, name: "wait", ..Call::default() };
    let place = written(
        "numbers",
        &[
            Item::Range(range("none", 1, 2, 0)),
            Item::Range(Range { span: 3, call: 3, ..range("wait", 2, 3, 0) }),
            Item::Range(Range { span: 3, call: 9, parent: 1, ..range("wait", 4, 5, 0) }),
            Item::Call(Call { fields: &fields, ..call.clone() }),
            Item::Call(Call { domain: Some("app"), ending: Ending::Cancelled, call: 9, parent: 0, ..call }),
            Item::Operation(Operation { call: 9, ..operation(5, Work::Kernel(Kernel::default()), None) }),
        ],
    );
    let found = |query: &str| rows(&place.file(), query);
    let select = "SELECT spanId, callId, parentId FROM NVTX_EVENTS WHERE textId NOT NULL";
    assert_eq!(found(select), ["-|-|-", "3|3|-", "3|9|1"]);
    let select = "SELECT callId, spanId, parentId, start, end, value, domainId, globalTid & 0xffffff, ending, jsonText
        FROM TRACING_GPU_CALLS JOIN StringIds ON id = textId";
    assert_eq!(found(select), [r#"3|3|1|2|5|wait|0|8|closed|{"id":7}"#, "9|3|-|2|5|wait|1|8|cancelled|-"]);
    assert_eq!(found("SELECT callId FROM CUPTI_ACTIVITY_KIND_KERNEL"), ["9"]);
}

#[test]
fn a_number_of_a_thread_that_is_given_again_has_its_last_name() {
    let names = ["first", "first", "second"].map(|name| Item::Thread { thread: 7, name });
    let place = written("renamed", &names);
    let select = "SELECT globalTid & 0xffffff, value FROM ThreadNames JOIN StringIds ON id = nameId";
    assert_eq!(rows(&place.file(), select), ["7|second"]);
}

fn operation(correlation: u32, work: Work, launch: Option<(u32, u64)>) -> Operation<'static> {
    let (context, stream, kernel, symbol) = (1, 7, "void m::add<float>(T1 *)", "_Z3add");
    let (start, end) = (100, 200);
    Operation { start, end, context, stream, correlation, work, kernel, symbol, launch, ..Operation::default() }
}

fn call(api: Api, name: &str, correlation: u32) -> ApiCall<'_> {
    ApiCall { api, name, thread: 7, start: 90, end: 95, correlation, result: 0 }
}

const CALLS: &str = "SELECT correlationId, value, start, end, eventClass FROM CUPTI_ACTIVITY_KIND_RUNTIME
    JOIN StringIds ON id = nameId ORDER BY correlationId";

const MADE_UP: &str = "SELECT value FROM META_DATA_CAPTURE WHERE name = 'TRACING_GPU:API_CALLS_WITHOUT_DURATION'";

#[test]
fn every_launch_has_one_call_the_first_that_was_recorded() {
    let kernel = Work::Kernel(Kernel::default());
    let launched = Item::Operation(operation(5, kernel, Some((7, 92))));
    let driver = Item::ApiCall(call(Api::Driver, "cuLaunchKernel", 5));
    let runtime = Item::ApiCall(call(Api::Runtime, "cudaLaunchKernel_v7000", 5));
    let items = [&launched, &driver, &runtime];
    // Every selection and order, with a flush at any place between them.
    for code in 0..4_usize.pow(3) * 4 {
        let (mut left, mut given, mut flushes) = (code / 4, Vec::<&Item<'_>>::new(), code % 4);
        for _ in 0..3 {
            given.extend(items.get(left % 4).copied());
            left /= 4;
        }
        let place = Place::new("calls");
        let mut sink = Sqlite::new(place.file());
        sink.begin(&process()).unwrap();
        for item in &given {
            sink.item(item).unwrap();
            if flushes & 1 == 1 {
                sink.flush().unwrap();
            }
            flushes >>= 1;
        }
        sink.end(&Summary::default(), 0).unwrap();
        let first = given.iter().find(|item| matches!(item, Item::ApiCall(_)));
        let made_up = first.is_none() && given.contains(&&launched);
        let expected = match first {
            Some(first) if *first == &runtime => vec!["5|cudaLaunchKernel_v7000|90|95|0"],
            Some(_) => vec!["5|cuLaunchKernel|90|95|1"],
            None if made_up => vec!["5|cuLaunchKernel|92|92|1"],
            None => vec![],
        };
        assert_eq!(rows(&place.file(), CALLS), expected, "{given:?}");
        assert_eq!(rows(&place.file(), MADE_UP), [u8::from(made_up).to_string()], "{given:?}");
    }
}

#[test]
fn work_is_in_the_table_of_its_kind() {
    let copy = Memory { kind: MemoryKind::HtoD, bytes: 64, source: 2, destination: 3, value: 0 };
    let set = Memory { kind: MemoryKind::Set, destination: 0, value: 255, ..copy };
    let kernel =
        Kernel { grid: [2, 3, 4], block: [5, 6, 7], registers: 8, static_shared: 9, dynamic_shared: 10, name: 0 };
    let items = [
        Item::Device { device: 0, name: "NVIDIA H200" },
        Item::Device { device: 0, name: "NVIDIA H200" },
        Item::Operation(operation(1, Work::Memory(copy), Some((7, 50)))),
        Item::Operation(operation(2, Work::Memory(set), Some((8, 51)))),
        Item::Operation(Operation { graph_node: 9, ..operation(3, Work::Kernel(kernel), Some((7, 52))) }),
        Item::Operation(Operation { symbol: "", kernel: "", ..operation(0, Work::Kernel(kernel), Some((7, 53))) }),
        Item::Operation(operation(4, Work::Kernel(kernel), None)),
    ];
    let place = written("work", &items);
    let found = |query: &str| rows(&place.file(), query);
    let expected = ["1|cuMemcpyHtoDAsync_v2|50|50|1", "2|cuMemsetD8Async|51|51|1", "3|cuGraphLaunch|52|52|1"];
    assert_eq!(found(CALLS), expected);
    assert_eq!(found("SELECT id, name FROM TARGET_INFO_GPU"), ["0|NVIDIA H200"]);
    let table = "SELECT correlationId, bytes, copyKind, srcKind, dstKind FROM CUPTI_ACTIVITY_KIND_MEMCPY";
    assert_eq!(found(table), ["1|64|1|1|2"]);
    assert_eq!(found("SELECT correlationId, bytes, value, memKind FROM CUPTI_ACTIVITY_KIND_MEMSET"), ["2|64|255|7"]);
    let table = "SELECT correlationId, graphNodeId, d.value, s.value, m.value, gridX, blockZ, registersPerThread,
        staticSharedMemory, dynamicSharedMemory, gridId FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds AS d ON d.id = demangledName
        JOIN StringIds AS s ON s.id = shortName JOIN StringIds AS m ON m.id = mangledName";
    let name = "void m::add<float>(T1 *)|add|_Z3add";
    let expected = [
        format!("3|9|{name}|2|7|8|9|10|-"),
        "-|-|(unnamed kernel)|(unnamed kernel)|(unnamed kernel)|2|7|8|9|10|-".to_owned(),
        format!("4|-|{name}|2|7|8|9|10|-"),
    ];
    assert_eq!(found(table), expected);
    assert_eq!(found("SELECT gpuId, cudaId, pid FROM TARGET_INFO_CUDA_DEVICE"), ["0|0|4242"]);
    assert_eq!(found(MADE_UP), ["3"]);
}

/// The numbers of `ENUM_CUDA_MEMCPY_OPER` in `schema.rs`.
#[test]
fn kinds_of_copies_have_the_numbers_of_nsight_systems() {
    use MemoryKind::*;
    let kinds = [Unknown, HtoD, DtoH, HtoA, AtoH, AtoA, AtoD, DtoA, DtoD, HtoH, PtoP];
    assert_eq!(kinds.map(names::copy), std::array::from_fn(|number| Some(number as i64)));
    assert_eq!(names::copy(Set), None);
}

#[test]
fn names_of_kernels_without_their_types() {
    for (name, base) in [
        ("gemm", "gemm"),
        ("gemm(float *, int)", "gemm"),
        ("void vec_add<float>(T1 *, const T1 *, int)", "vec_add"),
        ("void at::native::elementwise_kernel<4, at::native::Add<float, (int)3>>(int, T2)", "elementwise_kernel"),
        ("void (anonymous namespace)::reduce<std::vector<int>>(T1)", "reduce"),
        ("ns::(anonymous namespace)::scan(int)", "scan"),
        ("functor::operator()(int) const", "operator()"),
        ("my_crate::kernels::fill", "fill"),
        ("<my_crate::Fill as kernels::Kernel>::run", "run"),
        ("größe::日本(int)", "日本"),
        ("", ""),
        ("()", "()"),
        ("<>", "<>"),
        ("a::", "a::"),
        (">>)(", ">>)"),
    ] {
        assert_eq!(names::base(name), base, "{name}");
    }
}

/// A tree of ranges on a clock that hardly moves, in the order of their ends.
fn walk(
    code: &mut impl Iterator<Item = u8>,
    now: &mut u64,
    depth: u32,
    ranges: &mut Vec<(u64, u64, u32, Vec<usize>)>,
) -> usize {
    let start = *now;
    let mut below = Vec::new();
    for _ in 0..code.next().unwrap_or(0) % 4 {
        if depth < 5 {
            below.push(walk(code, now, depth + 1, ranges));
        }
    }
    *now += u64::from(code.next().unwrap_or(0).is_multiple_of(3)) * 1000;
    ranges.push((start, *now, depth, below));
    ranges.len() - 1
}

proptest! {
    #[test]
    fn ranges_find_their_parents_where_the_clock_stands_still(code in prop::collection::vec(any::<u8>(), 0..200)) {
        let (mut now, mut ranges) = (0, Vec::new());
        let mut code = code.into_iter().peekable();
        while code.peek().is_some() {
            walk(&mut code, &mut now, 0, &mut ranges);
        }
        let mut stamps = stamps::Stamps::default();
        let found = ranges.iter().map(|&(start, end, depth, _)| stamps.of(start, end, depth));
        let found: Vec<(u64, u64)> = found.collect();
        // The parent of each, by the rule of the reports.
        for (at, (start, end)) in found.iter().enumerate() {
            prop_assert!(start <= end && start - ranges[at].0 < 500 && end - ranges[at].1 < 500);
            let holds = |&other: &usize| other != at && found[other].0 <= *start && found[other].1 >= *end;
            let around = (0..found.len()).filter(holds).min_by_key(|&other| found[other].1 - found[other].0);
            let parent = (0..found.len()).find(|&other| ranges[other].3.contains(&at));
            prop_assert_eq!(around, parent, "{:?}\n{:?}", ranges, found);
        }
    }
}

#[test]
fn stamps_of_a_clock_that_moves_are_kept() {
    let mut stamps = stamps::Stamps::default();
    for (start, end, depth) in
        [(10, 20, 1), (30, 40, 2), (25, 50, 1), (5, 60, 0), (70, 80, 1), (65, 90, 0), (3, 7, 0), (95, 99, 0)]
    {
        assert_eq!(stamps.of(start, end, depth), (start, end));
    }
    assert_eq!(stamps.of(99, 99, 0), (100, 100));
    assert_eq!(stamps.of_lifetime(100, 100), (100, 101));
    assert_eq!(stamps.of_lifetime(95, 99), (95, 99));
}

#[test]
fn ranges_have_their_domain_and_category_however_many_alternate() {
    let names: Vec<String> = (0..5).map(|name| format!("name {name}")).collect();
    let name = |number: usize| names.get(number).map(String::as_str);
    // Few and many in turn, so that what is known is forgotten and found again; the sixth of each is none.
    let order: Vec<usize> = (0..2_000).map(|at: usize| if at % 100 < 50 { at % 4 } else { at * 7 % 36 }).collect();
    let items: Vec<Item<'_>> = order
        .iter()
        .zip((0..).step_by(10))
        .map(|(kind, start)| {
            Item::Range(Range { domain: name(kind % 6), category: name(kind / 6), ..range("r", start, start + 5, 0) })
        })
        .collect();
    let place = written("pairs", &items);
    let select = "SELECT d.text, c.text FROM NVTX_EVENTS AS e LEFT JOIN NVTX_EVENTS AS d ON d.eventType = 75 AND d.domainId = e.domainId
        LEFT JOIN NVTX_EVENTS AS c ON c.eventType = 33 AND c.domainId = e.domainId AND c.category = e.category
        WHERE e.eventType = 59 ORDER BY e.rowid";
    let expected: Vec<String> = order
        .iter()
        .map(|kind| format!("{}|{}", name(kind % 6).unwrap_or("-"), name(kind / 6).unwrap_or("-")))
        .collect();
    assert_eq!(rows(&place.file(), select), expected);
}
