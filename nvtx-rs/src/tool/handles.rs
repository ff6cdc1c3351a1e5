//! What the handles stand for that were given to programs, and how deep each thread is.

use crate::abi::Handle;
use parking_lot::{Mutex, RwLock};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Names by handle. A name stays known when its owner is destroyed, as programs go on using such handles.
pub(super) struct Names {
    by_handle: RwLock<BTreeMap<usize, &'static str>>,
    made: Mutex<BTreeMap<usize, BTreeMap<&'static str, usize>>>,
}

pub(super) static DOMAINS: Names = Names::new();
pub(super) static STRINGS: Names = Names::new();

impl Names {
    const fn new() -> Self {
        Self { by_handle: RwLock::new(BTreeMap::new()), made: Mutex::new(BTreeMap::new()) }
    }

    pub(super) fn get(&self, handle: Handle) -> Option<&'static str> {
        self.by_handle.read().get(&handle.addr()).copied()
    }

    /// Notes the name of the handle that the next tool made.
    pub(super) fn note(&self, handle: Handle, name: &str) {
        if !handle.is_null() && self.get(handle) != Some(name) {
            self.by_handle.write().insert(handle.addr(), Box::leak(name.into()));
        }
    }

    /// A handle for the name within `scope`: the same whenever it is asked for.
    pub(super) fn make(&self, scope: Handle, name: &str) -> Handle {
        let mut made = self.made.lock();
        let made = made.entry(scope.addr()).or_default();
        let handle = made.get(name).copied().unwrap_or_else(|| {
            let name: &'static str = Box::leak(name.into());
            let handle = new_handle().addr();
            made.insert(name, handle);
            self.by_handle.write().insert(handle, name);
            handle
        });
        std::ptr::without_provenance_mut(handle)
    }
}

/// A resource or a synchronisation object.
#[derive(Clone, Default)]
pub(super) struct Object {
    pub(super) domain: Option<&'static str>,
    pub(super) name: Option<String>,
}

/// Resources and synchronisation objects that live.
pub(super) static OBJECTS: RwLock<BTreeMap<usize, Object>> = RwLock::new(BTreeMap::new());

/// A handle that no one has: only its address is ever used.
pub(super) fn new_handle() -> Handle {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    std::ptr::without_provenance_mut(NEXT.fetch_add(1, Ordering::Relaxed) * 16)
}

/// The number of a start/end range, never 0.
pub(super) fn new_range_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The name of a domain; none is the default domain.
pub(super) fn domain_name(handle: Handle) -> Option<&'static str> {
    if handle.is_null() { None } else { Some(DOMAINS.get(handle).unwrap_or("<unknown>")) }
}

thread_local! {
    static OPEN: RefCell<BTreeMap<usize, i32>> = const { RefCell::new(BTreeMap::new()) };
}

/// Counts a range opened by this thread; returns how many there were.
pub(super) fn deepen(domain: Handle) -> i32 {
    let count = |open: &RefCell<BTreeMap<usize, i32>>| {
        let mut open = open.borrow_mut();
        let open = open.entry(domain.addr()).or_insert(0);
        *open = open.saturating_add(1);
        *open - 1
    };
    // A thread that is going away has given up its counts.
    OPEN.try_with(count).unwrap_or(0)
}

/// Counts a range closed by this thread; returns its depth, none if there was no range.
pub(super) fn rise(domain: Handle) -> Option<i32> {
    let count = |open: &RefCell<BTreeMap<usize, i32>>| {
        let mut open = open.borrow_mut();
        let open = open.get_mut(&domain.addr()).filter(|open| **open > 0)?;
        *open -= 1;
        Some(*open)
    };
    OPEN.try_with(count).ok().flatten()
}
