//! State of the front end (a layer or a subscriber): whether there is one, which spans it has met, and which ones the
//! filter has rejected. Written when a front end is made, installed or dropped, and once a call site.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Relaxed, Ordering::Release};

use parking_lot::Mutex;
use range_model::stats::Keyed;
use tracing_core::{Level, LevelFilter, Metadata};

use crate::clock::Ticks;
use crate::core::span::site::site_key;

/// The front end of one profiler. Only one measures at a time; after its drop the next one may.
#[derive(Debug, Default)]
pub(crate) struct FrontEnd {
    is_taken: AtomicBool,
    was_made: AtomicBool,
    was_installed: AtomicBool,
    has_own_filter: AtomicBool,
    is_alone: AtomicBool,
    /// Time of the last drop; 0 before.
    left: AtomicU64,
    met: Mutex<CallSites>,
}

/// Lifecycle of a front end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    NotMade,
    NotInstalled,
    Installed,
    Dropped,
}

/// Call sites of spans that the front end has met.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallSites {
    known: Keyed<u64, ()>,
    /// The most verbose level of the layer's own filter, if the filter states one.
    pub(crate) own_level: Option<LevelFilter>,
    /// Number of call sites that the filter lets through.
    pub(crate) measured: usize,
    /// Crates of those call sites.
    pub(crate) measured_crates: Keyed<String, ()>,
    /// Rejected call sites, by crate.
    pub(crate) rejected: Keyed<String, Rejected>,
}

/// Stands for the name of a call site in a domain of NVTX.
pub(crate) const DOMAIN: &str = "";

/// Call sites of one crate that the filter rejects, or the ranges of a domain of NVTX, as one call site.
#[derive(Clone, Debug)]
pub(crate) struct Rejected {
    /// Number of call sites by level, the least verbose level first.
    pub(crate) levels: Vec<(Level, usize)>,
    /// The name of the first one.
    pub(crate) name: &'static str,
}

impl Rejected {
    /// Counts a call site.
    pub(crate) fn add(&mut self, level: Level) {
        let at = self.levels.partition_point(|(of, _)| *of < level);
        match self.levels.get_mut(at).filter(|(of, _)| *of == level) {
            Some((_, count)) => *count += 1,
            None => self.levels.insert(at, (level, 1)),
        }
    }

    pub(crate) fn call_sites(&self) -> usize {
        self.levels.iter().map(|(_, count)| count).sum()
    }
}

impl FrontEnd {
    /// Makes the caller's front end the measuring one; false if there is one already.
    pub(crate) fn take(&self) -> bool {
        let is_free = !self.is_taken.swap(true, AcqRel);
        self.was_made.store(true, Relaxed);
        if is_free {
            self.was_installed.store(false, Relaxed);
        }
        is_free
    }

    /// Notes that it is part of a dispatcher.
    pub(crate) fn install(&self) {
        self.was_installed.store(true, Relaxed);
    }

    /// Notes its drop: the next one may measure.
    pub(crate) fn leave(&self, now: Ticks) {
        self.left.store(now, Relaxed);
    }

    pub(crate) fn give_back(&self) {
        self.is_taken.store(false, Release);
    }

    /// Time of the last drop; 0 if none was dropped.
    pub(crate) fn left(&self) -> Ticks {
        self.left.load(Relaxed)
    }

    /// Notes a filter of its own, which replaces the profiler's default.
    pub(crate) fn set_own_filter(&self, level: Option<LevelFilter>) {
        self.has_own_filter.store(true, Relaxed);
        self.met.lock().own_level = level;
    }

    pub(crate) fn has_own_filter(&self) -> bool {
        self.has_own_filter.load(Relaxed)
    }

    /// Notes that it is the whole subscriber: nobody hides spans from it.
    pub(crate) fn set_alone(&self) {
        self.is_alone.store(true, Relaxed);
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone.load(Relaxed)
    }

    pub(crate) fn stage(&self) -> Stage {
        match (self.was_made.load(Relaxed), self.is_taken.load(Relaxed), self.was_installed.load(Relaxed)) {
            (false, ..) => Stage::NotMade,
            (true, _, false) => Stage::NotInstalled,
            (true, true, true) => Stage::Installed,
            (true, false, true) => Stage::Dropped,
        }
    }

    /// Remembers the call site of a span. `tracing` reports each more than once. A layer that joins a dispatcher later
    /// gets no other report.
    pub(crate) fn meet(&self, metadata: &'static Metadata<'static>, is_enabled: bool) {
        self.install();
        let mut met = self.met.lock();
        if !met.known.insert(site_key(metadata), ()) {
            return;
        }
        let name = crate_of(metadata.target()).to_owned();
        if is_enabled {
            met.measured += 1;
            met.measured_crates.row(name);
            return;
        }
        let new = || Rejected { levels: Vec::new(), name: metadata.name() };
        met.rejected.row_or(name, new).add(*metadata.level());
    }

    /// Remembers a domain whose ranges of other code the filter rejects. Called once a domain on each thread.
    #[cfg(feature = "injection")]
    pub(crate) fn reject_domain(&self, target: &str, level: Level) {
        let new = || Rejected { levels: vec![(level, 1)], name: DOMAIN };
        self.met.lock().rejected.row_or(target.to_owned(), new);
    }

    pub(crate) fn met(&self) -> CallSites {
        self.met.lock().clone()
    }
}

/// The crate of a target.
pub(crate) fn crate_of(target: &str) -> &str {
    target.split_once("::").map_or(target, |(name, _)| name)
}
