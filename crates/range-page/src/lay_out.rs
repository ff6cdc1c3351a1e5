//! Distributes the items of each track over rows, so that no two on a row overlap.

use super::items::Bar;

/// The largest number of rows of a track. Items beyond are counted.
const MOST_ROWS: u32 = 256;

/// The items in order of tracks, rows and time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Laid {
    pub(super) bars: Vec<Bar>,
    /// For each track, the level of each row and the number of items on it; no row is empty.
    pub(super) rows: Vec<Vec<(u32, u32)>>,
    pub(super) left_out: u64,
}

/// Lays out the items of `tracks` tracks. An item is on the row of its level, or on the next free one below. For a
/// thread's stack that is the level itself; overlapping operations use further rows. Items of tracks of calls stay on
/// one row, in order of their starts: the page distributes them.
pub(super) fn lay_out(mut bars: Vec<Bar>, tracks: usize, is_of_calls: impl Fn(u32) -> bool) -> Laid {
    bars.sort_unstable_by_key(|bar| (bar.track, bar.start, bar.level, std::cmp::Reverse(bar.end), bar.launch));
    let mut free_from: Vec<Option<u64>> = Vec::new();
    let mut current = None;
    for bar in &mut bars {
        if current != Some(bar.track) {
            current = Some(bar.track);
            free_from.clear();
        }
        if is_of_calls(bar.track) {
            continue;
        }
        let mut row = bar.level.min(MOST_ROWS) as usize;
        while free_from.get(row).copied().flatten().is_some_and(|free| free > bar.start) {
            row += 1;
        }
        if row < MOST_ROWS as usize {
            if free_from.len() <= row {
                free_from.resize(row + 1, None);
            }
            free_from[row] = Some(bar.end);
        }
        bar.level = u32::try_from(row).unwrap_or(MOST_ROWS);
    }
    let before = bars.len();
    bars.retain(|bar| bar.level < MOST_ROWS);
    let left_out = (before - bars.len()) as u64;
    bars.sort_by_key(|bar| (bar.track, bar.level)); // stable: by time on each row
    let mut rows = vec![Vec::new(); tracks];
    let same_row = |a: &Bar, b: &Bar| (a.track, a.level) == (b.track, b.level);
    for row in bars.chunk_by(same_row) {
        let Some(first) = row.first() else { continue };
        if let Some(track) = rows.get_mut(first.track as usize) {
            track.push((first.level, u32::try_from(row.len()).unwrap_or(u32::MAX)));
        }
    }
    Laid { bars, rows, left_out }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bar(track: u32, level: u32, start: u64, end: u64) -> Bar {
        Bar { track, level, start, end, ..Bar::default() }
    }

    #[test]
    fn a_stack_keeps_its_levels() {
        let bars = vec![bar(1, 1, 2, 4), bar(1, 1, 4, 4), bar(1, 2, 4, 4), bar(1, 0, 0, 9), bar(0, 3, 1, 2)];
        let laid = lay_out(bars, 3, |_| false);
        assert_eq!(laid.rows, [vec![(3, 1)], vec![(0, 1), (1, 2), (2, 1)], vec![]]);
        let starts: Vec<(u32, u64)> = laid.bars.iter().map(|bar| (bar.level, bar.start)).collect();
        assert_eq!(starts, [(3, 1), (0, 0), (1, 2), (1, 4), (2, 4)]);
    }

    #[test]
    fn what_overlaps_moves_down() {
        let laid =
            lay_out(vec![bar(0, 0, 0, 10), bar(0, 0, 5, 15), bar(0, 0, 10, 12), bar(0, 0, 11, 13)], 1, |_| false);
        assert_eq!(laid.rows, [vec![(0, 2), (1, 1), (2, 1)]]);
    }

    #[test]
    fn calls_stay_on_one_row() {
        let calls = (0..1_000).rev().map(|start| bar(1, 0, start, 5_000));
        let laid = lay_out(calls.chain([bar(0, 0, 0, 9), bar(0, 0, 1, 9)]).collect(), 2, |track| track == 1);
        assert_eq!((laid.rows, laid.left_out), (vec![vec![(0, 1), (1, 1)], vec![(0, 1_000)]], 0));
        assert!(laid.bars[2..].is_sorted_by_key(|bar| bar.start));
    }

    #[test]
    fn rows_are_bounded() {
        let laid = lay_out((0..1_000).map(|start| bar(0, 0, start, 5_000)).collect(), 1, |_| false);
        assert_eq!((laid.bars.len(), laid.left_out), (256, 744));
        let deep = lay_out(vec![bar(0, u32::MAX, 0, 1)], 1, |_| false);
        assert_eq!(deep.left_out, 1);
    }

    proptest! {
        #[test]
        fn nothing_overlaps_and_nothing_is_lost(
            items in prop::collection::vec((0_u32..3, 0_u32..4, 0_u64..50, 0_u64..20), 0..60),
        ) {
            let count = items.len();
            let bars = items.into_iter();
            let bars = bars.map(|(track, level, start, length)| bar(track, level, start, start + length)).collect();
            let laid = lay_out(bars, 3, |_| false);
            prop_assert_eq!(laid.bars.len(), count);
            let mut rest = laid.bars.as_slice();
            for (_, length) in laid.rows.iter().flatten() {
                let (row, after) = rest.split_at(*length as usize);
                rest = after;
                prop_assert!(row.windows(2).all(|pair| pair[0].end <= pair[1].start), "{:?}", row);
            }
            prop_assert!(rest.is_empty());
        }
    }
}
