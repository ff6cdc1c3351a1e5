//! What calls of futures do because of the GPU: how long they were in CUDA's API, and how long they waited for what
//! they had launched.
//!
//! Rows of threads know the other states at once (tracing-gpu's `parts/calls/session.rs`). These two come with records
//! of the GPU, which arrive later. A call is *in CUDA* while one of its instances is open on a thread that is in a call
//! of the API. It *waits for its GPU work* before its last poll, while no instance is open and no child call is alive,
//! and an operation is not over that was launched in it, or in a call or span below it.
//!
//! The durations of the operations that a batch launches are divided among the calls that it serves (`batches.rs`).
//!
//! Records arrive late and in any order. So what ended before [`Limits::lateness`] is settled whenever
//! [`Limits::batch`] records have arrived, and memory does not grow with the run.

mod batches;
mod thread;

#[cfg(test)]
mod tests;

use std::fmt;

use range_model::stats::{Keyed, Lean, Named, order};
use range_model::summary::{CallStates, CallStats};
use range_model::timeline::{ApiCall, Call, Ending, Link, Operation, Range};
use range_model::{Note, Summary};

use self::batches::Batches;
use self::thread::{InCuda, Instance, ThreadLog};
use super::union::Union;
use range_model::Fold;

/// How long records are kept.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// How far records may arrive behind the latest one, in nanoseconds.
    lateness: u64,
    /// Number of records after which the older ones are settled; and at which all are.
    batch: usize,
    most: usize,
    /// Number of calls at which the older half is forgotten, and of intervals of one call.
    calls: usize,
    intervals: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { lateness: 2_000_000_000, batch: 1 << 17, most: 1 << 20, calls: 1 << 18, intervals: 1 << 14 }
    }
}

/// The largest number of spans around one another that are followed.
const MOST_LEVELS: usize = 64;

/// How long calls of futures were in CUDA, and waited for the GPU work that they had launched.
#[derive(Default)]
pub struct States {
    limits: Limits,
    threads: Keyed<u32, ThreadLog>,
    calls: Keyed<u64, CallLog>,
    operations: Vec<Launched>,
    batches: Batches,
    /// Calls that have closed and are not settled.
    closed: Vec<Closed>,
    /// Domains and names of calls, by number.
    names: Named<(Option<String>, String), u32>,
    /// By name and length.
    sums: Keyed<(u32, u32), Sums>,
    /// Start of the window. Calls that were created before do not count, as in the rows.
    window: u64,
    /// Number of records since the last settling, of all that are not settled, and the end of the latest one.
    arrived: usize,
    unsettled: usize,
    latest: u64,
    has_gpu: bool,
    /// Calls of too many parts, or forgotten; and calls of the API that came after what was around them was settled.
    cut: u64,
    late: u64,
}

/// An operation, from its launch to its end, and the innermost call or span around its launch.
#[derive(Clone, Copy)]
struct Launched {
    call: u64,
    at: u64,
    end: u64,
    duration: u64,
}

#[derive(Clone, Copy)]
struct Closed {
    call: u64,
    name: u32,
    start: u64,
    end: u64,
}

/// A call, or a span that is entered once.
#[derive(Default)]
struct CallLog {
    parent: u64,
    /// When it was entered, and the end of its last instance.
    first: u64,
    last: u64,
    instances: u32,
    parts: Option<Box<Parts>>,
    /// Its row of `sums`, once it counts there.
    row: Option<(u32, u32)>,
}

/// Of a call that is entered again, or launches operations.
#[derive(Default)]
struct Parts {
    /// When an instance was open, or a child call was alive.
    active: Union,
    /// When operations were not over.
    on_gpu: Union,
    in_cuda: InCuda,
    /// Of the operations of batches that served it.
    gpu_share: u64,
    /// What was before is forgotten.
    forgotten: u64,
    is_cut: bool,
}

impl CallLog {
    fn instance(&mut self, parent: u64, start: u64, end: u64) {
        if self.instances == 0 {
            (self.parent, self.first) = (parent, start);
        } else {
            let (first, last) = (self.first, self.last);
            let is_second = self.instances == 1;
            let parts = self.parts();
            if is_second {
                parts.active.add(first, last);
            }
            parts.active.add(start, end);
        }
        self.last = self.last.max(end);
        self.instances = self.instances.saturating_add(1);
    }

    fn parts(&mut self) -> &mut Parts {
        self.parts.get_or_insert_default()
    }
}

impl Parts {
    /// Gives up the wait of a call of too many parts.
    fn cut(&mut self, most: usize) {
        self.is_cut |= self.on_gpu.len().max(self.active.len()) > most;
        if self.is_cut {
            (self.on_gpu, self.active) = Default::default();
        }
    }
}

/// Times of calls of one name and of about one latency.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    calls: u64,
    latency: u64,
    on_gpu: u64,
    in_cuda: InCuda,
    gpu_share: u64,
}

