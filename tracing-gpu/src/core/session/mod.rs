//! One profiler's shared state: the window, the filter, the names, and the bounds on memory.

pub(crate) mod catalog;
pub(crate) mod front_end;
pub(crate) mod gate;
pub(crate) mod joined;
pub(crate) mod misnested;
pub(crate) mod runtime;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use nvtx_rs::{Attributes, Domain};
use parking_lot::Mutex;
use range_model::stats::Keyed;
use tracing_core::{Level, Metadata};
use tracing_subscriber::filter::Targets;

use crate::clock::{Clock, Ticks};
use crate::config::{Domain as DomainChoice, FieldNames, Parents};
use crate::core::budget::Budget;
use crate::core::record::RangeKey;
use crate::core::span::site::{Site, site_key};
use crate::core::thresholds::Thresholds;
use crate::parts::session::{OfNames, OfSession, PartOptions};
use crate::process;
use catalog::{Catalog, CategoryName, Limits};
use front_end::FrontEnd;
use gate::{FINISHED, SessionGate};
use misnested::MisnestedSites;

/// Spans of this level and of less verbose ones are measured by default.
pub(crate) const DEFAULT_LEVEL: Level = Level::INFO;

/// The settings of a session.
pub(crate) struct SessionOptions {
    pub(crate) active: bool,
    pub(crate) nvtx: bool,
    pub(crate) statistics: bool,
    pub(crate) domain: DomainChoice,
    pub(crate) parents: Parents,
    /// `None` for the default.
    pub(crate) filter: Option<Targets>,
    pub(crate) fields: FieldNames,
    pub(crate) sample_budget: usize,
    pub(crate) limits: Limits,
    pub(crate) parts: PartOptions,
}

/// Of a session that measures nothing.
impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            active: false,
            nvtx: false,
            statistics: false,
            domain: DomainChoice::Default,
            parents: Parents::Entered,
            filter: None,
            fields: FieldNames::default(),
            sample_budget: 0,
            limits: Limits { nodes: 1, run_time_names: 0 },
            parts: PartOptions { on_cpu: Some(false), ..PartOptions::default() },
        }
    }
}

/// Things that went otherwise than written in the program. Written on slow paths only.
#[derive(Debug, Default)]
pub(crate) struct LossCounters {
    pub(crate) split_instances: AtomicU64,
    pub(crate) stray_exits: AtomicU64,
    pub(crate) spans_dropped: AtomicU64,
    pub(crate) misnested: MisnestedSites,
}

/// Shared by all threads. Lives as long as the process, because any thread may be inside a callback at any time.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    /// The process that made it. In a forked child, a thread that does not exist there may hold any of its locks.
    pub(crate) process: u32,
    pub(crate) gate: SessionGate,
    pub(crate) clock: Clock,
    pub(crate) nvtx: bool,
    pub(crate) statistics: bool,
    pub(crate) budget: Arc<Budget>,
    pub(crate) losses: LossCounters,
    pub(crate) thresholds: Thresholds,
    pub(crate) parts: OfSession,
    /// Whether the tree follows only the creation of spans.
    by_creation: bool,
    pub(crate) fields: FieldNames,
    pub(crate) front_end: FrontEnd,
    was_reset: AtomicBool,
    pub(crate) filter: Option<Targets>,
    choice: DomainChoice,
    pub(crate) names: Mutex<Names>,
    /// A copy of the names for windows, which they bring up to date.
    copied_names: Mutex<Option<Box<Names>>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) catalog: Catalog,
    pub(crate) sites: Keyed<u64, Site>,
    domains: Vec<Domain>,
    pub(crate) parts: OfNames,
    /// Levels whose category has been named in a tool, by domain.
    named_levels: Keyed<(Domain, u32), ()>,
}

/// How a tool shows the ranges of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NvtxRange {
    pub(crate) domain: Domain,
    pub(crate) attributes: Attributes<'static>,
}

