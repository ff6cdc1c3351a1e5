//! A timeline of invented data: three threads, two streams, launches of kernels and of a graph, copies, calls, marks.

use range_model::timeline::{Api, Kernel, Memory, Work};
use range_model::timeline::{ApiCall, Call, Item, Mark, Operation, Projection, Range, Sink, Value};
use tracing_gpu::Summary;
use tracing_gpu::summary::{MemoryKind, Process, RangeStyle};

pub(crate) const PID: u32 = 4000;
pub(crate) const STEPS: u64 = 20;
/// The duration of a step, in nanoseconds.
const STEP: u64 = 1_000_003;

fn plain() -> Range<'static> {
    Range { thread: 4000, ..Range::default() }
}

const OPERATION: Operation<'static> = Operation {
    start: 0,
    end: 0,
    device: 0,
    context: 1,
    stream: 7,
    correlation: 0,
    graph_node: 0,
    work: Work::Kernel(Kernel {
        name: 1,
        grid: [132, 1, 1],
        block: [256, 1, 1],
        registers: 64,
        static_shared: 0,
        dynamic_shared: 98_304,
    }),
    kernel: "",
    symbol: "",
    launch: None,
    span: None,
    path: &[],
    captured: &[],
    call: 0,
};

/// Writes it, with a flush after every step.
pub(crate) fn write(sink: &mut dyn Sink) {
    write_without_end(sink);
    let whole = Range { start: 10, end: STEPS * STEP, name: "serve", cut: true, ..plain() };
    sink.item(&Item::Range(whole)).expect("an item");
    sink.end(&Summary::default(), 0).expect("an end");
}

/// Writes the timeline of a killed program.
pub(crate) fn write_without_end(sink: &mut dyn Sink) {
    #[allow(clippy::needless_update)] // a process may get more fields
    let mut process = Process::default();
    process.pid = PID;
    process.command = "/opt/bin/serve --model resnet".to_owned();
    sink.begin(&process).expect("a beginning");
    let mut give = |item: Item<'_>| sink.item(&item).expect("an item");
    for (thread, name) in [(4000, "main"), (4001, "loader"), (4002, "tokio \"worker\"")] {
        give(Item::Thread { thread, name });
    }
    give(Item::Device { device: 0, name: "NVIDIA H200" });
    for step in 0..STEPS {
        self::step(sink, step);
        sink.flush().expect("a flush");
    }
}

fn step(sink: &mut dyn Sink, step: u64) {
    let mut give = |item: Item<'_>| sink.item(&item).expect("an item");
    let at = |ns: u64| 1_000 + step * STEP + ns;
    let correlation = 100 + 10 * step as u32;
    let fields = [("step", Value::Unsigned(step)), ("loss", Value::Float(1.0 / (step + 1) as f64))];

    // Loading: its own thread, its own stream.
    give(Item::ApiCall(ApiCall {
        api: Api::Driver,
        name: "cuMemcpyHtoDAsync_v2",
        thread: 4001,
        start: at(110_000),
        end: at(119_000),
        correlation,
        result: 0,
    }));
    give(Item::Range(Range {
        thread: 4001,
        start: at(100_000),
        end: at(150_000),
        name: "Set input data",
        color: Some(0xff76_b900),
        category: Some("io"),
        ..plain()
    }));
    give(Item::Operation(Operation {
        start: at(120_001),
        end: at(180_001),
        stream: 13,
        correlation,
        work: Work::Memory(Memory { kind: MemoryKind::HtoD, bytes: 1 << 20, source: 2, destination: 3, value: 0 }),
        launch: Some((4001, at(110_000))),
        span: Some("Set input data"),
        ..OPERATION
    }));

    // A step: a kernel, and a graph with three nodes, two of them at once.
    let nodes = [(1, 400_000, 500_000, "gemm"), (2, 450_000, 600_000, "gemm"), (3, 600_000, 700_000, "softmax")];
    for (node, start, end, kernel) in nodes {
        give(Item::Operation(Operation {
            start: at(start),
            end: at(end),
            correlation: correlation + 2,
            graph_node: node,
            kernel,
            launch: Some((4000, at(350_500))),
            span: Some("forward"),
            ..OPERATION
        }));
    }
    let launch = Some((4000, at(210_000)));
    let im2col = Operation {
        start: at(220_000),
        end: at(300_007),
        correlation: correlation + 1,
        kernel: "void im2col<float>(float*)",
        symbol: "_Z6im2colIfEvPf",
        launch,
        span: Some("im2col"),
        ..OPERATION
    };
    give(Item::Operation(im2col));
    give(Item::Range(Range { start: at(205_000), end: at(215_000), name: "im2col", depth: 2, ..plain() }));
    give(Item::Mark(Mark { thread: 4000, at: at(340_000), domain: None, text: "half\tway", level: 3, fields: &[] }));
    give(Item::Range(Range {
        start: at(200_000),
        end: at(360_000),
        name: "forward",
        depth: 1,
        fields: &fields,
        span: 2 * step + 2,
        call: 2 * step + 2,
        parent: 2 * step + 1,
        ..plain()
    }));
    // A call that waits for the next step, too.
    give(Item::Call(Call {
        call: 2 * step + 1,
        span: 2 * step + 1,
        thread: 4000,
        start: at(190_000),
        end: at(STEP + 400_000),
        name: "infer",
        fields: &fields,
        ..Call::default()
    }));
    for (name, end, level) in [("im2col", 300_007, 1), ("forward", 700_000, 0)] {
        let (start, end) = (at(220_000), at(end));
        give(Item::Projection(Projection { device: 0, context: 1, stream: 7, start, end, domain: None, name, level }));
    }

    // A copy back outside of any range, on a thread that has none.
    give(Item::Operation(Operation {
        start: at(720_000),
        end: at(730_000),
        correlation: correlation + 3,
        work: Work::Memory(Memory { kind: MemoryKind::DtoH, bytes: 4_000, source: 3, destination: 1, value: 0 }),
        launch: Some((4002, at(710_000))),
        ..OPERATION
    }));
    // Crossing ranges of two domains, and a request that begins on one thread and ends on another.
    let rest = Range { thread: 4001, ..plain() };
    give(Item::Range(Range {
        start: at(800_000),
        end: at(850_000),
        name: "decode",
        domain: Some("a"),
        ..rest.clone()
    }));
    give(Item::Range(Range { start: at(830_000), end: at(900_000), name: "encode", domain: Some("b"), ..rest }));
    give(Item::Range(Range {
        start: at(50_000),
        end: at(950_000),
        name: "request",
        style: RangeStyle::StartEnd,
        end_thread: Some(4002),
        ..plain()
    }));
}
