//! Calls of spans that may be futures: when each was created, how long it was busy, and what it awaited.
//!
//! If a span is entered once, that one instance has all its time. If it is entered again, it may be a future, which
//! waits between the entries. Nothing at the creation of a span shows which it is, so the first spans of a row are
//! followed until they have closed. If they were entered once, the row has plain spans, and its next spans pay nothing.
//!
//! The latency of a call runs from its creation to its close. The call is busy while one of its instances is open on
//! any thread. After its last poll it is outlived: by a child, or by another handle of its span. During the rest it
//! awaits something: if a call that was created inside it is alive, that call. It also awaits what was created inside
//! of a plain span in it.

mod by_span;
mod entry;
pub(crate) mod table;

use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release,
};

use parking_lot::Mutex;

use entry::Pauses;
pub(crate) use entry::{Around, Entry, Evidence, LastExit};

use crate::clock::Ticks;
use crate::core::record::{LinkedId, OnCpu, Place, RangeNumbers};
use crate::parts::values::span::codes::{Codes, FIELDS};
use crate::parts::waits::session::endings::Mark;
use crate::parts::waits::session::owed::Owed;

/// Parts of [`Call::state`]: the number of instances that are open on other threads than its own, whether one was open
/// there when the span closed, whether another thread has ever entered it, the number of child calls whose span is
/// open, the number of those that it may await, whether its parent awaits it no more, because it looks like a future
/// that was polled and then dropped, and whether the span is closed. A finished child is not awaited, even if another
/// handle keeps its span open.
const OPEN: u64 = 1;
const SHARED: u64 = 1 << 22;
const LEFT_OPEN: u64 = 1 << 23;
const CHILD: u64 = 1 << 24;
const AWAITED: u64 = 1 << 44;
const GONE: u64 = 1 << 62;
const CLOSED: u64 = 1 << 63;
const ALL_OPEN: u64 = SHARED - 1;
const IN_USE: u64 = GONE - 1 - LEFT_OPEN - SHARED;
/// Instances that are open elsewhere, and awaited children.
const ACTIVE: u64 = IN_USE & !(AWAITED - CHILD);

/// What an entry of a call tells about the time since the exit before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
enum LastEntry {
    /// Nothing.
    #[default]
    Any,
    /// It came so long after it that the call was suspended.
    Suspended,
    /// The same, but the call may have finished: another owner of the span came after or before a late drop, or a tool
    /// took part of the pause.
    PerhapsSuspended,
    /// It came at once after it on the same thread, as the drop of a finished future does.
    Dropped,
    /// It came later than at once, but may be the drop of a finished future whose thread was stopped: whether the call
    /// was suspended is not known.
    Late,
}

impl LastEntry {
    #[inline]
    fn of(word: u8) -> Self {
        match word {
            1 => Self::Suspended,
            2 => Self::PerhapsSuspended,
            3 => Self::Dropped,
            4 => Self::Late,
            _ => Self::Any,
        }
    }
}

