//! Unfinished files, files on a full disk, and large ones.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use range_files::Sqlite;
use range_model::timeline::{Item, Range, Sink};
use rusqlite::Connection;
use tests::in_time;
use tracing_gpu::Summary;

use crate::process;
use crate::stats::{Folder, number};

/// Variables with the child's file, and with the number of ranges between two flushes.
const FILE: &str = "NSIGHT_SQLITE_FILE";
const FLUSH: &str = "NSIGHT_SQLITE_FLUSH";

const NAMES: [&str; 4] = ["step", "load", "compute", "store"];

/// Range `number` of an endless series on four threads.
fn range(number: u64) -> Item<'static> {
    let (start, domain) = (1000 * number, if number.is_multiple_of(3) { Some("app") } else { None });
    Item::Range(Range {
        thread: 4242 + (number % 4) as u32,
        start,
        end: start + 100 + number % 7,
        domain,
        name: NAMES[(number / 4 % 4) as usize],
        ..Range::default()
    })
}

/// Not a test: a program that writes until it is killed or can write no more.
#[test]
#[ignore = "a child of the other tests"]
fn child() {
    let (Ok(file), Ok(flush)) = (std::env::var(FILE), std::env::var(FLUSH)) else { return };
    let flush: u64 = flush.parse().expect("a number");
    let mut sink = Sqlite::new(file);
    let mut write = || {
        sink.begin(&process())?;
        println!("begun");
        for number in 0.. {
            sink.item(&range(number))?;
            if number % flush == flush - 1 {
                sink.flush()?;
                println!("flushed {}", number + 1);
            }
        }
        Ok(())
    };
    let end: std::io::Result<()> = write();
    println!("{end:?}");
}

fn start(file: &Path, flush: u64, limit: &str) -> Child {
    let program = std::env::current_exe().expect("a path");
    let mut child = Command::new("bash");
    child.args(["-c", &format!(r#"trap '' XFSZ; {limit} exec "$0" --ignored --exact --nocapture damage::child"#)]);
    child.arg(program).env(FILE, file).env(FLUSH, flush.to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
    child.process_group(0).spawn().expect("a child can be started")
}

fn ranges(file: &Path) -> u64 {
    let file = Connection::open(file).expect("it opens");
    let whole: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("it can be checked");
    assert_eq!(whole, "ok");
    let count: i64 = file
        .query_row("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59", [], |row| row.get(0))
        .expect("the ranges can be counted");
    count as u64
}

fn instances(folder: &Folder) -> u64 {
    folder.stats(&["nvtxppsum"])["nvtxppsum"].iter().map(|row| number(row, "Instances") as u64).sum()
}

/// The last number of flushed ranges that the child reported.
fn flushed(said: &[u8]) -> u64 {
    let said = String::from_utf8_lossy(said);
    let mut numbers = said.lines().filter_map(|line| line.strip_prefix("flushed ")?.parse().ok());
    numbers.next_back().unwrap_or(0)
}

#[test]
fn what_was_flushed_outlives_a_kill() {
    let (mut begun, mut mended, mut readable, mut whole) = (0, 0, 0, 0);
    for attempt in 0..40 {
        let folder = Folder::new(&format!("killed-{attempt}"));
        let file = folder.file("run.sqlite");
        let mut child = start(&file, [50, 1000, 30_000, u64::MAX][attempt % 4], "");
        std::thread::sleep(Duration::from_millis(60 + 37 * attempt as u64));
        child.kill().expect("it can be killed");
        let said = child.wait_with_output().expect("it ends").stdout;
        if !String::from_utf8_lossy(&said).contains("begun") {
            continue;
        }
        begun += 1;
        // The journal of a finished transaction begins with zeros.
        let journal = std::fs::read(folder.file("run.sqlite-journal"));
        let journal = journal.is_ok_and(|journal| journal.first().is_some_and(|&first| first != 0));
        // Opened like `nsys stats` does, which ignores the journal.
        let address = format!("file:{}?mode=ro&nolock=1&immutable=1", file.display());
        let seen = Connection::open(address).and_then(|file| {
            file.query_row("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59", [], |row| row.get::<_, i64>(0))
        });
        let found = ranges(&file);
        readable += u64::from(seen.is_ok());
        whole += u64::from(seen.as_ref().is_ok_and(|&seen| seen as u64 >= flushed(&said)));
        mended += u64::from(journal);
        assert!(found >= flushed(&said), "{found} ranges, {} flushed", flushed(&said));
        assert!(journal || seen.is_ok_and(|seen| seen as u64 == found), "whole between two commits");
        if found > 0 && attempt % 8 == 0 {
            assert_eq!(instances(&folder), found);
        }
        assert!(!journal || !folder.file("run.sqlite-journal").exists(), "mended when it was opened");
    }
    eprintln!(
        "of {begun}: {mended} killed within a transaction; without mending {readable} are readable, {whole} have all that was flushed"
    );
}

/// A limit on file sizes imitates a full disk: the next row cannot be written.
#[test]
fn a_full_disk_is_an_error_and_leaves_what_was_committed() {
    let folder = Folder::new("full");
    let file = folder.file("run.sqlite");
    let child = start(&file, 1000, "ulimit -f 2048;");
    let said = child.wait_with_output().expect("it ends").stdout;
    let text = String::from_utf8_lossy(&said).into_owned();
    assert!(text.contains("Err("), "{text}"); // the opener of the file names it
    let found = ranges(&file);
    assert!(found >= flushed(&said) && found > 10_000, "{found}: {text}");
    assert_eq!(instances(&folder), found);
}

/// The figures are printed: `cargo test --release ... -- --nocapture a_million`.
#[test]
fn a_million_ranges_are_written_and_read_in_seconds() {
    const RANGES: u64 = 1_000_000;
    let folder = Folder::new("million");
    let file = folder.file("run.sqlite");
    let mut sink = Sqlite::new(&file);
    let (begun, busy) = (Instant::now(), on_cpu());
    sink.begin(&process()).expect("it begins");
    for number in 0..RANGES {
        sink.item(&range(number)).expect("it is written");
    }
    sink.end(&Summary::default(), 0).expect("it ends");
    let (written, busy) = (begun.elapsed().as_secs_f64(), on_cpu() - busy);
    let bytes = file.metadata().expect("it is there").len() as f64 / RANGES as f64;
    let (found, read) = in_time(Duration::from_secs(60), || instances(&folder));
    assert_eq!(found, RANGES);
    let read = read.as_secs_f64();
    let [rate, alone] = [written, busy].map(|seconds| RANGES as f64 / seconds / 1e6);
    eprintln!(
        "{rate:.2} M ranges/s, {alone:.2} on a core of its own; {bytes:.1} bytes a range; nvtxppsum takes {read:.1} s"
    );
    assert!(bytes < 80.0 && read < 60.0);
    assert!(alone > if cfg!(debug_assertions) { 0.02 } else { 1.0 }, "{alone}");
}

/// Seconds of processor time of this thread, which exclude other programs.
fn on_cpu() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts it");
    let first = statistics.split_whitespace().next().expect("a number");
    first.parse::<f64>().expect("a number") / 1e9
}
