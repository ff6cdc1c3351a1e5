//! The open event pairs of a thread: starts that are recorded, for ranges that have not ended.
//!
//! Beside the stack, not in it, so that ranges without a stream pay nothing. While there are any, callbacks take the general path.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;

use super::shard::Shard;
use super::threads;
use crate::gpu::{self, Mark, Target};
use crate::record::Place;

/// Marks of the ranges open on one thread, innermost last. The lock is taken by that thread alone.
#[derive(Debug, Default)]
pub(super) struct Marks {
    any: AtomicBool,
    open: Mutex<Vec<OpenMark>>,
}

#[derive(Clone, Copy, Debug)]
struct OpenMark {
    span: u64,
    place: Place,
    mark: Mark,
    window: u64,
}

impl Shard {
    /// Whether an exit has to look for a mark.
    pub(super) fn has_marks(&self) -> bool {
        self.marks.any.load(Relaxed)
    }

    pub(super) fn keep_mark(&self, span: u64, place: Place, mark: Mark) {
        let window = self.window.load(Relaxed);
        self.marks.open.lock().push(OpenMark { span, place, mark, window });
        if !self.marks.any.swap(true, Relaxed) {
            threads::look_again();
        }
    }

    /// Records the end of the innermost range of `span`, if it is timed.
    pub(super) fn end_mark(&self, span: u64) {
        if !self.has_marks() {
            return;
        }
        let ended = {
            let mut open = self.marks.open.lock();
            let found = open.iter().rposition(|mark| mark.span == span);
            let ended = found.map(|index| open.remove(index));
            self.marks.any.store(!open.is_empty(), Relaxed);
            ended
        };
        if let Some(ended) = ended {
            self.end_open(ended);
            threads::look_again();
        }
    }

    pub(super) fn end_all_marks(&self) {
        let all = std::mem::take(&mut *self.marks.open.lock());
        self.marks.any.store(false, Relaxed);
        all.into_iter().rev().for_each(|open| self.end_open(open));
    }

    /// Gives up the marks of spans that are gone.
    pub(super) fn abandon_marks(&self, is_gone: impl Fn(u64) -> bool) {
        if !self.has_marks() {
            return;
        }
        let mut open = self.marks.open.lock();
        let (gone, kept) = open.iter().partition(|open| is_gone(open.span));
        *open = kept;
        self.marks.any.store(!open.is_empty(), Relaxed);
        drop(open);
        let gone: Vec<OpenMark> = gone;
        gone.into_iter().for_each(|open| gpu::abandon(open.mark));
    }

    fn end_open(&self, open: OpenMark) {
        match self.identity(open.place) {
            Some(identity) => {
                let (node, key) = (open.place.node(), identity.key);
                gpu::end(open.mark, Target { core: self.core, node, key, window: open.window });
            }
            None => gpu::abandon(open.mark),
        }
    }
}
