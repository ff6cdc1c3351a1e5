//! Use of the devices while ranges were open, separate for first and later instances.

use range_report::stats::{Keyed, Lean};
use range_report::summary::{IdleCauses, InstancesUse, RangeUse};

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
    /// Whether much of them is idle time while code was loaded.
    fn loads(&self) -> bool {
        self.all.causes.loading_ns > self.wall / LOADING_PART
    }

    /// The same, also while graphs were built.
    fn makes_ready(&self) -> bool {
        let IdleCauses { loading_ns, building_graphs_ns, .. } = self.all.causes;
        loading_ns.saturating_add(building_graphs_ns) > self.wall / LOADING_PART
    }

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

/// From the start of an instance to the end of the last one.
#[derive(Clone, Copy)]
struct Loop {
    instances: u64,
    start: u64,
    end: u64,
    /// The use of all devices before.
    before: Use,
}

impl Loop {
    fn new(range: &OpenSpan, curves: &[&Curve]) -> Self {
        Self { instances: 1, start: range.start, end: range.end, before: up_to(range.start, curves) }
    }

    /// With another instance.
    fn and(self, range: &OpenSpan, curves: &[&Curve]) -> Self {
        if range.start < self.start {
            return Self { end: self.end.max(range.end), instances: self.instances + 1, ..Self::new(range, curves) };
        }
        Self { end: self.end.max(range.end), instances: self.instances + 1, ..self }
    }

    /// With the first instance, which the others do not have.
    fn after(self, first: Self) -> Self {
        let Self { start, before, .. } = if first.start < self.start { first } else { self };
        Self { instances: self.instances + first.instances, start, end: self.end.max(first.end), before }
    }

    /// Until the devices have done what was launched before its end.
    fn row(&self, curves: &[&Curve]) -> InstancesUse {
        let end = curves.iter().map(|curve| curve.done(self.end)).fold(self.end, u64::max);
        let wall = end - self.start;
        let mut all = up_to(end, curves) - self.before;
        all.busy = all.busy.min(wall * curves.len() as u64); // old points of a curve are few
        Instances { count: self.instances, wall, devices: wall * curves.len() as u64, all }.row()
    }
}

/// The use of all devices up to a moment.
fn up_to(moment: u64, curves: &[&Curve]) -> Use {
    let mut all = Use::default();
    curves.iter().for_each(|curve| all.add(&curve.at(moment)));
    all
}

/// The instances of one name.
#[derive(Clone, Copy, Default)]
struct RangeInstances {
    first: Instances,
    loading: Instances,
    steady: Instances,
    /// Of the first instance, and of the steady ones after it.
    first_loop: Option<Loop>,
    steady_loop: Option<Loop>,
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
                row.first_loop = Some(Loop::new(range, curves));
            } else if one.loads() {
                row.loading.add(&one);
            } else {
                row.steady.add(&one);
                row.steady_loop = Some(match row.steady_loop {
                    Some(others) => others.and(range, curves),
                    None => Loop::new(range, curves),
                });
            }
            false
        });
    }

    /// Rows by number of the label.
    pub(super) fn rows(&self, curves: &[&Curve]) -> Vec<(u32, RangeUse)> {
        let of_label = |(&label, instances): (&u32, &RangeInstances)| {
            let &RangeInstances { ref first, loading: mut warm_up, mut steady, first_loop, steady_loop } = instances;
            let mut whole = steady_loop;
            let is_longer = first.wall / LONGER > steady.wall / steady.count.max(1);
            if steady.count > 0 && (is_longer || first.loads() || first.makes_ready() && !steady.makes_ready()) {
                warm_up.add(first);
            } else {
                steady.add(first);
                whole = first_loop.zip(steady_loop).map(|(first, others)| others.after(first));
            }
            let mut row = RangeUse::default();
            (row.warm_up, row.steady) = (warm_up.row(), steady.row());
            row.in_loop = whole.filter(|it| it.instances > 1).map(|it| it.row(curves)).unwrap_or_default();
            (label, row)
        };
        self.rows.iter().map(of_label).in_vec()
    }
}

#[cfg(test)]
mod tests {
    use range_report::summary::IdleCause::{self, BuildingGraphs, Host, Loading};

    use super::*;

    #[test]
    fn a_first_instance_that_alone_makes_ready_is_warm_up() {
        let warm_up = |first: (IdleCause, u64), steady: (IdleCause, u64)| {
            let instances = |count: u64, (cause, ns): (IdleCause, u64)| {
                let mut all = Use::default();
                all.causes.add(cause, count * ns);
                Instances { count, wall: count * 1_000, devices: count * 1_000, all }
            };
            let row = RangeInstances { first: instances(1, first), steady: instances(9, steady), ..Default::default() };
            let mut ranges = Ranges::default();
            *ranges.rows.row(7) = row;
            ranges.rows(&[])[0].1.warm_up.instances
        };
        assert_eq!(warm_up((Loading, 101), (Host, 500)), 1);
        assert_eq!(warm_up((Loading, 101), (BuildingGraphs, 101)), 1);
        assert_eq!(warm_up((BuildingGraphs, 101), (BuildingGraphs, 100)), 1);
        assert_eq!(warm_up((BuildingGraphs, 100), (Host, 0)), 0);
        assert_eq!(warm_up((BuildingGraphs, 500), (BuildingGraphs, 101)), 0, "each builds a graph");
        assert_eq!(warm_up((Host, 500), (Host, 0)), 0);
    }
}
