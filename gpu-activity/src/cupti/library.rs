//! libcupti: loading it, and its functions behind safe ones.
//!
//! Not through cudarc's bindings, which panic where the library or a symbol is missing and take CUPTI's codes for enums
//! of the version they were built for. Codes and kinds are plain integers here, and no record is ever looked at through
//! a struct.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::Path;

use libloading::Library as Shared;

use super::search::{self, Environment};
use super::strides::Strides;
use super::unavailable::{Unavailable, cuda_version};
use crate::driver;
use crate::record::Api;

/// What a library of CUDA 11.8 says.
const OLDEST: u32 = 18;

/// A code of CUPTI's, 0 for success.
pub type Code = i32;

/// What CUPTI calls at the entry and exit of calls: its user's word, domain, number of the function, and data of the
/// domain.
pub(crate) type OnCall = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);
/// What CUPTI calls for a buffer, which it wants the address, the size and the largest number of records of.
pub(crate) type OnRequest = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// What CUPTI calls with a buffer: context and stream (not set), buffer, its size, and bytes of records in it.
pub(crate) type OnComplete = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
/// What CUPTI reads the time with.
pub(crate) type Clock = extern "C" fn() -> u64;

macro_rules! functions {
    ($($name:ident = $symbol:literal: fn($($argument:ty),*)),* $(,)?) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) -> Code,)*
        }

        impl Functions {
            /// Its functions, or the name of one that it lacks.
            fn of(library: &Shared) -> Result<Self, &'static str> {
                $(
                    let found = driver::function(library, $symbol).ok_or($symbol.to_str().unwrap_or_default())?;
                    // SAFETY: the signature is that of the function of this name in CUPTI's documentation, the same
                    // from 11.8 to 13.5.
                    let $name = unsafe {
                        std::mem::transmute::<driver::AnyFunction, unsafe extern "C" fn($($argument),*) -> Code>(found)
                    };
                )*
                Ok(Self { $($name),* })
            }
        }
    };
}

functions! {
    version = c"cuptiGetVersion": fn(*mut u32),
    code_name = c"cuptiGetResultString": fn(Code, *mut *const c_char),
    callback_name = c"cuptiGetCallbackName": fn(u32, u32, *mut *const c_char),
    subscribe = c"cuptiSubscribe": fn(*mut *mut c_void, OnCall, *mut c_void),
    unsubscribe = c"cuptiUnsubscribe": fn(*mut c_void),
    enable_callback = c"cuptiEnableCallback": fn(u32, *mut c_void, u32, u32),
    enable_domain = c"cuptiEnableDomain": fn(u32, *mut c_void, u32),
    register_callbacks = c"cuptiActivityRegisterCallbacks": fn(OnRequest, OnComplete),
    register_clock = c"cuptiActivityRegisterTimestampCallback": fn(Clock),
    enable_kind = c"cuptiActivityEnable": fn(u32),
    disable_kind = c"cuptiActivityDisable": fn(u32),
    flush_all = c"cuptiActivityFlushAll": fn(u32),
    next_record = c"cuptiActivityGetNextRecord": fn(*mut u8, usize, *mut *mut u8),
    dropped = c"cuptiActivityGetNumDroppedRecords": fn(*mut c_void, u32, *mut usize),
}

macro_rules! newer_functions {
    ($($name:ident = $symbol:literal: fn($($argument:ty),*)),* $(,)?) => {
        /// Functions that an older library lacks.
        struct NewerFunctions {
            $($name: Option<unsafe extern "C" fn($($argument),*) -> Code>,)*
        }

        impl NewerFunctions {
            fn of(library: &Shared) -> Self {
                $(
                    // SAFETY: as for `Functions`; each has had this signature since there was one of its name.
                    let $name = driver::function(library, $symbol).map(|found| unsafe {
                        std::mem::transmute::<driver::AnyFunction, unsafe extern "C" fn($($argument),*) -> Code>(found)
                    });
                )*
                Self { $($name),* }
            }
        }
    };
}

newer_functions! {
    graph_node_id = c"cuptiGetGraphNodeId": fn(*mut c_void, *mut u64),
    graph_exec_id = c"cuptiGetGraphExecId": fn(*mut c_void, *mut u32),
    time_events = c"cuptiActivityEnableCudaEventDeviceTimestamps": fn(u8),
}

/// Domains of callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    Driver = 1,
    Runtime = 2,
    Resource = 3,
}

/// A subscription, as a number so that it can cross threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subscriber(usize);

/// A loaded libcupti. It is never unloaded: libraries of CUDA 13 crash then.
pub struct Library {
    functions: Functions,
    newer: NewerFunctions,
    path: String,
    version: u32,
    _for_ever: ManuallyDrop<Shared>,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("path", &self.path).field("version", &self.version).finish_non_exhaustive()
    }
}

