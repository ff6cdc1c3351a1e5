//! Checks that must hold on any GPU; a failure panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, CudaStream, PushKernelArg, result};
use tracing::{Instrument as _, info_span};
use tracing_gpu::{OnStream as _, RawStream, stream_id, with_stream};

use super::device::{Device, ONE, check, profiler, row, us};

fn near(ns: f64, expected_us: f64) -> bool {
    let us = ns / 1e3;
    us >= expected_us * 0.97 && us <= expected_us * 1.03 + 15.0
}

pub(crate) fn run() {
    let device = Device::open();
    let context = &device.context;
    let [a, b] = [(); 2].map(|()| context.new_stream().expect("a stream"));
    device.spin(&a, us(10));
    context.synchronize().expect("the device");
    let profiler = profiler();

    nesting_and_streams(&device, &a, &b);
    threads(&device, &a, &b);
    default_streams(&device);
    futures(&device, &a, &b);
    captures(&device, &a);
    captures_of_others(&device, &a);
    contexts(&device, &a);
    lifetimes(&device);

    let summary = profiler.summary();
    let total = |name: &str| row(&summary, name).times.total_ns as f64;
    check("an outer span covers the inner one", near(total("outer"), 1_500.0) && near(total("inner"), 1_000.0));
    check(
        "a re-entered span has one instance an entry",
        row(&summary, "again").times.instances == 3 && near(total("again"), 900.0),
    );
    check("each stream has its own time", near(total("on a"), 400.0) && near(total("on b"), 800.0));
    let stream_of = |name: &str| row(&summary, name).stream.clone();
    check("streams are told apart", stream_of("on a") != stream_of("on b"));
    check("a field goes before with_stream", stream_of("field") == stream_of("on b"));
    check("a raw handle is the stream of its own", near(total("raw"), 300.0));
    check(
        "a child inherits its parent's stream",
        stream_of("child of field") == stream_of("on b") && near(total("child of field"), 200.0),
    );
    check("nothing enqueued reads as below the floor", row(&summary, "reader").empty >= 120);
    check("no stream, no time", !summary.stream_ranges.iter().any(|row| row.name == "untimed"));
    check("two threads, two streams, one name: a row a stream", {
        let rows = summary.stream_ranges.iter().filter(|row| row.name == "threaded");
        rows.clone().count() == 2 && rows.clone().all(|row| row.times.instances == 50)
    });
    check("the default streams are timed", {
        let rows = summary.stream_ranges.iter().filter(|row| row.name == "default");
        rows.clone().count() == 2 && rows.clone().all(|row| row.times.instances == 1 && row.times.total_ns >= 50_000)
    });
    check("a stream goes with a future across await and threads", {
        let rows = summary.stream_ranges.iter().filter(|row| row.name == "step");
        let whole =
            |row: &tracing_gpu::summary::StreamStats| row.times.total_ns >= 600_000 && row.times.instances == 2 * 4;
        rows.clone().count() == 2 && rows.clone().all(whole)
    });
    check(
        "captured entries are counted",
        summary.losses.streams.captured == 2 && !summary.stream_ranges.iter().any(|row| row.name == "captured"),
    );
    check("a stream that is gone is refused", summary.losses.streams.refused == 1);
    check("the stream of a dropped Arc was kept until its pair was read", near(total("short-lived"), 2_000.0));
    check("nothing else is lost", {
        let l = summary.losses.streams;
        (l.pending, l.dropped, l.unreadable) == (0, 0, 0)
    });
    let tree = summary.tree.iter().find(|node| node.name == "outer").expect("outer");
    check("the tree has total and self", near(tree.stream_self_ns.expect("self") as f64, 500.0));
    println!("{:#?}", summary.losses.streams);
}

