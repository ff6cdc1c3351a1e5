//! What each drain of the join needs from its caller.

use std::fmt;

/// The caller's knowledge at the time of a drain.
pub struct Context<'a> {
    /// Parent of each node of the lineage tree. A parent has a lower number than its child. Node 0 is the root and its
    /// own parent.
    pub parents: &'a [u32],
    /// Whether a row keeps one more single duration, given the number that it keeps already.
    pub keep: &'a dyn Fn(u64) -> bool,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("parents", &self.parents).finish_non_exhaustive()
    }
}
