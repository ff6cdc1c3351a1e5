//! To whom the wait of a followed future is owed.
//!
//! Who wakes a future is known where its waker is ours ([`follow`](crate::follow)): the innermost span that is open on
//! the thread that wakes it. If that is in a followed call, what held that call up meanwhile held up the other, too: a
//! wait for a lock is owed to the head of the queue until it let go, then to the next. A timer or a device wakes from
//! no span. A call that waits for one does so of its own: what waits for that call meanwhile waits for it.

use crate::clock::Ticks;
use crate::parts::values::span::codes::{Codes, FIELDS};

/// Stands for a waker outside of any span, in place of a label.
pub(crate) const NOBODY: u32 = u32::MAX;
/// Stands for the call itself.
const ITSELF: Creditor = Creditor::of(u32::MAX - 1);

/// To whom a part of a wait is owed: the name of a span, and the values of its call, if those are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Creditor {
    pub(crate) label: u32,
    pub(crate) codes: Codes,
}

impl Creditor {
    const NONE: Self = Self::of(0);

    pub(crate) const fn of(label: u32) -> Self {
        Self { label, codes: [0; FIELDS] }
    }
}

impl From<u32> for Creditor {
    fn from(label: u32) -> Self {
        Self::of(label)
    }
}
/// Parts that are kept, the latest.
const PARTS: usize = 6;

/// What held up a call, or ended its wait: parts in order of time, each up to a moment and of one label. The first
/// begins with the time that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owed {
    /// The session of the labels; 0 for none.
    pub(crate) session: u64,
    /// What was before is not known, or there were more parts.
    from: Ticks,
    parts: [(Ticks, Creditor); PARTS],
    count: usize,
}

impl Owed {
    pub(crate) const NONE: Self = Self { session: 0, from: 0, parts: [(0, Creditor::NONE); PARTS], count: 0 };

    /// One alone.
    pub(crate) fn to(by: impl Into<Creditor>, until: Ticks) -> Self {
        let mut owed = Self::NONE;
        owed.push(by.into(), until);
        owed
    }

    /// Of a call that these held up, what it owes to who waits for it until then, and is woken in this span.
    pub(crate) fn of_waiter(&self, span: impl Into<Creditor>, until: Ticks) -> Self {
        let span = span.into();
        let mut owed = Self { from: self.from, ..Self::NONE };
        self.parts().for_each(|(until, by)| owed.push(if by == ITSELF { span } else { by }, until));
        owed.push(span, until);
        owed
    }

    /// The call waited from then on for these.
    pub(crate) fn waited(&mut self, since: Ticks, wait: &Self) {
        self.push(ITSELF, since);
        self.from = self.from.max(wait.from);
        for (until, by) in wait.parts().filter(|(until, _)| *until > since) {
            self.push(if by.label == NOBODY { ITSELF } else { by }, until);
        }
    }

    fn push(&mut self, by: Creditor, until: Ticks) {
        if let Some(last) = self.count.checked_sub(1).and_then(|last| self.parts.get_mut(last))
            && last.1 == by
        {
            last.0 = until.max(last.0);
            return;
        }
        if self.count == PARTS {
            let [.., (before, _), (last, owner)] = &mut self.parts;
            if owner.label == by.label {
                // One part of this name, with the values of the longer one: else a queue would forget its head.
                if until.saturating_sub(*last) > last.saturating_sub(*before) {
                    *owner = by;
                }
                *last = until.max(*last);
                return;
            }
            self.from = self.parts[0].0;
            self.parts.rotate_left(1);
            self.count -= 1;
        }
        if let Some(part) = self.parts.get_mut(self.count) {
            *part = (until, by);
            self.count += 1;
        }
    }

    fn parts(&self) -> impl Iterator<Item = (Ticks, Creditor)> {
        self.parts.into_iter().take(self.count)
    }

    /// What is owed of a wait that began then, by name: the parts of one name that follow each other are one.
    pub(crate) fn of_names(&self, since: Ticks) -> impl Iterator<Item = (u32, u64)> {
        let mut names = [(NOBODY, 0); PARTS];
        let mut count: usize = 0;
        for (by, part) in self.of_wait(since) {
            let is_next = count.checked_sub(1).is_none_or(|last| names[last].0 != by.label);
            count += usize::from(is_next);
            if let Some(name) = names.get_mut(count - 1) {
                *name = (by.label, name.1 + part);
            }
        }
        names.into_iter().take(count)
    }