fn answer(code: Code) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(code) }
}

impl Library {
    /// The library to use with a driver of this version (13000 for CUDA 13.0); `search` says where it is looked for.
    /// Call it with the driver loaded: libcupti 13.2 crashes in its first function without.
    ///
    /// # Errors
    ///
    /// When there is no library, or none that can be used: of the first that was found, why.
    pub fn find(driver_version: i32) -> Result<Self, Unavailable> {
        if let Some(library) = already_mapped() {
            return library;
        }
        let environment = Environment::read(&maps());
        let mut failed = None;
        for candidate in environment.candidates(u32::try_from(driver_version / 1000).unwrap_or(0)) {
            match Self::open(&candidate) {
                Ok(library) => return Ok(library),
                // A bare name that the loader does not find is no news; anything else may be what the user wants to
                // know.
                Err(Unavailable::NotLoadable { reason, .. })
                    if environment.chosen.is_none() && reason.contains("No such file or directory") => {}
                Err(reason) => failed = failed.or(Some(reason)),
            }
        }
        Err(failed.unwrap_or_else(|| Unavailable::NotFound { looked: environment.places() }))
    }

    /// Loads this file, or this name from the loader's path.
    ///
    /// # Errors
    ///
    /// When it cannot be loaded, or is no CUPTI that can be used.
    pub fn open(path: &Path) -> Result<Self, Unavailable> {
        // SAFETY: the file is called libcupti or was named by the user as such; its initialisers are meant to run in
        // any process.
        let library = unsafe { Shared::new(path) };
        let path = path.display().to_string();
        let library =
            library.map_err(|error| Unavailable::NotLoadable { path: path.clone(), reason: driver::reason(&error) });
        Self::of(library?, path)
    }

    fn of(library: Shared, path: String) -> Result<Self, Unavailable> {
        let library = ManuallyDrop::new(library);
        let functions = match Functions::of(&library) {
            Ok(functions) => functions,
            Err(function) => return Err(Unavailable::Lacks { path, function }),
        };
        let newer = NewerFunctions::of(&library);
        let path = file_of(functions.version as *const c_void).unwrap_or(path);
        let mut version = 0;
        // SAFETY: writes one integer; the driver is loaded.
        match unsafe { (functions.version)(&raw mut version) } {
            0 if version >= OLDEST => Ok(Self { functions, newer, path, version, _for_ever: library }),
            0 => Err(Unavailable::TooOld { path, version }),
            code => Err(Unavailable::Refused { function: "cuptiGetVersion", code, meaning: String::new() }),
        }
    }

    /// The file that it came from.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The number that the library gives; 18 is CUDA 11.8, 12.0 and 12.1 alike, and from 13.0 on it is like 130001.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The version as a person would say it.
    #[must_use]
    pub fn version_name(&self) -> String {
        match i32::try_from(self.version) {
            Ok(version @ 10_000..) => cuda_version(version / 10_000 * 1000 + version / 100 % 100 * 10),
            _ => format!("API version {}", self.version),
        }
    }

    /// How long records are.
    #[must_use]
    pub fn strides(&self) -> Strides {
        Strides::measure(|buffer, before| self.next_record(buffer, before))
    }

    /// The place of the record that follows the one at `before`, or of the first.
    ///
    /// # Errors
    ///
    /// The code of the library, as where no record follows.
    pub fn next_record(&self, buffer: &mut [u8], before: Option<usize>) -> Result<usize, Code> {
        const INVALID_PARAMETER: Code = 1;
        let start = buffer.as_mut_ptr();
        let mut record = match before {
            None => std::ptr::null_mut(),
            // An address with four readable bytes, in which the library looks for the kind.
            Some(place) if place.checked_add(4).is_some_and(|end| end <= buffer.len()) => start.wrapping_add(place),
            Some(_) => return Err(INVALID_PARAMETER),
        };
        // SAFETY: the buffer is as long as said and ours alone; a record before it is within it. The library reads that
        // one's kind, adds the length that it knows, and compares with the end: nothing behind the buffer is read, and
        // nothing is written to it.
        answer(unsafe { (self.functions.next_record)(start, buffer.len(), &raw mut record) })?;
        Ok(record.addr().wrapping_sub(start.addr()))
    }

    /// Name of a function of the driver or the runtime.
    #[must_use]
    pub fn function_name(&self, api: Api, number: u32) -> Option<String> {
        let domain = match api {
            Api::Driver => Domain::Driver,
            Api::Runtime => Domain::Runtime,
        };
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: looks a number up in a table of the library's and writes one pointer.
        answer(unsafe { (self.functions.callback_name)(domain as u32, number, &raw mut name) }).ok()?;
        text(name)
    }

