//! The time from the launch of a kernel to its end, split into call, queue and execution, as in Nsight Systems'
//! `cuda_kern_exec_sum`; and the same by range.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fmt;

use range_model::stats::{Distribution, Keyed, order};
use range_model::summary::{KernelExecStats, KernelExecution, RangeExecStats, Times};
use range_model::timeline::{ApiCall, Operation, Work};
use range_model::{Note, Summary};

use range_model::Fold;

/// The largest number of calls, and of kernels, that wait for each other. Kernels of a graph arrive long after its
/// launch.
const MOST_WAITING: usize = 1 << 16;
/// The largest number of durations of one figure that are kept for an exact median.
const MOST_KEPT: u64 = 1 << 16;

/// How long the calls that launch a kernel took, how long the kernel waited in its queue, and how long it ran, as the
/// report `kernexecsum` of Nsight Systems has it.
#[derive(Default)]
pub struct KernelExec {
    names: Keyed<String, u32>,
    /// Calls by correlation id, and their order of arrival.
    calls: Keyed<u32, Call>,
    order: VecDeque<u32>,
    kernels: Keyed<u32, Vec<Kernel>>,
    waiting: usize,
    rows: Keyed<[u32; 4], Parts>,
    /// By range, call and kernel.
    ranges: Keyed<(Option<u32>, [u32; 2]), Parts>,
    /// Number of kernels without a launch.
    unmatched: u64,
    /// Start of the window. Calls that began earlier, and their kernels, are in no row.
    window: u64,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    start: u64,
    end: u64,
    thread: u32,
    name: u32,
}

#[derive(Clone, Copy)]
struct Kernel {
    start: u64,
    end: u64,
    device: u32,
    name: u32,
    range: Option<u32>,
}

/// The figures of one row.
#[derive(Default)]
struct Parts {
    total: Distribution,
    call: Distribution,
    queue: Distribution,
    kernel: Distribution,
}

impl Parts {
    fn add(&mut self, call: &Call, kernel: &Kernel) {
        let keep = |kept| kept < MOST_KEPT;
        self.total.add(call.end.max(kernel.end).saturating_sub(call.start), keep);
        self.call.add(call.end - call.start, keep);
        if let Some(queued) = kernel.start.checked_sub(call.end) {
            self.queue.add(queued, keep);
        }
        self.kernel.add(kernel.end - kernel.start, keep);
    }

    fn row(&self) -> KernelExecution {
        let mut row = KernelExecution::default();
        (row.total, row.call) = (times(&self.total), times(&self.call));
        (row.queue, row.kernel) = (times(&self.queue), times(&self.kernel));
        row
    }
}

fn times(of: &Distribution) -> Times {
    let mut times = Times::new(of.count, u64::try_from(of.total).unwrap_or(u64::MAX));
    (times.min_ns, times.max_ns, times.stddev_ns) = (of.min, of.max, of.stddev());
    let median = of.median();
    times.median_ns = median.map(|median| (median.lower as f64 + median.upper as f64) / 2.0);
    times.median_exact = median.is_none_or(|median| median.exact);
    times
}

impl KernelExec {
    fn name(&mut self, name: &str) -> u32 {
        let next = self.names.len() as u32;
        match self.names.get(name) {
            Some(known) => *known,
            None => *self.names.row_or(name.to_owned(), || next),
        }
    }

    fn add(&mut self, call: &Call, kernel: &Kernel) {
        if call.start < self.window {
            return;
        }
        self.rows.row([call.thread, kernel.device, call.name, kernel.name]).add(call, kernel);
        self.ranges.row((kernel.range, [call.name, kernel.name])).add(call, kernel);
    }
}

impl fmt::Debug for KernelExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelExec").finish_non_exhaustive()
    }
}

impl Fold for KernelExec {
    fn operation(&mut self, operation: &Operation<'_>) {
        let Work::Kernel(_) = operation.work else { return };
        if operation.end < self.window {
            return;
        }
        let (start, end, device) = (operation.start, operation.end.max(operation.start), operation.device);
        let (name, range) = (self.name(operation.kernel), operation.span.map(|span| self.name(span)));
        let kernel = Kernel { start, end, device, name, range };
        match self.calls.get(&operation.correlation).copied() {
            Some(call) => self.add(&call, &kernel),
            None if self.waiting < MOST_WAITING => {
                self.waiting += 1;
                self.kernels.row(operation.correlation).push(kernel);
            }
            None => self.unmatched += 1,
        }
    }

