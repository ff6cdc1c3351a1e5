//! Two streams that keep both copy engines and the cores of a GPU busy at once, and the stream time of each.
//!
//! Thirty-two chunks of 4 MiB are copied to the device, scrambled there by a kernel and copied back. The chunks take
//! turns on two streams, each with a buffer of its own on the device, so that while one chunk is computed the next one
//! arrives and the one before leaves: a double-buffered pipeline. The host, whose memory is pinned, only queues the
//! work and waits once, at the end.
//!
//! The spans of one stream are timed because they are entered in `with_stream`, those of the other because a span above
//! them has the field `gpu.stream`. The table of stream time has a row for each span and stream. The sum over both
//! streams is more than the elapsed time: that is the gain.
//!
//! ```text
//! cargo run --release --example gpu_streams
//! nsys profile -t nvtx,cuda target/release/examples/gpu_streams
//! ```

use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DriverError, LaunchConfig, PinnedHostSlice, PushKernelArg,
};
use examples::gpu;
use fastrand::Rng;
use tracing::{info_span, instrument};
use tracing_gpu::{stream_id, with_stream};

const CHUNKS: usize = 32;
/// 32-bit words in a chunk.
const WORDS: usize = 1 << 20;
/// So many that the kernel takes a good part of the time of a copy.
const ROUNDS: u32 = 64;
const THREADS: u32 = 256;

/// [`scramble`], for each of `count` words.
const SOURCE: &str = r#"
extern "C" __global__ void scramble(unsigned *output, const unsigned *input, const unsigned count) {
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    unsigned word = input[i];
    for (unsigned round = 0; round < ROUNDS; ++round) {
        word += round;
        word ^= word >> 16;
        word *= 0x85ebca6bu;
        word ^= word >> 13;
        word *= 0xc2b2ae35u;
        word ^= word >> 16;
    }
    output[i] = word;
}
"#;

