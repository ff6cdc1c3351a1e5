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