impl Sums {
    fn add(&mut self, more: &Self) {
        self.calls += more.calls;
        self.latency = self.latency.saturating_add(more.latency);
        self.on_gpu = self.on_gpu.saturating_add(more.on_gpu);
        self.in_cuda.add(&more.in_cuda);
        self.gpu_share = self.gpu_share.saturating_add(more.gpu_share);
    }

    /// Of so many of its calls.
    fn part(&self, calls: u64) -> Self {
        let part = |sum: u64| (u128::from(sum) * u128::from(calls) / u128::from(self.calls.max(1))) as u64;
        let (latency, on_gpu, gpu_share) = (part(self.latency), part(self.on_gpu), part(self.gpu_share));
        Self { calls, latency, on_gpu, in_cuda: self.in_cuda.map(part), gpu_share }
    }

    /// Moves its times out of the other states.
    fn settle(&self, states: &mut CallStates) {
        let busy = states.on_cpu_ns + states.off_cpu_ns + states.on_thread_ns;
        states.on_cpu_ns -= self.in_cuda.on_cpu.min(states.on_cpu_ns);
        states.off_cpu_ns -= self.in_cuda.off_cpu.min(states.off_cpu_ns);
        let left = busy - states.on_cpu_ns - states.off_cpu_ns;
        states.in_cuda_ns = self.in_cuda.all.min(left);
        states.on_thread_ns = left - states.in_cuda_ns;
        states.gpu_work_ns = self.on_gpu.min(states.otherwise_ns);
        states.otherwise_ns -= states.gpu_work_ns;
    }
}

/// About the length of a call: sixteen for each power of two.
fn length_of(latency: u64) -> u32 {
    let octave = (latency | 16).ilog2();
    octave * 16 + (latency >> (octave - 4)) as u32 % 16
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").finish_non_exhaustive()
    }
}

impl Fold for States {
    fn range(&mut self, range: &Range<'_>) {
        if range.span == 0 || range.call == 0 {
            return; // of other code, or it stands in for its caller
        }
        let &Range { thread, start, end, call, parent, on_cpu_ns, off_cpu_ns, .. } = range;
        self.calls.row(call).instance(parent, start, end);
        self.threads.row(thread).ranges.push(Instance { start, end, call, on_cpu_ns, off_cpu_ns });
        self.arrived(end);
    }

    fn call(&mut self, call: &Call<'_>) {
        let &Call { call: number, parent, start, end, domain, name, ending, .. } = call;
        if number == 0 {
            return;
        }
        self.calls.row(number).parent = parent;
        if ending != Ending::Cut {
            let (next, key) = (self.names.len() as u32, (domain.map(str::to_owned), name.to_owned()));
            let name = *self.names.row_or(key, || next);
            self.closed.push(Closed { call: number, name, start, end });
        }
        self.arrived(end);
    }

    fn operation(&mut self, operation: &Operation<'_>) {
        self.has_gpu = true;
        if let (Some((_, at)), true) = (operation.launch, operation.call != 0) {
            let &Operation { call, start, end, .. } = operation;
            self.operations.push(Launched { call, at, end, duration: end.saturating_sub(start) });
        }
        self.arrived(operation.end);
    }

    fn api(&mut self, call: &ApiCall<'_>) {
        self.has_gpu = true;
        self.threads.row(call.thread).api.push((call.start, call.end));
        self.arrived(call.end);
    }

    fn link(&mut self, link: &Link) {
        self.batches.link(link);
    }

    fn restart(&mut self, at: u64) {
        self.window = at;
        self.sums.clear();
        self.calls.values_mut().for_each(|log| log.row = None); // no longer
        (self.cut, self.late) = (0, 0);
    }

    fn finish(&mut self, summary: &mut Summary) {
        self.settle(u64::MAX);
        if !self.has_gpu {
            return;
        }
        for row in &mut summary.calls {
            self.settle_row(row);
        }
        if self.cut > 0 {
            summary.notes.push(Note::CallStatesCut { calls: self.cut });
        }
        if self.late > 0 {
            summary.notes.push(Note::CallStatesLate { calls: self.late });
        }
    }
}

impl States {
    fn settle_row(&self, row: &mut CallStats) {
        let Some(name) = self.names.get(&(row.domain.clone(), row.name.clone())) else { return };
        let mut groups: Vec<_> = self.sums.iter().filter(|((of, _), _)| of == name).in_vec();
        order::by_most(&mut groups, |((_, length), _)| u64::from(*length));
        let (mut all, mut slowest) = (Sums::default(), Sums::default());
        let wanted = row.slowest.as_ref().map_or(0, |slowest| slowest.calls);
        for (_, group) in groups {
            // Lengths are in ticks there and in nanoseconds here, so the last group may be in part among the slowest.
            slowest.add(&group.part(group.calls.min(wanted - slowest.calls)));
            all.add(group);
        }
        row.states.iter_mut().for_each(|states| all.settle(states));
        row.gpu_share_ns = Some(all.gpu_share).filter(|share| *share > 0);
        row.slowest.iter_mut().for_each(|row| slowest.settle(&mut row.states));
    }

