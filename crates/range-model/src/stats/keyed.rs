//! Rows by their keys.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::Index;
use std::{iter, vec};

use rustc_hash::FxBuildHasher;

use super::order;

/// Rows by key, iterated in order of keys. The compiler makes little for one more type of key or of row: one table for
/// all types finds a row by the hash of its key. A `HashMap` costs a tenth of a second of each build for every type of
/// key, and a `BTreeMap` a quarter of a second.
///
/// ```
/// use range_model::stats::Keyed;
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
        let place = match self.keys.place(&key) {
            Ok(place) => place,
            Err(_) => {
                self.rows.push(new()); // before its key: it may panic
                self.keys.add(key)
            }
        };
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

    /// Removes the row of this key, and returns it. The last row takes its place.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let place = self.keys.place(key).ok()?;
        self.keys.remove(place);
        Some(self.rows.swap_remove(place))
    }

    /// Removes the rows for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let mut place = 0;
        while let Some(row) = self.rows.get_mut(place) {
            if keep(&self.keys.all[place], row) {
                place += 1;
            } else {
                self.keys.remove(place);
                self.rows.swap_remove(place);
            }
        }
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

    /// The rows, in the order in which they were made if none has been removed.
    #[must_use]
    pub fn rows(&self) -> &[V] {
        &self.rows
    }

    /// The keys and rows, in no order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.keys.all.iter().zip(&mut self.rows)
    }

    /// The rows, in no order.
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
        let mut unsorted = Unsorted { keys: self.keys.all, rows: self.rows };
        order::arrange(order_of(&unsorted.keys), &mut unsorted);
        unsorted.keys.into_iter().zip(unsorted.rows)
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

    /// The place of a key, or else its hash.
    #[inline(never)]
    fn place<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Result<usize, u64>
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        let mut slot = hash as usize;
        while let Some(place) = self.places.next(hash, &mut slot) {
            if self.all[place].borrow() == key {
                return Ok(place);
            }
        }
        Err(hash)
    }

    /// Removes the key at a place; the last key takes its place.
    #[inline(never)]
    fn remove(&mut self, place: usize) {
        self.places.remove(self.hasher.hash_one(&self.all[place]), place);
        self.all.swap_remove(place);
        if let Some(moved) = self.all.get(place) {
            self.places.replace(self.hasher.hash_one(moved), self.all.len(), place);
        }
    }
}

struct Unsorted<K, V> {
    keys: Vec<K>,
    rows: Vec<V>,
}

impl<K, V> order::Swap for Unsorted<K, V> {
    fn swap(&mut self, a: usize, b: usize) {
        self.keys.swap(a, b);
        self.rows.swap(a, b);
    }
}

impl<K: Ord> order::Compare for &[K] {
    fn compare(&self, a: usize, b: usize) -> Ordering {
        self[a].cmp(&self[b])
    }
}

#[inline(never)]
fn order_of<K: Ord>(keys: &[K]) -> Vec<usize> {
    order::order(keys.len(), &keys)
}

/// Places by the low half of a hash. Compiled once: not inlined into the code for each type of key.
///
/// A place stands in the slot to which its hash points, or in the next free one. The number of slots is a power of two.
/// A slot has the hash in its upper half, and in its lower half the place plus one; a free slot is zero.
#[derive(Clone, Default)]
struct Places(Vec<u64>);

impl Places {
    fn value(hash: u64, place: usize) -> u64 {
        hash << 32 | (place as u64 + 1)
    }

    fn slot(&mut self, slot: usize) -> &mut u64 {
        let last = self.0.len() - 1;
        &mut self.0[slot & last]
    }

    /// The next place with this hash from a slot on.
    #[inline(never)]
    fn next(&self, hash: u64, slot: &mut usize) -> Option<usize> {
        let last = self.0.len().checked_sub(1)?;
        loop {
            let value = self.0[*slot & last];
            *slot = slot.wrapping_add(1);
            if value == 0 {
                return None;
            }
            if value >> 32 == hash & u64::from(u32::MAX) {
                return Some((value as u32 - 1) as usize);
            }
        }
    }

    /// Adds the next place: `place` others are there.
    #[inline(never)]
    fn insert(&mut self, hash: u64, place: usize) {
        if place >= self.0.len() / 4 * 3 {
            let slots = vec![0; (2 * self.0.len()).max(8)];
            let old = std::mem::replace(&mut self.0, slots);
            old.into_iter().filter(|value| *value != 0).for_each(|value| self.put(value));
        }
        self.put(Self::value(hash, place));
    }

    /// Puts a value in the first free slot for its hash.
    fn put(&mut self, value: u64) {
        let slot = self.find((value >> 32) as usize, 0);
        *self.slot(slot) = value;
    }

    /// The slot with this value, from another slot on.
    fn find(&mut self, from: usize, value: u64) -> usize {
        let mut slot = from;
        while *self.slot(slot) != value {
            slot = slot.wrapping_add(1);
        }
        slot
    }

    /// Gives what stands at place `old` another place.
    #[inline(never)]
    fn replace(&mut self, hash: u64, old: usize, new: usize) {
        let slot = self.find(hash as usize, Self::value(hash, old));
        *self.slot(slot) = Self::value(hash, new);
    }

    /// Removes a place. What stands behind it moves up, unless its hash points to a later slot.
    #[inline(never)]
    fn remove(&mut self, hash: u64, place: usize) {
        let last = self.0.len() - 1;
        let mut free = self.find(hash as usize, Self::value(hash, place));
        let mut slot = free;
        loop {
            slot = slot.wrapping_add(1);
            let value = *self.slot(slot);
            if value == 0 {
                break;
            }
            let from_home = slot.wrapping_sub((value >> 32) as usize) & last;
            if from_home >= slot.wrapping_sub(free) & last {
                *self.slot(free) = value;
                free = slot;
            }
        }
        *self.slot(free) = 0;
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
            if number % 3 == 0 {
                prop_assert_eq!(ours.remove(&key), map.remove(&key));
            } else {
                *ours.row(key) += number;
                *map.entry(key).or_insert(0) += number;
            }
        }
        if let Some(&(least, _)) = rows.first() {
            ours.retain(|key, number| *key >= least || *number % 2 == 0);
            map.retain(|key, number| *key >= least || *number % 2 == 0);
        }
        prop_assert_eq!(ours.len(), map.len());
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
