//! One profiler's shared state: the window, the names, and the shards of all threads.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use nvtx_rs::{Attributes, Domain};
use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use tracing_core::Metadata;
use tracing_subscriber::filter::Targets;

use super::catalog::{Catalog, CategoryName, Limits};
use super::chunked::Chunked;
use super::row::NvtxRange;
use super::samples::Budget;
use super::shard::Shard;
use super::site::{Site, declares_own_field, site_key};
use super::slab::MAX_SHARDS;
use crate::clock::{Clock, Ticks};
use crate::config::Domain as DomainChoice;
use crate::record::RangeKey;

/// Gate of a shard whose thread is running foreign code: callbacks do nothing.
pub(crate) const CLOSED: u64 = u64::MAX - 1;
/// Gate of a shard that has not been used yet.
const OPENING: u64 = u64::MAX - 2;
/// Gate of a profiler that has finished, or never began.
const FINISHED: u64 = u64::MAX;
/// Open ranges of ended threads that are remembered by name.
const ABANDONED: usize = 256;

/// What a core is made with.
pub(crate) struct CoreOptions {
    pub(crate) active: bool,
    pub(crate) nvtx: bool,
    pub(crate) statistics: bool,
    pub(crate) domain: DomainChoice,
    pub(crate) filter: Targets,
    pub(crate) sample_budget: usize,
    pub(crate) limits: Limits,
}

/// Things that went otherwise than written in the program. Written on slow paths only.
#[derive(Debug, Default)]
pub(crate) struct LossCounters {
    pub(crate) split_instances: AtomicU64,
    pub(crate) stray_exits: AtomicU64,
    pub(crate) spans_dropped: AtomicU64,
}

/// A range left open on a thread that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Abandoned {
    pub(crate) label: u32,
    pub(crate) thread: String,
}

/// Shared by all threads; lives as long as the process, since any thread may be inside a callback at any time.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) id: u64,
    /// Number of the window while the profiler runs, else [`FINISHED`]; no two windows of a process have the same one. Read by every
    /// callback, written at `reset` and `finish`.
    gate: AtomicU64,
    /// Whether a span has asked for a start/end range, so that closes must be looked at.
    pub(crate) has_lifetimes: AtomicBool,
    pub(crate) clock: Clock,
    pub(crate) nvtx: bool,
    pub(crate) statistics: bool,
    pub(crate) budget: Budget,
    pub(crate) losses: LossCounters,
    window: AtomicU64,
    filter: Targets,
    choice: DomainChoice,
    names: Mutex<Names>,
    threads: Mutex<Threads>,
    shards: Chunked<OnceCell<&'static Shard>, 64>,
}

#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) catalog: Catalog,
    sites: HashMap<u64, Site>,
    domains: Vec<Domain>,
}

#[derive(Debug, Default)]
struct Threads {
    all: Vec<&'static Shard>,
    free: Vec<&'static Shard>,
    abandoned: Vec<Abandoned>,
}

thread_local! {
    /// The shard of the profiler that was last called on this thread, if the fast paths apply to it: they measure, and know one clock.
    /// Needs no destructor, so that reading it is one load.
    static NEAR: Cell<Option<&'static Shard>> = const { Cell::new(None) };
    /// The shard of the profiler that was last called on this thread.
    static LAST: Cell<Option<&'static Shard>> = const { Cell::new(None) };
    /// All shards of this thread; gives them back when it ends.
    static HELD: Held = const { Held(RefCell::new(Vec::new())) };
}

