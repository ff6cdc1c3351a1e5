//! The calls of a session: a table of slots, used again.

use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use once_cell::race::OnceBox;
use parking_lot::Mutex;

use super::by_span::CallBySpan;
use super::{
    AWAITED, CHILD, CLOSED, Call, EndedCall, Entry, Evidence, GONE, HELD_UP, IN_USE, LEFT_OPEN, LastEntry, Pauses,
    WAITED,
};
use crate::clock::{Clock, Ticks};
use crate::core::record::{CallId, OnCpu, Place};

/// The largest number of calls that are followed at one time, and the number of those that lie in one piece of memory.
/// With pieces of equal length a call is found in half the instructions that a table of growing chunks takes.
const CALLS: usize = 1 << 18;
const PIECE: usize = 1 << 7;

/// The calls of a session.
#[derive(Debug)]
pub(crate) struct Calls {
    all: [OnceBox<[Call; PIECE]>; CALLS / PIECE + 1],
    by_span: CallBySpan,
    /// Whether `by_span` has ever had a call.
    has_spans: AtomicBool,
    free: Mutex<Free>,
    /// Number of spans that were not followed because of the limit.
    over_limit: AtomicU64,
    pauses: Pauses,
}

#[derive(Debug, Default)]
struct Free {
    ids: Vec<CallId>,
    unused: CallId,
}

/// Free calls of one thread, so that threads take the shared lock only once in [`BATCH`] calls. Only for that thread.
#[derive(Debug)]
pub(crate) struct Spare {
    count: AtomicU32,
    /// Its call that looked dropped at its last exit, if its parent was open around it; 0 for none.
    dropped: AtomicU32,
    /// When that was created.
    dropped_created: AtomicU64,
    /// Not a list in the calls themselves, which may be in the cache of another processor.
    ids: [AtomicU32; FULL],
}

impl Default for Spare {
    fn default() -> Self {
        let [count, dropped] = [const { AtomicU32::new(0) }; 2];
        Self { count, dropped, dropped_created: AtomicU64::new(0), ids: [const { AtomicU32::new(0) }; FULL] }
    }
}

const BATCH: usize = 32;
const FULL: usize = 2 * BATCH;

