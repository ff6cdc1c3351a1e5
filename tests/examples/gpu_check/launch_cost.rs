//! What a launch costs on the CPU: with nothing, with what this library does, and with CUPTI alone.
//!
//! Every variant is a process of its own with the same loop: launches of an empty kernel, a span around each or around 1,000, and after every 1,000 a
//! wait, so that the queue of launches, some 1,000 long, never fills. Only the launches are timed.
//!
//! A machine's pace differs from one process to the next, and from one second to the next, by more than what is measured. So there are many short processes, ours and CUPTI
//! alone run one right after the other, now this first and now that, and what we add is judged twice: by the medians of both, and by the median of the differences
//! of neighbours.
//!
//! A second table says where the time goes: whether all launches are slower or few are (the typical and the slowest of batches), whether the thread ran or the
//! kernel did for it, and what the two things cost that nobody can do without: CUPTI's callbacks, and flushes from another thread.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::collections::HashMap;
use std::ffi::c_void;
use std::process::{Command, Stdio};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, sys};
use tests::usage::Usage;
use tracing::info_span;
use tracing_gpu::{Gpu, Profiler, Report, with_stream};

use super::device::install;
use super::foreign::{Cupti, Raw};

const LAUNCHES: usize = 60_000;
/// Measured in each process, after one to warm up.
const ROUNDS: usize = 1;
/// Processes of each variant that is judged, and in how many of these turns the others run, which only explain.
const PASSES: usize = 11;
const EXPLAINED: usize = 3;
const BATCH: usize = 1_000;
/// ns a launch that this library may add to CUPTI's own, which is what the differences below are compared with.
const TARGET: f64 = 250.0;

/// Argument, and what it stands for. Without a profiler there is no subscriber: the spans are disabled.
const VARIANTS: [(&str, &str); 9] = [
    ("nothing", "nothing"),
    ("nvtx", "NVTX layer and statistics, no tool"),
    ("events", "CUDA events (with_stream)"),
    ("cupti", "CUPTI alone: kernels, copies, sets"),
    ("callbacks", "CUPTI alone: and empty callbacks, and our clock"),
    ("flushes", "CUPTI alone: and these, and flushes"),
    ("cupti_api", "CUPTI alone: and API calls"),
    ("ours", "ours"),
    ("ours_api", "ours, with API tables"),
];
/// What is judged: CUPTI alone and ours, which run one right after the other.
const JUDGED: [([&str; 2], &str); 2] =
    [(["cupti", "ours"], "without API tables"), (["cupti_api", "ours_api"], "with API tables")];

const KERNELS: [i32; 3] = [10, 1, 2]; // CONCURRENT_KERNEL, MEMCPY, MEMSET
const CALLS: [i32; 2] = [5, 4]; // RUNTIME, DRIVER

/// What a process says of its launches, after `figures`: ns a launch of the median round, of the median batch and of the slowest of 100; of the thread's own time and of the
/// kernel's for it; then, by 1,000 launches, page faults, waits and preemptions.
const FIGURES: usize = 8;
type Figures = [f64; FIGURES];
const NAMED: [&str; FIGURES] = ["mean", "typical", "slowest 1%", "user", "kernel", "faults", "waits", "preempted"];

/// What the processes of a variant said: with a span around each launch, and around 1,000.
type Parts = [Vec<Figures>; 2];

/// The processes of one turn, in their order: variant and part. Neighbours stay neighbours; which is first changes from turn to turn, as does the pair.
fn turn(pass: usize) -> Vec<(&'static str, usize)> {
    let mut turn = Vec::new();
    for number in 0..2 * JUDGED.len() {
        let (pair, part) = ((number + pass) % JUDGED.len(), number / JUDGED.len());
        let mut neighbours = JUDGED[pair].0;
        if (pass + part) % 2 == 1 {
            neighbours.reverse();
        }
        turn.extend(neighbours.map(|variant| (variant, part)));
    }
    if pass % PASSES.div_ceil(EXPLAINED) == 0 {
        let is_judged = |variant| JUDGED.iter().any(|(pair, _)| pair.contains(&variant));
        let explained = VARIANTS.iter().map(|(variant, _)| *variant).filter(|variant| !is_judged(*variant));
        turn.extend(explained.flat_map(|variant| [(variant, 0), (variant, 1)]));
    }
    turn
}