fn nesting_and_streams(device: &Device, a: &Arc<CudaStream>, b: &Arc<CudaStream>) {
    device.spin(a, us(500));
    with_stream(a, || {
        info_span!("outer").in_scope(|| {
            device.spin(a, us(250));
            info_span!("inner").in_scope(|| device.spin(a, us(1_000)));
            device.spin(a, us(250));
        });
        let again = info_span!("again");
        for _ in 0..3 {
            again.in_scope(|| device.spin(a, us(300)));
        }
        device.spin(b, us(500));
        info_span!("on a").in_scope(|| {
            device.spin(a, us(400));
            with_stream(b, || info_span!("on b").in_scope(|| device.spin(b, us(800))));
        });
        info_span!("field", gpu.stream = stream_id(b)).in_scope(|| device.spin(b, us(100)));
    });
    let parent = info_span!("field", gpu.stream = stream_id(b));
    parent.in_scope(|| info_span!("child of field").in_scope(|| device.spin(b, us(200))));
    info_span!("untimed").in_scope(|| device.spin(a, us(10)));
    // SAFETY: `c` lives until the program ends.
    #[allow(unsafe_code)]
    let c = Box::leak(Box::new(device.context.new_stream().expect("a stream")));
    #[allow(unsafe_code)]
    // SAFETY: context and stream belong together and are never dropped.
    let raw = unsafe { RawStream::new(c.context().cu_ctx().cast(), c.cu_stream().cast()) };
    device.spin(c, us(200));
    info_span!("raw", gpu.stream = stream_id(&raw)).in_scope(|| device.spin(c, us(300)));
    device.context.synchronize().expect("the device");
}

fn threads(device: &Device, a: &Arc<CudaStream>, b: &Arc<CudaStream>) {
    std::thread::scope(|scope| {
        for stream in [a, b] {
            scope.spawn(move || {
                with_stream(stream, || {
                    for _ in 0..50 {
                        info_span!("threaded").in_scope(|| device.spin(stream, us(20)));
                    }
                });
            });
        }
    });
    device.context.synchronize().expect("the device");
}

/// The default streams of a context, even on a thread without a context.
fn default_streams(device: &Device) {
    let [legacy, per_thread] = [device.context.default_stream(), device.context.per_thread_stream()];
    std::thread::scope(|scope| {
        for stream in [&legacy, &per_thread] {
            scope.spawn(move || with_stream(stream, || info_span!("default").in_scope(|| device.spin(stream, us(50)))));
        }
    });
    device.context.synchronize().expect("the device");
}

/// Two tasks on each stream, each polled four times on any free worker. The entry for the drop is outside of any poll,
/// and not timed.
fn futures(device: &Device, a: &Arc<CudaStream>, b: &Arc<CudaStream>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().expect("a runtime");
    runtime.block_on(async {
        let step = |stream: Arc<CudaStream>| {
            let spin = device.spin.clone();
            async move {
                for _ in 0..3 {
                    let ns = 100_000_u64;
                    // SAFETY: the kernel takes one 64-bit integer by value and touches no memory.
                    #[allow(unsafe_code)]
                    unsafe { stream.launch_builder(&spin).arg(&ns).launch(ONE) }.expect("a launch");
                    tokio::task::yield_now().await;
                }
            }
        };
        let mut tasks = Vec::new();
        for stream in [a, b] {
            device.spin(stream, us(2_000)); // everything is enqueued while this runs
            for _ in 0..2 {
                tasks.push(tokio::spawn(step(stream.clone()).instrument(info_span!("step")).on_stream(stream)));
            }
        }
        for task in tasks {
            task.await.expect("the task");
        }
    });
    device.context.synchronize().expect("the device");
}

/// Spans inside a capture: nothing may be recorded into the graph, which must replay.
fn captures(device: &Device, a: &Arc<CudaStream>) {
    let mut value = a.alloc_zeros::<i32>(1).expect("memory");
    a.synchronize().expect("the device");
    // cudarc's own bookkeeping records events around slices, which a capture does not allow.
    #[allow(unsafe_code)]
    // SAFETY: one stream is used at a time from here on.
    unsafe {
        device.context.disable_event_tracking();
    }
    a.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).expect("a capture");
    with_stream(a, || {
        for amount in [1, 2] {
            info_span!("captured").in_scope(|| {
                // SAFETY: the kernel takes a pointer to one integer and an integer.
                #[allow(unsafe_code)]
                unsafe { a.launch_builder(&device.add).arg(&mut value).arg(&amount).launch(ONE) }.expect("a launch");
            });
        }
    });
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = a.end_capture(flags).expect("the capture is whole").expect("a graph");
    for _ in 0..5 {
        graph.launch().expect("a replay");
    }
    let read = a.clone_dtoh(&value).expect("the value");
    check("a captured graph replays unharmed", read == [15]);
}

