//! Open start/end ranges (`nvtx.lifetime`): for launches inside them, and for the report, which names them at the end.

use std::sync::Arc;

#[cfg(feature = "cuda")]
use range_model::stats::order;
use range_model::stats::{Keyed, Lean};

use crate::clock::Ticks;
use crate::core::record::InstanceId;
use crate::core::thread::number::number;

/// The open lifetimes that began on one state; one word until the first begins.
#[derive(Debug, Default)]
pub(crate) struct Lifetimes(Option<Box<OpenByNumber>>);

#[derive(Debug, Default)]
struct OpenByNumber {
    /// By their numbers, which rise.
    open: Keyed<InstanceId, Lifetime>,
    /// The thread on which the latest open one began, and its name.
    last: Option<(u64, Arc<str>)>,
}

#[derive(Debug)]
pub(crate) struct Lifetime {
    pub(crate) label: u32,
    #[cfg(feature = "cuda")]
    pub(crate) start: Ticks,
    /// The thread on which it began; a state serves one thread after another.
    thread: u64,
    thread_name: Arc<str>,
    /// Whether its thread still makes calls, and somebody collects them.
    #[cfg(feature = "cuda")]
    pub(crate) takes_calls: bool,
    /// Whether its begin was noted, because a call was made in it.
    #[cfg(feature = "cuda")]
    pub(crate) is_noted: bool,
}

/// Open lifetimes of one name that one thread created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenLifetimes {
    pub(crate) label: u32,
    /// Name of the thread.
    pub(crate) thread: String,
    pub(crate) count: u64,
}

#[cfg(feature = "cuda")]
impl Lifetime {
    /// Whether the calling thread began it.
    pub(crate) fn is_of_this_thread(&self) -> bool {
        self.thread == number()
    }
}

impl Lifetimes {
    /// Begins a lifetime on the calling thread, which has this name.
    pub(crate) fn begin(
        &mut self,
        id: InstanceId,
        label: u32,
        start: Ticks,
        takes_calls: bool,
        name: impl Fn() -> String,
    ) {
        let thread = number();
        let all = self.0.get_or_insert_default();
        let (_, thread_name) = match all.last.take_if(|(last, _)| *last == thread) {
            Some(last) => all.last.insert(last),
            None => all.last.insert((thread, Arc::from(name()))),
        };
        let lifetime = Lifetime {
            label,
            thread,
            thread_name: Arc::clone(thread_name),
            #[cfg(feature = "cuda")]
            start,
            #[cfg(feature = "cuda")]
            takes_calls,
            #[cfg(feature = "cuda")]
            is_noted: false,
        };
        #[cfg(not(feature = "cuda"))]
        let _calls_are_not_noted = (start, takes_calls);
        all.open.insert(id, lifetime);
    }

    pub(crate) fn end(&mut self, id: InstanceId) -> Option<Lifetime> {
        let all = self.0.as_mut()?;
        let ended = all.open.remove(&id);
        if all.open.is_empty() {
            all.last = None;
        }
        ended
    }

    /// The thread has ended: no more calls are made in its lifetimes.
    #[cfg(feature = "cuda")]
    pub(crate) fn leave_thread(&mut self) {
        if let Some(all) = &mut self.0 {
            all.open.values_mut().for_each(|lifetime| lifetime.takes_calls = false);
        }
    }

    /// The open lifetimes that contain the present call and have not been noted, the oldest first.
    #[cfg(feature = "cuda")]
    pub(crate) fn unnoted(&mut self) -> Vec<(InstanceId, &mut Lifetime)> {
        let Some(all) = &mut self.0 else { return Vec::new() };
        let all = all.open.iter_mut().map(|(id, lifetime)| (*id, lifetime));
        let mut unnoted: Vec<_> = all.filter(|(_, lifetime)| lifetime.takes_calls && !lifetime.is_noted).in_vec();
        order::by_key(&mut unnoted, |(id, _)| *id);
        unnoted
    }

    pub(crate) fn open(&self) -> Vec<OpenLifetimes> {
        let mut open: Keyed<(u32, u64), OpenLifetimes> = Keyed::default();
        for Lifetime { label, thread, thread_name, .. } in self.0.as_ref().map_or(&[][..], |all| all.open.rows()) {
            let of_name = || OpenLifetimes { label: *label, thread: thread_name.to_string(), count: 0 };
            open.row_or((*label, *thread), of_name).count += 1;
        }
        open.into_iter().map(|(_, open)| open).in_vec()
    }
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use super::{Lifetimes, OpenLifetimes};

    #[test]
    fn what_has_ended_is_not_open() {
        let mut lifetimes = Lifetimes::default();
        let name = |name: &'static str| move || name.to_owned();
        for (id, label) in [(1, 2), (2, 1), (3, 2)] {
            lifetimes.begin(id, label, 10, true, name("worker"));
        }
        std::thread::scope(|scope| {
            let next = scope.spawn(|| lifetimes.begin(4, 1, 10, false, name("the next thread")));
            next.join().unwrap();
        });
        let open = |label, thread: &str, count| OpenLifetimes { label, thread: thread.to_owned(), count };
        assert_eq!(lifetimes.open(), [open(1, "worker", 1), open(1, "the next thread", 1), open(2, "worker", 2)]);
        for (id, is_there) in [(2, true), (3, true), (2, false)] {
            assert_eq!(lifetimes.end(id).is_some(), is_there);
        }
        assert_eq!(lifetimes.open(), [open(1, "the next thread", 1), open(2, "worker", 1)]);
        assert_eq!(lifetimes.unnoted().iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1]);
        lifetimes.leave_thread();
        assert!(lifetimes.unnoted().is_empty() && lifetimes.end(1).is_some());
    }
}
