//! Labels and nodes that became one before a summary.

use range_model::stats::Keyed;

/// Labels and nodes of a summary that were merged into others.
#[derive(Default)]
pub(crate) struct Joined {
    labels: Keyed<u32, u32>,
    nodes: Vec<u32>,
}

impl Joined {
    /// Each of these labels and nodes, by number, counts as another one.
    pub(crate) fn new(labels: Keyed<u32, u32>, nodes: Vec<u32>) -> Self {
        Self { labels, nodes }
    }

    /// Whether nothing was merged.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    pub(crate) fn label(&self, label: u32) -> u32 {
        self.labels.get(&label).copied().unwrap_or(label)
    }

    pub(crate) fn node(&self, node: u32) -> u32 {
        self.nodes.get(node as usize).copied().unwrap_or(node)
    }
}