/// The finaliser of MurmurHash3, many times over. Nothing is rounded: the GPU's words equal the CPU's, bit by bit.
fn scramble(word: u32) -> u32 {
    (0..ROUNDS).fold(word, |word, round| {
        let word = word.wrapping_add(round);
        let word = (word ^ (word >> 16)).wrapping_mul(0x85eb_ca6b);
        let word = (word ^ (word >> 13)).wrapping_mul(0xc2b2_ae35);
        word ^ (word >> 16)
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = gpu::context().and_then(|context| {
        let module = gpu::compile(&context, SOURCE, &[("ROUNDS", ROUNDS), ("THREADS", THREADS)])?;
        Ok((context, module))
    });
    let (context, module) = match device {
        Ok(device) => device,
        Err(reason) => {
            eprintln!("no GPU used: {reason}; there is nothing to show without one");
            return Ok(());
        }
    };
    let kernel = module.load_function("scramble")?;
    let mut lanes = [Lane::new(&context)?, Lane::new(&context)?];
    let mut chunks = (0..CHUNKS).map(|_| Chunk::new(&context)).collect::<Result<Vec<_>, _>>()?;

    // Not profiled: a chunk for each stream, to warm up, and everything on the first stream, for comparison.
    measure(&mut lanes, &kernel, &mut chunks[..2], 0)?;
    let one_stream = measure(&mut lanes[..1], &kernel, &mut chunks, 1)?;

    let _profile = tracing_gpu::init();
    let two_streams = measure(&mut lanes, &kernel, &mut chunks, 2)?;
    println!("{CHUNKS} chunks of {} MiB: {one_stream:.2?} on one stream, {two_streams:.2?} on two", (WORDS * 4) >> 20);
    Ok(())
}

/// A stream, and its memory on the device, which its chunks use one after the other.
struct Lane {
    stream: Arc<CudaStream>,
    input: CudaSlice<u32>,
    output: CudaSlice<u32>,
}

impl Lane {
    fn new(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let stream = context.new_stream()?;
        Ok(Self { input: stream.alloc_zeros(WORDS)?, output: stream.alloc_zeros(WORDS)?, stream })
    }
}

/// Words before and after, on the host. Pinned, because the driver copies other memory through a buffer of its own and
/// blocks.
struct Chunk {
    input: PinnedHostSlice<u32>,
    output: PinnedHostSlice<u32>,
}

impl Chunk {
    fn new(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let pinned = || {
            #[allow(unsafe_code)]
            // SAFETY: any bits are a word, and `fill` writes all of them before they are read. No flags: ordinary,
            // cached memory.
            unsafe {
                context.alloc_pinned_with_flags(WORDS, 0)
            }
        };
        Ok(Self { input: pinned()?, output: pinned()? })
    }

    /// New words to scramble, and no result.
    fn fill(&mut self, random: &mut Rng) -> Result<(), DriverError> {
        let first = random.u32(..);
        for (index, word) in self.input.as_mut_slice()?.iter_mut().enumerate() {
            *word = first.wrapping_add(index as u32);
        }
        self.output.as_mut_slice()?.fill(0);
        Ok(())
    }

    /// The first wrong word.
    fn first_error(&self) -> Result<Option<usize>, DriverError> {
        let (input, output) = (self.input.as_slice()?, self.output.as_slice()?);
        Ok(input.iter().zip(output).position(|(&before, &after)| scramble(before) != after))
    }
}

/// The time of the pipeline, whose results are verified.
fn measure(
    lanes: &mut [Lane],
    kernel: &CudaFunction,
    chunks: &mut [Chunk],
    seed: u64,
) -> Result<Duration, Box<dyn Error>> {
    let mut random = Rng::with_seed(seed);
    chunks.iter_mut().try_for_each(|chunk| chunk.fill(&mut random))?;
    let start = Instant::now();
    run_pipeline(lanes, kernel, chunks)?;
    let elapsed = start.elapsed();
    verify(chunks)?;
    Ok(elapsed)
}

#[instrument(name = "Pipeline", skip_all)]
fn run_pipeline(lanes: &mut [Lane], kernel: &CudaFunction, chunks: &mut [Chunk]) -> Result<(), DriverError> {
    let lane_count = lanes.len();
    for (index, chunk) in chunks.iter_mut().enumerate() {
        let lane = &mut lanes[index % lane_count];
        let stream = lane.stream.clone();
        if index % 2 == 0 {
            // Sets the stream for every span that is entered inside.
            with_stream(&stream, || info_span!("even chunk").in_scope(|| process(lane, kernel, chunk)))?;
        } else {
            // Sets the stream for this span and those below it.
            let span = info_span!("odd chunk", gpu.stream = stream_id(&stream));
            span.in_scope(|| process(lane, kernel, chunk))?;
        }
    }
    wait(lanes)
}

fn process(lane: &mut Lane, kernel: &CudaFunction, chunk: &mut Chunk) -> Result<(), DriverError> {
    copy_in(lane, chunk)?;
    compute(lane, kernel)?;
    copy_out(lane, chunk)
}

/// Overwrites the previous chunk on this stream, which has been computed by then, because a stream works in order.
#[instrument(name = "copy in", skip_all)]
fn copy_in(lane: &mut Lane, chunk: &Chunk) -> Result<(), DriverError> {
    lane.stream.memcpy_htod(&chunk.input, &mut lane.input)
}

#[instrument(name = "compute", skip_all)]
fn compute(lane: &mut Lane, kernel: &CudaFunction) -> Result<(), DriverError> {
    let count = WORDS as u32;
    let config =
        LaunchConfig { grid_dim: (count.div_ceil(THREADS), 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
    let mut launch = lane.stream.launch_builder(kernel);
    launch.arg(&mut lane.output).arg(&lane.input).arg(&count);
    #[allow(unsafe_code)]
    // SAFETY: the arguments are the kernel's, and both buffers have `count` words.
    unsafe { launch.launch(config) }?;
    Ok(())
}

#[instrument(name = "copy out", skip_all)]
fn copy_out(lane: &Lane, chunk: &mut Chunk) -> Result<(), DriverError> {
    lane.stream.memcpy_dtoh(&lane.output, &mut chunk.output)
}

#[instrument(name = "wait", skip_all)]
fn wait(lanes: &[Lane]) -> Result<(), DriverError> {
    lanes.iter().try_for_each(|lane| lane.stream.synchronize())
}

/// Checks every word against the CPU.
fn verify(chunks: &[Chunk]) -> Result<(), Box<dyn Error>> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let share = |chunks: &[Chunk]| chunks.iter().map(Chunk::first_error).collect::<Result<Vec<_>, _>>();
    let errors = thread::scope(|scope| {
        let shares: Vec<_> =
            chunks.chunks(chunks.len().div_ceil(workers)).map(|part| scope.spawn(move || share(part))).collect();
        shares.into_iter().map(|share| share.join().expect("checking does not panic")).collect::<Result<Vec<_>, _>>()
    })?;
    match errors.iter().flatten().enumerate().find_map(|(chunk, error)| Some((chunk, (*error)?))) {
        Some((chunk, word)) => Err(format!("word {word} of chunk {chunk} is not what the CPU computes").into()),
        None => Ok(()),
    }
}
