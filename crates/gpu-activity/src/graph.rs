//! CUDA graphs: how they come about, as a source tells it.
//!
//! A number of a node has the number of its graph in its upper half and its place in that graph in the lower one. When
//! a graph becomes executable, its nodes are cloned into a graph of that number, the one that records of its replays
//! have. Nodes of child graphs and of conditional nodes are cloned into graphs of their own, which are then embedded:
//! their nodes get the next places, in order, without a word from CUPTI (measured with CUPTI 13.0 and 13.5 on an H100).

pub use range_model::timeline::Graphs;

/// What a node does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeKind {
    /// It runs a kernel.
    Kernel,
    /// It copies memory.
    Copy,
    /// It sets memory.
    Set,
    /// It holds another graph, and does nothing itself.
    Child,
    /// It does something else, or its kind is not known.
    #[default]
    Other,
}

/// A change of a graph. A graph's number is unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each variant names its fields in a sentence
pub enum GraphChange {
    /// A graph was created in the spans of `span`, a node of the lineage tree.
    Created { graph: u32, span: u32 },
    /// A node was created in the spans of `span`.
    Node { node: u64, span: u32, kind: NodeKind },
    /// A node that was created before is a clone of `original`.
    Cloned { node: u64, original: u64 },
    /// The nodes of `graph` get the next places in `into`.
    Embedded { graph: u32, into: u32 },
    /// A graph is executable now. Nodes that are not clones are the driver's own.
    Instantiated { graph: u32 },
    /// A graph is about to be destroyed. Records of its replays may still come.
    Ended { graph: u32 },
}
