//! Databases in the schema of `nsys export`.
//!
//! Ranges and API calls are read together in the order of time. So the ranges that are open at a launch are known, and
//! with them the span of each operation, which no table has.

use std::path::Path;
use std::rc::Rc;

use rusqlite::{Connection, OpenFlags, Row, Rows};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value as Json;

use super::fields::Names;
use super::outcome::{Identity, ImportError, Imported, NewSink};
use super::tables::Tables;
use range_model::in_domain;
use range_model::summary::{MemoryKind, Process, RangeStyle, Summary};
use range_model::timeline::{Api, ApiCall, Call, Ending, Item, Kernel, Memory, Operation, Range, Sink, Value, Work};

type Result<T, E = ImportError> = std::result::Result<T, E>;

/// Tables with a thread or a process in each row.
const OF_THREADS: [&str; 3] = ["NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", "TRACING_GPU_CALLS"];
const OF_PROCESSES: [&str; 4] = [
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
];

/// `ENUM_NSYS_EVENT_TYPE`: ranges, with texts of their own or registered ones.
const RANGES: &str = "eventType IN (59, 60, 70, 71)";
const START_END: [i64; 2] = [60, 71];
const CATEGORY: i64 = 33;
const DOMAIN: i64 = 75;

/// Items between two flushes of a sink.
const BATCH: u64 = 1 << 20;

/// Passes all ranges, calls, operations and API calls in a database to sinks: one for each process in it.
pub(super) fn database(path: &Path, identity: &Identity, new: NewSink<'_>) -> Result<Imported> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    let tables = Tables::of(&connection)?;
    if !OF_THREADS.into_iter().chain(OF_PROCESSES).any(|table| tables.has(table)) {
        return Err(ImportError::NoTimeline);
    }
    let database = Database { strings: strings(&connection, &tables)?, connection, tables };
    let mut imported = Imported::default();
    let mut names = Names::default();
    for pid in database.processes()? {
        let process = database.process(pid, identity)?;
        let mut sink = new(&process);
        sink.begin(&process)?;
        let mut import = Import {
            database: &database,
            pid: i64::from(pid),
            sink: &mut *sink,
            imported: &mut imported,
            names: &mut names,
            launches: FxHashMap::default(),
        };
        import.threads()?;
        import.ranges_and_calls()?;
        import.calls_of_spans()?;
        import.operations()?;
        imported.processes += 1;
        let mut summary = Summary::default();
        summary.process = process;
        sink.end(&summary, 0)?;
    }
    Ok(imported)
}

/// When the first range, API call or operation of any process begins; 0 if there is none.
pub(super) fn origin(path: &Path) -> Result<u64> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    let tables = Tables::of(&connection)?;
    let mut first = None;
    for table in OF_THREADS.into_iter().chain(OF_PROCESSES) {
        let only = if table == OF_THREADS[0] { format!("WHERE {RANGES}") } else { String::new() };
        let starts = tables.select(table, &["start"], &only);
        let first_start = format!("WITH starts(at) AS ({starts}) SELECT MIN(at) FROM starts");
        let start: Option<i64> = connection.query_row(&first_start, [], |row| row.get(0))?;
        first = first.into_iter().chain(start).min();
    }
    Ok(first.unwrap_or(0).max(0) as u64)
}

struct Database {
    connection: Connection,
    tables: Tables,
    strings: FxHashMap<i64, Rc<str>>,
}

fn strings(connection: &Connection, tables: &Tables) -> Result<FxHashMap<i64, Rc<str>>> {
    let mut statement = connection.prepare(&tables.select("StringIds", &["id", "value"], ""))?;
    let mut rows = statement.query([])?;
    let mut strings = FxHashMap::default();
    while let Some(row) = rows.next()? {
        let text = row.get_ref(1)?.as_bytes().map(String::from_utf8_lossy).unwrap_or_default();
        strings.insert(number(row, 0)?, text.into());
    }
    Ok(strings)
}

impl Database {
    fn string(&self, id: Option<i64>) -> Option<&str> {
        self.strings.get(&id?).map(|text| &**text)
    }

