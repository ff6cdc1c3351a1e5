//! The time in which at least one operation ran: the union of intervals, in bounded memory.

/// Single intervals kept for one device. Beyond, the older half becomes a sum.
const MOST_INTERVALS: usize = 512;
/// Devices kept separately; further ones share the last place, where their union is less than the sum of theirs.
const MOST_DEVICES: u32 = 64;

/// The union of intervals on one device.
///
/// When the list is full, the older half of its intervals becomes a sum. The end of the last of them is the horizon. An
/// interval that is added later counts only from the horizon on, so nothing counts twice. The union may lack parts of
/// late intervals that lie before the horizon, in gaps between earlier intervals. Intervals that are added in order of
/// their starts lose nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intervals {
    /// Sorted, disjoint, not touching, all after the horizon.
    apart: Vec<(u64, u64)>,
    collapsed: u64,
    horizon: u64,
}

impl Intervals {
    pub(crate) fn add(&mut self, start: u64, end: u64) {
        let start = start.max(self.horizon);
        if end <= start {
            return;
        }
        match self.apart.last_mut().filter(|last| (last.0..).contains(&start)) {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            Some(_) => self.apart.push((start, end)),
            None => {
                let first = self.apart.partition_point(|known| known.1 < start);
                let behind = self.apart.partition_point(|known| known.0 <= end);
                let merge = |all: (u64, u64), known: (u64, u64)| (all.0.min(known.0), all.1.max(known.1));
                let merged = self.apart.drain(first..behind).fold((start, end), merge);
                self.apart.insert(first, merged);
            }
        }
        if self.apart.len() >= MOST_INTERVALS {
            for (start, end) in self.apart.drain(..MOST_INTERVALS / 2) {
                self.collapsed = self.collapsed.saturating_add(end - start);
                self.horizon = end;
            }
        }
    }

    pub(crate) fn sum(&self) -> u64 {
        self.apart.iter().fold(self.collapsed, |sum, (start, end)| sum.saturating_add(end - start))
    }
}

/// The union of intervals on each device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Busy(Vec<(u32, Intervals)>);

impl Busy {
    pub(crate) fn add(&mut self, device: u32, start: u64, end: u64) {
        let device = device.min(MOST_DEVICES - 1);
        let place = self.0.iter().position(|known| known.0 == device).unwrap_or_else(|| {
            self.0.push((device, Intervals::default()));
            self.0.len() - 1
        });
        self.0[place].1.add(start, end);
    }

    /// The sum over the devices.
    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, intervals)| sum.saturating_add(intervals.sum()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_union_is_that_of_a_bitmap(intervals in prop::collection::vec((1u64..600, 0u64..40), 0..80)) {
            let (mut union, mut bitmap) = (Intervals::default(), [false; 700]);
            for &(start, length) in &intervals {
                union.add(start, start + length);
                bitmap[start as usize..(start + length) as usize].fill(true);
            }
            prop_assert_eq!(union.sum(), bitmap.iter().filter(|&&ran| ran).count() as u64);
            prop_assert!(union.apart.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }

        /// Beyond the bound, the union is exact for intervals in order of starts, otherwise never too large, and memory
        /// stays bounded.
        #[test]
        fn a_full_union_counts_nothing_twice(
            mut intervals in prop::collection::vec((1u64..60_000, 0u64..20), 2_000..4_000),
        ) {
            let mut bitmap = vec![false; 60_100];
            let mut shuffled = Intervals::default();
            for &(start, length) in &intervals {
                shuffled.add(start, start + length);
                bitmap[start as usize..(start + length) as usize].fill(true);
                prop_assert!(shuffled.apart.len() < MOST_INTERVALS);
            }
            let exact = bitmap.iter().filter(|&&ran| ran).count() as u64;
            prop_assert!(shuffled.sum() <= exact);
            intervals.sort_unstable();
            let mut sorted = Intervals::default();
            intervals.iter().for_each(|&(start, length)| sorted.add(start, start + length));
            prop_assert_eq!(sorted.sum(), exact);
        }
    }

    #[test]
    fn devices_run_side_by_side() {
        let mut busy = Busy::default();
        busy.add(0, 10, 20);
        busy.add(1, 15, 25);
        busy.add(0, 15, 30);
        assert_eq!(busy.sum(), 20 + 10);
        for device in 2..1_000 {
            busy.add(device, 10, u64::MAX);
        }
        assert_eq!((busy.0.len(), busy.sum()), (MOST_DEVICES as usize, u64::MAX), "bounded, and no overflow");
    }
}
