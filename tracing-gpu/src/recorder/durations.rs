//! The durations of ranges as a database has them: between two moments, each a whole nanosecond.
//!
//! A row of the table is in ticks, of which one conversion makes nanoseconds. Each is right to a nanosecond or two; but what `nsys stats` prints of the database is compared
//! with the table digit by digit, so the table of the end takes over the sums of the database.

use crate::stats::Distribution;
use crate::summary::RangeStyle;

/// Durations of one range that are kept one by one, as long as there is room.
const KEPT: u64 = 1 << 16;

/// By the number of the label and the style, so far.
#[derive(Debug)]
pub(crate) struct Durations {
    rows: Vec<[Distribution; 2]>,
    /// Durations of all ranges that may still be kept one by one.
    room: usize,
}

impl Durations {
    /// Keeps as many durations as go into so many bytes; of the others there are the sums, and a median that is near.
    pub(super) fn new(bytes: usize) -> Self {
        Self { rows: Vec::new(), room: bytes / size_of::<u64>() }
    }

    pub(super) fn add(&mut self, label: u32, style: RangeStyle, ns: u64) {
        let label = label as usize;
        if self.rows.len() <= label {
            self.rows.resize_with(label + 1, Default::default);
        }
        let (room, place) = (&mut self.room, usize::from(style == RangeStyle::StartEnd));
        if let Some(row) = self.rows.get_mut(label).and_then(|row| row.get_mut(place)) {
            row.add(ns, |kept| {
                let keeps = kept < KEPT && *room > 0;
                *room -= usize::from(keeps);
                keeps
            });
        }
    }

    /// Those of each label and style that has some.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, RangeStyle, &Distribution)> {
        let rows = self.rows.iter().zip(0..).flat_map(|([push_pop, start_end], label)| {
            [(label, RangeStyle::PushPop, push_pop), (label, RangeStyle::StartEnd, start_end)]
        });
        rows.filter(|(.., row)| row.count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_label_and_style_has_its_own() {
        let mut durations = Durations::new(1 << 10);
        for (label, style, ns) in [
            (7, RangeStyle::PushPop, 5),
            (0, RangeStyle::StartEnd, 6),
            (7, RangeStyle::StartEnd, 7),
            (7, RangeStyle::PushPop, 9),
        ] {
            durations.add(label, style, ns);
        }
        let all: Vec<_> = durations.iter().map(|(label, style, row)| (label, style, row.samples.clone())).collect();
        let expected = [
            (0, RangeStyle::StartEnd, vec![6]),
            (7, RangeStyle::PushPop, vec![5, 9]),
            (7, RangeStyle::StartEnd, vec![7]),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn beyond_the_room_sums_stay_right_and_medians_near() {
        let mut durations = Durations::new(10 * size_of::<u64>());
        (0..8).for_each(|ns| durations.add(0, RangeStyle::PushPop, ns));
        (1_000..2_000).for_each(|ns| durations.add(1, RangeStyle::PushPop, ns));
        let all: Vec<_> = durations.iter().map(|(.., row)| (row.samples.len(), row.count, row.total)).collect();
        assert_eq!(all, [(8, 8, 28), (2, 1_000, 1_499_500)]);
        let exact: Vec<_> = durations.iter().map(|(.., row)| row.median().map(|median| median.exact)).collect();
        assert_eq!(exact, [Some(true), Some(false)]);
    }
}
