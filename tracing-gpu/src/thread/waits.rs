//! The waits of followed futures, by who waited and to whom that is owed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use range_report::stats::Keyed;

use crate::clock::Ticks;
use crate::session::lock_waits::Wakes;
use crate::session::owed::Owed;

/// Pairs of names that one thread keeps.
const MOST: usize = 4_096;

/// Waits of calls of one name that are owed to one other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitSums {
    /// Waits of which the largest part is owed to it.
    pub(crate) waits: u64,
    /// All parts that are owed to it, and the longest of them, in ticks.
    pub(crate) time: u64,
    pub(crate) longest: u64,
}

/// What a thread knows of followed futures.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    /// To whom the wait of the future is owed that is polled now.
    pub(crate) woken_by: Mutex<Owed>,
    /// The task of tokio that is polled now, by the id of its span, if it was woken.
    pub(crate) task: Mutex<Option<(u64, Wakes)>>,
    pub(crate) waits: Waits,
}

/// By the labels of who waited and to whom it is owed. Written by the owning thread, read by any.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    rows: Mutex<Keyed<[u32; 2], WaitSums>>,
    /// Parts of waits without room for their row.
    lost: AtomicU64,
}

impl Waits {
    pub(crate) fn add(&self, waiter: u32, since: Ticks, owed: &Owed) {
        let Some((mainly, _)) = owed.of_wait(since).max_by_key(|(_, part)| *part) else { return };
        let mut rows = self.rows.lock();
        for (label, part) in owed.of_wait(since) {
            if rows.len() >= MOST && rows.get(&[waiter, label]).is_none() {
                self.lost.store(self.lost.load(Relaxed) + 1, Relaxed);
                continue;
            }
            let row = rows.row([waiter, label]);
            row.time += part;
            row.longest = row.longest.max(part);
        }
        if let Some(row) = rows.get_mut(&[waiter, mainly]) {
            row.waits += 1;
        }
    }

    pub(crate) fn clear(&self) {
        *self.rows.lock() = Keyed::default();
        self.lost.store(0, Relaxed);
    }

    pub(crate) fn copy(&self) -> Vec<([u32; 2], WaitSums)> {
        self.rows.lock().iter().map(|(key, sums)| (*key, *sums)).collect()
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_counts_where_most_of_it_is_owed() {
        let waits = Waits::default();
        let mut second = Owed::NONE;
        second.waited(0, &Owed::to(1, 100));
        waits.add(7, 20, &second.of_waiter(2, 110));
        waits.add(7, 99, &second.of_waiter(2, 110));
        waits.add(7, 200, &Owed::to(1, 100));
        let sums = |waits, time, longest| WaitSums { waits, time, longest };
        let mut rows = waits.copy();
        rows.sort_by_key(|(key, _)| *key);
        assert_eq!(rows, [([7, 1], sums(1, 81, 80)), ([7, 2], sums(1, 20, 10))]);
        waits.clear();
        assert_eq!(waits.copy(), []);
    }
}
