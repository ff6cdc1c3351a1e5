//! The places where nodes of graphs were made.

use range_report::stats::Keyed;

use crate::fold::Launch;
use crate::record::GraphNode;

/// Nodes by number: 80 bytes each at most.
#[derive(Debug, Default)]
pub(super) struct GraphNodes {
    made: Keyed<u64, Launch>,
    /// Number of nodes without room.
    pub(super) forgotten: u64,
}

impl GraphNodes {
    /// A node was created or cloned at `launch`. Returns where the first of its originals was created; `None` if that
    /// is not known, for example for a node from before the measuring.
    pub(super) fn made(&mut self, node: &GraphNode, launch: Option<Launch>, limit: usize) -> Option<Launch> {
        let made = match node.original {
            0 => launch,
            original => self.made.get(&original).copied(),
        }?;
        if self.made.len() < limit || self.made.contains_key(&node.node) {
            self.made.insert(node.node, made);
        } else {
            self.forgotten += 1;
        }
        Some(made)
    }
}
