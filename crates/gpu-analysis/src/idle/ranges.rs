//! Use of the devices while ranges were open, separate for first and later instances.

use range_model::stats::{Keyed, Lean, order};
use range_model::summary::{InstancesUse, RangeUse};

use super::curve::{Curve, Use};
use super::thread::OpenSpan;

/// The largest number of ranges that wait for the devices' use.
const MOST_WAITING: usize = 1 << 20;
/// A first instance is separate if it takes this many times as long as the mean of the others.
const LONGER: u64 = 3;
/// Instances at the beginning are separate if more than this fraction of each is idle time in which code was loaded or
/// graphs were built. Later ones are what the program does.
const LARGE_PART: u64 = 10;

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
    fn load(&self) -> bool {
        self.all.causes.loading_ns > self.devices / LARGE_PART
    }

    /// The same, while graphs were built.
    fn build_graphs(&self) -> bool {
        self.all.causes.building_graphs_ns > self.devices / LARGE_PART
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

    /// With another instance behind these, if there are any.
    fn with(others: Option<Self>, range: &OpenSpan, curves: &[&Curve]) -> Self {
        others.map_or_else(|| Self::new(range, curves), |others| others.and(range, curves))
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

    /// Until the devices have done what was launched before its end. The curves have `no_work` as host code.
    fn row(&self, curves: &[&Curve], no_work: &NoWork) -> InstancesUse {
        let end = curves.iter().map(|curve| curve.done(self.end)).fold(self.end, u64::max);
        let wall = end - self.start;
        let mut all = up_to(end, curves) - self.before;
        all.busy = all.busy.min(wall * curves.len() as u64); // old points of a curve are few
        let outside = no_work.before(end).saturating_sub(no_work.before(self.start)).min(all.causes.host_ns);
        all.causes.host_ns -= outside;
        all.causes.no_work_ns += outside;
        Instances { count: self.instances, wall, devices: wall * curves.len() as u64, all }.row()
    }
}

/// Idle times with the cause "no work": starts and ends in order, each with the sum of those before.
struct NoWork {
    starts: Vec<(u64, u128)>,
    ends: Vec<(u64, u128)>,
}

impl NoWork {
    fn new(times: &[(u64, u64)]) -> Self {
        let in_order = |of: fn(&(u64, u64)) -> u64| {
            let mut moments = times.iter().map(of).in_vec();
            order::by_key(&mut moments, |moment| *moment);
            let sums = moments.iter().scan(0, |sum, &moment| Some(std::mem::replace(sum, *sum + u128::from(moment))));
            moments.iter().copied().zip(sums).in_vec()
        };
        Self { starts: in_order(|time| time.0), ends: in_order(|time| time.1) }
    }

    /// The sum of these times before a moment.
    fn before(&self, moment: u64) -> u64 {
        let since = |moments: &[(u64, u128)]| {
            let its = moments.partition_point(|(at, _)| *at <= moment);
            let (last, sum) = its.checked_sub(1).and_then(|last| moments.get(last)).copied().unwrap_or_default();
            (its as u128 * u128::from(moment)).saturating_sub(sum + u128::from(last))
        };
        u64::try_from(since(&self.starts).saturating_sub(since(&self.ends))).unwrap_or(u64::MAX)
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
    /// Those that built graphs, but loaded little.
    building: Instances,
    steady: Instances,
    /// How many of the steady ones came after the last of those.
    since_building: u64,
    /// Of the first instance, of the steady ones after it, and of these with those that built graphs.
    first_loop: Option<Loop>,
    steady_loop: Option<Loop>,
    later_loop: Option<Loop>,
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
            let is_beginning = row.steady.count == 0 && (row.first.load() || row.first.build_graphs());
            if row.first.count == 0 {
                row.first = one;
                row.first_loop = Some(Loop::new(range, curves));
            } else if is_beginning && one.load() {
                row.loading.add(&one);
            } else {
                row.later_loop = Some(Loop::with(row.later_loop, range, curves));
                if is_beginning && one.build_graphs() {
                    row.building.add(&one);
                    row.since_building = 0;
                } else {
                    row.steady.add(&one);
                    row.since_building += 1;
                    row.steady_loop = Some(Loop::with(row.steady_loop, range, curves));
                }
            }
            false
        });
    }

    /// Rows by number of the label. `no_work`: idle times with this cause, from start to end.
    pub(super) fn rows(&self, curves: &[&Curve], no_work: &[(u64, u64)]) -> Vec<(u32, RangeUse)> {
        let no_work = &NoWork::new(no_work);
        let of_label = |(&label, instances): (&u32, &RangeInstances)| {
            let &RangeInstances { ref first, loading: mut warm_up, ref building, mut steady, .. } = instances;
            let mut whole = instances.steady_loop;
            // Unless it is over, building graphs is what the range does.
            let is_built = instances.since_building > 0 && instances.since_building >= building.count;
            if is_built {
                warm_up.add(building);
            } else {
                steady.add(building);
                whole = instances.later_loop;
            }
            let is_longer = first.wall / LONGER > steady.wall / steady.count.max(1);
            if steady.count > 0 && (is_longer || first.load() || first.build_graphs() && is_built) {
                warm_up.add(first);
            } else {
                steady.add(first);
                whole = instances.first_loop.zip(whole).map(|(first, others)| others.after(first));
            }
            let mut row = RangeUse::default();
            (row.warm_up, row.steady) = (warm_up.row(), steady.row());
            row.in_loop = whole.filter(|it| it.instances > 1).map(|it| it.row(curves, no_work)).unwrap_or_default();
            (label, row)
        };
        self.rows.iter().map(of_label).in_vec()
    }
}

