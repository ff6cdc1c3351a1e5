//! The meaning of handles given to programs.

use crate::abi::Handle;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A lock that a forked child can take: see `fork.rs`. A panic leaves the guarded data consistent.
pub(super) struct Shared<T>(RwLock<T>);

impl<T> Shared<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(RwLock::new(value))
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names by handle. A name stays known, and does not move, when its owner is destroyed: programs continue to use such
/// handles.
pub(super) struct Names {
    /// Names of handles made here. A handle is [`STEP`] times one more than the name's index. Read without a lock.
    made: boxcar::Vec<&'static str>,
    /// How often a handle of the next tool got a new name; 0 if that tool made none.
    changes: AtomicUsize,
    index: Shared<Index>,
}

/// A cached name, and the number of changes before the lookup.
#[derive(Clone, Copy)]
struct Recent {
    of: Option<&'static Names>,
    handle: usize,
    changes: usize,
    name: &'static str,
}

thread_local! {
    /// Cached names of the next tool's handles, in slots determined by the handle: threads share no lock for them.
    static RECENT: [Cell<Recent>; 32] =
        const { [const { Cell::new(Recent { of: None, handle: 0, changes: 0, name: "" }) }; 32] };
}

/// The data behind the lock of [`Names`].
pub(super) struct Index {
    /// The indices in `made`, by scope and name.
    made: BTreeMap<usize, BTreeMap<&'static str, usize>>,
    /// Names by the handles of the next tool.
    noted: BTreeMap<usize, &'static str>,
    /// All names, including those without a handle now: a name that comes again takes no new memory.
    names: BTreeSet<&'static str>,
}

pub(super) static DOMAINS: Names = Names::new();
pub(super) static STRINGS: Names = Names::new();

/// Handles are as far apart as addresses of objects.
const STEP: usize = 16;

/// The largest number of domains, strings, objects and payload types that are kept, because programs need not announce
/// that they no longer use one.
pub(super) const MOST: usize = 65_536;
/// The name of all other domains and strings.
const OTHER: &str = "(other)";

impl Names {
    const fn new() -> Self {
        let index = Index { made: BTreeMap::new(), noted: BTreeMap::new(), names: BTreeSet::new() };
        Self { made: boxcar::Vec::new(), changes: AtomicUsize::new(0), index: Shared::new(index) }
    }

