//! State of a call site whose spans are named by the values of a field.

use std::collections::HashMap;

/// A call site that has had values.
#[derive(Clone, Debug)]
pub(super) struct Split {
    /// Label of the call site's own name.
    pub(super) plain: u32,
    /// Labels by field and value.
    pub(super) labels: HashMap<(usize, Box<str>), u32>,
    /// Number of nodes with these labels.
    pub(super) nodes: usize,
    pub(super) is_whole: bool,
}