/// All variants, then a million launches. Whether all ran, and the million is accounted for.
pub(crate) fn run_all() -> bool {
    println!(
        "ns a launch, median (least - most) of {PASSES} processes that take turns, or of {EXPLAINED} where they only explain, {ROUNDS} x {LAUNCHES} launches each"
    );
    println!("{:>26}  {:>26}", "a span a launch", "a span for 1,000");
    let mut figures: HashMap<&str, Parts> = HashMap::new();
    let mut remarks: HashMap<&str, Vec<String>> = HashMap::new();
    for (variant, part) in (0..PASSES).flat_map(turn) {
        let output = child(variant, part == 0).unwrap_or_else(|reason| reason + "\n");
        let (measured, said): (Vec<&str>, Vec<&str>) = output.lines().partition(|line| line.starts_with("figures "));
        let mut of_process = [0.0; FIGURES];
        if let Some(numbers) = measured.first() {
            let numbers = numbers.split(' ').skip(1).map(|number| number.parse().expect("a number"));
            of_process.iter_mut().zip(numbers).for_each(|(figure, number)| *figure = number);
        }
        remarks.insert(variant, said.into_iter().map(str::to_owned).collect());
        figures.entry(variant).or_default()[part].push(of_process);
    }
    for (variant, what) in VARIANTS {
        let shown = [0, 1].map(|part| {
            let [least, median, most] = spread(figures[variant][part].iter().map(|figures| figures[0]));
            format!("{median:.0} ({least:.0} - {most:.0})")
        });
        println!("{:>26}  {:>26}  {what}", shown[0], shown[1]);
        remarks.get(variant).into_iter().flatten().for_each(|remark| println!("{:>56}{remark}", ""));
    }
    for ([alone, ours], what) in JUDGED {
        let median = |variant, part: usize| spread(figures[variant][part].iter().map(|figures| figures[0]))[1];
        judge(
            [0, 1].map(|part| median(ours, part) - median(alone, part)),
            &format!("ours - CUPTI alone, {what}: medians"),
        );
        let differences = |part: usize, figure: usize| {
            let neighbours = figures[ours][part].iter().zip(&figures[alone][part]);
            spread(neighbours.map(|(ours, alone)| ours[figure] - alone[figure]))
        };
        judge([0, 1].map(|part| differences(part, 0)[1]), &format!("ours - CUPTI alone, {what}: median of neighbours"));
        for (figure, name) in [(0, "means"), (1, "typical batches"), (2, "slowest batches of 100")] {
            let shown = [0, 1].map(|part| {
                let [least, median, most] = differences(part, figure);
                format!("{median:+.0} ({least:+.0} - {most:+.0})")
            });
            println!("{:>26}  {:>26}  differences of neighbours: {name}", shown[0], shown[1]);
        }
    }
    for (part, title) in ["a span a launch", "a span for 1,000"].into_iter().enumerate() {
        println!("\n{title}: medians; ns a launch, and of the operating system by 1,000 launches");
        println!("{}", NAMED.map(|name| format!("{name:>11}")).concat());
        for (variant, what) in VARIANTS {
            let median = |figure: usize| spread(figures[variant][part].iter().map(|figures| figures[figure]))[1];
            let row = std::array::from_fn::<_, FIGURES, _>(|figure| {
                format!("{:>11.*}", if figure < 5 { 0 } else { 2 }, median(figure))
            });
            println!("{}  {what}", row.concat());
        }
    }
    let million = child("million", true).unwrap_or_else(|reason| reason + "\n");
    print!("{million}");
    let all_ran = figures.values().flatten().flatten().all(|figures| figures[0] > 0.0);
    all_ran && million.contains("all accounted for")
}

/// Prints what we add in both parts, each with its verdict.
fn judge(more: [f64; 2], what: &str) {
    let verdict = more.map(|more| if more <= TARGET { "within" } else { "ABOVE" });
    println!("{:>+26.0}  {:>+26.0}  {what}: {}, {} the target of {TARGET}", more[0], more[1], verdict[0], verdict[1]);
}

/// The least, the median and the most.
fn spread(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}

fn child(variant: &str, span_each: bool) -> Result<String, String> {
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    if !span_each {
        program.env("SPAN_A_BATCH", "1");
    }
    let output = program.args(["launch_cost", variant]).stderr(Stdio::inherit()).output().expect("a child");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(format!("{variant} ended with {}", output.status)) }
}