#[cfg(test)]
mod tests {
    use range_model::summary::IdleCause::{self, BuildingGraphs, Host, Loading};

    use super::*;

    #[test]
    fn time_with_no_work_is_counted_up_to_any_moment() {
        const LATE: u64 = u64::MAX - 1_000;
        let two_devices = NoWork::new(&[(LATE, LATE + 100), (10, 20), (15, 40), (20, 20), (LATE + 100, LATE + 300)]);
        let expected = [(0, 0), (10, 0), (15, 5), (20, 15), (30, 25), (40, 35), (LATE, 35), (LATE + 150, 185)];
        for (moment, ns) in expected {
            assert_eq!(two_devices.before(moment), ns, "{moment}");
        }
        assert_eq!(two_devices.before(u64::MAX), 335);
        assert_eq!(NoWork::new(&[]).before(7), 0);
    }

    /// Instances of 1 us with so much idle time each: their numbers in `warm_up`, `steady` and `in_loop`.
    fn instances(of: &[(IdleCause, u64)]) -> [u64; 3] {
        let (mut curve, mut ranges, mut at) = (Curve::default(), Ranges::default(), 0);
        for &(cause, ns) in of {
            curve.go_on(at, at + ns, |all, ns| all.causes.add(cause, ns));
            curve.work(at + ns, at + 1_000, None, None);
            ranges.ended.push(OpenSpan { start: at, end: at + 1_000, label: 7 });
            at += 1_000;
        }
        ranges.evaluate(u64::MAX, &[&curve]);
        let (_, row) = ranges.rows(&[&curve], &[]).remove(0);
        assert!(row.warm_up.instances > 0 || row.in_loop.causes == row.steady.causes);
        [row.warm_up, row.steady, row.in_loop].map(|part| part.instances)
    }

    #[test]
    fn the_first_instance_is_warm_up_if_it_alone_loads_or_builds() {
        let with = |first, others| instances(&[&[first][..], &[others; 9]].concat());
        assert_eq!(with((Loading, 101), (Host, 500)), [1, 9, 9]);
        assert_eq!(with((Loading, 101), (BuildingGraphs, 101)), [1, 9, 9]);
        assert_eq!(with((BuildingGraphs, 101), (BuildingGraphs, 100)), [1, 9, 9]);
        assert_eq!(with((BuildingGraphs, 100), (Host, 0)), [0, 10, 10]);
        assert_eq!(with((BuildingGraphs, 500), (BuildingGraphs, 101)), [0, 10, 10], "each builds a graph");
        assert_eq!(with((Host, 500), (Host, 0)), [0, 10, 10]);
        assert_eq!(instances(&[(Loading, 101), (Host, 500)]), [1, 1, 0], "one is no loop");
    }

    #[test]
    fn instances_that_build_graphs_at_the_beginning_are_warm_up_once_that_is_over() {
        let with = |later: &[(IdleCause, u64)]| instances(&[&[(BuildingGraphs, 101)][..], later].concat());
        let (builds, not) = ((BuildingGraphs, 101), (Host, 500));
        assert_eq!(with(&[builds, not]), [2, 1, 0]);
        assert_eq!(with(&[builds, not, not]), [2, 2, 2]);
        assert_eq!(with(&[builds, builds, not]), [0, 4, 4], "it is not over");
        assert_eq!(with(&[(BuildingGraphs, 100), not]), [1, 2, 2]);
        assert_eq!(with(&[(Loading, 101), not, not]), [2, 2, 2]);
    }

    #[test]
    fn what_loads_or_builds_in_the_middle_is_no_warm_up() {
        let (loads, builds, not) = ((Loading, 101), (BuildingGraphs, 101), (Host, 500));
        assert_eq!(instances(&[loads, not, loads, not, not]), [1, 4, 4]);
        assert_eq!(instances(&[loads, loads, not, builds, not, not]), [2, 4, 4]);
        assert_eq!(instances(&[not, loads, builds, not, not]), [0, 5, 5]);
    }

    #[test]
    fn a_part_is_one_of_all_devices() {
        let mut all = Use::default();
        all.causes.add(BuildingGraphs, 101);
        all.causes.add(Loading, 101);
        let is_large = |devices| {
            let one = Instances { count: 1, wall: 1_000, devices, all };
            (one.load(), one.build_graphs())
        };
        assert_eq!([1_000, 2_000].map(is_large), [(true, true), (false, false)]);
    }
}
