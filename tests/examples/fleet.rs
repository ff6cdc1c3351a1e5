//! Made runs of many ranks, as datasets, for `tests/fleet/run`: `fleet FOLDER RANKS RANGES [ranges]`.
//! With `ranges` there are no kernels: then it measures how fast ranges are written. `fleet FOLDER endless` writes
//! ranges into files of a tenth of a second until it is killed.
//!
//! A run of a day trains in steps of a forward pass, a backward pass, an exchange by NCCL, and an optimizer. Rank
//! [`STRAGGLER`] takes longer in each forward pass, so all others wait for it in the exchange. Every fourth exchange is
//! only among the ranks of a host, which have a communicator of their own. In the first exchange half of the ranks wait
//! for processes that start. The last rank does not list the last exchange of all.
//!
//! In hour [`SLOW_HOUR`] loading takes three times as long on all ranks. A few forward passes of the last rank are far
//! longer than others. A second, shorter run has a slower optimizer.
//!
//! Prints how fast the datasets were written, and writes the truth: a line in `truth.csv` for each run, rank and name.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use range_files::Parquet;
use range_model::summary::{
    CallStates, CallStats, CommunicatorStats, DeviceIdle, GPU_WORK, GpuIdle, IdleCause, Process, RangeState, Summary,
    Times, WaitStats,
};
use range_model::timeline::{Item, Kernel, Operation, Range, Sink as _, Value, Work};

/// The rank that is slow, of ranks that are at least as many; else the last one.
const STRAGGLER: u32 = 5;
/// The hour of the day in which loading is slow.
const SLOW_HOUR: u64 = 17;
/// Ranges of a step.
const EACH_STEP: u64 = 6;
/// 2025-11-26 00:00 in UTC.
const MIDNIGHT: u64 = 1_764_115_200;
const HOUR: u64 = 3_600_000_000_000;
const RANKS_OF_A_HOST: u32 = 8;
/// Number of the communicator of all ranks. Those of hosts count from 1.
const OF_ALL: u64 = u64::MAX;
/// One exchange of so many steps is only among the ranks of a host.
const OF_HOST_EACH: u64 = 4;
/// How long half of the ranks wait in the first exchange.
const FIRST_WAIT: u64 = 12_000_000;
/// How many operations of a communicator are listed: the last.
const MOST_LISTED: usize = 2_048;

/// What a run is like.
#[derive(Clone, Copy)]
struct Run<'a> {
    id: &'a str,
    ranks: u32,
    ranges: u64,
    start_ns: u64,
    optimizer: f64,
    with_kernels: bool,
}

/// Number, total and longest of the ranges of one name.
type Truth = BTreeMap<&'static str, (u64, u64, u64)>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [folder, word] = arguments.as_slice()
        && word == "endless"
    {
        return endless(Path::new(folder));
    }
    let ([folder, ranks, ranges], with_kernels) = match arguments.as_slice() {
        [folder, ranks, ranges] => ([folder, ranks, ranges], true),
        [folder, ranks, ranges, only] if only == "ranges" => ([folder, ranks, ranges], false),
        _ => return Err("fleet FOLDER RANKS RANGES [ranges]".into()),
    };
    let (folder, ranks, ranges) = (PathBuf::from(folder), ranks.parse::<u32>()?, ranges.parse::<u64>()?);
    let start_ns = MIDNIGHT * 1_000_000_000;
    let second = start_ns + 24 * HOUR;
    let runs = [
        Run { id: "monday", ranks, ranges, start_ns, optimizer: 1.0, with_kernels },
        Run {
            id: "tuesday",
            ranks: ranks.min(2),
            ranges: ranges / 10,
            start_ns: second,
            optimizer: 1.25,
            with_kernels,
        },
    ];
    let mut truth = "run,rank,name,instances,total_ns,max_ns\n".to_owned();
    let began = Instant::now();
    for run in runs {
        for rank in 0..run.ranks {
            for (name, (instances, total, max)) in rank_of(&folder, run, rank)? {
                writeln!(truth, "{},{rank},{name},{instances},{total},{max}", run.id)?;
            }
        }
    }
    let took = began.elapsed();
    let written = runs.iter().map(|run| u64::from(run.ranks) * (run.ranges / EACH_STEP) * EACH_STEP).sum::<u64>();
    let bytes = bytes_of_ranges(&folder)?;
    println!(
        "{written} ranges in {:.2} s: {:.2} M ranges/s; {:.1} bytes a range",
        took.as_secs_f64(),
        written as f64 / took.as_secs_f64() / 1e6,
        bytes as f64 / written as f64
    );
    std::fs::write(folder.join("truth.csv"), truth)?;
    Ok(())
}

