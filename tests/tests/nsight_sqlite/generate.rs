//! A random program with some threads and GPUs, from a seed, in the form in which the profiler passes it to a file: the
//! only order is that of the ends of each thread's ranges.

use range_model::timeline::{Api, Kernel, Memory, Work};
use range_model::timeline::{ApiCall, Item, Mark, Operation, Range};
use tracing_gpu::summary::{MemoryKind, RangeStyle};

pub(crate) const PROCESS: u32 = 4242;

/// No name with its domain is longer than the header of its column: beyond the hundredth row, our tables cut names that
/// are longer than all before.
const DOMAINS: [Option<&str>; 4] = [None, None, Some("app"), Some("ß.x")];
const NAMES: [&str; 7] = ["step", "load", "in put", "a:b", "日本語", "1000", "k, v"];
pub(crate) const KERNELS: [(&str, &str, [i32; 3], [i32; 3]); 4] = [
    ("void vec_add<float>(T1 *, const T1 *, int)", "_Z7vec_addIfEvPT_PKS0_i", [64, 1, 1], [256, 1, 1]),
    ("gemm(float *, float *, float *, int)", "_Z4gemmPfS_S_i", [128, 2, 1], [16, 16, 1]),
    (
        "void (anonymous namespace)::scan<(int)4>(unsigned int *)",
        "_ZN12_GLOBAL__N_14scanILi4EEEvPj",
        [1, 1, 1],
        [1024, 1, 1],
    ),
    ("saxpy", "saxpy", [7, 3, 2], [32, 2, 2]),
];
const KINDS: [MemoryKind; 12] = [
    MemoryKind::Unknown,
    MemoryKind::HtoD,
    MemoryKind::DtoH,
    MemoryKind::HtoA,
    MemoryKind::AtoH,
    MemoryKind::AtoA,
    MemoryKind::AtoD,
    MemoryKind::DtoA,
    MemoryKind::DtoD,
    MemoryKind::HtoH,
    MemoryKind::PtoP,
    MemoryKind::Set,
];

/// Which calls of the CUDA API are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calls {
    None,
    /// Of the driver or of the runtime for each launch, as the join emits them; some are missing.
    Some,
}

/// The largest step of the clock between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    Fine,
    /// It mostly stands still.
    Coarse,
}

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn one_of<T: Copy>(&mut self, some: &[T]) -> T {
        some[self.below(some.len() as u64) as usize]
    }
}

/// The whole workload.
#[derive(Default)]
pub(crate) struct Workload {
    pub(crate) ranges: Vec<Range<'static>>,
    pub(crate) calls: Vec<ApiCall<'static>>,
    pub(crate) operations: Vec<Operation<'static>>,
    pub(crate) marks: Vec<Mark<'static>>,
}

impl Workload {
    pub(crate) fn new(seed: u64, calls: Calls, clock: Clock) -> Self {
        let mut all = Self::default();
        let mut random = Random::new(seed);
        let mut correlation = 100;
        for thread in 0..3 + seed as u32 % 3 {
            all.thread(PROCESS + thread, &mut random, calls, clock, &mut correlation);
        }
        if seed.is_multiple_of(4) {
            all.ranges.retain(|range| range.style == RangeStyle::PushPop);
        }
        all
    }

    pub(crate) fn has_lifetimes(&self) -> bool {
        self.ranges.iter().any(|range| range.style == RangeStyle::StartEnd)
    }

