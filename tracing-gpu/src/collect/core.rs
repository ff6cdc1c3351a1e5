//! One profiler's shared state: the window, the names, and the shards of all threads.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::Release};

use nvtx_rs::{Attributes, Domain};
use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use tracing_core::Metadata;
use tracing_subscriber::filter::Targets;

use super::catalog::{Catalog, CategoryName, Limits};
use super::misread::MisreadValues;
use super::note_room::NoteRoom;
use super::row::NvtxRange;
use super::shard::Shard;
use super::site::{Site, declares_own_field, site_key};
use super::tape::TapeRoom;
use super::values::is_unknown_field;
use crate::budget::Budget;
use crate::chunked::Chunked;
use crate::clock::{Clock, Ticks};
use crate::config::Domain as DomainChoice;
use crate::record::RangeKey;
use crate::stream::StreamTotals;

/// Gate of a shard whose thread is running foreign code: callbacks do nothing.
pub(crate) const CLOSED: u64 = u64::MAX - 1;
/// Gate of a profiler that has finished, or never began.
pub(super) const FINISHED: u64 = u64::MAX;
/// Open ranges of ended threads that are remembered with the thread; of more there is the name alone.
pub(super) const ABANDONED: usize = 256;

/// What a core is made with.
pub(crate) struct CoreOptions {
    pub(crate) active: bool,
    pub(crate) nvtx: bool,
    pub(crate) statistics: bool,
    pub(crate) gpu: bool,
    pub(crate) domain: DomainChoice,
    pub(crate) filter: Targets,
    pub(crate) sample_budget: usize,
    /// Memory for records that wait to be written into a timeline, in bytes; `None` where none is written.
    pub(crate) tape_bytes: Option<usize>,
    pub(crate) limits: Limits,
}

/// Things that went otherwise than written in the program. Written on slow paths only.
#[derive(Debug, Default)]
pub(crate) struct LossCounters {
    pub(crate) split_instances: AtomicU64,
    pub(crate) stray_exits: AtomicU64,
    pub(crate) spans_dropped: AtomicU64,
}

/// Ranges of one name left open on a thread that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Abandoned {
    pub(crate) label: u32,
    pub(crate) thread: String,
    pub(crate) count: u64,
}

/// Shared by all threads; lives as long as the process, since any thread may be inside a callback at any time.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) id: u64,
    /// The process that it was made in. In a forked child a thread that is not there may hold any lock of it.
    pub(crate) process: u32,
    /// Number of the window while the profiler runs, else [`FINISHED`]; no two windows of a process have the same one. Read by every
    /// callback, written at `reset` and `finish`.
    pub(super) gate: AtomicU64,
    pub(crate) clock: Clock,
    pub(crate) nvtx: bool,
    pub(crate) statistics: bool,
    pub(crate) gpu: bool,
    pub(crate) streams: StreamTotals,
    /// Whether a span has named a stream by its field, so that those below it must look for it.
    has_streams: AtomicBool,
    /// Whether the GPU's work is collected, so that threads note what is around their launches.
    is_collecting: AtomicBool,
    /// For what threads note until it is collected.
    pub(crate) note_room: NoteRoom,
    pub(crate) budget: Arc<Budget>,
    /// Where a timeline is written.
    pub(crate) tape_room: Option<TapeRoom>,
    pub(crate) losses: LossCounters,
    pub(crate) misread: MisreadValues,
    window: AtomicU64,
    filter: Targets,
    choice: DomainChoice,
    names: Mutex<Names>,
    pub(super) threads: Mutex<Threads>,
    pub(super) shards: Chunked<OnceCell<&'static Shard>, 64>,
}

#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) catalog: Catalog,
    sites: HashMap<u64, Site>,
    domains: Vec<Domain>,
    /// Levels whose category has been named in a tool, by domain.
    named_levels: HashSet<(Domain, u32)>,
}

#[derive(Debug, Default)]
pub(super) struct Threads {
    pub(super) all: Vec<&'static Shard>,
    pub(super) free: Vec<&'static Shard>,
    pub(super) abandoned: Vec<Abandoned>,
    /// Shards of ended threads whose ranges are still open, by thread.
    pub(super) orphans: Vec<(u64, &'static Shard)>,
}

impl Core {
    pub(crate) fn new(options: CoreOptions) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let clock = Clock::new();
        let window = clock.origin();
        let budget = Arc::new(Budget::new(options.sample_budget));
        Self {
            id: NEXT.fetch_add(1, Relaxed),
            process: std::process::id(),
            gate: AtomicU64::new(if options.active { next_gate() } else { FINISHED }),
            clock,
            nvtx: options.nvtx,
            statistics: options.statistics,
            gpu: options.gpu,
            streams: StreamTotals::new(window, Arc::clone(&budget)),
            has_streams: AtomicBool::new(false),
            is_collecting: AtomicBool::new(false),
            note_room: NoteRoom::default(),
            budget,
            tape_room: options.tape_bytes.map(TapeRoom::new),
            losses: LossCounters::default(),
            misread: MisreadValues::default(),
            window: AtomicU64::new(window),
            filter: options.filter,
            choice: options.domain,
            names: Mutex::new(Names {
                catalog: Catalog::new(options.limits),
                sites: HashMap::new(),
                domains: vec![Domain::DEFAULT],
                named_levels: HashSet::new(),
            }),
            threads: Mutex::default(),
            shards: Chunked::new(),
        }
    }

