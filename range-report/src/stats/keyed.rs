//! Rows by their keys.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::Index;
use std::{iter, vec};

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::order;

/// Rows by key, iterated in order of keys. The compiler makes little for one more type of key or of row: one table for
/// all types finds a row by the hash of its key. A `HashMap` costs a tenth of a second of each build for every type of
/// key, and a `BTreeMap` a quarter of a second.
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
    keys: Keys<K, S>,
    rows: Vec<V>,
}

/// Rows by keys that others may choose.
pub type Named<K, V> = Keyed<K, V, RandomState>;

impl<K, V, S: Default> Default for Keyed<K, V, S> {
    fn default() -> Self {
        let hasher = S::default(); // first: nothing is to be dropped yet if it panics
        Self { keys: Keys { places: Places::default(), all: Vec::new(), hasher }, rows: Vec::new() }
    }
}

impl<K: Eq + Hash, V, S: BuildHasher + Default> Keyed<K, V, S> {
    /// The row of this key; `new` makes it if there is none.
    pub fn row_or(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        let place = self.keys.add(key);
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

    /// Sets the row of this key. Returns whether the key is new.
    pub fn insert(&mut self, key: K, row: V) -> bool {
        let place = self.keys.add(key);
        let is_new = place == self.rows.len();
        match self.rows.get_mut(place) {
            Some(old) => *old = row,
            None => self.rows.push(row),
        }
        is_new
    }

    /// The row of this key, if there is one.
    #[must_use]
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.rows.get(self.keys.place(key).ok()?)
    }

    /// The same, to change it.
    pub fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.rows.get_mut(self.keys.place(key).ok()?)
    }

    /// Whether there is a row with this key.
    #[must_use]
    pub fn contains_key<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.keys.place(key).is_ok()
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
        *self = Self::default();
    }

    /// The rows, in the order in which they were made.
    #[must_use]
    pub fn rows(&self) -> &[V] {
        &self.rows
    }

    /// The same, to change them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.rows.iter_mut()
    }
}

impl<K: Ord, V, S> Keyed<K, V, S> {
    /// The rows and their keys, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        order_of(&self.keys.all).into_iter().map(|place| (&self.keys.all[place], &self.rows[place]))
    }

    /// The keys, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        order_of(&self.keys.all).into_iter().map(|place| &self.keys.all[place])
    }

    /// The rows, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        order_of(&self.keys.all).into_iter().map(|place| &self.rows[place])
    }
}

impl<K: Ord, V, S> IntoIterator for Keyed<K, V, S> {
    type Item = (K, V);
    type IntoIter = iter::Zip<vec::IntoIter<K>, vec::IntoIter<V>>;

    /// In the order of the keys.
    fn into_iter(self) -> Self::IntoIter {
        let (mut keys, mut rows) = (self.keys.all, self.rows);
        let places = order_of(&keys);
        order::arrange(&mut keys, places.clone());
        order::arrange(&mut rows, places);
        keys.into_iter().zip(rows)
    }
}

impl<K: Eq + Hash, V, S: BuildHasher + Default> Index<&K> for Keyed<K, V, S> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        &self.rows[self.keys.place(key).unwrap_or(usize::MAX)]
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S> fmt::Debug for Keyed<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.keys.all.iter().zip(&self.rows)).finish()
    }
}

impl<K: Ord, V: PartialEq, S> PartialEq for Keyed<K, V, S> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<K: Eq + Hash, V, S: BuildHasher + Default> FromIterator<(K, V)> for Keyed<K, V, S> {
    /// Of several rows with one key, the first stays.
    fn from_iter<T: IntoIterator<Item = (K, V)>>(rows: T) -> Self {
        let mut all = Self::default();
        for (key, row) in rows {
            all.row_or(key, || row);
        }
        all
    }
}

/// The keys, in the order in which they came, and where each is.
#[derive(Clone)]
struct Keys<K, S> {
    places: Places,
    all: Vec<K>,
    hasher: S,
}

// Compiled once for each type of key: not inlined into the code for each type of row.
impl<K: Eq + Hash, S: BuildHasher> Keys<K, S> {
    /// The place of a key, which is added if it is new.
    #[inline(never)]
    fn add(&mut self, key: K) -> usize {
        self.place(&key).unwrap_or_else(|hash| {
            let place = self.all.len();
            self.places.insert(hash, place);
            self.all.push(key);
            place
        })
    }

    /// The place of a key, or else the number under which its place would stand: the first free one from its hash on.
    #[inline(never)]
    fn place<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Result<usize, u64>
    where
        K: Borrow<Q>,
    {
        let mut hash = self.hasher.hash_one(key);
        while let Some(place) = self.places.get(hash) {
            if self.all[place].borrow() == key {
                return Ok(place);
            }
            hash = hash.wrapping_add(1);
        }
        Err(hash)
    }
}

#[inline(never)]
fn order_of<K: Ord>(keys: &[K]) -> Vec<usize> {
    order::order(keys.len(), &|a, b| keys[a].cmp(&keys[b]))
}

/// Places by hash. Compiled once: not inlined into the code for each type of key.
#[derive(Clone, Default)]
struct Places(FxHashMap<u64, usize>);

impl Places {
    #[inline(never)]
    fn get(&self, hash: u64) -> Option<usize> {
        self.0.get(&hash).copied()
    }

    #[inline(never)]
    fn insert(&mut self, hash: u64, place: usize) {
        self.0.insert(hash, place);
    }
}

#[cfg(test)]
mod tests {
    use super::Keyed;
    use proptest::prelude::*;
    use rustc_hash::FxBuildHasher;
    use std::collections::BTreeMap;
    use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

    /// Gives all keys one hash.
    #[derive(Default)]
    struct Colliding;

    impl Hasher for Colliding {
        fn write(&mut self, _: &[u8]) {}

        fn finish(&self) -> u64 {
            u64::MAX - 1
        }
    }

    fn check<S: BuildHasher + Default>(rows: &[(u8, u64)]) -> Result<(), TestCaseError> {
        let (mut ours, mut map) = (Keyed::<_, _, S>::default(), BTreeMap::new());
        for &(key, number) in rows {
            *ours.row(key) += number;
            *map.entry(key).or_insert(0) += number;
        }
        prop_assert!((0..20).all(|key| ours.get(&key) == map.get(&key)));
        prop_assert_eq!(ours.iter().collect::<Vec<_>>(), map.iter().collect::<Vec<_>>());
        prop_assert_eq!(ours.into_iter().collect::<Vec<_>>(), map.into_iter().collect::<Vec<_>>());
        Ok(())
    }

    proptest! {
        #[test]
        fn rows_are_those_of_a_map(rows in prop::collection::vec((0u8..20, 0u64..100), 0..60)) {
            check::<FxBuildHasher>(&rows)?;
            check::<BuildHasherDefault<Colliding>>(&rows)?;
        }
    }
}
