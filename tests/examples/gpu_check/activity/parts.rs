//! The parts of the workload: the same operations in the same order in every run.
//!
//! Kernels are 100 us to 2 ms long by the GPU's own clock. Before each part that is compared by time, a kernel of 2 ms
//! is queued on its streams, and everything else is queued while it runs. So the CPU's speed of enqueuing, under any
//! tool, makes no difference.

use std::ffi::c_void;
use std::future::Future;
use std::pin::{Pin, pin};
use std::ptr::null_mut;
use std::task::{Context, Poll, Waker};

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{DevicePtr, DevicePtrMut};
use tracing::{Instrument as _, Span, info_span};
use tracing_gpu::summary::MemoryKind;
use tracing_gpu::with_stream;

use super::ledger::Ledger;
use super::workload::{Kernel, Memory, Workload};
use crate::foreign::{Cublas, CudaRuntime};

/// The seed of the generated part.
const SEED: u64 = 2_026;
/// Rows and columns of the matrices for cuBLAS: a product takes some hundred microseconds.
const SIDE: usize = 2_048;
const PRODUCTS: u64 = 20;
/// Launches of the graph.
pub(crate) const REPLAYS: u64 = 3;
/// Calls that are captured into the graph and enqueue nothing. The profiler waits for their work until it ends.
pub(crate) const CAPTURED: u64 = 3;

/// Runs all parts, frees everything except the context, and returns the launches.
pub(crate) fn run() -> Ledger {
    let workload = Workload::new();
    let mut memory = workload.memory(0, 4 << 20);
    // Small: two threads share the engines that copy.
    let [mut first, mut second] = [0, 1].map(|stream| workload.memory(stream, 64 << 10));
    workload.outside(&mut memory);
    workload.recursion(1, "recurse");
    workload.copies(&mut memory);
    workload.lifetimes();
    workload.generated([&mut first, &mut second]);
    workload.futures();
    workload.timed();
    workload.graph(&mut memory);
    workload.products();
    workload.runtime_api();
    drop((memory, first, second));
    workload.end()
}

/// A step of the generated part.
enum Step {
    Span(&'static str, Vec<Step>),
    Kernel(usize, Kernel, u64),
    Upload,
    Download,
    Copy,
    Set,
}

impl Workload {
    /// Work outside of any span. It runs everything once, so that nothing is loaded later.
    fn outside(&self, memory: &mut Memory) {
        for kernel in Kernel::ALL {
            self.kernel("", 0, kernel, 150);
        }
        for pinned in [false, true] {
            self.upload("", 0, memory, pinned);
            self.download("", 0, memory, pinned);
        }
        self.copy("", 0, memory);
        self.set("", 0, memory);
        self.wait();
    }

    /// A span nested in itself.
    fn recursion(&self, depth: usize, place: &str) {
        if depth == 1 {
            self.ahead(&[0]);
        }
        info_span!("recurse").in_scope(|| {
            self.kernel(place, 0, Kernel::Relax, 200);
            if depth < 3 {
                self.recursion(depth + 1, &format!("{place}/recurse"));
            }
        });
        if depth == 1 {
            self.wait();
        }
    }

    fn copies(&self, memory: &mut Memory) {
        info_span!("copies").in_scope(|| {
            for _ in 0..3 {
                info_span!("pageable up").in_scope(|| self.upload("copies/pageable up", 0, memory, false));
                info_span!("pageable down").in_scope(|| self.download("copies/pageable down", 0, memory, false));
                info_span!("pinned up").in_scope(|| self.upload("copies/pinned up", 0, memory, true));
                info_span!("pinned down").in_scope(|| self.download("copies/pinned down", 0, memory, true));
                info_span!("on the device").in_scope(|| self.copy("copies/on the device", 0, memory));
                info_span!("set").in_scope(|| self.set("copies/set", 0, memory));
            }
            self.wait();
        });
    }

    /// Ranges from creation to close. Work launched between creation and entry is in the range but in no span. One is
    /// closed on the thread that created it, the other on another: Nsight projects only the first.
    fn lifetimes(&self) {
        self.ahead(&[0]);
        let request = info_span!("request", nvtx.lifetime = true);
        self.kernel("~request", 0, Kernel::Spin, 300);
        for _ in 0..2 {
            request.in_scope(|| self.kernel("~request/request", 0, Kernel::Scale, 300));
        }
        drop(request);
        let handed_over = info_span!("hand over", nvtx.lifetime = true);
        handed_over.in_scope(|| self.kernel("hand over", 0, Kernel::Scale, 300));
        std::thread::scope(|scope| {
            scope.spawn(move || drop(handed_over));
        });
        self.wait();
    }

