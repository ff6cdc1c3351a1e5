//! Time that counts once.

/// Intervals without overlaps, in order.
#[derive(Debug, Default)]
pub(super) struct Union(Vec<(u64, u64)>);

impl Union {
    /// Adds an interval. Returns how much of it is new.
    pub(super) fn add(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let Self(parts) = self;
        let first = parts.partition_point(|part| part.1 < start);
        let behind = parts.partition_point(|part| part.0 <= end);
        let (mut merged, mut known) = ((start, end), 0);
        for part in parts.get(first..behind).unwrap_or_default() {
            known += part.1.min(end).saturating_sub(part.0.max(start));
            merged = (merged.0.min(part.0), merged.1.max(part.1));
        }
        parts.splice(first..behind, [merged]);
        end - start - known
    }

    /// How much of its time between two moments is not in the other.
    pub(super) fn without(&self, other: &Self, from: u64, to: u64) -> u64 {
        let mut others = other.0.iter().peekable();
        let mut sum = 0;
        for &(start, end) in &self.0 {
            let (mut at, end) = (start.max(from), end.min(to));
            while at < end {
                while others.next_if(|part| part.1 <= at).is_some() {}
                let (from, to) = others.peek().copied().copied().unwrap_or((end, end));
                sum += from.min(end).saturating_sub(at);
                at = to.max(at);
                if from >= end {
                    break;
                }
            }
        }
        sum
    }

    /// Number of intervals.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets what ended before a moment.
    pub(super) fn forget(&mut self, moment: u64) {
        let old = self.0.partition_point(|part| part.1 <= moment);
        self.0.drain(..old);
    }

    /// The end of the last interval; 0 for none.
    pub(super) fn end(&self) -> u64 {
        self.0.last().map_or(0, |part| part.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_moment_counts_once() {
        let mut union = Union::default();
        assert_eq!(
            [(10, 20), (30, 40), (15, 35), (20, 30), (5, 50), (50, 50), (60, 61)].map(|(a, b)| union.add(a, b)),
            [10, 10, 10, 0, 15, 0, 1]
        );
        assert_eq!((union.0.as_slice(), union.end(), union.len()), (&[(5, 50), (60, 61)][..], 61, 2));
        union.forget(50);
        assert_eq!(union.0, [(60, 61)]);
    }

    /// Against a look at each moment.
    #[test]
    fn what_another_has_is_left_out() {
        let mut random = 7_u64;
        let mut below = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % bound
        };
        for _ in 0..200 {
            let [mut one, mut other] = [Union::default(), Union::default()];
            for union in [&mut one, &mut other] {
                (0..below(8)).for_each(|_| {
                    let start = below(60);
                    union.add(start, start + below(12));
                });
            }
            let (from, to) = (below(30), 30 + below(40));
            let has = |union: &Union, at: u64| union.0.iter().any(|part| part.0 <= at && at < part.1);
            let expected = (from..to).filter(|&at| has(&one, at) && !has(&other, at)).count() as u64;
            assert_eq!(one.without(&other, from, to), expected, "{one:?} {other:?} {from} {to}");
        }
    }
}
