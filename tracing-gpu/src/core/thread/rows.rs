//! The rows of one thread: one for each node and range.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use super::row::{Row, RowIdentity, SHORT};
use crate::core::budget::Budget;
use crate::core::chunked::Chunked;
use crate::core::record::{Ended, Place};

/// The largest number of rows of a thread, each of at least 512 bytes: twice the number of nodes, for nodes with
/// several categories.
pub(crate) const MOST_ROWS: u32 = 1 << 17;

/// The number of rows for which a state has room from the start.
pub(crate) const FIRST_ROWS: usize = 64;

/// Only the owning thread adds and writes rows; any thread reads them.
#[derive(Debug)]
#[repr(C, align(4096))] // see `row::WRITTEN` for the place of the rows; the first ones may be pages of a file
pub(crate) struct Rows {
    pub(crate) rows: Chunked<Row, FIRST_ROWS>,
    pub(crate) count: AtomicU32,
}

impl Rows {
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self { rows: Chunked::new(), count: AtomicU32::new(0) }
    }

    /// A row among the first 64.
    #[inline]
    pub(crate) fn near(&self, row: usize) -> Option<&Row> {
        self.rows.near(row)
    }

    /// [`get`](Self::get) without a call.
    #[inline]
    pub(crate) fn get_inline(&self, row: usize) -> Option<&Row> {
        self.rows.get_inline(row)
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&Row> {
        self.rows.get(row)
    }

    /// The constant part of this place's row.
    #[inline]
    pub(crate) fn identity(&self, place: Place) -> Option<&RowIdentity> {
        self.rows.get(place.row()).and_then(Row::identity)
    }

    /// Counts an ended instance.
    #[inline]
    pub(crate) fn add(&self, ended: Ended, budget: &Budget) {
        let Some(row) = self.rows.get(ended.place.row()) else { return };
        row.note_longest(ended.entered, ended.duration);
        if row.add_near(ended.duration, ended.nested, SHORT) {
            return;
        }
        if row.is_unused() {
            row.enter_first(ended.entered);
        }
        row.add(ended.duration, ended.nested, budget);
    }

    /// Adds a row, and returns its number; `None` if there is no room. `make` is as in [`Chunked::get_or_grow_by`].
    pub(crate) fn push(
        &self,
        node: u32,
        identity: impl FnOnce() -> RowIdentity,
        make: impl FnOnce(Range<usize>) -> Option<&'static [Row]>,
    ) -> Option<u32> {
        let index = Some(self.count.load(Relaxed)).filter(|index| *index < MOST_ROWS)?;
        let row = self.rows.get_or_grow_by(index as usize, make)?;
        row.identify(node, identity());
        self.count.store(index + 1, Release); // pairs with `iter`: a reader that counts the row sees its identity
        Some(index)
    }

    /// All rows. On any thread.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Row> {
        (0..self.count.load(Acquire) as usize).filter_map(|index| self.rows.get(index))
    }
}

#[cfg(test)]
mod tests {
    use nvtx_rs::{Attributes, Domain};
    use range_model::RangeStyle;

    use super::*;
    use crate::core::record::RangeKey;
    use crate::core::session::NvtxRange;

    fn identity(label: u32) -> RowIdentity {
        let span = || tracing::info_span!("row").metadata();
        let metadata = tracing::subscriber::with_default(tracing_subscriber::registry(), span);
        let key = RangeKey { label, category: 0, style: RangeStyle::PushPop };
        let nvtx = Some(NvtxRange { domain: Domain::DEFAULT, attributes: Attributes::new() });
        RowIdentity { key, domain: 0, metadata, nvtx }
    }

    #[test]
    fn rows_are_numbered_as_they_come_and_count_what_ends_in_their_place() {
        let (rows, budget) = (Rows::new(), Budget::new(1 << 20));
        let numbers: Vec<_> = (0..70).map(|label| rows.push(label + 1, || identity(label), |_| None)).collect();
        assert!(numbers.iter().copied().eq((0..70).map(Some)));
        for (row, count) in [(3, 2), (68, 40)] {
            let ended = Ended { place: Place::new(row + 1, row), entered: 10, duration: 5, nested: 1 };
            for _ in 0..count {
                rows.add(ended, &budget);
            }
            assert_eq!(rows.identity(ended.place).map(|identity| identity.key.label), Some(row));
        }
        rows.add(Ended { place: Place::stand_in(1), entered: 10, duration: 5, nested: 0 }, &budget);
        let counts: Vec<_> = rows.iter().map(|row| row.copy().times.count).collect();
        assert_eq!((counts.len(), counts[3], counts[68], counts.iter().sum::<u64>()), (70, 2, 40, 42));
        assert_eq!(rows.near(3).map(|row| row.copy().first), Some(10));
        rows.count.store(MOST_ROWS, Relaxed);
        assert_eq!(rows.push(1, || identity(1), |_| None), None, "their memory is bounded");
    }
}