    /// Settles what is old after many records have arrived.
    fn arrived(&mut self, end: u64) {
        (self.arrived, self.unsettled) = (self.arrived + 1, self.unsettled + 1);
        self.latest = self.latest.max(end);
        if self.arrived >= self.limits.batch {
            let is_much = self.unsettled >= self.limits.most;
            self.settle(if is_much { self.latest + 1 } else { self.latest.saturating_sub(self.limits.lateness) });
        }
    }

    /// Judges all that ended before a moment.
    fn settle(&mut self, until: u64) {
        let Self { threads, calls, operations, closed, .. } = self;
        let mut left = 0;
        for thread in threads.values_mut() {
            let (late, rest) = thread.settle(until, &mut |call, in_cuda| {
                if let Some(log) = calls.get_mut(&call) {
                    log.parts().in_cuda.add(&in_cuda);
                }
            });
            (self.late, left) = (self.late + late, left + rest);
        }
        for operation in operations.extract_if(.., |operation| operation.end < until) {
            self.batches.launched(operation.duration, around(calls, operation.call));
            place(calls, &operation, self.limits.intervals);
        }
        let mut shares = Vec::new();
        let is_over = |batch: u64| until == u64::MAX || calls.get(&batch).is_some_and(|log| log.last < until);
        self.batches.divide(is_over, |served, share| shares.push((served, share)));
        for (served, share) in shares {
            let log = calls.row(served);
            match log.row {
                Some(row) => self.sums.row(row).gpu_share += share,
                None => log.parts().gpu_share += share,
            }
        }
        let closed: Vec<_> = closed.extract_if(.., |call| call.end < until).in_vec();
        for call in &closed {
            let Some(&CallLog { parent, last, .. }) = calls.get(&call.call) else { continue };
            if let Some(above) = calls.get_mut(&parent) {
                above.parts().active.add(call.start, last);
            }
        }
        for call in closed.iter().filter(|call| call.start >= self.window) {
            let mut sums = Sums { calls: 1, latency: call.end.saturating_sub(call.start), ..Sums::default() };
            let Some(log) = calls.get_mut(&call.call) else { continue };
            self.cut += u64::from(log.instances == 0); // it is forgotten
            if let (last_poll, Some(parts)) = (log.last, log.parts.take()) {
                sums.on_gpu = parts.on_gpu.without(&parts.active, call.start.max(parts.forgotten), last_poll);
                sums.in_cuda = parts.in_cuda;
                sums.gpu_share = parts.gpu_share;
                self.cut += u64::from(parts.is_cut);
            }
            let row = (call.name, length_of(sums.latency));
            log.row = Some(row);
            self.sums.row(row).add(&sums);
        }
        (self.arrived, self.unsettled) = (0, left + self.operations.len() + self.closed.len());
        self.forget(until);
        self.batches.forget(self.limits.calls);
    }

    /// Forgets what is old of calls that may be open, and calls that are over.
    fn forget(&mut self, until: u64) {
        for parts in self.calls.values_mut().filter_map(|log| log.parts.as_mut()) {
            parts.cut(self.limits.intervals);
            if parts.on_gpu.len() == 0 {
                parts.forgotten = parts.forgotten.max(until.min(parts.active.end()));
                parts.active.forget(until);
            }
        }
        if self.calls.len() > self.limits.calls {
            // First spans that are entered once, and launch nothing.
            self.calls.retain(|_, log| log.last >= until || log.instances > 1 || log.parts.is_some());
        }
        if self.calls.len() > self.limits.calls {
            let mut ends: Vec<u64> = self.calls.rows().iter().map(|log| log.last).in_vec();
            let middle = ends.len() / 2;
            let oldest = *ends.select_nth_unstable(middle).1;
            self.calls.retain(|_, log| log.last > oldest);
        }
    }
}

/// The calls around a launch in this one, the innermost first, as far as they are known.
fn around(calls: &Keyed<u64, CallLog>, call: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(call), |call| calls.get(call).map(|log| log.parent)).take(MOST_LEVELS)
}

/// Adds an operation to the calls around its launch, as far as they are known.
fn place(calls: &mut Keyed<u64, CallLog>, operation: &Launched, most: usize) {
    let mut at = operation.call;
    for _ in 0..MOST_LEVELS {
        let Some(log) = calls.get_mut(&at) else { return };
        at = log.parent;
        let parts = log.parts();
        parts.on_gpu.add(operation.at, operation.end);
        parts.cut(most);
    }
}
