//! The functions that CUPTI calls: to request and return a buffer, at the entry of an API call, and for the time.
//!
//! No panic leaves these functions, and none of them calls CUDA. They run on threads of the program, on threads of
//! CUPTI, and on the thread that flushes.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use once_cell::sync::OnceCell;

use super::buffers::{Pool, Role};
use super::calls;
use super::context::Contexts;
use super::decode::{self, Record, Records, Step};
use super::delivery::Delivery;
use super::library::{Domain, Library};
use super::names::Names;
use super::sink::Sink;
use super::strides::{Kind, Strides};
use crate::forks;
use crate::graph::{GraphChange, NodeKind};
use crate::record::{Api, Work};
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
    pub(super) devices: Devices,
    /// Functions that are watched only to know what the nodes do that they create, or as those of `opens_memory`. Their
    /// calls are not noted.
    pub(super) adds_nodes: OnceCell<Vec<u32>>,
    /// Functions whose parameters have the type of the node that they create, and [where](calls::node_parameters).
    pub(super) typed_nodes: OnceCell<Vec<(u32, usize)>>,
    /// Functions that open memory of other processes.
    pub(super) opens_memory: OnceCell<Vec<u32>>,
    /// Functions by which a stream waits for an event, if the first such call [enables](Self::record_waits) records of
    /// waits.
    pub(super) awaits_events: OnceCell<Vec<u32>>,
    pub(super) records_waits: AtomicBool,
    /// Whether a graph was made executable.
    pub(super) made_executable: AtomicBool,
}

/// The devices of a process, as far as they matter for copies between devices. Where nodes of graphs are recorded, that
/// kind is enabled once a second device is used, or memory of another process: while it is, a node takes 0.1 to 0.3 us
/// longer (an H100 with CUPTI 13.0).
pub(super) struct Devices {
    first: AtomicU32,
    are_several: AtomicBool,
}

/// No device yet.
const NO_DEVICE: u32 = u32::MAX;

impl Devices {
    pub(super) fn new(are_several: bool) -> Self {
        Self { first: AtomicU32::new(NO_DEVICE), are_several: AtomicBool::new(are_several) }
    }

    pub(super) fn are_several(&self) -> bool {
        self.are_several.load(Ordering::Relaxed)
    }

    /// A context of this device begins. Returns whether it is the first one of a second device. A device whose number
    /// is not known is another one.
    fn is_second(&self, device: Option<u32>) -> bool {
        let other = device.is_none_or(|device| {
            let first = self.first.compare_exchange(NO_DEVICE, device, Ordering::Relaxed, Ordering::Relaxed);
            first.is_err_and(|first| first != device)
        });
        other && !self.are_several.swap(true, Ordering::Relaxed)
    }
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
const PARAMETERS: usize = 16;
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

/// A call begins or ends, a context begins or is about to be destroyed, or a graph changed. The sink ignores calls in
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
        FUNCTION.set(number);
        let enqueues = calls::enqueues(number);
        if enqueues {
            receiver.contexts.saw(context.expose_provenance());
        } else {
            let place = receiver.typed_nodes.get().and_then(|all| all.iter().find(|(typed, _)| *typed == number));
            // SAFETY: the caller vouches for `data`, and the driver for the parameters of its function.
            if let Some(kind) = place.and_then(|(_, place)| unsafe { node_type(data, *place) }) {
                FUNCTION.set(TYPED | kind);
            }
            if receiver.opens_memory.get().is_some_and(|functions| functions.contains(&number)) {
                receiver.uses(None);
            }
            if receiver.awaits_events.get().is_some_and(|functions| functions.contains(&number)) {
                receiver.record_waits();
            }
            if receiver.adds_nodes.get().is_some_and(|functions| functions.contains(&number)) {
                return;
            }
        }
        // SAFETY: the caller vouches for the type of the sink. The cast avoids a dynamic call, because each launch
        // comes here.
        let sink = unsafe { &*std::ptr::from_ref(receiver.sink).cast::<S>() };
        sink.entered(number, correlation, enqueues);
    });
}

/// The type of the node that this call of the driver is to create.
///
/// # Safety
///
/// As for [`on_call`], and `place` is that of the node's parameters in those of the function.
#[cold]
unsafe fn node_type(data: *const c_void, place: usize) -> Option<u32> {
    // SAFETY: the data of an API callback point to the function's parameters; see `site`.
    let parameters = unsafe { data.byte_add(PARAMETERS).cast::<*const c_void>().read() };
    if parameters.is_null() {
        return None;
    }
    // SAFETY: the caller vouches for the place.
    let node = unsafe { parameters.byte_add(place).cast::<*const u32>().read() };
    // SAFETY: the parameters of a node begin with its type. The program passes them, and the driver reads them next.
    (!node.is_null()).then(|| unsafe { node.read() } & !TYPED)
}