impl Calls {
    pub(crate) fn new(clock: &Clock) -> Self {
        Self {
            all: [const { OnceBox::new() }; CALLS / PIECE + 1],
            by_span: CallBySpan::new(),
            has_spans: AtomicBool::new(false),
            free: Mutex::default(),
            over_limit: AtomicU64::new(0),
            pauses: Pauses::of(clock),
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: CallId) -> Option<&Call> {
        if id == 0 { None } else { self.at(id) }
    }

    /// [`get`](Self::get) of a number that is not 0.
    #[inline]
    fn at(&self, id: CallId) -> Option<&Call> {
        Some(&self.all.get(id as usize / PIECE)?.get()?[id as usize % PIECE])
    }

    /// Makes the memory for a call, if there is none.
    fn make(&self, id: CallId) -> Option<()> {
        let piece = self.all.get(id as usize / PIECE)?;
        let new = || (0..PIECE).map(|_| Call::default()).collect::<Box<[Call]>>().try_into().map_err(drop);
        piece.get_or_try_init(new).ok().map(drop)
    }

    /// Follows a new span of a thread, created in another call or in none (0). Returns 0 if too many are followed.
    // A call of a function took 23 instructions a new span; the second caller is rare.
    #[inline(always)]
    pub(crate) fn begin(&self, spare: &Spare, thread: u32, place: Place, parent: CallId, now: Ticks) -> CallId {
        let Some((id, call)) = self.take(spare) else {
            self.over_limit.fetch_add(1, Relaxed);
            return 0;
        };
        let parent = match self.get(parent) {
            Some(above) => {
                above.begin_child(now);
                parent
            }
            None => 0,
        };
        for (word, value) in [
            (&call.entries, 0),
            (&call.exited, now),
            (&call.idle_since, now),
            (&call.created, now),
            (&call.busy, 0),
            (&call.idle, 0),
            (&call.ready, 0),
            (&call.ready_alone, 0),
            (&call.pause, 0),
            (&call.inside, 0),
            (&call.place, place.plain().bits()),
            (&call.on_cpu, 0),
            (&call.off_cpu, 0),
            (&call.waited_most, 0),
        ] {
            word.store(value, Relaxed);
        }
        for (word, value) in
            [(&call.open_here, 0), (&call.thread, thread), (&call.parent, parent), (&call.node, place.node())]
        {
            word.store(value, Relaxed);
        }
        call.last.store(LastEntry::Any as u8, Relaxed);
        call.is_after_drop.store(false, Relaxed);
        for flag in [&call.has_paused, &call.outlived, &call.used_again, &call.begins_at_home, &call.is_alone] {
            flag.store(false, Relaxed);
        }
        call.has.store(0, Relaxed);
        call.state.store(0, Release);
        id
    }

    /// To be called before the first entry of a call without a parent inside another open call, which awaits it from
    /// now on.
    pub(crate) fn adopt(&self, id: CallId, outer: CallId) {
        let (Some(call), Some(above)) = (self.get(id), self.get(outer)) else { return };
        if call.parent.compare_exchange(0, outer, AcqRel, Relaxed).is_ok() {
            above.begin_child(0); // it is not idle, so the time is not needed
        }
    }

    /// Opens an instance of a call on a thread, as [`Call::enter`].
    #[inline(always)]
    pub(crate) fn enter(&self, thread: u32, call: &Call, entry: Entry<impl FnOnce(Ticks) -> Evidence>) -> u64 {
        let now = entry.now;
        let ready = call.enter(call.thread.load(Relaxed) == thread, entry, &self.pauses);
        if call.state.load(Relaxed) & (GONE | CLOSED) == GONE {
            self.regain(call, now);
        }
        ready
    }

    /// Its parent awaits a call again that looked dropped.
    #[inline]
    fn regain(&self, call: &Call, now: Ticks) {
        if call.state.fetch_and(!GONE, Relaxed) & GONE != 0
            && let Some(above) = self.get(call.parent.load(Relaxed))
            && above.regain_child(call, now) & (CLOSED | (GONE - AWAITED)) == CLOSED
        {
            self.regain_plain(above, now);
        }
    }

    /// The same for a plain span that stands for its children.
    #[cold]
    #[inline(never)]
    fn regain_plain(&self, call: &Call, now: Ticks) {
        self.regain(call, now);
    }

    /// Ends an instance of a call on the thread that opened it.
    pub(crate) fn exit(&self, thread: u32, id: CallId, now: Ticks, cpu: OnCpu) {
        self.exit_in(&Spare::default(), thread, id, now, cpu, || 0);
    }

    /// The same, in the innermost range that stays open on the thread; `around` is the call of that range.
    ///
    /// If its parent is that call, and it looks dropped, its close follows at once, and its parent does not notice in
    /// which order it is lost and ended. So that is found out later, which saves two operations on shared words.
    #[inline(always)]
    pub(crate) fn exit_in(
        &self,
        spare: &Spare,
        thread: u32,
        id: CallId,
        now: Ticks,
        cpu: OnCpu,
        around: impl FnOnce() -> CallId,
    ) {
        let Some(call) = self.get(id) else { return };
        if cpu != OnCpu::default() {
            call.on_cpu.fetch_add(cpu.on, Relaxed);
            call.off_cpu.fetch_add(cpu.off, Relaxed);
        }
        self.settle(spare);
        let parent = call.parent.load(Relaxed);
        if call.last_entry() == LastEntry::Dropped && parent != 0 {
            if around() == parent {
                spare.dropped.store(id, Relaxed);
                spare.dropped_created.store(call.created.load(Relaxed), Relaxed);
            } else {
                self.lose(call, now);
            }
        }
        if call.exit(call.thread.load(Relaxed) == thread, now) {
            self.give(None, id);
        }
    }

    /// Its parent awaits a call no more that looks dropped since then.
    #[inline]
    fn lose(&self, call: &Call, at: Ticks) {
        if call.state.fetch_or(GONE, Relaxed) & (GONE | CLOSED) == 0 {
            self.lose_gone(call, at);
        }
    }

    /// The same for a call that has just become `GONE`.
    #[inline]
    fn lose_gone<'a>(&'a self, mut call: &'a Call, at: Ticks) {
        while let Some(above) = self.get(call.parent.load(Relaxed)) {
            // The plain span stands for its children. Nobody frees it while it awaits this one.
            let is_next = above.stands_for_one() && above.state.fetch_or(GONE, Relaxed) & GONE == 0;
            above.lose_child(call, at);
            if !is_next {
                return;
            }
            call = above;
        }
    }