    /// What a layer or subscriber holds that measures nothing.
    pub(crate) fn inert() -> &'static Self {
        static INERT: OnceCell<Core> = OnceCell::new();
        INERT.get_or_init(Self::new_inert)
    }

    pub(crate) fn new_inert() -> Self {
        Self::new(CoreOptions {
            active: false,
            nvtx: false,
            statistics: false,
            gpu: false,
            domain: DomainChoice::Default,
            filter: Targets::new(),
            sample_budget: 0,
            tape_bytes: None,
            limits: Limits { nodes: 1, run_time_names: 0 },
        })
    }

    /// A shard by its number. Any thread, no lock.
    #[inline(always)]
    pub(crate) fn shard_at(&self, index: u32) -> Option<&'static Shard> {
        self.shards.get(index as usize)?.get().copied()
    }

    pub(crate) fn all_shards(&self) -> Vec<&'static Shard> {
        let threads = self.threads.lock();
        let mut all = threads.all.clone();
        all.sort_by_key(|shard| !threads.orphans.iter().any(|(_, orphan)| orphan.index == shard.index)); // ended threads first
        all
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
        self.forget_ended_threads();
        self.names.lock().catalog.forget_losses();
        self.streams.restart(start); // before the window: no thread times a range of the new window until its rows are empty
        self.window.store(start, Relaxed);
        self.change_gate();
    }

    /// Has every thread look again before it goes on.
    fn change_gate(&self) {
        // Pairs with `find_shard`: who sees the gate sees what was stored before. A finish meanwhile stays one.
        let _finished = self.gate.fetch_update(Release, Relaxed, |gate| (gate != FINISHED).then(next_gate));
    }

    pub(crate) fn has_streams(&self) -> bool {
        self.has_streams.load(Relaxed)
    }

    /// A span has named a stream by its field: from now on all threads look for it.
    pub(crate) fn announce_streams(&self) {
        if self.gpu && !self.has_streams.swap(true, Relaxed) {
            self.change_gate();
        }
    }

    pub(crate) fn is_collecting(&self) -> bool {
        self.is_collecting.load(Relaxed)
    }

    /// The collector begins, before any span is made, or ends.
    #[cfg_attr(not(feature = "cudarc"), allow(dead_code))]
    pub(crate) fn set_collecting(&self, collecting: bool) {
        self.is_collecting.store(collecting, Relaxed);
    }

    /// From now on every callback does nothing. Returns the gate as it was: true for the first caller only.
    pub(crate) fn close(&self) -> bool {
        self.gate.swap(FINISHED, Relaxed) != FINISHED
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
            own_values: declares_own_field(metadata) || self.tape_room.is_some() && !metadata.fields().is_empty(),
        };
        names.sites.insert(key, site);
        drop(names);
        if site.enabled && metadata.is_span() {
            let unknown = metadata.fields().iter().map(|field| field.name()).filter(|name| is_unknown_field(name));
            unknown.for_each(|field| self.misread.tell_unknown(key, metadata, field));
        }
        site
    }

    /// Node of a range under a parent.
    pub(crate) fn node(&self, parent: u32, key: RangeKey) -> u32 {
        self.names.lock().catalog.child(parent, key)
    }

    pub(crate) fn run_time_label(&self, domain: u32, name: &str) -> Option<u32> {
        self.names.lock().catalog.run_time_label(domain, name)
    }

    /// Number of a category; 0, and counted, beyond the bound.
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

    /// The domain that marks of this target go to, and whether a mark of this category is the first one there.
    pub(crate) fn domain_of_mark(&self, target: &str, category: u32) -> (Domain, bool) {
        let mut names = self.names.lock();
        let domain = names.domain(&self.choice, target);
        let domain = names.domains.get(domain as usize).copied().unwrap_or(Domain::DEFAULT);
        let first = names.named_levels.insert((domain, category));
        (domain, first)
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