    /// The processes that any row is of.
    fn processes(&self) -> Result<Vec<u32>> {
        let of_threads = OF_THREADS.map(|table| (table, "globalTid"));
        let mut found = FxHashSet::default();
        for (table, column) in of_threads.into_iter().chain(OF_PROCESSES.map(|table| (table, "globalPid"))) {
            let only = match table {
                "NVTX_EVENTS" => format!("WHERE {RANGES}"),
                _ => String::new(),
            };
            let rows = self.tables.select(table, &[column], &only);
            let mut statement = self.connection.prepare(&format!("SELECT DISTINCT * FROM ({rows})"))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                found.extend(row.get::<_, Option<i64>>(0)?.map(|global| (global >> 24 & 0xFF_FFFF) as u32));
            }
        }
        let mut all: Vec<u32> = found.into_iter().collect();
        all.sort_unstable();
        Ok(all)
    }

    /// What the file tells of a process.
    fn process(&self, pid: u32, identity: &Identity) -> Result<Process> {
        let mut process = Process::default();
        process.pid = pid;
        let (mut variables, mut job) = (FxHashMap::default(), None);
        let mut statement =
            self.connection.prepare(&self.tables.select("META_DATA_CAPTURE", &["name", "value"], ""))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (name, value): (String, String) = (row.get(0)?, row.get::<_, Option<String>>(1)?.unwrap_or_default());
            // Where a database has several processes, their numbers are in the names.
            match name.strip_suffix(&format!(":{pid}")).unwrap_or(&name) {
                "TRACING_GPU:COMMAND" => process.command = value,
                "TRACING_GPU:HOST" => process.host = value,
                "TRACING_GPU:RANK" => process.rank = value.parse().ok(),
                "TRACING_GPU:RUN_ID" => process.run_id = value,
                "TRACING_GPU:STARTED_UNIX_NS" => process.started_unix_ns = value.parse().unwrap_or(0),
                name if name.ends_with(":ENVIRONMENT_VARIABLE") => {
                    if let Some((name, value)) = value.split_once('=') {
                        variables.insert(name.to_owned(), value.trim_matches('"').to_owned());
                    }
                }
                _ => {}
            }
        }
        // Nsight Systems keeps the environment and the start of its session.
        for name in ["OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "RANK"] {
            process.rank = process.rank.or_else(|| variables.get(name)?.parse().ok());
        }
        for name in ["TRACING_GPU_RUN_ID", "SLURM_JOB_ID"] {
            job = job.or_else(|| variables.get(name).cloned());
        }
        let first = |table: &str, column: &str, rest: &str| -> Result<Option<String>> {
            let mut statement = self.connection.prepare(&self.tables.select(table, &[column], rest))?;
            let mut rows = statement.query([])?;
            let Some(row) = rows.next()? else { return Ok(None) };
            let text = row.get_ref(0)?.as_str().ok().map(str::to_owned);
            Ok(text.or_else(|| row.get::<_, i64>(0).ok().map(|number| number.to_string())))
        };
        if process.host.is_empty() {
            process.host = first("TARGET_INFO_SYSTEM_ENV", "value", "WHERE name = 'Hostname'")?.unwrap_or_default();
        }
        if process.started_unix_ns == 0 {
            let start = first("TARGET_INFO_SESSION_START_TIME", "utcEpochNs", "")?;
            process.started_unix_ns = start.and_then(|ns| ns.parse().ok()).unwrap_or(0);
        }
        if process.run_id.is_empty() {
            let own = || format!("{}-{pid}", process.started_unix_ns / 1_000_000_000);
            process.run_id = job.unwrap_or_else(own);
        }
        process.rank = identity.rank.or(process.rank);
        process.host = identity.host.clone().unwrap_or(process.host);
        process.run_id = identity.run_id.clone().unwrap_or(process.run_id);
        Ok(process)
    }
}

/// The import of one process.
struct Import<'a> {
    database: &'a Database,
    pid: i64,
    sink: &'a mut dyn Sink,
    imported: &'a mut Imported,
    names: &'a mut Names,
    /// Thread, time and path of the API call with this correlation.
    launches: FxHashMap<i64, (u32, u64, Rc<[String]>)>,
}

