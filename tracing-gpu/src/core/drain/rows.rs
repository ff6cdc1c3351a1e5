//! Copies of the rows of all threads.

use range_model::stats::Lean;

use super::cursor::Reader;
use super::totals::ThreadRows;
use crate::core::record::RangeKey;
use crate::core::session::joined::Joined;
use crate::core::thread::row::RowCopy;
use crate::core::thread::state::ThreadState;

/// The rows of all threads, one thread after the other.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) all: Vec<(RangeKey, RowCopy)>,
    /// The end of each thread's rows.
    ends: Vec<usize>,
}

impl Rows {
    pub(crate) fn copy(&mut self, thread: &'static ThreadState, reader: &mut Reader<'_>) {
        reader.rows(thread, &mut self.all);
        self.end_thread();
    }

    /// The next rows are those of another thread.
    pub(crate) fn end_thread(&mut self) {
        self.ends.push(self.all.len());
    }

    pub(crate) fn join(&mut self, joined: &Joined) {
        for (key, row) in &mut self.all {
            (key.label, row.node) = (joined.label(key.label), joined.node(row.node));
        }
    }

    pub(crate) fn fold(&mut self, to: &dyn Fn(&mut u32)) {
        self.all.iter_mut().for_each(|(_, row)| to(&mut row.node));
    }

    pub(crate) fn by_thread(&self) -> Vec<ThreadRows<'_>> {
        by_thread(&self.all, &self.ends)
    }
}

#[inline(never)]
pub(crate) fn by_thread<'a, R>(rows: &'a [R], ends: &[usize]) -> Vec<&'a [R]> {
    let mut start = 0;
    let threads = ends.iter().map(|&end| rows.get(std::mem::replace(&mut start, end)..end).unwrap_or_default());
    threads.in_vec()
}
