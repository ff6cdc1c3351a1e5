//! When the future that a thread polls was woken, as `follow` tells.

use std::cell::Cell;

use crate::clock::Moment;
use crate::parts::waits::session::owed::Owed;

/// In place of a time: the future is polled again, and was not woken.
pub(crate) const NOT_WOKEN: Moment = 1;
/// In place of a time: tokio tells when the task that is polled was woken.
pub(crate) const BY_TASK: Moment = 2;

thread_local! {
    /// When it was woken, 0 where that is not known or a call has taken it; and by whom.
    pub(crate) static WOKEN: Cell<(Moment, Owed)> = const { Cell::new((0, Owed::NONE)) };
}

/// Whether this thread polls a future that was woken before.
pub(crate) fn is_following() -> bool {
    WOKEN.get().0 != 0
}
