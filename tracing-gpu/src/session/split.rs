//! State of a call site whose spans are named by the values of a field.

use range_model::stats::Named;

/// A call site that has had values.
#[derive(Clone, Debug)]
pub(super) struct Split {
    /// Label of the call site's own name.
    pub(super) plain: u32,
    /// Labels by field and value.
    pub(super) labels: Named<(usize, Box<str>), u32>,
    /// Number of nodes with these labels.
    pub(super) nodes: usize,
    /// Whether there were too many values or nodes.
    pub(super) is_whole: bool,
}
