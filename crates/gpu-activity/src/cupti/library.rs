//! Loads libcupti and wraps its functions in safe ones.
//!
//! cudarc's bindings are not used: they panic if the library or a symbol is missing, and treat CUPTI's codes as enums
//! of the version that they were built for. Here codes and kinds are plain integers, and records are read as bytes, not
//! as structs.
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

/// The version number of CUDA 11.8's library.
const OLDEST: u32 = 18;

/// A return code of CUPTI, 0 for success.
pub type Code = i32;

/// CUPTI calls this at the entry and exit of calls, with the user's pointer, the domain, the number of the function,
/// and data of the domain.
pub(crate) type OnCall = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);
/// CUPTI calls this to request a buffer: its address, its size and its largest number of records.
pub(crate) type OnRequest = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// CUPTI calls this to return a buffer: context and stream (not set), buffer, its size, and bytes of records in it.
pub(crate) type OnComplete = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
/// CUPTI reads the time with this function.
pub(crate) type Clock = extern "C" fn() -> u64;

driver::functions! {
    Functions -> Code, required:
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
    device_of = c"cuptiGetDeviceId": fn(*mut c_void, *mut u32),
}

driver::functions! {
    /// Functions that an older library lacks.
    NewerFunctions -> Code, optional:
    graph_node_id = c"cuptiGetGraphNodeId": fn(*mut c_void, *mut u64),
    graph_id = c"cuptiGetGraphId": fn(*mut c_void, *mut u32),
    graph_exec_id = c"cuptiGetGraphExecId": fn(*mut c_void, *mut u32),
    time_events = c"cuptiActivityEnableCudaEventDeviceTimestamps": fn(u8),
    record_driver = c"cuptiActivityEnableDriverApi": fn(u32, u8),
    record_runtime = c"cuptiActivityEnableRuntimeApi": fn(u32, u8),
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
    /// The library for a driver of this version (13000 for CUDA 13.0); `search` lists the places. The driver must be
    /// loaded: otherwise libcupti 13.2 crashes in its first function.
    ///
    /// # Errors
    ///
    /// When there is no usable library: the reason for the first one that was found.
    pub fn find(driver_version: i32) -> Result<Self, Unavailable> {
        if let Some(library) = already_mapped() {
            return library;
        }
        let environment = Environment::read(&maps());
        let mut failed = None;
        for candidate in environment.candidates(u32::try_from(driver_version / 1000).unwrap_or(0)) {
            match Self::open(&candidate) {
                Ok(library) => return Ok(library),
                // It is normal that the loader does not find a bare name. Any other error may interest the user.
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
    /// When it cannot be loaded, or is no usable CUPTI.
    pub fn open(path: &Path) -> Result<Self, Unavailable> {
        // SAFETY: the file is called libcupti, or the user named it as such; its initialisers may run in any process.
        let library = unsafe { Shared::new(path) };
        let path = path.display().to_string();
        let library =
            library.map_err(|error| Unavailable::NotLoadable { path: path.clone(), reason: driver::reason(&error) });
        Self::of(library?, path)
    }

    fn of(library: Shared, path: String) -> Result<Self, Unavailable> {
        let library = ManuallyDrop::new(library);
        let found = Functions::of(&library).and_then(|functions| Ok((functions, NewerFunctions::of(&library)?)));
        let (functions, newer) = match found {
            Ok(found) => found,
            Err(name) => return Err(Unavailable::Lacks { path, function: name.to_str().unwrap_or_default() }),
        };
        let path = file_of(functions.version as *const c_void).unwrap_or(path);
        let mut version = 0;
        // SAFETY: writes one integer; the driver is loaded.
        match unsafe { (functions.version)(&raw mut version) } {
            0 if version >= OLDEST => Ok(Self { functions, newer, path, version, _for_ever: library }),
            0 => Err(Unavailable::TooOld { path, version }),
            code => Err(Unavailable::Refused { function: "cuptiGetVersion", code, meaning: String::new() }),
        }
    }

    /// The file from which the library was loaded.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The library's own version number: 18 for CUDA 11.8, 12.0 and 12.1 alike; from 13.0 on of the form 130001.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The version in CUDA's notation.
    #[must_use]
    pub fn version_name(&self) -> String {
        match i32::try_from(self.version) {
            Ok(version @ 10_000..) => cuda_version(version / 10_000 * 1000 + version / 100 % 100 * 10),
            _ => format!("API version {}", self.version),
        }
    }

    /// Lengths of records by kind.
    #[must_use]
    pub fn strides(&self) -> Strides {
        Strides::measure(|buffer, before| self.next_record(buffer, before))
    }

    /// The place of the record after the one at `before`, or of the first record.
    ///
    /// # Errors
    ///
    /// The code of the library, also if no record follows.
    pub fn next_record(&self, buffer: &mut [u8], before: Option<usize>) -> Result<usize, Code> {
        const INVALID_PARAMETER: Code = 1;
        let start = buffer.as_mut_ptr();
        let mut record = match before {
            None => std::ptr::null_mut(),
            // The address must have four readable bytes, because the library reads the kind there.
            Some(place) if place.checked_add(4).is_some_and(|end| end <= buffer.len()) => start.wrapping_add(place),
            Some(_) => return Err(INVALID_PARAMETER),
        };
        // SAFETY: the buffer has the given length and is ours alone; a record before is within it. The library reads
        // the kind of that record, adds the length that it knows, and compares with the end: it reads nothing behind
        // the buffer and writes nothing.
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
        // SAFETY: looks a number up in a table of the library and writes one pointer.
        answer(unsafe { (self.functions.callback_name)(domain as u32, number, &raw mut name) }).ok()?;
        text(name)
    }

    /// The library's name with its version and path.
    pub(super) fn full_name(&self) -> String {
        format!("CUPTI {} ({})", self.version_name(), self.path())
    }

    /// The reason that a return code of this function gives for not using CUPTI.
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
        // SAFETY: looks a number up in a table of the library and writes one pointer.
        let known = answer(unsafe { (self.functions.code_name)(code, &raw mut name) });
        known.ok().and_then(|()| text(name)).unwrap_or_default()
    }

    /// Subscribes `on_call`, with `user`, to the callbacks that are enabled later.
    ///
    /// # Safety
    ///
    /// CUPTI may call `on_call` with `user`, on any thread, until the process ends.
    pub(crate) unsafe fn subscribe(&self, on_call: OnCall, user: *mut c_void) -> Result<Subscriber, Code> {
        let mut subscriber = std::ptr::null_mut();
        // SAFETY: writes one handle; the caller vouches for the callback.
        answer(unsafe { (self.functions.subscribe)(&raw mut subscriber, on_call, user) })?;
        Ok(Subscriber(subscriber.expose_provenance()))
    }

    /// Ends a subscription and its callbacks.
    pub(crate) fn unsubscribe(&self, subscriber: Subscriber) -> Result<(), Code> {
        // SAFETY: the handle is from `subscribe`; CUPTI refuses one that has ended.
        answer(unsafe { (self.functions.unsubscribe)(subscriber.handle()) })
    }

    /// Switches the callbacks of one function.
    pub(crate) fn callback(&self, of: Subscriber, domain: Domain, number: u32, on: bool) -> Result<(), Code> {
        // SAFETY: the handle is from `subscribe`; CUPTI refuses unknown numbers.
        answer(unsafe { (self.functions.enable_callback)(on.into(), of.handle(), domain as u32, number) })
    }

    /// Switches the callbacks of all functions of a domain.
    pub(crate) fn domain(&self, subscriber: Subscriber, domain: Domain, on: bool) -> Result<(), Code> {
        // SAFETY: the handle is from `subscribe`.
        answer(unsafe { (self.functions.enable_domain)(on.into(), subscriber.handle(), domain as u32) })
    }

    /// Registers the functions that give buffers and take them back.
    ///
    /// # Safety
    ///
    /// CUPTI may call both, on any thread, until the process ends, and both fulfil CUPTI's requirements.
    pub(crate) unsafe fn register_callbacks(&self, request: OnRequest, complete: OnComplete) -> Result<(), Code> {
        // SAFETY: the caller vouches for the callbacks.
        answer(unsafe { (self.functions.register_callbacks)(request, complete) })
    }

    /// Makes CUPTI stamp records with `clock`.
    pub(crate) fn register_clock(&self, clock: Clock) -> Result<(), Code> {
        // SAFETY: `clock` is a safe function without arguments.
        answer(unsafe { (self.functions.register_clock)(clock) })
    }

    /// Switches records of a kind.
    pub(crate) fn kind(&self, kind: u32, on: bool) -> Result<(), Code> {
        let switch = if on { self.functions.enable_kind } else { self.functions.disable_kind };
        // SAFETY: CUPTI refuses unknown kinds.
        answer(unsafe { switch(kind) })
    }

    /// Whether calls of a function can be recorded without those of all others: from CUDA 12.5 on.
    #[must_use]
    pub fn records_functions(&self) -> bool {
        self.newer.record_driver.is_some() && self.newer.record_runtime.is_some()
    }

    /// Switches records of one function's calls. `None` if the library cannot do that, or has no such function.
    pub(crate) fn record_function(&self, api: Api, number: u32, on: bool) -> Option<()> {
        let switch = match api {
            Api::Driver => self.newer.record_driver,
            Api::Runtime => self.newer.record_runtime,
        };
        // SAFETY: takes a number, which CUPTI refuses if it does not know it, and a boolean.
        switch.and_then(|switch| answer(unsafe { switch(number, on.into()) }).ok())
    }

    /// Whether event records contain the time at which their stream reached them. `None` if the library cannot record
    /// it.
    pub(crate) fn time_events(&self, on: bool) -> Option<Result<(), Code>> {
        // SAFETY: takes a boolean.
        self.newer.time_events.map(|time_events| answer(unsafe { time_events(on.into()) }))
    }

    /// Number of the device of a context.
    ///
    /// # Safety
    ///
    /// CUPTI has just passed `context` to a callback.
    pub(crate) unsafe fn device_of(&self, context: *mut c_void) -> Result<u32, Code> {
        let mut number = 0;
        // SAFETY: the caller vouches for the context; writes one integer.
        answer(unsafe { (self.functions.device_of)(context, &raw mut number) }).map(|()| number)
    }

    /// Number of a node of a graph.
    ///
    /// # Safety
    ///
    /// CUPTI has just passed `node` to a callback.
    pub(crate) unsafe fn graph_node(&self, node: *mut c_void) -> Option<u64> {
        let mut number = 0;
        // SAFETY: the caller vouches for the node; writes one integer.
        answer(unsafe { self.newer.graph_node_id?(node, &raw mut number) }).ok().map(|()| number)
    }

    /// Number of a graph.
    ///
    /// # Safety
    ///
    /// As for [`graph_node`](Self::graph_node).
    pub(crate) unsafe fn graph(&self, graph: *mut c_void) -> Option<u32> {
        let mut number = 0;
        // SAFETY: the caller vouches for the graph; writes one integer.
        answer(unsafe { self.newer.graph_id?(graph, &raw mut number) }).ok().map(|()| number)
    }

    /// Number of an executable graph, which is that of the graph into which its nodes were cloned.
    ///
    /// # Safety
    ///
    /// As for [`graph_node`](Self::graph_node).
    pub(crate) unsafe fn executable_graph(&self, graph: *mut c_void) -> Option<u32> {
        let mut number = 0;
        // SAFETY: the caller vouches for the graph; writes one integer.
        answer(unsafe { self.newer.graph_exec_id?(graph, &raw mut number) }).ok().map(|()| number)
    }

    /// Makes CUPTI hand back buffers with complete records, or with `forced` all buffers.
    pub(crate) fn flush_all(&self, forced: bool) -> Result<(), Code> {
        // SAFETY: calls back into functions that `register_callbacks` requires to be callable.
        answer(unsafe { (self.functions.flush_all)(u32::from(forced)) })
    }

    /// Number of records that CUPTI dropped for lack of room since the last query.
    pub(crate) fn take_dropped(&self) -> Result<usize, Code> {
        let mut dropped = 0;
        // SAFETY: writes one integer. No context and stream 0 stand for the shared buffers of all.
        answer(unsafe { (self.functions.dropped)(std::ptr::null_mut(), 0, &raw mut dropped) })?;
        Ok(dropped)
    }
}

impl Subscriber {
    fn handle(self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.0)
    }
}

/// A constant text of the library.
fn text(name: *const c_char) -> Option<String> {
    // SAFETY: CUPTI returns a pointer to a constant of its own, which is never unloaded, or leaves the null.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

/// The library that another part of the process has loaded: the program, a framework, a tool.
#[cfg(unix)]
fn already_mapped() -> Option<Result<Library, Unavailable>> {
    use libloading::os::unix::{Library as UnixShared, RTLD_LAZY};
    let loaded = |name: &Path| {
        // SAFETY: RTLD_NOLOAD opens only mapped libraries and runs no initialisers.
        let shared = unsafe { UnixShared::open(Some(name), RTLD_LAZY | libc::RTLD_NOLOAD) }.ok()?;
        Some(Library::of(shared.into(), name.display().to_string()))
    };
    let mut names = search::SONAMES.map(|(name, _)| name).to_vec();
    names.push(search::UNVERSIONED);
    let maps = maps();
    names.extend(search::mapped(&maps));
    names.into_iter().find_map(|name| loaded(Path::new(name)))
}

#[cfg(not(unix))]
fn already_mapped() -> Option<Result<Library, Unavailable>> {
    None
}

/// The list of files mapped into this process, if the system has one.
fn maps() -> String {
    std::fs::read("/proc/self/maps").map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Name of the tool that uses CUPTI in this process, if the mapped libraries show it.
pub(crate) fn other_tool() -> Option<String> {
    let injection = std::env::var("CUDA_INJECTION64_PATH").ok().filter(|path| !is_ours(Path::new(path)));
    search::other_tool(&maps(), injection.as_deref())
}

/// Name of the profiler that belongs to the program's framework, if the mapped libraries show one.
pub(crate) fn own_profiler() -> Option<&'static str> {
    search::own_profiler(&maps())
}

/// Whether this code was loaded from that file.
fn is_ours(path: &Path) -> bool {
    let ours = file_of(is_ours as *const c_void).and_then(|file| Path::new(&file).canonicalize().ok());
    ours.is_some() && ours == path.canonicalize().ok()
}

/// The file from which a function was loaded.
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
    // SAFETY: the loader's own text for the file. It lasts while the file is loaded, which here is for ever.
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

    /// `Library::find` continues if the loader knows no such name, and recognises this by the loader's words.
    #[test]
    #[cfg(unix)]
    fn a_file_that_is_not_there_is_named_in_the_words_of_the_loader() {
        let missing = Library::open(Path::new("/not/there.so")).unwrap_err();
        assert!(missing.to_string().contains("No such file or directory"), "{missing}");
    }
}