/// One call. Any thread may use it; the times of a call that is entered on several threads at once are not exact.
///
/// Its first three cache lines hold what all calls use, in the order of how often: a poll between two that are far
/// apart in time finds none of them in the first cache.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Call {
    // Each entry and each exit.
    state: AtomicU64,
    entries: AtomicU64,
    /// Its last exit.
    exited: AtomicU64,
    /// Start of its current busy time.
    busy_since: AtomicU64,
    /// Start of the current time in which neither it nor a child call is active.
    idle_since: AtomicU64,
    /// Instances that are open on the thread that created it, until another thread enters it. Only that thread writes
    /// it: a store takes a tenth of the time of an operation on `state`.
    open_here: AtomicU32,
    /// The state of the thread that created it.
    thread: AtomicU32,
    parent: AtomicU32,
    /// The node where it was entered last.
    node: AtomicU32,
    /// The last entry: a [`LastEntry`]; and whether another owner of the span made it, after the drop of a future.
    last: AtomicU8,
    is_after_drop: AtomicBool,
    /// Whether it was entered again while none of its instances was open.
    has_paused: AtomicBool,
    /// Whether child calls were alive at its last exit; they keep the span from closing.
    outlived: AtomicBool,
    /// Whether it was entered in several ranges and was created neither in nor below any of them.
    used_again: AtomicBool,
    /// Whether its first entry was where it was created. An entry elsewhere is then a visit, like that of a span handed
    /// over in a message, until there are two without a return.
    begins_at_home: AtomicBool,
    /// Whether it was created with `parent: None`, like an executor's systems. Each entry of such a kept span is a
    /// call, even on a thread without an open range.
    is_alone: AtomicBool,
    /// What has a value that few calls have: see [`CODES`].
    has: AtomicU8,

    // Each entry.
    created: AtomicU64,
    /// Earlier busy time.
    busy: AtomicU64,
    /// Earlier time in which neither it nor a child call was active.
    idle: AtomicU64,
    /// Start of the last idle time that has ended.
    idle_before: AtomicU64,
    /// The time before a poll in which it was ready for it: since it was created or woken, as far as that is known. The
    /// part of it that is in `idle`, too.
    ready: AtomicU64,
    ready_alone: AtomicU64,
    /// The pause between its last entry and the exit before it.
    pause: AtomicU64,
    /// Start of the range in which it was entered last, once it was entered elsewhere than it was created.
    inside: AtomicU64,

    // Each beginning and end.
    /// Its place by creation on the thread that created it.
    place: AtomicU64,
    /// Its first entry.
    began: AtomicU64,
    /// What is known of the processor time of its instances.
    on_cpu: AtomicU64,
    off_cpu: AtomicU64,
    /// The registry's id of its span, if [`CallBySpan`] has it.
    span: AtomicU64,
    /// Of the longest wait of the task, for nobody knows whom: its length, and a [`Mark`] of its end.
    waited_most: AtomicU64,
    went_on: AtomicU64,
    /// Its number among the linked spans of [`Batches`](crate::parts::batches::session::Batches); 0 for none.
    linked: AtomicU32,
    has_fields: AtomicBool,

    // Few calls.
    /// `idle` and `ready_alone` of its parent when that awaited it no more.
    above_idle: AtomicU64,
    above_ready: AtomicU64,
    /// Entries on threads without an open range that are calls if the span is kept, but not counted yet. Only of those
    /// that are alone.
    uncounted: AtomicU64,
    /// While a timeline is written: its number (0 from the second call of the span on), and the number of the call in
    /// which it runs.
    number: AtomicU64,
    under: AtomicU64,
    /// When its wait began, if it was polled since without a wake.
    waits_since: AtomicU64,
    /// The codes of its fields' values, if calls of its name waited for each other before it was created.
    codes: [AtomicU32; FIELDS],
    /// What held it up so far, if it is followed.
    held_up_by: Mutex<Owed>,
}

/// Flags of [`Call::has`]: `codes`, `held_up_by`, `waits_since`, and `number`; and whether a task has polled it and
/// another call, neither inside the other, in one poll.
const CODES: u8 = 1;
const HELD_UP: u8 = 2;
const WAITED: u8 = 4;
const NUMBERED: u8 = 8;
const JOINED: u8 = 16;

