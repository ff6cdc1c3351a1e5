//! From ticks to nanoseconds, so that what was converted once stays where it is.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::clock::Ticks;

/// Moments known by both clocks, in order. What lies between two is converted by the straight line between them, whenever it is asked for: ranges that are nested
/// stay so, however much later the outer one is written, and whoever shares them converts alike.
#[derive(Debug)]
pub(crate) struct Moments {
    known: Vec<(Ticks, u64)>,
    shared: Arc<Mutex<Shared>>,
}

/// Of all who share them.
#[derive(Debug)]
struct Shared {
    /// What each of them knows is the beginning of it.
    anchors: Vec<(Ticks, u64)>,
    /// The last that was measured and is not on the line of those before it.
    measured: u64,
}

/// Both clocks are read within some tens of nanoseconds of one another. Between two anchors that are nearer than this, in nanoseconds, that would show in a short
/// range: the second goes where the line of those before it leads.
const NEAR: u64 = 1_000_000;

impl Moments {
    pub(super) fn new(origin: Ticks) -> Self {
        let known = vec![(origin, 0)];
        let shared = Shared { anchors: known.clone(), measured: 0 };
        Self { known, shared: Arc::new(Mutex::new(shared)) }
    }

    /// The same for somebody else.
    pub(super) fn share(&self) -> Self {
        let (known, shared) = (self.known.clone(), Arc::clone(&self.shared));
        Self { known, shared }
    }

    /// Everything before the moment of this call can be converted from now on.
    pub(crate) fn add(&mut self, now: impl FnOnce() -> (Ticks, u64)) {
        let all = Arc::clone(&self.shared);
        let mut shared = all.lock();
        let (ticks, mut ns) = now(); // under the lock, so that they come in order
        self.known.extend_from_slice(shared.anchors.get(self.known.len()..).unwrap_or_default());
        if self.known.len() > 1 && ns.saturating_sub(shared.measured) < NEAR {
            ns = self.ns(ticks);
        } else {
            shared.measured = ns;
        }
        if self.known.last().is_some_and(|&(last, last_ns)| ticks > last && ns > last_ns) {
            shared.anchors.push((ticks, ns));
            self.known.push((ticks, ns));
        }
    }

    /// Nanoseconds since the origin; what is after the last anchor goes on as before it.
    pub(crate) fn ns(&self, ticks: Ticks) -> u64 {
        let after = self.known.partition_point(|&(anchor, _)| anchor <= ticks);
        let after = after.clamp(1, self.known.len().saturating_sub(1).max(1));
        let (Some(&(from, from_ns)), Some(&(to, to_ns))) = (self.known.get(after - 1), self.known.get(after)) else {
            return 0; // nothing is known yet
        };
        let (width, width_ns, beyond) = ((to - from).max(1), to_ns - from_ns, ticks.saturating_sub(from));
        let beyond = match beyond.checked_mul(width_ns) {
            Some(product) => product / width,
            None => {
                let beyond = u128::from(beyond) * u128::from(width_ns) / u128::from(width);
                u64::try_from(beyond).unwrap_or(u64::MAX)
            }
        };
        from_ns.saturating_add(beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_converted_once_stays_there() {
        let mut moments = Moments::new(1_000);
        moments.add(|| (2_000, 5_000_000));
        let before = [1_000, 1_001, 1_999, 2_000].map(|ticks| moments.ns(ticks));
        assert_eq!(before, [0, 5_000, 4_995_000, 5_000_000]);
        moments.add(|| (3_000, 15_000_000));
        assert_eq!([1_000, 1_001, 1_999, 2_000].map(|ticks| moments.ns(ticks)), before);
        let after = [5_010_000, 10_000_000, 15_000_000, 25_000_000];
        assert_eq!([2_001, 2_500, 3_000, 4_000].map(|ticks| moments.ns(ticks)), after);
        assert_eq!(moments.ns(0), 0, "before the origin is at the origin");
    }

    #[test]
    fn moments_that_are_far_apart_are_converted_as_others_are() {
        let mut moments = Moments::new(0);
        moments.add(|| (3 << 40, 1 << 40)); // half an hour, of which the product has more than 64 bits
        for ticks in [0, 3, 4, 5, 1 << 34, 3 << 39, (3 << 40) - 1, 3 << 40, 3 << 41] {
            assert_eq!(moments.ns(ticks), ticks / 3, "{ticks}");
        }
    }

    #[test]
    fn who_shares_them_converts_alike() {
        let mut one = Moments::new(0);
        one.add(|| (1_000, 3_000_000));
        let mut other = one.share();
        other.add(|| (2_000, 7_000_000));
        one.add(|| (3_000, 9_000_000));
        other.add(|| (2_500, 8_000_000)); // read before the last, and of no use any more
        let all = |moments: &Moments| [0, 500, 1_700, 2_600, 3_000].map(|ticks| moments.ns(ticks));
        assert_eq!(all(&other), all(&one));
        assert_eq!(all(&one), [0, 1_500_000, 5_800_000, 8_200_000, 9_000_000]);
    }

    #[test]
    fn the_error_of_a_reading_is_not_in_what_is_short() {
        let mut moments = Moments::new(0);
        moments.add(|| (50_000_000, 50_000_000));
        let error = 40;
        for reading in (1..5_000).map(|number| 50_000_000 + number * 10_000) {
            moments.add(|| (reading, reading + error * (reading / 10_000 % 2)));
            let length = moments.ns(reading) - moments.ns(reading - 1_000);
            assert!((999..=1_001).contains(&length), "{length} at {reading}");
            assert!(moments.ns(reading).abs_diff(reading) <= 2 * error, "nor do they add up");
        }
    }

    #[test]
    fn order_is_kept() {
        let mut moments = Moments::new(0);
        let anchors =
            [(1_000, 3_330_000), (2_000, 7_000_000), (2_000, 9_000_000), (2_001, 9_000_001), (5_000, 18_000_000)];
        anchors.into_iter().for_each(|anchor| moments.add(|| anchor));
        let all: Vec<u64> = (0..6_000).map(|ticks| moments.ns(ticks)).collect();
        assert!(all.is_sorted());
    }
}
