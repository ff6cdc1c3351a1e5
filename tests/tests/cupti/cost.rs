//! The cost of launches in this library: page faults, context switches and other threads' time, at the pace of a real
//! GPU. Run by hand, for figures and under callgrind.
//!
//! ```text
//! LD_LIBRARY_PATH=driver TRACING_GPU_CUPTI=libcupti.so.13 \
//!     cupti_child cost LAUNCHES [each | outside] [api | why] [fast] [once] [subscriber]
//! ```
//!
//! `each`: a span around each launch, instead of around 1,000; `outside`: no spans; `api`: with API tables; `why`: with
//! the reports of the command; `fast`: without pauses; `once`: one round instead of four; `subscriber`: without a
//! registry.

use std::time::{Duration, Instant};

use tests::usage::Usage;
use tracing::info_span;
use tracing_gpu::{Gpu, Output, Profiler, Report};

use crate::fake::Fake;
use crate::profiler::{HANDLE, activity, start};

const BATCH: u32 = 1_000;
/// The duration of a batch.
const PACE: Duration = Duration::from_micros(3_000);

pub(crate) fn run(fake: &Fake, launches: &str, options: &[&str]) {
    let launches: u32 = launches.parse().expect("a number of launches");
    let is = |option: &str| options.contains(&option);
    let reports: &[Report] = match (is("api"), is("why")) {
        (true, _) => &[Report::Kernels, Report::Api],
        (_, true) => &[Report::Why, Report::Tree, Report::Ranges, Report::Hot],
        _ => &[Report::Kernels],
    };
    let builder = Profiler::builder().gpu(Gpu::Cupti).report(reports.iter().copied()).output(Output::None);
    let profiler = start(builder, if is("subscriber") { "subscriber" } else { "layer" });
    let launch = fake.launcher(HANDLE, c"spin", 10);
    let mut next = 1;
    let mut round = || {
        let (mut busy, all) = (Duration::ZERO, Instant::now());
        for batch in 0..launches / BATCH {
            let begun = Instant::now();
            if is("each") {
                (next..next + BATCH).for_each(|id| info_span!("launch").in_scope(|| launch(id)));
            } else if is("outside") {
                (next..next + BATCH).for_each(&launch);
            } else {
                info_span!("launch").in_scope(|| (next..next + BATCH).for_each(&launch));
            }
            next += BATCH;
            busy += begun.elapsed();
            while !is("fast") && all.elapsed() < PACE * (batch + 1) {
                std::hint::spin_loop();
            }
        }
        busy
    };
    let rounds = if is("once") { 1 } else { 4 };
    for _ in 0..rounds {
        let (thread, process) = (Usage::of_thread(), Usage::of_process());
        let busy = round();
        let (thread, process) = (Usage::of_thread() - thread, Usage::of_process() - process);
        let others = process - thread;
        println!("{} ns a launch; thread {thread:?}; others {others:?}", busy.as_nanos() / u128::from(launches));
    }
    let summary = profiler.summary();
    println!("{} operations, {:?}", activity(&summary).total.operations, summary.losses.activity);
    profiler.finish().expect("nothing to be written");
}