struct Held(RefCell<Vec<&'static Shard>>);

impl Drop for Held {
    fn drop(&mut self) {
        NEAR.set(None);
        LAST.set(None);
        for shard in self.0.take() {
            shard.release();
        }
    }
}

impl Core {
    pub(crate) fn new(options: CoreOptions) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let clock = Clock::new();
        let window = clock.origin();
        Self {
            id: NEXT.fetch_add(1, Relaxed),
            gate: AtomicU64::new(if options.active { next_gate() } else { FINISHED }),
            has_lifetimes: AtomicBool::new(false),
            clock,
            nvtx: options.nvtx,
            statistics: options.statistics,
            budget: Budget::new(options.sample_budget),
            losses: LossCounters::default(),
            window: AtomicU64::new(window),
            filter: options.filter,
            choice: options.domain,
            names: Mutex::new(Names {
                catalog: Catalog::new(options.limits),
                sites: HashMap::new(),
                domains: vec![Domain::DEFAULT],
            }),
            threads: Mutex::default(),
            shards: Chunked::new(),
        }
    }

    /// What a layer or subscriber holds that measures nothing.
    pub(crate) fn inert() -> &'static Self {
        static INERT: OnceCell<Core> = OnceCell::new();
        INERT.get_or_init(|| {
            Self::new(CoreOptions {
                active: false,
                nvtx: false,
                statistics: false,
                domain: DomainChoice::Default,
                filter: Targets::new(),
                sample_budget: 0,
                limits: Limits { nodes: 1, run_time_names: 0 },
            })
        })
    }

    /// The shard of this thread if it was the last one used on it and nothing has changed since.
    #[inline(always)]
    pub(crate) fn near_shard(&self) -> Option<&'static Shard> {
        NEAR.get().filter(|shard| self.is_open(shard))
    }

    /// The shard of this thread, ready to be written; `None` when this callback is to do nothing.
    pub(crate) fn shard(&'static self) -> Option<&'static Shard> {
        LAST.get().filter(|shard| self.is_open(shard)).or_else(|| self.find_shard())
    }

    #[inline(always)]
    fn is_open(&self, shard: &Shard) -> bool {
        shard.gate.load(Relaxed) == self.gate.load(Relaxed)
    }

    #[inline(never)]
    fn find_shard(&'static self) -> Option<&'static Shard> {
        let gate = self.gate.load(Relaxed);
        if gate == FINISHED {
            return None;
        }
        let Ok(found) = HELD.try_with(|held| self.held_shard(held)) else {
            self.drop_span(); // this thread is being torn down
            return None;
        };
        let shard = found?;
        if shard.gate.load(Relaxed) == CLOSED {
            return None;
        }
        let window = self.window();
        if shard.window.load(Relaxed) != window {
            shard.restart(window);
        }
        shard.gate.store(gate, Relaxed);
        NEAR.set(Some(shard).filter(|_| self.statistics && self.clock.is_tsc()));
        LAST.set(Some(shard));
        Some(shard)
    }

    fn held_shard(&'static self, held: &Held) -> Option<&'static Shard> {
        let mut held = held.0.try_borrow_mut().ok()?; // borrowed: this callback comes from inside the lines below
        if let Some(shard) = held.iter().find(|shard| shard.profiler == self.id) {
            return Some(shard);
        }
        let shard = self.acquire_shard()?;
        *shard.thread.lock() = thread_name(shard.index);
        if self.nvtx && nvtx_rs::is_tool_attached() {
            nvtx_rs::naming::name_current_thread(&shard.thread.lock());
        }
        shard.gate.store(OPENING, Relaxed);
        held.push(shard);
        Some(shard)
    }

    fn acquire_shard(&'static self) -> Option<&'static Shard> {
        let mut threads = self.threads.lock();
        if let Some(shard) = threads.free.pop() {
            return Some(shard);
        }
        let index = threads.all.len();
        if index >= MAX_SHARDS {
            drop(threads);
            self.drop_span();
            return None;
        }
        let shard: &'static Shard = Box::leak(Box::new(Shard::new(self, index as u32)));
        if let Some(slot) = self.shards.get_or_grow(index) {
            let _ = slot.set(shard);
        }
        threads.all.push(shard);
        Some(shard)
    }

    /// Takes a shard back from a thread that has ended.
    pub(crate) fn release(&'static self, shard: &'static Shard) {
        shard.gate.store(CLOSED, Relaxed);
        let places = shard.abandon();
        let thread = std::mem::take(&mut *shard.thread.lock());
        let labels: Vec<u32> = places.into_iter().filter_map(|place| Some(shard.identity(place)?.key.label)).collect();
        let mut threads = self.threads.lock();
        let room = ABANDONED.saturating_sub(threads.abandoned.len());
        threads
            .abandoned
            .extend(labels.into_iter().take(room).map(|label| Abandoned { label, thread: thread.clone() }));
        threads.free.push(shard);
    }

    /// A shard by its number. Any thread, no lock.
    #[inline(always)]
    pub(crate) fn shard_at(&self, index: u32) -> Option<&'static Shard> {
        self.shards.get(index as usize)?.get().copied()
    }

    pub(crate) fn all_shards(&self) -> Vec<&'static Shard> {
        self.threads.lock().all.clone()
    }

    pub(crate) fn abandoned(&self) -> Vec<Abandoned> {
        self.threads.lock().abandoned.clone()
    }

    /// Start of the current window, or of the last one after the finish.
    pub(crate) fn window(&self) -> Ticks {
        self.window.load(Relaxed)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.gate.load(Relaxed) != FINISHED
    }

    /// Begins a new window: what was counted so far is forgotten.
    pub(crate) fn restart(&self) {
        if !self.is_running() {
            return;
        }
        let start = self.clock.now();
        for counter in [&self.losses.split_instances, &self.losses.stray_exits, &self.losses.spans_dropped] {
            counter.store(0, Relaxed);
        }
        self.threads.lock().abandoned.clear();
        self.window.store(start, Relaxed);
        self.gate.store(next_gate(), Relaxed);
    }

    /// From now on every callback does nothing. Returns the gate as it was: true for the first caller only.
    pub(crate) fn close(&self) -> bool {
        self.gate.swap(FINISHED, Relaxed) != FINISHED
    }

    /// The shard of this thread after the gate was closed.
    pub(crate) fn own_shard(&self) -> Option<&'static Shard> {
        HELD.try_with(|held| held.0.try_borrow().ok()?.iter().find(|shard| shard.profiler == self.id).copied()).ok()?
    }

    pub(crate) fn drop_span(&self) {
        self.losses.spans_dropped.fetch_add(1, Relaxed);
    }

    /// An exit on a thread that has no such range open: the threads that have are told.
    #[inline(never)]
    pub(crate) fn stray_exit(&self, span: u64, from: &Shard) {
        self.losses.stray_exits.fetch_add(1, Relaxed);
        for shard in self.all_shards() {
            if shard.index != from.index && shard.stack.holds(span) {
                shard.tell(span);
            }
        }
    }

    pub(crate) fn is_enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.filter.would_enable(metadata.target(), metadata.level())
    }

    pub(crate) fn filter(&self) -> &Targets {
        &self.filter
    }

    pub(crate) fn with_names<T>(&self, read: impl FnOnce(&mut Names) -> T) -> T {
        read(&mut self.names.lock())
    }

    /// What is known of a call site.
    pub(crate) fn site(&self, metadata: &'static Metadata<'static>) -> Site {
        let mut names = self.names.lock();
        let key = site_key(metadata);
        if let Some(&site) = names.sites.get(&key) {
            return site;
        }
        let domain = names.domain(&self.choice, metadata.target());
        let name =
            if metadata.name().is_empty() { "(unnamed)".into() } else { nvtx_rs::text::sanitize(metadata.name()) };
        let site = Site {
            enabled: self.is_enabled(metadata),
            label: names.catalog.label(domain, &name),
            domain,
            own_values: declares_own_field(metadata),
        };
        names.sites.insert(key, site);
        site
    }

    /// Node of a range under a parent.
    pub(crate) fn node(&self, parent: u32, key: RangeKey) -> u32 {
        let now = self.clock.now();
        self.names.lock().catalog.child(parent, key, now)
    }

    pub(crate) fn run_time_label(&self, domain: u32, name: &str) -> Option<u32> {
        self.names.lock().catalog.run_time_label(domain, name)
    }

    pub(crate) fn category(&self, name: CategoryName) -> u32 {
        self.names.lock().catalog.category(name)
    }

    /// Number of the domain of a label.
    pub(crate) fn domain_of_label(&self, label: u32) -> u32 {
        self.names.lock().catalog.label_of(label).map_or(0, |label| label.domain)
    }

    /// What a tool is shown of such ranges. May call the tool.
    pub(crate) fn nvtx_range(&self, key: RangeKey) -> NvtxRange {
        let (name, domain, category) = {
            let names = self.names.lock();
            let label = names.catalog.label_of(key.label);
            let domain =
                label.and_then(|label| names.domains.get(label.domain as usize)).copied().unwrap_or(Domain::DEFAULT);
            (label.map(|label| label.name.clone()), domain, names.catalog.category_of(key.category).cloned())
        };
        let mut attributes = Attributes::new();
        if self.nvtx {
            if let Some(name) = name {
                attributes = attributes.registered(domain.register(&name));
            }
            attributes = match category {
                Some(CategoryName::Text(text)) => attributes.category(domain.category(&text)),
                Some(CategoryName::Number(number)) => attributes.category(number),
                None => attributes,
            };
        }
        NvtxRange { domain, attributes }
    }

    /// The domain that marks of this target go to.
    pub(crate) fn domain_of_target(&self, target: &str) -> Domain {
        let mut names = self.names.lock();
        let domain = names.domain(&self.choice, target);
        names.domains.get(domain as usize).copied().unwrap_or(Domain::DEFAULT)
    }
}

impl Names {
    /// Number of the domain for a target. Where a domain cannot be made (the name is empty, or there are too many) it is the default one.
    fn domain(&mut self, choice: &DomainChoice, target: &str) -> u32 {
        let name = match choice {
            DomainChoice::Default => return 0,
            DomainChoice::Named(name) => name.as_str(),
            DomainChoice::PerTarget => target,
        };
        let Ok(domain) = Domain::named(name) else { return 0 };
        let known = self.domains.iter().position(|&known| known == domain);
        let index = known.unwrap_or_else(|| {
            self.domains.push(domain);
            self.domains.len() - 1
        });
        index as u32
    }

    /// Name of a domain; `None` for the default one.
    pub(crate) fn domain_name(&self, domain: u32) -> Option<&'static str> {
        self.domains.get(domain as usize).and_then(|domain| domain.name())
    }
}

fn next_gate() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// The name of this thread: Rust's, else the operating system's, else its number.
fn thread_name(index: u32) -> String {
    if let Some(name) = std::thread::current().name() {
        return name.to_owned();
    }
    match std::fs::read_to_string("/proc/thread-self/comm") {
        Ok(name) if !name.trim().is_empty() => name.trim().to_owned(),
        _ => format!("thread {index}"),
    }
}