    /// With its version and path.
    pub(super) fn full_name(&self) -> String {
        format!("CUPTI {} ({})", self.version_name(), self.path())
    }

    /// What a code of this function means for whoever wants CUPTI.
    pub(super) fn refused(&self, driver: i32, function: &'static str, code: Code) -> Unavailable {
        const NOT_INITIALIZED: Code = 15;
        const NOT_PERMITTED: [Code; 2] = [35, 40];
        const MULTIPLE_SUBSCRIBERS: Code = 39;
        match code {
            MULTIPLE_SUBSCRIBERS => Unavailable::OtherTool(other_tool()),
            NOT_INITIALIZED if function == "cuptiSubscribe" => {
                Unavailable::NewerThanDriver { library: self.full_name(), driver }
            }
            code if NOT_PERMITTED.contains(&code) => Unavailable::NotPermitted { code },
            code => Unavailable::Refused { function, code, meaning: self.code_name(code) },
        }
    }

    /// CUPTI's name of a code.
    pub(crate) fn code_name(&self, code: Code) -> String {
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: looks a number up in a table of the library's and writes one pointer.
        let known = answer(unsafe { (self.functions.code_name)(code, &raw mut name) });
        known.ok().and_then(|()| text(name)).unwrap_or_default()
    }

    /// Has `on_call` called with `user` for what is enabled later.
    ///
    /// # Safety
    ///
    /// `on_call` may be called with `user`, on any thread, until the process ends.
    pub(crate) unsafe fn subscribe(&self, on_call: OnCall, user: *mut c_void) -> Result<Subscriber, Code> {
        let mut subscriber = std::ptr::null_mut();
        // SAFETY: writes one handle; the callback is the caller's promise.
        answer(unsafe { (self.functions.subscribe)(&raw mut subscriber, on_call, user) })?;
        Ok(Subscriber(subscriber.expose_provenance()))
    }

    /// Ends a subscription and its callbacks.
    pub(crate) fn unsubscribe(&self, subscriber: Subscriber) -> Result<(), Code> {
        // SAFETY: the handle is one that `subscribe` gave; one that has ended is refused.
        answer(unsafe { (self.functions.unsubscribe)(subscriber.handle()) })
    }

    /// Asks for callbacks of one function.
    pub(crate) fn enable_callback(&self, subscriber: Subscriber, domain: Domain, number: u32) -> Result<(), Code> {
        // SAFETY: the handle is `subscribe`'s; numbers that are not known are refused.
        answer(unsafe { (self.functions.enable_callback)(1, subscriber.handle(), domain as u32, number) })
    }

    /// Asks for no more callbacks of one function.
    pub(crate) fn disable_callback(&self, subscriber: Subscriber, domain: Domain, number: u32) -> Result<(), Code> {
        // SAFETY: as above.
        answer(unsafe { (self.functions.enable_callback)(0, subscriber.handle(), domain as u32, number) })
    }

    /// Asks for callbacks of all functions of a domain.
    pub(crate) fn enable_domain(&self, subscriber: Subscriber, domain: Domain) -> Result<(), Code> {
        // SAFETY: the handle is `subscribe`'s.
        answer(unsafe { (self.functions.enable_domain)(1, subscriber.handle(), domain as u32) })
    }

    /// Asks for no more callbacks of a domain.
    pub(crate) fn disable_domain(&self, subscriber: Subscriber, domain: Domain) -> Result<(), Code> {
        // SAFETY: as above.
        answer(unsafe { (self.functions.enable_domain)(0, subscriber.handle(), domain as u32) })
    }

    /// Says who gives and takes buffers.
    ///
    /// # Safety
    ///
    /// Both may be called, on any thread, until the process ends, and do what CUPTI asks of them.
    pub(crate) unsafe fn register_callbacks(&self, request: OnRequest, complete: OnComplete) -> Result<(), Code> {
        // SAFETY: the callbacks are the caller's promise.
        answer(unsafe { (self.functions.register_callbacks)(request, complete) })
    }

    /// Has records stamped by `clock`.
    pub(crate) fn register_clock(&self, clock: Clock) -> Result<(), Code> {
        // SAFETY: a safe function without arguments may be called by anybody at any time.
        answer(unsafe { (self.functions.register_clock)(clock) })
    }

    pub(crate) fn enable_kind(&self, kind: u32) -> Result<(), Code> {
        // SAFETY: kinds that are not known are refused.
        answer(unsafe { (self.functions.enable_kind)(kind) })
    }

    pub(crate) fn disable_kind(&self, kind: u32) -> Result<(), Code> {
        // SAFETY: as above.
        answer(unsafe { (self.functions.disable_kind)(kind) })
    }