/// While another thread captures in global mode, ours creates, records and queries events.
fn captures_of_others(device: &Device, a: &Arc<CudaStream>) {
    let other = device.context.new_stream().expect("a stream");
    let (capturing, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let fresh = device.context.new_stream().expect("a stream");
    std::thread::scope(|scope| {
        let whole = scope.spawn(|| {
            other.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).expect("a capture");
            device.spin(&other, us(1));
            capturing.store(true, Ordering::Release);
            while !done.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
            other.end_capture(flags).is_ok_and(|graph| graph.is_some_and(|graph| graph.launch().is_ok()))
        });
        while !capturing.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        for stream in [a, &fresh] {
            with_stream(stream, || {
                for _ in 0..300 {
                    info_span!("beside a capture").in_scope(|| device.spin(stream, us(5)));
                }
            });
        }
        done.store(true, Ordering::Release);
        check("our calls break no capture of another thread", whole.join().expect("the thread"));
    });
    // The same on the capturing thread, with spans on another stream than the one that captures.
    other.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).expect("a capture");
    device.spin(&other, us(1));
    for stream in [a, &fresh] {
        with_stream(stream, || {
            (0..300).for_each(|_| info_span!("within a capture").in_scope(|| device.spin(stream, us(5))))
        });
    }
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let whole = other.end_capture(flags).is_ok_and(|graph| graph.is_some_and(|graph| graph.launch().is_ok()));
    check("our calls break no capture of the same thread", whole);
    device.context.synchronize().expect("the device");
}

/// The current context of a thread is its own business.
fn contexts(device: &Device, a: &Arc<CudaStream>) {
    let current = || result::ctx::get_current().expect("the current context");
    let before = current();
    with_stream(a, || info_span!("context").in_scope(|| ()));
    check("the current context stays", current() == before);
    let none = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            with_stream(a, || info_span!("context").in_scope(|| ()));
            current().is_none()
        });
        thread.join().expect("the thread")
    });
    check("a thread without a context is left without one", none);
    let second = CudaContext::new(0).expect("the context again");
    let other = second.new_stream().expect("a stream");
    with_stream(&other, || info_span!("second handle").in_scope(|| device.spin(&other, us(50))));
    device.context.synchronize().expect("the device");
}

/// A stream that is dropped while its pair is pending, and a number that outlives its stream.
fn lifetimes(device: &Device) {
    let stream = device.context.new_stream().expect("a stream");
    let number = stream_id(&stream);
    device.spin(&stream, us(1_000));
    with_stream(&stream, || info_span!("short-lived").in_scope(|| device.spin(&stream, us(2_000))));
    drop(stream);
    device.context.synchronize().expect("the device");
    // Pairs are read now and then, and by a summary.
    let reader = device.context.new_stream().expect("a stream");
    with_stream(&reader, || {
        for _ in 0..130 {
            info_span!("reader").in_scope(|| ());
        }
    });
    let _ = number;
    let gone = device.context.new_stream().expect("a stream");
    let number = stream_id(&gone);
    drop(gone);
    info_span!("gone", gpu.stream = number).in_scope(|| ());
}

/// A program that stores an asynchronous error still sees it itself.
pub(crate) fn run_error() {
    let device = Device::open();
    let stream = device.context.new_stream().expect("a stream");
    let profiler = profiler();
    with_stream(&stream, || {
        info_span!("fine").in_scope(|| device.spin(&stream, us(100)));
        info_span!("failing").in_scope(|| {
            // SAFETY: the kernel takes no arguments; it breaks the context on purpose.
            #[allow(unsafe_code)]
            unsafe { stream.launch_builder(&device.fail).launch(ONE) }.expect("the launch itself is fine");
        });
        std::thread::sleep(us(20_000)); // for the kernel to fail, without any query
        for _ in 0..200 {
            info_span!("after").in_scope(|| ());
        }
    });
    let error = stream.synchronize().expect_err("the error is the program's");
    println!("ok     the program sees its own error: {}", error.0 as i32);
    let summary = profiler.summary();
    println!("{:?}", summary.losses.streams);
    drop(profiler);
    std::process::exit(0); // dropping values of a failed context would print errors
}