    #[inline]
    pub(super) fn get(&'static self, handle: Handle) -> Option<&'static str> {
        let changes = self.changes.load(Ordering::Acquire);
        if changes != 0
            && let Some(name) = self.noted(handle.addr(), changes)
        {
            return Some(name);
        }
        let place = (handle.addr() / STEP).checked_sub(1).filter(|_| handle.addr().is_multiple_of(STEP));
        let made = place.and_then(|place| self.made.get(place).copied());
        made.or_else(|| (changes != 0 && !handle.is_null() && self.index.read().noted.len() >= MOST).then_some(OTHER))
    }

    /// The name of the next tool's handle, as of `changes` or later.
    fn noted(&'static self, handle: usize, changes: usize) -> Option<&'static str> {
        RECENT.with(|recent| {
            let place = &recent[handle / STEP % recent.len()];
            let known = place.get();
            let is_same = known.of.is_some_and(|of| std::ptr::eq(of, self)) && known.handle == handle;
            if is_same && known.changes == changes {
                return Some(known.name);
            }
            let name = self.index.read().noted.get(&handle).copied()?;
            place.set(Recent { of: Some(self), handle, changes, name });
            Some(name)
        })
    }

    /// Locks the index. During a fork, no other thread then holds this lock.
    pub(super) fn lock(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write()
    }

    /// Notes the name of the handle that the next tool made.
    pub(super) fn note(&self, handle: Handle, name: &str) {
        if handle.is_null() || self.index.read().noted.get(&handle.addr()) == Some(&name) {
            return;
        }
        let mut index = self.index.write();
        let is_full = index.names.len() >= MOST;
        let name = index.names.get(name).copied().unwrap_or_else(|| {
            let name: &'static str = if is_full { OTHER } else { Box::leak(name.into()) };
            index.names.insert(name);
            name
        });
        if index.noted.len() >= MOST && !index.noted.contains_key(&handle.addr()) {
            return;
        }
        let is_new = index.noted.insert(handle.addr(), name).is_none();
        // Threads cache no handle that did not exist.
        if !is_new || self.changes.load(Ordering::Relaxed) == 0 {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// A handle for the name within `scope`, always the same. Beyond the limit, all names get one handle.
    pub(super) fn make(&self, scope: Handle, name: &str) -> Handle {
        let mut index = self.index.write();
        let made = index.made.entry(scope.addr()).or_default();
        let place = made.get(name).copied().unwrap_or_else(|| match self.made.count() {
            MOST => self.made.push(OTHER),
            count if count > MOST => MOST,
            _ => {
                let name: &'static str = Box::leak(name.into());
                let place = self.made.push(name);
                made.insert(name, place);
                place
            }
        });
        std::ptr::without_provenance_mut((place + 1) * STEP)
    }
}

/// A resource or a synchronisation object.
#[derive(Clone, Default)]
pub(super) struct Object {
    pub(super) domain: Option<&'static str>,
    pub(super) name: Option<String>,
}

/// Resources and synchronisation objects that live.
pub(super) static OBJECTS: Shared<BTreeMap<usize, Object>> = Shared::new(BTreeMap::new());

/// Keeps the value under this key, unless there are too many others.
pub(super) fn keep<K: Ord, V>(all: &Shared<BTreeMap<K, V>>, key: K, value: V) {
    let mut all = all.write();
    if all.len() < MOST || all.contains_key(&key) {
        all.insert(key, value);
    }
}

/// A new handle, of which only the address is used.
pub(super) fn new_handle() -> Handle {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    std::ptr::without_provenance_mut(NEXT.fetch_add(1, Ordering::Relaxed) * STEP)
}

/// The number of a start/end range, never 0.
pub(super) fn new_range_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The name of a domain; `None` for the default domain.
#[inline]
pub(super) fn domain_name(handle: Handle) -> Option<&'static str> {
    if handle.is_null() { None } else { Some(DOMAINS.get(handle).unwrap_or("<unknown>")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_of_the_next_tool_may_get_another_name() {
        static NAMES: Names = Names::new();
        let handle = |number: usize| std::ptr::without_provenance_mut(number);
        let own = NAMES.make(std::ptr::null_mut(), "own");
        // Both have the same slot in the thread's cache.
        let (one, other) = (handle(STEP * 5), handle(STEP * 37));
        for name in ["first", "second", "first"] {
            NAMES.note(one, name);
            NAMES.note(other, "other");
            let names = [one, other, own, one].map(|handle| NAMES.get(handle));
            assert_eq!(names, [Some(name), Some("other"), Some("own"), Some(name)]);
        }
        assert_eq!((NAMES.get(handle(STEP * 2)), NAMES.get(handle(STEP + 1))), (None, None));
        assert_eq!(NAMES.index.read().names.len(), 3, "a name that comes again is the same");
    }

    #[test]
    fn names_beyond_the_limit_share_one() {
        static NAMES: Names = Names::new();
        let make = |number: usize| NAMES.make(std::ptr::null_mut(), &number.to_string());
        let first = make(0);
        (1..MOST).for_each(|number| assert!(NAMES.get(make(number)) != Some(OTHER)));
        let [one, other] = [MOST, MOST + 1].map(make);
        assert_eq!((one, NAMES.get(one), make(0), NAMES.get(first)), (other, Some(OTHER), first, Some("0")));

        for handle in 1..MOST + 3 {
            NAMES.note(std::ptr::without_provenance_mut(handle), &handle.to_string());
        }
        let noted = |handle: usize| NAMES.get(std::ptr::without_provenance_mut(handle));
        assert_eq!((noted(7), noted(MOST + 1), noted(MOST + 2)), (Some("7"), Some(OTHER), Some(OTHER)));
        assert_eq!((NAMES.index.read().names.len(), NAMES.index.read().noted.len()), (MOST + 1, MOST));
    }

    #[test]
    fn objects_beyond_the_limit_are_not_kept() {
        let all = Shared::new(BTreeMap::new());
        (0..MOST + 2).for_each(|number| keep(&all, number, "first"));
        keep(&all, 7, "second");
        let all = all.read();
        assert_eq!((all.len(), all.get(&7), all.get(&MOST)), (MOST, Some(&"second"), None));
    }
}
