//! One sort for rows of all types. The compiler takes as long for the sort of one more type as for a small report.

use std::cmp::Ordering;

/// Sorts rows; equal ones keep their order.
pub(crate) fn by<T>(rows: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
    let order = order(rows.len(), &|a, b| match (rows.get(a), rows.get(b)) {
        (Some(a), Some(b)) => compare(a, b),
        _ => Ordering::Equal,
    });
    let mut places: Vec<Option<T>> = std::mem::take(rows).into_iter().map(Some).collect();
    rows.extend(order.into_iter().filter_map(|place| places.get_mut(place)?.take()));
}

/// The same by a key.
pub(crate) fn by_key<T, K: Ord>(rows: &mut Vec<T>, key: impl Fn(&T) -> K) {
    by(rows, |a, b| key(a).cmp(&key(b)));
}

/// The old places in their new order.
fn order(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| compare(a, b));
    order
}