    /// The same with the start and the end of each part.
    pub(crate) fn spans_of_names(&self, since: Ticks) -> impl Iterator<Item = (u32, [Ticks; 2])> {
        let mut end = since.max(self.from);
        self.of_names(since).map(move |(label, part)| {
            end += part;
            (label, [end - part, end])
        })
    }

    /// What a call that began then owes to each other name in all.
    pub(crate) fn of_others(&self, since: Ticks) -> impl Iterator<Item = (u32, u64)> {
        let parts = move || self.of_wait(since).filter(|(by, _)| *by != ITSELF);
        let is_first = move |place: usize, label| !parts().take(place).any(|(by, _)| by.label == label);
        let labels = parts().enumerate().filter(move |(place, (by, _))| is_first(*place, by.label));
        labels.map(move |(_, (of, _))| {
            (of.label, parts().filter(|(by, _)| by.label == of.label).map(|(_, part)| part).sum())
        })
    }

    /// What is owed of a wait that began then.
    pub(crate) fn of_wait(&self, since: Ticks) -> impl Iterator<Item = (Creditor, u64)> {
        let mut begin = since.max(self.from);
        self.parts().filter_map(move |(until, by)| {
            let part = until.checked_sub(begin).filter(|part| *part > 0)?;
            begin = until;
            Some((by, part))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_wait(owed: &Owed, since: Ticks) -> Vec<(u32, u64)> {
        owed.of_wait(since).map(|(by, part)| (by.label, part)).collect()
    }

    #[test]
    fn a_wait_is_owed_to_the_head_of_the_queue_while_that_held_it() {
        // The head, which nobody held up, lets the second go at 100, and that the third at 110.
        let of_second = Owed::NONE.of_waiter(1, 100);
        let mut second = Owed::NONE;
        second.waited(20, &of_second);
        let of_third = second.of_waiter(2, 110);
        assert_eq!(of_wait(&of_third, 50), [(1, 50), (2, 10)]);
        assert_eq!(of_wait(&of_third, 10), [(2, 10), (1, 80), (2, 10)], "before it waited, the second did something");
        assert_eq!(of_wait(&of_third, 105), [(2, 5)], "it came after the head had gone");
        assert_eq!(of_wait(&of_third, 110), []);
        assert_eq!(of_third.spans_of_names(50).collect::<Vec<_>>(), [(1, [50, 100]), (2, [100, 110])]);
    }

    #[test]
    fn what_a_call_waits_for_of_its_own_is_owed_to_it() {
        let mut holder = Owed::NONE;
        holder.waited(20, &Owed::to(1, 100)); // for the lock
        holder.waited(105, &Owed::to(NOBODY, 150)); // for a timer, with the lock
        assert_eq!(of_wait(&holder.of_waiter(2, 160), 50), [(1, 50), (2, 60)]);
    }

    #[test]
    fn a_call_owes_to_each_name_the_sum_of_its_parts() {
        let mut call = Owed::NONE;
        for (since, by, until) in [(20, 1, 100), (110, 2, 115), (120, NOBODY, 150), (160, 1, 165)] {
            call.waited(since, &Owed::to(by, until));
        }
        assert_eq!(call.of_others(0).collect::<Vec<_>>(), [(1, 85), (2, 5)]);
        assert_eq!(call.of_others(112).collect::<Vec<_>>(), [(2, 3), (1, 5)]);
        assert_eq!(Owed::NONE.of_others(0).count(), 0);
    }

    #[test]
    fn a_long_queue_of_one_name_keeps_the_values_of_its_head() {
        let call = |code| Creditor { label: 1, codes: [code, 0, 0, 0] };
        let mut of_last = Owed::to(call(7), 1_000);
        for number in 1..=20 {
            let mut next = Owed::NONE;
            next.waited(0, &of_last);
            of_last = next.of_waiter(call(10 + number), 1_000 + 10 * Ticks::from(number));
        }
        assert_eq!(of_wait(&of_last, 0), [(1, 1_000), (1, 10), (1, 10), (1, 10), (1, 170)]);
        assert_eq!(of_last.of_wait(0).next(), Some((call(7), 1_000)));
        assert_eq!(of_last.of_names(100).collect::<Vec<_>>(), [(1, 1_100)]);
    }

    #[test]
    fn the_latest_parts_are_kept() {
        let mut call = Owed::NONE;
        (1..=9)
            .for_each(|label| call.waited(100 * Ticks::from(label), &Owed::to(label, 100 * Ticks::from(label) + 50)));
        let kept = of_wait(&call.of_waiter(20, 1_000), 0);
        assert_eq!(kept, [(7, 50), (20, 50), (8, 50), (20, 50), (9, 50), (20, 50)], "what was before is not known");
    }
}
