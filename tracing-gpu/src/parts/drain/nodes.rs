//! What the parts have of a node of the tree.

pub(crate) use crate::parts::calls::drain::nodes::NodeCalls;