/// The result of a call, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedCall {
    pub(crate) created: Ticks,
    pub(crate) latency: u64,
    pub(crate) busy: u64,
    /// Time before its last poll in which neither it nor a child call was active.
    pub(crate) idle: u64,
    /// What is known of the processor time of its instances.
    pub(crate) cpu: OnCpu,
    /// The time before a poll in which it was ready for it, as far as that is known; and the part of it in `idle`.
    pub(crate) ready: u64,
    pub(crate) ready_alone: u64,
    /// Time after its last poll, without that in which it is dropped.
    pub(crate) outlived: u64,
    pub(crate) entries: u64,
    /// Whether it was entered again while none of its instances was open.
    pub(crate) has_paused: bool,
    /// Whether child calls were alive at its last exit, so that it could not close then. False for a kept span that is
    /// used in one range after another, because its children may be kept too.
    pub(crate) is_outlived: bool,
    /// Whether it was dropped while it waited, assuming that its last entry was for the drop; and whether that is not
    /// known: a finished future whose thread was stopped has the same entries.
    pub(crate) is_cancelled: bool,
    pub(crate) is_unsure: bool,
    /// Whether its last entry was for the drop of a finished future.
    pub(crate) is_dropped: bool,
    /// Whether its last entries look exactly like those of a future that was polled and then dropped.
    pub(crate) has_finished: bool,
    /// Uses that are calls if the span is kept, but not counted yet.
    pub(crate) uncounted: u64,
    pub(crate) thread: u32,
    pub(crate) place: Place,
    pub(crate) node: u32,
    pub(crate) closed: Ticks,
    /// Its numbers, if a timeline is written and it was the only call of its span.
    pub(crate) numbers: Option<RangeNumbers>,
}

impl Call {
    /// What an entry is, after a pause on which the limit `at_once` does not decide, and what the one before it was.
    #[inline(never)]
    fn judge(
        &self,
        pause: u64,
        left: LastExit,
        before: LastEntry,
        pauses: &Pauses,
        evidence: impl FnOnce(Ticks) -> Evidence,
    ) -> LastEntry {
        let exited = self.exited.load(Relaxed);
        let Evidence { around, done, has_tool } = evidence(exited);
        let next = left == LastExit::Last;
        if next && pause <= pauses.at_once + done.saturating_sub(exited) {
            return LastEntry::Dropped;
        }
        let is_suspended = pause > if next { pauses.long } else { pauses.short };
        match around {
            Around::SamePoll if next => LastEntry::Dropped,
            Around::SamePoll => LastEntry::Any,
            Around::Unknown if !is_suspended && next => LastEntry::Late,
            Around::Unknown if !is_suspended => LastEntry::Any,
            _ if before == LastEntry::Dropped => LastEntry::Any,
            Around::Later | Around::Unknown => {
                let is_sure = around == Around::Later || pause > pauses.long;
                let is_doubtful = before == LastEntry::Late || !is_sure && (left == LastExit::Earlier || has_tool);
                if is_doubtful { LastEntry::PerhapsSuspended } else { LastEntry::Suspended }
            }
        }
    }

    #[inline]
    fn last_entry(&self) -> LastEntry {
        LastEntry::of(self.last.load(Relaxed))
    }

    /// Opens an instance. `is_here`: on the thread that created it. Returns how long it was ready, as far as that is
    /// known.
    #[inline(always)]
    fn enter(&self, is_here: bool, entry: Entry<impl FnOnce(Ticks) -> Evidence>, pauses: &Pauses) -> u64 {
        let Entry { now, left, woken, evidence } = entry;
        let mut ready = 0;
        let entries = self.entries.load(Relaxed);
        let open_here = self.open_here.load(Acquire);
        let known = self.state.load(Acquire);
        if entries == 0 {
            self.began.store(now, Relaxed);
        } else {
            // While another instance is open, the call does not wait.
            let is_open = known & ALL_OPEN != 0 || open_here != 0;
            let pause = if is_open { 0 } else { now.saturating_sub(self.exited.load(Relaxed)) };
            // What was woken is polled: it is not dropped now, and was not dropped before.
            let is_poll = woken > 0;
            let before = if is_poll || self.outlived.load(Relaxed) { LastEntry::Any } else { self.last_entry() };
            let last = if is_poll || is_open {
                LastEntry::Any
            } else if left == LastExit::Last && pause <= pauses.at_once {
                LastEntry::Dropped
            } else if left != LastExit::Last && before == LastEntry::Dropped {
                LastEntry::Any
            } else {
                self.judge(pause, left, before, pauses, evidence)
            };
            self.pause.store(pause, Relaxed);
            self.last.store(last as u8, Relaxed);
            self.is_after_drop.store(before == LastEntry::Dropped, Relaxed);
        }
        self.entries.store(entries + 1, Relaxed);
        let before = if is_here && known & SHARED == 0 {
            self.open_here.store(open_here + 1, Release);
            known
        } else {
            if known & SHARED == 0 {
                self.state.fetch_or(SHARED, AcqRel);
            }
            self.state.fetch_add(OPEN, AcqRel)
        };
        let is_idle = before & ACTIVE == 0 && open_here == 0;
        if before & ALL_OPEN == 0 && open_here == 0 {
            self.busy_since.store(now, Relaxed);
            if entries > 0 {
                self.has_paused.store(true, Relaxed);
                if woken > 0 {
                    ready = self.end_ready(is_idle, woken.max(self.exited.load(Relaxed)), now);
                }
            } else {
                ready = self.end_ready(is_idle, self.created.load(Relaxed), now);
            }
        }
        if is_idle {
            self.wake(now);
        }
        ready
    }

