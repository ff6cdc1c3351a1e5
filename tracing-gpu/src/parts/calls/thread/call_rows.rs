//! The rows of one thread's calls: one for each node and label.

use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use once_cell::sync::OnceCell;

use crate::core::chunked::Chunked;
use crate::core::record::CallIdentity;
use crate::core::thread::rows::MOST_ROWS;
use crate::parts::calls::thread::call_row::CallRow;

/// Rows of calls. Only the owning thread adds rows; any thread reads them.
#[derive(Debug)]
pub(crate) struct CallRows {
    /// Most threads have none.
    rows: OnceCell<Box<Chunked<OnceCell<&'static CallRow>, 16>>>,
    count: AtomicU32,
}

impl CallRows {
    pub(crate) fn new() -> Self {
        Self { rows: OnceCell::new(), count: AtomicU32::new(0) }
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&'static CallRow> {
        self.rows.get()?.get(row)?.get().copied()
    }

    /// Adds a row, and returns its number; `None` if there is no room. `make` may provide memory for it; otherwise the
    /// heap does.
    pub(crate) fn push(
        &self,
        identity: CallIdentity<'static>,
        make: impl FnOnce() -> Option<&'static CallRow>,
    ) -> Option<u32> {
        let index = Some(self.count.load(Relaxed)).filter(|index| *index < MOST_ROWS)?;
        let slot = self.rows.get_or_init(|| Box::new(Chunked::new())).get_or_grow(index as usize)?;
        let row: &'static CallRow = make().unwrap_or_else(|| Box::leak(Box::default()));
        row.identify(identity);
        let _is_fresh = slot.set(row);
        self.count.store(index + 1, Release); // pairs with `iter`
        Some(index)
    }

    /// All rows. On any thread.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static CallRow> {
        (0..self.count.load(Acquire) as usize).filter_map(|index| self.get(index))
    }
}
