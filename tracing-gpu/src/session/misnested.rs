//! Call sites of spans whose exits did not nest: each is named in the report. Written on slow paths only.

use std::collections::HashMap;

use parking_lot::Mutex;
use tracing_core::Metadata;

use crate::span::site::site_key;

/// What happened to the spans of one call site.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Misnested {
    pub(crate) metadata: &'static Metadata<'static>,
    /// Exits below another range, of this span or of one directly below it.
    pub(crate) exits: u64,
    /// Instances that were closed and opened again by such an exit.
    pub(crate) reopened: u64,
    /// Exits on a thread that had no such range open.
    pub(crate) elsewhere: u64,
}

/// By call site.
#[derive(Debug, Default)]
pub(crate) struct MisnestedSites(Mutex<HashMap<u64, Misnested>>);

impl MisnestedSites {
    pub(crate) fn count(&self, metadata: &'static Metadata<'static>, add: impl FnOnce(&mut Misnested)) {
        let mut sites = self.0.lock();
        let none = || Misnested { metadata, exits: 0, reopened: 0, elsewhere: 0 };
        add(sites.entry(site_key(metadata)).or_insert_with(none));
    }

    pub(crate) fn forget(&self) {
        self.0.lock().clear();
    }

    pub(crate) fn all(&self) -> Vec<Misnested> {
        self.0.lock().values().copied().collect()
    }
}