    /// To be called before the call around the one that looked dropped on this thread may wait.
    #[inline]
    pub(crate) fn settle(&self, spare: &Spare) {
        if spare.dropped.load(Relaxed) != 0 {
            self.settle_dropped(spare);
        }
    }

    #[inline(never)]
    fn settle_dropped(&self, spare: &Spare) {
        let Some(call) = self.get(spare.dropped.load(Relaxed)) else { return };
        spare.dropped.store(0, Relaxed);
        // It may have been entered again on another thread, or be another call by now.
        let is_it = || call.created.load(Relaxed) == spare.dropped_created.load(Relaxed);
        let at = call.exited.load(Relaxed);
        if !is_it() || call.last_entry() != LastEntry::Dropped || call.is_open(call.state.load(Relaxed)) {
            return;
        }
        // Acquire: who finds the state of another call finds its creation, too.
        if call.state.fetch_or(GONE, Acquire) & (GONE | CLOSED) == 0 {
            if is_it() {
                self.lose_gone(call, at);
            } else {
                call.state.fetch_and(!GONE, Relaxed);
            }
        }
    }

    /// The span of a call has closed.
    pub(crate) fn end(&self, spare: Option<&Spare>, id: CallId, now: Ticks) -> Option<EndedCall> {
        let call = self.get(id)?;
        if let Some(spare) = spare.filter(|spare| spare.dropped.load(Relaxed) == id) {
            spare.dropped.store(0, Relaxed);
        }
        let ended = call.end(now);
        let (parent, is_plain) = (call.parent.load(Relaxed), call.is_plain());
        let last_active = call.idle_since.load(Relaxed);
        let is_left_open = call.open_here.load(Acquire) != 0;
        let more = if is_left_open { LEFT_OPEN } else { 0 };
        let before = call.state.fetch_add(CLOSED | more, AcqRel); // none of the two is set
        if before & IN_USE == 0 && !is_left_open {
            self.give(spare, id);
        }
        let has_children = before & (AWAITED - CHILD) != 0;
        if !(is_plain && has_children) {
            let last = ended.closed.saturating_sub(ended.outlived);
            // On a registry, the plain span closes after its children.
            let last = if is_plain { last.max(last_active) } else { last };
            self.end_above(spare, parent, last, before & GONE != 0);
        }
        Some(ended)
    }

    /// Ends a child of this call, whose last poll ended then. With the last child of a plain span, that ends, too.
    fn end_above(&self, spare: Option<&Spare>, mut id: CallId, mut last: Ticks, mut is_gone: bool) {
        while let Some(above) = self.get(id) {
            let (parent, is_plain) = (above.parent.load(Relaxed), above.is_plain());
            let (before, is_unneeded) = above.end_child(last, is_gone);
            last = above.idle_since.load(Relaxed);
            if is_unneeded {
                self.give(spare, id);
            }
            let is_last = before & CLOSED != 0 && before & (AWAITED - CHILD) == CHILD;
            if !(is_plain && is_last) {
                return;
            }
            (id, is_gone) = (parent, before & GONE != 0);
        }
    }

    /// Lets a span find its call by the registry's id, as long as it lives. Only for the thread that has created it.
    /// Returns false if there is no entry for it.
    #[inline]
    pub(crate) fn keep_span(&self, thread: u32, id: CallId, span: u64) -> bool {
        let Some(call) = self.get(id) else { return false };
        call.span.store(span, Relaxed);
        if !self.has_spans.load(Relaxed) {
            self.has_spans.store(true, Relaxed);
        }
        self.by_span.insert(thread, span, id)
    }

