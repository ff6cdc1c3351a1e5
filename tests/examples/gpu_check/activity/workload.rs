//! A device with three streams and four kernels, and every kind of GPU work, each noted where it is launched.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr, PinnedHostSlice, PushKernelArg};
use tracing_gpu::summary::MemoryKind;

use super::ledger::Ledger;
use crate::device::ONE;

/// `extern "C"` and C++ names, one of them of a template in a namespace.
const SOURCE: &str = r#"
__device__ void wait(unsigned long long ns) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (now - start < ns);
}
extern "C" __global__ void spin(float *value, unsigned long long ns) { wait(ns); *value = 1; }
extern "C" __global__ void relax(float *value, unsigned long long ns) { wait(ns); *value = 2; }
__global__ void scale(float *value, unsigned long long ns) { wait(ns); *value *= 2; }
namespace image {
    template <typename T, int Taps> __global__ void filter(T *value, unsigned long long ns) { wait(ns); *value += Taps; }
    template __global__ void filter<float, 4>(float *, unsigned long long);
}
"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kernel {
    Spin,
    Relax,
    Scale,
    Filter,
}

impl Kernel {
    pub(crate) const ALL: [Self; 4] = [Self::Spin, Self::Relax, Self::Scale, Self::Filter];

    fn symbol(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Relax => "relax",
            Self::Scale => "_Z5scalePfy",
            Self::Filter => "_ZN5image6filterIfLi4EEEvPT_y",
        }
    }

    /// The start of its name as a person writes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Relax => "relax",
            Self::Scale => "scale(float",
            Self::Filter => "void image::filter<float, ",
        }
    }

    pub(crate) fn is_named(self, name: &str) -> bool {
        match self {
            Self::Spin | Self::Relax => name == self.name(),
            Self::Scale | Self::Filter => name.starts_with(self.name()),
        }
    }
}

pub(crate) struct Workload {
    pub(super) context: Arc<CudaContext>,
    pub(super) streams: [Arc<CudaStream>; 3],
    /// The memory that the kernels write: a number for each stream.
    values: [CudaSlice<f32>; 3],
    kernels: [CudaFunction; 4],
    pub(super) ledger: Ledger,
}

/// Memory on both sides, for one thread.
pub(crate) struct Memory {
    pinned: PinnedHostSlice<u8>,
    pageable: Vec<u8>,
    device: [CudaSlice<u8>; 2],
}

impl Memory {
    pub(super) fn bytes(&self) -> u64 {
        self.pageable.len() as u64
    }
}

#[allow(unsafe_code)]
impl Workload {
    pub(super) fn new() -> Self {
        let context = CudaContext::new(0).expect("a CUDA device");
        // SAFETY: the code below orders its accesses itself: each memory has one stream, or a wait comes between.
        unsafe {
            context.disable_event_tracking();
        }
        let ptx = cudarc::nvrtc::compile_ptx(SOURCE).expect("NVRTC");
        let module = context.load_module(ptx).expect("the module");
        let streams = [(); 3].map(|()| context.new_stream().expect("a stream"));
        Self {
            kernels: Kernel::ALL.map(|kernel| module.load_function(kernel.symbol()).expect("the kernel")),
            // SAFETY: any bits are a number.
            values: [0, 1, 2].map(|index: usize| unsafe { streams[index].alloc(1) }.expect("memory")),
            streams,
            context,
            ledger: Ledger::default(),
        }
    }

    pub(super) fn memory(&self, stream: usize, bytes: usize) -> Memory {
        // SAFETY: any bits are a byte.
        let device = [(); 2].map(|()| unsafe { self.streams[stream].alloc(bytes) }.expect("memory"));
        // SAFETY: as above; the memory is written before it is read.
        let mut pinned = unsafe { self.context.alloc_pinned_with_flags::<u8>(bytes, 0) }.expect("pinned memory");
        pinned.as_mut_slice().expect("nothing to wait for").fill(7);
        self.context.synchronize().expect("the device");
        Memory { pinned, pageable: vec![9; bytes], device }
    }

    /// Launches without a note: captured work is noted at the graph's launch.
    pub(super) fn launch(&self, stream: usize, kernel: Kernel, us: u64) {
        let ns = us * 1_000;
        let (value, _no_tracking) = self.values[stream].device_ptr(&self.streams[stream]);
        let mut launch = self.streams[stream].launch_builder(&self.kernels[kernel as usize]);
        // SAFETY: the kernels take a pointer to a number, which is the stream's own, and a 64-bit integer.
        unsafe { launch.arg(&value).arg(&ns).launch(ONE) }.expect("a launch");
    }

    pub(super) fn kernel(&self, place: &str, stream: usize, kernel: Kernel, us: u64) {
        self.launch(stream, kernel, us);
        self.ledger.kernel(place, kernel, us * 1_000);
    }

    /// Keeps these streams busy while the next work is queued.
    pub(super) fn ahead(&self, streams: &[usize]) {
        streams.iter().for_each(|&stream| self.kernel("", stream, Kernel::Spin, 2_000));
    }

    pub(super) fn wait(&self) {
        self.streams.iter().for_each(|stream| stream.synchronize().expect("the device"));
    }

    pub(super) fn upload(&self, place: &str, stream: usize, memory: &mut Memory, pinned: bool) {
        let (stream, device) = (&self.streams[stream], &mut memory.device[0]);
        let copied = if pinned {
            stream.memcpy_htod(&memory.pinned, device)
        } else {
            stream.memcpy_htod(&memory.pageable, device)
        };
        copied.expect("a copy");
        self.ledger.memory(place, MemoryKind::HtoD, memory.bytes());
    }

    pub(super) fn download(&self, place: &str, stream: usize, memory: &mut Memory, pinned: bool) {
        let (stream, device) = (&self.streams[stream], &memory.device[0]);
        let copied = if pinned {
            stream.memcpy_dtoh(device, &mut memory.pinned)
        } else {
            stream.memcpy_dtoh(device, &mut memory.pageable)
        };
        copied.expect("a copy");
        self.ledger.memory(place, MemoryKind::DtoH, memory.bytes());
    }

    pub(super) fn copy(&self, place: &str, stream: usize, memory: &mut Memory) {
        let [from, to] = &mut memory.device;
        self.streams[stream].memcpy_dtod(from, to).expect("a copy");
        self.ledger.memory(place, MemoryKind::DtoD, memory.bytes());
    }

    /// Without a note, as [`launch`](Self::launch).
    pub(super) fn set_silently(&self, stream: usize, memory: &mut Memory) {
        self.streams[stream].memset_zeros(&mut memory.device[1]).expect("a set");
    }

    pub(super) fn set(&self, place: &str, stream: usize, memory: &mut Memory) {
        self.set_silently(stream, memory);
        self.ledger.memory(place, MemoryKind::Set, memory.bytes());
    }

    /// Frees everything except the context, so that every tool sees it until the end and none sees its destruction.
    pub(super) fn end(self) -> Ledger {
        self.context.synchronize().expect("the device");
        std::mem::forget(self.context);
        self.ledger
    }
}
