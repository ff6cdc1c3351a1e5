//! Domains, and the calls that every domain has.

use crate::client::{SLOTS, is_set};
use crate::lazy::LazyHandle;
use crate::{Attributes, Category, DomainError, RegisteredString, abi, calls, client, text};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::CString;
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

/// What is registered in one domain.
struct Names {
    strings: Mutex<BTreeMap<&'static str, RegisteredString>>,
    categories: Mutex<BTreeMap<&'static str, NamedCategory>>,
}

#[derive(Clone, Copy)]
struct NamedCategory {
    id: u32,
    told: bool,
}

impl Names {
    const fn new() -> Self {
        Self { strings: Mutex::new(BTreeMap::new()), categories: Mutex::new(BTreeMap::new()) }
    }
}

static DEFAULT_NAMES: Names = Names::new();
static DOMAINS: Mutex<BTreeMap<&'static str, &'static Entry>> = Mutex::new(BTreeMap::new());

/// One range that was started and not ended, the result of [`Domain::start`].
///
/// ```
/// use nvtx_rs::{Attributes, Domain};
/// let request = Domain::DEFAULT.start(&Attributes::new().message("request"));
/// std::thread::spawn(move || Domain::DEFAULT.end(request)).join().unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RangeId(u64);

impl Domain {
    /// The domain without a name.
    pub const DEFAULT: Self = Self(None);

    /// How many named domains a process may have.
    pub const LIMIT: usize = 4_096;

