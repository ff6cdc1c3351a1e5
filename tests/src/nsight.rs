//! Runs a program under the real Nsight Systems 2022.4 and reads the recording: NVTX needs no GPU.
//!
//! Debian's package splits Nsight Systems in two without connecting them: `nsys profile` writes raw data and then
//! misses its importer, which is a separate program beside the libraries of `nsys stats`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use tracing_gpu::summary::RangeStyle;

const HOST: &str = "/usr/lib/nsight-systems/host-linux-x64";

/// Only one program is profiled at a time, including the import, because other work changes its durations.
static ALONE: Mutex<()> = Mutex::new(());

/// On a busy machine nsys sometimes fails to connect to its own processes ("sem_open: No such file or directory", "End
/// of file") and records nothing at all. That is no fault of the program, so it is started again.
const ATTEMPTS: usize = 4;

/// Nsight Systems' recording of one process. The destructor removes its folder.
#[derive(Debug)]
pub struct Recording {
    folder: Folder,
}

/// A summary that `nsys stats` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// `nvtxppsum`: push/pop ranges.
    PushPop,
    /// `nvtxsesum`: start/end ranges.
    StartEnd,
    /// `nvtxsum`: both.
    Both,
}

/// A row of such a summary.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The displayed label: `domain:name`, or the bare name.
    pub label: String,
    /// Push/pop or start/end.
    pub style: RangeStyle,
    /// Number of ranges.
    pub instances: u64,
    /// Sum of their durations.
    pub total_ns: u64,
    /// Their median.
    pub median_ns: f64,
}

/// An annotation from the exported database: columns of `NVTX_EVENTS`, with texts and numbers resolved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// `push`, `start` or `mark`.
    pub kind: &'static str,
    /// Name of the domain; `None` for the default one.
    pub domain: Option<String>,
    /// The message.
    pub text: Option<String>,
    /// The number of the category.
    pub category: Option<i64>,
    /// The name given to that number in that domain.
    pub category_name: Option<String>,
    /// `0xAARRGGBB`.
    pub color: Option<i64>,
    /// Every payload column that is not NULL, as `column=value`.
    pub payload: Vec<String>,
    /// The thread's name in `ThreadNames`.
    pub thread: Option<String>,
    /// The kernel's number of the thread.
    pub tid: i64,
}

/// Profiles only the NVTX calls of the command. Also returns its standard output and error.
///
/// # Panics
/// If Nsight Systems is missing, if the command fails, or if nothing can be imported.
pub fn profile(command: &Command) -> (Recording, Output) {
    check_installed();
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for _ in 1..ATTEMPTS {
        if let Ok(recorded) = record(command) {
            return recorded;
        }
    }
    record(command).unwrap_or_else(|said| panic!("nsys recorded nothing of {command:?}:\n{said}"))
}

/// Records the command; returns nsys' output as an error if it recorded nothing.
///
/// # Panics
/// If it did record, but the command failed or the recording cannot be imported.
fn record(command: &Command) -> Result<(Recording, Output), String> {
    let recording = Recording { folder: Folder::new() };
    let mut nsys = Command::new("nsys");
    nsys.args(["profile", "-t", "nvtx", "-s", "none", "--cpuctxsw=none", "--force-overwrite=true", "-o"]);
    nsys.arg(recording.folder.file("run")).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nsys.env(name, value),
            None => nsys.env_remove(name),
        };
    }
    nsys.env("TMPDIR", &recording.folder.0).stdin(Stdio::null());
    let output = nsys.output().expect("nsys can be started");
    if !recording.folder.file("run.qdstrm").is_file() {
        return Err(said(&output));
    }
    // It complains about the missing importer, but its exit status is the program's.
    assert!(output.status.success(), "{command:?} failed: {}\n{}", output.status, said(&output));
    import(&recording.folder);
    Ok((recording, output))
}

