//! To whom the wait of a followed future is owed.
//!
//! Who wakes a future is known where its waker is ours ([`follow`](crate::follow)): the innermost span that is open on
//! the thread that wakes it. If that is in a call which had waited itself until a moment ago, as the next one in a queue
//! for a lock does, the wait before that moment is owed to whoever ended that wait, and so on back to the head of the
//! queue. A timer or a device wakes from no span. A call that it wakes owes its wait to nobody, and so passes nothing
//! on: what waits for that call waits for it alone.

use crate::clock::Ticks;

/// Stands for a waker outside of any span, in place of a label.
pub(crate) const NOBODY: u32 = u32::MAX;
/// Parts of a wait that are kept, the latest.
const PARTS: usize = 4;
/// To whom a wait is owed: parts in order of time, each up to a moment and to one label. The first begins with the
/// wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owed {
    parts: [(Ticks, u32); PARTS],
    count: usize,
}

impl Owed {
    pub(crate) const NONE: Self = Self { parts: [(0, 0); PARTS], count: 0 };

    /// To one alone.
    pub(crate) fn to(label: u32, until: Ticks) -> Self {
        let mut owed = Self::default();
        owed.push(label, until);
        owed
    }

    /// The same, and from there on to `label`.
    pub(crate) fn then(mut self, label: u32, until: Ticks) -> Self {
        if self.parts().any(|(_, label)| label == NOBODY) {
            return Self::to(label, until);
        }
        self.push(label, until);
        self
    }

    fn push(&mut self, label: u32, until: Ticks) {
        if self.count == PARTS {
            self.parts.rotate_left(1);
            self.count -= 1;
        }
        self.parts[self.count] = (until, label);
        self.count += 1;
    }

    fn parts(&self) -> impl Iterator<Item = (Ticks, u32)> {
        self.parts.into_iter().take(self.count)
    }

    /// What is owed of a wait that began then.
    pub(crate) fn of_wait(&self, since: Ticks) -> impl Iterator<Item = (u32, u64)> {
        let mut begin = since;
        self.parts().filter_map(move |(until, label)| {
            let part = until.checked_sub(begin).filter(|part| *part > 0)?;
            begin = until;
            Some((label, part))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_owed_to_the_head_of_the_queue_while_that_held_it() {
        let head = Owed::to(1, 100);
        let second = head.then(2, 110);
        assert_eq!(second.of_wait(20).collect::<Vec<_>>(), [(1, 80), (2, 10)]);
        assert_eq!(second.of_wait(105).collect::<Vec<_>>(), [(2, 5)], "it came after the head had gone");
        assert_eq!(second.of_wait(110).count(), 0);
        let sixth = (3..=6).fold(second, |owed, label| owed.then(label, 100 + 10 * Ticks::from(label)));
        assert_eq!(sixth.of_wait(0).collect::<Vec<_>>(), [(3, 130), (4, 10), (5, 10), (6, 10)], "the latest are kept");
    }

    #[test]
    fn a_call_that_a_timer_woke_passes_nothing_on() {
        let timed = Owed::to(NOBODY, 100);
        assert_eq!(timed.then(2, 110), Owed::to(2, 110));
    }
}
