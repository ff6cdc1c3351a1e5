//! The functions that CUPTI calls: to request and return a buffer, at the entry of an API call, and for the time.
//!
//! No panic leaves these functions, and none of them calls CUDA. They run on threads of the program, on threads of
//! CUPTI, and on the thread that flushes.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::buffers::{Pool, Role};
use super::calls;
use super::context::Contexts;
use super::decode::{self, Record, Records, Step};
use super::delivery::Delivery;
use super::library::{Domain, Library};
use super::names::Names;
use super::sink::Sink;
use super::strides::Strides;
use crate::forks;
use crate::record::{Detail, GraphNode, NewGraph, Work};
use crate::source::{Lost, Recorded};

/// The source of all buffers.
pub(super) static POOL: Pool = Pool::new();

/// The part of a session that CUPTI's callbacks use. Lives as long as the process.
#[repr(C, align(64))] // fields that each call of the driver uses come first: the sink, and the first of the contexts
pub(super) struct Receiver {
    pub(super) sink: &'static dyn Sink,
    pub(super) contexts: Contexts,
    pub(super) library: Library,
    pub(super) strides: Strides,
    pub(super) names: Names,
    pub(super) delivery: Delivery,
}

/// The receiver of buffers; null between sessions.
static CURRENT: AtomicPtr<Receiver> = AtomicPtr::new(std::ptr::null_mut());

/// Sends buffers to `receiver`, or discards them.
pub(super) fn set_current(receiver: Option<&'static Receiver>) {
    let receiver = receiver.map_or(std::ptr::null_mut(), |receiver| std::ptr::from_ref(receiver).cast_mut());
    CURRENT.store(receiver, Ordering::Release);
}

fn current() -> Option<&'static Receiver> {
    // SAFETY: null, or a `&'static Receiver` from `set_current`.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// Tells the sink of a forked child, before the child continues. So callbacks need not check for a fork.
pub(super) extern "C" fn forked() {
    if let Some(receiver) = current() {
        receiver.sink.forked();
    }
}

/// Runs `body` and stops its panic, because the caller is C code.
pub(super) fn guarded(body: impl FnOnce()) {
    let _reported_by_the_panic_hook = catch_unwind(AssertUnwindSafe(body));
}

/// Nanoseconds of CLOCK_MONOTONIC, without a system call.
#[cfg(unix)]
#[must_use]
pub extern "C" fn clock() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one struct; the clock exists on every Unix.
    let _always_there = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// Nanoseconds since the first reading.
#[cfg(not(unix))]
pub extern "C" fn clock() -> u64 {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}

/// CUPTI requests a buffer.
///
/// # Safety
///
/// The three pointers are writable.
pub(super) unsafe extern "C" fn on_request(buffer: *mut *mut u8, size: *mut usize, most_records: *mut usize) {
    guarded(|| {
        let (address, bytes) = if forks::is_child() { (std::ptr::null_mut(), 0) } else { POOL.take() };
        // SAFETY: CUPTI passes pointers to three variables of its own. 0 records mean no limit.
        unsafe {
            buffer.write(address);
            size.write(if address.is_null() { 0 } else { bytes });
            most_records.write(0);
        }
    });
}

/// CUPTI returns a buffer.
///
/// # Safety
///
/// CUPTI no longer writes the buffer, if it is one of [`POOL`].
pub(super) unsafe extern "C" fn on_complete(_: *mut c_void, _: u32, buffer: *mut u8, _size: usize, valid: usize) {
    guarded(|| {
        if forks::is_child() {
            return;
        }
        let Some(receiver) = current() else { return drop(POOL.take_back(buffer, valid)) };
        // Begins while the buffer still counts as out: a flush that finds no buffer out assumes that all are delivered.
        let _delivery = receiver.delivery.begin();
        let Some(mut filled) = POOL.take_back(buffer, valid) else { return };
        match filled.role() {
            Role::Kept => {
                number(receiver, filled.bytes());
                receiver.sink.filled(filled);
            }
            Role::Scratch => {
                let mut over_budget = 0;
                let unreadable = read(receiver, filled.bytes(), |_| over_budget += 1);
                drop(filled); // before the sink takes its time
                receiver.sink.lost(Lost { unreadable, over_budget });
            }
        }
    });
}

