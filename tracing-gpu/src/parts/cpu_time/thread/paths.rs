//! Readings of a thread's processor time, for long ranges.

use crate::clock::{Ticks, read_counter};
use crate::core::record::{Ended, OnCpu};
use crate::core::thread::state::ThreadState;
use crate::parts::cpu_time::thread::Clocks;

impl ThreadState {
    /// The start of a range on a fast path. Reads the thread's processor time, if that is paid for.
    #[inline(always)]
    pub(crate) fn start_fast(&self) -> Ticks {
        let now = read_counter();
        if self.flags.credits.any() { self.start_read(now) } else { now }
    }

    /// The same on any path.
    #[inline(always)]
    pub(crate) fn start(&self) -> Ticks {
        let now = self.now();
        if self.flags.credits.any() { self.start_read(now) } else { now }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn start_read(&self, now: Ticks) -> Ticks {
        let is_read = self.parts.cpu_time.read_at_start(now, &self.stack, &self.flags.credits, &self.session.clock);
        if is_read { self.session.clock.now() } else { now }
    }

    /// Reads the processor time before the innermost range ends, if it asks for that: a tool sees the same end.
    #[cold]
    #[inline(never)]
    pub(crate) fn read_before_pop(&self, now: Ticks) -> Ticks {
        let Some(top) = self.stack.top() else { return now };
        let ended = Ended::at(now, top.place(), top.start());
        let is_read = self.reads_at_end(&ended, self.stack.depth() - 1, &self.session.clock);
        if is_read { self.now_in_order() } else { now }
    }

    /// Reads the processor time before several ranges end, if one of them asks for it.
    pub(crate) fn read_before_ends(&self) {
        let (now, depth) = (self.now(), self.stack.depth());
        let open = (0..depth).filter_map(|range| self.stack.at(range));
        let mut open = open.map(|(place, start)| Ended::at(now, place, start));
        if let Some(longest) = open.find(|open| self.has_cpu_time(open)) {
            self.parts.cpu_time.read_at_end(longest.entered, now, &self.stack, depth, &self.session.clock);
        }
    }

    /// Reads the processor time for an instance that ends, with `below` ranges below it, if it asks for that.
    #[inline(never)]
    pub(crate) fn reads_at_end(&self, ended: &Ended, below: usize, clocks: &impl Clocks) -> bool {
        self.has_cpu_time(ended)
            && self.parts.cpu_time.read_at_end(ended.entered, ended.end(), &self.stack, below, clocks)
    }

    /// Whether a range has a processor time. While ranges are timed on a stream there is none: the reading would count
    /// as time on the stream.
    fn has_cpu_time(&self, ended: &Ended) -> bool {
        let is_span = |place| self.identity(place).is_some_and(|identity| identity.metadata.is_some());
        ended.duration >= self.thresholds.long
            && self.session.parts.on_cpu
            && !self.parts.pairs.any()
            && (self.session.parts.on_cpu_of_others || is_span(ended.place))
    }

    /// The processor time of a range that has just ended, with `below` ranges below it. Counts it in its row.
    pub(crate) fn on_cpu(&self, ended: &Ended, below: usize) -> OnCpu {
        if !self.has_cpu_time(ended) {
            return OnCpu::default();
        }
        let cpu = self.parts.cpu_time.of(ended, below, &self.flags.credits);
        self.rows.get(ended.place.row()).into_iter().for_each(|row| row.add_cpu(cpu));
        if self.flags.is_taped && cpu != OnCpu::default() {
            self.parts.tape.record_on_cpu(self.thread_id(), ended.entered, cpu);
        }
        cpu
    }
}
