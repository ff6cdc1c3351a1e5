//! Exits of any range, with all parts, and their effects on the ranges above: the path `general`.

use std::sync::atomic::Ordering::Relaxed;

use crate::clock::Ticks;
use crate::core::record::{CallId, Ended, OnCpu, Place};
use crate::core::session::NvtxRange;
use crate::core::thread::stack::Ranges;
use crate::core::thread::state::{FindValues, ThreadState};
use crate::parts::cpu_time::thread::Clocks;
use crate::parts::values::span::fields::Fields;

/// Exits.
impl ThreadState {
    /// Counts an instance that [`exit_counting`](Self::exit_counting) could not.
    #[inline(never)]
    pub(crate) fn add_uncounted(&self, place: Place, entered: Ticks, duration: u64, nested: u64) {
        let row = self.rows.get_inline(place.row()).filter(|_| place.is_called());
        if row.is_some_and(|row| row.add_near(duration, nested, self.thresholds.long)) {
            let below = self.stack.depth();
            let call = self.stack.call_of(below);
            self.exit_call(call, entered.saturating_add(duration), OnCpu::default(), below);
            return self.note_end(Ended { place, entered, duration, nested }, call, below, 0);
        }
        self.end(Ended { place, entered, duration, nested });
    }

    /// Path `general`: closes the range of `span` if it is the innermost one. Returns false if it is not.
    pub(crate) fn exit_general(&self, span: u64) -> bool {
        if !self.stack.is_top(span) {
            return false;
        }
        let has_tool = self.has_tool();
        let now = if has_tool { self.pop_tool() } else { self.now() };
        if let Some(ended) = self.stack.pop(now) {
            let end = match has_tool {
                true => {
                    self.add(ended); // the tool has seen its end
                    now
                }
                false => self.end(ended),
            };
            self.record_ended(ended, end, self.stack.depth());
            self.parts.launches.end_gone(&self.around(), end);
        }
        self.end_pair();
        true
    }

    /// Exits a span that is not the innermost open range. Returns false if it is not open on this thread at all.
    #[inline(never)]
    pub(crate) fn exit_below(&self, span: u64, values: FindValues<'_>) -> bool {
        let is_exited = |open, _| open == span;
        self.leave_below(is_exited, values)
    }

    /// Exits the uppermost range for whose span and place `is_exited` returns true.
    pub(crate) fn leave_below(&self, is_exited: impl Fn(u64, Place) -> bool, values: FindValues<'_>) -> bool {
        self.parts.launches.end_left(&self.around());
        self.read_before_ends();
        let told = std::mem::take(&mut *self.told.lock());
        let depth = self.stack.depth();
        let mut shell = Shell { thread: self, values: Some(values), end: None };
        match self.stack.exit_below(is_exited, &told, &mut shell) {
            Some(left) => {
                self.session.losses.split_instances.fetch_add(left.reopened, Relaxed);
                self.parts.numbers.iter().for_each(|numbers| numbers.follow(depth, &left));
                self.count_misnested(&left.exited_and_above);
                self.parts.launches.begin_again(&self.around(), &left);
                if self.parts.pairs.any() {
                    self.parts.pairs.end_below(&left, &self.session.parts.streams);
                    self.left_pair();
                }
                true
            }
            None => {
                self.told.lock().extend(told); // they do not concern this exit
                false
            }
        }
    }

    /// Ends every range that is open on this thread. Returns their places, innermost first.
    pub(crate) fn unwind(&self) -> Vec<Place> {
        self.unwind_at(None)
    }

    /// The same, at this time.
    pub(crate) fn unwind_at(&self, end: Option<Ticks>) -> Vec<Place> {
        self.told.lock().clear();
        self.forget_untracked();
        self.read_before_ends();
        let places = self.stack.unwind(&mut Shell { thread: self, values: None, end });
        self.parts.launches.end_gone(&self.around(), end.unwrap_or_else(|| self.now()));
        self.parts.pairs.end_all(&self.session.parts.streams);
        places
    }

    #[inline(never)]
    fn pop_tool(&self) -> Ticks {
        let top = self.stack.top().and_then(|top| Some((top.start(), self.nvtx_range(top.place())?)));
        let Some((start, range)) = top else { return self.now() };
        // Computed beforehand, because almost nothing may stand between the clock and the tool.
        let short_until = start.saturating_add(self.thresholds.long);
        self.gate.while_closed(|| {
            range.domain.pop_timed(|| match self.now_in_order() {
                now if now < short_until => now,
                now => self.read_before_pop(now),
            })
        })
    }

