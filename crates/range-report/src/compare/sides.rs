//! The machines of the runs that are compared.

use std::collections::BTreeSet;

use super::figures::middle;
use crate::analysis::LEAST_PAIRS;
use range_model::stats::Lean;
use range_model::summary::Machine;

/// The runs of one side.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Side {
    /// Name of the run.
    pub run: String,
    /// How often it was repeated.
    pub repeats: usize,
    /// Model of the processor; several are joined by `;`. Empty where it is not known.
    pub cpu: String,
    /// Median of the clocks of the first processor, in MHz.
    pub cpu_mhz: Option<u64>,
    /// Median of the loads, in hundredths of a thread.
    pub load_percent: Option<u64>,
    /// Median of the clocks of the GPUs' multiprocessors, in MHz.
    pub sm_mhz: Option<u64>,
    /// What makes the side's times doubtful: a busy machine, a throttled GPU.
    pub notes: Vec<String>,
}

/// Clocks of two sides that differ by less are alike: 3 %.
const ALIKE_PER_CENT: u64 = 3;

impl Side {
    pub(super) fn of(run: &str, machines: &[Option<Machine>]) -> Self {
        let known = || machines.iter().flatten();
        // Of several GPUs it is not known which one the program used.
        let gpus = || known().filter_map(|machine| machine.gpus.first().filter(|_| machine.gpus.len() == 1));
        let one = |values: Vec<f64>| middle(&values.into_iter().map(|value| value as u64).in_vec());
        let cpus: BTreeSet<&str> = known().map(|machine| machine.cpu.as_str()).filter(|cpu| !cpu.is_empty()).collect();
        let busy = known().filter(|machine| machine.load.is_some_and(|load| load > f64::from(machine.cpus))).count();
        let throttled = gpus().filter(|gpu| gpu.is_throttled()).count();
        let of =
            |count: usize, what: &str| (count > 0).then(|| format!("{what} in {count} of {} runs", machines.len()));
        let notes = [of(busy, "more threads than processors"), of(throttled, "a GPU was throttled")];
        Self {
            run: run.to_owned(),
            repeats: machines.len(),
            cpu: cpus.into_iter().collect::<Vec<_>>().join("; "),
            cpu_mhz: one(known().filter_map(|machine| machine.cpu_mhz).in_vec()),
            load_percent: one(known().filter_map(|machine| Some(100.0 * machine.load?)).in_vec()),
            sm_mhz: one(gpus().map(|gpu| f64::from(gpu.sm_mhz)).in_vec()),
            notes: notes.into_iter().flatten().collect(),
        }
    }

    /// What makes this side another machine than the first one.
    pub(super) fn differs(&self, base: &Self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.cpu != base.cpu && !self.cpu.is_empty() && !base.cpu.is_empty() {
            notes.push(format!("{}, not {}", self.cpu, base.cpu));
        }
        let mut clocks = |what: &str, own: Option<u64>, base: Option<u64>| {
            let Some((own, base)) = own.zip(base) else { return };
            if own.abs_diff(base) * 100 > base * ALIKE_PER_CENT {
                notes.push(format!("{what} at {own} MHz, not {base}"));
            }
        };
        if self.repeats.min(base.repeats) >= LEAST_PAIRS {
            clocks("the processor", self.cpu_mhz, base.cpu_mhz); // which changes from moment to moment
        }
        clocks("GPUs", self.sm_mhz, base.sm_mhz);
        notes
    }
}
