//! Lifetimes that have begun and not ended (`nvtx.lifetime`): how many there are of each name, and which threads created them.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::engine;

/// Those that began on one shard. Its thread locks it at the creation of such a span, whoever closes it at the end, and a summary.
#[derive(Debug, Default)]
pub(crate) struct Lifetimes(Mutex<BTreeMap<Begun, OpenLifetimes>>);

/// Where a lifetime is counted until it ends. Threads come and go on a shard, so it knows which one it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Begun {
    label: u32,
    thread: u64,
    shard: u32,
}

/// Open lifetimes of one name that one thread created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenLifetimes {
    pub(crate) label: u32,
    /// Name of the thread.
    pub(crate) thread: String,
    pub(crate) count: u64,
}

impl Begun {
    /// On the calling thread, which holds this shard.
    pub(crate) fn here(label: u32, shard: u32) -> Self {
        Self { label, thread: engine::number(), shard }
    }

    /// Whether the calling thread created it.
    pub(crate) fn is_of_this_thread(self) -> bool {
        self.thread == engine::number()
    }

    /// The shard whose [`Lifetimes`] it is in.
    pub(crate) fn shard(self) -> u32 {
        self.shard
    }
}

impl Lifetimes {
    /// Counts one more; `thread` is the calling thread's name.
    pub(crate) fn begin(&self, begun: Begun, thread: &Mutex<String>) {
        let mut open = self.0.lock();
        let of_name = || OpenLifetimes { label: begun.label, thread: thread.lock().clone(), count: 0 };
        open.entry(begun).or_insert_with(of_name).count += 1;
    }

    /// Counts one less. Any thread.
    pub(crate) fn end(&self, begun: Begun) {
        let mut open = self.0.lock();
        let left = open.get_mut(&begun).map(|lifetimes| {
            lifetimes.count = lifetimes.count.saturating_sub(1);
            lifetimes.count
        });
        if left == Some(0) {
            open.remove(&begun);
        }
    }

    /// All that are open.
    pub(crate) fn open(&self) -> Vec<OpenLifetimes> {
        self.0.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::{Begun, Lifetimes, OpenLifetimes};

    #[test]
    fn what_has_ended_is_not_open() {
        let (lifetimes, thread) = (Lifetimes::default(), Mutex::new("worker".to_owned()));
        let (first, second) = (Begun::here(1, 0), Begun::here(2, 0));
        for begun in [second, first, second] {
            lifetimes.begin(begun, &thread);
        }
        *thread.lock() = "the next thread".to_owned();
        lifetimes.begin(Begun { thread: first.thread + 1, ..first }, &thread);
        let open = |label, thread: &str, count| OpenLifetimes { label, thread: thread.to_owned(), count };
        assert_eq!(lifetimes.open(), [open(1, "worker", 1), open(1, "the next thread", 1), open(2, "worker", 2)]);
        for begun in [first, second, first] {
            lifetimes.end(begun);
        }
        assert_eq!(lifetimes.open(), [open(1, "the next thread", 1), open(2, "worker", 1)]);
    }
}
