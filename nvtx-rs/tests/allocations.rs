//! A push with a prepared name allocates nothing, with a tool and without.

use nvtx_rs::tool::{Call, attach};
use nvtx_rs::{Attributes, Domain, range};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator; counting allocates nothing.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl Fn()) -> usize {
    work();
    let before = COUNT.get();
    for _ in 0..1_000 {
        work();
    }
    COUNT.get() - before
}

#[test]
fn ranges_allocate_nothing_once_known() {
    attach(Box::new(|call: &Call<'_>| {
        black_box(call);
    }))
    .unwrap();
    let domain = Domain::named("app").unwrap();
    let prepared = Attributes::new().registered(domain.register("prepared")).payload(7u64);
    let text = Attributes::new().message("a text of usual length");

    let prepared = || {
        domain.push(&prepared);
        domain.pop();
        domain.end(domain.start(&prepared));
        domain.mark(&prepared);
    };
    assert_eq!(allocations(prepared), 0);
    assert_eq!(allocations(|| drop(range!(domain: domain, "call site", payload: 1u32))), 0);
    let short = || {
        Domain::DEFAULT.push(&text);
        Domain::DEFAULT.pop();
    };
    assert_eq!(allocations(short), 0);
    let long = "x".repeat(1_000);
    let long = Attributes::new().message(&long);
    assert_ne!(allocations(|| domain.mark(&long)), 0, "the counter counts");
}
