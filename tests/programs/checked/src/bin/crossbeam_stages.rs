//! A pipeline of threads between bounded channels of crossbeam: read, parse, compress, write. Each stage sends in its
//! span, so those before the slow one wait in theirs.
//!
//! Cause: `compress`, which works 4 ms for a record; the others work 0.2 to 0.5 ms. `read_record` and `parse` take as
//! long for a record, since they wait until `compress` takes the next. The first line names `compress` before them.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use checked::{Cause, Expected, Run, Stopwatch, spin};
use crossbeam::channel::{Receiver, Sender, bounded};
use tracing::instrument;
use tracing_subscriber::prelude::*;

const RECORDS: u64 = 200;
const CAPACITY: usize = 4;

static PARSE: Stopwatch = Stopwatch::new();
static COMPRESS: Stopwatch = Stopwatch::new();

#[instrument(skip(parsers))]
fn read_record(number: u64, parsers: &Sender<u64>) {
    spin(Duration::from_micros(200));
    parsers.send(number).expect("a parser");
}

#[instrument(skip(compressors))]
fn parse(record: u64, compressors: &Sender<u64>) {
    PARSE.run(|| spin(Duration::from_micros(500)));
    compressors.send(record).expect("a compressor");
}

#[instrument(skip(writers))]
fn compress(record: u64, writers: &Sender<u64>) {
    COMPRESS.run(|| spin(Duration::from_millis(4)));
    writers.send(record).expect("a writer");
}

#[instrument]
fn write_record(record: u64) -> u64 {
    spin(Duration::from_micros(200));
    record
}

fn stage(input: Receiver<u64>, output: Sender<u64>, work: fn(u64, &Sender<u64>)) -> thread::JoinHandle<()> {
    thread::spawn(move || input.iter().for_each(|record| work(record, &output)))
}

fn main() -> ExitCode {
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    let (parsers, to_parse) = bounded(CAPACITY);
    let (compressors, to_compress) = bounded(CAPACITY);
    let (writers, to_write) = bounded(CAPACITY);
    let reader = thread::spawn(move || (0..RECORDS).for_each(|number| read_record(number, &parsers)));
    let stages = [stage(to_parse, compressors, parse), stage(to_compress, writers, compress)];
    let written: u64 = to_write.iter().map(write_record).sum();
    assert_eq!(written, RECORDS * (RECORDS - 1) / 2);
    reader.join().expect("no panic");
    for stage in stages {
        stage.join().expect("no panic");
    }
    run.finish(Expected {
        spans: &[("read_record", RECORDS), ("parse", RECORDS), ("compress", RECORDS), ("write_record", RECORDS)],
        parents: &[("read_record", &[""]), ("parse", &[""]), ("compress", &[""]), ("write_record", &[""])],
        cause: Some(Cause {
            name: "compress",
            costs: COMPRESS.total(),
            second: PARSE.total(),
            own: COMPRESS.total(),
            also_true: &[],
        }),
        ..Expected::default()
    })
}