/// One variant, in this process.
pub(crate) fn run(variant: &str) {
    match variant {
        "nothing" => measure(None, false),
        "nvtx" => measure(Some(install(Gpu::Off, &[])), false),
        "events" => measure(Some(install(Gpu::Events, &[])), true),
        "cupti" => alone(&KERNELS, false, false),
        "callbacks" => alone(&KERNELS, true, false),
        "flushes" => alone(&KERNELS, true, true),
        "cupti_api" => alone(&[&KERNELS[..], &CALLS[..]].concat(), false, false),
        "ours" => measure(Some(install(Gpu::Cupti, &[Report::Kernels])), false),
        "ours_api" => measure(Some(install(Gpu::Cupti, &[Report::Kernels, Report::Api])), false),
        "million" => million(),
        _ => panic!("{variant} is no variant"),
    }
}

struct Launcher {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    kernel: CudaFunction,
    /// A span around each launch, or around each batch.
    span_each: bool,
}

impl Launcher {
    fn new() -> Self {
        let context = CudaContext::new(0).expect("a CUDA device");
        let ptx = cudarc::nvrtc::compile_ptx(r#"extern "C" __global__ void empty() {}"#).expect("NVRTC");
        let kernel = context.load_module(ptx).and_then(|module| module.load_function("empty")).expect("the kernel");
        Self {
            stream: context.new_stream().expect("a stream"),
            kernel,
            context,
            span_each: std::env::var_os("SPAN_A_BATCH").is_none(),
        }
    }

    /// The times of the batches, without the waits, and what the thread took for them.
    fn launch(&self, count: usize) -> (Vec<Duration>, Usage) {
        let (function, stream) = (self.kernel.cu_function(), self.stream.cu_stream());
        let (mut batches, mut used) = (Vec::with_capacity(count / BATCH), Usage::default());
        let launch = || {
            #[allow(unsafe_code)]
            // SAFETY: the kernel takes nothing and does nothing; function and stream live as long as `self`.
            let status = unsafe { sys::cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, null_mut(), null_mut()) };
            assert!(status == sys::CUresult::CUDA_SUCCESS, "a launch");
        };
        for _ in 0..count / BATCH {
            let before = Usage::of_thread();
            let start = Instant::now();
            if self.span_each {
                (0..BATCH).for_each(|_| info_span!("launch").in_scope(launch));
            } else {
                info_span!("launch").in_scope(|| (0..BATCH).for_each(|_| launch()));
            }
            batches.push(start.elapsed());
            used += Usage::of_thread() - before;
            self.context.synchronize().expect("the device");
        }
        (batches, used)
    }
}

fn measure(profiler: Option<Profiler>, on_stream: bool) {
    let launcher = Launcher::new();
    let rounds = || {
        launcher.launch(LAUNCHES); // to warm up
        (0..ROUNDS).map(|_| launcher.launch(LAUNCHES)).collect::<Vec<_>>()
    };
    let rounds = if on_stream { with_stream(&launcher.stream, rounds) } else { rounds() };
    let a_launch = |time: Duration, launches: usize| time.as_nanos() as f64 / launches as f64;
    let [_, mean, _] = spread(rounds.iter().map(|(batches, _)| a_launch(batches.iter().sum(), LAUNCHES)));
    let (mut batches, mut used) = (Vec::new(), Usage::default());
    for (of_round, used_in_it) in rounds {
        batches.extend(of_round);
        used += used_in_it;
    }
    batches.sort_unstable();
    let batch = |percent: usize| a_launch(batches[(batches.len() - 1) * percent / 100], BATCH);
    let of_thread = [used.user, used.system].map(|time| a_launch(time, ROUNDS * LAUNCHES));
    let counts =
        [used.faults, used.waits, used.preemptions].map(|count| count as f64 * 1e3 / (ROUNDS * LAUNCHES) as f64);
    let figures: Figures = [mean, batch(50), batch(99), of_thread[0], of_thread[1], counts[0], counts[1], counts[2]];
    println!("figures {}", figures.map(|figure| format!("{figure:.3}")).join(" "));
    let Some(profiler) = profiler else { return };
    let summary = profiler.summary();
    if let Some(gpu) = &summary.gpu {
        let expected = ((ROUNDS + 1) * LAUNCHES) as u64;
        println!("{} of {expected} kernels recorded, {:?}", gpu.total.operations, summary.losses.activity);
    }
    summary.notes.iter().for_each(|note| println!("{note}"));
}

