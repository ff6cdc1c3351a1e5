//! State of a call site whose spans are named by the values of a field.

use range_model::stats::Named;

/// A call site that has had values.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    /// Label of the call site's own name.
    pub(crate) plain: u32,
    /// Labels by field and value.
    pub(crate) labels: Named<(usize, Box<str>), u32>,
    /// Number of nodes with these labels.
    pub(crate) nodes: usize,
    /// Whether there were too many values or nodes.
    pub(crate) is_whole: bool,
}