    /// Whether an instance is open, here or elsewhere.
    #[inline]
    fn is_open(&self, state: u64) -> bool {
        state & ALL_OPEN != 0 || self.open_here.load(Acquire) != 0
    }

    /// Whether neither an instance nor a child call that it awaits is active.
    #[inline]
    fn is_idle(&self, state: u64) -> bool {
        state & ACTIVE == 0 && self.open_here.load(Acquire) == 0
    }

    /// How long it has waited of its own until now. 0 before its first entry.
    #[inline]
    pub(crate) fn waited(&self, now: Ticks) -> u64 {
        let is_waiting = self.is_idle(self.state.load(Relaxed)) && self.entries.load(Relaxed) > 0;
        if is_waiting { now.saturating_sub(self.idle_since.load(Relaxed)) } else { 0 }
    }

    /// Ends the time since then in which it was ready, and returns it. To be called before [`wake`](Self::wake).
    #[inline]
    fn end_ready(&self, is_idle: bool, since: Ticks, now: Ticks) -> u64 {
        let add = |sum: &AtomicU64, since: Ticks| {
            sum.store(sum.load(Relaxed) + now.saturating_sub(since), Relaxed);
        };
        add(&self.ready, since);
        if is_idle {
            add(&self.ready_alone, since.max(self.idle_since.load(Relaxed)));
        }
        now.saturating_sub(since)
    }

    /// Ends an instance. Returns whether nobody needs the call any more.
    #[inline]
    fn exit(&self, is_here: bool, now: Ticks) -> bool {
        let (since, before) = (self.busy_since.load(Relaxed), self.state.load(Relaxed));
        self.exited.store(now, Relaxed);
        self.outlived.store(before & IN_USE >= CHILD, Relaxed);
        self.idle_since.store(now, Relaxed); // pairs with `wake`: a thread that finds it idle sees since when
        let open_here = self.open_here.load(Acquire);
        let is_here = is_here && open_here > 0;
        let (before, open_here) = if is_here {
            self.open_here.store(open_here - 1, Release);
            (self.state.load(Acquire) + OPEN, open_here - 1)
        } else {
            (self.state.fetch_sub(OPEN, AcqRel), self.open_here.load(Acquire))
        };
        let is_last = before & ALL_OPEN == OPEN && open_here == 0;
        if is_last {
            self.busy.store(self.busy.load(Relaxed) + now.saturating_sub(since), Relaxed);
        }
        // Of two threads that exit a closed span at once, at most one may find that it is the last.
        is_last && before & (CLOSED | IN_USE) == CLOSED | OPEN && (before & LEFT_OPEN != 0) == is_here
    }

    /// Ends its idle time.
    #[inline]
    fn wake(&self, now: Ticks) {
        let since = self.idle_since.load(Relaxed);
        let idle = now.saturating_sub(since);
        self.idle_before.store(since, Relaxed);
        self.idle.store(self.idle.load(Relaxed) + idle, Relaxed);
        self.idle_since.store(now, Relaxed);
    }

