//! While a timeline is written, a span with fields allocates nothing on its thread, once its call site is known.

#![allow(unsafe_code)] // the counting allocator

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tracing::{info_span, subscriber::with_default};
use tracing_gpu::{Output, Profiler};
use tracing_subscriber::prelude::*;

/// Counts allocations of each thread.
struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes on to the system's allocator with unchanged arguments; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from `System` with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn spans(count: u64) {
    let (text, shape) = ("größe".repeat(20), [1_u32, 2, 3]);
    for number in 0..count {
        let outer = info_span!("outer", number, text, later = tracing::field::Empty).entered();
        info_span!("inner", ?shape, half = 0.5, yes = true, %text, small = -1, label = "plain", large = u64::MAX)
            .in_scope(|| info_span!("plain").in_scope(|| ()));
        outer.record("later", number);
    }
}

/// The writer takes record lists and returns them, a page of records at a time. That is counted by the page.
#[test]
fn spans_with_fields_allocate_nothing_for_themselves() {
    const SPANS: u64 = 3_000;
    for is_layer in [true, false] {
        let file = std::env::temp_dir().join(format!("tracing-gpu-allocations-{}.json", std::process::id()));
        let profiler = Profiler::builder().nvtx(false).output(Output::None).trace(&file).build().expect("a profiler");
        let run = || {
            spans(SPANS); // warm
            let before = COUNT.get();
            spans(SPANS);
            COUNT.get() - before
        };
        let count = match is_layer {
            true => with_default(tracing_subscriber::registry().with(profiler.layer()), run),
            false => with_default(profiler.subscriber(), run),
        };
        profiler.finish().expect("the file is written");
        std::fs::remove_file(&file).expect("it is there");
        assert!((count as u64) < SPANS / 100, "{count} allocations for {SPANS} times three spans, layer: {is_layer}");
    }
}