    /// Whether this span, which closes, may be a kept one. If no span was ever kept, that takes one load.
    #[inline]
    pub(crate) fn may_have_span(&self, span: u64) -> bool {
        self.has_spans.load(Relaxed) && self.by_span.get(span) != 0
    }

    /// The call of a live span that [`keep_span`](Self::keep_span) has kept; 0 for none.
    #[inline]
    pub(crate) fn of_span(&self, span: u64) -> CallId {
        let id = self.by_span.get(span);
        if self.is_of_span(id, span) { id } else { 0 }
    }

    #[inline]
    fn is_of_span(&self, id: CallId, span: u64) -> bool {
        self.get(id).is_some_and(|call| call.span.load(Relaxed) == span)
    }

    /// The same, for a span that closes: nobody finds its call afterwards.
    #[inline]
    pub(crate) fn take_of_span(&self, span: u64) -> CallId {
        self.by_span.take(span, |id| self.is_of_span(id, span))
    }

    /// The thread with this state has ended, and creates no more spans.
    pub(crate) fn leave_spans(&self, thread: u32) {
        self.by_span.leave(thread);
    }

    /// All kept calls. Nobody finds them afterwards. To be called when no span can close any more.
    pub(crate) fn take_of_spans(&self) -> impl Iterator<Item = CallId> {
        self.by_span.take_all()
    }

    #[inline]
    fn take(&self, spare: &Spare) -> Option<(CallId, &Call)> {
        let count = match spare.count.load(Relaxed) {
            0 => self.refill(spare)?,
            count => count,
        };
        let id = spare.ids.get(count as usize - 1)?.load(Relaxed);
        spare.count.store(count - 1, Relaxed);
        Some((id, self.at(id)?))
    }

    /// Takes free calls from those of all threads. Returns their number.
    #[inline(never)]
    fn refill(&self, spare: &Spare) -> Option<u32> {
        let mut free = self.free.lock();
        for place in &spare.ids[..BATCH] {
            let id = match free.ids.pop() {
                Some(id) => id,
                None if (free.unused as usize) < CALLS => {
                    free.unused += 1;
                    free.unused
                }
                None => break,
            };
            self.make(id)?;
            place.store(id, Relaxed);
            spare.count.store(spare.count.load(Relaxed) + 1, Relaxed);
        }
        Some(spare.count.load(Relaxed)).filter(|count| *count != 0)
    }

    #[inline]
    fn give(&self, spare: Option<&Spare>, id: CallId) {
        if let Some(call) = self.at(id).filter(|call| call.has.load(Relaxed) & (HELD_UP | WAITED) != 0) {
            call.forget();
        }
        let Some(spare) = spare else { return self.free.lock().ids.push(id) };
        let count = match spare.count.load(Relaxed) as usize {
            FULL => self.give_back(spare),
            count => count,
        };
        if let Some(place) = spare.ids.get(count) {
            place.store(id, Relaxed);
            spare.count.store(count as u32 + 1, Relaxed);
        }
    }

    /// Gives half of its free calls to all threads. Returns the number of the others.
    #[inline(never)]
    fn give_back(&self, spare: &Spare) -> usize {
        self.free.lock().ids.extend(spare.ids[BATCH..].iter().map(|id| id.load(Relaxed)));
        spare.count.store(BATCH as u32, Relaxed);
        BATCH
    }

    /// Calls that are neither free nor spare.
    #[cfg(test)]
    pub(crate) fn alive<'a>(&self, spare: impl Iterator<Item = &'a Spare>) -> usize {
        let spare: usize = spare.map(|spare| spare.count.load(Relaxed) as usize).sum();
        let free = self.free.lock();
        free.unused as usize - free.ids.len() - spare
    }

    /// All calls, including free ones. On any thread.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Call> {
        let unused = self.free.lock().unused;
        (1..=unused).filter_map(|id| self.get(id))
    }

    pub(crate) fn over_limit(&self) -> u64 {
        self.over_limit.load(Acquire)
    }

    /// Begins a new window.
    pub(crate) fn forget_losses(&self) {
        self.over_limit.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests;