    fn begin_child(&self, now: Ticks) {
        let before = self.state.fetch_add(CHILD | AWAITED, AcqRel);
        if self.is_idle(before) {
            self.wake(now);
        }
    }

    /// Awaits this child no more, as far as is known.
    fn lose_child(&self, child: &Self, now: Ticks) {
        for (saved, time) in [(&child.above_idle, &self.idle), (&child.above_ready, &self.ready_alone)] {
            saved.store(time.load(Relaxed), Relaxed);
        }
        self.idle_since.store(now, Relaxed);
        self.state.fetch_sub(AWAITED, Release);
    }

    /// Has awaited this child all the time since it was lost: it was not dropped, but is polled again. Returns its
    /// state before.
    fn regain_child(&self, child: &Self, now: Ticks) -> u64 {
        let before = self.state.fetch_add(AWAITED, AcqRel);
        self.idle_since.store(now, Relaxed);
        for (saved, time) in [(&child.above_idle, &self.idle), (&child.above_ready, &self.ready_alone)] {
            time.store(time.load(Relaxed).min(saved.load(Relaxed)), Relaxed);
        }
        before
    }

    /// Ends a child call whose last poll ended then. Returns its state before, and whether nobody needs this call any
    /// more.
    fn end_child(&self, last: Ticks, is_gone: bool) -> (u64, bool) {
        if last > self.idle_since.load(Relaxed) && !is_gone {
            self.idle_since.store(last, Relaxed);
        }
        let child = if is_gone { CHILD } else { CHILD | AWAITED };
        let before = self.state.fetch_sub(child, AcqRel);
        (before, before & !(GONE | SHARED) == CLOSED | child) // nor was it left open
    }

    /// Whether it stands for its children in its parent, if its span has closed: a plain span polls nothing, so what
    /// was created in it is awaited around it.
    fn is_plain(&self) -> bool {
        self.entries.load(Relaxed) <= 1
    }

    /// Whether it is the closed call of a plain span, and awaits one child.
    fn stands_for_one(&self) -> bool {
        self.state.load(Relaxed) & (CLOSED | (GONE - AWAITED)) == CLOSED | AWAITED && self.is_plain()
    }

    pub(crate) fn set_joined(&self) {
        self.note(JOINED);
    }

    pub(crate) fn is_joined(&self) -> bool {
        self.has.load(Relaxed) & JOINED != 0
    }

    /// It was created with `parent: None`.
    pub(crate) fn set_alone(&self) {
        self.uncounted.store(0, Relaxed);
        self.is_alone.store(true, Relaxed);
    }

    /// Notes that it has a value that few calls have. Only for a new call, which nobody else knows yet.
    fn note_new(&self, what: u8) {
        self.has.store(self.has.load(Relaxed) | what, Relaxed);
    }

    /// The same at any time.
    fn note(&self, what: u8) {
        if self.has.load(Relaxed) & what == 0 {
            self.has.fetch_or(what, Relaxed);
        }
    }

    /// Forgets what is not known of its next use. Nobody needs it any more.
    #[cold]
    #[inline(never)]
    fn forget(&self) {
        *self.held_up_by.lock() = Owed::NONE;
        self.waits_since.store(0, Relaxed);
    }

    /// Only for a new call.
    pub(crate) fn set_numbers(&self, numbers: RangeNumbers) {
        self.note_new(NUMBERED);
        self.number.store(numbers.call, Relaxed);
        self.under.store(numbers.parent, Relaxed);
        self.has_fields.store(numbers.has_fields, Relaxed);
    }

    fn numbers(&self) -> Option<RangeNumbers> {
        let is_numbered = self.has.load(Relaxed) & NUMBERED != 0;
        let call = is_numbered.then(|| self.number.load(Relaxed)).filter(|number| *number != 0)?;
        let (parent, has_fields) = (self.under.load(Relaxed), self.has_fields.load(Relaxed));
        Some(RangeNumbers { span: call, call, parent, has_fields })
    }

