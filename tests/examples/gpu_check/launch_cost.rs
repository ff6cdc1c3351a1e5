//! The CPU cost of a launch: with no tool, with this library, and with CUPTI alone.
//!
//! Every variant is a process with the same loop: launches of an empty kernel, a span around each or around 1,000, and
//! after every 1,000 a wait, so that the queue of launches, some 1,000 long, never fills. Only the launches are timed.
//!
//! A machine's speed changes from second to second and from process to process, by more than the measured cost. So all
//! processes live at the same time and take turns of some 50 ms on one processor, while the others wait. Ours and CUPTI
//! alone are neighbours in alternating order. All are restarted several times, each time on another processor. The
//! first batch of a turn is counted separately: after half a second of waiting its caches are cold and, with flushes,
//! nothing is ready in CUPTI, which a continuously launching program does not experience. Our additional cost is judged
//! by the medians of both, by the median of differences between neighbours, and by the 5th percentile of each.
//!
//! A second table shows the distribution: whether all launches are slower or only some (the typical, the slowest and
//! the first batches), whether the thread or the kernel took the time, and the cost of the two unavoidable parts:
//! CUPTI's callbacks, and flushes from another thread.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, sys};
use tests::usage::Usage;
use tracing::info_span;
use tracing_gpu::{Gpu, Profiler, Report, SummaryExt as _, with_stream};

use super::alone::Alone;
use super::device::install;

const BATCH: usize = 1_000;
/// Number of batches of a turn after its first one, and of the warm-up.
const TURN: usize = 10;
const WARM: usize = 60;
/// Number of turns of a judged process. Explanatory processes have one turn in each [`EXPLAINED`] of these.
const TURNS: usize = 64;
const EXPLAINED: usize = 8;
/// How often all processes are started.
const STARTS: usize = 3;
/// The nanoseconds a launch that this library may add to CUPTI's own.
const TARGET: f64 = 250.0;

/// The variable with the processor on which a process launches, as an index into those that it may use. Other threads,
/// including CUPTI's, may run on any processor.
const PROCESSOR: &str = "PROCESSOR";

/// Argument and title. Without a profiler there is no subscriber, so spans are disabled.
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
/// The judged pairs: CUPTI alone and ours, which run directly after one another.
const JUDGED: [([&str; 2], &str); 2] =
    [(["cupti", "ours"], "without API tables"), (["cupti_api", "ours_api"], "with API tables")];

const KERNELS: [i32; 3] = [10, 1, 2]; // CONCURRENT_KERNEL, MEMCPY, MEMSET
const CALLS: [i32; 2] = [5, 4]; // RUNTIME, DRIVER

/// The figures of a turn. The first six are ns a launch: on average, in the median batch, in the slowest and in the
/// first (which the other figures leave out), in the thread's own code and in the system's kernel. The last three are
/// page faults, waits and preemptions per 1,000 launches.
const FIGURES: usize = 9;
/// How many of the figures are times.
const TIMES: usize = 6;
type Figures = [f64; FIGURES];
const NAMED: [&str; FIGURES] =
    ["mean", "typical", "slowest", "first", "user", "kernel", "faults", "waits", "preempted"];

/// The figures of a variant in all turns: with a span around each launch, and around 1,000.
type Parts = [Vec<Figures>; 2];

/// The order of launches in a turn, as variant and part. Neighbours stay neighbours; the first of a pair, and the first
/// pair, change from turn to turn.
fn order(turn: usize) -> Vec<(&'static str, usize)> {
    let mut order = Vec::new();
    for number in 0..2 * JUDGED.len() {
        let (pair, part) = ((number + turn) % JUDGED.len(), number / JUDGED.len());
        let mut neighbours = JUDGED[pair].0;
        if (turn + part) % 2 == 1 {
            neighbours.reverse();
        }
        order.extend(neighbours.map(|variant| (variant, part)));
    }
    if turn.is_multiple_of(EXPLAINED) {
        let is_judged = |variant| JUDGED.iter().any(|(pair, _)| pair.contains(&variant));
        let explained = VARIANTS.iter().map(|(variant, _)| *variant).filter(|variant| !is_judged(*variant));
        order.extend(explained.flat_map(|variant| [(variant, 0), (variant, 1)]));
    }
    order
}