/// A context begins or is about to be destroyed, or a graph changed.
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
        if matches!(number, CONTEXT_BEGINS | CONTEXT_ENDS) {
            // SAFETY: the data of a resource callback begins with the context.
            let context = unsafe { data.cast::<*mut c_void>().read() };
            if number == CONTEXT_ENDS {
                return receiver.contexts.gone(context.expose_provenance());
            }
            // SAFETY: CUPTI has just passed the context.
            receiver.uses(unsafe { receiver.library.device_of(context) }.ok());
        } else if GRAPHS.contains(&number) {
            // SAFETY: the caller's promise.
            unsafe { on_graph(receiver, number, data) };
        }
    });
}

/// Callbacks of the resource domain. A context was created, or is about to be destroyed; a graph was created, or is
/// about to be destroyed; a node was created, or is a clone; a graph becomes executable, and is.
pub(super) const CONTEXT_BEGINS: u32 = 1;
pub(super) const CONTEXT_ENDS: u32 = 2;
pub(super) const GRAPHS: [u32; 6] = [GRAPH_CREATED, GRAPH_ENDS, NODE_CREATED, EXEC_BEGINS, EXEC_CREATED, NODE_CLONED];
const GRAPH_CREATED: u32 = 9;
const GRAPH_ENDS: u32 = 10;
const NODE_CREATED: u32 = 13;
const EXEC_BEGINS: u32 = 17;
pub(super) const EXEC_CREATED: u32 = 18;
const NODE_CLONED: u32 = 20;

/// Offsets in the data of a graph callback, and in the descriptor to which it points.
const DESCRIPTOR: usize = 16;
const GRAPH: usize = 0;
const NODE: usize = 16;
const ORIGINAL: usize = 24;
const NODE_TYPE: usize = 32;
const EXEC: usize = 48;

/// Marks a type of nodes where else the number of a function is.
const TYPED: u32 = 1 << 31;

thread_local! {
    /// The driver's function that this thread called last, or [`TYPED`] and the type of the node that it creates; 0
    /// once a node was created in it.
    static FUNCTION: Cell<u32> = const { Cell::new(0) };
    /// The graph that this thread is making executable; 0 for none.
    static MAKING: Cell<u32> = const { Cell::new(0) };
}

/// A graph changed. CUPTI calls this on the thread that changes it. Libraries before CUDA 12.3 have no numbers of
/// executable graphs: then it is not known what is in a whole graph, and nothing is lost.
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
    // SAFETY: CUPTI has just passed the handles that the three read.
    let (node, graph, executable) = unsafe {
        (
            |place| receiver.library.graph_node(word(place)),
            || receiver.library.graph(word(GRAPH)),
            || receiver.library.executable_graph(word(EXEC)),
        )
    };
    let change = match number {
        GRAPH_CREATED => {
            MAKING.set(0); // CUPTI calls nobody where a graph could not be made executable
            let Some(graph) = graph() else { return };
            Some(GraphChange::Created { graph, span: receiver.sink.span() })
        }
        GRAPH_ENDS => {
            let Some(graph) = graph() else { return };
            Some(match MAKING.get() {
                0 => GraphChange::Ended { graph },
                into => GraphChange::Embedded { graph, into },
            })
        }
        EXEC_BEGINS => return MAKING.set(executable().unwrap_or(0)),
        EXEC_CREATED => {
            MAKING.set(0);
            receiver.made_executable.store(true, Ordering::Relaxed);
            let Some(graph) = executable() else { return };
            Some(GraphChange::Instantiated { graph })
        }
        NODE_CREATED => {
            let kind = match (word(NODE_TYPE).addr() as u32, FUNCTION.take()) {
                (0, 0) => NodeKind::Other,
                (0, typed) if typed & TYPED != 0 => calls::node_of_type(typed & !TYPED),
                (0, function) => receiver.node_kind(function), // CUPTI before 13.4 has 0 for every type
                (number, _) => calls::node_of_type(number),
            };
            node(NODE).map(|node| GraphChange::Node { node, span: receiver.sink.span(), kind })
        }
        _ => node(NODE).zip(node(ORIGINAL)).map(|(node, original)| GraphChange::Cloned { node, original }),
    };
    match change {
        Some(change) => receiver.sink.changed(change),
        None => receiver.sink.lost(Lost { unreadable: 1, over_budget: 0 }),
    }
}

impl Receiver {
    /// The program uses this device from now on; `None` for one that is not known.
    #[cold]
    fn uses(&self, device: Option<u32>) {
        if self.devices.is_second(device) {
            self.record(Kind::MemcpyPeer);
        }
    }

    /// A stream waits for an event.
    fn record_waits(&self) {
        if !self.records_waits.load(Ordering::Relaxed) && !self.records_waits.swap(true, Ordering::Relaxed) {
            self.record(Kind::Synchronization);
        }
    }

    #[cold]
    fn record(&self, kind: Kind) {
        if !forks::is_child() && self.strides.readable(kind) && self.library.kind(kind as u32, true).is_err() {
            self.sink.lost(Lost { unreadable: 1, over_budget: 0 });
        }
    }

    /// What a node does that this function of the driver creates.
    fn node_kind(&self, function: u32) -> NodeKind {
        if let Some(name) = calls::enqueue_name(function) {
            return calls::node_kind(name);
        }
        self.library.function_name(Api::Driver, function).map_or(NodeKind::Other, |name| calls::node_kind(&name))
    }
}

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
