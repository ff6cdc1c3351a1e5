//! From ticks to nanoseconds, so that what was converted once stays where it is.

use crate::clock::Ticks;

/// Moments known by both clocks, in order. What lies between two is converted by the straight line between them, whenever it is asked for: ranges that are nested
/// stay so, however much later the outer one is written.
#[derive(Debug)]
pub(super) struct Moments(Vec<(Ticks, u64)>);

impl Moments {
    pub(super) fn new(origin: Ticks) -> Self {
        Self(vec![(origin, 0)])
    }

    /// Everything before this moment can be converted from now on.
    pub(super) fn add(&mut self, (ticks, ns): (Ticks, u64)) {
        if self.0.last().is_some_and(|&(last, last_ns)| ticks > last && ns > last_ns) {
            self.0.push((ticks, ns));
        }
    }

    /// Nanoseconds since the origin; what is after the last anchor goes on as before it.
    pub(super) fn ns(&self, ticks: Ticks) -> u64 {
        let after =
            self.0.partition_point(|&(anchor, _)| anchor <= ticks).clamp(1, self.0.len().saturating_sub(1).max(1));
        let (Some(&(from, from_ns)), Some(&(to, to_ns))) = (self.0.get(after - 1), self.0.get(after)) else {
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
        moments.add((2_000, 500));
        let before = [1_000, 1_001, 1_999, 2_000].map(|ticks| moments.ns(ticks));
        assert_eq!(before, [0, 0, 499, 500]);
        moments.add((3_000, 1_500));
        assert_eq!([1_000, 1_001, 1_999, 2_000].map(|ticks| moments.ns(ticks)), before);
        assert_eq!([2_001, 2_500, 3_000, 4_000].map(|ticks| moments.ns(ticks)), [501, 1_000, 1_500, 2_500]);
        assert_eq!(moments.ns(0), 0, "before the origin is at the origin");
    }

    #[test]
    fn moments_that_are_far_apart_are_converted_as_others_are() {
        let mut moments = Moments::new(0);
        moments.add((3 << 40, 1 << 40)); // half an hour, of which the product has more than 64 bits
        for ticks in [0, 3, 4, 5, 1 << 34, 3 << 39, (3 << 40) - 1, 3 << 40, 3 << 41] {
            assert_eq!(moments.ns(ticks), ticks / 3, "{ticks}");
        }
    }

    #[test]
    fn order_is_kept() {
        let mut moments = Moments::new(0);
        [(1_000, 333), (2_000, 700), (2_000, 900), (5_000, 1_800)].into_iter().for_each(|anchor| moments.add(anchor));
        let all: Vec<u64> = (0..6_000).map(|ticks| moments.ns(ticks)).collect();
        assert!(all.is_sorted());
    }
}