/// A process of one variant, which waits for its turns.
struct Waiting {
    process: Child,
    ask: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Waiting {
    fn start(variant: &str, part: usize, processor: usize) -> Self {
        let mut program = Command::new(std::env::current_exe().expect("this program"));
        program.env(PROCESSOR, processor.to_string());
        if part == 1 {
            program.env("SPAN_A_BATCH", "1");
        }
        program.args(["launch_cost", variant]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = program.spawn().expect("a child");
        let ask = process.stdin.take().expect("its input");
        let answers = BufReader::new(process.stdout.take().expect("its output")).lines();
        let mut waiting = Self { process, ask, answers };
        waiting.answer(); // it reports that it is ready
        waiting
    }

    /// The next line; empty if the process has ended, which [`end`](Self::end) detects.
    fn answer(&mut self) -> String {
        self.answers.next().and_then(Result::ok).unwrap_or_default()
    }

    /// The figures of one turn; zeros if the process has ended.
    fn turn(&mut self) -> Figures {
        let mut figures = [0.0; FIGURES];
        if writeln!(self.ask, "go").is_ok() {
            let answer = self.answer();
            let numbers = answer.split(' ').map(|number| number.parse().unwrap_or(0.0));
            figures.iter_mut().zip(numbers).for_each(|(figure, number)| *figure = number);
        }
        figures
    }

    /// Its remaining output. Checks that it ended well.
    fn end(self) -> Vec<String> {
        let Self { mut process, ask, answers } = self;
        drop(ask);
        let mut said: Vec<String> = answers.map_while(Result::ok).collect();
        let status = process.wait().expect("the child's status");
        if !status.success() {
            said.push(format!("ended with {status}"));
        }
        said
    }
}

/// Runs all variants, then a million launches. Returns whether all ran, and the million is accounted for.
pub(crate) fn run_all() -> bool {
    println!(
        "ns a launch, median (least - most) of {STARTS} x {TURNS} turns of {TURN} x {BATCH} launches, or of a {EXPLAINED}th of these where they only explain"
    );
    println!("{:>26}  {:>26}", "a span a launch", "a span for 1,000");
    let mut figures: HashMap<&str, Parts> = HashMap::new();
    let mut remarks: HashMap<&str, Vec<String>> = HashMap::new();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    for start in 0..STARTS {
        let processor = (2 * start + 1) * processors / (2 * STARTS);
        let all = VARIANTS.iter().flat_map(|(variant, _)| [(*variant, 0), (*variant, 1)]);
        let mut waiting: HashMap<_, _> = all.map(|who| (who, Waiting::start(who.0, who.1, processor))).collect();
        for who in (0..TURNS).flat_map(order) {
            let turn = waiting.get_mut(&who).map_or([0.0; FIGURES], Waiting::turn);
            figures.entry(who.0).or_default()[who.1].push(turn);
        }
        for ((variant, _), waiting) in waiting {
            remarks.insert(variant, waiting.end());
        }
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
        let least = |variant, part: usize| {
            let mut means: Vec<f64> = figures[variant][part].iter().map(|figures| figures[0]).collect();
            means.sort_by(f64::total_cmp);
            means[means.len() / 20]
        };
        judge(
            [0, 1].map(|part| least(ours, part) - least(alone, part)),
            &format!("ours - CUPTI alone, {what}: least of twenty"),
        );
        judge([0, 1].map(|part| differences(part, 0)[1]), &format!("ours - CUPTI alone, {what}: median of neighbours"));
        for (figure, name) in [(0, "means"), (1, "typical batches"), (2, "slowest batches"), (3, "first batches")] {
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
                format!("{:>11.*}", if figure < TIMES { 0 } else { 2 }, median(figure))
            });
            println!("{}  {what}", row.concat());
        }
    }
    let million = Waiting::start("million", 0, 0).end().join("\n");
    println!("{million}");
    let all_ran = figures.values().flatten().flatten().all(|figures| figures[0] > 0.0);
    all_ran && million.contains("all accounted for")
}

/// Prints the additional cost in both parts, each with its verdict.
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

/// One variant, in this process: a line of its input asks for a turn.
pub(crate) fn run(variant: &str) {
    match variant {
        "nothing" => measure(None, false),
        "nvtx" => measure(Some(install(Gpu::Off, &[])), false),
        "events" => measure(Some(install(Gpu::Events, &[])), true),
        "cupti" => measure_alone(&KERNELS, false, false),
        "callbacks" => measure_alone(&KERNELS, true, false),
        "flushes" => measure_alone(&KERNELS, true, true),
        "cupti_api" => measure_alone(&[&KERNELS[..], &CALLS[..]].concat(), false, false),
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

    /// The times of some batches without the waits, and the thread's resource usage.
    fn launch(&self, batches: usize) -> (Vec<Duration>, Usage) {
        let (function, stream) = (self.kernel.cu_function(), self.stream.cu_stream());
        let (mut times, mut used) = (Vec::with_capacity(batches), Usage::default());
        let launch = || {
            #[allow(unsafe_code)]
            // SAFETY: the kernel takes nothing and does nothing; function and stream live as long as `self`.
            let status = unsafe { sys::cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, null_mut(), null_mut()) };
            assert!(status == sys::CUresult::CUDA_SUCCESS, "a launch");
        };
        for _ in 0..batches {
            let before = Usage::of_thread();
            let start = Instant::now();
            if self.span_each {
                (0..BATCH).for_each(|_| info_span!("launch").in_scope(launch));
            } else {
                info_span!("launch").in_scope(|| (0..BATCH).for_each(|_| launch()));
            }
            times.push(start.elapsed());
            used += Usage::of_thread() - before;
            self.context.synchronize().expect("the device");
        }
        (times, used)
    }

    /// One turn.
    fn figures(&self) -> Figures {
        let a_launch = |time: Duration, batches: usize| time.as_nanos() as f64 / (batches * BATCH) as f64;
        let first = a_launch(self.launch(1).0.iter().sum(), 1);
        let (mut batches, used) = self.launch(TURN);
        let mean = a_launch(batches.iter().sum(), TURN);
        batches.sort_unstable();
        let [typical, slowest] = [TURN / 2, TURN - 1].map(|number| a_launch(batches[number], 1));
        let [user, kernel] = [used.user, used.system].map(|time| a_launch(time, TURN));
        let [faults, waits, preempted] =
            [used.faults, used.waits, used.preemptions].map(|count| count as f64 * 1e3 / (TURN * BATCH) as f64);
        [mean, typical, slowest, first, user, kernel, faults, waits, preempted]
    }
}