    fn api(&mut self, call: &ApiCall<'_>) {
        let (start, end, thread) = (call.start, call.end.max(call.start), call.thread);
        let made = Call { start, end, thread, name: self.name(call.name) };
        for kernel in self.kernels.remove(&call.correlation).into_iter().flatten() {
            self.waiting -= 1;
            self.add(&made, &kernel);
        }
        self.calls.insert(call.correlation, made);
        self.order.push_back(call.correlation);
        if self.order.len() > MOST_WAITING
            && let Some(oldest) = self.order.pop_front()
        {
            self.calls.remove(&oldest);
        }
    }

    fn restart(&mut self, at: u64) {
        self.window = at;
        self.rows.clear();
        self.ranges.clear();
        self.unmatched = 0;
        self.kernels.retain(|_, kernels| {
            kernels.retain(|kernel| kernel.end >= at);
            !kernels.is_empty()
        });
        self.waiting = self.kernels.rows().iter().map(Vec::len).sum();
    }

    fn finish(&mut self, summary: &mut Summary) {
        let mut names = vec![String::new(); self.names.len()];
        for (name, number) in std::mem::take(&mut self.names) {
            if let Some(place) = names.get_mut(number as usize) {
                *place = name;
            }
        }
        let name = |number: u32| names.get(number as usize).cloned().unwrap_or_default();
        for (&[tid, device, api, kernel], parts) in self.rows.iter() {
            let mut row = KernelExecStats::default();
            (row.tid, row.device, row.api, row.kernel) = (tid, device, name(api), name(kernel));
            row.execution = parts.row();
            summary.kernel_exec.push(row);
        }
        for (&(range, [api, kernel]), parts) in self.ranges.iter() {
            let mut row = RangeExecStats::default();
            (row.range, row.api, row.kernel) = (range.map(name), name(api), name(kernel));
            row.execution = parts.row();
            summary.range_exec.push(row);
        }
        let mean = |execution: &KernelExecution| {
            Reverse(execution.total.total_ns / execution.total.instances.max(1)) // the order of Nsight Systems
        };
        order::by_key(&mut summary.kernel_exec, |row| {
            (mean(&row.execution), row.kernel.clone(), row.api.clone(), row.tid, row.device)
        });
        order::by_key(&mut summary.range_exec, |row| {
            (Reverse(row.execution.total.total_ns), row.range.clone(), row.kernel.clone(), row.api.clone())
        });
        let left: u64 = self.kernels.rows().iter().map(|kernels| kernels.len() as u64).sum();
        let kernels = self.unmatched + left;
        if kernels > 0 {
            summary.notes.push(Note::KernelsWithoutLaunch { kernels });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels whose calls began before the window are in no row, and no note.
    #[test]
    fn a_window_has_kernels_of_its_own_calls() {
        let mut fold = KernelExec::default();
        let launch = |fold: &mut KernelExec, correlation, start| {
            fold.api(&ApiCall { thread: 1, start, end: start + 10, correlation, ..ApiCall::default() });
        };
        let run = |fold: &mut KernelExec, correlation, start| {
            fold.operation(&Operation { start, end: start + 100, correlation, ..Operation::default() });
        };
        launch(&mut fold, 1, 100);
        run(&mut fold, 1, 120);
        run(&mut fold, 2, 800); // its call arrives later, or never
        launch(&mut fold, 3, 900);
        fold.restart(1_000);
        run(&mut fold, 3, 950);
        run(&mut fold, 4, 890);
        launch(&mut fold, 5, 1_010);
        run(&mut fold, 5, 1_100);
        let mut summary = Summary::default();
        fold.finish(&mut summary);
        let totals = summary.kernel_exec.iter().map(|row| &row.execution.total);
        assert_eq!(totals.map(|times| (times.instances, times.total_ns)).collect::<Vec<_>>(), [(1, 190)]);
        assert_eq!((summary.range_exec.len(), summary.notes.len()), (1, 0), "{:?}", summary.notes);
    }
}
