//! A recording made by hand with every odd case: a name nested in itself, one on two threads, a call that ends with its
//! range and one that straddles the end, a graph, a range that ended on another thread, one that never ended, start/end
//! ranges, work outside of all. Below is the exact output of the real `nsys` 2022.4 for it (`nvtxgpuproj`,
//! `nvtxkernsum`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use rusqlite::Connection;

const PROCESS: i64 = 1 << 48 | 4242 << 24;

const PROJECTIONS: &str = "
 step                       160000                   729000           100000              800000  PushPop   4242  4242          6    0         2        2  None      :2
 load                       160000                   110001           110000              190000  PushPop   4242  4242          2    1         0        3  2         :2:3
 app:compute                330000                   370000           310000              190000  PushPop   4242  4242          2    1         0        4  2         :2:4
 step                      1160000                   729000          1100000              800000  PushPop   4242  4242          6    0         2        5  None      :5
 load                      1160000                   110001          1110000              190000  PushPop   4242  4242          2    1         0        6  5         :5:6
 app:compute               1330000                   370000          1310000              190000  PushPop   4242  4242          2    1         0        7  5         :5:7
 rec                       2150000                    10000          2000000              300000  PushPop   4242  4242          1    0         1        8  None      :8
 rec                       2150000                    10000          2050000              200000  PushPop   4242  4242          1    1         0        9  8         :8:9
 exact                     2420000                    10000          2400000               10000  PushPop   4242  4242          1    0         0       10  None      :10
 graph                     2530000                    40000          2500000              100000  PushPop   4242  4242          1    0         0       11  None      :11
 step                       701000                     4000           105000              695000  PushPop   4242  4243          1    0         0       12  None      :12
 span                       950000                    10000           820000              680000  StartEnd  4242  4243          1    0         0       13  None      :13
 open                      1810000                     5000          1700000             1000000  PushPop   4242  4243          1    0         0       15  None      :15";

const KERNELS: &str = "
 None         None      4242  4242          0          1            20000   20000.0   20000.0     20000     20000          0.0  void vec_add<float>(T1 *, const T1 *, int)
 app:compute  PushPop   4242  4242          2          2           740000  370000.0  370000.0    370000    370000          0.0  void vec_add<float>(T1 *, const T1 *, int)
 app:compute  PushPop   4242  4242          2          2           609014  304507.0  304507.0    304507    304507          0.0  gemm(float *, float *, float *, int)
 exact        PushPop   4242  4242          1          1            10000   10000.0   10000.0     10000     10000          0.0  gemm(float *, float *, float *, int)
 graph        PushPop   4242  4242          1          1            19000   19000.0   19000.0     19000     19000          0.0  gemm(float *, float *, float *, int)
 graph        PushPop   4242  4242          1          1            10000   10000.0   10000.0     10000     10000          0.0  void vec_add<float>(T1 *, const T1 *, int)
 open         PushPop   4242  4243          1          1             5000    5000.0    5000.0      5000      5000          0.0  gemm(float *, float *, float *, int)
 rec          PushPop   4242  4242          2          1            20000   10000.0   10000.0     10000     10000          0.0  void vec_add<float>(T1 *, const T1 *, int)
 span         StartEnd  4242  4243          1          1            10000   10000.0   10000.0     10000     10000          0.0  gemm(float *, float *, float *, int)
 step         PushPop   4242  4242          2          4           760000  190000.0  190000.0     10000    370000     207846.1  void vec_add<float>(T1 *, const T1 *, int)
 step         PushPop   4242  4242          2          2           609014  304507.0  304507.0    304507    304507          0.0  gemm(float *, float *, float *, int)
 step         PushPop   4242  4243          1          1             4000    4000.0    4000.0      4000      4000          0.0  void vec_add<float>(T1 *, const T1 *, int)";

