//! Words that one thread changes together, and that any thread copies as of one moment, without a lock.

use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::sync::{self, AtomicU64, fence};

/// Odd while the words change. A reader that finds the same even number before and after its copy has a consistent
/// copy.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Sequence(AtomicU64);

/// The largest number of attempts at a consistent copy.
const LAST_ATTEMPT: u32 = 6_000;

impl Sequence {
    /// Changes the words, by plain stores. Only for their one writer.
    #[inline]
    pub(crate) fn change(&self, change: impl FnOnce()) {
        let sequence = self.0.load(Relaxed);
        self.0.store(sequence.wrapping_add(1), Relaxed);
        // Pairs with the reader's Acquire fence: a reader that sees a store of `change`, or a later store to these
        // words, sees the odd number.
        fence(Release);
        change();
        // Pairs with the reader's Acquire load: it sees the words.
        self.0.store(sequence.wrapping_add(2), Release);
    }

    /// The result of `copy` as of one moment: repeats a copy that the owner disturbed. The limit on attempts, some 0.5
    /// s, is only reached if the owner was stopped in the middle of a change; then some words are old and others new.
    pub(crate) fn copy<T>(&self, copy: impl Fn() -> T) -> T {
        let mut attempt = 0;
        loop {
            let sequence = self.0.load(Acquire);
            let copied = copy();
            // Pairs with the writer's Release fence: a later word comes with a later sequence.
            fence(Acquire);
            let is_whole = sequence.is_multiple_of(2) && self.0.load(Relaxed) == sequence;
            if is_whole || attempt == LAST_ATTEMPT {
                return copied;
            }
            attempt += 1;
            sync::pause(attempt);
        }
    }
}

/// Whether the owner was stopped in the middle of a change, judged by the word of its sequence.
#[cfg(all(target_os = "linux", feature = "command"))]
pub(crate) fn is_torn([sequence]: [u64; 1]) -> bool {
    !sequence.is_multiple_of(2)
}