/// Open ranges of a thread: their ends, labels and names.
#[derive(Default)]
struct OpenRanges {
    ends: Vec<u64>,
    path: Vec<String>,
    /// The path as launches keep it; `None` since it changed.
    kept: Option<Rc<[String]>>,
}

impl OpenRanges {
    /// Forgets the ranges that have ended, also those below one that is open: ranges of different domains overlap.
    fn advance(&mut self, now: u64) {
        if self.ends.iter().all(|end| *end > now) {
            return;
        }
        let mut ends = self.ends.iter();
        self.path.retain(|_| ends.next().is_some_and(|end| *end > now));
        self.ends.retain(|end| *end > now);
        self.kept = None;
    }

    fn push(&mut self, end: u64, label: String) {
        self.ends.push(end);
        self.path.push(label);
        self.kept = None;
    }

    fn path(&mut self) -> Rc<[String]> {
        self.kept.get_or_insert_with(|| self.path.as_slice().into()).clone()
    }
}

impl Import<'_> {
    fn give(&mut self, item: &Item<'_>) -> Result<()> {
        let count = match item {
            Item::Range(_) => &mut self.imported.ranges,
            Item::Call(_) => &mut self.imported.calls,
            Item::Operation(_) => &mut self.imported.operations,
            Item::ApiCall(_) => &mut self.imported.api_calls,
            _ => return Ok(self.sink.item(item)?),
        };
        *count += 1;
        if *count % BATCH == 0 {
            self.sink.flush()?;
        }
        Ok(self.sink.item(item)?)
    }

    /// The condition that a row is of the process, by its thread or process.
    fn own(&self, column: &str) -> String {
        format!("{column} >> 24 & 0xFFFFFF = {}", self.pid)
    }

    fn threads(&mut self) -> Result<()> {
        let database = self.database;
        let of_names = format!("WHERE {}", self.own("globalTid"));
        let mut statement =
            database.connection.prepare(&database.tables.select("ThreadNames", &["nameId", "globalTid"], &of_names))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let thread = thread(number(row, 1)?);
            let name = database.string(row.get(0)?).unwrap_or_default();
            self.sink.item(&Item::Thread { thread, name })?;
        }
        Ok(())
    }

    /// Names of domains and categories.
    fn named(&self) -> Result<FxHashMap<(i64, i64, i64), String>> {
        let database = self.database;
        let only = format!("WHERE eventType IN ({CATEGORY}, {DOMAIN}) AND {}", self.own("globalTid"));
        let columns = ["eventType", "domainId", "category", "text", "textId"];
        let mut statement = database.connection.prepare(&database.tables.select("NVTX_EVENTS", &columns, &only))?;
        let mut rows = statement.query([])?;
        let mut named = FxHashMap::default();
        while let Some(row) = rows.next()? {
            let kind = number(row, 0)?;
            let category = if kind == DOMAIN { 0 } else { number(row, 2)? };
            let name = text(row, 3)?;
            let name = name.or_else(|| database.string(row.get(4).ok()?).map(str::to_owned));
            named.insert((kind, number(row, 1)?, category), name.unwrap_or_default());
        }
        Ok(named)
    }

    fn ranges_and_calls(&mut self) -> Result<()> {
        let database = self.database;
        let named = self.named()?;
        // A range without an end lasts as long as anything.
        let mut latest = 0;
        for table in OF_THREADS.into_iter().chain(OF_PROCESSES) {
            let all = database.tables.select(table, &["start", "end"], "");
            let last = format!(
                "WITH items(began, ended) AS ({all}) SELECT MAX(COALESCE(MAX(began), 0), COALESCE(MAX(ended), 0)) FROM items"
            );
            latest = latest.max(database.connection.query_row(&last, [], |row| row.get::<_, i64>(0))?);
        }
        let columns = [
            "start",
            "end",
            "eventType",
            "globalTid",
            "endGlobalTid",
            "domainId",
            "textId",
            "text",
            "category",
            "color",
            "uint64Value",
            "int64Value",
            "doubleValue",
            "uint32Value",
            "int32Value",
            "floatValue",
            "jsonText",
            "spanId",
            "callId",
            "parentId",
        ];
        let only = format!("WHERE {RANGES} AND {} ORDER BY \"start\", \"end\" DESC NULLS FIRST", self.own("globalTid"));
        let mut ranges = database.connection.prepare(&database.tables.select("NVTX_EVENTS", &columns, &only))?;
        let columns = ["start", "end", "globalTid", "correlationId", "nameId", "returnValue", "eventClass"];
        let only = format!("WHERE {} ORDER BY \"start\"", self.own("globalTid"));
        let mut calls =
            database.connection.prepare(&database.tables.select("CUPTI_ACTIVITY_KIND_RUNTIME", &columns, &only))?;
        let (mut ranges, mut calls) = (ranges.query([])?, calls.query([])?);
        let mut threads: FxHashMap<u32, OpenRanges> = FxHashMap::default();
        let mut next_call = next_api_call(&mut calls)?;
        while let Some(row) = ranges.next()? {
            let start = time(row, 0)?;
            while let Some(call) = next_call.take_if(|call| call.start < start) {
                self.api_call(&call, &mut threads)?;
                next_call = next_api_call(&mut calls)?;
            }
            self.range(row, latest, &named, &mut threads)?;
        }
        while let Some(call) = next_call {
            self.api_call(&call, &mut threads)?;
            next_call = next_api_call(&mut calls)?;
        }
        Ok(())
    }

    fn range(
        &mut self,
        row: &Row<'_>,
        latest: i64,
        named: &FxHashMap<(i64, i64, i64), String>,
        threads: &mut FxHashMap<u32, OpenRanges>,
    ) -> Result<()> {
        let database = self.database;
        let end: Option<i64> = row.get(1)?;
        let (start, cut, end) = (time(row, 0)?, end.is_none(), end.unwrap_or(latest).max(0) as u64);
        let kind = number(row, 2)?;
        let thread = thread(number(row, 3)?);
        let end_thread = row.get::<_, Option<i64>>(4)?.map(self::thread).filter(|end| *end != thread);
        let domain_id = number(row, 5)?;
        let domain = named.get(&(DOMAIN, domain_id, 0)).map(String::as_str);
        let own = text(row, 7)?;
        let name = own.as_deref().or_else(|| database.string(row.get(6).ok()?)).unwrap_or_default();
        let category: Option<i64> = row.get(8)?;
        let digits = category.map(|category| category.to_string());
        let category = category.and_then(|category| named.get(&(CATEGORY, domain_id, category)));
        let category = category.map(String::as_str).or(digits.as_deref());
        let json = row.get_ref(16)?.as_str().ok().map(serde_json::from_str::<Json>);
        let json = json.map_or(Json::Null, |json| json.unwrap_or(Json::Bool(false)));
        let (words, fields) = self.names.read(&json, &mut self.imported.lost_fields);
        let style = if START_END.contains(&kind) { RangeStyle::StartEnd } else { RangeStyle::PushPop };
        let depth = match style {
            RangeStyle::PushPop => {
                let open = threads.entry(thread).or_default();
                open.advance(start);
                open.push(end, in_domain(domain, name));
                open.ends.len() as u32 - 1
            }
            _ => 0,
        };
        let [span, call, parent] = [number(row, 17)?, number(row, 18)?, number(row, 19)?].map(|id| id as u64);
        self.give(&Item::Range(Range {
            thread,
            start,
            end,
            style,
            domain,
            name,
            depth,
            category,
            color: row.get::<_, Option<i64>>(9)?.map(|color| color as u32),
            payload: payload(row)?.or(words),
            fields: &fields,
            end_thread,
            cut,
            on_cpu_ns: 0,
            off_cpu_ns: 0,
            span,
            call,
            parent,
        }))
    }

    fn api_call(&mut self, call: &CallRow, threads: &mut FxHashMap<u32, OpenRanges>) -> Result<()> {
        let CallRow { start, end, thread, correlation, name, result, api } = *call;
        if correlation != 0 {
            let open = threads.entry(thread).or_default();
            open.advance(start);
            self.launches.insert(correlation, (thread, start, open.path()));
        }
        let (name, correlation) = (self.database.string(name).unwrap_or_default(), correlation as u32);
        self.give(&Item::ApiCall(ApiCall { api, name, thread, start, end, correlation, result }))
    }

    fn calls_of_spans(&mut self) -> Result<()> {
        let database = self.database;
        let named = self.named()?;
        let columns =
            ["callId", "spanId", "parentId", "start", "end", "textId", "domainId", "globalTid", "ending", "jsonText"];
        let only = format!("WHERE {}", self.own("globalTid"));
        let mut statement =
            database.connection.prepare(&database.tables.select("TRACING_GPU_CALLS", &columns, &only))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let json = row.get_ref(9)?.as_str().ok().map(serde_json::from_str::<Json>);
            let json = json.map_or(Json::Null, |json| json.unwrap_or(Json::Bool(false)));
            let (_, fields) = self.names.read(&json, &mut self.imported.lost_fields);
            let ending: String = row.get(8)?;
            self.give(&Item::Call(Call {
                call: number(row, 0)? as u64,
                span: number(row, 1)? as u64,
                parent: number(row, 2)? as u64,
                thread: thread(number(row, 7)?),
                start: time(row, 3)?,
                end: time(row, 4)?,
                domain: named.get(&(DOMAIN, number(row, 6)?, 0)).map(String::as_str),
                name: database.string(row.get(5)?).unwrap_or_default(),
                fields: &fields,
                ending: match ending.as_str() {
                    "cancelled" => Ending::Cancelled,
                    "cut" => Ending::Cut,
                    _ => Ending::Closed,
                },
            }))?;
        }
        Ok(())
    }

    fn operations(&mut self) -> Result<()> {
        let common = ["start", "end", "deviceId", "contextId", "streamId", "correlationId", "graphNodeId", "callId"];
        let kernels = [
            "demangledName",
            "mangledName",
            "registersPerThread",
            "gridX",
            "gridY",
            "gridZ",
            "blockX",
            "blockY",
            "blockZ",
            "staticSharedMemory",
            "dynamicSharedMemory",
        ];
        let copies = ["bytes", "copyKind", "srcKind", "dstKind"];
        let sets = ["bytes", "value", "memKind"];
        for (table, own) in OF_PROCESSES.into_iter().zip([&kernels[..], &copies, &sets, &["graphExecId"]]) {
            let database = self.database;
            let columns = [&common[..], own].concat();
            let only = format!("WHERE {} ORDER BY \"start\"", self.own("globalPid"));
            let mut statement = database.connection.prepare(&database.tables.select(table, &columns, &only))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                self.operation(row, table)?;
            }
        }
        Ok(())
    }

    fn operation(&mut self, row: &Row<'_>, table: &str) -> Result<()> {
        let database = self.database;
        let own = |index: usize| number(row, 8 + index);
        let [kernels, copies, sets, _] = OF_PROCESSES;
        let (mut kernel, mut symbol) = ("", "");
        let work = if table == kernels {
            kernel = database.string(Some(own(0)?)).unwrap_or_default();
            symbol = database.string(row.get(9)?).unwrap_or_default();
            let size = |index: usize| own(index).map(|size| i32::try_from(size).unwrap_or(i32::MAX));
            Work::Kernel(Kernel {
                name: 0,
                registers: u16::try_from(own(2)?).unwrap_or(u16::MAX),
                grid: [size(3)?, size(4)?, size(5)?],
                block: [size(6)?, size(7)?, size(8)?],
                static_shared: size(9)?,
                dynamic_shared: size(10)?,
            })
        } else if table == copies {
            let (kind, [source, destination]) = (copy_kind(own(1)?), [memory(own(2)?), memory(own(3)?)]);
            Work::Memory(Memory { kind, bytes: own(0)? as u64, source, destination, value: 0 })
        } else if table == sets {
            let (value, destination) = (own(1)? as u32, memory(own(2)?));
            Work::Memory(Memory { kind: MemoryKind::Set, bytes: own(0)? as u64, source: 0, destination, value })
        } else {
            Work::Graph(own(0)? as u32)
        };
        let correlation = number(row, 5)?;
        let launch = self.launches.get(&correlation).cloned();
        let (launch, path) = launch.map_or((None, None), |(thread, at, path)| (Some((thread, at)), Some(path)));
        let path: &[String] = path.as_deref().unwrap_or_default();
        self.give(&Item::Operation(Operation {
            start: time(row, 0)?,
            end: time(row, 1)?,
            device: number(row, 2)? as u32,
            context: number(row, 3)? as u32,
            stream: number(row, 4)? as u32,
            correlation: correlation as u32,
            graph_node: number(row, 6)? as u64,
            work,
            kernel,
            symbol,
            launch,
            span: path.last().map(String::as_str),
            path,
            captured: &[],
            call: number(row, 7)? as u64,
        }))
    }
}