    /// The number that it has in a timeline, if one is written.
    pub(crate) fn number_in_timeline(&self) -> Option<u64> {
        self.numbers().map(|numbers| numbers.call)
    }

    /// Notes that it was entered as the call with this number.
    pub(crate) fn enter_numbered(&self, number: u64, under: u64) {
        if self.number.load(Relaxed) == number {
            self.under.store(under, Relaxed);
        } else {
            self.number.store(0, Relaxed);
        }
    }

    /// If it is open and one instance does not show it: its start, its numbers, and its place by creation.
    pub(crate) fn open_numbers(&self) -> Option<(Ticks, RangeNumbers, (u32, Place))> {
        let state = self.state.load(Acquire);
        let is_one = match self.entries.load(Relaxed) {
            0 => true,
            1 => self.is_open(state),
            _ => false,
        };
        let numbers = self.numbers().filter(|_| state & CLOSED == 0 && !is_one)?;
        Some((self.created.load(Relaxed), numbers, self.home()))
    }

    /// Start of its wait, if it was entered before and is not now. `None` for a kept span that is used elsewhere.
    pub(crate) fn waits_since(&self) -> Option<Ticks> {
        let state = self.state.load(Acquire);
        let is_waiting = state & CLOSED == 0 && !self.is_open(state) && self.entries.load(Relaxed) > 0;
        let is_here = self.inside.load(Relaxed) == 0 || self.is_visiting();
        (is_waiting && is_here).then(|| self.exited.load(Relaxed))
    }

    /// Which range a thread has left last, by the start of that range if it was one of this call.
    pub(crate) fn left(&self, start: Option<Ticks>) -> LastExit {
        match start {
            Some(start) if start >= self.busy_since.load(Relaxed) => LastExit::Last,
            Some(start) if start >= self.created.load(Relaxed) => LastExit::Earlier,
            _ => LastExit::Other,
        }
    }

    /// Its wait, which was ended then by a wake, is owed to these. Returns when it began; `None` if it did not wait.
    pub(crate) fn owe(&self, owed: &Owed, woken: Ticks) -> Option<Ticks> {
        let since = Some(self.waits_since.swap(0, Relaxed)).filter(|since| *since != 0).or(self.began_to_wait());
        let since = since.filter(|since| *since < woken)?;
        self.note(HELD_UP);
        self.held_up_by.lock().waited(since, owed);
        Some(since)
    }

    /// Its last entry was a poll after a wake at that time, as is known now. Returns how long it was ready; `None` if
    /// it is open elsewhere, too.
    pub(crate) fn was_woken(&self, woken: Ticks) -> Option<u64> {
        let start = self.busy_since.load(Relaxed);
        let since = woken.max(self.exited.load(Relaxed));
        let add = |sum: &AtomicU64, since: Ticks| {
            sum.store(sum.load(Relaxed) + start.saturating_sub(since), Relaxed);
        };
        if !self.is_open_once() {
            return None;
        }
        add(&self.ready, since);
        if self.idle_since.load(Relaxed) == start {
            add(&self.ready_alone, since.max(self.idle_before.load(Relaxed))); // the entry ended its idle time
        }
        Some(start.saturating_sub(since))
    }

    /// Whether exactly one of its instances is open.
    pub(crate) fn is_open_once(&self) -> bool {
        (self.state.load(Relaxed) & ALL_OPEN) + u64::from(self.open_here.load(Relaxed)) == 1
    }

