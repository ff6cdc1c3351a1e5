//! The durations of ranges as a database has them: between two moments, each a whole nanosecond.
//!
//! A row of the table is in ticks, of which one conversion makes nanoseconds. Each is right to a nanosecond or two; but what `nsys stats` prints of the database is compared
//! with the table digit by digit, so the tables of the end take over the sums of the database.

use rustc_hash::FxHashMap;

use crate::record::RangeKey;
use crate::stats::Distribution;

/// Durations of one row that are kept one by one, as long as there is room.
const KEPT: u64 = 1 << 16;

/// By name, category and style, so far.
#[derive(Debug)]
pub(crate) struct Durations {
    rows: FxHashMap<RangeKey, Distribution>,
    /// Durations of all ranges that may still be kept one by one.
    room: usize,
}

impl Durations {
    /// Keeps as many durations as go into so many bytes; of the others there are the sums, and a median that is near.
    pub(super) fn new(bytes: usize) -> Self {
        Self { rows: FxHashMap::default(), room: bytes / size_of::<u64>() }
    }

    pub(super) fn add(&mut self, key: RangeKey, ns: u64) {
        let room = &mut self.room;
        self.rows.entry(key).or_default().add(ns, |kept| {
            let keeps = kept < KEPT && *room > 0;
            *room -= usize::from(keeps);
            keeps
        });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RangeKey, &Distribution)> {
        self.rows.iter().map(|(key, row)| (*key, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::RangeStyle;

    fn key(label: u32, category: u32, style: RangeStyle) -> RangeKey {
        RangeKey { label, category, style }
    }

    #[test]
    fn each_name_category_and_style_has_its_own() {
        let mut durations = Durations::new(1 << 10);
        for (label, category, style, ns) in [
            (7, 0, RangeStyle::PushPop, 5),
            (0, 0, RangeStyle::StartEnd, 6),
            (7, 0, RangeStyle::StartEnd, 7),
            (7, 1, RangeStyle::PushPop, 8),
            (7, 0, RangeStyle::PushPop, 9),
        ] {
            durations.add(key(label, category, style), ns);
        }
        let mut all: Vec<_> = durations.iter().map(|(key, row)| (row.samples.clone(), key)).collect();
        all.sort_unstable_by_key(|(samples, _)| samples.clone());
        let expected = [
            (vec![5, 9], key(7, 0, RangeStyle::PushPop)),
            (vec![6], key(0, 0, RangeStyle::StartEnd)),
            (vec![7], key(7, 0, RangeStyle::StartEnd)),
            (vec![8], key(7, 1, RangeStyle::PushPop)),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn beyond_the_room_sums_stay_right_and_medians_near() {
        let mut durations = Durations::new(10 * size_of::<u64>());
        let [few, many] = [0, 1].map(|label| key(label, 0, RangeStyle::PushPop));
        (0..8).for_each(|ns| durations.add(few, ns));
        (1_000..2_000).for_each(|ns| durations.add(many, ns));
        let mut all: Vec<_> = durations.iter().map(|(key, row)| (key.label, row)).collect();
        all.sort_unstable_by_key(|(label, _)| *label);
        let sums: Vec<_> = all.iter().map(|(_, row)| (row.samples.len(), row.count, row.total)).collect();
        assert_eq!(sums, [(8, 8, 28), (2, 1_000, 1_499_500)]);
        let exact: Vec<_> = all.iter().map(|(_, row)| row.median().map(|median| median.exact)).collect();
        assert_eq!(exact, [Some(true), Some(false)]);
    }
}
