//! Use of the devices while ranges were open, separate for first and later instances.

use range_report::stats::Keyed;
use range_report::summary::{InstancesUse, RangeUse};

use super::curve::{Curve, Use};
use super::thread::OpenSpan;

/// The largest number of ranges that wait for the devices' use.
const MOST_WAITING: usize = 1 << 20;
/// A first instance is separate if it takes this many times as long as the mean of the others.
const LONGER: u64 = 3;
/// An instance is separate if more than this fraction of it is idle time with loading.
const LOADING_PART: u64 = 10;

/// A group of instances.
#[derive(Clone, Copy, Default)]
struct Instances {
    count: u64,
    wall: u64,
    /// The same, once for each device.
    devices: u64,
    all: Use,
}

impl Instances {
    fn add(&mut self, more: &Self) {
        self.count += more.count;
        self.wall += more.wall;
        self.devices += more.devices;
        self.all.add(&more.all);
    }

    fn row(&self) -> InstancesUse {
        let mut row = InstancesUse::default();
        (row.instances, row.wall_ns, row.devices_ns) = (self.count, self.wall, self.devices);
        row.busy_ns = self.all.busy;
        (row.operations, row.operations_ns) = (self.all.operations, self.all.operations_ns);
        row.causes = self.all.causes;
        row
    }
}

/// The instances of one name.
#[derive(Clone, Copy, Default)]
struct RangeInstances {
    first: Instances,
    loading: Instances,
    steady: Instances,
}

#[derive(Default)]
pub(super) struct Ranges {
    /// Instances that have ended and are not evaluated yet.
    pub(super) ended: Vec<OpenSpan>,
    rows: Keyed<u32, RangeInstances>,
}

impl Ranges {
    /// Forgets instances that ended before a moment. Those that go on begin then.
    pub(super) fn restart(&mut self, at: u64) {
        self.rows.clear();
        self.ended.retain_mut(|range| {
            range.start = range.start.max(at);
            range.end > at
        });
    }

    /// Evaluates instances that ended before the moment up to which all devices are settled.
    pub(super) fn evaluate(&mut self, settled: u64, curves: &[&Curve]) {
        let settled = if self.ended.len() > MOST_WAITING { u64::MAX } else { settled };
        let rows = &mut self.rows;
        self.ended.retain(|range| {
            if range.end > settled {
                return true;
            }
            let wall = range.end - range.start;
            let mut one = Instances { count: 1, wall, devices: wall * curves.len() as u64, all: Use::default() };
            curves.iter().for_each(|curve| one.all.add(&curve.between(range.start, range.end)));
            let row = rows.row(range.label);
            if row.first.count == 0 {
                row.first = one;
            } else if one.all.causes.loading_ns > one.wall / LOADING_PART {
                row.loading.add(&one);
            } else {
                row.steady.add(&one);
            }
            false
        });
    }

    /// Rows by number of the label.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u32, RangeUse)> + '_ {
        self.rows.iter().map(|(&label, RangeInstances { first, loading, steady })| {
            let (mut warm_up, mut steady) = (*loading, *steady);
            let is_longer = first.wall / LONGER > steady.wall / steady.count.max(1);
            if steady.count > 0 && (is_longer || first.all.causes.loading_ns > first.wall / LOADING_PART) {
                warm_up.add(first);
            } else {
                steady.add(first);
            }
            let mut row = RangeUse::default();
            (row.warm_up, row.steady) = (warm_up.row(), steady.row());
            (label, row)
        })
    }
}
