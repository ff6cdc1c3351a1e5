//! A program that times spans inside `with_stream` on the driver of `fake_driver.rs`, in all the ways in which a scope
//! can begin and end; a child of `tests/gpu_fake.rs`. Prints one JSON object.
//!
//! If no event is ever reached (`FAKE_DRIVER=stuck`), the output is the summary of a window that begins with the
//! largest number of waiting pairs and some more in the scope. With `TIER=layer` in the environment it measures through
//! a layer.

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier, mpsc};

use cudarc::driver::{CudaContext, CudaStream};
use libloading::Library;
use tracing::{Instrument as _, Span, info_span};
use tracing_gpu::{OnStream as _, Output, Profiler, Summary, stream_id, with_stream};
use tracing_subscriber::prelude::*;

fn spans(count: u64, name: impl Fn() -> Span) {
    (0..count).for_each(|_| name().in_scope(|| ()));
}

/// The summaries of another thread while this one is inside its scope: after 10 spans, and after 100 more outside.
fn summaries_from_outside(profiler: &Profiler, stream: &Arc<CudaStream>) -> [Summary; 2] {
    let seen = with_stream(stream, || {
        spans(10, || info_span!("seen"));
        let seen = std::thread::scope(|scope| scope.spawn(|| profiler.summary()).join().expect("a summary"));
        spans(100, || info_span!("seen"));
        seen
    });
    [seen, profiler.summary()]
}

fn nested(stream: &Arc<CudaStream>, other: &Arc<CudaStream>) {
    with_stream(stream, || {
        spans(3, || info_span!("outer scope"));
        with_stream(stream, || spans(70, || info_span!("inner scope")));
        with_stream(other, || {
            spans(70, || info_span!("other stream"));
            let id = stream_id(stream);
            (0..70).for_each(|_| info_span!("by field", gpu.stream = id).in_scope(|| ()));
        });
        spans(70, || info_span!("outer scope"));
    });
    fn deep(levels: u32) {
        info_span!("deep").in_scope(|| {
            if levels > 1 {
                deep(levels - 1)
            }
        });
    }
    with_stream(stream, || deep(200));
}

/// Ranges that end outside of the scope of their start.
fn across(stream: &Arc<CudaStream>) {
    let id = stream_id(stream);
    for _ in 0..100 {
        let begun_inside = with_stream(stream, || info_span!("begun inside").entered());
        drop(begun_inside);
        let begun_outside = info_span!("begun outside", gpu.stream = id).entered();
        with_stream(stream, || drop(begun_outside));
    }
    let left_open = AssertUnwindSafe(|| {
        with_stream(stream, || {
            let _entered = info_span!("panics").entered();
            spans(3, || info_span!("before a panic"));
            std::panic::resume_unwind(Box::new(()));
        });
    });
    assert!(catch_unwind(left_open).is_err());
    spans(5, || info_span!("no stream"));
}

/// Nested entries of one span, one of them timed, and the number of recorded events after each exit: an end belongs to
/// the entry that began.
fn entered_again(stream: &Arc<CudaStream>, events: impl Fn() -> u64) -> [Vec<u64>; 4] {
    let timed = |span: &Span| with_stream(stream, || span.clone().entered());
    let untimed = |span: &Span| span.clone().entered();
    let (span, other) = (info_span!("again"), info_span!("no stream"));
    let during = |exits: Vec<tracing::span::EnteredSpan>| {
        let before = events();
        exits.into_iter().map(|exit| (drop(exit), events() - before).1).collect()
    };
    // Whichever guard of a span is dropped, the innermost entry is left.
    let around = during(vec![timed(&span), untimed(&span), untimed(&span)]);
    let inside = during(vec![untimed(&span), timed(&span)]);
    let below_another = during(vec![timed(&span), untimed(&span), untimed(&other)]);
    let moved = {
        let first = untimed(&other);
        let second = timed(&span);
        let before = events();
        drop(first);
        let third = untimed(&span);
        let after_third = (drop(third), events() - before).1;
        let after_second = (drop(second), events() - before).1;
        vec![after_third, after_second]
    };
    [around, inside, below_another, moved]
}

