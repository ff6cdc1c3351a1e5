//! The calls by which a program selects the part that is measured: `cuProfilerStart` and `cuProfilerStop`, which
//! `cudaProfilerStart` and `cudaProfilerStop` come to.
//!
//! They are seen before there is a session, so the subscription is made here, and the session that begins in the first
//! of these calls shares it: CUPTI has one at a time. It stays until the process ends, because these are its callbacks.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

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

/// A subscription to the two functions, and to what a session adds.
pub(super) struct Watch {
    library: Library,
    subscriber: Subscriber,
    tell: fn(bool),
    session: AtomicPtr<Shared>,
}

/// What a session would have subscribed with. Never freed.
struct Shared {
    on_call: OnCall,
    user: *mut c_void,
}

/// Has `tell` called where the program calls `cuProfilerStart` (with true, at the end of the call) and `cuProfilerStop`
/// (with false, at its beginning), on the calling thread. A session may be started and finished there. To be called
/// once, inside `cuInit` (`InitializeInjection`).
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
/// When CUPTI cannot be used: why.
pub fn watch_profiler(tell: fn(bool)) -> Result<(), Unavailable> {
    if WATCH.get().is_some() {
        return Ok(());
    }
    let device = Device::find(true)?;
    let library = Library::find(device.driver_version)?;
    // SAFETY: `on_call` ignores its user.
    let subscriber = unsafe { library.subscribe(on_call, std::ptr::null_mut()) }
        .map_err(|code| library.refused(device.driver_version, "cuptiSubscribe", code))?;
    // The call in which a session begins has a record that is stamped at its beginning, too.
    let clock = std::iter::once(library.register_clock(receive::clock));
    let functions = PROFILER.iter().map(|(number, _)| library.enable_callback(subscriber, Domain::Driver, *number));
    let mut enabled = clock.chain(functions);
    if let Some(code) = enabled.find_map(Result::err) {
        let _nothing_to_be_done = library.unsubscribe(subscriber);
        return Err(library.refused(device.driver_version, "cuptiEnableCallback", code));
    }
    forks::watch();
    let _once = WATCH.set(Watch { library, subscriber, tell, session: AtomicPtr::default() });
    Ok(())
}

impl Watch {
    /// The subscription of this process, if there is one.
    pub(super) fn current() -> Option<&'static Self> {
        WATCH.get()
    }

    /// Hands callbacks on, from now on, and says what to enable them with.
    ///
    /// # Safety
    ///
    /// As for [`Library::subscribe`].
    pub(super) unsafe fn share(&self, on_call: OnCall, user: *mut c_void) -> Subscriber {
        self.session.store(Box::into_raw(Box::new(Shared { on_call, user })), Ordering::Release);
        self.subscriber
    }

    /// Hands callbacks on no more.
    pub(super) fn end(&self) -> Result<(), Code> {
        self.session.store(std::ptr::null_mut(), Ordering::Release);
        self.library.disable_domain(self.subscriber, Domain::Resource)?;
        self.library.disable_domain(self.subscriber, Domain::Driver)
    }
}

/// # Safety
///
/// `data` is what CUPTI passes for the domain.
unsafe extern "C" fn on_call(_user: *mut c_void, domain: u32, number: u32, data: *const c_void) {
    let Some(watch) = WATCH.get() else { return };
    if domain == Domain::Driver as u32 && matches!(number, START | STOP) {
        // SAFETY: the caller's promise.
        let site = unsafe { receive::site(data) };
        let begins = number == START;
        let is_time = site == Some(if begins { Site::Exit } else { Site::Entry });
        return if is_time && !forks::is_child() {
            receive::guarded(|| (watch.tell)(begins))
        };
    }
    // SAFETY: null, or a box that `share` made, and that is never freed.
    if let Some(session) = unsafe { watch.session.load(Ordering::Acquire).as_ref() } {
        // SAFETY: the promise of who shared it, and the caller's.
        unsafe { (session.on_call)(session.user, domain, number, data) }
    }
}