    /// Whether event records say when their stream reached them. `None` where the library cannot.
    pub(crate) fn time_events(&self, on: bool) -> Option<Result<(), Code>> {
        // SAFETY: takes a truth value.
        self.newer.time_events.map(|time_events| answer(unsafe { time_events(on.into()) }))
    }

    /// Number of a node of a graph.
    ///
    /// # Safety
    ///
    /// `node` is one that CUPTI has just passed to a callback.
    pub(crate) unsafe fn graph_node(&self, node: *mut c_void) -> Option<u64> {
        let mut number = 0;
        // SAFETY: the caller's promise; writes one integer.
        answer(unsafe { self.newer.graph_node_id?(node, &raw mut number) }).ok().map(|()| number)
    }

    /// Number of an executable graph.
    ///
    /// # Safety
    ///
    /// As for [`graph_node`](Self::graph_node).
    pub(crate) unsafe fn graph(&self, graph: *mut c_void) -> Option<u32> {
        let mut number = 0;
        // SAFETY: the caller's promise; writes one integer.
        answer(unsafe { self.newer.graph_exec_id?(graph, &raw mut number) }).ok().map(|()| number)
    }

    /// Has buffers handed back: those whose records are complete, or with `forced` all of them.
    pub(crate) fn flush_all(&self, forced: bool) -> Result<(), Code> {
        // SAFETY: calls back into functions that `register_callbacks` was promised.
        answer(unsafe { (self.functions.flush_all)(u32::from(forced)) })
    }

    /// Records that CUPTI had no room for since it was asked last.
    pub(crate) fn take_dropped(&self) -> Result<usize, Code> {
        let mut dropped = 0;
        // SAFETY: writes one integer. No context and stream 0 mean all of them, in the buffers that all share.
        answer(unsafe { (self.functions.dropped)(std::ptr::null_mut(), 0, &raw mut dropped) })?;
        Ok(dropped)
    }
}

impl Subscriber {
    fn handle(self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.0)
    }
}

/// A text of the library's own.
fn text(name: *const c_char) -> Option<String> {
    // SAFETY: CUPTI answers with a pointer to a constant of its own, which is never unloaded, or leaves the null it was
    // given.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

/// The library that somebody else has loaded: the program, a framework, a tool.
#[cfg(unix)]
fn already_mapped() -> Option<Result<Library, Unavailable>> {
    use libloading::os::unix::{Library as UnixShared, RTLD_LAZY};
    let loaded = |name: &Path| {
        // SAFETY: RTLD_NOLOAD opens what is mapped already and runs no initialisers.
        let shared = unsafe { UnixShared::open(Some(name), RTLD_LAZY | libc::RTLD_NOLOAD) }.ok()?;
        Some(Library::of(shared.into(), name.display().to_string()))
    };
    let names = search::SONAMES.into_iter().map(|(name, _)| name).chain([search::UNVERSIONED]);
    let maps = maps();
    names.chain(search::mapped(&maps)).find_map(|name| loaded(Path::new(name)))
}

#[cfg(not(unix))]
fn already_mapped() -> Option<Result<Library, Unavailable>> {
    None
}

/// What is mapped into this process, where the system tells.
fn maps() -> String {
    std::fs::read("/proc/self/maps").map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Name of the tool that uses CUPTI in this process, if the mapped libraries show it.
pub(crate) fn other_tool() -> Option<String> {
    let injection = std::env::var("CUDA_INJECTION64_PATH").ok().filter(|path| !is_ours(Path::new(path)));
    search::other_tool(&maps(), injection.as_deref())
}

/// Name of the profiler that the program's framework has, if the mapped libraries show one.
pub(crate) fn own_profiler() -> Option<&'static str> {
    search::own_profiler(&maps())
}

/// Whether this code is in that file.
fn is_ours(path: &Path) -> bool {
    let ours = file_of(is_ours as *const c_void).and_then(|file| Path::new(&file).canonicalize().ok());
    ours.is_some() && ours == path.canonicalize().ok()
}

/// The file that a function was loaded from.
#[cfg(unix)]
fn file_of(function: *const c_void) -> Option<String> {
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: compares an address with those of the loaded libraries and writes one struct.
    if unsafe { libc::dladdr(function, &raw mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's own text for the file, which lasts while it is loaded, for ever here.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(name.to_string_lossy().into_owned())
}

#[cfg(not(unix))]
fn file_of(_function: *const c_void) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Library::find` goes on where the loader knows no such name, so it needs the loader's own words.
    #[test]
    #[cfg(unix)]
    fn a_file_that_is_not_there_is_named_in_the_words_of_the_loader() {
        let missing = Library::open(Path::new("/not/there.so")).unwrap_err();
        assert!(missing.to_string().contains("No such file or directory"), "{missing}");
    }
}
