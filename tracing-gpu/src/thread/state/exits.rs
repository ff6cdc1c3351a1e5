//! Exits: the paths by which a range ends, and their effects on the ranges above.

use std::sync::atomic::Ordering::Relaxed;

use super::{CountingExit, FindValues, TOLD, ThreadState};
use tracing_core::Metadata;

use crate::clock::{Ticks, read_counter};
use crate::record::{CallId, Ended, OnCpu, Place, RangeKey};
use crate::session::NvtxRange;
use crate::session::batches::Served;
use crate::session::calls::EndedCall;
use crate::session::owed::Owed;
use crate::span::codes::Codes;
use crate::span::fields::Fields;
use crate::span::site::site_key;
use crate::stream;
use crate::thread::call_row::{CallRow, CallSums, ServedSums};
use crate::thread::cpu_time::Clocks;
use crate::thread::stack::Ranges;
use crate::thread::tape::{CallRecord, RangeRecord};

/// Exits.
impl ThreadState {
    /// Path `counting`.
    #[inline(always)]
    pub(crate) fn exit_counting(&self, span: u64) -> CountingExit {
        if !self.lacks_tool() {
            return CountingExit::Not;
        }
        if self.stack.is_top_noted() {
            return CountingExit::Noted;
        }
        let Some(ended) = self.stack.pop_near(span, read_counter()) else { return CountingExit::Not };
        match self.rows.get_inline(ended.place.row_without_call()) {
            Some(row) if row.add_near(ended.duration, ended.nested, self.thresholds.long) => CountingExit::Done,
            _ => CountingExit::Uncounted(ended),
        }
    }

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

    /// Counts and records an instance that [`exit_recording`](Self::exit_recording) could not.
    #[inline(never)]
    fn add_unrecorded(&self, ended: Ended) {
        let (now, depth) = (ended.end(), self.stack.depth());
        let row = self.rows.get_inline(ended.place.row()).filter(|_| ended.place.is_called());
        let Some((row, identity)) = row.and_then(|row| Some((row, row.identity()?))) else {
            let end = self.end(ended);
            return self.record_ended(ended, end, depth);
        };
        let end = if row.add_near(ended.duration, ended.nested, self.thresholds.long) {
            let call = self.stack.call_of(depth);
            self.exit_call(call, now, OnCpu::default(), depth);
            self.note_end(ended, call, depth, 0);
            now
        } else {
            self.end(ended)
        };
        self.record_range(identity.key, ended.entered, end, depth, false);
    }

    /// Path `counting`, for a range with CUDA calls. Returns false, and changes nothing, if it does not apply. Only
    /// after [`exit_counting`](Self::exit_counting) has asked for it.
    #[inline(always)]
    pub(crate) fn exit_noted(&self, span: u64) -> bool {
        let now = read_counter();
        // This path calls no function, so that no registers are saved.
        let Some((below, top)) = self.stack.top_near(span) else { return false };
        let Some(row) = self.rows.near(top.place().row_without_call()).filter(|_| {
            now.saturating_sub(top.start()) < self.thresholds.long && self.launches.end_near(&self.stack, below, now)
        }) else {
            return self.exit_noted_far(span, now);
        };
        let ended = self.stack.pop_top(below, top, now);
        row.add_near(ended.duration, ended.nested, self.thresholds.long) || self.count(ended)
    }

    #[cold]
    #[inline(never)]
    fn exit_noted_far(&self, span: u64, now: Ticks) -> bool {
        let Some(ended) = self.stack.pop_near(span, now) else { return false };
        let end = self.end(ended);
        self.launches.end_gone(&self.around(), end);
        true
    }

    #[cold]
    #[inline(never)]
    fn count(&self, ended: Ended) -> bool {
        self.add(ended);
        true
    }

