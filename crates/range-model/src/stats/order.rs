//! One sort for rows of all types: compiling the sort for one more type takes as long as compiling a small report.

use std::cmp::{Ordering, Reverse};

/// Sorts rows; equal ones keep their order.
pub fn by<T>(rows: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    sort(rows.len(), &mut Unsorted { rows, compare });
}

/// The same by a key.
pub fn by_key<T, K: Ord>(rows: &mut [T], key: impl Fn(&T) -> K) {
    by(rows, |a, b| key(a).cmp(&key(b)));
}

/// The same by a number, the largest first.
pub fn by_most<T>(rows: &mut [T], number: impl Fn(&T) -> u64) {
    by_key(rows, |row| Reverse(number(row)));
}

/// Sorts numbers and removes duplicates.
pub fn numbers(numbers: &mut Vec<f64>) {
    by(numbers, f64::total_cmp);
    numbers.dedup();
}

/// Compares two rows. A trait of its own, because the compiler makes each closure that is called as `dyn Fn` twice.
pub(super) trait Compare {
    fn compare(&self, a: usize, b: usize) -> Ordering;
}

/// Exchanges two rows.
pub(super) trait Swap {
    fn swap(&mut self, a: usize, b: usize);
}

trait Sort: Compare + Swap {}

struct Unsorted<'a, T, F> {
    rows: &'a mut [T],
    compare: F,
}

impl<T, F: Fn(&T, &T) -> Ordering> Compare for Unsorted<'_, T, F> {
    fn compare(&self, a: usize, b: usize) -> Ordering {
        (self.compare)(&self.rows[a], &self.rows[b])
    }
}

impl<T, F> Swap for Unsorted<'_, T, F> {
    fn swap(&mut self, a: usize, b: usize) {
        self.rows.swap(a, b);
    }
}

impl<T, F: Fn(&T, &T) -> Ordering> Sort for Unsorted<'_, T, F> {}

#[inline(never)]
fn sort(count: usize, rows: &mut dyn Sort) {
    arrange(order(count, rows), rows);
}

/// The indices of rows in sorted order.
#[inline(never)]
pub(super) fn order(count: usize, rows: &dyn Compare) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| rows.compare(a, b));
    order
}

/// Moves the row at `from[i]` to each place `i`, by exchanges.
#[inline(never)]
pub(super) fn arrange(mut from: Vec<usize>, rows: &mut dyn Swap) {
    for start in 0..from.len() {
        let mut at = start;
        while let Some(old) = from.get_mut(at).map(|old| std::mem::replace(old, at)).filter(|&old| old != start) {
            rows.swap(at, old);
            at = old;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_are_sorted_as_by_the_standard_library(rows in prop::collection::vec((0u8..9, any::<u16>()), 0..60)) {
            let (mut ours, mut theirs) = (rows.clone(), rows);
            super::by_key(&mut ours, |&(key, _)| key);
            theirs.sort_by_key(|&(key, _)| key);
            prop_assert_eq!(ours, theirs);
        }
    }
}