/// An example of this workspace, or the command `tracing-gpu`, built for release: examples do real work, and
/// unoptimised NVTX calls are slow enough to change the compared durations.
///
/// # Panics
/// If it cannot be built, or if there is no Nsight Systems to run it under.
pub fn release_example(name: &str) -> PathBuf {
    check_installed();
    static BUILT: OnceLock<Vec<PathBuf>> = OnceLock::new();
    let programs = BUILT.get_or_init(|| {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args(["build", "--release", "--workspace", "--examples", "--bin", "tracing-gpu"])
            .arg("--message-format=json");
        let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo can be started");
        assert!(output.status.success(), "{cargo:?}\n{}", String::from_utf8_lossy(&output.stderr));
        let messages = String::from_utf8_lossy(&output.stdout);
        let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).collect()
    });
    let found = programs.iter().find(|program| program.file_stem().is_some_and(|stem| stem == name));
    found.unwrap_or_else(|| panic!("no example {name} in {programs:?}")).clone()
}

/// # Panics
/// If a program of Nsight Systems is missing.
fn check_installed() {
    let importer = Path::new(HOST).join("QdstrmImporter");
    let runs = Command::new("nsys").arg("--version").stdin(Stdio::null()).output();
    let version = match &runs {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => format!("`nsys --version`: {error}"),
    };
    assert!(
        version.contains("2022.4") && importer.is_file(),
        "these tests need Nsight Systems 2022.4 as Debian 12 packages it ({version}): run `bash tests/install`"
    );
}

fn import(folder: &Folder) {
    let mut importer = Command::new(Path::new(HOST).join("QdstrmImporter"));
    importer.arg("-i").arg(folder.file("run.qdstrm")).arg("-o").arg(folder.file("run.nsys-rep"));
    run(&mut importer);
    let mut export = Command::new("nsys");
    export.args(["export", "--type", "sqlite", "--force-overwrite", "true", "-o"]).arg(folder.file("run.sqlite"));
    run(export.arg(folder.file("run.nsys-rep")));
}

/// Runs `nsys stats` with these arguments on a database.
///
/// # Panics
/// If it cannot be started.
pub fn stats<'a>(arguments: impl IntoIterator<Item = &'a str>, database: &Path) -> Output {
    let mut nsys = Command::new("nsys");
    nsys.arg("stats").args(arguments).arg(database).env("LD_LIBRARY_PATH", HOST).stdin(Stdio::null());
    nsys.output().unwrap_or_else(|error| panic!("{nsys:?}: {error}: run `bash tests/install`"))
}

/// Runs a program of Nsight Systems that needs the libraries beside its importer.
fn run(command: &mut Command) {
    let output = command.env("LD_LIBRARY_PATH", HOST).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, said(&output));
}

/// The whole output of a program.
#[must_use]
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

impl Recording {
    /// The rows that `nsys stats` prints; empty if it reports that there are none.
    ///
    /// # Panics
    /// If `nsys stats` fails or prints something else.
    pub fn table(&self, table: Table) -> Vec<Row> {
        let (report, style) = match table {
            Table::PushPop => ("nvtxppsum", Some(RangeStyle::PushPop)),
            Table::StartEnd => ("nvtxsesum", Some(RangeStyle::StartEnd)),
            Table::Both => ("nvtxsum", None),
        };
        let output = stats(["-q", "--report", report, "--format", "csv"], &self.folder.file("run.sqlite"));
        assert!(output.status.success(), "{report}: {}", said(&output));
        let printed = String::from_utf8(output.stdout).unwrap_or_else(|error| panic!("{report}: {error}"));
        let lines = printed.lines().skip_while(|line| !line.starts_with("Time (%),")).skip(1);
        let rows: Vec<Row> = lines.filter(|line| !line.is_empty()).map(|line| csv_row(line, style)).collect();
        assert!(!rows.is_empty() || printed.contains("no data was returned") || printed.trim().is_empty(), "{printed}");
        rows
    }