    /// Path `recording`. Returns false, and changes nothing, if it does not apply.
    #[inline(always)]
    pub(crate) fn exit_recording(&self, span: u64) -> bool {
        if !self.lacks_tool() || self.stack.is_top_noted() {
            return false;
        }
        if !self.statistics {
            return self.stack.pop_near(span, 0).is_some();
        }
        let now = read_counter();
        let Some(ended) = self.stack.pop_near(span, now) else { return false };
        match self.rows.get_inline(ended.place.row_without_call()) {
            Some(row) => {
                let is_near = row.add_near(ended.duration, ended.nested, self.thresholds.long);
                let end = if is_near { now } else { self.end(ended) };
                if let Some(identity) = row.identity() {
                    self.record_range(identity.key, ended.entered, end, self.stack.depth(), false);
                }
            }
            None => self.add_unrecorded(ended),
        }
        true
    }

    /// Path `on_stream`. Returns false, and changes nothing, if it does not apply.
    #[inline(never)]
    pub(crate) fn exit_on_stream(&self, span: u64) -> bool {
        match self.exit_counting(span) {
            CountingExit::Done => {}
            CountingExit::Uncounted(ended) => {
                self.add_uncounted(ended.place, ended.entered, ended.duration, ended.nested)
            }
            CountingExit::Noted if self.exit_noted(span) => {}
            CountingExit::Noted | CountingExit::Not => return false,
        }
        self.end_pair();
        true
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
            self.launches.end_gone(&self.around(), end);
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
    pub(super) fn leave_below(&self, is_exited: impl Fn(u64, Place) -> bool, values: FindValues<'_>) -> bool {
        self.launches.end_left(&self.around());
        self.read_before_ends();
        let told = std::mem::take(&mut *self.told.lock());
        let depth = self.stack.depth();
        let mut shell = Shell { thread: self, values: Some(values), end: None };
        match self.stack.exit_below(is_exited, &told, &mut shell) {
            Some(left) => {
                self.session.losses.split_instances.fetch_add(left.reopened, Relaxed);
                self.numbers.iter().for_each(|numbers| numbers.follow(depth, &left));
                self.count_misnested(&left.exited_and_above);
                self.launches.begin_again(&self.around(), &left);
                if self.pairs.any() {
                    self.pairs.end_below(&left, &self.session.streams);
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
    pub(super) fn unwind_at(&self, end: Option<Ticks>) -> Vec<Place> {
        self.told.lock().clear();
        self.forget_untracked();
        self.read_before_ends();
        let places = self.stack.unwind(&mut Shell { thread: self, values: None, end });
        self.launches.end_gone(&self.around(), end.unwrap_or_else(|| self.now()));
        self.pairs.end_all(&self.session.streams);
        places
    }

    /// Counts a misnested exit for two call sites: of the exited range, and of the range above it, which is still open.
    /// The guard of either may be held too long; the report finds out which.
    fn count_misnested(&self, exited_and_above: &[Place]) {
        let sites = exited_and_above.iter().filter_map(|place| self.identity(*place)?.metadata);
        let mut counted = None;
        for metadata in sites {
            if counted != Some(site_key(metadata)) {
                self.session.losses.misnested.count(metadata, |site| site.exits += 1);
            }
            counted = Some(site_key(metadata));
        }
    }

    /// Tells this thread that a range open on it was exited elsewhere. The thread reads this at its next out-of-order
    /// exit.
    pub(crate) fn tell(&self, span: u64) {
        let mut told = self.told.lock();
        if told.len() < TOLD {
            told.push((span, self.now()));
        }
    }

    #[inline(never)]
    fn pop_tool(&self) -> Ticks {
        let top = self.stack.top().and_then(|top| Some((top.start(), self.nvtx_range(top.place())?)));
        let Some((start, range)) = top else { return self.now() };
        // Known beforehand, because almost nothing may stand between the clock and the tool.
        let short_until = start.saturating_add(self.thresholds.long);
        self.gate.while_closed(|| {
            range.domain.pop_timed(|| match self.now_in_order() {
                now if now < short_until => now,
                now => self.read_before_pop(now),
            })
        })
    }

    /// Reads the processor time before the innermost range ends, if it asks for that: a tool sees the same end.
    #[cold]
    #[inline(never)]
    fn read_before_pop(&self, now: Ticks) -> Ticks {
        let Some(top) = self.stack.top() else { return now };
        let ended = Ended::at(now, top.place(), top.start());
        let is_read = self.reads_at_end(&ended, self.stack.depth() - 1, &self.session.clock);
        if is_read { self.now_in_order() } else { now }
    }

    /// Reads the processor time before several ranges end, if one of them asks for it.
    pub(super) fn read_before_ends(&self) {
        let (now, depth) = (self.now(), self.stack.depth());
        let open = (0..depth).filter_map(|range| self.stack.at(range));
        let mut open = open.map(|(place, start)| Ended::at(now, place, start));
        if let Some(longest) = open.find(|open| self.has_cpu_time(open)) {
            self.cpu_time.read_at_end(longest.entered, now, &self.stack, depth, &self.session.clock);
        }
    }

    /// Pops a tool's range, if there is one. Returns the time.
    pub(super) fn pop_range(&self, range: Option<NvtxRange>) -> Ticks {
        range.map_or_else(|| self.now(), |range| range.domain.pop_timed(|| self.now_in_order()))
    }

    /// Records the end of the range that has just left the top of the stack, if it is timed.
    #[inline(always)]
    pub(super) fn end_pair(&self) {
        if self.pairs.end_top(self.stack.depth(), &self.session.streams) {
            self.left_pair();
        }
    }

    #[inline(always)]
    pub(super) fn left_pair(&self) {
        if !self.pairs.any() && stream::current() == 0 {
            (self.choose_paths)(); // the stream was left before the range
        }
    }

    /// Ends and counts the instance that has just left the top of the stack. Returns when it ended.
    pub(super) fn end(&self, ended: Ended) -> Ticks {
        self.end_by(ended, &self.session.clock)
    }

    /// The same by these clocks. If the processor time is read, the instance ends after the reading, which may take
    /// long.
    pub(super) fn end_by(&self, mut ended: Ended, clocks: &impl Clocks) -> Ticks {
        if self.reads_at_end(&ended, self.stack.depth(), clocks) {
            let reading = clocks.now().saturating_sub(ended.end());
            ended.duration += reading;
            self.stack.top().into_iter().for_each(|below| below.add_nested(reading));
        }
        self.add(ended);
        ended.end()
    }

    /// Reads the processor time for an instance that ends, with `below` ranges below it, if it asks for that.
    #[inline(never)]
    fn reads_at_end(&self, ended: &Ended, below: usize, clocks: &impl Clocks) -> bool {
        self.has_cpu_time(ended) && self.cpu_time.read_at_end(ended.entered, ended.end(), &self.stack, below, clocks)
    }

    /// Counts the instance that has just left the top of the stack.
    pub(crate) fn add(&self, ended: Ended) {
        let below = self.stack.depth();
        let call = if ended.place.is_called() { self.stack.call_of(below) } else { 0 };
        self.add_of_call(ended, call, below);
    }

    pub(super) fn add_of_call(&self, ended: Ended, call: CallId, below: usize) {
        if !self.statistics {
            return;
        }
        self.rows.add(ended, &self.session.budget);
        let is_long = ended.duration >= self.thresholds.long;
        if is_long || call != 0 {
            self.add_long_or_called(&ended, call, below, is_long);
        } else if self.looks_again() {
            self.look_again(ended.end());
        }
    }

    /// What a long range, and one of a call, tells besides its time.
    #[inline(never)]
    fn add_long_or_called(&self, ended: &Ended, call: CallId, below: usize, is_long: bool) {
        let (cpu, end) = (self.on_cpu(ended, below), ended.end());
        self.exit_call(call, end, cpu, below);
        if ended.duration >= self.thresholds.long_wait / 2 && below == 0 {
            let last = [ended.place.bits(), ended.entered, end];
            self.last_long.iter().zip(last).for_each(|(word, value)| word.store(value, Relaxed));
        }
        self.note_end(*ended, call, below, cpu.off);
        if call == 0 && self.looks_again() {
            self.look_again(end);
        }
        if cpu.off >= self.thresholds.long_wait && ended.is_mainly_off(cpu) {
            self.infer_ended(ended, cpu.off, below, call);
        }
        if call != 0 && (is_long || self.has_tool()) {
            self.done.store(self.now(), Relaxed);
        }
    }

    /// Ends an instance of a call (0 for none), with `below` ranges below it.
    #[inline(always)]
    fn exit_call(&self, call: CallId, now: Ticks, cpu: OnCpu, below: usize) {
        let around = || below.checked_sub(1).map_or(0, |around| self.stack.called_of(around));
        self.session.calls.exit_in(&self.spare_calls, self.index, call, now, cpu, around);
    }

    /// Notes that a range has just ended, with `below` ranges below it and so long off the CPU: what waits may have
    /// waited for it.
    #[inline]
    fn note_end(&self, ended: Ended, call: CallId, below: usize, off: u64) {
        if below == 0 && self.session.endings.are_asked_for() {
            self.note_asked_end(ended, call, off);
        }
    }

    #[inline(never)]
    fn note_asked_end(&self, ended: Ended, call: CallId, off: u64) {
        let Some(label) = self.identity(ended.place).map(|identity| identity.key.label) else { return };
        let unit = self.session.endings.unit;
        let endings = &self.session.endings;
        let endings = if call == 0 { endings.make(self.index) } else { endings.of(self.index) };
        let Some(endings) = endings else { return };
        let call = self.session.calls.get(call);
        let (begun, codes) = call.map_or((ended.entered, Codes::default()), |call| (call.created(), call.codes()));
        let end = ended.end();
        let is_long = self.last_long[2].load(Relaxed) == end;
        let ran_since = if is_long { 0 } else { self.ran_since_long.load(Relaxed) + ended.duration };
        self.ran_since_long.store(ran_since, Relaxed);
        let mark = |at| unit.mark(label, at);
        let off_since = if off == 0 { None } else { mark(end.saturating_sub(off)) };
        endings.end(mark(end), [mark(begun), mark(ended.entered), off_since], codes);
    }

    /// Whether a range has a processor time. While ranges are timed on a stream there is none: the reading would count
    /// as time on the stream.
    fn has_cpu_time(&self, ended: &Ended) -> bool {
        let is_span = |place| self.identity(place).is_some_and(|identity| identity.metadata.is_some());
        ended.duration >= self.thresholds.long
            && self.session.on_cpu
            && !self.pairs.any()
            && (self.session.on_cpu_of_others || is_span(ended.place))
    }

    /// The processor time of a range that has just ended, with `below` ranges below it. Counts it in its row.
    fn on_cpu(&self, ended: &Ended, below: usize) -> OnCpu {
        if !self.has_cpu_time(ended) {
            return OnCpu::default();
        }
        let cpu = self.cpu_time.of(ended, below, &self.credits);
        self.rows.get(ended.place.row()).into_iter().for_each(|row| row.add_cpu(cpu));
        if self.is_taped && cpu != OnCpu::default() {
            self.tape.record_on_cpu(self.thread_id(), ended.entered, cpu);
        }
        cpu
    }

    /// Counts an ended call, whose span was created on this thread or another.
    pub(crate) fn add_call_ended(&self, home: &Self, call: CallId, ended: &EndedCall) {
        let Some((label, metadata)) =
            home.identity(ended.place).map(|identity| (identity.key.label, identity.metadata))
        else {
            return;
        };
        // A future pauses, and closes right after an exit, because it is entered for its drop. A worker that holds its
        // span longer has left it by then, too.
        let has_just_left = ended.has_paused && self.stack.just_left(call).is_some_and(|start| start >= ended.created);
        let is_kept = !ended.is_outlived && !has_just_left && !ended.has_finished;
        let sums = CallSums {
            busy: ended.busy,
            idle: ended.idle,
            outlived: ended.outlived,
            on_cpu: ended.cpu.on,
            off_cpu: ended.cpu.off,
            ready: ended.ready,
            ready_alone: ended.ready_alone,
            cancelled: ended.is_cancelled.into(),
            unsure: ended.is_unsure.into(),
            dropped: ended.is_dropped.into(),
            kept: is_kept.into(),
            uncounted: 0,
        };
        let row = |node| self.call_row(node, label, metadata);
        row(ended.node).into_iter().for_each(|row| row.add(ended.latency, &sums, &self.session.budget));
        if is_kept && ended.uncounted > 0 {
            let sums = CallSums { uncounted: ended.uncounted, ..CallSums::default() };
            row(ended.place.node()).into_iter().for_each(|row| row.add_sums(&sums));
        }
    }

    /// Counts how much shorter an ended call had been without those who held it up.
    #[cold]
    #[inline(never)]
    pub(crate) fn add_held_up(&self, label: Option<u32>, times: [u64; 2], held_up_by: &Owed) {
        let followed = self.followed.get_or_init(Box::default);
        label.into_iter().for_each(|label| followed.shorter.add(label, times, held_up_by));
    }

    /// Counts what batches were for a closed call, whose span was created on this thread or another.
    pub(crate) fn add_served(&self, home: &Self, served: &Served) {
        let Some(identity) = home.identity(served.place) else { return };
        let Served { node, batches, in_batch, share, .. } = *served;
        // Not by `call_row`: with a second caller that is a function, 23 instructions at the end of each call.
        let row = self.known.lock().call_row(&self.lookup(), (node, identity.key.label), identity.metadata);
        let row = row.and_then(|row| self.call_rows.get(row as usize));
        row.into_iter().for_each(|row| row.add_served(ServedSums { batches, in_batch, share }));
    }

    /// The row of the calls of a node and label; `None` if there is no room.
    #[inline]
    fn call_row(
        &self,
        node: u32,
        label: u32,
        metadata: Option<&'static Metadata<'static>>,
    ) -> Option<&'static CallRow> {
        // The cache of children also serves here. Its key has the label in place of the call site; no call site has
        // such a number.
        let key = u64::from(label) | 1 << 63 | 1 << 61;
        let row = self.children.get(node, key).map(Place::row).or_else(|| {
            let row = self.known.lock().call_row(&self.lookup(), (node, label), metadata)?;
            self.children.insert(node, key, Place::new(node, row));
            Some(row as usize)
        });
        self.call_rows.get(row?)
    }

    /// Records an ended call, if a timeline is written and the call is more than its one instance.
    pub(crate) fn record_call(&self, home: &Self, ended: &EndedCall) {
        let Some(label) = home.identity(ended.place).map(|identity| identity.key.label) else { return };
        let Some(numbers) = ended.numbers.filter(|_| ended.entries > 1 && self.is_taped) else { return };
        let (start, end, is_cancelled) = (ended.created, ended.closed, ended.is_cancelled);
        self.tape.record_call(self.thread_id(), &CallRecord { label, start, end, is_cancelled, numbers });
    }

    /// Updates the kind of the row of a span that was followed by a call. On any thread.
    pub(crate) fn judge(&self, ended: &EndedCall) -> bool {
        let Some(row) = self.rows.get(ended.place.row()) else { return false };
        row.judge(ended.entries);
        row.is_reentered()
    }

    /// Records an ended range of this thread, if a timeline is written.
    #[inline]
    pub(super) fn record_ended(&self, ended: Ended, end: Ticks, depth: usize) {
        if !self.tape.is_open() {
            return;
        }
        if let Some(identity) = self.identity(ended.place) {
            self.record_range(identity.key, ended.entered, end, depth, !self.session.is_running());
        }
    }

    #[inline(always)]
    fn record_range(&self, key: RangeKey, start: Ticks, end: Ticks, depth: usize, cut: bool) {
        let numbers = self.numbers_of(depth);
        let range = RangeRecord { key, start, end, depth: depth as u32, began_on: None, cut, numbers };
        self.tape.record_range(self.thread_id(), &range);
    }
}

/// The stack's actions outside of itself when it closes and reopens ranges.
pub(super) struct Shell<'a> {
    pub(super) thread: &'a ThreadState,
    pub(super) values: Option<FindValues<'a>>,
    /// The end of closed ranges, if it lies in the past.
    pub(super) end: Option<Ticks>,
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
        self.thread.launches.end_at(&self.thread.around(), depth, end);
    }

    fn domain(&self, place: Place) -> u32 {
        // A stand-in for a range is in no domain: no tool has it, and nobody exits it.
        self.thread.identity(place).map_or(u32::MAX, |identity| identity.domain)
    }
}