/// Writes ranges whose spans count from 1.
fn endless(folder: &Path) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let sink = Parquet::new(folder, move || began.elapsed());
    let mut sink = sink.limits(Duration::from_millis(100), usize::MAX);
    let mut process = Process::default();
    process.run_id = "killed".to_owned();
    sink.begin(&process)?;
    for span in 1.. {
        sink.item(&Item::Range(Range { name: "step", start: span, end: span + 1, span, ..Range::default() }))?;
        if span % 1_000 == 0 {
            sink.flush()?;
        }
    }
    Ok(())
}

fn rank_of(folder: &Path, run: Run<'_>, rank: u32) -> Result<Truth, Box<dyn Error>> {
    let mut process = Process::default();
    process.pid = 1_000 + rank;
    process.host = format!("node{:02}", rank / RANKS_OF_A_HOST);
    process.rank = Some(rank);
    process.run_id = run.id.to_owned();
    process.started_unix_ns = run.start_ns;
    let mut sink = Parquet::new(folder, || Duration::from_nanos(24 * HOUR));
    sink.begin(&process)?;
    sink.item(&Item::Thread { thread: 7, name: "main" })?;
    let steps = run.ranges / EACH_STEP;
    let step_ns = 24 * HOUR / steps.max(1);
    let straggler = STRAGGLER.min(run.ranks - 1);
    // All ranks draw the same numbers for what they share, such as how long the straggler took.
    let mut shared = fastrand::Rng::with_seed(1);
    let mut own = fastrand::Rng::with_seed(100 + u64::from(rank));
    let mut truth = Truth::new();
    let mut numbers = 0_u64;
    let host = |rank: u32| rank / RANKS_OF_A_HOST;
    let mut communicators = [OF_ALL, u64::from(host(rank)) + 1].map(communicator);
    let (mut busy, mut waited) = (0, 0);
    for step in 0..steps {
        let start = step * step_ns + own.u64(..1_000);
        let is_slow = start / HOUR == SLOW_HOUR;
        let load = (900_000 + own.u64(..100_000)) * if is_slow { 3 } else { 1 };
        let straggled: u64 = 13_000_000 + shared.u64(..1_000_000);
        let is_outlier = rank + 1 == run.ranks && rank != straggler && step % (steps / 4).max(1) == steps / 8;
        let forward: u64 = match rank == straggler {
            true => straggled,
            false if is_outlier => straggled + 90_000_000,
            false => 10_000_000 + own.u64(..1_000_000),
        };
        let backward = 8_000_000 + own.u64(..500_000);
        // The exchange ends on all of its ranks together, once the straggler is there.
        let is_of_host = step % OF_HOST_EACH == OF_HOST_EACH - 1;
        let waits = rank != straggler && (!is_of_host || host(rank) == host(straggler));
        let first_wait = if step == 0 && rank.is_multiple_of(2) { FIRST_WAIT } else { 0 };
        let reduce = 500_000 + first_wait + if waits { straggled.saturating_sub(forward) + 1_000_000 } else { 0 };
        let optimizer = ((2_000_000 + own.u64(..100_000)) as f64 * run.optimizer) as u64;
        let batch = own.u64(1..=512);
        let fields = [("batch", Value::Unsigned(batch)), ("epoch", Value::Unsigned(step / 10_000))];
        let span = numbers + 1;
        let mut at = start;
        let mut range = |sink: &mut Parquet, domain, name, length: u64, depth, fields: &[(&'static str, Value<'_>)]| {
            numbers += 1;
            let (start, parent) = if depth == 0 { (start, 0) } else { (at, span) };
            let (end, domain) = (start + length, Some(domain).filter(|domain: &&str| !domain.is_empty()));
            at = end;
            let (number, thread) = (numbers, 7);
            let (on_cpu_ns, off_cpu_ns) = (length / 3, length / 2);
            let of_name = truth.entry(name).or_default();
            *of_name = (of_name.0 + 1, of_name.1 + length, of_name.2.max(length));
            let (span, call) = (number, number);
            sink.item(&Item::Range(Range {
                thread,
                start,
                end,
                domain,
                name,
                depth,
                fields,
                on_cpu_ns,
                off_cpu_ns,
                span,
                call,
                parent,
                ..Range::default()
            }))
        };
        range(&mut sink, "", "load", load, 1, &[])?;
        let forward_at = start + load;
        range(&mut sink, "", "forward", forward, 1, &fields)?;
        range(&mut sink, "", "backward", backward, 1, &[])?;
        range(&mut sink, "NCCL", "ncclAllReduce", reduce, 1, &[])?;
        range(&mut sink, "", "optimizer", optimizer, 1, &[])?;
        range(&mut sink, "", "step", load + forward + backward + reduce + optimizer, 0, &fields[..1])?;
        for (name, start, length) in [
            ("sgemm_128x128", forward_at, forward - 1_000_000),
            ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", forward_at + forward + backward, reduce - 100_000),
        ] {
            busy += length;
            if !run.with_kernels {
                continue;
            }
            let path = ["step".to_owned(), if start == forward_at { "forward" } else { "ncclAllReduce" }.to_owned()];
            sink.item(&Item::Operation(Operation {
                start,
                end: start + length,
                stream: 7,
                correlation: (step % 1_000_000) as u32 + 1,
                work: Work::Kernel(Kernel { grid: [128, 1, 1], block: [256, 1, 1], ..Kernel::default() }),
                kernel: name,
                launch: Some((7, start - 1_000)),
                span: path.last().map(String::as_str),
                path: &path,
                call: span,
                ..Operation::default()
            }))?;
        }
        let [of_all, of_host] = &mut communicators;
        let its = if is_of_host { of_host } else { of_all };
        let before = vec![(0, forward - 1_000_000), (1, backward)];
        list(its, [forward_at + forward + backward, reduce - 100_000], before);
        waited += reduce;
    }
    if rank + 1 == run.ranks {
        let [of_all, _] = &mut communicators;
        of_all.name.pop();
    }
    let mut summary = summary_of(process, steps, busy, waited);
    summary.communicators = communicators.map(last_listed).into();
    sink.end(&summary, 0)?;
    Ok(truth)
}

