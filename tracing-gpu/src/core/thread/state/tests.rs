use std::mem::offset_of;

use super::*;
use crate::core::session::SessionOptions;
use crate::core::session::catalog::Limits;
use crate::core::thread::engine::Engine;
use crate::core::thread::row::{LABEL, WRITTEN};
use crate::parts::cpu_time::thread::tests::Told;
use crate::parts::launches::thread::launch_log::TOUCHED;
use crate::parts::session::PartOptions;
use crate::parts::waits::thread::coincidence::PollWait;

/// The state of this thread in a session of its own, which measures processor time.
fn new_thread() -> &'static ThreadState {
    let engine: &Engine = Box::leak(Box::new(Engine::new(SessionOptions {
        active: true,
        statistics: true,
        parts: PartOptions { on_cpu: Some(true), ..PartOptions::default() },
        sample_budget: 1 << 16,
        limits: Limits { nodes: 100, run_time_names: 100 },
        ..SessionOptions::default()
    })));
    engine.thread().expect("there is room")
}

#[test]
fn what_callbacks_write_often_has_its_own_place_in_a_page() {
    assert_eq!((size_of::<Row>(), offset_of!(ThreadState, rows) % 512), (512, 0));
    // The head with six open ranges, five slots of the slab, the first ids of a registry, the outermost timed range,
    // and five ranges with CUDA calls.
    let often = [
        (0, offset_of!(ThreadState, stack) + 8 + 6 * 32),
        (offset_of!(ThreadState, slab), 208),
        (offset_of!(ThreadState, remembered), 176),
        (offset_of!(ThreadState, parts.pairs), 64),
        (offset_of!(ThreadState, parts.launches), TOUCHED),
    ];
    for (start, length) in often {
        assert!(start % 512 + length <= WRITTEN.start, "{length} bytes from {start} on meet {WRITTEN:?}");
    }
}

#[test]
fn the_label_that_a_launch_reads_is_where_instances_are_written() {
    assert_eq!(LABEL / 64, WRITTEN.start / 64);
}

#[test]
fn a_slow_reading_of_the_processor_time_belongs_to_the_range_that_ended() {
    const OUTER: u64 = 1;
    const INNER: u64 = 2;
    let thread = new_thread();
    let (long, slow) = (thread.thresholds.long, 100 * thread.thresholds.long);
    let [outer, inner] = [1, 2].map(|label| {
        let key = RangeKey { label, category: 0, style: range_model::RangeStyle::PushPop };
        thread.place(thread.node(0, key), key, None)
    });
    let (told, begun) = (Told::default(), thread.now());
    told.now.set(begun);
    assert!(thread.parts.cpu_time.read_at_start(begun, &thread.stack, &thread.flags.credits, &told));
    told.slow.set(slow);
    thread.stack.push(OUTER, outer, told.now.get());
    told.pass(100, 100);
    thread.stack.push(INNER, inner, told.now.get());
    told.pass(2 * long, long);
    let end = || {
        let ended = thread.stack.pop(told.now.get()).expect("it is open");
        thread.end_by(ended, &told)
    };
    assert_eq!(end(), begun + 100 + 2 * long + slow);
    told.pass(100, 100);
    assert_eq!(end(), begun + 200 + 2 * long + slow, "the last reading is fresh");
    let row = |place: Place| thread.rows.get(place.row()).map(Row::copy).expect("it has a row");
    let (inner, outer) = (row(inner), row(outer));
    assert_eq!((inner.times.total, inner.nested), (u128::from(2 * long + slow), 0));
    assert_eq!((outer.times.total - u128::from(outer.nested), outer.cpu.off >= slow), (200, true));
}

#[test]
fn the_last_wait_is_looked_at_again_at_the_end_of_any_range() {
    for is_long in [false, true] {
        let thread = new_thread();
        let key = RangeKey { label: 1, category: 0, style: range_model::RangeStyle::PushPop };
        let place = thread.place(thread.node(0, key), key, None);
        thread.session.parts.endings.make(thread.index).expect("there is room");
        let waits = thread.parts.waits.coincidences.get_or_init(Box::default);
        let now = thread.now();
        waits.look_later(PollWait { waiter: 1, time: [now, now + 1], task: None });
        thread.flags.looks_again.store(true, Relaxed);
        let duration = if is_long { thread.thresholds.long } else { 1 };
        thread.add(Ended { place, entered: now, duration, nested: 0 });
        assert!(waits.take_of_poll(&thread.session.clock).is_none(), "long: {is_long}");
    }
}

#[cfg(feature = "injection")]
/// A tool is attached for the life of a process, here a child process.
#[test]
fn a_long_range_of_a_tool_has_a_processor_time() {
    let child = "core::thread::state::tests::child_with_a_tool";
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", child, "--ignored"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[cfg(feature = "injection")]
#[test]
#[ignore = "a child of another test"]
fn child_with_a_tool() {
    nvtx_rs::tool::attach(Box::new(|_: &nvtx_rs::tool::Call<'_>| ())).unwrap();
    let profiler = crate::Profiler::builder().output(crate::Output::None).build().unwrap();
    tracing::subscriber::with_default(profiler.subscriber(), || {
        for _ in 0..3 {
            tracing::info_span!("spins").in_scope(|| {
                let began = std::time::Instant::now();
                while began.elapsed() < std::time::Duration::from_millis(1) {}
            });
        }
    });
    let node = &profiler.summary().tree[0];
    assert!(node.on_cpu_ns + node.off_cpu_ns > 0, "{node:?}");
}
