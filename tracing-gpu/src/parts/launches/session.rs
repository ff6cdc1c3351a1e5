//! The memory limit for the notes of all threads, and the wake-up of the collector when many notes wait.

use std::sync::atomic::{AtomicIsize, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::thread::Thread;

use once_cell::sync::OnceCell;

use crate::page::{Line, PAGE};

/// Memory of a piece (a page of lines and the number of their thread) and of its entry in a list.
pub(crate) const PIECE_BYTES: usize = PAGE * size_of::<Line>() + 2 * size_of::<(u32, Vec<Line>)>();

/// Room for further pieces. Without [`allow`](Self::allow) there is none.
#[derive(Debug, Default)]
pub(crate) struct NoteRoom {
    pub(crate) left: AtomicIsize,
    all: AtomicIsize,
    /// The process that set the limit.
    process: AtomicU32,
    /// Pages that threads began anew since the last collection.
    pub(crate) turned: AtomicUsize,
    /// The thread to wake, and the number of pages after which it is woken.
    waker: OnceCell<(Thread, usize)>,
}

impl NoteRoom {
    /// Sets the limit. To be called before anything is noted.
    pub(crate) fn allow(&self, bytes: usize) {
        let pieces = isize::try_from(bytes / PIECE_BYTES).unwrap_or(isize::MAX);
        self.left.store(pieces, Relaxed);
        self.all.store(pieces, Relaxed);
        self.process.store(std::process::id(), Relaxed);
    }

    /// Unparks this thread from now on when `notes` notes wait, or half of the room is taken.
    pub(crate) fn wake(&self, thread: Thread, notes: usize) {
        let half = usize::try_from(self.all.load(Relaxed) / 2).unwrap_or(0);
        let _once = self.waker.set((thread, half.min(notes / PAGE).max(1)));
    }

    /// To be called when the collection of all present notes begins.
    pub(crate) fn begin_collecting(&self) {
        self.turned.store(0, Relaxed);
    }

    /// To be called when a thread begins its page anew.
    pub(crate) fn turns(&self) {
        let Some((thread, most)) = self.waker.get() else { return };
        let turned = self.turned.fetch_add(1, Relaxed) + 1;
        // Wakes the thread again after the same number of pages, because it may have parked right after the first time.
        if turned.is_multiple_of(*most) {
            thread.unpark();
        }
    }

    /// Whether this process is a forked child of the one that set the limit.
    pub(crate) fn is_forked(&self) -> bool {
        ![0, std::process::id()].contains(&self.process.load(Relaxed))
    }

    pub(crate) fn take(&self) -> bool {
        if self.left.load(Relaxed) <= 0 {
            return false; // no write, so that threads do not compete for the cache line
        }
        let taken = self.left.fetch_sub(1, Relaxed) > 0;
        if !taken {
            self.give_back(1);
        }
        taken
    }

    pub(crate) fn take_in_any_case(&self) {
        self.left.fetch_sub(1, Relaxed);
    }

    pub(crate) fn give_back(&self, pieces: usize) {
        self.left.fetch_add(isize::try_from(pieces).unwrap_or(0), Relaxed);
    }

    /// Whether threads should return memory that they do not use, because more than half is taken.
    pub(crate) fn is_scarce(&self) -> bool {
        self.left.load(Relaxed).saturating_mul(2) < self.all.load(Relaxed)
    }
}