/// A million launches: what is in the table, what is counted as lost, and what it took in memory.
fn million() {
    const MILLION: u64 = 1_000_000;
    let profiler = install(Gpu::Cupti, &[Report::Kernels]);
    let launcher = Launcher::new();
    launcher.launch(LAUNCHES);
    let _warm = profiler.summary();
    profiler.reset();
    let before = status_kib("VmRSS");
    let start = Instant::now();
    launcher.launch(MILLION as usize);
    let seconds = start.elapsed().as_secs_f64();
    let after = status_kib("VmRSS");
    let summary = profiler.summary();
    let Some(gpu) = &summary.gpu else { panic!("nothing recorded: {:?}", summary.notes) };
    let in_table: u64 = gpu.kernels.iter().map(|row| row.times.instances).sum();
    let own = summary.tree.iter().find(|node| node.name == "launch").and_then(|node| node.gpu.as_ref());
    let attributed = own.map_or(0, |work| work.own.operations);
    let losses = summary.losses.activity;
    let lost = losses.dropped_records
        + losses.over_budget_records
        + losses.without_time
        + losses.outstanding
        + losses.unreadable_records;
    println!(
        "{MILLION} launches in {seconds:.2} s: {in_table} in the table, {attributed} in their span, {} outside, {} unmatched, {losses:?}",
        gpu.outside.operations, gpu.unmatched.operations
    );
    println!(
        "resident memory {before} KiB before, {:+} KiB after, {:+} KiB after the summary, at most {} KiB",
        after as i64 - before as i64,
        status_kib("VmRSS") as i64 - before as i64,
        status_kib("VmHWM")
    );
    let whole =
        in_table + lost == MILLION && attributed + gpu.unmatched.operations == in_table && gpu.outside.operations == 0;
    println!("{}", if whole { "all accounted for" } else { "SOME ARE NOT ACCOUNTED FOR" });
}

fn status_kib(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

const BUFFER: Layout = match Layout::from_size_align(4 << 20, 8) {
    Ok(layout) => layout,
    Err(_) => panic!("a layout"),
};

/// Buffers that CUPTI has given back.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

extern "C" fn request(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    #[allow(unsafe_code)]
    // SAFETY: CUPTI passes three places to write to; a buffer belongs to it until it gives it back.
    unsafe {
        *buffer = free.map_or_else(|| alloc_zeroed(BUFFER), |address| address as *mut u8);
        if (*buffer).is_null() {
            handle_alloc_error(BUFFER);
        }
        (*size, *records) = (BUFFER.size(), 0);
    }
}

/// Throws the records away.
extern "C" fn complete(_context: Raw, _stream: u32, buffer: *mut u8, _size: usize, _valid: usize) {
    FREE.lock().unwrap_or_else(PoisonError::into_inner).push(buffer as usize);
}

extern "C" fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[allow(unsafe_code)]
    // SAFETY: writes one struct.
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now);
    }
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

extern "C" fn called(_user: Raw, _domain: i32, _number: u32, _data: *const c_void) {}

/// CUPTI without this library, with a clock and callbacks at launches, and with a thread that flushes as often as ours does, if these are wanted.
fn alone(kinds: &[i32], callbacks: bool, flushes: bool) {
    const DRIVER_API: i32 = 1;
    const LAUNCH_KERNEL: u32 = 307;
    const PERIOD: Duration = Duration::from_millis(100);
    // The driver must be there before any function of CUPTI is called.
    assert!(CudaContext::device_count().is_ok_and(|count| count > 0), "no CUDA device");
    let cupti = Cupti::open().expect("CUPTI");
    #[allow(unsafe_code)]
    // SAFETY: the callbacks are functions of this program, kinds are numbers, and the subscriber is written before it is read.
    unsafe {
        if callbacks {
            let mut subscriber = null_mut();
            assert_eq!((cupti.subscribe)(&raw mut subscriber, called, null_mut()), 0, "cuptiSubscribe");
            assert_eq!((cupti.enable_callback)(1, subscriber, DRIVER_API, LAUNCH_KERNEL), 0, "cuptiEnableCallback");
            assert_eq!((cupti.clock)(monotonic), 0, "cuptiActivityRegisterTimestampCallback");
        }
        assert_eq!((cupti.register)(request, complete), 0, "cuptiActivityRegisterCallbacks");
        for &kind in kinds {
            assert_eq!((cupti.enable)(kind), 0, "cuptiActivityEnable({kind})");
        }
    }
    let flush = move || {
        #[allow(unsafe_code)]
        // SAFETY: no argument but a flag.
        unsafe {
            (cupti.flush)(0);
        }
    };
    if flushes {
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(PERIOD);
                flush();
            }
        });
    }
    measure(None, false);
    flush();
    println!("{} buffers of 4 MiB came back", FREE.lock().unwrap_or_else(PoisonError::into_inner).len());
}
