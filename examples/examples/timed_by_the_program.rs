//! GPU work of another API than CUDA: the program reads the timestamps and hands them to the profiler.
//!
//! Here the timestamps are made up, so that the example runs anywhere. A renderer draws twenty frames. Each frame
//! submits two passes and an upload on another queue, and reads their timestamps back two frames later, as renderers
//! do. The tree then shows the busy time of the GPU beside the time on the CPU.
//!
//! ```text
//! cargo run --example timed_by_the_program
//! TRACING_GPU=html=run.html cargo run --example timed_by_the_program
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tracing::{info_span, instrument};
use tracing_gpu::{ClockPair, Profiler, Report, Submission, TimedQueue};
use tracing_subscriber::prelude::*;

const FRAMES: u64 = 20;
/// Number of frames until timestamps come back.
const LATENCY: usize = 2;

/// A GPU whose clock starts with it, and which executes its work in order.
struct Gpu {
    began: Instant,
    free_at: u64,
}

impl Gpu {
    fn clock(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The timestamps of work with this duration.
    fn run(&mut self, takes: Duration) -> (u64, u64) {
        let begin = self.free_at.max(self.clock());
        self.free_at = begin + u64::try_from(takes.as_nanos()).unwrap_or(u64::MAX);
        (begin, self.free_at)
    }
}

/// Submissions whose timestamps have not been read back yet.
type InFlight = Vec<(Submission, &'static str, (u64, u64))>;

#[instrument(skip_all)]
fn draw(gpu: &mut Gpu, queue: &TimedQueue) -> InFlight {
    let submission = queue.submit();
    let passes = [("shadows", 300), ("main pass", 900)];
    passes.map(|(name, micros)| (submission, name, gpu.run(Duration::from_micros(micros)))).into()
}

#[instrument(skip_all)]
fn upload(gpu: &mut Gpu, queue: &TimedQueue) -> InFlight {
    vec![(queue.submit(), "textures", gpu.run(Duration::from_micros(100)))]
}

fn read_back(queue: &TimedQueue, in_flight: InFlight) {
    for (submission, name, (begin, end)) in in_flight {
        queue.ran(submission, name, begin, end);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let profiler = Profiler::builder().report([Report::Tree, Report::Kernels]).build()?;
    tracing_subscriber::registry().with(profiler.layer()).init();

    let mut gpu = Gpu { began: Instant::now(), free_at: 0 };
    let clocks = ClockPair::now(gpu.clock());
    let (graphics, transfer) = (profiler.ingest("Made-up GPU", clocks), profiler.ingest("Made-up GPU", clocks));
    let mut waiting = VecDeque::new();
    for _ in 0..FRAMES {
        info_span!("frame").in_scope(|| {
            waiting.push_back((upload(&mut gpu, &transfer), draw(&mut gpu, &graphics)));
            if waiting.len() > LATENCY
                && let Some((uploaded, drawn)) = waiting.pop_front()
            {
                read_back(&transfer, uploaded);
                read_back(&graphics, drawn);
            }
        });
        std::thread::sleep(Duration::from_millis(1));
    }
    for (uploaded, drawn) in waiting {
        read_back(&transfer, uploaded);
        read_back(&graphics, drawn);
    }
    profiler.finish()?;
    Ok(())
}
