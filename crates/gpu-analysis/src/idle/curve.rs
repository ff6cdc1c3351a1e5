//! Cumulative use of a device, for queries of any interval.

use std::ops::Sub;

use range_model::summary::{IdleCause, IdleCauses};

/// The largest number of points kept from before the last settling. Between two points, use is interpolated.
const MOST_OLD: usize = 1 << 13;

/// Use of a device up to a moment, or in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) busy: u64,
    pub(super) causes: IdleCauses,
    /// Number of operations that began, and the sum of their durations.
    pub(super) operations: u64,
    pub(super) operations_ns: u64,
}

impl Use {
    pub(super) fn add(&mut self, more: &Self) {
        self.busy += more.busy;
        self.operations += more.operations;
        self.operations_ns += more.operations_ns;
        IdleCause::ALL.iter().for_each(|&cause| self.causes.add(cause, more.causes.of(cause)));
    }

    /// Combines each figure of both by a function.
    fn with(&self, other: &Self, figure: impl Fn(u64, u64) -> u64) -> Self {
        let mut causes = IdleCauses::default();
        for cause in IdleCause::ALL {
            causes.add(cause, figure(self.causes.of(cause), other.causes.of(cause)));
        }
        Self {
            busy: figure(self.busy, other.busy),
            causes,
            operations: figure(self.operations, other.operations),
            operations_ns: figure(self.operations_ns, other.operations_ns),
        }
    }
}

impl Sub for Use {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.with(&other, u64::saturating_sub)
    }
}

/// Moments in order, with the device's use up to each.
#[derive(Default)]
pub(super) struct Curve {
    points: Vec<Point>,
    /// The latest launch of an operation that has begun.
    launched: u64,
}

#[derive(Clone, Copy)]
struct Point {
    at: u64,
    all: Use,
    /// The latest launch of an operation that began before.
    launched: u64,
}

impl Curve {
    /// Continues from the last point to another one, in one state.
    pub(super) fn go_on(&mut self, from: u64, until: u64, change: impl FnOnce(&mut Use, u64)) {
        if self.points.is_empty() {
            self.points.push(Point { at: from, all: Use::default(), launched: 0 });
        }
        let mut all = self.points.last().map_or_else(Use::default, |last| last.all);
        change(&mut all, until.saturating_sub(from));
        match self.points.last_mut() {
            Some(last) if last.at == until => last.all = all,
            _ => self.points.push(Point { at: until, all, launched: self.launched }),
        }
    }

    /// Continues with an operation. `began` is its duration, if it began meanwhile.
    pub(super) fn work(&mut self, from: u64, until: u64, launched: Option<u64>, began: Option<u64>) {
        self.launched = self.launched.max(launched.unwrap_or(0));
        self.go_on(from, until, |all, ns| {
            all.busy += ns;
            all.operations += u64::from(began.is_some());
            all.operations_ns += began.unwrap_or(0);
        });
    }

    /// When the device had done what was launched up to a moment, but for what began after something that was launched
    /// later. Not before that moment.
    pub(super) fn done(&self, launched: u64) -> u64 {
        let its = self.points.partition_point(|point| point.launched <= launched);
        let its = self.points.get(..its).unwrap_or_default();
        let mut work = its.iter().zip(its.iter().skip(1)).rev();
        let last = work.find(|(before, point)| point.all.busy > before.all.busy);
        last.map_or(launched, |(_, point)| point.at.max(launched))
    }

    /// The use of the device in an interval.
    pub(super) fn between(&self, start: u64, end: u64) -> Use {
        self.at(end) - self.at(start)
    }

    /// The use of the device up to a moment.
    pub(super) fn at(&self, moment: u64) -> Use {
        let after = self.points.partition_point(|point| point.at <= moment);
        let before = after.checked_sub(1).and_then(|before| self.points.get(before));
        match (before, self.points.get(after)) {
            (None, _) => Use::default(),
            (Some(last), None) => last.all,
            (Some(before), Some(after)) => {
                let (part, whole) = (u128::from(moment - before.at), u128::from(after.at - before.at));
                let between = |a: u64, b: u64| a + (u128::from(b.saturating_sub(a)) * part / whole) as u64;
                before.all.with(&after.all, between)
            }
        }
    }

    /// Drops every second point while there are too many. The present points are old: later they are queried for ranges
    /// that are open now, and for the ends of loops.
    pub(super) fn thin(&mut self) {
        while self.points.len() > MOST_OLD {
            let (last, mut at) = (self.points.len(), 0);
            self.points.retain(|_| {
                at += 1;
                at % 2 == 1 || at == last
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_that_was_launched_before() {
        let mut curve = Curve::default();
        let idle = |all: &mut Use, ns| all.causes.add(IdleCause::Host, ns);
        curve.work(100, 200, Some(50), Some(100));
        curve.go_on(200, 230, idle);
        curve.go_on(230, 300, idle);
        curve.work(300, 400, Some(60), Some(100));
        curve.work(400, 400, Some(350), Some(20)); // beside the one before
        curve.work(400, 500, Some(70), Some(100)); // begins after that one
        curve.go_on(500, 600, idle);
        curve.work(600, 700, Some(510), Some(100));
        curve.work(700, 800, None, Some(100));
        for (launched, done) in
            [(49, 49), (50, 200), (59, 200), (60, 400), (349, 400), (350, 500), (509, 509), (510, 800)]
        {
            assert_eq!(curve.done(launched), done, "{launched}");
        }
        assert_eq!((Curve::default().done(7), curve.done(900)), (7, 900));
    }

    /// The device is busy every other microsecond.
    #[test]
    fn a_thinned_curve_keeps_sums_and_the_last_point() {
        let mut curve = Curve::default();
        let until = 2_000 * MOST_OLD as u64 * 3;
        for start in (0..until).step_by(2_000) {
            curve.go_on(start, start + 1_000, |all, ns| all.busy += ns);
            curve.go_on(start + 1_000, start + 2_000, |all, ns| all.causes.add(IdleCause::Host, ns));
        }
        curve.go_on(until, until + 1_000, |all, ns| all.busy += ns); // an even number of points
        let whole = curve.between(0, until + 1_000);
        assert_eq!((whole.busy, whole.causes.host_ns), (until / 2 + 1_000, until / 2));
        curve.thin();
        assert!(curve.points.len() <= MOST_OLD);
        assert_eq!(curve.between(0, until + 1_000), whole);
        let part = curve.between(until / 4, until / 2).busy;
        assert!(part.abs_diff(until / 8) <= 16_000, "{part}: more than two distances of points");
        curve.go_on(until + 1_000, until + 1_500, |all, ns| all.busy += ns);
        assert_eq!(curve.between(until + 1_000, until + 1_500).busy, 500);
    }
}
