//! Rows that a viewer can draw: two slices of one track are nested or apart. A slice that would cross another goes to a
//! further track, called a lane.

use std::collections::VecDeque;

use super::draw::Track;

/// The number of outermost slices that a lane remembers.
const REMEMBERED: usize = 4096;
/// The largest number of lanes of a row, more than any GPU runs kernels at once on one stream. Beyond it, slices cross.
const LANES: usize = 256;

/// The lanes of one row of the timeline.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    nested: bool,
}

#[derive(Debug)]
struct Lane {
    track: Track,
    /// The outermost slices in order of time. They do not overlap.
    taken: VecDeque<(u64, u64)>,
    /// End of the last slice that was forgotten.
    forgotten: u64,
}

impl Lanes {
    /// `nested` is whether a slice may be drawn within another.
    pub(super) fn new(nested: bool) -> Self {
        Self { lanes: Vec::new(), nested }
    }

    /// The same with a first lane.
    pub(super) fn beginning_with(first: Track, nested: bool) -> Self {
        Self { lanes: vec![Lane::new(first)], nested }
    }

    /// The track for a slice. If that is a new one, which `new` makes for its number, also this number, from 1.
    pub(super) fn place(&mut self, start: u64, end: u64, new: impl FnOnce(usize) -> Track) -> (Track, Option<usize>) {
        let full = self.lanes.len() >= LANES;
        let lane = self.lanes.iter_mut().find_map(|lane| lane.takes(start, end, self.nested).then_some(lane.track));
        if let Some(track) = lane.or_else(|| self.lanes.last().filter(|_| full).map(|lane| lane.track)) {
            return (track, None);
        }
        let number = self.lanes.len() + 1;
        let mut lane = Lane::new(new(number));
        lane.takes(start, end, self.nested);
        let track = lane.track;
        self.lanes.push(lane);
        (track, Some(number))
    }
}

impl Lane {
    fn new(track: Track) -> Self {
        Self { track, taken: VecDeque::new(), forgotten: 0 }
    }

    /// Takes the slice unless it would cross another. Slices inside a slice are not remembered: they arrive before the
    /// slice that contains them.
    fn takes(&mut self, start: u64, end: u64, nested: bool) -> bool {
        if self.taken.back().is_none_or(|last| last.1 <= start) && self.forgotten <= start {
            self.insert(self.taken.len(), start, end);
            return true;
        }
        if !nested && start < self.forgotten {
            return false;
        }
        let from = self.taken.partition_point(|slice| slice.1 <= start);
        let to = self.taken.partition_point(|slice| slice.0 < end);
        if from >= to {
            self.insert(from, start, end);
            return true;
        }
        let (Some(first), Some(last), true) = (self.taken.get(from), self.taken.get(to - 1), nested) else {
            return false;
        };
        if start <= first.0 && last.1 <= end {
            self.taken.drain(from..to);
            self.insert(from, start, end);
            return true;
        }
        to - from == 1 && first.0 <= start && end <= first.1
    }

    fn insert(&mut self, place: usize, start: u64, end: u64) {
        if place == self.taken.len() {
            self.taken.push_back((start, end));
        } else {
            self.taken.insert(place, (start, end));
        }
        if self.taken.len() > REMEMBERED {
            self.forgotten = self.taken.pop_front().map_or(0, |slice| slice.1).max(self.forgotten);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lane of each slice.
    fn placed(slices: &[(u64, u64)], nested: bool) -> Vec<u32> {
        let mut lanes = Lanes::new(nested);
        let mut place = |&(start, end): &(u64, u64)| {
            let (track, new) = lanes.place(start, end, |number| Track { pid: 1, tid: number as u32 });
            assert!(new.is_none_or(|number| number as u32 == track.tid));
            track.tid
        };
        slices.iter().map(&mut place).collect()
    }

    fn crosses(one: (u64, u64), other: (u64, u64), nested: bool) -> bool {
        let apart = one.1 <= other.0 || other.1 <= one.0;
        let within = |inner: (u64, u64), outer: (u64, u64)| outer.0 <= inner.0 && inner.1 <= outer.1;
        !(apart || nested && (within(one, other) || within(other, one)))
    }

    #[test]
    fn what_crosses_goes_aside() {
        assert_eq!(placed(&[(1, 2), (2, 4), (0, 5), (6, 9), (8, 10), (5, 9)], true), [1, 1, 1, 1, 2, 1]);
        assert_eq!(placed(&[(1, 5), (2, 3), (5, 6), (4, 7), (3, 4), (0, 1)], false), [1, 2, 1, 2, 2, 1]);
        assert_eq!(placed(&[(5, 5), (5, 5), (5, 6), (4, 9)], true), [1, 1, 1, 1]);
    }

    #[test]
    fn a_parent_of_more_than_is_remembered_stays_above_its_children() {
        let children: Vec<(u64, u64)> = (0..10_000).map(|at| (10 * at + 1, 10 * at + 9)).collect();
        let mut slices = children.clone();
        slices.push((0, 100_001));
        assert!(placed(&slices, true).iter().all(|&lane| lane == 1));
        // Kernels, one of them very late.
        let mut kernels = children;
        kernels.push((19, 20));
        assert_eq!(placed(&kernels, false).last(), Some(&2));
    }

    proptest! {
        #[test]
        fn no_two_of_a_lane_cross_in_order_of_their_ends(
            mut slices in prop::collection::vec((0u64..60, 0u64..20), 0..60),
        ) {
            for slice in &mut slices {
                slice.1 += slice.0;
            }
            slices.sort_by_key(|slice| (slice.1, std::cmp::Reverse(slice.0)));
            let lanes = placed(&slices, true);
            for (at, one) in slices.iter().enumerate() {
                for (other_at, other) in slices.iter().enumerate().skip(at + 1) {
                    prop_assert!(lanes[at] != lanes[other_at] || !crosses(*one, *other, true), "{one:?} {other:?}");
                }
            }
        }

        #[test]
        fn no_two_operations_of_a_lane_overlap_in_any_order(
            mut slices in prop::collection::vec((0u64..60, 0u64..20), 0..60),
        ) {
            for slice in &mut slices {
                slice.1 += slice.0;
            }
            let lanes = placed(&slices, false);
            for (at, one) in slices.iter().enumerate() {
                for (other_at, other) in slices.iter().enumerate().skip(at + 1) {
                    prop_assert!(lanes[at] != lanes[other_at] || !crosses(*one, *other, false), "{one:?} {other:?}");
                }
            }
        }
    }
}
