//! Call sites of spans whose exits did not nest. The report names each of them. Written on slow paths only.

use parking_lot::Mutex;
use range_model::stats::{Keyed, Lean};
use tracing_core::Metadata;

use crate::core::span::site::site_key;

/// The misnested exits of one call site's spans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Misnested {
    pub(crate) metadata: &'static Metadata<'static>,
    /// Exits below another open range, of this span or of the one directly below it.
    pub(crate) exits: u64,
    /// Instances that such an exit closed and opened again.
    pub(crate) reopened: u64,
    /// Exits on a thread without such an open range.
    pub(crate) elsewhere: u64,
}

/// By call site.
#[derive(Debug, Default)]
pub(crate) struct MisnestedSites(Mutex<Keyed<u64, Misnested>>);

impl MisnestedSites {
    pub(crate) fn count(&self, metadata: &'static Metadata<'static>, add: impl FnOnce(&mut Misnested)) {
        let mut sites = self.0.lock();
        let none = || Misnested { metadata, exits: 0, reopened: 0, elsewhere: 0 };
        add(sites.row_or(site_key(metadata), none));
    }

    pub(crate) fn forget(&self) {
        self.0.lock().clear();
    }

    pub(crate) fn all(&self) -> Vec<Misnested> {
        self.0.lock().values().copied().in_vec()
    }
}