    /// How often it was entered.
    pub(crate) fn entries(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    /// Its last exit.
    pub(crate) fn exited(&self) -> Ticks {
        self.exited.load(Relaxed)
    }

    /// Only for a new call.
    pub(crate) fn set_codes(&self, codes: Codes) {
        self.codes.iter().zip(codes).for_each(|(word, code)| word.store(code, Relaxed));
        self.note_new(CODES);
    }

    pub(crate) fn codes(&self) -> Codes {
        let codes = || self.codes.each_ref().map(|code| code.load(Relaxed));
        if self.has.load(Relaxed) & CODES != 0 { codes() } else { Codes::default() }
    }

    pub(crate) fn created(&self) -> Ticks {
        self.created.load(Relaxed)
    }

    /// It is entered, but was not woken: its wait goes on.
    pub(crate) fn waits_on(&self) {
        if let (0, Some(since)) = (self.waits_since.load(Relaxed), self.began_to_wait()) {
            self.waits_since.store(since, Relaxed);
            self.note(WAITED);
        }
    }

    /// Its last exit, unless it is open or new.
    fn began_to_wait(&self) -> Option<Ticks> {
        let is_waiting = !self.is_open(self.state.load(Relaxed)) && !self.is_new();
        is_waiting.then(|| self.exited.load(Relaxed))
    }

    /// A wait in this task has ended like this. Returns the end of the longest so far.
    pub(crate) fn went_on(&self, waited: u64, at: Option<Mark>) -> Option<Mark> {
        if waited >= self.waited_most.load(Relaxed) {
            self.waited_most.store(waited, Relaxed);
            self.went_on.store(Mark::bits(at), Relaxed);
        }
        Mark::of(self.went_on.load(Relaxed))
    }

    /// What held it up so far; `None` where nothing is known to have done so.
    pub(crate) fn held_up_by(&self) -> Option<Owed> {
        (self.has.load(Relaxed) & HELD_UP != 0).then(|| *self.held_up_by.lock())
    }

    /// Whether its span has closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Acquire) & CLOSED != 0
    }

    /// Its number among the linked spans; 0 for none.
    #[inline]
    pub(crate) fn linked(&self) -> LinkedId {
        self.linked.load(Relaxed)
    }

    pub(crate) fn set_linked(&self, linked: LinkedId) {
        self.linked.store(linked, Relaxed);
    }

    /// [`linked`](Self::linked), for the last time, and its first entry and last exit.
    pub(crate) fn take_linked(&self) -> (LinkedId, [Ticks; 2]) {
        (self.linked.swap(0, Relaxed), [&self.began, &self.exited].map(|at| at.load(Relaxed)))
    }

    /// Its place by creation.
    pub(crate) fn home(&self) -> (u32, Place) {
        (self.thread.load(Relaxed), Place::from_bits(self.place.load(Relaxed)))
    }

    /// Whether, as far as is known, it is a future that another thread may enter elsewhere, and is entered there now.
    pub(crate) fn is_visiting(&self) -> bool {
        self.inside.load(Relaxed) != 0 && self.is_visitor()
    }

    fn is_visitor(&self) -> bool {
        self.begins_at_home.load(Relaxed) && !self.used_again.load(Relaxed)
    }

    /// Whether it was created after the first entry of `outer`, or visits it: each use of `outer` is then one range for
    /// it, and not each poll. Returns the start of that range.
    pub(crate) fn range_in(&self, outer: &Self) -> Option<Ticks> {
        let began = outer.began.load(Relaxed);
        let is_inside = began <= self.created.load(Relaxed) || self.is_visitor();
        is_inside.then(|| Some(outer.inside.load(Relaxed)).filter(|range| *range != 0).unwrap_or(began))
    }

    /// To be called before an entry elsewhere than at the creation, in a range with this start. Returns the number of
    /// additional uses: one if this is the first entry in that range and no visit, two if it shows that the previous
    /// entry was no visit either. Also returns whether this is its first entry of all.
    pub(crate) fn enter_elsewhere(&self, node: u32, range: Ticks) -> (i64, bool) {
        let before = self.inside.swap(range, Relaxed);
        let is_again = ![0, range].contains(&before);
        let is_visitor = self.is_visitor();
        if is_visitor && !is_again {
            return (0, false);
        }
        self.node.store(node, Relaxed);
        if is_again {
            self.used_again.store(true, Relaxed);
        }
        (i64::from(before != range) + i64::from(is_visitor), self.entries.load(Relaxed) == 0)
    }

