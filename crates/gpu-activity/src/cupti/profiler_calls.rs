//! The calls by which a program selects the measured part: `cuProfilerStart` and `cuProfilerStop`, to which
//! `cudaProfilerStart` and `cudaProfilerStop` lead.
//!
//! They must be seen before there is a session, so the subscription is made here. The session that begins in the first
//! of these calls shares it, because CUPTI has one subscription at a time. It stays until the process ends, because its
//! callbacks are these functions.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use once_cell::sync::OnceCell;

use super::context::Device;
use super::library::{Code, Domain, Library, OnCall, Subscriber};
use super::receive::{self, Site};
use super::unavailable::Unavailable;
use crate::forks;

/// The two functions, by CUPTI's number (cbid) and name. The numbers are the same from CUDA 11.8 to 13.5.
pub const PROFILER: [(u32, &str); 2] = [(START, "cuProfilerStart"), (STOP, "cuProfilerStop")];
const START: u32 = 308;
const STOP: u32 = 309;

static WATCH: OnceCell<Watch> = OnceCell::new();

/// A subscription to the two functions, which a session extends.
pub(super) struct Watch {
    library: Library,
    subscriber: Subscriber,
    tell: fn(bool),
    session: AtomicPtr<Shared>,
    /// Whether a graph was made executable before there was a session.
    has_earlier_graphs: AtomicBool,
}

/// The callback that a session would subscribe. Never freed.
struct Shared {
    on_call: OnCall,
    user: *mut c_void,
}

/// Calls `tell` on the calling thread when the program calls `cuProfilerStart` (with true, at the end of the call) and
/// `cuProfilerStop` (with false, at its beginning). `tell` may start and finish a session. To be called once, inside
/// `cuInit` (`InitializeInjection`).
///
/// ```no_run
/// use gpu_activity::cupti::watch_profiler;
///
/// fn called(begins: bool) {
///     // starts a session, or finishes it
/// }
///
/// #[unsafe(no_mangle)]
/// extern "C" fn InitializeInjection() -> std::ffi::c_int {
///     watch_profiler(called).is_ok().into()
/// }
/// ```
///
/// # Errors
///
/// The reason why CUPTI cannot be used.
pub fn watch_profiler(tell: fn(bool)) -> Result<(), Unavailable> {
    if WATCH.get().is_some() {
        return Ok(());
    }
    let device = Device::find(true)?;
    let library = Library::find(device.driver_version)?;
    // SAFETY: `on_call` ignores its user.
    let subscriber = unsafe { library.subscribe(on_call, std::ptr::null_mut()) }
        .map_err(|code| library.refused(device.driver_version, "cuptiSubscribe", code))?;
    // The clock must be registered now: the call that starts a session has a record too, which is stamped at its
    // beginning.
    let clock = std::iter::once(library.register_clock(receive::clock));
    let functions = PROFILER.iter().map(|(number, _)| library.callback(subscriber, Domain::Driver, *number, true));
    let graphs = std::iter::once(library.callback(subscriber, Domain::Resource, receive::EXEC_CREATED, true));
    let mut enabled = clock.chain(functions).chain(graphs);
    if let Some(code) = enabled.find_map(Result::err) {
        let _nothing_to_be_done = library.unsubscribe(subscriber);
        return Err(library.refused(device.driver_version, "cuptiEnableCallback", code));
    }
    forks::watch();
    let _once = WATCH.set(Watch {
        library,
        subscriber,
        tell,
        session: AtomicPtr::default(),
        has_earlier_graphs: AtomicBool::new(false),
    });
    Ok(())
}

impl Watch {
    /// The subscription of this process, if there is one.
    pub(super) fn current() -> Option<&'static Self> {
        WATCH.get()
    }

    /// Forwards callbacks from now on. Returns the subscription, for enabling more of them.
    ///
    /// # Safety
    ///
    /// As for [`Library::subscribe`].
    pub(super) unsafe fn share(&self, on_call: OnCall, user: *mut c_void) -> Subscriber {
        self.session.store(Box::into_raw(Box::new(Shared { on_call, user })), Ordering::Release);
        self.subscriber
    }

    /// Whether the program made a graph executable before there was a session.
    pub(super) fn has_earlier_graphs(&self) -> bool {
        self.has_earlier_graphs.load(Ordering::Relaxed)
    }

    /// Stops forwarding callbacks.
    pub(super) fn end(&self) -> Result<(), Code> {
        self.session.store(std::ptr::null_mut(), Ordering::Release);
        self.library.domain(self.subscriber, Domain::Resource, false)?;
        self.library.domain(self.subscriber, Domain::Driver, false)
    }
}

/// # Safety
///
/// `data` is CUPTI's data for the domain.
unsafe extern "C" fn on_call(_user: *mut c_void, domain: u32, number: u32, data: *const c_void) {
    let Some(watch) = WATCH.get() else { return };
    if domain == Domain::Driver as u32 && matches!(number, START | STOP) {
        // SAFETY: the caller vouches for `data`.
        let site = unsafe { receive::site(data) };
        let begins = number == START;
        let is_time = site == Some(if begins { Site::Exit } else { Site::Entry });
        return if is_time && !forks::is_child() {
            receive::guarded(|| (watch.tell)(begins))
        };
    }
    // SAFETY: null, or a box that `share` made and that is never freed.
    if let Some(session) = unsafe { watch.session.load(Ordering::Acquire).as_ref() } {
        // SAFETY: the caller of `share` vouches for the callback, and the caller of this function for `data`.
        unsafe { (session.on_call)(session.user, domain, number, data) }
    } else if domain == Domain::Resource as u32 && number == receive::EXEC_CREATED {
        watch.has_earlier_graphs.store(true, Ordering::Relaxed);
    }
}