/// Reads the records of a buffer in which kernels' names are already numbers. Returns how many cannot be read.
pub(super) fn read(receiver: &Receiver, bytes: &mut [u8], mut each: impl FnMut(Recorded)) -> u64 {
    let (mut place, mut unreadable) = (0, 0);
    loop {
        let mut records = Records::new(bytes, &receiver.strides);
        records.go_on_at(place);
        let unknown = loop {
            match records.step() {
                Step::Record(Record::Other) => {}
                Step::Record(Record::Call(call)) => each(Recorded::Call(call)),
                Step::Record(Record::Detail(detail)) => each(Recorded::Detail(detail)),
                Step::Record(Record::Op { mut op, name }) => {
                    if let Work::Kernel(kernel) = &mut op.work {
                        kernel.name = name as u32;
                    }
                    each(Recorded::Op(op));
                }
                Step::Unknown(place) => break place,
                Step::Cut(_) => return unreadable + 1,
                Step::End => return unreadable,
            }
        };
        unreadable += 1;
        match step_over(receiver, bytes, unknown) {
            Some(next) => place = next,
            None => return unreadable,
        }
    }
}

/// The place after a record of a kind that was unknown when strides were measured, if the library can skip it.
fn step_over(receiver: &Receiver, bytes: &mut [u8], unknown: usize) -> Option<usize> {
    receiver.library.next_record(bytes, Some(unknown)).ok().filter(|next| *next > unknown && *next < bytes.len())
}

/// Interns the names of kernels, and replaces them by their numbers.
fn number(receiver: &Receiver, bytes: &mut [u8]) {
    let (mut address, mut number) = (0, 0);
    let mut number_of = |name| {
        if name != address || address == 0 {
            // SAFETY: the address is from a kernel's record that CUPTI has just delivered together with the name.
            number = unsafe { intern(receiver, name) };
            address = name;
        }
        number
    };
    let mut place = Some(0);
    while let Some(next) = place {
        let unknown = decode::number(bytes, next, &receiver.strides, &mut number_of);
        place = unknown.and_then(|unknown| step_over(receiver, bytes, unknown));
    }
}

/// Number of the kernel whose name is at this address.
///
/// # Safety
///
/// The address is 0 or that of a NUL-terminated text.
unsafe fn intern(receiver: &Receiver, address: u64) -> u32 {
    let Ok(place @ 1..) = usize::try_from(address) else { return receiver.names.intern(0, b"") };
    // SAFETY: the caller vouches for the address. The text is read before anything on this thread can unload the
    // kernel's module.
    let symbol = unsafe { CStr::from_ptr(std::ptr::with_exposed_provenance::<c_char>(place)) };
    receiver.names.intern(address, symbol.to_bytes())
}

/// Offsets in CUPTI's data of an API callback.
const SITE: usize = 0;
const CONTEXT: usize = 40;
const CORRELATION: usize = 64;

/// Whether a callback is at the entry or exit of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Site {
    Entry,
    Exit,
}

/// The site of this callback; `None` without data.
///
/// # Safety
///
/// `data` is null or what CUPTI passes for the domains of the driver and the runtime.
#[inline]
pub(super) unsafe fn site(data: *const c_void) -> Option<Site> {
    // SAFETY: the data of an API callback has 72 bytes in every CUPTI from 11.8 on, is aligned for pointers, and lasts
    // for the call. The site is its first word.
    let site = (!data.is_null()).then(|| unsafe { data.byte_add(SITE).cast::<u32>().read() })?;
    Some(if site == 0 { Site::Entry } else { Site::Exit })
}

/// A call begins or ends, a context is about to be destroyed, or part of a graph was made. The sink ignores calls in
/// forked children itself: see [`forked`].
///
/// # Safety
///
/// `user` is the `&'static Receiver` that subscribed, its sink is an `S`, and `data` is CUPTI's data for the domain.
pub(super) unsafe extern "C" fn on_call<S: Sink + 'static>(
    user: *mut c_void,
    domain: u32,
    number: u32,
    data: *const c_void,
) {
    if data.is_null() {
        return;
    }
    if domain != Domain::Driver as u32 {
        // SAFETY: the caller vouches for the arguments.
        return unsafe { on_resource(user, domain, number, data) };
    }
    // SAFETY: the caller vouches for the arguments.
    if unsafe { site(data) } == Some(Site::Entry) {
        // Exits are half of all calls here and are ignored: CUPTI reports both ends of a call or none.
        // SAFETY: the caller's promise.
        unsafe { on_entry::<S>(user, number, data) }
    }
}

