//! Batches: spans that serve several calls at once, linked to each of them by `follows_from`.
//!
//! A batch is open from its first entry to its last exit. A call is *in batch* while a batch that it is linked to is
//! open. The running time of a batch is divided among the calls that it is linked to: each gets a *share*, an estimate.
//! Both are known once the batch has closed, and are counted once the call has closed as well.
//!
//! A program without links pays a look at one word at the close of a call. A link, and the close of a linked span, take
//! a lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use range_model::Note;
use range_model::stats::parts;

use crate::clock::Ticks;
use crate::core::record::{CallId, LinkedId, Place};
use crate::parts::calls::session::table::Calls;

/// The largest number of links that are kept at one time.
const LINKS: usize = 1 << 16;
/// The largest number of separate stretches of time that are kept of one call, the latest.
const STRETCHES: usize = 16;

/// The links of a session.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    spans: Mutex<LinkedSpans>,
    /// Links that were not kept: too many at one time, or of a span that no call can follow.
    lost: AtomicU64,
    /// Served spans that are in no row of calls.
    rowless: AtomicU64,
}

#[derive(Debug, Default)]
struct LinkedSpans {
    /// By number less one.
    all: Vec<LinkedSpan>,
    free: Vec<LinkedId>,
    links: usize,
}

/// A span that is a batch, or served by batches, or both.
#[derive(Debug, Default)]
struct LinkedSpan {
    call: CallId,
    created: Ticks,
    /// The calls that it serves, and the weight of each.
    serves: Vec<(LinkedId, f64)>,
    /// The batches that serve it and have not closed.
    open: Vec<LinkedId>,
    in_batch: Stretches,
    share: u64,
    batches: u64,
    /// Where it counts, once it has closed.
    closed: Option<ClosedSpan>,
}

/// What is needed of a linked span that has closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClosedSpan {
    pub(crate) created: Ticks,
    pub(crate) closed: Ticks,
    /// Its running time, from its first entry to its last exit. None if it was never entered.
    pub(crate) busy: u64,
    pub(crate) stay: Option<[Ticks; 2]>,
    /// Where it counts, as in [`Served`].
    pub(crate) thread: u32,
    pub(crate) place: Place,
    pub(crate) node: u32,
    pub(crate) is_call: bool,
}

/// The sum of what batches were for one closed call, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// The state of the thread that created it, its place there, and the node of its row.
    pub(crate) thread: u32,
    pub(crate) place: Place,
    pub(crate) node: u32,
    pub(crate) created: Ticks,
    /// Whether it is in a row of calls.
    pub(crate) is_call: bool,
    pub(crate) batches: u64,
    pub(crate) in_batch: u64,
    pub(crate) share: u64,
}

impl Batches {
    /// Links a batch to a call that it serves. Each pair counts once. A weight counts 1 if it is not known. Returns
    /// whether it counts.
    pub(crate) fn link(&self, calls: &Calls, batch: CallId, call: CallId, weight: Option<f64>) -> bool {
        let mut spans = self.spans.lock();
        let [batch, call] = [batch, call].map(|id| spans.of_call(calls, id));
        let before = spans.links;
        if batch == 0 || call == 0 || before >= LINKS {
            self.lost.fetch_add(1, Relaxed);
        } else {
            spans.link(batch, call, weight.unwrap_or(1.0));
        }
        let is_new = spans.links > before;
        // A span that has no links after all is not kept.
        [batch, call].into_iter().for_each(|id| spans.forget_unlinked(calls, id));
        is_new
    }

    /// A linked span has closed. Returns all closed spans whose last batch has closed now.
    pub(crate) fn close(&self, id: LinkedId, closed: ClosedSpan) -> Vec<Served> {
        self.spans.lock().close(id, closed)
    }

    /// Forgets all links: nobody sees the end of their spans.
    pub(crate) fn forget(&self) {
        *self.spans.lock() = LinkedSpans::default();
    }

    pub(crate) fn count_rowless(&self) {
        self.rowless.fetch_add(1, Relaxed);
    }

    /// Begins a new window.
    pub(crate) fn forget_losses(&self) {
        [&self.lost, &self.rowless].iter().for_each(|count| count.store(0, Relaxed));
    }

    /// Notes on links that are in no figure. `is_shown`: some are in figures.
    pub(crate) fn notes(&self, is_shown: bool) -> Vec<Note> {
        let [links, spans] = [&self.lost, &self.rowless].map(|count| count.load(Relaxed));
        let mut notes = Vec::new();
        if links > 0 {
            notes.push(Note::LinksLost { links });
        }
        if spans > 0 && is_shown {
            notes.push(Note::SharesWithoutRow { spans });
        }
        notes
    }
}

