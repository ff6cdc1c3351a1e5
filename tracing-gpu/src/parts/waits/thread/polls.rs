//! A thread polls futures, and wakes others.

use crate::clock::Moment;
use crate::core::thread::engine::last;
use crate::parts::waits::session::owed::{NOBODY, Owed};
use crate::parts::waits::thread::woken::WOKEN;

/// This thread is about to poll a future that was woken then, or has done so (0).
pub(crate) fn polls_woken(woken: Moment, by: &Owed) {
    WOKEN.set((woken, *by));
    last().into_iter().for_each(|thread| thread.set_woken(woken, by));
}

/// To whom those owe their wait that this thread wakes now.
pub(crate) fn wakes(now: Moment) -> Owed {
    last().map_or_else(|| Owed::to(NOBODY, now), |thread| thread.wakes(thread.session.clock.ticks_at(now)))
}