    /// A random program for each of two threads: the first has two streams, the second one.
    fn generated(&self, memory: [&mut Memory; 2]) {
        let mut random = Random(SEED);
        let programs = [&[0, 2][..], &[1][..]].map(|streams| (streams, random.steps(0, streams)));
        std::thread::scope(|scope| {
            for ((streams, steps), memory) in programs.iter().zip(memory) {
                let thread = std::thread::Builder::new().name(format!("generated {streams:?}"));
                let body = move || {
                    self.ahead(streams);
                    self.execute("", streams[0], memory, steps);
                    streams.iter().for_each(|&stream| self.streams[stream].synchronize().expect("the device"));
                };
                thread.spawn_scoped(scope, body).expect("a thread");
            }
        });
    }

    fn execute(&self, place: &str, stream: usize, memory: &mut Memory, steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Span(name, ref steps) => {
                    let place = if place.is_empty() { name.to_owned() } else { format!("{place}/{name}") };
                    span(name).in_scope(|| self.execute(&place, stream, memory, steps));
                }
                Step::Kernel(stream, kernel, us) => self.kernel(place, stream, kernel, us),
                Step::Upload => self.upload(place, stream, memory, true),
                Step::Download => self.download(place, stream, memory, true),
                Step::Copy => self.copy(place, stream, memory),
                Step::Set => self.set(place, stream, memory),
            }
        }
    }

    /// Three tasks that take turns on this thread, each on a stream; then one that is polled on this thread, on others,
    /// and here again.
    fn futures(&self) {
        self.ahead(&[0, 1, 2]);
        let mut tasks: [_; 3] = [0, 1, 2].map(|stream| Box::pin(self.decode(stream).instrument(info_span!("decode"))));
        while !tasks.each_mut().map(|task| poll(task.as_mut())).iter().all(Poll::is_ready) {}
        self.wait();

        self.ahead(&[0]);
        let mut task = pin!(self.migrate().instrument(info_span!("migrate")));
        for turn in 0.. {
            let polled = if turn % 2 == 0 {
                poll(task.as_mut())
            } else {
                std::thread::scope(|scope| scope.spawn(|| poll(task.as_mut())).join().expect("the thread"))
            };
            if polled.is_ready() {
                break;
            }
        }
        self.wait();
    }

    async fn decode(&self, stream: usize) {
        for _ in 0..3 {
            self.kernel("decode", stream, Kernel::Filter, 150);
            info_span!("sample").in_scope(|| self.kernel("decode/sample", stream, Kernel::Relax, 120));
            pause().await;
        }
    }

    async fn migrate(&self) {
        for _ in 0..4 {
            self.kernel("migrate", 0, Kernel::Filter, 250);
            pause().await;
        }
    }

    /// On a named stream: the profiler's own event records must be in no table.
    fn timed(&self) {
        self.ahead(&[0]);
        with_stream(&self.streams[0], || {
            for _ in 0..3 {
                info_span!("timed").in_scope(|| self.kernel("timed", 0, Kernel::Spin, 400));
            }
        });
        self.wait();
    }

    fn graph(&self, memory: &mut Memory) {
        let stream = &self.streams[1];
        self.wait();
        let graph = info_span!("capture").in_scope(|| {
            stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).expect("a capture");
            self.launch(1, Kernel::Spin, 200);
            self.set_silently(1, memory);
            self.launch(1, Kernel::Filter, 300);
            let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
            stream.end_capture(flags).expect("the capture is whole").expect("a graph")
        });
        self.ahead(&[1]);
        for _ in 0..REPLAYS {
            info_span!("replay").in_scope(|| {
                graph.launch().expect("a launch");
                let kernels = [(Kernel::Spin, 200_000), (Kernel::Filter, 300_000)];
                self.ledger.graph("replay", &kernels, memory.bytes());
            });
        }
        self.wait();
    }

    /// Products of matrices of ones by cuBLAS: every number of the result is the number of columns.
    #[allow(unsafe_code)]
    fn products(&self) {
        let cublas = Cublas::open().expect("cuBLAS");
        let stream = &self.streams[0];
        let ones = vec![1.0_f32; SIDE * SIDE];
        let bytes = (ones.len() * size_of::<f32>()) as u64;
        let [a, b] = info_span!("matrices").in_scope(|| {
            [(); 2].map(|()| {
                self.ledger.memory("matrices", MemoryKind::HtoD, bytes);
                stream.clone_htod(&ones).expect("a matrix")
            })
        });
        // SAFETY: any bits are a number.
        let mut c = unsafe { stream.alloc::<f32>(SIDE * SIDE) }.expect("memory");
        let mut handle = null_mut();
        let multiply = |handle, c: u64| {
            let (one, zero, side) = (1.0_f32, 0.0_f32, SIDE as i32);
            let ((a, _), (b, _)) = (a.device_ptr(stream), b.device_ptr(stream));
            // SAFETY: three matrices of `SIDE` by `SIDE` on the stream that the handle was given, and two factors on
            // the host.
            let status = unsafe {
                (cublas.sgemm)(
                    handle,
                    0,
                    0,
                    side,
                    side,
                    side,
                    &raw const one,
                    a,
                    side,
                    b,
                    side,
                    &raw const zero,
                    c,
                    side,
                )
            };
            assert_eq!(status, 0, "cublasSgemm");
        };
        info_span!("cublas create").in_scope(|| {
            // SAFETY: writes one handle, and gives it a stream that lives.
            let status = unsafe {
                [(cublas.create)(&raw mut handle), (cublas.set_stream)(handle, stream.cu_stream().cast::<c_void>())]
            };
            assert_eq!(status, [0, 0], "cublasCreate");
            multiply(handle, c.device_ptr_mut(stream).0);
            self.ledger.foreign("cublas create", 1);
        });
        self.wait();
        self.ahead(&[0]);
        info_span!("sgemm").in_scope(|| {
            for _ in 0..PRODUCTS {
                multiply(handle, c.device_ptr_mut(stream).0);
                self.ledger.foreign("sgemm", 1);
            }
        });
        self.wait();
        let last = info_span!("last number").in_scope(|| {
            self.ledger.memory("last number", MemoryKind::DtoH, size_of::<f32>() as u64);
            stream.clone_dtoh(&c.slice(c.len() - 1..)).expect("a number")
        });
        self.wait();
        assert_eq!(last, [SIDE as f32], "cuBLAS multiplies");
        // SAFETY: the handle is used no more.
        assert_eq!(unsafe { (cublas.destroy)(handle) }, 0);
    }

    /// A user of the runtime API, like a C++ program.
    #[allow(unsafe_code)]
    fn runtime_api(&self) {
        let runtime = CudaRuntime::open().expect("the CUDA runtime");
        let (there, mut back) = (vec![5_u8; 1 << 20], vec![0_u8; 1 << 20]);
        let bytes = there.len();
        info_span!("runtime API").in_scope(|| {
            let mut device = null_mut();
            // SAFETY: memory of `bytes` bytes on the device and in both vectors. 1 means to the device, 2 from it.
            let status = unsafe {
                [
                    (runtime.malloc)(&raw mut device, bytes),
                    (runtime.memcpy)(device, there.as_ptr().cast(), bytes, 1),
                    (runtime.memcpy)(back.as_mut_ptr().cast(), device, bytes, 2),
                    (runtime.synchronize)(),
                    (runtime.free)(device),
                ]
            };
            assert_eq!(status, [0; 5], "the runtime's answers");
            self.ledger.memory("runtime API", MemoryKind::HtoD, bytes as u64);
            self.ledger.memory("runtime API", MemoryKind::DtoH, bytes as u64);
        });
        assert_eq!(there, back, "what is copied there and back");
    }
}