    /// Ranges and marks, in order of their start.
    ///
    /// # Panics
    /// If the database does not have the form of Nsight Systems 2022.4.
    pub fn events(&self) -> Vec<Event> {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let database =
            rusqlite::Connection::open_with_flags(self.folder.file("run.sqlite"), flags).expect("a database");
        let mut query = database.prepare(EVENTS).expect("the columns of NVTX_EVENTS");
        let rows = query.query_map([], event).expect("a query without parameters");
        rows.map(|row| row.expect("values of the types that the columns have")).collect()
    }
}

/// Domain rows are 75, category rows 33; the low 24 bits of a thread's number are the kernel's.
const EVENTS: &str = "
    WITH named AS MATERIALIZED (
        SELECT eventType, domainId, category, coalesce((SELECT value FROM StringIds WHERE id = textId), text) AS name
        FROM NVTX_EVENTS WHERE eventType IN (75, 33)
    )
    SELECT CASE e.eventType WHEN 59 THEN 'push' WHEN 60 THEN 'start' ELSE 'mark' END,
        (SELECT name FROM named d WHERE d.eventType = 75 AND d.domainId = e.domainId),
        coalesce((SELECT value FROM StringIds WHERE id = e.textId), e.text),
        e.category,
        (SELECT name FROM named c WHERE c.eventType = 33 AND c.domainId = e.domainId AND c.category = e.category),
        e.color, e.uint64Value, e.int64Value, e.doubleValue, e.uint32Value, e.int32Value, e.floatValue,
        (SELECT value FROM StringIds s JOIN ThreadNames t ON s.id = t.nameId WHERE t.globalTid = e.globalTid
            ORDER BY priority DESC LIMIT 1),
        e.globalTid & 0xffffff
    FROM NVTX_EVENTS e WHERE e.eventType IN (59, 60, 34) ORDER BY e.start";

fn event(row: &rusqlite::Row<'_>) -> rusqlite::Result<Event> {
    let kind = match row.get::<_, String>(0)?.as_str() {
        "push" => "push",
        "start" => "start",
        _ => "mark",
    };
    let mut payload = Vec::new();
    let columns = ["uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue"];
    for (index, column) in (6..).zip(columns) {
        match row.get_ref(index)? {
            rusqlite::types::ValueRef::Null => {}
            rusqlite::types::ValueRef::Integer(number) => payload.push(format!("{column}={number}")),
            rusqlite::types::ValueRef::Real(number) => payload.push(format!("{column}={number}")),
            other => payload.push(format!("{column}={other:?}")),
        }
    }
    Ok(Event {
        kind,
        domain: row.get(1)?,
        text: row.get(2)?,
        category: row.get(3)?,
        category_name: row.get(4)?,
        color: row.get(5)?,
        payload,
        thread: row.get(12)?,
        tid: row.get(13)?,
    })
}

/// A line of a summary: eight numbers, the style if both are in one table, and the name. Only cells with a comma are
/// quoted, and quotes inside are not doubled. Only the name, the last cell, can need that.
fn csv_row(line: &str, style: Option<RangeStyle>) -> Row {
    let read = || {
        let mut cells = line.splitn(if style.is_some() { 9 } else { 10 }, ',');
        let mut number = || cells.next()?.parse::<f64>().ok();
        let (_share, total, instances, _average, median) = (number(), number()?, number()?, number()?, number()?);
        let (_min, _max, _deviation) = (number()?, number()?, number()?);
        let style = match style {
            Some(style) => style,
            None => match cells.next()? {
                "PushPop" => RangeStyle::PushPop,
                "StartEnd" => RangeStyle::StartEnd,
                _ => return None,
            },
        };
        let name = cells.next()?;
        let bare = name.contains(',').then(|| name.strip_prefix('"')?.strip_suffix('"')).flatten().unwrap_or(name);
        Some(Row {
            label: bare.to_owned(),
            style,
            instances: instances as u64,
            total_ns: total as u64,
            median_ns: median,
        })
    };
    read().unwrap_or_else(|| panic!("not a row of a summary: {line:?}"))
}

/// A folder of its own for one recording.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("nsight-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for the recording");
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