impl Session {
    pub(crate) fn new(options: SessionOptions) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let clock = Clock::new();
        let window = clock.origin();
        let budget = Arc::new(Budget::new(options.sample_budget).of(options.parts.sample_memory()));
        Self {
            id: NEXT.fetch_add(1, Relaxed),
            process: std::process::id(),
            gate: SessionGate::new(if options.active { next_gate() } else { FINISHED }, window),
            thresholds: Thresholds::of(&clock),
            parts: OfSession::new(options.parts, options.statistics, &clock, window, &budget),
            clock,
            nvtx: options.nvtx,
            statistics: options.statistics,
            budget,
            losses: LossCounters::default(),
            by_creation: options.parents == Parents::Created,
            fields: options.fields,
            front_end: FrontEnd::default(),
            was_reset: AtomicBool::new(false),
            filter: options.filter,
            choice: options.domain,
            names: Mutex::new(Names::new(options.limits)),
            copied_names: Mutex::default(),
        }
    }

    /// A session that measures nothing.
    pub(crate) fn new_inert() -> Self {
        Self::new(SessionOptions::default())
    }

    /// Start of the current window, or of the last one after the finish.
    pub(crate) fn window(&self) -> Ticks {
        self.gate.start()
    }

    /// Whether it measures: it has not finished, and this is no forked child.
    pub(crate) fn is_running(&self) -> bool {
        self.gate.number() != FINISHED && !self.is_of_parent()
    }

    /// Whether this is a forked child of its process. Nothing is measured in a child, and none of its locks may be
    /// taken.
    pub(crate) fn is_of_parent(&self) -> bool {
        process::is_child_of(self.process)
    }

    /// Resets the counts of losses, before a new window begins.
    pub(crate) fn forget_losses(&self) {
        for counter in [&self.losses.split_instances, &self.losses.stray_exits, &self.losses.spans_dropped] {
            counter.store(0, Relaxed);
        }
        self.losses.misnested.forget();
        self.parts.forget_losses();
        self.names.lock().catalog.forget_losses();
    }

    /// Begins a new window: the session and `forget` discard earlier counts.
    pub(crate) fn restart(&self, forget: impl FnOnce()) {
        let begin = || {
            let start = self.clock.now();
            self.forget_losses();
            forget();
            // Before the window: no thread may time a range of the new window until its rows are empty.
            self.parts.restart(start);
            self.was_reset.store(true, Relaxed);
            start
        };
        self.gate.restart(begin, next_gate);
    }

    /// A condition has changed by which threads choose their paths.
    pub(crate) fn change_paths(&self) {
        self.gate.change(next_gate);
    }

    /// Whether durations are measured with the one clock of the fast paths, or not at all.
    pub(crate) fn has_one_clock(&self) -> bool {
        if self.statistics { self.clock.is_counter() } else { !self.records_ranges() }
    }

    pub(crate) fn drop_span(&self) {
        self.losses.spans_dropped.fetch_add(1, Relaxed);
        self.parts.drop_span();
    }

    /// Whether spans and events of this call site are measured. Called once a call site, and for each event that goes
    /// to a tool or an output.
    pub(crate) fn is_enabled(&self, metadata: &Metadata<'_>) -> bool {
        !runtime::is_of_tokio(metadata) && self.is_asked_for(metadata)
    }

    fn is_asked_for(&self, metadata: &Metadata<'_>) -> bool {
        match &self.filter {
            Some(filter) => filter.would_enable(metadata.target(), metadata.level()),
            None => self.front_end.has_own_filter() || *metadata.level() <= DEFAULT_LEVEL,
        }
    }

    /// The configured filter; `None` for the default.
    pub(crate) fn filter(&self) -> Option<&Targets> {
        self.filter.as_ref()
    }

    /// A live front end has met this call site.
    pub(crate) fn meet(&self, metadata: &'static Metadata<'static>) {
        if runtime::is_of_tokio(metadata) {
            self.parts.task_wakes.begin();
        } else if metadata.is_span() && self.is_running() {
            self.front_end.meet(metadata, self.is_enabled(metadata));
        }
    }

    /// The front end was dropped, and open ranges end now. Each thread closes its own at its next callback.
    pub(crate) fn leave(&self) {
        self.front_end.leave(self.clock.now());
        self.parts.leave();
        self.change_paths();
    }

    /// Whether the window was ever restarted.
    pub(crate) fn was_reset(&self) -> bool {
        self.was_reset.load(Relaxed)
    }

    pub(crate) fn with_names<T>(&self, read: impl FnOnce(&mut Names) -> T) -> T {
        read(&mut self.names.lock())
    }

    /// A copy of the names, for readers that would hold the lock too long.
    pub(crate) fn copy_of_names(&self) -> Names {
        self.names.lock().clone()
    }

    /// The same, for readers that come again and again: a thread that needs a new name waits only while those are
    /// copied that are new.
    pub(crate) fn copy_of_names_again(&self) -> Names {
        let nothing = || Box::new(Names::new(Limits { nodes: 0, run_time_names: 0 }));
        let mut copied = self.copied_names.lock();
        let copied = copied.get_or_insert_with(nothing);
        copied.catch_up(&self.names.lock());
        Names::clone(copied)
    }

    /// The cached facts about a call site.
    pub(crate) fn site(&self, metadata: &'static Metadata<'static>) -> Site {
        let mut names = self.names.lock();
        let key = site_key(metadata);
        if let Some(&site) = names.sites.get(&key) {
            return site;
        }
        let domain = names.domain(&self.choice, metadata.target());
        let name =
            if metadata.name().is_empty() { "(unnamed)".into() } else { nvtx_rs::text::sanitize(metadata.name()) };
        let own_values = self.fields.are_declared(metadata);
        let is_split = self.fields.split(metadata);
        self.keep_site(&mut names, key, metadata);
        let site = Site {
            enabled: self.is_enabled(metadata),
            label: names.catalog.label(domain, &name),
            domain,
            own_values,
            is_split,
        };
        names.sites.row_or(key, || site);
        drop(names);
        if site.enabled && metadata.is_span() {
            self.parts.meet(key, metadata);
        }
        site
    }

    /// Whether a node's parent is always the parent at creation.
    pub(crate) fn by_creation(&self) -> bool {
        self.by_creation
    }

    /// Whether an entry of this node's spans stays at this node: because only creation counts, or because the node is
    /// within `innermost`, the node of the innermost open range.
    pub(crate) fn stays(&self, node: u32, innermost: u32) -> bool {
        self.by_creation || self.names.lock().catalog.is_within(node, innermost)
    }

    /// Node of a range under a parent.
    pub(crate) fn node(&self, parent: u32, key: RangeKey) -> u32 {
        let mut names = self.names.lock();
        let before = names.catalog.nodes().len();
        let node = names.catalog.child(parent, key);
        if names.catalog.nodes().len() > before {
            self.count_split_node(names, key.label);
        }
        node
    }

    pub(crate) fn run_time_label(&self, domain: u32, name: &str) -> Option<u32> {
        self.names.lock().catalog.run_time_label(domain, name)
    }

    /// Number of a category; 0, and counted, beyond the limit.
    pub(crate) fn category(&self, name: CategoryName) -> u32 {
        self.names.lock().catalog.category(name)
    }

    /// Number of the domain of a label.
    pub(crate) fn domain_of_label(&self, label: u32) -> u32 {
        self.names.lock().catalog.label_of(label).map_or(0, |label| label.domain)
    }

    /// How a tool shows the ranges of this row. May call the tool.
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

    /// The domain for marks of this target, and whether a mark of this category is the first one there.
    pub(crate) fn domain_of_mark(&self, target: &str, category: u32) -> (Domain, bool) {
        let mut names = self.names.lock();
        let domain = names.domain(&self.choice, target);
        let domain = names.domains.get(domain as usize).copied().unwrap_or(Domain::DEFAULT);
        let first = names.named_levels.insert((domain, category), ());
        (domain, first)
    }
}