/// A row of a call of the CUDA API.
struct CallRow {
    start: u64,
    end: u64,
    thread: u32,
    correlation: i64,
    name: Option<i64>,
    result: u32,
    api: Api,
}

fn next_api_call(rows: &mut Rows<'_>) -> Result<Option<CallRow>> {
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(CallRow {
        start: time(row, 0)?,
        end: time(row, 1)?,
        thread: thread(number(row, 2)?),
        correlation: number(row, 3)?,
        name: row.get(4)?,
        result: number(row, 5)? as u32,
        api: if number(row, 6)? == 1 { Api::Driver } else { Api::Runtime },
    }))
}

/// A text. Bytes that are no UTF-8 are replaced.
fn text(row: &Row<'_>, column: usize) -> Result<Option<String>> {
    let text = row.get_ref(column)?.as_bytes_or_null().map_err(rusqlite::Error::from)?;
    Ok(text.map(|text| String::from_utf8_lossy(text).into_owned()))
}

/// A whole number; 0 for none.
fn number(row: &Row<'_>, column: usize) -> Result<i64> {
    Ok(row.get::<_, Option<i64>>(column)?.unwrap_or(0))
}

/// A moment; one before the start is the start.
fn time(row: &Row<'_>, column: usize) -> Result<u64> {
    Ok(number(row, column)?.max(0) as u64)
}

