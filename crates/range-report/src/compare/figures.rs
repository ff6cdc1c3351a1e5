//! What is judged beside the durations of ranges: latencies of calls, and what devices did.

use std::collections::BTreeMap;

use crate::analysis::{Basis, Change, Figure, Gate, Judged, Reason, device_name};
use range_model::Summary;
use range_model::names::in_domain;
use range_model::stats::Lean;
use range_model::summary::{DeviceIdle, IdleCause};

/// The latency of the calls of one name at the median or the 99th percentile, or the time of a GPU in one state, in all
/// runs.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ComparedFigure {
    /// What it is.
    pub figure: Figure,
    /// NVTX domain of the calls; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the calls, or `GPU 0`.
    pub name: String,
    /// [`Basis::Total`] for a GPU.
    pub basis: Basis,
    /// It in each run, in the order of [`Comparison::runs`](crate::Comparison::runs); `None` where a run lacks it.
    pub in_runs: Vec<Option<FigureInRun>>,
}

/// A figure in one run.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FigureInRun {
    /// Its nanoseconds; of repeated runs, the median over them.
    pub ns: f64,
    /// Calls; of repeated runs, the median over them. 1 for a GPU.
    pub instances: u64,
    /// As [`InRun::change`](crate::InRun::change). Of idle times, the percentages are those of the time of the GPU from
    /// its first operation to its last.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub change: Option<Change>,
    /// What of it grew from the first run, where that is known.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub reason: Option<Reason>,
    /// In each repeat, by start of the process.
    #[cfg_attr(feature = "serde", serde(skip))]
    each: Vec<Option<One>>,
}

/// A figure in one repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct One {
    ns: f64,
    /// What changes are a part of.
    of_ns: f64,
    instances: u64,
}

/// What tells a figure from others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    figure: Figure,
    domain: Option<String>,
    name: String,
    basis: Basis,
}

/// The figures of all sides: latencies by name, then devices by number.
pub(super) fn of_sides(sides: &[Vec<&Summary>]) -> Vec<ComparedFigure> {
    let mut found: BTreeMap<Key, Vec<Vec<Option<One>>>> = BTreeMap::new();
    let none = || sides.iter().map(|side| vec![None; side.len()]).in_vec();
    for (number, side) in sides.iter().enumerate() {
        for (repeat, summary) in side.iter().enumerate() {
            for (key, one) in latencies(summary).chain(devices(summary)) {
                let place = found.entry(key).or_insert_with(none).get_mut(number);
                place.and_then(|side| side.get_mut(repeat)).into_iter().for_each(|place| *place = Some(one));
            }
        }
    }
    let figures = found.into_iter().map(|(Key { figure, domain, name, basis }, sides)| {
        let in_runs = sides.into_iter().map(FigureInRun::typical).in_vec();
        ComparedFigure { figure, domain, name, basis, in_runs }
    });
    figures.in_vec()
}

/// Of calls that wait: what never waits is judged as a range.
fn latencies(summary: &Summary) -> impl Iterator<Item = (Key, One)> + '_ {
    let calls = summary.calls.iter().filter(|row| row.awaited_ns > 0);
    let both = calls.flat_map(|row| [Basis::Median, Basis::P99].map(|basis| (row, basis)));
    both.filter_map(|(row, basis)| {
        let (ns, instances) = (basis.of(&row.latency)?, row.latency.instances);
        let key = Key { figure: Figure::Latency, domain: row.domain.clone(), name: row.name.clone(), basis };
        Some((key, One { ns, of_ns: ns, instances }))
    })
}

fn devices(summary: &Summary) -> impl Iterator<Item = (Key, One)> + '_ {
    let devices = summary.idle.iter().flat_map(|idle| &idle.devices);
    devices.flat_map(|device: &DeviceIdle| {
        let name = device_name(device);
        let busy = (Figure::GpuBusy, device.busy_ns, device.busy_ns);
        let idle = IdleCause::ALL.map(|cause| (Figure::GpuIdle(cause), device.causes.of(cause), device.wall_ns));
        [busy].into_iter().chain(idle).map(move |(figure, ns, of_ns)| {
            let key = Key { figure, domain: None, name: name.clone(), basis: Basis::Total };
            (key, One { ns: ns as f64, of_ns: of_ns as f64, instances: 1 })
        })
    })
}

impl FigureInRun {
    fn typical(each: Vec<Option<One>>) -> Option<Self> {
        let all = |figure: fn(&One) -> f64| middle(&each.iter().flatten().map(|one| figure(one) as u64).in_vec());
        let (ns, instances) = (all(|one| one.ns)? as f64, all(|one| one.instances as f64)?);
        Some(Self { ns, instances, change: None, reason: None, each })
    }
}

impl ComparedFigure {
    /// The name with its domain.
    #[must_use]
    pub fn label(&self) -> String {
        in_domain(self.domain.as_deref(), &self.name)
    }

    /// By how much it grew from the first run.
    pub(super) fn grown(&self, run: usize) -> Option<f64> {
        let [base, new] = [0, run].map(|run| self.in_runs.get(run).and_then(Option::as_ref));
        Some(new?.ns - base?.ns)
    }

    /// How it is judged in a run; `None` where it is in one of the two runs alone, has too few calls, or is an idle
    /// time that is too short in both to have grown by what is allowed.
    pub(super) fn judged(&self, run: usize, gate: &Gate) -> Option<Judged> {
        let [base, new] = [0, run].map(|run| self.in_runs.get(run).and_then(Option::as_ref));
        let (base, new) = (base?, new?);
        let enough = |side: &FigureInRun| {
            let mut instances = side.each.iter().flatten().map(|one| one.instances);
            match self.basis {
                Basis::Total => true,
                Basis::Median => instances.fold(0, u64::saturating_add) >= gate.least_instances,
                Basis::P99 => instances.all(|instances| instances >= LEAST_FOR_P99),
            }
        };
        let change = |base: &Option<One>, new: &Option<One>| {
            let (base, new) = ((*base)?, (*new)?);
            let ratio = 1.0 + (new.ns - base.ns) / Some(base.of_ns).filter(|of_ns| *of_ns > 0.0)?;
            (ratio > 0.0).then(|| ratio.ln())
        };
        let of_ns = base.each.iter().flatten().map(|one| one.of_ns as u64).in_vec();
        let of_ns = middle(&of_ns).unwrap_or(0) as f64;
        let is_long = base.ns.max(new.ns) > of_ns * gate.threshold_percent.max(0.0) / 200.0;
        (enough(base) && enough(new) && (is_long || !matches!(self.figure, Figure::GpuIdle(_)))).then(|| Judged {
            basis: self.basis,
            ns: [base.ns, new.ns],
            of_ns,
            as_many: new.instances as f64,
            pairs: base.each.iter().zip(&new.each).map(|(base, new)| change(base, new)).in_vec(),
        })
    }
}

/// With fewer calls in a run, their 99th percentile is that of one or two calls.
const LEAST_FOR_P99: u64 = 100;

/// The median.
pub(super) fn middle(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    Some(u64::midpoint(*sorted.get(sorted.len().checked_sub(1)? / 2)?, *sorted.get(sorted.len() / 2)?))
}