type RangeRow = (i64, i64, i64, Option<&'static str>, i64, Option<i64>, bool);

/// Thread, type, domain, name, start, end, and whether it ended on another thread. In order of `RangeId`, from 2 on.
/// For `xthread` the tool prints only the duration.
const RANGES: [RangeRow; 15] = [
    (4242, 59, 0, Some("step"), 100_000, Some(900_000), false),
    (4242, 59, 0, Some("load"), 110_000, Some(300_000), false),
    (4242, 59, 1, Some("compute"), 310_000, Some(500_000), false),
    (4242, 59, 0, Some("step"), 1_100_000, Some(1_900_000), false),
    (4242, 59, 0, Some("load"), 1_110_000, Some(1_300_000), false),
    (4242, 59, 1, Some("compute"), 1_310_000, Some(1_500_000), false),
    (4242, 59, 0, Some("rec"), 2_000_000, Some(2_300_000), false),
    (4242, 59, 0, Some("rec"), 2_050_000, Some(2_250_000), false),
    (4242, 59, 0, Some("exact"), 2_400_000, Some(2_410_000), false),
    (4242, 59, 0, Some("graph"), 2_500_000, Some(2_600_000), false),
    (4243, 59, 0, Some("step"), 105_000, Some(800_000), false),
    (4243, 60, 0, Some("span"), 820_000, Some(1_500_000), false),
    (4243, 60, 0, Some("xthread"), 830_000, Some(1_520_000), true),
    (4243, 59, 0, Some("open"), 1_700_000, None, false),
    (4243, 59, 0, None, 1_650_000, Some(1_651_000), false),
];

/// Start, duration, function, correlation id and thread, from the output of `cudaapitrace`.
const CALLS: [(i64, i64, &str, i64, i64); 21] = [
    (120_000, 30_000, "cudaMemcpyAsync", 101, 4242),
    (155_000, 15_000, "cudaMemsetAsync", 102, 4242),
    (200_000, 7_000, "cudaLaunchKernel", 119, 4243),
    (320_000, 6_000, "cudaLaunchKernel", 103, 4242),
    (330_000, 6_000, "cudaLaunchKernel", 104, 4242),
    (499_000, 6_000, "cudaLaunchKernel", 105, 4242),
    (510_000, 370_000, "cudaStreamSynchronize", 106, 4242),
    (881_000, 9_000, "cuMemcpyDtoH_v2", 107, 4242),
    (900_000, 5_000, "cuLaunchKernel", 120, 4243),
    (1_120_000, 30_000, "cudaMemcpyAsync", 108, 4242),
    (1_155_000, 15_000, "cudaMemsetAsync", 109, 4242),
    (1_320_000, 6_000, "cudaLaunchKernel", 110, 4242),
    (1_330_000, 6_000, "cudaLaunchKernel", 111, 4242),
    (1_499_000, 6_000, "cudaLaunchKernel", 112, 4242),
    (1_510_000, 370_000, "cudaStreamSynchronize", 113, 4242),
    (1_800_000, 5_000, "cuLaunchKernel", 121, 4243),
    (1_881_000, 9_000, "cuMemcpyDtoH_v2", 114, 4242),
    (2_100_000, 10_000, "cudaLaunchKernel", 115, 4242),
    (2_400_000, 10_000, "cudaLaunchKernel", 116, 4242),
    (2_510_000, 10_000, "cudaGraphLaunch_v10000", 117, 4242),
    (2_650_000, 10_000, "cudaLaunchKernel", 118, 4242),
];

const VEC_ADD: &str = "void vec_add<float>(T1 *, const T1 *, int)";
const GEMM: &str = "gemm(float *, float *, float *, int)";

/// Start, duration, correlation id, stream and name, from the output of `gputrace`.
const OPERATIONS: [(i64, i64, i64, i64, &str); 21] = [
    (160_000, 100_000, 101, 7, "1"),
    (262_000, 8_001, 102, 7, "set"),
    (330_000, 370_000, 103, 7, VEC_ADD),
    (335_500, 304_507, 104, 13, GEMM),
    (701_000, 4_000, 119, 13, VEC_ADD),
    (710_000, 10_000, 105, 7, VEC_ADD),
    (882_000, 7_000, 107, 7, "2"),
    (950_000, 10_000, 120, 13, GEMM),
    (1_160_000, 100_013, 108, 7, "1"),
    (1_262_000, 8_001, 109, 7, "set"),
    (1_330_000, 370_000, 110, 7, VEC_ADD),
    (1_335_500, 304_507, 111, 13, GEMM),
    (1_710_000, 10_000, 112, 7, VEC_ADD),
    (1_810_000, 5_000, 121, 13, GEMM),
    (1_882_000, 7_000, 114, 7, "2"),
    (2_150_000, 10_000, 115, 7, VEC_ADD),
    (2_420_000, 10_000, 116, 7, GEMM),
    (2_530_000, 10_000, 117, 7, VEC_ADD),
    (2_541_000, 19_000, 117, 7, GEMM),
    (2_561_000, 9_000, 117, 7, "8"),
    (2_670_000, 20_000, 118, 7, VEC_ADD),
];

const TABLES: &str = "
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL);";

/// A new folder with the recording and its two tables.
pub(crate) fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tracing-gpu-attribution-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let file = folder.join("run.sqlite");
    if file.exists() {
        std::fs::remove_file(&file).expect("an old file can be removed");
    }
    write(&Connection::open(file).expect("a database can be made")).expect("rows can be written");
    std::fs::write(folder.join("nvtx_gpu_proj_sum.csv"), projections()).expect("a table can be written");
    std::fs::write(folder.join("nvtx_kern_sum.csv"), kernels()).expect("a table can be written");
    folder
}

