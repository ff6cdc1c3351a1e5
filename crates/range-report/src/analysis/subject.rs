//! The range that stands for the run: the first line of a report is about it.

use super::phase::{Phase, Way};
use super::phases::Phases;
use range_model::Summary;
use range_model::stats::Lean;
use range_model::summary::{DeviceIdle, GpuIdle, RangeUse};

/// A range stands for the run if the GPU was busy in it for this part of all its busy time, in per cent.
const STANDS_FOR_RUN: u128 = 50;
/// From this number of calls, operations or instances on, they are a loop, and not a few at the beginning of the run.
pub(super) const LOOP: u64 = 20;

/// The busy time of all devices.
pub(super) fn busy(idle: &GpuIdle) -> u64 {
    idle.devices.iter().fold(0, |sum, device| sum.saturating_add(device.busy_ns))
}

/// Whether busy time is so much of all that it stands for the run.
pub(super) fn is_most(ns: u64, all: u64) -> bool {
    u128::from(ns) * 100 >= u128::from(all) * STANDS_FOR_RUN
}

/// Ranges in which the devices did most of their work, warm-up included.
fn with_most_work(idle: &GpuIdle) -> impl Iterator<Item = &RangeUse> {
    let all = busy(idle);
    let its = |row: &RangeUse| row.steady.busy_ns.saturating_add(row.warm_up.busy_ns);
    idle.ranges.iter().filter(move |row| row.steady.wall_ns > 0 && is_most(its(row), all))
}

/// What the first line is about.
pub(super) enum Subject<'a> {
    /// The instances of a range.
    Instances(&'a RangeUse),
    /// All from the first instance of a range to the last one, on the only device.
    Loop(&'a RangeUse, &'a DeviceIdle),
    Run,
}

impl<'a> Subject<'a> {
    /// Of the ranges that hold most of the work, warm-up included: the longest that was entered several times, else the
    /// shortest. A loop that is shorter goes before that. Without either it is the run.
    pub(super) fn of(summary: &Summary, idle: &'a GpuIdle) -> Self {
        if let Some(row) = entered_again(idle) {
            return Self::Instances(row);
        }
        let once = with_most_work(idle).min_by_key(|row| row.steady.wall_ns);
        let most = once.map_or(u64::MAX, |row| row.steady.wall_ns);
        let shorter = longest_loop(summary, idle).filter(|(row, _)| row.in_loop.wall_ns < most);
        let of_loop = shorter.map(|(row, device)| Self::Loop(row, device));
        of_loop.or_else(|| once.map(Self::Instances)).unwrap_or(Self::Run)
    }
}

/// The longest of them that was entered several times.
fn entered_again(idle: &GpuIdle) -> Option<&RangeUse> {
    with_most_work(idle).filter(|row| row.steady.instances > 1).largest_by(|row| row.steady.wall_ns)
}

/// The longest loop of ranges that launched most of the work and end before it, as where they are only around launches;
/// and the device. Only of one device, since the time between two moments is no sum. Merged summaries have no loops.
fn longest_loop<'a>(summary: &Summary, idle: &'a GpuIdle) -> Option<(&'a RangeUse, &'a DeviceIdle)> {
    let [device] = &idle.devices[..] else { return None };
    let phases = Phases::of(summary);
    let launched = |row: &RangeUse| {
        let is_its = |phase: &Phase<'_>| (&phase.node.domain, &phase.node.name) == (&row.domain, &row.name);
        let above = |phase: &Phase<'_>| phase.parent.and_then(|parent| phases.all().get(parent));
        let is_nested = |phase: &Phase<'_>| std::iter::successors(above(phase), |phase| above(phase)).any(is_its);
        let outermost = phases.all().iter().filter(|phase| is_its(phase) && !is_nested(phase));
        outermost.fold(0_u64, |sum, phase| sum.saturating_add(phase.on_gpu[Way::Busy as usize].total_ns.unwrap_or(0)))
    };
    let all = busy(idle);
    let loops = idle.ranges.iter().filter(|row| row.in_loop.instances >= LOOP && is_most(row.in_loop.busy_ns, all));
    Some((loops.filter(|row| is_most(launched(row), all)).largest_by(|row| row.in_loop.wall_ns)?, device))
}
