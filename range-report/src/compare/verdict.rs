//! The result of a gate in few words, for scripts.

use std::collections::BTreeSet;

use super::comparison::{Comparison, middle};
use crate::analysis::{Basis, Figure, Gate, Regression, confidence};
use crate::stats::Lean;
use crate::summary::{GpuClocks, Machine};
use crate::text::names::label_or_none;

/// The result of a gate: whether all figures pass, those that do not, and how far the sides can be compared.
///
/// ```
/// use range_report::{Comparison, Gate, Summary};
///
/// let (old, new) = (Summary::default(), Summary::default());
/// let verdict = Comparison::of([("old", &old), ("new", &new)]).verdict(&Gate::new(2.0));
/// assert!(verdict.passes);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Verdict {
    /// Whether no figure became slower than the gate allows.
    pub passes: bool,
    /// The growth that is allowed, in percent.
    pub threshold_percent: f64,
    /// Figures that were judged.
    pub judged: usize,
    /// Of so many in 100 comparisons of equal runs none fails, whatever their number of figures, where there are 8 pairs
    /// of runs.
    pub confidence_percent: f64,
    /// What became slower, as [`Comparison::check`] orders it.
    pub slower: Vec<Slower>,
    /// How many more did.
    pub more: usize,
    /// The first run, then the others.
    pub sides: Vec<Side>,
}

/// A figure that became slower.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Slower {
    /// The run it is slower in.
    pub run: String,
    /// Label of the row, at most 80 characters of it.
    pub row: String,
    /// What is judged of the row.
    pub figure: Figure,
    /// By which figure.
    pub basis: Basis,
    /// In the first run, in nanoseconds.
    pub base_ns: f64,
    /// The change in percent.
    pub percent: f64,
    /// The lower end of its interval.
    pub low_percent: Option<f64>,
    /// What grew, in words, at most 160 characters of them.
    pub reason: Option<String>,
}

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

/// The largest size of a verdict in JSON.
#[cfg(feature = "json")]
const LARGEST: usize = 2_048;
/// Clocks of two sides that differ by less are alike: 3 %.
const ALIKE_PER_CENT: u64 = 3;

impl Side {
    pub(super) fn of(run: &str, machines: &[Option<Machine>]) -> Self {
        let known = || machines.iter().flatten();
        let gpus = || known().flat_map(|machine| &machine.gpus);
        let one = |values: Vec<f64>| middle(&values.into_iter().map(|value| value as u64).in_vec());
        let cpus: BTreeSet<&str> = known().map(|machine| machine.cpu.as_str()).filter(|cpu| !cpu.is_empty()).collect();
        let busy = known().filter(|machine| machine.load.is_some_and(|load| load > f64::from(machine.cpus))).count();
        let throttled = known().filter(|machine| machine.gpus.iter().any(GpuClocks::is_throttled)).count();
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
        clocks("the processor", self.cpu_mhz, base.cpu_mhz);
        clocks("GPUs", self.sm_mhz, base.sm_mhz);
        notes
    }
}

impl Comparison {
    /// The result of a gate.
    #[must_use]
    pub fn verdict(&self, gate: &Gate) -> Verdict {
        let slower = self.check(gate);
        let judged = (1..self.runs.len()).map(|run| self.changes(gate, run).iter().flatten().flatten().count()).sum();
        Verdict {
            passes: slower.is_empty(),
            threshold_percent: gate.threshold_percent.max(0.0),
            judged,
            confidence_percent: confidence(),
            slower: slower.iter().map(Slower::of).in_vec(),
            more: 0,
            sides: self.sides.clone(),
        }
    }
}

impl Slower {
    fn of(regression: &Regression) -> Self {
        let Regression { run, figure, change, .. } = regression;
        let label = label_or_none(regression.domain.as_deref(), &regression.name);
        Self {
            run: run.clone(),
            row: label.chars().take(80).collect(),
            figure: *figure,
            basis: change.basis,
            base_ns: change.base_ns,
            percent: change.percent,
            low_percent: change.low_percent,
            reason: regression.reason.as_ref().map(|reason| reason.to_string().chars().take(160).collect()),
        }
    }
}

#[cfg(feature = "json")]
impl Verdict {
    /// Writes it as JSON in one line of at most 2 KB, with as many of [`slower`](Self::slower) as fit; others are in
    /// [`more`](Self::more).
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn write_json(&self, mut out: impl std::io::Write) -> std::io::Result<()> {
        let mut part = self.clone();
        for side in &mut part.sides {
            side.run = side.run.chars().take(80).collect();
            side.cpu = side.cpu.chars().take(80).collect();
        }
        loop {
            let mut text = serde_json::to_vec(&part)?;
            text.push(b'\n');
            if text.len() <= LARGEST || (part.slower.pop().is_none() && part.sides.pop().is_none()) {
                return out.write_all(&text);
            }
            part.more = self.slower.len() - part.slower.len();
        }
    }
}
