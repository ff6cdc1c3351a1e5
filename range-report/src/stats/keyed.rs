//! Rows by their keys.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::Index;
use std::{iter, vec};

use rustc_hash::FxBuildHasher;

use super::order;

/// Rows by key, iterated in order of keys. The compiler makes one map for each type of key, and little for one more
/// type of row; a `BTreeMap` costs a quarter of a second of each build for every type of row.
///
/// ```
/// use range_report::stats::Keyed;
///
/// let mut sums: Keyed<u32, u64> = Keyed::default();
/// for (key, number) in [(7, 1), (3, 2), (7, 4)] {
///     *sums.row(key) += number;
/// }
/// assert_eq!(sums.iter().collect::<Vec<_>>(), [(&3, &2), (&7, &5)]);
/// ```
///
/// The hash is fast but not safe against chosen keys. For keys from outside, such as names, use [`Named`].
#[derive(Clone)]
pub struct Keyed<K, V, S = FxBuildHasher> {
    places: HashMap<K, usize, S>,
    rows: Vec<V>,
}

/// Rows by keys that others may choose.
pub type Named<K, V> = Keyed<K, V, RandomState>;

impl<K, V, S: Default> Default for Keyed<K, V, S> {
    fn default() -> Self {
        Self { places: HashMap::default(), rows: Vec::new() }
    }
}

impl<K: Ord + Hash, V, S: BuildHasher + Default> Keyed<K, V, S> {
    /// The row of this key; `new` makes it if there is none.
    pub fn row_or(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        let place = place(&mut self.places, key, self.rows.len());
        if place == self.rows.len() {
            self.rows.push(new());
        }
        &mut self.rows[place]
    }

    /// The row of this key; a default one if there is none.
    pub fn row(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.row_or(key, V::default)
    }

    /// The row of this key, if there is one.
    #[must_use]
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.rows.get(found(&self.places, key)?)
    }

    /// The same, to change it.
    pub fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.rows.get_mut(found(&self.places, key)?)
    }

    /// Whether there is a row with this key.
    #[must_use]
    pub fn contains_key<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        found(&self.places, key).is_some()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.places.clear();
        self.rows.clear();
    }

    /// The rows and their keys, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        in_order(&self.places).into_iter().map(|(key, place)| (key, &self.rows[place]))
    }

    /// The keys, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        in_order(&self.places).into_iter().map(|(key, _)| key)
    }

    /// The rows, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, row)| row)
    }

    /// The rows, in the order in which they were made.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.rows.iter_mut()
    }
}

impl<K: Ord + Hash, V, S> IntoIterator for Keyed<K, V, S> {
    type Item = (K, V);
    type IntoIter = iter::Zip<vec::IntoIter<K>, vec::IntoIter<V>>;

    /// In the order of the keys.
    fn into_iter(self) -> Self::IntoIter {
        let (keys, places) = into_order(self.places);
        let mut rows = self.rows;
        order::arrange(&mut rows, places);
        keys.into_iter().zip(rows)
    }
}

impl<K: Ord + Hash, V, S: BuildHasher> Index<&K> for Keyed<K, V, S> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        &self.rows[self.places[key]]
    }
}

impl<K: Ord + Hash + fmt::Debug, V: fmt::Debug, S: BuildHasher + Default> fmt::Debug for Keyed<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord + Hash, V: PartialEq, S: BuildHasher + Default> PartialEq for Keyed<K, V, S> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<K: Ord + Hash, V, S: BuildHasher + Default> FromIterator<(K, V)> for Keyed<K, V, S> {
    /// Of several rows with one key, the first stays.
    fn from_iter<T: IntoIterator<Item = (K, V)>>(rows: T) -> Self {
        let mut all = Self::default();
        for (key, row) in rows {
            all.row_or(key, || row);
        }
        all
    }
}

// Compiled once for each type of key: not inlined into the code for each type of row.

#[inline(never)]
fn place<K: Eq + Hash, S: BuildHasher>(places: &mut HashMap<K, usize, S>, key: K, next: usize) -> usize {
    *places.entry(key).or_insert(next)
}

#[inline(never)]
fn found<K, Q, S>(places: &HashMap<K, usize, S>, key: &Q) -> Option<usize>
where
    K: Borrow<Q> + Eq + Hash,
    Q: Eq + Hash + ?Sized,
    S: BuildHasher,
{
    places.get(key).copied()
}

#[inline(never)]
fn in_order<K: Ord, S>(places: &HashMap<K, usize, S>) -> Vec<(&K, usize)> {
    let mut rows: Vec<(&K, usize)> = places.iter().map(|(key, place)| (key, *place)).collect();
    order::by(&mut rows, |(a, _), (b, _)| a.cmp(b));
    rows
}

#[inline(never)]
fn into_order<K: Ord, S>(places: HashMap<K, usize, S>) -> (Vec<K>, Vec<usize>) {
    let mut rows: Vec<(K, usize)> = places.into_iter().collect();
    order::by(&mut rows, |(a, _), (b, _)| a.cmp(b));
    rows.into_iter().unzip()
}

#[cfg(test)]
mod tests {
    use super::Keyed;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn rows_are_those_of_a_map(rows in prop::collection::vec((0u8..20, 0u64..100), 0..60)) {
            let (mut ours, mut map) = (Keyed::<_, _>::default(), BTreeMap::new());
            for (key, number) in rows {
                *ours.row(key) += number;
                *map.entry(key).or_insert(0) += number;
            }
            prop_assert!((0..20).all(|key| ours.get(&key) == map.get(&key)));
            prop_assert_eq!(ours.iter().collect::<Vec<_>>(), map.iter().collect::<Vec<_>>());
            prop_assert_eq!(ours.into_iter().collect::<Vec<_>>(), map.into_iter().collect::<Vec<_>>());
        }
    }
}