/// A call site for each name, as in an annotated program; the last is named at run time.
fn span(name: &'static str) -> Span {
    match name {
        "load" => info_span!("load"),
        "forward" => info_span!("forward"),
        "attention" => info_span!("attention"),
        "project" => info_span!("project"),
        _ => info_span!("layer", nvtx.name = name),
    }
}

const NAMES: [&str; 6] = ["load", "forward", "attention", "project", "layer 1", "layer 2"];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % bound
    }

    fn kernel(&mut self, streams: &[usize]) -> Step {
        let longest = if self.below(8) == 0 { 2_000 } else { 600 };
        let stream = streams[self.below(streams.len() as u64) as usize];
        Step::Kernel(stream, Kernel::ALL[self.below(4) as usize], 100 + self.below(longest - 99))
    }

    /// Every span launches something itself.
    fn steps(&mut self, depth: usize, streams: &[usize]) -> Vec<Step> {
        let mut steps = Vec::new();
        if depth > 0 {
            steps.push(self.kernel(streams));
        }
        let more = if depth == 0 { 6 } else { 1 + self.below(4) };
        for _ in 0..more {
            steps.push(match self.below(10) {
                choice if depth == 0 || (choice < 3 && depth < 4) => {
                    let name = NAMES[self.below(NAMES.len() as u64) as usize];
                    Step::Span(name, self.steps(depth + 1, streams))
                }
                0..=5 => self.kernel(streams),
                6 => Step::Upload,
                7 => Step::Download,
                8 => Step::Copy,
                _ => Step::Set,
            });
        }
        steps
    }
}

fn poll<F: Future>(task: Pin<&mut F>) -> Poll<F::Output> {
    task.poll(&mut Context::from_waker(Waker::noop()))
}

/// Is pending once.
async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|_| if std::mem::replace(&mut paused, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}