    pub(crate) fn threads(&self) -> Vec<u32> {
        let mut threads: Vec<u32> = self.ranges.iter().map(|range| range.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    fn thread(&mut self, thread: u32, random: &mut Random, calls: Calls, clock: Clock, correlation: &mut u32) {
        let mut now = 1000 * (1 + random.below(10));
        let (mut open, mut lifetimes) = (Vec::new(), Vec::new());
        let first = self.ranges.len();
        for step in 0..400_u32 {
            now += match clock {
                Clock::Fine => 1 + random.below(500),
                Clock::Coarse => u64::from(random.below(6) == 0) * 1000,
            };
            match random.below(10) {
                0..=2 if open.len() < 6 => open.push((now, random.one_of(&NAMES), random.one_of(&DOMAINS))),
                0..=5 => {
                    if let Some((start, name, domain)) = open.pop() {
                        let depth = open.len() as u32;
                        self.ranges.push(Range { thread, start, end: now, domain, name, depth, ..Range::default() });
                    }
                }
                6 if clock == Clock::Fine => {
                    lifetimes.push((now, random.one_of(&NAMES), random.one_of(&DOMAINS), open.len() as u32));
                }
                7 if clock == Clock::Fine && !lifetimes.is_empty() => {
                    let (start, name, domain, depth) = lifetimes.remove(random.below(lifetimes.len() as u64) as usize);
                    let end_thread = (random.below(3) == 0).then_some(PROCESS + 77);
                    let style = RangeStyle::StartEnd;
                    self.ranges.push(Range {
                        thread,
                        start,
                        end: now,
                        style,
                        domain,
                        name,
                        depth,
                        end_thread,
                        ..Range::default()
                    });
                }
                8 => {
                    let level = 1 + random.below(5) as u8;
                    self.marks.push(Mark {
                        thread,
                        at: now,
                        domain: random.one_of(&DOMAINS),
                        text: "a mark",
                        level,
                        fields: &[],
                    });
                }
                _ if clock == Clock::Fine => now = self.launch(thread, now, step, random, calls, correlation),
                _ => {}
            }
        }
        while let Some((start, name, domain)) = open.pop() {
            let depth = open.len() as u32;
            now += 1000;
            self.ranges.push(Range { thread, start, end: now, domain, name, depth, cut: true, ..Range::default() });
        }
        // Other attributes of a range change nothing in a report.
        for (at, range) in self.ranges[first..].iter_mut().enumerate() {
            range.category = [None, None, Some("io"), Some("7")][at % 4];
            range.color = (at % 3 == 0).then_some(0xff00_ff00);
        }
    }

    fn launch(
        &mut self,
        thread: u32,
        now: u64,
        step: u32,
        random: &mut Random,
        calls: Calls,
        correlation: &mut u32,
    ) -> u64 {
        let end = now + 10 + random.below(2000);
        *correlation += 1;
        let correlation = *correlation;
        let (start, result) = (now, 0);
        let call = |api, name, start, end| ApiCall { api, name, thread, start, end, correlation, result };
        if step.is_multiple_of(7) {
            if calls == Calls::Some {
                self.calls.push(call(Api::Runtime, "cudaStreamSynchronize_v3020", start, end));
            }
            return end;
        }
        let graph = random.below(8) == 0;
        let which = if calls == Calls::Some { random.below(8) } else { 0 };
        if which & 3 == 1 {
            self.calls.push(call(
                Api::Driver,
                ["cuLaunchKernel", "cuMemcpyAsync"][step as usize % 2],
                start + 1,
                end - 1,
            ));
        }
        if which & 2 == 2 {
            self.calls.push(call(
                Api::Runtime,
                ["cudaLaunchKernel_v7000", "cudaGraphLaunch_v10000"][usize::from(graph)],
                start,
                end,
            ));
        }
        let launch = (random.below(20) > 0).then_some((thread, start + random.below(end - start)));
        let mut at = start + random.below(5000);
        for node in 0..if graph { 3 } else { 1 } {
            let (kernel, symbol, grid, block) = random.one_of(&KERNELS);
            let work = if random.below(2) == 0 {
                let (static_shared, dynamic_shared, registers) = (4096, random.below(3) as i32 * 1000, 32);
                Work::Kernel(Kernel { name: 0, grid, block, registers, static_shared, dynamic_shared })
            } else {
                let (source, destination) = (random.below(8) as u8, random.below(8) as u8);
                let (kind, bytes) = (random.one_of(&KINDS), random.below(1 << 24));
                Work::Memory(Memory { kind, bytes, source, destination, value: 255 })
            };
            let is_kernel = matches!(work, Work::Kernel(_));
            let duration = 1 + random.below(10_000);
            self.operations.push(Operation {
                start: at,
                end: at + duration,
                device: random.below(2) as u32,
                context: 1,
                stream: 7 + random.below(3) as u32,
                correlation,
                graph_node: if graph { node + 1 } else { 0 },
                work,
                kernel: if is_kernel { kernel } else { "" },
                symbol: if is_kernel { symbol } else { "" },
                launch,
                span: None,
                path: &[],
                captured: &[],
                call: 0,
            });
            at += duration + random.below(100);
        }
        end
    }

    /// All items: threads and devices first, then everything in random order.
    pub(crate) fn items(&self, seed: u64) -> Vec<Item<'static>> {
        let mut random = Random::new(seed ^ 0x5eed);
        let thread = |thread: u32| Item::Thread { thread, name: ["main", "worker", "loader"][thread as usize % 3] };
        let mut items: Vec<Item<'static>> = self.threads().into_iter().chain([PROCESS + 77]).map(thread).collect();
        items.extend([0, 1].map(|device| Item::Device { device, name: "Synthetic GPU" }));
        let mut streams: Vec<Vec<Item<'static>>> = Vec::new();
        for thread in self.threads() {
            let of_thread = self.ranges.iter().filter(|range| range.thread == thread);
            streams.push(of_thread.cloned().map(Item::Range).collect());
        }
        streams.push(self.marks.iter().cloned().map(Item::Mark).collect());
        let gpu = self.calls.iter().cloned().map(Item::ApiCall);
        let mut gpu: Vec<Item<'static>> = gpu.chain(self.operations.iter().cloned().map(Item::Operation)).collect();
        for last in (1..gpu.len()).rev() {
            gpu.swap(last, random.below(last as u64 + 1) as usize);
        }
        streams.push(gpu);
        let mut streams: Vec<_> = streams.into_iter().map(|items| items.into_iter().peekable()).collect();
        while !streams.is_empty() {
            let at = random.below(streams.len() as u64) as usize;
            items.extend(streams[at].next());
            streams.retain_mut(|stream| stream.peek().is_some());
        }
        items
    }
}