impl LinkedSpans {
    fn get(&mut self, id: LinkedId) -> Option<&mut LinkedSpan> {
        self.all.get_mut((id as usize).checked_sub(1)?)
    }

    /// The number of a call that has not closed; 0 for any other.
    fn of_call(&mut self, calls: &Calls, id: CallId) -> LinkedId {
        let Some(call) = calls.get(id).filter(|call| !call.is_closed()) else { return 0 };
        let created = call.created();
        // The word may be that of an earlier call with this number, whose end nobody saw.
        let known = call.linked();
        if self.get(known).is_some_and(|span| (span.call, span.created) == (id, created)) {
            return known;
        }
        let new = self.free.pop().unwrap_or_else(|| {
            self.all.push(LinkedSpan::default());
            self.all.len() as LinkedId // no more than calls and links at one time
        });
        if let Some(span) = self.get(new) {
            *span = LinkedSpan { call: id, created, ..LinkedSpan::default() };
        }
        call.set_linked(new);
        new
    }

    fn link(&mut self, batch: LinkedId, call: LinkedId, weight: f64) {
        let Some(served) = self.get(call).filter(|served| batch != call && !served.open.contains(&batch)) else {
            return;
        };
        served.open.push(batch);
        if let Some(batch) = self.get(batch) {
            batch.serves.push((call, weight));
            self.links += 1;
        }
    }

    fn forget_unlinked(&mut self, calls: &Calls, id: LinkedId) {
        let is_unlinked = |span: &&mut LinkedSpan| span.serves.is_empty() && span.open.is_empty() && span.batches == 0;
        let Some(span) = self.get(id).filter(|span| span.call != 0).filter(is_unlinked) else { return };
        calls.get(std::mem::take(&mut span.call)).into_iter().for_each(|call| call.set_linked(0));
        self.free.push(id);
    }

    fn close(&mut self, id: LinkedId, batch: ClosedSpan) -> Vec<Served> {
        let Some(span) = self.get(id).filter(|span| span.created == batch.created) else { return Vec::new() };
        span.closed = Some(batch);
        let serves = std::mem::take(&mut span.serves);
        let shares = parts(batch.busy, serves.iter().map(|(_, weight)| *weight));
        self.links -= serves.len();
        let mut done = Vec::new();
        for ((served, _), share) in serves.into_iter().zip(shares) {
            let Some(span) = self.get(served) else { continue };
            span.open.retain(|batch| *batch != id);
            span.batches += 1;
            span.share += share;
            if let Some([began, exited]) = batch.stay {
                let end = span.closed.map_or(exited, |served| served.closed.min(exited));
                span.in_batch.add(began.max(span.created), end);
            }
            done.extend(self.settle(served));
        }
        done.extend(self.settle(id));
        done
    }

    /// Takes a span out if it has closed, and so have all its batches. Returns what they were for it.
    fn settle(&mut self, id: LinkedId) -> Option<Served> {
        let span = self.get(id).filter(|span| span.open.is_empty())?;
        let ClosedSpan { thread, place, node, is_call, .. } = span.closed?;
        let LinkedSpan { created, in_batch, share, batches, .. } = std::mem::take(span);
        self.free.push(id);
        let in_batch = in_batch.total();
        (batches > 0).then_some(Served { thread, place, node, created, is_call, batches, in_batch, share })
    }
}

/// A set of moments: stretches of time in order, and what came before them.
#[derive(Debug, Default)]
struct Stretches {
    latest: Vec<(Ticks, Ticks)>,
    /// The length of earlier stretches, and the end of the last of them. Nothing is added before that.
    earlier: u64,
    until: Ticks,
}

impl Stretches {
    fn add(&mut self, begin: Ticks, end: Ticks) {
        let mut new = (begin.max(self.until), end);
        if new.0 >= new.1 {
            return;
        }
        self.latest.retain(|&(begin, end)| {
            let is_apart = end < new.0 || new.1 < begin;
            if !is_apart {
                new = (new.0.min(begin), new.1.max(end));
            }
            is_apart
        });
        let at = self.latest.partition_point(|(begin, _)| *begin < new.0);
        self.latest.insert(at, new);
        if self.latest.len() > STRETCHES {
            let (begin, end) = self.latest.remove(0);
            self.earlier += end - begin;
            self.until = end;
        }
    }

    fn total(&self) -> u64 {
        self.earlier + self.latest.iter().map(|(begin, end)| end - begin).sum::<u64>()
    }
}

#[cfg(test)]
mod tests;
