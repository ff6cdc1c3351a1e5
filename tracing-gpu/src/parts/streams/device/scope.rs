//! Scopes: the `with_stream` calls around the present code of a thread.
//!
//! At its first timed span a scope borrows a [`Lane`] from its stream, so that its spans are timed without a lock. The
//! lane goes back when the scope ends, and keeps the stream alive until then.

use std::cell::Cell;
use std::sync::OnceLock;

use gpu_activity::{forks, own_calls};

use super::lane::Lane;
use super::named::{self, NamedStream};
use super::reading;
use super::totals::StreamTotals;
use crate::parts::streams::StreamId;

/// The innermost `with_stream` of a thread.
struct Scope {
    /// 0 for none.
    stream: Cell<StreamId>,
    named: Cell<Option<&'static NamedStream>>,
    lane: Cell<Option<&'static Lane>>,
}

thread_local! {
    /// It has no destructor, so that reading it is one load.
    static SCOPE: Scope =
        const { Scope { stream: Cell::new(0), named: Cell::new(None), lane: Cell::new(None) } };
}

/// Called on a thread whose scope has changed.
static ON_CHANGE: OnceLock<fn()> = OnceLock::new();

/// Sets the function that is called on a thread when it enters or leaves a scope. Only the first call counts.
pub(crate) fn on_scope_change(look_again: fn()) {
    let _is_set = ON_CHANGE.set(look_again);
}

fn changed() {
    if let Some(look_again) = ON_CHANGE.get() {
        look_again();
    }
}

/// The stream of the innermost `with_stream` on this thread; 0 for none.
#[inline]
pub(crate) fn current() -> StreamId {
    SCOPE.with(|scope| scope.stream.get())
}

/// Makes the scope forget its stream, so that a forked child uses only paths that check [`forks`]. Only stores values.
pub(crate) extern "C" fn forget() {
    SCOPE.with(|scope| {
        scope.named.set(None);
        scope.lane.set(None);
    });
}

/// The stream of a number, and the lane that the scope has borrowed from it for pairs of this profiler.
#[inline]
pub(crate) fn lane(totals: &StreamTotals, id: StreamId) -> Option<(&'static NamedStream, Option<&'static Lane>)> {
    let (named, lane) = SCOPE.with(|scope| (scope.named.get(), scope.lane.get()));
    match named {
        Some(stream) if stream.id == id => Some((stream, lane.filter(|lane| lane.is_of(totals)))),
        _ => Some((named::get(id)?, None)),
    }
}

/// The lane that the scope has borrowed from this stream, or else one that it borrows now. `None` if the scope has
/// another stream, or its lane belongs to another profiler.
pub(crate) fn lane_or<E>(
    totals: &StreamTotals,
    id: StreamId,
    lend: impl FnOnce() -> Result<&'static Lane, E>,
) -> Result<Option<&'static Lane>, E> {
    SCOPE.with(|scope| {
        if scope.stream.get() != id || scope.named.get().is_none() {
            return Ok(None);
        }
        if scope.lane.get().is_none() {
            scope.lane.set(Some(lend()?));
        }
        Ok(scope.lane.get().filter(|lane| lane.is_of(totals)))
    })
}

/// Runs `body` in a scope of this stream.
pub(crate) fn inside<T>(stream: StreamId, body: impl FnOnce() -> T) -> T {
    struct Restore {
        stream: StreamId,
        named: Option<&'static NamedStream>,
        lane: Option<&'static Lane>,
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            let (named, lane) = SCOPE.with(|scope| {
                scope.stream.set(self.stream);
                (scope.named.replace(self.named), scope.lane.replace(self.lane))
            });
            if forks::is_child() {
                forget(); // the parent borrowed it before the fork
            } else if let (Some(stream), Some(lane)) = (named, lane) {
                own_calls::during(|| reading::leave(stream, lane));
            }
            changed(); // the fast paths, which handle no streams, may apply again
        }
    }
    let _restore = SCOPE.with(|scope| Restore {
        stream: scope.stream.replace(stream),
        named: scope.named.replace(named::get(stream)),
        lane: scope.lane.take(),
    });
    changed();
    body()
}

#[cfg(test)]
mod tests {
    use super::super::naming;
    use super::*;

    #[test]
    fn a_scope_borrows_once_from_its_own_stream_and_gives_back_what_it_has() {
        let [a, b] = [0x100, 0x200].map(|stream| naming::name_raw(0x5c09e, stream));
        let mine = StreamTotals::shared();
        let lend = || Ok::<_, ()>(Lane::find(mine));
        let never = || -> Result<&'static Lane, ()> { panic!("not wanted") };
        let is = |found: Option<&'static Lane>, lane: &Lane| found.is_some_and(|found| std::ptr::eq(found, lane));
        let known = |id| {
            let (stream, lane) = lane(mine, id).unwrap();
            assert_eq!(stream.id, id);
            lane.map(std::ptr::from_ref)
        };
        assert!(lane_or(mine, a, never).unwrap().is_none() && known(a).is_none(), "outside of all scopes");
        inside(a, || {
            assert_eq!((current(), known(a)), (a, None));
            assert!(lane_or(mine, a, || Err(())).is_err() && known(a).is_none());
            let of_a = lane_or(mine, a, lend).unwrap().unwrap();
            assert!(is(lane_or(mine, a, never).unwrap(), of_a));
            assert_eq!(known(a), Some(std::ptr::from_ref(of_a)));
            assert!(known(b).is_none() && lane_or(mine, b, never).unwrap().is_none(), "a field may name another");
            let other = StreamTotals::leak();
            assert!(
                lane(other, a).unwrap().1.is_none() && lane_or(other, a, never).unwrap().is_none(),
                "another profiler"
            );
            inside(b, || {
                assert!(known(a).is_none() && known(b).is_none());
                let of_b = lane_or(mine, b, lend).unwrap().unwrap();
                assert_eq!(known(b), Some(std::ptr::from_ref(of_b)));
                inside(b, || assert!(known(b).is_none(), "each scope has its own"));
            });
            assert_eq!(known(a), Some(std::ptr::from_ref(of_a)));
            std::panic::catch_unwind(|| inside(b, || panic!("wanted"))).unwrap_err();
            assert_eq!((current(), known(a)), (a, Some(std::ptr::from_ref(of_a))));
        });
        assert_eq!((current(), known(a)), (0, None));
        assert!(lane(mine, 0).is_none());
    }
}