/// A call of the driver begins.
///
/// # Safety
///
/// As for [`on_call`].
#[inline(never)]
unsafe extern "C" fn on_entry<S: Sink + 'static>(user: *mut c_void, number: u32, data: *const c_void) {
    guarded(|| {
        // SAFETY: the caller vouches for `user`, and receivers are never freed.
        let Some(receiver) = (unsafe { user.cast::<Receiver>().as_ref() }) else { return };
        // SAFETY: as for the site in `on_call`.
        let (context, correlation) = unsafe {
            (data.byte_add(CONTEXT).cast::<*const c_void>().read(), data.byte_add(CORRELATION).cast::<u32>().read())
        };
        let enqueues = calls::enqueues(number);
        if enqueues {
            receiver.contexts.saw(context.expose_provenance());
        }
        // SAFETY: the caller vouches for the type of the sink. The cast avoids a dynamic call, because each launch
        // comes here.
        let sink = unsafe { &*std::ptr::from_ref(receiver.sink).cast::<S>() };
        sink.entered(number, correlation, enqueues);
    });
}

/// A context is about to be destroyed, or part of a graph was made.
///
/// # Safety
///
/// As for [`on_call`].
#[cold]
#[inline(never)]
unsafe fn on_resource(user: *mut c_void, domain: u32, number: u32, data: *const c_void) {
    if forks::is_child() || domain != Domain::Resource as u32 {
        return;
    }
    guarded(|| {
        // SAFETY: the caller vouches for `user`, and receivers are never freed.
        let Some(receiver) = (unsafe { user.cast::<Receiver>().as_ref() }) else { return };
        if number == CONTEXT_ENDS {
            // SAFETY: the data of a resource callback begins with the context.
            let context = unsafe { data.cast::<*const c_void>().read() };
            receiver.contexts.gone(context.expose_provenance());
        } else if GRAPHS.contains(&number) {
            // SAFETY: the caller's promise.
            unsafe { on_graph(receiver, number, data) };
        }
    });
}

/// Callbacks of the resource domain: a context is about to be destroyed, a node of a graph was created or cloned, an
/// executable graph was created.
pub(super) const CONTEXT_ENDS: u32 = 2;
pub(super) const GRAPHS: [u32; 3] = [NODE_CREATED, NODE_CLONED, GRAPH_CREATED];
const NODE_CREATED: u32 = 13;
const NODE_CLONED: u32 = 20;
const GRAPH_CREATED: u32 = 18;

/// Offsets in the data of a graph callback, and in the descriptor to which it points.
const DESCRIPTOR: usize = 16;
const NODE: usize = 16;
const ORIGINAL: usize = 24;
const GRAPH: usize = 48;

/// The number of the next creation. CUPTI counts calls up from 1, and the program's own operations count up from 2^31.
/// After 2^30 creations a number repeats; two creations are confused only if both are made within a second.
static NEXT_CREATION: AtomicU32 = AtomicU32::new(0);
const FIRST_CREATION: u32 = 3 << 30;

/// A node of a graph was created or cloned, or an executable graph was created. The sink notes it as a call of this
/// thread, which places its detail.
///
/// # Safety
///
/// `data` is CUPTI's data for one of [`GRAPHS`].
unsafe fn on_graph(receiver: &Receiver, number: u32, data: *const c_void) {
    // SAFETY: the caller vouches for `data`. It is three pointers. The last one points to seven words, the same from
    // 11.8 to 13.5.
    let word = |place| unsafe {
        let graph = data.byte_add(DESCRIPTOR).cast::<*const c_void>().read();
        if graph.is_null() { std::ptr::null_mut() } else { graph.byte_add(place).cast::<*mut c_void>().read() }
    };
    let correlation = NEXT_CREATION.fetch_add(1, Ordering::Relaxed) | FIRST_CREATION;
    // SAFETY: CUPTI has just passed the node.
    let number_of = |place| unsafe { receiver.library.graph_node(word(place)) };
    let detail = match number {
        // SAFETY: as above.
        GRAPH_CREATED => unsafe { receiver.library.graph(word(GRAPH)) }
            .or(Some(0))
            .map(|graph| Detail::Graph(NewGraph { correlation, graph })),
        NODE_CREATED => number_of(NODE).map(|node| Detail::Node(GraphNode { correlation, node, original: 0 })),
        _ => number_of(NODE)
            .zip(number_of(ORIGINAL))
            .map(|(node, original)| Detail::Node(GraphNode { correlation, node, original })),
    };
    let Some(detail) = detail else { return receiver.sink.lost(Lost { unreadable: 1, over_budget: 0 }) };
    receiver.sink.entered(NO_FUNCTION, correlation, false);
    receiver.sink.made(detail);
}

/// A number that no function has.
const NO_FUNCTION: u32 = 0;

#[cfg(test)]
mod tests {
    use super::super::context;
    use super::*;

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn what_each_call_of_the_driver_touches_is_in_one_cache_line() {
        use std::mem::offset_of;

        let first = offset_of!(Receiver, contexts) + context::FIRST;
        assert!(offset_of!(Receiver, sink) / 64 == first / 64 && align_of::<Receiver>() == 64, "{first}");
    }
}
