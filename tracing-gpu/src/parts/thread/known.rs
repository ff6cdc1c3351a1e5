//! What the parts know of names and rows, so that the profiler's lock is needed only for new ones.

use range_model::stats::{Keyed, Named};

use crate::core::session::Session;
use crate::core::session::catalog::CategoryName;
use crate::core::thread::recent::Recent;
use crate::parts::calls::thread::call_row::CallRow;

/// Numbers of one thread that parts have cached.
#[derive(Debug, Default)]
pub(crate) struct OfKnown {
    /// For each call site and index of a field that names spans by default: the names, by the values of the field.
    pub(crate) split_labels: Keyed<(u64, usize), Named<Box<str>, u32>>,
    pub(crate) recent_split_labels: Recent,
    /// The session's number of whole call sites when sites were looked up.
    whole_sites: u32,
    pub(crate) categories: Named<CategoryName, u32>,
    pub(crate) recent_categories: Recent,
    /// Call sites and fields with an invalid value that was reported.
    pub(crate) misread: Keyed<(u64, usize), ()>,
    /// By node and label.
    pub(crate) call_rows: Keyed<(u32, u32), u32>,
    /// Unused rows of the file for calls.
    pub(crate) spare_call_rows: &'static [CallRow],
    /// Numbers of open ranges without a span that are not on the stack, by domain. There is no entry with 0.
    pub(crate) untracked: Keyed<u32, u64>,
    /// Memory for the texts of the next span.
    pub(crate) texts: String,
}

impl OfKnown {
    /// Whether call sites have become whole since sites were looked up: then those that are split are out of date.
    pub(crate) fn are_sites_old(&mut self, session: &Session) -> bool {
        let whole_sites = session.whole_sites();
        std::mem::replace(&mut self.whole_sites, whole_sites) != whole_sites
    }
}