    /// Pops a tool's range, if there is one. Returns the time.
    pub(crate) fn pop_range(&self, range: Option<NvtxRange>) -> Ticks {
        range.map_or_else(|| self.now(), |range| range.domain.pop_timed(|| self.now_in_order()))
    }

    /// Ends and counts the instance that has just left the top of the stack. Returns when it ended.
    pub(crate) fn end(&self, ended: Ended) -> Ticks {
        self.end_by(ended, &self.session.clock)
    }

    /// The same by these clocks. If the processor time is read, the instance ends after the reading, which may take
    /// long.
    pub(crate) fn end_by(&self, mut ended: Ended, clocks: &impl Clocks) -> Ticks {
        if self.reads_at_end(&ended, self.stack.depth(), clocks) {
            let reading = clocks.now().saturating_sub(ended.end());
            ended.duration += reading;
            self.stack.top().into_iter().for_each(|below| below.add_nested(reading));
        }
        self.add(ended);
        ended.end()
    }

    /// Counts what else is known of an instance that was counted in its row, with `below` ranges below it.
    #[inline]
    pub(crate) fn add_to_parts(&self, ended: &Ended, call: CallId, below: usize) {
        let is_long = ended.duration >= self.thresholds.long;
        if is_long || call != 0 {
            self.add_long_or_called(ended, call, below, is_long);
        } else if self.looks_again() {
            self.look_again(ended.end());
        }
    }

    /// Counts what is known of a long range, or of a range of a call, besides its time.
    #[inline(never)]
    fn add_long_or_called(&self, ended: &Ended, call: CallId, below: usize, is_long: bool) {
        let (cpu, end) = (self.on_cpu(ended, below), ended.end());
        self.exit_call(call, end, cpu, below);
        if ended.duration >= self.thresholds.long_wait / 2 && below == 0 {
            self.parts.waits.end_long(ended);
        }
        self.note_end(*ended, call, below, cpu.off);
        if call == 0 && self.looks_again() {
            self.look_again(end);
        }
        if cpu.off >= self.thresholds.long_wait && ended.is_mainly_off(cpu) {
            self.infer_ended(ended, cpu.off, below, call);
        }
        if call != 0 && (is_long || self.has_tool()) {
            self.parts.waits.done.store(self.now(), Relaxed);
        }
    }
}

/// What a thread does when its stack closes and reopens ranges.
pub(crate) struct Shell<'a> {
    pub(crate) thread: &'a ThreadState,
    pub(crate) values: Option<FindValues<'a>>,
    /// The end of closed ranges, if it lies in the past.
    pub(crate) end: Option<Ticks>,
}

impl Ranges for Shell<'_> {
    fn close(&mut self, place: Place, _span: u64) -> Ticks {
        let range = self.thread.nvtx_range(place);
        let range = range.filter(|_| self.thread.has_tool());
        let now = self.thread.gate.while_closed(|| self.thread.pop_range(range));
        self.end.unwrap_or(now)
    }

    fn reopen(&mut self, place: Place, span: u64) -> Ticks {
        if let Some(metadata) = self.thread.identity(place).and_then(|identity| identity.metadata) {
            self.thread.session.losses.misnested.count(metadata, |site| site.reopened += 1);
        }
        let range = self.thread.nvtx_range(place);
        let own = self.values.filter(|_| place.has_own_values()).and_then(|values| values(span));
        let range = range.filter(|_| self.thread.has_tool());
        let attributes =
            range.map(|range| own.as_ref().map_or(range.attributes, |own| own.now().apply(range.attributes)));
        let start = self.thread.gate.while_closed(|| match (range, attributes) {
            (Some(range), Some(attributes)) => range.domain.push_timed(&attributes, || self.thread.now_in_order()),
            _ => self.thread.now(),
        });
        if let Some(own) = own {
            self.thread.record_values(start, &own.now(), &Fields::default());
        }
        start
    }

    fn ended(&mut self, ended: Ended, call: CallId, end: Ticks, depth: usize) {
        self.thread.add_of_call(ended, call, depth);
        self.thread.record_ended(ended, end, depth);
        self.thread.parts.launches.end_at(&self.thread.around(), depth, end);
    }

    fn domain(&self, place: Place) -> u32 {
        // A stand-in for a range is in no domain: no tool has it, and nobody exits it.
        self.thread.identity(place).map_or(u32::MAX, |identity| identity.domain)
    }
}