fn write(file: &Connection) -> rusqlite::Result<()> {
    file.execute_batch("PRAGMA synchronous = OFF")?;
    file.execute_batch(TABLES)?;
    file.execute_batch("BEGIN")?;
    let mut strings = BTreeMap::new();
    let mut string = |text: &'static str| -> rusqlite::Result<i64> {
        let next = strings.len() as i64 + 10;
        let id = *strings.entry(text).or_insert(next);
        file.execute("INSERT OR IGNORE INTO StringIds VALUES (?1, ?2)", (id, text))?;
        Ok(id)
    };
    let event = "INSERT INTO NVTX_EVENTS VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    file.execute(event, (90_000, None::<i64>, 75, "app", PROCESS | 4242, None::<i64>, None::<i64>, 1))?;
    for (number, &(thread, kind, domain, name, start, end, elsewhere)) in RANGES.iter().enumerate() {
        let elsewhere = elsewhere.then_some(PROCESS | 4242);
        // Every other name is a registered string.
        let registered = match name {
            Some(name) if number % 2 == 0 => Some(string(name)?),
            _ => None,
        };
        let text = name.filter(|_| registered.is_none());
        file.execute(event, (start, end, kind, text, PROCESS | thread, elsewhere, registered, domain))?;
    }
    file.execute(event, (2_700_000, None::<i64>, 34, "done", PROCESS | 4242, None::<i64>, None::<i64>, 0))?;
    for (start, duration, function, correlation, thread) in CALLS {
        let row = (start, start + duration, PROCESS | thread, correlation, string(function)?);
        file.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?1, ?2, ?3, ?4, ?5)", row)?;
    }
    for (start, duration, correlation, stream, name) in OPERATIONS {
        let (table, what) = match (name, name.parse::<i64>()) {
            ("set", _) => ("MEMSET", "1048576".to_owned()),
            (_, Ok(copy)) => ("MEMCPY", format!("65536, {copy}")),
            _ => ("KERNEL", string(name)?.to_string()),
        };
        let insert = format!("INSERT INTO CUPTI_ACTIVITY_KIND_{table} VALUES (?1, ?2, 0, ?3, ?4, ?5, {what})");
        file.execute(&insert, (start, start + duration, stream, correlation, PROCESS))?;
    }
    file.execute_batch("COMMIT")
}

/// Cells of a printed table, which are separated by two blanks.
fn cells(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

/// Instances, grouped as in `nvtx_gpu_proj_sum`.
fn projections() -> String {
    let mut rows: BTreeMap<(&str, &str), Vec<[u64; 5]>> = BTreeMap::new();
    for line in PROJECTIONS.lines().skip(1) {
        let cells = cells(line);
        let number = |at: usize| -> u64 { cells[at].parse().unwrap_or_else(|_| panic!("{line}")) };
        rows.entry((cells[0], cells[5])).or_default().push([number(2), number(4), number(8), number(9), number(10)]);
    }
    let mut csv = "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Proj Avg (ns),Proj Med (ns),Proj Min (ns),Proj Max (ns),\
                   Proj StdDev (ns),Total GPU Ops,Avg GPU Ops,Avg Range Lvl,Avg Num Child\n"
        .to_owned();
    for ((name, style), rows) in rows {
        let count = rows.len() as f64;
        let sum = |at: usize| rows.iter().map(|row| row[at]).sum::<u64>();
        let mut durations: Vec<u64> = rows.iter().map(|row| row[0]).collect();
        durations.sort_unstable();
        let (min, max) = (durations[0], durations[rows.len() - 1]);
        let median = (durations[(rows.len() - 1) / 2] + durations[rows.len() / 2]) as f64 / 2.0;
        let mean = sum(0) as f64 / count;
        let squares = durations.iter().map(|&duration| (duration as f64 - mean).powi(2)).sum::<f64>();
        let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
        let name = if name.contains(':') { name.to_owned() } else { format!(":{name}") };
        let (total, ranges, ops) = (sum(0), sum(1), sum(2));
        let [ops_mean, level, children] = [2, 3, 4].map(|at| sum(at) as f64 / count);
        let _ = writeln!(
            csv,
            "{name},{style},{total},{ranges},{count},{mean:.1},{median:.1},{min},{max},{deviation:.1},{ops},{ops_mean:.1},{level:.1},{children:.1}"
        );
    }
    csv
}

fn kernels() -> String {
    let mut csv = "NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Kernel Name\n".to_owned();
    for line in KERNELS.lines().skip(1) {
        let quoted: Vec<String> = cells(line).iter().map(|cell| format!("\"{cell}\"")).collect();
        let _ = writeln!(csv, "{}", quoted.join(","));
    }
    csv
}
