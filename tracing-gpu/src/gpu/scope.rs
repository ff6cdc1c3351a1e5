//! The streams of the `with_stream`s around what a thread does.
//!
//! Where spans follow each other inside one, the end of each takes the events of the next from the queue, whose lock it holds, and the next start
//! takes no lock. What was taken and is not used goes back with the scope: the stream is held no longer than by it.

use std::cell::Cell;

use super::queue::Events;
use super::streams::{self, NamedStream, StreamId};
use super::{events, own};
use crate::collect::threads;

/// The innermost `with_stream` of a thread.
struct Scope {
    /// 0 for none.
    stream: Cell<StreamId>,
    /// Whether a span has ended inside: so another may follow.
    is_warm: Cell<bool>,
    named: Cell<Option<&'static NamedStream>>,
    /// Events for the next start on the stream, which counts as open.
    next: Cell<Option<Events>>,
}

thread_local! {
    /// Needs no destructor, so that reading it is one load.
    static SCOPE: Scope = const {
        Scope { stream: Cell::new(0), is_warm: Cell::new(false), named: Cell::new(None), next: Cell::new(None) }
    };
}

/// The stream of the innermost `with_stream` on this thread; 0 for none.
#[inline(always)]
pub(crate) fn current() -> StreamId {
    SCOPE.with(|scope| scope.stream.get())
}

/// The next start on a stream, if it was taken.
#[inline(always)]
pub(super) fn take_next(id: StreamId) -> Option<(&'static NamedStream, Events)> {
    SCOPE.with(|scope| {
        let stream = scope.named.get().filter(|stream| stream.id == id)?;
        Some((stream, scope.next.take()?))
    })
}

/// The stream of a number.
#[inline(always)]
pub(super) fn stream(id: StreamId) -> Option<&'static NamedStream> {
    let named = SCOPE.with(|scope| scope.named.get());
    named.filter(|stream| stream.id == id).or_else(|| streams::get(id))
}

/// At the end of a range on a stream: keeps what `reopen` gives for the next start. False where that is not wanted, or not given.
#[inline(always)]
pub(super) fn keep_next(id: StreamId, reopen: impl FnOnce() -> Option<Events>) -> bool {
    SCOPE.with(|scope| {
        if scope.stream.get() != id || !scope.is_warm.replace(true) || scope.next.get().is_some() {
            return false;
        }
        scope.next.set(reopen());
        scope.next.get().is_some()
    })
}

/// Runs `body` inside a scope of this stream.
pub(super) fn inside<T>(stream: StreamId, body: impl FnOnce() -> T) -> T {
    struct Restore {
        stream: StreamId,
        is_warm: bool,
        named: Option<&'static NamedStream>,
        next: Option<Events>,
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            let (named, next) = SCOPE.with(|scope| {
                scope.stream.set(self.stream);
                scope.is_warm.set(self.is_warm);
                (scope.named.replace(self.named), scope.next.replace(self.next))
            });
            if let (Some(stream), Some(events)) = (named, next) {
                own::during(|| events::give_back(stream, events));
            }
            threads::look_again(); // the fast paths, which know no streams, may apply again
        }
    }
    let _restore = SCOPE.with(|scope| Restore {
        stream: scope.stream.replace(stream),
        is_warm: scope.is_warm.replace(false),
        named: scope.named.replace(streams::get(stream)),
        next: scope.next.take(),
    });
    threads::look_again();
    body()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: Events = Events { start: 1, end: 2 };
    const OTHERS: Events = Events { start: 3, end: 4 };

    fn start_of(next: Option<(&'static NamedStream, Events)>) -> Option<(StreamId, usize)> {
        next.map(|(stream, events)| (stream.id, events.start))
    }

    #[test]
    fn from_the_second_end_on_the_next_start_is_taken_and_goes_with_its_scope() {
        let [a, b] = [0x100, 0x200].map(|stream| streams::name_raw(0x5c09e, stream));
        assert!(!keep_next(a, || Some(EVENTS)) && !keep_next(a, || Some(EVENTS)), "outside of all scopes");
        inside(a, || {
            assert!(!keep_next(a, || Some(EVENTS)), "one span alone");
            assert!(!keep_next(a, || None) && keep_next(a, || Some(EVENTS)));
            assert!(!keep_next(a, || Some(OTHERS)), "one is enough");
            assert!(!keep_next(b, || Some(OTHERS)), "a field may name another stream");
            inside(b, || {
                assert_eq!((current(), start_of(take_next(a)), start_of(take_next(b))), (b, None, None));
                assert!(
                    !keep_next(a, || Some(OTHERS)) && !keep_next(b, || Some(OTHERS)) && keep_next(b, || Some(OTHERS))
                );
                assert_eq!(start_of(take_next(b)), Some((b, 3)));
            });
            assert_eq!((current(), start_of(take_next(b)), start_of(take_next(a))), (a, None, Some((a, 1))));
            assert_eq!(start_of(take_next(a)), None);
        });
        assert_eq!((current(), start_of(take_next(a))), (0, None));
        assert_eq!((stream(b).map(|stream| stream.id), stream(0).map(|stream| stream.id)), (Some(b), None));
    }
}