    /// The domain of this name, made at the first call; that includes telling the tool, if one is attached. Calls from
    /// several threads at once make it once.
    ///
    /// # Errors
    /// If the name is empty, or if there are [`Domain::LIMIT`] domains already.
    ///
    /// ```
    /// let io = nvtx_rs::Domain::named("io")?;
    /// assert_eq!(io.name(), Some("io"));
    /// # Ok::<(), nvtx_rs::DomainError>(())
    /// ```
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
    ///
    /// ```
    /// assert_eq!(nvtx_rs::Domain::DEFAULT.name(), None);
    /// ```
    #[inline]
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.0.map(|entry| entry.name)
    }

    /// Opens a range on this thread. Ranges of one thread and domain nest: [`pop`](Self::pop) closes the latest.
    ///
    /// This is the bare call, for code that keeps its own stack. [`PushRange`](crate::PushRange) and
    /// [`range!`](crate::range!) close the range on their own. Nothing is returned: the depth that the interface has
    /// here is not to be relied on, as Nsight Systems returns -1 always.
    ///
    /// ```
    /// use nvtx_rs::{Attributes, Domain};
    /// Domain::DEFAULT.push(&Attributes::new().message("load"));
    /// Domain::DEFAULT.pop();
    /// ```
    #[inline]
    pub fn push(self, attributes: &Attributes<'_>) {
        if is_set(&SLOTS.core2[abi::core2::RANGE_PUSH_EX]) {
            self.push_attached(*attributes);
        }
    }

    /// Closes the range that this thread opened last in this domain. Without one tools ignore the call.
    ///
    /// ```
    /// nvtx_rs::Domain::DEFAULT.pop();
    /// ```
    #[inline]
    pub fn pop(self) {
        if is_set(&SLOTS.core2[abi::core2::RANGE_POP]) {
            self.pop_attached();
        }
    }

    /// [`push`](Self::push) for a caller with a clock of its own: reads it last of all before the tool is called, and
    /// returns what it says. Without a tool the clock is read too.
    ///
    /// What `clock` calls of NVTX itself comes before the range; if it panics, there is none.
    ///
    /// A range that is timed by the caller and by the tool is timed alike by both only if no work is left between the
    /// two readings, least of all work that takes longer here than at the range's end.
    ///
    /// ```
    /// use nvtx_rs::tool::{Call, attach};
    /// use nvtx_rs::{Attributes, Domain};
    /// use std::sync::mpsc;
    ///
    /// let (order, happened) = mpsc::channel();
    /// let tool = order.clone();
    /// attach(Box::new(move |call: &Call<'_>| {
    ///     let _ = match call {
    ///         Call::Push { .. } => tool.send("the tool's push"),
    ///         Call::Pop { .. } => tool.send("the tool's pop"),
    ///         _ => Ok(()),
    ///     };
    /// }))?;
    /// let clock = |now: u64| {
    ///     let _ = order.send("our clock");
    ///     now
    /// };
    /// let started = Domain::DEFAULT.push_timed(&Attributes::new().message("load"), || clock(2));
    /// let ended = Domain::DEFAULT.pop_timed(|| clock(5));
    /// assert_eq!(ended - started, 3);
    /// let happened: Vec<_> = happened.try_iter().collect();
    /// assert_eq!(happened, ["our clock", "the tool's push", "our clock", "the tool's pop"]);
    /// # Ok::<(), nvtx_rs::AttachError>(())
    /// ```
    pub fn push_timed<T>(self, attributes: &Attributes<'_>, clock: impl FnOnce() -> T) -> T {
        if client::is_ready(&SLOTS.core2[abi::core2::RANGE_PUSH_EX]) {
            attributes.encode(|event| calls::push(self.handle(), event, clock))
        } else {
            clock()
        }
    }

    /// [`pop`](Self::pop) for a caller with a clock of its own, as [`push_timed`](Self::push_timed) is.
    ///
    /// ```
    /// use nvtx_rs::{Attributes, Domain};
    /// use std::time::Instant;
    /// Domain::DEFAULT.push(&Attributes::new().message("load"));
    /// let ended = Domain::DEFAULT.pop_timed(Instant::now);
    /// assert!(ended <= Instant::now());
    /// ```
    pub fn pop_timed<T>(self, clock: impl FnOnce() -> T) -> T {
        if client::is_ready(&SLOTS.core2[abi::core2::RANGE_POP]) { calls::pop(self.handle(), clock) } else { clock() }
    }

    /// Marks a moment.
    ///
    /// ```
    /// use nvtx_rs::{Attributes, Domain};
    /// Domain::DEFAULT.mark(&Attributes::new().message("cache miss"));
    /// ```
    #[inline]
    pub fn mark(self, attributes: &Attributes<'_>) {
        if is_set(&SLOTS.core2[abi::core2::MARK_EX]) {
            self.mark_attached(*attributes);
        }
    }

    /// Starts a range that may end on any thread and overlap others in any way.
    ///
    /// This is the bare call; [`StartRange`](crate::StartRange) ends the range on its own.
    ///
    /// ```
    /// use nvtx_rs::{Attributes, Domain};
    /// let request = Domain::DEFAULT.start(&Attributes::new().message("request"));
    /// Domain::DEFAULT.end(request);
    /// ```
    #[inline]
    #[must_use]
    pub fn start(self, attributes: &Attributes<'_>) -> RangeId {
        if is_set(&SLOTS.core2[abi::core2::RANGE_START_EX]) { self.start_attached(*attributes) } else { RangeId(0) }
    }

    /// Ends a range that [`start`](Self::start) started. One that was started without a tool is ignored.
    ///
    /// ```
    /// # use nvtx_rs::{Attributes, Domain};
    /// # let request = Domain::DEFAULT.start(&Attributes::new().message("request"));
    /// Domain::DEFAULT.end(request);
    /// ```
    #[inline]
    pub fn end(self, range: RangeId) {
        if range.0 != 0 {
            self.end_attached(range);
        }
    }

    /// The string, known to a tool that is attached by a handle from here on. The same text gives the same handle.
    /// Strings are kept for the life of the process, so do not register what is made up anew each time.
    ///
    /// ```
    /// use nvtx_rs::{Attributes, Domain};
    /// let epoch = Attributes::new().registered(Domain::DEFAULT.register("epoch"));
    /// for _ in 0..3 {
    ///     Domain::DEFAULT.push(&epoch);
    ///     Domain::DEFAULT.pop();
    /// }
    /// ```
    #[must_use]
    pub fn register(self, text: &str) -> RegisteredString {
        let clean = text::sanitize(text);
        let mut strings = self.names().strings.lock();
        if let Some(&string) = strings.get(&*clean) {
            return string;
        }
        let string = RegisteredString::leak(self, &clean);
        strings.insert(string.as_str(), string);
        drop(strings);
        if client::is_tool_attached() {
            let _handle = string.message(); // now, so that the first range of this name does not pay for it inside
        }
        string
    }

    /// The category of this name. The first call gives it the next number from [`Category::FIRST_ID`] on and tells the
    /// tool the name.
    ///
    /// ```
    /// # use nvtx_rs::Domain;
    /// let conv = Domain::DEFAULT.category("Conv");
    /// assert_ne!(conv, Domain::DEFAULT.category("ReLU"));
    /// ```
    #[must_use]
    pub fn category(self, name: &str) -> Category {
        let clean = text::sanitize(name);
        let attached = client::is_ready(&SLOTS.core2[abi::core2::NAME_CATEGORY_A]);
        let (id, tell) = self.number_category(&clean, attached);
        if tell {
            self.name_category(id, &clean);
        }
        Category::new(self, id)
    }

    /// Names a category whose number is your own: below [`Category::FIRST_ID`], and not 0, which means none.
    ///
    /// ```
    /// use nvtx_rs::{Attributes, Domain};
    /// Domain::DEFAULT.name_category(7, "disk");
    /// Domain::DEFAULT.mark(&Attributes::new().message("flushed").category(7u32));
    /// ```
    pub fn name_category(self, id: u32, name: &str) {
        if is_set(&SLOTS.core2[abi::core2::NAME_CATEGORY_A]) {
            text::with_c_str(name, |name| calls::name_category(self.handle(), id, name));
        }
    }

    /// The tool's handle, null for the default domain or without a tool.
    pub(crate) fn handle(self) -> abi::Handle {
        let Some(entry) = self.0 else { return null_mut() };
        entry.handle.get(&SLOTS.core2[abi::core2::DOMAIN_CREATE_A], || calls::create_domain(&entry.c_name))
    }

    fn names(self) -> &'static Names {
        self.0.map_or(&DEFAULT_NAMES, |entry| &entry.names)
    }

    /// The number of a category, and whether it is on the caller to tell the tool its name.
    fn number_category(self, name: &str, attached: bool) -> (u32, bool) {
        let mut categories = self.names().categories.lock();
        let count = categories.len() as u32;
        if let Some(category) = categories.get_mut(name) {
            let tell = attached && !category.told;
            category.told |= attached;
            return (category.id, tell);
        }
        let id = Category::FIRST_ID.saturating_add(count);
        categories.insert(Box::leak(name.into()), NamedCategory { id, told: attached });
        (id, attached)
    }

    // By value, so that a description that is made for the call is put together only while a tool is attached.
    #[cold]
    #[inline(never)]
    fn push_attached(self, attributes: Attributes<'_>) {
        if client::is_ready(&SLOTS.core2[abi::core2::RANGE_PUSH_EX]) {
            attributes.encode(|event| calls::push(self.handle(), event, || ()));
        }
    }

    #[cold]
    #[inline(never)]
    fn pop_attached(self) {
        if client::is_ready(&SLOTS.core2[abi::core2::RANGE_POP]) {
            calls::pop(self.handle(), || ());
        }
    }

    #[cold]
    #[inline(never)]
    fn mark_attached(self, attributes: Attributes<'_>) {
        if client::is_ready(&SLOTS.core2[abi::core2::MARK_EX]) {
            attributes.encode(|event| calls::mark(self.handle(), event));
        }
    }

    #[cold]
    #[inline(never)]
    fn start_attached(self, attributes: Attributes<'_>) -> RangeId {
        if client::is_ready(&SLOTS.core2[abi::core2::RANGE_START_EX]) {
            RangeId(attributes.encode(|event| calls::start(self.handle(), event)))
        } else {
            RangeId(0)
        }
    }

    #[cold]
    #[inline(never)]
    fn end_attached(self, range: RangeId) {
        calls::end(self.handle(), range.0);
    }
}

fn find_or_add(name: &str) -> Result<&'static Entry, DomainError> {
    let mut domains = DOMAINS.lock();
    if let Some(&entry) = domains.get(name) {
        return Ok(entry);
    }
    if domains.len() >= Domain::LIMIT {
        return Err(DomainError::TooMany);
    }
    let entry: &'static Entry = Box::leak(Box::new(Entry {
        name: Box::leak(name.into()),
        c_name: text::c_string(name),
        handle: LazyHandle::new(),
        names: Names::new(),
    }));
    domains.insert(entry.name, entry);
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