/// Threads that are inside their scopes at the same time, with summaries taken all the while.
fn threads(profiler: &Profiler, stream: &Arc<CudaStream>) {
    const THREADS: usize = 4;
    let (together, (running, ended)) = (Barrier::new(THREADS), mpsc::channel::<()>());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (together, running) = (&together, running.clone());
            scope.spawn(move || {
                with_stream(stream, || {
                    together.wait();
                    spans(5_000, || info_span!("threads"));
                });
                (0..500).for_each(|_| with_stream(stream, || spans(2, || info_span!("short scopes"))));
                drop(running);
            });
        }
        drop(running);
        while ended.try_recv() == Err(mpsc::TryRecvError::Empty) {
            drop(profiler.summary());
        }
    });
}

/// The largest number of waiting pairs, and 40 that are still in the scope's lane; then, in a new window, 24, which are
/// enough to trigger a reading.
fn more_than_may_wait(profiler: &Profiler, stream: &Arc<CudaStream>) -> Summary {
    with_stream(stream, || {
        spans(16_384 + 40, || info_span!("before"));
        profiler.reset();
        spans(24, || info_span!("after"));
    });
    profiler.summary()
}

#[allow(unsafe_code)]
fn main() {
    // SAFETY: the library is the fake driver, which runs nothing when it is loaded.
    let driver = unsafe { Library::new("libcuda.so.1") }.expect("the fake driver");
    // SAFETY: the functions have these types there.
    let (overwritten, capture, calls) = unsafe {
        let overwritten = driver.get::<extern "C" fn() -> u64>(b"fake_driver_overwritten\0");
        let capture = driver.get::<extern "C" fn(u32)>(b"fake_driver_capture\0");
        let calls = driver.get::<unsafe extern "C" fn(*const c_char) -> u64>(b"fake_driver_calls\0");
        (overwritten.expect("the fake driver"), capture.expect("the fake driver"), calls.expect("the fake driver"))
    };
    // SAFETY: the name ends in NUL.
    let events = || unsafe { calls(c"cuEventRecord".as_ptr()) };
    let context = CudaContext::new(0).expect("the fake device");
    let [stream, other] = [(); 2].map(|()| context.new_stream().expect("a stream"));
    let profiler = Profiler::builder().output(Output::None).build().expect("a profiler");
    if std::env::var("TIER").is_ok_and(|tier| tier == "layer") {
        tracing_subscriber::registry().with(profiler.layer()).init();
    } else {
        tracing::subscriber::set_global_default(profiler.subscriber()).expect("no other subscriber");
    }
    if std::env::var("FAKE_DRIVER").is_ok_and(|behavior| behavior == "stuck") {
        return println!("{}", serde_json::json!(more_than_may_wait(&profiler, &stream)));
    }
    let [inside, outside] = summaries_from_outside(&profiler, &stream);
    with_stream(&stream, || {
        spans(10, || info_span!("before a reset"));
        profiler.reset();
        spans(5, || info_span!("after a reset"));
    });
    nested(&stream, &other);
    across(&stream);
    threads(&profiler, &stream);
    let all = profiler.summary();
    let holds = Arc::strong_count(&stream);
    let overwritten = overwritten();
    profiler.reset();
    let ends = entered_again(&stream, events);
    let again = profiler.summary();

    profiler.reset();
    with_stream(&stream, || {
        spans(5, || info_span!("captured"));
        let begun = info_span!("captured").entered();
        capture(1);
        drop(begun);
        spans(3, || info_span!("captured"));
        capture(0);
        spans(2, || info_span!("captured"));
    });
    let short_lived = context.new_stream().expect("a stream");
    let too_late =
        async { info_span!("too late").in_scope(|| ()) }.instrument(info_span!("too late")).on_stream(&short_lived);
    drop(short_lived);
    futures_executor(too_late);
    let losses = profiler.summary();
    let holds = [holds, Arc::strong_count(&stream)];
    let told = serde_json::json!({
        "inside": inside, "outside": outside, "all": all, "ends": ends, "again": again, "losses": losses,
        "holds": holds, "overwritten": overwritten,
    });
    println!("{told}");
}

/// Polls a future that is ready at once.
fn futures_executor(future: impl Future<Output = ()>) {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(std::pin::pin!(future).poll(&mut context).is_ready());
}
