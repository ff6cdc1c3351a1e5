//! What the tests of all files share.

/// This, with changes: structures to which fields may be added have no expressions outside of their crate.
pub(crate) fn with<T>(mut it: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut it);
    it
}
