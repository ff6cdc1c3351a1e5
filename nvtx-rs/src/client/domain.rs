//! Domains, and the names registered in each.

use super::lazy::LazyHandle;
use super::{calls, text};
use crate::abi;
use crate::abi::program::SLOTS;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::{CStr, CString};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ptr::null_mut;

/// A name space for ranges, marks, strings and categories: usually one for each library or program.
///
/// There is one domain of a name in the process. A domain is never destroyed, so the handle is free to copy and keep.
///
/// ```
/// use nvtx_rs::{Attributes, Domain};
/// let solver = Domain::named("solver")?;
/// solver.push(&Attributes::new().message("iterate"));
/// solver.pop();
/// assert_eq!(solver, Domain::named("solver")?);
/// # Ok::<(), nvtx_rs::DomainError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Domain(Option<&'static Entry>);

pub(crate) struct Entry {
    name: &'static str,
    c_name: CString,
    handle: LazyHandle,
    names: Names,
}

/// Names registered in one domain.
struct Names {
    strings: Mutex<Named<&'static StringEntry>>,
    categories: Mutex<Named<NamedCategory>>,
}

/// Rows by name. One map of numbers serves rows of all types, so the compiler makes it once.
struct Named<T> {
    numbers: BTreeMap<&'static str, usize>,
    rows: Vec<T>,
}

impl<T> Named<T> {
    const fn new() -> Self {
        Self { numbers: BTreeMap::new(), rows: Vec::new() }
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        self.rows.get_mut(*self.numbers.get(name)?)
    }

    /// Adds a name that is new.
    fn add(&mut self, name: &'static str, row: T) {
        self.numbers.insert(name, self.rows.len());
        self.rows.push(row);
    }
}

/// A string that is registered in a domain, kept for the life of the process.
pub(super) struct StringEntry {
    pub(super) domain: Domain,
    pub(super) text: &'static str,
    pub(super) c_text: &'static CStr,
    pub(super) handle: LazyHandle,
}

#[derive(Clone, Copy)]
struct NamedCategory {
    id: u32,
    told: bool,
}

impl Names {
    const fn new() -> Self {
        Self { strings: Mutex::new(Named::new()), categories: Mutex::new(Named::new()) }
    }
}

static DEFAULT_NAMES: Names = Names::new();
static DOMAINS: Mutex<Named<&'static Entry>> = Mutex::new(Named::new());

impl Domain {
    /// The domain without a name.
    pub const DEFAULT: Self = Self(None);

    /// How many named domains a process may have.
    pub const LIMIT: usize = 4_096;

    /// The domain of this name, created at the first call, which also registers it with an attached tool. Simultaneous
    /// calls of several threads create it once.
    ///
    /// # Errors
    /// If the name is empty, or if there are [`Domain::LIMIT`] domains already.
    pub fn named(name: &str) -> Result<Self, DomainError> {
        if name.is_empty() {
            return Err(DomainError::EmptyName);
        }
        let entry = find_or_add(&text::sanitize(name))?;
        let domain = Self(Some(entry));
        domain.handle();
        Ok(domain)
    }

    /// The name; none for [`Domain::DEFAULT`].
    #[inline]
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.0.map(|entry| entry.name)
    }

    /// The tool's handle, null for the default domain or without a tool.
    pub(crate) fn handle(self) -> abi::Handle {
        let Some(entry) = self.0 else { return null_mut() };
        entry.handle.get(&SLOTS.core2[abi::core2::DOMAIN_CREATE_A], || calls::create_domain(&entry.c_name))
    }

    fn names(self) -> &'static Names {
        self.0.map_or(&DEFAULT_NAMES, |entry| &entry.names)
    }

    /// The string with this text, and whether this call added it.
    pub(super) fn find_or_add_string(self, clean: &str) -> (&'static StringEntry, bool) {
        let mut strings = self.names().strings.lock();
        if let Some(&mut entry) = strings.get_mut(clean) {
            return (entry, false);
        }
        let c_text: &'static CStr = Box::leak(text::c_string(clean).into_boxed_c_str());
        let text = c_text.to_str().unwrap_or_default();
        let entry: &'static StringEntry =
            Box::leak(Box::new(StringEntry { domain: self, text, c_text, handle: LazyHandle::new() }));
        strings.add(text, entry);
        (entry, true)
    }

    /// The number of a category, and whether the caller must pass its name to the tool. New numbers count from `first`.
    pub(super) fn number_category(self, name: &str, first: u32, attached: bool) -> (u32, bool) {
        let mut categories = self.names().categories.lock();
        let count = categories.rows.len() as u32;
        if let Some(category) = categories.get_mut(name) {
            let tell = attached && !category.told;
            category.told |= attached;
            return (category.id, tell);
        }
        let id = first.saturating_add(count);
        categories.add(Box::leak(name.into()), NamedCategory { id, told: attached });
        (id, attached)
    }
}

/// Why a domain could not be made.
///
/// ```
/// use nvtx_rs::{Domain, DomainError};
/// assert_eq!(Domain::named(""), Err(DomainError::EmptyName));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DomainError {
    /// The name is empty: Nsight Systems cannot import a recording that has such a domain.
    EmptyName,
    /// The process has [`Domain::LIMIT`](Domain::LIMIT) domains already.
    TooMany,
}

impl fmt::Display for DomainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyName => f.write_str("the name of an NVTX domain must not be empty"),
            Self::TooMany => write!(f, "more than {} NVTX domains", Domain::LIMIT),
        }
    }
}

impl Error for DomainError {}

fn find_or_add(name: &str) -> Result<&'static Entry, DomainError> {
    let mut domains = DOMAINS.lock();
    if let Some(&mut entry) = domains.get_mut(name) {
        return Ok(entry);
    }
    if domains.rows.len() >= Domain::LIMIT {
        return Err(DomainError::TooMany);
    }
    let entry: &'static Entry = Box::leak(Box::new(Entry {
        name: Box::leak(name.into()),
        c_name: text::c_string(name),
        handle: LazyHandle::new(),
        names: Names::new(),
    }));
    domains.add(entry.name, entry);
    Ok(entry)
}

impl PartialEq for Domain {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0.map(std::ptr::from_ref) == other.0.map(std::ptr::from_ref)
    }
}

impl Eq for Domain {}

impl Hash for Domain {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.map(std::ptr::from_ref).hash(state);
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Domain").field(&self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_comes_back_as_itself() {
        let names = ["one", "two", "three"];
        let made = names.map(|name| Domain::named(name).unwrap());
        assert_eq!(names.map(|name| Domain::named(name).unwrap()), made);
        assert_eq!(made.map(Domain::name), names.map(Some));
        let [one, ..] = made;
        let registered = names.map(|name| one.register(name));
        assert_eq!(names.map(|name| one.register(name)), registered);
        assert_eq!(registered.map(|string| string.as_str()), names);
        let first = names.map(|name| one.category(name).id());
        assert_eq!(names.map(|name| one.category(name).id()), first);
        assert!(first[0] < first[1] && first[1] < first[2]);
    }
}