fn communicator(id: u64) -> CommunicatorStats {
    let part = |range: &str, state: &str| {
        let mut part = RangeState::default();
        (part.range, part.state) = (Some(range.to_owned()), state.to_owned());
        part
    };
    let mut communicator = CommunicatorStats::default();
    communicator.id = id;
    communicator.names = vec!["AllReduce".to_owned()];
    communicator.parts = vec![part("forward", GPU_WORK), part("backward", IdleCause::Host.name())];
    communicator
}

/// Lists an operation. The device does something else in half of it.
fn list(communicator: &mut CommunicatorStats, [start, length]: [u64; 2], before: Vec<(u32, u64)>) {
    communicator.name.push(0);
    communicator.start_ns.push(start);
    communicator.time_ns.push(length);
    communicator.alone_ns.push(length / 2);
    communicator.before.push(before);
}

/// The last operations, as a profiler lists them.
fn last_listed(mut communicator: CommunicatorStats) -> CommunicatorStats {
    let count = communicator.name.len();
    let earlier = count.saturating_sub(MOST_LISTED);
    communicator.earlier = earlier as u64;
    communicator.name.drain(..earlier);
    for column in [&mut communicator.start_ns, &mut communicator.time_ns, &mut communicator.alone_ns] {
        column.truncate(count);
        column.drain(..earlier);
    }
    communicator.before.truncate(count);
    communicator.before.drain(..earlier);
    communicator
}

fn summary_of(process: Process, steps: u64, busy: u64, waited: u64) -> Summary {
    let mut summary = Summary::default();
    let wall = 24 * HOUR;
    let mut call = CallStats::new("step", Times::new(steps, wall));
    let mut states = CallStates::default();
    (states.gpu_work_ns, states.otherwise_ns) = (busy, wall - busy);
    call.states = Some(states);
    summary.calls = vec![call];
    let mut device = DeviceIdle::default();
    (device.wall_ns, device.busy_ns, device.gaps) = (wall, busy, steps);
    device.causes.add(IdleCause::Host, (wall - busy) / 4 * 3);
    device.causes.add(IdleCause::Launching, wall - busy - (wall - busy) / 4 * 3);
    let mut idle = GpuIdle::default();
    idle.devices = vec![device];
    summary.idle = Some(idle);
    summary.waits = vec![
        WaitStats::new("step", Some("ncclAllReduce".to_owned()), steps, waited, waited / steps.max(1) * 2),
        WaitStats::new("step", None, 3, 1_000_000, 500_000),
    ];
    (summary.elapsed_ns, summary.process) = (wall, process);
    summary
}

/// The bytes of all files of ranges below a folder.
fn bytes_of_ranges(folder: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let is_of_ranges = entry.file_name().to_string_lossy().starts_with("ranges-");
        bytes += match entry.file_type()?.is_dir() {
            true => bytes_of_ranges(&entry.path())?,
            false if is_of_ranges => entry.metadata()?.len(),
            false => 0,
        };
    }
    Ok(bytes)
}