impl Names {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            catalog: Catalog::new(limits),
            sites: Keyed::default(),
            domains: vec![Domain::DEFAULT],
            parts: OfNames::default(),
            named_levels: Keyed::default(),
        }
    }

    /// Copies what is new in `with`, of which this is an earlier copy.
    fn catch_up(&mut self, with: &Self) {
        self.catalog.catch_up(&with.catalog);
        let Self { catalog: _, sites, domains, parts, named_levels } = with;
        self.sites.clone_from(sites);
        self.parts.catch_up(parts);
        self.domains.clone_from(domains);
        self.named_levels.clone_from(named_levels);
    }

    /// Number of the domain for a target. If a domain cannot be made (the name is empty, or there are too many), it is
    /// the default one.
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

    /// Domain and name of a label.
    pub(crate) fn text_of(&self, label: u32) -> Option<(Option<String>, String)> {
        let label = self.catalog.label_of(label)?;
        Some((self.domain_name(label.domain).map(str::to_owned), label.name.to_string()))
    }

    /// Name of a domain; `None` for the default one.
    pub(crate) fn domain_name(&self, domain: u32) -> Option<&'static str> {
        let own = || self.domains.get(domain as usize).and_then(|domain| domain.name());
        self.parts.domain_name(domain).unwrap_or_else(own)
    }
}

fn next_gate() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}
