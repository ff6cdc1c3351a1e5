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
        assert_eq!((union.0.as_slice(), union.end()), (&[(5, 50), (60, 61)][..], 61));
    }
}
