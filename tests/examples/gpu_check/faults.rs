//! Ends and obstacles while CUPTI records: each in a process of its own, with a defined outcome.

use std::io::{BufRead as _, BufReader, Read as _};
use std::panic::catch_unwind;
use std::process::{Child, Command, Stdio};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::CudaStream;
use tracing::info_span;
use tracing_gpu::{Gpu, Output, Profiler, Report, SummaryExt as _, with_stream};

use super::device::{Device, check, install_built, us};
use super::foreign::{Cupti, Raw};

/// The longest allowed time from the mark on standard output to the end of the process.
const LONGEST: Duration = Duration::from_secs(2);
/// After this time a process counts as hanging, and is stopped.
const HANGS: Duration = Duration::from_secs(60);
/// Number of kernels in flight, each of 5 ms.
const KERNELS: u64 = 20;
/// The line on standard output with which a process marks that its end begins.
const MARK: &str = "the end begins";
const TITLE: &str = "(cuda_gpu_kern_sum)";

struct Case {
    name: &'static str,
    run: fn(),
    /// The check of the process and its output.
    outcome: fn(&Ended) -> Result<(), String>,
}

const CASES: &[Case] = &[
    Case {
        name: "process_exit",
        run: process_exit,
        outcome: |ended| ended.with_code(7)?.soon()?.kernels_printed_once(KERNELS),
    },
    Case { name: "fork", run: fork, outcome: |ended| ended.with_code(0)?.kernels_printed_once(2 * KERNELS) },
    Case {
        name: "panic",
        run: panic_in_span,
        outcome: |ended| ended.with_code(0)?.soon()?.kernels_printed_once(KERNELS),
    },
    Case {
        name: "panic_without_context",
        run: panic_without_context,
        outcome: |ended| ended.with_code(0)?.soon()?.nothing_silent(),
    },
    Case { name: "second_profiler", run: second_profiler, outcome: |ended| ended.with_code(0).map(drop) },
    Case { name: "another_subscriber", run: another_subscriber, outcome: |ended| ended.with_code(0).map(drop) },
    Case { name: "no_library", run: bad_library, outcome: |ended| ended.with_code(0).map(drop) },
    Case { name: "not_a_library", run: bad_library, outcome: |ended| ended.with_code(0).map(drop) },
];

/// Runs all cases. Returns whether each had its expected outcome.
pub(crate) fn run_all() -> bool {
    let text = std::env::temp_dir().join(format!("gpu_check-{}-libcupti.so", std::process::id()));
    std::fs::write(&text, "This is no library.\n").expect("a file");
    let mut failed = 0;
    for case in CASES {
        let library = match case.name {
            "no_library" => Some("/nowhere/libcupti.so.13".as_ref()),
            "not_a_library" => Some(text.as_os_str()),
            _ => None,
        };
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["faults", case.name]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(library) = library {
            command.env("TRACING_GPU_CUPTI", library);
        }
        let ended = Ended::of(command.spawn().expect("a child"));
        match (case.outcome)(&ended) {
            Ok(()) => println!("ok     {} ({:.0?} to the end)", case.name, ended.ending.unwrap_or_default()),
            Err(reason) => {
                println!("FAILED {}: {reason}\n--- stdout\n{}--- stderr\n{}---", case.name, ended.stdout, ended.stderr);
                failed += 1;
            }
        }
    }
    let _left_behind = std::fs::remove_file(&text);
    println!("{failed} of {} failed", CASES.len());
    failed == 0
}

/// One case, in this process.
pub(crate) fn run(name: &str) {
    let case = CASES.iter().find(|case| case.name == name).unwrap_or_else(|| panic!("{name} is no case"));
    (case.run)();
}

/// A process that has ended, or was stopped.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    /// The time from the mark to the end.
    ending: Option<Duration>,
}