/// The thread of a number with process and thread.
const fn thread(global: i64) -> u32 {
    (global & 0xFF_FFFF) as u32
}

/// The payload of a range.
fn payload(row: &Row<'_>) -> Result<Option<Value<'static>>> {
    let integer = |column: usize| row.get::<_, Option<i64>>(column);
    let float = |column: usize| row.get::<_, Option<f64>>(column);
    Ok((integer(10)?.map(|value| Value::Unsigned(value as u64)))
        .or(integer(11)?.map(Value::Integer))
        .or(float(12)?.map(Value::Float))
        .or(integer(13)?.map(|value| Value::Unsigned(value as u64)))
        .or(integer(14)?.map(Value::Integer))
        .or(float(15)?.map(Value::Float)))
}

/// `ENUM_CUDA_MEMCPY_OPER`.
const fn copy_kind(kind: i64) -> MemoryKind {
    match kind {
        1 | 11 => MemoryKind::HtoD,
        2 | 12 => MemoryKind::DtoH,
        3 => MemoryKind::HtoA,
        4 => MemoryKind::AtoH,
        5 => MemoryKind::AtoA,
        6 => MemoryKind::AtoD,
        7 => MemoryKind::DtoA,
        8 | 13 => MemoryKind::DtoD,
        9 => MemoryKind::HtoH,
        10 => MemoryKind::PtoP,
        _ => MemoryKind::Unknown,
    }
}

/// CUPTI's memory kind of a number in `ENUM_CUDA_MEM_KIND`.
const fn memory(kind: i64) -> u8 {
    match kind {
        0..=6 => kind as u8 + 1,
        _ => 0,
    }
}