    /// To be called before an entry at the place of creation, perhaps in a range with this start. Returns whether this
    /// is a use of its own: the first in that range after others elsewhere. Without a range, each entry of a kept span
    /// is one.
    pub(crate) fn enter_at_home(&self, range: Option<impl FnOnce() -> Ticks>) -> bool {
        if self.entries.load(Relaxed) == 0 {
            self.begins_at_home.store(true, Relaxed);
            return false;
        }
        let (before, is_alone) = (self.inside.load(Relaxed), range.is_none() && self.is_alone.load(Relaxed));
        let is_use = if before == 0 {
            is_alone && self.used_again.load(Relaxed)
        } else if self.is_visitor() {
            self.inside.store(0, Relaxed);
            false
        } else {
            let range = range.map_or(0, |range| range());
            self.inside.store(range, Relaxed);
            range != before
        };
        if is_alone && !is_use {
            self.uncounted.store(self.uncounted.load(Relaxed) + 1, Relaxed);
        }
        is_use
    }

    /// [`enter_at_home`](Self::enter_at_home) of a call that was entered nowhere else: the entry is no use of its own.
    /// Returns false, and changes nothing, if that is not known. `is_outermost`: no range is open.
    #[inline]
    pub(crate) fn stays_at_home(&self, is_outermost: bool) -> bool {
        if self.is_new() {
            self.begins_at_home.store(true, Relaxed);
            return true;
        }
        self.inside.load(Relaxed) == 0 && !(is_outermost && self.is_alone.load(Relaxed))
    }

    /// Whether it was entered again while none of its instances was open, as futures are.
    pub(crate) fn has_paused(&self) -> bool {
        self.has_paused.load(Relaxed)
    }

    /// Whether it was never entered.
    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        self.entries.load(Relaxed) == 0
    }

    /// Its result, if its span closes now.
    #[inline(always)] // as where it had one caller
    pub(crate) fn end(&self, now: Ticks) -> EndedCall {
        let (created, exited) = (self.created.load(Relaxed), self.exited.load(Relaxed));
        let closed = now.max(exited);
        let entries = self.entries.load(Relaxed);
        let last = self.last_entry();
        let is_unsure = matches!(last, LastEntry::Late | LastEntry::PerhapsSuspended);
        let is_cancelled = entries == 1 || last == LastEntry::Suspended;
        let was_dropped = last == LastEntry::Dropped || self.is_after_drop.load(Relaxed);
        let is_dropped = was_dropped && !is_cancelled;
        // A finished future awaits nothing until its drop. In other cases its last poll was the last entry.
        let pause = if is_dropped { self.pause.load(Relaxed) } else { 0 };
        let latency = closed.saturating_sub(created);
        EndedCall {
            created,
            latency,
            busy: self.busy.load(Relaxed),
            idle: self.idle.load(Relaxed).saturating_sub(pause),
            cpu: OnCpu { on: self.on_cpu.load(Relaxed), off: self.off_cpu.load(Relaxed) },
            ready: if entries == 0 { latency } else { self.ready.load(Relaxed) },
            ready_alone: self.ready_alone.load(Relaxed),
            outlived: if entries == 0 { 0 } else { pause + (closed - exited) },
            entries,
            has_paused: self.has_paused.load(Relaxed),
            is_outlived: self.outlived.load(Relaxed) && !self.used_again.load(Relaxed),
            is_cancelled,
            is_unsure,
            is_dropped,
            has_finished: was_dropped && !self.used_again.load(Relaxed),
            uncounted: if self.is_alone.load(Relaxed) { self.uncounted.load(Relaxed) } else { 0 },
            thread: self.thread.load(Relaxed),
            place: Place::from_bits(self.place.load(Relaxed)),
            node: self.node.load(Relaxed),
            closed,
            numbers: self.numbers(),
        }
    }
}