impl Ended {
    fn of(mut child: Child) -> Self {
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let stdout = std::thread::spawn(move || {
            let (mut text, mut mark) = (String::new(), None);
            for line in stdout.lines().map_while(Result::ok) {
                if line == MARK {
                    mark = Some(Instant::now());
                }
                text = text + &line + "\n";
            }
            (text, mark)
        });
        let mut stderr = child.stderr.take().expect("a pipe");
        let stderr = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _as_far_as_it_goes = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let start = Instant::now();
        let status = loop {
            match child.try_wait().expect("a child") {
                Some(status) => break Some(status),
                None if start.elapsed() > HANGS => {
                    child.kill().expect("a child");
                    child.wait().expect("a child");
                    break None;
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let end = Instant::now();
        let (stdout, mark) = stdout.join().expect("a reader");
        let ending = mark.map(|mark| end.saturating_duration_since(mark));
        Self { code: status.and_then(|status| status.code()), stdout, stderr: stderr.join().expect("a reader"), ending }
    }

    fn with_code(&self, code: i32) -> Result<&Self, String> {
        if self.code == Some(code) { Ok(self) } else { Err(format!("exit code {:?}, not {code}", self.code)) }
    }

    fn soon(&self) -> Result<&Self, String> {
        match self.ending {
            Some(time) if time <= LONGEST => Ok(self),
            time => Err(format!("{time:.1?} from the mark to the end")),
        }
    }

    /// `spin` in the table of kernels: the third column.
    fn kernels(&self) -> Option<u64> {
        let table = self.stderr.split_once(TITLE)?.1;
        let row = table.lines().find(|line| line.split_whitespace().last() == Some("spin"))?;
        row.split_whitespace().nth(2)?.replace(',', "").parse().ok()
    }

    fn kernels_printed_once(&self, expected: u64) -> Result<(), String> {
        let tables = self.stderr.matches(TITLE).count();
        match self.kernels() {
            Some(found) if found == expected && tables == 1 => Ok(()),
            found => Err(format!("{tables} tables, {found:?} kernels in the first, expected {expected}")),
        }
    }

    /// All kernels are there, or a note reports missing ones.
    fn nothing_silent(&self) -> Result<(), String> {
        let whole = self.kernels() == Some(KERNELS);
        if whole || (self.stderr.contains(TITLE) && self.stderr.contains("Notes:")) {
            return Ok(());
        }
        Err(format!("{:?} kernels of {KERNELS} and no note", self.kernels()))
    }
}

fn printing() -> Profiler {
    let reports = [Report::Kernels, Report::GpuProjection];
    install_built(
        Profiler::builder().gpu(Gpu::Cupti).report(reports).output(Output::Stderr).build().expect("a profiler"),
    )
}

fn open() -> (Device, Arc<CudaStream>) {
    let device = Device::open();
    let stream = device.context.new_stream().expect("a stream");
    (device, stream)
}

fn work(device: &Device, stream: &Arc<CudaStream>) {
    info_span!("in_flight").in_scope(|| (0..KERNELS).for_each(|_| device.spin(stream, us(5_000))));
}

/// The exit hook prints profilers that have not finished.
fn process_exit() {
    let _profiler = printing();
    let (device, stream) = open();
    work(&device, &stream);
    println!("{MARK}");
    std::process::exit(7);
}

/// The child takes no part in the report and ends at once; the parent continues.
#[allow(unsafe_code)]
fn fork() {
    let profiler = printing();
    let (device, stream) = open();
    work(&device, &stream);
    let start = Instant::now();
    // SAFETY: the child only enters a span and ends, which is what is tested.
    let child = unsafe { libc::fork() };
    if child == 0 {
        info_span!("in the child").in_scope(|| ());
        std::process::exit(0);
    }
    let mut status = -1;
    // SAFETY: both concern the child made above, which nobody else waits for; it is stopped only while it runs.
    let mut wait = |flags| unsafe { libc::waitpid(child, &raw mut status, flags) };
    while wait(libc::WNOHANG) == 0 {
        std::thread::sleep(Duration::from_millis(1));
        if start.elapsed() > LONGEST {
            // SAFETY: as above.
            unsafe {
                libc::kill(child, libc::SIGKILL);
            }
            wait(0);
            break;
        }
    }
    println!("the child ended after {:.1?} with {status}", start.elapsed());
    check("the forked child ends by itself within 2 s, with 0", status == 0);
    work(&device, &stream);
    println!("{MARK}");
    profiler.finish().expect("standard error");
}

/// The guard prints while the stack unwinds.
fn panic_in_span() {
    let caught = catch_unwind(|| {
        let _profiler = printing();
        let (device, stream) = open();
        std::mem::forget(device.context.clone());
        let _entered = info_span!("panicking").entered();
        work(&device, &stream);
        println!("{MARK}");
        panic!("on purpose");
    });
    check("the panic arrives", caught.is_err());
}

/// The same, with the context destroyed before the profiler.
fn panic_without_context() {
    let caught = catch_unwind(|| {
        let _profiler = printing();
        let (device, stream) = open();
        let _entered = info_span!("panicking").entered();
        work(&device, &stream);
        println!("{MARK}");
        panic!("on purpose");
    });
    check("the panic arrives", caught.is_err());
}

/// CUPTI belongs to the first profiler; the second keeps its statistics and states why it has no more.
fn second_profiler() {
    let build = || {
        let builder = Profiler::builder().gpu(Gpu::Cupti).report([Report::Kernels]).output(Output::None);
        builder.build().expect("a profiler")
    };
    let (first, second) = (build(), build());
    let (device, stream) = open();
    let launch = || work(&device, &stream);
    tracing::subscriber::with_default(first.subscriber(), launch);
    tracing::subscriber::with_default(second.subscriber(), launch);
    stream.synchronize().expect("the device");
    let (first, second) = (first.summary(), second.summary());
    let gpu = first.gpu.as_ref();
    check("the first sees all kernels", gpu.is_some_and(|gpu| gpu.total.operations == 2 * KERNELS));
    check(
        "those of the other's spans are outside of its own",
        gpu.is_some_and(|gpu| gpu.outside.operations == KERNELS),
    );
    println!("notes of the second: {:#?}", second.notes);
    check("the second has none", second.gpu.is_none());
    check("it says why", second.notes_as_text().iter().any(|note| note.contains("CUPTI")));
    check("it has its ranges", second.ranges.len() == 1 && second.ranges[0].times.instances == 1);
}

extern "C" fn ignore(_data: Raw, _domain: i32, _id: u32, _info: *const std::ffi::c_void) {}

/// Another subscription exists in this process: NVTX, statistics and events continue, and a note names the reason.
fn another_subscriber() {
    let (device, stream) = open(); // loads the driver, without which CUPTI must not be called
    let cupti = Cupti::open().expect("CUPTI");
    let mut subscriber = null_mut();
    #[allow(unsafe_code)]
    // SAFETY: writes one handle; the callback is a function of this program and takes no data.
    let status = unsafe { (cupti.subscribe)(&raw mut subscriber, ignore, null_mut()) };
    check("the first subscription succeeds", status == 0);
    without_cupti(&device, &stream, "CUPTI");
}

/// `TRACING_GPU_CUPTI` names a file that cannot be loaded.
fn bad_library() {
    let library = std::env::var("TRACING_GPU_CUPTI").expect("set by the parent");
    let (device, stream) = open();
    without_cupti(&device, &stream, &library);
}

/// A note contains `reason`, and everything else works as usual.
fn without_cupti(device: &Device, stream: &Arc<CudaStream>, reason: &str) {
    let builder = Profiler::builder().gpu(Gpu::Cupti).report([Report::Kernels]).output(Output::Stderr);
    let profiler = builder.build().expect("a profiler");
    tracing::subscriber::with_default(profiler.subscriber(), || with_stream(stream, || work(device, stream)));
    let summary = profiler.summary();
    println!("notes: {:#?}", summary.notes);
    check("nothing of CUPTI's", summary.gpu.is_none());
    check("a note says why", summary.notes_as_text().iter().any(|note| note.contains(reason)));
    let stream_time: u64 = summary.stream_ranges.iter().map(|row| row.times.total_ns).sum();
    check("events go on", stream_time >= KERNELS * 5_000_000);
    check("and statistics", summary.ranges.len() == 1);
}
