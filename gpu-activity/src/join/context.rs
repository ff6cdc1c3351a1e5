//! What each drain of the join needs from its caller.

use std::fmt;

/// What is known elsewhere at the time of a drain.
pub struct Context<'a> {
    /// Parent of each node of the lineage tree, which is a lower number. Node 0 is the root and its own parent.
    pub parents: &'a [u32],
    /// Whether one more duration is kept by itself, by the number of those kept in its row.
    pub keep: &'a dyn Fn(u64) -> bool,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("parents", &self.parents).finish_non_exhaustive()
    }
}