/// Pins this thread to its processor, if it has one.
fn stay_on_processor() {
    let Some(number) = std::env::var(PROCESSOR).ok().and_then(|number| number.parse().ok()) else { return };
    #[allow(unsafe_code)]
    // SAFETY: a set of processors is plain bits, and may be empty; the calls read and write its size; the queried
    // processors are in it.
    let is_there = unsafe {
        let (mut all, mut only): (libc::cpu_set_t, libc::cpu_set_t) = std::mem::zeroed();
        let known = libc::sched_getaffinity(0, size_of_val(&all), &raw mut all) == 0;
        let processor =
            (0..libc::CPU_SETSIZE as usize).filter(|&processor| libc::CPU_ISSET(processor, &all)).nth(number);
        known
            && processor.is_some_and(|processor| {
                libc::CPU_SET(processor, &mut only);
                libc::sched_setaffinity(0, size_of_val(&only), &raw const only) == 0
            })
    };
    assert!(is_there, "processor {number} of those that this process may use");
}

fn measure(profiler: Option<Profiler>, on_stream: bool) {
    let launcher = Launcher::new();
    let turns = || {
        launcher.launch(WARM);
        stay_on_processor();
        println!("ready");
        let asked = std::io::stdin().lines().map_while(Result::ok);
        asked.map(|_| println!("{}", launcher.figures().map(|figure| format!("{figure:.3}")).join(" "))).count()
    };
    let turns = if on_stream { with_stream(&launcher.stream, turns) } else { turns() };
    let Some(profiler) = profiler else { return };
    let summary = profiler.summary();
    if let Some(gpu) = &summary.gpu {
        let expected = (WARM + turns * (1 + TURN)) * BATCH;
        println!("{} of {expected} kernels recorded, {:?}", gpu.total.operations, summary.losses.activity);
    }
    summary.notes_as_text().iter().for_each(|note| println!("{note}"));
}

/// Makes a million launches, or `LAUNCHES` from the environment, and checks the count in the table, the losses and the
/// memory. `gpu_check launch_cost million` runs only this.
fn million() {
    let asked = std::env::var("LAUNCHES").ok().and_then(|launches| launches.parse().ok()).unwrap_or(1_000_000);
    let batches = usize::div_ceil(asked, BATCH);
    let launches = (batches * BATCH) as u64;
    println!("ready");
    let profiler = install(Gpu::Cupti, &[Report::Kernels]);
    let launcher = Launcher::new();
    launcher.launch(WARM);
    let _warm = profiler.summary();
    profiler.reset();
    let before = status_kib("VmRSS");
    let start = Instant::now();
    launcher.launch(batches);
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
        "{launches} launches in {seconds:.2} s: {in_table} in the table, {attributed} in their span, {} outside, {} unmatched, {losses:?}",
        gpu.outside.operations, gpu.unmatched.operations
    );
    println!(
        "resident memory {before} KiB before, {:+} KiB after, {:+} KiB after the summary, at most {} KiB",
        after as i64 - before as i64,
        status_kib("VmRSS") as i64 - before as i64,
        status_kib("VmHWM")
    );
    let whole =
        in_table + lost == launches && attributed + gpu.unmatched.operations == in_table && gpu.outside.operations == 0;
    println!("{}", if whole { "all accounted for" } else { "SOME ARE NOT ACCOUNTED FOR" });
}

fn status_kib(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

fn measure_alone(kinds: &[i32], callbacks: bool, flushes: bool) {
    let cupti = Alone::start(kinds, callbacks, flushes);
    measure(None, false);
    println!("{} buffers of 4 MiB came back", cupti.end());
}
