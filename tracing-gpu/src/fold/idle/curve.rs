//! Cumulative use of a device, for queries of any interval.

use std::ops::Sub;

use range_report::summary::{IdleCause, IdleCauses};

use super::gaps::DISPATCH;

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
    points: Vec<(u64, Use)>,
}

impl Curve {
    /// Continues from the last point to another one, in one state.
    pub(super) fn go_on(&mut self, from: u64, until: u64, change: impl FnOnce(&mut Use, u64)) {
        if self.points.is_empty() {
            self.points.push((from, Use::default()));
        }
        let mut all = self.points.last().map_or_else(Use::default, |(_, all)| *all);
        change(&mut all, until.saturating_sub(from));
        match self.points.last_mut() {
            Some(last) if last.0 == until => last.1 = all,
            _ => self.points.push((until, all)),
        }
    }

    /// The use of the device in an interval.
    pub(super) fn between(&self, start: u64, end: u64) -> Use {
        self.at(end) - self.at(start)
    }

    /// The end of the work that the device has at a moment: of what runs then or begins soon after, without a pause.
    pub(super) fn busy_until(&self, moment: u64) -> u64 {
        let after = self.points.partition_point(|(at, _)| *at <= moment);
        let Some(before) = after.checked_sub(1) else { return moment };
        let segments = self.points.iter().skip(before).zip(self.points.iter().skip(after));
        let goes_on = segments.take_while(|((from, before), (to, after))| {
            let idle = (to - from).saturating_sub(after.busy - before.busy);
            idle.min(to - moment) <= DISPATCH
        });
        goes_on.last().map_or(moment, |(_, (to, _))| *to)
    }

    /// The use of the device up to a moment.
    pub(super) fn at(&self, moment: u64) -> Use {
        let after = self.points.partition_point(|(at, _)| *at <= moment);
        let before = after.checked_sub(1).and_then(|before| self.points.get(before));
        match (before, self.points.get(after)) {
            (None, _) => Use::default(),
            (Some((_, all)), None) => *all,
            (Some((from, before)), Some((to, after))) => {
                let (part, whole) = (u128::from(moment - from), u128::from(to - from));
                before.with(after, |a, b| a + (u128::from(b.saturating_sub(a)) * part / whole) as u64)
            }
        }
    }

    /// Drops every second point while there are too many. The present points are old: of later ranges, only a loop that
    /// began before them queries one.
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
    fn work_lasts_until_the_device_rests() {
        let mut curve = Curve::default();
        curve.go_on(100_000, 200_000, |all, ns| all.busy += ns);
        curve.go_on(200_000, 200_000 + DISPATCH, |all, ns| all.causes.add(IdleCause::Launching, ns));
        curve.go_on(250_000, 300_000, |all, ns| all.busy += ns);
        curve.go_on(300_000, 400_000, |all, ns| all.causes.add(IdleCause::Host, ns));
        curve.go_on(400_000, 500_000, |all, ns| all.busy += ns);
        for (moment, end) in [
            (150_000, 300_000),
            (220_000, 300_000),
            (300_000, 300_000), // rests for 100 us
            (349_999, 349_999), // rests for more than 50 us
            (350_000, 500_000),
            (99_999, 99_999), // nothing is known of it
            (600_000, 600_000),
        ] {
            assert_eq!(curve.busy_until(moment), end, "{moment}");
        }
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
