//! The calls that every domain has: ranges and marks.

use super::attributes::Attributes;
use super::calls;
use super::domain::Domain;
use crate::abi;
use crate::abi::program::{SLOTS, is_ready, is_set};
use crate::abi::slots::Slot;

/// One range that was started and not ended, the result of [`Domain::start`].
///
/// ```
/// use nvtx_rs::{Attributes, Domain};
/// let request = Domain::DEFAULT.start(&Attributes::new().message("request"));
/// std::thread::spawn(move || Domain::DEFAULT.end(request)).join().unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RangeId(u64);

impl Domain {
    /// Opens a range on this thread. Ranges of one thread and domain nest: [`pop`](Self::pop) closes the latest.
    ///
    /// This is the bare call, for code that keeps its own stack. [`PushRange`](crate::PushRange) and
    /// [`range!`](crate::range!) close the range automatically. It returns nothing, because the interface's depth is
    /// unreliable: Nsight Systems always returns -1.
    #[inline]
    pub fn push(self, attributes: &Attributes<'_>) {
        let slot = &SLOTS.core2[abi::core2::RANGE_PUSH_EX];
        if is_set(slot) {
            let attributes = *attributes;
            attached(slot, move || attributes.encode(|event| calls::push(self.handle(), event, || ())));
        }
    }

    /// Closes the range that this thread opened last in this domain. If there is none, tools ignore the call.
    #[inline]
    pub fn pop(self) {
        let slot = &SLOTS.core2[abi::core2::RANGE_POP];
        if is_set(slot) {
            attached(slot, move || calls::pop(self.handle(), || ()));
        }
    }

    /// [`push`](Self::push) for a caller with its own clock: reads the clock last before the tool is called, and
    /// returns its reading. Reads the clock without a tool, too.
    ///
    /// NVTX calls inside `clock` come before the range; if `clock` panics, there is no range.
    ///
    /// The caller and the tool measure the same duration only if no work lies between their two readings, above all no
    /// work that takes longer at the begin of a range than at its end.
    ///
    #[cfg_attr(feature = "tool", doc = "```")]
    #[cfg_attr(not(feature = "tool"), doc = "```ignore")]
    /// use nvtx_rs::tool::{Call, attach};
    /// use nvtx_rs::{Attributes, Domain};
    /// use std::sync::mpsc;
    ///
    /// let (order, happened) = mpsc::channel();
    /// let tool = order.clone();
    /// attach(Box::new(move |call: &Call<'_>| {
    ///     let _ = match call {
    ///         Call::Push { .. } => tool.send("the tool's push"),
    ///         Call::Pop { .. } => tool.send("the tool's pop"),
    ///         _ => Ok(()),
    ///     };
    /// }))?;
    /// let clock = |now: u64| {
    ///     let _ = order.send("our clock");
    ///     now
    /// };
    /// let started = Domain::DEFAULT.push_timed(&Attributes::new().message("load"), || clock(2));
    /// let ended = Domain::DEFAULT.pop_timed(|| clock(5));
    /// assert_eq!(ended - started, 3);
    /// let happened: Vec<_> = happened.try_iter().collect();
    /// assert_eq!(happened, ["our clock", "the tool's push", "our clock", "the tool's pop"]);
    /// # Ok::<(), nvtx_rs::AttachError>(())
    /// ```
    pub fn push_timed<T>(self, attributes: &Attributes<'_>, clock: impl FnOnce() -> T) -> T {
        if is_ready(&SLOTS.core2[abi::core2::RANGE_PUSH_EX]) {
            attributes.encode(|event| calls::push(self.handle(), event, clock))
        } else {
            clock()
        }
    }

    /// [`pop`](Self::pop) for a caller with a clock of its own, as [`push_timed`](Self::push_timed) is.
    ///
    /// ```
    /// use nvtx_rs::{Attributes, Domain};
    /// use std::time::Instant;
    /// Domain::DEFAULT.push(&Attributes::new().message("load"));
    /// let ended = Domain::DEFAULT.pop_timed(Instant::now);
    /// assert!(ended <= Instant::now());
    /// ```
    pub fn pop_timed<T>(self, clock: impl FnOnce() -> T) -> T {
        if is_ready(&SLOTS.core2[abi::core2::RANGE_POP]) { calls::pop(self.handle(), clock) } else { clock() }
    }

    /// Marks a moment.
    #[inline]
    pub fn mark(self, attributes: &Attributes<'_>) {
        let slot = &SLOTS.core2[abi::core2::MARK_EX];
        if is_set(slot) {
            let attributes = *attributes;
            attached(slot, move || attributes.encode(|event| calls::mark(self.handle(), event)));
        }
    }

    /// Starts a range that may end on any thread and overlap others in any way.
    ///
    /// This is the bare call; [`StartRange`](crate::StartRange) ends the range on its own.
    #[inline]
    #[must_use]
    pub fn start(self, attributes: &Attributes<'_>) -> RangeId {
        let slot = &SLOTS.core2[abi::core2::RANGE_START_EX];
        if !is_set(slot) {
            return RangeId(0);
        }
        let attributes = *attributes;
        RangeId(attached(slot, move || attributes.encode(|event| calls::start(self.handle(), event))))
    }

    /// Ends a range that [`start`](Self::start) started. One that was started without a tool is ignored.
    #[inline]
    pub fn end(self, range: RangeId) {
        if range.0 != 0 {
            attached(&SLOTS.core2[abi::core2::RANGE_END], move || calls::end(self.handle(), range.0));
        }
    }
}

/// Makes a call while a tool is attached. The call has its description by value, so that a description that is made for
/// the call is put together only then.
#[cold]
#[inline(never)]
fn attached<T: Default>(slot: &Slot, call: impl FnOnce() -> T) -> T {
    if is_ready(slot) { call() } else { T::default() }
}
